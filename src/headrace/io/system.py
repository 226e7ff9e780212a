"""Resources of this process: processors, memory, and the limits of its control groups. Also locks between processes,
syncing folders, numbers from the environment, where modules are imported from, and properties that are computed once.

Sources: cgroups(7), proc_pid_mountinfo(5), Documentation/admin-guide/cgroup-v1 and cgroup-v2 of Linux. A group is subject to its own limits
and to those of every group above it, up to the mount point of its hierarchy. A container cannot see the groups above that.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, cached_property
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

from headrace.io.faults import close_quietly, name_in_errors

__all__ = [
    "as_pool_thread",
    "boot_id",
    "cached_property",
    "cpu_limit",
    "discard_folder",
    "has_locks",
    "lock",
    "lock_or_find_owner",
    "memory_limit",
    "most_open",
    "number_setting",
    "remove_path",
    "remove_unused",
    "search_path",
    "size_setting",
    "spare_cores",
    "sync_folder",
    "unlock",
    "usable_cores",
    "usable_memory",
    "walk",
    "whole_cpus",
]

MOST_OPEN = 4096
UNUSED_S = 24 * 3600
"""How old an unused file is where no lock tells."""
_computing: dict[tuple[int, int, str | None], Any] = {}
"""The locks of the properties that are being computed: by process, instance and name."""
if not TYPE_CHECKING:
    functools_property = cached_property

    class cached_property(functools_property):  # noqa: N801 - a decorator
        """As in `functools`. There, Python 3.11 holds one lock for all instances, forever in a child forked meanwhile, and later ones hold none. Here
        only threads of one process that ask the same instance wait for each other.
        """

        def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
            if instance is None:
                return self
            name, kept = self.attrname, instance.__dict__
            key = os.getpid(), id(instance), name
            with _computing.setdefault(key, RLock()):
                try:
                    return kept[name] if name in kept else kept.setdefault(name, self.func(instance))
                finally:
                    _computing.pop(key, None)


UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


UNLIMITED_BYTES = 1 << 60  # Version 1 writes "no limit" as the largest number of whole pages.
V2 = "cgroup2"


def memory_limit(root: str = "/") -> int | None:
    """The smallest memory limit, in bytes, of the control groups of this process; ``None``: no limit.

    Args:
        root: Replaces ``/`` in tests.
    """
    found = _least(root, "memory", _memory_of)
    return None if found is None or found >= UNLIMITED_BYTES else int(found)


def cpu_limit(root: str = "/") -> float | None:
    """How many processors this process may keep busy, such as 1.5; ``None``: no limit."""
    return _least(root, "cpu", _cpus_of)


def most_open() -> int:
    """How many files to keep open to read from: a quarter of what this process may open, because other code opens files, too."""
    if sys.platform == "win32":
        return MOST_OPEN // 4
    import resource  # imported here: Windows has none

    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MOST_OPEN if most == resource.RLIM_INFINITY else min(max(most // 4, 1), MOST_OPEN)


@cache
def usable_memory() -> int | None:
    """The memory of this machine or container; ``None`` if unknown."""
    try:
        machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        machine = None
    limits = [limit for limit in (machine, memory_limit()) if limit is not None and limit > 0]
    return min(limits, default=None)


def _least(root: str, controller: str, limit_of: Callable[[Path, bool], float | None]) -> float | None:
    found = [limit_of(group, is_v2) for group, is_v2 in _groups(root, controller)]
    return min((limit for limit in found if limit is not None), default=None)


def _groups(root: str, controller: str) -> Iterator[tuple[Path, bool]]:
    """The folders of the control groups of this process, from its own up, and whether each is of version 2."""
    paths = _paths(root, controller)
    for mounted_root, place, kind in _mounts(root, controller):
        inside = _below(mounted_root, paths.get(kind == V2))
        top = Path(root, place.lstrip("/"))
        if inside is not None:
            for folder in (inside, *inside.parents):
                yield top / folder, kind == V2


def _paths(root: str, controller: str) -> dict[bool, str]:
    """The group of this process in version 2 (``True``), and in a controller's hierarchy of version 1 (``False``)."""
    paths = {}
    for line in _lines(Path(root, "proc/self/cgroup")):
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            paths[True] = path
        elif controller in controllers.split(","):
            paths[False] = path
    return paths


def _mounts(root: str, controller: str) -> Iterator[tuple[str, str, str]]:
    """The mounted hierarchies: the group at the top, the mount point, and the file system type."""
    for line in _lines(Path(root, "proc/self/mountinfo")):
        before, _, after = line.partition(" - ")
        fields, (kind, *rest) = before.split(), after.split() or [""]
        has_it = kind == V2 or (kind == "cgroup" and controller in rest[-1].split(",") if rest else False)
        if len(fields) >= 5 and has_it:
            yield _unescape(fields[3]), _unescape(fields[4]), kind


def _below(top: str, path: str | None) -> Path | None:
    """A group relative to the mounted one. A group outside it belongs to another namespace: then the top counts."""
    if path is None:
        return None
    below = os.path.relpath(path, top) if path.startswith("/") and ".." not in path.split("/") else "."
    return Path() if below.startswith("..") else Path(below)


def _memory_of(group: Path, is_v2: bool) -> float | None:  # noqa: FBT001
    names = ("memory.max", "memory.high") if is_v2 else ("memory.limit_in_bytes",)
    limits = [int(text) for name in names if (text := _text(group / name)).isdecimal()]
    return min(limits, default=None)


def _cpus_of(group: Path, is_v2: bool) -> float | None:  # noqa: FBT001
    if is_v2:
        quota, _, period = _text(group / "cpu.max").partition(" ")
    else:
        quota, period = _text(group / "cpu.cfs_quota_us"), _text(group / "cpu.cfs_period_us")
    if not quota.isdecimal() or not period.isdecimal() or not int(period):
        return None  # "max", or -1
    return int(quota) / int(period)


def whole_cpus(limit: float) -> int:
    """A limit of processors as a number of threads, rounded up."""
    return max(1, math.ceil(limit))


def _lines(path: Path) -> list[str]:
    return _text(path).splitlines()


def _text(path: Path) -> str:
    try:
        with path.open("rb", buffering=0) as file:
            return file.readall().decode(errors="surrogateescape").strip()
    except OSError:
        return ""


def _unescape(field: str) -> str:
    """Decode a field of mountinfo, which writes spaces and the like as three octal digits."""
    if "\\" not in field:
        return field  # without compiling the pattern, which takes longer than all of the rest
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), field)


_of_thread = threading.local()


def usable_cores() -> int:
    """The number of cores this process may use, by its affinity and the limits of its container."""
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    allowed = _allowed_cores()
    return bound if allowed is None else min(bound, allowed)


@cache
def _allowed_cores() -> int | None:
    limit = cpu_limit()
    return None if limit is None else whole_cpus(limit)


@contextmanager
def as_pool_thread() -> Iterator[None]:
    """Mark this thread as one of several busy ones, so that :func:`spare_cores` gives it one core."""
    before = getattr(_of_thread, "is_one_of_several", False)
    _of_thread.is_one_of_several = True
    try:
        yield
    finally:
        _of_thread.is_one_of_several = before


def spare_cores() -> int:
    """How many threads one call may use: all cores for a main thread that works alone, one for any other thread."""
    if threading.current_thread() is not threading.main_thread() or getattr(_of_thread, "is_one_of_several", False):
        return 1
    return usable_cores()


def search_path() -> list[str]:
    """The folders from which this process imports modules."""
    return [folder or str(Path.cwd()) for folder in sys.path]


if sys.platform != "win32":
    import fcntl


def _ask_for_lock(fd: int, operation: int) -> bool | None:
    """Ask the system for a lock of an open file. ``False``: another process holds it. ``None``: there are no locks here."""
    if sys.platform == "win32":
        return None
    try:
        fcntl.flock(fd, operation)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def lock(fd: int, *, shared: bool = False, wait: bool = False) -> bool:
    """Lock an open file until its descriptor *and every mapping made from it* are gone.

    Args:
        fd: The descriptor.
        shared: Take a shared lock.
        wait: Wait until the lock is free.

    Returns:
        Whether the lock is held now. Always true on Windows, where an open file cannot be deleted anyway.
    """
    if sys.platform == "win32":
        return True
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    return _ask_for_lock(fd, kind if wait else kind | fcntl.LOCK_NB) is True


def lock_or_find_owner(fd: int) -> bool:
    """Lock an open file unless another process holds the lock; return whether one does. Always false where there are no locks."""
    return sys.platform != "win32" and _ask_for_lock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB) is False


def has_locks(fd: int) -> bool:
    """Whether the file system of an open file has locks between processes. Lustre, NFS and FUSE may have none."""
    return sys.platform != "win32" and _ask_for_lock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB) is not None


def remove_unused(path: str | os.PathLike[str]) -> bool:
    """Remove a file that no process has locked; where there are no locks, one that has not changed for a day. ``False`` if it stays."""
    try:
        fd = os.open(path, os.O_RDONLY)
        try:
            if not lock(fd) and (has_locks(fd) or time.time() - os.fstat(fd).st_mtime < UNUSED_S):
                return False
            os.unlink(path)
        finally:
            close_quietly(fd)
    except OSError:
        return False
    return True


def unlock(fd: int) -> None:
    """Release a lock, also for forked children that inherited the descriptor."""
    if sys.platform != "win32":
        with contextlib.suppress(OSError):  # a file system without locks holds none
            fcntl.flock(fd, fcntl.LOCK_UN)


def sync_folder(folder: str) -> None:
    """Wait until the entries of a folder, such as a renamed file, are on disk."""
    if os.name != "posix":
        return
    with name_in_errors(folder):
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            close_quietly(fd)


def walk(folder: str | os.PathLike[str]) -> Iterator[tuple[str, list[str], list[str]]]:
    """``os.walk``, but raises an error for a folder that cannot be listed. ``os.walk`` silently skips it.

    Raises:
        OSError: A folder cannot be listed.
    """

    def fail(error: OSError) -> None:
        raise error

    return os.walk(os.fspath(folder), onerror=fail)


@cache
def boot_id() -> str:
    """An identifier that changes at every boot; empty if the system has none."""
    try:
        # As UTF-8, whose codec is there: that of ASCII would be imported, which takes a millisecond.
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def discard_folder(folder: str | os.PathLike[str]) -> None:
    """Remove as much of a folder as possible. Never raises, not even where ``shutil.rmtree`` does with ``ignore_errors``."""
    for _ in range(2):  # rmtree gives up where closing a folder fails
        with contextlib.suppress(OSError):
            shutil.rmtree(folder, ignore_errors=True)


def remove_path(path: str) -> None:
    """Remove a file, a link, or a folder with all that is in it. Does nothing if there is none."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def size_setting(name: str) -> int | None:
    """A size from an environment variable, in bytes or as ``20G``; ``None`` if it is not set.

    Raises:
        ValueError: The value is not a size.
    """
    given = os.environ.get(name, "").strip()
    text = given.upper().removesuffix("B").removesuffix("I")
    if not text:
        return None
    unit = text[-1] if text[-1] in UNITS else ""
    try:
        size = int(float(text.removesuffix(unit)) * UNITS[unit])
    except (ValueError, OverflowError):
        size = -1
    if size < 0:
        raise ValueError(f"{name} must be a size such as 20G or 500M, got {given!r}")
    return size


def number_setting(name: str, default: float, least: float, most: float, *, kind: type[int | float]) -> float:
    """A number from an environment variable; ``default`` if it is not set.

    Raises:
        ValueError: The value is not a number of this kind, or out of bounds.
    """
    given = os.environ.get(name, "").strip()
    try:
        number = kind(given) if given else default
    except ValueError:
        number = math.nan
    if not least <= number <= most:
        noun = "a whole number" if kind is int else "a number"
        raise ValueError(f"{name} must be {noun} from {least:,} to {most:,}, got {given!r}")
    return number
