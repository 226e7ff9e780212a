"""Writing CSV files."""

from __future__ import annotations

import numpy as np

from headrace.contracts.csv import CsvDialect
from headrace.formats.csv_framing import CsvFraming
from headrace.formats.framed_writer import FramedWriter

__all__ = ["CsvWriter"]


class CsvWriter(FramedWriter):
    """Writes one CSV file, which appears under its name at ``close``, or never.

    Records are rows as they stand in the file, without their line ends; :meth:`write_text` takes rows that have theirs.

    Args:
        path: The file.
        compression: ``"gzip"``, ``"zlib"`` or ``"none"`` (also ``None``).
        level: Of the compression, 0 (none) to 9 (smallest); -1 is zlib's choice, 6.

    Raises:
        ValueError: No such compression or level.
    """

    framing = CsvFraming(CsvDialect())
    head = 0
    tail = 1

    def write_text(self, text: bytes, rows: int) -> None:
        """Append text as it is.

        Args:
            text: Whole rows with their line ends, a header, a byte order mark.
            rows: How many records that is.
        """
        if self._file.closed:
            raise ValueError(f"{self.path} is closed")
        self._flush()
        self._put(np.frombuffer(text, np.uint8))
        self.records += rows
