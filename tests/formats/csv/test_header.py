"""Headers: those that Headrace writes are found again, and those of other writers mean what they meant."""

import numpy as np
import pytest

import headrace as hr
from headrace.writing.salvage import salvage


def texts(*values):
    return np.array(values, object)


WRITTEN = {
    "a value like its name": ({"name": texts("name", "bob")}, 'name\n"name"\nbob\n'),
    "with a number that is missing": (
        {"name": texts("name", "bob"), "x": np.array([np.nan, np.nan])},
        'name,x\n"name",nan\nbob,nan\n',
    ),
    "values like other names": ({"a": texts("b", "x"), "b": texts("a", "b")}, 'a,b\nb,a\nx,"b"\n'),
    "names of two values": ({"t": texts(["t_0", "t_1"], ["b", "t_0"])}, 't_0,t_1\n"t_0","t_1"\nb,t_0\n'),
    "numbers as names": ({"2019": np.array([1.5, 2])}, '"2019"\n1.5\n2.0\n'),
    "of text": ({"2019": texts("a", "b"), "true": texts("x", "y")}, '"2019","true"\na,x\nb,y\n'),
    "missing words as names": ({"NA": np.array([1, 2])}, '"NA"\n1\n2\n'),
    "no words as names": ({"a/b": texts("x", "y"), "c": texts("z", "z")}, '"a/b","c"\nx,z\ny,z\n'),
    "both": ({"a/b": texts("a/b", "y")}, '"a/b"\n"a/b"\ny\n'),
    "blanks": ({"name": texts(" name", "name ")}, 'name\n" name"\n"name "\n'),
    "ordinary": ({"a": texts("x", "1,2"), "b/c": np.array([1, 2])}, 'a,b/c\nx,1\n"1,2",2\n'),
    "counted": ({str(k): np.array([1, 2]) for k in range(4)}, "0,1,2,3\n1,1,1,1\n2,2,2,2\n"),
}


@pytest.mark.parametrize("case", WRITTEN)
@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_written_headers_are_found_again(tmp_path, case, suffix):
    columns, text = WRITTEN[case]
    path = tmp_path / f"x.{suffix}"
    hr.write(path, columns)
    if suffix == "csv":
        assert path.read_text() == text
    source = hr.open(path)
    names = text.split("\n")[0].replace('"', "").split(",")
    assert list(source.schema) == names
    assert len(source) == 2
    schema = {name: hr.Feature("str" if c.dtype == object else c.dtype, c.shape[1:]) for name, c in columns.items()}
    batch = hr.open(path, schema=schema).batch([0, 1])
    for name, column in columns.items():
        assert np.array_equal(np.asarray(batch[name]), column, equal_nan=column.dtype.kind == "f")


def test_a_salvaged_header_is_found_again(tmp_path):
    hr.write(tmp_path / "x.csv", {"2019": np.array([1, 2])})
    salvage(tmp_path / "x.csv", tmp_path / "y.csv")
    assert (tmp_path / "y.csv").read_bytes() == (tmp_path / "x.csv").read_bytes()


def test_no_header_has_no_quotes(tmp_path):
    hr.write(tmp_path / "x.csv", {"name": texts("name", "bob")}, format=hr.CSV(header=False))
    assert (tmp_path / "x.csv").read_text() == "name\nbob\n"
    hr.write(tmp_path / "x.csv", {"name": texts("name", "a")}, format=hr.CSV(header=["name"]))
    assert (tmp_path / "x.csv").read_text() == "name\na\n"


OTHER = {
    '"Ann","5"\n"Bob","6"\n': (["c0", "c1"], 2),
    '"Ann","5"\n"Bob",\\N\n"Cid",\\N\n': (["c0", "c1"], 3),
    '"Ann","5"\n"Bob",NULL\n"Cid",\n': (["c0", "c1"], 3),
    '"Ann",5\n"Bob",6\n': (["c0", "c1"], 2),
    '"2019","2020"\n"1","2"\n': (["c0", "c1"], 2),
    '"2019","2020"\n1,2\n': (["2019", "2020"], 1),
    '"x","y"\n1,"a"\n2,"b"\n': (["x", "y"], 2),
    '"name"\n"name"\n"bob"\n': (["c0"], 3),
    "name\nname\nbob\n": (["c0"], 3),
    '"a""b"\n"c""d"\n': (["c0"], 2),
    ",name,label\n0,bob,x\n1,al,y\n": (["c0", "name", "label"], 2),  # pandas, with its index
    ",name\n7,bob\n3,al\n": (["c0", "name"], 2),
    ",name\n7,bob\n7,al\n": (["c0", "c1"], 3),  # a value is missing
    ",name\n7,bob\n,al\n": (["c0", "c1"], 3),
    ",bob smith\nx,al\n": (["c0", "c1"], 2),
    ",name\n1,name\n": (["c0", "c1"], 2),
    ",2019\n0,bob\n1,al\n": (["c0", "c1"], 3),
}


@pytest.mark.parametrize("text", OTHER)
def test_headers_of_other_writers(tmp_path, text):
    (tmp_path / "x.csv").write_text(text)
    names, rows = OTHER[text]
    source = hr.open(tmp_path / "x.csv", format="csv")
    assert list(source.schema) == names
    assert len(source) == rows


def test_names_that_the_caller_knows_are_a_header(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("2019,2020\n1,2\n")
    schema = {"2020": hr.Feature("int64")}
    assert list(hr.open(path)) == [{"c0": 2019, "c1": 2020}, {"c0": 1, "c1": 2}]
    assert list(hr.open(path, schema=schema)) == [{"2020": 2}]
    assert list(hr.open(path, format=hr.CSV(types={"2020": "float64"}))) == [{"2019": 1, "2020": 2.0}]
    assert list(hr.open(path, schema={"c1": hr.Feature("int64")})) == [{"c1": 2020}, {"c1": 2}]
    (tmp_path / "y.csv").write_text("2019,2020\n3,4\n")
    report = hr.verify([path, tmp_path / "y.csv"], schema=schema)
    assert (report.ok, report.records) == (True, 2)
    for wrong in ({"2021": hr.Feature("int64")}, schema):
        with pytest.raises(hr.NoSuchFeature):
            hr.open(path, schema=wrong, format=hr.CSV(header=False))


def test_text_comes_back_with_the_schema(tmp_path):
    """Without it, text that looks like numbers is numbers, as in files of other writers."""
    columns = {"name": texts("name", "bob"), "n": texts("1", "2"), "b": texts("true", "NA"), "1": texts("1", "1,1")}
    hr.write(tmp_path / "x.parquet", columns)
    done = hr.convert(tmp_path / "x.parquet", tmp_path / "x.csv")
    batch = hr.open(tmp_path / "x.csv", schema=done.schema).batch([0, 1])
    assert {name: column.tolist() for name, column in batch.items()} == {n: c.tolist() for n, c in columns.items()}


def test_features_without_values_are_refused(tmp_path):
    columns = {"a": np.zeros((3, 0)), "b": np.arange(3)}
    with pytest.raises(hr.UnsupportedData, match="a value in every example, .*feature 'a'"):
        hr.write(tmp_path / "x.csv", columns)
    with pytest.raises(hr.UnsupportedData, match="feature 'a'"):
        hr.write(tmp_path / "x.csv", {"a": np.empty((3, 0), object)}, schema={"a": hr.Feature("bytes", (0,))})
    hr.write(tmp_path / "x.npz", columns)
    assert hr.convert(tmp_path / "x.npz", tmp_path / "x.csv", allow_loss=True).lost == ("'a' is left out",)
