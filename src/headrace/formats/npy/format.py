"""NumPy's ``.npy``: a header and one array, whose rows along the first axis are the records. Also verifies such files.

Source of the format: ``numpy/lib/format.py`` and NEP 1. Object arrays are pickled, so they are refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace._arguments import check_position
from headrace.contracts.records import Checked, Format
from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Indices
from headrace.errors import DataError, Where
from headrace.formats.npy.header import (
    MAGIC,
    ArrayField,
    NpyHeader,
    RowLayout,
    check_alike,
    check_text,
    header_of,
    holds_text,
    native_endian,
    read_header,
)
from headrace.formats.npy.write import ArraySink, misfits, pieces_of_arrays
from headrace.formats.table.base import FileTable
from headrace.io.local.mapped import MappedFile, guard_reads
from headrace.io.local.open import open_file
from headrace.io.paths import PathLike
from headrace.io.store.stream import BLOCK_BYTES
from headrace.io.system import cached_property

__all__ = ["FORMAT", "NpyRecords", "check_texts", "data_offset", "verify_npy"]


VERIFY_BYTES = 1 << 20
LEAST_SHARE = 64  # Who reads one row in this many, here and there, will read the others, too.


def verify_npy(records: Any) -> Iterator[Checked]:
    """Verify the files. Rows carry no checksums, so this is quick unless they hold text."""
    first: tuple[str, NpyHeader] | None = None
    for path in records.paths:
        file = open_file(path)
        try:
            header = header_of(file, file.size)
            first = first or (path, header)
            check_alike(path, header, *first)
            check_texts(type(records)([path]))
        except DataError as fault:
            yield Checked(path, bytes=file.size, faults=[fault])
        else:
            yield Checked(path, header.rows, file.size)


def check_texts(records: Any) -> None:
    """Check all rows of :class:`~headrace.formats.npy.format.NpyRecords`, if they hold text."""
    if not holds_text(records.dtype):
        return
    step = max(1, VERIFY_BYTES // max(1, records.headers[0].row_bytes))
    for first in range(0, len(records), step):
        records.take(np.arange(first, min(first + step, len(records))))


class NpyRecords(FileTable):
    """The rows of ``.npy`` files, concatenated in order. The files are mapped, never loaded.

    A 0-d array is one row of shape ``()``. Every file must have the dtype and row shape of the first (byte order and
    memory order may differ). Picklable; safe in threads and after fork.

    Args:
        paths: The files, as :func:`headrace.io.paths.expand` gives them.

    Raises:
        CorruptFile: At first use: a header is damaged, or a file's size does not match its header.
        SchemaMismatch: At first use: files differ in dtype or row shape; both are named.
        UnsupportedData: At first use: an object array.
    """

    format = "npy"
    prefers_streaming = False
    _read_rows = 0  # here and there; see prepare

    @cached_property
    def _layout(self) -> RowLayout:
        """Read on first use, so that :func:`headrace.verify` can still report damaged files."""
        headers, signatures = [], []
        for number in range(len(self.paths)):  # both at once: of many files, only the last remain open
            headers.append(self._header(number))
            signatures.append(self._files.signature(number))
        for path, header in zip(self.paths, headers, strict=True):
            check_alike(path, header, self.paths[0], headers[0])
        self._files.expect(signatures)
        return RowLayout.of(headers)

    def _header(self, number: int) -> NpyHeader:
        """The header of file ``number``, including the offset of its rows."""
        return header_of(self._files.beginning(number), self._files.size(number))

    @property
    def headers(self) -> list[NpyHeader]:
        """The header of each file."""
        return self._layout.headers

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the rows that :meth:`take` returns: native-endian."""
        return self._layout.dtype

    @property
    def row_shape(self) -> tuple[int, ...]:
        """The shape of one row."""
        return self._layout.row_shape

    def __len__(self) -> int:
        return self._layout.rows

    @cached_property
    def schema(self) -> Schema:
        """A plain array is the single feature ``values``; each field of a structured array is a feature."""
        return self._layout.schema

    @property
    def is_unnamed(self) -> bool:
        """Whether it is a plain array, whose single feature a given schema may name."""
        return self.dtype.names is None

    def batch(self, indices: Indices, names: tuple[str, ...]) -> Batch:
        """Some rows as features; see :attr:`schema`. Native code checks the range."""
        return self._rows(indices, names)

    def reader(self, names: tuple[str, ...]) -> Callable[[Indices], Batch]:
        """:meth:`batch` for indices in range."""
        if self.is_unnamed and (rows := self._stored_rows) is not None:
            return _RowReader(rows, None if self._files.expects_all else self)
        return partial(self._rows, names=names)

    def _rows(self, indices: Indices, names: tuple[str, ...]) -> Batch:
        rows = self.take(indices)
        if rows.dtype.names is None:
            return {"values": rows}
        return {name: self._fields[name].of(rows) for name in names}

    @cached_property
    def _fields(self) -> dict[str, ArrayField]:
        """The location of each feature in a structured array."""
        return self._layout.fields

    def take(self, indices: Indices) -> npt.NDArray[Any]:
        """Rows by index, gathered by native code.

        Args:
            indices: ``int64 (n,)``, none negative.

        Returns:
            ``(n, *row_shape)``, native-endian and writable; the caller owns it.

        Raises:
            IndexError: An index is out of range.
            CorruptRecord: A row holds invalid text.
        """
        layout = self._layout
        count = len(indices)
        if not count:
            return np.zeros((0, *layout.row_shape), layout.dtype)
        try:
            if not self._files.expects_all:
                self.prepare(indices)
            if self._stored_rows is not None:
                return self._stored_rows.take(indices)
            if layout.stored is None:
                rows = self._joined_from_files(indices)
            else:
                dtype = layout.dtype if layout.swapped else layout.stored
                rows = np.ndarray((count, *layout.row_shape), dtype, self._bytes(layout, indices, layout.swapped))
        except (_native.FormatError, IndexError) as error:
            raise IndexError(f"rows {indices.min()} to {indices.max()} of {len(self)}") from error
        if layout.is_plain:
            return rows
        rows = native_endian(rows)
        check_text(rows, lambda row: self.where(int(indices[row])))
        return rows

    def prepare(self, indices: Indices | None = None) -> None:
        """Prepare for reading these rows (``None``: rows in order). The rest is expected once a share of all has been read. Before,
        large parts around each row would be read for nothing, so rows are requested one by one.
        """
        layout, files = self._layout, self._files
        if files.is_remote or not files.worth_mapping(layout.rows * layout.row_bytes):
            return
        self._read_rows += layout.rows if indices is None else len(indices)
        if self._read_rows * LEAST_SHARE >= layout.rows:
            files.expect_all()
        elif indices is not None and len(indices) > 1 and layout.stored is not None:
            which = self._files_of(layout, indices)
            begins = (indices - layout.firsts[which]) * layout.row_bytes + layout.begins[which]
            buffers, which_buffer = files.buffers(which)
            _native.request_ranges(buffers, which_buffer, begins, begins + layout.row_bytes)

    @cached_property
    def _stored_rows(self) -> _native.StoredRows | None:
        """The rows of a single mapped file that holds them as they are returned. Most files do, and this takes fewer calls."""
        layout, files = self._layout, self._files
        if not layout.is_plain or layout.swapped or len(self.paths) > 1 or files.worth_fetching():
            return None
        if not files.worth_mapping(layout.rows * layout.row_bytes):
            return None
        header = layout.headers[0]
        shape = layout.row_bytes, header.rows, layout.dtype, layout.row_shape
        return _native.StoredRows(files.content(0).buffer, header.data_offset, *shape)

    def _bytes(self, layout: RowLayout, indices: Indices, swapped: int = 0) -> npt.NDArray[np.uint8]:
        """The bytes of these rows, concatenated; each number of `swapped` bytes in the other byte order."""
        # Also in order: rows need no decoding, and copying them from a warm map is three times as fast as reading them.
        fetches = self._files.worth_fetching()
        mapped = not fetches and self._files.worth_mapping(layout.rows * layout.row_bytes)
        if mapped and len(self.paths) == 1:
            buffer, header = self._files.content(0).buffer, layout.headers[0]
            return _native.take_rows(buffer, header.data_offset, layout.row_bytes, header.rows, indices, swapped)
        if mapped and (every := self._files.all_buffers()) is not None:
            return _native.take_of_parts(every, layout.firsts, layout.begins, layout.row_bytes, indices, swapped)
        which = self._files_of(layout, indices)
        offsets = (indices - layout.firsts[which]) * layout.row_bytes + layout.begins[which]
        if mapped:
            buffers, which_buffer = self._files.buffers(which)
            return _native.take_ranges(buffers, which_buffer, offsets, layout.row_bytes, swapped)
        sizes = np.full(len(indices), layout.row_bytes, np.int64)
        if fetches:
            return _native.take_ranges(*self._files.fetched(which, offsets, sizes), layout.row_bytes, swapped)
        rows = self._files.read(which, offsets, sizes)[0]
        if swapped:
            rows.view(f"u{swapped}").byteswap(inplace=True)
        return rows

    def _files_of(self, layout: RowLayout, indices: Indices) -> npt.NDArray[np.int32]:
        low, high = _native.bounds(indices)
        if not 0 <= low <= high < layout.rows:
            raise IndexError
        return _native.parts_of(layout.firsts, indices)

    def _joined_from_files(self, indices: Indices) -> npt.NDArray[Any]:
        """For rows that cannot be copied unchanged: Fortran order, mixed byte orders, or zero bytes."""
        layout = self._layout
        which = self._files_of(layout, indices)
        rows: npt.NDArray[Any] | None = None
        for number in np.unique(which).tolist():
            mine = np.flatnonzero(which == number)
            found = self._rows_of_file(number, indices[mine] - layout.firsts[number])
            if len(mine) == len(indices):
                return found.astype(layout.dtype, copy=False)
            if rows is None:
                rows = np.empty((len(indices), *layout.row_shape), layout.dtype)
            rows[mine] = found
        assert rows is not None
        return rows

    def _rows_of_file(self, number: int, indices: Indices) -> npt.NDArray[Any]:
        """Rows of one file in its own byte order, copied."""
        header, buffer = self._layout.headers[number], self._files.content(number).buffer
        if not header.is_fortran or not header.row_bytes:
            with guard_reads(buffer):
                return self._array(number)[indices]
        size = header.dtype.itemsize
        places = np.arange(header.row_bytes // size).reshape(header.row_shape).ravel(order="F")
        copied = _native.take_rows_of_columns(buffer, header.data_offset, size, header.rows, places, indices)
        return np.ndarray((len(indices), *header.row_shape), header.dtype, copied)

    def _array(self, number: int) -> npt.NDArray[Any]:
        """File ``number`` as a mapped array ``(rows, *row_shape)``, in its own byte order."""
        header = self._layout.headers[number]
        content = self._files.content(number).buffer[header.data_offset : header.data_offset + header.data_bytes]
        shape = header.shape or (1,)
        if header.is_fortran:
            return np.ndarray(shape, header.dtype, content, order="F")
        return np.ndarray(shape, header.dtype, content)

    def __getitem__(self, index: int) -> memoryview:
        """The bytes of one row in C order: a view of the file, or a copy if its memory order is Fortran's."""
        row = check_position(index, len(self), "row")
        number = int(np.searchsorted(self._layout.firsts, row, side="right")) - 1
        if self._fetches:
            return self.spans(np.array([row], np.int64)).view(0)
        return self._row(number, row - int(self._layout.firsts[number]))

    @property
    def _fetches(self) -> bool:
        """Whether rows are fetched from URLs by range, so that it pays to fetch many at once."""
        return self._layout.stored is not None and self._files.worth_fetching()

    def _row(self, number: int, row: int) -> memoryview:
        header = self._layout.headers[number]
        if header.is_fortran:
            with guard_reads(self._files.content(number).buffer):
                return memoryview(self._array(number)[row].tobytes())
        return self._files.content(number).view(header.data_offset + row * header.row_bytes, header.row_bytes)

    def __iter__(self) -> Iterator[memoryview]:
        if self._fetches:
            for _, spans in self.iter_spans(max_bytes=BLOCK_BYTES):
                yield from (spans.view(position) for position in range(len(spans)))
            return
        for number, header in enumerate(self._layout.headers):
            for row in range(header.rows):
                yield self._row(number, row)

    def spans(self, indices: Indices) -> _native.Spans:
        """The bytes of these rows. :meth:`take` returns them as one array, which is faster."""
        if self._fetches and len(indices):
            rows = self._bytes(self._layout, indices).data
            size = self._layout.row_bytes
            return _native.spans_of_buffers([rows[at * size : (at + 1) * size] for at in range(len(indices))])
        return _native.spans_of_buffers([self[index] for index in indices.tolist()])

    def iter_spans(
        self, records: int | None = None, *, max_bytes: int = 1 << 20
    ) -> Iterator[tuple[int, _native.Spans]]:
        """All rows in order, ``records`` at a time (``None``: as many as fit ``max_bytes``)."""
        step = records or max(1, max_bytes // max(1, self._layout.headers[0].row_bytes))
        for first in range(0, len(self), step):
            yield first, self.spans(np.arange(first, min(first + step, len(self))))

    def where(self, index: int) -> Where:
        """Path, row in its file, and byte offset of row ``index`` (no offset in Fortran order)."""
        index = check_position(index, len(self), "row")
        number = int(np.searchsorted(self._layout.firsts, index, side="right")) - 1
        header, row = self._layout.headers[number], index - int(self._layout.firsts[number])
        offset = None if header.is_fortran else header.data_offset + row * header.row_bytes
        return Where(path=self.paths[number], record=row, offset=offset)

    where_in_order = where

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, {len(self)} rows of {self.dtype} {self.row_shape})"


class _RowReader:
    """Reads the rows of the usual file by one native call: in Python, the steps on the way to it take as long as copying 20 KB.

    Args:
        rows, of: The rows of the file, and the file until all of it is expected to be read.
    """

    __slots__ = ("_of", "_rows")

    def __init__(self, rows: _native.StoredRows, of: NpyRecords | None) -> None:
        self._rows, self._of = rows, of

    @property
    def one(self) -> Callable[[int, int], Batch]:
        """What gives the rows of a single batch, from the first up to another one."""
        if self._of is not None:
            self._of.prepare()
        return self._rows.run

    def __call__(self, indices: Indices) -> Batch:
        if self._of is not None:
            self._of.prepare(indices)
        return self._rows.batch(indices)

    def run(self, first: int, stop: int, size: int) -> list[tuple[int, Batch]]:
        """The rows of batches of ``size``, in one piece."""
        return [((stop - first) // size, self.one(first, stop))]


def data_offset(path: PathLike) -> int:
    """The byte offset of the array in a ``.npy`` file.

    Raises:
        CorruptFile: The header is damaged.
    """
    return read_header(MappedFile(os.fspath(path))).data_offset


def is_npy(head: bytes) -> bool:
    """Whether some first bytes are those of a ``.npy`` file."""
    return head.startswith(MAGIC)


FORMAT = Format(
    name="npy",
    suffixes=(".npy",),
    knows=is_npy,
    open=NpyRecords,
    sink=ArraySink,
    misfits=misfits,
    pieces=pieces_of_arrays,
    joined_writer=ArraySink,
    verify=verify_npy,
)
