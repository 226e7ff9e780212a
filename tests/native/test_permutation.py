"""The keyed permutation: pinned, a bijection, equal to the slow reference, statistically random.

The statistics use fixed seeds, so they cannot fail by chance. The limits are five standard deviations away
from what true chance gives.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference.permutation import permuted

from headrace import _native

WORDS = st.integers(0, (1 << 64) - 1)


def order(n, seed, epoch=0):
    return _native.permute(n, seed, epoch, 0, n)


def surprise(counts, expected, freedom):
    """About how many standard deviations the chi-square of some counts is above its mean."""
    chi_square = ((counts - expected) ** 2 / expected).sum()
    return (chi_square - freedom) / (2 * freedom) ** 0.5


def test_order_is_forever():
    # Changing any of these is a breaking release: orders are a promise.
    assert order(10, 42).tolist() == [0, 1, 7, 3, 9, 8, 6, 5, 4, 2]
    assert order(10, 42, 1).tolist() == [4, 6, 5, 9, 1, 7, 2, 8, 0, 3]
    assert order(1, 0).tolist() == [0]
    assert order(2, 5).tolist() == [0, 1]
    assert _native.permute(2049, 1, 0, 2044, 2049).tolist() == [1384, 1711, 831, 1303, 1660]
    assert _native.permute(60_000, 0, 0, 0, 8).tolist() == [24920, 17573, 33696, 10273, 28212, 14049, 59135, 18973]
    assert _native.permute(65_537, 7, 3, 65_533, 65_537).tolist() == [42888, 10839, 56820, 36910]
    assert _native.permute((1 << 39) + 1, (1 << 64) - 1, (1 << 64) - 1, 1 << 39, (1 << 39) + 1).tolist() == [
        342546582989
    ]
    assert _native.permute(1 << 40, 1, 0, 0, 3).tolist() == [460161896583, 291660420605, 830382142482]


@pytest.mark.parametrize("k", range(1, 18))
@pytest.mark.parametrize("difference", [-1, 0, 1])
def test_powers_of_two_and_their_neighbours(k, difference):
    n = (1 << k) + difference
    for seed in range(3):
        assert (np.bincount(order(n, seed, seed), minlength=n) == 1).all()


def test_every_small_n():
    for n in range(1, 600):
        assert sorted(order(n, n).tolist()) == list(range(n))


@pytest.mark.parametrize("n", [3 << 18, 10**6 + 3, 1_281_167])
def test_larger_n_whole(n):
    assert (np.bincount(order(n, 9), minlength=n) == 1).all()


@pytest.mark.parametrize(
    "n", [(1 << k) + d for k in (30, 31, 32, 33, 39, 40) for d in (-1, 0, 1) if (1 << k) + d <= 1 << 40]
)
def test_large_n_in_blocks(n):
    blocks = [(0, 20_000), (n // 2, n // 2 + 20_000), (n - 20_000, n)]
    indices = np.concatenate([_native.permute(n, 77, 5, start, stop) for start, stop in blocks])
    assert indices.min() >= 0
    assert indices.max() < n
    assert len(np.unique(indices)) == len(
        indices
    )  # by chance alone there would be a pair only where n is below 2^30 or so
    tenths = np.bincount((indices * 10 // n).astype(np.int64), minlength=10)
    assert surprise(tenths, 6000, 9) < 5


@given(st.integers(1, 1 << 40), WORDS, WORDS, st.data())
def test_native_equals_reference(n, seed, epoch, data):
    positions = data.draw(st.lists(st.integers(0, n - 1), max_size=10))
    expected = [permuted(n, seed, epoch, position) for position in positions]
    assert _native.permute_at(n, seed, epoch, np.array(positions, np.int64)).tolist() == expected
    assert [int(_native.permute(n, seed, epoch, at, at + 1)[0]) for at in positions] == expected


@given(st.integers(1, 3000), WORDS, st.integers(0, 9), st.data())
def test_a_part_is_a_part_of_the_whole(n, seed, epoch, data):
    start = data.draw(st.integers(0, n))
    stop = data.draw(st.integers(start, n))
    whole = order(n, seed, epoch)
    assert _native.permute(n, seed, epoch, start, stop).tolist() == whole[start:stop].tolist()
    assert (
        _native.permute_at(n, seed, epoch, np.arange(start, stop)[::-1].copy()).tolist()
        == whole[start:stop][::-1].tolist()
    )


@pytest.mark.parametrize("n", [2, 3, 5, 10, 17, 64])
@pytest.mark.parametrize("vary", ["seed", "epoch", "high bits of the seed"])
def test_every_index_is_as_likely_at_every_position(n, vary):
    times = 200 * n
    counts = np.zeros((n, n))
    for i in range(times):
        indices = order(n, 3, i) if vary == "epoch" else order(n, i if vary == "seed" else i << 50)
        counts[np.arange(n), indices] += 1
    assert abs(surprise(counts, times / n, (n - 1) ** 2)) < 5 + (
        n == 2
    )  # with one degree of freedom the tail is longer


@pytest.mark.parametrize("n", [3, 4, 5])
def test_every_order_is_as_likely(n):
    number = {permutation: i for i, permutation in enumerate(itertools.permutations(range(n)))}
    counts = np.zeros(len(number))
    for seed in range(300 * len(number)):
        counts[number[tuple(order(n, seed, seed % 7).tolist())]] += 1
    assert surprise(counts, 300, len(number) - 1) < 5


def test_neighbours_lie_anywhere():
    n, times = 101, 400
    counts = np.zeros(n)
    for seed in range(times):
        indices = order(n, seed)
        counts += np.bincount((indices[1:] - indices[:-1]) % n, minlength=n)
    assert counts[0] == 0
    assert surprise(counts[1:], times * (n - 1) / (n - 1), n - 2) < 5


SHIFTS = {
    "next seed": (1, 0),
    "next epoch": (0, 1),
    "next seed, epoch before": (1, -1),
    "next seed and epoch": (1, 1),
    "far seed": (1 << 32, 0),
    "highest bit of the seed": (1 << 63, 0),
}


@pytest.mark.parametrize("n", [7, 101, 1000, 2050])
@pytest.mark.parametrize("shift", SHIFTS, ids=str)
def test_orders_have_nothing_in_common(n, shift):
    seeds, epochs = SHIFTS[shift]
    times = max(60, 20_000 // n)
    same = follows = 0
    correlation = 0.0
    for i in range(times):
        one, other = order(n, i, 10 + i % 5), order(n, i + seeds, 10 + i % 5 + epochs)
        same += int((one == other).sum())
        follows += int((one[1:] == other[:-1]).sum())  # one order, shifted by a place
        correlation += float(np.corrcoef(one, other)[0, 1])
    # Two orders by chance agree in one place on average (variance 1); a correlation has the variance 1 / (n - 1).
    assert abs(same - times) < 5 * times**0.5
    assert abs(follows - times * (n - 1) / n) < 5 * times**0.5
    assert abs(correlation) < 5 * (times / (n - 1)) ** 0.5


def test_order_depends_on_n():
    one, other = order(1000, 5), order(1001, 5)
    assert (one == other[:1000]).sum() < 10


@pytest.mark.parametrize(
    ("n", "start", "stop"), [(0, 0, 0), ((1 << 40) + 1, 0, 1), (10, 0, 11), (10, 5, 4), (10, 11, 11)]
)
def test_refuses_what_is_outside(n, start, stop):
    with pytest.raises(ValueError, match=r"positions|permutation"):
        _native.permute(n, 0, 0, start, stop)


@pytest.mark.parametrize("position", [-1, 10, 1 << 62, -(1 << 63)])
def test_refuses_positions_outside(position):
    with pytest.raises(ValueError, match="positions"):
        _native.permute_at(10, 0, 0, np.array([3, position]))


@pytest.mark.parametrize("bad", [-1, 1 << 64, 1.5, "1"])
def test_refuses_seeds_that_are_not_64_bit(bad):
    with pytest.raises(TypeError):
        _native.permute(10, bad, 0, 0, 10)
    with pytest.raises(TypeError):
        _native.permute(10, 0, bad, 0, 10)


def test_orders_are_fresh_arrays():
    first = order(10, 42)
    first[:] = 0
    assert order(10, 42).tolist() == [0, 1, 7, 3, 9, 8, 6, 5, 4, 2]
    assert first.dtype == np.int64
    assert _native.permute(10, 1, 0, 4, 4).tolist() == []


@given(
    first=st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-5, 5),
    count=st.integers(0, 700),
    changes=st.lists(st.tuples(st.integers(0, 699), st.integers(-(1 << 63), (1 << 63) - 1)), max_size=2),
)
def test_a_run_and_its_bounds(first, count, changes):
    numbers = np.arange(count, dtype=np.uint64) + np.uint64(first % (1 << 64))  # begins anew after the largest number
    numbers = numbers.view(np.int64)
    for at, value in changes:
        if at < count:
            numbers[at] = value
    plain = numbers.tolist()
    assert _native.is_run(numbers) == all(after == before + 1 for before, after in itertools.pairwise(plain))
    if count:
        assert _native.bounds(numbers) == (min(plain), max(plain))


@pytest.mark.parametrize("at", [1, 255, 256, 257, 511, 512, 599])
def test_a_run_that_breaks_off(at):
    numbers = np.arange(600)
    assert _native.is_run(numbers)
    numbers[at] -= 1
    assert not _native.is_run(numbers)
    assert _native.bounds(numbers) == (0, 599 - (at == 599))
