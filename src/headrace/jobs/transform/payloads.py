"""Splits objects into records (lines, RecordIO, TFRecord, or the whole object) and gathers records into payloads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from headrace.contracts.values import Indices
from headrace.errors import CorruptFile, UnsupportedData, Where
from headrace.formats.framed.scan import ByteStream, RecordFraming, Scan
from headrace.formats.recordio.format import RecordIOFraming
from headrace.formats.tfrecord.format import TFRecordFraming
from headrace.io.cache.inflate import Inflater, Part
from headrace.jobs.transform.spec import Split

__all__ = ["Payload", "RecordChunk", "gather", "payloads_of", "too_large_error"]


MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class RecordChunk:
    """Records in one buffer, in order.

    Args:
        buffer: The bytes.
        starts, stops: ``int64 (n,)``: the bounds of each record in ``buffer``, with its frame.
        base: The offset of ``buffer`` in the (inflated) object.
        first: The number of the first record in the object.
        framing: Their framing, if unframing is more than slicing.
    """

    buffer: memoryview
    starts: Indices
    stops: Indices
    base: int
    first: int
    framing: RecordFraming | None = None

    def __len__(self) -> int:
        return len(self.starts)

    def part(self, begin: int, end: int) -> RecordChunk:
        """Some of the records."""
        starts, stops = self.starts[begin:end], self.stops[begin:end]
        return RecordChunk(self.buffer, starts, stops, self.base, self.first + begin, self.framing)

    def framed(self) -> bytes:
        """Their bytes with frames, without the bytes between them."""
        if len(self) == 1 or np.array_equal(self.starts[1:], self.stops[:-1]):
            return bytes(self.buffer[int(self.starts[0]) : int(self.stops[-1])])
        return b"".join(self.each())

    def bare(self) -> bytes:
        """The bytes of a single record, without its frame."""
        if self.framing is None:
            return self.framed()
        (payload,) = self.framing.payloads(self.buffer, self.starts[:1], int(self.stops[0]))
        return bytes(payload)

    def each(self) -> list[bytes]:
        """The bytes of each record."""
        return [
            bytes(self.buffer[begin:end]) for begin, end in zip(self.starts.tolist(), self.stops.tolist(), strict=True)
        ]


@dataclass(frozen=True, slots=True)
class Payload:
    """The records of one object that are sent in one request."""

    chunks: tuple[RecordChunk, ...]
    is_single: bool = False
    """Whether the record is sent without its frame."""

    def __len__(self) -> int:
        return sum(map(len, self.chunks))

    @property
    def size(self) -> int:
        """The size in bytes, with frames."""
        return sum(map(_size, self.chunks))

    @property
    def end(self) -> int:
        """The end offset of the last record in the object."""
        return self.chunks[-1].base + int(self.chunks[-1].stops[-1])

    def body(self) -> bytes:
        """The bytes to send."""
        if self.is_single:
            return self.chunks[0].bare()
        return self.chunks[0].framed() if len(self.chunks) == 1 else b"".join(one.framed() for one in self.chunks)

    def each(self) -> list[bytes]:
        """The records one by one, with frames."""
        return [record for chunk in self.chunks for record in chunk.each()]

    def part(self, begin: int, end: int) -> Payload:
        """Some of the records."""
        found, skipped = [], 0
        for chunk in self.chunks:
            one = chunk.part(max(0, begin - skipped), max(0, end - skipped))
            if len(one):
                found.append(one)
            skipped += len(chunk)
        return replace(self, chunks=tuple(found))

    def where(self, position: int = 0) -> Where:
        """The place of one of the records."""
        for chunk in self.chunks:
            if position < len(chunk):
                return Where(record=chunk.first + position, offset=chunk.base + int(chunk.starts[position]))
            position -= len(chunk)
        raise IndexError(position)


def gather(chunks: Iterable[RecordChunk], *, limit: int, is_single: bool) -> Iterator[Payload]:
    """Gather records in order, into payloads of one record or of up to ``limit`` bytes (0: no limit).

    Raises:
        UnsupportedData: A record is larger than ``limit``.
    """
    gatherer = _Gatherer(limit)
    for chunk in chunks:
        _check(chunk, limit)
        if is_single:
            yield from (Payload((chunk.part(i, i + 1),), is_single=True) for i in range(len(chunk)))
        else:
            yield from gatherer.add(chunk)
    yield from gatherer.flush()


class _Gatherer:
    """A payload that is being filled."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._chunks: list[RecordChunk] = []
        self._size = 0

    def add(self, chunk: RecordChunk) -> Iterator[Payload]:
        ends = np.cumsum(chunk.stops - chunk.starts)
        begin, passed = 0, 0
        while begin < len(chunk):
            end = len(chunk)
            if self._limit:
                end = int(np.searchsorted(ends, passed + self._limit - self._size, "right"))
            if end > begin:
                self._chunks.append(chunk.part(begin, end))
                self._size += int(ends[end - 1]) - passed
                begin, passed = end, int(ends[end - 1])
            if begin < len(chunk):
                yield from self.flush()

    def flush(self) -> Iterator[Payload]:
        if self._chunks:
            payload = Payload(tuple(self._chunks))
            self._chunks, self._size = [], 0
            yield payload


def _size(chunk: RecordChunk) -> int:
    if len(chunk) == 1:
        return int(chunk.stops[0]) - int(chunk.starts[0])
    return int((chunk.stops - chunk.starts).sum())


def _check(chunk: RecordChunk, limit: int) -> None:
    sizes = chunk.stops - chunk.starts
    if limit and len(sizes) and int(sizes.max()) > limit:
        position = int(np.argmax(sizes > limit))
        place = Where(record=chunk.first + position, offset=chunk.base + int(chunk.starts[position]))
        raise too_large_error(place, f"one of {int(sizes[position])} bytes", limit)


def too_large_error(
    place: Where, found: str, limit: int, *, what: str = "a record", hints: Sequence[str] = ()
) -> UnsupportedData:
    """The error for data that does not fit into a request."""
    return UnsupportedData(
        place,
        expected=f"{what} of at most {limit / MEBIBYTE:g} MB, which is the largest request (max_payload_mb)",
        found=found,
        hint=" ".join(hints) or "Raise max_payload_mb.",
    )


PART_BYTES = 1 << 20
NEWLINE, RETURN = 10, 13
FRAMINGS: dict[Split, RecordFraming] = {"RecordIO": RecordIOFraming(), "TFRecord": TFRecordFraming()}


def payloads_of(path: Path, *, split: Split, is_gzip: bool, limit: int, is_single: bool) -> Iterator[Payload]:
    """The payloads of an object, in order. Memory is bounded by ``limit`` (0: by the object).

    Empty lines are not records. An empty object has no payloads.

    Args:
        path: The object.
        split: What a record is.
        is_gzip: Whether to inflate the object.
        limit: Largest payload in bytes.
        is_single: Whether a payload is one record, without its frame.

    Raises:
        DataError: The object is damaged, or a record is larger than ``limit``. Raised after the payloads before it.
        OSError: It cannot be read.
    """
    is_gzip = is_gzip and path.stat().st_size > 0  # an object without a byte is empty, not cut off
    stream: ByteStream = Inflater(str(path), "gzip") if is_gzip else _PlainFile(path)
    if split == "None":
        chunks = _read_whole(stream, limit)
    elif split == "Line":
        chunks = _read_lines(stream, limit)
    else:
        chunks = _read_framed(FRAMINGS[split], stream, limit)
    return gather(chunks, limit=limit, is_single=is_single)


class _PlainFile:
    """The bytes of a file."""

    fault: CorruptFile | None = None

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self._path = path

    def __iter__(self) -> Iterator[bytes]:
        with self._path.open("rb", buffering=0) as file:
            while part := file.read(PART_BYTES):
                yield part


def _read_whole(stream: ByteStream, limit: int) -> Iterator[RecordChunk]:
    parts, size = [], 0
    for part in stream:
        parts.append(part)
        size += len(part)
        if limit and size > limit:
            found = "a larger one"
            hint = "Raise max_payload_mb, or set split_type to send its records separately."
            raise too_large_error(Where(), found, limit, what="an object", hints=[hint])
    _raise_fault(stream, Where(offset=size))
    if size:
        yield _chunk(b"".join(parts), np.array([0]), np.array([size]), 0, 0)


def _read_lines(stream: ByteStream, limit: int) -> Iterator[RecordChunk]:
    waiting: list[bytes] = []
    size, base, count = 0, 0, 0
    for part in map(bytes, stream):
        cut = part.rfind(b"\n") + 1
        if cut:
            chunk = _split_lines(b"".join([*waiting, part[:cut]]), base, count)
            yield chunk
            base, count = base + len(chunk.buffer), count + len(chunk)
            waiting, size = [], 0
        waiting.append(part[cut:])
        size += len(part) - cut
        if limit and size > limit:
            raise too_large_error(Where(record=count, offset=base), "a longer line", limit)
    _raise_fault(stream, Where(record=count))
    if size:
        yield _split_lines(b"".join(waiting), base, count)


def _split_lines(text: bytes, base: int, first: int) -> RecordChunk:
    content = np.frombuffer(text, np.uint8)
    stops = np.flatnonzero(content == NEWLINE) + 1
    if content[-1] != NEWLINE:
        stops = np.append(stops, len(text))
    starts = np.concatenate(([0], stops[:-1]))
    sizes = stops - starts
    empty = (sizes == 1) & (content[starts] == NEWLINE)
    empty |= (sizes == 2) & (content[starts] == RETURN) & (content[stops - 1] == NEWLINE)
    return _chunk(text, starts[~empty], stops[~empty], base, first)


def _read_framed(framing: RecordFraming, stream: ByteStream, limit: int) -> Iterator[RecordChunk]:
    limited = _LimitedStream(stream, limit)
    scan = Scan(framing, limited, verify=True)
    for run in scan:
        limited.passed, limited.records = run.base + run.end, scan.records
        stops = np.append(run.starts[1:], run.end)
        yield RecordChunk(run.buffer, run.starts, stops, run.base, run.first, framing)


class _LimitedStream:
    """A stream that raises an error if a record is larger than the limit.

    The scan reads ahead at most the size of the current incomplete record, so more bytes than twice the limit mean a record
    that is too large.
    """

    def __init__(self, stream: ByteStream, limit: int) -> None:
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
                raise too_large_error(place, "a larger one, or a damaged length", self._limit)
            given += len(part)
            yield part
        self.fault = self._stream.fault


def _chunk(content: bytes, starts: object, stops: object, base: int, first: int) -> RecordChunk:
    return RecordChunk(memoryview(content), np.asarray(starts, np.int64), np.asarray(stops, np.int64), base, first)


def _raise_fault(stream: ByteStream, place: Where) -> None:
    if stream.fault is not None:
        raise stream.fault.relocated(place)
