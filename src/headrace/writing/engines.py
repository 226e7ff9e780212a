"""Work in pieces: what each gets, and where it runs: in threads of this process, or as tasks on a Ray cluster. Your own engine needs two methods."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self, TypeAlias, TypeVar, cast, runtime_checkable

from headrace._ray.cluster import Cluster, Shared
from headrace._ray.connection import connect
from headrace.contracts.values import Indices
from headrace.io.progress import say
from headrace.io.system import usable_cores
from headrace.io.threads import ConsumerContext, ThreadPool
from headrace.writing.units import UNIT_BYTES

__all__ = [
    "TASKS_PER_CORE",
    "EngineTask",
    "On",
    "RayTasks",
    "TaskEngine",
    "Threads",
    "cores_of",
    "free_cores_of_node",
    "in_order",
    "open_engine",
    "parts_of",
]

TASKS_PER_CORE = 4
"""So that the last tasks end at nearly the same time."""
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class EngineTask:
    """One piece of work: a call that can be pickled, made in another process, and made twice.

    Args:
        function: One of a module.
        common: Its first argument, the same object for many pieces.
        part: Its second argument, which differs.
    """

    function: Callable[[Any, Any], Any]
    common: Any
    part: Any

    def __call__(self) -> Any:
        """Do it. Returns the result, which can be pickled too."""
        return self.function(self.common, self.part)


@runtime_checkable
class TaskEngine(Protocol):
    """Runs pieces of work. The machines that do so must see the same files, under the same paths."""

    def submit(self, work: EngineTask, /) -> None:
        """Add a piece of work, a call without arguments. It may begin now or later."""

    def finished(self) -> Iterator[Any]:
        """The results of what was submitted, in any order, until all is done.

        Raises:
            Exception: What a piece of work raised. Nothing else is begun, and what runs has ended.
        """


On: TypeAlias = Literal["threads", "ray"] | TaskEngine
"""What the argument ``on`` of :func:`headrace.convert` takes."""


@contextmanager
def open_engine(on: On, threads: int | None = None) -> Iterator[TaskEngine]:
    """The engine that ``on`` names, for a while.

    Args:
        on: ``"threads"``, ``"ray"``, or an engine, which is used as it is.
        threads: How many pieces run at once; by default one per core, and on Ray two tasks per core are begun.

    Raises:
        ValueError, TypeError: ``on`` is none of those.
        MissingExtra, Unreachable: There is no Ray, or no cluster.
    """
    if on == "threads":
        with Threads(threads or usable_cores()) as local:
            yield local
    elif on == "ray":
        with connect(object_store_bytes=100 << 20) as cluster:
            yield RayTasks(cluster, threads)
    elif isinstance(on, str):
        raise ValueError(f"on is 'threads', 'ray' or an engine, got {on!r}")
    elif isinstance(on, TaskEngine):
        yield on
    else:
        raise TypeError(f"on is 'threads', 'ray' or an object with submit and finished, got {type(on).__name__}")


class Threads:
    """Runs pieces of work in threads of this process.

    Args:
        count: How many at once: ``cores``.
    """

    def __init__(self, count: int) -> None:
        self.cores = count
        self._pool = ThreadPool(count, thread_name_prefix="headrace-work", context=ConsumerContext())
        self._waiting: list[Future[Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def submit(self, work: EngineTask, /) -> None:
        self._waiting.append(self._pool.submit(work))

    def finished(self) -> Iterator[Any]:
        waiting, self._waiting = self._waiting, []
        try:
            for done in as_completed(waiting):
                yield done.result()
        except BaseException:
            self._pool.shutdown(wait=True, cancel_futures=True)
            raise


LOOK_S = 5.0
"""How often the size of the cluster is asked for: nodes come and go."""
SILENCE_S = 60.0
"""Seconds without a result after which a message names the work that is waited for."""
END_S = 20.0
"""How long tasks may take to end after an error."""


class RayTasks:
    """Runs pieces of work as tasks of one core. Lost ones are begun again elsewhere.

    What pieces have in common is sent once to each node. Only twice as many tasks as the cluster has cores are under way.

    Args:
        cluster: An open connection.
        most: How many are under way, if not twice the cores.
    """

    def __init__(self, cluster: Cluster, most: int | None = None) -> None:
        self.cluster = cluster
        self._most = most
        self._left: deque[EngineTask] = deque()
        self._shared: tuple[Any, Shared] | None = None
        self._window = 0
        self._looked = 0.0

    def submit(self, work: EngineTask, /) -> None:
        self._left.append(work)

    def finished(self) -> Iterator[Any]:
        waiting: list[Any] = []
        since = time.monotonic()
        try:
            while self._left or waiting:
                while self._left and len(waiting) < self._in_flight():
                    waiting.append(self._begin(self._left.popleft()))
                done, waiting = self.cluster.ray.wait(waiting, num_returns=1, timeout=LOOK_S)
                for reference in done:
                    yield self.cluster.result(reference)
                since = time.monotonic() if done else self._explain_silence(since, len(waiting))
        finally:
            self._left.clear()
            self._end(waiting)

    def _in_flight(self) -> int:
        if self._most is not None:
            return self._most
        if not self._window or time.monotonic() - self._looked > LOOK_S:
            self._window, self._looked = 2 * self.cluster.cpus(), time.monotonic()
        return self._window

    def _begin(self, work: EngineTask) -> Any:
        if self._shared is None or self._shared[0] is not work.common:
            self._shared = work.common, self.cluster.share(work.common)
        return self.cluster.submit(work.function, work.part, common=self._shared[1])

    def _explain_silence(self, since: float, waiting: int) -> float:
        """Say why nothing goes on, once a minute. A cluster that grows by itself may still get nodes."""
        if time.monotonic() - since < SILENCE_S:
            return since
        total = sum(node.cpus for node in self.cluster.nodes())
        free = self.cluster.ray.available_resources().get("CPU", 0.0)
        if not total:
            say("no node of the Ray cluster has a core; waiting for one")
        elif free < 1:
            say(
                f"waiting for {waiting} tasks: all {total:g} cores of the Ray cluster are in use (`ray status` shows by what)"
            )
        return time.monotonic()

    def _end(self, waiting: list[Any]) -> None:
        """After an error or Ctrl-C: tasks end before their files are removed."""
        if not waiting or not self.cluster.ray.is_initialized():
            return
        for reference in waiting:
            self.cluster.ray.cancel(reference)
        self.cluster.ray.wait(waiting, num_returns=len(waiting), timeout=END_S)


def cores_of(engine: TaskEngine) -> int:
    """How many pieces of work an engine does at once, as far as known."""
    if isinstance(engine, RayTasks):
        return engine.cluster.cpus()
    return cast("int", getattr(engine, "cores", usable_cores()))


def free_cores_of_node(engine: TaskEngine) -> int:
    """How many cores of one machine are free now, as far as known, at least 1. Others may take them later, so no task waits for several."""
    if not isinstance(engine, RayTasks):
        return 1
    most = max((node.cpus for node in engine.cluster.nodes()), default=1)
    return max(1, int(min(most, engine.cluster.ray.available_resources().get("CPU", 1))))


def parts_of(picked: Indices, each_bytes: int, total: int, cores: int) -> list[Indices | range]:
    """The examples of each task: enough to take seconds, and few enough to occupy all cores.

    Args:
        picked: The examples to read, in order.
        each_bytes: About how many bytes an example has.
        total: How many there are.
        cores: How many tasks run at once.
    """
    by_size = max(1, UNIT_BYTES // max(each_bytes, 1))
    by_cores = -(-len(picked) // (TASKS_PER_CORE * cores)) or 1
    step = min(by_size, by_cores)
    is_all = len(picked) == total  # then two numbers say which
    return [
        range(at, min(at + step, len(picked))) if is_all else picked[at : at + step]
        for at in range(0, len(picked), step)
    ]


def in_order(results: Iterable[tuple[int, Result]]) -> Iterator[Result]:
    """Results of numbered parts, 0, 1, 2, ..., in that order. Those that come early wait."""
    waiting: dict[int, Result] = {}
    following = 0
    for number, result in results:
        waiting[number] = result
        while following in waiting:
            yield waiting.pop(following)
            following += 1
