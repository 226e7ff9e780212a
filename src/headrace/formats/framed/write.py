"""Write files of framed records. Payloads are buffered, then framed together."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headrace.contracts.values import Indices
from headrace.errors import Where
from headrace.formats.framed.scan import RecordFraming
from headrace.io.cache.inflate import deflater, parse_compression
from headrace.io.paths import PathLike
from headrace.io.write.atomic import AtomicFile, Closing

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["FileWriter", "FramedWriter"]


GATHER_BYTES = 1 << 20
GATHER_RECORDS = 4096


class FileWriter(Closing):
    """Writes records into one file, which appears under its name at ``close``, or never.

    Args:
        path: The file.
    """

    head: int = 0
    """Bytes that ``write_block`` needs before each payload."""
    tail: int = 0
    """Bytes that it needs after each payload."""

    def __init__(self, path: PathLike) -> None:
        self._file = AtomicFile(path)
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self.records: int = 0
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
        # Copy buffers that the caller may overwrite; bytes are immutable.
        kept = [
            payload if isinstance(payload, bytes) else self._copied(payload, at) for at, payload in enumerate(payloads)
        ]
        self._waiting += kept
        self.records += len(kept)
        self._waiting_bytes += sum(map(len, kept))
        if self._waiting_bytes >= GATHER_BYTES or len(self._waiting) >= GATHER_RECORDS:
            self._flush()

    def close(self) -> None:
        """Move the complete file into place. A second call does nothing."""
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
        """Remove the unfinished file. Does nothing after ``close``."""
        self._waiting.clear()
        self._file.abort()

    @abstractmethod
    def _flush(self, *, last: bool = False) -> None:
        """Frame the pending payloads; with ``last``, all of them."""

    @abstractmethod
    def _end(self) -> None:
        """Write what follows the last record."""

    def _check_open(self) -> None:
        if self._file.closed:
            raise ValueError(f"{self.path} is closed")

    def _copied(self, payload: Any, at: int) -> bytes:
        """The bytes of a buffer. ``bytes(5)`` would be five NUL bytes, and ``bytes([1, 2])`` two bytes."""
        try:
            view = memoryview(payload)
        except (TypeError, ValueError, BufferError):
            view = None
        # Numbers of NumPy are buffers, too, but without an axis; and those of objects hold addresses.
        if view is None or not view.ndim or view.format == "O" or isinstance(payload, str):
            place = Where(path=self.path, record=self.records + at)
            raise TypeError(
                f"expected a payload: bytes or a buffer of bytes, found {type(payload).__name__} - at {place}. "
                "Write one payload as [payload], text with .encode(), and examples with hr.write."
            )
        return bytes(view)


class FramedWriter(FileWriter):
    """Writes one file of framed records, which appears under its name at ``close``, or never.

    A subclass provides the framing and the room it needs around each payload.

    Args:
        path: The file.
        compression: ``"gzip"``, ``"zlib"`` or ``"none"`` (also ``None``).
        level: Compression level, 0 (none) to 9 (smallest); -1 is zlib's choice, 6.

    Raises:
        ValueError: No such compression or level.
    """

    framing: RecordFraming
    """The framing of the format."""
    head: int
    tail: int

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.head, cls.tail = cls.framing.head, cls.framing.tail

    def __init__(self, path: PathLike, *, compression: str | None = None, level: int = -1) -> None:
        wrapper = parse_compression(compression) or "none"
        if not -1 <= level <= 9:
            raise ValueError(f"level must be in [-1, 9], got {level}")
        self._deflater: Any = None if wrapper == "none" else deflater(wrapper, level)
        super().__init__(path)

    def write_block(self, block: npt.NDArray[np.uint8], starts: Indices, sizes: Indices) -> None:
        """Append records from one array with room around each payload. The frames are filled in in place.

        Args:
            block: Writable ``uint8``: for each record ``head`` bytes, its payload, ``tail`` bytes, adjacent. The
                writer owns it from now on: a thread may write it while the caller makes the next one.
            starts: ``int64 (n,)``: the offset of each *payload* in ``block``.
            sizes: ``int64 (n,)``: the length of each payload.
        """
        self._check_open()
        self._flush()
        self._put(block[: self.framing.frame_block(block, starts, sizes)])
        self.records += len(starts)

    def _flush(self, *, last: bool = False) -> None:  # noqa: ARG002 - records are never held back
        if self._waiting:
            waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
            self._put(self.framing.frame_payloads(waiting))

    def _end(self) -> None:
        if self._deflater is not None:
            self._file.write(self._deflater.flush())

    def _put(self, framed: npt.NDArray[np.uint8]) -> None:
        self._file.give(framed if self._deflater is None else self._deflater.compress(framed))
