"""Framed records: what a format tells about its frames, and finding records in order, in a mapped file or a stream of parts."""

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

__all__ = ["ByteStream", "Framing", "RecordFraming", "RecordRun", "Scan", "verify_content"]


class Framing(ABC):
    """A sequence of records, each found from the end of the one before it. Has no state; picklable."""

    name: str
    """Of the format."""
    has_checksums: bool = True
    """Whether records show that the index is of another version of the file. If not, blocks of the file are compared."""

    @property
    def index_name(self) -> str:
        """What an index is kept under: the name, and whatever else decides where records begin."""
        return self.name

    def one_pass(self, size: int, /) -> Self:  # noqa: ARG002 - for those that need it
        """This framing for one pass over one buffer of ``size`` bytes by one thread, with what it has to remember between calls."""
        return self

    @abstractmethod
    def is_plain(self, head: bytes, /) -> bool:
        """Whether some first bytes are those of a file that is not compressed."""

    def begin(self, buffer: memoryview, path: str, /, *, last: bool) -> int:  # noqa: ARG002 - for those that need it
        """Where the first record begins; -1 where that needs more bytes, which never is so if these are the ``last``.

        Raises:
            DataError: What comes before the first record is not right.
        """
        return 0

    @abstractmethod
    def scan(
        self, buffer: memoryview, start: int, stop: int, /, *, verify: bool, max_records: int, last: bool = True
    ) -> tuple[Indices, int]:
        """Starts of the records that begin in ``[start, stop)``, and where the next one begins.

        ``last``: the file ends where these bytes do, so that a record whose end nothing marks is whole.

        Raises:
            FormatError: With the starts found before it as ``starts``.
        """

    @abstractmethod
    def find(self, buffer: memoryview, start: int, /) -> int:
        """The first place from ``start`` on at which a whole sound record begins; -1 if there is none."""

    def resume_after(
        self,
        error: _native.FormatError,
        buffer: memoryview,
        /,
        *,
        last: bool,  # noqa: ARG002 - for those that need it
    ) -> tuple[int, int]:
        """How to go on after damage: how many of ``error.starts`` count, and where the next sound record begins (-1 if there is
        none; unless this is the ``last`` part of the stream, one may come).
        """
        return len(error.starts), self.find(buffer, int(error.offset) + 1)

    @abstractmethod
    def fault_at(self, error: _native.FormatError, path: str | None, record: int, base: int, /) -> DataError:
        """The error for a fault that native code saw at record ``record`` of a file, in bytes that begin at ``base``."""


class RecordFraming(Framing):
    """Records of bytes: payloads that are gathered, and framed."""

    head: int
    """Bytes before each payload."""
    tail: int
    """Bytes after it, at most."""

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
        """Payloads of the records at these offsets. ``verify`` leaves checksums to the reader of the payloads."""

    @abstractmethod
    def payloads(self, buffer: memoryview, starts: Indices, end: int, /) -> Iterator[memoryview]:
        """Views of the payloads of adjacent records, the last of which ends at ``end``. They were checked before."""

    @abstractmethod
    def frame_block(self, block: npt.NDArray[np.uint8], starts: Indices, sizes: Indices, /) -> int:
        """Fill in what surrounds the payloads of a block. Returns how much of the block is used."""

    @abstractmethod
    def frame_payloads(self, payloads: Sequence[Buffer], /) -> npt.NDArray[np.uint8]:
        """Whole framed records, joined."""


RUN_BYTES = 1 << 20
SEAM_BYTES = 16 << 10  # of a part are copied after the rest of the previous one: few records, but several at once
KEPT_BYTES = 64 << 20  # of what was passed stay resident; measured: dropping from 16 MiB up costs nothing in order


class ByteStream(Protocol):
    """Bytes in order: a file that is being inflated, a pipe."""

    path: str
    fault: CorruptFile | None
    """After the last part: what the stream ends in."""

    def __iter__(self) -> Iterator[Part]: ...


@dataclass(frozen=True, slots=True)
class RecordRun:
    """Adjacent sound records.

    Args:
        path: Their file.
        buffer: The bytes that hold them.
        starts: ``int64 (n,)``: where each begins in ``buffer``.
        end: Where the last one ends.
        base: Where ``buffer`` begins in the (decompressed) file.
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
        """Buffer, starts and end: of a copy, where users may not get views of mapped files."""
        if mapping_limits.gives_views() or not len(self):
            return self.buffer, self.starts, self.end
        begin = int(self.starts[0])
        return memoryview(_native.copy_bytes(self.buffer, begin, self.size)), self.starts - begin, self.size

    def cut(self, count: int) -> tuple[RecordRun, RecordRun]:
        """The first ``count`` records (of at least as many), and the others."""
        middle = self.end if count == len(self) else int(self.starts[count])
        head = replace(self, starts=self.starts[:count], end=middle)
        return head, replace(self, starts=self.starts[count:], first=self.first + count)

    def where(self, position: int) -> Where:
        """The place of one of these records."""
        return Where(path=self.path, record=self.first + position, offset=self.base + int(self.starts[position]))


class Scan:
    """One pass over the records of one file.

    Args:
        framing: Of the file.
        content: What to read: a mapped file, or a stream.
        verify: Whether payload checksums, where there are any, are checked too.
        on_corrupt: ``"raise"``, or ``"skip"`` to continue after damaged records.
        run_bytes: About how long each run is.
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
        self.path = content.path
        self.records = 0
        """Sound records so far."""
        self.faults: list[tuple[DataError, int]] = []
        """With ``"skip"``: what was skipped, and how many bytes."""
        self._content = content
        self._verify = verify
        self._skip = on_corrupt == "skip"
        self._run_bytes = run_bytes
        self._begun = False

    def __iter__(self) -> Iterator[RecordRun]:
        """The runs of sound records.

        Raises:
            CorruptRecord, CorruptFile: With ``"raise"``: at the first fault, after what comes before it.
        """
        content = self._content
        if isinstance(content, MappedFile):
            rest = yield from self._mapped(content)
        else:
            rest = yield from self._streamed(content)
        if content.fault is not None:
            self._fail(content.fault.relocated(Where(record=self._number)), rest)

    def _mapped(self, content: MappedFile) -> Generator[RecordRun, None, int]:
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

    def _streamed(self, parts: Iterable[Part]) -> Generator[RecordRun, None, int]:
        """Records are used in place. One that spans two parts is copied, with a few after it."""
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
                        break  # A record larger than a part: doubling what is looked at keeps the joining linear.
                    window = memoryview(b"".join([left, *waiting]))
                    waiting = []
                at += len(piece)
                used = yield from self._runs(window, base, last=False)
                base += used
                unused = len(window) - used
                if left and unused <= len(piece):
                    at -= unused  # The rest of the part is used in place.
                    left = left[:0]
                else:
                    left, missing = window[used:], unused
        window = memoryview(b"".join([left, *waiting]))
        used = yield from self._runs(window, base, last=self._content.fault is None)
        return len(window) - used

    def _runs(self, buffer: memoryview, base: int, *, last: bool) -> Generator[RecordRun, None, int]:
        """Runs up to the end of ``buffer``, or to the first record that reaches beyond it when it is not the ``last``."""
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
        return at

    def _begin(self, buffer: memoryview, *, last: bool) -> int:
        """Where the first record begins; -1 where that needs more of the stream."""
        try:
            at = self.framing.begin(buffer, self.path, last=last)
        except DataError as fault:
            self._fail(fault, len(buffer))
            at = len(buffer)
        if at < 0 and last:
            return len(buffer)  # There is less than what comes before the first record.
        self._begun = at >= 0
        return at

    @property
    def _number(self) -> int:
        """Number of the next record in the file; a damaged stretch has one too."""
        return self.records + len(self.faults)

    def _run(self, buffer: memoryview, starts: npt.NDArray[np.int64], end: int, base: int) -> RecordRun:
        run = RecordRun(self.path, buffer, starts, int(end), base, self._number)
        self.records += len(starts)
        return run

    def _resume(
        self, framing: Framing, error: _native.FormatError, buffer: memoryview, *, last: bool
    ) -> tuple[int, int]:
        """How many of ``error.starts`` count, and where to go on; -1 where that needs more of the stream."""
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
            # There are more decompressed bytes than the file has: the last stretch reports the rest.
            checked = min(run.size, size - counted)
            yield Checked(scan.path, len(run), checked, _since(scan, reported), spans, run)
            counted, reported = counted + checked, len(scan.faults)
    except CorruptFile as fault:  # The file shrank while it was read.
        lost.append(fault)
    yield Checked(scan.path, 0, size - counted, [*_since(scan, reported), *lost])


def _since(scan: Scan, reported: int) -> list[DataError]:
    return [fault for fault, _ in scan.faults[reported:]]
