"""The interpreter of a script, and a virtual environment for its requirements."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.containers.training.process import run
from headrace.errors import JobFailed
from headrace.io.cache.folder import cache_folder, cache_key
from headrace.io.system import discard_folder, lock

__all__ = ["Installation", "interpreter", "prepare"]

COMPLETE = "complete"
END_OF_OUTPUT = "[end of output]"  # of a command that pip ran
DESCRIBE = "import json, sys, sysconfig; print(json.dumps([sys.version, sys.prefix, sysconfig.get_paths()['purelib'], sysconfig.get_paths()['platlib']]))"


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """The packages to install for a script.

    Args:
        requirements: The file ``requirements.txt``.
        package: A folder with ``setup.py``, to install as a package.
    """

    requirements: Path | None = None
    package: Path | None = None

    @property
    def is_needed(self) -> bool:
        """Whether there are packages to install."""
        return self.requirements is not None or self.package is not None

    def content(self) -> list[object]:
        """The content that identifies the environment."""
        parts: list[object] = [] if self.requirements is None else _referenced_files(self.requirements, set())
        if self.package is not None:
            files = sorted(
                path for path in self.package.rglob("*") if path.is_file() and "__pycache__" not in path.parts
            )
            parts += [(str(path.relative_to(self.package)), path.read_bytes()) for path in files]
        return parts


def _referenced_files(file: Path, seen: set[Path]) -> list[object]:
    """A requirements file and the local files that it refers to: other lists, wheels, archives."""
    content = file.read_bytes()
    parts: list[object] = [content]
    if file.suffix == ".txt":
        for word in content.decode("utf-8", "replace").replace("=", " ").split():
            named = file.parent / word.removeprefix("file:").partition("#")[0]
            if word != "." and named.is_file() and named not in seen:
                seen.add(named)
                parts += _referenced_files(named, seen)
    return parts


def interpreter(python: str | os.PathLike[str] | None) -> str:
    """The path of an interpreter; by default the running one.

    Raises:
        JobFailed: It does not exist.
    """
    if python is None:
        return sys.executable
    found = shutil.which(os.fspath(python))
    if found is None:
        raise JobFailed(f"no interpreter {os.fspath(python)!r} on this machine")
    return str(Path(found).absolute())


def prepare(
    python: str | os.PathLike[str] | None,
    installation: Installation,
    *,
    log: Callable[[str], None],
    stop: threading.Event | None = None,
) -> str:
    """The interpreter for a script, or that of a virtual environment if packages have to be installed.

    Environments are kept in the cache folder, by the content of what is installed. They can import the packages of the base
    interpreter, so only packages that are missing or have another version are installed.

    Raises:
        JobFailed: The interpreter does not exist, or the installation failed; the message is pip's.
    """
    base = interpreter(python)
    if not installation.is_needed:
        return base
    version, prefix, *folders = _describe(base)
    folder = cache_folder("environments") / cache_key(base, version, prefix, *installation.content())
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as held:
        lock(held.fileno(), wait=True)
        if not (folder / COMPLETE).exists():
            _install(base, folder / "venv", folders, installation, log, stop or threading.Event())
            (folder / COMPLETE).touch()
    return str(_python_of(folder / "venv"))


def _describe(python: str) -> list[str]:
    try:
        found = subprocess.run([python, "-c", DESCRIBE], capture_output=True, text=True, check=True, timeout=120)  # noqa: S603
    except (OSError, subprocess.SubprocessError) as error:
        raise JobFailed(f"{python} does not work as a Python interpreter: {error}") from error
    described: list[str] = json.loads(found.stdout)
    return described


def _python_of(venv: Path) -> Path:
    return venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def _install(
    base: str,
    venv: Path,
    folders: list[str],
    installation: Installation,
    log: Callable[[str], None],
    stop: threading.Event,
) -> None:
    discard_folder(venv)
    _run([base, "-m", "venv", "--without-pip", str(venv)], "making a virtual environment", venv.parent, log, stop)
    python = str(_python_of(venv))
    own = Path(_describe(python)[2])
    # The base may itself be in a virtual environment, whose packages --system-site-packages would not include.
    # addsitedir processes .pth files, which editable packages need.
    lines = [f"import site; site.addsitedir({path!r})\n" for path in dict.fromkeys(folders)]
    (own / "headrace_base.pth").write_text("".join(lines), encoding="utf-8")
    if not _has(python, "pip"):
        _run([python, "-m", "ensurepip"], "installing pip", venv.parent, log, stop)
    pip = [python, "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    if installation.requirements is not None:
        where = installation.requirements.parent
        _run([*pip, "-r", installation.requirements.name], "installing requirements.txt", where, log, stop)
    if installation.package is not None:
        _run([*pip, *_isolation(python), "."], "installing the package in setup.py", installation.package, log, stop)


def _isolation(python: str) -> list[str]:
    """Turn off build isolation if setuptools can make wheels, because an isolated build downloads setuptools.

    The setuptools that comes with Python before 3.12 needs the package ``wheel`` for that.
    """
    makes_wheels = any(_has(python, module) for module in ("setuptools.command.bdist_wheel", "setuptools, wheel"))
    return ["--no-build-isolation"] if makes_wheels else []


def _has(python: str, module: str) -> bool:
    found = subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False, timeout=120)  # noqa: S603
    return found.returncode == 0


def _run(command: list[str], act: str, cwd: Path, log: Callable[[str], None], stop: threading.Event) -> None:
    result = run(command, cwd=cwd, environment=os.environ, log=log, stop=stop, grace_s=5)
    if result.was_stopped:
        raise JobFailed(f"stopped while {act}")
    if result.status != 0:
        raise JobFailed(f"{act} failed with exit code {result.status}: {_find_error(result.errors)}")


def _find_error(lines: Sequence[str]) -> str:
    """The line with pip's error, or the last line of the command that it ran."""
    said = [line.strip() for line in lines]
    wrong = [line for line in said if line.startswith("ERROR")]
    if not wrong and END_OF_OUTPUT in said:
        wrong = said[: said.index(END_OF_OUTPUT)][-1:]
    return (wrong or said or ["no output"])[0]
