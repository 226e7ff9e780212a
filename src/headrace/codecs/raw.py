"""Payloads as they are, and what all codecs check alike."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace._faults import describe
from headrace.contracts.feature import Encoding, Feature
from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Example
from headrace.errors import DataError, NoSuchFeature, SchemaMismatch, Where

__all__ = ["RawCodec", "all_faults", "refuse_missing"]


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


class RawCodec:
    """One feature, ``record``: the payload's bytes.

    Args:
        encoding: What image every payload is, where they are images.
    """

    name = "raw"

    def __init__(self, encoding: Encoding | None = None) -> None:
        self.schema = Schema({"record": Feature("bytes", encoding=encoding)})

    def decode_batch(self, spans: _native.Spans) -> Batch:
        """The payloads of ``n`` records as an object array ``(n,)`` of ``bytes``.

        Raises:
            CorruptRecord: A checksum is wrong; ``where.record`` is the position in ``spans``.
        """
        try:
            payloads = spans.to_bytes()
        except _native.FormatError as error:
            raise describe(error, Where(record=error.record)) from error
        column = np.empty(len(payloads), object)
        column[:] = payloads
        return {"record": column}

    def encode_batch(
        self, batch: Mapping[str, Any], n: int, head: int, tail: int, align: int = 1
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Lay ``n`` payloads out with room for frames: ``head`` bytes before each, ``tail`` and padding behind.

        Raises:
            NoSuchFeature, SchemaMismatch: There is no column ``record`` of ``n`` payloads.
        """
        if "record" not in batch:
            raise NoSuchFeature(Where(), expected="the feature 'record'", found=f"the features {list(batch)}")
        payloads = [_bytes_of(value, i) for i, value in enumerate(batch["record"])]
        if len(payloads) != n:
            raise SchemaMismatch(Where(feature="record"), expected=f"{n} payloads", found=str(len(payloads)))
        sizes = np.array([len(payload) for payload in payloads], np.int64)
        steps = head + -(-sizes // align) * align + tail
        starts = np.cumsum(steps) - steps + head
        block = np.zeros(int(steps.sum()), np.uint8)
        for payload, start, size in zip(payloads, starts, sizes, strict=True):
            block[start : start + size] = np.frombuffer(payload, np.uint8)
        return block, starts, sizes

    def decode(self, payload: Any) -> Example:
        """One payload as an example."""
        return {"record": bytes(payload)}

    def narrowed(self, names: tuple[str, ...]) -> RawCodec:
        """There is one feature, so this codec."""
        _ = self.schema.select(names)
        return self

    def faults_in(self, spans: _native.Spans) -> list[DataError]:
        """Payloads whose checksum is wrong; any bytes are a good payload otherwise."""
        return all_faults(self.decode_batch, spans)

    def __repr__(self) -> str:
        return "RawCodec()"


def _bytes_of(value: Any, position: int) -> memoryview:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise SchemaMismatch(Where(record=position, feature="record"), expected="bytes", found=type(value).__name__)
    view = memoryview(value)
    return view.cast("B") if view.c_contiguous and view.nbytes else memoryview(bytes(view))
