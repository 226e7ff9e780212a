"""Arrow arrays as columns of batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace._native import check_strings
from headrace.contracts.feature import Feature
from headrace.contracts.strings import Strings
from headrace.contracts.values import Ragged
from headrace.formats.table.arrow_types import Leaf, arrow, arrow_compute, is_list, tensor_order, tensor_shape
from headrace.formats.table.column_cache import RecurringTexts
from headrace.formats.table.leaves import RowOrigins, integers, is_null, leaf_values, numbers_of, numbers_or_zero
from headrace.formats.table.values import BadValue, missing

__all__ = ["from_arrow", "held_from_arrow", "inner_array", "leaf_array", "take_from", "without_views"]

VIEWS = ("string_view", "binary_view")
TEXTS = {13: ("i4", True), 14: ("i4", False), 34: ("i8", True), 35: ("i8", False)}
"""Arrow's ids of text and bytes, and large ones: the dtype of their offsets, and whether it is text."""


def leaf_array(table: Any, leaf: Leaf, root: int) -> Any:
    """The array of one column of a table, with structs flattened; ``root`` is the position of its first column in ``table``."""
    column = table.column(root)
    chunks = [inner_array(chunk, leaf.path[1:]) for chunk in getattr(column, "chunks", [column])]
    if len(chunks) == 1:  # Combining copies even one.
        return chunks[0]
    return _concatenate(chunks) if chunks else arrow().nulls(0, leaf.type)


def inner_array(array: Any, path: Sequence[int]) -> Any:
    """The field of structs at these positions, outermost first. That of a list of structs is a list of its values."""
    if not path:
        return array
    if not is_list(array.type):
        return inner_array(arrow_compute().struct_field(array, [path[0]]), path[1:])
    values = inner_array(array.flatten(), path)
    offsets = integers(_offsets(array, fixed=arrow().types.is_fixed_size_list(array.type)))
    mask = array.is_null() if array.null_count else None
    return arrow().LargeListArray.from_arrays(offsets, values, mask=mask)


def _concatenate(chunks: list[Any]) -> Any:
    """Chunks as one array, with offsets of 64 bits where 32 are too few."""
    pa, kind = arrow(), chunks[0].type
    try:
        return pa.concat_arrays(chunks)
    except pa.ArrowInvalid:
        return pa.concat_arrays([chunk.cast(_large(kind)) for chunk in chunks])


def without_views(table: Any) -> Any:
    """The table with plain text and bytes in place of views, of which Arrow cannot take rows by number. It can of dictionaries."""
    pa = arrow()
    kinds = [(field, str(field.type)) for field in table.schema]
    fields = [
        field.with_type(_large(field.type)) if "_view" in kind and "dictionary" not in kind else field
        for field, kind in kinds
    ]
    return table.cast(pa.schema(fields, table.schema.metadata))


def take_from(table: Any, rows: Sequence[int] | npt.NDArray[np.int64]) -> Any:
    """Rows of a table by number."""
    pa = arrow()
    try:
        return table.take(integers(rows))
    except NotImplementedError:  # Arrow cannot do it for views.
        return pa.concat_tables([table.slice(int(row), 1) for row in rows])


def _large(kind: Any) -> Any:
    """A type that holds the same values with offsets of 64 bits."""
    pa, types = arrow(), arrow().types
    if types.is_dictionary(kind):
        return _large(kind.value_type)
    if types.is_fixed_size_list(kind):
        return pa.list_(_large(kind.value_type), kind.list_size)
    if types.is_list(kind) or types.is_large_list(kind):
        return pa.large_list(_large(kind.value_type))
    if types.is_struct(kind):
        return pa.struct([kind.field(at).with_type(_large(kind.field(at).type)) for at in range(kind.num_fields)])
    if types.is_string(kind) or str(kind) == VIEWS[0]:
        return pa.large_string()
    if types.is_binary(kind) or str(kind) == VIEWS[1] or types.is_fixed_size_binary(kind):
        return pa.large_binary()
    return kind


def from_arrow(array: Any, feature: Feature) -> Any:
    """The batch column of an Arrow array under a feature.

    Raises:
        BadValue: A value does not fit: a null without default, a list of another length, a number that is too large.
    """
    return _column(array, feature.shape, feature, RowOrigins())


def held_from_arrow(array: Any, feature: Feature) -> Any:
    """The same for a column that is kept: text or bytes of which many recur may be held once each."""
    found = None if feature.shape or array.null_count else _recurring(array, feature)
    if found is None:
        return from_arrow(array, feature)
    return found if found.is_worth_it() else found[:]


def _column(array: Any, shape: tuple[int | None, ...], feature: Feature, rows: RowOrigins) -> Any:
    if not shape and array.null_count == 0 and (found := _whole_column(array, feature)) is not None:
        return found
    array = _plain(array)
    if not shape:
        return leaf_values(array, feature, rows)
    types = arrow().types
    fixed = types.is_fixed_size_list(array.type)
    if not is_list(array.type):
        raise BadValue(rows[0] if len(array) else 0, f"lists for the shape {feature.shape}", str(array.type))
    length = shape[0]
    is_even = fixed and array.type.list_size == length and array.null_count == 0
    offsets = length if is_even and length else _offsets(array, fixed=fixed)
    if length is not None and not is_even:
        lengths = np.diff(offsets)
        if (wrong := np.flatnonzero(lengths != length)).size:
            at = int(wrong[0])
            if array[at].is_valid:
                raise BadValue(rows[at], f"{length} values", f"{lengths[at]}")
            return _with_defaults(array, feature, rows, at)
    inner = _column(array.flatten(), shape[1:], feature, RowOrigins(rows, offsets))
    if length is not None and not isinstance(inner, Ragged):
        return inner.reshape(len(array), length, *inner.shape[1:])
    return Ragged(inner, _offsets(array, fixed=fixed) if isinstance(offsets, int) else offsets)


def _whole_column(array: Any, feature: Feature) -> Any:
    """The column of an array without nulls, converted as a whole; ``None`` where values have to be looked at."""
    found = numbers_of(array)
    if found is not None and found.dtype == feature.numpy_dtype:
        return found
    if not feature.is_text:
        return None
    recurring = _recurring(array, feature)
    return _strings(array, feature) if recurring is None else recurring[:]


def _strings(array: Any, feature: Feature) -> Strings | None:
    """Intact text or bytes of the feature's kind, which share Arrow's memory; ``None`` for anything else."""
    dtype, is_text = TEXTS.get(array.type.id, ("", False))
    if not dtype or not len(array) or is_text != (feature.dtype == "str"):
        return None
    _, ends, content = array.buffers()
    size = np.dtype(dtype).itemsize
    offsets = np.frombuffer(ends, dtype, len(array) + 1, array.offset * size).astype(np.int64, copy=False)
    data = np.frombuffer(content or b"", np.uint8)
    data.flags.writeable = offsets.flags.writeable = False
    return Strings.trust(data, offsets, is_text) if check_strings(data, offsets, is_text) == (-1, -1) else None


def _recurring(array: Any, feature: Feature) -> RecurringTexts | None:
    """The text or bytes of a dictionary's array without nulls; ``None`` for anything else, and for damaged ones."""
    if not arrow().types.is_dictionary(array.type) or array.dictionary.null_count:
        return None
    texts = _strings(_with_large_offsets(array.dictionary), feature)
    codes = array.indices.to_numpy(zero_copy_only=False)
    if texts is None or not len(codes) or codes.min() < 0 or codes.max() >= len(texts):
        return None
    return RecurringTexts(texts, codes)


def _plain(array: Any) -> Any:
    """Dictionaries and extension types decoded to their values."""
    pa = arrow()
    if isinstance(array.type, pa.BaseExtensionType):
        kind, array = array.type, array.storage
        if order := tensor_order(kind):
            array = _transpose(array, kind.shape, order)
        for length in reversed((tensor_shape(kind) or ())[1:]):
            array = _fold(array, length)
    return _decode(array) if pa.types.is_dictionary(array.type) else array


def _decode(array: Any) -> Any:
    """The values of a dictionary's array."""
    words = _with_large_offsets(array.dictionary)
    if words is not array.dictionary:
        array = arrow().DictionaryArray.from_arrays(array.indices, words)
    return array.dictionary_decode()


def _with_large_offsets(words: Any) -> Any:
    """The values of a dictionary, text and bytes with offsets of 64 bits: all rows together may need them, and Arrow cannot decode the
    views that Polars' categories are.
    """
    kind = _large(words.type)
    return words if kind == words.type else words.cast(kind)


def _transpose(array: Any, shape: Sequence[int], order: Sequence[int]) -> Any:
    """Lists of the values of a tensor, in the order of other axes."""
    size = array.type.list_size
    one = np.arange(size).reshape(shape).transpose(order).reshape(-1)
    places = (np.arange(len(array))[:, None] * size + one).reshape(-1)
    return _lists(_values(array).take(integers(places)), size, array)


def _fold(array: Any, length: int) -> Any:
    """A list of ``a * length`` values as one of ``a`` lists of ``length``."""
    inner = arrow().FixedSizeListArray.from_arrays(_values(array), length)
    return _lists(inner, array.type.list_size // length, array)


def _values(array: Any) -> Any:
    """The values of lists of a fixed size, with those under nulls, which ``flatten`` leaves out."""
    size = array.type.list_size
    return array.values.slice(array.offset * size, len(array) * size)


def _lists(values: Any, size: int, like: Any) -> Any:
    """Values as lists of a fixed size, of which those are null that are null in another array."""
    mask = like.is_null() if like.null_count else None
    return arrow().FixedSizeListArray.from_arrays(values, size, mask=mask)


def _offsets(array: Any, *, fixed: bool) -> npt.NDArray[np.int64]:
    """Where each list begins in the values of an array of lists, and where the last one ends. A null is an empty list."""
    count = len(array)
    if array.null_count == 0 and count and not fixed:
        dtype = np.dtype(np.int64 if arrow().types.is_large_list(array.type) else np.int32)
        found = np.frombuffer(array.buffers()[1], dtype, count + 1, array.offset * dtype.itemsize)
        return np.asarray(found - found[0], np.int64)
    offsets = np.zeros(count + 1, np.int64)
    lengths: Any = np.full(count, array.type.list_size, np.int64) if fixed else None
    if lengths is None:
        lengths = numbers_or_zero(arrow_compute().list_value_length(array))
    elif array.null_count:
        lengths[is_null(array)] = 0
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _with_defaults(array: Any, feature: Feature, rows: RowOrigins, at: int) -> Any:
    """The column of an array in which whole rows are missing: they are the default."""
    if feature.default is None or rows.above is not None or not feature.is_fixed:
        raise missing(rows[at])
    held = ~is_null(array)
    places = np.concatenate([np.zeros(1, np.int64), np.cumsum(held)])
    column = _column(array.drop_null(), feature.shape, feature, RowOrigins(rows, places))
    filled = np.empty((len(array), *column.shape[1:]), feature.numpy_dtype)
    filled[held] = np.asarray(column)
    filled[~held] = np.asarray(feature.default, feature.numpy_dtype)
    return Strings.from_values(filled, is_text=feature.dtype == "str") if feature.is_text else filled
