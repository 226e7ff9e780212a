"""The formats ``npy_folder`` and ``npz_folder``: detecting and opening such folders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from headrace.contracts.feature import Feature
from headrace.contracts.records import Checked, Format
from headrace.errors import NoFiles, UnsupportedData, Where
from headrace.formats.example_files.arrays import FileKind, NpyFiles, NpzFiles
from headrace.formats.example_files.manifest import NAMES, read_manifest
from headrace.formats.example_files.table import FilesTable
from headrace.formats.example_files.write import NpyFolderSink, NpzFolderSink, join_folders, npy_misfits, npz_misfits
from headrace.formats.table.folders import class_names, is_marked, refuse_splits, schema_if_empty
from headrace.io.folders import Lister, Listing, lister_for
from headrace.io.paths import is_folder
from headrace.io.urls import child_of, is_url

__all__ = ["NPY_FOLDER", "NPZ_FOLDER"]

IMPOSSIBLE = "/"  # no file name ends with this
SUFFIXES = {"npy_folder": ".npy", "npz_folder": ".npz"}


def _kind(format: str, *, verify: bool) -> FileKind:
    return NpyFiles() if format == "npy_folder" else NpzFiles(verify=verify)


def open_files(paths: Sequence[str], *, format: str, verify: bool = True) -> FilesTable:
    """Open files given explicitly (a list, a glob), or folders.

    A folder has a manifest, one sub-folder per class, or nothing but the files.
    """
    if paths[0].lower().endswith(SUFFIXES[format]) if is_url(paths[0]) else not is_folder(paths[0]):
        return FilesTable(format, paths, _kind(format, verify=verify))
    first, *others = [_open_folder(folder, format, _kind(format, verify=verify)) for folder in paths]
    for other in others:
        first = first.join(other)
    return first


def _open_folder(folder: str, format: str, kind: FileKind) -> FilesTable:
    look = lister_for(folder)
    suffix, listing = SUFFIXES[format], look(folder)
    empty = schema_if_empty(listing, format)
    if empty is not None:
        return FilesTable(format, (), kind, declared=empty)
    manifest = read_manifest(listing, look)
    if manifest is not None:
        known = {name: (feature, manifest.columns[name]) for name, feature in manifest.schema.items()}
        return FilesTable(format, _check_suffixes(manifest.files, suffix, manifest.path), kind, known=known)
    if listing.named(suffix):
        _check_only(listing, suffix)
        return FilesTable(format, [child_of(folder, name) for name in listing.named(suffix)], kind)
    return _of_classes(listing, look, format, kind)


def _of_classes(listing: Listing, look: Lister, format: str, kind: FileKind) -> FilesTable:
    suffix = SUFFIXES[format]
    refuse_splits(listing.folder, listing.folders)
    classes = class_names(listing, lambda each: each.folders)
    paths: list[str] = []
    labels: list[int] = []
    for name in listing.folders:
        of_class = look(child_of(listing.folder, name))
        _check_only(of_class, suffix)
        paths += [child_of(of_class.folder, file) for file in of_class.named(suffix)]
        labels += [classes.index(name)] * len(of_class.named(suffix))
    if not paths:
        raise NoFiles(
            Where(path=listing.folder),
            expected=f"{suffix} files, in this folder or one below it",
            found="none",
            hint="Hidden files and temporaries are left out; a glob such as 'folder/*/*/*.npy' reaches deeper.",
        )
    label = Feature("int64", names=classes)
    return FilesTable(format, paths, kind, known={"label": (label, np.array(labels, np.int64))})


def _check_only(listing: Listing, suffix: str) -> None:
    others = [name for name in listing.others(suffix) if name not in NAMES]
    if others:
        raise UnsupportedData(
            Where(path=child_of(listing.folder, others[0])),
            expected=f"{suffix} files and notes in {listing.folder}",
            found=f"{others[0]}" + (f" and {len(others) - 1} more" if len(others) > 1 else ""),
            hint=f"A glob such as 'folder/*{suffix}' leaves them out.",
        )


def _check_suffixes(files: Sequence[str], suffix: str, manifest: str) -> Sequence[str]:
    for number, file in enumerate(files):
        if not file.lower().endswith(suffix):
            raise UnsupportedData(
                Where(path=manifest, record=number), expected=f"{suffix} files in the manifest", found=file
            )
    return files


def claims(folder: str, look: Lister = Listing.of, *, format: str) -> bool:
    """Whether a folder evidently holds one example per file: it has a manifest, class folders, or a note of its writer."""
    suffix, listing = SUFFIXES[format], look(folder)
    if is_marked(listing, format):
        return True
    if any(name in listing.files for name in NAMES):
        first = next((name for name in listing.files if name.lower().endswith(tuple(SUFFIXES.values()))), "")
        return first.lower().endswith(suffix) or (not first and _below(listing, suffix, look))
    return not _records_in(listing) and _below(listing, suffix, look)


def _below(listing: Listing, suffix: str, look: Lister) -> bool:
    for name in listing.folders:
        found = _records_in(look(child_of(listing.folder, name)))
        if found:
            return found[0].lower().endswith(suffix)
    return False


def _records_in(listing: Listing) -> tuple[str, ...]:
    """The files that may hold records."""
    return listing.others(IMPOSSIBLE)


def verify_files(records: FilesTable) -> Iterator[Checked]:
    """Check each file: its header, its size, the CRC-32 of every array, and that its contents match the other files."""
    return records.check_files(range(len(records.paths)))


def _format(name: str, sink: Any, misfits: Any) -> Format:
    return Format(
        name=name,
        suffixes=(),
        knows=lambda _: False,
        open=partial(open_files, format=name),
        options=frozenset({"verify"} if name == "npz_folder" else ()),
        folder=partial(claims, format=name),
        sink=sink,
        misfits=misfits,
        compressions=("none", "deflate") if name == "npz_folder" else (),
        join=join_folders,
        verify=verify_files,
    )


NPY_FOLDER = _format("npy_folder", NpyFolderSink, npy_misfits)
NPZ_FOLDER = _format("npz_folder", NpzFolderSink, npz_misfits)
