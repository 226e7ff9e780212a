"""Local and remote folders: listing, atomic writing, and removing files and folders by path or URL."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from headrace.errors import NoFiles, UnsupportedData, Where
from headrace.io.faults import name_in_errors, name_target
from headrace.io.paths import SIDECARS, TEMPORARIES, PathLike, absolute, is_file, natural_key
from headrace.io.store.listing import list_below, list_folder, list_tree, listing_error, objects_exist
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
    """The names in a folder, without hidden and temporary files, in natural order.

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
        """List a local or remote folder. No file is opened.

        A link that leads nowhere is a file, or a folder if its name has no suffix: a class that is missing would change the numbers of others.

        Raises:
            NoFiles: There is no such folder.
            UnsupportedData: Its server cannot list folders.
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
                        elif is_file(entry):
                            (files if "." in entry.name or entry.is_file() else folders).append(entry.name)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NoFiles(Where(path=os.fspath(folder)), expected="a folder", found="nothing of that name") from error
        return cls.sorted(os.fspath(folder), files, folders)

    @classmethod
    def sorted(cls, folder: str, files: Iterable[str], folders: Iterable[str]) -> Listing:
        """Make a listing of visible names in any order."""
        return cls(folder, tuple(sorted(files, key=natural_key)), tuple(sorted(folders)))

    def named(self, suffix: str | tuple[str, ...]) -> tuple[str, ...]:
        """The files with this suffix."""
        return tuple(name for name in self.files if name.lower().endswith(suffix))

    def others(self, suffix: str) -> tuple[str, ...]:
        """The files without this suffix, except notes (.json, .txt, ...)."""
        return tuple(
            name
            for name in self.files
            if not name.lower().endswith(suffix) and os.path.splitext(name)[1].lower() not in SIDECARS
        )


def _list_store(folder: str) -> Listing:
    if not is_listing(folder):
        raise listing_error(folder, "a folder")
    objects, folders = list_folder(folder)
    if not objects and not folders:
        raise _folder_error(folder)
    files = [base_name(each) for each in objects]
    return Listing.sorted(folder, filter(is_visible, files), filter(is_visible, map(base_name, folders)))


def is_visible(name: str) -> bool:
    """Whether a listing shows a file or folder of this name: it is neither hidden nor a temporary."""
    return name[:1] not in ("", ".") and not name.endswith(TEMPORARIES)


def _folder_error(folder: str) -> NoFiles:
    return NoFiles(Where(path=folder), expected="a folder", found="nothing with that prefix")


Lister: TypeAlias = Callable[[str], Listing]
"""Lists a folder: :meth:`Listing.of`, or a lookup in a tree that was listed at once."""


def lister_for(root: str, *, most: int | None = None) -> Lister:
    """A function that lists a folder and those below it. A tree in a store is listed at once.

    Args:
        root: The folder.
        most: The most objects of a tree to list at once. If a store has more, each folder is listed when it is asked for.

    Raises:
        NoFiles: Nothing is there.
    """
    if not is_listing(root):
        return Listing.of
    tree = _StoreTree(root, most)
    return cache(Listing.of) if tree.is_cut else tree.listing  # Notes and records may come after a thousand images.


class _StoreTree:
    """All objects below a folder in a store."""

    def __init__(self, root: str, most: int | None) -> None:
        self.root = root.rstrip("/")
        self._files: dict[str, list[str]] = {"": []}
        self._folders: dict[str, set[str]] = {"": set()}
        start = len(Url.of(self.root).key) + 1 if Url.of(self.root).key else 0
        objects, empty, self.is_cut = list_tree(self.root, most=most)
        for urls, add in ((objects, self._add_file), (empty, self._add_folder)):
            for each in urls:
                parts = Url.of(each).key[start:].split("/")
                if all(map(is_visible, parts)):
                    add(parts)
        if not self._files[""] and not self._folders[""]:
            raise _folder_error(root)

    def _add_file(self, parts: list[str]) -> None:
        *folders, name = parts
        self._files[self._add_folder(folders)].append(name)

    def _add_folder(self, folders: list[str]) -> str:
        """Add a folder and those above it. Returns its path below the root."""
        within = ""
        for folder in folders:
            self._folders[within].add(folder)
            within = f"{within}/{folder}" if within else folder
            self._folders.setdefault(within, set())
            self._files.setdefault(within, [])
        return within

    def listing(self, folder: str) -> Listing:
        """List the root or a folder below it. Any other folder takes a request."""
        within = folder.rstrip("/")
        if within != self.root and not within.startswith(self.root + "/"):
            return Listing.of(folder)
        within = within[len(self.root) + 1 :]
        if within not in self._files:
            raise _folder_error(folder)
        return Listing.sorted(folder, self._files[within], self._folders[within])


class AtomicFolder:
    """A folder that appears under its name only once complete.

    A folder for a store is written to the cache folder and uploaded by ``close``. Files that describe others (manifests) come last. If the
    upload fails, the uploaded objects are removed. Only killing the process during the upload leaves some.

    Args:
        path: The final name. It must be new, or an empty folder.

    Raises:
        UnsupportedData: The folder is not empty, or the URL cannot be written to.
        NoFiles: The folder that it is in does not exist.
    """

    def __init__(self, path: PathLike) -> None:
        self.closed: bool = True
        self.path: str = absolute(path)
        self._is_uploaded = is_uploaded(self.path)
        if self._is_uploaded:
            check_writable(self.path)
            if objects_exist([self.path])[0]:
                raise folder_exists_error(self.path)
        parent, name = (staging_folder(), "folder") if self._is_uploaded else os.path.split(self.path)
        if (
            not self._is_uploaded
            and os.path.lexists(self.path)
            and not (os.path.isdir(self.path) and not os.path.islink(self.path) and not os.listdir(self.path))
        ):
            is_link = os.path.islink(self.path)
            raise UnsupportedData(
                Where(path=self.path),
                expected="a new folder, or an empty one",
                found="a link" if is_link else "one with files" if os.path.isdir(self.path) else "a file",
                hint="Pass the folder that it leads to."
                if is_link
                else "Remove it first: its files would mix with the new ones.",
            )
        remove_abandoned(parent, name)
        self._temporary = os.path.join(parent, temporary_name(name))
        with name_target(self.path):
            os.mkdir(self._temporary)
        self.closed = False

    def place(self, name: str) -> str:
        """The path to write a file to until the folder is complete."""
        return os.path.join(self._temporary, name)

    def make_folders(self, names: Iterable[str]) -> None:
        """Create missing folders. On error, everything is removed."""
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
        """Move the complete folder into place. A second call does nothing."""
        if self.closed:
            return
        try:
            if self._is_uploaded:
                upload_folder(self._temporary, self.path)
                shutil.rmtree(self._temporary)
                self.closed = True
                return
            if hasattr(os, "sync"):
                os.sync()  # one call for all: flushing thousands of files one by one would take minutes
            if os.name == "nt":  # other systems replace an empty folder, and keep it on failure
                with contextlib.suppress(FileNotFoundError):
                    os.rmdir(self.path)
            os.rename(self._temporary, self.path)
        except BaseException:
            self.abort()
            raise
        self.closed = True
        sync_folder(os.path.dirname(self.path))

    def abort(self) -> None:
        """Remove what was written. Does nothing after ``close``."""
        if not self.closed:
            self.closed = True
            discard_folder(self._temporary)


def first_existing(paths: Sequence[str]) -> str | None:
    """The first of these paths and URLs that exists. All URLs are checked in parallel."""
    urls = [path for path in paths if is_url(path)]
    known = dict(zip(urls, objects_exist(urls), strict=True))
    return next((path for path in paths if (known[path] if path in known else os.path.exists(path))), None)


def remove(path: str) -> None:
    """Remove a file, or a folder with its contents."""
    if is_url(path):
        remove_objects([path, *list_below(path)])
    elif os.path.isdir(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)
