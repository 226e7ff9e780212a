"""Unpacks untrusted archives. All unpacking in Headrace goes through this module.

No links are created: a link to another member becomes that file, or a copy of that folder, after everything else is written. So no path
below the folder can leave it, whatever the archive contains and whichever Python reads it (the filters of ``tarfile`` were circumvented:
CVE-2024-12718, CVE-2025-4138, CVE-2025-4330, CVE-2025-4435, CVE-2025-4517). Bytes are counted while they are written, because the sizes in
an archive may be false.
"""

from __future__ import annotations

import bisect
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from headrace.errors import CorruptFile, Where
from headrace.io.archive.members import (
    BLOCK_BYTES,
    EXECUTABLE,
    ArchiveMember,
    damage_as_corrupt_file,
    name_parts,
    read_members,
    refusal,
)
from headrace.io.progress import Progress
from headrace.io.system import size_setting, walk

__all__ = ["Limits", "archive_names", "unpack", "unpack_into"]


BYTES_SETTING, FILES_SETTING = "HEADRACE_UNPACKED_BYTES", "HEADRACE_UNPACKED_FILES"
LEAST_LIMIT_BYTES = 256 << 20
MOST_RATIO = 200
DISK_SHARE = 0.9
MOST_FILES = 2_000_000
MEMBER_BYTES = 4096  # what the smallest file takes on disk

MOST_LINK_STEPS = 40
MOST_COPIED = 10_000  # files and folders below links to folders, which double with each link that leads to two of them
OPEN_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits on what an archive unpacks to.

    Args:
        bytes: Total size of all files; each counts for at least 4 KiB, as on disk. By default ``HEADRACE_UNPACKED_BYTES``
            if that is set, else 200 times the size of the archive, or 256 MiB if that is more, but at most nine tenths
            of the free disk space.
        files: The number of files and folders. By default ``HEADRACE_UNPACKED_FILES``, else 2,000,000.
    """

    bytes: int | None = None
    files: int | None = None


def unpack(
    archive: Path,
    folder: Path,
    *,
    only: Mapping[str, str] | None = None,
    limits: Limits | None = None,
    progress: bool = False,
    what: str | None = None,
) -> None:
    """Unpack a zip, a tar (plain, gzip, bzip2, xz) or a single gzip file into a folder, which appears whole or not at all.

    Owners, permissions and times are dropped; only the executable bit is kept. A link to a member becomes that member.

    Args:
        archive: The file; its kind is detected from its first bytes.
        folder: The new folder. Its parent must exist.
        only: Members to unpack, and the name of each in the folder.
        limits: How much it may unpack to.
        progress: Show a progress bar on a terminal.
        what: The expected kind of archive, for messages: "a model.tar.gz".

    Raises:
        CorruptFile: The archive is damaged, or lacks one of ``only``.
        UnsupportedData: Not an archive, or a member is outside the folder, a link out of it, a device, encrypted, or beyond the
            limits.
        OSError: The disk is full or not writable.
    """
    with tempfile.TemporaryDirectory(prefix=f".{folder.name[:80]}.", dir=folder.parent) as temporary:
        root = Path(temporary, "content")
        root.mkdir()
        with Progress(f"unpacking {archive.name}", None, "bytes", show=progress) as bar:
            _Unpacking(archive, root, limits or Limits(), only, bar).run(what)
        root.rename(folder)


def unpack_into(archive: Path, folder: Path, *, limits: Limits | None = None, what: str | None = None) -> None:
    """Unpack into a folder that may exist. Other files in it stay.

    Raises:
        CorruptFile, UnsupportedData, OSError: As for :func:`unpack`. The folder is then unchanged.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name[:80]}.", dir=folder.parent) as temporary:
        fresh = Path(temporary, "content")
        unpack(archive, fresh, limits=limits, what=what)
        for below, _, names in walk(fresh):
            target = folder / Path(below).relative_to(fresh)
            target.mkdir(exist_ok=True)
            for name in names:
                os.replace(Path(below, name), target / name)


def archive_names(archive: Path, *, what: str | None = None) -> list[str]:
    """The names of the files in an archive, as :func:`unpack` would write them, sorted.

    Raises:
        CorruptFile, UnsupportedData: As for :func:`unpack`.
    """
    most = _most_files(Limits())
    names: list[str] = []
    with damage_as_corrupt_file(archive, what):
        for member in read_members(archive, what):
            if member.file is not None or member.link is not None:
                names.append("/".join(name_parts(archive, member.name)))
            if len(names) > most:
                raise refusal(archive, member.name, f"no more than {most:,} files", FILES_SETTING)
    return sorted(names)


def _most_files(limits: Limits) -> int:
    if limits.files is not None:
        return limits.files
    given = size_setting(FILES_SETTING)
    return MOST_FILES if given is None else given


def _most_bytes(limits: Limits, archive: Path, folder: Path) -> int:
    if limits.bytes is not None:
        return limits.bytes
    given = size_setting(BYTES_SETTING)
    if given is not None:
        return given
    free = int(shutil.disk_usage(folder).free * DISK_SHARE)
    return min(max(LEAST_LIMIT_BYTES, MOST_RATIO * archive.stat().st_size), free)


class _Unpacking:
    """Unpacks one archive into a folder that only this process writes to."""

    def __init__(
        self, archive: Path, root: Path, limits: Limits, only: Mapping[str, str] | None, bar: Progress
    ) -> None:
        self.archive = archive
        self.root = root
        self.most_bytes = _most_bytes(limits, archive, root)
        self.most_files = _most_files(limits)
        self.only = only
        self.bar = bar
        self.bytes = 0
        self.files = 0
        self.links: dict[str, str] = {}
        self.written: set[str] = set()
        self.copied = 0

    def run(self, what: str | None) -> None:
        with damage_as_corrupt_file(self.archive, what):
            for member in read_members(self.archive, what):
                self.take(member)
            self.replace_links()
        missing = [name for name in self.only or () if name not in self.written]
        if missing:
            raise CorruptFile(
                Where(path=str(self.archive)), expected=f"a member {missing[0]!r}", found="nothing of that name"
            )

    def take(self, member: ArchiveMember) -> None:
        parts = name_parts(self.archive, member.name)
        name = "/".join(parts)
        if self.only is not None:
            if name not in self.only or member.file is None:
                return
            parts = name_parts(self.archive, self.only[name])
        if member.link is not None:
            self.links[name] = "/".join(name_parts(self.archive, member.link))
        elif member.file is None:
            self.make_folder(parts)
        elif not parts:
            raise refusal(self.archive, member.name, "names of files")
        else:
            self.links.pop(name, None)
            self.write(parts, member.file, block_bytes=member.block_bytes, is_executable=member.is_executable)
            self.written.add(name)

    def make_folder(self, parts: list[str]) -> Path:
        """Make a folder level by level, so that each counts."""
        path = self.root
        for part in parts:
            path /= part
            try:
                path.mkdir()
            except FileExistsError as error:
                if not path.is_dir():
                    raise self.twice(parts) from error
            else:
                self.count_file(parts)
        return path

    def write(self, parts: list[str], file: IO[bytes], *, block_bytes: int, is_executable: bool) -> None:
        path = self.make_folder(parts[:-1]) / parts[-1]
        self.count_file(parts)
        try:
            descriptor = os.open(path, OPEN_FLAGS, 0o777 if is_executable else 0o666)
        except IsADirectoryError as error:
            raise self.twice(parts) from error
        size = 0
        with open(descriptor, "wb") as out:
            while block := file.read(block_bytes):
                self.count_bytes(parts, max(size + len(block) - MEMBER_BYTES, 0) - max(size - MEMBER_BYTES, 0))
                size += len(block)
                out.write(block)
                self.bar.advance(len(block))

    def count_file(self, parts: list[str]) -> None:
        self.files += 1
        if self.files > self.most_files:
            raise refusal(
                self.archive, "/".join(parts), f"no more files and folders than {self.most_files:,}", FILES_SETTING
            )
        self.count_bytes(parts, MEMBER_BYTES)

    def count_bytes(self, parts: list[str], more: int) -> None:
        self.bytes += more
        if self.bytes > self.most_bytes:
            expected = (
                f"no more than {self.most_bytes:,} bytes in all from an archive of {self.archive.stat().st_size:,}"
            )
            raise refusal(self.archive, "/".join(parts), expected, BYTES_SETTING)

    def twice(self, parts: list[str]) -> CorruptFile:
        return CorruptFile(
            Where(path=str(self.archive)), expected="each name once", found=f"{'/'.join(parts)!r} as file and folder"
        )

    def replace_links(self) -> None:
        """Replace each link with its target, repeatedly for links to links."""
        for _ in range(MOST_LINK_STEPS):
            if not self.links:
                return
            waiting = sorted(self.links)
            for name in waiting:
                self.replace(name, self.links[name], waiting)
            if len(self.links) == len(waiting):
                break
        for name, target in self.links.items():
            raise refusal(self.archive, name, f"links to members of the archive ({target!r} is none, or leads on)")

    def replace(self, name: str, target: str, waiting: list[str]) -> None:
        there = self.root.joinpath(*target.split("/")) if target else self.root
        if there.is_file():
            del self.links[name]
            self.give_second_name(there, name.split("/"))
        elif there.is_dir() and not self.has_links_below(target, waiting):
            del self.links[name]
            self.copy_folder(there, name.split("/"))

    def has_links_below(self, folder: str, waiting: list[str]) -> bool:
        """Whether a folder still has links in it. A folder that contains a link to itself always has."""
        prefix = f"{folder}/" if folder else ""
        at = bisect.bisect_left(waiting, prefix)
        while at < len(waiting) and waiting[at].startswith(prefix):
            if waiting[at] in self.links:
                return True
            at += 1
        return False

    def copy_folder(self, there: Path, parts: list[str]) -> None:
        self.make_folder(parts)
        for folder, folders, files in walk(there):
            self.copied += len(folders) + len(files)
            if self.copied > MOST_COPIED:
                expected = f"links to folders of at most {MOST_COPIED:,} files and folders in all"
                raise refusal(self.archive, "/".join(parts), expected)
            below = [*parts, *Path(folder).relative_to(there).parts]
            name_parts(self.archive, "/".join(below))  # longer than the name in the archive
            for name in folders:
                self.make_folder([*below, name])
            for name in files:
                self.give_second_name(Path(folder, name), [*below, name])

    def give_second_name(self, there: Path, parts: list[str]) -> None:
        """Make a hard link, which takes no space, or else a copy."""
        path = self.make_folder(parts[:-1]) / parts[-1]
        if path.is_dir():
            raise self.twice(parts)
        path.unlink(missing_ok=True)
        try:
            os.link(there, path)
        except OSError:  # a file system without hard links, or too many to one file
            with there.open("rb") as file:
                is_executable = bool(there.stat().st_mode & EXECUTABLE)
                self.write(parts, file, block_bytes=BLOCK_BYTES, is_executable=is_executable)
        else:
            self.count_file(parts)
        self.written.add("/".join(parts))
