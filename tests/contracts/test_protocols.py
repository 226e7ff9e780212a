import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.protocols import RowSizer, SizeEstimate


@given(st.lists(st.integers(1, 1000), min_size=2, max_size=60), st.integers(1, 8), st.integers(1, 70), st.data())
def test_an_estimate_of_sizes_in_proportion(sizes, step, count, data):
    """Examples that have three times the bytes that they are stored in: as many as fit are read together, found by halving. What
    is known of later ones from an earlier question changes nothing.
    """
    ends = np.cumsum([0, *sizes])
    stored = lambda first, stop: int(ends[min(stop, len(sizes))] - ends[min(first, len(sizes))])  # noqa: E731
    estimate = SizeEstimate(stored)
    first, most = data.draw(st.integers(0, len(sizes) - 1)), data.draw(st.integers(1, 20_000))
    assert estimate.fitting(first, step, count, most) == count  # nothing is known
    begin = data.draw(st.integers(0, len(sizes) - 1))
    stop = data.draw(st.integers(begin + 1, len(sizes)))
    estimate.note(begin, stop, 3 * stored(begin, stop))
    for at in data.draw(st.lists(st.integers(0, first), max_size=3)):
        estimate.fitting(at, data.draw(st.integers(1, 8)), data.draw(st.integers(2, 9)), most)
    found = estimate.fitting(first, step, count, most)
    halves = [count >> times for times in range(count.bit_length())]
    assert found in halves
    assert found == 1 or 3 * stored(first, first + found * step) <= most
    assert found == count or 3 * stored(first, first + halves[halves.index(found) - 1] * step) > most


def test_an_estimate_of_unknown_sizes():
    unknown = SizeEstimate(lambda first, stop: 0)
    unknown.note(0, 4, 1 << 40)
    assert unknown.fitting(4, 4, 64, 1) == 64

    def fails(first, stop):
        raise OSError("the index is damaged")

    failing = SizeEstimate(fails)
    failing.note(0, 4, 100)
    assert (failing.fitting(4, 4, 64, 1000), failing.fitting(4, 4, 1, 1000)) == (1, 1)


def test_small_examples_are_looked_at_together():
    """Asking takes longer than reading some of them."""
    asked = []
    estimate = SizeEstimate(lambda first, stop: asked.append((first, stop)) or 10 * (stop - first))
    estimate.note(0, 100, 1000)
    assert [estimate.fitting(at, 5, 20, 1 << 20) for at in range(100, 6_500, 100)] == [20] * 64
    assert asked == [(0, 100), (100, 200), (100, 6500)]
    assert estimate.fitting(6_500, 5, 20, 1 << 20) == 20
    assert len(asked) == 6
    assert estimate.fitting(6_500, 1 << 18, 20, 1 << 20) == 1


def test_rows_held_at_once():
    sizer = RowSizer(64, 1024, 64 << 20)
    assert sizer.rows == 64
    sizer.note(0, 64, 64 << 20)
    assert sizer.rows == 64
    sizer.note(64, 64, 640)
    assert sizer.rows == 1024
    sizer.note(128, 1, 1 << 40)
    assert sizer.rows == 1
    sizer.note(129, 1, 0)
    assert sizer.rows == 1024
    assert sizer.take(130, 10_000) == 1024
    assert sizer.take(130, 140) == 10
    assert RowSizer(64, 16, 1).rows == 16
