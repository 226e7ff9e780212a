"""What a job leaves: archives with its files at their root, the same bytes for the same files."""

from __future__ import annotations

import errno
import gzip
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from headrace.errors import JobFailed
from headrace.io.archives import unpack_into
from headrace.io.atomic import AtomicFile

__all__ = ["files_below", "full_disk_as_failure", "full_disk_reason", "pack", "unpack"]

LEVEL = 6
IS_EXECUTABLE = 0o111


@contextmanager
def full_disk_as_failure(place: Path) -> Iterator[None]:
    """Say what to do where a disk is full: a bare OSError names a file that nobody chose.

    Args:
        place: The folder of the jobs.

    Raises:
        JobFailed: It is full.
    """
    try:
        yield
    except OSError as error:
        reason = full_disk_reason(error, place)
        if reason is None:
            raise
        raise JobFailed(reason) from error


def full_disk_reason(error: BaseException, place: Path) -> str | None:
    """Why a job failed, if it was because a disk was full or a quota used up, and what to do; else ``None``."""
    disk = error if isinstance(error, OSError) else error.__cause__
    if not isinstance(disk, OSError) or disk.errno not in (errno.ENOSPC, errno.EDQUOT):
        return None
    what = "the disk is full" if disk.errno == errno.ENOSPC else "the quota of the disk is used up"
    return (
        f"ClientError: {what}: {disk.filename or place} could not be written, and nothing incomplete was left in its place. "
        f"Free some space, or choose another folder for jobs and their artifacts, which are in {place} now"
    )


def files_below(folders: Sequence[Path]) -> dict[str, Path]:
    """The files in some folders by their path in it; of two of one name, that in the later folder. Links to files are followed."""
    found: dict[str, Path] = {}
    for folder in folders:
        paths = (path for path in folder.rglob("*") if path.is_file())
        found.update({path.relative_to(folder).as_posix(): path for path in paths})
    return found


def pack(files: Mapping[str, Path], archive: Path) -> None:
    """Write a ``.tar.gz`` that is there whole or not at all.

    Owners, times and the order in which files were written leave no trace in it.
    """
    archive.parent.mkdir(parents=True, exist_ok=True)
    with (
        AtomicFile(archive) as file,
        gzip.GzipFile(filename="", mode="wb", fileobj=file, compresslevel=LEVEL, mtime=0) as compressed,  # type: ignore[call-overload]
        tarfile.open(mode="w", fileobj=compressed, format=tarfile.PAX_FORMAT) as tar,
    ):
        for name in sorted(files):
            _add(tar, name, files[name])


def _add(tar: tarfile.TarFile, name: str, path: Path) -> None:
    state = path.stat()
    entry = tarfile.TarInfo(name)
    entry.size = state.st_size
    entry.mode = 0o755 if state.st_mode & IS_EXECUTABLE else 0o644
    with path.open("rb") as file:
        tar.addfile(entry, file)


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a ``.tar.gz`` (or ``.tar``) into a folder, which is made where it is missing.

    Raises:
        CorruptFile: It is damaged.
        UnsupportedData: It is no archive, or one that would write outside the folder, or more than the limits
            (:class:`headrace.io.archives.Limits`).
    """
    unpack_into(archive, folder)
