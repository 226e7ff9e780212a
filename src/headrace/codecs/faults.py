"""What codecs check alike: every fault in some payloads, where decoding stops at the first; columns that are not there."""

from __future__ import annotations

from collections.abc import Callable, Container

from headrace import _native
from headrace.contracts.schema import Schema
from headrace.errors import DataError, NoSuchFeature, Where

__all__ = ["all_faults", "refuse_missing"]


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


def refuse_missing(schema: Schema, batch: Container[str]) -> None:
    """Refuse a batch to write that lacks a feature.

    Raises:
        NoSuchFeature: names the first one.
    """
    missing = [name for name in schema if name not in batch]
    if missing:
        raise NoSuchFeature(Where(), expected=f"the features {list(schema)}", found=f"no {missing[0]!r}")
