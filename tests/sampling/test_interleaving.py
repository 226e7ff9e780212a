"""The component of each position."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.sampling.samplers import MAX_PERIOD, AcrossEpochs, Interleaving, whole_parts

PARTS = st.lists(st.integers(1, 40), min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("weights", "parts"),
    [
        ([1], (1,)),
        ([2, 2], (1, 1)),
        ([0.7, 0.2, 0.1], (7, 2, 1)),
        ([0.1, 0.2], (1, 2)),  # as binary fractions these would need 2^54 parts
        (["1/3", "2/3"], (1, 2)),
        ([Fraction(1, 6), Decimal("0.5"), 1], (1, 3, 6)),
        ([1e-3, 1], (1, 1000)),
        ([np.float32(0.3), np.int64(1)], (3, 10)),
    ],
)
def test_weights_are_whole_parts(weights, parts):
    assert whole_parts(weights) == parts


@pytest.mark.parametrize("weights", [[0], [1, -1], [float("nan")], [float("inf")], ["many"], ["1/0"]])
def test_weights_are_positive_numbers(weights):
    with pytest.raises(ValueError, match="a weight is a positive number"):
        whole_parts(weights)


def test_a_mixture_of_nothing():
    with pytest.raises(ValueError, match="at least one component"):
        whole_parts([])


def test_a_share_that_is_too_small():
    with pytest.raises(ValueError, match="too far apart"):
        whole_parts([1, 10_000_000])


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=20))
def test_shares_are_exact_or_within_the_stated_bound(weights):
    total = sum(weights)
    if min(weights) * MAX_PERIOD < total:
        return
    parts = whole_parts(weights)
    assert sum(parts) <= MAX_PERIOD
    exact = [Fraction(weight, total) for weight in weights]
    held = [Fraction(part, sum(parts)) for part in parts]
    if total // np.gcd.reduce(weights) <= MAX_PERIOD:
        assert held == exact
    assert all(abs(a - b) < Fraction(1, MAX_PERIOD) for a, b in zip(held, exact, strict=True))


def test_patterns_are_forever():
    # Changing any of these is a breaking release.
    assert Interleaving((3, 1)).components(np.arange(8)).tolist() == [0, 0, 1, 0, 0, 0, 1, 0]
    assert Interleaving((5, 3, 2)).components(np.arange(10)).tolist() == [0, 1, 0, 2, 0, 1, 0, 2, 0, 1]
    assert Interleaving((1, 1, 1)).components(np.arange(4)).tolist() == [0, 1, 2, 0]


@given(PARTS)
def test_every_prefix_keeps_the_proportions(parts):
    period = sum(parts)
    components = Interleaving(parts).components(np.arange(2 * period))
    bound = Fraction(len(parts) * 2 - 3, len(parts) * 2 - 2) if len(parts) > 1 else 0
    for component, part in enumerate(parts):
        held = np.cumsum(components == component)
        worst = int(abs(held * period - part * np.arange(1, 2 * period + 1)).max())
        assert Fraction(worst, period) <= bound
        assert held[period - 1] == part


@given(PARTS, st.lists(st.integers(0, 1 << 45), min_size=1, max_size=20))
def test_draws_and_positions_are_inverse(parts, positions):
    mixing = Interleaving(parts)
    array = np.array(positions, np.int64)
    components, draws = mixing.components(array), mixing.draws(array)
    assert [mixing.position(int(c), int(d)) for c, d in zip(components, draws, strict=True)] == positions


@given(PARTS)
def test_draws_count_up(parts):
    mixing = Interleaving(parts)
    positions = np.arange(3 * mixing.period)
    components, draws = mixing.components(positions), mixing.draws(positions)
    for component in range(len(parts)):
        assert draws[components == component].tolist() == list(range(3 * parts[component]))


def test_positions_continue():
    order = AcrossEpochs(7)
    assert len(order) == 7
    assert order.indices(0, 2, 5).tolist() == [2, 3, 4]
    assert order.indices(3, 0, 2).tolist() == [21, 22]
    assert order.fingerprint != AcrossEpochs(8).fingerprint
