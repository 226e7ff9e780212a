"""Imports and runs modules of the user."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from types import ModuleType
from typing import Any

from . import environment, errors

__all__ = ["DEFAULT_MODULE_NAME", "exists", "has_requirements", "import_module", "install", "run", "run_module"]

DEFAULT_MODULE_NAME = "default_user_module_name"


def exists(name: str) -> bool:
    """Whether a module can be imported."""
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


def has_requirements(path: str) -> bool:
    """Whether a folder has ``requirements.txt``."""
    return os.path.exists(os.path.join(path, "requirements.txt"))


def import_module(uri: str, name: str = DEFAULT_MODULE_NAME, cache: Any = None) -> ModuleType:
    """Import a module from a folder.

    Args:
        uri: The folder.
        name: The module's name, with or without ``.py``.
        cache: Has no meaning.

    Raises:
        ImportModuleError: It cannot be imported.
    """
    _ = cache
    folder = _folder(uri)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        importlib.invalidate_caches()
        return importlib.import_module(environment.module_name_of(name) or name)
    except Exception as error:
        raise errors.ImportModuleError(error) from error


def install(path: str, capture_error: bool = False) -> None:
    """Install the package in a folder, and its ``requirements.txt``, into the running interpreter.

    Raises:
        InstallModuleError: ``pip`` failed.
    """
    command = [sys.executable, "-m", "pip", "install", "."]
    command += ["-r", "requirements.txt"] if has_requirements(path) else []
    _run(command, errors.InstallModuleError, cwd=path, capture=capture_error)


def run(
    module_name: str, args: Any = None, env_vars: Any = None, wait: bool = True, capture_error: bool = False
) -> Any:
    """``python -m module_name args``, with more variables.

    Raises:
        ExecuteUserScriptError: It failed.
    """
    command = [sys.executable, "-m", module_name, *map(str, args or ())]
    variables = {**os.environ, **{name: str(value) for name, value in (env_vars or {}).items()}}
    if not wait:
        return subprocess.Popen(command, env=variables)  # noqa: S603
    return _run(command, errors.ExecuteUserScriptError, env=variables, capture=capture_error)


def run_module(
    uri: str,
    args: Any,
    env_vars: Any = None,
    name: str = DEFAULT_MODULE_NAME,
    cache: Any = None,
    wait: bool = True,
    capture_error: bool = False,
) -> Any:
    """Run a module of a folder."""
    _ = cache
    path = os.pathsep.join([_folder(uri), *filter(None, [os.environ.get("PYTHONPATH")])])
    return run(
        environment.module_name_of(name) or name, args, {**(env_vars or {}), "PYTHONPATH": path}, wait, capture_error
    )


def _folder(uri: str) -> str:
    folder = uri.removeprefix("file://")
    if not os.path.isdir(folder):
        raise errors.ImportModuleError(f"{uri} is no folder of this machine: only those are taken here")
    return os.path.abspath(folder)


def _run(command: list[str], error: type[errors.CalledProcessError], *, capture: bool, **options: Any) -> Any:
    found = subprocess.run(command, stderr=subprocess.PIPE if capture else None, check=False, **options)  # noqa: S603
    if found.returncode:
        raise error(" ".join(command), found.returncode, found.stderr)
    return found
