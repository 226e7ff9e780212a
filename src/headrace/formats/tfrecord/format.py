"""TFRecord files, read and written byte for byte as TensorFlow does: a sequence of records, each with its length
and two checksums; plain, or in one GZIP or ZLIB stream.

Source of the format: TensorFlow's ``tensorflow/core/lib/io/record_writer.h``. A record is ``uint64 length``,
``uint32 masked CRC-32C of the length``, payload, ``uint32 masked CRC-32C of the payload``, all little-endian.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace._faults import describe
from headrace.contracts.records import Format, OnCorrupt
from headrace.contracts.values import Indices
from headrace.errors import CorruptRecord, DataError, Where
from headrace.formats.framed.records import FramedRecords, verify_framed
from headrace.formats.framed.scan import RecordFraming
from headrace.formats.framed.write import FramedWriter

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "FORMAT",
    "HEAD",
    "OVERHEAD",
    "TAIL",
    "TFRecordFraming",
    "TFRecordRecords",
    "TFRecordWriter",
    "is_tfrecord",
    "resume_after",
]


HEAD = 12  # length (8) and its checksum (4)
TAIL = 4  # checksum of the payload
OVERHEAD = HEAD + TAIL
NO_FORMAT_HINT = "Is this a TFRecord file at all?"


def is_tfrecord(head: bytes) -> bool:
    """Whether these first bytes are those of a plain TFRecord file: a length with a correct checksum."""
    return len(head) >= HEAD and _native.masked_crc32c(head[:8]) == int.from_bytes(head[8:HEAD], "little")


class TFRecordFraming(RecordFraming):
    """TFRecord for scanning, indexing, gathering and writing.

    Args:
        patience: Budget of bytes to checksum in failed searches of one buffer.
    """

    name = "tfrecord"
    head = HEAD
    tail = TAIL
    has_length_checksums = True

    def __init__(self, *, patience: _native.Patience | None = None) -> None:
        self._patience = patience

    def one_pass(self, size: int) -> TFRecordFraming:
        """A framing that gives up after checksumming 64 times ``size`` without success.

        Accidental damage never comes near that. In a hostile file, each of many records may claim the whole rest.
        """
        return TFRecordFraming(patience=_native.Patience(size))

    def is_plain(self, head: bytes) -> bool:
        """Whether these first bytes are those of an uncompressed file."""
        return is_tfrecord(head)

    def scan(
        self, buffer: memoryview, start: int, stop: int, *, verify: bool, max_records: int, last: bool = True
    ) -> tuple[Indices, int]:
        """Starts of the records that begin in ``[start, stop)``, and where the next one begins. Lengths are always checked."""
        _ = last  # every record states its length
        return _native.scan_tfrecord(buffer, start, stop, verify=verify, max_records=max_records)

    def find(self, buffer: memoryview, start: int) -> int:
        """Where the first complete, intact record at or after ``start`` begins; -1 if there is none."""
        return int(_native.find_tfrecord(buffer, start, self._patience))

    def resume_after(self, error: _native.FormatError, buffer: memoryview, *, last: bool) -> tuple[int, int]:
        """How many of ``error.starts`` count (all of them), and where the next intact record begins."""
        return len(error.starts), resume_after(error, buffer, last=last, patience=self._patience)

    def gather(
        self,
        buffers: _native.Buffers | list[Any],
        which: npt.NDArray[np.int32] | None,
        offsets: Indices,
        *,
        verify: bool,
    ) -> _native.Spans:
        """The payloads of the records at these offsets. With ``verify``, checksums are checked when payloads are read."""
        return _native.gather_tfrecord(buffers, which, offsets, verify=verify)

    def payloads(self, buffer: memoryview, starts: Indices, end: int) -> Iterator[memoryview]:
        """Views of the payloads of adjacent records that end at ``end``."""
        begins = starts.tolist()
        for start, stop in zip(begins, [*begins[1:], end], strict=True):
            yield buffer[start + HEAD : stop - TAIL]

    def fault_at(self, error: _native.FormatError, path: str | None, record: int, base: int) -> DataError:
        """The error for a fault that native code found at record ``record`` of a file, in bytes that begin at ``base``."""
        place = Where(path=path, record=record, offset=base + int(error.offset))
        fault = describe(error, place)
        if place.offset == 0 and error.fault != "payload_checksum":
            return CorruptRecord(place, expected=fault.expected, found=fault.found, hint=NO_FORMAT_HINT)
        return fault

    def frame_block(self, block: npt.NDArray[np.uint8], starts: Indices, sizes: Indices) -> int:
        """Fill in the bytes around the payloads of a block. All of the block is used."""
        _native.frame_tfrecord(block, starts, sizes)
        return len(block)

    def frame_payloads(self, payloads: Sequence[Buffer]) -> npt.NDArray[np.uint8]:
        """Complete framed records, concatenated."""
        return _native.frame_tfrecords(payloads)


def resume_after(
    error: _native.FormatError, buffer: memoryview, *, last: bool = True, patience: _native.Patience | None = None
) -> int:
    """Where the next intact record after a damaged one begins, or -1 if none is found.

    If only the payload is damaged, its length is trusted unless no record follows it. Otherwise search for
    the next complete, intact record until ``patience`` is used up.
    """
    at = int(error.offset)
    if error.fault == "payload_checksum":
        length = int.from_bytes(_native.copy_bytes(buffer, at, 8), "little")
        after = at + OVERHEAD + length
        if patience is not None:
            patience.spend(length)
            if not patience.left:
                return -1
        if after == len(buffer) or is_tfrecord(_native.copy_bytes(buffer, min(after, len(buffer)), HEAD)):
            return after
        if not last and after + HEAD > len(buffer):
            return -1
    return int(_native.find_tfrecord(buffer, at + 1, patience))


class TFRecordWriter(FramedWriter):
    """Writes one TFRecord file. See :class:`FramedWriter` for the arguments and errors."""

    framing = TFRecordFraming()


class TFRecordRecords(FramedRecords):
    """The records of TFRecord files, concatenated in order. See :class:`FramedRecords` for the arguments."""

    def __init__(
        self,
        paths: Sequence[str],
        *,
        compression: str | None = None,
        on_corrupt: OnCorrupt = "raise",
        verify: bool = True,
    ) -> None:
        super().__init__(TFRecordFraming(), paths, compression=compression, on_corrupt=on_corrupt, verify=verify)


FORMAT = Format(
    name="tfrecord",
    suffixes=(".tfrecord", ".tfrecords", ".tfrec", ".tfr", ".record"),
    knows=is_tfrecord,
    open=TFRecordRecords,
    options=frozenset({"on_corrupt", "verify"}),
    compressible=True,
    writer=TFRecordWriter,
    joined_writer=TFRecordWriter,
    verify=verify_framed,
)
