"""Files of several processes, out of sight until all are complete.

One process opens the staging place and names it to the others, which write into it. When all are done, it gives the files their names.
Nothing fences a process that was believed dead and still writes: it knows only the staging place, which is then gone. So names in it are
unique, and only the files that the owner lists are used.

========  ========================================================  ==========================================================
          where the files wait                                      how they get their names
========  ========================================================  ==========================================================
folder    a hidden folder beside the first file                     renamed, with a journal: :mod:`headrace.io.write.commit`
store     ``.{name}.headrace-write/{time}-{random}/`` beside it     copied by the store, with a journal: :mod:`headrace.io.store.commit`
========  ========================================================  ==========================================================

In a folder, the names appear within milliseconds. In a store, copies take as long as the store needs. If the owner is killed meanwhile, the
next staging for the same file finishes from the journal: see :func:`finish_interrupted`.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping

from headrace.errors import NoFiles, Unreachable, UnsupportedData, Where
from headrace.io.faults import name_target
from headrace.io.folders import remove
from headrace.io.paths import absolute
from headrace.io.store.commit import end_names, finish_object_names, give_object_names, keeps_journal, remove_copied
from headrace.io.store.listing import list_below
from headrace.io.store.upload import check_writable, is_uploaded, remove_objects, staging_folder, upload
from headrace.io.system import discard_folder
from headrace.io.urls import base_name, child_of, parent_of
from headrace.io.write.commit import give_names, has_journal
from headrace.io.write.pending import remove_abandoned, temporary_name

__all__ = ["FolderStaging", "Staging", "StoreStaging", "finish_interrupted", "open_staging"]

FORGOTTEN_AFTER_S = 7 * 24 * 3600
"""After this, files of a killed owner in a store are removed."""


class FolderStaging:
    """Staging in a hidden folder.

    Args:
        first: The absolute path of the first file.
    """

    def __init__(self, first: str) -> None:
        parent, name = os.path.split(first)
        remove_abandoned(parent, name)
        self.place: str = os.path.join(parent, temporary_name(name))
        with name_target(first):
            os.mkdir(self.place)

    def path(self, name: str) -> str:
        """Where to write a file.

        Raises:
            UnsupportedData: This machine does not see the folder.
        """
        if not os.path.isdir(self.place):
            machine = os.uname().nodename if hasattr(os, "uname") else "this machine"
            raise UnsupportedData(
                Where(path=os.path.dirname(self.place)),
                expected="a folder that every node of the cluster sees",
                found=f"one without the files of this write on {machine}",
                hint="Write to a shared folder or to a store (s3://, gs://, az://). If another task failed, this is a consequence.",
            )
        return os.path.join(self.place, name)

    def add(self, name: str) -> None:
        """Take over the file that was written."""

    def commit(self, names: Mapping[str, str]) -> None:
        """Give files their names: ``{name here: path}``. Those given before an error are taken back, and what they have replaced, too."""
        give_names(self.place, names)
        discard_folder(self.place)

    def discard(self) -> None:
        """Remove everything here, unless old files are: the next writer gives the names then."""
        if not has_journal(self.place):
            discard_folder(self.place)


class StoreStaging:
    """Staging under a prefix of a store, which readers do not see because it begins with a dot.

    Args:
        first: The URL of the first file.
    """

    def __init__(self, first: str) -> None:
        check_writable(first)
        self._first = first
        self._is_kept = False
        self.place: str = child_of(_prefix_for(first), f"{int(time.time())}-{os.urandom(6).hex()}")

    def path(self, name: str) -> str:
        """Where to write a file on this machine."""
        return os.path.join(staging_folder(), f"{base_name(self.place)}-{name}")

    def add(self, name: str) -> None:
        """Upload the file that was written, and remove it here."""
        path = self.path(name)
        try:
            upload(path, child_of(self.place, name))
        finally:
            remove(path)

    def commit(self, names: Mapping[str, str]) -> None:
        """Give files their names: ``{name here: URL}``. Those given before an error are taken back, unless old files are gone by then."""
        copies = {child_of(self.place, name): url for name, url in names.items()}
        try:
            give_object_names(self._first, copies, overwrite=True)
        except BaseException:
            self._is_kept = keeps_journal(self._first, copies)
            raise
        remove_copied(self.place)
        with contextlib.suppress(NoFiles, Unreachable):
            end_names(self._first, copies)

    def discard(self) -> None:
        """Remove everything here, unless old files were removed for it: the next writer gives the names then."""
        if not self._is_kept:
            with contextlib.suppress(NoFiles, Unreachable):
                remove_objects(list_below(self.place))


Staging = FolderStaging | StoreStaging


def open_staging(first: str) -> Staging:
    """A staging place for a file and others beside it.

    Raises:
        NoFiles, Unreachable, UnsupportedData: The place cannot be written to.
    """
    return StoreStaging(first) if is_uploaded(first) else FolderStaging(absolute(first))


def finish_interrupted(first: str) -> None:
    """Finish the copies of an owner that was killed while its files got their names, and remove what is too old.

    In a folder, the next writer of a file there does so.
    """
    if not is_uploaded(first):
        remove_abandoned(*os.path.split(absolute(first)))
        return
    finish_object_names(first)
    runs: dict[str, list[str]] = {}
    for url in list_below(_prefix_for(first)):
        runs.setdefault(url.rpartition("/")[0], []).append(url)
    for run, urls in runs.items():
        if _age(run) > FORGOTTEN_AFTER_S:
            remove_objects(urls)


def _age(run: str) -> float:
    made = base_name(run).partition("-")[0]
    return time.time() - int(made) if made.isdecimal() else 0.0


def _prefix_for(first: str) -> str:
    parent, name = parent_of(first)
    return child_of(parent, f".{name}.headrace-write")
