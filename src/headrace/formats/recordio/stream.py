"""RecordIO records one by one from anything that has ``read``: pipes, sockets, responses, files in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np

from headrace import _native
from headrace.errors import CorruptRecord
from headrace.formats.recordio.format import ALIGNMENT, HEAD, MAGIC_BYTES, RecordIOFraming

__all__ = ["Readable", "read_stream"]


FRAMING = RecordIOFraming()


class Readable(Protocol):
    """A binary file."""

    def read(self, size: int, /) -> bytes | None: ...


def read_stream(file: Readable, choose: Callable[[bytes, bytes], bytes]) -> Iterator[bytes]:
    """The payloads, in order. No byte behind a record is read before the next one is asked for.

    Args:
        file: Read from where it stands to its end. Padding that is missing behind the very last payload is no fault.
        choose: Decides for a record of several parts: given its payload with the magic word between the parts, and without.

    Raises:
        CorruptRecord: A record is cut off or damaged; the byte counts from where reading began.
    """
    stream = _Stream(file)
    while head := stream.read(HEAD):
        body = b""
        if len(head) == HEAD and head[:4] == MAGIC_BYTES and head[7] < 1 << 5:  # a whole record: nearly all are
            size = int.from_bytes(head[4:], "little")
            body = stream.read(size + -size % ALIGNMENT)
            if len(body) >= size:
                stream.records += 1
                yield body[:size]
                continue
        yield choose(*stream.joined(head + body))


class _Stream:
    """Bytes of a file, and where they were."""

    def __init__(self, file: Readable) -> None:
        self._file = file
        name = getattr(file, "name", None)
        self._path = name if isinstance(name, str) else None
        self._at = 0
        self.records = 0
        """How many there were so far."""

    def read(self, size: int) -> bytes:
        """So many bytes, fewer only at the end: unbuffered pipes give what they have."""
        part = self._file.read(size) or b""
        while len(part) < size and (more := self._file.read(size - len(part))):
            part += more
        self._at += len(part)
        return part

    def joined(self, raw: bytes) -> tuple[bytes, bytes]:
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
