"""Choosing examples, against the same done to a list."""

from __future__ import annotations

import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.testing import assert_same, kinds_batch

N = 11


def numbers(n=N):
    return hr.ColumnSource({"y": np.arange(n)})


def ys(source):
    return source.batch(np.arange(len(source)))["y"].tolist() if len(source) else []


@given(st.integers(0, 14), st.integers(0, 14), st.slices(N))
def test_the_first_and_the_rest_are_those_of_a_list(some, others, part):
    values = list(range(N))[part]
    source = numbers()[part]
    assert ys(source.take(some)) == ys(source.head(some)) == values[:some]
    assert ys(source.skip(some)) == values[some:]
    assert ys(source.skip(some).take(others)) == values[some:][:others]
    assert ys(source.take(some).skip(others)) == values[:some][others:]


def test_the_first_five_by_default():
    assert ys(numbers().head()) == [0, 1, 2, 3, 4]
    assert ys(numbers(2).head()) == [0, 1]


@pytest.mark.parametrize("name", ["head", "take", "skip", "sample"])
def test_counts_are_whole_and_not_negative(name):
    for wrong, error in ((-1, ValueError), (1.5, TypeError), (True, TypeError), ("3", TypeError)):
        with pytest.raises(error, match="n must be"):
            getattr(numbers(), name)(wrong)


@given(st.integers(0, 30), st.integers(0, 40), st.integers(0, 2**64 - 1))
def test_a_sample_is_the_beginning_of_a_shuffled_epoch(n, count, seed):
    source = numbers(n)
    shuffled = [y for batch in hr.Loader(source, 8, shuffle=True, seed=seed, threads=0) for y in batch["y"].tolist()]
    assert ys(source.sample(count, seed)) == shuffled[:count]


def test_samples_are_pinned():
    assert ys(numbers(1000).sample(6, seed=7)) == SAMPLED
    assert [ys(part) for part in numbers(12).random_split([0.5, 0.25, 0.25], seed=3)] == DIVIDED


SAMPLED = [164, 124, 934, 868, 227, 780]
DIVIDED = [[0, 1, 3, 7, 8, 9], [2, 5, 10], [4, 6, 11]]


@given(st.integers(0, 60), st.lists(st.integers(1, 9), min_size=1, max_size=5), st.integers(0, 99))
def test_parts_are_disjoint_and_together_whole(n, weights, seed):
    fractions = [Fraction(weight, sum(weights)) for weight in weights]
    for given_parts in (fractions, [float(fraction) for fraction in fractions]):
        parts = numbers(n).random_split(given_parts, seed)
        assert sorted(y for part in parts for y in ys(part)) == list(range(n))
        assert all(ys(part) == sorted(ys(part)) for part in parts)
        for part, fraction in zip(parts, fractions, strict=True):
            assert abs(len(part) - fraction * n) <= 1


@given(st.lists(st.integers(0, 9), min_size=1, max_size=5), st.integers(0, 99))
def test_parts_of_so_many_examples(counts, seed):
    parts = numbers(sum(counts)).random_split(counts, seed)
    assert [len(part) for part in parts] == counts
    assert sorted(y for part in parts for y in ys(part)) == list(range(sum(counts)))


@pytest.mark.parametrize(
    ("parts", "error", "message"),
    [
        ([0.8, 0.1], ValueError, "must add up to 1, got .*0.9"),
        ([5, 5], ValueError, "add up to 10 examples, and the source has 11"),
        ([1.5, -0.5], ValueError, "negative"),
        ([float("nan"), 1.0], ValueError, "negative or infinite, got nan"),
        ([], ValueError, "at least one part"),
        ("80", TypeError, r"such as \[0.8, 0.2\]"),
        (0.8, TypeError, r"such as \[0.8, 0.2\]"),
        (["a"], TypeError, "a fraction or a number of examples, got 'a'"),
        ([True], TypeError, "got True"),
    ],
)
def test_parts_that_do_not_add_up(parts, error, message):
    with pytest.raises(error, match=message):
        numbers().random_split(parts)


KEYS = st.lists(
    st.tuples(st.integers(-2, 2), st.sampled_from(["", "a", "ab", "b", "ß"]), st.sampled_from([0.5, -0.0, 0.0, 2.0])),
    max_size=20,
)


@given(KEYS, st.lists(st.sampled_from(["i", "s", "f", "b"]), min_size=1, max_size=3, unique=True), st.data())
def test_sorting_is_that_of_a_list(rows, names, data):
    down = [data.draw(st.booleans()) for _ in names]
    columns = {
        "i": [row[0] for row in rows],
        "s": [row[1] for row in rows],
        "f": [row[2] for row in rows],
        "b": [row[1].encode() for row in rows],
    }
    kinds = {"i": np.int32, "f": np.float64}
    source = hr.ColumnSource(
        {
            **{name: np.array(values, kinds.get(name, object)) for name, values in columns.items()},
            "y": np.arange(len(rows)),
        }
    )
    expected = list(range(len(rows)))
    for name, last in reversed(list(zip(names, down, strict=True))):
        expected.sort(key=lambda index, name=name: columns[name][index], reverse=last)
    assert ys(source.sort(names, descending=down)) == expected
    assert ys(source.sort(names[0])) == sorted(range(len(rows)), key=lambda index: columns[names[0]][index])


def test_missing_values_come_last():
    source = hr.ColumnSource({"f": np.array([2, np.nan, 1, np.nan, 3.0]), "y": np.arange(5)})
    assert ys(source.sort("f")) == [2, 0, 4, 1, 3]
    assert ys(source.sort("f", descending=True)) == [4, 0, 2, 1, 3]
    times = hr.ColumnSource({"t": np.array(["2020-01-02", "NaT", "2020-01-01"], "M8[s]"), "y": np.arange(3)})
    assert ys(times.sort("t", descending=True)) == [0, 2, 1]


def test_sorting_reads_only_its_features():
    class Narrow:
        schema = hr.Schema({"x": hr.Feature("int64"), "image": hr.Feature("uint8", (9,))})
        seen = []  # noqa: RUF012

        def __init__(self, names=("x", "image")):
            self.names = names

        def __len__(self):
            return 4

        def batch(self, indices):
            self.seen.extend(self.names)
            return {name: -indices for name in self.names}

        def where(self, index):
            return hr.Where(record=index)

        def narrow(self, names):
            return Narrow(names)

    found = hr.Source(Narrow()).sort("x")
    assert Narrow.seen == ["x"]
    assert [int(example["x"]) for example in found.select("x")] == [-3, -2, -1, 0]


@pytest.mark.parametrize("name", ["vector", "ragged", "texts", "sparse", "nested"])
def test_only_single_values_are_sorted_by(name):
    with pytest.raises(hr.UnsupportedData, match=f"one value per example.*{name}"):
        hr.ColumnSource(kinds_batch(5)).sort(name)


def test_arguments_of_sort():
    with pytest.raises(hr.NoSuchFeature, match="Did you mean 'y'"):
        numbers().sort("yy")
    with pytest.raises(TypeError, match="name of a feature"):
        numbers().sort([3])
    with pytest.raises(TypeError, match="name of a feature, or several, got None"):
        numbers().sort(None)
    with pytest.raises(ValueError, match="2 flags for 1 features"):
        numbers().sort("y", descending=[True, False])
    with pytest.raises(TypeError, match="descending must be True or False"):
        numbers().sort("y", descending="yes")


@given(st.lists(st.booleans(), min_size=N, max_size=N), st.data())
def test_a_mask_chooses(flags, data):
    expected = [y for y, kept in zip(range(N), flags, strict=True) if kept]
    assert ys(numbers()[np.array(flags)]) == ys(numbers()[flags]) == expected
    again = data.draw(st.lists(st.booleans(), min_size=len(expected), max_size=len(expected)))
    assert ys(numbers()[flags][np.array(again, bool)]) == [y for y, kept in zip(expected, again, strict=True) if kept]


def test_masks_of_other_lengths_and_kinds():
    with pytest.raises(IndexError, match=r"one flag for each of the 11 examples, got shape \(2,\)"):
        numbers()[[True, False]]
    with pytest.raises(IndexError, match="flag"):
        numbers()[np.ones((N, 2), bool)]
    assert ys(numbers(0)[np.zeros(0, bool)]) == []
    pandas = pytest.importorskip("pandas")
    assert ys(numbers()[pandas.Series(np.arange(N)) > 8]) == [9, 10]
    assert [int(example["y"]) for example in numbers()[[1, 0]]] == [1, 0]


VIEWS = {
    "take": lambda source: source.take(20),
    "skip": lambda source: source.skip(3),
    "sample": lambda source: source.sample(17, seed=5),
    "split": lambda source: source.random_split([0.7, 0.3], seed=1)[0],
    "sort": lambda source: source.sort(["int8", "text"], descending=True),
    "mask": lambda source: source[np.arange(len(source)) % 3 != 1],
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_views_pickle_shard_and_resume(view):
    source = view(hr.ColumnSource(kinds_batch(30)))
    assert_same(pickle.loads(pickle.dumps(source)).batch([2, 0, -1]), source.batch([2, 0, -1]))
    parts = [source.shard(rank, 3)["uint64"] for rank in range(3)]
    assert np.concatenate(parts).tolist() == np.asarray(source["uint64"]).tolist()
    loader = hr.Loader(source, 4, shuffle=True, seed=2)
    whole = [batch["uint64"].tolist() for batch in hr.Loader(source, 4, shuffle=True, seed=2)]
    batches = iter(loader)
    found = [next(batches)["uint64"].tolist() for _ in range(2)]
    resumed = hr.Loader(view(hr.ColumnSource(kinds_batch(30))), 4, shuffle=True, seed=2)
    resumed.load_state_dict(loader.state_dict())
    assert found + [batch["uint64"].tolist() for batch in resumed] == whole


def test_huge_sources_cost_no_memory():
    huge = hr.ColumnSource({"x": np.broadcast_to(np.int8(3), (2**38,))})
    assert len(huge.skip(5).take(2**37)[7:]) == 2**37 - 7
    assert huge.skip(5)[-1] == {"x": 3}
    assert len(huge.head()) == 5
    assert len(huge.sample(3)) == 3


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "npz", "parquet"])
@pytest.mark.parametrize("is_counted", [False, True])
def test_iterating_over_a_filter_reads_what_the_condition_keeps(tmp_path, suffix, is_counted):
    count = 1000
    columns = {"i": np.arange(count), "ok": np.arange(count) % 7, "x": np.arange(count) / 2}
    path = tmp_path / f"x.{suffix}"
    hr.write(path, columns)
    for condition, kept in (("ok = 3", range(3, count, 7)), ("ok > 9", []), ("i < 2", [0, 1])):
        found = hr.open(path).filter(hr.condition(condition))
        if is_counted:
            assert len(found) == len(kept)
        examples = list(found)
        assert [example["i"] for example in examples] == list(kept)
        assert all(example["x"] == example["i"] / 2 for example in examples)


def test_examples_that_a_condition_leaves_out_are_not_decoded(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text("".join(f'{{"i": {i}, "t": {"null" if i == 9 else i}, "ok": {int(i != 9)}}}\n' for i in range(300)))
    kept = hr.open(path).filter(hr.condition("ok = 1"))
    assert [example["t"] for example in kept] == [i for i in range(300) if i != 9]
    assert len(kept) == 299
    assert len(list(kept)) == 299
    with pytest.raises(hr.SchemaMismatch, match="record 9"):
        list(hr.open(path).filter(hr.condition("i < 12")))


def test_functions_below_a_filter_are_called_once_for_each_example():
    calls = []

    def double(example):
        calls.append(example["i"])
        return {"i": 2 * example["i"]}

    doubled = hr.ColumnSource({"i": np.arange(100)}).map(double)
    _ = doubled.schema
    calls.clear()
    assert [example["i"] for example in doubled.filter(hr.condition("i > 195"))] == [196, 198]
    assert sorted(calls)[1:] == list(range(1, 100))


def test_a_predicate_may_change_what_it_gets():
    def is_bright(example):
        example["x"] /= 10
        return example["x"][0] < 10

    def renames(example):
        example["y"] = example.pop("x")
        return True

    source = hr.ColumnSource({"x": np.array([[3.0], [40.0], [500.0]])})
    for predicate, wanted in ((is_bright, [3.0, 40.0]), (renames, [3.0, 40.0, 500.0])):
        kept = source.filter(predicate)
        assert [example["x"][0] for example in kept] == wanted
        assert [example["x"][0] for example in kept] == [kept[at]["x"][0] for at in range(len(kept))] == wanted


def test_a_predicate_without_a_return_is_refused():
    source = hr.ColumnSource({"x": np.arange(3)})
    for read in (len, list):
        with pytest.raises(
            hr.TransformError,
            match="on example 0 failed with TypeError: it must return True or False, got None: is a return",
        ):
            read(source.filter(lambda example: None))
