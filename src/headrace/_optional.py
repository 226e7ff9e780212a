"""The one door for optional packages: nothing else imports them."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType

from headrace.errors import MissingExtra

__all__ = ["available", "require"]


def require(module: str, *, extra: str, hint: str = "") -> ModuleType:
    """Import an optional module.

    Args:
        module: Its name.
        extra: The extra of this package that brings it.
        hint: What can be done without it.

    Raises:
        MissingExtra: it is not installed; the message holds the install line.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not (module + ".").startswith(error.name + "."):
            raise  # The package is there, but something that it needs itself is not: that is the message to show.
        raise MissingExtra(module.partition(".")[0], extra, hint) from error


def available(module: str) -> bool:
    """Whether an optional top-level module is installed. Does not import it."""
    return importlib.util.find_spec(module) is not None
