"""Columns read with native code and without it, for tests that compare both."""

import contextlib
import datetime as dt
import decimal
from collections import Counter
from unittest import mock

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace.formats.parquet.pages import FilePages, NativeColumns

UNITS = ("s", "ms", "us", "ns")
NUMBERS = (
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float32(), pa.float64(), pa.bool_()),
)
TEXTS = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
TIMES = (*(pa.timestamp(unit) for unit in UNITS), *(pa.timestamp(unit, "UTC") for unit in UNITS))
DAYS = (pa.date32(),)
OTHERS = (
    *(pa.float16(), pa.date64(), pa.time32("ms"), pa.time64("us"), pa.duration("ms"), pa.binary(3)),
    *(pa.decimal128(7, 2), pa.decimal128(25, 2), pa.decimal64(12, 1), pa.string_view(), pa.binary_view()),
)
SCALARS = (*NUMBERS, *TEXTS, *TIMES, *DAYS, *OTHERS)


def described(column):
    """All that can be seen of a column."""
    if isinstance(column, hr.Ragged):
        return "lists", described(column.values), column.offsets.tolist()
    if isinstance(column, hr.Strings):
        return "text", repr(column.dtype), column.to_list()
    if isinstance(column, np.ndarray) and column.dtype != object:
        return "array", column.dtype.str, column.shape, column.tobytes(), column.flags.writeable
    return type(column).__name__, repr(column)


def outcome(read):
    """What a call returns, batches as they are described, or its error."""
    try:
        found = read()
    except hr.DataError as error:
        return type(error).__name__, str(error)
    return [(name, described(column)) for name, column in found.items()] if isinstance(found, dict) else found


def portions(path, size, select=None, **options):
    """The rows of files in order, ``size`` at a time, and their schema."""
    try:
        source = hr.open(path, **options)
        source = source.select(*select) if select else source
    except hr.DataError as error:
        return [(type(error).__name__, str(error))]
    batches = [range(at, min(at + size, len(source))) for at in range(0, len(source), size)]
    return [repr(source.schema), *(outcome(lambda rows=rows: source.batch(rows)) for rows in batches)]


@contextlib.contextmanager
def only_pyarrow():
    """Nothing is decoded natively."""
    with mock.patch.object(FilePages, "form", return_value=None):
        yield


@contextlib.contextmanager
def counted():
    """The names of the columns that are decoded natively, and of how many blocks."""
    names, read = Counter(), NativeColumns.read

    def note(*arguments):
        for number, name, column in read(*arguments):
            names[name] += 1
            yield number, name, column

    with mock.patch.object(NativeColumns, "read", note):
        yield names


def compare(read, what=None):
    """What a call gives with native code, which must be the same without."""
    native = read()
    with only_pyarrow():
        assert native == read(), what
    return native


def value_of(kind, rng):
    """Any value of a type that is not nested."""
    if pa.types.is_boolean(kind):
        return rng.random() < 0.5
    if pa.types.is_integer(kind):
        low, high = (-(1 << (kind.bit_width - 1)), 1 << (kind.bit_width - 1))
        low, high = (low, high - 1) if pa.types.is_signed_integer(kind) else (0, 2 * high - 1)
        return rng.choice([low, high, 0, 1, 5, rng.randint(low, high)])
    if pa.types.is_floating(kind):
        found = rng.choice([0.5, -0.0, float("nan"), float("inf"), rng.random() * 1e4])
        return np.float16(found) if pa.types.is_float16(kind) else found
    if pa.types.is_date(kind):
        return dt.date(2000, 1, 1) + dt.timedelta(rng.randint(-9999, 9999))
    if pa.types.is_time(kind):
        return dt.time(rng.randint(0, 23), rng.randint(0, 59))
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return rng.choice([0, 1000, -1000, 1000 * rng.randint(-(10**6), 10**6)])
    if pa.types.is_decimal(kind):
        return decimal.Decimal(rng.randint(-99_999, 99_999)).scaleb(-kind.scale)
    if pa.types.is_fixed_size_binary(kind):
        return rng.randbytes(kind.byte_width)
    size = rng.choice([0, 1, 3, 15, 16, 17, 64, 65, 100])
    is_text = kind in (pa.string(), pa.large_string(), pa.string_view())
    return "".join(rng.choices("abé漢😀", k=size)) if is_text else rng.randbytes(size)


def array_of(kind, rows, nulls, rng):
    """Values of any type. ``nulls``: the share of nulls at each level, of the outer one first; the last one stands for those below."""
    share, below = nulls[0], nulls[1:] or nulls
    absent = pa.array([rng.random() < share for _ in range(rows)], pa.bool_()) if rows else None
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        ends = np.cumsum([0, *(0 if absent[row].as_py() else rng.choice([0, 0, 1, 2, 5]) for row in range(rows))])
        values = array_of(kind.value_type, int(ends[-1]), below if kind.value_field.nullable else (0,), rng)
        lists, offset = (pa.ListArray, pa.int32()) if pa.types.is_list(kind) else (pa.LargeListArray, pa.int64())
        return lists.from_arrays(pa.array(ends, offset), values, type=kind, mask=absent)
    if pa.types.is_fixed_size_list(kind):
        values = array_of(kind.value_type, rows * kind.list_size, below if kind.value_field.nullable else (0,), rng)
        return pa.FixedSizeListArray.from_arrays(values, type=kind, mask=absent)
    if pa.types.is_struct(kind):
        fields = [kind.field(at) for at in range(kind.num_fields)]
        values = [array_of(field.type, rows, below if field.nullable else (0,), rng) for field in fields]
        return pa.StructArray.from_arrays(values, fields=fields, mask=absent)
    if pa.types.is_map(kind):
        return pa.array([[(str(key), key) for key in range(rng.randint(0, 2))] for _ in range(rows)], kind)
    if pa.types.is_dictionary(kind):
        few = [value_of(kind.value_type, rng) for _ in range(4)]
        values = [None if rng.random() < share else rng.choice(few) for _ in range(rows)]
        return pa.array(values, kind.value_type).dictionary_encode().cast(kind)
    few = [value_of(kind, rng) for _ in range(4)] if rng.random() < 0.5 else None
    values = [None if rng.random() < share else rng.choice(few) if few else value_of(kind, rng) for _ in range(rows)]
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return pa.array(values, pa.int64()).cast(kind)
    return pa.array(values, kind)


def table_of(schema, rows, nulls, rng):
    """A table of any values. ``nulls``: of each column, see :func:`array_of`."""
    arrays = [
        array_of(field.type, rows, share if field.nullable else (0, *share[1:]), rng)
        for field, share in zip(schema, nulls, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=schema)
