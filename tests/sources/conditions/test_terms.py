"""How columns of every kind become values with their rows."""

import operator

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.contracts.feature import Feature
from headrace.sources.conditions.condition import condition
from headrace.sources.conditions.terms import ConditionError, is_searched
from headrace.sources.matrices import flatten


@pytest.mark.parametrize(
    ("column", "values", "rows"),
    [
        (np.arange(3), [0, 1, 2], None),
        (np.arange(4).reshape(2, 2), [0, 1, 2, 3], [0, 0, 1, 1]),
        (np.zeros((2, 0)), [], []),
        (hr.Ragged.from_list([[1], [], [2, 3]], "int64"), [1, 2, 3], [0, 2, 2]),
        (hr.Ragged(hr.Ragged.from_list([[1, 2], [3], []], "int64"), np.array([0, 1, 3])), [1, 2, 3], [0, 0, 1]),
        ([np.zeros((2, 1)), np.ones(3)], [0, 0, 1, 1, 1], [0, 0, 1, 1, 1]),
        (scipy.sparse.csr_matrix([[0, 5], [0, 0], [6, 7]]), [5, 6, 7], [0, 2, 2]),
    ],
)
def test_flatten(column, values, rows):
    found, owner = flatten(column)
    assert np.asarray(found).tolist() == values
    assert (owner if owner is None else owner.tolist()) == rows


def test_flatten_text():
    found, owner = flatten(hr.Strings.from_values(["a", "b", "c", "d"]).reshape(2, 2))
    assert (found.to_list(), owner.tolist()) == (["a", "b", "c", "d"], [0, 0, 1, 1])
    found, owner = flatten(np.array(["x", "y"], object))
    assert (found.to_list(), owner) == (["x", "y"], None)


def test_sparse_rows_compare_by_their_entries():
    rows = scipy.sparse.csr_matrix(np.array([[0, 5.0], [0, 0], [6, 7]]))
    assert condition("x > 5").mask({"x": rows}, 3).tolist() == [False, False, True]
    assert condition("length(x) = 0").mask({"x": rows}, 3).tolist() == [False, True, False]


def test_what_is_searched():
    assert is_searched(Feature("str"))
    assert is_searched(Feature("bytes", (None,)))
    assert is_searched(Feature("U5"))
    assert is_searched(Feature("int64", names=("a", "b")))
    assert not is_searched(Feature("int64"))
    assert not is_searched(Feature("bytes", encoding="png"))


def test_positions_of_sparse_rows():
    rows = scipy.sparse.csr_array(np.array([[0.0, 5, 0], [7, 0, 9], [0, 0, 0], [-1, -2, -3]]))
    schema = hr.Schema({"x": Feature("float64", (3,), sparse=True)})
    for text, held in {
        "x[1] = 5": [0],
        "x[0] = 5": [],
        "x[0] = 0": [0, 2],
        "x[2] = 9": [1],
        "x[3] != 1": [],
        "min(x) = 0": [0, 1, 2],
        "max(x) = -1": [3],
        "max(x) = 0": [2],
        "mean(x) = -2": [3],
        "mean(x) > 5": [1],
    }.items():
        for known in (schema, None):
            assert np.flatnonzero(condition(text).mask({"x": rows}, 4, known)).tolist() == held, text


def test_extremes_of_sparse_rows_without_a_length():
    schema = hr.Schema({"x": Feature("float64", (None,), sparse=True)})
    rows = scipy.sparse.csr_array(np.array([[0.0, 5.0]]))
    assert condition("x[7] = 0").mask({"x": rows}, 1, schema).tolist() == [True]
    with pytest.raises(ConditionError, match="needs a length"):
        condition("min(x) = 0").mask({"x": rows}, 1, schema)


OPTIONAL = {
    "x": np.array([None, np.int64(3), np.int64(1)], object),
    "s": np.array([None, b"ab", b"b"], object),
    "v": np.array([None, np.array([1, 2]), np.array([0, 5])], object),
    "y": np.arange(1, 4),
}
OPTIONAL_SCHEMA = hr.Schema(
    {"x": Feature("int64"), "s": Feature("bytes"), "v": Feature("int64", (2,)), "y": Feature("int64")}
)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("x > 1", [1]),
        ("x != 3", [2]),
        ("not x > 1", [0, 2]),
        ("x < y", [2]),
        ("x", [1, 2]),
        ("s = 'ab'", [1]),
        ("s contains 'B'", [1, 2]),
        ("'b'", [1, 2]),
        ("s", [1, 2]),
        ("length(x) = 0", [0]),
        ("length(s) = 2", [1]),
        ("v > 4", [2]),
        ("v[1] = 2", [1]),
        ("min(v) < 1", [2]),
    ],
)
def test_missing_values_fit_no_comparison(text, rows):
    for first in range(3):
        batch = {name: column[first:] for name, column in OPTIONAL.items()}
        found = np.flatnonzero(condition(text).mask(batch, 3 - first, OPTIONAL_SCHEMA)) + first
        assert found.tolist() == [row for row in rows if row >= first]
    none = {name: column[:1] for name, column in OPTIONAL.items()}
    assert condition(text).mask(none, 1, OPTIONAL_SCHEMA).tolist() == [0 in rows]


def test_missing_text_has_length_0_as_other_missing_values():
    batch = {"s": np.array([None, "", "ab"], object)}
    assert condition("length(s) = 0").mask(batch, 3).tolist() == [True, True, False]
    assert [condition("length(s) = 0")({"s": text}) for text in (None, "", "ab")] == [True, True, False]


SIGNS = {"=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
NUMBERS = {  # on one side of a comparison: the values that it has in a row
    "a": lambda row: [] if row["a"] is None else [row["a"]],
    "b": lambda row: [] if row["b"] is None else [row["b"]],
    "y": lambda row: [row["y"]],
    "v": lambda row: row["v"],
    "v[1]": lambda row: row["v"][1:2],
    "max(v)": lambda row: [max(row["v"])] if row["v"] else [],
    "length(v)": lambda row: [len(row["v"])],
    "r": lambda row: row["r"] or [],
    "r[0]": lambda row: (row["r"] or [])[:1],
    "1": lambda row: [1],
}
TEXTS = {
    "s": lambda row: [] if row["s"] is None else [row["s"]],
    "t": lambda row: [] if row["t"] is None else [row["t"]],
    "'a'": lambda row: ["a"],
}
SMALL, SHORT = st.integers(0, 2), st.text("ab", max_size=1)
ROWS = st.fixed_dictionaries(
    {
        "a": st.none() | SMALL,
        "b": st.none() | st.sampled_from([0.0, 0.5, 1.0]),
        "y": SMALL,
        "v": st.lists(SMALL, max_size=3),
        "r": st.none() | st.lists(SMALL, min_size=2, max_size=2),
        "s": st.none() | SHORT,
        "t": st.none() | SHORT,
    }
)
OF_ROWS = hr.Schema(
    {
        "a": Feature("int64"),
        "b": Feature("float64"),
        "y": Feature("int64"),
        "v": Feature("int64", (None,)),
        "r": Feature("int64", (2,)),
        "s": Feature("str"),
        "t": Feature("str"),
    }
)


def as_example(row):
    made = {name: None if row[name] is None else np.asarray(row[name], OF_ROWS[name].dtype)[()] for name in "abyvr"}
    return {**made, "s": row["s"], "t": row["t"]}


def as_batch(rows):
    batch = {}
    for name in OF_ROWS:
        column = np.empty(len(rows), object)
        for at, row in enumerate(rows):
            column[at] = as_example(row)[name]
        batch[name] = column
    batch["y"] = np.array([row["y"] for row in rows])
    batch["v"] = hr.Ragged.from_list([np.array(row["v"], np.int64) for row in rows], "int64")
    return batch


@given(
    st.lists(ROWS, min_size=1, max_size=6),
    st.sampled_from([(one, two) for kind in (NUMBERS, TEXTS) for one in kind for two in kind]),
    st.sampled_from(sorted(SIGNS)),
)
def test_two_features_compare_where_both_have_a_value(rows, sides, sign):
    left, right = ((NUMBERS | TEXTS)[side] for side in sides)
    if {*sides} <= {"v", "r"}:
        return  # both have several values, which is an error
    expected = [any(SIGNS[sign](one, two) for one in left(row) for two in right(row)) for row in rows]
    picks, batch = condition(f"{sides[0]} {sign} {sides[1]}"), as_batch(rows)
    assert picks.mask(batch, len(rows), OF_ROWS).tolist() == expected
    assert picks.mask(batch, len(rows)).tolist() == expected
    assert [picks(as_example(row)) for row in rows] == expected


def test_two_features_of_several_values_do_not_compare():
    batch = as_batch([{"a": 1, "b": 1, "y": 1, "v": [1], "r": [1, 2], "s": "", "t": ""}])
    with pytest.raises(ConditionError, match="only one side of a comparison may have several values"):
        condition("v = r").mask(batch, 1, OF_ROWS)


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
@pytest.mark.parametrize("sign", sorted(SIGNS))
def test_integers_beside_floats_are_not_rounded(dtype, sign):
    integers = np.array([2**53 + 1, 2**53, 5, 2**62 + 1], dtype)
    floats = np.array([2.0**53, 2.0**53, np.nan, 2.0**62])
    pairs = list(zip(floats.tolist(), integers.tolist(), strict=True))
    batch = {"f": floats, "i": integers}
    assert condition(f"f {sign} i").mask(batch, 4).tolist() == [SIGNS[sign](f, i) for f, i in pairs]
    assert condition(f"i {sign} f").mask(batch, 4).tolist() == [SIGNS[sign](i, f) for f, i in pairs]
