"""Names for several complete files or folders at once: from a hidden folder, with a journal, so that a kill leaves no mixture of old and new.

A single file replaces the old one in one step of the file system. For several there is no such step, so :func:`give_names` does it in three:

1. The journal lists the names to give.
2. All old files are moved into the folder.
3. The new files get their names.

A reader sees the old files, or the new ones, or that some are missing. An error takes everything back. After a kill the journal
is there, and :func:`finish_names` does the rest. It is called by the next writer of the same files, and by the removal of
abandoned files.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Mapping
from typing import Any

from headrace.io.faults import name_in_errors
from headrace.io.system import sync_folder

__all__ = ["finish_names", "give_names", "has_journal", "names_given"]

JOURNAL = "names.json"
OLD = ".old"
"""Ends the name that an old file has in the folder."""


def give_names(folder: str, names: Mapping[str, str]) -> None:
    """Give files and folders their names. Existing ones are replaced.

    Args:
        folder: Where they are. The caller removes it afterwards, with what was replaced.
        names: ``{name in the folder: path}``. All paths are beside the folder.

    Raises:
        ValueError: A path is elsewhere.
        OSError: A name cannot be given. Those before it are taken back, and what they have replaced is there again. A single file that has
            its name keeps it: what it has replaced is gone.
    """
    names = {name: os.path.abspath(path) for name, path in names.items()}
    for path in names.values():
        if os.path.dirname(path) != _beside(folder):
            raise ValueError(f"{path} is not beside {folder}")
    try:
        _write_journal(folder, names)
        _move(folder, names)
        _sync(names)
    except BaseException:
        _take_back(folder, names)
        raise


def finish_names(folder: str) -> bool:
    """Finish what a process that was killed has begun in :func:`give_names`. Without a journal there is nothing to finish.

    Returns:
        Whether the folder is of no more use. ``False``: another user has to finish, and the old files may be in it.
    """
    if has_journal(folder):
        if not _is_ours(folder):
            return False
        names = _read_journal(folder)
        _move(folder, names)
        _sync(names)
    return True


def has_journal(folder: str) -> bool:
    """Whether names are being given from a folder, or all are."""
    return os.path.exists(os.path.join(folder, JOURNAL))


def names_given(folder: str) -> set[str]:
    """The absolute paths that have their new files, or folders, from this folder."""
    if not has_journal(folder):
        return set()
    names = _read_journal(folder)
    return {path for name, path in names.items() if not _waits(folder, name) and os.path.lexists(path)}


def _beside(folder: str) -> str:
    return os.path.dirname(os.path.abspath(folder))


def _read_journal(folder: str) -> dict[str, str]:
    """What the journal says. Nothing if it is not one of ours: it never names a file elsewhere, or one for another user."""
    if not _is_ours(folder):
        return {}
    try:
        with open(os.path.join(folder, JOURNAL), encoding="utf-8", errors="surrogateescape") as file:
            names = json.load(file)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(names, dict) or not all(map(_is_plain, (*names, *names.values()))):
        return {}
    return {name: os.path.join(_beside(folder), new) for name, new in names.items()}


def _is_ours(folder: str) -> bool:
    return not hasattr(os, "geteuid") or os.lstat(folder).st_uid == os.geteuid()


def _is_plain(name: Any) -> bool:
    """Whether a name is that of a file in a folder, and not a path."""
    return isinstance(name, str) and name == os.path.basename(name) and name not in ("", ".", "..") and "\0" not in name


def _write_journal(folder: str, names: Mapping[str, str]) -> None:
    path = os.path.join(folder, JOURNAL)
    with name_in_errors(path):
        with open(f"{path}.part", "w", encoding="utf-8", errors="surrogateescape") as file:
            json.dump({name: os.path.basename(new) for name, new in names.items()}, file)
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
            _remove(aside)
            with name_in_errors(path):
                os.replace(path, aside)
    for name, path in waiting.items():
        with name_in_errors(path):
            os.replace(os.path.join(folder, name), path)


def _is_replaced_at_once(folder: str, names: Mapping[str, str]) -> bool:
    """Whether one step of the file system puts a file in the place of another."""
    places = [place for name, path in names.items() for place in (os.path.join(folder, name), path)]
    return len(names) == 1 and not any(map(os.path.isdir, places))


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


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _sync(names: Mapping[str, str]) -> None:
    for folder in {os.path.dirname(path) for path in names.values()}:
        sync_folder(folder)
