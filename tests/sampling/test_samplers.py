"""Orders: pinned, permutations, uncorrelated."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference.permutation import permuted

from headrace import _native
from headrace.contracts.protocols import Sampler
from headrace.sampling.samplers import InOrder, Shuffled

SEEDS = st.integers(0, (1 << 64) - 1)


def test_order_is_forever():
    # Changing any of these is a breaking release.
    assert [Shuffled(10, seed=42)[i] for i in range(20)] == [0, 1, 7, 3, 9, 8, 6, 5, 4, 2, 4, 6, 5, 9, 1, 7, 2, 8, 0, 3]
    assert [Shuffled(10)[i] for i in range(20)] == [3, 1, 7, 5, 0, 6, 4, 9, 2, 8, 9, 3, 1, 6, 0, 8, 5, 4, 2, 7]
    assert [Shuffled(7, seed=2**64 - 1)[i] for i in range(7)] == [0, 4, 1, 3, 6, 5, 2]
    assert Shuffled(60000).indices(0, 0, 8).tolist() == [24920, 17573, 33696, 10273, 28212, 14049, 59135, 18973]
    assert Shuffled(65537, seed=7).indices(3, 65533, 65537).tolist() == [42888, 10839, 56820, 36910]
    assert Shuffled(1 << 40, seed=1).indices(0, 0, 3).tolist() == [460161896583, 291660420605, 830382142482]
    assert Shuffled((1 << 40) - 1, seed=1).indices(2, 5, 8).tolist() == [1028400651565, 64496795, 629377912868]


@pytest.mark.parametrize("n", [1, 2, 3, 5, 1000, *(2**k + d for k in range(2, 18) for d in (-1, 0, 1)), 262_145])
def test_every_index_comes_once(n):
    seen = np.zeros(n, np.int64)
    np.add.at(seen, Shuffled(n, seed=n).indices(1, 0, n), 1)
    assert (seen == 1).all()


@given(st.integers(1, 1 << 40), SEEDS, st.integers(0, 1 << 30), st.data())
def test_native_equals_reference(n, seed, epoch, data):
    start = data.draw(st.integers(0, n - 1))
    stop = data.draw(st.integers(start + 1, min(n, start + 20)))
    order = Shuffled(n, seed=seed)
    found = order.indices(epoch, start, stop)
    assert found.tolist() == [permuted(n, seed, epoch, i) for i in range(start, stop)]
    assert found.dtype == np.int64
    assert order.at(epoch, np.arange(start, stop)[::-1].copy()).tolist() == found.tolist()[::-1]
    assert order[epoch * n + start] == found[0]


@given(st.integers(1, 500), SEEDS, st.integers(0, 5), st.data())
def test_a_part_of_the_order_is_the_order_of_a_part(n, seed, epoch, data):
    start = data.draw(st.integers(0, n))
    stop = data.draw(st.integers(start, n))
    order = Shuffled(n, seed=seed)
    assert order.indices(epoch, start, stop).tolist() == order.indices(epoch, 0, n)[start:stop].tolist()


@given(st.integers(1, 40), SEEDS, st.lists(st.integers(0, 200), max_size=30))
def test_positions_across_epochs(n, seed, positions):
    order = Shuffled(n, seed=seed)
    for given_order in (positions, sorted(positions)):
        found = order.across(np.array(given_order, np.int64))
        assert found.dtype == np.int64
        assert found.tolist() == [order[i] for i in given_order]


def test_each_epoch_is_permuted_by_itself(monkeypatch):
    # Comparing all positions in every epoch would take the square of their number.
    sizes = []
    permute_at = _native.permute_at
    monkeypatch.setattr(
        _native, "permute_at", lambda n, seed, epoch, at: (sizes.append(len(at)), permute_at(n, seed, epoch, at))[1]
    )
    order = Shuffled(3)
    found = order.across(np.arange(30)[::-1].copy())
    assert found.tolist() == [order[i] for i in range(29, -1, -1)]
    assert sizes == [3] * 10


def test_epochs_and_seeds_have_nothing_in_common():
    n = 4096
    orders = {(s, e): Shuffled(n, seed=s).indices(e, 0, n) for s in range(4) for e in range(4)}
    for first, a in orders.items():
        for second, b in orders.items():
            if first < second:
                # Two random permutations agree in one place on average, and in more than 12 once in 10^10 cases.
                assert (a == b).sum() <= 12, (first, second)
                assert abs(np.corrcoef(a, b)[0, 1]) < 0.1, (first, second)


def test_shuffled_looks_random():
    n = 100_000
    order = Shuffled(n, seed=3).indices(0, 0, n)
    assert abs(np.corrcoef(order[:-1], order[1:])[0, 1]) < 0.02
    assert abs(np.corrcoef(order, np.arange(n))[0, 1]) < 0.02
    counts = np.histogram2d(order, np.arange(n), bins=10)[0]
    assert abs(counts - n / 100).max() < 6 * (n / 100) ** 0.5


@given(st.integers(1, 100), st.integers(0, 3), st.data())
def test_in_order(n, epoch, data):
    start = data.draw(st.integers(0, n))
    stop = data.draw(st.integers(start, n))
    order = InOrder(n)
    assert order.indices(epoch, start, stop).tolist() == list(range(start, stop))
    assert order[epoch * n + n - 1] == n - 1


@pytest.mark.parametrize("order", [InOrder(5), Shuffled(5, seed=9)])
def test_orders_are_values(order):
    assert isinstance(order, Sampler)
    assert len(order) == 5
    assert pickle.loads(pickle.dumps(order)) == order
    assert hash(order) == hash(pickle.loads(pickle.dumps(order)))
    for epoch, start, stop in ((0, 0, 6), (0, 3, 2), (0, -1, 2), (-1, 0, 2)):
        with pytest.raises(IndexError, match="outside an order of 5"):
            order.indices(epoch, start, stop)
    with pytest.raises(IndexError):
        order[-1]
    assert order.indices(0, 5, 5).tolist() == []


def test_fingerprints_tell_orders_apart():
    orders = [InOrder(5), InOrder(6), Shuffled(5), Shuffled(5, seed=1), Shuffled(6)]
    assert len({order.fingerprint for order in orders}) == len(orders)


def test_positions_outside_are_refused():
    order = Shuffled(5)
    assert order.at(0, np.zeros(0, np.int64)).tolist() == []
    for positions in ([0, 5], [-1]):
        with pytest.raises(IndexError):
            order.at(0, np.array(positions))
    assert order.across(np.zeros(0, np.int64)).tolist() == []
    with pytest.raises(IndexError):
        order.across(np.array([3, -1]))
    with pytest.raises(IndexError):
        Shuffled(0)[0]
    assert Shuffled(0).indices(0, 0, 0).tolist() == []


@pytest.mark.parametrize("make", [InOrder, Shuffled])
def test_length_limits(make):
    assert len(make(1 << 40)) == 1 << 40
    for n in (-1, (1 << 40) + 1):
        with pytest.raises(ValueError, match="0 to 2\\^40"):
            make(n)


@pytest.mark.parametrize("seed", [-1, 1 << 64])
def test_seeds_have_64_bits(seed):
    with pytest.raises(ValueError, match="seed"):
        Shuffled(5, seed=seed)
