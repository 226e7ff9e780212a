"""UTF-16 files read as UTF-8: transcoded once, in one pass, into the cache, as compressed files are inflated."""

from __future__ import annotations

import codecs
from collections.abc import Iterator

from penstock.errors import CorruptFile, Where
from penstock.io.changed import naming
from penstock.io.compression import Opens

__all__ = ["Transcoder", "decoded_head"]

READ_BYTES = 1 << 20
MARK = "\ufeff"


def decoded_head(head: bytes, encoding: str) -> bytes:
    """The beginning of a UTF-16 file as UTF-8, without a byte order mark; what is damaged in it is left out."""
    return head[: len(head) & ~1].decode(encoding, "ignore").removeprefix(MARK).encode("utf-8", "ignore")


class Transcoder:
    """One UTF-16 file as UTF-8, part by part. What comes before a fault is given; after it ``fault`` holds the error.

    Args:
        path: The file.
        encoding: ``"utf-16-le"`` or ``"utf-16-be"``; a byte order mark is left out.
        opened: How to open it, where it is no file of this machine.
    """

    def __init__(self, path: str, encoding: str, opened: Opens | None = None) -> None:
        self._open: Opens = opened or (lambda: open(path, "rb", buffering=0))  # noqa: SIM115 - its caller does
        self.path = path
        self.size = 0
        """Bytes of UTF-8 so far."""
        self.fault: CorruptFile | None = None
        self._encoding = encoding

    def __iter__(self) -> Iterator[bytes]:
        decoder = codecs.getincrementaldecoder(self._encoding)()
        with naming(self.path), self._open() as file:
            at, mark = 0, MARK
            while self.fault is None:
                part = file.read(READ_BYTES)
                text = self._decoded(decoder, part, at)
                at += len(part)
                if text:
                    text, mark = text.removeprefix(mark) if mark else text, ""
                    encoded = text.encode()
                    self.size += len(encoded)
                    yield encoded
                if not part:
                    return

    def _decoded(self, decoder: codecs.IncrementalDecoder, part: bytes, at: int) -> str:
        before = len(decoder.getstate()[0])
        try:
            return decoder.decode(part, final=not part)
        except UnicodeDecodeError as error:
            self.fault = CorruptFile(
                Where(path=self.path, offset=at - before + error.start),
                expected=f"text in {self._encoding}",
                found=error.reason,
                hint="The byte counts the file as it lies on the disk. What comes before it can be read.",
            )
            return error.object[: error.start].decode(self._encoding)
