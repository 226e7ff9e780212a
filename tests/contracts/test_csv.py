"""Options of CSV files."""

import pytest

import headrace as hr
from headrace.errors import CorruptRecord


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"quote": None}, "quote must be one ASCII character, or '' for none, got None"),
        ({"quote": 1}, "quote must be one ASCII character"),
        ({"delimiter": b";"}, "delimiter must be one ASCII character"),
        ({"missing": None}, "missing must be a list of words"),
        ({"missing": [1]}, "missing must be a list of words"),
        ({"missing": [b"NA"]}, "missing must be a list of words"),
        ({"missing": b"NA"}, "missing must be a list of words"),
        ({"missing": "NA,null"}, "missing must be a list of words"),
        ({"types": "int8"}, "types must be a dict, such as"),
        ({"types": ["int8"]}, "types must be a dict, such as"),
        ({"encoding": 5}, "encoding must be the name of one"),
        ({"header": [1, 2]}, "header must be True, False or names"),
    ],
)
def test_options_of_other_types_are_refused(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        hr.CSV(**options)


def test_words_and_types():
    assert hr.CSV(missing="NA").missing == ("NA",)
    assert hr.CSV(missing=iter(["a", "b"])).missing == ("a", "b")
    assert hr.CSV(types={"a": "int8"}).types == {"a": hr.Feature("int8")}
    assert hr.CSV(types=None).types == {}


def test_a_decimal_comma_has_no_comma_between_fields():
    assert hr.CSV(decimal=",").with_delimiter(",").delimiter == ";"
    assert hr.CSV(decimal=",").with_delimiter("\t").delimiter == "\t"
    assert hr.CSV(decimal=",", delimiter="|").with_delimiter(",").delimiter == "|"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ('"x","y"\n"1",1.5,"a"\n"2",2.5,"b"\n', "as R writes them"),
        ('a, b\n1, "x, y"\n2, "z"\n', "skipinitialspace=True"),
        ("a,b\n1,2\n3,4,5\n", "If the delimiter is wrong"),
        ("a,b\n1,2\n3\n", "If the delimiter is wrong"),
    ],
)
def test_what_may_be_the_reason_for_rows_of_another_length(tmp_path, text, hint):
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(CorruptRecord, match=f"expected 2 fields, found .*{hint}"):
        list(hr.open(tmp_path / "x.csv"))
