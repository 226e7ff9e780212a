"""What writers of records have in common: payloads gather until there are enough of them to be framed together."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.io.atomic import AtomicFile, Closing
from headrace.io.paths import PathLike

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["RecordWriter"]

GATHER_BYTES = 1 << 20
GATHER_RECORDS = 4096


class RecordWriter(Closing):
    """Writes records into one file, which appears under its name at ``close``, or never.

    Args:
        path: The file.
    """

    head: int = 0
    """Bytes that ``write_block`` needs before each payload."""
    tail: int = 0
    """Bytes that it needs behind each."""

    def __init__(self, path: PathLike) -> None:
        self._file = AtomicFile(path)
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self.records = 0
        """Records written so far."""

    @property
    def path(self) -> str:
        """The final name."""
        return self._file.path

    def write(self, payload: Buffer) -> None:
        """Append one record."""
        self.write_many((payload,))

    def write_many(self, payloads: Sequence[Buffer]) -> None:
        """Append several records."""
        self._check_open()
        # A buffer that the caller may fill anew is copied; bytes cannot change.
        kept = [payload if isinstance(payload, bytes) else bytes(payload) for payload in payloads]
        self._waiting += kept
        self.records += len(kept)
        self._waiting_bytes += sum(map(len, kept))
        if self._waiting_bytes >= GATHER_BYTES or len(self._waiting) >= GATHER_RECORDS:
            self._flush()

    def close(self) -> None:
        """Put the whole file into its place. A second call does nothing."""
        if self._file.closed:
            return
        try:
            self._flush(last=True)
            self._end()
            self._file.close()
        except BaseException:
            self.abort()
            raise

    def abort(self) -> None:
        """Leave no file behind. Does nothing after ``close``."""
        self._waiting.clear()
        self._file.abort()

    @abstractmethod
    def _flush(self, *, last: bool = False) -> None:
        """Frame what waits; all of it if nothing comes after it (``last``)."""

    @abstractmethod
    def _end(self) -> None:
        """Write what stands behind the last record."""

    def _check_open(self) -> None:
        if self._file.closed:
            raise ValueError(f"{self.path} is closed")
