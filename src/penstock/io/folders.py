"""What lies in a folder, by one look at it; and folders that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import dataclass

from penstock.errors import NoFiles, UnsupportedData, Where
from penstock.io.paths import SIDECARS, TEMPORARIES, TEMPORARY_SUFFIX, PathLike, natural_key

__all__ = ["AtomicFolder", "Listing"]


@dataclass(frozen=True, slots=True)
class Listing:
    """The names in a folder, hidden ones and temporaries left out, in natural order.

    Args:
        folder: Its path.
        files: Names of files.
        folders: Names of sub-folders.
    """

    folder: str
    files: tuple[str, ...]
    folders: tuple[str, ...]

    @classmethod
    def of(cls, folder: PathLike) -> Listing:
        """Look into a folder. No file in it is opened.

        Raises:
            NoFiles: There is no such folder.
        """
        files: list[str] = []
        folders: list[str] = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name[0] != "." and not entry.name.endswith(TEMPORARIES):
                        if entry.is_dir():
                            folders.append(entry.name)
                        elif entry.is_file():  # Opening a pipe would wait for whoever writes into it.
                            files.append(entry.name)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NoFiles(Where(path=os.fspath(folder)), expected="a folder", found="none of that name") from error
        return cls(os.fspath(folder), tuple(sorted(files, key=natural_key)), tuple(sorted(folders)))

    def named(self, suffix: str | tuple[str, ...]) -> tuple[str, ...]:
        """The files whose names end so."""
        return tuple(name for name in self.files if name.lower().endswith(suffix))

    def others(self, suffix: str) -> tuple[str, ...]:
        """The files whose names end otherwise, notes (.json, .txt, ...) left out."""
        return tuple(
            name
            for name in self.files
            if not name.lower().endswith(suffix) and os.path.splitext(name)[1].lower() not in SIDECARS
        )


class AtomicFolder:
    """A folder of files that gets its name only when it is complete.

    Args:
        path: The final name. It must not be there yet, or be an empty folder.

    Raises:
        UnsupportedData: Something is there.
    """

    def __init__(self, path: PathLike) -> None:
        self.path = os.path.abspath(path)
        parent, name = os.path.split(self.path)
        if os.path.lexists(self.path) and not (os.path.isdir(self.path) and not os.listdir(self.path)):
            raise UnsupportedData(
                Where(path=self.path),
                expected="no such folder yet, or an empty one",
                found="one with files" if os.path.isdir(self.path) else "a file",
                hint="Remove it first: files that were there before would mix with the new ones.",
            )
        self._temporary = os.path.join(parent, f".{name[:60]}.{os.getpid()}-{os.urandom(6).hex()}{TEMPORARY_SUFFIX}")
        os.mkdir(self._temporary)
        self.closed = False

    def place(self, name: str) -> str:
        """Where a file of the folder is to be written until the folder is complete."""
        return os.path.join(self._temporary, name)

    def write(self, name: str, content: bytes) -> None:
        """Add a file."""
        with open(self.place(name), "xb") as file:
            file.write(content)

    def close(self) -> None:
        """Put the folder into its place. A second call does nothing."""
        if self.closed:
            return
        try:
            if hasattr(os, "sync"):
                os.sync()  # One call for all: thousands of files, each flushed by itself, would take minutes.
            with contextlib.suppress(FileNotFoundError):
                os.rmdir(self.path)
            os.rename(self._temporary, self.path)
        except BaseException:
            self.abort()
            raise
        self.closed = True

    def abort(self) -> None:
        """Leave nothing behind. Does nothing after ``close``."""
        if not self.closed:
            self.closed = True
            shutil.rmtree(self._temporary, ignore_errors=True)
