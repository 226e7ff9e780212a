"""Arrow's types and ours, both ways.

====================================  =============================================================
Arrow                                 Feature
====================================  =============================================================
bool, int, uint, float of any width   the dtype of the same name, shape ``()``
string, large_string, string_view     ``"str"``
binary (also large, view, fixed)      ``"bytes"``
list, large_list of T                 ``(None, *shape of T)``
fixed_size_list of n T                ``(n, *shape of T)``
dictionary of T                       T
struct                                one feature per field, named ``struct/field``
list of structs                       one feature per field, of lists, named ``list/field``
timestamp                             ``datetime64`` of the same unit; with a time zone: in UTC
date32, date64                        ``datetime64[D]``, ``datetime64[ms]``
time, duration                        ``timedelta64`` of the same unit (time: since midnight)
decimal of up to 15 digits            ``float64``, which holds them exactly; of more: refused
map, union, null                      refused
====================================  =============================================================

The schema that our writers leave in a file's own metadata, so that shapes and types come back as they were.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace._optional import require
from headrace.contracts.feature import MOST_AXES, Feature
from headrace.contracts.records import SPARSE_HINT, Misfit
from headrace.contracts.schema import Schema, check_class_names
from headrace.errors import CorruptFile, UnsupportedData, Where
from headrace.formats.table.base import find_steps
from headrace.formats.table.values import twice_error

__all__ = [
    "EXACT_DIGITS",
    "KEY",
    "Leaf",
    "arrow",
    "arrow_compute",
    "arrow_type",
    "check_named_alike",
    "embedded_schema",
    "innermost",
    "is_list",
    "leaves_of",
    "misfits",
    "refuse_unreadable",
    "schema_of_leaves",
    "tensor_order",
    "tensor_shape",
]


EXACT_DIGITS = 15  # decimal digits that float64 gives back unchanged
UNITS = ("s", "ms", "us", "ns")


_imported: list[Any] = []


def arrow() -> Any:
    """The ``pyarrow`` module. Asked for several times for each column, so it is kept.

    Raises:
        MissingExtra: It is not installed.
    """
    if not _imported or sys.modules.get("pyarrow") is not _imported[-1]:
        _imported.append(require("pyarrow", extra="arrow"))
    return _imported[-1]


def arrow_compute() -> Any:
    """``pyarrow.compute``."""
    return require("pyarrow.compute", extra="arrow")


@dataclass(frozen=True, slots=True)
class Leaf:
    """A column that is not a struct.

    Args:
        name: Of the feature: the names on the way to it, with ``/`` between.
        path: Positions on the way: of the column, and of the field in each struct.
        type: Of Arrow. Where the field is in a list of structs, a list of its values.
    """

    name: str
    path: tuple[int, ...]
    type: Any


def leaves_of(schema: Any) -> Iterator[Leaf]:
    """The columns of an Arrow schema, with structs and lists of structs flattened."""
    for position, field in enumerate(schema):
        yield from _leaves(field.name, (position,), field.type)


def _leaves(name: str, path: tuple[int, ...], kind: Any) -> Iterator[Leaf]:
    held = innermost(kind)
    if arrow().types.is_struct(held) and (held.num_fields or held is kind):
        for position in range(held.num_fields):
            field = held.field(position)
            for leaf in _leaves(f"{name}/{field.name}", (*path, position), field.type):
                yield Leaf(leaf.name, leaf.path, _in_lists(kind, leaf.type))
    else:
        yield Leaf(name, path, kind)


def innermost(kind: Any) -> Any:
    """The type of the values in lists, or in lists of lists; another type as it is."""
    while is_list(kind):
        kind = kind.value_type
    return kind


def is_list(kind: Any) -> bool:
    """Whether a type is one of lists."""
    types = arrow().types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _in_lists(lists: Any, kind: Any) -> Any:
    """A type in as many lists as another one has."""
    if not is_list(lists):
        return kind
    inner, types = _in_lists(lists.value_type, kind), arrow().types
    if types.is_fixed_size_list(lists):
        return arrow().list_(inner, lists.list_size)
    return arrow().large_list(inner) if types.is_large_list(lists) else arrow().list_(inner)


def schema_of_leaves(leaves: list[Leaf], where: Where, *, embedded: Schema | None = None) -> Schema:
    """The features of some columns. A schema stored in the file decides where it fits the type.

    Raises:
        UnsupportedData: A type has no feature, or a name is there twice.
    """
    features: dict[str, Feature] = {}
    for leaf in leaves:
        if leaf.name in features:
            raise twice_error(where.at(feature=leaf.name))
        stored = embedded[leaf.name] if embedded is not None and leaf.name in embedded else None
        if stored is not None and _same_storage(stored, leaf.type):
            features[leaf.name] = stored
        else:
            features[leaf.name] = feature_of(leaf.type, where.at(feature=leaf.name))
    return Schema(features)


def _same_storage(feature: Feature, kind: Any) -> bool:
    """Whether a column of an Arrow type, which is dense, holds a feature."""
    try:
        return not feature.sparse and kind in (arrow_type(feature), _in_parquet(arrow_type(feature)))
    except (ValueError, TypeError, KeyError):
        return False


def _in_parquet(kind: Any) -> Any:
    """The type that Parquet gives back for a column. It has no points in time in seconds."""
    pa = arrow()
    if pa.types.is_timestamp(kind) and kind.unit == "s":
        return pa.timestamp("ms")
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_in_parquet(kind.value_type), kind.list_size)
    return pa.list_(_in_parquet(kind.value_type)) if pa.types.is_list(kind) else kind


def refuse_unreadable(schema: Schema, where: Where) -> None:
    """Refuse features of dtypes that no column is read as.

    Raises:
        UnsupportedData: There is one, such as complex numbers.
    """
    for name, feature in schema.items():
        if not feature.is_text and feature.numpy_dtype.kind not in "biufmM":
            expected = "text, bytes, truth values, integers, floats or times"
            raise UnsupportedData(where.at(feature=name), expected=expected, found=repr(feature))


def feature_of(kind: Any, where: Where) -> Feature:
    """The feature of an Arrow type.

    Raises:
        UnsupportedData: There is none.
        CorruptFile: Lists have less than no values.
    """
    if _axes_of(kind) > MOST_AXES:
        raise UnsupportedData(where, expected=f"lists in lists, {MOST_AXES} deep at most", found=f"{_axes_of(kind)}")
    types = arrow().types
    if types.is_dictionary(kind):
        return feature_of(kind.value_type, where)
    if isinstance(kind, arrow().BaseExtensionType):
        return _of_extension(kind, where)
    if types.is_fixed_size_list(kind):
        inner = feature_of(kind.value_type, where)
        return Feature(inner.dtype, (_check_length(kind.list_size, where), *inner.shape))
    if types.is_list(kind) or types.is_large_list(kind):
        inner = feature_of(kind.value_type, where)
        return Feature(inner.dtype, (None, *inner.shape))
    return Feature(_dtype_of(kind, where))


def _axes_of(kind: Any) -> int:
    axes = 0
    while is_list(kind):
        kind, axes = kind.value_type, axes + 1
    return axes


def _of_extension(kind: Any, where: Where) -> Feature:
    inner = feature_of(kind.storage_type, where)
    shape = tensor_shape(kind)
    return inner if shape is None else Feature(inner.dtype, tuple(_check_length(axis, where) for axis in shape))


def _check_length(length: int, where: Where) -> int:
    """The length of lists. Arrow's own description of a file has no checksum, and pyarrow does not check this."""
    if length < 0:
        raise CorruptFile(where, expected="lists of 0 values or more in the schema of the file", found=f"{length}")
    return length


def tensor_shape(kind: Any) -> tuple[int, ...] | None:
    """The shape of the tensors of a type, such as ``arrow.fixed_shape_tensor``; ``None`` for other types."""
    shape = getattr(kind, "shape", None)
    if shape is None:
        return None
    return tuple(shape) if not tensor_order(kind) else tuple(shape[axis] for axis in tensor_order(kind))


def tensor_order(kind: Any) -> tuple[int, ...]:
    """Which stored axis is each axis of a tensor; ``()`` if they are stored in their order."""
    order = tuple(getattr(kind, "permutation", None) or ())
    return () if order == tuple(range(len(order))) else order


def _dtype_of(kind: Any, where: Where) -> str:
    types = arrow().types
    if types.is_string(kind) or types.is_large_string(kind) or str(kind) == "string_view":
        return "str"
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return "bytes"
    if str(kind) == "binary_view":
        return "bytes"
    if types.is_timestamp(kind):
        return f"M8[{kind.unit}]"
    if types.is_date(kind):
        return "M8[D]" if types.is_date32(kind) else "M8[ms]"
    if types.is_time(kind) or types.is_duration(kind):
        return f"m8[{kind.unit}]"
    if types.is_decimal(kind) and kind.precision <= EXACT_DIGITS:
        return "float64"
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind):
        return str(np.dtype(kind.to_pandas_dtype()))
    raise UnsupportedData(
        where, expected="a column that has an array type", found=f"the type {kind}", hint=_hint(kind, where.feature)
    )


def _hint(kind: Any, name: str | None) -> str:
    named = json.dumps(name or "x", ensure_ascii=False)
    if arrow().types.is_null(kind):
        return f'It has no values that show its type. Give it one: schema={{..., {named}: Feature("str", default="")}} reads values of other files, too.'
    if arrow().types.is_decimal(kind):
        return f'Name a dtype for it: schema={{..., {named}: Feature("float64")}} rounds, Feature("str") keeps every digit.'
    return "Name the columns that you want, without this one: schema={...}."


def arrow_type(feature: Feature) -> Any:
    """The Arrow type that holds a feature.

    Raises:
        TypeError: There is none; see :func:`misfits`.
    """
    pa = arrow()
    kind = {"str": pa.string(), "bytes": pa.binary()}.get(feature.dtype)
    if kind is None:
        kind = _number_type(np.dtype(feature.dtype))
    for length in reversed(feature.shape):
        kind = pa.list_(kind) if length is None else pa.list_(kind, length)
    return kind


def _number_type(dtype: np.dtype[Any]) -> Any:
    pa = arrow()
    if dtype.kind in "mM":
        unit, count = np.datetime_data(dtype)
        if dtype.kind == "M" and (unit, count) == ("D", 1):
            return pa.date32()
        if unit not in UNITS or count != 1:
            raise TypeError(f"no Arrow type for {dtype}")
        return pa.timestamp(unit) if dtype.kind == "M" else pa.duration(unit)
    if dtype.kind not in "biuf" or dtype.itemsize > 8:
        raise TypeError(f"no Arrow type for {dtype}")
    return pa.from_numpy_dtype(dtype)


def misfits(schema: Schema) -> list[Misfit]:
    """The features that have no Arrow type."""
    found = find_steps(schema)
    for name, feature in schema.items():
        if feature.dtype == "examples":
            continue
        if feature.sparse:
            instead = Feature(feature.dtype, feature.shape)
            found.append(_misfit(name, feature, "dense columns", instead, SPARSE_HINT))
        elif not feature.is_text and (reason := _unstorable(np.dtype(feature.dtype))) is not None:
            found.append(_misfit(name, feature, *reason, ""))
        elif 0 in feature.shape:
            found.append(_misfit(name, feature, "axes of at least one value", None, ""))
    return found


def _misfit(name: str, feature: Feature, expected: str, instead: Feature | None, hint: str) -> Misfit:
    if instead is not None:
        instead = Feature(instead.dtype, feature.shape)
    return Misfit(feature=name, expected=expected, found=repr(feature), instead=instead, hint=hint)


def _unstorable(dtype: np.dtype[Any]) -> tuple[str, Feature | None] | None:
    """Why Arrow has no type for a dtype, and what to use instead; ``None`` if it has one."""
    if dtype.kind in "mM":
        unit, count = np.datetime_data(dtype)
        if count == 1 and (unit in UNITS or (dtype.kind == "M" and unit == "D")):
            return None
        return "times in days, s, ms, us or ns", Feature(f"{dtype.kind}8[ns]")
    if dtype.kind in "SU":
        return "bytes or str", None
    if dtype.kind == "f" and dtype.itemsize > 8:
        return "floats of up to 64 bits", Feature("float64")
    return None if dtype.kind in "biuf" else ("integers, floats, times, text or bytes", None)


KEY = "headrace.schema"
NAMES_HINT = "Open them as two sources, and give one the numbers of the other with map(). With schema= they are read as that says."


def embedded_schema(text: bytes | str | None) -> Schema | None:
    """The schema in the metadata of a file; ``None`` without a readable one.

    It only ever refines what the file's own types say, so a damaged one costs shapes and names of types, never values.
    """
    if text is None:
        return None
    try:
        return Schema.from_json(text.decode() if isinstance(text, bytes) else text)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def check_named_alike(schema: Schema, paths: Sequence[str], texts: Iterable[bytes | str | None]) -> None:
    """Check that the schemas in the metadata of files name the classes as that of the first file does.

    Args:
        schema: The schema of the first file.
        paths: The files.
        texts: The schema in the metadata of each.

    Raises:
        SchemaMismatch: One names other classes.
    """
    named = {name: feature.names for name, feature in schema.items() if feature.names is not None}
    for path, text in zip(paths, texts, strict=True) if named else ():
        other = embedded_schema(text) or Schema({})
        for name, names in named.items():
            others = other[name].names if name in other else None
            check_class_names(names, others or names, Where(path=path, feature=name), paths[0], NAMES_HINT)
