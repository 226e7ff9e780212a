"""Seeded maps: which numbers an example gets through every view, and outside a loader."""

from __future__ import annotations

import datetime as dt
import enum
import io
import pickle
from decimal import Decimal

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from tests.contracts.test_random_keys import stated

import headrace as hr
from headrace.contracts.random_keys import RandomKeys
from headrace.contracts.values import Ragged
from headrace.errors import SchemaMismatch, TransformError, Where
from headrace.sources import user_functions

N = 12
NUMBERS = hr.ColumnSource({"i": np.arange(N)})


def draw(example, rng):
    return {**example, "x": rng.random()}


def draw_again(example, rng):
    return {**example, "y": rng.random()}


def failing(example, rng):
    raise ValueError(rng.random())


def x(source, indices, keys=None):
    return source.batch_with_keys(np.asarray(indices), keys)["x"].tolist()


def expected(positions, stream=0, seed=0, epoch=0):
    return [stated(seed, epoch, int(p), stream).random() for p in positions]


KEYS = RandomKeys(5, 3, np.array([100, 7, 7, 31]))
SEEDED = NUMBERS.map(draw, seeded=True)


def test_a_predicate_that_gives_an_array_names_the_example():
    source = hr.ColumnSource({"x": np.zeros((3, 2))})
    for read in (len, list):
        with pytest.raises(hr.TransformError, match="on example 0 failed with ValueError: The truth value"):
            read(source.filter(lambda example: example["x"] > 0))


def test_outside_a_loader_the_position_is_the_index():
    assert [example["x"] for example in SEEDED] == expected(range(N))
    assert SEEDED[5]["x"] == SEEDED[-7]["x"] == expected([5])[0]
    assert SEEDED.batch([3, 1, 3])["x"].tolist() == expected([3, 1, 3])
    assert [example["x"] for example in SEEDED[[4, 2]]] == expected([4, 2])
    assert SEEDED.fingerprint == NUMBERS.map(draw, seeded=True).fingerprint
    assert SEEDED.schema == pickle.loads(pickle.dumps(SEEDED)).schema
    assert list(hr.ColumnSource({"i": np.arange(0)}).map(draw, seeded=True)) == []
    assert SEEDED.batch([])["x"].shape == (0,)


@given(st.data())
def test_views_keep_the_numbers_of_examples(data):
    view, indices = SEEDED, np.arange(N)
    for _ in range(data.draw(st.integers(1, 4))):
        kind = data.draw(st.sampled_from(["slice", "concat", "select", "filter", "zip", "shard"]))
        if kind == "slice":
            part = slice(data.draw(st.integers(0, 3)), None, data.draw(st.integers(1, 2)))
            view, indices = view[part], indices[part]
        elif kind == "concat":
            view, indices = view.select("i", "x").concat(SEEDED), np.concatenate([indices, np.arange(N)])
        elif kind == "select":
            view = view.select("x").zip(view.select("i"))  # the second is a copy of the map with a stream of its own
            assert view.random_streams() > 1
        elif kind == "filter":
            view, indices = view.filter(lambda example: example["i"] % 3 > 0), indices[indices % 3 > 0]
        elif kind == "zip":
            view = view.zip(hr.ColumnSource({f"z{len(view.schema)}": np.zeros(len(view))}))
        else:
            rank = data.draw(st.integers(0, 1))
            n = len(view)
            view, indices = view.shard(rank, 2), indices[rank * n // 2 : (rank + 1) * n // 2]
    assert view.random_streams() > 0
    rows = np.array(data.draw(st.lists(st.integers(0, len(view) - 1), max_size=6)) if len(view) else [], np.int64)
    assert len(view) == len(indices)
    if not len(view):
        return
    # Outside a loader an example keeps its numbers in every view. In a loader only the position counts.
    assert view.batch(rows).get("x", np.zeros(0)).tolist() == expected(indices[rows])
    keys = RandomKeys(9, 2, rows * 1000)
    assert x(view, rows, keys) == expected(rows * 1000, seed=9, epoch=2)
    assert view.batch_with_keys(rows, keys).get("i", np.zeros(0)).tolist() == indices[rows].tolist()


def test_equal_examples_at_two_positions_differ():
    both = SEEDED.concat(SEEDED)
    keys = RandomKeys(1, 0, np.arange(2 * N))
    batch = both.batch_with_keys(np.arange(2 * N), keys)
    assert len(set(batch["x"].tolist())) == 2 * N


def test_every_seeded_map_has_a_stream_of_its_own():
    twice = SEEDED.map(draw_again, seeded=True)
    batch = twice.batch_with_keys(np.arange(4), KEYS)
    assert batch["x"].tolist() == expected(KEYS.positions, 0, 5, 3)  # a map added later does not change it
    assert batch["y"].tolist() == expected(KEYS.positions, 1, 5, 3)
    between = SEEDED.map(dict).map(draw_again, seeded=True)
    assert between.batch_with_keys(np.arange(4), KEYS)["y"].tolist() == batch["y"].tolist()
    assert (SEEDED.random_streams(), twice.random_streams(), NUMBERS.map(dict).random_streams()) == (1, 2, 0)
    assert [example["y"] for example in twice] == expected(range(N), 1)


def test_sources_side_by_side_have_streams_of_their_own():
    left, right = SEEDED.select("x"), NUMBERS.map(draw, seeded=True).rename({"x": "y"}).select("y")
    batch = left.zip(right).map(lambda example, rng: {**example, "z": rng.random()}, seeded=True)
    batch = batch.batch_with_keys(np.arange(4), KEYS)
    assert batch["x"].tolist() == expected(KEYS.positions, 0, 5, 3)
    assert batch["y"].tolist() == expected(KEYS.positions, 1, 5, 3)
    assert batch["z"].tolist() == expected(KEYS.positions, 2, 5, 3)


def test_a_filter_decides_by_the_numbers_outside_a_loader():
    kept = SEEDED.filter(lambda example: example["x"] < 0.5)
    wanted = [i for i, value in enumerate(expected(range(N))) if value < 0.5]
    assert [example["i"] for example in kept] == wanted
    assert x(kept, [0, 1], RandomKeys(8, 1, np.array([0, 1]))) == expected([0, 1], 0, 8, 1)


def test_a_mixture_passes_keys_on():
    other = hr.ColumnSource({"i": np.arange(5)}).map(draw, seeded=True)
    mixture = hr.Mixture({SEEDED: 2, other: 1})
    assert mixture.random_streams() == 2
    assert hr.Mixture({NUMBERS: 1}).random_streams() == 0
    positions = np.array([0, 5, 3, 5])
    components, indices = zip(*(mixture.place(int(p)) for p in positions), strict=True)
    wanted = [expected([p], c, 5, 3)[0] for p, c in zip(KEYS.positions, components, strict=True)]
    assert mixture.batch_with_keys(positions, KEYS)["x"].tolist() == wanted
    wanted = [expected([i], c)[0] for i, c in zip(indices, components, strict=True)]
    assert mixture.batch(positions)["x"].tolist() == wanted


def test_an_error_says_how_to_make_the_generator():
    source = NUMBERS.map(draw, seeded=True).map(failing, seeded=True)
    with pytest.raises(TransformError, match=r"failing on example 2 \(seed 5, epoch 3, position 100\)") as caught:
        source.batch_with_keys(np.array([2]), KEYS.take(slice(1)))
    assert caught.value.__cause__.args == (stated(5, 3, 100, 1).random(),)


def test_wrong_arguments():
    with pytest.raises(TypeError, match="seeded must be True or False"):
        NUMBERS.map(draw, seeded=7)
    with pytest.raises(TypeError, match="function must be a function"):
        NUMBERS.map(None, seeded=True)


def test_without_examples_the_features_are_those_below():
    source = hr.ColumnSource({"x": np.arange(3, dtype=np.int8), "t": ["a", "b", "c"]})[:0]
    for made in (source.map(dict), source.flat_map(lambda example: [example])):
        assert list(made.batch([])) == list(made.schema) == ["x", "t"]
        assert len(made.select("t").sort("t")) == 0


def forgets(example, *rng):
    example["i"] += len(rng)


def drifts(example):
    return {"i": example["i"], "y" if example["i"] == 7 else "x": 0}


@pytest.fixture
def stored(tmp_path):
    path = tmp_path / "i.tfrecord"
    hr.write(path, NUMBERS)
    return hr.open(path)


@pytest.mark.parametrize("seeded", [False, True])
def test_a_forgotten_return_is_named(stored, seeded):
    mapped = stored.map(forgets, seeded=seeded)
    message = (
        r"^forgets on example 3( \(seed .*\))? failed with TypeError: it must return a dict of features, got None: is a"
    )
    with pytest.raises(TransformError, match=message) as error:
        mapped[3]
    assert (error.value.where.record, error.value.where.path[-10:]) == (3, "i.tfrecord")
    for read in (lambda: next(iter(mapped)), lambda: next(iter(hr.Loader(mapped, 4))), lambda: mapped.schema):
        with pytest.raises(TransformError, match="forgets on example 0 .*is a return missing"):
            read()


def test_the_first_fault_of_a_batch_is_named(stored):
    """A function may return nothing for one example and fail for the next."""
    calls = []

    def forgets_then_fails(example):
        calls.append(int(example["i"]))
        if example["i"] == 6:
            raise KeyError("six")
        return None if example["i"] == forgotten else {"i": example["i"]}

    for forgotten, message in ((4, "example 4 failed with TypeError: it must return a dict"), (9, "example 6 .*'six'")):
        calls.clear()
        with pytest.raises(TransformError, match=message) as error:
            stored.map(forgets_then_fails).batch([3, 4, 5, 6, 7])
        assert error.value.where.record == (4 if forgotten == 4 else 6)
        assert calls == sorted(set(calls))  # once each, in order


def test_what_is_no_example_is_named():
    with pytest.raises(
        TransformError, match=r"failed with TypeError: it must return a dict of features, got int 7 - at"
    ):
        NUMBERS.map(lambda example: 7)[0]


def test_a_forgotten_return_in_a_worker_is_named(stored):
    with pytest.raises(TransformError, match="forgets on example 0 .*is a return missing"):
        list(hr.Loader(stored.map(forgets), 4, workers=1))


@pytest.mark.parametrize("order", [{}, {"shuffle": True, "seed": 1}])
def test_the_example_with_other_features_is_named(stored, order):
    with pytest.raises(
        hr.SchemaMismatch, match=r"\['i', 'x'\] from drifts, found \['i', 'y'\] for example 7 - at"
    ) as error:
        list(hr.Loader(stored.map(drifts), N, **order))
    assert (error.value.where.record, error.value.where.path[-10:]) == (7, "i.tfrecord")


def test_mappings_of_other_libraries_are_examples():
    class Names:
        def keys(self):
            return ["a"]

        def __iter__(self):
            return iter(["a"])

        def __getitem__(self, name):
            return 5

    assert NUMBERS.map(lambda _: Names())[2]["a"] == 5


def test_faults_of_stacking_are_named_by_the_example(stored, monkeypatch):
    def fails(values, name, **_):
        raise hr.SchemaMismatch(Where(record=len(values) - 2, feature=name), expected="text", found="5")

    monkeypatch.setattr(user_functions, "stack_values", fails)
    with pytest.raises(hr.SchemaMismatch, match="expected text, found 5") as error:
        stored.map(dict).batch([3, 9, 7, 2])
    where = error.value.where
    assert (where.record, where.path[-10:], where.feature) == (7, "i.tfrecord", "i")


def test_batches_of_other_features_are_refused():
    """Each batch is alike, so only comparing them shows it."""

    def other(example):
        return {"a": 1} if example["i"] < 2 else {"b": "x"}

    source = hr.ColumnSource({"i": np.arange(4)})
    batches = iter(hr.Loader(source.map(other), 2, threads=0))
    assert next(batches)["a"].tolist() == [1, 1]
    with pytest.raises(SchemaMismatch, match=r"found \['b'\] for example 2"):
        next(batches)
    with pytest.raises(SchemaMismatch, match="for example 2"):
        list(hr.Loader(source.map(other).select("a"), 2, threads=0))
    with pytest.raises(SchemaMismatch, match="for example [02]"):  # the batch that is made first decides
        list(hr.Loader(source.map(other), 2, threads=2))


@pytest.mark.parametrize("other", [1.0, None, np.ones(2), "a"])
def test_none_is_no_value(other):
    source = hr.ColumnSource({"x": np.arange(4)})

    def gap(example):
        return {"a": None if example["x"] == 2 else other}

    for made in (source.map(gap), source.flat_map(lambda example: [gap(example)])):
        with pytest.raises(SchemaMismatch) as caught:
            made.batch([2])
        assert caught.value.where == Where(record=2, feature="a")
    with pytest.raises(SchemaMismatch) as caught:
        source.map(gap).batch([3, 2])
    assert caught.value.where == Where(record=2 if other is not None else 3, feature="a")


def test_values_that_examples_lack_may_be_passed_on():
    class Optional:
        schema = hr.Schema({"x": hr.Feature("bytes")})

        def __len__(self):
            return 2

        def batch(self, indices):
            return {"x": np.array([None, 5], object)[indices]}

        def where(self, index):
            return Where(record=index)

    assert hr.Source(Optional()).map(dict).batch([1, 0])["x"].tolist() == [5, None]


@pytest.mark.torch
def test_tensors_with_gradients_are_stacked_and_others_named():
    torch = pytest.importorskip("torch")
    source = hr.ColumnSource({"x": np.arange(4)})
    made = source.map(lambda example: {"a": torch.ones(2, requires_grad=True)})
    assert made.batch([0, 1])["a"].tolist() == [[1, 1], [1, 1]]
    other = source.map(
        lambda example: {"a": torch.ones(2, dtype=torch.bfloat16 if example["x"] == 2 else torch.float32)}
    )
    with pytest.raises(SchemaMismatch, match="a value that becomes a NumPy array") as caught:
        other.batch([1, 2])
    assert caught.value.where == Where(record=2, feature="a")


def test_one_array_for_several_examples_is_not_the_same_in_a_batch():
    pictures = [np.zeros((2, 3)), np.ones((3, 2))]
    source = hr.ColumnSource({"i": np.arange(4)}).map(lambda example: {"picture": pictures[example["i"] % 2]})
    column = source.batch(range(4))["picture"]
    column[2] += 5
    assert column[0].max() == 0


@pytest.mark.parametrize("items", [[7], ["a"], [b"a"], [True], [[1, 2]]])
def test_a_batch_of_empty_lists_has_the_dtype_of_the_first_example(items):
    source = hr.ColumnSource({"n": np.arange(1, 7)})
    mapped = source.map(lambda example: {"t": items * int(example["n"] % 3)})
    expanded = source.flat_map(lambda example: [{"t": items * int(example["n"] % 3)}])
    for each in (mapped, expanded, mapped[3:]):
        dtypes = {batch["t"].dtype for batch in hr.Loader(each, 1)}
        assert dtypes == {each.batch([0])["t"].dtype}
    text = source.map(lambda example: {"t": ["a"] * int(example["n"] % 3)})
    padded = [batch["t"].tolist() for batch in hr.Loader(text, 1, map_batch=hr.Pad("t", length=2))]
    assert padded[:3] == [[["a", ""]], [["a", "a"]], [["", ""]]]
    assert source.map(lambda _: {"t": []}).batch([1])["t"].dtype == np.float64


EMPTY_FIRST = [
    ([[], [2**60 + 1], [3]], hr.Feature("int64", (None,))),
    ([[], [], [0.5, 1]], hr.Feature("float64", (None,))),
    ([[], ["a"], ["b", "c"]], hr.Feature("U1", (None,))),
    ([[], [[1, 2]], []], hr.Feature("int64", (None, 2))),
    ([[[]], [[1]], [[2, 3]]], hr.Feature("int64", (None, None))),
    ([[], [], []], hr.Feature("float64", (0,))),
]


@pytest.mark.parametrize(("items", "feature"), EMPTY_FIRST)
def test_an_empty_list_does_not_decide_the_type(items, feature):
    source = hr.ColumnSource({"at": np.arange(len(items))})
    mapped = source.map(lambda example: {"x": items[example["at"]], "y": 1})
    flat = source.flat_map(lambda example: [{"x": items[example["at"]], "y": 1}])
    for made in (mapped, flat):
        assert made.schema == hr.Schema({"x": feature, "y": hr.Feature("int64")})
        assert {np.asarray(made[at]["x"]).dtype for at in range(len(items))} == {feature.numpy_dtype}


def test_only_a_first_example_without_a_type_makes_the_schema_ask_others():
    calls = []

    def function(example, least):
        calls.append(int(example["at"]))
        if example["at"] > 500:
            raise ValueError("far")
        return {"x": [1] * int(example["at"] >= least)}

    source = hr.ColumnSource({"at": np.arange(1000)})
    for least, most in ((0, 1), (3, 5), (10**6, 257)):
        calls.clear()
        assert list(source.map(lambda example, least=least: function(example, least)).schema) == ["x"]
        assert len(calls) <= most


def test_the_schema_does_not_fail_where_a_later_example_does():
    def function(example):
        return {"x": [] if example["at"] == 0 else 1 / 0}

    assert hr.ColumnSource({"at": np.arange(3)}).map(function).schema["x"].shape == (0,)


def draw_pair(example, rng):
    return dict.fromkeys("ab", rng.random())


class TestJoined:
    """Every seeded map has its own numbers, wherever it is joined with others."""

    other = NUMBERS.map(draw, seeded=True)

    def test_end_to_end_outside_a_loader(self):
        both = SEEDED.concat(self.other)
        assert both.random_streams() == 2
        assert [example["x"] for example in both] == expected(range(N)) + expected(range(N), 1)
        assert both[N + 3]["x"] == both[N:][3]["x"] == expected([3], 1)[0]
        assert both.batch([N + 1, 0])["x"].tolist() == [*expected([1], 1), *expected([0])]

    def test_end_to_end_below_windows(self):
        for both in (SEEDED.window(2).concat(self.other.window(2)), SEEDED.concat(self.other).window(2)):
            batches = list(hr.Loader(both, 3, seed=4))
            found = [value for batch in batches for value in batch["x"].reshape(-1).tolist()]
            assert len(set(found)) == 2 * N

    def test_in_a_mixture(self):
        for shuffle in (False, True):
            mixture = hr.Mixture([(SEEDED, 1), (self.other, 1)], shuffle=shuffle)
            places = [mixture.place(position) for position in range(2 * N)]
            wanted = [expected([index], component)[0] for component, index in places]
            assert mixture.batch(range(2 * N))["x"].tolist() == wanted
            assert [example["x"] for example in mixture] == wanted

    def test_one_map_read_in_several_places_draws_once(self):
        both = NUMBERS.map(draw_pair, seeded=True)
        plain = SEEDED.select("x")
        pair = both.select("a").zip(plain, both.select("b"))
        for batch in (pair.batch(range(N)), *hr.Loader(pair, 5, shuffle=True, seed=3), *hr.Loader(pair.window(2), 3)):
            assert (batch["a"] == batch["b"]).all()
            assert not (batch["a"] == batch["x"]).any()
        assert pair[3] == {"a": both[3]["a"], "x": expected([3], 1)[0], "b": both[3]["a"]}
        copy = pickle.loads(pickle.dumps(pair))
        assert copy[3] == pair[3]
        assert pickle.loads(pickle.dumps(copy))[3] == pair[3]

    def test_parts_of_one_map_keep_its_numbers(self):
        parts = SEEDED.split("train[6:]+train[:6]")
        assert [example["x"] for example in parts] == expected([*range(6, 12), *range(6)])
        mixture = hr.Mixture([(SEEDED[:6], 1), (SEEDED[6:], 1)])
        assert sorted(example["x"] for example in mixture) == sorted(expected(range(N)))


def test_a_predicate_that_decides_nothing_is_named():
    def both_ways(example):
        return np.array([True, False])

    with pytest.raises(TransformError, match=r"both_ways on example 0 failed with ValueError: The truth value"):
        len(NUMBERS.filter(both_ways))
    with pytest.raises(TransformError, match="both_ways on example 0"):
        list(NUMBERS.filter(both_ways))


def words_of(example):
    return {
        "i": example["i"],
        "list": [1, 2][: int(example["i"]) + 1],
        "number": int(example["i"]),
        "odd": example["i"] % 2 == 1,
    }


class TestExamplesAreTheSameHoweverTheyAreRead:
    def test_values_are_those_of_a_batch(self):
        source = NUMBERS.map(words_of)
        read = [list(source), [source[at] for at in range(N)], list(source[:]), source[list(range(N))]]
        kinds = [[[type(value) for value in each.values()] for each in examples] for examples in read]
        assert kinds == [kinds[0]] * 4
        assert kinds[0][0] == [np.int64, np.ndarray, np.int64, np.bool_]

    def test_functions_above_see_the_same(self):
        twice = NUMBERS.map(words_of).map(lambda example: {"list": example["list"] * 2})
        assert [example["list"].tolist() for example in twice] == [twice[at]["list"].tolist() for at in range(N)]
        assert [len(example["list"]) for example in twice] == [1] + [2] * 11

    @pytest.mark.parametrize("is_kept", [lambda e: e["odd"] is True, lambda e: isinstance(e["number"], int)])
    def test_a_filter_keeps_the_same_in_workers(self, is_kept):
        source = NUMBERS.map(words_of)
        kept = [len(source.filter(is_kept)), len(list(source.filter(is_kept))), len(source[:].filter(is_kept))]
        made = [len(batch["i"]) for batch in hr.Loader(source.filter(is_kept), N, workers=2, start_method="fork")]
        assert [*kept, sum(made)] == [0, 0, 0, 0]

    def test_none_is_refused_in_order_as_by_index(self):
        source = NUMBERS.map(lambda example: {"x": None if example["i"] == 5 else 1.0})
        read = []
        with pytest.raises(SchemaMismatch, match="found None from .* at record 5, feature 'x'"):
            read.extend(iter(source))
        with pytest.raises(SchemaMismatch, match="found None from"):
            source[5]
        assert len(read) == 5

    @pytest.mark.parametrize("rows", [[1, 2], [2, 3], [2]])
    def test_a_missing_value_excuses_only_its_own_example(self, rows):
        class Optional:
            schema = hr.Schema({"x": hr.Feature("str"), "y": hr.Feature("int64")})

            def __len__(self):
                return 4

            def batch(self, indices):
                return {"x": np.array([None, None, "a", None], object)[indices], "y": np.array([0, 0, 1, 1])[indices]}

            def where(self, index):
                return Where(record=index)

        source = hr.Source(Optional()).map(lambda example: {"z": None if example["y"] else 1.0})
        with pytest.raises(SchemaMismatch, match="found None from .* at record 2, feature 'z'"):
            source.batch(rows)
        assert source.batch([0, 3])["z"].tolist() == [1.0, None]

    def test_values_of_several_kinds_are_read_in_order_as_by_index(self):
        def either(example):
            return {"x": 1 if example["i"] < 7 else "a"}

        source = NUMBERS.map(either)
        for each in (source, source[:], source.flat_map(lambda example: [example])):
            assert [example["x"] for example in each] == [1] * 7 + ["a"] * 5

    def test_features_in_another_order_stand_in_one_order(self):
        def swapped(example):
            return {"a": 1, "b": 2} if example["i"] % 2 == 0 else {"b": 2, "a": 1}

        source = NUMBERS.map(swapped)
        assert list(source.batch([0])) == list(source.batch([1])) == ["a", "b"]
        assert {tuple(example) for example in source} == {("a", "b")}

    def test_a_failing_example_comes_after_those_before_it(self):
        called = []

        def fragile(example):
            called.append(int(example["i"]))
            return {"x": 1 // (9 - example["i"].item())}

        read = []
        with pytest.raises(TransformError, match="on example 9"):
            read.extend(iter(NUMBERS.map(fragile)))
        assert (len(read), called) == (9, list(range(10)))
        called.clear()
        next(iter(NUMBERS.map(fragile)))
        assert called == [0]


class TestExamplesShareNoMemory:
    def test_of_a_constant(self):
        zero = np.zeros(2)
        source = NUMBERS.map(lambda example: {"i": example["i"], "x": zero}).map(shift_in_place)
        assert [example["x"][0] for example in source] == [source[at]["x"][0] for at in range(N)] == [1.0] * N
        assert (zero == 0).all()

    def test_of_several_views_of_one(self):
        source = hr.ColumnSource({"x": np.array([[0.0], [10.0], [20.0]])})
        source = source.flat_map(lambda example: [{**example, "view": view} for view in range(3)]).map(shift_in_place)
        wanted = [1.0, 1.0, 1.0, 11.0, 11.0, 11.0, 21.0, 21.0, 21.0]
        assert [float(example["x"][0]) for example in source] == wanted
        assert [float(source[at]["x"][0]) for at in range(9)] == wanted
        assert len(source.filter(lambda example: example["x"][0] % 10 < 1.5)) == 9

    @pytest.mark.parametrize("size", [1, 2, 3])
    @pytest.mark.parametrize("kind", ["rows of rows", "three axes", "sparse", "shapes", "lists", "packed"])
    def test_with_what_the_function_holds(self, kind, size):
        images = [np.zeros((2, 3)), np.zeros((4, 1))]
        rows = Ragged.from_list([[0.0], [0.0, 0.0]])
        held, arrays = {
            "rows of rows": ([rows, rows], [rows.values, rows.offsets]),
            "three axes": ([Ragged(rows, np.array([0, 2]))] * 2, [rows.values, rows.offsets]),
            "sparse": ([sp.csr_array(([0.0], ([0], [1])), (1, 3))] * 2, []),
            "shapes": (images, images),
            "lists": ([[[0.0, 0.0]], [[0.0], [0.0]]], []),
            "packed": ([Ragged(images, np.array([0, 1, 2]))] * 2, images),
        }[kind]
        arrays = [held[0].data] if kind == "sparse" else arrays
        before = [array.copy() for array in arrays]
        source = hr.ColumnSource({"i": np.arange(3)}).map(lambda example: {"x": held[example["i"] % 2]})
        for _ in range(2):
            for start in range(0, 3, size):
                change_all(source.batch(range(start, min(start + size, 3)))["x"])
        for array, was in zip(arrays, before, strict=True):
            assert np.array_equal(array, was)
        assert kind != "lists" or held == [[[0.0, 0.0]], [[0.0], [0.0]]]


def change_all(column):
    """Change every number of a column in place."""
    if isinstance(column, Ragged):
        change_all(column.values)
        column.offsets[:] += 1
    elif isinstance(column, list):
        for at, value in enumerate(column):
            if isinstance(value, float):
                column[at] += 1
            else:
                change_all(value)
    else:
        values = column.data if hasattr(column, "tocsr") else column
        assert (values == 0).all(), "it was changed before"
        values += 1


def shift_in_place(example):
    example["x"] += 1
    return example


class Color(enum.Enum):
    RED = 1


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        ({1}, r"sorted\(value\) is a list"),
        (dt.datetime(2020, 1, 1, tzinfo=dt.UTC), "a time without a zone"),
        (dt.date(2020, 1, 1), "numpy.datetime64"),
        (dt.timedelta(1), "numpy.timedelta64"),
        (Decimal(1), r"float\(value\)"),
        (Color.RED, "value.value"),
        (io.BytesIO(b"x"), r"value.getvalue\(\)"),
        (iter([1]), r"list\(value\)"),
        ([dt.date(2020, 1, 1)], "numpy.datetime64"),
        ([1, None], "numpy.nan"),
        ([[1, None], [2]], "numpy.nan"),
        (object(), r"str\(value\)"),
        ({"inner": 1}, "'v/...'"),
    ],
)
def test_objects_that_no_feature_holds_are_refused(value, advice):
    source = hr.ColumnSource({"i": np.arange(4)})
    mapped = source.map(lambda example: {"v": value})
    expanded = source.flat_map(lambda example: [{"v": value}])
    for read in (
        lambda: mapped.schema,
        lambda: mapped.batch([2]),
        lambda: mapped[2],
        lambda: list(mapped),
        lambda: list(hr.Loader(mapped, 2)),
        lambda: expanded.schema,
        lambda: expanded.batch([1]),
        lambda: list(expanded),
    ):
        with pytest.raises(hr.SchemaMismatch, match=f"from .*<lambda>.* record .*feature 'v'.*{advice}"):
            read()


def test_names_of_features_are_text():
    source = hr.ColumnSource({"i": np.arange(4)})
    for mapped in (source.map(lambda _: {"a": 1, 2: 3}), source.flat_map(lambda _: [{"a": 1, 2: 3}])):
        for read in (lambda m=mapped: m.schema, lambda m=mapped: m.batch([1]), lambda m=mapped: list(m)):
            with pytest.raises(hr.SchemaMismatch, match=r"names are text from .*found \['a', 2\] - at record"):
                read()


def test_frames_and_series_are_no_examples():
    pandas = pytest.importorskip("pandas")
    source = hr.ColumnSource({"i": np.arange(4)})
    series = source.map(lambda _: pandas.Series({"a": 1}))
    frame = source.map(lambda _: pandas.DataFrame({"a": [1]}), seeded=False)
    for mapped, advice in ((series, r"value.to_dict\(\) is one"), (frame, r"frame.to_dict\('records'\)")):
        for read in (lambda m=mapped: m.schema, lambda m=mapped: m.batch([1]), lambda m=mapped: list(m)):
            with pytest.raises(hr.TransformError, match=f"example [01] .*must return a dict of features.*{advice}"):
                read()
    assert source.map(lambda _: pandas.Series({"a": 1}).to_dict()).batch([0, 1])["a"].tolist() == [1, 1]


def test_text_lists_with_gaps_and_several_values_pass():
    texts = np.array(["a", None], object)
    source = hr.ColumnSource({"i": np.arange(4)}).map(lambda _: {"v": texts})
    assert source.batch([0])["v"].tolist() == [["a", None]]
