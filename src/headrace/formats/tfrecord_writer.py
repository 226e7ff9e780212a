"""Writing TFRecord files, byte for byte as TensorFlow's writer does."""

from __future__ import annotations

from headrace.formats.framed_writer import FramedWriter
from headrace.formats.tfrecord_framing import HEAD, TAIL, TFRecordFraming

__all__ = ["TFRecordWriter"]


class TFRecordWriter(FramedWriter):
    """Writes one TFRecord file, which appears under its name at ``close``, or never.

    Args:
        path: The file.
        compression: ``"gzip"``, ``"zlib"`` or ``"none"`` (also ``None``).
        level: Of the compression, 0 (none) to 9 (smallest); -1 is zlib's choice, 6.

    Raises:
        ValueError: No such compression or level.
    """

    framing = TFRecordFraming()
    head = HEAD
    tail = TAIL
