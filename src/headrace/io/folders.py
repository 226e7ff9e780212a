"""What lies in a folder, by one look at it; and folders that appear whole or not at all.

What is under a name, be it a path or a URL: whether there is something, and away with it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from headrace.errors import NoFiles, UnsupportedData, Where
from headrace.io.faults import name_in_errors
from headrace.io.paths import SIDECARS, TEMPORARIES, PathLike, absolute, natural_key
from headrace.io.store.listing import list_below, list_folder, no_listing, objects_exist
from headrace.io.store.upload import (
    check_writable,
    folder_exists_error,
    is_uploaded,
    remove_objects,
    staging_folder,
    upload_folder,
)
from headrace.io.system import discard_folder, sync_folder
from headrace.io.urls import Url, base_name, is_listing, is_url
from headrace.io.write.pending import remove_abandoned, temporary_name

__all__ = ["AtomicFolder", "Lister", "Listing", "first_existing", "is_visible", "lister_for", "remove"]


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
        """Look into a folder, here or in a store. No file in it is opened.

        Raises:
            NoFiles: There is no such folder.
            UnsupportedData: It is behind a server that does not list.
        """
        if is_url(folder):
            return _list_store(os.fspath(folder))
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
        return cls.sorted(os.fspath(folder), files, folders)

    @classmethod
    def sorted(cls, folder: str, files: Iterable[str], folders: Iterable[str]) -> Listing:
        """Of visible names in any order."""
        return cls(folder, tuple(sorted(files, key=natural_key)), tuple(sorted(folders)))

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


def _list_store(folder: str) -> Listing:
    if not is_listing(folder):
        raise no_listing(folder, "a folder")
    objects, folders = list_folder(folder)
    if not objects and not folders:
        raise _no_folder(folder)
    files = [base_name(each) for each in objects]
    return Listing.sorted(folder, filter(is_visible, files), filter(is_visible, map(base_name, folders)))


def is_visible(name: str) -> bool:
    """Whether a listing shows a file or folder of this name: it is neither hidden nor a temporary."""
    return name[:1] not in ("", ".") and not name.endswith(TEMPORARIES)


def _no_folder(folder: str) -> NoFiles:
    return NoFiles(Where(path=folder), expected="a folder", found="nothing below that name")


Lister: TypeAlias = Callable[[str], Listing]
"""What tells what is in a folder: :meth:`Listing.of`, or what has seen more of a tree at once."""


def lister_for(root: str, *, most: int | None = None) -> Lister:
    """How to look into a folder and those below it: here one by one; in a store by one list of all that is below.

    Args:
        root: The folder.
        most: Of a store, look at so many objects only: enough to tell what kind of folder it is.

    Raises:
        NoFiles: Nothing is there.
    """
    return _StoreTree(root, most).listing if is_listing(root) else Listing.of


class _StoreTree:
    """Everything below a folder of a store."""

    def __init__(self, root: str, most: int | None) -> None:
        self.root = root.rstrip("/")
        self._files: dict[str, list[str]] = {"": []}
        self._folders: dict[str, set[str]] = {"": set()}
        start = len(Url.of(self.root).key) + 1 if Url.of(self.root).key else 0
        for each in list_below(self.root, most=most):
            parts = Url.of(each).key[start:].split("/")
            if all(map(is_visible, parts)):
                self._add(parts)
        if not self._files[""] and not self._folders[""]:
            raise _no_folder(root)

    def _add(self, parts: list[str]) -> None:
        *folders, name = parts
        within = ""
        for folder in folders:
            self._folders[within].add(folder)
            within = f"{within}/{folder}" if within else folder
            self._folders.setdefault(within, set())
            self._files.setdefault(within, [])
        self._files[within].append(name)

    def listing(self, folder: str) -> Listing:
        """Of the root or a folder below it; of another folder by asking the store."""
        within = folder.rstrip("/")
        if within != self.root and not within.startswith(self.root + "/"):
            return Listing.of(folder)
        within = within[len(self.root) + 1 :]
        if within not in self._files:
            raise _no_folder(folder)
        return Listing.sorted(folder, self._files[within], self._folders[within])


class AtomicFolder:
    """A folder of files that gets its name only when it is complete.

    What is to lie in a store is gathered in the cache folder and goes there at ``close``: file by file, at once, those last that
    describe the others. If that fails, what had arrived is removed again; only a kill in the middle of it leaves some.

    Args:
        path: The final name. It must not be there yet, or be an empty folder.

    Raises:
        UnsupportedData: Something is there, or it is a URL that cannot be written to.
    """

    def __init__(self, path: PathLike) -> None:
        self.closed = True
        self.path = absolute(path)
        self._is_uploaded = is_uploaded(self.path)
        if self._is_uploaded:
            check_writable(self.path)
            if objects_exist([self.path])[0]:
                raise folder_exists_error(self.path)
        parent, name = (staging_folder(), "folder") if self._is_uploaded else os.path.split(self.path)
        if (
            not self._is_uploaded
            and os.path.lexists(self.path)
            and not (os.path.isdir(self.path) and not os.listdir(self.path))
        ):
            raise UnsupportedData(
                Where(path=self.path),
                expected="no such folder yet, or an empty one",
                found="one with files" if os.path.isdir(self.path) else "a file",
                hint="Remove it first: files that were there before would mix with the new ones.",
            )
        remove_abandoned(parent, name)
        self._temporary = os.path.join(parent, temporary_name(name))
        os.mkdir(self._temporary)
        self.closed = False

    def place(self, name: str) -> str:
        """Where a file of the folder is to be written until the folder is complete."""
        return os.path.join(self._temporary, name)

    def make_folders(self, names: Iterable[str]) -> None:
        """Add folders, those that are missing. After an error nothing of the whole is left."""
        try:
            for name in names:
                os.makedirs(self.place(name), exist_ok=True)
        except BaseException:
            self.abort()
            raise

    def write(self, name: str, content: bytes) -> None:
        """Add a file."""
        with name_in_errors(os.path.join(self.path, name)), open(self.place(name), "xb") as file:
            file.write(content)

    def add(self, source: str, name: str) -> None:
        """Add a file that exists already: by a hard link, or as a copy where the file system has no links.

        The source stays, so that nothing is lost if the folder is never closed.
        """
        target = self.place(name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        try:
            os.link(source, target)
        except OSError:
            with name_in_errors(source):
                shutil.copyfile(source, target)

    def close(self) -> None:
        """Put the folder into its place. A second call does nothing."""
        if self.closed:
            return
        try:
            if self._is_uploaded:
                upload_folder(self._temporary, self.path)
                shutil.rmtree(self._temporary)
                self.closed = True
                return
            if hasattr(os, "sync"):
                os.sync()  # One call for all: thousands of files, each flushed by itself, would take minutes.
            if os.name == "nt":  # elsewhere an empty folder is replaced, and stays where that fails
                with contextlib.suppress(FileNotFoundError):
                    os.rmdir(self.path)
            os.rename(self._temporary, self.path)
        except BaseException:
            self.abort()
            raise
        self.closed = True
        sync_folder(os.path.dirname(self.path))

    def abort(self) -> None:
        """Leave nothing behind. Does nothing after ``close``."""
        if not self.closed:
            self.closed = True
            discard_folder(self._temporary)


def first_existing(paths: Sequence[str]) -> str | None:
    """The first of some names under which there is something; URLs are asked all at once."""
    urls = [path for path in paths if is_url(path)]
    known = dict(zip(urls, objects_exist(urls), strict=True))
    return next((path for path in paths if (known[path] if path in known else os.path.exists(path))), None)


def remove(path: str) -> None:
    """Remove a file, or a folder with all that is in it."""
    if is_url(path):
        remove_objects([path, *list_below(path)])
    elif os.path.isdir(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)
