"""Write folders with one file per example, from batches."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headrace.contracts.feature import Feature
from headrace.contracts.records import SPARSE_HINT, Misfit
from headrace.contracts.schema import Schema
from headrace.errors import SchemaMismatch, UnsupportedData, Where
from headrace.formats.npy.header import header_bytes
from headrace.formats.npz.write import packed_arrays
from headrace.formats.table.folders import FORMAT_NOTE, NOTE, are_splits, mark_empty, mark_format
from headrace.io.faults import name_in_errors
from headrace.io.folders import AtomicFolder, Listing, is_visible
from headrace.io.paths import PathLike
from headrace.io.system import discard_folder

__all__ = ["MANIFEST", "NpyFolderSink", "NpzFolderSink", "join_folders", "npy_misfits", "npz_misfits"]


MANIFEST = "manifest.jsonl"
LABEL = "label"
FILE = "file"


def npz_misfits(schema: Schema) -> list[Misfit]:
    """What a ``.npz`` per example cannot hold: text, bytes, sparse rows."""
    return [
        Misfit(
            feature=name,
            expected="numbers, as in every .npz",
            found=repr(feature),
            hint=SPARSE_HINT if feature.sparse else "Select the others.",
        )
        for name, feature in schema.items()
        if not _is_array(feature)
    ]


def npy_misfits(schema: Schema) -> list[Misfit]:
    """What a folder of ``.npy`` with a manifest cannot hold: more than one array; bytes, sparse rows."""
    array = _array_of(schema)
    return [
        Misfit(
            feature=name,
            expected="one array of numbers, and numbers and text that a manifest holds",
            found=repr(feature),
            hint=SPARSE_HINT
            if feature.sparse
            else "Write a .npz per example (format='npz_folder'), which holds numbers, or select the others.",
        )
        for name, feature in schema.items()
        if (name == array and not _is_array(feature)) or (name != array and not _is_known(name, feature))
    ]


def _is_array(feature: Feature) -> bool:
    """Whether every example is one array: not text, not sparse, and with at most one varying length."""
    return not (feature.is_text or feature.sparse or (feature.shape.count(None) > 1 and not feature.is_image))


def _array_of(schema: Schema) -> str | None:
    """The feature stored in the files: the first with an axis, else ``values``, else the first."""
    with_axes = [name for name, feature in schema.items() if feature.shape != ()]
    named = ["values"] if "values" in schema else []
    return next(iter([*with_axes, *named, *schema]), None)


def _is_known(name: str, feature: Feature) -> bool:
    simple = feature.dtype == "str" or (feature.dtype != "bytes" and np.dtype(feature.dtype).kind in "iufb")
    return name != FILE and feature.shape == () and simple


class _FolderSink:
    """Files numbered from 0, in a folder that appears once complete."""

    format: str

    def __init__(self, path: PathLike, schema: Schema, found: list[Misfit]) -> None:
        for misfit in found:
            place = Where(path=str(path), feature=misfit.feature)
            raise UnsupportedData(place, expected=misfit.expected, found=misfit.found, hint=misfit.hint)
        self.schema = schema
        self.folder: AtomicFolder = AtomicFolder(path)
        self.count = 0

    def _array(self, name: str, value: Any) -> Any:
        feature = self.schema[name]
        array = np.asarray(value)
        lengths = zip(feature.shape, array.shape, strict=False)
        fits = len(feature.shape) == array.ndim and all(a in (None, b) for a, b in lengths)
        if not fits or not np.can_cast(array.dtype, feature.numpy_dtype, "safe"):
            raise SchemaMismatch(
                Where(path=self.folder.path, record=self.count, feature=name),
                expected=repr(feature),
                found=f"{array.dtype} with shape {array.shape}",
            )
        return np.ascontiguousarray(array, feature.numpy_dtype).reshape(array.shape)

    def close(self) -> None:
        """Move the complete folder into place."""
        if not self.folder.closed:
            if not self.count:
                mark_empty(self.folder, self.format, self.schema)
            elif self._needs_note():
                mark_format(self.folder, self.format)
        self.folder.close()

    def _needs_note(self) -> bool:
        """Whether the files alone could be taken for rows."""
        return True

    def abort(self) -> None:
        """Remove the unfinished folder."""
        self.folder.abort()


class NpzFolderSink(_FolderSink):
    """One ``.npz`` per example, with one array per feature."""

    format = "npz_folder"

    def __init__(self, path: PathLike, schema: Schema, *, compression: str = "none") -> None:
        super().__init__(path, schema, npz_misfits(schema))
        self.deflate: bool = compression == "deflate"

    def write_batch(self, batch: Mapping[str, Any], n: int, /) -> None:
        """Write one file for each example."""
        for row in range(n):
            arrays = {name: self._array(name, batch[name][row]) for name in self.schema}
            self.folder.write(f"{self.count:08d}.npz", packed_arrays(arrays, deflate=self.deflate))
            self.count += 1


class NpyFolderSink(_FolderSink):
    """One ``.npy`` per example. Labels with names become class folders; other numbers and text go into ``manifest.jsonl``."""

    format = "npy_folder"

    def __init__(self, path: PathLike, schema: Schema, *, compression: str = "none") -> None:  # noqa: ARG002 - NpzFolderSink needs it
        super().__init__(path, schema, npy_misfits(schema))
        self.array: str | None = _array_of(schema)
        self.known: list[str] = [name for name in schema if name != self.array]
        self.classes = schema[LABEL].names if self.known == [LABEL] else None
        if self.classes is not None and not _are_folders(self.classes):
            self.classes = None  # not valid folder names: the manifest holds the numbers
        self._lines: list[str] = []
        self.folder.make_folders(self.classes or ())  # a class without files keeps its number

    def write_batch(self, batch: Mapping[str, Any], n: int, /) -> None:
        """Write one file for each example."""
        for row in range(n):
            name = f"{self.count:08d}.npy"
            if self.classes is not None:
                name = os.path.join(self._class(int(batch[LABEL][row])), name)
            elif self.known:
                values = {known: _json_value(np.asarray(batch[known][row])) for known in self.known}
                self._lines.append(json.dumps({FILE: name, **values}, ensure_ascii=False))
            if self.array is not None:
                array = self._array(self.array, batch[self.array][row])
                self.folder.write(name, header_bytes(array.dtype, array.shape) + array.tobytes())
            self.count += 1

    def _class(self, label: int) -> str:
        names = self.classes or ()
        if not 0 <= label < len(names):
            raise SchemaMismatch(
                Where(path=self.folder.path, record=self.count, feature=LABEL),
                expected=f"a label from 0 to {len(names) - 1}",
                found=str(label),
            )
        return names[label]

    def _needs_note(self) -> bool:
        return not self.known  # else there are class folders or a manifest

    def close(self) -> None:
        """Write the manifest, and move the complete folder into place."""
        if self._lines:
            self.folder.write(MANIFEST, ("\n".join(self._lines) + "\n").encode())
            self._lines = []
        super().close()


def _are_folders(classes: Sequence[str]) -> bool:
    """Whether these are valid folder names that read back as classes."""
    visible = all(is_visible(name) and "/" not in name and "\0" not in name for name in classes)
    return visible and not are_splits(classes)


def _json_value(value: Any) -> Any:
    """The JSON value with the fewest digits that reads back the same: a float32 0.1 is 0.1, not 0.10000000149011612."""
    return float(str(value[()])) if value.dtype.kind == "f" else value.item()


def join_folders(parts: Sequence[str], path: str) -> None:
    """Join folders into one, and number their files consecutively. On error, all parts are left unchanged."""
    whole = AtomicFolder(path)
    with contextlib.ExitStack() as stack:
        stack.callback(whole.abort)
        count, lines = 0, []
        for part in parts:
            rows = _read_manifest(part)
            lines += [
                json.dumps({**row, FILE: f"{count + at:08d}.npy"}, ensure_ascii=False) for at, row in enumerate(rows)
            ]
            count += max(_add_files(whole, part, count), len(rows))
        if lines:
            whole.write(MANIFEST, ("\n".join(lines) + "\n").encode())
        # An empty part has a note of its own, and the others say what their files are.
        name = FORMAT_NOTE if count else NOTE
        note = next((note for part in parts if os.path.exists(note := os.path.join(part, name))), None)
        if note is not None:
            whole.add(note, name)
        whole.close()
    for part in parts:
        discard_folder(part)


def _add_files(whole: AtomicFolder, part: str, first: int) -> int:
    """Add the files of a part, numbered from ``first``, and return their count."""
    listing = Listing.of(part)
    whole.make_folders(listing.folders)
    count = 0
    for folder in ("", *listing.folders):
        inside = listing if not folder else Listing.of(os.path.join(part, folder))
        for name in inside.named((".npy", ".npz")):
            number, ending = os.path.splitext(name)
            whole.add(os.path.join(inside.folder, name), os.path.join(folder, f"{int(number) + first:08d}{ending}"))
            count += 1
    return count


def _read_manifest(part: str) -> list[dict[str, Any]]:
    path = os.path.join(part, MANIFEST)
    try:
        with name_in_errors(path), open(path, encoding="utf-8") as file:
            return [json.loads(line) for line in file]
    except FileNotFoundError:
        return []
