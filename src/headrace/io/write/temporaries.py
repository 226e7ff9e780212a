"""Files and folders that are still being written: their names say who writes them, so that those of dead writers can be removed.

A name ends in ``{place}-{process}-{start}-{random}.headrace-tmp``. The place stands for the start of the machine and its process
numbers (containers have numbers of their own), so a process of another machine or container that shares the folder is never taken
for one of ours that is gone. The time at which the process started tells it from a later one of the same number.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import sys
import time
from functools import cache, lru_cache
from pathlib import Path

from headrace.io.cache.folder import boot_id, cache_key
from headrace.io.faults import close_quietly
from headrace.io.names import TEMPORARY_SUFFIX
from headrace.io.system import lock

__all__ = ["remove_abandoned", "temporary_name"]


NAME_BYTES = 100  # of the final name kept in the temporary one, which must fit into 255
OWNER = re.compile(
    r".*\.(?P<place>[0-9a-f]{10})-(?P<process>\d+)-(?P<start>\d+)-[0-9a-f]{12}" + re.escape(TEMPORARY_SUFFIX)
)
ANCIENT_AFTER_S = 7 * 24 * 3600
"""How long nothing may have happened to what a process of another place writes: one that waits for others gets its name later."""
UNKNOWN_AFTER_S = 60
"""The same for names that do not say who writes, as they were once: only of the file that is to be written, and if nobody holds a lock."""


def temporary_name(name: str) -> str:
    """What something is called in its folder until it is complete: hidden, and this process's."""
    kept = os.fsdecode(os.fsencode(name)[:NAME_BYTES])
    return f".{kept}.{_place()}-{os.getpid()}-{_started(os.getpid())}-{os.urandom(6).hex()}{TEMPORARY_SUFFIX}"


def remove_abandoned(folder: str, name: str) -> None:
    """Remove what dead writers have left in a folder, before something of this name is written there."""
    before = "." + os.fsdecode(os.fsencode(name)[:NAME_BYTES]) + "."
    for found in _temporaries(folder, int(time.monotonic())):
        path = os.path.join(folder, found)
        owner = OWNER.fullmatch(found)
        with contextlib.suppress(OSError):  # Another process may be removing it, too; or it is not ours to remove.
            if owner is None:
                is_dead = found.startswith(before) and _is_unused(path, UNKNOWN_AFTER_S)
            elif owner["place"] == _place():
                is_dead = not _lives(int(owner["process"]), int(owner["start"]))
            else:
                is_dead = _is_unused(path, ANCIENT_AFTER_S)
            if is_dead:
                _remove(path)


@lru_cache(maxsize=4)
def _temporaries(folder: str, _second: int) -> list[str]:
    """Those in a folder, listed once a second: each of a thousand shards would go over all before it."""
    try:
        return [name for name in os.listdir(folder) if name.endswith(TEMPORARY_SUFFIX)]
    except OSError:
        return []  # Whoever writes there is told so.


@cache
def _place() -> str:
    try:
        numbers = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        numbers = 0
    return cache_key(boot_id() or socket.gethostname(), numbers)[:10]


@lru_cache(maxsize=1)
def _started(process: int) -> int:
    return _start_of(process) or 0


def _start_of(process: int) -> int | None:
    """When a process started, in ticks of the machine; ``None`` where there is no such process, 0 where that is not known."""
    try:
        status = Path(f"/proc/{process}/stat").read_bytes()
    except OSError:  # There is no /proc, or it hides the processes of other users.
        return 0 if _is_there(process) else None
    # The name of the program, which may have blanks and brackets in it, ends at the last bracket.
    fields = status[status.rindex(b")") + 2 :].split()
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def _is_there(process: int) -> bool:
    if sys.platform == "win32":
        return True  # An open file cannot be removed there anyway, and one that is not open has its name or is old.
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _lives(process: int, start: int) -> bool:
    """Whether a process of ours is still there. In doubt it is."""
    found = _start_of(process)
    return found is not None and (0 in (found, start) or found == start)


def _is_unused(path: str, seconds: float) -> bool:
    """Whether nothing has happened to something for so long, and nobody holds a lock on it."""
    times = [os.stat(path).st_mtime]
    if os.path.isdir(path):
        with os.scandir(path) as entries:
            times += [entry.stat().st_mtime for entry in entries]
    if time.time() - max(times) < seconds:
        return False
    fd = os.open(path, os.O_RDONLY)
    try:
        return lock(fd)
    finally:
        close_quietly(fd)


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)
