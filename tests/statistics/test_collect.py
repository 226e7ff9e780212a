"""Statistics against NumPy on all values at once, and merged parts against one pass."""

import copy
import dataclasses
import itertools
import pickle

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import headrace as hr
from headrace.contracts.feature import Feature
from headrace.contracts.values import bytes_of
from headrace.io.threads import ThreadPool
from headrace.statistics import collect as module
from headrace.statistics.collect import Collector, PartialStatistics, collect_rows
from headrace.statistics.histogram import MOST_DISTINCT, Counts, ValueHistogram

floats = st.floats(allow_nan=True, allow_infinity=True, width=64)
parts_of_floats = st.lists(hnp.arrays(np.float64, st.integers(0, 20), elements=floats), min_size=1, max_size=6)
SMALL = ["int8", "uint8", "int16", "uint16", "bool"]
texts = st.lists(st.text(max_size=80) | st.sampled_from(["a" * 100, "é" * 70, "a"]), max_size=12)


def _summary(feature, columns):
    collector = Collector("x", feature)
    for column in columns:
        collector.add(column)
    return collector


def _merged(collectors):
    first, *others = copy.deepcopy(collectors)
    for other in others:
        first.merge(other)
    return first.summary()


def _same(left, right):
    """Equal but for rounding of means and deviations."""
    left, right = left.to_json(), right.to_json()
    for key in ("mean", "std", "sizes", "lengths"):
        a, b = left.pop(key), right.pop(key)
        if a is not None or b is not None:
            a, b = np.asarray(a, object).astype(float), np.asarray(b, object).astype(float)
            assert (
                np.allclose(a, b, rtol=1e-6, atol=1e-9, equal_nan=True)
                or not (np.isfinite(a).all() and np.isfinite(b).all())
                or np.abs(a).max() > 1e100
            )
    assert left == right


@given(parts_of_floats)
def test_merged_parts_are_one_pass(parts):
    feature = Feature("float64")
    with np.errstate(all="ignore"):
        whole = _summary(feature, [np.concatenate(parts)]).summary()
        in_blocks = _summary(feature, parts).summary()
        merged = _merged([_summary(feature, [part]) for part in parts])
        backwards = _merged([_summary(feature, [part]) for part in reversed(parts)])
        _same(in_blocks, whole)
        _same(merged, whole)
        _same(backwards, whole)


@given(st.lists(hnp.arrays(np.int64, st.integers(0, 20)), min_size=1, max_size=5))
def test_merged_whole_numbers_are_one_pass(parts):
    feature = Feature("int64")
    _same(_merged([_summary(feature, [part]) for part in parts]), _summary(feature, [np.concatenate(parts)]).summary())


@given(st.lists(texts, min_size=1, max_size=5))
def test_merged_texts_are_one_pass_with_and_without_objects(parts):
    feature = Feature("str")
    everything = [text for part in parts for text in part]
    plain = _summary(feature, [np.array(everything, object)] if everything else []).summary()
    columns = [hr.Strings.from_values(part, is_text=True) for part in parts]
    _same(_summary(feature, columns).summary(), plain)
    _same(_merged([_summary(feature, [column]) for column in columns]), plain)


@given(st.lists(st.floats(-1e200, 1e200), min_size=1, max_size=60), st.integers(0, 59), st.integers(0, 59))
def test_a_histogram_is_a_monoid(values, first, second):
    cuts = sorted({0, min(first, len(values)), min(second, len(values)), len(values)})
    parts = []
    for start, stop in zip(cuts, cuts[1:], strict=False):
        part = ValueHistogram()
        part.add(np.array(values[start:stop]))
        parts.append(part)
    whole = ValueHistogram()
    whole.add(np.array(values))
    empty = ValueHistogram()
    for order in (parts, parts[::-1]):
        merged = ValueHistogram()
        for part in (empty, *order, empty):
            merged.merge(part)
        assert (merged._exponent, merged._first, merged.counts.tolist()) == (
            whole._exponent,
            whole._first,
            whole.counts.tolist(),
        )
    assert whole.counts.sum() == len(values)
    assert len(whole.counts) <= 4096


def test_counts_are_a_monoid():
    few, many = Counts(), Counts()
    few.add(["a"], [1])
    many.add(range(MOST_DISTINCT), [1] * MOST_DISTINCT)
    both = copy.deepcopy(few)
    both.merge(many)
    assert both.counts is None
    again = copy.deepcopy(both)
    again.merge(few)
    few.merge(again)
    assert again.counts is few.counts is None


@pytest.fixture
def source():
    rng = np.random.default_rng(0)
    return hr.ColumnSource(
        {
            "x": rng.standard_normal(5000).astype(np.float32),
            "v": rng.integers(0, 9, (5000, 3)),
            "name": hr.Strings.from_values([f"row {i % 50}" for i in range(5000)]),
            "tokens": hr.Ragged.from_list([range(i % 4) for i in range(5000)], "int64"),
        }
    )


def test_all_examples_against_numpy(source):
    found = hr.stats(source)
    x = source.batch(range(5000))["x"].astype(np.float64)
    assert (found.read, found.total) == (5000, 5000)
    assert found.statement == "all 5,000 examples were read"
    assert found.features["x"].mean == pytest.approx(x.mean())
    assert found.features["x"].std == pytest.approx(x.std())
    assert (found.features["x"].minimum, found.features["x"].maximum) == (x.min(), x.max())
    assert found.features["v"].values == 15_000
    assert found.features["name"].distinct == 50
    assert found.features["name"].sizes == (5, pytest.approx(5.8), 6)
    assert found.features["tokens"].empty == 1250
    assert found.features["tokens"].lengths == (0, 1.5, 3)
    assert "mean" in str(found)
    assert found.to_json()["features"][0]["name"] == "x"


def test_a_sample(source):
    found = hr.stats(source, sample=100)
    assert (found.read, found.total, found.is_first) == (100, 5000, False)
    assert hr.stats(source, sample=100).to_json() == found.to_json()
    assert hr.stats(source, sample=9999).read == 5000
    assert list(hr.stats(source, columns=["v"]).features) == ["v"]


@pytest.mark.parametrize("step", [1, -1])  # of a clock by which threads are slower, or faster
@pytest.mark.parametrize("cores", [1, 2, 3])
def test_threads_change_nothing(source, monkeypatch, cores, step):
    ways = []
    ticks = itertools.accumulate(itertools.count(1), lambda now, more: now + step * more**6)
    monkeypatch.setattr(module, "perf_counter_ns", lambda: next(ticks))
    monkeypatch.setattr(module, "usable_cores", lambda: cores)
    monkeypatch.setattr(module, "STRETCH_ROWS", 100)
    monkeypatch.setattr(module, "MOST_ROWS", 64)
    monkeypatch.setattr(ThreadPool, "map", lambda pool, *a, usual=ThreadPool.map: ways.append(pool) or usual(pool, *a))
    found, plain = hr.stats(source), PartialStatistics(source.schema)
    plain.add(source.batch(range(5000)), 5000)
    for left, right in zip(found.features.values(), plain.summaries(), strict=True):
        _same(left, right)
    assert found.read == 5000
    assert len(ways) == 0 if cores == 1 else len(ways) == 1 if step > 0 else len(ways) > 2


@given(st.lists(hnp.arrays(st.sampled_from(SMALL), st.integers(0, 20)), min_size=1, max_size=5))
def test_small_integers_are_as_large_ones(parts):
    wide = _summary(Feature("int64"), [part.astype(np.int64) for part in parts]).summary()
    for name in SMALL:
        same = [part for part in parts if part.dtype == name]
        found = _summary(Feature(name), same).summary()
        if len(same) == len(parts) and name != "bool":
            _same(dataclasses.replace(found, dtype="int64"), wide)
        if values := [value for part in same for value in part.tolist()]:
            assert found.distinct == len(set(values))
            assert found.mean == pytest.approx(np.mean(values))
            assert found.std == pytest.approx(np.std(values), abs=1e-9)
            assert (found.minimum, found.maximum) == (min(values), max(values))
            assert type(found.minimum) is type(values[0])


def test_parts_after_too_many_distinct_values_count_none(monkeypatch):
    numbers = np.arange(3 * MOST_DISTINCT) % (2 * MOST_DISTINCT)
    columns = {"n": numbers, "s": hr.Strings.from_values(numbers.astype(str).tolist()), "few": numbers % 3}
    source = hr.ColumnSource(columns)
    plain = _summary(Feature("int64"), [numbers]).summary()
    assert plain.distinct is None
    before = collect_rows(source, np.arange(2 * MOST_DISTINCT))
    counted = []
    monkeypatch.setattr(Counts, "add", lambda self, *new: counted.append(self) or None)
    after = collect_rows(source, np.arange(2 * MOST_DISTINCT, 3 * MOST_DISTINCT), before)
    assert all(counts.counts is not None for counts in counted)
    monkeypatch.undo()
    after = collect_rows(source, np.arange(2 * MOST_DISTINCT, 3 * MOST_DISTINCT), before)
    before.merge(after)
    found = {each.name: each for each in before.summaries()}
    _same(dataclasses.replace(found["n"], name="x"), plain)
    assert found["s"].distinct is None
    assert found["few"].distinct == 3
    assert sum(bar.count for bar in found["few"].bars) == 3 * MOST_DISTINCT


def test_batches_have_about_a_megabyte(monkeypatch):
    texts = ["a"] * 20_000 + ["b" * 100_000] * 200
    source = hr.ColumnSource({"text": hr.Strings.from_values(texts), "n": np.arange(20_200)})
    sizes = []
    usual = PartialStatistics.add
    monkeypatch.setattr(
        PartialStatistics, "add", lambda self, batch, n: sizes.append(bytes_of(batch)) or usual(self, batch, n)
    )
    found = hr.stats(source)
    assert found.features["text"].sizes == (1, pytest.approx((20_000 + 200 * 100_000) / 20_200), 100_000)
    assert max(sizes) <= 4 << 20
    assert len(sizes) < 60


def test_parts_travel(source):
    parts = [
        pickle.loads(pickle.dumps(collect_rows(source, np.arange(start, start + 1000))))
        for start in range(0, 5000, 1000)
    ]
    for part in parts[1:]:
        parts[0].merge(part)
    for left, right in zip(parts[0].summaries(), hr.stats(source).features.values(), strict=True):
        _same(left, right)


def test_files(tmp_path, source):
    path = tmp_path / "x.tfrecord"
    hr.write(path, source)
    assert hr.stats(path).features["name"].distinct == 50
    packed = tmp_path / "x.tfrecord.gz"
    # Large enough that inferring the schema does not inflate all of it.
    hr.write(packed, {"a": np.arange(20_000), "zeros": np.zeros((20_000, 200), np.float32)})
    assert hr.stats(packed, sample=10).is_first
    with pytest.raises(ValueError, match="sample"):
        hr.stats(path, sample=0)
    content = bytearray(path.read_bytes())
    content[hr.open(path).where(3).offset + 20] ^= 1
    path.write_bytes(content)
    with pytest.raises(hr.CorruptRecord):
        hr.stats(path)
    assert hr.stats(path, on_corrupt="skip").read == 4999


def test_an_empty_source():
    found = hr.stats(hr.ColumnSource({"x": np.zeros(0)}))
    assert (found.read, found.total) == (0, 0)
    assert found.features["x"].minimum is None


def test_tensors_of_two_unknown_lengths():
    source = hr.ColumnSource({"x": [np.arange(6).reshape(2, 3), np.arange(4).reshape(4, 1), np.zeros((0, 5), int)]})
    found = hr.stats(source).features["x"]
    assert (found.minimum, found.maximum, found.values, found.empty) == (0, 5, 10, 1)
    assert found.lengths == (0, pytest.approx(10 / 3), 6)
    texts = Collector("x", Feature("str", (None, None)))
    texts.add([hr.Strings.from_values(["a", "b"]).reshape(1, 2), hr.Strings.from_values(["a"]).reshape(1, 1)])
    assert (texts.summary().values, texts.summary().distinct) == (3, 2)


def test_a_sample_of_a_stream_ends_within_a_batch(tmp_path):
    path = tmp_path / "x.tfrecord.gz"
    hr.write(path, {"a": np.arange(20_000), "zeros": np.zeros((20_000, 200), np.float32)})
    found = hr.stats(path, sample=1500)
    assert (found.is_first, found.read, found.features["a"].maximum) == (True, 1500, 1499)


def test_sparse_rows_have_their_zeros():
    dense = np.array([[0, 1, 0, 0], [0, 0, 0, 0], [2, 0, 3, 0]], np.float32)
    feature = Feature("float32", (4,), sparse=True)
    found = _summary(feature, [scipy.sparse.csr_matrix(dense), scipy.sparse.csr_matrix(dense[:1])]).summary()
    plain = _summary(Feature("float32", (4,)), [dense, dense[:1]]).summary()
    _same(found, plain)
    unknown = _summary(Feature("float32", (None,), sparse=True), [scipy.sparse.csr_matrix(dense)]).summary()
    assert (unknown.values, unknown.empty, unknown.minimum, unknown.lengths) == (3, 1, 1, (0, 1, 2))


@pytest.mark.parametrize(
    ("column", "lengths", "empty"),
    [
        (hr.Ragged(np.zeros((4, 4)), np.array([0, 1, 4, 4])), [4, 12, 0], 1),
        (hr.Ragged(hr.Ragged.from_list([[1, 2, 3], [4], []], "int64"), np.array([0, 2, 3, 3])), [4, 0, 0], 2),
        ([np.zeros((1, 4)), np.zeros((3, 2)), np.zeros((0, 4))], [4, 6, 0], 1),
        (hr.Ragged.from_list([["a", "b"], [], ["c"]], "str"), [2, 0, 1], 1),
    ],
)
def test_lengths_are_values_of_an_example(column, lengths, empty):
    found = hr.stats({"x": column}).features["x"]
    assert found.lengths == (min(lengths), pytest.approx(np.mean(lengths)), max(lengths))
    assert (found.values, found.empty) == (sum(lengths), empty)


def test_the_mean_of_huge_numbers_is_within_them():
    found = hr.stats({"x": np.full(1000, 1.7e308)}).features["x"]
    assert (found.mean, found.std) == (1.7e308, 0)
