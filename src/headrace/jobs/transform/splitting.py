"""The records of an object: lines, RecordIO or TFRecord records, or the whole of it. Read in order, a part at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from headrace.errors import CorruptFile, Where
from headrace.formats.framed_scan import Scan, Stream
from headrace.formats.framing import Framing
from headrace.formats.recordio_framing import RecordIOFraming
from headrace.formats.tfrecord_framing import TFRecordFraming
from headrace.io.compression import Inflater, Part
from headrace.jobs.transform.payloads import Chunk, Payload, gather, too_large
from headrace.jobs.transform.spec import Split

__all__ = ["payloads_of"]

PART_BYTES = 1 << 20
NEWLINE, RETURN = 10, 13
FRAMINGS: dict[Split, Framing] = {"RecordIO": RecordIOFraming(), "TFRecord": TFRecordFraming()}


def payloads_of(path: Path, *, split: Split, is_gzip: bool, limit: int, is_single: bool) -> Iterator[Payload]:
    """What is sent of an object, in order. Memory is bounded by ``limit`` (0: by the object).

    An empty line is no record, and nothing is sent of an empty object.

    Args:
        path: The object.
        split: What a record is.
        is_gzip: Whether it is to be inflated.
        limit: Bytes of a payload.
        is_single: Whether a payload is one record, without what frames it.

    Raises:
        DataError: The object is damaged, or a record is larger than ``limit``: after the payloads before it.
        OSError: It cannot be read.
    """
    stream: Stream = Inflater(str(path), "gzip") if is_gzip else _Plain(path)
    if split == "None":
        chunks = _whole(stream, limit)
    elif split == "Line":
        chunks = _lines(stream, limit)
    else:
        chunks = _framed(FRAMINGS[split], stream, limit)
    return gather(chunks, limit=limit, is_single=is_single)


class _Plain:
    """The bytes of a file."""

    fault: CorruptFile | None = None

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self._path = path

    def __iter__(self) -> Iterator[bytes]:
        with self._path.open("rb", buffering=0) as file:
            while part := file.read(PART_BYTES):
                yield part


def _whole(stream: Stream, limit: int) -> Iterator[Chunk]:
    parts, size = [], 0
    for part in stream:
        parts.append(part)
        size += len(part)
        if limit and size > limit:
            found = "a larger one"
            hint = "Raise max_payload_mb, or set split_type if its records may be sent apart."
            raise too_large(Where(), found, limit, what="an object", hints=[hint])
    _end(stream, Where(offset=size))
    if size:
        yield _chunk(b"".join(parts), np.array([0]), np.array([size]), 0, 0)


def _lines(stream: Stream, limit: int) -> Iterator[Chunk]:
    waiting: list[bytes] = []
    size, base, count = 0, 0, 0
    for part in map(bytes, stream):
        cut = part.rfind(b"\n") + 1
        if cut:
            chunk = _chunk_of_lines(b"".join([*waiting, part[:cut]]), base, count)
            yield chunk
            base, count = base + len(chunk.buffer), count + len(chunk)
            waiting, size = [], 0
        waiting.append(part[cut:])
        size += len(part) - cut
        if limit and size > limit:
            raise too_large(Where(record=count, offset=base), "a longer line", limit)
    _end(stream, Where(record=count))
    if size:
        yield _chunk_of_lines(b"".join(waiting), base, count)


def _chunk_of_lines(text: bytes, base: int, first: int) -> Chunk:
    content = np.frombuffer(text, np.uint8)
    stops = np.flatnonzero(content == NEWLINE) + 1
    if content[-1] != NEWLINE:
        stops = np.append(stops, len(text))
    starts = np.concatenate(([0], stops[:-1]))
    sizes = stops - starts
    empty = (sizes == 1) & (content[starts] == NEWLINE)
    empty |= (sizes == 2) & (content[starts] == RETURN) & (content[stops - 1] == NEWLINE)
    return _chunk(text, starts[~empty], stops[~empty], base, first)


def _framed(framing: Framing, stream: Stream, limit: int) -> Iterator[Chunk]:
    watched = _Watched(stream, limit)
    scan = Scan(framing, watched, verify=True)
    for run in scan:
        watched.passed, watched.records = run.base + run.end, scan.records
        stops = np.append(run.starts[1:], run.end)
        yield Chunk(run.buffer, run.starts, stops, run.base, run.first, framing)


class _Watched:
    """A stream that ends with an error when a record turns out to be larger than the limit.

    What has been read of it but belongs to no complete record is, besides the beginning of one record, at most as much
    again (that is how the scan looks for its end).
    """

    def __init__(self, stream: Stream, limit: int) -> None:
        self.path = stream.path
        self.fault: CorruptFile | None = None
        self.passed = 0
        self.records = 0
        self._stream = stream
        self._limit = limit

    def __iter__(self) -> Iterator[Part]:
        given = 0
        for part in self._stream:
            if self._limit and given - self.passed > 2 * (self._limit + 2 * PART_BYTES):
                place = Where(record=self.records, offset=self.passed)
                raise too_large(place, "a larger one, or a damaged length", self._limit)
            given += len(part)
            yield part
        self.fault = self._stream.fault


def _chunk(content: bytes, starts: object, stops: object, base: int, first: int) -> Chunk:
    return Chunk(memoryview(content), np.asarray(starts, np.int64), np.asarray(stops, np.int64), base, first)


def _end(stream: Stream, place: Where) -> None:
    if stream.fault is not None:
        raise stream.fault.relocated(place)
