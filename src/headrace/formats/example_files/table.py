"""A table of files that are one example each. Opening it lists the names, and reads only a few files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.contracts.feature import Feature
from headrace.contracts.records import Checked
from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Indices, Ragged
from headrace.errors import DataError, NoFiles, SchemaMismatch, Where
from headrace.formats.example_files.arrays import Arrays, FileKind, NpyFiles, Template
from headrace.formats.table.base import FileTable
from headrace.io.local.open import DIFFERENT, read_each, read_whole, request_files, size_on_disk
from headrace.io.system import cached_property
from headrace.io.urls import is_url

__all__ = ["FilesTable"]

SAMPLED = 16


class FilesTable(FileTable):
    """One example per file, in the order of the files. Picklable; safe in threads and after fork.

    Array types come from 16 files spread evenly over the set; a length that differs between them is ``None``. Reading a file
    that does not match is an error, which names the file.

    Args:
        format: ``"npy_folder"`` or ``"npz_folder"``.
        paths: The files.
        kind: Reads one of them.
        known: Features known without reading files: for each, its type and one value per file.
        declared: Array types to use instead of those found.
    """

    def __init__(
        self,
        format: str,
        paths: Sequence[str],
        kind: FileKind,
        *,
        known: Mapping[str, tuple[Feature, Any]] | None = None,
        declared: Schema | None = None,
    ) -> None:
        super().__init__(paths)
        self.format = format
        self.kind = kind
        self.known: dict[str, tuple[Feature, Any]] = dict(known or {})
        self.declared = declared

    def check_files(self, files: range) -> Iterator[Checked]:
        """Check files: the header, the size, the CRC-32 of every array, and that the contents match the other files."""
        refusal: DataError | None = None
        names: tuple[str, ...] = ()
        try:
            names = tuple(self.schema)
        except DataError as fault:
            # A file sampled for the types is damaged or differs from the others: check each on its own.
            refusal = fault
        for number in files:
            path = self.paths[number]
            faults: list[DataError] = []
            size = 0
            try:
                size = size_on_disk(path)
                if refusal is None:
                    self.batch(np.array([number]), names)
                else:
                    self.look_at(number)
                    if refusal.where.path == path:
                        faults.append(refusal)
            except DataError as fault:
                faults.append(fault)
            yield Checked(path, int(not faults), size, faults)

    def known_columns(self) -> dict[str, Any]:
        """The columns known without reading files."""
        return {name: values for name, (_, values) in self.known.items()}

    def with_schema(self, schema: Schema) -> FilesTable:
        """The same files with types that state which lengths vary. The array of a ``.npy`` has no name, so it takes the schema's.

        Raises:
            SchemaMismatch: The files hold something else.
        """
        names = [name for name in schema if name not in self.schema]
        unnamed = isinstance(self.kind, NpyFiles) and self.kind.name not in schema and self.kind.name in self._arrays
        if unnamed and len(names) == 1:
            return self._calling_it(names[0]).with_schema(schema)
        for name, wanted in schema.items():
            found = self.schema[name]
            fits = found.dtype == wanted.dtype and len(found.shape) == len(wanted.shape)
            lengths = zip(found.shape, wanted.shape, strict=False)
            if not fits or any(b is not None and a != b for a, b in lengths):
                raise SchemaMismatch(Where(path=self.paths[0], feature=name), expected=repr(wanted), found=repr(found))
        arrays = Schema({**dict(self._arrays), **{name: schema[name] for name in schema if name in self._arrays}})
        return FilesTable(self.format, self.paths, self.kind, known=self.known, declared=arrays)

    def _calling_it(self, name: str) -> FilesTable:
        array = dict(zip([name], self._arrays.values(), strict=True))
        return FilesTable(self.format, self.paths, NpyFiles(name), known=self.known, declared=Schema(array))

    def join(self, other: FilesTable) -> FilesTable:
        """The files of this table followed by those of ``other``.

        Raises:
            SchemaMismatch: The known features differ: other columns or other classes.
        """
        mine, theirs = ({name: feature for name, (feature, _) in table.known.items()} for table in (self, other))
        if mine != theirs:
            raise SchemaMismatch(
                Where(path=other.paths[0] if other.paths else None),
                expected=f"{mine or 'nothing'} known of each file, as in the first folder",
                found=f"{theirs or 'nothing'}",
                hint="Open the folders one by one.",
            )
        known = {
            name: (feature, np.concatenate([self.known[name][1], other.known[name][1]]))
            for name, feature in mine.items()
        }
        return FilesTable(self.format, self.paths + other.paths, self.kind, known=known)

    @cached_property
    def _arrays(self) -> Schema:
        """The types of the arrays in the files."""
        if self.declared is not None:
            return self.declared
        numbers = np.unique(np.linspace(0, len(self.paths) - 1, SAMPLED).astype(np.int64)).tolist()
        samples = list(self._load(numbers, None)) if self.paths else []
        first_path, first = samples[0] if samples else ("", {})
        features = {name: Feature(array.dtype, array.shape) for name, array in first.items()}
        for path, arrays in samples[1:]:
            _check_names(path, arrays, first_path, first)
            features = {name: _wider(features[name], arrays[name], path, first_path, name) for name in features}
        for name in features:
            if name in self.known:
                raise SchemaMismatch(
                    Where(path=first_path, feature=name),
                    expected="every feature once",
                    found="it in both the files and the manifest",
                    hint="Rename the column of the manifest, or open a list of the files.",
                )
        return Schema(features)

    @cached_property
    def schema(self) -> Schema:
        """The arrays in the files, then the features known without reading them."""
        return Schema({**dict(self._arrays), **{name: feature for name, (feature, _) in self.known.items()}})

    @cached_property
    def cuts_cleanly(self) -> bool:
        """Whether every slice of a column has the same container type. False if several lengths vary."""
        return all(None not in feature.shape[1:] for feature in self._arrays.values())

    def __len__(self) -> int:
        return len(self.paths)

    @cached_property
    def _encoded(self) -> list[bytes]:
        """The paths as the file system has them; absolute, so that they stay right when the process changes its folder."""
        root = os.getcwd()
        return [os.fsencode(path if is_url(path) else os.path.join(root, path)) for path in self.paths]

    def _load(self, numbers: Sequence[int], names: Sequence[str] | None) -> Iterator[tuple[str, Arrays]]:
        """Paths and arrays of these files. Remote files are fetched in parallel; local ones are read one at a time."""
        paths = [self.paths[number] for number in numbers]
        contents: Iterable[bytes] = (read_whole(self._encoded[number]) for number in numbers)
        if any(map(is_url, paths)):
            contents = read_each([os.fsdecode(self._encoded[number]) for number in numbers])
        else:
            request_files(self._encoded[number] for number in numbers)
        for path, content in zip(paths, contents, strict=True):
            yield path, self.kind.arrays(content, path, names)

    def look_at(self, number: int) -> None:
        """Read one file, without comparing it to anything.

        Raises:
            DataError: The file is damaged.
        """
        list(self._load([number], None))

    @cached_property
    def _template(self) -> Template | None:
        """The layout that most files probably share: that of the first, if all shapes are fixed."""
        if not self.paths or not all(feature.is_fixed for feature in self._arrays.values()):
            return None
        if any(map(is_url, self.paths)):
            return None  # templates read local files only
        return self.kind.template(read_whole(self._encoded[0]), self.paths[0])

    def _no_rows(self, names: tuple[str, ...]) -> Batch:
        return self._rows(np.zeros(0, np.int64), names)

    def _rows(self, indices: Indices, names: tuple[str, ...]) -> Batch:
        """These files as features; see :class:`~headrace.contracts.records.Table`.

        Raises:
            NoFiles: A file no longer exists.
            CorruptFile: A file is damaged.
            SchemaMismatch: A file does not match the schema.
        """
        held = [name for name in names if name not in self.known]
        columns = self._columns(indices, held) if held else {}
        batch: Batch = {}
        for name in names:
            batch[name] = columns[name] if name in columns else self.known[name][1][indices]
        return batch

    def _columns(self, indices: Indices, names: list[str]) -> dict[str, Any]:
        numbers = indices.tolist()
        if self._template is None or not numbers:
            loaded = [
                self._fitting(number, arrays, names)
                for number, (_, arrays) in zip(numbers, self._load(numbers, names), strict=True)
            ]
            return {name: _stack(self._arrays[name], [arrays[name] for arrays in loaded]) for name in names}
        encoded = self._encoded
        columns, status = self._template.read([encoded[number] for number in numbers], names)
        for position in np.flatnonzero(status).tolist():
            number = numbers[position]
            if status[position] != DIFFERENT:
                raise _unreadable(self.paths[number], int(status[position]))
            ((_, arrays),) = self._load([number], names)
            for name, array in self._fitting(number, arrays, names).items():
                columns[name][position] = array
        return columns

    def _fitting(self, number: int, arrays: Arrays, names: list[str]) -> Arrays:
        """The arrays of one file, checked against the schema."""
        path = self.paths[number]
        for name in names:
            feature = self._arrays[name]
            array = arrays.get(name)
            found = "no such array" if array is None else f"{array.dtype} with shape {array.shape}"
            if array is None or not _fits(feature, array):
                raise SchemaMismatch(
                    Where(path=path, record=number, feature=name),
                    expected=f"{feature.dtype} with shape {feature.shape}, as {SAMPLED} of the files have it",
                    found=found,
                    hint="Use None for lengths that vary: open with schema={...: headrace.Feature(dtype, (None, ...))}.",
                )
        return arrays

    def where(self, index: int) -> Where:
        """The file, and its number in the table."""
        return Where(path=self.paths[index], record=index)

    def __getstate__(self) -> dict[str, Any]:
        # The working directory may differ where this is unpickled.
        try:
            return {**super().__getstate__(), "declared": self._arrays, "_encoded": self._encoded}
        except DataError:  # a sampled file is damaged: wherever the types are asked for, that is raised again
            return {**super().__getstate__()}

    def __repr__(self) -> str:
        return f"FilesTable({self.format!r}, {len(self.paths)} files)"


def _check_names(path: str, arrays: Arrays, first_path: str, first: Arrays) -> None:
    if arrays.keys() != first.keys():
        raise SchemaMismatch(
            Where(path=path), expected=f"the arrays {list(first)}, as in {first_path}", found=f"{list(arrays)}"
        )


def _wider(feature: Feature, array: npt.NDArray[Any], path: str, first_path: str, name: str) -> Feature:
    """The type widened to hold this array too."""
    if feature != Feature(array.dtype, feature.shape) or len(feature.shape) != array.ndim:
        raise SchemaMismatch(
            Where(path=path, feature=name),
            expected=f"{feature.dtype} with {len(feature.shape)} axes, as in {first_path}",
            found=f"{array.dtype} with shape {array.shape}",
        )
    lengths = [known if known == length else None for known, length in zip(feature.shape, array.shape, strict=True)]
    return Feature(array.dtype, lengths)


def _fits(feature: Feature, array: npt.NDArray[Any]) -> bool:
    if feature.numpy_dtype != array.dtype or len(feature.shape) != array.ndim:
        return False
    return all(known in (None, length) for known, length in zip(feature.shape, array.shape, strict=True))


def _stack(feature: Feature, arrays: list[npt.NDArray[Any]]) -> Any:
    """A column of arrays that fit a feature: stacked, ragged, or a list if several lengths vary."""
    if not arrays:
        inner = tuple(length or 0 for length in feature.shape)
        empty = np.zeros((0, *inner), feature.numpy_dtype)
        return empty if feature.is_fixed else Ragged(empty.reshape(0, *inner[1:]), np.zeros(1, np.int64))
    if feature.is_fixed:
        return np.stack(arrays)
    if None in feature.shape[1:]:
        alike = len({array.shape for array in arrays}) == 1
        return np.stack(arrays) if alike else [np.array(array) for array in arrays]
    return Ragged.from_list(arrays)


def _unreadable(path: str, number: int) -> Exception:
    error = OSError(number, os.strerror(number), path)
    if isinstance(error, FileNotFoundError):
        return NoFiles(
            Where(path=path),
            expected="a file",
            found="nothing of that name",
            hint="It existed when the folder was opened.",
        )
    return error
