"""Where the wanted features are among the keys of JSON lines, in objects in objects and in lists of objects, and in the types and tables that
pyarrow makes of them. Looks at nothing else in the lines, so the rest may hold anything.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

import numpy as np

from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema
from headrace.errors import SchemaMismatch, Where
from headrace.formats.table.arrow import inner_array
from headrace.formats.table.arrow_types import Leaf, arrow, is_list
from headrace.formats.table.values import Keys, twice_error
from headrace.io.json_text import load_json

__all__ = [
    "array_at",
    "find_keys",
    "find_new_key",
    "keep_keys",
    "keys_of",
    "parse_types",
    "repeated_key",
    "replace_type",
    "without_times",
]

MOST_INTEGER = (1 << 64) - 1
HALF = "\\udc"
"""How JSON in ASCII begins the second half of a surrogate pair."""


class _Object(list[tuple[str, Any]]):
    """The keys and values of a JSON object, in order. A dict would lose repeated keys."""


class _NumberText(str):
    """The text of a number."""

    __slots__ = ()


def find_keys(lines: Sequence[bytes], names: Collection[str]) -> Mapping[str, Keys]:
    """The keys that lead to each feature: ``a/b`` may be one key, or ``b`` in the object ``a`` or in each object of the list ``a``.

    Args:
        lines: The first lines. Damaged ones are ignored.
        names: The features. One that no line has is where lists without items, nulls and other objects leave room for it, else a key of the
            whole name.

    Raises:
        UnsupportedData: Keys of two kinds give one name.
    """
    found: dict[str, Keys] = {name: (name,) for name in names}
    nested = {name: (dict[Keys, None](), dict[Keys, None]()) for name in names if "/" in name}
    for line in lines if nested else ():
        with suppress(ValueError):
            value = _load(line)
            for name, (ways, rooms) in nested.items():
                ways.update(dict.fromkeys(_ways(value, name)))
                rooms.update(dict.fromkeys(_rooms(value, name)))
    for name, (ways, rooms) in nested.items():
        if len(ways) > 1:
            raise twice_error(Where(feature=name))
        likely = sorted(rooms, key=lambda keys: keys.count(None), reverse=True)  # A null says less than a list.
        found[name] = next(iter(ways or likely), (name,))
    return found


def _ways(value: Any, name: str) -> Iterator[Keys]:
    if type(value) is list:
        for item in value:
            yield from ((None, *way) for way in _ways(item, name))
    for key, inner in value if isinstance(value, _Object) else ():
        if key == name and not isinstance(inner, _Object):
            yield (key,)
        elif name.startswith(f"{key}/"):
            for way in _ways(inner, name[len(key) + 1 :]):
                yield (key, *way)


def _rooms(value: Any, name: str) -> Iterator[Keys]:
    """Where a feature may be that is not there: in a list, in place of a null, or in an object."""
    for key, inner in value if isinstance(value, _Object) else ():
        rest = name[len(key) + 1 :]
        if not name.startswith(f"{key}/"):
            continue
        if type(inner) is list:
            deeper = [way for item in inner for way in _rooms(item, rest)]
            yield from ((key, None, *way) for way in deeper or [tuple(rest.split("/"))])
        elif isinstance(inner, _Object):
            yield from ((key, *way) for way in list(_rooms(inner, rest)) or [tuple(rest.split("/"))])
        elif inner is None:
            yield (key, *rest.split("/"))


def keep_keys(lines: Sequence[bytes], names: Collection[str], integers: Collection[str] = ()) -> list[bytes]:
    r"""The same lines with the keys of these features only. Lines that are damaged there, or are not JSON, stay as they are.

    Args:
        lines: The lines.
        names: The features.
        integers: Those of them in which ``5.0`` becomes ``5``.

    >>> keep_keys([b'{"a": 1e999, "b": {"c": 1.50, "d": 2}}'], ["b/c"])
    [b'{"b":{"c":1.50}}']
    >>> keep_keys([b'{"a": [{"b": 1, "c": 2}, {"b": 3}]}'], ["a/b"])
    [b'{"a":[{"b":1},{"b":3}]}']
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
            kept.append((key, _only_in(inner, f"{at}/", names, integers)))
    return kept


def _only_in(value: Any, above: str, names: Collection[str], integers: Collection[str]) -> Any:
    if type(value) is list:
        return [_only_in(item, above, names, integers) for item in value]
    return _only(value, above, names, integers) if isinstance(value, _Object) else value


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
    >>> find_new_key([b'{"a": [{"b": 1}]}', b'{"a": [{"b": 2}, {"c": 3}]}'], ["a/b"])
    (1, 'a/c')
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
        is_above = any(name.startswith(f"{at}/") for name in names)
        if isinstance(inner, _Object) or (is_above and type(inner) is list):
            for item in _objects_in(inner):
                found = _new_key(item, f"{at}/", names)
                if found is not None:
                    return found
        elif not is_above:  # else a value in place of an object: another error
            return at
    return None


def _objects_in(value: Any) -> Iterator[_Object]:
    """The object, or the objects in a list."""
    if isinstance(value, _Object):
        yield value
    for item in value if type(value) is list else ():
        yield from _objects_in(item)


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


def parse_types(schema: Schema, names: Sequence[str], paths: Mapping[str, Keys]) -> Any:
    """The types passed to the JSON reader for these features.

    Args:
        schema: The features of the lines.
        names: Those wanted.
        paths: The keys that lead to a feature. One that is not among them is a key of that name.

    Raises:
        SchemaMismatch: A feature in a list of objects has no axis for its items, or is in another one.
    """
    tree: dict[str | None, Any] = {}
    for name in names:
        keys = paths.get(name, (name,))
        at: Any = tree
        for key in keys[:-1]:
            at = at.setdefault(key, {}) if isinstance(at, dict) else None
        if not isinstance(at, dict) or keys[-1] in at:
            expected = f"either {keys[0]!r} or what is in it"
            hint = "Open two sources, and zip() them."
            raise SchemaMismatch(Where(feature=name), expected=expected, found="both", hint=hint)
        kind = _json_type(schema[name])
        for _ in range(keys.count(None)):
            if not is_list(kind):
                hint = f"Its shape is {(None,) * keys.count(None)} there."
                expected = f"an axis for the objects in the list {keys[0]!r}"
                raise SchemaMismatch(Where(feature=name), expected=expected, found=repr(schema[name]), hint=hint)
            kind = kind.value_type
        at[keys[-1]] = kind
    return arrow().schema(list(_type_of(tree)))


def _type_of(tree: Any) -> Any:
    """The type of objects with these keys, of a list of them (where the key is ``None``), or of a value."""
    if not isinstance(tree, dict):
        return tree
    if None in tree:
        return arrow().list_(_type_of(tree[None]))
    return arrow().struct([arrow().field(key, _type_of(value)) for key, value in tree.items()])


def _json_type(feature: Feature) -> Any:
    """The JSON type of a feature: text for timestamps, integers for durations, one type of floats."""
    pa = arrow()
    if feature.is_text:
        kind = pa.string()
    else:
        dtype = np.dtype(feature.dtype)
        kind = {"M": pa.string(), "m": pa.int64(), "f": pa.float64(), "b": pa.bool_()}.get(dtype.kind)
        kind = pa.from_numpy_dtype(dtype) if kind is None else kind
    for _ in feature.shape:
        kind = pa.list_(kind)
    return kind


def array_at(table: Any, keys: Keys) -> Any:
    """The array under these keys."""
    pa = arrow()
    column = table.column(keys[0])
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    path, kind = [], array.type
    for key in keys[1:]:
        if key is None:
            kind = kind.value_type
        else:
            path.append(kind.get_field_index(key))
            kind = kind.field(path[-1]).type
    return inner_array(array, path)


def keys_of(schema: Any, path: tuple[int, ...]) -> Keys:
    """The keys of a leaf, whose path is given."""
    field = schema.field(path[0])
    keys = [field.name]
    for position in path[1:]:
        kind = field.type
        while is_list(kind):
            keys.append(None)
            kind = kind.value_type
        field = kind.field(position)
        keys.append(field.name)
    return tuple(keys)


def replace_type(types: Any, leaf: Leaf, kind: Any) -> Any:
    """Replace the type of one column."""
    pa = arrow()

    def changed(known: Any, path: tuple[int, ...], new: Any) -> Any:
        if not path:
            return new
        if is_list(known):
            return pa.list_(changed(known.value_type, path, new.value_type))
        inner = [known.field(at) for at in range(known.num_fields)]
        inner[path[0]] = pa.field(inner[path[0]].name, changed(inner[path[0]].type, path[1:], new))
        return pa.struct(inner)

    at = leaf.path[0]
    return types.set(at, pa.field(types.field(at).name, changed(types.field(at).type, leaf.path[1:], kind)))


def without_times(schema: Any) -> Any:
    """The same schema with text in place of the timestamps that pyarrow infers: other rows may hold other text."""
    pa = arrow()

    def plain(kind: Any) -> Any:
        if pa.types.is_timestamp(kind):
            return pa.string()
        if pa.types.is_list(kind):
            return pa.list_(plain(kind.value_type))
        if pa.types.is_struct(kind):
            return pa.struct([pa.field(f.name, plain(f.type)) for f in (kind.field(i) for i in range(kind.num_fields))])
        return kind

    types = pa.schema([pa.field(field.name, plain(field.type)) for field in schema])
    return schema if types.equals(schema) else types
