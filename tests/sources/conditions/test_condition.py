"""Conditions: the language, its errors, and its meaning against plain Python on one example at a time."""

import pickle
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.sources.conditions.condition import MOST_CHARACTERS, condition
from headrace.sources.conditions.terms import COMPARISONS, ConditionError

COLUMNS = {
    "label": np.array([1, 7, 7, 3]),
    "width": np.array([50.0, 200.0, np.nan, 300.0], np.float32),
    "name": hr.Strings.from_values(["cat", "Dog", "", "it's"]),
    "raw": hr.Strings.from_values([b"abc", b"\xff\x00", b"", b"abc"]),
    "tokens": hr.Ragged.from_list([[1, 2], [], [5], [9, 9]], "int64"),
    "pairs": np.arange(8).reshape(4, 2),
    "day": np.array(["2026-01-01", "2026-01-02", "NaT", "2027-01-01"], "datetime64[D]"),
    "odd name!": np.array([True, False, True, False]),
}
SOURCE = hr.ColumnSource(COLUMNS)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("label = 7 and width > 100", [1]),
        ("label == 7 or label <> 7", [0, 1, 2, 3]),
        ("width != 50", [1, 2, 3]),
        ("width <= 200", [0, 1]),
        ("not (label in (7, 3))", [0]),
        ("label not in (7, 3)", [0]),
        ("name contains 'CAT'", [0]),
        ("name = 'it''s'", [3]),
        ('name = "it\'s"', [3]),
        ("name < 'a'", [1, 2]),
        ("raw = 'abc'", [0, 3]),
        ("length(name) = 3", [0, 1]),
        ("length(tokens) = 0", [1]),
        ("tokens > 4", [2, 3]),
        ("not tokens > 4", [0, 1]),
        ("tokens[1] = 9", [3]),
        ("pairs[1] >= 5", [2, 3]),
        ("min(tokens) = 1 or max(tokens) = 9", [0, 3]),
        ("mean(tokens) = 1.5", [0]),
        ("mean(pairs) > 4", [2, 3]),
        ("max(label) = 7", [1, 2]),
        ("tokens > label", [0, 3]),
        ("label < tokens", [0, 3]),
        ("day >= '2026-01-02'", [1, 3]),
        ("`odd name!`", [0, 2]),
        ("`odd name!` = true", [0, 2]),
        ("name", [0, 1, 3]),
        ("'dog'", [1]),
        ("'dog' or label = 1", [0, 1]),
        ("1 = 1", [0, 1, 2, 3]),
        ("7.0 = label", [1, 2]),
        ("label > -1e3", [0, 1, 2, 3]),
        ("label = 1000000000000000000000000", []),
    ],
)
def test_meaning(text, rows):
    found = condition(text)
    kept = SOURCE.filter(found)
    assert [example["label"] for example in kept] == [COLUMNS["label"][row] for row in rows]
    assert len(kept) == len(rows)
    assert [i for i in range(len(SOURCE)) if found(SOURCE[i])] == rows


def test_labels_compare_with_their_names():
    schema = hr.Schema({"label": hr.Feature("int64", names=("cat", "dog"))})
    found = condition("label = 'dog'")
    assert found.mask({"label": np.array([0, 1, 5])}, 3, schema).tolist() == [False, True, False]
    assert condition("label contains 'O'").mask({"label": np.array([0, 1, 5])}, 3, schema).tolist() == [
        False,
        True,
        False,
    ]
    assert condition("'cat'").mask({"label": np.array([0, 1, 5])}, 3, schema).tolist() == [True, False, False]
    with pytest.raises(ConditionError, match="no value is named 'dgo'. Did you mean 'dog'"):
        condition("label = 'dgo'").mask({"label": np.array([0])}, 1, schema)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a feature, a number or a text in quotes at character 1, found the end"),
        ("a >", "at character 4, found the end"),
        ("(a", r"expected '\)' at character 3"),
        ("a = 'x", 'found "\'"'),
        ("a b", "expected the end, 'and' or 'or' at character 3, found 'b'"),
        ("9a = 1", "found '9'"),
        ("a contains 5", "expected a text in quotes"),
        ("a in 5", r"expected '\('"),
        ("a in ()", "expected a feature, a number"),
        ("a not 5", "expected 'in'"),
        ("a[-1] = 3", "expected a position from 0"),
        ("a[99999999999999999999] = 3", "expected a position from 0"),
        ("min(3) = 3", "expected the name of a feature"),
        ("a; import os", "found ';'"),
        ("__import__('os')", "expected the end"),
        ("not " * 100 + "a", "at most 50"),
        ("(" * 1000 + "a", "at most 50"),
        ("a" * (MOST_CHARACTERS + 1), "at most 10,000 characters"),
        ("a < " + "1" * 5000, "a number of at most 400 characters"),
    ],
)
def test_errors_of_the_language(text, message):
    with pytest.raises(ConditionError, match=message):
        condition(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name > 3", "a text is compared with a number"),
        ("tokens = pairs", "only one side"),
        ("label[0] = 3", "one value in each example"),
        ("min(name) = 'a'", "needs numbers"),
        ("label contains 'x'", "needs a feature of text"),
        ("day = 'soon'", "not a date"),
    ],
)
def test_errors_of_the_types(text, message):
    with pytest.raises(ConditionError, match=message):
        len(SOURCE.filter(condition(text)))


@pytest.mark.parametrize("number", ["9" * 19, "9" * 20, "1" * 300, "1" * 399])
def test_numbers_that_no_feature_holds(number):
    columns = {"i": np.arange(3), "u": np.arange(3, dtype=np.uint64), "f": np.arange(3.0), "b": np.ones(3, bool)}
    source = hr.ColumnSource(columns)
    for name in columns:
        assert len(source.filter(hr.condition(f"{name} < {number}"))) == 3
        assert len(source.filter(hr.condition(f"{name} = {number}"))) == 0
        assert len(source.filter(hr.condition(f"{name} > -{number}"))) == 3


def test_an_unknown_feature_suggests_one():
    with pytest.raises(hr.NoSuchFeature, match="Did you mean 'label'"):
        len(SOURCE.filter(condition("lable = 3")))
    with pytest.raises(hr.NoSuchFeature, match="written in quotes"):
        len(SOURCE.filter(condition("zzzzzzz = 3")))
    with pytest.raises(TypeError, match="written as text"):
        condition(3)


def test_only_the_features_that_it_needs_are_read():
    found = condition("label = 7 and tokens > 4")
    assert found.names == ("label", "tokens")
    assert found.needed(SOURCE.schema) == ("label", "tokens")
    searching = condition("'x' and width > 3")
    assert set(searching.needed(SOURCE.schema)) == {"name", "raw", "width"}


def test_it_pickles_and_prints():
    found = condition("label = 7")
    again = pickle.loads(pickle.dumps(found))
    assert repr(again) == "condition('label = 7')"
    assert again(SOURCE[1])


@given(
    st.lists(st.lists(st.integers(-3, 3), max_size=4), min_size=1, max_size=8),
    st.sampled_from(["=", "!=", "<", "<=", ">", ">="]),
    st.integers(-4, 4),
)
def test_several_values_against_plain_python(rows, sign, number):
    compare = {"=": "==", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}[sign]
    wanted = [any(eval(f"{value} {compare} {number}") for value in row) for row in rows]
    batch = {"x": hr.Ragged.from_list(rows, "int64")}
    assert condition(f"x {sign} {number}").mask(batch, len(rows)).tolist() == wanted
    for function, summary in (("min", min), ("max", max), ("length", len)):
        have = [bool((row or function == "length") and eval(f"{summary(row)} {compare} {number}")) for row in rows]
        assert condition(f"{function}(x) {sign} {number}").mask(batch, len(rows)).tolist() == have


@given(st.text(max_size=60))
def test_any_text_is_a_condition_or_an_error(text):
    try:
        found = condition(text)
    except ConditionError as error:
        assert str(error)
        return
    assert condition(found.text).names == found.names


@given(
    st.lists(
        st.sampled_from(["a", "b", "=", "(", ")", "and", "or", "not", "in", "'t'", "3", ",", "[", "]", "min"]),
        max_size=12,
    )
)
def test_any_words_are_a_condition_or_an_error(words):
    try:
        found = condition(" ".join(words))
        mask = found.mask({"a": np.arange(3), "b": hr.Strings.from_values(["t", "u", ""]), "min": np.arange(3)}, 3)
    except (ConditionError, KeyError) as error:
        assert re.search(r"\w", str(error))
        return
    assert mask.shape == (3,)
    assert mask.dtype == bool


TIMES = hr.ColumnSource(
    {
        "d": np.array(["2020-01-01", "NaT", "9999-12-31", "1969-12-31"], "M8[D]"),
        "ns": np.array(["2020-01-01", "2020-01-01", "2020-01-01T00:00:00.5", "1969-12-31T23:00"], "M8[ns]"),
        "m": np.array([1, 2, -3, "NaT"], "m8[s]"),
        "ms": np.array([1000, 2001, -2999, 0], "m8[ms]"),
        "months": np.array([1, 2, 3, 4], "m8[M]"),
    }
)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("ns < '9999-12-31'", [0, 1, 2, 3]),
        ("ns > '9999-12-31'", []),
        ("ns > '0001-01-01'", [0, 1, 2, 3]),
        ("ns > d", [3]),
        ("ns != d", [1, 2, 3]),
        ("d = ns", [0]),
        ("d > ns", [2]),
        ("ns > '2020-01-01'", [2]),
        ("ns <= '2020'", [0, 1, 3]),
        ("d < '2020-01-01T00:00:00.000000001'", [0, 3]),
        ("d = '20200101'", np.flatnonzero(TIMES["d"] == np.datetime64("2020-01-01")).tolist()),
        ("d < '20200102'", np.flatnonzero(TIMES["d"] < np.datetime64("2020-01-02")).tolist()),
        ("m > 1", [1]),
        ("m = ms", [0]),
        ("m < ms", [1, 2]),
        ("m", [0, 1, 2, 3]),
        ("ms", [0, 1, 2]),
    ],
)
def test_times_of_different_units(text, rows):
    assert np.flatnonzero(condition(text).mask(TIMES.batch(range(4)), 4)).tolist() == rows


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("d > ''", "'' is not a date"),
        ("d != 'NaT'", "'NaT' is not a date"),
        ("d > '9999-12-31T00:00:00.000000001'", "more digits than a time so far from 1970 can have"),
        ("d > '2020-01-01T00:00:00.000000000000000001'", "more digits"),
        ("d > 5", "datetime64.D. and int cannot be compared"),
        ("m > '3'", "a whole number of its unit"),
        ("m > 3.5", "whole numbers of its unit"),
        ("d > '202001'", "'202001' is not a date"),
        ("d > '12345678901'", "is not a date"),
        ("d > 'now'", "'now' is not a date"),
        ("d > 'today'", "'today' is not a date"),
        ("d > '2020-01-01T00:00:00ZZ'", "is not a date"),
        ("d > '2020-01-01Z'", "is not a date"),
        ("m > d", "cannot be compared"),
        ("m > months", "cannot be compared"),
        ("d", "a feature alone means that it is not 0"),
    ],
)
def test_times_that_do_not_compare(text, message):
    with pytest.raises(ConditionError, match=message):
        len(TIMES.filter(condition(text)))


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("2026-01-01T12:00Z", [1, 2]),
        ("2026-01-01T12:00:00.0+00:00", [1, 2]),
        ("2026-01-01T13+01", [1, 2]),
        ("2026-01-01T12:00:00-0130", [2]),
        ("2026-01-01 12:00", [1, 2]),
    ],
)
def test_times_of_a_zone_are_those_of_greenwich(text, rows):
    source = hr.ColumnSource({"t": np.array(["2026-01-01T11", "2026-01-01T12", "2026-01-01T13:30"], "M8[s]")})
    assert np.flatnonzero(condition(f"t >= '{text}'").mask(source.batch(range(3)), 3)).tolist() == rows


def test_episodes_are_not_compared():
    schema = hr.Schema({"steps": hr.Feature("examples")})
    for text in ("steps > 5", "length(steps) = 1", "steps"):
        with pytest.raises(ConditionError, match=r"'steps' holds examples"):
            condition(text).mask({"steps": np.array([None], object)}, 1, schema)


def test_different_bytes_are_different():
    source = hr.ColumnSource({"a": [b"\xff\x00", b"\x80", b"b"], "b": [b"\xfe\x00", b"\x80", b"b"]})
    assert np.flatnonzero(condition("a = b").mask(source.batch(range(3)), 3)).tolist() == [1, 2]
    assert len(source.filter(condition("a = '\ufffd'"))) == 0
    assert len(source.filter(condition("a contains '\ufffd'"))) == 0
    assert len(source.filter(condition("a > 'a'"))) == 3


def test_numbers_beyond_small_floats():
    columns = {"h": np.array([1, np.inf, 2048, 0], np.float16), "f": np.array([0.1, np.inf, 2**24, 0], np.float32)}
    batch = hr.ColumnSource(columns).batch(range(4))
    for text, rows in {
        "h = 70000": [],
        "h <= 1e6": [0, 2, 3],
        "70000 < h": [1],
        "h = 2049": [],
        "h < 1e-30": [3],
        "f = 16777217": [],
        "f = 1e40": [],
        "f < 1e-60": [3],
        "f = 0.1": [0],
        "f = 1e400": [1],
    }.items():
        assert np.flatnonzero(condition(text).mask(batch, 4)).tolist() == rows, text


EDGES = [0, 1, 2**24 + 1, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1, 2**64, 2**64 + 1, 2**70, 10**350]
NUMBERS = {
    "int64": st.sampled_from([-(2**63), -(2**53) - 1, -1, 0, 2**53 + 1, 2**63 - 1]) | st.integers(-(2**63), 2**63 - 1),
    "uint64": st.sampled_from([0, 2**53 + 1, 2**63, 2**64 - 2, 2**64 - 1]) | st.integers(0, 2**64 - 1),
    "float64": st.sampled_from([-(2.0**63), 2.0**53, 2.0**64, 1e308, np.inf, -np.inf, np.nan]) | st.floats(),
    "float32": st.sampled_from([2.0**24, 2.0**64, np.inf, np.nan]) | st.floats(width=32),
}


@given(
    st.sampled_from(sorted(NUMBERS)).flatmap(
        lambda dtype: st.tuples(st.just(dtype), st.lists(NUMBERS[dtype], min_size=1))
    ),
    st.sampled_from(EDGES) | st.integers(0, 2**66),
    st.booleans(),
)
def test_integers_of_any_size_compare_as_in_python(column, number, is_negative):
    number = -number if is_negative else number
    values = np.array(column[1], column[0])
    source, rows = hr.ColumnSource({"x": values}), values.tolist()
    for sign, compare in COMPARISONS.items():
        expected = [compare(row, number) for row in rows]
        for text in (f"x {sign} {number}", f"min(x) {sign} {number}", f"x[0] {sign} {number}"):
            batch = {"x": values} if text[0] == "x" and text[1] == " " else {"x": values.reshape(-1, 1)}
            assert condition(text).mask(batch, len(rows)).tolist() == expected, text
        test = condition(f"x {sign} {number}")
        assert [test(example) for example in source] == expected, test
        assert [test({"x": row}) for row in rows] == expected, test


def test_a_large_integer_alone_is_not_zero():
    assert condition("18446744073709551617").mask({}, 2).tolist() == [True, True]


@pytest.mark.parametrize("values", [["a", "bb", "ff"], [b"a", b"bb", b"ff"]])
def test_text_of_numpy(values):
    source = hr.ColumnSource({"u": np.array(values), "i": np.arange(3)})
    for text, rows in {
        "'F'": [2],
        "u = 'ff'": [2],
        "u contains 'B'": [1],
        "length(u) = 1": [0],
        "u": [0, 1, 2],
    }.items():
        assert [int(row["i"]) for row in source.filter(condition(text))] == rows, text
