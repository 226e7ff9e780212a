"""Files that are written with some options are read back with the same options."""

import numpy as np
import pytest

import headrace as hr

BARE = hr.CSV(quote="")


def texts(*values):
    return np.array(values, object)


def test_quotes_are_ordinary_text_where_there_are_none(tmp_path):
    values = ['5" pipe', "plain", '"', "", '""']
    columns = {'size "in"': texts(*values), "n": np.arange(5)}
    hr.write(tmp_path / "x.csv", columns, format=BARE)
    assert (tmp_path / "x.csv").read_text() == 'size "in",n\n5" pipe,0\nplain,1\n",2\n,3\n"",4\n'
    source = hr.open(tmp_path / "x.csv", format=BARE)
    assert [example['size "in"'] for example in source] == values
    hr.write(tmp_path / "x.parquet", columns)
    hr.convert(tmp_path / "x.parquet", tmp_path / "y.csv", format=BARE)
    assert (tmp_path / "y.csv").read_text() == (tmp_path / "x.csv").read_text()


def test_an_empty_line_is_no_row_without_quotes(tmp_path):
    with pytest.raises(hr.UnsupportedData, match="not empty where it is the only column, .* record 1, feature 't'"):
        hr.write(tmp_path / "x.csv", {"t": texts("a", "")}, format=BARE)
    assert not (tmp_path / "x.csv").exists()


def test_a_list_of_names_is_that_of_a_file_without_a_header(tmp_path):
    named = hr.CSV(header=["a", "b_0", "b_1"])
    columns = {"a": np.array([1, 2]), "b": np.arange(4).reshape(2, 2)}
    hr.write(tmp_path / "x.csv", columns, format=named)
    assert (tmp_path / "x.csv").read_text() == "1,0,1\n2,2,3\n"
    assert list(hr.open(tmp_path / "x.csv", format=named)) == [
        {"a": 1, "b_0": 0, "b_1": 1},
        {"a": 2, "b_0": 2, "b_1": 3},
    ]
    hr.write(tmp_path / "x.csv@2", columns, format=named)
    assert len(hr.open(tmp_path / "x.csv@2", format=named)) == 2


@pytest.mark.parametrize(
    ("names", "found"), [(["b", "a"], "'b' for 'a'"), (["a"], "1 names for 2"), (["a", "c"], "'c' for 'b'")]
)
def test_other_names_than_those_of_the_columns_are_refused(tmp_path, names, found):
    with pytest.raises(hr.SchemaMismatch, match=rf"found {found}.* at .*x.csv"):
        hr.write(tmp_path / "x.csv", {"a": np.arange(2), "b": np.arange(2)}, format=hr.CSV(header=names))
    assert not (tmp_path / "x.csv").exists()


@pytest.mark.parametrize("name", ["temp;C", "a|b", "x (a;b)", "a,b", "a\tb", "sep=;x", "sep=;"])
@pytest.mark.parametrize("suffix", ["csv", "tsv"])
@pytest.mark.parametrize("values", [np.arange(5), texts("x", "y"), texts("1;2", "3;4")])
def test_a_single_name_is_not_split(tmp_path, name, suffix, values):
    path = tmp_path / f"x.{suffix}"
    if values.dtype == object and {"csv": ",", "tsv": "\t"}[suffix] in name:
        return  # It needs its quotes, so they do not show that it is one.
    hr.write(path, {name: values})
    assert hr.verify(path).ok
    assert hr.open(path)[name].batch(range(2)).tolist() == values[:2].tolist()


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize(
    ("missing", "text"),
    [
        ([""], "x,y\n0.5,0\n,1\n"),
        (["?", "-"], "x,y\n0.5,0\n?,1\n"),
        (["?", "nan"], "x,y\n0.5,0\nnan,1\n"),
        (["a,b"], 'x,y\n0.5,0\n"a,b",1\n'),
    ],
)
def test_missing_numbers_are_words_that_are_read_as_such(tmp_path, dtype, missing, text):
    options = hr.CSV(missing=missing)
    hr.write(tmp_path / "x.csv", {"x": np.array([0.5, np.nan], dtype), "y": np.arange(2)}, format=options)
    assert (tmp_path / "x.csv").read_text() == text
    found = hr.open(tmp_path / "x.csv", format=options)
    assert found.schema["x"] == hr.Feature("float64")
    np.testing.assert_array_equal(found["x"], [0.5, np.nan])


def test_a_single_column_keeps_its_missing_numbers(tmp_path):
    options = hr.CSV(missing=[""])
    hr.write(tmp_path / "x.csv", {"x": np.array([0.5, np.nan, 1])}, format=options)
    np.testing.assert_array_equal(hr.open(tmp_path / "x.csv", format=options)["x"], [0.5, np.nan, 1])


@pytest.mark.parametrize(
    "options", [hr.CSV(missing=[]), hr.CSV(missing=[""], quote=""), hr.CSV(missing=["a,b"], quote="")]
)
def test_missing_numbers_without_a_word_are_refused(tmp_path, options):
    with pytest.raises(hr.UnsupportedData, match="no word in missing= .* record 1, feature 'x'. Add 'nan'"):
        hr.write(tmp_path / "x.csv", {"x": np.array([[0.5], [np.nan]])}, format=options)
    hr.write(tmp_path / "x.csv", {"x": np.array([0.5, 1])}, format=options)


@pytest.mark.parametrize("mark", ["-", "+"])
def test_marks_that_numbers_have_are_refused(tmp_path, mark):
    for options, what in ((hr.CSV(delimiter=mark), "delimiter"), (hr.CSV(quote=mark), "quote")):
        with pytest.raises(hr.UnsupportedData, match=f"a {what} that no number has.*x.csv"):
            hr.write(tmp_path / "x.csv", {"a": np.array([-1, 2]), "b": np.array([1e22, 1])}, format=options)
    (tmp_path / "y.csv").write_text(f"2020{mark}01\n2021{mark}02\n")
    assert hr.open(tmp_path / "y.csv", format=hr.CSV(delimiter=mark))[1] == {"c0": 2021, "c1": "02"}


def test_a_decimal_comma_goes_with_semicolons(tmp_path):
    options = hr.CSV(decimal=",")
    hr.write(tmp_path / "x.csv", {"a": np.array([0.5, 2]), "b": np.arange(2)}, format=options)
    assert (tmp_path / "x.csv").read_text() == "a;b\n0,5;0\n2,0;1\n"
    assert hr.open(tmp_path / "x.csv", format=options)[0] == {"a": 0.5, "b": 0}
