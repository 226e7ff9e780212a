"""The user's code: where it is, and what belongs to it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from headrace.containers.toolkit import params
from headrace.errors import CorruptFile, DataError, JobFailed
from headrace.io.archive.unpack import unpack_into

__all__ = ["Code", "find_code", "staged"]

DEFAULT_PROGRAM = "inference.py"
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.pyc", ".git", ".ipynb_checkpoints")


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """A folder of code and the file in it that is run or imported.

    Args:
        folder: The folder.
        program: The file's path in it, or a command.
        is_whole: Whether the whole folder belongs to it, or only the file.
    """

    folder: Path
    program: str
    is_whole: bool = True

    @property
    def path(self) -> Path:
        """The file."""
        return self.folder / self.program

    @property
    def module(self) -> str:
        """The name under which the file is imported."""
        return self.program.removesuffix(".py").replace(os.sep, ".").replace("/", ".")

    @property
    def is_package(self) -> bool:
        """Whether there is a ``setup.py``: then it is installed and run as a module."""
        return self.is_whole and (self.folder / "setup.py").is_file()

    @property
    def requirements(self) -> Path | None:
        """``requirements.txt``, where there is one that asks for something."""
        path = self.folder / "requirements.txt"
        if not self.is_whole or not path.is_file():
            return None
        lines = path.read_text(encoding="utf-8").splitlines()
        return path if any(line.strip() and not line.strip().startswith("#") for line in lines) else None


def find_code(
    entry_point: str | os.PathLike[str] | None,
    source_dir: str | os.PathLike[str] | None,
    model_dir: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Code:
    """The code that a container was given, else that beside the model: ``model_dir/code``, as SageMaker keeps it.

    Raises:
        JobFailed: There is none.
    """
    if entry_point is None:
        return _beside(model_dir, environment or {}, source_dir)
    if source_dir is None:
        path = Path(entry_point).expanduser().absolute()
        return _checked(Code(folder=path.parent, program=path.name, is_whole=False))
    return _checked(Code(folder=Path(source_dir).expanduser().absolute(), program=os.fspath(entry_point)))


def _checked(code: Code) -> Code:
    if code.program.endswith(".py") and not code.path.is_file() and not code.is_package:
        archive = code.folder if code.folder.is_file() else None
        if archive is None:
            raise JobFailed(f"there is no file {code.program} in {code.folder}: entry_point is relative to source_dir")
    return code


def _beside(model_dir: Path | None, environment: Mapping[str, str], source_dir: str | os.PathLike[str] | None) -> Code:
    if model_dir is None and source_dir is None:
        raise JobFailed("no entry_point was given")
    folder = Path(source_dir).absolute() if source_dir is not None else Path(model_dir or "") / "code"
    named = environment.get(params.USER_PROGRAM_ENV)
    found = sorted(path.name for path in folder.glob("*.py")) if folder.is_dir() else []
    for program in filter(None, (named, DEFAULT_PROGRAM, found[0] if len(found) == 1 else None)):
        if (folder / program).is_file():
            return Code(folder=folder, program=program)
    wanted = named or DEFAULT_PROGRAM
    raise JobFailed(
        f"no entry_point was given, and there is no {wanted} in {folder} (found: {', '.join(found) or 'nothing'})"
    )


def stage(code: Code, dependencies: Sequence[str | os.PathLike[str]], target: Path) -> Code:
    """Copy code and its dependencies into one folder, which then is what SageMaker has in ``/opt/ml/code``.

    Args:
        code: What to copy. Its folder may be a ``.tar.gz`` of one.
        dependencies: Files and folders that go beside it.
        target: Where to.

    Raises:
        JobFailed: The archive cannot be unpacked, or the program is not in it.
    """
    target.mkdir(parents=True, exist_ok=True)
    if code.folder.is_file():
        try:
            unpack_into(code.folder, target, what="a .tar.gz of the code")
        except DataError as error:
            why = error.found if isinstance(error, CorruptFile) else str(error)
            raise JobFailed(f"source_dir {code.folder} is no folder and no sound .tar.gz of one: {why}") from error
    elif code.is_whole:
        shutil.copytree(code.folder, target, ignore=LEFT_OUT, dirs_exist_ok=True, symlinks=True)
    else:
        shutil.copy2(code.path, target / code.program)
    for dependency in map(Path, dependencies):
        _copy(dependency, target / dependency.absolute().name)
    staged_code = Code(folder=target, program=code.program)
    return _checked(staged_code)


def _copy(path: Path, target: Path) -> None:
    if path.is_dir():
        shutil.copytree(path, target, ignore=LEFT_OUT, dirs_exist_ok=True)
    elif path.is_file():
        shutil.copy2(path, target)
    else:
        raise JobFailed(f"the dependency {path} does not exist")


@contextmanager
def staged(code: Code, dependencies: Sequence[str | os.PathLike[str]]) -> Iterator[Code]:
    """The code where it is, or, where something has to be put together, in a temporary folder."""
    if not dependencies and code.folder.is_dir():
        yield code
        return
    with TemporaryDirectory(prefix="headrace-code-") as folder:
        yield stage(code, dependencies, Path(folder))
