"""The values of a dataset, made by NumPy from the text of its shape, and digests that show whether a reader returns them."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from benchmarks.shapes.photographs import encoded_photographs
from benchmarks.shapes.shape import BYTES, TEXT, Column, Shape

_WORDS = [
    "the",
    "of",
    "and",
    "a",
    "data",
    "stream",
    "über",
    "naïve",
    "café",
    "façade",
    "señor",
    "Ωmega",
    "東京",
    "данные",
    "light",
    "water",
    "house",
    "river",
    "😀",
    "learning",
]
_QUOTED = ['say "yes"', "one, two", "plain", 'a ""b""', "x,y,z", "words", "it's", "end", '"', ","]
_LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz0123456789", np.uint8)


@dataclass(frozen=True, slots=True)
class Cells:
    """The values of one column.

    Attributes:
        flat: All of them in row-major order: an array ``(values, *shape)`` for numbers, bytes for text and bytes.
        lengths: How many values each row has, int64 (rows,), or None where each has one (of the fixed shape).
    """

    flat: np.ndarray | list[bytes]
    lengths: np.ndarray | None = None

    @property
    def bounds(self) -> np.ndarray:
        """Where the values of each row begin and end, int64 (rows + 1,)."""
        lengths = np.ones(len(self.flat), np.int64) if self.lengths is None else self.lengths
        return np.concatenate([[0], np.cumsum(lengths)])


def make_cells(shape: Shape, rows: int) -> dict[str, Cells]:
    """Every column by name. The same shape and number of rows give the same values."""
    return {name: _column(shape, name, column, rows) for name, column in shape.names}


def _column(shape: Shape, name: str, column: Column, rows: int) -> Cells:
    rng = np.random.default_rng(zlib.crc32(f"{shape.data_text} {name}".encode()))
    if column.kind == "k":
        return Cells(np.arange(rows))
    if column.is_image:
        return Cells(encoded_photographs(column, rows))
    lengths = None
    count = rows
    if column.lengths is not None:
        of_all = np.random.default_rng(rows) if shape.objects else rng  # the columns of objects have as many values
        lengths = of_all.integers(column.lengths[0], column.lengths[1] + 1, rows)
        count = int(lengths.sum())
    if column.kind in TEXT + BYTES:
        return Cells(_strings(rng, column, count * prod(column.shape)), lengths)
    return Cells(_numbers(rng, column, count), lengths)


def _numbers(rng: np.random.Generator, column: Column, count: int) -> np.ndarray:
    shape = (column.distinct or count, *column.shape)
    low, high = column.size
    if column.kind == "f":
        values = rng.random(shape, np.float32 if low == 32 else np.float64)
        # Numbers as people store them, with a few decimals, where digits count.
        values = values if low == 32 else np.round(values * 1000, 4)
    elif column.kind == "u":
        values = rng.integers(0, 256, shape, np.uint8)
    elif column.kind == "t":
        values = rng.random(shape) < 0.5
    else:
        most = high if (low, high) == (0, high) else 2**low
        values = rng.integers(0, most, shape)
        values = -1 - values if column.kind == "n" else values
    return values[rng.integers(0, column.distinct, count)] if column.distinct else values


def _strings(rng: np.random.Generator, column: Column, count: int) -> list[bytes]:
    low, high = column.size
    some = column.distinct or count
    lengths = rng.integers(low, high + 1, some)
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if some else 0
    if column.kind in "wq":
        words = _WORDS if column.kind == "w" else _QUOTED
        picks = rng.integers(0, len(words), (some, max(1, high // 5)))
        values = [" ".join([words[k] for k in row])[:length] for row, length in zip(picks, lengths, strict=True)]
        made = [value.encode() for value in values]
    else:
        letters = rng.integers(0, 256, total, np.uint8) if column.kind == "b" else _LETTERS[rng.integers(0, 36, total)]
        if column.kind == "d":  # a quarter of it random, the rest repeats
            letters[np.arange(total) % 64 > 16] = 120
        data = letters.tobytes()
        made = [data[end - length : end] for end, length in zip(ends.tolist(), lengths.tolist(), strict=True)]
    if not column.distinct:
        return made
    return [made[k] for k in rng.integers(0, column.distinct, count)]


def digest_rows(columns: Mapping[str, Cells], rows: int, *, single: bool = False) -> np.ndarray:
    """A number for each row that depends on every bit of its values and on their places, uint64 (rows,).

    Args:
        columns: The columns.
        rows: Their rows.
        single: Round floats of 64 bits to 32, for libraries that return no others.
    """
    total = np.zeros(rows, np.uint64)
    for name, cells in sorted(columns.items()):
        total += _digest_column(cells, rows, single=single) * _multipliers(zlib.crc32(name.encode()), 1)[0]
    return total


def _digest_column(cells: Cells, rows: int, *, single: bool) -> np.ndarray:
    flat = cells.flat
    if single and not isinstance(flat, list) and flat.dtype == np.float64:
        flat = flat.astype(np.float32)
    if isinstance(flat, list):
        values = np.fromiter((zlib.crc32(value) | len(value) << 32 for value in flat), np.uint64, len(flat))
    else:
        values = np.ascontiguousarray(flat)
        values = values.view(np.uint32) if values.dtype == np.float32 else values
        values = values.view(np.uint64) if values.dtype == np.float64 else values.astype(np.int64).view(np.uint64)
    if cells.lengths is None:
        values = values.reshape(rows, -1)
        return values.astype(np.uint64) @ _multipliers(0, values.shape[1])
    values = values.reshape(-1, max(1, values.size // max(1, int(cells.lengths.sum()))))
    values = values.astype(np.uint64) @ _multipliers(0, values.shape[1])
    bounds = cells.bounds
    places = np.arange(len(values)) - np.repeat(bounds[:-1], cells.lengths)
    weighted = values * _multipliers(1, int(cells.lengths.max(initial=1)))[places] if len(values) else values
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(weighted, dtype=np.uint64)])
    return sums[bounds[1:]] - sums[bounds[:-1]] + cells.lengths.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)


def _multipliers(start: int, count: int) -> np.ndarray:
    """Odd numbers that look random: splitmix64."""
    z = (np.arange(1, count + 1, dtype=np.uint64) + np.uint64(start)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return (z ^ z >> np.uint64(31)) | np.uint64(1)


def cells_of(values: Any, column: Column) -> Cells:
    """What a reader returned for some rows, in the form of `Cells`, with the dtype that was written.

    Args:
        values: An array, a sequence of values or of sequences, or a pair ``(flat, lengths)`` for ragged columns.
        column: What was written.
    """
    lengths = None
    if isinstance(values, tuple):
        values, lengths = values[0], np.asarray(values[1], np.int64)
    elif column.lengths is not None:
        lengths = np.array([len(row) for row in values], np.int64)
        values = [value for row in values for value in row] if column.kind in TEXT + BYTES else _stacked(values, column)
    if column.kind in TEXT + BYTES:
        return Cells([_bytes(value) for value in np.asarray(values, object).reshape(-1).tolist()], lengths)
    found = values if isinstance(values, np.ndarray) else np.array(values)
    return Cells(found.astype(dtype_of(column), copy=True).reshape(-1, *column.shape), lengths)


def dtype_of(column: Column) -> np.dtype:
    """The dtype of a column of numbers."""
    names = {"f": "float32" if column.size[0] == 32 else "float64", "u": "uint8", "t": "bool"}
    return np.dtype(names.get(column.kind, "int64"))


def _stacked(rows: Sequence[Any], column: Column) -> np.ndarray:
    filled = [np.asarray(row, dtype_of(column)).reshape(-1) for row in rows if len(row)]
    return np.concatenate(filled) if filled else np.zeros(0, dtype_of(column))


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)
