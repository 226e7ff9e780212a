"""The values of Arrow arrays in the dtypes of a schema."""

import datetime as dt
import decimal
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.formats.table.arrow import from_arrow
from headrace.formats.table.leaves import integers, is_null, numbers_or_zero, scalar
from headrace.formats.table.to_arrow import to_arrow
from headrace.formats.table.values import BadValue

DAY, POINT = np.datetime64("2020-01-02"), np.datetime64("2020-01-02T03:04:05")
PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


@pytest.mark.parametrize(
    ("values", "kind", "dtype", "default"),
    [
        ([1, None], pa.int8(), "float64", 0.5),
        ([1, None], pa.int8(), "float32", 0.5),
        ([1, None], pa.int8(), "int64", 1000),
        ([1, None], pa.int8(), "bool", True),
        ([0, None], pa.float64(), "bool", True),
        ([1, None], pa.uint8(), "int64", -1),
        ([1.5, None], pa.float32(), "float64", 1e300),
        ([1.5, None], pa.float32(), "float64", 0.1),
        ([1.5, None], pa.float64(), "float32", 0.1),
        ([1.5, None], pa.float64(), "float16", 7.0),
        ([1.5, None], pa.float16(), "float64", 1e300),
        ([True, None], pa.bool_(), "int64", 7),
        ([True, None], pa.bool_(), "bool", False),
        (["1", None], pa.string(), "int64", 7),
        (["1", None], pa.dictionary(pa.int32(), pa.string()), "int64", 7),
        (["1", None], pa.string(), "float64", None),
        ([1, None], pa.int64(), "str", "none"),
        ([decimal.Decimal("1.25"), None], pa.decimal128(5, 2), "float64", 0.1),
        ([DAY.item(), None], pa.date32(), "M8[D]", np.datetime64("1999-01-01")),
        ([DAY.item(), None], pa.date32(), "M8[s]", POINT),
        ([POINT, None], pa.timestamp("s"), "M8[ns]", POINT),
        ([DAY.astype("M8[us]"), None], pa.timestamp("us"), "M8[D]", DAY),
        ([POINT, None], pa.timestamp("s"), "M8[s]", POINT.astype("M8[ns]")),
        ([1, None], pa.int32(), "M8[s]", POINT),
        (["2020-01-02T03:04:05", None], pa.string(), "M8[s]", POINT),
        (["2020-01-02T03", None], pa.string(), "M8[h]", np.datetime64("1999-01-01T05")),
        ([dt.time(0, 0, 1), None], pa.time32("ms"), "m8[ms]", np.timedelta64(5, "s")),
        ([dt.time(0, 0, 1), None], pa.time64("us"), "m8[ns]", np.timedelta64(5, "ns")),
        ([1, None], pa.duration("s"), "m8[s]", np.timedelta64(1, "m")),
        ([1, None], pa.duration("s"), "m8[s]", None),
    ],
)
def test_a_missing_value_is_the_default_whatever_the_type_of_the_column(values, kind, dtype, default):
    """Filled in before a cast, it would be cast to the type in the file."""
    feature = hr.Feature(dtype, default=default)
    array = pa.array(values, kind) if not pa.types.is_dictionary(kind) else pa.array(values).dictionary_encode()
    first = from_arrow(array[:1], feature)[0]
    wanted = default if dtype == "str" else np.array("NaT" if dtype[0] in "mM" and default is None else default, dtype)
    for shape, nested in (
        ((), array),
        ((None,), pa.array([values], pa.list_(array.type))),
        ((2,), pa.array([values], pa.list_(array.type, 2))),
    ):
        found = from_arrow(nested, hr.Feature(dtype, shape, default=default))
        found = found if not shape else found[0]
        assert found.dtype == feature.numpy_dtype or dtype == "str"
        assert found[0] == first
        assert np.array_equal(found[1], wanted, equal_nan=dtype != "str" and np.dtype(dtype).kind in "fmM")


def test_what_lies_under_a_null_is_not_looked_at():
    data = pa.array([1.5, 1e300, 2.5]).buffers()[1]
    array = pa.Array.from_buffers(pa.float64(), 3, [pa.py_buffer(bytes([0b101])), data])
    assert from_arrow(array, hr.Feature("float32", default=-1)).tolist() == [1.5, -1, 2.5]
    assert from_arrow(array[1:], hr.Feature("float32", default=-1)).tolist() == [-1, 2.5]


@pytest.mark.parametrize("kind", [pa.list_(pa.int8()), pa.list_(pa.int8(), 2), pa.large_list(pa.int8())])
@pytest.mark.parametrize("rows", [[[1, 2], None, [3, 4]], [None, [1, 2]], [[1, 2], None], [None, None]])
def test_a_missing_row_is_the_default(kind, rows):
    wanted = [[0.5, 1e300] if row is None else row for row in rows]
    feature = hr.Feature("float64", (2,), default=[0.5, 1e300])
    assert from_arrow(pa.array(rows, kind), feature).tolist() == wanted
    assert from_arrow(pa.array([[9, 9], *rows], kind)[1:], feature).tolist() == wanted
    words = hr.Feature("str", (2,), default=["a", "b"])
    texts = pa.array([None if row is None else list(map(str, row)) for row in rows], pa.list_(pa.string()))
    assert from_arrow(texts, words).tolist() == [["a", "b"] if row is None else list(map(str, row)) for row in rows]


def test_beside_a_missing_row_values_are_checked():
    kind = pa.list_(pa.float64(), 2)
    for later, dtype in (([1e300, 0], "float32"), ([0.5, 0], "int64"), ([2, 0], "bool")):
        with pytest.raises(BadValue) as raised:
            from_arrow(
                pa.array([[1, 0], None, [0, 1], later], kind),
                hr.Feature(dtype, (2,), default=0 if dtype != "bool" else False),
            )
        assert raised.value.row == 3


@pytest.mark.parametrize(
    ("array", "dtype", "row"),
    [
        (pa.array([1.0, 0.1]), "bool", 1),
        (pa.array([0, 1, 300]), "bool", 2),
        (pa.array([-1], pa.int8()), "bool", 0),
        (pa.array([0, float("nan")]), "bool", 1),
        *((pa.array([0, per_day, per_day + 1], pa.timestamp(unit)), "M8[D]", 2) for unit, per_day in PER_DAY.items()),
        (pa.array([0, None, -1], pa.timestamp("us", "Europe/Berlin")), "M8[D]", 2),
        (pa.array([0, 1500], pa.timestamp("ms")), "m8[ms]", 0),
        (pa.array([0, 1500], pa.timestamp("ms")), "M8[s]", 1),
        (pa.array([0, 1500], pa.time32("ms")), "m8[s]", 1),
        (pa.array([0, 1], pa.time64("us")), "M8[D]", 0),
        (pa.array([0, 2**63], pa.uint64()), "M8[s]", 1),
        (pa.array([decimal.Decimal(1)]), "bool", 0),
        (pa.array([5], pa.time64("us")), "bool", 0),
        (pa.array([5], pa.timestamp("us")), "bool", 0),
        (pa.array([5], pa.duration("us")), "bool", 0),
        (pa.array([1, 65_504, 70_000]), "float16", 2),
        (pa.array([1, 2049], pa.uint16()), "float16", 1),
        (pa.array([1, None, 2**24 + 1]), "float32", 2),
        (pa.array([None, 2**53, 2**53 + 1]), "float64", 2),
        (pa.array([2**64 - 1], pa.uint64()), "float64", 0),
    ],
)
def test_values_that_would_change_are_refused(tmp_path, array, dtype, row):
    with pytest.raises(BadValue) as raised:
        from_arrow(array, hr.Feature(dtype))
    assert raised.value.row == row
    pq.write_table(pa.table({"x": array}), tmp_path / "x.parquet")
    with pytest.raises(hr.SchemaMismatch) as refused:
        hr.open(tmp_path / "x.parquet", schema={"x": hr.Feature(dtype)}).batch(range(len(array)))
    assert (refused.value.where.record, refused.value.where.feature) == (row, "x")


def test_values_that_stay_are_read():
    assert from_arrow(pa.array([0, 1], pa.uint8()), hr.Feature("bool")).tolist() == [False, True]
    assert from_arrow(pa.array([-0.0, 1]), hr.Feature("bool")).tolist() == [False, True]
    for unit, per_day in PER_DAY.items():
        for zone in (None, "Asia/Tokyo"):
            days = from_arrow(pa.array([-per_day, None, 2 * per_day], pa.timestamp(unit, zone)), hr.Feature("M8[D]"))
            assert days.dtype == "M8[D]"
            assert days.astype(str).tolist() == ["1969-12-31", "NaT", "1970-01-03"]
    for values, dtype in (
        ([2**62, -(2**63)], "float64"),
        ([2**25, 2**24 - 1], "float32"),
        ([65504, -2048], "float16"),
    ):
        assert from_arrow(pa.array(values), hr.Feature(dtype)).astype(float).tolist() == values
        assert from_arrow(pa.array([*values, None]), hr.Feature(dtype))[:2].astype(float).tolist() == values
    times = pa.array([1, 86399], pa.time32("s"))
    for unit, factor in (("s", 1), ("ms", 1000), ("ns", 1_000_000_000)):
        assert from_arrow(times, hr.Feature(f"m8[{unit}]")).astype(int).tolist() == [factor, 86399 * factor]
    assert from_arrow(times, hr.Feature("int64")).tolist() == [1, 86399]


@pytest.mark.parametrize("order", [None, [0, 1, 2], [1, 0, 2], [2, 1, 0], [0, 2, 1], [2, 0, 1], [1, 2, 0]])
def test_tensors_whose_axes_are_stored_in_another_order(tmp_path, order):
    storage = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(96, dtype="i4")), 24)
    array = pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.int32(), [2, 3, 4], permutation=order), storage)
    wanted = np.arange(96).reshape(4, 2, 3, 4).transpose(0, *(axis + 1 for axis in order or (0, 1, 2)))
    if order not in ([2, 0, 1], [1, 2, 0]):  # pyarrow mixes up their strides
        assert np.array_equal(array.to_numpy_ndarray(), wanted)
    pq.write_table(pa.table({"x": array}), tmp_path / "x.parquet")
    for source in (
        hr.open(tmp_path / "x.parquet"),
        hr.open(pa.table({"x": array})),
        hr.open(pa.table({"x": array}).slice(1)),
    ):
        assert source.schema["x"] == hr.Feature("int32", wanted.shape[1:])
        assert np.array_equal(source.batch(range(len(source)))["x"], wanted[4 - len(source) :])
        assert np.array_equal(source[2]["x"], wanted[2 + 4 - len(source)])
    missing = pa.ExtensionArray.from_storage(array.type, pa.array([None, list(range(24))], storage.type))
    column = from_arrow(missing, hr.Feature("int32", wanted.shape[1:], default=-1))
    assert np.array_equal(column, [np.full(wanted.shape[1:], -1), wanted[0]])


ZONED = [
    ("2024-01-01T00:00:00Z", "2024-01-01T00:00:00"),
    ("2024-01-01 02:00Z", "2024-01-01T02:00"),
    ("2024-01-01T02:00:00+02:00", "2024-01-01T00:00:00"),
    ("2024-01-01T02:00:00.125-0330", "2024-01-01T05:30:00.125"),
    ("1969-12-31T23:30-00:30", "1970-01-01T00:00"),
]


@pytest.mark.parametrize(("text", "expected"), ZONED)
@pytest.mark.parametrize("unit", ["ms", "us", "ns", "ps"])
def test_text_with_a_time_zone_becomes_utc(text, expected, unit):
    dtype = np.dtype(f"M8[{unit}]")
    if unit == "ps" and text[:4] == "2024":
        return  # beyond its range
    for others in ([], ["1970-01-01T01:00:00"]):  # by Arrow, and by NumPy where only some have a time zone
        found = from_arrow(pa.array([text, *others, None]), hr.Feature(dtype))
        assert found[0] == np.datetime64(expected)
        assert np.isnat(found[-1])


@pytest.mark.parametrize(
    "text", ["2024-01-01Z", "2024-01-01T00:00:00+25:00", "2024-01-01T00:00:00+0:30", "Z", "T00:00Z"]
)
def test_text_with_no_time_zone_that_there_is(text):
    with pytest.raises(BadValue):
        from_arrow(pa.array([text]), hr.Feature("M8[s]"))


def test_days_of_text_with_a_time_zone():
    days = hr.Feature("M8[D]")
    assert from_arrow(pa.array(["2024-01-01T02:00:00+02:00"]), days)[0] == np.datetime64("2024-01-01")
    for text in ("2024-01-01T00:00:00+02:00", "2024-01-01T00:00:01Z"):
        with pytest.raises(BadValue):
            from_arrow(pa.array([text]), days)


@pytest.mark.parametrize("dtype", ["M8[s]", "m8[s]"])
def test_text_without_values_under_a_time(dtype):
    for texts in ([None, None], ["NaT", None]):
        assert np.isnat(from_arrow(pa.array(texts, pa.string()), hr.Feature(dtype))).all()
    with pytest.raises(BadValue, match="found 'x'"):
        from_arrow(pa.array([None, "x"], pa.string()), hr.Feature(dtype))


NUMBERS = st.sampled_from([pa.int8(), pa.uint16(), pa.int64(), pa.float32(), pa.float64(), pa.bool_()])


@given(NUMBERS, st.lists(st.none() | st.integers(0, 1), max_size=40), st.data())
def test_numbers_without_pandas_are_those_of_arrow(kind, values, data):
    array = pa.array(values, pa.int64()).cast(kind)
    begin = data.draw(st.integers(0, len(values)))
    some = array[begin : data.draw(st.integers(begin, len(values)))]
    assert is_null(some).tolist() == some.is_null().to_pylist()
    filled = numbers_or_zero(some)
    assert filled.dtype == kind.to_pandas_dtype()
    assert filled.tolist() == [0 if value is None else value for value in some.to_pylist()]


def test_arrays_and_scalars_without_pandas_are_those_of_arrow():
    assert integers([3, -1]).equals(pa.array([3, -1]))
    assert integers(np.arange(6)[::2]).equals(pa.array([0, 2, 4]))
    assert integers([]).equals(pa.array([], pa.int64()))
    for value, kind in ((7, pa.uint8()), (-(2**63), pa.int64()), (0.1, pa.float32()), (1e300, pa.float64())):
        assert scalar(value, kind).equals(pa.scalar(value, kind))
    for text in ("", "ä\0b"):
        assert scalar(text, pa.large_string()).equals(pa.scalar(text, pa.large_string()))
        assert scalar(text.encode(), pa.large_binary()).equals(pa.scalar(text.encode(), pa.large_binary()))


@pytest.mark.parametrize("dtype", ["?", "i1", "u8", "f2", "f4", "f8", "M8[s]", "M8[ns]", "m8[us]", "M8[D]"])
@pytest.mark.parametrize("count", [0, 1, 9, 100])
def test_columns_without_pandas_become_the_arrays_of_arrow(dtype, count):
    column = np.random.default_rng(count).integers(0, 2 if dtype == "?" else 100, count).astype(dtype)
    if dtype[0] in "mM":
        column[::3] = "NaT"
    kept = np.repeat(column, 2)[::2]  # with gaps between the values
    found = to_arrow(kept, hr.Feature(dtype))
    found.validate(full=True)
    assert found.equals(pa.array(column))


WITHOUT_PANDAS = """
import sys

class Refused:
    def find_spec(self, name, path=None, target=None):
        if name == "pandas":
            raise AssertionError("pandas is imported")

sys.meta_path.insert(0, Refused())
import headrace as hr

filled = {"n": hr.Feature("int64", default=3), "s": hr.Feature("str", default="?")}
for path in sys.argv[1:]:
    source = hr.open(path, schema=filled) if path.endswith("b.parquet") else hr.open(path)
    assert [len(next(iter(batch.values()))) for batch in hr.Loader(source, 2, shuffle=True)] == [2, 1]
    hr.write(path + ".parquet", source)
"""


def test_tables_are_read_and_written_without_importing_pandas(tmp_path):
    """pyarrow imports it for many of its functions, which takes longer than reading a small file."""
    columns = {
        "f": pa.array([1.5, None, 2.5]),
        "b": pa.array([True, False, True]),
        "t": pa.array([1, None, 3], pa.timestamp("us")),
        "d": pa.array([1, 2, None], pa.date32()),
        "m": pa.array([decimal.Decimal("1.25")] * 3),
        "c": pa.array(["u", "v", "u"]).dictionary_encode(),
        "l": pa.array([[1], None, [2, 3]]),
        "o": pa.array([{"x": 1.5, "y": [1]}] * 3),
        "ls": pa.array([[{"x": 1}], [], [{"x": 2}, {"x": 3}]]),
    }
    missing = {"n": pa.array([1, None, 2]), "s": pa.array(["a", None, "b"])}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    pq.write_table(pa.table(missing | {"f": columns["f"]}), tmp_path / "b.parquet")
    lines = '{"f": 1.5, "n": %s, "s": "a", "l": [1, 2], "ls": [{"x": 1}]}\n'
    (tmp_path / "c.jsonl").write_text("".join(lines % number for number in (1, 2, 3)))
    paths = [str(tmp_path / name) for name in ("a.parquet", "b.parquet", "c.jsonl")]
    done = subprocess.run([sys.executable, "-c", WITHOUT_PANDAS, *paths], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
