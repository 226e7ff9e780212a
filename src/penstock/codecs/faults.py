"""Every fault in some payloads, where decoding stops at the first."""

from __future__ import annotations

from collections.abc import Callable

from penstock import _native
from penstock.errors import DataError, Where

__all__ = ["all_faults"]


def all_faults(decode: Callable[[_native.Spans], object], spans: _native.Spans) -> list[DataError]:
    """One error for each bad payload, in order, ``where.record`` being its position.

    Args:
        decode: Raises for the first bad payload, with its position in what it was given.
        spans: The payloads.
    """
    faults: list[DataError] = []
    start = 0
    while start < len(spans):
        try:
            decode(spans.part(start, len(spans)))
            break
        except DataError as error:
            position = start + (error.where.record or 0)
            faults.append(error.relocated(Where(record=position)))
            start = position + 1
    return faults
