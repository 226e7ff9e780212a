"""Work in parts: which rows or files a task gets, and results in the order of the parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from headrace.contracts.values import Indices
from headrace.writing.units import UNIT_BYTES

__all__ = ["TASKS_PER_CORE", "in_order", "parts_of"]

TASKS_PER_CORE = 4
"""So that the last tasks end at nearly the same time."""
Result = TypeVar("Result")


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
