"""RecordIO: records one behind the other, each behind a magic word and its length; plain, or in one GZIP or ZLIB stream."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.contracts.records import Format, OnCorrupt
from headrace.formats.framed import FramedRecords
from headrace.formats.framed_verify import verify_framed
from headrace.formats.recordio_framing import Join, RecordIOFraming, is_recordio
from headrace.formats.recordio_writer import RecordIOWriter

__all__ = ["FORMAT", "RecordIORecords"]


class RecordIORecords(FramedRecords):
    """The records of some RecordIO files, joined in order. See :class:`FramedRecords` for the other arguments.

    Args:
        join: How records of several parts become one payload: ``"magic"`` with the magic word between the parts, which
            is where dmlc's writer cut it out; ``"plain"`` as they are, which is ML-IO's way; ``"auto"`` as the codec can
            read it, the first way before the second (and the first where payloads are taken as they are).
    """

    def __init__(
        self,
        paths: Sequence[str],
        *,
        compression: str | None = None,
        on_corrupt: OnCorrupt = "raise",
        verify: bool = True,
        join: Join = "auto",
    ) -> None:
        super().__init__(RecordIOFraming(join), paths, compression=compression, on_corrupt=on_corrupt, verify=verify)


FORMAT = Format(
    name="recordio",
    suffixes=(".recordio", ".rec", ".pbr", ".rio"),
    knows=is_recordio,
    open=RecordIORecords,
    options=frozenset({"on_corrupt", "verify"}),
    compressible=True,
    codec="sagemaker_record",
    writer=RecordIOWriter,
    verify=verify_framed,
)
