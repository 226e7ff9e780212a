"""Jobs run ahead of their consumer by threads, their results handed out in order.

Handing work from thread to thread costs more than a small batch does: a sleeping thread takes tens of microseconds to wake.
So nothing here polls, and sleeping is the last resort. A consumer that would have to wait works instead: it takes the next
job that nobody has begun, which is often the very one it needs. Only when every job within reach is in the hands of some
thread does it sleep, on a plain lock that the thread releases.
"""

from __future__ import annotations

import atexit
import os
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from threading import Lock, Thread, current_thread
from time import perf_counter_ns
from typing import Generic, TypeVar

from penstock import _native
from penstock.io.cores import among_others

__all__ = ["Ahead", "fork_count"]

T = TypeVar("T")
Job = Callable[[], T]


class Task(Generic[T]):
    """One job and, once ``done`` can be acquired, its value or its error."""

    __slots__ = ("done", "error", "job", "value")

    def __init__(self, job: Job[T]) -> None:
        self.job = job
        self.value: T | None = None
        self.error: BaseException | None = None
        self.done = Lock()
        self.done.acquire()

    def run(self) -> None:
        """Do the job; called once, by whoever took the task from the queue."""
        try:
            self.value = self.job()
        except BaseException as error:  # noqa: BLE001 - whatever it is belongs to the consumer
            self.error = error
        self.done.release()

    def result(self) -> T:
        """The value, or the error raised. Called once: the task lets go of it, so that a traceback makes no cycle."""
        error, self.error = self.error, None
        if error is not None:
            try:
                raise error
            finally:
                del error
        value, self.value = self.value, None
        return value  # type: ignore[return-value]


Tasks = SimpleQueue[Task[T] | None]


class Crew(Generic[T]):
    """Threads that take tasks from a queue until they find ``None`` there."""

    def __init__(self, threads: int) -> None:
        self.tasks: Tasks[T] = SimpleQueue()
        self.threads = [
            Thread(target=_work, args=(self.tasks,), name=f"penstock-{i}", daemon=True) for i in range(threads)
        ]
        self.forks = fork_count()
        _remember(self)
        for thread in self.threads:
            thread.start()

    def dismiss(self) -> None:
        """Let the threads end after what they are doing; what they have not begun is dropped."""
        if self.forks != fork_count():
            return  # The threads stayed behind in the parent, and one of them may have held the queue's lock.
        try:
            while True:
                self.tasks.get_nowait()
        except Empty:
            pass
        for _ in self.threads:
            self.tasks.put(None)

    def join(self) -> None:
        """Wait until the threads have ended."""
        if self.forks == fork_count():
            for thread in self.threads:
                if thread is not current_thread():
                    thread.join()


def _work(tasks: Tasks[T]) -> None:
    while (task := tasks.get()) is not None:
        task.run()
        del task  # While this thread sleeps it must not keep a batch alive.


class Ahead(Iterator[T]):
    """The results of jobs in order, some of them made before they are asked for.

    Args:
        jobs: The jobs. Drawn from in the consumer's thread, only as far as ``ahead`` reaches.
        threads: How many threads work. 0: everything happens in ``next()``.
        ahead: How many jobs may be begun before their results are asked for.
        helping: Whether the consumer works instead of waiting. Off where jobs must run one after the other.
    """

    def __init__(self, jobs: Iterator[Job[T]], *, threads: int, ahead: int, helping: bool = True) -> None:
        self._jobs = jobs
        self._threads = threads if ahead else 0
        self._ahead = ahead
        self._helping = helping
        self._crew: Crew[T] | None = None
        self._given: deque[Task[T]] = deque()
        self.blocked_ns = 0
        """How long the consumer has slept."""
        self.helped_ns = 0
        """How long the consumer has worked itself."""

    def __next__(self) -> T:
        if not self._threads:
            return self._inline()
        if not self._given:
            self._give(1)
            if not self._given:
                raise StopIteration
        task = self._given.popleft()
        self._give(self._ahead)
        self._finish(task)
        return task.result()

    def _inline(self) -> T:
        job = next(self._jobs)
        begun = perf_counter_ns()
        try:
            return job()
        finally:
            self.helped_ns += perf_counter_ns() - begun

    def _give(self, count: int) -> None:
        """Hand out jobs until ``count`` are with the threads or waiting for the consumer."""
        while len(self._given) < count:
            job = next(self._jobs, None)
            if job is None:
                return
            if self._crew is None:
                self._crew = Crew(self._threads)
            task = Task(job)
            self._given.append(task)
            self._crew.tasks.put(task)

    def _finish(self, task: Task[T]) -> None:
        """Return when the task is done: by working while there is work, then by sleeping."""
        if task.done.acquire(blocking=False):
            return
        begun = perf_counter_ns()
        if self._helping and self._help_until(task):
            self.helped_ns += perf_counter_ns() - begun
            return
        helped = perf_counter_ns()
        self.helped_ns += helped - begun
        task.done.acquire()
        self.blocked_ns += perf_counter_ns() - helped

    def _help_until(self, task: Task[T]) -> bool:
        """Work on what nobody has begun, until ``task`` is done (true) or nothing is left to begin (false)."""
        assert self._crew is not None
        take = self._crew.tasks.get_nowait
        while True:
            try:
                other = take()
            except Empty:
                return False
            assert other is not None
            with among_others():
                other.run()
            if other.error is not None and not isinstance(other.error, Exception):
                raise other.error  # A KeyboardInterrupt is meant for now, not for the batch that it came in.
            if task.done.acquire(blocking=False):
                return True

    def close(self, *, wait: bool = True) -> None:
        """Stop the threads; with ``wait``, return when they have ended."""
        crew, self._crew = self._crew, None
        self._jobs = iter(())
        self._given.clear()
        if crew is not None:
            crew.dismiss()
            if wait:
                crew.join()

    def __del__(self) -> None:
        # Collection can happen anywhere, under any lock that a thread may be waiting for: never wait here.
        if hasattr(self, "_given"):
            self.close(wait=False)


_forks = 0
_crews: weakref.WeakSet[Crew[object]] = weakref.WeakSet()


def fork_count() -> int:
    """How often this process and its ancestors were forked: threads and locks of another count are not ours."""
    return _forks


def _after_fork() -> None:
    global _forks, _crews  # noqa: PLW0603 - what a fork changes is the state of the process
    _forks += 1
    _crews = weakref.WeakSet()
    _native.pool_after_fork()


def _remember(crew: Crew[T]) -> None:
    """Have the crew dismissed before the interpreter goes down: a thread must not be inside native code then."""
    if not _crews:
        atexit.unregister(_dismiss_all)
        atexit.register(_dismiss_all)
    _crews.add(crew)  # type: ignore[arg-type]


def _dismiss_all() -> None:
    crews = list(_crews)
    for crew in crews:
        crew.dismiss()
    for crew in crews:
        crew.join()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
