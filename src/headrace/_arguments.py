"""Arguments of public calls: checked where they come in, so that a wrong one is neither ignored nor found out later."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

__all__ = ["choice", "flag", "function", "names", "whole", "word"]


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


def word(value: object, name: str, *others: type) -> None:
    """Check that an argument is text or ``None``, or of one of some other types.

    Raises:
        TypeError: It is none of them.
    """
    if value is not None and not isinstance(value, (str, *others)):
        wanted = " or ".join(["text", *(f"a headrace.{each.__name__}" for each in others)])
        raise TypeError(f"{name} must be {wanted}, got {value!r}")


def names(value: object, name: str) -> None:
    """Check that an argument is several names, or ``None``. One text is not: it would pass for its letters.

    Raises:
        TypeError: It is something else.
    """
    if value is None:
        return
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise TypeError(f"{name} must be several names, such as [{value!r}], got {value!r}")
    if isinstance(value, Sequence) and not all(isinstance(each, str) for each in value):
        raise TypeError(f"{name} must be several names, got {value!r}")
