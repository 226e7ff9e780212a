"""Sweeps over many cases, such as every byte of a file. `make test` takes some of them, `make test-sweeps` all: HEADRACE_SWEEPS=all.

It decides how many examples hypothesis makes, too (``conftest.py``).
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable
from typing import TypeVar

__all__ = ["TAKES_ALL", "some_of"]

Case = TypeVar("Case")

TAKES_ALL: bool = os.environ.get("HEADRACE_SWEEPS") == "all"
STEPS = (1, 5, 7, 11)
"""Primes, because what is done to a file alternates between two, three, four or nine kinds of damage."""
LEAST = 24


def some_of(cases: Iterable[Case], least: int = LEAST) -> list[Case]:
    """Some cases of a sweep, at least so many and every eleventh, in their order. Each test begins with another one.

    >>> len(some_of(range(100))), len(some_of(range(1000)))
    (100, 91)
    """
    found = list(cases)
    step = 1 if TAKES_ALL else max(step for step in STEPS if step == 1 or step * least <= len(found))
    test = os.environ.get("PYTEST_CURRENT_TEST", "").partition(" ")[0]
    return found[zlib.crc32(test.encode()) % step :: step]
