"""Conversion between Avro types and features.

==================================  ==============================================================
Avro                                Feature
==================================  ==============================================================
boolean, int, long, float, double   ``bool``, ``int32``, ``int64``, ``float32``, ``float64``
string, enum, uuid                  ``"str"``
bytes, fixed                        ``"bytes"``
array of T                          ``(None, *shape of T)``
record                              one feature per field, named ``record/field``
array of records                    one feature per field, of arrays, named ``array/field``
union of null and T                 T, where null is a missing value
date                                ``datetime64[D]``
timestamp-millis, -micros           ``datetime64[ms]``, ``datetime64[us]``, in UTC
time-millis, -micros                ``timedelta64[ms]``, ``timedelta64[us]``, since midnight
decimal of up to 15 digits          ``float64``, which holds them exactly; of more: refused
map, other unions                   refused
==================================  ==============================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np

from headrace.contracts.feature import Feature
from headrace.errors import UnsupportedData, Where
from headrace.formats.table.values import Keys, name_of

__all__ = [
    "MOST_EMPTY",
    "AvroField",
    "ItemCounter",
    "avro_type",
    "fields_of",
    "has_empty_items",
    "plain",
    "stored_times",
    "takes_bytes",
    "too_deep_error",
    "without_times",
]

EXACT_DIGITS = 15
MOST_DEEP = 64
PLAIN = {
    "boolean": "bool",
    "int": "int32",
    "long": "int64",
    "float": "float32",
    "double": "float64",
    "string": "str",
    "bytes": "bytes",
    "fixed": "bytes",
    "enum": "str",
}
LOGICAL = {
    "date": "M8[D]",
    "timestamp-millis": "M8[ms]",
    "timestamp-micros": "M8[us]",
    "local-timestamp-millis": "M8[ms]",
    "local-timestamp-micros": "M8[us]",
    "time-millis": "m8[ms]",
    "time-micros": "m8[us]",
    "uuid": "str",
}
TIMES = frozenset(LOGICAL) - {"uuid"}
BASES = {"date": ("int",), "time-millis": ("int",), "uuid": ("string", "fixed"), "decimal": ("bytes", "fixed")}
"""The types that logical types stand for; of other times ``long``. Elsewhere they are to be ignored."""
STORED = {"b": "boolean", "i1": "int", "i2": "int", "i4": "int", "i8": "long", "u1": "int", "u2": "int", "u4": "long"}


class AvroField(NamedTuple):
    """A leaf field.

    Attributes:
        name: The feature name: the fields on the path to it, joined by ``/``.
        keys: Those fields. ``None`` stands for the items of an array of records.
        type: The Avro type, without ``null``. In an array of records, an array of its values.
    """

    name: str
    keys: Keys
    type: Any

    def feature(self, where: Where) -> Feature:
        """The type of the feature.

        Raises:
            UnsupportedData: No array type fits.
        """
        return _feature(self.type, where.at(feature=self.name))


def fields_of(schema: Any, where: Where) -> Iterator[AvroField]:
    """The leaf fields of an Avro schema as returned by :func:`fastavro.parse_schema`."""
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise UnsupportedData(where, expected="records", found=f"items of the type {schema!r}")
    _check_finite(schema, (), 0, where)
    known: dict[str, Any] = {}
    yield from _fields(schema, (), known, where, 0)


def too_deep_error(where: Where) -> UnsupportedData:
    """The error for types nested too deeply."""
    return UnsupportedData(
        where, expected="types that are not recursive", found=f"more than {MOST_DEEP} types in each other"
    )


def _check_finite(kind: Any, inside: tuple[str, ...], depth: int, where: Where) -> None:
    """Refuse recursive or deeply nested types: at a few bytes per level, a file could exhaust the stack.

    Args:
        kind: A type.
        inside: The names of the enclosing types.
        depth: The number of enclosing types, named or not.
        where: The file.
    """
    name = kind if isinstance(kind, str) else kind.get("name", "") if isinstance(kind, dict) else ""
    if depth > MOST_DEEP or name in inside:
        raise (
            UnsupportedData(where, expected="types that are not recursive", found=f"{name!r} in itself")
            if name in inside
            else too_deep_error(where)
        )
    if isinstance(kind, list):
        inner: list[Any] = kind
    elif isinstance(kind, dict):
        of_fields = [field["type"] for field in kind.get("fields", ())]
        inner = [*of_fields, *(kind[key] for key in ("items", "values") if key in kind)]
        inner += [kind["type"]] if isinstance(kind.get("type"), (dict, list)) else []
    else:
        return
    names = (*inside, name) if name else inside
    for each in inner:
        _check_finite(each, names, depth + 1, where)


def _fields(record: Any, keys: Keys, known: dict[str, Any], where: Where, depth: int) -> Iterator[AvroField]:
    if depth > 16:
        raise UnsupportedData(where, expected="records nested at most 16 deep", found=name_of(keys))
    known[record.get("name", "")] = record
    for field in record["fields"]:
        path = (*keys, field["name"])
        kind = _without_null(field["type"], known)
        arrays, inner = 0, kind
        while isinstance(inner, dict) and inner.get("type") == "array":
            arrays, inner = arrays + 1, _without_null(inner["items"], known)
        if isinstance(inner, dict) and inner.get("type") == "record" and (inner["fields"] or not arrays):
            for leaf in _fields(inner, path + (None,) * arrays, known, where, depth + 1):
                yield leaf._replace(type=_in_arrays(leaf.type, arrays))
        else:
            yield AvroField(name_of(path), path, _resolve(kind, known))


def _in_arrays(kind: Any, arrays: int) -> Any:
    return {"type": "array", "items": _in_arrays(kind, arrays - 1)} if arrays else kind


def _without_null(kind: Any, known: dict[str, Any]) -> Any:
    if isinstance(kind, list):
        others = [item for item in kind if item != "null"]
        kind = others[0] if len(others) == 1 else kind
    if isinstance(kind, str):
        return known.get(kind, kind)
    if isinstance(kind, dict) and "name" in kind:
        known[kind["name"]] = kind
    return kind


def _resolve(kind: Any, known: dict[str, Any]) -> Any:
    """The type with named references resolved."""
    if isinstance(kind, dict) and kind.get("type") == "array":
        return {"type": "array", "items": _resolve(_without_null(kind["items"], known), known)}
    return kind


def _logical(kind: Any) -> str | None:
    """The logical type of a type, if it has one that is known and goes with it."""
    logical = kind.get("logicalType") if isinstance(kind, dict) else None
    is_known = isinstance(logical, str) and (logical in LOGICAL or logical == "decimal")
    return logical if is_known and kind.get("type") in BASES.get(str(logical), ("long",)) else None


def _feature(kind: Any, where: Where) -> Feature:
    name = kind.get("type") if isinstance(kind, dict) else kind
    logical = _logical(kind)
    if name == "array":
        inner = _feature(kind["items"], where)
        return Feature(inner.dtype, (None, *inner.shape))
    if logical == "decimal":
        if int(kind.get("precision", EXACT_DIGITS + 1)) <= EXACT_DIGITS:
            return Feature("float64")
    elif logical in LOGICAL:
        return Feature(LOGICAL[logical])
    elif isinstance(name, str) and name in PLAIN:
        return Feature(PLAIN[name])
    raise UnsupportedData(
        where,
        expected="a field that has an array type",
        found=f"the type {kind!r}"[:120],
        hint="Name the fields that you want, without this one: schema={...}.",
    )


def stored_times(kind: Any, feature: Feature) -> np.dtype[Any] | None:
    """The dtype of the timestamps or durations that a type stores as integers; ``None`` if it stores neither, or the feature holds neither.

    Times of day are those of the first day, 1970-01-01, where points in time are wanted, as in Parquet.
    """
    while isinstance(kind, dict) and kind.get("type") == "array":
        kind = kind["items"]
    logical = _logical(kind)
    wanted = feature.numpy_dtype.kind
    if logical not in TIMES or wanted not in "mM":
        return None
    stored = np.dtype(LOGICAL[logical])
    return np.dtype(stored.str.replace("m8", "M8")) if wanted == "M" else stored


def without_times(kind: Any) -> Any:
    """The schema with timestamps as the stored integers: Python's end at the year 9999, and have no NaT."""
    if isinstance(kind, list):
        return [without_times(each) for each in kind]
    if not isinstance(kind, dict):
        return kind
    left = {key: value for key, value in kind.items() if key != "logicalType" or _logical(kind) in ("uuid", "decimal")}
    for key in ("type", "items", "values"):
        if key in left:
            left[key] = without_times(left[key])
    if "fields" in left:
        left["fields"] = [{**field, "type": without_times(field["type"])} for field in left["fields"]]
    return left


def plain(kind: Any, feature: Feature) -> Callable[[Any], Any] | None:
    """Converts fastavro's values to ones that NumPy understands; ``None`` if no conversion is needed."""
    name = kind.get("type") if isinstance(kind, dict) else kind
    logical = _logical(kind)
    if name == "array":
        inner = plain(kind["items"], feature)
        return None if inner is None else lambda values: None if values is None else [inner(value) for value in values]
    if logical == "uuid":
        return _uuid_as_text if name == "string" or feature.dtype != "bytes" else None
    if logical == "decimal":
        if feature.dtype == "str":
            return _decimal_as_text
        return _decimal_as_integer if feature.numpy_dtype.kind in "iu" else _decimal_as_float
    return None


def _uuid_as_text(value: Any) -> Any:
    return None if value is None else str(UUID(bytes=value) if isinstance(value, bytes) else value)


def _decimal_as_text(value: Any) -> Any:
    return None if value is None else f"{value:f}"


def _decimal_as_float(value: Any) -> Any:
    return None if value is None else float(value)


def _decimal_as_integer(value: Any) -> Any:
    """Every digit of a whole number, of which a float holds 15. Another one is left for the feature to refuse."""
    return int(value) if value is not None and value == int(value) else _decimal_as_float(value)


def avro_type(feature: Feature) -> Any:
    """The Avro type of a feature."""
    if feature.is_text:
        kind: Any = "string" if feature.dtype == "str" else "bytes"
    else:
        dtype = np.dtype(feature.dtype)
        if dtype.kind == "M":
            unit = np.datetime_data(dtype)[0]
            logical = {"D": "date", "ms": "timestamp-millis", "us": "timestamp-micros"}[unit]
            kind = {"type": "int" if unit == "D" else "long", "logicalType": logical}
        elif dtype.kind == "m":
            kind = "long"
        elif dtype.kind == "f":
            kind = "double" if dtype.itemsize == 8 else "float"
        else:
            kind = STORED[dtype.kind if dtype.kind == "b" else f"{dtype.kind}{dtype.itemsize}"]
    for _ in feature.shape:
        kind = {"type": "array", "items": kind}
    return kind


MOST_EMPTY = 1 << 20
"""The most items without bytes in the arrays of one block."""
SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
COUNTED = ("bytes", "string")


def has_empty_items(kind: Any, named: dict[str, Any]) -> bool:
    """Whether a type has such arrays. ``named`` gets the types that have names."""
    if isinstance(kind, list):
        inner = kind
    elif isinstance(kind, dict):
        inner = [field["type"] for field in kind.get("fields", ())]
        inner += [kind[key] for key in ("type", "values", "items") if key in kind]
        if "name" in kind:
            named[kind["name"]] = kind
    else:
        return False
    found = [has_empty_items(each, named) for each in inner]  # in all of them: each may have names
    return any(found) or ("items" in kind and not takes_bytes(kind["items"], named))


def takes_bytes(kind: Any, named: dict[str, Any]) -> bool:
    """Whether every value of a type takes at least one byte."""
    if isinstance(kind, str):
        return takes_bytes(named[kind], named) if kind in named else kind != "null"
    if not isinstance(kind, dict) or kind.get("type") in ("array", "map", "enum"):
        return True  # of a union, its branch is stored
    if "fields" in kind:
        return any(takes_bytes(field["type"], named) for field in kind["fields"])
    return int(kind["size"]) > 0 if kind.get("type") == "fixed" else takes_bytes(kind.get("type"), named)


class ItemCounter:
    """Walks the records of a block, and counts the items that take no bytes.

    Args:
        content: The block, decompressed.
        named: The types that have names.
    """

    def __init__(self, content: bytes, named: dict[str, Any]) -> None:
        self._content = content
        self._named = named
        self._at = 0
        self.items = 0

    def skip(self, kind: Any) -> None:
        """Pass over one value.

        Raises:
            ValueError: It has too many items, or does not end.
        """
        if isinstance(kind, list):
            return self.skip(kind[self._long()])
        name = kind if isinstance(kind, str) else kind.get("type")
        if isinstance(kind, str) and kind in self._named:
            return self.skip(self._named[kind])
        if not isinstance(name, str):
            return self.skip(name)
        if name in SIZES or name == "fixed":
            return self._pass(SIZES[name] if name in SIZES else int(kind["size"]))
        if name in COUNTED:
            return self._pass(self._long())
        if name in ("int", "long", "enum"):
            self._long()
        elif name in ("array", "map"):
            self._skip_items(kind.get("items", kind.get("values")), is_map=name == "map")
        else:
            for field in kind["fields"]:
                self.skip(field["type"])
        return None

    def _skip_items(self, kind: Any, *, is_map: bool) -> None:
        is_empty = not is_map and not takes_bytes(kind, self._named)
        while count := self._long():
            if count < 0:
                count, _ = -count, self._long()  # and the bytes of these items
            if is_empty:
                self.items += count
                if self.items > MOST_EMPTY:
                    raise ValueError(f"more than {MOST_EMPTY:,} items that take no bytes")
                continue
            for _ in range(count):
                if is_map:
                    self._pass(self._long())
                self.skip(kind)

    def _pass(self, size: int) -> None:
        if not 0 <= size <= len(self._content) - self._at:
            raise ValueError("a value beyond the end of its block")
        self._at += size

    def _long(self) -> int:
        value = shift = 0
        while True:
            self._pass(1)
            byte = self._content[self._at - 1]
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return (value >> 1) ^ -(value & 1)
            if shift > 63:
                raise ValueError("a number of more than 64 bits")
