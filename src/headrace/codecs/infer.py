"""Infer the codec and schema of records from a sample. Also holds the codec for raw records."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace._faults import describe
from headrace.codecs.example.columns import name_of
from headrace.codecs.values import all_faults
from headrace.contracts.feature import Encoding, Feature
from headrace.contracts.images import encoding_by_counts, encoding_of_most
from headrace.contracts.schema import Schema
from headrace.contracts.strings import Strings
from headrace.contracts.values import Batch, Example
from headrace.errors import DataError, NoSuchFeature, SchemaMismatch, Where

__all__ = ["Inference", "RawCodec", "find_lacking", "infer_payloads", "infer_schema", "payloads_of"]


NONE, BYTES, FLOAT, INT = range(4)


@dataclass(frozen=True, slots=True)
class Inference:
    """The result of inference.

    Attributes:
        codec: ``"example"`` or ``"raw"``.
        schema: Feature types.
        lists: Features that are feature lists of SequenceExamples.
        mixed: Features with integers in some records and floats in others, or with integers where the given schema says ``float64``; read
            as ``float64``.
        shared: Feature lists whose name a plain feature of some record has, too.
    """

    codec: str
    schema: Schema
    lists: frozenset[str] = frozenset()
    mixed: frozenset[str] = frozenset()
    shared: frozenset[str] = frozenset()


def infer_schema(
    blocks: Iterable[_native.Spans], *, given: Schema | None = None, only: Collection[str] | None = None
) -> Inference:
    """Infer the codec and schema of these records.

    Records are Examples (or SequenceExamples) if one has a feature with values and all before it are protobuf messages.
    Otherwise they are raw, and images if most of the first ones are. A later record that is not a message does not change that: it
    is an error when it is read.

    A feature with the same number of values in every record has that number as its shape (``()`` for one). If the number
    varies or is 0, or some records lack the feature, the shape is ``(None,)``. Feature lists have ``(None,)``,
    ``(None, k)`` or ``(None, None)`` for one, ``k`` or varying values per step. Bytes that are UTF-8 without control
    characters (except tab, line feed and carriage return) in every record are ``"str"``; bytes that begin like
    images in more than half of the values have the ``encoding`` of that kind, or ``"image"`` for several: the others are damaged. If a feature and a feature list share a name, the feature is called
    ``context/NAME``. Keys that never hold a list are omitted. Invalid UTF-8 in keys becomes lone surrogates, as in file
    names.

    Args:
        blocks: The sample. Without records, the schema is empty.
        given: The schema, if known. Then only the codec's other settings are inferred.
        only: The features that are wanted, if known. Others of several kinds are left out.

    Raises:
        CorruptRecord: The checksum of the very first record is wrong.
        SchemaMismatch: A wanted feature holds bytes in some records and numbers in others.
    """
    scanner = _native.ExampleScanner()
    first: _native.Spans | None = None
    for spans in blocks:
        first = first or spans
        try:
            scanner.add(spans)
        except _native.FormatError as error:
            if scanner.records == 0:
                raise describe(error, Where(record=error.record)) from error
            break  # Reading reports it with its location; the records before it determine the schema.
        if not scanner.is_message:
            break
    if scanner.records == 0 and scanner.is_message:
        return Inference("example", Schema({}) if given is None else given)
    keys = [key for key in scanner.keys if any(key["kinds"][BYTES:])]
    return (
        _examples(keys, scanner.records, given, only) if keys else Inference("raw", RawCodec(_image_kind(first)).schema)
    )


def _image_kind(spans: _native.Spans | None) -> Encoding | None:
    """The image kind of these payloads, if most are images. Damaged ones are left to the reader."""
    try:
        if spans is None:
            return None
        with _native.GuardedRead(spans):
            return encoding_of_most(spans.view(i) for i in range(len(spans)))
    except _native.FormatError:
        return None


def infer_payloads(payloads: Sequence[Any]) -> Inference:
    """Like :func:`infer_schema`, for payloads in memory."""
    return infer_schema([_native.spans_of_buffers(payloads)])


def find_lacking(spans: _native.Spans, key: str, records: Iterable[int]) -> list[int]:
    """Those of some records that lack a plain feature. An empty list is a value.

    Raises:
        CorruptRecord: A checksum is wrong; ``where.record`` is the position in ``spans``.
    """
    lacking = []
    for record in records:
        scanner = _native.ExampleScanner()
        try:
            scanner.add(spans.part(record, record + 1))
        except _native.FormatError as error:
            raise describe(error, Where(record=record)) from error
        found = (each for each in scanner.keys if not each["list"] and _name(each) == key)
        if not any(any(each["kinds"][BYTES:]) for each in found):
            lacking.append(record)
    return lacking


def _examples(
    keys: list[dict[str, Any]], records: int, given: Schema | None, only: Collection[str] | None
) -> Inference:
    lists = frozenset(_name(key) for key in keys if key["list"])
    named = {name_of(_name(key), lists) if lists and not key["list"] else _name(key): key for key in keys}
    shared = frozenset(_name(key) for key in keys if not key["list"]) & lists
    widened = {name for name, feature in ({} if given is None else given).items() if feature.dtype == "float64"}
    mixed = frozenset(
        name for name, key in named.items() if key["kinds"][INT] and (key["kinds"][FLOAT] or name in widened)
    )
    if given is None:
        wanted = [name for name in sorted(named) if only is None or name in only or not _differs(named[name])]
        given = Schema({name: _feature(name, named[name], records) for name in wanted})
    return Inference("example", given, lists, mixed, shared)


def _name(key: dict[str, Any]) -> str:
    return bytes(key["name"]).decode(errors="surrogateescape")


def _feature(name: str, key: dict[str, Any], records: int) -> Feature:
    dtype, encoding = _dtype(name, key)
    return Feature(dtype, _shape(key, records), encoding=encoding, steps=bool(key["list"]))


def _shape(key: dict[str, Any], records: int) -> tuple[int | None, ...]:
    same = key["fewest"] == key["most"]
    count = () if key["most"] == 1 else (key["most"],)
    if key["list"]:
        return (None, *count) if same and key["most"] else (None, None)
    everywhere = key["records"] == records
    return count if same and everywhere and key["most"] else (None,)


def _differs(key: dict[str, Any]) -> bool:
    """Whether a feature holds bytes in some records and numbers in others."""
    kinds = key["kinds"]
    return bool(kinds[BYTES] and (kinds[FLOAT] or kinds[INT]))


def _dtype(name: str, key: dict[str, Any]) -> tuple[str, Any]:
    kinds = key["kinds"]
    if _differs(key):
        raise SchemaMismatch(
            Where(feature=name),
            expected="one kind of values in all records",
            found=f"bytes in {kinds[BYTES]}, floats in {kinds[FLOAT]}, integers in {kinds[INT]}",
            hint="Give a schema without it, or read the records with codec='raw'.",
        )
    if not kinds[BYTES]:
        return ("int64" if not kinds[FLOAT] else "float64" if kinds[INT] else "float32"), None
    encoding = encoding_by_counts(key["texts"], key["images"])
    if encoding is not None:
        return "bytes", encoding
    return ("str" if key["plain_text"] and key["texts"] else "bytes"), None


def payloads_of(spans: _native.Spans) -> list[bytes]:
    """Payloads as bytes.

    Raises:
        CorruptRecord: A checksum is wrong; ``where.record`` is the position in ``spans``.
    """
    try:
        return spans.to_bytes()
    except _native.FormatError as error:
        raise describe(error, Where(record=error.record)) from error


class RawCodec:
    """A codec with the single feature ``record``: the bytes of the payload.

    Args:
        encoding: The image kind of every payload, if they are images.
    """

    name = "raw"

    def __init__(self, encoding: Encoding | None = None) -> None:
        self.schema: Schema = Schema({"record": Feature("bytes", encoding=encoding)})

    def decode_batch(self, spans: _native.Spans) -> Batch:
        """The payloads of ``n`` records as :class:`~headrace.Strings` ``(n,)`` of bytes.

        Raises:
            CorruptRecord: A checksum is wrong; ``where.record`` is the position in ``spans``.
        """
        try:
            data, offsets = spans.to_strings()
        except _native.FormatError as error:
            raise describe(error, Where(record=error.record)) from error
        return {"record": Strings.trust(data, offsets, is_text=False)}

    def encode_batch(
        self, batch: Mapping[str, Any], n: int, head: int, tail: int, align: int = 1
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Lay out ``n`` payloads with room for frames: ``head`` bytes before each, ``tail`` bytes and padding after it.

        Raises:
            NoSuchFeature, SchemaMismatch: There is no column ``record`` of ``n`` payloads.
        """
        if "record" not in batch:
            raise NoSuchFeature(Where(), expected="the feature 'record'", found=f"the features {list(batch)}")
        payloads = [_bytes_of(value, i) for i, value in enumerate(_values_of(batch["record"]))]
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
        """This codec: there is only one feature."""
        _ = self.schema.select(names)
        return self

    def faults_in(self, spans: _native.Spans) -> list[DataError]:
        """Payloads with wrong checksums; any other bytes are valid."""
        return all_faults(self.decode_batch, spans)

    def __repr__(self) -> str:
        return "RawCodec()"


def _values_of(column: Any) -> Iterable[Any]:
    """The values of a column; of one without objects, views."""
    if not isinstance(column, Strings) or column.is_text:
        return column  # type: ignore[no-any-return]
    data, limits = memoryview(column.data), column.offsets.tolist()  # type: ignore[arg-type]
    return (data[begin:end] for begin, end in pairwise(limits))


def _bytes_of(value: Any, position: int) -> memoryview:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise SchemaMismatch(Where(record=position, feature="record"), expected="bytes", found=type(value).__name__)
    view = memoryview(value)
    return view.cast("B") if view.c_contiguous and view.nbytes else memoryview(bytes(view))
