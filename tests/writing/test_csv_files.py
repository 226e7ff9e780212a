"""Examples as CSV files, and back."""

import csv
import gzip
import io

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace import _native
from headrace.contracts.strings import Strings
from headrace.errors import SchemaMismatch, UnsupportedData
from headrace.formats.csv.write import CsvRows
from headrace.writing.convert import convert

MARKS = (",", '"', ".")
COLUMNS = {
    "i": np.array([1, -2, 2**62]),
    "u": np.array([0, 2**64 - 1, 7], np.uint64),
    "f": np.array([0.1, np.nan, -np.inf]),
    "h": np.array([0.1, 65504, -0.0], np.float16),
    "s": np.array(["a,b", 'say "é"', "two\nlines"], object),
    "b": np.array([True, False, True]),
    "v": np.arange(6, dtype=np.uint8).reshape(3, 2),
}
EXPECTED = (
    "i,u,f,h,s,b,v_0,v_1\n"
    '1,0,0.1,0.099975586,"a,b",true,0,1\n'
    '-2,18446744073709551615,nan,65504.0,"say ""é""",false,2,3\n'
    '4611686018427387904,7,-inf,-0.0,"two\nlines",true,4,5\n'
)


def text_of(path):
    return path.read_bytes().decode()


def test_written_bytes(tmp_path):
    assert hr.write(tmp_path / "x.csv", COLUMNS) == 3
    assert text_of(tmp_path / "x.csv") == EXPECTED
    source = hr.open(tmp_path / "x.csv")
    assert [feature.dtype for feature in source.schema.values()] == [
        "int64", "uint64", "float64", "float64", "str", "bool", "int64", "int64"
    ]  # fmt: skip
    batch = source.batch([0, 1, 2])
    for name in ("i", "u", "f", "s", "b"):
        np.testing.assert_array_equal(batch[name], COLUMNS[name])
    assert batch["h"].astype(np.float16).tolist() == COLUMNS["h"].tolist()


def test_other_readers_agree(tmp_path):
    hr.write(tmp_path / "x.csv", COLUMNS)
    with open(tmp_path / "x.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file, strict=True))
    assert [row[4] for row in rows[1:]] == COLUMNS["s"].tolist()
    frame = pd.read_csv(tmp_path / "x.csv")
    np.testing.assert_array_equal(frame["f"], COLUMNS["f"])
    assert frame["b"].dtype == bool


@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"])) | st.text('a,"\\n;', max_size=9), min_size=4, max_size=4
    ),
    st.sampled_from([hr.CSV(), hr.CSV(quote="'"), hr.CSV(delimiter=";"), hr.CSV(encoding="utf-16")]),
    st.booleans(),
)
def test_columns_of_text_are_written_as_objects_are(values, options, is_wide):
    shape = (2,) if is_wide else ()
    rows = CsvRows(hr.Schema({"t": hr.Feature("str", shape), "n": hr.Feature("int64")}), options)
    column = Strings.from_values(["left out", *values], is_text=True)[1:]
    objects = np.array([*values, None], object)[:-1]
    n = 4 // (2 if is_wide else 1)
    batches = [{"t": part.reshape(n, *shape), "n": np.arange(n)} for part in (column, objects)]
    assert rows.encode_rows(batches[0], n) == rows.encode_rows(batches[1], n)


def test_columns_of_text_of_another_shape():
    rows = CsvRows(hr.Schema({"t": hr.Feature("str")}))
    with pytest.raises(SchemaMismatch, match="shape"):
        rows.encode_rows({"t": Strings.from_values(["a", "b"])}, 3)
    data = np.frombuffer(b"ab", np.uint8)
    for places in ([0, 1], [0, 1, 3], [1, 0, 2], []):
        with pytest.raises(Exception, match="length|range|outside|offset"):
            _native.encode_csv([(6, 1, (data, np.array(places, np.int64)))], 2, MARKS, "\n")


@given(st.lists(st.floats(), min_size=1, max_size=20))
def test_floats_are_written_as_python_writes_them(values):
    text = _native.encode_csv([(3, 1, np.array(values))], len(values), MARKS, "\n").decode()
    assert text.split("\n")[:-1] == [repr(value) for value in values]


@given(st.lists(st.floats(width=32), min_size=1, max_size=20))
def test_float32_comes_back(values):
    column = np.array(values, np.float32)
    text = _native.encode_csv([(4, 1, column)], len(values), MARKS, "\n").decode()
    assert [np.float32(line) for line in text.split("\n")[:-1]] == pytest.approx(
        column.tolist(), abs=0, rel=0, nan_ok=True
    )


@given(st.lists(st.lists(st.text(), min_size=2, max_size=2), max_size=8))
def test_texts_come_back(tmp_path_factory, table):
    table = [[text.encode("utf-8", "ignore").decode() for text in row] for row in table]
    folder = tmp_path_factory.mktemp("csv")
    columns = {name: np.array([row[k] for row in table], object) for k, name in enumerate("ab")}
    hr.write(folder / "x.csv", columns, schema={"a": hr.Feature("str"), "b": hr.Feature("str")})
    options = hr.CSV(delimiter=",", header=True, types={"a": "str", "b": "str"})
    source = hr.open(folder / "x.csv", format=options)
    assert [list(example.values()) for example in source] == table
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([["a", "b"], *table])
    assert list(csv.reader(io.StringIO(text_of(folder / "x.csv"), newline=""), strict=True)) == [["a", "b"], *table]


def test_a_single_column_of_empty_texts_has_rows(tmp_path):
    hr.write(tmp_path / "x.csv", {"t": np.array(["", "x", ""], object)})
    assert text_of(tmp_path / "x.csv") == 't\n""\nx\n""\n'
    assert [example["t"] for example in hr.open(tmp_path / "x.csv")] == ["", "x", ""]


def test_options(tmp_path):
    data = {"a": np.array([1.5, 2.0]), "t": np.array(["x;y", "é"], object)}
    hr.write(tmp_path / "x.csv", data, format=hr.CSV(delimiter=";", decimal=",", newline="\r\n", encoding="cp1252"))
    assert (tmp_path / "x.csv").read_bytes() == 'a;t\r\n1,5;"x;y"\r\n2,0;é\r\n'.encode("cp1252")
    hr.write(tmp_path / "y.csv", data, format=hr.CSV(header=False))
    assert text_of(tmp_path / "y.csv") == "1.5,x;y\n2.0,é\n"
    hr.write(tmp_path / "y.csv", data, format=hr.CSV(header=("a", "t")))
    assert text_of(tmp_path / "y.csv") == "1.5,x;y\n2.0,é\n"
    hr.write(tmp_path / "x.tsv", data)
    assert text_of(tmp_path / "x.tsv").startswith("a\tt\n")
    for encoding, start in (("utf-8-sig", b"\xef\xbb\xbfa"), ("utf-16", b"\xff\xfea\0"), ("utf-16-be", b"\0a\0,")):
        hr.write(tmp_path / "z.csv", data, format=hr.CSV(encoding=encoding))
        assert (tmp_path / "z.csv").read_bytes().startswith(start)
        again = hr.open(tmp_path / "z.csv", format=hr.CSV(encoding=encoding))
        assert [example["t"] for example in again] == ["x;y", "é"]


def test_examples_one_by_one_keep_their_floats(tmp_path):
    with hr.Writer(tmp_path / "x.csv.gz") as writer:
        for k in range(3000):
            writer.write({"k": k, "x": k / 7, "t": f"t{k}"})
    assert gzip.decompress((tmp_path / "x.csv.gz").read_bytes()).startswith(
        b"k,x,t\n0,0.0,t0\n1,0.14285714285714285,t1\n"
    )
    assert hr.open(tmp_path / "x.csv.gz")[2999] == {"k": 2999, "x": 2999 / 7, "t": "t2999"}


def test_shards(tmp_path):
    hr.write(tmp_path / "x.csv@3", {"k": np.arange(10)})
    assert text_of(tmp_path / "x.csv-00001-of-00003") == "k\n3\n4\n5\n"
    assert [example["k"] for example in hr.open(tmp_path / "x.csv@3")] == list(range(10))


@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz", "x.csv.zz"])
def test_conversion_in_units_has_one_header(tmp_path, name):
    data = {"k": np.arange(40_000), "x": np.linspace(0, 1, 40_000, dtype=np.float32)}
    hr.write(tmp_path / "a.tfrecord", data)
    convert(tmp_path / "a.tfrecord", tmp_path / name, threads=3)
    source = hr.open(tmp_path / name)
    batch = source.batch(range(40_000))
    np.testing.assert_array_equal(batch["k"], data["k"])
    np.testing.assert_array_equal(batch["x"].astype(np.float32), data["x"])
    convert(tmp_path / name, tmp_path / "b.npy", columns=["k"])
    np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), data["k"])


def test_csv_to_other_formats(tmp_path):
    (tmp_path / "x.csv").write_text("name,age\nbob,3\nalice,4\n")
    for name in ("y.tfrecord", "y.array_record", "y.csv"):
        convert(tmp_path / "x.csv", tmp_path / name)
        found = [
            {key: str(np.asarray(value).item()) for key, value in example.items()}
            for example in hr.open(tmp_path / name)
        ]
        assert sorted(map(str, found[0].values())) == ["3", "bob"], name


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"r": hr.Ragged.from_list([np.arange(2), np.arange(3)])}, "as many values in every example"),
        (
            {"r": np.array([b"\xff\x00", b"ok"], object)},
            r"text in UTF-8, found bytes that are not UTF-8.*record 0.*'r'",
        ),
        ({"r": np.array([1j, 2j])}, "up to 64 bits"),
        ({"r": np.array(["2026-11-20"], "M8[D]")}, "numbers, truth values or text"),
        ({"a": np.zeros((1, 2)), "a_1": np.zeros(1)}, "two 'a_1'"),
    ],
)
def test_values_that_rows_cannot_hold_are_refused(tmp_path, columns, message):
    with pytest.raises(UnsupportedData, match=message):
        hr.write(tmp_path / "x.csv", columns)
    assert list(tmp_path.iterdir()) == []


def test_other_refusals(tmp_path):
    with pytest.raises(UnsupportedData, match="cp1252"):
        hr.write(tmp_path / "x.csv", {"t": np.array(["Ω"], object)}, format=hr.CSV(encoding="cp1252"))
    with pytest.raises(UnsupportedData, match="quote=''"):
        hr.write(tmp_path / "x.csv", {"t": np.array(["a,b"], object)}, format=hr.CSV(quote=""))
    with pytest.raises(SchemaMismatch, match="the names of the columns in header="):
        hr.write(tmp_path / "x.csv", {"t": np.zeros(1)}, format=hr.CSV(header=("a", "b")))
    with pytest.raises(UnsupportedData, match="no codec for a format"):
        hr.write(tmp_path / "x.csv", {"t": np.zeros(1)}, codec="example")
    with pytest.raises(SchemaMismatch, match="int8 values|int64 values"):
        hr.write(tmp_path / "x.csv", {"t": np.zeros(1)}, schema={"t": hr.Feature("int8")})
    assert list(tmp_path.iterdir()) == []
