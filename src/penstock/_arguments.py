"""Arguments of public calls: checked where they come in, so that a wrong one is neither ignored nor found out later."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["choice", "flag", "function", "path", "whole"]


def flag(value: object, name: str) -> bool:
    """``True`` or ``False``, also NumPy's.

    Raises:
        TypeError: It is neither.
    """
    if isinstance(value, bool) or (type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_")):
        return bool(value)
    raise TypeError(f"{name} must be True or False, got {value!r}")


def whole(value: Any, name: str, *, least: int = 0) -> int:
    """A whole number, also NumPy's.

    Raises:
        TypeError: It is none.
        ValueError: It is less than ``least``.
    """
    try:
        if isinstance(value, bool):
            raise TypeError  # noqa: TRY301 - as for all else that is no number
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be a whole number, got {value!r}") from None
    if number < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")
    return number


def choice(value: object, name: str, choices: Sequence[str | None]) -> None:
    """Check that an argument is one of a few words.

    Raises:
        TypeError: It is no word.
        ValueError: It is another one.
    """
    if value is None and None in choices:
        return
    *words, last = [repr(each) for each in choices if each is not None]
    wanted = f"{', '.join(words)} or {last}" if words else last
    if not isinstance(value, str):
        raise TypeError(f"{name} must be {wanted}, got {value!r}")
    if value not in choices:
        raise ValueError(f"{name} must be {wanted}, got {value!r}")


def function(value: object, name: str) -> Callable[..., Any] | None:
    """A function, or ``None``.

    Raises:
        TypeError: It is neither.
    """
    if value is None or callable(value):
        return value
    raise TypeError(f"{name} must be a function, got {value!r}")


def path(value: object, name: str = "path") -> None:
    """Check that an argument is a path.

    Raises:
        TypeError: It is none.
    """
    if not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"{name} must be a path, got {type(value).__name__}")
