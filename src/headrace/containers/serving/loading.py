"""Importing a user's script as a module."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from headrace.containers.code import Code
from headrace.containers.toolkit import shim
from headrace.errors import JobFailed

__all__ = ["LOADING", "load_module", "variables"]

LOADING = threading.RLock()
"""Held while scripts are loaded: they may read variables, which belong to the whole process."""

_folders: set[str] = set()  # of the scripts loaded so far: their modules give way to others of the same name


def load_module(code: Code) -> ModuleType:
    """Import a script, with its folder first on ``sys.path``, as ``python script.py`` has it.

    Two scripts of one name, or with neighbours of one name, can be loaded one after the other: each gets its own.

    Raises:
        JobFailed: It cannot be imported; the message says where it fails.
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
        except (Exception, SystemExit) as error:
            hint = ""
            if isinstance(error, ModuleNotFoundError) and code.requirements is not None:
                hint = "; its requirements.txt is installed for a process of its own (ScriptContainer.interpreter)"
            raise JobFailed(f"{code.program} cannot be imported: {_where(error, code)}{hint}") from error


def _import(code: Code) -> ModuleType:
    name = code.module
    known = sys.modules.get(name)
    if known is not None:  # something that is no script, such as a module of the standard library
        name = f"headrace_script_{name}"
    spec = importlib.util.spec_from_file_location(name, code.path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{code.path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # before it runs: dataclasses and pickles look for it there
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _forget_namesakes(folder: Path) -> None:
    """Drop what came out of other scripts' folders under a name that this folder has, and this script's old self."""
    names = {path.stem for path in folder.glob("*.py")} | {path.name for path in folder.iterdir() if path.is_dir()}
    for full in list(sys.modules):
        if full.partition(".")[0].removeprefix("headrace_script_") in names and _is_of_a_script(sys.modules[full]):
            del sys.modules[full]


def _is_of_a_script(module: ModuleType | None) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and any(file.startswith(folder + os.sep) for folder in _folders)


def _where(error: BaseException, code: Code) -> str:
    """The exception, and the line of the user's code that it came from."""
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.startswith(str(code.folder)):
            line = f"{Path(trace.tb_frame.f_code.co_filename).name}, line {trace.tb_lineno}"
        trace = trace.tb_next
    if isinstance(error, SyntaxError):
        line = f"{Path(error.filename or code.program).name}, line {error.lineno}"
    return f"{type(error).__name__}: {error}" + (f" ({line})" if line else "")


@contextmanager
def variables(given: Mapping[str, str]) -> Iterator[None]:
    """Have these environment variables while a script is loaded."""
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
