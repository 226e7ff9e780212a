"""The user's cache folder. Its files may be deleted at any time, and are then recreated."""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import os
import struct
import sys
import warnings
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Self

import numpy as np

from headrace import _native
from headrace.errors import CorruptFile, Where
from headrace.io.faults import close_quietly, name_in_errors
from headrace.io.local.mapped import MappedFile
from headrace.io.local.signatures import SUMMED_BYTES, BlockSummer, BlockSums, has_mark, set_mark
from headrace.io.system import boot_id, has_locks, lock, remove_unused, size_setting, unlock
from headrace.io.urls import local_path

__all__ = [
    "ATTEMPTS",
    "CacheEntry",
    "cache_folder",
    "cache_key",
    "cache_limit_bytes",
    "entry_path",
    "fresh_cache",
    "is_trusted",
    "open_entry",
]


DEFAULT_LIMIT_BYTES = 20 << 30
DISK_SHARE = 0.25
UNFINISHED = ".part"
ATTEMPTS = 10
"""How often something is done again if another process empties the cache folder meanwhile, as ``rm -r`` does."""
ONE_USE = "once-"
"""The prefix of entries that only their maker can use."""
END = struct.Struct("<II8s")  # length of the facts before it, CRC-32C of the note, magic
MAGIC = b"headrace"


def cache_folder(part: str) -> Path:
    """The folder for one kind of cached file. It exists and is writable.

    ``HEADRACE_CACHE_DIR`` if set, else ``headrace`` in the platform's cache folder (``XDG_CACHE_HOME`` or ``~/.cache`` on Linux,
    ``~/Library/Caches``, ``%LOCALAPPDATA%``). If that is not writable, a temporary folder of this user, with one warning.

    Raises:
        UnsupportedData: ``HEADRACE_CACHE_DIR`` is a URL.
    """
    base = os.path.expanduser(os.environ.get("HEADRACE_CACHE_DIR", ""))
    if base and ":/" in base:
        local_path(base, "HEADRACE_CACHE_DIR, a folder")
    given, home = os.environ.get("XDG_CACHE_HOME"), os.environ.get("HOME")
    if not base and sys.platform == "linux" and os.path.isabs(given or home or ""):
        # As platformdirs says, whose import takes half of the time in which a new process opens a small file.
        base = os.path.join(given or os.path.join(home or "", ".cache"), "headrace")
    return _writable(base or _platform_folder(given, home), part)


def cache_key(*parts: object) -> str:
    """A file name derived from ``parts``."""
    import hashlib  # imported here, because it loads OpenSSL, and importing headrace needs no keys

    return hashlib.sha256("\0".join(map(str, parts)).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def entry_path(key: str) -> Path:
    """The path of a large cached file. Each user has their own: others may not read what a private file holds."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    return cache_folder("inflated") / f"{key}-{user}.inflated"


_renewed: ContextVar[set[Path] | None] = ContextVar("headrace-renewed-cache", default=None)


@contextlib.contextmanager
def fresh_cache() -> Iterator[None]:
    """A context that ignores everything cached before and recreates it from the original files."""
    token = _renewed.set(set())
    try:
        yield
    finally:
        _renewed.reset(token)


def is_trusted(path: Path) -> bool:
    """Whether a cached file may be used. Inside :func:`fresh_cache`, an older one is removed."""
    renewed = _renewed.get()
    if renewed is None or path in renewed:
        return True
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return False
    renewed.add(path)
    return False


def cache_limit_bytes(folder: Path) -> int:
    """The limit on the total size of inflated files: ``HEADRACE_CACHE_LIMIT`` (bytes, or as in ``20G``), else 20 GiB,
    but at most a quarter of the free disk space.

    Raises:
        ValueError: The variable is not a size.
    """
    given = size_setting("HEADRACE_CACHE_LIMIT")
    return min(DEFAULT_LIMIT_BYTES, int(_free_bytes(folder) * DISK_SHARE)) if given is None else given


def _free_bytes(folder: Path) -> int:
    if not hasattr(os, "statvfs"):
        return 4 * DEFAULT_LIMIT_BYTES
    while True:
        try:
            disk = os.statvfs(folder)
        except FileNotFoundError:
            folder = folder.parent  # another process has just removed it
        else:
            return disk.f_bavail * disk.f_frsize


@functools.lru_cache(maxsize=2)
def _platform_folder(*_settings: str | None) -> str:
    """The platform's cache folder, cached per environment: looking it up takes 40 microseconds, after the import."""
    platformdirs = importlib.import_module("platformdirs")
    return str(platformdirs.user_cache_dir("headrace", appauthor=False))


def _writable(base: str, part: str) -> Path:
    folder = os.path.join(base, part)
    if base[:1] != "~" and _can_write(folder):
        return Path(folder)
    fallback = _fallback(base) / part
    fallback.mkdir(parents=True, exist_ok=True)
    return fallback


@functools.cache
def _fallback(folder: str) -> Path:
    import tempfile  # imported here, because most cache folders can be written

    user = os.getuid() if hasattr(os, "getuid") else "user"
    fallback = Path(tempfile.gettempdir(), f"headrace-{user}")
    fallback.mkdir(mode=0o700, parents=True, exist_ok=True)
    if hasattr(os, "getuid") and fallback.stat().st_uid != os.getuid():
        # Another user made the folder first, so its contents cannot be trusted.
        fallback = Path(tempfile.mkdtemp(prefix="headrace-"))
    warnings.warn(
        f"The cache folder {folder} cannot be written; {fallback} is used. Set HEADRACE_CACHE_DIR to choose another.",
        stacklevel=5,
    )
    return fallback


def _can_write(folder: str) -> bool:
    for _ in range(ATTEMPTS):
        if os.access(os.path.join(folder, ""), os.W_OK | os.X_OK):
            return True
        try:
            os.makedirs(folder, exist_ok=True)
        except FileNotFoundError:
            continue  # another process removes what is above it
        except OSError:
            return False
    return False


class CacheEntry:
    """A large cached file while one process makes it. It appears whole or not at all."""

    def __init__(self, path: Path, fd: int, unfinished: Path) -> None:
        self.path = path
        self.unfinished: Path = unfinished
        """Its path until it is committed."""
        self.size: int = 0
        self.may_be_again: bool = False
        """Whether it was complete, but may have been removed by another process: then it can be made again."""
        self._sums = BlockSummer(SUMMED_BYTES)
        self._fd = fd
        self._process = os.getpid()

    @classmethod
    def claim(cls, path: Path, *, wait: bool) -> Self | None:
        """The right to make this entry.

        Args:
            path: Its final name.
            wait: Wait if another process is making it.

        Returns:
            ``None`` if it exists, or if another process is making it and ``wait`` is false.
        """
        while not path.exists():
            unfinished = path.with_name(path.name + UNFINISHED)
            fd = _open_in_folder(unfinished)
            is_kept = False  # An error must not leave it locked: the next process would wait forever.
            try:
                ours = lock(fd)
                if not ours and not has_locks(fd):
                    return cls._claim_without_lock(path, fd)
                if ours and _is_same_file(fd, unfinished):
                    with name_in_errors(str(path)):
                        if os.fstat(fd).st_size:
                            # Only if another process left bytes: closing a truncated file flushes it to disk.
                            os.ftruncate(fd, 0)
                    is_kept = True
                    return cls(path, fd, unfinished)
                if not ours and wait:
                    # Wait for its maker. The lock is shared, because the entry may be mapped as soon as it is complete.
                    lock(fd, shared=True, wait=True)
            finally:
                if not is_kept:
                    close_quietly(fd)
            if not ours and not wait:
                return None
        return None

    @classmethod
    def _claim_without_lock(cls, path: Path, fd: int) -> Self:
        """An entry with a temporary name of its own, where no lock tells whether another process makes the same one."""
        shared = path.with_name(path.name + UNFINISHED)
        if not os.fstat(fd).st_size:
            shared.unlink(missing_ok=True)
        unfinished = path.with_name(f"{path.name}.{os.urandom(6).hex()}{UNFINISHED}")
        return cls(path, _open_in_folder(unfinished), unfinished)

    @property
    def closed(self) -> bool:
        """Whether it was committed or aborted."""
        return self._fd < 0

    def write(self, part: bytes | memoryview) -> bool:
        """Append bytes; ``False`` if writing fails."""
        view = memoryview(part)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError:
            return False
        self.size += len(part)
        self._sums.add(memoryview(part))
        return True

    def write_note(self, fault: CorruptFile | None) -> bool:
        """Append the note that ends an entry; ``False`` if writing fails.

        Args:
            fault: The error after the last byte of the content, if there is one.
        """
        sums = self._sums.sums().astype("<u4").tobytes()
        facts_of_fault = None if fault is None else [fault.where.offset, fault.expected, fault.found, fault.hint]
        facts = json.dumps({"size": self.size, "fault": facts_of_fault, "boot": boot_id()}).encode()
        return self.write(sums + facts + END.pack(len(facts), _native.crc32c(sums + facts), MAGIC))

    def commit(self, limit_bytes: int, *, durable: bool = True) -> bool:
        """Move the entry into place, and delete the least recently used ones beyond the limit.

        Args:
            limit_bytes: The limit on all entries together.
            durable: Wait until the bytes are on disk. Not needed for entries that are ignored after a reboot.

        Returns:
            ``False`` if the entries in use leave no room. This entry is then removed.
        """
        if not _make_room(self.path, limit_bytes - self.size):
            self.abort()
            return False
        try:
            if durable:
                os.fsync(self._fd)
            os.replace(self.unfinished, self.path)
        except OSError as error:
            self.may_be_again = isinstance(error, FileNotFoundError)
            self.abort()
            return False
        self.may_be_again = True
        try:
            os.close(self._unlocked())
        except OSError:  # File servers may report lost bytes only now.
            with contextlib.suppress(OSError):
                self.path.unlink()
            return False
        return True

    def abort(self) -> None:
        """Remove what was written. Does nothing after ``commit``."""
        if self._fd >= 0:
            with contextlib.suppress(OSError):  # A leftover is useless, and removed by the next entry.
                self.unfinished.unlink(missing_ok=True)
            close_quietly(self._unlocked())

    def __del__(self) -> None:
        if self._process == os.getpid():  # In a forked child it still belongs to the parent.
            self.abort()

    def _unlocked(self) -> int:
        fd, self._fd = self._fd, -1
        unlock(fd)
        return fd


def open_entry(path: str, entry: Path, *, size: int | None = None, compare: bool = False) -> MappedFile | None:
    """The content of an entry, mapped; ``None`` if there is no intact one. What is left of a damaged one is removed.

    All of it is compared with the checksums in its note: the formats above cannot tell damage here from damage of the original. To mark
    that, the last digits of its time of last use are those of the checksum of the note. While the mark is there, this and other
    processes skip the comparison.

    Args:
        path: The original file, in messages.
        entry: The entry.
        size: Of its content, if that is known.
        compare: Compare it even if it has the mark.
    """
    try:
        content = MappedFile(path, entry=str(entry))
    except OSError:
        return None
    sums, mark = _read_note(content, path)
    with contextlib.suppress(FileNotFoundError):  # removed meanwhile: what is mapped stays
        compare = compare or not has_mark(str(entry), mark)
    if sums is None or size not in (None, content.size) or (compare and not content.is_intact(sums)):
        entry.unlink(missing_ok=True)
        return None
    with contextlib.suppress(FileNotFoundError):
        set_mark(str(entry), mark)  # The oldest entries are evicted first.
    return content


def _read_note(content: MappedFile, path: str) -> tuple[BlockSums | None, int]:
    """Read the note and cut it off the content: the checksums, ``None`` if there is no intact note, and the mark of this note."""
    end = content.read(content.size - END.size, END.size) if content.size >= END.size else b""
    length, crc, magic = END.unpack(end) if end else (0, 0, b"")
    if magic != MAGIC or length > content.size - END.size:
        return None, -1
    try:
        facts = json.loads(bytes(content.read(content.size - END.size - length, length)))
        size, fault, boot = facts["size"], facts["fault"], facts["boot"]
    except (ValueError, KeyError, TypeError):
        return None, -1
    summed = -(-size // SUMMED_BYTES) * 4
    noted = content.read(size, content.size - END.size - size)
    if size + summed + length + END.size != content.size or _native.crc32c(noted) != crc or boot != boot_id():
        return None, -1
    content.cut(size)
    if fault is not None:
        offset, expected, found, hint = fault
        content.fault = CorruptFile(Where(path=path, offset=offset), expected=expected, found=found, hint=hint)
    return BlockSums(size, np.frombuffer(noted[:summed], "<u4"), SUMMED_BYTES), crc


def _open_in_folder(path: Path) -> int:
    """Open a file for writing, in a folder that another process may remove."""
    for _ in range(ATTEMPTS):
        with contextlib.suppress(FileNotFoundError, FileExistsError):
            path.parent.mkdir(parents=True, exist_ok=True)
            return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


def _is_same_file(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except OSError:
        return False


def _make_room(path: Path, allowed_bytes: int) -> bool:
    """Delete the least recently used entries beside ``path`` until they take no more than ``allowed_bytes``."""
    others = []
    beside: list[Path] = []
    with contextlib.suppress(FileNotFoundError):  # another process has just removed the folder
        beside = list(path.parent.iterdir())
    for other in beside:
        if other.suffix == UNFINISHED or (other.name.startswith(ONE_USE) and other != path):
            remove_unused(other)  # Left by a process that ended. Entries in use are locked.
        if other != path and other.suffix == path.suffix and os.access(other, os.R_OK):  # not another user's
            try:
                status = other.stat()
            except OSError:
                continue  # Another process has just deleted it.
            others.append((status.st_mtime_ns, status.st_size, other))
    total = sum(size for _, size, _ in others)
    for _, size, other in sorted(others):
        if total <= allowed_bytes:
            break
        if remove_unused(other):
            total -= size
    return total <= allowed_bytes
