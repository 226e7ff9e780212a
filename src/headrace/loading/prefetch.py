"""Threads that run jobs ahead of their consumer, and return the results in order.

Passing work between threads costs more than making a small batch, because a sleeping thread takes tens of microseconds to
wake. So nothing here polls, and sleeping is the last resort. A consumer that would have to wait works instead: it takes
the next job that no thread has started, which is often the one it needs. Only if all jobs are running does it sleep, on a
plain lock that a thread releases. Before it sleeps, it joins the decoding of images that threads have begun, and so does a thread that finds no
job: at the end of an epoch of large batches, a core would be idle for up to a whole batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain
from queue import Empty, SimpleQueue
from threading import Lock, Thread, current_thread, main_thread
from time import monotonic, perf_counter_ns
from typing import Any, Generic, TypeVar

from headrace import _native
from headrace._arguments import check_integer
from headrace.io.system import as_pool_thread, usable_cores
from headrace.io.threads import FORKS, ConsumerContext, start_thread
from headrace.loading.thread_choice import ThreadChoice

__all__ = ["OneThread", "Prefetcher", "count_threads", "join_ending"]

MAX_THREADS = 16
ENDING_S = 10.0
_ending: deque[Thread] = deque(maxlen=256)
"""Threads of loops that were left: they end after their current job."""


T = TypeVar("T")
Job = Callable[[], T]


class Task(Generic[T]):
    """One job and, once ``done`` can be acquired, its value or error, or a mark that no thread will run it."""

    __slots__ = ("done", "dropped", "error", "job", "value")

    def __init__(self, job: Job[T]) -> None:
        self.job: Job[T] = job
        self.dropped: bool = False
        self.value: T | None = None
        self.error: BaseException | None = None
        self.done = Lock()
        self.done.acquire()

    def run(self) -> None:
        """Run the job. Called once, by the thread that took the task."""
        try:
            self.value = self.job()
        except BaseException as error:  # noqa: BLE001 - raised in the consumer
            self.error = error
        self.done.release()

    def drop(self) -> None:
        """Leave the job to the consumer, if it requests the result."""
        self.dropped = True
        self.done.release()

    def result(self) -> T:
        """Return the value or raise the error. Called once: the task drops it, so that a traceback makes no cycle."""
        if self.dropped:
            return self.job()
        error, self.error = self.error, None
        if error is not None:
            try:
                raise error
            finally:
                del error
        value, self.value = self.value, None
        return value  # type: ignore[return-value]


def count_threads(threads: int | None) -> int:
    """How many threads a loader has: as many as asked for, by default one fewer than there are cores."""
    if threads is None:
        return min(max(usable_cores() - 1, 1), MAX_THREADS)
    return check_integer(threads, "threads")


Tasks = SimpleQueue[Task[T] | None]


class OneThread:
    """A part of the program for one thread at a time. Another one that enters meanwhile gets an error, as a generator raises it."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = Lock()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise RuntimeError(
                "expected one thread at a time to use an iterator of a loader, found two. Batches may be missing: "
                "give each thread an iterator of its own, or take batches in one thread and pass them on in a queue.Queue"
            )

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class ThreadCrew(Generic[T]):
    """Threads that run tasks from a queue until they find ``None``.

    Args:
        most: The most threads. The first one starts now, the others by :meth:`add_thread`.
        context: Runs their functions.
    """

    def __init__(self, most: int, context: ConsumerContext) -> None:
        self._most = most
        self._context = context
        self._tasks: Tasks[T] = SimpleQueue()
        self._dismissed = False
        self._forks = FORKS.count
        self._threads: list[Thread] = []
        self.add_thread()

    def add_thread(self) -> None:
        """Start one more thread, up to the most. Called before each task, so that there are no more threads than tasks.

        Raises:
            RuntimeError: Not even one thread can start.
        """
        count = len(self._threads)
        if count >= self._most or self._dismissed:
            return
        try:
            self._threads.append(
                start_thread(self._context.run, _work, self._tasks, name=f"headrace-{count}", stop=self.dismiss)
            )
        except RuntimeError:  # the system allows no more, or the main thread has ended
            self._most = count
            if not count:
                self.dismiss()
                raise
        except BaseException:
            self.dismiss()
            raise

    def give(self, task: Task[T]) -> None:
        """Queue a task, unless the threads have been dismissed."""
        if self._dismissed:
            task.drop()
        else:
            self._tasks.put(task)

    def take(self) -> Task[T] | None:
        """A task that has not started, or ``None``."""
        try:
            task = self._tasks.get_nowait()
        except Empty:
            return None
        if task is None:  # meant for the threads
            self._tasks.put(None)
        return task

    def dismiss(self) -> None:
        """End the threads after their current tasks, and drop the others. A second call does nothing."""
        if self._forks != FORKS.count:
            return  # These are the parent's threads, and one may have held the queue's lock.
        self._dismissed = True
        while (task := self.take()) is not None:
            task.drop()
        self._tasks.put(None)  # each thread passes it on to the next

    def join(self) -> None:
        """Wait until the threads have ended."""
        if self._forks == FORKS.count:
            for thread in self._threads:
                if thread is not current_thread():
                    thread.join()

    def leave(self) -> None:
        """Let the threads end by themselves."""
        if self._forks == FORKS.count:
            _ending.extend(self._threads)


def join_ending() -> None:
    """Wait for threads of loops that were left, but no longer than ``ENDING_S``: a user's function may never return."""
    until = monotonic() + ENDING_S
    while _ending and (left := until - monotonic()) > 0:
        with suppress(IndexError, ValueError):  # Another thread has waited for it, too.
            thread = _ending[0]
            if thread is not current_thread():
                thread.join(left)
            _ending.remove(thread)


def _work(tasks: Tasks[T]) -> None:
    while (task := _wait_for(tasks)) is not None:
        task.run()
        del task  # a sleeping thread must not keep a batch alive
    tasks.put(None)


def _wait_for(tasks: Tasks[T]) -> Task[T] | None:
    """The next task. While there is none, this thread decodes images of batches that others have begun."""
    while tasks.empty() and _native.join_loop():
        pass
    return tasks.get()


class Prefetcher(Iterator[T]):
    """The results of jobs in order, some of them computed in advance.

    Args:
        jobs: The jobs. Consumed in the consumer's thread, at most ``ahead`` in advance.
        threads: The number of threads. 0: everything happens in ``next()``.
        ahead: How many jobs may start before their results are requested, or what says so before each result.
        helping: Whether the consumer works instead of waiting. Off if jobs must run sequentially.
        choice: Decides for each job whether it is given to the threads. ``None``: all are.
        inline: How the consumer makes the result of a job that is not given to the threads. ``None``: by calling it.
    """

    def __init__(
        self,
        jobs: Iterator[Job[T]],
        *,
        threads: int,
        ahead: int | Callable[[], int],
        helping: bool = True,
        choice: ThreadChoice | None = None,
        inline: Callable[[Any], T] | None = None,
    ) -> None:
        self._jobs = jobs
        self._threads = threads if ahead else 0
        self._ahead = ahead
        self._helping = helping
        self._choice = choice
        self._make = inline
        self._context = ConsumerContext()  # A prefetcher is made where a loop begins.
        self._crew: ThreadCrew[T] | None = None
        self._given: deque[Task[T]] = deque()
        self.blocked_ns: int = 0
        """How long the consumer has slept."""
        self.helped_ns: int = 0
        """How long the consumer itself has worked."""
        self.by_threads: bool = False
        """Whether the last result is that of a job given to the threads."""

    def __next__(self) -> T:
        gives = self._threads and (self._choice is None or self._choice.uses_threads)
        if not self._given:
            if gives:
                self._give(1)
            if not gives or not self._threads:
                self.by_threads = False
                return self._inline()
            if not self._given:
                raise StopIteration
        task = self._given.popleft()
        self.by_threads = True
        if gives:
            self._give(self._ahead if isinstance(self._ahead, int) else self._ahead())
        self._finish(task)
        return task.result()

    def _inline(self) -> T:
        job = next(self._jobs)
        begun = perf_counter_ns()
        try:
            return job() if self._make is None else self._make(job)
        finally:
            self.helped_ns += perf_counter_ns() - begun

    def _give(self, count: int) -> None:
        """Queue jobs until ``count`` are queued, running or waiting for the consumer."""
        while len(self._given) < count:
            job = next(self._jobs, None)
            if job is None:
                return
            crew = self._crew
            if crew is None:
                try:
                    crew = self._crew = ThreadCrew(self._threads, self._context)
                except RuntimeError:
                    if main_thread().is_alive():
                        raise
                    # From Python 3.12 on, no thread starts once the main one has ended. Then this thread runs all jobs.
                    self._jobs, self._threads = chain([job], self._jobs), 0
                    return
            else:
                crew.add_thread()
            task = Task(job)
            self._given.append(task)
            crew.give(task)

    def _finish(self, task: Task[T]) -> None:
        """Wait until the task is done: first by working, then by sleeping."""
        if task.done.acquire(blocking=False):
            return
        begun = perf_counter_ns()
        if (self._helping and self._help_until(task)) or self._join_until(task):
            self.helped_ns += perf_counter_ns() - begun
            return
        helped = perf_counter_ns()
        self.helped_ns += helped - begun
        task.done.acquire()
        self.blocked_ns += perf_counter_ns() - helped

    def _help_until(self, task: Task[T]) -> bool:
        """Run tasks that no thread has started, until ``task`` is done (true) or none are left (false)."""
        crew = self._crew
        while crew is not None and (other := crew.take()) is not None:
            with as_pool_thread():
                other.run()
            if other.error is not None and not isinstance(other.error, Exception):
                raise other.error  # A KeyboardInterrupt is raised now, not in place of a batch.
            if task.done.acquire(blocking=False):
                return True
        return False

    def _join_until(self, task: Task[T]) -> bool:
        """Decode images of batches that threads have begun, until ``task`` is done (true) or none are left (false)."""
        while _native.join_loop():
            if task.done.acquire(blocking=False):
                return True
        return False

    def close(self, *, wait: bool = True) -> None:
        """Stop the threads; with ``wait``, return when they have ended."""
        crew, self._crew = self._crew, None
        self._jobs = iter(())
        self._given.clear()
        if crew is not None:
            crew.dismiss()
            if wait:
                crew.join()
            else:
                crew.leave()

    def __del__(self) -> None:
        # Garbage collection may run under any lock that a thread waits for, so never wait here.
        if hasattr(self, "_given"):
            self.close(wait=False)
