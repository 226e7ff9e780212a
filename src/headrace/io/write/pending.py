"""Files and folders without their final names.

A temporary name identifies its writer, so that leftovers of dead writers can be removed. It ends in
``{place}-{process}-{start}-{random}.headrace-tmp``. The place identifies the boot of the machine and its PID namespace, because
containers have their own. So a process of another machine or container that shares the folder is never mistaken for a
dead one of this machine. The start time distinguishes the process from a later one with the same PID.

:class:`DeferredRenames` renames several files together, once the bytes of all are on disk.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import time
from concurrent.futures import Future
from contextvars import ContextVar
from functools import cache, lru_cache
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from headrace.errors import UnsupportedData, Where
from headrace.io.cache.folder import cache_key
from headrace.io.faults import close_quietly, name_in_errors, name_target
from headrace.io.names import TEMPORARY_SUFFIX
from headrace.io.system import boot_id, lock, lock_or_find_owner, remove_path, sync_folder
from headrace.io.threads import ThreadPool
from headrace.io.write.commit import finish_names, give_names, has_journal

__all__ = [
    "LOCK",
    "Closable",
    "DeferredRenames",
    "UnnamedFile",
    "defer_rename",
    "lock_folder",
    "process_exists",
    "remove_abandoned",
    "temporary_name",
]


NAME_BYTES = 100  # of the final name; the temporary one must fit into 255
OWNER = re.compile(
    r".*\.(?P<place>[0-9a-f]{10})-(?P<process>\d+)-(?P<start>\d+)-[0-9a-f]{12}" + re.escape(TEMPORARY_SUFFIX)
)
LOCK = "lock"
"""A file in a hidden folder, locked by the process that works there. It holds a name that says which one that is."""
ATTEMPTS = 20
ANCIENT_AFTER_S = 7 * 24 * 3600
"""How long a file of a foreign writer must be unchanged before it is removed. A file that waits for others is renamed late."""
UNKNOWN_AFTER_S = 60
"""The same for old names that do not identify a writer: applies only to unlocked leftovers of the file to be written."""


def temporary_name(name: str) -> str:
    """A hidden name for a file or folder of this process until it is complete."""
    kept = os.fsdecode(os.fsencode(name)[:NAME_BYTES])
    return f".{kept}{_mark_of(os.getpid())}{os.urandom(6).hex()}{TEMPORARY_SUFFIX}"


def _is_abandoned(name: str) -> bool:
    """Whether a temporary name is of a process of this machine that has ended."""
    owner = OWNER.fullmatch(name)
    if owner is None or owner["place"] != _machine_id():
        return False
    return not _is_alive(int(owner["process"]), int(owner["start"]))


def _describe_owner(name: str) -> str:
    """The process that has made a temporary name, in words."""
    owner = OWNER.fullmatch(name)
    if owner is None:
        return "another process"
    where = "this machine" if owner["place"] == _machine_id() else "another machine or container"
    return f"process {owner['process']} of {where}"


def lock_folder(path: Path, first: str) -> int:
    """Make a hidden folder if there is none, and lock it: the descriptor that holds the lock, which ends with the process.

    Args:
        path: The folder.
        first: The file to be written there, in errors.

    Raises:
        NoFiles: The folder that it is in does not exist.
        UnsupportedData: Another process has locked it.
    """
    place = path / LOCK
    for _ in range(ATTEMPTS):
        with name_target(first if os.path.dirname(first) == str(path.parent) else str(path)):
            path.mkdir(exist_ok=True)
        with contextlib.suppress(FileNotFoundError), name_in_errors(str(place)):  # its owner may just remove the folder
            fd = os.open(place, os.O_RDWR | os.O_CREAT, 0o666)
            is_kept = False
            try:
                if lock_or_find_owner(fd):
                    owner = place.read_text(errors="replace")
                    if not owner or _is_abandoned(owner):
                        time.sleep(0.1)  # the next owner may be about to write its name
                        owner = place.read_text(errors="replace")
                    if not _is_abandoned(owner):
                        raise _locked_error(first, owner)
                    place.unlink()  # children that it has forked still hold the lock
                elif os.path.samestat(os.fstat(fd), place.stat()):
                    os.ftruncate(fd, 0)
                    os.write(fd, temporary_name("").encode())
                    is_kept = True
                    return fd
            finally:
                if not is_kept:
                    close_quietly(fd)
    raise _locked_error(first, "")


def _locked_error(first: str, owner: str) -> UnsupportedData:
    return UnsupportedData(
        Where(path=first),
        expected="one conversion to this name at a time",
        found=f"another one, by {_describe_owner(owner)}",
        hint="Wait until it has ended. If several processes run the same script, call hr.convert in one of them, such as that of rank 0.",
    )


def remove_abandoned(folder: str, name: str) -> None:
    """Remove leftovers of dead writers from a folder, before ``name`` is written there. Renames that a killed writer had begun are finished."""
    before = "." + os.fsdecode(os.fsencode(name)[:NAME_BYTES]) + "."
    for found in _temporaries(folder, int(time.monotonic())):
        path = os.path.join(folder, found)
        owner = OWNER.fullmatch(found)
        with contextlib.suppress(OSError):  # another process may remove it too, or this user may not
            if owner is None:
                is_dead = found.startswith(before) and _is_unused(path, UNKNOWN_AFTER_S)
            elif owner["place"] == _machine_id():
                is_dead = not _is_alive(int(owner["process"]), int(owner["start"]))
            else:
                is_dead = _is_unused(path, UNKNOWN_AFTER_S if has_journal(path) else ANCIENT_AFTER_S)
            if is_dead and finish_names(path):
                remove_path(path)


@lru_cache(maxsize=4)
def _temporaries(folder: str, _second: int) -> list[str]:
    """The temporary names of others in a folder. Cached for a second, because each of a thousand shards asks."""
    own = _mark_of(os.getpid())
    try:
        return [name for name in os.listdir(folder) if name.endswith(TEMPORARY_SUFFIX) and own not in name]
    except OSError:
        return []  # the writer reports the error


@cache
def _machine_id() -> str:
    try:
        numbers = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        numbers = 0
    return cache_key(boot_id() or _host_name(), numbers)[:10]


def _host_name() -> str:
    import socket  # rarely needed, and takes longer to load than most modules of this package

    return socket.gethostname()


@lru_cache(maxsize=1)
def _mark_of(process: int) -> str:
    """What all temporary names of this process have in common."""
    return f".{_machine_id()}-{process}-{_start_time(process) or 0}-"


def _start_time(process: int) -> int | None:
    """When a process started, in clock ticks; ``None`` if there is no such process, 0 if unknown."""
    try:
        status = Path(f"/proc/{process}/stat").read_bytes()
    except OSError:  # there is no /proc, or it hides other users' processes
        return 0 if process_exists(process) else None
    # The program name may contain blanks and parentheses; it ends at the last parenthesis.
    fields = status[status.rindex(b")") + 2 :].split()
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def process_exists(process: int) -> bool:
    """Whether a process of this machine runs. True if in doubt."""
    if sys.platform == "win32":
        return True  # an open file cannot be removed there anyway, and a closed one has its name or is old
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _is_alive(process: int, start: int) -> bool:
    """Whether one of our processes still runs. True if in doubt."""
    found = _start_time(process)
    return found is not None and (0 in (found, start) or found == start)


def _is_unused(path: str, seconds: float) -> bool:
    """Whether a path has been unchanged for ``seconds`` and is not locked."""
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


MOST_THREADS = 8  # that wait for the disk: they mostly share one commit of its journal
MOST_UNNAMED = 64  # pending files; a process is often limited to 256 or 1,024 open files


class Closable(Protocol):
    """A writer of files that ``close`` completes."""

    def close(self) -> None: ...


class UnnamedFile(Protocol):
    """A complete file without its final name."""

    path: str
    """The final name, or a link to it."""

    def make_durable(self) -> None:
        """Wait until the bytes are on disk."""

    def close_fd(self) -> None:
        """Close its descriptor."""

    def give_name(self, instead: str = "") -> str:
        """Rename it, to its final name or to another one. Returns the folder if it must be synced, else ""."""

    def abort(self) -> None:
        """Remove it. Does nothing once renamed."""


class DeferredRenames:
    """A context that renames several files together at its end, or none of them after an exception.

    Threads sync the files meanwhile. An outer context of this kind takes over the files of an inner one.
    """

    def __init__(self) -> None:
        self._files: list[UnnamedFile] = []
        self._waiting: list[Future[None]] = []
        self._threads: ThreadPool | None = None

    def close(self, writer: Closable) -> None:
        """Close a writer. Its files wait to be renamed if they support it."""
        if _current.get() is not None:
            writer.close()
            return
        token = _current.set(self)
        try:
            writer.close()
        finally:
            _current.reset(token)

    def add(self, file: UnnamedFile) -> None:
        """Add a complete file."""
        self._files.append(file)
        if len(self._files) == 1:
            return  # a single file needs no thread
        if self._threads is None:
            self._threads = ThreadPool(MOST_THREADS, thread_name_prefix="headrace-make-durable")
        while len(self._waiting) < len(self._files):
            self._waiting.append(self._threads.submit(self._files[len(self._waiting)].make_durable))
        durable = len(self._files) - MOST_UNNAMED - 1
        if durable >= 0:
            self._waiting[durable].result()
            self._files[durable].close_fd()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            if self._threads is not None:
                self._threads.shutdown(wait=True, cancel_futures=True)
            for file in self._files:
                file.abort()

    def _finish(self) -> None:
        if self._threads is None:
            for file in self._files:
                file.make_durable()
        for waiting in self._waiting:
            waiting.result()
        if len(self._files) > 1:
            for file in self._files:
                file.close_fd()  # may fail, so it comes before the first name
        targets = [os.path.realpath(file.path) for file in self._files]
        if len(targets) > 1 and _are_replaced(targets):
            self._replace_all(targets)
        else:
            self._name_each()

    def _replace_all(self, targets: list[str]) -> None:
        """Replace old files from a hidden folder with a journal. After a kill, the next writer beside it gives the names that are missing."""
        folder = os.path.join(os.path.dirname(targets[0]), temporary_name(os.path.basename(targets[0])))
        with name_in_errors(folder):
            os.mkdir(folder)
        is_done = False
        try:
            for number, file in enumerate(self._files):
                file.give_name(os.path.join(folder, f"{number}"))
            give_names(folder, {f"{number}": target for number, target in enumerate(targets)})
            is_done = True
        finally:
            if is_done or not has_journal(folder):  # otherwise old files are there
                shutil.rmtree(folder, ignore_errors=True)

    def _name_each(self) -> None:
        folders: set[str] = set()
        with contextlib.ExitStack() as kept:
            for file in self._files:
                replaced = kept.enter_context(_Replaced(os.path.realpath(file.path))) if len(self._files) > 1 else None
                folders.add(file.give_name())
                if replaced is not None:
                    replaced.is_given = True
            for folder in folders - {""}:
                sync_folder(folder)


def _are_replaced(targets: list[str]) -> bool:
    """Whether the files replace existing files of one folder, so that a kill between two renames would leave a mixture."""
    there = [target for target in targets if os.path.lexists(target)]
    return bool(there) and all(map(os.path.isfile, there)) and len(set(map(os.path.dirname, targets))) == 1


class _Replaced:
    """A context that puts back what was at a path, or nothing, after an exception. Readers find the old file or the new one all the time."""

    def __init__(self, path: str) -> None:
        self.is_given: bool = False
        """Whether the new file is there."""
        self._path = path
        folder, name = os.path.split(path)
        self._aside = os.path.join(folder, temporary_name(name))
        self._is_there = os.path.lexists(path)

    def __enter__(self) -> Self:
        if self._is_there:
            try:
                os.link(self._path, self._aside)
            except OSError:  # the file system has no links
                with name_in_errors(self._path):
                    shutil.copy2(self._path, self._aside)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):  # a leftover is removed by the next writer
            if kind is not None and self.is_given:
                if not self._is_there:
                    os.unlink(self._path)
                    return
                os.replace(self._aside, self._path)
            elif self._is_there:
                os.unlink(self._aside)


_current: ContextVar[DeferredRenames | None] = ContextVar("headrace-together", default=None)


def defer_rename(file: UnnamedFile) -> bool:
    """Whether a finished file will be renamed together with others."""
    together = _current.get()
    if together is None:
        return False
    together.add(file)
    return True
