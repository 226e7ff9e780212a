"""Reads archives member by member, and trusts none of their headers."""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import lzma
import os
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from headrace.errors import CorruptFile, DataError, UnsupportedData, Where
from headrace.io.faults import name_in_errors

__all__ = [
    "BLOCK_BYTES",
    "EXECUTABLE",
    "ArchiveMember",
    "damage_as_corrupt_file",
    "name_parts",
    "read_members",
    "refusal",
]


BLOCK_BYTES = 256 << 10
SMALL_BLOCK_BYTES = 4096
"""For compressions that zipfile decompresses all at once, up to a thousandfold."""
MOST_HEADER_BYTES = 1 << 20
MOST_TRAILING_BYTES = 16 << 20
MOST_NAME_BYTES, MOST_PART_BYTES, MOST_DEPTH = 1000, 255, 100
IS_WINDOWS = os.name == "nt"
WINDOWS_NAMES = frozenset(("con", "prn", "aux", "nul", *(f"{n}{i}" for n in ("com", "lpt") for i in range(1, 10))))
EXECUTABLE = 0o111
LINKS_AND_DEVICES = (0o12, 0o14, 0o6, 0o2, 0o1)  # symbolic link, socket, block device, character device, pipe


class ArchiveMember(NamedTuple):
    """A file, a folder or a link in an archive."""

    name: str
    """The name in the archive."""
    file: IO[bytes] | None
    """``None`` for a folder or a link."""
    link: str | None = None
    """The member that a link leads to, from the root of the archive."""
    is_executable: bool = False
    block_bytes: int = BLOCK_BYTES


def read_members(archive: Path, what: str | None = None) -> Iterator[ArchiveMember]:
    """The members of a zip, a tar (plain, gzip, bzip2, xz) or a single gzip file, each valid until the next is requested.

    Args:
        archive: The file; its kind is detected from its first bytes.
        what: The expected kind of archive, for messages.

    Raises:
        UnsupportedData: Not an archive, or a member is a device, encrypted, or a link to an absolute path.
        Exception: Any error of the libraries for a damaged archive: see :func:`damage_as_corrupt_file`.
    """
    with name_in_errors(str(archive)), archive.open("rb") as file:
        head = file.read(512)
    stream = _decompress(archive, head)
    # A tar whose last member is a small zip ends like a zip, so the first bytes are checked first.
    is_stream = stream is not None or head[257:262] == b"ustar"
    if not is_stream and (head[:2] == b"PK" or zipfile.is_zipfile(archive)):
        yield from _zip_members(archive)
        return
    with closing(stream or archive.open("rb")) as content:
        yield from _stream_members(archive, content, head, what)


def name_parts(archive: Path, name: str) -> list[str]:
    """The components of a member's name, which stays inside the folder.

    Raises:
        UnsupportedData: The name could leave the folder, or is too long for the system.
    """
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith(("/", "~")) or any(map(_is_bad, parts)):
        raise refusal(archive, name, "names that stay inside the folder")
    sizes = [len(os.fsencode(part)) for part in parts]
    if len(parts) > MOST_DEPTH or sum(sizes) > MOST_NAME_BYTES or max(sizes, default=0) > MOST_PART_BYTES:
        raise refusal(archive, name, f"names of at most {MOST_NAME_BYTES:,} bytes and {MOST_DEPTH} folders")
    return parts


def _is_bad(part: str) -> bool:
    if "\0" in part or not part.strip(". "):
        return True
    # Elsewhere these are characters as others are: TensorFlow's variables have names such as W:0.
    return IS_WINDOWS and (":" in part or "\\" in part or part.partition(".")[0].lower() in WINDOWS_NAMES)


def refusal(archive: Path, name: str, expected: str, setting: str = "") -> UnsupportedData:
    """The error for a member that is not unpacked. ``setting`` is the variable that permits it."""
    hint = "Nothing was unpacked: look at the archive before you trust it."
    return UnsupportedData(
        Where(path=str(archive)),
        expected=expected,
        found=f"the member {name[:200]!r}",
        hint=f"{hint} If you do trust it, set {setting} to allow more." if setting else hint,
    )


@contextmanager
def damage_as_corrupt_file(archive: Path, what: str | None) -> Iterator[None]:
    """Convert errors of the archive to :class:`CorruptFile`. Other errors pass unchanged."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:
        if not _is_damage(error):
            raise
        found = str(error) or type(error).__name__
        raise CorruptFile(Where(path=str(archive)), expected=what or "a whole archive", found=found) from error


def _is_damage(error: Exception) -> bool:
    """Whether an error comes from the archive, and not from the disk."""
    if isinstance(error, OSError):
        # Seeks before the start of the file; bad gzip and bzip2 streams.
        return error.errno in (None, errno.EINVAL)
    # zipfile raises many kinds of errors for damaged headers.
    known = (tarfile.TarError, zipfile.BadZipFile, lzma.LZMAError, zlib.error, EOFError, struct.error)
    return isinstance(error, (*known, ValueError, RuntimeError, IndexError, OverflowError))


def _decompress(archive: Path, head: bytes) -> IO[bytes] | None:
    if head[:2] == b"\x1f\x8b":
        return cast("IO[bytes]", gzip.open(archive))
    if head[:3] == b"BZh":
        return cast("IO[bytes]", bz2.open(archive))
    if head[:6] == b"\xfd7zXZ\0" or head[:3] == b"\x5d\0\0":
        return cast("IO[bytes]", lzma.open(archive))
    return None


def _stream_members(archive: Path, content: IO[bytes], head: bytes, what: str | None) -> Iterator[ArchiveMember]:
    stream = _ForwardStream(content)
    try:
        opened = tarfile.TarFile(fileobj=cast("IO[bytes]", stream), mode="r")
    except _BadSizeError:
        raise
    except tarfile.ReadError as error:
        if head[:2] != b"\x1f\x8b" or archive.name.endswith((".tar.gz", ".tgz")):
            found = f"a file that begins with {head[:8]!r}" if head else "an empty file"
            raise UnsupportedData(
                Where(path=str(archive)), expected=what or "a zip, tar or gzip file", found=found
            ) from error
        content.seek(0)
        yield ArchiveMember(archive.name.removesuffix(".gz"), content)
        return
    with opened:
        yield from _tar_members(archive, opened, stream)
        stream.check_end()


class _BadSizeError(tarfile.ReadError):
    """An impossible size in a header."""


class _ForwardStream:
    """The stream that ``tarfile`` reads from. It never goes back, and limits each read to the size of a header.

    ``tarfile`` trusts the sizes in headers: it would read an extended header of any size into memory, and loop forever over a member of
    negative size.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._is_plain = isinstance(stream, io.BufferedReader)
        self._at = 0
        self._last = b""

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= MOST_HEADER_BYTES:
            raise _BadSizeError(f"a header that says it has {size:,} bytes")
        self._last = self._stream.read(size)
        self._at += len(self._last)
        return self._last

    def seek(self, place: int) -> int:
        if place < self._at:
            raise _BadSizeError("a member of a negative size")
        if self._is_plain:
            self._at = self._stream.seek(place)
        while self._at < place and self.read(min(place - self._at, BLOCK_BYTES)):
            pass
        return self._at

    def check_end(self) -> None:
        """After the last member: check that ``tarfile`` stopped at the end of the archive, and the checksums after it."""
        if self._last.strip(b"\0"):
            raise tarfile.ReadError(f"no header of a member at byte {self._at - len(self._last):,}")
        limit = self._at + MOST_TRAILING_BYTES
        while self.read(BLOCK_BYTES):
            if self._at > limit:
                raise tarfile.ReadError(f"more than {MOST_TRAILING_BYTES >> 20} MiB after the end of the archive")


class _Content:
    """The content of a member whose header was just read, directly from the stream, without the two copies of ``extractfile``."""

    def __init__(self, stream: _ForwardStream, size: int) -> None:
        self._stream, self._left = stream, size

    def read(self, size: int) -> bytes:
        if self._left <= 0:
            return b""
        block = self._stream.read(min(size, self._left))
        if not block:
            raise tarfile.ReadError("unexpected end of data")
        self._left -= len(block)
        return block


def _tar_members(archive: Path, opened: tarfile.TarFile, stream: _ForwardStream) -> Iterator[ArchiveMember]:
    while (entry := opened.next()) is not None:
        cast("Any", opened).members.clear()  # which would grow with the archive
        yield _tar_member(archive, opened, stream, entry)


def _tar_member(
    archive: Path, opened: tarfile.TarFile, stream: _ForwardStream, entry: tarfile.TarInfo
) -> ArchiveMember:
    if entry.isdir():
        return ArchiveMember(entry.name, None)
    if entry.isreg():
        is_plain = entry.sparse is None and entry.offset_data == stream.tell()
        content = cast("IO[bytes]", _Content(stream, entry.size)) if is_plain else opened.extractfile(entry)
        return ArchiveMember(entry.name, content, is_executable=bool(entry.mode & EXECUTABLE))
    if entry.islnk():
        return ArchiveMember(entry.name, None, entry.linkname)
    if entry.issym() and not os.path.isabs(entry.linkname):
        target = os.path.normpath(os.path.join(os.path.dirname(entry.name), entry.linkname)).replace(os.sep, "/")
        return ArchiveMember(entry.name, None, target)
    raise refusal(archive, entry.name, "files, folders and links to members, not devices, pipes or links to elsewhere")


def _zip_members(archive: Path) -> Iterator[ArchiveMember]:
    with zipfile.ZipFile(archive) as opened:
        for entry in opened.infolist():
            name = entry.orig_filename
            if "\\" in name:  # some writers mean a folder by it, although zip has only /
                raise refusal(archive, name, "names that stay inside the folder, with / between folders")
            if entry.flag_bits & 1 or entry.external_attr >> 28 in LINKS_AND_DEVICES:
                raise refusal(archive, name, "plain files and folders, not encrypted ones, links or devices")
            if entry.is_dir():
                yield ArchiveMember(name, None)
            else:
                yield from _zip_member(archive, opened, entry)


def _zip_member(archive: Path, opened: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Iterator[ArchiveMember]:
    is_bounded = entry.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    block_bytes = BLOCK_BYTES if is_bounded else SMALL_BLOCK_BYTES
    is_executable = bool(entry.external_attr >> 16 & EXECUTABLE)
    try:
        with opened.open(entry) as content:
            yield ArchiveMember(entry.orig_filename, content, is_executable=is_executable, block_bytes=block_bytes)
    except NotImplementedError as error:  # a compression that Python lacks
        raise UnsupportedData(
            Where(path=str(archive)), expected="a compression that Python knows", found=str(error)
        ) from error
