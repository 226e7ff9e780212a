"""Where the wanted features are among the keys of JSON lines. Looks at nothing else in them, so the rest may hold anything."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

from headrace.errors import Where
from headrace.formats.table.values import twice_error
from headrace.io.json_text import load_json

__all__ = ["find_keys", "find_new_key", "keep_keys", "repeated_key"]

MOST_INTEGER = (1 << 64) - 1
HALF = "\\udc"
"""How JSON in ASCII begins the second half of a surrogate pair."""


class _Object(list[tuple[str, Any]]):
    """The keys and values of a JSON object, in order. A dict would lose repeated keys."""


class _NumberText(str):
    """The text of a number."""

    __slots__ = ()


def find_keys(lines: Sequence[bytes], names: Collection[str]) -> Mapping[str, tuple[str, ...]]:
    """The keys that lead to each feature, outermost first: ``a/b`` may be one key, or ``b`` in the object ``a``.

    Args:
        lines: The first lines. Damaged ones are ignored.
        names: The features. One that no line has is a key of the whole name.

    Raises:
        UnsupportedData: Keys of two kinds give one name.
    """
    found: dict[str, tuple[str, ...]] = {name: (name,) for name in names}
    nested = {name: dict[tuple[str, ...], None]() for name in names if "/" in name}
    for line in lines if nested else ():
        with suppress(ValueError):
            value = _load(line)
            for name, ways in nested.items():
                ways.update(dict.fromkeys(_ways(value, name)))
    for name, ways in nested.items():
        if len(ways) > 1:
            raise twice_error(Where(feature=name))
        found[name] = next(iter(ways), (name,))
    return found


def _ways(value: Any, name: str) -> Iterator[tuple[str, ...]]:
    for key, inner in value if isinstance(value, _Object) else ():
        if key == name and not isinstance(inner, _Object):
            yield (key,)
        elif name.startswith(f"{key}/"):
            for way in _ways(inner, name[len(key) + 1 :]):
                yield (key, *way)


def keep_keys(lines: Sequence[bytes], names: Collection[str], integers: Collection[str] = ()) -> list[bytes]:
    r"""The same lines with the keys of these features only. Lines that are damaged there, or are not JSON, stay as they are.

    Args:
        lines: The lines.
        names: The features.
        integers: Those of them in which ``5.0`` becomes ``5``.

    >>> keep_keys([b'{"a": 1e999, "b": {"c": 1.50, "d": 2}}'], ["b/c"])
    [b'{"b":{"c":1.50}}']
    >>> keep_keys([b'{"a": [5.0, 1e2, 5.5]}'], ["a"], ["a"])
    [b'{"a":[5,100,5.5]}']
    >>> keep_keys([b'{"a": 1, "b": "\xff"}', b'{"a": "\xff"}'], ["a"])
    [b'{"a":1}', b'{"a": "\xff"}']
    """
    return [_keep(line, names, integers) for line in lines]


def _keep(line: bytes, names: Collection[str], integers: Collection[str]) -> bytes:
    try:
        value = _load(line, "surrogateescape")
        kept = _text(_only(value, "", names, integers)) if isinstance(value, _Object) else ""
        if HALF in kept:  # Bytes that are not UTF-8 became halves of pairs, which cannot be encoded.
            json.dumps(json.loads(kept), ensure_ascii=False).encode()
    except ValueError:
        return line
    return kept.encode() if kept else line


def _only(value: _Object, above: str, names: Collection[str], integers: Collection[str] = ()) -> _Object:
    kept = _Object()
    whole = {above + key for key, _ in value}  # such as "a/b", beside which "a" may be anything
    for key, inner in value:
        at = above + key
        if at in names:
            kept.append((key, _write_integers(inner) if at in integers else inner))
        elif any(name.startswith(f"{at}/") and name not in whole for name in names):
            # Another value than an object stays, because without it the row would seem to lack the feature.
            kept.append((key, _only(inner, f"{at}/", names, integers) if isinstance(inner, _Object) else inner))
    return kept


def _write_integers(value: Any) -> Any:
    """A value in which numbers that are integers of 64 bits are written as such."""
    if type(value) is list:
        return [_write_integers(inner) for inner in value]
    if not isinstance(value, _NumberText) or (value.lstrip("-").isdigit() and value != "-0"):
        return value
    try:
        number = Decimal(value)  # exactly as it is written
    except ArithmeticError:  # an exponent beyond those of decimals
        return value
    is_integer = number.copy_abs() <= MOST_INTEGER and number == number.to_integral_value()
    return _NumberText(int(number)) if is_integer else value


def find_new_key(lines: Sequence[bytes], names: Collection[str]) -> tuple[int, str] | None:
    """The number of the first line with another key than those of these features, and that key: ``a/b``; ``None`` if there is none.

    Keys that hold nothing do not count. The search ends at a damaged line, which is another error.

    >>> find_new_key([b'{"a": 1}', b'{"a": 2, "c": null, "b": {"c": 3}}'], ["a"])
    (1, 'b/c')
    """
    for number, line in enumerate(lines):
        try:
            value = _load(line)
        except ValueError:
            return None
        key = _new_key(value, "", names) if isinstance(value, _Object) else None
        if key is not None:
            return number, key
    return None


def _new_key(value: _Object, above: str, names: Collection[str]) -> str | None:
    for key, inner in value:
        at = above + key
        if at in names or inner is None:
            continue
        if isinstance(inner, _Object):
            found = _new_key(inner, f"{at}/", names)
            if found is not None:
                return found
        elif not any(name.startswith(f"{at}/") for name in names):  # else a value in place of an object: another error
            return at
    return None


def repeated_key(line: bytes, names: Collection[str] | None) -> str | None:
    """The first key that an object of a line has twice, with those around it: ``a/b``; ``None`` if there is none.

    Args:
        line: One JSON object. Damaged ones have no keys.
        names: Look only at the keys of these features; ``None``: at all.
    """
    try:
        value = _load(line, "surrogateescape")
    except ValueError:
        return None
    return _find_repeated(value if names is None or not isinstance(value, _Object) else _only(value, "", names), "")


def _find_repeated(value: Any, above: str) -> str | None:
    if not isinstance(value, _Object):
        inside = (_find_repeated(inner, above) for inner in value) if isinstance(value, list) else iter(())
        return next((found for found in inside if found is not None), None)
    seen = set()
    for key, inner in value:
        if key in seen:
            return above + key
        seen.add(key)
        found = _find_repeated(inner, f"{above}{key}/")
        if found is not None:
            return found
    return None


def _load(line: bytes, errors: str = "strict") -> Any:
    text = bytes(line).strip().decode("utf-8-sig", errors)
    return load_json(text, parse_int=_NumberText, parse_float=_NumberText, pairs=_Object)


def _text(value: Any) -> str:
    """JSON with the numbers as they were written."""
    if isinstance(value, _Object):
        return "{" + ",".join(f"{json.dumps(key)}:{_text(inner)}" for key, inner in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_text, value)) + "]"
    return str(value) if isinstance(value, _NumberText) else json.dumps(value)
