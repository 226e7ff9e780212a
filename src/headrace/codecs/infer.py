"""What records hold, inferred from some of them; and flat values with shapes to rows of rows and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace._faults import describe
from headrace.codecs.example.columns import CONTEXT
from headrace.codecs.raw import RawCodec
from headrace.contracts.feature import Encoding, Feature
from headrace.contracts.images import encoding_by_counts, encoding_of_all
from headrace.contracts.schema import Schema
from headrace.contracts.values import Ragged
from headrace.errors import SchemaMismatch, Where

__all__ = ["Found", "infer_payloads", "infer_schema", "nest", "offsets_of", "unnest"]


NONE, BYTES, FLOAT, INT = range(4)


@dataclass(frozen=True, slots=True)
class Found:
    """What inference found.

    Attributes:
        codec: ``"example"`` or ``"raw"``.
        schema: Feature types.
        lists: Features that are feature lists of SequenceExamples.
        mixed: Features that hold whole numbers in some records and floats in others; they read as ``float64``.
    """

    codec: str
    schema: Schema
    lists: frozenset[str] = frozenset()
    mixed: frozenset[str] = frozenset()


def infer_schema(blocks: Iterable[_native.Spans], *, given: Schema | None = None) -> Found:
    """Find codec and schema of some records.

    Records are Examples (or SequenceExamples) when one has a feature with values and those before it are protobuf messages;
    otherwise they are raw, and images if the first ones are. A later one that is no message is an error when it is read, not a reason to call them all raw.

    A feature with the same number of values in every record has that number as its shape (``()`` for one); one whose number
    varies, or is 0, or which some records lack, has ``(None,)``. Feature lists have ``(None,)``, ``(None, k)`` or
    ``(None, None)`` for one, ``k`` or varying values per step. Bytes that are UTF-8 without control characters (but tab,
    line feed and carriage return) in every record are ``"str"``; those that all begin as one kind of image have its
    ``encoding``. Where a feature and a feature list have one name, the feature is called ``context/NAME``. A key that never
    holds a list is left out. A key that is not UTF-8 comes with its odd bytes as lone surrogates, as in file names.

    Args:
        blocks: The records to look at. No records at all: an empty schema.
        given: The schema, where it is known; what is looked for is then only what else a codec must know.

    Raises:
        CorruptRecord: The checksum of the very first record is wrong.
        SchemaMismatch: A feature holds bytes in some records and numbers in others.
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
            break  # Reading will report it, at its place; what came before tells the schema.
        if not scanner.is_message:
            break
    if scanner.records == 0 and scanner.is_message:
        return Found("example", Schema({}) if given is None else given)
    keys = [key for key in scanner.keys if any(key["kinds"][BYTES:])]
    return _examples(keys, scanner.records, given) if keys else Found("raw", RawCodec(_image_kind(first)).schema)


def _image_kind(spans: _native.Spans | None) -> Encoding | None:
    """What image these payloads are, if all are images. Damaged ones are left for reading to report."""
    try:
        if spans is None:
            return None
        with _native.GuardedRead(spans):
            return encoding_of_all(spans.view(i) for i in range(len(spans)))
    except _native.FormatError:
        return None


def infer_payloads(payloads: Sequence[Any]) -> Found:
    """As :func:`infer_schema`, for payloads in memory."""
    return infer_schema([_native.spans_of_buffers(payloads)])


def _examples(keys: list[dict[str, Any]], records: int, given: Schema | None) -> Found:
    lists = frozenset(_name(key) for key in keys if key["list"])
    named = {(CONTEXT if not key["list"] and _name(key) in lists else "") + _name(key): key for key in keys}
    mixed = frozenset(name for name, key in named.items() if key["kinds"][FLOAT] and key["kinds"][INT])
    if given is None:
        given = Schema({name: _feature(name, named[name], records) for name in sorted(named)})
    return Found("example", given, lists, mixed)


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


def _dtype(name: str, key: dict[str, Any]) -> tuple[str, Any]:
    kinds = key["kinds"]
    if kinds[BYTES] and (kinds[FLOAT] or kinds[INT]):
        raise SchemaMismatch(
            Where(feature=name),
            expected="one kind of values in all records",
            found=f"bytes in {kinds[BYTES]}, floats in {kinds[FLOAT]}, whole numbers in {kinds[INT]}",
            hint="Give a schema without it, or read the records with codec='raw'.",
        )
    if not kinds[BYTES]:
        return ("int64" if not kinds[FLOAT] else "float64" if kinds[INT] else "float32"), None
    encoding = encoding_by_counts(key["texts"], key["images"])
    if encoding is not None:
        return "bytes", encoding
    return ("str" if key["plain_text"] and key["texts"] else "bytes"), None


Shape = tuple[int | None, ...]


def offsets_of(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Where rows of these lengths begin and end: ``int64 (n + 1,)``."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def nest(flat: npt.NDArray[Any], shapes: npt.NDArray[np.int64], shape: Shape) -> Ragged:
    """Rows, rows of rows, and so on, down to the last axis of ``shape`` that varies.

    Args:
        flat: Values of all records, end to end.
        shapes: ``int64 (n, rank)``: each record's shape.
        shape: The feature's, with at least one ``None``.
    """
    levels = 1 + max(axis for axis, length in enumerate(shape) if length is None)
    rows = int(shapes[:, :levels].prod(axis=1).sum())
    values: Any = flat.reshape((rows, *(length for length in shape[levels:] if length is not None)))
    for level in range(levels - 1, -1, -1):
        outer = shapes[:, :level].prod(axis=1)  # how many rows of this level each record has
        values = Ragged(values, offsets_of(np.repeat(shapes[:, level], outer)))
    assert isinstance(values, Ragged)
    return values


def unnest(column: Ragged, shape: Shape, name: str) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Flat values, and each record's shape, ``int64 (n, rank)``.

    Raises:
        SchemaMismatch: Rows that have no one shape, or another than ``shape``.
    """
    shapes = np.zeros((len(column), len(shape)), np.int64)
    record = np.arange(len(column))
    values: Any = column
    level = 0
    while isinstance(values, Ragged) and level < len(shape):
        shapes[record, level] = values.lengths
        uneven = np.flatnonzero(shapes[record, level] != values.lengths)
        if len(uneven):
            where = Where(record=int(record[uneven[0]]), feature=name)
            raise SchemaMismatch(where, expected="rows of one length in each record", found="rows of several")
        record = np.repeat(record, values.lengths)
        values, level = values.values, level + 1
    inner = np.zeros(0) if isinstance(values, Ragged) else np.asarray(values)
    if isinstance(values, Ragged) or level + inner.ndim - 1 != len(shape):
        raise SchemaMismatch(Where(feature=name), expected=f"rows of shape {shape}", found="rows of another rank")
    shapes[:, level:] = inner.shape[1:]
    _check(shapes, shape, name)
    return inner.reshape(-1), shapes


def _check(shapes: npt.NDArray[np.int64], shape: Shape, name: str) -> None:
    wanted = np.array([-1 if length is None else length for length in shape])
    other = ((shapes != wanted) & (wanted >= 0)).any(axis=1)
    bad = np.flatnonzero(other & (shapes.prod(axis=1) > 0))
    if len(bad):
        where = Where(record=int(bad[0]), feature=name)
        raise SchemaMismatch(where, expected=f"shape {shape}", found=f"{tuple(shapes[bad[0]].tolist())}")
