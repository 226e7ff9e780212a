"""Expands the paths that users pass (files, folders, globs, shard patterns, lists of those) to files."""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from headrace.errors import NoFiles, UnsupportedData, Where, did_you_mean
from headrace.io.names import (
    ANY_DEPTH,
    COUNTED,
    SIDECARS,
    TEMPORARIES,
    TEMPORARY_SUFFIX,
    as_shard,
    find_shards,
    is_temporary,
    natural_key,
    record_names,
    summarize_names,
    whole_set_hint,
)
from headrace.io.store.listing import expand_url
from headrace.io.urls import SCHEMES, is_url, lost_slash_hint, other_scheme_hint, path_of_file_url, scheme_of

__all__ = [
    "SIDECARS",
    "TEMPORARIES",
    "TEMPORARY_SUFFIX",
    "PathLike",
    "absolute",
    "expand",
    "expand_home",
    "is_file",
    "is_folder",
    "is_pipe",
    "leads_back",
    "list_files_below",
    "natural_key",
    "path_list",
    "reading_hint",
    "shard_paths",
]


PathLike: TypeAlias = str | os.PathLike[str]
MISSING = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL)
"""The errors of a path that has no file."""
NOT_LISTED = (*MISSING, errno.EACCES, errno.EPERM)
"""The errors of a folder without names: it does not exist, or may not be read."""
MOST_NAMES = 1000
"""How many names of a folder an error searches for the one that may be meant."""
FRAMES = {"pandas": "pandas.from_pandas", "polars": "arrow.from_arrow", "pyarrow": "arrow.from_arrow"}
"""The function that opens an in-memory table, by library."""


def path_list(given: object) -> list[PathLike]:
    """The paths that a user passed, as a list. Only types are checked.

    Raises:
        TypeError: Not a path or an iterable of paths. The message suggests the right call.
    """
    if isinstance(given, str):
        return [given]
    if not isinstance(given, list):
        if isinstance(given, os.PathLike):
            return [given]
        if isinstance(given, set | frozenset):
            raise TypeError("a set of paths has no order: pass a list, such as sorted(paths)")
        if not isinstance(given, Iterable) or isinstance(given, bytes | bytearray | Mapping) or _is_data(given):
            raise _path_error(given, "as a path")
    paths: list[PathLike] = []
    for path in given:
        if not isinstance(path, str) and not isinstance(path, os.PathLike):
            raise _path_error(path, "in the list of paths")
        paths.append(path)
    return paths


def _is_data(given: object) -> bool:
    """Whether an iterable holds data instead of paths."""
    return any(
        hasattr(given, name)
        for name in ("__array__", "tocsr", "column_names", "read", "batch", "iter_spans", "batch_size")
    )


def reading_hint(given: object) -> str:
    """How to read what is no table yet into one, as a hint; empty for anything else."""
    library = type(given).__module__.partition(".")[0]
    if library == "polars" and hasattr(given, "collect"):
        return "Pass frame.collect(), which reads it into memory, or the paths of its files."
    if library == "pyarrow" and hasattr(given, "to_table"):
        return "Pass its to_table(), which reads it into memory, or the paths of its files."
    if library == "pyarrow" and hasattr(given, "read_row_group"):
        return "Pass the name of the file, or its read(), which reads it into memory."
    return ""


def _path_error(given: object, place: str) -> TypeError:
    library = type(given).__module__.partition(".")[0]
    if library in FRAMES:
        hint = reading_hint(given) or f"headrace.adapters.{FRAMES[library]}(...) makes a source of it."
    elif isinstance(given, bytes):
        hint = "os.fsdecode(...) makes a path of bytes."
    elif hasattr(given, "read"):
        hint = "Pass the name of the file."
    elif hasattr(given, "batch") or hasattr(given, "iter_spans"):
        hint = "It is open already."
    elif isinstance(given, Mapping) or hasattr(given, "__array__") or hasattr(given, "tocsr"):
        hint = "headrace.ColumnSource({'name': array, ...}) makes a source of arrays."
    else:
        hint = ""
    kind = type(given).__name__
    return TypeError(f"a path is str or os.PathLike[str], got {kind} {place}. {hint}".rstrip())


def expand(path: PathLike | Iterable[PathLike]) -> list[str]:
    """The files that ``path`` matches, in order.

    Args:
        path: A file; a folder (its record files, not its sub-folders'); a glob; ``x@8``, ``x@*`` or ``x-?????-of-00008`` for
            the shards ``x-00000-of-00008`` and so on; a list of those, concatenated in order. The name of one shard means
            that file. The same forms work for URLs.

    Returns:
        Paths as given (relative ones stay relative). Files of a folder, glob or set come in natural order.

    Raises:
        NoFiles: Nothing matches, or a shard is missing (the message names it).
        UnsupportedData: A URL of an unknown scheme, or a folder or glob of a server that cannot list.
    """
    parts = [_as_text(part) for part in path_list(path)]
    if not parts:
        raise NoFiles(Where(), expected="at least one path", found="an empty list")
    return [file for part in parts for file in _expand_one(part)]


def _as_text(path: PathLike) -> str:
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(f"a path is str or os.PathLike[str], got {type(path).__name__}")
    if not text:
        raise NoFiles(Where(), expected="a path", found="an empty text")
    if "://" not in text:
        return os.path.expanduser(text)
    if (scheme := scheme_of(text)) == "file":
        return path_of_file_url(text)
    if is_url(text):
        return text
    if scheme is not None and not os.path.exists(text):
        raise UnsupportedData(
            Where(path=text),
            expected="a path, or a URL of " + ", ".join(f"{known}://" for known in (*SCHEMES, "file")),
            found=f"one of {scheme}://",
            hint=other_scheme_hint(text) or "Copy or mount the files first.",
        )
    return os.path.expanduser(text)


def expand_home(path: PathLike) -> str:
    """The text of a path or URL to write to, with the home folder for ``~``, as where files are read."""
    text = os.fspath(path)
    if "://" not in text:
        return os.path.expanduser(text)
    return path_of_file_url(text) if scheme_of(text) == "file" else text


def is_folder(path: str) -> bool:
    """Whether a folder of this name exists.

    Raises:
        OSError: The system call fails. A folder must not be mistaken for a file, which is read differently.
    """
    mode = _mode(path)
    return mode is not None and stat.S_ISDIR(mode)


def _mode(path: str) -> int | None:
    """The ``st_mode`` of a path's target; ``None`` if there is none."""
    try:
        return os.stat(path).st_mode
    except ValueError:
        return None
    except OSError as error:
        if error.errno in MISSING:
            return None
        raise


def is_pipe(path: str) -> bool:
    """Whether a path is a FIFO, a socket or a terminal, which can only be read once and in order."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISCHR(mode)


def _expand_one(path: str) -> list[str]:
    """An existing file or folder wins over every pattern."""
    if "://" in path and is_url(path):
        return expand_url(path)
    mode = _mode(path)
    if mode is not None:
        return _expand_folder(path) if stat.S_ISDIR(mode) else [path]
    shard = as_shard(path)
    if shard and not shard["number"].isdigit():
        return shard_paths(shard["stem"], int(shard["count"]), shard["end"], digits=len(shard["count"]))
    if counted := COUNTED.fullmatch(path):
        return _expand_counted(path, counted["stem"], counted["count"], counted["end"])
    if glob.has_magic(path):
        return _expand_glob(path)
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, ValueError):
        os.stat(path)  # raises if a folder in the path may not be searched
    hint = lost_slash_hint(path) or f"{whole_set_hint(path)} {_describe_folder(path)}".strip()
    raise NoFiles(Where(path=path), expected="a file, folder or pattern", found="nothing of that name", hint=hint)


def shard_paths(stem: str, count: int, end: str = "", *, digits: int = 5) -> list[str]:
    """The ``count`` existing files ``{stem}{number}-of-{count}{end}``.

    Raises:
        NoFiles: A shard is missing; the message names it.
    """
    present = _names_beside(stem)
    names, missing, there = find_shards(stem, count, end, digits, present)
    if missing or not names:
        hidden = f".{os.path.basename(stem)}"
        is_begun = any(name.startswith(hidden) and name.endswith(TEMPORARY_SUFFIX) for name in present)
        raise NoFiles(
            Where(path=missing[0] if missing else stem),
            expected=f"all {count} shards" if names else "one shard or more",
            found=f"{there} of them, without {summarize_names(missing, count - there)}" if names else "a set of none",
            hint="A writer is at work there, or was killed: the next write into the folder completes what a dead one has begun."
            if is_begun and missing
            else "To read an incomplete set, pass a list of the existing files.",
        )
    return names


def _names_beside(path: str) -> frozenset[str]:
    """The names in the folder of a path. A folder that does not exist or may not be read has none.

    Raises:
        OSError: The system call fails, as with too many open files. Existing files must not be taken for missing ones.
    """
    try:
        return frozenset(os.listdir(os.path.dirname(path) or "."))
    except OSError as error:
        if error.errno in NOT_LISTED:
            return frozenset()
        raise


def _expand_counted(path: str, stem: str, count: str, end: str) -> list[str]:
    if count != "*":
        if int(count) > MOST_NAMES and not find_shards(f"{stem}-", int(count), end, 5, _names_beside(stem))[2]:
            names = f"the {int(count)} shards {stem}-?????-of-{int(count):05d}{end}"
            expected, hint = f"a file, or {names}", _describe_folder(path)
            raise NoFiles(Where(path=path), expected=expected, found="nothing of that name", hint=hint)
        return shard_paths(f"{stem}-", int(count), end)
    shape = re.compile(re.escape(os.path.basename(stem)) + r"-\d{5,}-of-(\d{5,})" + re.escape(end))
    counts = {found[1] for name in _names_beside(stem) if (found := shape.fullmatch(name))}
    if len(counts) != 1:
        raise NoFiles(
            Where(path=path),
            expected=f"one set of shards {stem}-?????-of-?????{end}",
            found="sets of " + " and ".join(sorted(counts)) if counts else "none",
            hint="Name one of them, as in x@8." if counts else _describe_folder(path),
        )
    digits = counts.pop()
    return shard_paths(f"{stem}-", int(digits), end, digits=len(digits))


def _expand_glob(pattern: str) -> list[str]:
    """As ``glob.glob(pattern, recursive=True)``. Only files and links that lead nowhere match: see :func:`is_file`."""
    deep = f"{pattern}/*" if pattern.rsplit("/", maxsplit=1)[-1] == ANY_DEPTH else pattern
    found = [path for path in _find_matches(deep) if (mode := _mode(path)) is None or stat.S_ISREG(mode)]
    if files := sorted({path for path in found if not is_temporary(path)}, key=natural_key):
        return files
    parts = pattern.split("/")
    literal = [number for number, part in enumerate(parts[:-1]) if glob.has_magic(part)][:1]
    if found:
        there, hint = f"only temporary ones ({summarize_names(found)})", "To read them, pass a list of their names."
    elif literal and is_folder("/".join(parts[: literal[0] + 1])):
        escaped = [glob.escape(part) if number == literal[0] else part for number, part in enumerate(parts)]
        there, hint = "none", f"For the folder of that name, pass '{'/'.join(escaped)}': see glob.escape."
    else:
        there, hint = "none", _describe_folder(pattern)
    raise NoFiles(Where(path=pattern), expected="files that match", found=there, hint=hint)


def _find_matches(pattern: str) -> Iterator[str]:
    """All that match a glob, some twice. Links that lead back to a folder above them would not end."""
    above, is_deep, below = f"/{pattern}".partition(f"/{ANY_DEPTH}/")
    if not is_deep:
        yield from glob.glob(pattern)
    for folder in glob.glob(f"{above[1:]}/" if above else "./") if is_deep else ():
        for parent, folders, _ in os.walk(folder, onerror=_raise_unknown, followlinks=True):
            folders[:] = [each for each in folders if each[:1] != "." and not leads_back(os.path.join(parent, each))]
            inner = parent if above else parent[2:]
            yield from _find_matches(os.path.join(glob.escape(inner), below))


def _expand_folder(folder: str) -> list[str]:
    with os.scandir(folder) as entries:
        names = record_names(entry.name for entry in entries if is_file(entry))
    if not names:
        raise NoFiles(
            Where(path=folder),
            expected="record files in this folder",
            found="none",
            hint="Hidden files, temporaries, notes (.txt, .idx, ...; .json and .jsonl beside others) and sub-folders are left out; "
            "a glob such as 'folder/*.txt' or 'folder/*/*.tfrecord' names them. format='image_folder' opens folders of images.",
        )
    _check_sets(folder, names)
    return [os.path.join(folder, name) for name in names]


def is_file(entry: os.DirEntry[str]) -> bool:
    """Whether an entry of a folder is a file, or a link that leads nowhere: reading that one fails, and data must not vanish without a word.

    Pipes and devices are no files: opening a pipe would wait for its writer.
    """
    return entry.is_file() or (entry.is_symlink() and not os.path.exists(entry.path))


def _check_sets(folder: str, names: Sequence[str]) -> None:
    """Refuse a folder that holds only a part of a set of shards."""
    sets = {
        (found["stem"], int(found["count"]), found["end"], len(found["count"]))
        for name in names
        if (found := as_shard(name))
    }
    for stem, count, end, digits in sorted(sets):
        shard_paths(os.path.join(folder, stem), count, end, digits=digits)


def absolute(path: PathLike) -> str:
    """The absolute path, which stays valid when the process changes its folder. Links are not resolved."""
    text = os.fspath(path)
    return text if is_url(text) else os.path.abspath(text)


def _describe_folder(path: str) -> str:
    """A hint that lists the nearest existing folder."""
    folder = os.path.dirname(path)
    while folder and not os.path.isdir(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    try:
        names = sorted(os.listdir(folder or "."), key=natural_key)
    except OSError as error:
        if error.errno in NOT_LISTED:
            return ""
        raise
    shards = {
        found["count"] for found in map(as_shard, names) if found and found["stem"] == f"{os.path.basename(path)}-"
    }
    if shards and folder == os.path.dirname(path):
        return f"It is a set of shards: {path}@{int(min(shards))} names them all."
    where = f"The folder {folder or os.getcwd()}"
    is_near = folder == os.path.dirname(path) and not glob.has_magic(path)
    meant = did_you_mean(os.path.basename(path), names[:MOST_NAMES]) if is_near else ""
    return f"{meant} {where} holds {summarize_names(names)}.".lstrip() if names else f"{where} is empty."


def list_files_below(folder: PathLike) -> list[Path]:
    """All files below a folder, also behind links. Links that lead back to a folder above them are left out.

    A folder that does not exist or cannot be read has no files.
    """
    found: list[Path] = []
    for parent, folders, names in os.walk(folder, onerror=_raise_unknown, followlinks=True):
        folders[:] = [name for name in folders if not leads_back(os.path.join(parent, name))]
        found += [path for name in names if os.path.isfile(path := Path(parent, name))]
    return found


def _raise_unknown(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError | NotADirectoryError | PermissionError):
        raise error


def leads_back(path: PathLike) -> bool:
    """Whether a path is a link to a folder above it, so that following it would not end."""
    if not os.path.islink(path):
        return False
    try:
        target = os.stat(path)
        return any(os.path.samestat(target, parent.stat()) for parent in Path(absolute(path)).parents)
    except OSError:
        return False  # it leads nowhere
