"""Several examples of one, and one of several, against the same done to lists."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.testing import KINDS, SourceTests, assert_same, kinds_batch

DENSE = [name for name in KINDS if name != "sparse"]
ROWS = st.lists(st.lists(st.integers(0, 99), max_size=9), max_size=12)


def letters(example):
    return [{"id": example["id"], "token": token} for token in example["tokens"]]


def lazy_letters(example):
    yield from letters(example)


def source_of(rows, **more):
    return hr.ColumnSource({"tokens": hr.Ragged.from_list(rows, "int64"), "id": np.arange(len(rows)), **more})


def tuples(source):
    return [tuple(np.asarray(value).tolist() for value in example.values()) for example in source]


@given(ROWS, st.sampled_from([letters, lazy_letters]), st.booleans(), st.data())
def test_flat_map_is_that_of_lists(rows, function, counted, data):
    expected = [(number, token) for number, row in enumerate(rows) for token in row]
    source = source_of(rows).flat_map(function, count=(lambda example: len(example["tokens"])) if counted else None)
    assert tuples(source) == expected
    assert len(source) == len(expected)
    chosen = data.draw(st.lists(st.integers(0, max(len(expected) - 1, 0)), max_size=9 if expected else 0))
    batch = source.batch(chosen)
    if expected:
        assert batch["token"].tolist() == [expected[index][1] for index in chosen]
        assert batch["id"].tolist() == [expected[index][0] for index in chosen]
    part = data.draw(st.slices(len(expected)))
    assert tuples(source[part]) == expected[part]


@given(st.integers(0, 25), st.integers(1, 6), st.one_of(st.none(), st.integers(1, 8)), st.data())
def test_windows_of_examples_are_slices(n, size, stride, data):
    rows = [list(range(number % 4)) for number in range(n)]
    source = source_of(rows, text=[f"t{number}" for number in range(n)]).window(size, stride)
    step = stride or size
    starts = range(0, n - size + 1, step) if n >= size else range(0)
    assert len(source) == len(starts)
    chosen = data.draw(st.lists(st.integers(0, max(len(starts) - 1, 0)), max_size=9 if len(starts) else 0))
    batch = source.batch(chosen)
    assert batch["id"].tolist() == [list(range(starts[index], starts[index] + size)) for index in chosen]
    assert batch["tokens"].to_list() == [rows[starts[index] : starts[index] + size] for index in chosen]
    assert batch["text"].shape == (len(chosen), size)
    assert source.schema["id"].shape == (size,)


@given(ROWS, st.integers(1, 4), st.one_of(st.none(), st.integers(1, 5)), st.data())
def test_windows_of_sequences_are_slices(rows, size, stride, data):
    step = stride or size
    expected = [
        (row[at : at + size], number) for number, row in enumerate(rows) for at in range(0, len(row) - size + 1, step)
    ]
    source = source_of(rows).window(size, stride, feature="tokens")
    assert len(source) == len(expected)
    assert tuples(source) == expected
    chosen = data.draw(st.lists(st.integers(0, max(len(expected) - 1, 0)), max_size=9 if expected else 0))
    batch = source.batch(chosen)
    assert batch["tokens"].shape == (len(chosen), size)
    assert list(zip(batch["tokens"].tolist(), batch["id"].tolist(), strict=True)) == [expected[i] for i in chosen]


class TestFlatMapped(SourceTests):
    def make(self, folder):
        return source_of([[1], [2, 3], [], [4, 5, 6]]).flat_map(letters)


class TestWindows(SourceTests):
    def make(self, folder):
        return hr.ColumnSource(kinds_batch(20, DENSE)).window(4, 3)


class TestFeatureWindows(SourceTests):
    def make(self, folder):
        rows = [list(range(number)) for number in range(9)]
        return source_of(rows, words=[["a"] * number for number in range(9)]).window(3, 1, feature=("tokens", "words"))


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(
    "view",
    [
        lambda source: source.flat_map(letters).window(2),
        lambda source: source.window(3, 2, feature="tokens").sample(20, seed=1),
        lambda source: source.window(2, 1).window(2, 1),
    ],
)
def test_loaders_shuffle_shard_and_resume(view, workers):
    source = view(source_of([list(range(number % 7)) for number in range(20)]))
    source = pickle.loads(pickle.dumps(source))

    def loader(rank=0, world=1):
        return hr.Loader(source, 3, shuffle=True, seed=4, shard=hr.Shard(rank, world), workers=workers)

    whole = [np.asarray(batch["id"]).tolist() for batch in loader()]
    first = loader()
    batches = iter(first)
    found = [np.asarray(next(batches)["id"]).tolist() for _ in range(2)]
    second = loader()
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert found + [np.asarray(batch["id"]).tolist() for batch in second] == whole
    ranks = [str(row) for rank in range(2) for batch in loader(rank, 2) for row in np.asarray(batch["id"]).tolist()]
    assert sorted(ranks) == sorted(str(row) for batch in whole for row in batch)


def test_random_numbers_belong_to_the_example_that_is_read():
    def shift(example, rng):
        return {**example, "tokens": example["tokens"] + 1000 * rng.integers(1, 1000)}

    rows = [[1, 2, 3, 4]] * 6
    source = source_of(rows).map(shift, seeded=True).flat_map(letters, count=lambda example: 4)
    one, two = (
        {
            (int(number), int(token) % 1000): int(token) // 1000
            for batch in hr.Loader(source, size, shuffle=True, seed=seed, threads=0)
            for number, token in zip(batch["id"], batch["token"], strict=True)
        }
        for size, seed in ((5, 1), (24, 1))
    )
    assert one == two
    assert all(len({one[number, token] for token in (1, 2, 3, 4)}) == 1 for number in range(6))
    assert len({one[number, 1] for number in range(6)}) > 1


def test_a_function_that_changes_its_mind_is_found_out():
    calls = []

    def fickle(example):
        calls.append(1)
        return [{"x": 1}] * (2 if len(calls) <= 3 else 1)

    source = hr.ColumnSource({"x": np.arange(3)}).flat_map(fickle)
    assert len(source) == 6
    with pytest.raises(hr.SchemaMismatch, match="2 examples of example 1, as when they were counted, found 1"):
        source.batch([2])


def test_what_flat_map_cannot_use_is_named(tmp_path):
    path = tmp_path / "i.tfrecord"
    hr.write(path, hr.ColumnSource({"i": np.arange(9)}))
    source = hr.open(path)

    def forgets(example):
        [example]

    def drifts(example):
        yield {"i": example["i"]}
        yield {"i" if example["i"] != 5 else "j": 0}

    with pytest.raises(hr.TransformError, match=r"forgets on example 0 .*return or yield examples, got None") as error:
        source.flat_map(forgets)[0]
    assert error.value.where.record == 0
    counted = source.flat_map(lambda example: [example["i"]], count=lambda _: 1)
    with pytest.raises(hr.SchemaMismatch, match="each a dict, found int64 ") as error:
        counted.batch([5])
    assert error.value.where.record == 5
    for indices in ([10, 11], [2, 11, 0]):
        with pytest.raises(
            hr.SchemaMismatch, match=r"\['i'\] from .*drifts, found \['j'\] for example 5 - at"
        ) as error:
            source.flat_map(drifts).batch(indices)
        assert error.value.where.record == 5


def test_faults_name_the_example():
    def fails(example):
        yield {"x": example["id"]}
        if example["id"] == 1:
            raise ValueError("no")

    with pytest.raises(hr.TransformError, match="fails on example 1.*ValueError: no"):
        list(source_of([[1], [2]]).flat_map(fails))
    with pytest.raises(hr.SchemaMismatch, match="each a dict, found int 3"):
        list(source_of([[1]]).flat_map(lambda example: [3]))
    with pytest.raises(TypeError, match="function must be a function"):
        source_of([[1]]).flat_map(3)
    for wrong, error in ((-1, ValueError), (1.5, TypeError)):
        with pytest.raises(error, match="the count of example 0"):
            len(source_of([[1]]).flat_map(letters, count=lambda example, wrong=wrong: wrong))
    other = hr.Ragged.from_list([[1], [2, 3]], "int64")
    with pytest.raises(hr.SchemaMismatch, match="2 values in example 0.*found 1.*'other'"):
        source_of([[1, 2], [3, 4]], other=other).window(2, feature=("tokens", "other")).batch([0])


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((0,), {}, ValueError, "size must be at least 1"),
        ((2, 0), {}, ValueError, "stride must be at least 1"),
        ((2.0,), {}, TypeError, "size must be an integer"),
        ((2,), {"feature": "token"}, hr.NoSuchFeature, "tokens"),
        ((2,), {"feature": ()}, ValueError, "at least one feature"),
        ((2,), {"feature": "id"}, hr.SchemaMismatch, "one axis that varies"),
    ],
)
def test_arguments_of_window(arguments, options, error, message):
    with pytest.raises(error, match=message):
        source_of([[1]]).window(*arguments, **options)


def test_windows_of_what_cannot_be_stacked():
    with pytest.raises(hr.UnsupportedData, match="dense features in windows.*sparse"):
        hr.ColumnSource(kinds_batch(4, ["sparse"])).window(2)
    images = hr.ColumnSource({"image": [np.zeros((1, 2)), np.zeros((3, 4))]})
    with pytest.raises(hr.UnsupportedData, match="first axis only.*map"):
        images.window(2).batch([0])


def test_only_the_feature_of_windows_is_read_for_lengths():
    source = source_of([[1, 2, 3]]).select("tokens").zip(hr.ColumnSource({"x": np.arange(1)}))
    assert len(source.window(2, 1, feature="tokens")) == 2
    assert_same(source.window(2, 1, feature="tokens")[1], {"tokens": np.array([2, 3]), "x": np.int64(0)})


@pytest.mark.parametrize("huge", [2**62, 2**63, 2**64, 10**30])
def test_huge_sizes_and_strides(huge):
    source = hr.ColumnSource({"x": np.arange(3), "r": hr.Ragged.from_list([[1, 2], [], [3]], "int32")})
    for feature, singles in ((None, 1), ("r", 2)):
        assert len(source.window(huge, feature=feature)) == len(source.window(huge, huge, feature=feature)) == 0
        windows = source.window(1, huge, feature=feature)
        assert len(list(windows)) == len(windows) == singles


def test_a_generator_of_flat_map_may_fill_one_array_again():
    def repeat(example):
        made = {"k": np.zeros(2, np.int64)}
        for k in range(3):
            made["k"][:] = 10 * example["id"] + k
            yield made

    source = hr.ColumnSource({"id": np.arange(2)}).flat_map(repeat)
    assert source.batch(range(6))["k"][:, 1].tolist() == [0, 1, 2, 10, 11, 12]
    assert [int(example["k"][0]) for example in source] == [0, 1, 2, 10, 11, 12]


@pytest.mark.parametrize("make", [lambda image: image, lambda image: image[::-1], lambda image: image[1:]])
def test_examples_made_of_one_array_share_no_memory_in_a_batch(make):
    images = [np.full((4 + i, 5 - i, 3), i, np.float32) for i in range(3)]
    source = hr.open({"image": images}).flat_map(lambda example: [{"image": make(example["image"])} for _ in range(2)])
    column = source.batch(range(6))["image"]
    for image in column:
        np.add(image, 100, out=image)
    assert [image.flat[0] for image in column] == [100, 100, 101, 101, 102, 102]


def test_the_schema_calls_the_function_once():
    called = []

    def make(example):
        called.append(int(example["id"]))
        return [{"id": example["id"]}]

    source = hr.ColumnSource({"id": np.arange(4)}).flat_map(make, count=lambda _: 1)
    assert list(source.schema) == ["id"]
    assert "id int64" in repr(source)
    assert called == [0]


def test_wrong_counts_are_an_error_in_order_too_once_they_are_known():
    source = hr.ColumnSource({"i": np.arange(10)}).flat_map(lambda example: [example], count=lambda example: 2)
    assert sum(1 for _ in source) == 10  # unlike list(), which asks for the length
    assert len(source) == 20
    with pytest.raises(hr.SchemaMismatch, match="expected 2 examples of example 0, as when they were counted, found 1"):
        list(source)
