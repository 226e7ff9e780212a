"""One feature of a source, against the list of its values."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.sources.operations.column import FeatureColumn
from headrace.testing import KINDS, assert_same, kinds_batch

ROWS = 9


@pytest.fixture(scope="module")
def source():
    return hr.ColumnSource(kinds_batch(ROWS))


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_feature(source, name):
    column = source[name]
    assert (len(column), column.name, column.feature) == (ROWS, name, source.schema[name])
    assert (list(column.schema), column.dtype, column.ndim) == ([name], KINDS[name].numpy_dtype, len(column.shape))
    for index in (0, 4, -1):
        assert_same(column[index], source[index][name])
    for one, example in zip(column, source, strict=True):
        assert_same(one, example[name])
    assert_same(column[[3, 1, -1]], source.batch([3, 1, -1])[name])
    assert_same(column.batch([2]), source.batch([2])[name])
    assert_same(column[2:7:2][1:].batch([0]), source.batch([4])[name])
    assert len(np.asarray(column)) == ROWS
    assert_same(pickle.loads(pickle.dumps(column)).batch([0]), column.batch([0]))


@given(st.slices(ROWS), st.data())
def test_slices_are_those_of_a_list(part, data):
    values = list(range(ROWS))
    column = hr.ColumnSource({"y": np.arange(ROWS)})["y"]
    assert [int(value) for value in column[part]] == values[part]
    flags = data.draw(st.lists(st.booleans(), min_size=len(values[part]), max_size=len(values[part])))
    kept = column[part][np.array(flags, bool)]
    assert isinstance(kept, FeatureColumn)
    assert np.asarray(kept).tolist() == [value for value, flag in zip(values[part], flags, strict=True) if flag]


def test_arrays(source):
    assert np.asarray(source["vector"]).shape == (ROWS, 5)
    assert np.asarray(source["int32"], dtype=np.float64).dtype == np.float64
    assert np.array(source["text"]).dtype == object
    assert_same(list(np.asarray(source["ragged"])), list(source.batch(range(ROWS))["ragged"]))
    assert np.asarray(source["sparse"]).shape == (ROWS, 40)
    assert int(np.max(source["int8"])) == 127
    assert np.asarray(source[:0]["vector"]).shape == (0, 5)
    with pytest.raises(ValueError, match="without a copy"):
        source["int8"].__array__(copy=False)


def test_isin_takes_any_iterable_but_no_single_value():
    source = hr.ColumnSource({"label": np.arange(4), "share": np.arange(4) / 2, "name": ["a", "b", "ab", "c"]})
    for wanted in ([1, 2], (1, 2), {1, 2}, range(1, 3), {1: "x", 2: "y"}, np.array([1, 2]), source["label"][1:3]):
        assert source["label"].isin(wanted).tolist() == [False, True, True, False]
    numbers = {1: 0.5, 2: 1.0}
    for wanted in (numbers.keys(), iter(numbers), map(int, numbers), (number for number in numbers)):
        assert source["label"].isin(wanted).tolist() == [False, True, True, False]
    assert source["share"].isin(numbers.values()).tolist() == [False, True, True, False]
    for names in ({"b": 1, "ab": 2}.keys(), iter(["b", "ab"]), hr.Strings.from_values(["b", "ab"])):
        assert source["name"].isin(names).tolist() == [False, True, True, False]
    for single in (None, 1, "ab", b"ab"):
        for name in source.schema:
            with pytest.raises(TypeError, match="isin takes several values, such as"):
                source[name].isin(single)


def test_comparisons_are_masks():
    source = hr.ColumnSource({"label": np.array([3, 1, 3]), "name": ["a", "b", "ä"], "raw": [b"x", b"y", b"x"]})
    column = source["label"]
    assert (column == 3).tolist() == [True, False, True]
    assert (column != 3).tolist() == [False, True, False]
    assert [(column < 3).tolist(), (column <= 1).tolist()] == [[False, True, False]] * 2
    assert [(column > 1).tolist(), (column >= 3).tolist()] == [[True, False, True]] * 2
    assert (source["name"] == "a").tolist() == [True, False, False]
    assert (source["raw"] == b"x").tolist() == [True, False, True]
    assert column.isin({1, 2}).tolist() == source["name"].isin(["b"]).tolist() == [False, True, False]
    assert 3 in column
    assert 4 not in column
    assert [example["name"] for example in source[source["label"] == 3]] == ["a", "ä"]
    flags = hr.ColumnSource({"kept": np.array([True, False, True]), "y": np.arange(3)})
    assert [int(example["y"]) for example in flags[flags["kept"]]] == [0, 2]
    with pytest.raises(TypeError, match="the column has 3 values, and this has 5"):
        hr.ColumnSource({"x": [1, 2, 3]})["x"] == np.arange(5)
    varying = hr.ColumnSource({"tok": hr.Ragged.from_list([[1], [2, 3]])})["tok"]
    with pytest.raises(TypeError, match=r"the values have varying lengths\. Use a condition, such as source\.filter"):
        varying == 3
    with pytest.raises(TypeError, match="column 'label' holds int64, which cannot be compared with 'cat'"):
        column == "cat"
    with pytest.raises(TypeError, match="unhashable"):
        hash(column)


def test_only_that_feature_is_read():
    class Narrow:
        schema = hr.Schema({"x": hr.Feature("int64"), "y": hr.Feature("int64")})

        def __init__(self, names=("x", "y")):
            self.names = names

        def __len__(self):
            return 4

        def batch(self, indices):
            assert self.names == ("x",)
            return {"x": indices}

        def where(self, index):
            return hr.Where(record=index)

        def narrow(self, names):
            return Narrow(names)

    assert np.asarray(hr.Source(Narrow())["x"]).tolist() == [0, 1, 2, 3]


def test_names_that_are_not_there(source):
    with pytest.raises(hr.NoSuchFeature, match="Did you mean 'ragged'"):
        source["raged"]
    with pytest.raises(IndexError, match="9 examples"):
        source["int8"][9]
    assert list(source[["text", "int8"]].schema) == ["text", "int8"]


def test_repr_names_it(source):
    assert repr(source["vector"]) == "<FeatureColumn 'vector' of 9 values: Feature('float32', (5,))>"


def test_integers_beside_floats_are_not_rounded():
    source = hr.ColumnSource({"f": np.array([2.0**53, 2.0**53]), "i": np.array([2**53 + 1, 2**53])})
    assert (source["f"] == source["i"]).tolist() == [False, True]
    assert (source["i"] > source["f"]).tolist() == [True, False]
    assert (source["f"] < np.array([2**53 + 1, 2**53], np.uint64)).tolist() == [True, False]
    assert (source["f"] == 2**53 + 1).tolist() == [False, False]


def test_isin_refuses_text_among_times():
    source = hr.ColumnSource({"d": np.array(["2020-01-01", "NaT"], "M8[s]")})
    with pytest.raises(TypeError, match=r"give isin times of NumPy"):
        source["d"].isin(["2020-01-01"])
    assert source["d"].isin(np.array(["2020-01-01"], "M8[D]")).tolist() == [True, False]


def test_times_beside_text_say_what_to_give():
    source = hr.ColumnSource({"t": np.array(["2020-01-01", "2021-01-01"], "M8[s]")})
    with pytest.raises(TypeError, match=r"column 't' holds .* as in np.array\('2020-06-01', 'datetime64\[s\]'\)"):
        source["t"] > "2020-06-01"
    assert (source["t"] > np.array("2020-06-01", "datetime64[s]")).tolist() == [False, True]
