"""The choice between threads and none, from costs that the tests give; no test reads a clock."""

import gc
import pickle
import weakref
from itertools import cycle
from random import Random

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.loading.fakes import Damaged, Numbers

import headrace as hr
from headrace.errors import CorruptRecord
from headrace.loading import thread_choice
from headrace.loading.jobs import Block
from headrace.loading.prefetch import Prefetcher
from headrace.loading.rounds import BatchRun, JobMemory, JobSizer, Segment
from headrace.loading.thread_choice import (
    DEAR_BATCH_NS,
    DEAREST,
    GUESS_JOBS,
    MOST_PAUSE_NS,
    VERY_DEAR,
    ThreadChoice,
    recall_choice,
)

MS = 1_000_000


class Consumer:
    """Requests jobs as a loop does, with clocks of its own. A change of ways reaches it after ``lag`` jobs that threads have made before.

    Args:
        inline_ns: What a job costs without threads.
        threads_ns: With threads.
        cpu: Processor time of a job with threads, as a multiple of that without.
        noise: Returns the factor of a job's cost, from the time and whether threads make it.
        lag: Jobs that threads have started when the choice changes.
        drains: Whether those cost nothing when they are used, because the first job of threads waits for as many.
        kept: The choice to begin with.
        read_ns: How long reading a batch takes; by default so short that the loader begins without threads.
    """

    def __init__(
        self,
        inline_ns,
        threads_ns,
        *,
        cpu=1.0,
        noise=lambda now, by_threads: 1.0,
        lag=0,
        drains=False,
        kept=None,
        read_ns=0,
    ):
        self.cost = {True: threads_ns, False: inline_ns}
        self.cpu_cost = {True: inline_ns * cpu, False: inline_ns}
        self.noise = noise
        self.lag, self.drains, self.read_ns = lag, drains, read_ns
        self.queued = 0
        self.now = self.cpu = self.jobs = self.changes = 0
        self.spent = {True: 0, False: 0}
        self.choice = ThreadChoice(4, kept=kept, cpu_clock=lambda: round(self.cpu))

    def job(self):
        begins = self.queued == 0
        if self.choice.uses_threads:
            self.queued = self.lag + 1
        by_threads = self.queued > 0
        self.queued -= by_threads
        times = 1
        if self.drains and by_threads:
            times = self.queued + 1 if begins else int(self.choice.uses_threads)
        ns = round(self.cost[by_threads] * self.noise(self.now, by_threads) * times)
        self.now += ns
        self.cpu += self.cpu_cost[by_threads]
        self.jobs += 1
        self.spent[by_threads] += ns
        kept = self.choice.kept
        self.choice.note(ns, 10, by_threads=by_threads, read_ns=self.read_ns)
        self.changes += self.choice.kept is not kept

    def guess(self):
        """The choice of the first jobs."""
        while self.choice.kept is None:
            self.job()
        return self.choice.kept

    def settle(self):
        """The choice after many tests."""
        self.run(400 * max(MS, *self.cost.values()))
        return self.choice.kept

    def run(self, ns):
        """Go on for so long."""
        until = self.now + ns
        while self.now < until:
            self.job()
        return self

    @property
    def beside_inline(self):
        """The time so far, as a multiple of what it would be without threads and noise."""
        return self.now / (self.jobs * self.cost[False])


@pytest.mark.parametrize("lag", [0, 4, 34])
@pytest.mark.parametrize("job_ns", [MS // 100, MS // 3, 5 * MS, 300 * MS])
@pytest.mark.parametrize(
    ("ratio", "way"), [(0.5, True), (0.9, True), (0.96, None), (0.99, None), (1.05, False), (2.0, False)]
)
def test_the_faster_way_is_kept(job_ns, ratio, way, lag):
    """A loader begins with threads if batches are dear, and stays with its guess (``None``) where both ways cost about the same."""
    consumer = Consumer(job_ns, int(job_ns * ratio), lag=lag, read_ns=job_ns)
    assert consumer.choice.kept is None
    assert not consumer.choice.uses_threads
    guess = consumer.guess()
    assert guess is (job_ns >= DEAR_BATCH_NS)
    consumer.run(400 * max(job_ns, MS))
    assert consumer.choice.kept is (guess if way is None else way)
    assert consumer.changes == 1 + (consumer.choice.kept is not guess)


@pytest.mark.parametrize(
    ("cpu", "ratio", "uses_threads"), [(1.0, 0.93, True), (1.4, 0.93, False), (1.9, 0.88, False), (1.9, 0.8, True)]
)
def test_threads_must_be_worth_their_processor_time(cpu, ratio, uses_threads):
    consumer = Consumer(MS, int(MS * ratio), cpu=cpu)
    consumer.run(2000 * MS)
    assert consumer.choice.kept is uses_threads


@pytest.mark.parametrize("kept", [True, False, None])
@pytest.mark.parametrize(("ratio", "uses_threads"), [(0.85, True), (0.9, True), (1.1, False), (1.2, False)])
def test_jobs_made_ahead_do_not_favour_threads(ratio, uses_threads, kept):
    """Of a segment of eight jobs and four drained ones, a third would seem to cost nothing."""
    consumer = Consumer(MS, int(MS * ratio), lag=4, drains=True, kept=kept)
    consumer.run(3000 * MS)
    assert consumer.choice.kept is uses_threads
    assert consumer.changes == (kept is not uses_threads) + (kept is None and uses_threads)


@pytest.mark.parametrize("ratio", [0.4, 0.65])
def test_threads_that_pay_are_used_soon(ratio):
    """After a few segments of milliseconds, or of a few jobs."""
    quick = Consumer(MS // 10, round(MS * ratio / 10), lag=4)
    while not quick.choice.kept:
        quick.job()
    assert quick.now <= 80 * MS
    dear = Consumer(300 * MS, round(300 * MS * ratio), read_ns=DEAR_BATCH_NS)
    dear.guess()
    assert dear.jobs == GUESS_JOBS
    very_dear = Consumer(300 * MS, round(300 * MS * ratio), read_ns=VERY_DEAR * DEAR_BATCH_NS)
    very_dear.guess()
    assert very_dear.jobs == 2
    dearest = Consumer(300 * MS, round(300 * MS * ratio), read_ns=DEAREST * DEAR_BATCH_NS)
    dearest.guess()
    assert dearest.jobs == 1


@pytest.mark.parametrize("kept", [None, True])
def test_the_first_test_of_long_jobs_comes_after_many(kept):
    """On 2026-11-27 every second epoch of four large batches of photographs was read without threads."""
    consumer = Consumer(75 * MS, 40 * MS, lag=2, read_ns=75 * MS, kept=kept)
    consumer.guess()
    while not consumer.choice.is_testing:
        consumer.job()
    assert 24 <= consumer.jobs <= 32


def test_one_comparison_is_enough_where_threads_use_no_less_of_the_processors():
    """Else the segment without them met something else: another program, or the consumer's first epoch."""

    def tests(**options):
        consumer = Consumer(30 * MS, 15 * MS, **options)
        while not consumer.choice.kept:
            consumer.job()
        return len(consumer.choice._ratios)

    assert tests(cpu=1.0) == 1
    assert tests(cpu=0.5) == 2


@pytest.mark.parametrize(("ratio", "cpu", "comparisons"), [(1.3, 1.8, 1), (1.3, 1.0, 3), (1.05, 1.8, 3)])
def test_one_comparison_is_enough_where_threads_use_more_of_the_processors_for_less(ratio, cpu, comparisons):
    """Else they may have waited for the disk."""
    consumer = Consumer(30 * MS, round(30 * ratio * MS), cpu=cpu, kept=True)
    while consumer.choice.kept:
        consumer.job()
    assert len(consumer.choice._ratios) == comparisons
    assert consumer.run(2000 * MS).choice.kept is False


@pytest.mark.parametrize("slow_jobs", [0, 8])
def test_one_comparison_is_enough_after_slow_first_jobs_of_threads(slow_jobs):
    """They fill new memory, which on some machines takes as long as ten epochs."""
    jobs = {True: 0, False: 0}

    def noise(now, by_threads):
        jobs[by_threads] += 1
        return 6.0 if by_threads and jobs[True] <= slow_jobs else 1.0

    consumer = Consumer(10 * MS, 5 * MS, noise=noise)
    while not consumer.choice.is_testing:
        consumer.job()
    inline_jobs = jobs[False]
    while not consumer.choice.kept:
        consumer.job()
    assert jobs == {True: 8 + slow_jobs, False: inline_jobs}


def test_threads_are_not_compared_with_threads():
    """After a test of the other way, the first jobs of the chosen one may be much faster than those before the test."""
    consumer = Consumer(30 * MS, 27 * MS, kept=True)
    while not consumer.choice.is_testing:
        consumer.job()
    while consumer.choice.is_testing:
        consumer.job()
    assert not consumer.choice._ratios
    consumer.cost = {True: 12 * MS, False: 14 * MS}
    for _ in range(16):  # the first ones do not count, those after them end the test
        consumer.job()
    assert not any(ratio < 0.67 for ratio in consumer.choice._ratios)


def test_wrong_guesses_of_threads_do_not_last():
    consumer = Consumer(MS, 1.3 * MS, lag=4, read_ns=DEAR_BATCH_NS)
    assert consumer.guess()
    consumer.run(200 * MS)
    assert consumer.choice.kept is False


@pytest.mark.parametrize("ratio", [1.1, 1.5, 4])
@pytest.mark.parametrize("job_ns", [MS // 100, MS // 3])
def test_threads_that_do_not_pay_cost_little_from_the_start(ratio, job_ns):
    consumer = Consumer(job_ns, round(job_ns * ratio), lag=4)
    for ns in (100, 400, 1000, 4000):
        consumer.run(ns * MS - consumer.now)
        assert consumer.beside_inline <= 1.02 + 12 * MS * ratio / consumer.now  # the first test knows nothing yet
        assert consumer.choice.kept is False


@pytest.mark.parametrize("threads_ns", [MS // 10, MS * 9 // 10, 11 * MS // 10, 2 * MS, 10 * MS])
def test_tests_of_the_slower_way_cost_little(threads_ns):
    """A hundredth of the time once the trial is over, and ever fewer of them."""
    consumer = Consumer(MS, threads_ns, lag=4)
    consumer.settle()
    consumer.run(20_000 * MS)
    wasted = 0
    for _ in range(2):
        start, jobs = consumer.now, consumer.jobs
        consumer.run(20_000 * MS)
        best = (consumer.jobs - jobs) * min(consumer.cost.values())
        wasted = (consumer.now - start) / best - 1
        assert wasted <= 0.03
    assert wasted >= 0
    assert consumer.spent[True] > 0 < consumer.spent[False]


def test_two_comparisons_that_contradict_each_other_are_followed_by_a_third():
    """On 2026-11-25 threads that cost 1.14 times as much were kept for 8 seconds, because the second test met a slow machine."""
    tests = []

    def second_test_is_slow(now, by_threads):
        if not by_threads and (not tests or now - tests[-1][1] > 10 * MS):
            tests.append((now, now))
        elif not by_threads:
            tests[-1] = tests[-1][0], now
        return 3.0 if not by_threads and len(tests) == 2 else 1.0

    consumer = Consumer(MS, 1.14 * MS, noise=second_test_is_slow, kept=True)
    consumer.run(600 * MS)
    assert tests[2][0] - tests[1][1] < 50 * MS
    assert consumer.choice.kept is False


def test_a_pause_has_an_end():
    consumer = Consumer(MS, MS * 12 // 10)
    consumer.run(60_000 * MS)
    pauses = []
    for _ in range(3):
        start = consumer.now
        while not consumer.choice.is_testing:
            consumer.job()
        pauses.append(consumer.now - start)
        while consumer.choice.is_testing:
            consumer.job()
    assert max(pauses) <= MOST_PAUSE_NS + 10 * MS


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("others_ns", [MS // 2, 2 * MS])
def test_a_change_is_noticed(first, others_ns):
    """In a share of the time that has passed, or at once if the way in use is what has changed."""
    consumer = Consumer(MS, MS // 2 if first else 2 * MS)
    assert consumer.settle() is first
    consumer.run(3000 * MS)
    consumer.cost[not first] = consumer.cost[first] // 2
    consumer.run(MOST_PAUSE_NS + 200 * MS)
    assert consumer.choice.kept is not first
    consumer.cost[not first] *= 4
    consumer.run(400 * MS)
    assert consumer.choice.kept is first


@pytest.mark.parametrize(("first", "then"), [(1.05, 0.5), (0.9, 2.0)])
def test_a_lighter_consumer_is_noticed_soon(first, then):
    """An epoch that checks every row, say, and then one that only counts them: the pauses of the first do not count."""
    consumer = Consumer(80 * MS, int(80 * MS * first))
    consumer.settle()
    consumer.cost = {True: int(MS * then / 3), False: MS // 3}
    consumer.cpu_cost = dict.fromkeys((True, False), MS // 3)
    consumer.run(150 * MS)
    assert consumer.choice.kept is (then < 1)


@pytest.mark.parametrize("jobs", range(12))
def test_a_consumer_that_changes_during_a_test_does_not_mislead(jobs):
    """The test, or a segment around it, then has jobs of both consumers, and would say that threads take a hundredth of the time."""
    consumer = Consumer(80 * MS, 60 * MS)
    consumer.settle()
    while not consumer.choice.is_testing:
        consumer.job()
    for _ in range(jobs):
        consumer.job()
    consumer.cost = {True: 2 * MS // 3, False: MS // 3}
    consumer.run(150 * MS)
    assert consumer.choice.kept is False


def test_a_wrong_choice_does_not_last():
    """One that was made while another program had a core, or for a source of the same kind."""
    consumer = Consumer(MS, MS // 2, noise=lambda now, by_threads: 4.0 if by_threads and now < 200 * MS else 1.0)
    assert consumer.settle() is False
    consumer.run(2000 * MS)
    assert consumer.choice.kept is True
    taken_over = Consumer(MS, MS // 2, kept=False)
    assert not taken_over.choice.is_testing
    taken_over.run(300 * MS)
    assert taken_over.choice.kept is True


def busy(seed, share, factor):
    """Another program takes processors for spells of about 20 ms, a share of the time: a machine whose noise depends on when, not on what."""
    random = Random(seed)
    spells, until = [], 0
    while until < 40_000 * MS:
        until += round(random.expovariate(1) * 20 * MS) + 1
        spells.append((until, random.random() < share))
    at = 0

    def noise(now, by_threads):
        nonlocal at
        while spells[at][0] < now:
            at += 1
        slower = (factor if by_threads else 1.1) if spells[at][1] else 1.0
        return slower * random.uniform(0.95, 1.1)

    return noise


def alone(consumer_of, kept, ns):
    """The time of a job in one way on the same machine."""
    consumer = consumer_of()
    consumer.choice.kept = consumer.choice.uses_threads = kept
    consumer.choice._pause_ns = 10**18
    consumer.run(ns)
    return consumer.now / consumer.jobs


@settings(deadline=None, max_examples=25)
@given(
    st.integers(0, 2**32),
    st.sampled_from([MS // 20, MS // 3, 3 * MS]),
    st.floats(0.4, 2.5),
    st.sampled_from([0.0, 0.2, 0.5]),
    st.floats(1, 2.5),
    st.sampled_from([None, False, True]),
)
@example(0, MS // 3, 0.5, 0.5, 2.5, False)
@example(0, MS // 3, 1.5, 0.5, 2.5, True)
def test_little_time_is_lost_to_the_better_way(seed, job_ns, ratio, share, factor, kept):
    """On machines that are quiet, or busy a share of the time, from any choice to begin with."""

    def consumer_of():
        return Consumer(job_ns, job_ns * ratio, noise=busy(seed, share, factor), lag=4, kept=kept)

    ns = 1500 * max(job_ns, MS)
    best = min(alone(consumer_of, way, ns) for way in (True, False))
    consumer = consumer_of().run(ns)
    assert consumer.now / consumer.jobs <= 1.25 * best


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32), st.sampled_from([MS // 20, MS // 3, 3 * MS]), st.floats(0.3, 4))
def test_a_quiet_machine_loses_a_few_hundredths_at_most(seed, job_ns, ratio):
    random = Random(seed)
    consumer = Consumer(job_ns, job_ns * ratio, noise=lambda *_: random.uniform(0.98, 1.03), lag=4)
    consumer.settle()
    consumer.run(2000 * max(job_ns, MS))
    start, jobs = consumer.now, consumer.jobs
    consumer.run(4000 * max(job_ns, MS))
    assert (consumer.now - start) / (consumer.jobs - jobs) <= 1.06 * min(consumer.cost.values())


def test_one_test_that_met_another_program_does_not_delay_the_next_for_long():
    """A process may be stopped for minutes."""
    stops = {"at": None}

    def noise(now, by_threads):
        if stops["at"] is not None and by_threads and now >= stops["at"]:
            stops["at"] = None
            return 500_000.0
        return 1.0

    consumer = Consumer(MS, 2 * MS, noise=noise)
    consumer.settle()
    consumer.run(2000 * MS)
    stops["at"] = consumer.now
    while stops["at"] is not None:
        consumer.job()
    while consumer.choice.is_testing:
        consumer.job()
    start = consumer.now
    while not consumer.choice.is_testing:
        consumer.job()
    assert consumer.now - start <= MOST_PAUSE_NS + 10 * MS
    assert consumer.choice.kept is False


def test_processor_time_between_loops_does_not_count():
    consumer = Consumer(MS, MS * 93 // 100)
    for _ in range(400):
        consumer.choice.begin()
        for _ in range(5):
            consumer.job()
        consumer.cpu += 1000 * MS * consumer.choice.uses_threads
    assert consumer.choice.kept is True


@pytest.mark.parametrize("kept", [None, False, True])
@pytest.mark.parametrize("is_broken", [False, True])
@pytest.mark.parametrize(("start_ns", "uses_threads"), [(0, True), (3 * MS, True), (6 * MS, False), (12 * MS, False)])
def test_starting_threads_counts(start_ns, uses_threads, is_broken, kept):
    """Jobs that take half the time, in loops of ten, each of which starts the threads first. Parts of loops would not show which way is faster."""
    consumer = Consumer(MS, MS // 2, kept=kept)
    for _ in range(300):
        consumer.choice.begin()
        for job in range(10):
            starts = job == 0 and consumer.choice.uses_threads
            consumer.cost[True] = MS // 2 + start_ns * starts
            consumer.job()
        if not is_broken:
            consumer.choice.note(0, 0, by_threads=consumer.choice.uses_threads)
    assert consumer.choice.kept is uses_threads


def test_ending_threads_counts():
    """Threads that are faster for each job, but cost more to end after every loop of two jobs."""
    choice = ThreadChoice(1, cpu_clock=lambda: 0)
    while choice.kept is None:
        by_threads = choice.uses_threads
        for _ in range(2):
            choice.note(MS // 2 if by_threads else MS, 10, by_threads=by_threads)
        choice.note(4 * MS if by_threads else 0, 0, by_threads=by_threads)
    assert not choice.uses_threads


@pytest.mark.parametrize("kept", [False, True])
def test_a_loop_without_examples_costs_nothing(kept):
    """Only ending the threads, say, after their last job was in the segment before."""
    choice = ThreadChoice(1, kept=kept)
    for _ in range(3):
        choice.begin()
        choice.note(100 * MS, 0, by_threads=kept)
    assert choice.kept is kept


def test_time_without_examples_is_no_cost():
    choice = ThreadChoice(1)
    for _ in range(100):
        choice.note(MS, 0, by_threads=False)
    assert choice.kept is None
    assert not choice.uses_threads


def test_loaders_of_one_source_share_a_choice():
    source, other = Numbers(10), Numbers(10)
    choice = recall_choice(source, (32, True), 4)
    assert recall_choice(source, (32, True), 4) is choice
    for different in (
        recall_choice(source, (64, True), 4),
        recall_choice(source, (32, True), 6),
        recall_choice(other, (32, True), 4),
    ):
        assert different is not choice

    class Unhashable(Numbers):
        __hash__ = None

    assert recall_choice(Unhashable(3), (), 4) is not recall_choice(Unhashable(3), (), 4)


@pytest.mark.parametrize("kept", [None, False, True])
def test_a_new_source_begins_with_the_choice_of_the_last_one_of_its_kind(kept, monkeypatch):
    class Mine(Numbers):
        pass

    first = Mine(10)
    choice = recall_choice(first, (32,), 4)
    choice.kept = kept
    later = recall_choice(Mine(10), (32,), 4)
    assert later is not choice
    assert (later.kept, later.uses_threads) == (kept, bool(kept))
    assert recall_choice(Mine(10), (33,), 4).kept is None
    assert recall_choice(Numbers(10), (32, "of this test"), 4).kept is None
    monkeypatch.setattr(thread_choice, "MOST_KINDS", len(thread_choice._latest))
    for size in range(100, 100 + len(thread_choice._latest)):
        recall_choice(Mine(10), (size,), 4)
    assert recall_choice(Mine(10), (32,), 4).kept is None
    assert len(thread_choice._latest) <= thread_choice.MOST_KINDS


def test_a_new_source_continues_with_the_choice_of_one_that_is_gone():
    class Mine(Numbers):
        pass

    source = Mine(10)
    choice = recall_choice(source, (32,), 4)
    other = Mine(20)
    assert recall_choice(other, (32,), 4) is not choice
    del source, other
    gc.collect()
    last = thread_choice._latest[Mine, type(None), (32,), 4][0]
    again = Mine(10)
    assert recall_choice(again, (32,), 4) is last
    assert recall_choice(again, (32,), 4) is last
    assert recall_choice(Mine(10), (32,), 4) is not last


def test_loops_that_run_at_once_have_choices_of_their_own():
    """Threads with a loader each over one source changed one choice together, until it divided by zero in every loop."""
    source = Numbers(12)
    first, second = iter(hr.Loader(source, 2)), iter(hr.Loader(source, 2))
    one, other = first._choice, second._choice
    assert one is not other
    one.kept = True  # what a loop finds remains for later ones, the latest first
    assert len(list(first)) == len(list(second)) == 6
    assert (first._choice, second._choice) == (None, None)
    assert next(first, None) is None
    left = iter(hr.Loader(source, 2))
    assert left._choice is other
    next(left)
    del left
    assert iter(hr.Loader(source, 2))._choice is other


def test_a_choice_for_a_loop_begins_like_those_in_use():
    choice = ThreadChoice(4, kept=True)
    assert choice.claim() is choice
    twins = [choice.claim() for _ in range(thread_choice.MOST_FREE + 4)]
    assert {twin.kept for twin in twins} == {True}
    for twin in twins:
        twin.release()
    assert [choice.claim() for _ in twins][: thread_choice.MOST_FREE] == twins[: -thread_choice.MOST_FREE - 1 : -1]


def test_a_segment_without_examples_has_a_cost():
    assert Segment().cost > 0


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
        super().__init__(4)
        self.uses_threads = True
        self.turns = cycle(turns)
        self.left = next(self.turns)

    def note(self, ns, examples, *, by_threads, read_ns=0):
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
    """Both sizes follow the same measurement. That for the consumer's own jobs has lower limits, unless it makes batches one by one."""
    sizer = JobSizer(can_grow=True)
    run = BatchRun(0, 0, 0, 8, 0, 8, 1, is_last=False)
    for _ in range(20):
        sizer.note(Block(run, [{}] * 4, bytes=4 * 20_000, reading_ns=4 * 10_000))
    assert (sizer.batches, sizer.inline_batches) == (209, 52)
    for _ in range(20):
        sizer.note(Block(run, [{}], bytes=400 << 10, reading_ns=10_000))
    assert (sizer.batches, sizer.inline_batches) == (10, 200)  # one by one, for twice as long
    for _ in range(40):
        sizer.note(Block(run, [{}], bytes=10 << 20, reading_ns=10_000_000))
    assert (sizer.batches, sizer.inline_batches) == (1, 1)
    fixed = JobSizer(can_grow=False)
    fixed.note(Block(run, [{}], reading_ns=10))
    assert (fixed.batches, fixed.inline_batches, fixed.cuts) == (1, 2, False)


def test_a_sizer_goes_on_with_half_the_size_of_an_earlier_pass():
    run = BatchRun(0, 0, 0, 8, 0, 8, 1, is_last=False)
    memory = JobMemory(100, 60, batch_ns=1000)
    sizer = JobSizer(can_grow=True, memory=memory)
    assert (sizer.batches, sizer.inline_batches, sizer.cuts) == (1, 1, True)
    sizer.note(Block(run, [{}], bytes=1, reading_ns=3000))
    assert (sizer.batches, sizer.inline_batches, sizer._batch_ns) == (50, 30, 2000)
    assert memory == JobMemory(50, 30, 2000)
    sizer.note(Block(run, [{}], bytes=1, reading_ns=2000))
    assert (sizer.batches, sizer.inline_batches) == (100, 60)
    fixed = JobSizer(can_grow=False, memory=JobMemory(100, 4))
    fixed.note(Block(run, [{}], bytes=1, reading_ns=10))
    assert (fixed.batches, fixed.inline_batches, fixed.cuts) == (1, 2, False)


def test_larger_rows_than_those_of_an_earlier_pass_make_small_jobs():
    run = BatchRun(0, 0, 0, 8, 0, 8, 1, is_last=False)
    for size, ns, batches, inline, cuts in (
        (1 << 20, 50_000, 4, 40, False),  # One by one, so none waits for another one.
        (64 << 20, 100_000_000, 1, 1, False),
        (1000, 400_000, 10, 2, True),
    ):
        sizer = JobSizer(can_grow=True, memory=JobMemory(256, 120, batch_ns=ns))
        sizer.note(Block(run, [{}], bytes=size, reading_ns=ns))
        assert (sizer.batches, sizer.inline_batches, sizer.cuts) == (batches, inline, cuts)


class Wide(Numbers):
    """Rows of equal size. Notes how many it is asked for."""

    def __init__(self, n, length):
        super().__init__(n)
        self.length, self.asked = length, []

    def batch(self, indices):
        self.asked.append(len(indices))
        return {"x": np.zeros((len(indices), self.length), np.uint8)}


@pytest.mark.parametrize("options", [{}, {"threads": 0}, {"threads": 1}])
def test_other_rows_of_the_same_kind_begin_with_one_batch(options):
    """A job of as many batches as the last one of the file before could take gigabytes."""
    for n, length in ((50_000, 2), (50_000, 2), (200, 100_000)):
        source = Wide(n, length)
        for _ in hr.Loader(source, 10, **options):
            pass
        asked = source.asked
        del source
    assert asked[0] == 10
    assert max(asked) <= 40  # 4 MB


@pytest.mark.parametrize("options", [{}, {"threads": 0}, {"threads": 1}])
def test_a_later_pass_remembers_the_size_of_jobs(options):
    loader = hr.Loader(Numbers(20_000), 20, **options)
    for _ in range(3):
        batches = iter(loader)
        memory = batches._recipe.memory
        assert (batches._pace.batches, batches._pace.inline_batches) == (1, 1)
        assert (batches._pace._half, batches._pace._inline_half) == (memory.batches // 2, memory.inline_batches // 2)
        assert [batch["i"].tolist() for batch in batches] == np.arange(20_000).reshape(-1, 20).tolist()
        assert (memory.batches, memory.inline_batches) == (batches._pace.batches, batches._pace.inline_batches)
        assert memory.batch_ns > 0


def test_a_later_loader_of_a_source_remembers_the_size_of_jobs():
    source = Numbers(2000)
    first = iter(hr.Loader(source, 30))
    list(first)
    assert iter(hr.Loader(source, 30))._recipe.memory is first._recipe.memory
    assert iter(hr.Loader(source, 31))._recipe.memory is not first._recipe.memory
    alone = iter(hr.Loader(source, 30, threads=1))._recipe.memory
    assert alone is not first._recipe.memory
    assert alone == JobMemory()


def test_large_batches_are_made_one_by_one_without_threads():
    """Many in a row: none of them waits for another one."""
    run = BatchRun(0, 0, 0, 8, 0, 8, 1, is_last=False)
    for size, ns, cuts, most in (
        (256 << 10, 50_000, True, 4),
        (257 << 10, 50_000, False, 40),
        (128 << 10, 15_000, True, 8),  # copied about as fast as memory allows
        (129 << 10, 15_000, False, 133),
        (1000, 75_000, True, 13),
        (1000, 500_000, True, 2),
        (1000, 501_000, False, 4),
    ):
        sizer = JobSizer(can_grow=True)
        for _ in range(20):
            sizer.note(Block(run, [{}], bytes=size, reading_ns=ns))
        assert (sizer.cuts, sizer.inline_batches) == (cuts, most)


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("period_ms", [30, 100, 400])
def test_other_programs_do_not_cause_tests_of_a_clear_choice(kept, period_ms):
    """They make jobs take 1.8 times as long, now and then. Each such change used to cause a test, and tests took 3 percent of the time."""
    noise = lambda now, by_threads: 1.8 if now // (period_ms * MS) % 2 else 1.0  # noqa: E731
    costs = (2 * MS // 5, MS // 5) if kept else (MS // 5, 2 * MS // 5)
    consumer = Consumer(*costs, noise=noise, lag=4, kept=kept)
    consumer.run(2000 * MS)
    assert consumer.choice.kept is kept
    before = dict(consumer.spent)
    consumer.run(20_000 * MS)
    assert consumer.choice.kept is kept
    assert consumer.spent[not kept] - before[not kept] <= 0.01 * 20_000 * MS


def test_a_clear_choice_that_turns_wrong_is_given_up():
    consumer = Consumer(MS // 5, 2 * MS // 5, lag=4).run(10_000 * MS)
    assert not consumer.choice.kept
    consumer.cost = {True: MS // 4, False: MS // 2}
    consumer.run(3 * MOST_PAUSE_NS)
    assert consumer.choice.kept


def test_processor_time_is_asked_for_in_tests_only():
    consumer = Consumer(MS // 5, 2 * MS // 5, lag=4).run(3000 * MS)
    reads = []
    consumer.choice._clock = lambda: reads.append(consumer.now) or round(consumer.cpu)
    for _ in range(200):  # short loops
        consumer.choice.begin()
        consumer.run(2 * MS)
    assert not consumer.choice.kept
    assert len(reads) < 100


def test_later_tests_that_agree_are_rare():
    """Also right after one that contradicted the choice, and if the slower way loses next to nothing."""
    consumer = Consumer(MS // 8, 1.02 * MS // 8, lag=4).run(3000 * MS)
    assert len(consumer.choice._ratios) == thread_choice.RECENT
    changes = []  # of ways
    while len(changes) < 5:
        if len(changes) < 2:
            consumer.choice._pause = 1  # as after a contradiction
        was_testing = consumer.choice.is_testing
        consumer.job()
        if consumer.choice.is_testing is not was_testing:
            changes.append(consumer.now)
            assert consumer.choice.is_testing is bool(len(changes) % 2)
    begun, ended, again = changes[:3]
    assert again - ended > 10 * (ended - begun)
