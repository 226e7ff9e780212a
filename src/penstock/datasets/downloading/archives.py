"""What archives hold, put into a folder: nothing outside of it, no links, and not without end."""

from __future__ import annotations

import errno
import os
import struct
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

from penstock.errors import CorruptFile, DataError, UnsupportedData, Where
from penstock.io.progress import Progress

__all__ = ["Limits", "unpack"]

BLOCK_BYTES = 1 << 20
LEAST_LIMIT_BYTES = 1 << 30
WINDOWS_NAMES = frozenset(("con", "prn", "aux", "nul", *(f"{n}{i}" for n in ("com", "lpt") for i in range(1, 10))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How large the content of an archive may be.

    Args:
        bytes: Of all files together; ``None``: 100 times the archive, but at least 1 GiB.
        files: How many of them.
    """

    bytes: int | None = None
    files: int = 2_000_000


class _Member(NamedTuple):
    name: str
    """As the archive has it."""
    file: IO[bytes] | None
    """``None`` for a folder."""
    link: str | None = None
    """What it is a link to, seen from the top of the archive."""


def unpack(
    archive: Path,
    folder: Path,
    *,
    only: Mapping[str, str] | None = None,
    limits: Limits | None = None,
    progress: bool = False,
) -> None:
    """Unpack a zip, a tar (plain, gzip, bzip2, xz) or a single gzip file into a folder, which appears whole or not at all.

    Owners, permissions and times are not taken over. A link to a file of the same archive becomes that file.

    Args:
        archive: The file; its first bytes say what it is.
        folder: Must not exist. The one above it must.
        only: Which members, and under what name each is put.
        limits: How large its content may be.
        progress: Whether a bar shows how far it is, on a terminal.

    Raises:
        CorruptFile: The archive is damaged, or lacks one of ``only``.
        UnsupportedData: It is none; or a member would lie outside the folder, is a link to there, a device, encrypted, or
            larger than the limits.
    """
    limits = limits or Limits()
    most = limits.bytes if limits.bytes is not None else max(LEAST_LIMIT_BYTES, 100 * archive.stat().st_size)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name[:80]}.", dir=folder.parent) as temporary:
        root = Path(temporary, "content")
        root.mkdir()
        with Progress(f"unpacking {archive.name}", None, "bytes", show=progress) as bar:
            _Unpacking(archive, root, most, limits.files, only, bar).run()
        root.rename(folder)


class _Unpacking:
    """One archive on its way into a folder."""

    def __init__(
        self, archive: Path, root: Path, most: int, files: int, only: Mapping[str, str] | None, bar: Progress
    ) -> None:
        self.archive = archive
        self.root = root
        self.most = most
        self.files_left = files
        self.only = only
        self.bar = bar
        self.bytes = 0
        self.links: list[tuple[str, str]] = []
        self.written: dict[str, Path] = {}

    def run(self) -> None:
        try:
            for member in _members(self.archive):
                self.take(member)
            self.copy_links()
        except DataError:
            raise
        except Exception as error:
            if not _is_damage(error):
                raise
            raise CorruptFile(
                Where(path=str(self.archive)), expected="a whole archive", found=f"{type(error).__name__}: {error}"
            ) from error
        missing = [name for name in self.only or () if name not in self.written]
        if missing:
            raise CorruptFile(
                Where(path=str(self.archive)), expected=f"a member {missing[0]!r}", found="none of that name"
            )

    def take(self, member: _Member) -> None:
        parts = self.parts(member.name)
        name = "/".join(parts)
        if self.only is not None:
            if name not in self.only or member.file is None:
                return
            parts = self.parts(self.only[name])
        self.files_left -= 1
        if self.files_left < 0:
            raise self.refused(member.name, "no more files than the limit")
        if member.link is not None:
            self.links.append((name, "/".join(self.parts(member.link))))
        elif member.file is None:
            self.root.joinpath(*parts).mkdir(parents=True, exist_ok=True)
        elif parts:
            self.written[name] = self.write(parts, member.file)

    def write(self, parts: list[str], file: IO[bytes]) -> Path:
        path = self.root.joinpath(*parts)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as out:
                while block := file.read(BLOCK_BYTES):
                    self.bytes += len(block)
                    if self.bytes > self.most:
                        raise self.refused("/".join(parts), f"no more than {self.most:,} bytes in all")
                    out.write(block)
                    self.bar.advance(len(block))
        except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
            raise CorruptFile(
                Where(path=str(self.archive)),
                expected="each name once",
                found=f"{'/'.join(parts)!r} as file and folder",
            ) from error
        return path

    def copy_links(self) -> None:
        for name, target in self.links:
            there = self.written.get(target)
            if there is None:
                raise self.refused(name, f"links to files of the archive ({target!r} is none)")
            with there.open("rb") as file:
                self.written[name] = self.write(name.split("/"), file)

    def parts(self, name: str) -> list[str]:
        """The components of a member's name, which cannot lead anywhere but down."""
        parts = [part for part in name.split("/") if part not in ("", ".")]
        bad = name.startswith(("/", "~")) or any(
            part == ".."
            or any(letter in part for letter in "\\:\0")
            or not part.strip(". ")
            or part.partition(".")[0].lower() in WINDOWS_NAMES
            for part in parts
        )
        if bad:
            raise self.refused(name, "names that stay inside the folder")
        return parts

    def refused(self, name: str, expected: str) -> UnsupportedData:
        return UnsupportedData(
            Where(path=str(self.archive)),
            expected=expected,
            found=f"the member {name[:200]!r}",
            hint="Nothing was unpacked: look at the archive before you trust it.",
        )


def _is_damage(error: Exception) -> bool:
    """Whether an error comes from the archive. Those of the disk are others: it is full, may not be written, ..."""
    import lzma
    import tarfile
    import zipfile

    if isinstance(error, OSError):
        return error.errno in (
            None,
            errno.EINVAL,
        )  # a place before the beginning of the file; bad gzip and bzip2 streams
    # What zipfile raises for damaged heads is whatever happens to go wrong.
    known = (tarfile.TarError, zipfile.BadZipFile, lzma.LZMAError, zlib.error, EOFError, struct.error)
    return isinstance(error, (*known, ValueError, RuntimeError, IndexError, OverflowError))


def _members(archive: Path) -> Iterator[_Member]:
    import tarfile
    import zipfile

    with archive.open("rb") as file:
        head = file.read(2)
    if zipfile.is_zipfile(archive):
        yield from _zip_members(archive)
    elif tarfile.is_tarfile(archive):
        yield from _tar_members(archive)
    elif head == b"\x1f\x8b":
        import gzip

        with gzip.open(archive) as content:
            name = archive.name.removesuffix(".gz")
            yield _Member(name, content)  # type: ignore[arg-type]
    else:
        raise UnsupportedData(
            Where(path=str(archive)), expected="a zip, tar or gzip file", found=f"a file that begins with {head!r}"
        )


def _zip_members(archive: Path) -> Iterator[_Member]:
    import zipfile

    with zipfile.ZipFile(archive) as opened:
        for entry in opened.infolist():
            name = entry.orig_filename
            kind = entry.external_attr >> 28
            if entry.flag_bits & 1 or kind in (0o12, 0o6, 0o2, 0o1):
                raise UnsupportedData(
                    Where(path=str(archive)),
                    expected="plain files and folders",
                    found=f"the member {name[:200]!r}, which is encrypted, a link or a device",
                )
            if entry.is_dir():
                yield _Member(name, None)
                continue
            try:
                with opened.open(entry) as content:
                    yield _Member(name, content)
            except NotImplementedError as error:  # a compression that Python lacks
                raise UnsupportedData(
                    Where(path=str(archive)), expected="a compression that Python knows", found=str(error)
                ) from error


def _tar_members(archive: Path) -> Iterator[_Member]:
    import tarfile

    with tarfile.open(archive, "r:*") as opened:
        for entry in opened:
            yield _tar_member(archive, opened, entry)


def _tar_member(archive: Path, opened: Any, entry: Any) -> _Member:
    if entry.isdir():
        return _Member(entry.name, None)
    if entry.isreg():
        return _Member(entry.name, opened.extractfile(entry))
    if entry.islnk():
        return _Member(entry.name, None, entry.linkname)
    if entry.issym() and not os.path.isabs(entry.linkname):
        target = os.path.normpath(os.path.join(os.path.dirname(entry.name), entry.linkname)).replace(os.sep, "/")
        return _Member(entry.name, None, target)
    raise UnsupportedData(
        Where(path=str(archive)),
        expected="files, folders and links within the archive",
        found=f"the member {entry.name[:200]!r}, which is another thing",
    )
