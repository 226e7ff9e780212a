"""Rounds: every position once, equal numbers of batches on every rank, whatever changes in between."""

from __future__ import annotations

from itertools import chain, cycle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference.rounds import rounds

from headrace.loading.jobs import Block
from headrace.loading.rounds import BatchRun, Cursor, JobMemory, JobSizer, RoundPlan, part_bounds

LAYOUTS = st.builds(RoundPlan, st.integers(1, 9), st.integers(1, 9), st.booleans())
SIZES = st.integers(0, 200)


def batches_of(layout, cursor, n, rank, counts=(1,)):
    """The positions of each batch of one rank, and the state after it."""
    turns = cycle(counts)
    for run in layout.runs(cursor, n, rank, lambda _: next(turns)):
        for number in range(run.batches):
            yield list(range(*run.positions(number))), run.after(number + 1)


@given(LAYOUTS, SIZES, st.data())
def test_runs_equal_reference(layout, n, data):
    position = data.draw(st.integers(0, n))
    counts = data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=4))
    expected = rounds(position, n, layout.world, layout.batch_size, drop_last=layout.drop_last)
    assert layout.rounds_left(position, n) == len(expected)
    for rank in range(layout.world):
        found = [batch for batch, _ in batches_of(layout, Cursor(3, position), n, rank, counts)]
        assert found == [shares[rank] for shares in expected]


@given(LAYOUTS, SIZES)
def test_every_position_once_over_the_ranks(layout, n):
    ranks = [list(batches_of(layout, Cursor(0, 0), n, rank)) for rank in range(layout.world)]
    assert len({len(batches) for batches in ranks}) == 1
    assert len({tuple(after for _, after in batches) for batches in ranks}) == 1
    seen = sorted(chain.from_iterable(batch for batches in ranks for batch, _ in batches))
    kept = n - n % layout.round_size if layout.drop_last else n
    assert seen == list(range(kept))


@given(LAYOUTS, SIZES)
def test_sizes_of_batches(layout, n):
    sizes = [[len(batch) for batch, _ in batches_of(layout, Cursor(0, 0), n, rank)] for rank in range(layout.world)]
    for row in zip(*sizes, strict=True):
        assert max(row) - min(row) <= 1
        assert max(row) <= layout.batch_size + 1
        assert list(row) == sorted(row, reverse=True)
    every = list(chain.from_iterable(sizes))
    if layout.drop_last:
        assert set(every) <= {layout.batch_size}
    if n >= layout.world:
        assert 0 not in every


@given(st.integers(1, 150), st.lists(st.tuples(LAYOUTS, st.integers(0, 5), st.integers(1, 5)), min_size=1, max_size=6))
def test_an_epoch_in_changing_company(n, legs):
    """Stop after some rounds and resume with another world and batch size, repeatedly: nothing is lost or read twice."""
    cursor, seen = Cursor(0, 0), []
    for other, count, pace in legs:
        layout = RoundPlan(other.world, other.batch_size)
        ranks = [list(batches_of(layout, cursor, n, rank, (pace,)))[:count] for rank in range(layout.world)]
        seen += [batch for batches in ranks for batch, _ in batches]
        if ranks[0]:
            cursor = ranks[0][-1][1]
        if cursor.epoch:
            break
    if not cursor.epoch:
        seen += [batch for batch, _ in batches_of(RoundPlan(1, 4), cursor, n, 0)]
    assert sorted(chain.from_iterable(seen)) == list(range(n))


@pytest.mark.parametrize(
    ("n", "world", "batch_size", "ranks"),
    [
        (10, 2, 3, [[[0, 1, 2], [6, 7]], [[3, 4, 5], [8, 9]]]),
        (9, 2, 3, [[[0, 1, 2], [6, 7]], [[3, 4, 5], [8]]]),
        (7, 2, 3, [[[0, 1, 2, 3]], [[4, 5, 6]]]),  # the seventh joins the round before
        (6, 2, 3, [[[0, 1, 2]], [[3, 4, 5]]]),
        (5, 2, 3, [[[0, 1, 2]], [[3, 4]]]),
        (1, 2, 3, [[[0]], [[]]]),  # fewer examples than ranks
        (0, 2, 3, [[], []]),
        (4, 1, 3, [[[0, 1, 2], [3]]]),
    ],
)
def test_the_end_of_an_epoch(n, world, batch_size, ranks):
    layout = RoundPlan(world, batch_size)
    assert [[batch for batch, _ in batches_of(layout, Cursor(0, 0), n, rank)] for rank in range(world)] == ranks


def test_runs_of_a_trillion_cost_nothing():
    layout, n = RoundPlan(8, 128), 1 << 40
    (run,) = layout.runs(Cursor(0, 0), n, 7, lambda _: 1 << 40)
    assert run == BatchRun(0, 0, 0, 1024, 7 * 128, 128, 1 << 30, is_last=True)
    assert run.after(1 << 30) == Cursor(1, 0)
    assert run.after(5) == Cursor(0, 5 * 1024)


@given(LAYOUTS, st.integers(1, 200), st.integers(1, 9))
def test_one_of_many(layout, n, pace):
    """A run's batch alone is the same batch."""
    for run in layout.runs(Cursor(2, 0), n, layout.world - 1, lambda _: pace):
        for number in range(run.batches):
            alone = run.only(number)
            assert (alone.batches, alone.number) == (1, run.number + number)
            assert alone.positions(0) == run.positions(number)
            assert alone.after(1) == run.after(number + 1)
            assert alone.after(0) == run.after(number)


@given(st.integers(0, 100), st.integers(1, 20))
def test_parts_follow_one_another(size, world):
    parts = [part_bounds(size, rank, world) for rank in range(world)]
    assert [begin for begin, _ in parts] == [0, *(end for _, end in parts[:-1])]
    assert parts[-1][1] == size


@given(LAYOUTS, SIZES, st.data())
def test_runs_are_planned_by_where_they_start(layout, n, data):
    position, asked = data.draw(st.integers(0, n)), []
    runs = list(layout.runs(Cursor(0, position), n, 0, lambda start: asked.append(start) or 1 + start % 3))
    full = [run for run in runs if run.step == layout.round_size]
    assert asked == [run.start for run in full]
    assert all(run.batches == 1 + run.start % 3 for run in full[:-1])


def make_jobs(sizer, count, costs, size):
    """The ways of some jobs of batches of ``size`` bytes, which cost ``costs[cuts]`` ns each."""
    ways = []
    for _ in range(count):
        ways.append(sizer.cuts)
        batches, ns = max(sizer.inline_batches, 2), costs[sizer.cuts]
        run = BatchRun(0, 0, 0, 8, 0, 8, batches, is_last=False)
        if sizer.cuts:
            sizer.note(Block(run, [{}] * batches, bytes=batches * size, reading_ns=batches * ns))
        else:
            sizer.note(Block(run, [{}], bytes=size, reading_ns=ns))
            sizer.note_singles(batches, batches * ns)
    return ways


@pytest.mark.parametrize(("size", "first"), [(30_000, True), (100_000, True), (200_000, False)])
@pytest.mark.parametrize(("costs", "cuts"), [({True: 9_000, False: 6_000}, False), ({True: 6_000, False: 9_000}, True)])
def test_batches_are_cut_where_that_is_faster(size, first, costs, cuts):
    sizer = JobSizer(can_grow=True)
    ways = make_jobs(sizer, 60, costs, size)
    assert ways[5] == first
    assert ways[20:].count(not cuts) <= 2
    ways = make_jobs(sizer, 2_000, costs, size)
    assert 5 < ways.count(not cuts) < 20  # Trials go on, rarely.
    assert make_jobs(sizer, 600, {way: costs[not way] for way in costs}, size)[-10:].count(cuts) <= 1


def test_ways_that_cost_the_same_do_not_alternate():
    sizer = JobSizer(can_grow=True)
    costs = {True: 6_000, False: 5_900}
    assert make_jobs(sizer, 1_000, costs, 50_000).count(False) < 12


@pytest.mark.parametrize("size", [4_000, 300_000])
def test_small_and_large_batches_are_made_one_way(size):
    sizer = JobSizer(can_grow=True)
    ways = make_jobs(sizer, 300, {True: 9_000, False: 9_000}, size)
    assert set(ways[1:]) == {size < 8_000}
    assert set(make_jobs(JobSizer(can_grow=False), 300, {False: 9_000}, 50_000)) == {False}


def test_a_way_is_kept_for_the_next_epoch_and_trials_go_on():
    memory = JobMemory()
    costs = {True: 9_000, False: 6_000}
    ways = [way for _ in range(20) for way in make_jobs(JobSizer(can_grow=True, memory=memory), 4, costs, 50_000)[1:]]
    assert ways[:4] == [True] * 4
    assert ways[20:].count(True) <= 4


def test_jobs_of_threads_say_nothing_about_the_consumers_way():
    sizer = JobSizer(can_grow=True)
    run = BatchRun(0, 0, 0, 8, 0, 8, 10, is_last=False)
    for _ in range(50):
        sizer.note(Block(run, [{}] * 10, bytes=500_000, reading_ns=90_000), passed=True)
    assert sizer.cuts
    assert make_jobs(sizer, 4, {True: 9_000, False: 6_000}, 50_000) == [True] * 4


def test_a_way_that_changes_keeps_jobs_small():
    """A job of batches that are cut holds at most a megabyte, also after one that made hundreds one by one."""
    sizer = JobSizer(can_grow=True)
    sizes = {True: [], False: []}
    for _ in range(400):
        make_jobs(sizer, 1, {True: 4_000, False: 3_000}, 100_000)
        sizes[sizer.cuts].append(sizer.inline_batches)
    assert max(sizes[True]) <= 10 < max(sizes[False])


@pytest.mark.parametrize(("megabytes", "ahead"), [(1, 4), (5, 4), (11, 2), (17, 2), (100, 2)])
def test_few_large_jobs_are_made_in_advance(megabytes, ahead):
    """Those of 16 MB for each of two threads, or one for each."""
    sizer = JobSizer(can_grow=False)
    assert sizer.limit_ahead(4, 2) == 4  # before the first one
    run = BatchRun(0, 0, 0, 8, 0, 8, 1, is_last=False)
    sizer.note(Block(run, [{}], bytes=megabytes << 20, reading_ns=1_000_000))
    assert sizer.limit_ahead(4, 2) == ahead
    assert sizer.limit_ahead(4, 4) == 4


def test_many_small_batches_count_by_their_job():
    sizer = JobSizer(can_grow=True)
    run = BatchRun(0, 0, 0, 8, 0, 8, 4, is_last=False)
    for _ in range(20):
        sizer.note(Block(run, [{}] * 4, bytes=4 << 20, reading_ns=40_000), passed=True)
    assert sizer.limit_ahead(100, 1) == 4
    assert sizer.limit_ahead(100, 16) == 64
