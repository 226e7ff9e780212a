"""The user's code: where it is, what belongs to it, and how it is imported."""

from __future__ import annotations

import importlib
import importlib.abc
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

__all__ = [
    "LEFT_OUT",
    "LOADING",
    "Code",
    "ScriptModules",
    "find_code",
    "load_module",
    "set_variables",
    "stage_temporarily",
]


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
        raise JobFailed("entry_point and source_dir must be paths, and one of them is an empty string")
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
            raise JobFailed("a dependency is an empty string, not a path")
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

_LOCK = threading.RLock()
_TURN = threading.Condition(_LOCK)
_calls: list[tuple[int, ScriptModules]] = []  # in progress, with their threads
_waiting: list[tuple[int, ScriptModules]] = []  # calls of scripts that are not in ``sys.modules`` now
_current: ScriptModules | None = None


class ScriptModules:
    """The modules of one script: found by imports and by pickle inside ``with script_modules:``, and by no other script.

    Each script in a process has modules and folders of ``sys.path`` of its own, as in a container of its own. They stay in place
    after a call, so calls of one script cost nothing more. Calls of two scripts wait for each other, because ``sys.modules``
    belongs to the process; but a call made inside another in the same thread does not wait for that.

    Args:
        folder: The folder of the script.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._path = [self._folder]
        self._path_of_others = frozenset(sys.path)
        self._path_before = self._path_inside = list(sys.path)  # ``sys.path`` without and with these folders
        self._modules: dict[str, ModuleType] = {}
        self._replaced: dict[str, ModuleType] = {}
        self._asked: dict[str, None] = {}  # names that were looked for while this script was the current one

    def __enter__(self) -> None:
        call = (threading.get_ident(), self)
        with _LOCK:
            if _current is self and not _waiting:
                _calls.append(call)
                return
            if not _calls or any(thread == call[0] for thread, _ in _calls):
                _calls.append(call)
                _switch(self)
                return
            _waiting.append(call)
            try:
                while call in _waiting:
                    _TURN.wait()
            except BaseException:
                _end(call)
                raise

    def __exit__(self, *_: object) -> None:
        with _LOCK:
            if len(_calls) == 1 and not _waiting:
                _calls.clear()
            else:
                _end((threading.get_ident(), self))

    def close(self) -> None:
        """Take the modules and folders out of the process."""
        with _LOCK:
            if _current is self:
                _switch(None)

    def add(self, name: str, module: ModuleType) -> None:
        """Add a module that is not found by its name."""
        self._modules[name] = sys.modules[name] = module

    def note(self, name: str) -> None:
        """Note the name of a module that is not loaded yet, and may be one of the script."""
        self._asked[name] = None

    def put_in(self) -> None:
        """Make the modules and folders those of the process."""
        self._path_before = sys.path.copy()
        self._path_inside = [*self._path, *sys.path]
        sys.path[:] = self._path_inside
        self._replaced = {name: sys.modules[name] for name in self._modules if name in sys.modules}
        sys.modules.update(self._modules)

    def take_out(self) -> None:
        """Remove the modules and folders from the process, and remember them."""
        has_changed_path = sys.path != self._path_inside
        if has_changed_path:
            self._path = [self._folder, *filter(self._has_added, sys.path)]
        asked, self._asked = self._asked, {}
        names = [*self._modules, *filter(self._is_own, asked)]
        self._modules = {name: sys.modules.pop(name) for name in names if name in sys.modules}
        sys.modules.update(self._replaced)
        if not has_changed_path:
            sys.path[:] = self._path_before
            return
        if self._folder in sys.path:
            sys.path.remove(self._folder)  # the first one: the program itself may have the same folder
        sys.path[:] = [folder for folder in sys.path if not self._has_added(folder)]

    def _is_own(self, name: str) -> bool:
        """Whether a module was found in a folder of the script, directly or in a package there."""
        top = sys.modules.get(name.partition(".")[0])
        return top is not None and _location_of(top) in [Path(folder) for folder in self._path]

    def _has_added(self, folder: str) -> bool:
        """Whether the script has added a folder of its own, such as ``src``, to ``sys.path``."""
        return folder.startswith(self._folder + os.sep) and folder not in self._path_of_others


class _ImportWatcher(importlib.abc.MetaPathFinder):
    """Tells the current script which modules are looked for. It finds none itself."""

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        _ = path, target
        if _current is not None:
            _current.note(fullname)


_WATCHER = _ImportWatcher()


def _location_of(module: ModuleType) -> Path | None:
    """The folder in which a module or package was found."""
    places = [*getattr(module, "__path__", ()), *filter(None, [getattr(module, "__file__", None)])]
    return Path(places[0]).parent if places else None


def _switch(script: ScriptModules | None) -> None:
    """Make a script the current one."""
    global _current  # noqa: PLW0603
    if _current is not None:
        _current.take_out()
    _current = script
    if script is not None:
        script.put_in()


def _end(call: tuple[int, ScriptModules]) -> None:
    """End a call, or a wait for it, and let the next script have its turn."""
    if call in _waiting:
        _waiting.remove(call)
    else:
        del _calls[len(_calls) - 1 - _calls[::-1].index(call)]  # the last one, which may be inside others
    if _calls and _current is not _calls[-1][1]:
        _switch(_calls[-1][1])  # The call was made inside another one, of another script.
    if not _calls and _waiting:
        script = _waiting[0][1]
        _calls.extend(waiting for waiting in _waiting if waiting[1] is script)
        _waiting[:] = [waiting for waiting in _waiting if waiting[1] is not script]
        if _current is not script:
            _switch(script)
        _TURN.notify_all()


def load_module(code: Code, modules: ScriptModules) -> ModuleType:
    """Import a script, with its folder first on ``sys.path``, as in ``python script.py``.

    Scripts with the same name, or with modules of the same name beside them, each get their own.

    Args:
        code: The script.
        modules: Those of its folder.

    Raises:
        JobFailed: It cannot be imported; the message has the line.
    """
    if _WATCHER not in sys.meta_path:
        sys.meta_path.insert(0, _WATCHER)
    with LOADING, shim.inside(), modules:
        importlib.invalidate_caches()
        try:
            return _import(code, modules)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            hint = ""
            if isinstance(error, ModuleNotFoundError) and code.requirements is not None:
                hint = "; its requirements.txt is only installed for a separate process (ScriptContainer.interpreter)"
            raise JobFailed(f"{code.program} cannot be imported: {_describe_error(error, code)}{hint}") from error


def _import(code: Code, modules: ScriptModules) -> ModuleType:
    name = code.module
    if sys.modules.get(name) is not None:  # another module, such as one of the standard library
        name = f"headrace_script_{name}"
    spec = importlib.util.spec_from_file_location(name, code.path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{code.path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    modules.add(name, module)  # before it runs, because dataclasses and pickle look it up
    spec.loader.exec_module(module)
    return module


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
