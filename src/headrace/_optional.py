"""Imports of optional packages. No other module imports one."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType

from headrace.errors import MissingExtra

__all__ = ["available", "require"]


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


def available(module: str) -> bool:
    """Whether an optional module is installed. Imports its parent packages only."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # its parent package
        return False
