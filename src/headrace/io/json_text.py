"""JSON that comes from elsewhere: bounded before a parser sees it, because parsers recurse, one call a level."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace import _native

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["MOST_DEEP", "TOO_DEEP", "load_json", "too_deep"]

MOST_DEEP = 200
"""Levels of lists and objects in each other. What reads JSON calls itself once a level, and Python allows a thousand calls in all."""
TOO_DEEP = f"lists and objects more than {MOST_DEEP} levels deep"


def too_deep(text: Buffer) -> int:
    """The first byte at which JSON text is nested more than :data:`MOST_DEEP` levels deep; -1 where it is not.

    >>> too_deep(b"[" * 201), too_deep(b'{"text": "[[["}')
    (200, -1)
    """
    return _native.json_too_deep(text, MOST_DEEP)


def load_json(text: str | bytes, *, parse_int: Callable[[str], Any] | None = None) -> Any:
    """The value of JSON text, of which nothing is known.

    Args:
        text: UTF-8, where it is bytes.
        parse_int: Makes a value of a whole number's digits; ``None``: an ``int``.

    Raises:
        ValueError: It is no JSON, no UTF-8, nested too deeply, or has a whole number of thousands of digits.
    """
    encoded = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    at = too_deep(encoded)
    if at >= 0:
        begin = encoded[:at].decode("utf-8", "replace")
        raise json.JSONDecodeError(TOO_DEEP, begin, len(begin))
    try:
        return json.loads(text if isinstance(text, str) else text.decode("utf-8-sig"), parse_int=parse_int)
    except RecursionError as error:  # of a caller that is near the end of the stack itself
        raise ValueError(TOO_DEEP) from error
