"""The consumer's side of workers: sends jobs, returns their batches in order, and evaluates filters in them."""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from time import perf_counter_ns

import numpy as np

from headrace.contracts.protocols import Filter, HasFilters, offers
from headrace.errors import WorkerDied
from headrace.loading.jobs import Block
from headrace.loading.rounds import BatchRun
from headrace.loading.workers.child import JobOrder, JobResult, Makes
from headrace.loading.workers.pool import StartMethod, Worker, WorkerCrew, unpickling_error
from headrace.loading.workers.transfer import Lending, Slots, room_of, unpack

__all__ = ["WorkerPrefetcher", "evaluate_filters"]


LENT = 3
"""Slots that the consumer may hold: the current batch, the one before, and one that is still in use."""
LOOK_MS = 500
"""How often to check that silent workers live. Normally a closed connection shows it at once."""


class WorkerPrefetcher(Iterator[Block]):
    """The blocks of runs in order, made by processes.

    Args:
        runs: What to make. Read in the consumer's thread, at most ``ahead`` in advance.
        maker: Makes blocks in the workers.
        finish: The last step on a block, in this process.
        workers: How many processes.
        ahead: How many runs may start before their blocks are asked for; at least one for each worker.
        method: How to start the processes.
        early: Finish the next block before returning one, if it has arrived: for copies that run in the background.
    """

    helped_ns = 0
    """The consumer makes no batches itself."""

    def __init__(
        self,
        runs: Iterator[BatchRun],
        *,
        maker: Makes,
        finish: Callable[[Block], Block],
        workers: int,
        ahead: int,
        method: StartMethod | None,
        early: bool = False,
    ) -> None:
        self._runs = runs
        self._early = early
        self._prepared: Block | BaseException | None = None
        self._finish = finish
        self._ahead = max(ahead, workers)
        slots = self._ahead + LENT
        room = room_of(slots)
        self._crew = WorkerCrew(maker, workers, method, room)
        self._slots = Slots(os.dup(self._crew.segment), room)
        self._lending = Lending(self._slots, slots, LENT)
        self._poll = select.poll()
        self._living = {worker.connection.fileno(): worker for worker in self._crew.workers}
        for descriptor in self._living:
            self._poll.register(descriptor, select.POLLIN)
        self._given: dict[int, JobOrder] = {}
        self._answers: dict[int, tuple[Worker, JobResult]] = {}
        self._lost: dict[int, WorkerDied] = {}
        self._next_given = self._next_taken = 0

    def __next__(self) -> Block:
        prepared, self._prepared = self._prepared, None
        if isinstance(prepared, BaseException):
            raise prepared
        block = prepared or self._following()
        if self._early:
            self._prepare()
        return block

    def _prepare(self) -> None:
        self._collect(0)
        if self._next_taken in self._answers:
            try:
                self._prepared = self._following()
            except BaseException as error:  # noqa: BLE001 - raised in order
                self._prepared = error

    def _following(self) -> Block:
        """Wait for the next block."""
        self._collect(0)
        self._give()
        number = self._next_taken
        while number not in self._answers:
            if number in self._lost:
                raise self._lost[number]
            if number == self._next_given:
                raise StopIteration
            self._collect(LOOK_MS)
        block = self._block(self._given.pop(number), *self._answers.pop(number))
        self._next_taken += 1
        self._give()
        return self._finish(block)

    def _give(self) -> None:
        """Start as many runs as permitted, each by the worker with the fewest."""
        while self._next_given - self._next_taken < self._ahead and not self._lost:
            run = next(self._runs, None)
            if run is None:
                return
            order = JobOrder(self._next_given, self._lending.take(), run)
            self._given[order.number] = order
            self._next_given += 1
            worker = min(self._living.values(), key=lambda worker: len(worker.orders))
            worker.orders.append(order)
            try:
                worker.connection.send(order)
            except OSError:
                self._bury(worker)

    def _collect(self, wait_ms: int) -> None:
        """Take the results of workers; wait up to ``wait_ms`` for the first."""
        ready = self._poll.poll(wait_ms)
        for descriptor, _ in ready:
            worker = self._living[descriptor]
            try:
                answer: JobResult = worker.connection.recv()
            except (EOFError, OSError):
                self._bury(worker)
            else:
                self._take(worker, answer)
        if wait_ms and not ready:
            for worker in list(self._living.values()):
                if not worker.process.is_alive():
                    self._bury(worker)

    def _take(self, worker: Worker, answer: JobResult) -> None:
        if answer.number < 0:
            assert answer.error is not None
            raise unpickling_error(str(worker), answer.error.restore(str(worker)))
        worker.orders = [order for order in worker.orders if order.number != answer.number]
        self._answers[answer.number] = worker, answer

    def _bury(self, worker: Worker) -> None:
        """A worker has ended: its jobs are lost, which is raised in order."""
        descriptor = worker.connection.fileno()
        del self._living[descriptor]
        self._poll.unregister(descriptor)
        job = _describe_run(worker.orders[0].job) if worker.orders else ""
        error = WorkerDied(f"{worker} {worker.end_of()}{job}. {worker.hint()}")
        self._lost.update((order.number, error) for order in worker.orders)
        # No more jobs are started. Earlier results are still returned.
        self._lost.setdefault(self._next_given, error)

    def _block(self, order: JobOrder, worker: Worker, answer: JobResult) -> Block:
        if answer.stop is not None:
            raise answer.stop.restore(str(worker))
        begun = perf_counter_ns()
        if answer.packed is None:
            self._lending.give_back(order.slot)
            batches = []
        else:
            total, room = answer.packed.total, answer.packed.room
            batches = unpack(answer.packed, self._lending.bytes_of(order.slot, total, room))
        failure = None if answer.error is None else answer.error.restore(str(worker))
        assert failure is None or isinstance(failure, Exception)
        return Block(
            order.job,
            batches,
            failure,
            bytes=answer.bytes,
            reading_ns=answer.reading_ns,
            transform_ns=answer.transform_ns,
            carrying_ns=answer.carrying_ns + perf_counter_ns() - begun,
        )

    def close(self, *, wait: bool = True) -> None:
        """End the workers and wait for their end."""
        self._runs = iter(())
        self._given.clear()
        self._answers.clear()
        self._lost.clear()
        self._prepared = None
        try:
            self._crew.close(at_once=not wait)
        finally:
            self._lending.close()
            self._slots.close()

    def __del__(self) -> None:
        if hasattr(self, "_lending"):
            self.close(wait=False)


def _describe_run(run: BatchRun) -> str:
    """A run in words, for messages."""
    last = run.number + run.batches - 1
    batches = f"batch {run.number}" if run.batches == 1 else f"batches {run.number} to {last}"
    stop = run.positions(run.batches - 1)[1]
    return f" while it made {batches} of epoch {run.epoch} (positions {run.begin} to {stop})"


PARTS = 16
"""The parts of each worker's share, so that all workers end at about the same time."""


@dataclass(frozen=True, slots=True)
class FilterEvaluator:
    """Finds the examples that a filter keeps. It has the interface of a batch maker."""

    filtered: Filter

    def prepare(self) -> None:
        """As that of :class:`~headrace.loading.jobs.BatchMaker`."""
        with suppress(BaseException):
            _ = self.filtered.schema

    def make(self, run: BatchRun) -> Block:
        """The kept indices among the positions of a run, as its one batch."""
        try:
            return Block(run, [self.filtered.kept_in(*run.positions(0))])
        except Exception as error:  # noqa: BLE001 - raised in the consumer's process, in its turn
            return Block(run, [], error)


def evaluate_filters(source: object, workers: int, method: StartMethod | None) -> None:
    """Evaluate the filters of a source in workers, if they have not been evaluated yet.

    A source without :class:`HasFilters` evaluates its filters in this process, when its length is asked for.

    Raises:
        TransformError: of the first example for which a predicate fails, as without workers.
    """
    for filtered in source.filters() if offers(source, HasFilters) else ():
        processes = WorkerPrefetcher(
            _filter_runs(len(filtered.parent), workers * PARTS),
            maker=FilterEvaluator(filtered),
            finish=_raise_error,
            workers=workers,
            ahead=2 * workers,
            method=method,
        )
        try:
            found = [np.array(block.batches[0]) for block in processes]
        finally:
            processes.close()
        filtered.keep(np.concatenate([np.zeros(0, np.int64), *found]))


def _filter_runs(n: int, count: int) -> Iterator[BatchRun]:
    size = max(-(-n // count), 1)
    for number, begin in enumerate(range(0, n, size)):
        yield BatchRun(0, number, begin, size, begin, min(size, n - begin), 1, is_last=begin + size >= n)


def _raise_error(block: Block) -> Block:
    if block.error is not None:
        raise block.error
    return block
