"""Where the lines of a text file begin: blank ones do not count."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt

from headrace.contracts.values import Indices
from headrace.errors import CorruptFile, DataError, Where
from headrace.formats.framed.framing import Framing
from headrace.formats.index.build import record_index
from headrace.formats.index.index import RecordIndex
from headrace.io.cache.inflate import Compression
from headrace.io.local.fileset import FileSet
from headrace.io.local.mapped import guard_reads

__all__ = ["LineFraming", "line_index"]


BYTE_ORDER_MARK = b"\xef\xbb\xbf"
NEWLINE = 10
BLANKS = b" \t\r\n"
LOOK_BYTES = 64 << 10


class LineFraming:
    """Lines, as far as making an index is concerned.

    Args:
        name: Of the format whose index it is.
    """

    has_checksums = False

    def __init__(self, name: str) -> None:
        self.name = self.index_name = name

    def one_pass(self, size: int) -> LineFraming:
        """Nothing has to be remembered."""
        _ = size
        return self

    def is_plain(self, head: bytes) -> bool:
        """Text does not look like compression."""
        return not head.startswith(b"\x1f\x8b") and head[:1].isascii() and head[:1] != b"x"

    def begin(self, buffer: memoryview, path: str, *, last: bool) -> int:
        """With the first byte."""
        del buffer, path, last
        return 0

    def scan(
        self, buffer: memoryview, start: int, stop: int, *, verify: bool, max_records: int, last: bool = True
    ) -> tuple[Indices, int]:
        """Starts of the lines that begin in ``[start, stop)``, where ``start`` is that of a line; and of the next one."""
        del verify, max_records, last
        with guard_reads(buffer):
            return self._scanned(buffer, start, stop)

    def _scanned(self, buffer: memoryview, start: int, stop: int) -> tuple[Indices, int]:
        content = np.frombuffer(buffer, np.uint8)
        starts = np.flatnonzero(content[start:stop] == NEWLINE) + (start + 1)
        starts = np.concatenate(([start], starts[starts < stop]))
        if start == 0 and bytes(buffer[:3]) == BYTE_ORDER_MARK:
            starts[0] = 3
        return self._not_blank(content, starts), self.next_line(buffer, stop)

    def find(self, buffer: memoryview, start: int) -> int:
        """The first line from ``start`` on; -1 where none begins there."""
        with guard_reads(buffer):
            found = self.next_line(buffer, start)
        return found if found < len(buffer) else -1

    def next_line(self, buffer: memoryview, at: int) -> int:
        """Where the first line that is not blank begins at ``at`` or behind it; the end of the buffer if none does."""
        content = np.frombuffer(buffer, np.uint8)
        begin = at if at == 0 or content[at - 1 : at] == NEWLINE else self._behind_newline(content, at)
        while begin < len(content) and not len(self._not_blank(content, np.array([begin]))):
            begin = self._behind_newline(content, begin)
        return begin

    def fault_at(self, error: Any, path: str | None, record: int, base: int) -> DataError:
        """There are no faults in lines as such."""
        return CorruptFile(Where(path=path, record=record, offset=base), expected="lines", found=str(error))

    def _behind_newline(self, content: npt.NDArray[np.uint8], at: int) -> int:
        while at < len(content):
            found = np.flatnonzero(content[at : at + LOOK_BYTES] == NEWLINE)
            if found.size:
                return at + int(found[0]) + 1
            at += LOOK_BYTES
        return len(content)

    def _not_blank(self, content: npt.NDArray[np.uint8], starts: Indices) -> Indices:
        starts = starts[starts < len(content)]
        doubtful = np.flatnonzero(np.isin(content[starts], list(BLANKS)))
        if not doubtful.size:
            return starts
        blank = [at for at in doubtful.tolist() if _is_blank(content, int(starts[at]))]
        return np.delete(starts, blank)


def _is_blank(content: npt.NDArray[np.uint8], at: int) -> bool:
    """Whether only blanks stand between ``at`` and the end of its line."""
    while at < len(content) and content[at] != NEWLINE:
        if content[at] not in BLANKS:
            return False
        at += 1
    return True


def line_index(name: str, files: FileSet, compression: Compression | None) -> RecordIndex:
    """Where the lines of some files begin: from the cache, with what is stale in it made again."""
    return record_index(cast("Framing", LineFraming(name)), files, on_corrupt="raise", compression=compression)
