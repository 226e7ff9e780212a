"""Text files read as UTF-8: transcoded once, in one pass, into the cache, as compressed files are inflated."""

from __future__ import annotations

import codecs
import zlib
from collections.abc import Iterator

from headrace.errors import CorruptFile, Where
from headrace.io.changed import naming
from headrace.io.compression import Opens, PlainInflater, head_of, wrapper_of

__all__ = ["Transcoder", "decoded_head"]

READ_BYTES = 1 << 20
HEAD_BYTES = 256  # of a file, looked at to see whether it is a zlib stream
SMALL_BYTES = 4096  # of a zlib stream that is inflated as a whole for that
CONTROLS = frozenset(range(32)) - frozenset(b"\t\n\r\x1b")  # bytes that no text has; ISO-2022 has escapes
MARK = "\ufeff"


def decoded_head(head: bytes, encoding: str) -> bytes:
    """The beginning of a text as UTF-8, without a byte order mark; what is damaged in it is left out."""
    decoder = codecs.getincrementaldecoder(encoding)("ignore")
    return decoder.decode(head).removeprefix(MARK).encode("utf-8", "ignore")


class Transcoder:
    """One text file as UTF-8, part by part. What comes before a fault is given; after it ``fault`` holds the error.

    Args:
        path: The file, also in a GZIP or zlib stream.
        encoding: Of the text; a byte order mark is left out.
        opened: How to open it, where it is no file of this machine.
    """

    def __init__(self, path: str, encoding: str, opened: Opens | None = None) -> None:
        self._open: Opens = opened or (lambda: open(path, "rb", buffering=0))  # noqa: SIM115 - its caller does
        self.path = path
        self.size = 0
        """Bytes of UTF-8 so far."""
        self.fault: CorruptFile | None = None
        self._encoding = encoding
        self._lines = 0
        """Line ends so far."""

    def __iter__(self) -> Iterator[bytes]:
        decoder = codecs.getincrementaldecoder(self._encoding)()
        at, mark = 0, MARK
        for part in self._parts():
            text = self._decoded(decoder, part, at)
            at += len(part)
            if text:
                text, mark = text.removeprefix(mark) if mark else text, ""
                encoded = text.encode()
                self._lines += encoded.count(b"\n")
                self.size += len(encoded)
                yield encoded
            if self.fault is not None:
                return

    def _parts(self) -> Iterator[bytes]:
        """What the file holds, decompressed, and at its end nothing."""
        with naming(self.path), self._open() as file:
            part = file.read(READ_BYTES)
            wrapper = wrapper_of(part)
            if wrapper == "zlib" and not _is_zlib(part):
                wrapper = "none"  # Text may begin with the two bytes of a zlib header, as "x^2" does.
            if wrapper == "none":
                while part:
                    yield part
                    part = file.read(READ_BYTES)
                yield b""
                return
        inflater = PlainInflater(self.path, wrapper, self._open)
        for inflated in inflater:
            yield bytes(inflated)
        self.fault = inflater.fault
        if self.fault is None:
            yield b""

    def _decoded(self, decoder: codecs.IncrementalDecoder, part: bytes, at: int) -> str:
        state = decoder.getstate()
        try:
            return decoder.decode(part, final=not part)
        except UnicodeError as error:
            waiting = len(state[0])  # bytes of a character whose end is in this part
            wrong = error.start - waiting if isinstance(error, UnicodeDecodeError) else 0
            decoder.setstate(state)
            text = decoder.decode(part[: max(0, wrong)])
            line = self._lines + text.count("\n") + 1
            self.fault = CorruptFile(
                Where(path=self.path, offset=at + wrong),
                expected=f"text in {self._encoding}",
                found=f"{error.reason if isinstance(error, UnicodeDecodeError) else error} in line {line}",
                hint="The byte counts the text as it is in the file. What comes before it can be read.",
            )
            return text


def _is_zlib(part: bytes) -> bool:
    """Whether bytes with a zlib header begin a zlib stream: they inflate, and are no text, or a whole stream."""
    if CONTROLS.intersection(part[:HEAD_BYTES]):
        return bool(head_of(part, "zlib", HEAD_BYTES))
    stream = zlib.decompressobj()
    try:
        return len(part) < SMALL_BYTES and bool(stream.decompress(part)) and stream.eof
    except zlib.error:
        return False
