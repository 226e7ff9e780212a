"""Compressed files are inflated once into the cache and mapped from there. Text in other encodings is
transcoded to UTF-8 in the same way.

The first pass takes as long as inflating (records are read meanwhile), and as much disk space as the decompressed file,
within ``HEADRACE_CACHE_LIMIT``. Later passes and random access are as fast as on a plain file.
"""

from __future__ import annotations

import codecs
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass
from functools import partial
from pathlib import Path

from headrace.errors import CorruptFile, Where
from headrace.io.cache.folder import (
    ATTEMPTS,
    CacheEntry,
    cache_key,
    cache_limit_bytes,
    entry_path,
    is_trusted,
    open_entry,
)
from headrace.io.cache.inflate import (
    Compression,
    Inflater,
    Opener,
    Part,
    PlainInflater,
    head_of,
    skip_bytes,
    wrapper_of,
)
from headrace.io.faults import NoCacheSpace, cache_emptied_error, file_changed_error, name_in_errors
from headrace.io.local.mapped import MappedFile
from headrace.io.local.signatures import Signature, open_version, wait_for_tick
from headrace.io.paths import absolute
from headrace.io.system import boot_id
from headrace.io.threads import prefetch

__all__ = [
    "LIMIT_HINT",
    "InflatedHead",
    "InflatedStream",
    "RemoteCompressed",
    "Transcoder",
    "decode_head",
    "find_inflated",
    "inflate_file",
]


READ_BYTES = 1 << 20
TEXT_HEAD_BYTES = 256  # enough to tell whether a file is a zlib stream
SMALL_TEXT_BYTES = 4096  # smaller zlib streams are inflated whole to tell
CONTROLS = frozenset(range(32)) - frozenset(b"\t\n\r\x1b")  # bytes not found in text; ISO-2022 has escapes
MARK = "\ufeff"


def decode_head(head: bytes, encoding: str) -> bytes:
    """Decode the start of a text to UTF-8, without a byte order mark. Damaged bytes are skipped."""
    decoder = codecs.getincrementaldecoder(encoding)("ignore")
    return decoder.decode(head).removeprefix(MARK).encode("utf-8", "ignore")


class Transcoder:
    """One text file as UTF-8, part by part, up to a fault. At the end ``fault`` is the error, or ``None``.

    Args:
        path: The file, also in a GZIP or zlib stream.
        encoding: The encoding of the text. A byte order mark is removed.
        opened: Opens it, if it is not a local file.
    """

    def __init__(self, path: str, encoding: str, opened: Opener | None = None) -> None:
        self._open: Opener = opened or (lambda: open(path, "rb", buffering=0))  # noqa: SIM115 - its caller does
        self.path = path
        self.size: int = 0
        """Bytes of UTF-8 so far."""
        self.fault: CorruptFile | None = None
        self._encoding = encoding
        self._lines = 0
        """Line ends so far."""

    def __iter__(self) -> Iterator[bytes]:
        decoder = codecs.getincrementaldecoder(self._encoding)()
        at, mark = 0, MARK
        for part in self._parts():
            text = self._decode(decoder, part, at)
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
        """The decompressed bytes of the file, and an empty part at the end."""
        with name_in_errors(self.path), self._open() as file:
            part = file.read(READ_BYTES)
            wrapper = wrapper_of(part)
            if wrapper == "zlib" and not _is_zlib(part):
                wrapper = "none"  # Text may begin with the two bytes of a zlib header, such as "x^2".
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

    def _decode(self, decoder: codecs.IncrementalDecoder, part: bytes, at: int) -> str:
        state = decoder.getstate()
        try:
            return decoder.decode(part, final=not part)
        except UnicodeError as error:
            waiting = len(state[0])  # bytes of a character that ends in this part
            wrong = error.start - waiting if isinstance(error, UnicodeDecodeError) else 0
            decoder.setstate(state)
            text = decoder.decode(part[: max(0, wrong)])
            line = self._lines + text.count("\n") + 1
            self.fault = CorruptFile(
                Where(path=self.path, offset=at + wrong),
                expected=f"text in {self._encoding}",
                found=f"{error.reason if isinstance(error, UnicodeDecodeError) else error} in line {line}",
                hint="The offset counts bytes of the original text. Everything before it can be read.",
            )
            return text


def _is_zlib(part: bytes) -> bool:
    """Whether bytes with a zlib header are really a zlib stream: they inflate, and are not text or form a complete stream."""
    if CONTROLS.intersection(part[:TEXT_HEAD_BYTES]):
        return bool(head_of(part, "zlib", TEXT_HEAD_BYTES))
    stream = zlib.decompressobj()
    try:
        return len(part) < SMALL_TEXT_BYTES and bool(stream.decompress(part)) and stream.eof
    except zlib.error:
        return False


VERSION = 3
HEAD_BYTES = 4 << 20  # inflated in the calling thread, in at most 20 ms
SMALL_BYTES = 2 << 20  # smaller compressed files are inflated whole
LIMIT_HINT = (
    "Raise HEADRACE_CACHE_LIMIT, let HEADRACE_CACHE_DIR name a folder on a larger disk, "
    "or convert the file to one without compression (`headrace convert`)."
)


@dataclass(frozen=True, slots=True)
class RemoteCompressed:
    """A compressed file in a store.

    Args:
        signature: The signature of its version.
        opened: Opens it for reading in order.
    """

    signature: Signature
    opened: Opener


def inflate_file(
    path: str, compression: Compression, packed: RemoteCompressed | None = None, *, expected: Signature | None = None
) -> MappedFile:
    """The decompressed content of a file, from the cache. Inflates it first if it is not cached.

    ``packed`` describes a file in a store, ``expected`` is the version of a local one. The content's ``fault`` is the error in
    the compressed stream, if any.

    Raises:
        UnsupportedData: The content does not fit into the cache.
        CorruptFile: The file changed while it was being inflated, or is not the expected version.
    """
    for _ in range(ATTEMPTS):
        found = find_inflated(path, compression, packed, expected=expected)
        if found is not None:
            return found
        stream = InflatedStream(path, compression, packed, wait=True, expected=expected)
        for _ in stream:
            pass
        if stream.changed:
            raise file_changed_error(path, size=None, found="another version", what="file")
        if stream.has_no_space:
            break
    else:
        raise cache_emptied_error(path)
    raise NoCacheSpace(
        Where(path=path),
        expected="space for the inflated file in the cache, which random access needs",
        found="none",
        hint=LIMIT_HINT + " CSV, TFRecord and RecordIO files are read in order without.",
    )


def find_inflated(
    path: str, compression: Compression, packed: RemoteCompressed | None = None, *, expected: Signature | None = None
) -> MappedFile | None:
    """The decompressed content of this version of a file, if the cache has it.

    Raises:
        CorruptFile: The file is not the expected version.
    """
    entry = _entry_path(path, compression, _signature(path, packed, expected))
    return open_entry(path, entry) if is_trusted(entry) else None


class InflatedStream:
    """The decompressed bytes of a file in order, with a copy written to the cache.

    Args:
        path: The compressed file.
        compression: ``"gzip"``, ``"zlib"``, or the encoding to transcode to UTF-8.
        packed: Describes a file in a store.
        wait: If another process is inflating the same file, wait for it and yield nothing, instead of inflating it too.
        expected: Refuse other versions of a local file, whenever it is opened.
    """

    def __init__(
        self,
        path: str,
        compression: Compression,
        packed: RemoteCompressed | None = None,
        *,
        wait: bool = False,
        expected: Signature | None = None,
    ) -> None:
        self.path = path
        self._packed = packed
        self._opened: Opener | None = (
            packed.opened if packed is not None else None if expected is None else partial(open_version, path, expected)
        )
        self._expected = expected
        self.fault: CorruptFile | None = None
        """The error in which the stream ended, set after the last part."""
        self.begun: Callable[[], None] | None = None
        """Called when the second part is requested."""
        self.copied: int = 0
        """Usable bytes of the copy."""
        self.changed: bool = False
        """Set after the last part: whether the file changed meanwhile, so that no copy was kept."""
        self.has_no_space: bool = False
        """Set after the last part: whether the cache had no space for a copy."""
        self._compression = compression
        self._wait = wait

    def __iter__(self) -> Iterator[Part]:
        parts = self.parts()
        if (first := next(parts, None)) is None:
            return
        yield first
        if self.begun is not None:
            self.begun()
        yield from parts

    def parts(self, opened: Callable[[str], None] | None = None) -> Iterator[Part]:
        """The bytes. ``opened`` is called with the path of the copy before anything is written to it."""
        entry = self._claim()
        if entry is None and self._wait:
            return  # cached meanwhile
        try:
            inflater = _reader(self.path, self._compression, self._opened)
            parts = prefetch(inflater)
            if entry is None:
                yield from parts
            elif opened is None:
                # Inflating takes one core; writing the copy and using the records share the others.
                yield from prefetch(self._into_copy(parts, entry, inflater))
            else:
                opened(str(entry.unfinished))
                yield from self._into_copy(parts, entry, inflater)
            self.fault = inflater.fault
        finally:
            if entry is not None:
                entry.abort()

    def head(self) -> PlainInflater | None:
        """An inflater for the first bytes only; ``None`` if they cost as much as the whole file."""
        if self._packed is not None or self._compression not in ("gzip", "zlib"):
            return None
        if Signature.of(self.path).size <= SMALL_BYTES:
            return None
        return PlainInflater(self.path, self._compression, self._opened)

    def _claim(self) -> CacheEntry | None:
        try:
            signature = _signature(self.path, self._packed, self._expected)
            wait_for_tick([signature])
            return CacheEntry.claim(_entry_path(self.path, self._compression, signature), wait=self._wait)
        except OSError:
            if self._wait:
                raise
            return None  # No copy can be kept, and reading in order needs none.

    def _into_copy(self, parts: Iterator[Part], entry: CacheEntry, inflater: Inflater | Transcoder) -> Iterator[Part]:
        limit = cache_limit_bytes(entry.path.parent)
        try:
            for part in parts:
                if not entry.closed:
                    if entry.size + len(part) <= limit and entry.write(part):
                        self.copied = entry.size
                    else:
                        self._give_up(entry)
                yield part
            now = _signature(self.path, self._packed)
            self.changed = _entry_path(self.path, self._compression, now).name != entry.path.name
            if self.changed:
                return
            # Waiting for the disk would take a tenth of the time. Instead, the entry is ignored after a reboot.
            if not entry.closed and entry.write_note(inflater.fault) and not entry.commit(limit, durable=not boot_id()):
                self._give_up(entry)
        finally:
            entry.abort()
            self.has_no_space = not entry.may_be_again

    def _give_up(self, entry: CacheEntry) -> None:
        entry.abort()
        if entry.may_be_again:
            return
        warnings.warn(
            f"{self.path} is inflated again each time: the cache in {entry.path.parent} has no space for it. {LIMIT_HINT}",
            stacklevel=2,
        )


class InflatedHead:
    """The decompressed bytes of a file, for readers of the first few: those start no thread and no copy.

    Reading beyond them continues with the stream, which starts over.

    Args:
        stream: The file.
    """

    def __init__(self, stream: InflatedStream) -> None:
        self.path: str = stream.path
        self.fault: CorruptFile | None = None
        """The error in which the stream ended, set after the last part."""
        self._stream = stream

    def __iter__(self) -> Iterator[Part]:
        given = 0
        if (inflater := self._stream.head()) is not None:
            for part in inflater:
                yield part
                given += len(part)
                if given >= HEAD_BYTES:
                    break
            else:
                self.fault = inflater.fault
                return
        yield from skip_bytes(given, self._stream)
        self.fault = self._stream.fault


def _reader(path: str, compression: Compression, opened: Opener | None) -> Inflater | Transcoder:
    if compression not in ("gzip", "zlib"):
        return Transcoder(path, compression, opened)
    return Inflater(path, compression, opened)


def _signature(path: str, packed: RemoteCompressed | None, expected: Signature | None = None) -> Signature:
    if packed is not None:
        return packed.signature
    found = Signature.read(path)  # The last block of a compressed file holds the CRC-32 and the length of the content.
    if expected is not None:
        found.check(expected, path)
    return found


def _entry_path(path: str, compression: Compression, signature: Signature) -> Path:
    key = cache_key(VERSION, absolute(path), *astuple(signature), compression)
    return entry_path(key)
