"""Payloads in a Parquet column: one binary column whose values are the records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace import _native, _optional
from headrace._arguments import check_position
from headrace.contracts.records import OnCorrupt, Skipped
from headrace.contracts.values import Indices
from headrace.errors import CorruptFile, NoFiles, SchemaMismatch, UnsupportedData, Where, shorten_path

__all__ = ["ParquetPayloads"]


MOST_KEPT_BYTES = 256 << 20
Group = tuple[memoryview, npt.NDArray[np.int64]]


class ParquetPayloads:
    """The binary values of one column of Parquet files, concatenated in order.

    Row groups are read on first use, and up to 256 MiB of them are cached. Picklable; safe in threads and after fork.

    Args:
        paths: The files.
        column: The column's name.
        compression, on_corrupt: As in other formats. Damaged rows cannot be skipped.
        verify: Whether to check page checksums, if the files have them.

    Raises:
        MissingExtra: At first use: pyarrow is not installed.
    """

    format = "parquet"
    prefers_streaming = False

    def __init__(
        self,
        paths: Sequence[str],
        *,
        column: str = "data",
        compression: str | None = None,
        on_corrupt: OnCorrupt = "raise",
        verify: bool = True,
    ) -> None:
        if compression not in (None, "none") or on_corrupt != "raise":
            raise UnsupportedData(
                Where(path=paths[0]),
                expected="no compression of the whole Parquet file, and on_corrupt='raise'",
                found=f"compression={compression!r}, on_corrupt={on_corrupt!r}",
            )
        self.paths: tuple[str, ...] = tuple(paths)
        self.column = column
        self.verify = verify
        self._firsts: Indices | None = None
        self._groups: dict[int, Group] = {}
        self._places: list[tuple[int, int]] = []

    @property
    def skipped(self) -> Skipped:
        """Always empty."""
        return Skipped()

    def _table(self) -> Indices:
        """The number of each row group's first record, then the number of records."""
        if self._firsts is None:
            places, counts = [], []
            for number in range(len(self.paths)):
                meta = self._file(number).metadata
                for group in range(meta.num_row_groups):
                    places.append((number, group))
                    counts.append(meta.row_group(group).num_rows)
            self._places = places
            self._firsts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
        return self._firsts

    def _file(self, number: int) -> Any:
        parquet = _optional.require("pyarrow.parquet", extra="arrow")
        path = self.paths[number]
        where = Where(path=path)
        try:
            file = parquet.ParquetFile(path, page_checksum_verification=self.verify)
        except FileNotFoundError as error:
            raise NoFiles(where, expected="a Parquet file", found="nothing of that name") from error
        except Exception as error:
            raise CorruptFile(where, expected="a Parquet file", found=str(error)) from error
        if self.column not in file.schema_arrow.names or "binary" not in str(file.schema_arrow.field(self.column).type):
            found = ", ".join(f"{field.name}: {field.type}" for field in file.schema_arrow)
            raise SchemaMismatch(where, expected=f"a column {self.column!r} of binary values", found=found)
        return file

    def _group(self, number: int) -> Group:
        """The bytes of a row group's values, and the offset of each."""
        kept = self._groups.get(number)
        if kept is not None:
            return kept
        arrow = _optional.require("pyarrow", extra="arrow")
        file, group = self._places[number]
        try:
            chunked = self._file(file).read_row_group(group, columns=[self.column]).column(0)
        except OSError as error:
            raise CorruptFile(Where(path=self.paths[file]), expected="an intact row group", found=str(error)) from error
        array = arrow.concat_arrays([chunk.cast(arrow.large_binary()) for chunk in chunked.chunks])
        if array.null_count:
            raise SchemaMismatch(
                Where(path=self.paths[file], feature=self.column), expected="a value in each row", found="a null"
            )
        _, offsets, data = array.buffers()
        starts = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
        held = (memoryview(data) if data is not None else memoryview(b""), starts)
        groups = list(self._groups.items())  # Other threads change them meanwhile.
        left = MOST_KEPT_BYTES - held[0].nbytes - sum(view.nbytes for _, (view, _) in groups)
        for oldest, (view, _) in groups:
            if left >= 0:
                break
            self._groups.pop(oldest, None)
            left += view.nbytes
        return self._groups.setdefault(number, held)

    def __len__(self) -> int:
        return int(self._table()[-1])

    @property
    def lengths(self) -> tuple[int, ...]:
        """The number of records in each file."""
        counts = np.diff(self._table())
        files = np.array([file for file, _ in self._places], np.int64)
        return tuple(int(counts[files == number].sum()) for number in range(len(self.paths)))

    def _values(self, indices: Indices) -> list[memoryview]:
        firsts = self._table()
        if len(indices) and not 0 <= int(indices.min()) <= int(indices.max()) < int(firsts[-1]):
            raise IndexError(f"records {indices.min()} to {indices.max()} of {firsts[-1]}")
        out = []
        for group, index in zip(np.searchsorted(firsts, indices, side="right") - 1, indices, strict=True):
            view, starts = self._group(int(group))
            local = int(index) - int(firsts[group])
            out.append(view[int(starts[local]) : int(starts[local + 1])])
        return out

    def __getitem__(self, index: int) -> memoryview:
        """The payload of one record."""
        return self._values(np.array([check_position(index, len(self))], np.int64))[0]

    def __iter__(self) -> Iterator[memoryview]:
        """The payloads in order."""
        for first in range(0, len(self), 1024):
            yield from self._values(np.arange(first, min(first + 1024, len(self)), dtype=np.int64))

    def spans(self, indices: Indices) -> _native.Spans:
        """The payloads of these records (``int64 (n,)``, none negative), in the given order."""
        return _native.spans_of_buffers(self._values(indices))

    def iter_spans(self, records: int | None = None) -> Iterator[tuple[int, _native.Spans]]:
        """All records in order, ``records`` (or 256) at a time."""
        step = records or 256
        for first in range(0, len(self), step):
            yield first, self.spans(np.arange(first, min(first + step, len(self)), dtype=np.int64))

    def where(self, index: int) -> Where:
        """Path, and record number in its file."""
        index = check_position(index, len(self))
        firsts = self._table()
        group = int(np.searchsorted(firsts, index, side="right")) - 1
        file = self._places[group][0]
        first = next(k for k, (number, _) in enumerate(self._places) if number == file)
        return Where(path=self.paths[file], record=index - int(firsts[first]))

    where_in_order = where

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_firsts": None, "_groups": {}, "_places": []}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __repr__(self) -> str:
        files = shorten_path(self.paths[0]) if len(self.paths) == 1 else f"{len(self.paths)} files"
        return f"ParquetPayloads({files!r})"
