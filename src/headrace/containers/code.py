"""The user's code: where it is, what belongs to it, and how it is imported."""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

from headrace.containers.toolkit import params, shim
from headrace.errors import CorruptFile, DataError, JobFailed
from headrace.io.archive.unpack import unpack_into
from headrace.io.paths import leads_back

__all__ = ["LEFT_OUT", "LOADING", "Code", "find_code", "load_module", "set_variables", "stage_temporarily"]


DEFAULT_PROGRAM = "inference.py"
LEFT_OUT = ("__pycache__", "*.pyc", ".git", ".ipynb_checkpoints")


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """A folder of code and the file in it that is run or imported.

    Args:
        folder: The folder.
        program: The file's path in it, or a command.
        is_whole: Whether the whole folder is part of the code, or only the file.
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
        """The module name of the file."""
        return self.program.removesuffix(".py").replace(os.sep, ".").replace("/", ".")

    @property
    def is_package(self) -> bool:
        """Whether it has a ``setup.py``, so that it is installed and run as a module."""
        return self.is_whole and (self.folder / "setup.py").is_file()

    @property
    def requirements(self) -> Path | None:
        """``requirements.txt``, if it exists and names packages."""
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
    """The code given to a container; by default the code in the model: ``model_dir/code``, as in SageMaker.

    Raises:
        JobFailed: There is no code.
    """
    if entry_point is None:
        return _code_of_model(model_dir, environment or {}, source_dir)
    if not os.fspath(entry_point) or (source_dir is not None and not os.fspath(source_dir)):
        raise JobFailed("entry_point and source_dir are paths, and one of them is an empty text")
    if source_dir is None:
        path = Path(entry_point).expanduser().absolute()
        return _check_program(Code(folder=path.parent, program=path.name, is_whole=False))
    return _check_program(Code(folder=Path(source_dir).expanduser().absolute(), program=os.fspath(entry_point)))


def _check_program(code: Code) -> Code:
    if code.program.endswith(".py") and not code.path.is_file() and not code.is_package:
        archive = code.folder if code.folder.is_file() else None
        if archive is None:
            raise JobFailed(f"no file {code.program} in {code.folder}: entry_point is relative to source_dir")
    return code


def _code_of_model(
    model_dir: Path | None, environment: Mapping[str, str], source_dir: str | os.PathLike[str] | None
) -> Code:
    if model_dir is None and source_dir is None:
        raise JobFailed("no entry_point was given")
    folder = Path(source_dir).expanduser().absolute() if source_dir is not None else Path(model_dir or "") / "code"
    named = environment.get(params.USER_PROGRAM_ENV)
    found = sorted(path.name for path in folder.glob("*.py")) if folder.is_dir() else []
    for program in filter(None, (named, DEFAULT_PROGRAM, found[0] if len(found) == 1 else None)):
        if (folder / program).is_file():
            return Code(folder=folder, program=program)
    wanted = named or DEFAULT_PROGRAM
    raise JobFailed(f"no entry_point was given, and {folder} has no {wanted} (found: {', '.join(found) or 'nothing'})")


def stage(code: Code, dependencies: Sequence[str | os.PathLike[str]], target: Path) -> Code:
    """Copy code and its dependencies into one folder, as SageMaker does in ``/opt/ml/code``.

    Args:
        code: The code. Its folder may be a ``.tar.gz``.
        dependencies: Files and folders to copy beside it.
        target: The folder.

    Raises:
        JobFailed: The archive cannot be unpacked, or does not contain the program.
    """
    target.mkdir(parents=True, exist_ok=True)
    if code.folder.is_file():
        try:
            unpack_into(code.folder, target, what="a .tar.gz of the code")
        except DataError as error:
            why = error.found if isinstance(error, CorruptFile) else str(error)
            raise JobFailed(f"source_dir {code.folder} is neither a folder nor an intact .tar.gz: {why}") from error
    elif code.is_whole:
        _copy_folder(code.folder, target)
    else:
        shutil.copy2(code.path, target / code.program)
    for dependency in dependencies:
        path = Path(dependency).expanduser()
        if not os.fspath(dependency):
            raise JobFailed("a dependency is an empty text, not a path")
        _copy(path, target / path.absolute().name)
    staged_code = Code(folder=target, program=code.program)
    return _check_program(staged_code)


def _copy(path: Path, target: Path) -> None:
    if path.is_dir():
        _copy_folder(path, target)
    elif path.is_file():
        shutil.copy2(path, target)
    else:
        raise JobFailed(f"the dependency {path} does not exist")


def _copy_folder(folder: Path, target: Path) -> None:
    """Copy a folder with what its links lead to, as the SDK packs it: a relative link would lead nowhere from the copy."""
    matching = shutil.ignore_patterns(*LEFT_OUT)

    def ignore(parent: str, names: list[str]) -> set[str]:
        paths = {name: Path(parent, name) for name in names}
        return matching(parent, names) | {name for name, path in paths.items() if not path.exists() or leads_back(path)}

    shutil.copytree(folder, target, ignore=ignore, dirs_exist_ok=True)


@contextmanager
def stage_temporarily(code: Code, dependencies: Sequence[str | os.PathLike[str]]) -> Iterator[Code]:
    """The code in its folder; in a temporary folder if it has dependencies or is an archive."""
    if not dependencies and code.folder.is_dir():
        yield code
        return
    with TemporaryDirectory(prefix="headrace-code-") as folder:
        yield stage(code, dependencies, Path(folder))


LOADING = threading.RLock()
"""Held while scripts are loaded, because they may read environment variables, which belong to the process."""

_folders: set[str] = set()  # of the scripts loaded so far; a new script replaces their modules of the same name


def load_module(code: Code) -> ModuleType:
    """Import a script, with its folder first on ``sys.path``, as in ``python script.py``.

    Scripts with the same name, or with modules of the same name beside them, can be loaded one after another; each gets its own.

    Raises:
        JobFailed: It cannot be imported; the message has the line.
    """
    folder = str(code.folder)
    with LOADING, shim.inside():
        _forget_namesakes(code.folder)
        if folder in sys.path:
            sys.path.remove(folder)
        sys.path.insert(0, folder)
        _folders.add(folder)
        importlib.invalidate_caches()
        try:
            return _import(code)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            hint = ""
            if isinstance(error, ModuleNotFoundError) and code.requirements is not None:
                hint = "; its requirements.txt is only installed for a separate process (ScriptContainer.interpreter)"
            raise JobFailed(f"{code.program} cannot be imported: {_describe_error(error, code)}{hint}") from error


def _import(code: Code) -> ModuleType:
    name = code.module
    known = sys.modules.get(name)
    if known is not None:  # another module, such as one of the standard library
        name = f"headrace_script_{name}"
    spec = importlib.util.spec_from_file_location(name, code.path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{code.path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # before it runs, because dataclasses and pickle look it up
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _forget_namesakes(folder: Path) -> None:
    """Drop modules of other scripts whose names occur in this folder, and an earlier import of this script."""
    names = {path.stem for path in folder.glob("*.py")} | {path.name for path in folder.iterdir() if path.is_dir()}
    for full in list(sys.modules):
        if full.partition(".")[0].removeprefix("headrace_script_") in names and _is_of_a_script(sys.modules[full]):
            del sys.modules[full]


def _is_of_a_script(module: ModuleType | None) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and any(file.startswith(folder + os.sep) for folder in _folders)


def _describe_error(error: BaseException, code: Code) -> str:
    """The exception, and the line of the user's code that raised it."""
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.startswith(str(code.folder)):
            line = f"{Path(trace.tb_frame.f_code.co_filename).name}, line {trace.tb_lineno}"
        trace = trace.tb_next
    if isinstance(error, SyntaxError):
        line = f"{Path(error.filename or code.program).name}, line {error.lineno}"
    return f"{type(error).__name__}: {error}" + (f" ({line})" if line else "")


@contextmanager
def set_variables(given: Mapping[str, str]) -> Iterator[None]:
    """Set these environment variables while a script is loaded."""
    with LOADING:
        before = {name: os.environ.get(name) for name in given}
        os.environ.update(given)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
