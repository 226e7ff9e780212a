"""The choice between threads and none, from costs that the tests give; no test reads a clock."""

import gc
import pickle
import weakref
from itertools import cycle
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.loading.fakes import Damaged, Numbers

import headrace as hr
from headrace.errors import CorruptRecord
from headrace.loading import thread_choice
from headrace.loading.jobs import Block, JobSizer
from headrace.loading.prefetch import Prefetcher
from headrace.loading.rounds import BatchRun
from headrace.loading.thread_choice import GAIN, PATIENCE_NS, ThreadChoice, remembered_choice

MS = 1_000_000


class Consumer:
    """Requests jobs as a loop does. A change of ways reaches it after ``lag`` jobs that threads have made before."""

    def __init__(self, choice, *, inline_ns, threads_ns, examples=10, lag=0):
        self.choice = choice
        self.cost = {True: threads_ns, False: inline_ns}
        self.examples = examples
        self.lag = lag
        self.queued = 0
        self.spent = {True: 0, False: 0}

    def job(self, extra_ns=0):
        if self.choice.uses_threads:
            self.queued = self.lag + 1
        by_threads = self.queued > 0
        self.queued -= by_threads
        self.spent[by_threads] += self.cost[by_threads]
        self.choice.note(self.cost[by_threads] + extra_ns, self.examples, by_threads=by_threads)

    def settle(self, most=100_000, delays=(0,)):
        delays = cycle(delays)
        for _ in range(most):
            if not self.choice.is_trying:
                return self.choice.uses_threads
            self.job(next(delays))
        raise AssertionError("the trial did not end")


@pytest.mark.parametrize("lag", [0, 4, 34])
@pytest.mark.parametrize("job_ns", [MS // 100, MS // 3, 5 * MS, 300 * MS])
@pytest.mark.parametrize(
    ("ratio", "uses_threads"), [(0.5, True), (0.9, True), (0.96, True), (0.99, False), (1.0, False), (1.2, False)]
)
def test_the_faster_way_is_kept(job_ns, ratio, uses_threads, lag):
    choice = ThreadChoice(ahead=4)
    consumer = Consumer(choice, inline_ns=job_ns, threads_ns=int(job_ns * ratio), lag=lag)
    assert choice.uses_threads
    assert choice.is_trying
    assert consumer.settle() is uses_threads


def test_a_trial_is_short():
    """A few segments of milliseconds, or of a few jobs."""
    quick = Consumer(ThreadChoice(ahead=4), inline_ns=MS // 10, threads_ns=MS // 20)
    quick.settle()
    assert quick.spent[False] <= 4 * MS
    assert quick.spent[True] <= 26 * MS
    dear = Consumer(ThreadChoice(ahead=4), inline_ns=300 * MS, threads_ns=150 * MS)
    dear.settle()
    assert dear.spent[False] == 4 * 300 * MS


def test_a_close_trial_is_longer():
    """Where chance delays every job of the first segments of one way."""
    choice = ThreadChoice(ahead=4)
    consumer = Consumer(choice, inline_ns=MS, threads_ns=MS * 9 // 10)
    jobs = 0
    while choice.is_trying:
        consumer.job(extra_ns=MS // 10 if jobs < 40 and choice.uses_threads else 0)
        jobs += 1
    assert choice.uses_threads
    clear = Consumer(ThreadChoice(ahead=4), inline_ns=MS, threads_ns=MS // 2)
    clear.settle()
    assert consumer.spent[False] == 3 * clear.spent[False]


@given(st.integers(0, 2**32))
def test_delays_by_other_programs_do_not_decide(seed):
    """One job in five is delayed by ten times what it costs."""
    random = Random(seed)
    delays = [MS if random.random() < 0.2 else 0 for _ in range(997)]
    for threads_ns, uses_threads in [(MS // 40, True), (MS // 5, False)]:
        consumer = Consumer(ThreadChoice(ahead=4), inline_ns=MS // 10, threads_ns=threads_ns)
        consumer.settle(delays=delays)
        fastest = {way: min(costs) for way, costs in consumer.choice._costs.items()}
        assert consumer.choice.uses_threads == (fastest[True] <= GAIN * fastest[False])
        if not any(delays[:200]):
            assert consumer.choice.uses_threads is uses_threads


def test_a_choice_is_tried_again_ever_more_rarely():
    choice = ThreadChoice(ahead=4)
    consumer = Consumer(choice, inline_ns=MS, threads_ns=2 * MS)
    assert consumer.settle() is False
    held = []
    for _ in range(9):
        jobs = 0
        while not choice.is_trying:
            consumer.job()
            jobs += 1
        held.append(jobs * MS)
        assert consumer.settle() is False
    assert held[:3] == [PATIENCE_NS, 2 * PATIENCE_NS, 4 * PATIENCE_NS]
    assert held[-1] == held[-2] == thread_choice.MOST_PATIENCE_NS


def test_a_change_is_noticed():
    choice = ThreadChoice(ahead=4)
    consumer = Consumer(choice, inline_ns=MS, threads_ns=2 * MS)
    assert consumer.settle() is False
    consumer.cost = {True: MS // 2, False: MS}
    while not choice.is_trying:
        consumer.job()
    assert consumer.settle() is True
    consumer.cost = {True: MS, False: MS // 2}
    while not choice.is_trying:
        consumer.job()
    assert consumer.settle() is False


def test_ending_threads_counts():
    """Threads that are faster for each job, but cost more to end after every loop of two jobs."""
    choice = ThreadChoice(ahead=1)
    while choice.is_trying:
        by_threads = choice.uses_threads
        for _ in range(2):
            choice.note(MS // 2 if by_threads else MS, 10, by_threads=by_threads)
        choice.note(4 * MS if by_threads else 0, 0, by_threads=by_threads)
    assert not choice.uses_threads


def test_time_without_examples_is_no_cost():
    choice = ThreadChoice(ahead=1)
    for _ in range(100):
        choice.note(MS, 0, by_threads=True)
    assert choice.uses_threads
    assert choice.is_trying


def test_loaders_of_one_source_share_a_choice():
    source, other = Numbers(10), Numbers(10)
    choice = remembered_choice(source, (32, True), 4)
    assert remembered_choice(source, (32, True), 4) is choice
    for different in (
        remembered_choice(source, (64, True), 4),
        remembered_choice(source, (32, True), 6),
        remembered_choice(other, (32, True), 4),
    ):
        assert different is not choice

    class Unhashable(Numbers):
        __hash__ = None

    assert remembered_choice(Unhashable(3), (), 4) is not remembered_choice(Unhashable(3), (), 4)


def loader_with_its_source_in_map_batch():
    source = Numbers(100)
    return hr.Loader(source, 10, map_batch=lambda batch: {"n": len(source), **batch})


def test_a_source_is_not_kept_alive():
    loader = loader_with_its_source_in_map_batch()
    assert len(list(loader)) == 10
    kept = weakref.ref(loader.source)
    assert kept() in thread_choice._remembered
    del loader
    gc.collect()
    assert kept() is None


def test_only_a_default_loader_chooses():
    source = Numbers(10)
    chosen = [
        hr.Loader(source, 2, **options)._recipe().choice is not None
        for options in ({}, {"threads": 1}, {"threads": 0}, {"prefetch": 0}, {"shuffle": True})
    ]
    assert chosen == [True, False, False, False, True]
    again = pickle.loads(pickle.dumps(hr.Loader(source, 2)))
    assert again._recipe().choice is not None


class Scripted(ThreadChoice):
    """A choice that changes after every so many jobs, whatever they cost."""

    def __init__(self, turns):
        super().__init__(ahead=4)
        self.turns = cycle(turns)
        self.left = next(self.turns)

    def note(self, ns, examples, *, by_threads):
        assert ns >= 0
        self.left -= examples > 0
        if self.left <= 0:
            self.uses_threads = not self.uses_threads
            self.left = next(self.turns)


TURNS = st.lists(st.integers(1, 7), min_size=1, max_size=5)


@settings(deadline=None, max_examples=40)
@given(TURNS, st.integers(0, 60), st.integers(1, 3), st.integers(1, 5), st.booleans())
def test_results_come_in_order_whatever_is_chosen(turns, count, threads, ahead, helping):
    choice = Scripted(turns)
    made = Prefetcher(
        (lambda i=i: i for i in range(count)), threads=threads, ahead=ahead, helping=helping, choice=choice
    )
    got = []
    for number in made:
        got.append(number)
        choice.note(1, 1, by_threads=made.by_threads)
    made.close()
    assert got == list(range(count))


def rows(loader):
    return [batch["i"].tolist() for batch in loader]


@settings(deadline=None, max_examples=25)
@given(TURNS, st.integers(0, 80), st.integers(1, 9), st.booleans(), st.integers(0, 30))
def test_batches_and_state_are_those_without_threads(turns, n, batch_size, shuffle, stop):
    def choosing():
        loader = hr.Loader(Numbers(n), batch_size, shuffle=shuffle, seed=3, epochs=2)
        loader._choice = lambda _: Scripted(turns)
        loader._threads = 2
        return loader

    plain = hr.Loader(Numbers(n), batch_size, shuffle=shuffle, seed=3, epochs=2, threads=0)
    expected = rows(plain)
    assert rows(choosing()) == expected
    first, second = choosing(), choosing()
    begun = [batch["i"].tolist() for _, batch in zip(range(stop), first, strict=False)]
    second.load_state_dict(first.state_dict())
    if len(begun) < len(expected):
        assert begun + rows(second) == expected


@pytest.mark.parametrize("turns", [[1], [2, 1], [3], [50]])
def test_an_error_keeps_its_place(turns):
    loader = hr.Loader(Damaged(60, bad=[41]), 4)
    loader._choice = lambda _: Scripted(turns)
    got = []
    with pytest.raises(CorruptRecord) as caught:
        for batch in loader:
            got.append(batch["i"].tolist())
    assert got == np.arange(40).reshape(-1, 4).tolist()
    assert caught.value.where.record == 41


def test_jobs_without_threads_stay_small():
    """Both sizes follow the same measurement; that for the consumer's own jobs has lower limits."""
    sizer = JobSizer(can_grow=True)
    run = BatchRun(0, 0, 0, 8, 0, 8, 1, is_last=False)
    for _ in range(20):
        sizer.note(Block(run, [{}] * 4, bytes=4 * 1000, reading_ns=4 * 10_000))
    assert (sizer.batches, sizer.inline_batches) == (100, 30)
    for _ in range(20):
        sizer.note(Block(run, [{}], bytes=200 << 10, reading_ns=10_000))
    assert (sizer.batches, sizer.inline_batches) == (10, 10)
    for _ in range(40):
        sizer.note(Block(run, [{}], bytes=10 << 20, reading_ns=10_000_000))
    assert (sizer.batches, sizer.inline_batches) == (1, 1)
    fixed = JobSizer(can_grow=False)
    fixed.note(Block(run, [{}], reading_ns=10))
    assert (fixed.batches, fixed.inline_batches, fixed.cuts) == (1, 2, False)


def test_large_batches_are_made_one_by_one_without_threads():
    """So many in a row as keep a job short: none of them waits for another one."""
    run = BatchRun(0, 0, 0, 8, 0, 8, 1, is_last=False)
    for size, ns, cuts, most in (
        (256 << 10, 15_000, True, 8),
        (257 << 10, 15_000, False, 20),
        (1000, 75_000, True, 4),
        (1000, 100_000, False, 3),
    ):
        sizer = JobSizer(can_grow=True)
        for _ in range(20):
            sizer.note(Block(run, [{}], bytes=size, reading_ns=ns))
        assert (sizer.cuts, sizer.inline_batches) == (cuts, most)
