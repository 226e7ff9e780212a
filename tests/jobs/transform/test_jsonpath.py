"""The JSONPath of filters."""

from __future__ import annotations

import jsonpath_ng.ext
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.jobs.transform.jsonpath import JsonPath

ROW = ["a", "b", "c", "d", "e", "f"]
TREE = {
    "id": 7,
    "x y": [1, 2, 3],
    "deep": {"er": [{"s": 0.5}, {"s": 1}]},
    "SageMakerOutput": {"predictions": [{"score": 2}]},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$", ROW),
        ("$[0]", "a"),
        ("$[-1]", "f"),
        ("$[1,3,5]", ["b", "d", "f"]),
        ("$[3, 1]", ["d", "b"]),
        ("$[1:4]", ["b", "c", "d"]),
        ("$[:2]", ["a", "b"]),
        ("$[4:]", ["e", "f"]),
        ("$[-2:]", ["e", "f"]),
        ("$[:-4]", ["a", "b"]),
        ("$[0,4:]", ["a", "e", "f"]),
        ("$[ 0 , 4 : 5 ]", ["a", "e"]),
        ("$[:]", ROW),
        ("$[9:]", []),
        ("$[*]", ROW),
        ("$.*", ROW),
    ],
)
def test_elements(path, found):
    assert JsonPath.parse(path).select(ROW) == found


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$.id", 7),
        ("$['id']", 7),
        ('$["id"]', 7),
        ("$['x y'][0]", 1),
        ("$['id','x y']", {"id": 7, "x y": [1, 2, 3]}),
        ("$['x y', 'id']", {"x y": [1, 2, 3], "id": 7}),
        ("$.deep.er[0].s", 0.5),
        ("$.deep.er[*].s", [0.5, 1]),
        ("$.deep.er[0,1].s", [0.5, 1]),
        ("$.deep.er[0:1].s", [0.5]),
        ("$.SageMakerOutput.predictions[0].score", 2),
        ("$.deep.*", [[{"s": 0.5}, {"s": 1}]]),
        ("$['id','deep']['er']", None),
    ],
)
def test_members(path, found):
    if found is None:
        with pytest.raises(LookupError, match="expected an object with 'er', found a number"):
            JsonPath.parse(path).select(TREE)
    else:
        assert JsonPath.parse(path).select(TREE) == found


def test_a_quote_in_a_name_is_escaped():
    assert JsonPath.parse(r"$['it\'s']").select({"it's": 1}) == 1


@pytest.mark.parametrize(
    "text",
    ["", "id", "$id", "$.", "$..a", "$[", "$[]", "$[0", "$[0,]", "$[1:2:3]", "$[?(@.a)]", "$['a]", "$[a]", "$ .a", "$[0]x", "$.a b",
     "$['a',0]", "$[0,'a']", "$[1.5]", "$[--1]", "$[99999999999]", "@.a"],
)  # fmt: skip
def test_non_paths_are_refused(text):
    with pytest.raises(ValueError, match=r"JSONPath|brackets"):
        JsonPath.parse(text)


def test_a_fault_names_its_place():
    with pytest.raises(ValueError, match="at character 4"):
        JsonPath.parse("$.a.?")
    with pytest.raises(ValueError, match="at its end"):
        JsonPath.parse("$[0,")


def test_a_path_has_up_to_63_characters():
    JsonPath.parse("$." + "a" * 61)
    with pytest.raises(ValueError, match="64 characters; the limit is 63"):
        JsonPath.parse("$." + "a" * 62)


@pytest.mark.parametrize(
    ("path", "value", "reported"),
    [
        ("$[6]", ROW, "expected an element at position 6, found 6 elements"),
        ("$[-7]", ROW, "expected an element at position -7, found 6 elements"),
        ("$[0,6]", ROW, "position 6"),
        ("$.a", {"b": 1, "c": 2}, "expected an object with 'a', found one with 'b', 'c'"),
        ("$.a", {}, "found one with nothing"),
        ("$.a", [1], "expected an object with 'a', found a list"),
        ("$[0]", {"a": 1}, "expected a list, found an object"),
        ("$[0]", "text", "expected a list, found a text"),
        ("$[0]", None, "found null"),
        ("$[0]", True, "found a truth value"),
    ],
)
def test_missing_files_are_reported(path, value, reported):
    with pytest.raises(LookupError) as caught:
        JsonPath.parse(path).select(value)
    assert reported in str(caught.value)


def test_columns_of_a_row():
    assert JsonPath.parse("$").columns(3) == [0, 1, 2]
    assert JsonPath.parse("$[1]").columns(3) == [1]
    assert JsonPath.parse("$[-1,0:2]").columns(3) == [2, 0, 1]
    assert JsonPath.parse("$[*]").columns(2) == [0, 1]
    with pytest.raises(LookupError, match="selects nothing from 1 column"):
        JsonPath.parse("$[1:]").columns(1)


@pytest.mark.parametrize(
    ("path", "known"), [("$", True), ("$[1:]", True), ("$[*]", True), ("$.a", False), ("$[0][0]", False)]
)
def test_whether_a_path_is_for_rows(path, known):
    assert JsonPath.parse(path).takes_columns is known


@pytest.mark.parametrize(
    ("path", "matters"), [("$[1:]", False), ("$[:5]", True), ("$[0,1:2]", True), ("$.a[0]", False)]
)
def test_whether_the_end_of_a_slice_matters(path, matters):
    assert JsonPath.parse(path).has_ended_slice is matters


ENDS = st.none() | st.integers(-8, 8)


@given(ENDS, ENDS, st.integers(0, 8))
def test_slices_are_those_of_another_implementation(begin, end, size):
    path = f"$[{'' if begin is None else begin}:{'' if end is None else end}]"
    values = list(range(size))
    peer = [match.value for match in jsonpath_ng.ext.parse(path).find(values)]
    assert JsonPath.parse(path).select(values) == peer


@given(st.text(alphabet="$.[]'\"*:,-0123456789ab \\?@", max_size=20))
def test_any_text_is_a_path_or_is_refused(text):
    try:
        path = JsonPath.parse("$" + text)
    except ValueError:
        return
    for value in (TREE, ROW):
        try:
            path.select(value)
        except LookupError as error:
            assert str(error)
