"""Names for several complete files or folders at once: from a hidden folder, with a journal, so that a kill leaves no mixture of old and new.

A single file replaces the old one in one step of the file system. For several there is no such step, so :func:`give_names` does it in three:

1. The journal lists the names to give, with the version of the old file and of the new one.
2. All old files are moved into the folder.
3. The new files get their names.

So the names never refer to a mixture: a reader finds the old files, the new ones, or some missing. (A reader that opens the files one by
one during all three steps may still get some of each.) After an error, every rename is undone. After a kill the journal
is there, and :func:`finish_names` does the rest. It is called by the next writer of the same files, and by the removal of
abandoned files. Much may have happened until then: a file that was written after the journal is newer than the one that waits, and is kept.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.io.faults import name_in_errors, refuse_special_file
from headrace.io.local.signatures import Signature
from headrace.io.system import remove_path, sync_folder

__all__ = ["finish_names", "give_names", "has_journal", "names_given", "same_version", "version_of"]

JOURNAL = "names.json"
OLD = ".old"
"""Ends the name that an old file has in the folder."""

Version = list[Any] | None
"""What is at a path, as it can be stored; ``None``: nothing. It stays the same when a file is renamed."""


def version_of(path: str) -> Version:
    """The version of a file, a folder or a link."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(status.st_mode):
        return ["link", os.readlink(path)]
    if not stat.S_ISREG(status.st_mode):  # a folder, mostly; opening a pipe would wait for its writer
        return ["folder", status.st_mtime_ns]
    try:
        found = Signature.read(path)
    except OSError:  # it may not be readable, and can be replaced
        return ["file", status.st_size, status.st_mtime_ns, -1]
    return ["file", found.size, found.mtime_ns, found.fingerprint]


def same_version(one: Version, other: Version) -> bool:
    """Whether two versions are the same. Contents count if both could be read."""
    if one is None or other is None or one[0] != "file" or other[0] != "file":
        return one == other
    return one[1:3] == other[1:3] and (one[3] == other[3] or -1 in (one[3], other[3]))


@dataclass(frozen=True, slots=True)
class _Naming:
    """One name to give.

    Args:
        path: The name.
        old: The version of what was there when the journal was written.
        new: The version of what gets the name.
    """

    path: str
    old: Version
    new: Version

    def is_outdated(self) -> bool:
        """Whether something was written to the path after the journal."""
        found = version_of(self.path)
        return found is not None and not same_version(found, self.old)

    def is_given(self) -> bool:
        """Whether the new file is at the path."""
        return same_version(version_of(self.path), self.new)


def give_names(folder: str, names: Mapping[str, str]) -> None:
    """Give files and folders their names. Existing ones are replaced.

    Args:
        folder: Where they are. The caller removes it afterwards, with what was replaced.
        names: ``{name in the folder: path}``. All paths are beside the folder.

    Raises:
        ValueError: A path is elsewhere.
        UnsupportedData: A pipe or a device is there.
        OSError: A name cannot be given. Those before it are taken back, and what they have replaced is there again. A single file that has
            its name keeps it: what it has replaced is gone.
    """
    names = {name: os.path.abspath(path) for name, path in names.items()}
    for path in names.values():
        if os.path.dirname(path) != _beside(folder):
            raise ValueError(f"{path} is not beside {folder}")
        refuse_special_file(path)
    namings = {
        name: _Naming(path, version_of(path), version_of(os.path.join(folder, name))) for name, path in names.items()
    }
    try:
        _write_journal(folder, namings)
        _move(folder, names)
        _sync(names)
    except BaseException:
        _take_back(folder, names)
        raise


def finish_names(folder: str) -> bool:
    """Finish what a process that was killed has begun in :func:`give_names`. Without a journal there is nothing to finish.

    A path that was written to since then keeps what it has, as if the process had not been killed.

    Returns:
        Whether the folder is of no more use. ``False``: another user has to finish, and the old files may be in it.
    """
    if has_journal(folder):
        if not _is_ours(folder):
            return False
        namings = _read_journal(folder)
        names = {name: naming.path for name, naming in namings.items() if not naming.is_outdated()}
        _move(folder, names)
        _sync(names)
    return True


def has_journal(folder: str) -> bool:
    """Whether the folder has a journal: its names are being given, or all have been."""
    return os.path.exists(os.path.join(folder, JOURNAL))


def names_given(folder: str) -> set[str]:
    """The absolute paths that have their new files, or folders, from this folder."""
    if not has_journal(folder):
        return set()
    namings = _read_journal(folder)
    return {naming.path for name, naming in namings.items() if not _waits(folder, name) and naming.is_given()}


def _beside(folder: str) -> str:
    return os.path.dirname(os.path.abspath(folder))


def _read_journal(folder: str) -> dict[str, _Naming]:
    """What the journal says. Empty if it is not ours: a planted one must not move files elsewhere or of another user."""
    if not _is_ours(folder):
        return {}
    try:
        with open(os.path.join(folder, JOURNAL), encoding="utf-8", errors="surrogateescape") as file:
            noted = json.load(file)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(noted, dict):
        return {}
    if not all(_is_plain(name) and _is_entry(each) for name, each in noted.items()):
        return {}
    beside = _beside(folder)
    return {name: _Naming(os.path.join(beside, path), old, new) for name, (path, old, new) in noted.items()}


def _is_ours(folder: str) -> bool:
    return not hasattr(os, "geteuid") or os.lstat(folder).st_uid == os.geteuid()


def _is_plain(name: Any) -> bool:
    """Whether a name is that of a file in a folder, and not a path."""
    return isinstance(name, str) and name == os.path.basename(name) and name not in ("", ".", "..") and "\0" not in name


def _is_entry(noted: Any) -> bool:
    """Whether something stands for a name and two versions."""
    if not isinstance(noted, list) or len(noted) != 3:
        return False
    name, *versions = noted
    return _is_plain(name) and all(map(_is_version, versions))


def _is_version(noted: Any) -> bool:
    return noted is None or (isinstance(noted, list) and len(noted) == (4 if noted[:1] == ["file"] else 2))


def _write_journal(folder: str, namings: Mapping[str, _Naming]) -> None:
    path = os.path.join(folder, JOURNAL)
    with name_in_errors(path):
        with open(f"{path}.part", "w", encoding="utf-8", errors="surrogateescape") as file:
            noted = {name: [os.path.basename(each.path), each.old, each.new] for name, each in namings.items()}
            json.dump(noted, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(f"{path}.part", path)
        sync_folder(folder)


def _waits(folder: str, name: str) -> bool:
    return os.path.lexists(os.path.join(folder, name))


def _move(folder: str, names: Mapping[str, str]) -> None:
    """Move old files into the folder, and new ones to their names, as far as that was not done."""
    waiting = {name: path for name, path in names.items() if _waits(folder, name)}
    for name, path in waiting.items():
        if os.path.lexists(path) and not _is_replaced_at_once(folder, names):
            aside = os.path.join(folder, name + OLD)
            remove_path(aside)
            with name_in_errors(path):
                os.replace(path, aside)
    for name, path in waiting.items():
        with name_in_errors(path):
            os.replace(os.path.join(folder, name), path)


def _is_replaced_at_once(folder: str, names: Mapping[str, str]) -> bool:
    """Whether one step of the file system puts a file in the place of another."""
    if len(names) != 1:
        return False
    places = [place for name, path in names.items() for place in (os.path.join(folder, name), path)]
    return not any(map(os.path.isdir, places))


def _take_back(folder: str, names: Mapping[str, str]) -> None:
    """Undo everything, the journal last: if this fails, too, the names are given later."""
    with contextlib.suppress(OSError):
        for name, path in () if _is_replaced_at_once(folder, names) else names.items():
            if os.path.lexists(path) and not _waits(folder, name):
                os.replace(path, os.path.join(folder, name))
        for name, path in names.items():
            aside = os.path.join(folder, name + OLD)
            if os.path.lexists(aside):
                os.replace(aside, path)
        os.unlink(os.path.join(folder, JOURNAL))


def _sync(names: Mapping[str, str]) -> None:
    for folder in {os.path.dirname(path) for path in names.values()}:
        sync_folder(folder)
