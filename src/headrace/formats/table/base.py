"""What formats of tables share: reading rows of files, by blocks or otherwise, and writing."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from headrace._native import bounds
from headrace.contracts.records import Checked, Misfit, Skipped, Table
from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Indices, Ragged, join, take_rows
from headrace.errors import DataError, SchemaMismatch, UnsupportedData, Where
from headrace.formats.table.values import column_of
from headrace.io.cache.inflate import deflater, parse_compression
from headrace.io.local.fileset import FileSet
from headrace.io.local.open import size_on_disk
from headrace.io.paths import PathLike
from headrace.io.write.atomic import AtomicFile

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "BlockTable",
    "ByteFile",
    "FileTable",
    "KeptColumns",
    "PackedFile",
    "TypedTable",
    "refuse_misfits",
    "verify_blocks",
    "verify_rows",
]


KEPT_BYTES = 256 << 20
"""Of decoded columns that one table keeps."""
OBJECT_BYTES = 64  # a Python bytes or str, about, besides what it holds


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
        self.paths = tuple(paths)

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

    @cached_property
    def _files(self) -> FileSet:
        """What is in the files."""
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
        files = repr(self.paths[0]) if len(self.paths) == 1 else f"{len(self.paths)} files"
        return f"{type(self).__name__}({files})"


class TypedTable(FileTable):
    """A table that can be read under a schema that was given: by default, its own types are those of :meth:`_own_schema`.

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
        """The given one, or what the files show."""
        return self._own_schema() if self.given is None else self._check_given(self.given)

    @abstractmethod
    def _own_schema(self) -> Schema:
        """What the files show."""

    def _check_given(self, given: Schema) -> Schema:
        """The given schema, after a look whether the files can have it."""
        return given

    def _check_held(self, names: Sequence[str], held: Collection[str], what: str, place: Where) -> None:
        """Refuse names that are not among the columns of a file.

        Raises:
            SchemaMismatch: The file has no such column.
        """
        for name in names:
            if name not in held:
                raise SchemaMismatch(place.at(feature=name), expected=f"a {what} of that name", found=str(list(held)))


class KeptColumns:
    """Decoded columns by block and name. The oldest are dropped when they exceed a number of bytes.

    Without a lock, which another thread could hold when the process forks: single operations on a dict are atomic, and two
    threads may decode the same column twice.
    """

    def __init__(self, most_bytes: int = KEPT_BYTES) -> None:
        self.most_bytes = most_bytes
        self._columns: dict[tuple[int, str], tuple[Any, int]] = {}
        self._bytes = 0

    def get(self, block: int, name: str) -> Any:
        """The column, or ``None``."""
        found = self._columns.get((block, name))
        return None if found is None else found[0]

    def put(self, block: int, name: str, column: Any) -> None:
        """Keep a column, unless it alone exceeds the limit."""
        size = _size_of(column)
        if size > self.most_bytes or (block, name) in self._columns:
            return
        self._columns[block, name] = (column, size)
        self._bytes += size
        while self._bytes > self.most_bytes:
            try:
                oldest = next(iter(self._columns))
            except (StopIteration, RuntimeError):  # Another thread dropped it.
                return
            self._bytes -= self._columns.pop(oldest, (None, 0))[1]


class BlockTable(TypedTable):
    """A table that finds rows in blocks. A subclass gives :attr:`_firsts` and :meth:`_read_block`."""

    @cached_property
    def _kept(self) -> KeptColumns:
        return KeptColumns()

    @property
    @abstractmethod
    def _firsts(self) -> Indices:
        """``int64 (k + 1,)``: number of the first row of each block, and of all rows."""

    @abstractmethod
    def _read_block(self, block: int, names: Sequence[str]) -> Batch:
        """These columns of a whole block."""

    def __len__(self) -> int:
        return int(self._firsts[-1])

    def _rows(self, indices: Indices, names: tuple[str, ...]) -> Batch:
        """Decodes each needed block once, and keeps it."""
        firsts = self._firsts
        which = np.searchsorted(firsts, indices, side="right") - 1
        blocks = np.unique(which).tolist()
        if len(blocks) == 1:
            columns = self._block(blocks[0], names)
            return {name: take_rows(columns[name], indices - firsts[blocks[0]]) for name in names}
        picked = [np.flatnonzero(which == block) for block in blocks]
        order = np.argsort(np.concatenate(picked))
        parts: dict[str, list[Any]] = {name: [] for name in names}
        for block, mine in zip(blocks, picked, strict=True):
            columns = self._block(block, names)
            for name in names:
                parts[name].append(take_rows(columns[name], indices[mine] - firsts[block]))
        return {name: take_rows(join(columns), order) for name, columns in parts.items()}

    def _block(self, block: int, names: Sequence[str]) -> Batch:
        found = {name: self._kept.get(block, name) for name in names}
        missing = [name for name, column in found.items() if column is None]
        if missing:
            for name, column in self._read_block(block, missing).items():
                found[name] = column
                self._kept.put(block, name, column)
        return found


def verify_blocks(table: BlockTable) -> Iterator[Checked]:
    """Read every block of every file, and check every value against the schema."""
    for path in table.paths:
        one, size, counted = type(table)([path], given=table.given), size_on_disk(path), 0
        try:
            firsts, names = one._firsts, tuple(one.schema)
        except DataError as fault:
            yield Checked(path, 0, size, [fault])
            continue
        for block in range(len(firsts) - 1):
            part = size * (block + 1) // (len(firsts) - 1) - counted
            counted += part
            try:
                one._read_block(block, names)
            except DataError as fault:
                yield Checked(path, 0, part, [fault])
            else:
                yield Checked(path, int(firsts[block + 1] - firsts[block]), part)
        yield Checked(path, 0, size - counted)


def verify_rows(table: Table, path: str, *, step: int = 1024) -> Iterator[Checked]:
    """Read all rows of a table of one file, ``step`` at a time; where that fails, those one by one."""
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
    """One for each row at fault."""
    try:
        table.batch(rows, names)
    except DataError as fault:
        if len(rows) == 1:
            return [fault]
        return [found for row in rows for found in _faults(table, names, np.array([row]))]
    return []


def _size_of(column: Any) -> int:
    if isinstance(column, Ragged):
        return _size_of(column.values) + int(column.offsets.nbytes)
    if column.dtype == object:
        return sum(len(value) for value in column.reshape(-1)) + OBJECT_BYTES * int(column.size)
    return int(column.nbytes)


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
        self.file = AtomicFile(path)

    def write(self, part: bytes) -> None:
        """Append bytes."""
        self.file.write(part if self._deflater is None else self._deflater.compress(part))

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
