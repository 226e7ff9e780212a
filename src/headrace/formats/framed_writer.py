"""Writing files of framed records."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.contracts.values import Indices
from headrace.formats.framing import Framing
from headrace.formats.record_writer import RecordWriter
from headrace.io.compression import checked, deflater
from headrace.io.paths import PathLike

__all__ = ["FramedWriter"]


class FramedWriter(RecordWriter):
    """Writes one file of framed records, which appears under its name at ``close``, or never.

    A format gives its framing and what that needs round each payload.

    Args:
        path: The file.
        compression: ``"gzip"``, ``"zlib"`` or ``"none"`` (also ``None``).
        level: Of the compression, 0 (none) to 9 (smallest); -1 is zlib's choice, 6.

    Raises:
        ValueError: No such compression or level.
    """

    framing: Framing
    """Of the format."""

    def __init__(self, path: PathLike, *, compression: str | None = None, level: int = -1) -> None:
        wrapper = checked(compression) or "none"
        if not -1 <= level <= 9:
            raise ValueError(f"level must be in [-1, 9], got {level}")
        self._deflater: Any = None if wrapper == "none" else deflater(wrapper, level)
        super().__init__(path)

    def write_block(self, block: npt.NDArray[np.uint8], starts: Indices, sizes: Indices) -> None:
        """Append records that lie in one array with room round each payload; what surrounds them is filled in there.

        Args:
            block: Writable ``uint8``: for each record ``head`` bytes, its payload, ``tail`` bytes, one behind the other. Given
                away: a thread may write it while the next one is being made.
            starts: ``int64 (n,)``: where each *payload* begins in ``block``.
            sizes: ``int64 (n,)``: how long each payload is.
        """
        self._check_open()
        self._flush()
        self._put(block[: self.framing.frame_block(block, starts, sizes)])
        self.records += len(starts)

    def _flush(self, *, last: bool = False) -> None:  # noqa: ARG002 - no record waits for another
        if self._waiting:
            waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
            self._put(self.framing.frame_payloads(waiting))

    def _end(self) -> None:
        if self._deflater is not None:
            self._file.write(self._deflater.flush())

    def _put(self, framed: npt.NDArray[np.uint8]) -> None:
        self._file.give(framed if self._deflater is None else self._deflater.compress(framed))
