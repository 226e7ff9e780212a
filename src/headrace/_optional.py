"""Imports of optional packages: no other module imports one. Also which modules are of installed packages, settings of JAX
and devices of PyTorch.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import sysconfig
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from headrace.errors import MissingExtra, UnsupportedData, Where

__all__ = ["JaxSettings", "available", "find_loaded", "is_installed", "require", "torch_device", "version_of_module"]


def require(module: str, *, extra: str, hint: str = "", package: str = "") -> ModuleType:
    """Import an optional module.

    Args:
        module: Its name.
        extra: The extra of Headrace that installs it.
        hint: What works without it.
        package: Its distribution, where that has another name than the top-level module.

    Raises:
        MissingExtra: It is not installed. The message holds the pip command.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not (module + ".").startswith(error.name + "."):
            raise  # The package is installed, but one that it needs is not: show that message.
        raise MissingExtra(package or module.partition(".")[0], extra, hint) from error


def find_loaded(module: str, name: str) -> Any:
    """A module that the program has loaded, at least up to this name; ``None`` otherwise."""
    found = sys.modules.get(module)
    return found if hasattr(found, name) else None


def available(module: str) -> bool:
    """Whether an optional module is installed. Imports its parent packages only."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # its parent package
        return False


@cache
def is_installed(module: str) -> bool:
    """Whether a module is part of Python or of an installed package, and not the user's own."""
    if module in sys.builtin_module_names or module.partition(".")[0] == __name__.partition(".")[0]:
        return True
    path = getattr(sys.modules.get(module), "__file__", None)
    if path is None:
        return getattr(getattr(sys.modules.get(module), "__spec__", None), "origin", None) in ("built-in", "frozen")
    places = {sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")}
    return any(os.path.realpath(path).startswith(os.path.realpath(place) + os.sep) for place in places)


@cache
def version_of_module(module: str) -> str:
    """The name of an installed module, and the size and time of its file."""
    try:
        status = Path(sys.modules[module].__file__ or "").stat()
    except (AttributeError, KeyError, OSError):
        return module
    return f"{module} {status.st_size} {status.st_mtime_ns}"


def torch_device(torch: Any, device: Any) -> Any:
    """A device that torch knows and this machine has.

    Raises:
        ValueError: torch has no device of this name.
        UnsupportedData: It is a GPU (also of the kinds ``mps`` and ``xpu``), and this build of torch can use none.
    """
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"device must be one that torch knows, such as 'cpu' or 'cuda:0', got {device!r}") from error
    if found.type == "cuda" and not torch.cuda.is_available():
        raise UnsupportedData(
            Where(),
            expected="a GPU that torch can use",
            found="none (torch.cuda.is_available() is false)",
            hint="Leave device= out to get tensors in host memory.",
        )
    if found.type in ("mps", "xpu"):
        module = torch.backends.mps if found.type == "mps" else getattr(torch, found.type, None)
        if module is None or not module.is_available():
            raise UnsupportedData(
                Where(),
                expected=f"a device of the kind {found.type!r} that torch can use",
                found="none (its is_available() is false)",
                hint="Leave device= out to get tensors in host memory.",
            )
    return found


class JaxSettings(NamedTuple):
    """The settings of JAX that decide what an array becomes. JAX keeps them for each thread."""

    x64: bool
    """Whether 64-bit numbers stay."""
    device: Any
    """The default device; ``None``: JAX's own."""

    @classmethod
    def read(cls, jax: Any) -> JaxSettings:
        """Those of this thread."""
        return cls(jax.config.jax_enable_x64, jax.config.jax_default_device)

    @contextmanager
    def applied(self, jax: Any) -> Generator[None]:
        """A context in which this thread has these settings."""
        enable_x64 = (
            jax.enable_x64 if hasattr(jax, "enable_x64") else require("jax.experimental", extra="jax").enable_x64
        )
        with enable_x64(self.x64), jax.default_device(self.device):
            yield
