"""Writing RecordIO files that every reader can read in order: no record is ever split into parts.

dmlc's readers that begin in the middle of a file could take the magic word inside a payload for the beginning of a record;
the SageMaker SDK's writers do not split for that either.
"""

from __future__ import annotations

from headrace.formats.framed_writer import FramedWriter
from headrace.formats.recordio_framing import ALIGNMENT, HEAD, RecordIOFraming

__all__ = ["RecordIOWriter"]


class RecordIOWriter(FramedWriter):
    """Writes one RecordIO file, which appears under its name at ``close``, or never.

    Args:
        path: The file.
        compression: ``"gzip"``, ``"zlib"`` or ``"none"`` (also ``None``).
        level: Of the compression, 0 (none) to 9 (smallest); -1 is zlib's choice, 6.

    Raises:
        ValueError: No such compression or level.
        UnsupportedData: On writing, for a payload of 512 MiB or more.
    """

    framing = RecordIOFraming()
    head = HEAD
    tail = ALIGNMENT - 1
