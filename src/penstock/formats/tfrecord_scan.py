"""Finding TFRecord records in order: in a mapped file, or in a stream that is still being inflated."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from penstock import _native
from penstock._faults import describe
from penstock.contracts.records import OnCorrupt
from penstock.errors import CorruptRecord, DataError, Where
from penstock.io.inflated import InflatedStream
from penstock.io.mapped import MappedFile

__all__ = ["HEAD", "OVERHEAD", "Run", "Scan", "fault_at", "is_tfrecord", "resume_after"]

HEAD = 12  # length (8) and its checksum (4)
TAIL = 4  # checksum of the payload
OVERHEAD = HEAD + TAIL
RUN_BYTES = 1 << 20
KEPT_BYTES = 64 << 20  # of what was passed stay resident; measured: dropping from 16 MiB up costs nothing in order
NO_FORMAT_HINT = "Is this a TFRecord file at all?"


def is_tfrecord(head: bytes) -> bool:
    """Whether some first bytes are those of a plain TFRecord file: a length whose checksum is right."""
    return len(head) >= HEAD and _native.masked_crc32c(head[:8]) == int.from_bytes(head[8:HEAD], "little")


@dataclass(frozen=True, slots=True)
class Run:
    """Sound records that lie one behind the other.

    Args:
        path: Their file.
        buffer: The bytes they lie in.
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

    def cut(self, count: int) -> tuple[Run, Run]:
        """The first ``count`` records (of at least as many), and the others."""
        middle = self.end if count == len(self) else int(self.starts[count])
        head = replace(self, starts=self.starts[:count], end=middle)
        return head, replace(self, starts=self.starts[count:], first=self.first + count)

    def where(self, position: int) -> Where:
        """The place of one of these records."""
        return Where(path=self.path, record=self.first + position, offset=self.base + int(self.starts[position]))

    def payloads(self) -> Iterator[memoryview]:
        """Views of the payloads."""
        starts = self.starts.tolist()
        for start, stop in zip(starts, [*starts[1:], self.end], strict=True):
            yield self.buffer[start + HEAD : stop - TAIL]


class Scan:
    """One pass over the records of one file.

    Args:
        content: What to read: a mapped file, or a stream.
        verify: Whether payload checksums are checked too. Length checksums always are.
        on_corrupt: ``"raise"``, or ``"skip"`` to go on behind damaged records.
        run_bytes: About how long each run is.
    """

    def __init__(
        self,
        content: MappedFile | InflatedStream,
        *,
        verify: bool,
        on_corrupt: OnCorrupt = "raise",
        run_bytes: int = RUN_BYTES,
    ) -> None:
        self.path = content.path
        self.records = 0
        """Sound records so far."""
        self.faults: list[tuple[DataError, int]] = []
        """With ``"skip"``: what was skipped, and how many bytes."""
        self._content = content
        self._verify = verify
        self._skip = on_corrupt == "skip"
        self._run_bytes = run_bytes

    def __iter__(self) -> Iterator[Run]:
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

    def _mapped(self, content: MappedFile) -> Generator[Run, None, int]:
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

    def _streamed(self, parts: Iterable[bytes]) -> Generator[Run, None, int]:
        window, base = memoryview(b""), 0
        waiting: list[bytes] = []
        waiting_bytes = 0
        for part in parts:
            waiting.append(part)
            waiting_bytes += len(part)
            if waiting_bytes < len(window):
                continue  # A record larger than a part: doubling what is looked at keeps the joining linear.
            window = memoryview(b"".join([window, *waiting]))
            waiting, waiting_bytes = [], 0
            used = yield from self._runs(window, base, last=False)
            window, base = window[used:], base + used
        window = memoryview(b"".join([window, *waiting]))
        used = yield from self._runs(window, base, last=self._content.fault is None)
        return len(window) - used

    def _runs(self, buffer: memoryview, base: int, *, last: bool) -> Generator[Run, None, int]:
        """Runs up to the end of ``buffer``, or to the first record that reaches beyond it when it is not the ``last``."""
        at, size = 0, len(buffer)
        while at < size:
            try:
                starts, end = _native.scan_tfrecord(
                    buffer, at, min(size, at + self._run_bytes), verify=self._verify, max_records=size
                )
            except _native.FormatError as error:
                if len(error.starts):
                    yield self._run(buffer, error.starts, error.offset, base)
                if error.fault == "truncated" and not last:
                    return int(error.offset)
                at = self._after(error, buffer, base, last=last)
                if at < 0:
                    return int(error.offset)
            else:
                yield self._run(buffer, starts, end, base)
                at = end
        return at

    @property
    def _number(self) -> int:
        """Number of the next record in the file; a damaged stretch has one too."""
        return self.records + len(self.faults)

    def _run(self, buffer: memoryview, starts: npt.NDArray[np.int64], end: int, base: int) -> Run:
        run = Run(self.path, buffer, starts, int(end), base, self._number)
        self.records += len(starts)
        return run

    def _after(self, error: _native.FormatError, buffer: memoryview, base: int, *, last: bool) -> int:
        """Where to go on after a fault; -1 where that needs more of the stream."""
        fault = fault_at(error, self.path, self._number, base)
        if self._skip:
            at = resume_after(error, buffer, last=last)
            if at < 0 and not last:
                return -1
            at = len(buffer) if at < 0 else at
            self._fail(fault, at - error.offset)
            return at
        raise fault from error

    def _fail(self, fault: DataError, size: int) -> None:
        if not self._skip:
            raise fault
        self.faults.append((fault, size))


def fault_at(error: _native.FormatError, path: str, record: int, base: int) -> DataError:
    """The error for a fault that native code saw at record ``record`` of a file, in bytes that begin at ``base``."""
    place = Where(path=path, record=record, offset=base + int(error.offset))
    fault = describe(error, place)
    if place.offset == 0 and error.fault != "payload_checksum":
        return CorruptRecord(place, expected=fault.expected, found=fault.found, hint=NO_FORMAT_HINT)
    return fault


def resume_after(error: _native.FormatError, buffer: memoryview, *, last: bool = True) -> int:
    """Where the next sound record behind a damaged one begins, or -1 where none is found.

    Where only a payload is damaged its length can be trusted, unless what follows shows that it cannot: then, and for
    every other fault, the next bytes that look like a whole sound record are searched for.
    """
    at = int(error.offset)
    if error.fault == "payload_checksum":
        after = at + OVERHEAD + int.from_bytes(buffer[at : at + 8], "little")
        if after == len(buffer) or is_tfrecord(bytes(buffer[after : after + HEAD])):
            return after
        if not last and after + HEAD > len(buffer):
            return -1
    return int(_native.find_tfrecord(buffer, at + 1))
