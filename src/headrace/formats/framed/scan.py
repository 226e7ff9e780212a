"""Framed records: the interface of a framing, and scans for records in a mapped file or a stream."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.contracts.records import Checked, OnCorrupt
from headrace.contracts.values import Indices
from headrace.errors import CorruptFile, DataError, Where
from headrace.io.cache.inflate import Part
from headrace.io.local import mapped as mapping_limits
from headrace.io.local.mapped import MappedFile
from headrace.io.local.open import size_on_disk

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["KEPT_BYTES", "ByteStream", "Framing", "RecordFraming", "RecordRun", "Scan", "verify_content"]


class Framing(ABC):
    """A sequence of records, each of which starts where the previous one ends. Stateless and picklable."""

    name: str
    """The name of the format."""
    has_checksums: bool = True
    """Whether checksums in the records reveal a stale index. If not, the index stores checksums of the file's blocks."""

    @property
    def index_name(self) -> str:
        """The cache key of an index: the name, and anything else that affects where records begin."""
        return self.name

    def one_pass(self, size: int, /) -> Self:  # noqa: ARG002 - for subclasses
        """The framing for one pass over one buffer of ``size`` bytes by one thread. It may remember state between calls."""
        return self

    @abstractmethod
    def is_plain(self, head: bytes, /) -> bool:
        """Whether these first bytes are those of an uncompressed file."""

    def begin(self, buffer: memoryview, path: str, /, *, last: bool) -> int:  # noqa: ARG002 - for subclasses
        """Where the first record begins; -1 if that needs more bytes, which never happens with ``last``.

        Raises:
            DataError: The bytes before the first record are invalid.
        """
        return 0

    @abstractmethod
    def scan(
        self, buffer: memoryview, start: int, stop: int, /, *, verify: bool, max_records: int, last: bool = True
    ) -> tuple[Indices, int]:
        """Starts of the records that begin in ``[start, stop)``, and where the next one begins.

        ``last``: the file ends with these bytes, so a final record without an end mark is complete.

        Raises:
            FormatError: With the starts found before it as ``starts``.
        """

    @abstractmethod
    def find(self, buffer: memoryview, start: int, /) -> int:
        """Where the first complete, intact record at or after ``start`` begins; -1 if there is none."""

    def resume_after(
        self,
        error: _native.FormatError,
        buffer: memoryview,
        /,
        *,
        last: bool,  # noqa: ARG002 - for subclasses
    ) -> tuple[int, int]:
        """How to resume after damage: how many of ``error.starts`` count, and where the next intact record begins.

        The latter is -1 if there is none yet. Unless this is the ``last`` part of the stream, one may follow.
        """
        return len(error.starts), self.find(buffer, int(error.offset) + 1)

    @abstractmethod
    def fault_at(self, error: _native.FormatError, path: str | None, record: int, base: int, /) -> DataError:
        """The error for a fault that native code found at record ``record`` of a file, in bytes that begin at ``base``."""


class RecordFraming(Framing):
    """A framing of byte payloads, which can be gathered and written."""

    head: int
    """Bytes before each payload."""
    tail: int
    """The most bytes after it."""
    has_length_checksums: bool = False
    """Whether a checksum of each record's length tells that it has changed."""

    @abstractmethod
    def gather(
        self,
        buffers: _native.Buffers | list[Any],
        which: npt.NDArray[np.int32] | None,
        offsets: Indices,
        /,
        *,
        verify: bool,
    ) -> _native.Spans:
        """The payloads of the records at these offsets. With ``verify``, checksums are checked when payloads are read."""

    @abstractmethod
    def payloads(self, buffer: memoryview, starts: Indices, end: int, /) -> Iterator[memoryview]:
        """Views of the payloads of adjacent records that end at ``end``. They were checked before."""

    @abstractmethod
    def frame_block(self, block: npt.NDArray[np.uint8], starts: Indices, sizes: Indices, /) -> int:
        """Fill in the bytes around the payloads of a block. Returns how much of the block is used."""

    @abstractmethod
    def frame_payloads(self, payloads: Sequence[Buffer], /) -> npt.NDArray[np.uint8]:
        """Complete framed records, concatenated."""


RUN_BYTES = 1 << 20
FIRST_RUN_BYTES = 64 << 10  # so that the first records arrive soon; each later run has twice as much
SEAM_BYTES = 16 << 10  # of a part are joined to the rest of the previous one: a few records, but several at once
KEPT_BYTES = 64 << 20  # already read and still resident; measured: dropping pages from 16 MiB up costs nothing in order


class ByteStream(Protocol):
    """Bytes in order: a file that is being inflated, a pipe."""

    path: str
    fault: CorruptFile | None
    """The error in which the stream ended, set after the last part."""

    def __iter__(self) -> Iterator[Part]: ...


@dataclass(frozen=True, slots=True)
class RecordRun:
    """Adjacent intact records.

    Args:
        path: Their file.
        buffer: The bytes that hold them.
        starts: ``int64 (n,)``: the offset of each in ``buffer``.
        end: Where the last one ends.
        base: Offset of ``buffer`` in the (decompressed) file.
        first: Number of the first one in the file.
    """

    path: str
    buffer: memoryview
    starts: npt.NDArray[np.int64]
    end: int
    base: int
    first: int

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def size(self) -> int:
        """In bytes, framing included."""
        return self.end - int(self.starts[0])

    def for_users(self) -> tuple[memoryview, npt.NDArray[np.int64], int]:
        """Buffer, starts and end; a copy where users must not get views of mapped files."""
        if mapping_limits.gives_views() or not len(self):
            return self.buffer, self.starts, self.end
        begin = int(self.starts[0])
        return memoryview(_native.copy_bytes(self.buffer, begin, self.size)), self.starts - begin, self.size

    def cut(self, count: int) -> tuple[RecordRun, RecordRun]:
        """Split after ``count`` records."""
        middle = self.end if count == len(self) else int(self.starts[count])
        head = replace(self, starts=self.starts[:count], end=middle)
        return head, replace(self, starts=self.starts[count:], first=self.first + count)

    def where(self, position: int) -> Where:
        """The location of one of these records."""
        return Where(path=self.path, record=self.first + position, offset=self.base + int(self.starts[position]))


class Scan:
    """One pass over the records of one file.

    Args:
        framing: The framing of the file.
        content: A mapped file or a stream.
        verify: Whether to check payload checksums, if the format has any.
        on_corrupt: ``"raise"``, or ``"skip"`` to continue after damaged records.
        run_bytes: Approximate size of a run in bytes. The first runs are smaller.
    """

    def __init__(
        self,
        framing: Framing,
        content: MappedFile | ByteStream,
        *,
        verify: bool,
        on_corrupt: OnCorrupt = "raise",
        run_bytes: int = RUN_BYTES,
    ) -> None:
        self.framing = framing
        self.path: str = content.path
        self.records: int = 0
        """Intact records so far."""
        self.faults: list[tuple[DataError, int]] = []
        """With ``"skip"``: the faults, and the bytes skipped for each."""
        self._content = content
        self._verify = verify
        self._skip = on_corrupt == "skip"
        self._most_run_bytes = run_bytes
        self._run_bytes = min(run_bytes, FIRST_RUN_BYTES)
        self._begun = False

    def __iter__(self) -> Iterator[RecordRun]:
        """The runs of intact records.

        Raises:
            CorruptRecord, CorruptFile: With ``"raise"``: at the first fault, after the records before it.
        """
        content = self._content
        if isinstance(content, MappedFile):
            rest = yield from self._scan_mapped(content)
        else:
            rest = yield from self._scan_stream(content)
        if content.fault is not None:
            self._fail(content.fault.relocated(Where(record=self._number)), rest)

    def _scan_mapped(self, content: MappedFile) -> Generator[RecordRun, None, int]:
        dropped = 0
        runs = self._runs(content.buffer, 0, last=content.fault is None)
        while True:
            try:
                run = next(runs)
            except StopIteration as stop:
                return content.size - int(stop.value)
            yield run
            if run.end - dropped > KEPT_BYTES:
                content.drop(dropped, run.end - dropped)
                dropped = run.end

    def _scan_stream(self, parts: Iterable[Part]) -> Generator[RecordRun, None, int]:
        """Use records in place. A record that spans two parts is copied, with a few after it."""
        left, base = memoryview(b""), 0
        waiting: list[memoryview] = []
        missing = 0
        for part in parts:
            view, at = memoryview(part), 0
            while at < len(view):
                window = piece = view[at:]
                if left:
                    piece = piece[: max(missing, SEAM_BYTES)]
                    waiting.append(piece)
                    missing -= len(piece)
                    if missing > 0:
                        break  # A record larger than a part: double the window, so that joining stays linear.
                    window = memoryview(b"".join([left, *waiting]))
                    waiting = []
                at += len(piece)
                used = yield from self._runs(window, base, last=False)
                base += used
                unused = len(window) - used
                if left and unused <= len(piece):
                    at -= unused  # Use the rest of the part in place.
                    left = left[:0]
                else:
                    left, missing = window[used:], unused
        window = memoryview(b"".join([left, *waiting]))
        used = yield from self._runs(window, base, last=self._content.fault is None)
        return len(window) - used

    def _runs(self, buffer: memoryview, base: int, *, last: bool) -> Generator[RecordRun, None, int]:
        """Runs up to the end of ``buffer``, or unless ``last``, to the first record that extends past it."""
        at, size = 0, len(buffer)
        framing = self.framing.one_pass(size)
        if not self._begun:
            at = self._begin(buffer, last=last)
            if at < 0:
                return 0
        while at < size:
            try:
                starts, end = framing.scan(
                    buffer, at, min(size, at + self._run_bytes), verify=self._verify, max_records=size, last=last
                )
            except _native.FormatError as error:
                count, after = self._resume(framing, error, buffer, last=last)
                end = int(error.starts[count]) if count < len(error.starts) else int(error.offset)
                if count:
                    yield self._run(buffer, error.starts[:count], end, base)
                if after < 0:
                    return end
                fault = self.framing.fault_at(error, self.path, self._number, base)
                self._fail(
                    fault if end == error.offset else fault.relocated(Where(offset=base + end)), after - end, error
                )
                at = after
            else:
                if len(starts):
                    yield self._run(buffer, starts, end, base)
                at = end
                self._run_bytes = min(2 * self._run_bytes, self._most_run_bytes)
        return at

    def _begin(self, buffer: memoryview, *, last: bool) -> int:
        """Where the first record begins; -1 if that needs more of the stream."""
        try:
            at = self.framing.begin(buffer, self.path, last=last)
        except DataError as fault:
            self._fail(fault, len(buffer))
            at = len(buffer)
        if at < 0 and last:
            return len(buffer)  # The file ends before its first record.
        self._begun = at >= 0
        return at

    @property
    def _number(self) -> int:
        """The number of the next record in the file. A damaged stretch has a number too."""
        return self.records + len(self.faults)

    def _run(self, buffer: memoryview, starts: npt.NDArray[np.int64], end: int, base: int) -> RecordRun:
        run = RecordRun(self.path, buffer, starts, int(end), base, self._number)
        self.records += len(starts)
        return run

    def _resume(
        self, framing: Framing, error: _native.FormatError, buffer: memoryview, *, last: bool
    ) -> tuple[int, int]:
        """How many of ``error.starts`` count, and where to resume; -1 if that needs more of the stream."""
        if error.fault == "truncated" and not last:
            return len(error.starts), -1
        if not self._skip:
            return len(error.starts), int(error.offset)
        count, after = framing.resume_after(error, buffer, last=last)
        return count, len(buffer) if after < 0 and last else after

    def _fail(self, fault: DataError, size: int, cause: BaseException | None = None) -> None:
        if not self._skip:
            raise fault from cause
        self.faults.append((fault, size))


def verify_content(framing: RecordFraming, content: MappedFile | ByteStream) -> Iterator[Checked]:
    """Check every length and checksum of one file."""
    scan = Scan(framing, content, verify=True, on_corrupt="skip")
    size = size_on_disk(content.path)
    counted = reported = 0
    lost: list[DataError] = []
    try:
        for run in scan:
            spans = framing.gather([run.buffer], None, run.starts, verify=False)
            # Decompressed bytes can exceed the file size: the last stretch reports the rest.
            checked = min(run.size, size - counted)
            yield Checked(scan.path, len(run), checked, _since(scan, reported), spans, run)
            counted, reported = counted + checked, len(scan.faults)
    except CorruptFile as fault:  # The file shrank during the scan.
        lost.append(fault)
    yield Checked(scan.path, 0, size - counted, [*_since(scan, reported), *lost])


def _since(scan: Scan, reported: int) -> list[DataError]:
    return [fault for fault, _ in scan.faults[reported:]]
