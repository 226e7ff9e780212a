"""Rows of CSV as examples: types, values, missing values, mismatches."""

import csv
import io
import json
import math
import pickle
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference import csv_rows as reference

import headrace as hr
from headrace import _native
from headrace.codecs.csv import examine_head, examine_rows, infer_csv
from headrace.contracts.csv import MISSING
from headrace.errors import CorruptRecord, NoSuchFeature, SchemaMismatch, UnsupportedData
from headrace.sources import records

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "csv"
FILES = sorted(path for path in GOLDEN.iterdir() if path.suffix != ".json")
MARKS = (",", '"', ".")


def opened(tmp_path, text, **options):
    path = tmp_path / "x.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    schema = options.pop("schema", None)
    return hr.open(path, schema=schema, format=hr.CSV(**options))


def types(source):
    return {name: feature.dtype for name, feature in source.schema.items()}


def decoded(texts, kind, encoding="", missing=(), decimal="."):
    spans = _native.spans_of_buffers([text.encode() for text in texts])
    marks = (MARKS[0] if decimal == "." else ";", MARKS[1], decimal)
    return _native.CsvDecoder(marks, 1, list(missing), [(0, kind, None)], [encoding]).decode(spans, hr.Strings)[0]


# ------------------------------------------------------------------------------------------------------------- goldens


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_goldens(path):
    note = json.loads(Path(f"{path}.json").read_text(encoding="utf-8"))
    source = hr.open(path, format=hr.CSV(**note["options"]))
    assert list(source.schema) == note["names"]
    batch = source.batch(range(len(source)))
    for name, expected in note["columns"].items():
        if source.schema[name].dtype == "float64":
            np.testing.assert_array_equal(batch[name], [float(value) for value in expected], name)
        else:
            assert batch[name].tolist() == expected, name
    assert [tuple(map(repr, example.values())) for example in source] == [
        tuple(map(repr, source[k].values())) for k in range(len(source))
    ]


# --------------------------------------------------------------------------------------------------------------- types


@pytest.mark.parametrize(
    ("column", "dtype"),
    [
        (["1", "-2", "+3"], "int64"),
        (["9223372036854775807", "-9223372036854775808"], "int64"),
        (["9223372036854775808", "1"], "uint64"),
        (["18446744073709551615"], "uint64"),
        (["18446744073709551616"], "str"),
        (["9223372036854775808", "-1"], "str"),
        (["1", "2.5"], "float64"),
        (["1", "1e3"], "float64"),
        (["1", "inf", "-Infinity"], "float64"),
        ([".5", "5."], "float64"),
        (["1", "NA", "3"], "float64"),
        (["1", "nan"], "float64"),
        (["9007199254740993", "NA"], "str"),
        (["007", "123"], "str"),
        (["0", "10"], "int64"),
        (["0.5", "00.5"], "str"),
        (["true", "False", "TRUE"], "bool"),
        (["true", "NA"], "str"),
        (["true", "1"], "str"),
        (["NA", "null"], "float64"),
        (['""', '""'], "str"),
        (["1", "x"], "str"),
        (["2026-11-20", "2026-11-21"], "str"),
        (["1_000"], "str"),
        (["0x10"], "str"),
        (["1 2"], "str"),
        (["-"], "str"),
        (["e5"], "str"),
        (["  1", "2\t"], "int64"),
        (['"1"', "2"], "int64"),
        (['"1"""', "2"], "str"),
        (["infinit"], "str"),
    ],
)
def test_types_found(tmp_path, column, dtype):
    text = "k,x\n" + "".join(f"a,{value}\n" for value in column)
    assert types(opened(tmp_path, text, header=True))["x"] == dtype


def test_types_given(tmp_path):
    text = "zip,n,x,t\n01234,1,2.5,NA\n00005,NA,,b\n"
    source = opened(tmp_path, text, types={"zip": "int32", "n": hr.Feature("int16", default=-1), "x": np.float32})
    assert types(source) == {"zip": "int32", "n": "int16", "x": "float32", "t": "str"}
    batch = source.batch([0, 1])
    assert [batch[name].dtype for name in batch] == [np.int32, np.int16, np.float32, object]
    assert (batch["zip"].tolist(), batch["n"].tolist(), batch["t"].tolist()) == ([1234, 5], [1, -1], ["NA", "b"])
    assert batch["x"][0] == 2.5
    assert math.isnan(batch["x"][1])
    with pytest.raises(NoSuchFeature, match="'zap'"):
        opened(tmp_path, text, types={"zap": "str"})


def test_floats_of_another_size(tmp_path):
    source = opened(tmp_path, "a,b,c\n0.1,1,x\nNA,2,y\n", floats="float32")
    assert types(source) == {"a": "float32", "b": "int64", "c": "str"}
    assert source[0]["a"] == np.float32(0.1)
    hr.write(tmp_path / "x.tfrecord", source)


def test_a_schema_takes_only_its_columns(tmp_path):
    text = "a,b,c\n1,x,3\n4,y,6\n"
    source = opened(tmp_path, text, schema={"c": hr.Feature("float64"), "b": hr.Feature("bytes")})
    assert source[1] == {"c": 6.0, "b": b"y"}
    with pytest.raises(NoSuchFeature):
        opened(tmp_path, text, schema={"d": hr.Feature("str")})
    for feature in (
        hr.Feature("float32", (None,)),
        hr.Feature("datetime64[s]"),
        hr.Feature("complex64"),
    ):
        with pytest.raises(UnsupportedData, match="as in every field"):
            opened(tmp_path, text, schema={"a": feature})


def test_columns_that_are_one_feature(tmp_path):
    text = "y,x_0,x_1,x_2,x_3,p0,p1\n1,1,2,3,4,a,b\n2,5,,7,8,c,NA\n"
    schema = {"p": hr.Feature("str", (2,), default="?"), "x": hr.Feature("float32", (2, 2)), "y": hr.Feature("int8")}
    source = opened(tmp_path, text, schema=schema)
    batch = source.batch([1, 0])
    np.testing.assert_array_equal(batch["x"], np.array([[[5, np.nan], [7, 8]], [[1, 2], [3, 4]]], np.float32))
    assert (batch["p"].tolist(), batch["y"].tolist()) == ([["c", "?"], ["a", "b"]], [2, 1])
    assert source.select("x")[0]["x"].shape == (2, 2)
    hr.write(tmp_path / "y.csv", source)
    again = hr.open(tmp_path / "y.csv", schema=source.schema).batch([1, 0])
    np.testing.assert_array_equal(again["x"], batch["x"])
    with pytest.raises(NoSuchFeature, match="'x', nor 'x_0'"):
        opened(tmp_path, text, schema={"x": hr.Feature("float32", (5,))})


def test_missing_values(tmp_path):
    words = ["", "NA", "nan", "NULL", "None", "#N/A"]
    source = opened(tmp_path, "k,x\n" + "".join(f"{k},{word}\n" for k, word in enumerate(words)) + "9,1\n")
    assert np.isnan(source.batch(range(6))["x"]).all()
    source = opened(tmp_path, "k,x\n1,-99\n2,\n3,5\n", missing=("-99", ""))
    np.testing.assert_array_equal(source.batch([0, 1, 2])["x"], [np.nan, np.nan, 5])
    source = opened(tmp_path, "k,x\n1,NA\n2,ok\n", types={"x": hr.Feature("str", default="?")})
    assert source.batch([0, 1])["x"].tolist() == ["?", "ok"]
    source = opened(tmp_path, "k,x\n1,NA\n", types={"x": "int64"})
    with pytest.raises(SchemaMismatch, match=r"expected a value, found none, 'NA'.*feature 'x'.*default") as raised:
        source[0]
    assert (raised.value.where.record, raised.value.where.offset) == (0, 6)


def test_numbers_with_odd_surroundings(tmp_path):
    text = 'i,f,b\n" 1 ", 2.5 ,true\n3.0,"7",0\n-4e0,,1\n'
    source = opened(tmp_path, text, types={"i": "int64", "f": "float64", "b": "bool"})
    batch = source.batch([0, 1, 2])
    assert batch["i"].tolist() == [1, 3, -4]
    np.testing.assert_array_equal(batch["f"], [2.5, 7, np.nan])
    assert batch["b"].tolist() == [True, False, True]


def test_texts_are_kept_to_the_blank(tmp_path):
    source = opened(tmp_path, 'k,t\n1,  x \n2," ""y"" "\n3,NA\n')
    assert source.batch([0, 1, 2])["t"].tolist() == ["  x ", ' "y" ', "NA"]


# -------------------------------------------------------------------------------------------------------------- values


@given(st.lists(st.floats(), min_size=1, max_size=20))
def test_floats_come_back_to_the_bit(values):
    texts = [repr(value) for value in values]
    found = decoded(texts, 3, missing=["nan"])
    np.testing.assert_array_equal(found, values)
    assert np.signbit(found[~np.isnan(found)]).tolist() == [
        math.copysign(1, v) < 0 for v in values if not math.isnan(v)
    ]


@given(st.from_regex(r"[+-]?([0-9]{1,25}(\.[0-9]{0,25})?|\.[0-9]{1,25})([eE][+-]?[0-9]{1,3})?", fullmatch=True))
def test_decimals_are_rounded_as_python_rounds_them(text):
    if math.isinf(float(text)):
        with pytest.raises(_native.FormatError):
            decoded([text], 3)
    else:
        assert decoded([text], 3)[0] == float(text)


@given(st.integers(0, 2**53 - 1), st.integers(-40, 30))
def test_halfway_decimals_round_to_even(mantissa, power):
    """The midpoint of two neighbouring floats, and the numbers next to it."""
    numerator, two = 2 * mantissa + 1, power - 1
    digits = numerator * 2**two * 10**60 if two >= 0 else numerator * 10**60 // 2**-two
    for text in (f"{digits}e-60", f"{digits - 1}e-60", f"{digits + 1}e-60"):
        assert decoded([text], 3)[0] == float(text)


@given(st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=20))
def test_float32_is_rounded_once(values):
    found = decoded([repr(float(np.float64(value))) for value in values], 4)
    np.testing.assert_array_equal(found, np.array(values, np.float32))


def test_float32_where_rounding_twice_would_differ():
    text = "1.00000017881393432617187499"  # just below a float32 midpoint that equals the nearest float64
    assert decoded([text], 4)[0] == np.float32(1.0000001)
    assert np.float32(float(text)) != decoded([text], 4)[0]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20))
def test_integers(values):
    assert decoded([str(value) for value in values], 1).tolist() == values


@pytest.mark.parametrize(
    "text", ["9223372036854775808", "-9223372036854775809", "1.5", "1e30", "x", "", "1 2", "--1", "0x1"]
)
def test_values_that_are_not_int64(text):
    with pytest.raises(_native.FormatError):
        decoded([text], 1)


@pytest.mark.parametrize(("text", "value"), [("1e-400", 0.0), ("-1e-400", -0.0),
                                             ("0." + "0" * 500 + "1", 0.0), ("4.9e-324", 5e-324), ("1.7976931348623158e308", 1.7976931348623157e308),
                                             ("0e9999999999", 0.0), ("INF", math.inf)])  # fmt: skip
def test_the_ends_of_the_range(text, value):
    found = decoded([text], 3)[0]
    assert found == value
    assert np.signbit(found) == (math.copysign(1, value) < 0)


@pytest.mark.parametrize("text", ["1e400", "-1e400", "1.8e308", "1" + "0" * 400, "+1.0e9999999"])
def test_numbers_too_large_for_a_float_are_refused(text):
    for kind in (3, 4):
        with pytest.raises(_native.FormatError):
            decoded([text], kind)


def test_numbers_too_large_for_a_float_are_kept_as_text(tmp_path):
    for text in ("1e400", "-1.5e309", "17976931348623159e292"):
        (tmp_path / "x.csv").write_text(f"a,b\n1.5,{text}\n2.5,3.5\n")
        assert hr.open(tmp_path / "x.csv")[0]["b"] == text
    (tmp_path / "x.csv").write_text("a,b\n1.5,17976931348623157e292\n")
    assert hr.open(tmp_path / "x.csv")[0]["b"] == 1.7976931348623157e308
    (tmp_path / "x.csv").write_text("a,b\n1.5,1e400\n")
    with pytest.raises(hr.SchemaMismatch, match="found '1e400'"):
        hr.open(tmp_path / "x.csv", format=hr.CSV(types={"b": "float64"})).batch([0])


CELL = st.one_of(
    st.text(alphabet='ab1 ,"\né.-', max_size=6),
    st.integers(-(10**20), 10**20).map(str),
    st.floats(allow_nan=False).map(repr),
    st.sampled_from(["", "NA", "nan", "true", "007"]),
)


@given(st.lists(st.lists(CELL, min_size=2, max_size=2), min_size=1, max_size=8))
def test_columns_against_the_csv_module(tmp_path_factory, table):
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(table)
    path = tmp_path_factory.mktemp("csv") / "x.csv"
    path.write_text(out.getvalue(), encoding="utf-8", newline="")
    source = hr.open(path, format=hr.CSV(header=False, delimiter=","))
    batch = source.batch(range(len(source)))
    for number, name in enumerate(("c0", "c1")):
        texts = [row[number] for row in reference.rows_of(out.getvalue())]
        if source.schema[name].dtype == "str":
            assert batch[name].tolist() == texts
        elif source.schema[name].dtype == "bool":
            assert [str(value).lower() for value in batch[name]] == [text.strip().lower() for text in texts]
        else:
            np.testing.assert_array_equal(batch[name].astype(np.float64), reference.typed(texts, MISSING))


def test_columns_against_pandas(tmp_path):
    random = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "bits": random.integers(0, 2**63, 2000).view(np.float64),
            "short": random.normal(size=2000).round(3),
            "i": random.integers(-(10**12), 10**12, 2000),
            "b": random.random(2000) < 0.5,
            "t": [f'{k}, "{k}"\n' if k % 3 else "plain" for k in range(2000)],
            "m": np.where(random.random(2000) < 0.2, np.nan, random.integers(0, 9, 2000)),
        }
    )
    path = tmp_path / "x.csv"
    frame.to_csv(path, index=False)
    expected = pd.read_csv(path)
    batch = hr.open(path).batch(range(2000))
    for name in frame:
        np.testing.assert_array_equal(batch[name], expected[name].to_numpy(batch[name].dtype), name)


# ------------------------------------------------------------------------------------------------ rows decoded together

FIELDS = {
    "int64": st.integers(-(2**63), 2**63 - 1).map(str) | st.sampled_from(["+5", '"7"', '" 8 "', " -9", "3.0", "007"]),
    "float64": st.floats(width=64).map(repr)
    | st.sampled_from(["NA", "", " 1.5", '"2"', "007", "-.5", "5.", "+.25", '"+3"', '" NA"', "  ", '""', "nan"]),
    "bool": st.sampled_from(["true", "False", "TRUE", " true", '"False"', "1"]),
    "str": st.text(st.sampled_from('ab"é,\n \r'), max_size=40).map(lambda text: '"' + text.replace('"', '""') + '"'),
    "bytes": st.text(st.sampled_from("abé "), max_size=40),
}


@st.composite
def tables(draw):
    """The text of a file of typed columns, and their types."""
    kinds = draw(st.lists(st.sampled_from(sorted(FIELDS)), min_size=1, max_size=5))
    rows = draw(st.lists(st.tuples(*(FIELDS[kind] for kind in kinds)), min_size=8, max_size=40))
    end = draw(st.sampled_from(["\n", "\r\n", "\r", "\n\n"]))
    bad = draw(st.sampled_from(["", "", "", "x", 'a"b', '"', "1,2,3,4,5,6", "\ud800"]))
    text = end.join([",".join(f"c{k}" for k in range(len(kinds))), *(",".join(row) or '""' for row in rows), bad])
    return text.encode("utf-8", "surrogatepass"), {f"c{k}": kind for k, kind in enumerate(kinds)}


def outcome(read):
    """What reading gives: columns as lists, or the error in words."""
    try:
        batch = read()
    except (CorruptRecord, SchemaMismatch) as error:
        return type(error), str(error)
    return {name: [repr(value) for value in column.tolist()] for name, column in batch.items()}


@given(tables())
def test_rows_together_as_one_by_one(tmp_path_factory, table):
    text, types = table
    path = tmp_path_factory.mktemp("together") / "x.csv"
    path.write_bytes(text)
    source = hr.open(path, format=hr.CSV(types=types, header=True))
    try:
        n = len(source)
    except CorruptRecord:
        return
    together = outcome(lambda: source.batch(range(n)))
    assert together == outcome(lambda: source.node.codec.decode_batch(source.node.records.spans(np.arange(n)))) or (
        isinstance(together, tuple)
    )
    backwards = outcome(lambda: source.batch(range(n - 1, -1, -1)))
    if isinstance(together, dict):
        assert {name: column[::-1] for name, column in backwards.items()} == together
    else:
        assert isinstance(backwards, tuple)
    for start in range(0, n - 8, 3):  # any part of them, up to the first fault
        part = outcome(lambda start=start: source.batch(range(start, start + 8)))
        one_by_one = [outcome(lambda row=row: source.batch([row])) for row in range(start, start + 8)]
        faults = [row for row in one_by_one if isinstance(row, tuple)]
        assert part == (faults[0] if faults else {name: [row[name][0] for row in one_by_one] for name in types})


@st.composite
def columns_of_numbers(draw):
    """Numbers that mostly have the same around them, or a word instead of them."""
    fronts = draw(st.lists(st.sampled_from(["", " ", "   ", "\t", "+", " +"]), min_size=1, max_size=2))
    words = draw(st.lists(st.sampled_from(["NA", " NA", "nan", "null", "", "NULL", "n/a"]), max_size=3))
    number = st.integers(0, 10 ** draw(st.integers(1, 17))).map(str) | st.decimals(0, 9999, places=3).map(str)
    usual = st.builds(str.__add__, st.sampled_from(fronts), number)
    odd = st.sampled_from(["x", "++1", "+-1", "+", "-", " ", "007", " -5", "1 ", "\0NA", "N", "NAN", '"3"', "1e5"])
    cell = st.one_of(usual, usual, st.sampled_from(words) if words else usual)
    cells = draw(st.lists(cell, min_size=8, max_size=60))
    if draw(st.booleans()):
        cells[draw(st.integers(0, len(cells) - 1))] = draw(odd)
    return cells


@given(columns_of_numbers(), st.sampled_from(["int64", "float64", "uint64", "float32"]))
def test_what_is_around_numbers_together_as_one_by_one(tmp_path_factory, cells, kind):
    path = tmp_path_factory.mktemp("around") / "x.csv"
    path.write_text("a,b\n" + "".join(f"{cell},t\n" for cell in cells))
    given = hr.open(path, format=hr.CSV(types={"a": kind}, header=True, delimiter=","))
    n = len(given)
    one_by_one = outcome(lambda: given.node.codec.decode_batch(given.node.records.spans(np.arange(n))))
    together = outcome(lambda: given.batch(range(n)))
    assert together == one_by_one or (isinstance(together, tuple) and isinstance(one_by_one, tuple))
    records = given.node.records
    ((buffer, begin),) = records.heads()
    head = examine_head(buffer, begin, (1 << 16, 1 << 20, 1 << 20), records.dialect)
    dialect = records.dialect
    rows = _native.examine_csv(records.spans(np.arange(n)), dialect.marks, dialect.width, list(dialect.missing))
    assert head is not None
    if not rows[0]["text"] and not rows[0]["padded"]:  # These end the counting.
        assert head[0][0] == rows[0]


def test_rows_of_several_files_together(tmp_path):
    for number in range(5):
        rows = "".join(f"{number},{k}\n" for k in range(7 * number))
        (tmp_path / f"{number}.csv").write_text("f,k\n" + rows.rstrip("\n"))
    source = hr.open(tmp_path / "*.csv")
    expected = [(number, k) for number in range(5) for k in range(7 * number)]
    for start in range(60):
        batch = source.batch(range(start, start + 10))
        assert list(zip(batch["f"].tolist(), batch["k"].tolist(), strict=True)) == expected[start : start + 10]
    assert [tuple(row.values()) for row in source] == expected
    with pytest.raises(IndexError):
        source.node.batch(np.arange(65, 75))


def test_rows_with_damage_between_them_are_not_decoded_together(tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes(b"a,b\n" + b"".join(b"%d,x\n" % k + (b"bad\n" if k % 5 == 0 else b"") for k in range(40)))
    source = hr.open(path, on_corrupt="skip")
    assert source.batch(range(40))["a"].tolist() == list(range(40))
    assert source.node.records.stretches(np.arange(40)) is None


def test_rows_together_of_files_that_are_read_instead_of_mapped(tmp_path, monkeypatch):
    path = tmp_path / "x.csv"
    path.write_text("a,b\n" + "".join(f"{k},t{k}\n" for k in range(100)))
    monkeypatch.setattr("headrace.io.local.mapped.scattered_limit", lambda: 0)
    batch = hr.open(path).batch(range(5, 95))
    assert batch["a"].tolist() == list(range(5, 95))
    assert batch["b"].tolist() == [f"t{k}" for k in range(5, 95)]


def test_a_file_that_changed_is_refused_by_rows_together(tmp_path):
    path = tmp_path / "x.csv"
    text = "a,b\n" + "".join(f"{k:06},{k}\n" for k in range(40_000))
    path.write_text(text)
    source = hr.open(path)
    assert len(source) == 40_000
    with path.open("r+b") as file:
        file.seek(200_000)
        file.write(b"9")
    assert source.batch(range(10))["b"].tolist() == list(range(10))
    with pytest.raises(hr.errors.CorruptFile, match="other bytes than when its index was made"):
        source.batch(range(10_000, 40_000))


# -------------------------------------------------------------------------------------------------------- what is wrong


def test_a_later_value_that_does_not_fit(tmp_path, monkeypatch):
    from headrace.sources import records

    monkeypatch.setattr(records, "CSV_SAMPLE_BYTES", 100)
    monkeypatch.setattr(records, "FIRST_RUN_BYTES", 100)
    monkeypatch.setattr("headrace.formats.framed.records.FramedRecords.iter_runs.__kwdefaults__", {"max_bytes": 100})
    text = "a,b\n" + "".join(f"{k},{k}\n" for k in range(1000)) + "1000, x7\n"
    source = opened(tmp_path, text)
    assert types(source) == {"a": "int64", "b": "int64"}
    for read in (lambda: source.batch([3, 1000]), lambda: source[1000], lambda: list(iter(source))):
        with pytest.raises(
            SchemaMismatch, match=r"an integer.*' x7'.*record 1000.*'b'.*types=\{'b': 'str'\}"
        ) as raised:
            read()
        assert raised.value.where.offset == len(text) - 4
    assert [fault.where.record for fault in hr.verify(tmp_path / "x.csv").faults] == [1000]
    assert opened(tmp_path, text, types={"b": "str"})[1000]["b"] == " x7"


def sums(parts):
    """What the columns look like, all parts together."""
    return [{kind: sum(facts[kind] for facts in column) for kind in column[0]} for column in zip(*parts, strict=True)]


CELLS = ["1", "-2.5", "007", "", "text", '"a\nb"', '"a,""b"', "true", "1e5", 'a"b', '"\n"', "9" * 20]


@given(st.data())
def test_the_head_of_a_file_is_what_a_scan_finds(tmp_path_factory, data):
    from headrace.formats.csv.format import CsvRecords

    folder = tmp_path_factory.mktemp("heads")
    cells = data.draw(st.lists(st.sampled_from(CELLS), min_size=1, max_size=4))
    end = data.draw(st.sampled_from(["\n", "\r\n", "\n\n", "\r"]))
    paths = []
    for number in range(data.draw(st.integers(1, 3))):
        rows = data.draw(st.lists(st.tuples(st.sampled_from(cells), st.sampled_from(cells)), max_size=30))
        (folder / f"{number}.csv").write_bytes(("a,b" + end + "".join(f"{a},{b}{end}" for a, b in rows)).encode())
        paths.append(str(folder / f"{number}.csv"))
    first, most, wanted = data.draw(st.integers(1, 80)), data.draw(st.integers(80, 200)), data.draw(st.integers(1, 400))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "CSV_SAMPLE_BYTES", wanted)
        patch.setattr(records, "FIRST_RUN_BYTES", first)
        patch.setattr(records, "RUN_BYTES", most)
        patch.setattr("headrace.formats.framed.scan.FIRST_RUN_BYTES", first)
        patch.setattr("headrace.formats.framed.records.FramedRecords.iter_runs.__kwdefaults__", {"max_bytes": most})
        of = CsvRecords(paths, options=hr.CSV(delimiter=",", header=True))
        heads = records._examine_heads(of, None)
        if heads is not None:
            infer = partial(infer_csv, dialect=of.dialect)
            runs = list(records._examine_runs(of))
            assert infer(heads) == infer(runs)
            # Texts end the counting of a column, each part on its own.
            for by_heads, by_runs in zip(sums(heads), sums(runs), strict=True):
                if not by_heads["text"] and not by_heads["padded"]:
                    assert by_heads == by_runs


def test_ragged_rows(tmp_path):
    for bad, found in (("3", 1), ("3,4,5", 3), ('3,"4",5', 3), (",,,", 4)):
        source = opened(tmp_path, f"a,b\n1,2\n{bad}\n", header=True)
        for columns in (source, source.select("a"), source.select("b")):
            with pytest.raises(CorruptRecord, match=f"expected 2 fields, found {found} .*record 1, byte 0x8"):
                columns[1]


def test_bytes_that_are_not_text(tmp_path):
    content = b"k,name\n1,ok\n2,caf\xe9\n"
    source = opened(tmp_path, content)
    with pytest.raises(CorruptRecord, match=r"text in utf-8, found the byte 0xe9.*record 1.*'name'.*cp1252") as raised:
        source.batch([0, 1])
    assert raised.value.where.offset == content.index(b"\xe9")
    assert opened(tmp_path, content, encoding="cp1252")[1]["name"] == "café"
    assert opened(tmp_path, content, types={"name": "bytes"})[1]["name"] == b"caf\xe9"
    with pytest.raises(CorruptRecord, match="cp1252"):
        opened(tmp_path, b"k,name\n1,\x81\n", encoding="cp1252")[0]
    assert [row["k"] for row in iter(hr.open(tmp_path / "x.csv", on_corrupt="skip"))] == []


def test_the_first_of_several_faults_is_reported(tmp_path):
    source = opened(tmp_path, b"a,b\n1,x\n2,\xff\n3\n", types={"a": "int64"})
    with pytest.raises(CorruptRecord, match="0xff"):
        source.batch([0, 1, 2])
    with pytest.raises(CorruptRecord, match="2 fields, found 1"):
        source.batch([2, 1])


def test_the_decoder_is_safe_on_any_bytes():
    decoder = _native.CsvDecoder(MARKS, 2, [""], [(0, 3, None), (1, 6, None)], ["", "utf-8"])
    random = np.random.default_rng(3)
    alphabet = np.frombuffer(b'1,.e"\n\xff ', np.uint8)
    for _ in range(2000):
        row = random.choice(alphabet, random.integers(0, 12)).tobytes()
        try:
            decoder.decode(_native.spans_of_buffers([row]), hr.Strings)
        except _native.FormatError as error:
            assert error.record == 0


# ----------------------------------------------------------------------------------------------------------- as a source


def test_views_loader_and_pickle(tmp_path):
    source = opened(tmp_path, "a,b,t\n" + "".join(f"{k},{k / 7!r},t{k % 5}\n" for k in range(1000)))
    again = pickle.loads(pickle.dumps(source))
    assert again.schema == source.schema
    assert again[-1] == source[999] == {"a": 999, "b": 999 / 7, "t": "t4"}
    seen = np.concatenate([batch["a"] for batch in hr.Loader(source, 64, shuffle=True, seed=1)])
    assert sorted(seen.tolist()) == list(range(1000))
    assert source.select("t", "a")[7] == {"t": "t2", "a": 7}
    assert hr.Schema.infer(source.records) == source.schema
    assert source.where(3).record == 3
    assert hr.open(tmp_path / "x.csv", columns=["b"])[3] == {"b": 3 / 7}


@pytest.mark.parametrize("rows", [1, 2, 63, 64, 65, 200])
def test_a_few_rows_are_as_many(tmp_path, rows):
    """Columns of few rows and one kind share an allocation; writing to one does not change another."""
    lines = [f"{k},{k / 7!r},t{k},{k * 3},{-k / 3!r},{k % 2 == 0}".lower() for k in range(200)]
    source = opened(tmp_path, "\n".join(["a,b,c,d,e,f", *lines]))
    assert types(source) == {"a": "int64", "b": "float64", "c": "str", "d": "int64", "e": "float64", "f": "bool"}
    whole, batch = source.batch(range(200)), source.batch(range(rows))
    for name, column in batch.items():
        assert column.dtype == whole[name].dtype
        assert column.shape == (rows,)
        np.testing.assert_array_equal(column, whole[name][:rows])
    batch["a"][:] = -1
    batch["b"][:] = np.nan
    np.testing.assert_array_equal(batch["d"], whole["d"][:rows])
    np.testing.assert_array_equal(batch["e"], whole["e"][:rows])
    assert source[rows - 1]["d"] == whole["d"][rows - 1]


@pytest.mark.parametrize("rows", [1, 2, 63, 510, 511, 512, 900])
@pytest.mark.parametrize("width", [0, 3, 40])
def test_a_few_texts_are_as_many(tmp_path, rows, width):
    """Also empty ones, and beside bytes; a part of a column outlives the batch."""
    texts = [[f"{column}{row % 11:0{width + 1}}" for row in range(1000)] for column in "ab"]
    lines = [f'{row},{texts[0][row]},"",{texts[1][row]}' for row in range(1000)]
    source = opened(tmp_path, "\n".join(["n,a,e,b", *lines]), types={"e": "str", "b": "bytes"})
    batch = source.batch(range(7, 7 + rows))
    assert batch["a"].to_list() == texts[0][7 : 7 + rows]
    assert batch["e"].to_list() == [""] * rows
    assert batch["b"].to_list() == [text.encode() for text in texts[1][7 : 7 + rows]]
    assert batch["a"].nbytes == sum(map(len, batch["a"])) + 8 * (rows + 1)
    kept = batch["b"][rows // 2 :]
    del batch
    assert kept.to_list() == [text.encode() for text in texts[1][7 + rows // 2 : 7 + rows]]
    assert pickle.loads(pickle.dumps(kept)).to_list() == kept.to_list()


def test_nothing_but_a_header(tmp_path):
    source = opened(tmp_path, "a,b\n")
    assert (len(source), types(source), list(hr.Loader(source, 4))) == (0, {"a": "str", "b": "str"}, [])
    assert len(opened(tmp_path, "")) == 0


# -------------------------------------------------------------------------------------------------------------- options


def test_options_are_validated():
    for bad in ({"delimiter": ",,"}, {"delimiter": "\n"}, {"delimiter": "a"}, {"quote": "''"}, {"decimal": "x"},
                {"delimiter": ",", "quote": ","}, {"delimiter": ",", "decimal": ","}, {"newline": "\r"}, {"floats": "float16"}, {"header": ()},
                {"header": ("a", "a")}, {"encoding": "rot13"}, {"encoding": "no-such"}):  # fmt: skip
        with pytest.raises(ValueError):
            hr.CSV(**({"quote": '"'} | bad))
    assert hr.CSV(encoding="UTF8").encoding == "utf-8"
    assert hr.CSV(encoding="ascii").encoding == "utf-8"
    assert hr.CSV(types={"a": "int32"}).types == {"a": hr.Feature("int32")}
    assert hr.CSV.parse("header=no,delimiter=semicolon,decimal=comma,encoding=cp1252") == hr.CSV(
        header=False, delimiter=";", decimal=",", encoding="cp1252"
    )
    for bad in ("header=x", "nothing=1", "delimiter=ab"):
        with pytest.raises(ValueError):
            hr.CSV.parse(bad)


# ----------------------------------------------------------------------------------- integers that no float64 is

BIG = 9007199254740993


def test_whole_numbers_beside_fractions_are_not_rounded(tmp_path):
    source = opened(tmp_path, f"k,x\n1,1.5\n2,{BIG}\n")
    assert [example["x"] for example in source] == ["1.5", str(BIG)]
    source = opened(tmp_path, f"k,x\n1,1.5\n2,{2**53}\n3,{2**60}\n4,-{2**63}\n")
    assert [example["x"] for example in source] == [1.5, 2**53, 2**60, -(2**63)]
    for types in ({"x": "float64"}, {"x": "float32"}):
        assert opened(tmp_path, f"k,x\n1,1.5\n2,{BIG}\n", types=types).schema["x"].dtype == types["x"]


@pytest.mark.parametrize("value", [str(BIG), f" {BIG}", f'"{BIG}"', "-" + "9" * 300, f"+{BIG}"])
def test_a_later_whole_number_is_not_rounded(tmp_path, value, monkeypatch):
    def examine(of, findings):
        return [examine_rows(b"1,1.5\n", np.zeros(1, np.int64), 6, of.dialect)]

    monkeypatch.setattr("headrace.sources.records._examine_heads", examine)
    text = "k,x\n" + "1,1.5\n" * 100 + f"2,{value}\n"
    whole = opened(tmp_path, text)
    for source in (whole, whole.select("x")):
        with pytest.raises(SchemaMismatch, match=r"an integer that float64 holds exactly.*record 100,.*feature 'x'"):
            source.batch([0, 100])
    assert hr.open(tmp_path / "x.csv", schema={"x": hr.Feature("float64")})[100]["x"] == float(value.strip(' "'))


@given(st.integers(0, 2**64 - 1), st.booleans())
def test_integers_that_a_float_holds(value, negative):
    text = f"-{value}" if negative else str(value)
    try:
        assert decoded([text], 7)[0] == int(text)
    except _native.FormatError as error:
        assert (error.fault, error.expected) == ("wrong_kind", 3)
        assert int(float(text)) != int(text)
    assert decoded([text], 3)[0] == float(text)


# ---------------------------------------------------------------------------------------------------------------- text


def test_text_is_strings_without_objects(tmp_path):
    source = opened(tmp_path, 'n,t,b\n1,"a, ""b""",x\n2,,"y\nz"\n', types={"b": "bytes"})
    batch = source.batch([1, 0, 1])
    assert isinstance(batch["t"], hr.Strings)
    assert batch["t"].is_text
    assert batch["t"].tolist() == ["", 'a, "b"', ""]
    assert isinstance(batch["b"], hr.Strings)
    assert not batch["b"].is_text
    assert batch["b"].tolist() == [b"y\nz", b"x", b"y\nz"]
    assert source[0]["t"] == 'a, "b"'
    assert source[0]["b"] == b"x"
    first = next(iter(hr.Loader(source, 2)))
    assert first["t"].tolist() == ['a, "b"', ""]


def test_columns_of_text_that_are_one_feature(tmp_path):
    source = opened(
        tmp_path,
        "v_0,k,v_1,v_2\na,1,b,\nd,2,,f\n",
        schema={"v": hr.Feature("str", shape=(3,)), "k": hr.Feature("int64")},
    )
    batch = source.batch([0, 1])
    assert batch["v"].shape == (2, 3)
    assert batch["v"].tolist() == [["a", "b", ""], ["d", "", "f"]]


@pytest.mark.parametrize(
    "encoding", ["utf-8", "latin-1", "cp1252", "cp1251", "koi8-r", "cp932", "utf-16", "gb18030", "euc_jp"]
)
def test_text_of_every_encoding(tmp_path, encoding):
    letters = "".join(
        chr(code) for code in (*range(32, 34), *range(35, 127), *range(0xA0, 0x500), *range(0x3041, 0x3090))
    )
    known = [letter for letter in letters if letter.encode(encoding, "ignore").decode(encoding, "ignore") == letter]
    texts = ["plain", "".join(known), *known, "".join(known[-40:]) + '"x"']
    rows = "".join(f'{number},"{text.replace(chr(34), chr(34) * 2)}"\n' for number, text in enumerate(texts))
    source = opened(tmp_path, ("n,t\n" + rows).encode(encoding), encoding=encoding, header=True)
    assert source.batch(range(len(source)))["t"].tolist() == texts


@pytest.mark.parametrize("size", [1, 63, 64, 65, 127, 128, 1000, 70_000])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_long_text_and_every_line_end(tmp_path, size, end):
    values = ["q" * size, f'a"{"," * size}\n"b', "\r\n" * size, ""]
    rows = "".join(f'{k},"{value.replace(chr(34), chr(34) * 2)}",{k / 8}{end}' for k, value in enumerate(values * 5))
    source = opened(tmp_path, f"k,t,x{end}{rows}", header=True)
    batch = source.batch(range(len(source)))
    assert batch["t"].tolist() == values * 5
    assert batch["k"].tolist() == list(range(20))
    assert batch["x"].tolist() == [k / 8 for k in range(20)]


@given(
    st.lists(
        st.tuples(st.sampled_from("+-|"), st.from_regex(r"\A[0-9]{0,22}(\.[0-9]{0,22})?([eE][+-]?[0-9]{1,3})?\Z")),
        min_size=1,
    )
)
def test_numbers_of_any_form_against_python(numbers):
    texts = [sign.strip("|") + digits for sign, digits in numbers]
    for text in texts:
        try:
            expected = float(text)
        except ValueError:
            expected = None
        if expected is None or math.isinf(expected):
            with pytest.raises(_native.FormatError):
                decoded([text], 3)
        else:
            assert decoded([text], 3).tobytes() == np.float64(expected).tobytes(), text
            assert decoded([text.replace(".", ",")], 3, decimal=",").tobytes() == np.float64(expected).tobytes(), text


@pytest.mark.parametrize("files", [1, 3])
def test_types_are_found_once(tmp_path, monkeypatch, files):
    """As long as the files stay as they are, the dialect is the same, and finding them takes a while."""
    monkeypatch.setattr(records, "KEPT_BYTES", 100)
    monkeypatch.setattr("headrace.io.local.signatures.Signature.is_settled", lambda self: True)
    paths = [tmp_path / f"{at}.csv" for at in range(files)]
    for path in paths:
        path.write_text("a,b,c\n" + "1,x,2.5\n" * 100)
    examined = []
    examine = records._examine_heads
    monkeypatch.setattr(records, "_examine_heads", lambda of, kept: examined.append(1) or examine(of, kept))

    def dtypes(**options):
        return [feature.dtype for feature in hr.open(paths, format=hr.CSV(**options)).schema.values()]

    assert dtypes() == dtypes() == ["int64", "str", "float64"]
    assert len(examined) == 1
    assert dtypes(floats="float32") == ["int64", "str", "float32"]
    assert dtypes(types={"a": "float64"}) == dtypes(types={"a": "float64"}) == ["float64", "str", "float64"]
    assert len(examined) == 3
    paths[-1].write_text("a,b,c\n" + "1,x,y\n" * 100)
    assert dtypes() == dtypes() == ["int64", "str", "str"]
    assert len(examined) == 4
    assert [example["c"] for example in hr.open(paths)][-1] == "y"


def test_types_of_small_or_damaged_files_are_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("headrace.io.local.signatures.Signature.is_settled", lambda self: True)
    monkeypatch.setattr("headrace.io.cache.findings.Findings.save", lambda *_: pytest.fail("kept"))
    (tmp_path / "a.csv").write_text("a,b\n" + "1,x\n" * 100)
    assert len(hr.open(tmp_path / "a.csv")) == 100
    monkeypatch.setattr(records, "KEPT_BYTES", 1)
    (tmp_path / "b.csv").write_text("a,b\n" + "1,x\n" * 100 + '1,"x')
    with pytest.raises(hr.DataError):
        len(hr.open(tmp_path / "b.csv"))
    skipping = hr.open(tmp_path / "b.csv", on_corrupt="skip")
    assert len(skipping) == 100


def test_whole_floats_that_are_no_integers(tmp_path):
    (tmp_path / "x.csv").write_text("a\n9007199254740991.0\n9007199254740993.0\n")
    source = hr.open(tmp_path / "x.csv", schema={"a": hr.Feature("int64")})
    assert source[0]["a"] == 2**53 - 1
    with pytest.raises(hr.SchemaMismatch, match="found '9007199254740993.0' - at .*record 1"):
        source.batch([0, 1])


@pytest.mark.parametrize("text", ["1e-400", "-1e-400", "3.00000000000000000000001", "300000000000000000000001e-23"])
def test_fractions_too_fine_for_a_float_are_no_integers(tmp_path, text):
    for dtype in ("int8", "uint64"):
        (tmp_path / "x.csv").write_text(f"a\n3.000\n300e-2\n0.003e+3\n{text}\n")
        source = hr.open(tmp_path / "x.csv", schema={"a": hr.Feature(dtype)})
        assert source.batch([0, 1, 2])["a"].tolist() == [3, 3, 3]
        with pytest.raises(hr.SchemaMismatch, match="expected an integer"):
            source[3]
