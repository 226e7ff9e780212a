"""What tells one version of a file from another: when it may be taken for the file that a cache was made from.

Size and time of the last change are not enough: archives, copies and tools that set times (``cp -p``, ``touch -r``, ``tar``)
put other bytes under the same ones. So a signature has two things more. The checksum of the first and the last block of the file
covers the trailer of a compressed file (its CRC-32 and length), footers and headers. The time at which the system last changed
anything about the file (``ctime``) cannot be set by a program, so it gives away a change in the middle.

What is kept on the disk is believed only if all four agree. A change of permissions moves the ``ctime``, too: then a cache is made
again for nothing, which costs time and no wrong row. In one process a file that is open counts as the same if size, time and
checksum agree: a new permission must not stop a training run.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

from headrace import _native
from headrace.errors import NoFiles, Where
from headrace.io.faults import changed, close_quietly, naming

__all__ = ["Signature", "no_such_file"]


BLOCK_BYTES = 4096
FLAGS = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
HAS_CTIME = sys.platform != "win32"  # where it is the time of creation


@dataclass(frozen=True, slots=True)
class Signature:
    """What tells a file from another version of it.

    Args:
        size: In bytes.
        mtime_ns: Time of the last change of its bytes, as it says itself.
        fingerprint: CRC-32C of the first and the last 4 KiB; -1 where it was not taken.
        ctime_ns: Time of the last change of anything about it, by the system; -1 where that is not known.
    """

    size: int
    mtime_ns: int
    fingerprint: int = -1
    ctime_ns: int = -1

    @classmethod
    def of(cls, path: str) -> Signature:
        """Size and times of a file, without opening it.

        Raises:
            NoFiles: There is no such file.
        """
        try:
            status = os.stat(path)
        except FileNotFoundError as error:
            raise no_such_file(path) from error
        return _of_status(status, -1)

    @classmethod
    def read(cls, path: str) -> Signature:
        """The whole signature of a file: two reads of a block at most.

        Raises:
            NoFiles: There is no such file.
        """
        try:
            fd = os.open(path, FLAGS)
        except FileNotFoundError as error:
            raise no_such_file(path) from error
        with naming(path):
            try:
                return cls.of_open(fd)
            finally:
                close_quietly(fd)

    @classmethod
    def of_open(cls, fd: int, mapping: _native.MappedFile | None = None) -> Signature:
        """The whole signature of an open file, whose position does not change.

        Args:
            fd: Its descriptor.
            mapping: All of it in memory, if it is mapped: then no system call is needed.
        """
        if mapping is not None:
            return cls(*mapping.signature(BLOCK_BYTES))
        if _native.HAS_MAPPED_FILE and hasattr(os, "pread"):
            return cls(*_native.read_signature(fd, BLOCK_BYTES))
        status = os.fstat(fd)
        return _of_status(status, _fingerprint(fd, status.st_size))

    def same_version(self, other: Signature) -> bool:
        """Whether both may be of the same version, in one process. Fingerprints count where both have one."""
        known = self.fingerprint >= 0 and other.fingerprint >= 0
        return (
            self.size == other.size
            and self.mtime_ns == other.mtime_ns
            and (not known or self.fingerprint == other.fingerprint)
        )

    def check(self, expected: Signature, path: str) -> None:
        """Refuse a file of this signature where another version is expected.

        Raises:
            CorruptFile: It is another one.
        """
        if not self.same_version(expected):
            raise changed(path, size=expected.size, found=self.size, what="file")

    def proves(self, other: Signature) -> bool:
        """Whether what was made from a file of this signature, maybe long ago, is right for one of the other."""
        return self.same_version(other) and self.ctime_ns == other.ctime_ns


def _of_status(status: os.stat_result, fingerprint: int) -> Signature:
    return Signature(status.st_size, status.st_mtime_ns, fingerprint, status.st_ctime_ns if HAS_CTIME else -1)


def _fingerprint(fd: int, size: int) -> int:
    if size <= 2 * BLOCK_BYTES:
        return _native.crc32c(_read_at(fd, size, 0))
    return _native.crc32c(_read_at(fd, BLOCK_BYTES, 0) + _read_at(fd, BLOCK_BYTES, size - BLOCK_BYTES))


def _read_at(fd: int, size: int, offset: int) -> bytes:
    if size == 0:
        return b""  # A pipe has no places to read at.
    if hasattr(os, "pread"):
        return os.pread(fd, size, offset)
    before = os.lseek(fd, 0, os.SEEK_CUR)
    os.lseek(fd, offset, os.SEEK_SET)
    found = os.read(fd, size)
    os.lseek(fd, before, os.SEEK_SET)
    return found


def no_such_file(path: str) -> NoFiles:
    """The error for a file that is not there."""
    return NoFiles(Where(path=path), expected="a file", found="none of that name")
