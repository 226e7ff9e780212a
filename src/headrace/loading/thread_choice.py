"""Whether threads should make the batches of a loader, found by trying both ways.

Threads pay if batches are expensive, native and small enough for the caches. They do not pay if passing a batch between cores costs more than making
it, if Python code makes the batches, or if other programs use the cores. Formats and sizes do not distinguish these cases, but the clock does: the
time from one request of the consumer to the next, for each example, includes all of these costs, and the consumer's own work.

So a loader whose ``threads`` were left out makes its first batches itself, as with ``threads=0``. If reading one takes long beside passing it
between cores, threads take over; else the loader goes on by itself. Then it *tests* the other way: a segment of jobs made in that way is compared
with the segments around it, which meet the same other programs, and the median of such comparisons decides. Tests go on for as long as the loader
runs: rarely where they agree with the choice, soon again where they do not. The first jobs of a test and after it are not compared, because threads
in use again fill new memory. So a choice that a busy machine or another consumer has made wrong does not last. The order, the contents of the
batches and the state never depend on the choice.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable
from time import process_time_ns
from typing import Any
from weakref import WeakKeyDictionary, ref

from headrace.loading.rounds import JobMemory, Segment

__all__ = ["ThreadChoice", "recall_choice"]

SEGMENT_NS = 4_000_000
"""The least duration of a segment. Linux adds the processor time of other cores at every tick, which is as long on most systems."""
INLINE_JOBS = 2  # the fewest of a segment without threads
LOOP_NS = 20_000_000
"""A segment ends with its loop, unless that takes longer than this: starting and ending threads is part of what short loops cost."""
DEAR_BATCH_NS = 60_000
"""A loader begins with threads if reading a batch takes at least as long as this. Of 80 shapes, all but two whose batches take 30 us or more are
read faster with threads (2026-11-24). The first batches of a file take up to twice as long as later ones."""
GUESS_JOBS = 4
"""The job whose batches this looks at. The first ones open files, and read less at once."""
VERY_DEAR, DEAREST = 10, 100  # if a batch takes this many times as long, the second job is enough, or the first one
CLEAR = 0.67
"""Two comparisons are enough to choose threads if both are below this ratio. Two slow ones are not: they may have waited for the disk."""
SAME_EFFORT = 0.75
"""One is enough, even that with the first jobs of a test, if threads also use this share of the processor time: else the other was slow by chance.
One is enough to do without threads, too, if they take ``CLEARLY`` as long and the inverse of this share: waiting for the disk takes no processor time."""
LEAST = 3  # comparisons that are enough otherwise
RECENT = 5  # the latest ones, whose median decides
EFFORTS = 16  # the latest comparisons of processor time, which are less exact
GAIN = 0.97  # the share of the time that threads may take at most: a comparison is not exact
WORTH = 0.15
"""How much time threads must save for each second of processor time that they use in addition, because other programs could use it."""
LEAST_GAIN = 0.85  # the most that this asks for
SLACK = 1.03
"""A choice changes only if it is worse by this factor than the one that would just be made, so that chance does not change it back and forth."""
TEST_SHARE = 0.01
"""The share of the time that tests of the slower way may lose."""
EARLY_SHARE = 0.02  # the same before there are ``RECENT`` comparisons
LEAST_PAUSE, LATER_PAUSE = 4, 25
"""The shortest pause in tests, and from ``RECENT`` comparisons on, so that chance does not cause many. It doubles after each test that agrees
with the choice; after one that does not, the next follows at once."""
MOST_PAUSE_NS = 5_000_000_000
"""The longest pause, unless ``TEST_SHARE`` asks for a longer one."""
FIRST_PAUSE_NS = {True: 40_000_000, False: 8_000_000}
"""The pause before the first test, with threads and without. It is shorter without, because threads pay more often."""
LONG_JOB_NS, LONG_JOBS_PAUSE = 8_000_000, 24
"""If the jobs of threads are longer than this, at least so many come before the first test: it takes several jobs, and threads almost surely pay."""
CHANGE = 1.5
"""If the chosen way costs this factor more or less than at the last test in ``CHANGED`` segments in a row, the next test comes as soon as
``EARLY_SHARE`` allows."""
CHANGED = 3
MOST_CHANGED_PAUSE_NS = 150_000_000  # the longest pause then
CLEARLY = 1.1
"""If the other way takes this many times as long as a rule, a changed cost is no reason for a test: other programs change it all the time."""
CLEAR_PAUSE_NS = 1_000_000_000  # the shortest pause then
OTHER = 4.0  # if it costs this factor more or less, the consumer does something else now: the loader begins anew
MOST_KINDS = 256  # of sources that are remembered
MOST_FREE = 16  # choices for loops that run at once


def median(values: Iterable[float]) -> float:
    """The median, as from ``statistics.median``, whose import loads decimal and fractions."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _is_alike(first: float, second: float, factor: float) -> bool:
    """Whether two costs differ by less than a factor."""
    return first / factor < second < first * factor


def _is_plain(threads: Segment, inline: Segment, *, to_threads: bool) -> bool:
    """Whether one comparison is enough to choose threads, or to do without them."""
    used, used_alone = threads.effort or 0, inline.effort or float("inf")  # None: not known
    if to_threads:
        return threads.cost < CLEAR * inline.cost and used > SAME_EFFORT * used_alone
    return threads.cost > CLEARLY * inline.cost and used * SAME_EFFORT > used_alone


class ThreadChoice:
    """Chooses between threads and none, from the costs of earlier jobs. For one loop at a time: see :meth:`claim`.

    Args:
        ahead: How many jobs threads start in advance. A segment has at least twice as many, so that starting and draining threads
            hardly counts.
        kept: The choice to begin with, made for another source; ``None``: the first jobs decide.
        cpu_clock: The processor time of this process in nanoseconds.
    """

    def __init__(self, ahead: int, *, kept: bool | None = None, cpu_clock: Callable[[], int] = process_time_ns) -> None:
        self.uses_threads: bool = bool(kept)
        """Whether threads should make the next job."""
        self.kept: bool | None = kept
        """The choice; ``None`` in the first jobs."""
        self.memory = JobMemory()
        """Of the latest loop, so that the next one need not begin with jobs of one batch again."""
        self._holds = kept is not None  # whether a choice is made, and no test is running
        self._ahead, self._clock = ahead, cpu_clock
        self._free = deque([self], maxlen=MOST_FREE)
        """Choices that no loop uses: this one and its twins."""
        self._clocked_ns = cpu_clock()
        self._unclocked_ns = 0  # since then
        self._least_jobs = {True: 2 * ahead, False: INLINE_JOBS}
        self._segments = {True: Segment(), False: Segment()}
        self._first_jobs = 0  # while there is no choice
        self._loop_ns = 0  # so far
        self._ratios: deque[float] = deque(maxlen=RECENT)  # time with threads, as a share of the time without
        self._efforts = deque[tuple[float, float]](maxlen=EFFORTS)
        """Processor time for each example: with threads, without."""
        self._costs = {True: deque[float](maxlen=RECENT), False: deque[float](maxlen=RECENT)}
        """Nanoseconds for each example in the latest segments that were compared."""
        self._before: Segment | None = None  # the latest one of the chosen way
        self._settling: list[Segment] = []
        """The first jobs of a test, and the first ones after it. They are not compared, because threads in use again fill new memory."""
        self._test: Segment | None = None
        """The latest test of the other way, until a segment of the chosen one follows it."""
        self._usual = 0.0
        """Nanoseconds for each example of the chosen way at the latest comparison."""
        self._unusual = 0  # segments since then that cost something else, in a row
        self._pause = LEAST_PAUSE
        self._pause_ns = self._least_pause_ns = FIRST_PAUSE_NS[self.uses_threads]
        self._held_ns = 0

    def claim(self) -> ThreadChoice:
        """A choice for one loop, until it calls :meth:`release`: this one, or a twin while another loop uses this one, maybe in another thread."""
        try:
            return self._free.pop()  # No lock is needed: one thread gets it.
        except IndexError:
            twin = ThreadChoice(self._ahead, kept=self.kept, cpu_clock=self._clock)
            twin._free = self._free
            return twin

    def release(self) -> None:
        """Leave the choice to later loops."""
        self._free.append(self)

    @property
    def is_testing(self) -> bool:
        """Whether jobs are made in the way that is not chosen."""
        return self.kept is not None and self.uses_threads is not self.kept

    def begin(self) -> None:
        """Start to measure a loop: what happened before its first request does not count."""
        way, segment = self.uses_threads, self._segments[self.uses_threads]
        if self.kept is not None and segment.examples and segment.ns >= SEGMENT_NS:
            if self._segments[not way].examples:
                self._finish(not way)
            if way == self.uses_threads:
                self._complete(way, is_loop=True)
        self._loop_ns = 0
        if self._needs_clock():
            self._restart_clock()

    def _needs_clock(self) -> bool:
        """Whether processor time matters: in tests and in the segments around them. Reading the clock may take 10 us."""
        before = self._before
        return not self._holds or before is None or self._held_ns + 2 * before.ns >= self._pause_ns

    def _restart_clock(self) -> None:
        self._clocked_ns, self._unclocked_ns = self._clock(), 0

    def note(self, ns: int, examples: int, *, by_threads: bool, read_ns: int = 0) -> None:
        """Take a job into account.

        Args:
            ns: The time from the consumer's request of it to the next request.
            examples: Examples in it; 0 if only time is added to the job before.
            by_threads: Whether it was given to the threads.
            read_ns: How long reading one of its batches took.
        """
        self._loop_ns += ns
        if by_threads != self.uses_threads:
            # Threads made it ahead, before the last change of ways. Their time for it is in the segment before: it would count as free.
            self._restart_clock()
            return
        if self.kept is None:
            self._guess(read_ns, examples)
            return
        segment = self._segments[by_threads]
        segment.ns += ns
        segment.examples += examples
        segment.jobs += examples > 0
        self._unclocked_ns += ns
        is_long = segment.ns >= SEGMENT_NS and self._loop_ns >= LOOP_NS
        if self._holds and examples and not is_long:
            return  # What follows would take longer than all of this.
        if self._needs_clock():
            now = self._clock()
            if self._unclocked_ns <= segment.ns:  # else the clock stood still in segments before this one
                segment.cpu_ns += now - self._clocked_ns
                segment.clocked_ns += self._unclocked_ns
            self._clocked_ns, self._unclocked_ns = now, 0
        if self._segments[not by_threads].examples:
            self._finish(not by_threads)
            if by_threads != self.uses_threads:
                return
        if is_long and segment.jobs >= self._least_jobs[by_threads]:
            self._complete(by_threads)

    def _complete(self, by_threads: bool, *, is_loop: bool = False) -> None:  # noqa: FBT001 - it is a key
        """Close a segment that is long enough, unless its last jobs have yet to be used."""
        settles = self._settles(by_threads, is_loop=is_loop)
        if by_threads is self.kept and not settles:
            self._finish(by_threads)
            return
        segment = self._segments[by_threads]
        if settles:
            self._segments[by_threads] = Segment()
            self._settling.append(segment)
        before = self._before
        if by_threads and not self.kept and before is not None and _is_plain(segment, before, to_threads=True):
            self._segments[by_threads] = Segment()
            self._compare(segment, before)
            self._choose(kept=True)
            self._pause_after(segment, agrees=True)
        elif not settles:
            self.uses_threads = not by_threads

    def _guess(self, read_ns: int, examples: int) -> None:
        """Choose by one of the first jobs."""
        self._first_jobs += examples > 0
        times = read_ns / DEAR_BATCH_NS
        if self._first_jobs >= (1 if times >= DEAREST else 2 if times >= VERY_DEAR else GUESS_JOBS):
            self.kept = self.uses_threads = read_ns >= DEAR_BATCH_NS
            self._pause_ns = self._least_pause_ns = FIRST_PAUSE_NS[self.kept]
            self._holds = True
            self._restart_clock()

    def _settles(self, by_threads: bool, *, is_loop: bool) -> bool:  # noqa: FBT001 - it is a key
        """Whether the jobs since the last change of ways do not count."""
        if by_threads is not self.kept:
            return not self._settling
        return self._test is not None and not is_loop and len(self._settling) < 2

    def _finish(self, by_threads: bool) -> None:  # noqa: FBT001 - it is a key
        """Close a segment, all of whose jobs have been used."""
        segment, self._segments[by_threads] = self._segments[by_threads], Segment()
        if by_threads is self.kept:
            self._hold(segment)
        else:
            self._test = segment

    def _hold(self, segment: Segment) -> None:
        """Take a segment of the chosen way into account, and the test before it, if there was one."""
        before, self._before = self._before, segment
        self._held_ns += segment.ns
        test, self._test = self._test, None
        if test is not None:
            self._holds = True
            if before is not None and _is_alike(before.cost, segment.cost, CHANGE):
                self._take_test(test, before, segment)
            elif before is not None and test.cost > max(before.cost, segment.cost):
                # It lost to both, so it does not matter that they differ.
                self._take_test(test, max(before, segment, key=lambda one: one.cost))
            else:  # The consumer or the machine has changed during the test.
                self._settling.clear()
                self._held_ns, self._pause_ns = 0, max(self._least_pause_ns, FIRST_PAUSE_NS[False])
                self._note_cost(segment.cost)
            return
        job_ns = segment.ns // max(segment.jobs, 1)
        long_ns = LONG_JOBS_PAUSE * job_ns if self.kept and not self._ratios and job_ns > LONG_JOB_NS else 0
        if self._note_cost(segment.cost) and self._held_ns >= max(self._pause_ns, long_ns):
            self.uses_threads, self._holds = not self.kept, False

    def _note_cost(self, cost: float) -> bool:
        """Take the cost of the chosen way into account: return whether the choice still holds."""
        if not self._usual:  # the first segment
            self._usual = cost
        self._unusual = 0 if _is_alike(self._usual, cost, CHANGE) else self._unusual + 1
        if self._unusual < CHANGED:
            return True
        if self._ratios and not _is_alike(self._usual, cost, OTHER):
            self._begin_anew()
            return False
        if not self._is_clear():
            self._pause_ns = min(self._pause_ns, int(self._least_pause_ns * cost / self._usual), MOST_CHANGED_PAUSE_NS)
            self._pause = 1
        self._usual, self._unusual = cost, 0
        return True

    def _is_clear(self) -> bool:
        """Whether the other way was slower in every recent comparison, and much slower as a rule."""
        losses = [1 / ratio if self.kept else ratio for ratio in self._ratios]
        return len(losses) >= LEAST and min(losses) > SLACK and median(losses) > CLEARLY

    def _begin_anew(self) -> None:
        """Forget all that was found: the consumer does something else now."""
        self.kept, self.uses_threads, self._holds = None, False, False
        self._segments = {True: Segment(), False: Segment()}
        self._first_jobs = self._held_ns = self._unusual = 0
        self._usual, self._before, self._pause = 0.0, None, LEAST_PAUSE
        self._efforts.clear()
        for found in (self._ratios, *self._costs.values()):
            found.clear()

    def _take_test(self, test: Segment, *others: Segment) -> None:
        """Compare a test with segments of the chosen way around it."""
        around = Segment()
        for name in ("ns", "cpu_ns", "clocked_ns", "examples"):
            setattr(around, name, sum(getattr(other, name) for other in others))
        threads, inline = (around, test) if self.kept else (test, around)
        self._compare(threads, inline)
        limit = self._limit() * SLACK if self.kept else self._limit() / SLACK
        latest = list(self._ratios)[-1 if len(self._ratios) >= LEAST else 0 :]  # Few ones must agree with each other.
        agrees = all((ratio <= limit) is self.kept for ratio in latest)
        self._pause, self._usual, self._unusual = max(2 * self._pause, LEAST_PAUSE) if agrees else 1, around.cost, 0
        is_plain = bool(self.kept) and len(self._ratios) < LEAST and _is_plain(threads, inline, to_threads=False)
        is_clear = is_plain or (len(self._ratios) == LEAST - 1 and max(self._ratios) < CLEAR)
        changes = (is_clear or len(self._ratios) >= LEAST) and (median(self._ratios) <= limit) is not self.kept
        if changes:
            self._choose(kept=not self.kept)
        self._pause_after(test, agrees=agrees or (changes and is_plain))

    def _compare(self, threads: Segment, inline: Segment) -> None:
        self._costs[True].append(threads.cost)
        self._costs[False].append(inline.cost)
        self._ratios.append(threads.cost / inline.cost)
        if threads.effort is not None and inline.effort is not None:
            self._efforts.append((threads.effort, inline.effort))

    def _limit(self) -> float:
        """The share of the time that threads may take, from sums without the extremes: one comparison may miss the processor time of other cores."""
        if not self._efforts:
            return GAIN
        kept = slice(1, -1) if len(self._efforts) > 2 else slice(None)
        effort, effort_inline = (sum(sorted(pair[i] for pair in self._efforts)[kept]) for i in (0, 1))
        return min(GAIN, max(LEAST_GAIN, 1 - WORTH * (effort / max(effort_inline, 1) - 1)))

    def _choose(self, *, kept: bool) -> None:
        self.kept = self.uses_threads = kept
        self._holds = True
        self._before, self._pause, self._usual = None, LEAST_PAUSE, median(self._costs[kept])

    def _pause_after(self, test: Segment, *, agrees: bool) -> None:
        """Pause so long that the test was a small share of the time, by what such tests lose as a rule: other programs may have slowed this one."""
        cost, ratio = median(self._costs[bool(self.kept)]), median(self._ratios)
        led = self._settling[0].examples if self._settling else 0
        lost_ns = (test.examples + led) * cost * ((1 / ratio if self.kept else ratio) - 1)
        share = TEST_SHARE if len(self._ratios) >= RECENT else EARLY_SHARE
        # Threads fill new memory in their first tests only.
        settled = self._settling if len(self._ratios) >= LEAST else []
        settling_ns = sum(max(segment.ns - segment.examples * cost, 0) for segment in settled)
        self._settling.clear()
        self._held_ns = 0
        self._least_pause_ns = int(lost_ns / EARLY_SHARE)
        self._pause_ns = test.ns
        if agrees:
            least = self._pause if len(self._ratios) < RECENT else max(self._pause, LATER_PAUSE)
            longer_ns = min(max(least * test.ns, settling_ns / share), MOST_PAUSE_NS)
            self._pause_ns = int(max(longer_ns, lost_ns / share, CLEAR_PAUSE_NS if self._is_clear() else 0))


_remembered: WeakKeyDictionary[Any, dict[Hashable, ThreadChoice]] = WeakKeyDictionary()
_latest: OrderedDict[Hashable, tuple[ThreadChoice, ref[Any] | None]] = OrderedDict()
"""The latest choice for each kind of source and settings, and its source."""


def recall_choice(source: object, settings: Hashable, ahead: int) -> ThreadChoice:
    """The choice for a source under some settings: loaders made later continue with what earlier ones found.

    Some programs open the same files for each epoch. So a source that is new continues with the choice of the latest one of its kind, if that
    one is gone; else it begins with the same choice.
    """
    kind = (type(source), type(getattr(source, "node", None)), settings, ahead)
    held: ref[Any] | None = None
    try:
        choices = _remembered.setdefault(source, {})
        choice = choices.get((settings, ahead))
        held = ref(source)
    except TypeError:  # a source that cannot be hashed or weakly referenced
        choices, choice = {}, None
    if choice is None:
        earlier, owner = _latest.get(kind, (None, None))
        if earlier is None or owner is None or owner() is not None:
            choice = ThreadChoice(ahead, kept=None if earlier is None else earlier.kept)
        else:
            choice = earlier
        choices[settings, ahead] = choice
    _latest.pop(kind, None)  # Not ``move_to_end``: another thread may have removed it.
    _latest[kind] = choice, held
    if len(_latest) > MOST_KINDS:
        _latest.popitem(last=False)
    return choice
