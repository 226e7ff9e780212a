"""RecordIO files, read and written: a sequence of records, each preceded by a magic word and its length; plain, or in one
GZIP or ZLIB stream.

Source of the format: dmlc-core's ``include/dmlc/recordio.h``. A record is one part or several; a part is a magic word, a
word that holds a flag (upper 3 bits: 0 a whole record, 1 the first part, 2 one between, 3 the last) and the payload's length
(lower 29), the payload, and zeros up to a multiple of 4; all little-endian.

Like the SageMaker SDK's, our writer never splits a record into parts. So a dmlc reader that starts in the middle of a file
may mistake a magic word inside a payload for the start of a record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace._faults import VERIFY_HINT, describe
from headrace.contracts.records import Format, OnCorrupt
from headrace.contracts.values import Indices
from headrace.errors import CorruptRecord, DataError, UnsupportedData, Where
from headrace.formats.framed.records import FramedRecords, verify_framed
from headrace.formats.framed.scan import RecordFraming
from headrace.formats.framed.write import FramedWriter
from headrace.io.local.mapped import guard_reads

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "ALIGNMENT",
    "FORMAT",
    "HEAD",
    "MAGIC",
    "MAGIC_BYTES",
    "PAYLOAD_LIMIT",
    "Join",
    "Readable",
    "RecordIOFraming",
    "RecordIORecords",
    "RecordIOWriter",
    "is_recordio",
    "read_stream",
]


Join = Literal["auto", "magic", "plain"]

MAGIC: int = _native.RECORDIO_MAGIC
MAGIC_BYTES = MAGIC.to_bytes(4, "little")
HEAD = 8
ALIGNMENT = 4
PAYLOAD_LIMIT = 1 << 29  # the length has 29 bits
NO_FORMAT_HINT = "Is this a RecordIO file at all?"
BEFORE_HINT = "Either this record is damaged, or the length of the one before it. "
FLAGS = ("a whole record", "a first part", "a middle part", "a last part")


def is_recordio(head: bytes) -> bool:
    """Whether these first bytes are those of a plain RecordIO file: the magic word, and a flag that starts a record."""
    return len(head) >= HEAD and head[:4] == MAGIC_BYTES and head[7] >> 5 <= 1


class RecordIOFraming(RecordFraming):
    """RecordIO for scanning, indexing, gathering and writing.

    Args:
        join: How to join records of several parts: ``"magic"`` puts the magic word back between the parts, where dmlc's
            writer cut it out; ``"plain"`` concatenates them, like ML-IO; ``"auto"`` picks whichever the codec can read,
            ``"magic"`` first.
        walks: Memo of the multi-part records of one buffer.
    """

    name = "recordio"
    head = HEAD
    tail = ALIGNMENT - 1

    def __init__(self, join: Join = "auto", *, walks: _native.RecordIOWalks | None = None) -> None:
        if join not in ("auto", "magic", "plain"):
            raise ValueError(f"join must be 'auto', 'magic' or 'plain', got {join!r}")
        self.join: Join = join
        self._walks = walks

    def one_pass(self, size: int) -> RecordIOFraming:
        """A framing that walks each run of parts once, not once per header that may lead into it."""
        _ = size
        return RecordIOFraming(self.join, walks=_native.RecordIOWalks())

    def is_plain(self, head: bytes) -> bool:
        """Whether these first bytes are those of an uncompressed file."""
        return is_recordio(head)

    def scan(
        self, buffer: memoryview, start: int, stop: int, *, verify: bool, max_records: int, last: bool = True
    ) -> tuple[Indices, int]:
        """Starts of the records that begin in ``[start, stop)``, and where the next one begins. There are no checksums."""
        _ = verify, last
        return _native.scan_recordio(buffer, start, stop, max_records=max_records, walks=self._walks)

    def find(self, buffer: memoryview, start: int) -> int:
        """The first multiple of 4 at or after ``start`` where a complete record begins; -1 if there is none."""
        return int(_native.find_recordio(buffer, start, self._walks))

    def resume_after(self, error: _native.FormatError, buffer: memoryview, *, last: bool) -> tuple[int, int]:
        """How many of ``error.starts`` count, and where the next record begins.

        If no record follows, the length of the last one may be wrong; the search then continues inside it.
        """
        _ = last
        starts, at = error.starts, int(error.offset)
        no_record = len(starts) > 0 and error.fault in ("magic", "part")
        after = self.find(buffer, (int(starts[-1]) if no_record else at) + ALIGNMENT)
        return len(starts) - int(0 <= after < at), after

    def gather(
        self,
        buffers: _native.Buffers | list[Any],
        which: npt.NDArray[np.int32] | None,
        offsets: Indices,
        *,
        verify: bool,
    ) -> _native.Spans:
        """The payloads of the records at these offsets."""
        _ = verify
        return _native.gather_recordio(buffers, which, offsets, join=self.join)

    def payloads(self, buffer: memoryview, starts: Indices, end: int) -> Iterator[memoryview]:
        """Views of the payloads of adjacent records that end at ``end``; copies if a record has several parts."""
        _ = end
        if not len(starts):
            return
        with guard_reads(buffer):
            heads = np.frombuffer(buffer, np.uint8)[starts[:, None] + np.arange(4, HEAD)]
        begins = starts + HEAD
        stops = begins + heads.view("<u4")[:, 0]
        for begin, stop in zip(begins.tolist(), stops.tolist(), strict=True):
            if stop - begin < PAYLOAD_LIMIT:  # no flag: a single-part record
                yield buffer[begin:stop]
            else:
                yield self.gather([buffer], None, np.array([begin - HEAD], np.int64), verify=False).view(0)

    def fault_at(self, error: _native.FormatError, path: str | None, record: int, base: int) -> DataError:
        """The error for a fault that native code found at record ``record`` of a file, in bytes that begin at ``base``."""
        where = Where(path=path, record=record, offset=base + int(error.offset))
        hint = NO_FORMAT_HINT if where.offset == 0 else BEFORE_HINT + VERIFY_HINT
        if error.fault == "magic":
            return CorruptRecord(
                where, expected=f"the magic word {error.expected:#010x}", found=f"{error.found:#010x}", hint=hint
            )
        if error.fault == "part":
            return CorruptRecord(where, expected=_opening(error.expected), found=_flag(error.found), hint=hint)
        fault = describe(error, where)
        return CorruptRecord(
            where, expected=fault.expected, found=fault.found, hint=fault.hint if base + error.offset else hint
        )

    def frame_block(self, block: npt.NDArray[np.uint8], starts: Indices, sizes: Indices) -> int:
        """Fill in the bytes around the payloads of a block, and close gaps. Returns how much of the block is used.

        Raises:
            UnsupportedData: A payload is too long for RecordIO.
        """
        try:
            return int(_native.frame_recordio(block, starts, sizes))
        except _native.FormatError as error:
            raise _too_long(error) from error

    def frame_payloads(self, payloads: Sequence[Buffer]) -> npt.NDArray[np.uint8]:
        """Complete framed records of one part each, concatenated.

        Raises:
            UnsupportedData: A payload is too long for RecordIO.
        """
        try:
            return _native.frame_recordio_payloads(payloads)
        except _native.FormatError as error:
            raise _too_long(error) from error


def _opening(flag: int) -> str:
    return "a whole record or a first part" if flag == 0 else "a middle or a last part"


def _flag(flag: int) -> str:
    return FLAGS[flag] if flag < len(FLAGS) else f"the unknown flag {flag}"


def _too_long(error: _native.FormatError) -> UnsupportedData:
    return UnsupportedData(
        Where(),
        expected=f"payloads of up to {PAYLOAD_LIMIT - 1} bytes, the limit of RecordIO's length field",
        found=f"one of {error.found} bytes",
    )


class RecordIOWriter(FramedWriter):
    """Writes one RecordIO file. See :class:`FramedWriter` for the arguments and other errors.

    Raises:
        UnsupportedData: On writing, for a payload of 512 MiB or more.
    """

    framing = RecordIOFraming()


class RecordIORecords(FramedRecords):
    """The records of RecordIO files, concatenated in order. See :class:`FramedRecords` for the other arguments.

    Args:
        join: How to join records of several parts: ``"magic"`` puts the magic word back between the parts, where dmlc's
            writer cut it out; ``"plain"`` concatenates them, like ML-IO; ``"auto"`` picks whichever the codec can read,
            ``"magic"`` first (and always ``"magic"`` for raw payloads).
    """

    def __init__(
        self,
        paths: Sequence[str],
        *,
        compression: str | None = None,
        on_corrupt: OnCorrupt = "raise",
        verify: bool = True,
        join: Join = "auto",
    ) -> None:
        super().__init__(RecordIOFraming(join), paths, compression=compression, on_corrupt=on_corrupt, verify=verify)


FRAMING = RecordIOFraming()


class Readable(Protocol):
    """A binary file."""

    def read(self, size: int, /) -> bytes | None: ...


def read_stream(file: Readable, choose: Callable[[bytes, bytes], bytes]) -> Iterator[bytes]:
    """The payloads, in order. No byte after a record is read before the next one is requested.

    Args:
        file: Read from its position to its end. Padding may be missing after the last payload.
        choose: Chooses the payload of a multi-part record, given both joins: with the magic word between the parts, and without.

    Raises:
        CorruptRecord: A record is truncated or damaged. Its offset counts from where reading began.
    """
    stream = _Stream(file)
    while head := stream.read(HEAD):
        body = b""
        if len(head) == HEAD and head[:4] == MAGIC_BYTES and head[7] < 1 << 5:  # a single-part record, the common case
            size = int.from_bytes(head[4:], "little")
            body = stream.read(size + -size % ALIGNMENT)
            if len(body) >= size:
                stream.records += 1
                yield body[:size]
                continue
        yield choose(*stream.join(head + body))


class _Stream:
    """Reads a file and tracks the offset."""

    def __init__(self, file: Readable) -> None:
        self._file = file
        name = getattr(file, "name", None)
        self._path = name if isinstance(name, str) else None
        self._at = 0
        self.records = 0
        """Records read so far."""

    def read(self, size: int) -> bytes:
        """Read ``size`` bytes, or fewer only at the end: unbuffered pipes return short reads."""
        part = self._file.read(size) or b""
        while len(part) < size and (more := self._file.read(size - len(part))):
            part += more
        self._at += len(part)
        return part

    def join(self, raw: bytes) -> tuple[bytes, bytes]:
        """The record that begins with ``raw``, with the magic word between its parts and without."""
        begin = self._at - len(raw)
        while True:
            try:
                _native.scan_recordio(raw, 0, 1, max_records=1)
                break
            except _native.FormatError as error:
                more = self.read(error.expected - error.found) if error.fault == "truncated" else b""
                if not more and not self._lacks_padding(raw):
                    raise self._fault(error, begin) from error
                raw += more or bytes(-len(raw) % ALIGNMENT)
        self.records += 1
        first = np.zeros(1, np.int64)
        with_magic = _native.gather_recordio([raw], None, first, join="magic")
        return bytes(with_magic.view(0)), bytes(_native.gather_recordio([raw], None, first, join="plain").view(0))

    def _lacks_padding(self, raw: bytes) -> bool:
        missing = -len(raw) % ALIGNMENT
        try:
            return missing > 0 and len(_native.scan_recordio(raw + bytes(missing), 0, 1, max_records=1)[0]) == 1
        except _native.FormatError:
            return False

    def _fault(self, error: _native.FormatError, begin: int) -> CorruptRecord:
        fault = FRAMING.fault_at(error, self._path, self.records, begin)
        assert isinstance(fault, CorruptRecord)
        return fault


FORMAT = Format(
    name="recordio",
    suffixes=(".recordio", ".rec", ".pbr", ".rio"),
    knows=is_recordio,
    open=RecordIORecords,
    options=frozenset({"on_corrupt", "verify"}),
    compressible=True,
    codec="sagemaker_record",
    writer=RecordIOWriter,
    joined_writer=RecordIOWriter,
    verify=verify_framed,
)
