"""Detects changed files: signatures of whole files, and checksums of blocks.

Size and modification time are not enough: tools that set times (``cp -p``, ``touch -r``, ``tar``) can leave other bytes under
the same ones. So a signature has two more parts. The checksum of the first and the last block covers headers, footers and the trailer of a
compressed file (its CRC-32 and length). The ``ctime`` cannot be set by a program, so it reveals a change in the middle.

A cached file is used only if all four agree. A change of permissions also changes the ``ctime``: then the cache is rebuilt needlessly. A
file that a process has open counts as unchanged if size, time and checksum agree, because new permissions must not stop a training run.

The blocks of a mapped file are checked when they are first used. Checking all of them before would read the whole file.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.contracts.protocols import File
from headrace.contracts.values import Indices
from headrace.errors import NoFiles, Where
from headrace.io.faults import close_quietly, file_changed_error, name_in_errors

__all__ = [
    "SUMMED_BYTES",
    "BlockSummer",
    "BlockSums",
    "Signature",
    "Sums",
    "Versions",
    "block_sums",
    "has_mark",
    "no_file_error",
    "open_version",
    "set_mark",
    "wait_for_tick",
]


BLOCK_BYTES = 4096
FLAGS = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
TICK_NS = 20 * 10**6  # Linux ticks every 10 ms or faster
MARK_NS = 10**6  # the digits of a time below a millisecond
NEAR_NS = 100 * 10**6
HAS_CTIME = sys.platform != "win32"  # where it is the creation time


@dataclass(frozen=True, slots=True)
class Signature:
    """Identifies one version of a file.

    Args:
        size: In bytes.
        mtime_ns: Modification time, which programs can set.
        fingerprint: CRC-32C of the first and the last 4 KiB; -1 if it was not computed.
        ctime_ns: Time of the last change to the file's data or metadata; -1 if unknown.
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
            raise no_file_error(path) from error
        return _of_status(status, -1)

    @classmethod
    def read(cls, path: str) -> Signature:
        """The whole signature of a file: at most two reads of a block.

        Raises:
            NoFiles: There is no such file.
        """
        try:
            fd = os.open(path, FLAGS)
        except FileNotFoundError as error:
            raise no_file_error(path) from error
        with name_in_errors(path):
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
        """Whether both may belong to the same version, within one process. Fingerprints count if both have one."""
        known = self.fingerprint >= 0 and other.fingerprint >= 0
        return (
            self.size == other.size
            and self.mtime_ns == other.mtime_ns
            and (not known or self.fingerprint == other.fingerprint)
        )

    def check(self, expected: Signature, path: str) -> None:
        """Refuse a file of another version.

        Raises:
            CorruptFile: The versions differ.
        """
        if not self.same_version(expected):
            found = "another version of the same size" if self.size == expected.size else self.size
            raise file_changed_error(path, size=expected.size, found=found, what="file")

    def check_open(self, fd: int, path: str) -> None:
        """Refuse an open file of another version, by its size and time."""
        _of_status(os.fstat(fd), -1).check(self, path)

    def is_settled(self) -> bool:
        """Whether any further change of the file would show in its ``ctime``: see :func:`wait_for_tick`."""
        return self.ctime_ns >= 0 and not self._left_ns(time.time_ns()) > 0

    def _left_ns(self, now_ns: int) -> int:
        """How long the tick of its ``ctime`` lasts from now on; 0 for a time in the future, which is another machine's clock."""
        tick_ns = TICK_NS if self.ctime_ns % 10**9 else 10**9  # Some file systems store whole seconds.
        left_ns = self.ctime_ns + tick_ns - now_ns
        return left_ns if left_ns <= tick_ns else 0

    def _covers_all(self) -> bool:
        """Whether the fingerprint depends on every byte of the file."""
        return self.fingerprint >= 0 and self.size <= 2 * BLOCK_BYTES

    def proves(self, other: Signature) -> bool:
        """Whether a cache made from a file of this signature is valid for one of the other."""
        return self.same_version(other) and self.ctime_ns == other.ctime_ns


def open_version(path: str, expected: Signature) -> BinaryIO:
    """A file opened for reading, if it is of this version.

    Raises:
        CorruptFile: It is of another version.
    """
    file = open(path, "rb", buffering=0)  # noqa: SIM115 - its caller does
    try:
        with name_in_errors(path):
            Signature.of_open(file.fileno()).check(expected, path)
    except BaseException:
        file.close()
        raise
    return file


class Versions:
    """Which version of each file of a set is expected. Picklable.

    Until an index says which versions it was made from, these are the files that were there when the set was opened. Otherwise
    a set that is replaced meanwhile would give rows of the old files, and then of the new ones.

    Args:
        paths: The files. From now on, those that are there now are expected. Pipes, URLs and missing files have no version yet.
    """

    def __init__(self, paths: Sequence[str] = ()) -> None:
        self.indexed: Sequence[Signature] | None = None
        """The versions that an index was made from."""
        self._remote: dict[int, Signature] = {}
        self.local: dict[int, tuple[int, int, int]] = {}  # Plain numbers: thousands of them take a millisecond less.
        """Size, time of modification and inode of each file when the set was opened."""
        for number, path in enumerate(paths):
            try:
                status = os.stat(path)
            except (OSError, ValueError):
                continue
            if stat.S_ISREG(status.st_mode):
                self.local[number] = status.st_size, status.st_mtime_ns, status.st_ino

    def note(self, number: int, signature: Signature) -> None:
        """Expect this version of a remote file."""
        self._remote[number] = signature

    def are(self, signatures: Sequence[Signature]) -> bool:
        """Whether an index was made from these."""
        return self.indexed is not None and list(self.indexed) == list(signatures)

    def of(self, number: int) -> Signature | None:
        """The expected version of a file; ``None`` if any will do."""
        if self.indexed is not None:
            return self.indexed[number]
        seen = self.local.get(number)
        return self._remote.get(number) if seen is None else Signature(seen[0], seen[1])

    def check(self, number: int, found: Signature, path: str) -> Signature:
        """Return what was found, if it is of the expected version.

        Raises:
            CorruptFile: It is of another one.
        """
        if (expected := self.of(number)) is not None:
            found.check(expected, path)
        return found

    def check_in_place(self, number: int, mapped: File, found: Signature) -> None:
        """Refuse a mapped file that was written in place. One that only grew is the same up to its old end, and one that replaced it
        under its name leaves it as it is.

        Args:
            number: The file.
            mapped: Its content.
            found: Its signature when it was mapped.

        Raises:
            CorruptFile: Its ends hold other bytes than when it was mapped.
        """
        try:
            now = os.stat(mapped.path)
        except OSError:
            return  # It was removed. What was mapped is still there.
        is_other = now.st_ino != self.local.get(number, (0, 0, now.st_ino))[2]
        if is_other or (now.st_size, now.st_mtime_ns) == (found.size, found.mtime_ns):
            return
        first, last = mapped.read(0, BLOCK_BYTES), mapped.read(max(0, found.size - BLOCK_BYTES), BLOCK_BYTES)
        whole = mapped.read(0, found.size) if found._covers_all() else bytes(first) + bytes(last)
        if _native.crc32c(whole) != found.fingerprint:
            raise file_changed_error(mapped.path, size=found.size, found="other bytes in it", what="file")


def set_mark(path: str, mark: int) -> None:
    """Set the time of modification of a file to now, with a mark in its last digits.

    That also sets its ``ctime`` to now, so the two are near each other until something else changes the file.
    """
    now = time.time_ns()
    os.utime(path, ns=(now, now - now % MARK_NS + mark % MARK_NS))
    changed = os.stat(path).st_ctime_ns
    if HAS_CTIME and abs(changed - now) > NEAR_NS:  # The clock of a file server is another one.
        os.utime(path, ns=(now, changed - changed % MARK_NS + mark % MARK_NS))


def has_mark(path: str, mark: int) -> bool:
    """Whether nothing has changed a file since it got this mark: not even a program that then set the time of modification back."""
    status = os.stat(path)
    is_near = not HAS_CTIME or abs(status.st_ctime_ns - status.st_mtime_ns) <= NEAR_NS
    return is_near and status.st_mtime_ns % MARK_NS == mark % MARK_NS


def _of_status(status: os.stat_result, fingerprint: int) -> Signature:
    return Signature(status.st_size, status.st_mtime_ns, fingerprint, status.st_ctime_ns if HAS_CTIME else -1)


def _fingerprint(fd: int, size: int) -> int:
    if size <= 2 * BLOCK_BYTES:
        return _native.crc32c(_read_at(fd, size, 0))
    return _native.crc32c(_read_at(fd, BLOCK_BYTES, 0) + _read_at(fd, BLOCK_BYTES, size - BLOCK_BYTES))


def _read_at(fd: int, size: int, offset: int) -> bytes:
    if size == 0:
        return b""  # a pipe cannot be read at an offset
    if hasattr(os, "pread"):
        return os.pread(fd, size, offset)
    before = os.lseek(fd, 0, os.SEEK_CUR)
    os.lseek(fd, offset, os.SEEK_SET)
    found = os.read(fd, size)
    os.lseek(fd, before, os.SEEK_SET)
    return found


def wait_for_tick(signatures: Iterable[Signature]) -> None:
    """Wait until any further change of these files would show in their ``ctime``.

    File systems count that time in ticks. A file that changed within the last tick may change again without a new ``ctime``,
    so data kept under a signature must be read after this function returns. A small file needs no wait: its fingerprint shows any change.
    """
    now_ns, left_ns = time.time_ns(), 0
    for signature in signatures:
        if signature.ctime_ns >= 0 and not signature._covers_all():
            left_ns = max(left_ns, signature._left_ns(now_ns))
    if left_ns:
        time.sleep(left_ns / 1e9)


def no_file_error(path: str) -> NoFiles:
    """The error for a missing file."""
    return NoFiles(Where(path=path), expected="a file", found="nothing of that name")


SUMMED_BYTES = 64 << 10  # what the kernel maps per page fault; its checksum takes 5 microseconds

Sums = npt.NDArray[np.uint32]


class BlockSummer:
    """Computes the checksums of blocks of bytes that come in parts of any size."""

    def __init__(self, block_bytes: int) -> None:
        self._block_bytes = block_bytes
        self._found: list[Sums] = []
        self._left = b""

    def add(self, part: memoryview) -> None:
        """Add the next bytes."""
        if not part.nbytes:
            return
        view = part.cast("B")
        if self._left:
            missing = min(self._block_bytes - len(self._left), len(view))
            self._left, view = self._left + view[:missing], view[missing:]
            if len(self._left) < self._block_bytes:
                return
            self._found.append(_native.crc32c_blocks(self._left, self._block_bytes))
        whole = len(view) // self._block_bytes * self._block_bytes
        self._found.append(_native.crc32c_blocks(view[:whole], self._block_bytes))
        self._left = bytes(view[whole:])

    def sums(self) -> Sums:
        """The checksums of all blocks, of which the last may be shorter."""
        return np.concatenate([*self._found, _native.crc32c_blocks(self._left, self._block_bytes)])


def block_sums(parts: Iterable[memoryview], block_bytes: int) -> Sums:
    """The checksums of blocks, for bytes that come in parts of any size."""
    summer = BlockSummer(block_bytes)
    for part in parts:
        summer.add(part)
    return summer.sums()


class BlockSums:
    """The checksums of blocks of memory, and which blocks have been compared. Safe in threads.

    Args:
        size: The size of the memory.
        sums: ``uint32 (blocks,)``.
        block_bytes: Size of a block; the last may be shorter.

    Raises:
        ValueError: There is not one checksum per block.
    """

    def __init__(self, size: int, sums: Sums, block_bytes: int) -> None:
        self.sums: Sums = (
            sums if sums.dtype == np.uint32 and sums.flags.c_contiguous else np.ascontiguousarray(sums, np.uint32)
        )
        self._size = size
        self._block_bytes = block_bytes
        self.all_sound: bool = not len(sums)
        """Whether every block has been compared."""
        if not self.all_sound:
            self._is_sound = np.zeros(len(sums), np.bool_)
        if len(sums) != -(-size // block_bytes):
            raise ValueError(f"{len(sums)} checksums for {size} bytes in blocks of {block_bytes}")

    def __reduce__(self) -> tuple[type[BlockSums], tuple[int, Sums, int]]:
        """Another process compares for itself."""
        return type(self), (self._size, self.sums, self._block_bytes)

    def damaged(self, buffer: memoryview, starts: Indices, stops: Indices) -> int:
        """Compare the blocks that hold these ranges, unless compared before; the number of a damaged one, or -1."""
        if self.all_sound:
            return -1
        wrong, compared = _native.compare_blocks(buffer, starts, stops, self.sums, self._is_sound, self._block_bytes)
        if compared:
            self.all_sound = bool(self._is_sound.all())
        return wrong

    def damaged_anywhere(self, buffer: memoryview) -> int:
        """Compare all blocks; the number of a damaged one, or -1."""
        if self.all_sound:
            return -1
        ends = np.array((0, self._size), np.int64)
        wrong, _ = _native.compare_blocks(buffer, ends[:1], ends[1:], self.sums, self._is_sound, self._block_bytes)
        self.all_sound = wrong < 0
        return wrong
