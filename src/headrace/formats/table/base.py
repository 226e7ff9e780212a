"""What formats of tables share: reading rows of files, by blocks or otherwise, and writing."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace._native import bounds
from headrace.contracts.records import Checked, Misfit, Skipped, Table
from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Indices
from headrace.errors import DataError, SchemaMismatch, UnsupportedData, Where, shorten_path
from headrace.formats.table.values import column_of
from headrace.io.cache.inflate import deflater, parse_compression
from headrace.io.local.fileset import FileSet
from headrace.io.local.open import size_on_disk
from headrace.io.paths import PathLike
from headrace.io.system import cached_property
from headrace.io.write.atomic import AtomicFile

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "ByteFile",
    "FileTable",
    "InferredTable",
    "MemoryFile",
    "PackedFile",
    "TypedTable",
    "find_steps",
    "refuse_misfits",
    "verify_rows",
]


class FileTable(ABC):
    """The rows of some files, joined in order: a :class:`~headrace.contracts.records.Table`. Picklable; safe in threads and after fork.

    A subclass gives ``schema``, ``__len__``, ``where`` and :meth:`_rows`. What it finds out when it is first used is a
    ``functools.cached_property``. Pickles leave that out, except what :attr:`pickled` names.

    Args:
        paths: The files.
    """

    format: str
    """The name of the format."""
    pickled: ClassVar[tuple[str, ...]] = ("_files",)
    """Cached properties that pickles contain if they are known."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths: tuple[str, ...] = tuple(paths)

    @property
    @abstractmethod
    def schema(self) -> Schema:
        """The columns and their types."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def where(self, index: int) -> Where:
        """Path, and number of the row in its file."""

    @abstractmethod
    def _rows(self, indices: Indices, names: tuple[str, ...]) -> Batch:
        """These columns of at least one row. The indices are in range."""

    @property
    def cuts_cleanly(self) -> bool:
        """Whether a batch that is cut equals smaller ones: yes, as long as a column has the same type in all rows."""
        return True

    @cached_property
    def _files(self) -> FileSet:
        """The content of the files."""
        return FileSet(self.paths)

    @property
    def skipped(self) -> Skipped:
        """What was left out because it is damaged: nothing."""
        return Skipped()

    def batch(self, indices: Indices, names: tuple[str, ...]) -> Batch:
        """Rows by index (``int64 (n,)``, none negative) of these columns.

        Raises:
            IndexError: An index is out of range.
        """
        if not len(indices):
            return self._no_rows(names)
        low, high = bounds(indices)
        if not 0 <= low <= high < len(self):
            raise IndexError(f"rows {low} to {high} of {len(self)}")
        return self._rows(indices, names)

    def _no_rows(self, names: tuple[str, ...]) -> Batch:
        return {name: column_of([], self.schema[name]) for name in names}

    def __getstate__(self) -> dict[str, Any]:
        cached = {
            name
            for kind in type(self).__mro__
            for name, value in vars(kind).items()
            if isinstance(value, cached_property) and name not in self.pickled
        }
        return {name: value for name, value in self.__dict__.items() if name not in cached}

    def __repr__(self) -> str:
        files = repr(shorten_path(self.paths[0])) if len(self.paths) == 1 else f"{len(self.paths)} files"
        return f"{type(self).__name__}({files})"


class TypedTable(FileTable):
    """A table that can be read with a given schema. Without one, its types are those of :meth:`_own_schema`.

    Args:
        paths: The files.
        given: The features to read.
    """

    def __init__(self, paths: Sequence[str], *, given: Schema | None = None) -> None:
        super().__init__(paths)
        self.given = given

    def with_schema(self, schema: Schema) -> Self:
        """The same rows read as other types."""
        found = copy(self)
        found.given = schema
        return found

    @cached_property
    def schema(self) -> Schema:
        """The given schema, or the one found in the files."""
        return self._own_schema() if self.given is None else self._check_given(self.given)

    @abstractmethod
    def _own_schema(self) -> Schema:
        """The schema found in the files."""

    def _check_given(self, given: Schema) -> Schema:
        """The given schema, after checking it against the files."""
        return given

    def _check_held(self, names: Sequence[str], held: Collection[str], what: str, place: Where) -> None:
        """Refuse names that are not among the columns of a file.

        Raises:
            SchemaMismatch: The file has no such column.
        """
        for name in names:
            if name not in held:
                hint = "Every file needs it: open those without it as another source, or leave the feature out."
                where = place.at(feature=name)
                raise SchemaMismatch(where, expected=f"a {what} of that name", found=str(list(held)), hint=hint)


class InferredTable(TypedTable):
    """A typed table whose types are those of its first rows, also in files after them."""

    sampled: ClassVar[int]
    """How many rows show the types."""
    is_part: bool = False
    """Whether it is one of those that :meth:`parts` gives."""

    @abstractmethod
    def _of_files(self, paths: Sequence[str]) -> Self:
        """Some of the files, opened in the same way."""

    @abstractmethod
    def _take_types(self, other: Self) -> None:
        """Read rows as the types that another table of the same set has found."""

    def parts(self) -> Sequence[Self]:
        """Each file by itself, read as the types that all have. Where the first rows are damaged, each has its own."""
        if self.is_part:
            return [self]
        parts = [self._of_files([path]) for path in self.paths]
        if self.given is None and len(parts) > 1:
            with suppress(DataError):
                first = self._first_files()
                for part in parts:
                    part._take_types(first)
        for part in parts:
            part.is_part = True
        return parts

    def _first_files(self) -> Self:
        """As many files as have the rows that show the types, because an index of all takes a pass over them."""
        count = 1
        while True:
            first = self._of_files(self.paths[:count])
            if count >= len(self.paths) or len(first) >= self.sampled:
                return first
            count *= 2


def verify_rows(table: Table, path: str, *, step: int = 1024) -> Iterator[Checked]:
    """Read all rows of a table of one file, ``step`` at a time. If a step fails, read its rows one by one."""
    size, counted = size_on_disk(path), 0
    try:
        rows, names = len(table), tuple(table.schema)
    except DataError as fault:
        yield Checked(path, 0, size, [fault])
        return
    for start in range(0, rows, step):
        stop = min(start + step, rows)
        part = size * stop // rows - counted
        counted += part
        faults = _faults(table, names, np.arange(start, stop))
        yield Checked(path, stop - start - len(faults), part, faults)
    yield Checked(path, 0, size - counted)


def _faults(table: Table, names: tuple[str, ...], rows: Indices) -> list[DataError]:
    """One fault for each bad row."""
    try:
        table.batch(rows, names)
    except DataError as fault:
        if len(rows) == 1:
            return [fault]
        return [found for row in rows for found in _faults(table, names, np.array([row]))]
    return []


def find_steps(schema: Schema) -> list[Misfit]:
    """The features that hold the steps of episodes, which no file holds."""
    expected, hint = (
        "numbers, text or bytes",
        "Each step is an example of source.steps(). Or leave it out: source.select(...).",
    )
    return [
        Misfit(feature=name, expected=expected, found="the steps of episodes", hint=hint)
        for name, feature in schema.items()
        if feature.dtype == "examples"
    ]


def refuse_misfits(path: PathLike, misfits: Sequence[Misfit]) -> None:
    """Raise for the first feature that a format cannot hold.

    Raises:
        UnsupportedData: There is one.
    """
    for misfit in misfits:
        raise UnsupportedData(
            Where(path=str(path), feature=misfit.feature),
            expected=misfit.expected,
            found=misfit.found,
            hint=misfit.hint,
        )


class PackedFile:
    """An atomic file, optionally in a GZIP or ZLIB stream."""

    def __init__(self, path: PathLike, compression: str) -> None:
        wrapper = parse_compression(compression) or "none"
        self._deflater: Any = None if wrapper == "none" else deflater(wrapper, -1)
        self.file: AtomicFile = AtomicFile(path)

    def write(self, part: bytes) -> None:
        """Append bytes."""
        self.file.write(part if self._deflater is None else self._deflater.compress(part))

    def give(self, part: Buffer | npt.NDArray[Any]) -> None:
        """Append bytes that will not change. A background thread may write them."""
        self.file.give(part if self._deflater is None else self._deflater.compress(part))

    def close(self) -> None:
        """Finish the file, which then appears under its name."""
        if not self.file.closed and self._deflater is not None:
            self.file.write(self._deflater.flush())
        self.file.close()

    def abort(self) -> None:
        """Remove the unfinished file."""
        self.file.abort()


class ByteFile(io.RawIOBase):
    """An atomic file as a file object for libraries that write in order. Its owner closes it."""

    def __init__(self, file: AtomicFile) -> None:
        super().__init__()
        self.file = file

    def write(self, part: Buffer, /) -> int:
        """Append bytes. Libraries may finish a file in a destructor, after it was aborted."""
        return memoryview(part).nbytes if self.file.closed else self.file.write(part)

    def tell(self) -> int:
        """The number of bytes written."""
        return self.file.size

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        """Do nothing: the owner closes or aborts the file."""

    def __del__(self) -> None:
        """Do nothing, as :meth:`close`."""

    def __reduce__(self) -> Any:
        raise TypeError("a file that is being written cannot be pickled")


class MemoryFile(io.RawIOBase):
    """Memory as a file object, which copies only what is read. A mapped file that shrinks raises its error.

    Args:
        buffer: The content.
        most: The bytes of it that there are.
    """

    def __init__(self, buffer: memoryview, most: int | None = None) -> None:
        super().__init__()
        self._buffer = buffer
        self._size = len(buffer) if most is None else min(most, len(buffer))
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, target: Any, /) -> int:
        part = _native.copy_bytes(self._buffer, self._at, max(0, min(len(target), self._size - self._at)))
        target[: len(part)] = part
        self._at += len(part)
        return len(part)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def tell(self) -> int:
        return self._at
