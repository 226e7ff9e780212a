"""Records of an object, gathered into what is sent in one request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from headrace.contracts.values import Indices
from headrace.errors import UnsupportedData, Where
from headrace.formats.framing import Framing

__all__ = ["Chunk", "Payload", "gather", "too_large"]

MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class Chunk:
    """Records that lie in one buffer, in order.

    Args:
        buffer: The bytes.
        starts, stops: ``int64 (n,)``: where each begins and ends in ``buffer``, what frames it included.
        base: Where ``buffer`` begins in the (inflated) object.
        first: Number of the first one in the object.
        framing: How they are framed, where taking that off means more than cutting.
    """

    buffer: memoryview
    starts: Indices
    stops: Indices
    base: int
    first: int
    framing: Framing | None = None

    def __len__(self) -> int:
        return len(self.starts)

    def part(self, begin: int, end: int) -> Chunk:
        """Some of them."""
        starts, stops = self.starts[begin:end], self.stops[begin:end]
        return Chunk(self.buffer, starts, stops, self.base, self.first + begin, self.framing)

    def framed(self) -> bytes:
        """Their bytes, as they are in the object; what lies between them is left out."""
        if len(self) == 1 or np.array_equal(self.starts[1:], self.stops[:-1]):
            return bytes(self.buffer[int(self.starts[0]) : int(self.stops[-1])])
        return b"".join(self.each())

    def bare(self) -> bytes:
        """The bytes of a single one, without its frame."""
        if self.framing is None:
            return self.framed()
        (payload,) = self.framing.payloads(self.buffer, self.starts[:1], int(self.stops[0]))
        return bytes(payload)

    def each(self) -> list[bytes]:
        """The bytes of each."""
        return [
            bytes(self.buffer[begin:end]) for begin, end in zip(self.starts.tolist(), self.stops.tolist(), strict=True)
        ]


@dataclass(frozen=True, slots=True)
class Payload:
    """Records of one object that go into one request."""

    chunks: tuple[Chunk, ...]
    is_single: bool = False
    """Whether it is sent without what frames the record."""

    def __len__(self) -> int:
        return sum(map(len, self.chunks))

    @property
    def size(self) -> int:
        """In bytes, frames included."""
        return sum(map(_size, self.chunks))

    @property
    def end(self) -> int:
        """Where the last record ends in the object."""
        return self.chunks[-1].base + int(self.chunks[-1].stops[-1])

    def body(self) -> bytes:
        """What is sent."""
        if self.is_single:
            return self.chunks[0].bare()
        return self.chunks[0].framed() if len(self.chunks) == 1 else b"".join(one.framed() for one in self.chunks)

    def each(self) -> list[bytes]:
        """The records one by one, as they are in the object."""
        return [record for chunk in self.chunks for record in chunk.each()]

    def part(self, begin: int, end: int) -> Payload:
        """Some of the records."""
        found, passed = [], 0
        for chunk in self.chunks:
            one = chunk.part(max(0, begin - passed), max(0, end - passed))
            if len(one):
                found.append(one)
            passed += len(chunk)
        return replace(self, chunks=tuple(found))

    def where(self, position: int = 0) -> Where:
        """The place of one of the records."""
        for chunk in self.chunks:
            if position < len(chunk):
                return Where(record=chunk.first + position, offset=chunk.base + int(chunk.starts[position]))
            position -= len(chunk)
        raise IndexError(position)


def gather(chunks: Iterable[Chunk], *, limit: int, is_single: bool) -> Iterator[Payload]:
    """Records in order, in payloads of one or, up to ``limit`` bytes (0: without limit), as many as fit.

    Raises:
        UnsupportedData: A record is larger than ``limit``.
    """
    gathering = _Gathering(limit)
    for chunk in chunks:
        _check(chunk, limit)
        if is_single:
            yield from (Payload((chunk.part(i, i + 1),), is_single=True) for i in range(len(chunk)))
        else:
            yield from gathering.take(chunk)
    yield from gathering.flush()


class _Gathering:
    """A payload that is being filled."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._chunks: list[Chunk] = []
        self._size = 0

    def take(self, chunk: Chunk) -> Iterator[Payload]:
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


def _size(chunk: Chunk) -> int:
    if len(chunk) == 1:
        return int(chunk.stops[0]) - int(chunk.starts[0])
    return int((chunk.stops - chunk.starts).sum())


def _check(chunk: Chunk, limit: int) -> None:
    sizes = chunk.stops - chunk.starts
    if limit and len(sizes) and int(sizes.max()) > limit:
        position = int(np.argmax(sizes > limit))
        place = Where(record=chunk.first + position, offset=chunk.base + int(chunk.starts[position]))
        raise too_large(place, f"one of {int(sizes[position])} bytes", limit)


def too_large(
    place: Where, found: str, limit: int, *, what: str = "a record", hints: Sequence[str] = ()
) -> UnsupportedData:
    """The error for what does not fit into a request."""
    return UnsupportedData(
        place,
        expected=f"{what} of at most {limit / MEBIBYTE:g} MB, which is the largest request (max_payload_mb)",
        found=found,
        hint=" ".join(hints) or "Raise max_payload_mb.",
    )
