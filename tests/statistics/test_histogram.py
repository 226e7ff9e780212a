"""Distributions in one pass."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

import headrace as hr
from headrace import Feature, Ragged
from headrace.cli.stats.report import bar_lines, figures, page, spark
from headrace.statistics.collect import Collector
from headrace.statistics.display import shorten
from headrace.statistics.histogram import MOST_DISTINCT, Counts, ValueHistogram, round_bars
from headrace.statistics.numbers import Numbers, Summary, Texts

finite = st.floats(-1e300, 1e300, allow_nan=False, allow_infinity=False)
any_finite = st.floats(allow_nan=False, allow_infinity=False)
wide_blocks = st.lists(hnp.arrays(np.float64, st.integers(0, 30), elements=any_finite), min_size=1, max_size=5)
blocks = st.lists(hnp.arrays(np.float64, st.integers(0, 30), elements=finite), min_size=1, max_size=5)


def summary_of(parts, dtype=np.float64):
    numbers = Numbers(np.dtype(dtype))
    for part in parts:
        numbers.add(np.asarray(part, dtype))
    found = Summary(name="x", dtype=str(dtype), shape=())
    numbers.fill(found, 24)
    return found


@given(wide_blocks)
def test_every_number_is_in_one_bar(parts):
    histogram, merged = ValueHistogram(), ValueHistogram()
    for part in parts:
        histogram.add(part)
        own = ValueHistogram()
        own.add(part)
        merged.merge(own)
    values = np.concatenate(parts)
    if not len(values):
        return
    assert merged.bars(24, values.min(), values.max()) == histogram.bars(24, values.min(), values.max())
    bars = histogram.bars(24, values.min(), values.max())
    assert sum(bar.count for bar in bars) == len(values)
    assert len(bars) <= 24
    assert bars[0].start == values.min()
    assert bars[-1].stop == values.max()


def test_bars_count_their_values():
    values = np.random.default_rng(0).standard_normal(30_000)
    histogram = ValueHistogram()
    for part in np.array_split(values, 50):
        histogram.add(part)
    bars = histogram.bars(24, values.min(), values.max())
    for bar in bars[1:-1]:
        assert bar.count == ((values >= bar.start) & (values < bar.stop)).sum()


@given(blocks)
def test_moments_and_extremes(parts):
    values = np.concatenate(parts)
    found = summary_of(parts)
    assert found.values == len(values)
    assert sum(bar.count for bar in found.bars) in (0, len(values))
    if len(values):
        assert (found.minimum, found.maximum) == (values.min(), values.max())
        with np.errstate(over="ignore", invalid="ignore"):
            scale = np.abs(values).max()
            assert math.isclose(found.mean, values.mean(), rel_tol=1e-9, abs_tol=1e-9 * scale) or not np.isfinite(
                values.sum()
            )
            if np.isfinite(values.var()) and np.isfinite(found.std):
                assert math.isclose(found.std, values.std(), rel_tol=1e-6, abs_tol=1e-9 * scale)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64", "bool"])
def test_whole_numbers(dtype):
    values = np.random.default_rng(1).integers(0, 2, 5000).astype(dtype)
    found = summary_of([values], dtype)
    assert [(bar.label, bar.count) for bar in found.bars] == [
        (str(value), int((values == value).sum())) for value in np.unique(values)
    ]


def test_ranges_of_whole_numbers_are_round():
    found = summary_of([np.arange(256)], np.uint8)
    assert [bar.label for bar in found.bars[:2]] == ["0 to 19", "20 to 39"]
    assert found.bars[-1].label == "240 to 255"
    assert sum(bar.count for bar in found.bars) == 256


def test_extreme_whole_numbers():
    found = summary_of([[-(2**63), 2**63 - 1]], np.int64)
    assert (found.minimum, found.maximum) == (-(2**63), 2**63 - 1)
    assert [bar.count for bar in found.bars] == [1, 1]


def test_a_range_beyond_floats():
    found = summary_of([[-1.7e308, 1.7e308, 0.0]])
    assert [bar.count for bar in found.bars if bar.count] == [1, 1, 1]
    assert (found.bars[0].start, found.bars[-1].stop) == (-1.7e308, 1.7e308)
    assert (found.minimum, found.maximum) == (-1.7e308, 1.7e308)


def test_dates():
    days = np.array(["2026-01-01", "2026-01-03", "NaT", "2026-01-01"], "M8[D]")
    found = summary_of([days], "M8[D]")
    assert (str(found.minimum), str(found.maximum), found.nan, found.mean) == ("2026-01-01", "2026-01-03", 1, None)
    assert [(bar.label, bar.count) for bar in found.bars] == [("2026-01-01", 2), ("2026-01-03", 1)]
    many = summary_of([np.arange("2000-01-01", "2020-01-01", dtype="M8[D]")], "M8[D]")
    assert many.bars[0].label.startswith("2000-01-01 to 200")


def test_counting_gives_up():
    counts = Counts()
    counts.add(range(MOST_DISTINCT), [1] * MOST_DISTINCT)
    assert counts.distinct == MOST_DISTINCT
    counts.add([-1], [1])
    assert counts.distinct is None


@given(st.dictionaries(st.floats(-1e6, 1e6), st.integers(1, 9), min_size=2, max_size=60), st.booleans())
def test_round_bars_lose_nothing(counts, whole):
    if whole:
        merged = {}
        for value, count in counts.items():
            merged[int(value)] = merged.get(int(value), 0) + count
        counts = merged
    bars = round_bars(counts, 24, whole=whole)
    assert len(bars) <= 24
    assert sum(bar.count for bar in bars) in (0, sum(counts.values()))


def test_plots():
    bars = summary_of([[1, 1, 1, 1, 2, 3, 3]], np.int64).bars
    assert spark(bars) == "█▂▄"
    assert bar_lines(bars)[1] == "2  1  ████████"
    assert spark([]) == ""
    assert bar_lines([]) == []


def test_too_many_values_stay_uncounted():
    counts = Counts()
    counts.add(range(MOST_DISTINCT + 1), [1] * (MOST_DISTINCT + 1))
    counts.add([0], [1])
    assert (counts.counts, counts.distinct) == (None, None)


def test_edges_too_fine_for_a_float():
    assert round_bars({2.0**60: 1, 2.0**60 + 512: 1}, 24, whole=False) == []


def test_the_mean_of_numbers_near_the_ends_of_floats():
    values = [-1.7e308] * 10 + [1.7e308] * 10 + [number * 1e306 for number in range(100)]
    assert summary_of([values]).mean == pytest.approx(4950 / 120 * 1e306)
    assert summary_of([values[:20], values[20:]]).mean == pytest.approx(4950 / 120 * 1e306)
    assert summary_of([[1.7e308] * 3, [-1.7e308] * 3]).mean == 0


def test_a_range_that_grows_to_the_largest_floats():
    histogram, largest = ValueHistogram(), float(np.finfo(np.float64).max)
    for value in (1e306, largest, 1.0, -largest):
        histogram.add(np.array([0.0, value]))
    bars = histogram.bars(24, -largest, largest)
    assert sum(bar.count for bar in bars) == 8
    assert (bars[0].count, bars[-1].count) == (1, 1)


def test_texts():
    texts = Texts()
    long = "a" * 100
    texts.add(np.array([long, long, "b", "c" * 100], object))
    found = Summary(name="x", dtype="str", shape=())
    texts.fill(found, 24)
    assert (found.values, found.distinct, found.sizes) == (4, 3, (1, 75.25, 100))
    assert [(bar.label, bar.count) for bar in found.bars] == [(shorten(long), 2), ("'b'", 1), (shorten("c" * 100), 1)]


def test_many_texts_are_shown_by_size():
    texts = Texts()
    for block in np.array_split(np.array([f"{i:070}" for i in range(MOST_DISTINCT + 2)], object), [MOST_DISTINCT + 1]):
        texts.add(block)
    found = Summary(name="x", dtype="str", shape=())
    texts.fill(found, 24)
    assert (found.values, found.distinct, found.bars_of) == (MOST_DISTINCT + 2, None, "sizes")
    assert [(bar.label, bar.count) for bar in found.bars] == [("70", MOST_DISTINCT + 2)]
    assert texts._long == {}


def test_columns_of_any_kind():
    ragged = Collector("x", Feature("int64", (None, None)))
    ragged.add(Ragged(Ragged.from_list([[1], [2, 3]]), np.array([0, 2, 2])))
    found = ragged.summary()
    assert (found.examples, found.empty, found.values, found.maximum) == (2, 1, 3, 3)
    thin = Collector("x", Feature("float32", (3,), sparse=True))
    thin.add(sparse.csr_array(np.float32([[0, 1, 2], [0, 0, 0]])))
    found = thin.summary()
    assert (found.examples, found.empty, found.values, found.minimum) == (2, 0, 6, 0)


def test_infinite_values_are_named():
    summary = summary_of([[np.inf, 1.0, -np.inf]])
    assert ("infinite", "2") in figures(summary)


def test_a_page_without_bars():
    summary = summary_of([[np.nan]])
    assert summary.bars == []
    shown = page("x", "1 example", [summary])
    assert "<figure>" not in shown
    assert "<dt>NaN or NaT</dt><dd>1</dd>" in shown


@pytest.mark.parametrize("base", [0, -(2**31), 2**40, 2**62])
@pytest.mark.parametrize("count", [50, 30_000])
def test_labels_tell_bars_apart(base, count):
    step = 1 if abs(base) < 2**53 else 1 << 20
    bars = hr.stats(hr.ColumnSource({"x": base + step * np.arange(count)})).features["x"].bars
    assert sum(bar.count for bar in bars) == count
    labels = [bar.label for bar in bars]
    assert len(set(labels)) == len(labels) > 1
    for label in labels:
        start, _, stop = label.partition(" to ")
        assert start != stop
