"""Untrusted JSON. Nesting depth is checked before parsing, because parsers recurse once per level."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace import _native

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["ARRAY_HINT", "MOST_DEEP", "TOO_DEEP", "are_objects", "load_json", "too_deep"]

MOST_DEEP = 200
"""The deepest nesting of lists and objects. Parsers recurse once per level, and Python allows a thousand calls."""
ARRAY_HINT = "If the file is one JSON array, hr.write('x.jsonl', json.load(file)) makes lines of it."
TOO_DEEP = f"lists and objects more than {MOST_DEEP} levels deep"


def too_deep(text: Buffer) -> int:
    """The first byte at which JSON text exceeds :data:`MOST_DEEP` levels of nesting; -1 if it never does.

    >>> too_deep(b"[" * 201), too_deep(b'{"text": "[[["}')
    (200, -1)
    """
    return _native.json_too_deep(text, MOST_DEEP)


def are_objects(lines: Buffer) -> bool:
    r"""Whether each line is one object, by its quotes and brackets, and not nested too deeply. Lines of blanks do not count.

    Readers of JSON Lines take values across line ends, and pyarrow's ends the process at a ``null`` outside of objects.

    >>> are_objects(b'{"a": [null]}\n{}'), are_objects(b"{}\nnull"), are_objects(b"{}{}"), are_objects(b'{"a":\n1}')
    (True, False, False, False)
    """
    return _native.json_not_objects(lines, MOST_DEEP) < 0


def load_json(
    text: str | bytes,
    *,
    parse_int: Callable[[str], Any] | None = None,
    parse_float: Callable[[str], Any] | None = None,
    pairs: Callable[[list[tuple[str, Any]]], Any] | None = None,
) -> Any:
    """Parse untrusted JSON.

    Args:
        text: Text, or bytes in UTF-8.
        parse_int: Converts the digits of an integer; ``None``: to an ``int``.
        parse_float: Converts the text of another number; ``None``: to a ``float``.
        pairs: Converts the keys and values of an object; ``None``: to a ``dict``, which holds the last value of a key.

    Raises:
        ValueError: Not JSON, not UTF-8, nested too deeply, or an integer of thousands of digits.
    """
    encoded = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    at = too_deep(encoded)
    if at >= 0:
        begin = encoded[:at].decode("utf-8", "replace")
        raise json.JSONDecodeError(TOO_DEEP, begin, len(begin))
    try:
        decoded = text if isinstance(text, str) else text.decode("utf-8-sig")
        return json.loads(decoded, parse_int=parse_int, parse_float=parse_float, object_pairs_hook=pairs)
    except RecursionError as error:  # the caller is near the end of the stack itself
        raise ValueError(TOO_DEEP) from error
