"""TFRecord: records one behind the other, each with its length and two checksums; plain, or in one GZIP or ZLIB stream."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.contracts.records import Format, OnCorrupt
from headrace.formats.framed import FramedRecords
from headrace.formats.framed_verify import verify_framed
from headrace.formats.tfrecord_framing import TFRecordFraming, is_tfrecord
from headrace.formats.tfrecord_writer import TFRecordWriter

__all__ = ["FORMAT", "TFRecordRecords"]


class TFRecordRecords(FramedRecords):
    """The records of some TFRecord files, joined in order. See :class:`FramedRecords` for the arguments."""

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
    verify=verify_framed,
)
