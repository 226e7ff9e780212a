"""Every dtype and special value through every pair of formats: equal, refused before a file exists, or listed as lost."""

import contextlib
import itertools
import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.writing import pairs

import headrace as hr
from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema
from headrace.errors import HeadraceError, UnsupportedData
from headrace.testing import assert_same

FORMATS = [name for name in pairs.formats() if name not in pairs.SAMPLES]
UNITS = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as")
NAT = int(np.iinfo(np.int64).min)


def objects(values):
    column = np.empty(len(values), object)
    column[:] = values
    return column


def floats(dtype):
    limits = np.finfo(dtype)
    values = [0.0, -0.0, 1.5, 0.1, np.nan, limits.max, limits.min, limits.tiny, limits.smallest_subnormal, limits.eps]
    return np.array(values, dtype)


def times(unit, kind, numbers):
    return np.array(numbers, np.int64).view(f"{kind}8[{unit}]")


def ragged(values, *offsets):
    return hr.Ragged(values, np.array(offsets, np.int64))


TEXTS = [
    "",
    "\0",
    "a\0b",
    "a\0",
    "\n",
    "\r\n",
    "\r",
    "\ufeff",
    "\ufeffx",
    '"',
    "'",
    ",",
    ";",
    "\t",
    " x ",
    "é",
    "𝄞",
    "\u2028",
]
TEXTS += [
    "\x85",
    "x" * 70_000,
    "NaN",
    "NA",
    "null",
    "1",
    "007",
    "true",
    "\\",
    "\x1a",
    "\x7f",
    '{"a":1}',
    "2020-01-01",
    "#x",
]
BYTES = [b"", b"\0", b"a\0b", b"a\0\0", b"\xff\xfe", bytes(range(256)), b"\n\r\n", b"\xef\xbb\xbf"]
INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]

VALUES = {
    **{name: (Feature(name), np.array([np.iinfo(name).min, np.iinfo(name).max, 0, 1], name)) for name in INTEGERS},
    **{name: (Feature(name), floats(name)) for name in ("float16", "float32", "float64")},
    **{
        f"{name} infinite": (Feature(name), np.array([np.inf, -np.inf, 1], name))
        for name in ("float16", "float32", "float64")
    },
    "longdouble": (Feature(np.longdouble), np.array([0.1, np.nan, 1], np.longdouble)),
    "complex64": (Feature("complex64"), np.array([1 + 2j, np.nan], np.complex64)),
    "big-endian": (Feature("float64"), np.array([1.5, -2.25], ">f8")),
    "bool": (Feature("bool"), np.array([True, False])),
    **{
        f"{kind}8[{unit}]{what}": (Feature(f"{kind}8[{unit}]"), times(unit, kind, numbers))
        for unit in UNITS
        for kind in "mM"
        for what, numbers in (("", [0, 1, -1, 12345]), (" NaT", [0, NAT, 1]), (" ends", [2**63 - 1, NAT + 1, 0]))
    },
    **{
        f"M8[{unit}] years": (
            Feature(f"M8[{unit}]"),
            np.array(
                ["10000-01-01", "0000-01-01", "-0001-03-04", "123456-02-03", "9999-12-31", "0001-01-01"], f"M8[{unit}]"
            ),
        )
        for unit in ("D", "s", "ms", "us")
    },
    "M8[D] in 32 bits": (Feature("M8[D]"), times("D", "M", [2**31 - 1, -(2**31), NAT])),
    "M8[D] beyond": (Feature("M8[D]"), times("D", "M", [2**31, 0])),
    "M8[10us]": (Feature("M8[10us]"), np.array([1, 2], np.int64).view("M8[10us]")),
    "str": (Feature("str"), objects(TEXTS)),
    "str half a pair": (Feature("str"), objects(["\ud800", "x"])),
    "str escaped": (Feature("str"), objects(["\udcff", "x"])),
    "bytes": (Feature("bytes"), objects(BYTES)),
    "str (2,)": (Feature("str", (2,)), np.array([["a", "\0"], ["", "\n"]], object)),
    "bytes (2,)": (Feature("bytes", (2,)), np.array([[b"a", b"\0"], [b"", b"\n"]], object)),
    "int64 ragged": (Feature("int64", (None,)), ragged(np.array([2**63 - 1, 1, -(2**63)]), 0, 2, 2, 3)),
    "uint64 ragged": (Feature("uint64", (None,)), ragged(np.array([2**64 - 1, 0], np.uint64), 0, 1, 1, 2)),
    "float32 ragged": (Feature("float32", (None,)), ragged(np.array([np.nan, 1, -0.0], np.float32), 0, 2, 2, 3)),
    "bool ragged": (Feature("bool", (None,)), ragged(np.array([True, False]), 0, 1, 1, 2)),
    "str ragged": (Feature("str", (None,)), ragged(objects(["a", "\0", ""]), 0, 2, 2, 3)),
    "bytes ragged": (Feature("bytes", (None,)), ragged(objects([b"a", b"\0", b""]), 0, 2, 2, 3)),
    "M8[us] ragged": (Feature("M8[us]", (None,)), ragged(times("us", "M", [0, NAT, 5]), 0, 2, 2, 3)),
    "m8[ms] ragged": (Feature("m8[ms]", (None,)), ragged(times("ms", "m", [NAT, 7, 5]), 0, 2, 2, 3)),
    "M8[ms] (2,)": (Feature("M8[ms]", (2,)), times("ms", "M", [0, NAT, 5, 1]).reshape(2, 2)),
    "float64 (None, 2)": (Feature("float64", (None, 2)), ragged(np.array([[1.0, 2], [np.nan, 4]]), 0, 1, 1, 2)),
    "int64 nested": (Feature("int64", (None, None)), ragged(ragged(np.array([1, 2, 3]), 0, 1, 1, 3), 0, 2, 2, 3)),
    "float32 (0,)": (Feature("float32", (0,)), np.zeros((3, 0), np.float32)),
    "int64 (2, 0)": (Feature("int64", (2, 0)), np.zeros((3, 2, 0), np.int64)),
    "float32 (None, 0)": (Feature("float32", (None, 0)), ragged(np.zeros((3, 0), np.float32), 0, 1, 1, 3)),
    "float32 without rows": (Feature("float32"), np.zeros(0, np.float32)),
    "str without rows": (Feature("str"), objects([])),
    "int64 ragged without rows": (Feature("int64", (None,)), ragged(np.zeros(0, np.int64), 0)),
    "int64 ragged, all empty": (Feature("int64", (None,)), ragged(np.zeros(0, np.int64), 0, 0, 0, 0)),
}
"""One column of each, beside which stands another that every format holds."""


def batch_of(feature, column):
    return {"x": column, "beside": np.arange(len(column))}, Schema({"x": feature, "beside": Feature("int64")})


def read(path, format, schema):
    source = hr.open(path, format=format, schema=schema, decode=False)
    return source.batch(np.arange(len(source)))


def check_same(found, expected):
    """Equal, to the sign of zero; a narrower type of the same kind may hold the same values."""
    assert_same(found, expected, dtypes=False)
    if isinstance(found, np.ndarray) and found.dtype.kind == "f":
        known = ~np.isnan(found)
        assert np.signbit(found[known]).tolist() == np.signbit(expected[known]).tolist()
    found_dtype, dtype = (getattr(each, "dtype", np.dtype("O")) for each in (found, expected))
    assert found_dtype == dtype if dtype.kind in "mM" else found_dtype.kind == dtype.kind


def write(batch, schema, path, format):
    """Whether it was written. A refusal leaves no file."""
    before = sorted(os.listdir(path.parent))
    try:
        hr.write(path, batch, format=format, schema=schema)
    except HeadraceError:
        assert sorted(os.listdir(path.parent)) == before
        return False
    return True


def convert(source, path, format, column, *, allow_loss=False):
    """Convert, and compare the new files with a column; returns whether it was refused."""
    before = sorted(name for name in os.listdir(path.parent) if not name.startswith("."))
    try:
        done = hr.convert(source, path, format=format, allow_loss=allow_loss)
    except UnsupportedData:
        assert sorted(name for name in os.listdir(path.parent) if not name.startswith(".")) == before
        return True
    found = read(path, format, done.schema)  # the reported schema opens the written file
    assert found["beside"].tolist() == list(range(len(column)))
    if not any("'x'" in line for line in done.lost):
        check_same(found["x"], column)
    else:
        assert allow_loss
    return False


@pytest.mark.parametrize("kind", VALUES)
def test_special_values_from_every_format_to_every_other(kind, tmp_path):
    feature, column = VALUES[kind]
    batch, schema = batch_of(feature, column)
    written = {}
    for format in FORMATS:
        path = pairs.path_of(tmp_path, format, "first")
        if write(batch, schema, path, format):
            found = read(path, format, schema)
            check_same(found["x"], column)
            written[format] = path
    assert written or kind in ("str half a pair", "str escaped"), "no format holds it"
    number = list(VALUES).index(kind)
    every = list(itertools.product(written, FORMATS))  # A few for each kind; together the kinds cover all.
    for first, second in every[number % 29 :: 29]:
        source = hr.open(written[first], format=first, schema=schema, decode=False)
        there = pairs.path_of(tmp_path, second, f"from_{first}")
        if convert(source, there, second, column):
            refused = convert(source, there, second, column, allow_loss=True)
            assert refused == ((kind, second) in WITHOUT_EQUIVALENT), (written[first], second)


WITHOUT_EQUIVALENT = {("float16 infinite", "jsonl"), ("M8[D] ends", "avro"), ("M8[ms] years", "jsonl")}
"""Of the pairs of values and formats that are tried, those that are refused although loss is allowed."""


NUMBERS = st.sampled_from([*INTEGERS, "bool", "float16", "float32", "float64", "complex64"])
SPANS = st.builds(lambda kind, unit: f"{kind}8[{unit}]", st.sampled_from("mM"), st.sampled_from(UNITS))


def elements(dtype):
    dtype = np.dtype(dtype)
    if dtype.kind in "mM":
        edges = st.sampled_from(
            [0, 1, -1, NAT, NAT + 1, 2**63 - 1, 2**31, -(2**31) - 1, 253_402_300_800, 253_402_300_800_000]
        )
        return st.one_of(edges, st.integers(-(2**63), 2**63 - 1), st.integers(-(10**6), 10**6))
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return st.one_of(st.integers(limits.min, limits.max), st.sampled_from([limits.min, limits.max]))
    if dtype.kind == "f":
        return st.floats(width=8 * dtype.itemsize)
    return st.booleans() if dtype.kind == "b" else st.complex_numbers(width=64)


TEXT = {"str": st.text(max_size=6), "bytes": st.binary(max_size=6)}


@st.composite
def columns(draw):
    dtype = draw(st.one_of(NUMBERS, SPANS, st.sampled_from(["str", "bytes"])))
    shape = draw(st.sampled_from([(), (2,), (0,), (2, 1), (None,), (None, 2), (None, None)]))
    feature = Feature(dtype, shape)

    def made(shape, rows):
        if not shape:
            values = draw(st.lists(TEXT[dtype] if feature.is_text else elements(dtype), min_size=rows, max_size=rows))
            if feature.is_text:
                return objects(values)
            kind = np.dtype(dtype).kind
            return np.array(values, np.int64).view(dtype) if kind in "mM" else np.array(values, dtype)
        if shape[0] is None:
            lengths = draw(st.lists(st.integers(0, 2), min_size=rows, max_size=rows))
            return hr.Ragged(made(shape[1:], sum(lengths)), np.concatenate(([0], np.cumsum(lengths))).astype(np.int64))
        inner = made(shape[1:], rows * shape[0])
        return inner.reshape(rows, shape[0], *inner.shape[1:])

    return feature, made(shape, draw(st.integers(0, 4)))


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(columns(), st.sampled_from(FORMATS), st.sampled_from(FORMATS))
def test_any_values_from_any_format_to_any_other(tmp_path_factory, made, first, second):
    feature, column = made
    batch, schema = batch_of(feature, column)
    folder = tmp_path_factory.mktemp("x")
    path = pairs.path_of(folder, first, "first")
    if not write(batch, schema, path, first):
        return
    check_same(read(path, first, schema)["x"], column)
    source = hr.open(path, format=first, schema=schema, decode=False)
    there = pairs.path_of(folder, second, "there")
    if convert(source, there, second, column):
        with contextlib.suppress(UnsupportedData):  # nothing remains, or a value without an equivalent
            convert(source, there, second, column, allow_loss=True)


NAMES = [
    "",
    "\ud800",
    "a\udcffb",
    "a b",
    "a/b",
    "é",
    "a\0b",
    "a\nb",
    "a,b",
    'a"b',
    ".",
    "..",
    "a.b",
    "\ufeffa",
    "__key__",
    "1",
    "=1",
]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_names_come_back_or_are_refused(name, format, tmp_path):
    schema = Schema({name: Feature("float32"), "other": Feature("int64")})
    batch = {name: np.arange(3, dtype=np.float32), "other": np.arange(3)}
    path = pairs.path_of(tmp_path, format)
    if write(batch, schema, path, format):
        assert_same(read(path, format, schema), batch)


@pytest.mark.parametrize("name", ["x.tfrecord", "x.recordio", "x.jsonl", "x.csv", "x.parquet"])
@pytest.mark.parametrize(("bits", "dtype"), [("u2", "float16"), ("u4", "float32"), ("u8", "float64")])
def test_signalling_nans_are_written_without_a_warning(tmp_path, name, bits, dtype):
    signalling = {"float16": 0x7C01, "float32": 0x7F800001, "float64": 0x7FF0000000000001}[dtype]
    values = np.array([signalling, 0], bits).view(dtype)
    hr.write(tmp_path / name, {"x": values})
    assert np.isnan(hr.open(tmp_path / name).batch(range(2))["x"]).tolist() == [True, False]


@pytest.mark.parametrize("ending", ["tfrecord", "array_record", "recordio", "parquet", "jsonl", "avro"])
@pytest.mark.parametrize(
    "values",
    [
        [[[1, 2], [3, 3]], [[4]]],
        [[["a", "b"], ["c", "d"]], [["e"]]],
        [np.ones((k % 3 + 1, k % 2 + 1), np.float32) for k in range(6)],
        [np.ones((k % 3 + 1, k % 2 + 1), np.bool_) for k in range(6)],
    ],
    ids=["int", "text", "float", "bool"],
)
def test_two_varying_axes_in_examples_that_are_all_rectangular(tmp_path, ending, values):
    """What can be written does not depend on whether the rows of an example happen to have one length."""
    path = tmp_path / f"x.{ending}"
    hr.write(path, [{"x": value} for value in values])
    found = hr.open(path)
    if ending == "recordio" and isinstance(values[0][0][0], str):
        assert [list(row) for row in found["x"]] == [["a", "b", "c", "d"], ["e"]]  # text has no shape there
        return
    assert found.schema["x"].shape == (None, None)
    assert [[list(inner) for inner in row] for row in found["x"]] == [[list(inner) for inner in row] for row in values]
