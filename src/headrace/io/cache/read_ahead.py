"""Reads compressed files in sequence, and inflates the next ones in the background.

Inflating is the slowest step of a first pass, and takes one core per file. Its output goes to the cache, as always, and is
read from there, so memory use does not grow.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from headrace.errors import CorruptFile, DataError
from headrace.io.cache.inflate import Part
from headrace.io.cache.inflated import InflatedStream
from headrace.io.faults import close_quietly, file_changed_error, name_in_errors
from headrace.io.local.mapped import MappedFile
from headrace.io.store.stream import RemoteStream
from headrace.io.system import usable_cores
from headrace.io.threads import start_thread

if TYPE_CHECKING:
    from headrace.io.local.fileset import FileSet

__all__ = ["BackgroundInflater", "FilesInOrder"]


READ_BYTES = 1 << 20
MOST_WAITING = 16  # megabyte parts held in memory if the cache is full
MOST_AHEAD = 3  # files; more cores are rarely free
Content: TypeAlias = "MappedFile | InflatedStream | BackgroundInflater | RemoteStream"


class BackgroundInflater:
    """A file that a thread inflates in advance. Iterating yields the same bytes as iterating the stream.

    Args:
        stream: The file.
    """

    def __init__(self, stream: InflatedStream) -> None:
        self.path: str = stream.path
        self.fault: CorruptFile | None = None
        """The error in which the stream ended, set after the last part."""
        self.begun: Callable[[], None] | None = None
        """Called when the second part is requested."""
        self._stream = stream
        self._changed = threading.Condition()
        self._copy = -1
        """File descriptor of the copy in the cache. ``_copied`` counts its bytes."""
        self._copied = 0
        self._waiting: deque[Part] = deque()
        self._done = self._stop = False
        self._error: BaseException | None = None
        self._process = os.getpid()
        self._thread = start_thread(self._inflate, name="headrace-inflating", stop=self.stop)

    def _inflate(self) -> None:
        try:
            for part in self._stream.parts(self._take_copy):
                if self._add(part):
                    self._error = RuntimeError("Python is exiting: reading has stopped")
                    break
        except BaseException as error:  # noqa: BLE001 - raised in the consumer
            self._error = error
        finally:
            with self._changed:
                self.fault, self._done = self._stream.fault, True
                self._changed.notify_all()

    def _take_copy(self, path: str) -> None:
        """Open the copy under its current name. The descriptor stays valid when the copy is renamed or removed."""
        self._copy = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))

    def _add(self, part: Part) -> bool:
        """Count a part written to the copy, or pass it on; true once stopped."""
        with self._changed:
            if self._stream.copied > self._copied and not self._waiting:
                self._copied = self._stream.copied
            else:
                while len(self._waiting) >= MOST_WAITING and not self._stop:
                    self._changed.wait()
                self._waiting.append(part)
            self._changed.notify_all()
            return self._stop

    def __iter__(self) -> Iterator[Part]:
        at = 0
        try:
            while (part := self._next(at)) is not None:
                yield part
                at += len(part)
                if self.begun is not None:
                    begun, self.begun = self.begun, None
                    begun()
            if self._error is not None:
                raise self._error
        finally:
            self.close()

    def _next(self, at: int) -> Part | None:
        if self._process != os.getpid():
            raise RuntimeError("this iterator was made before the process was forked: make a new one in the child")
        with self._changed:
            while not self._done and at >= self._copied and not self._waiting:
                self._changed.wait()
            if at >= self._copied:
                found = self._waiting.popleft() if self._waiting else None
                self._changed.notify_all()
                return found
            wanted = min(READ_BYTES, self._copied - at)
        with name_in_errors(self.path):
            part = os.pread(self._copy, wanted, at)
        if not part:
            raise file_changed_error(self.path, size=None, found="no bytes", what="copy in the cache")
        return part

    def stop(self) -> None:
        """Make the thread stop."""
        if self._process == os.getpid():
            with self._changed:
                self._stop = True
                self._changed.notify_all()

    def close(self) -> None:
        """Stop the thread and close the copy."""
        if self._process != os.getpid():
            return
        self.stop()
        self._thread.join()
        copy, self._copy = self._copy, -1
        if copy >= 0:
            close_quietly(copy)


class FilesInOrder:
    """The contents of a set of files for one pass in order. The next ones are inflated in advance, one per spare core.

    Args:
        files: The files.
    """

    def __init__(self, files: FileSet) -> None:
        self._files = files
        self._ahead: dict[int, BackgroundInflater] = {}
        self._current: BackgroundInflater | None = None
        self._room = min(usable_cores() - 1, MOST_AHEAD) if hasattr(os, "pread") else 0

    def content(self, number: int) -> Content:
        """The content of file ``number``.

        Requesting its second part starts inflating the next files, so reading only the first records starts nothing.
        """
        self._current = self._ahead.pop(number, None)
        content: Content = self._files.stream(number) if self._current is None else self._current
        if isinstance(content, (InflatedStream, BackgroundInflater)):
            content.begun = lambda: self._begin_behind(number)
        else:
            self._begin_behind(number)
        return content

    def _begin_behind(self, number: int) -> None:
        for following in range(number + 1, min(number + 1 + self._room, len(self._files))):
            if following in self._ahead:
                continue
            try:
                stream = self._files.stream(following)
            except (DataError, OSError):
                return  # raised again when this file is read
            if isinstance(stream, InflatedStream):
                self._ahead[following] = BackgroundInflater(stream)

    def close(self) -> None:
        """Stop all threads."""
        begun = [*self._ahead.values(), *([] if self._current is None else [self._current])]
        self._ahead, self._current = {}, None
        for stream in begun:
            stream.stop()
        for stream in begun:
            stream.close()
