"""Filters evaluated by workers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from headrace.contracts.protocols import Filter, HasFilters
from headrace.loading.making import Block
from headrace.loading.plan import Run
from headrace.loading.workers.processes import Processes
from headrace.loading.workers.start import StartMethod

__all__ = ["evaluate_filters"]

PARTS = 16
"""Into how many parts a worker's share is cut, so that all of them end at about the same time."""


@dataclass(frozen=True, slots=True)
class Finder:
    """Finds what a filter keeps; what makes batches for a loop has the same face."""

    filtered: Filter

    def make(self, run: Run) -> Block:
        """The kept indices among the positions of a run, as its one batch."""
        try:
            return Block(run, [self.filtered.kept_in(*run.positions(0))])
        except Exception as error:  # noqa: BLE001 - raised in the consumer's process, in its turn
            return Block(run, [], error)


def evaluate_filters(source: object, workers: int, method: StartMethod | None) -> None:
    """Have workers find what the filters of a source keep, where that is not known yet.

    A source without :class:`HasFilters` evaluates its filters in this process, when its length is asked for.

    Raises:
        TransformError: of the first example for which a predicate fails, as without workers.
    """
    for filtered in source.filters() if isinstance(source, HasFilters) else ():
        processes = Processes(
            _parts(len(filtered.parent), workers * PARTS),
            maker=Finder(filtered),
            finish=_raised,
            workers=workers,
            ahead=2 * workers,
            method=method,
        )
        try:
            found = [np.array(block.batches[0]) for block in processes]
        finally:
            processes.close()
        filtered.keep(np.concatenate([np.zeros(0, np.int64), *found]))


def _parts(n: int, count: int) -> Iterator[Run]:
    size = max(-(-n // count), 1)
    for number, begin in enumerate(range(0, n, size)):
        yield Run(0, number, begin, size, begin, min(size, n - begin), 1, is_last=begin + size >= n)


def _raised(block: Block) -> Block:
    if block.error is not None:
        raise block.error
    return block
