"""Turns rows of different lengths into rectangular arrays: functions for ``map_batch``."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from headrace._arguments import check_choice, check_integer, choose_fill, list_feature_names
from headrace._numbers import place_values
from headrace.contracts.values import LONG, Batch, Indices, Ragged, pad_rows, take_rows
from headrace.errors import NoSuchFeature, SchemaMismatch, UnsupportedData, Where, did_you_mean
from headrace.sources.tables import ragged_rows

__all__ = ["OVERLONG", "Bucket", "Overlong", "Pack", "Pad", "Pieces", "check_dense", "check_new", "fill_packed"]


Overlong = Literal["raise", "truncate", "split"]
OVERLONG: tuple[Overlong, ...] = ("raise", "truncate", "split")


@dataclass(frozen=True, slots=True)
class Pad:
    """Pads features to one length: ``Loader(..., map_batch=Pad("tokens"))``.

    Each feature of shape ``(None, *inner)`` becomes an array ``(n, length, *inner)`` of its dtype, rows followed by ``fill``, and
    ``<feature>_length``, ``int64 (n,)``, gives the length of each row. Other features stay unchanged.

    Args:
        features: A name, or several.
        length: The length. ``None``: that of the longest row of the batch.
        multiple: With ``length=None``, round up to a multiple of this, so that a compiled step sees few shapes.
        fill: The value after the end of a row. ``None``: 0, or empty text or bytes among those.
        truncate: Cut longer rows to ``length``; otherwise they are an error. ``<feature>_length`` is the length after cutting.

    Raises:
        SchemaMismatch: (when called) a row is longer, the feature has no axis that varies, or ``<feature>_length`` is there already.
        TypeError: (when called) text is to be filled with other values.
        ValueError: (when called) the dtype does not hold ``fill``.

    >>> Pad("x", multiple=4)({"x": Ragged.from_list([[1, 2, 3], [4]], "int64")})["x"]
    array([[1, 2, 3, 0],
           [4, 0, 0, 0]])
    """

    features: str | tuple[str, ...]
    length: int | None
    multiple: int
    fill: Any
    truncate: bool

    def __init__(
        self,
        features: str | Sequence[str],
        *,
        length: int | None = None,
        multiple: int = 1,
        fill: Any = None,
        truncate: bool = False,
    ) -> None:
        length = None if length is None else check_integer(length, "length", least=1)
        multiple = check_integer(multiple, "multiple", least=1)
        if truncate and length is None:
            raise ValueError("truncate=True needs a length")
        _put(
            self,
            features=list_feature_names(features, "features"),
            length=length,
            multiple=multiple,
            fill=fill,
            truncate=truncate,
        )

    def __call__(self, batch: Mapping[str, Any]) -> Batch:
        """The batch with its features padded."""
        padded = dict(batch)
        for name in self.features:
            check_new(padded, f"{name}_length")
            rows = _rows_of(batch, name)
            lengths = rows.lengths
            length = self.length
            if length is None:
                length = -(-int(lengths.max(initial=0)) // self.multiple) * self.multiple
            if not self.truncate:
                _check_lengths(name, lengths, length)
            padded[name] = pad_rows(rows, length, self.fill)
            padded[f"{name}_length"] = np.minimum(lengths, length)
        return padded


@dataclass(frozen=True, slots=True)
class Bucket:
    """Sorts the rows of a batch by length into buckets, each padded to its bound.

    Returns a list of batches, one for every bucket that is not empty, shortest bound first. Rows of a bucket keep their order.
    A row goes into the first bucket whose bound it does not exceed. Read large batches (``batch_size=4096``) and iterate over
    the list: little is padded, and a compiled step sees at most one row shape per bound.

    Args:
        feature: The feature whose lengths decide. It is padded as by :class:`Pad`, with ``<feature>_length``.
        bounds: Increasing lengths.
        fill: The value after the end of a row. ``None``: 0, or empty text or bytes among those.
        truncate: Cut rows that are longer than the last bound; otherwise they are an error.

    Raises:
        SchemaMismatch: (when called) a row is longer than the last bound, or ``<feature>_length`` is there already.
        TypeError: (when called) text is to be filled with other values.
        ValueError: (when called) the dtype does not hold ``fill``.

    >>> [b["x"].shape for b in Bucket("x", bounds=(2, 4))({"x": Ragged.from_list([[1], [2, 3, 4], [5, 6]])})]
    [(2, 2), (1, 4)]
    """

    feature: str
    bounds: tuple[int, ...]
    fill: Any
    truncate: bool

    def __init__(self, feature: str, *, bounds: Sequence[int], fill: Any = None, truncate: bool = False) -> None:
        bounds = tuple(check_integer(bound, "a bound") for bound in bounds)
        grows = all(low < high for low, high in pairwise(bounds))
        if not bounds or bounds[0] < 1 or not grows:
            raise ValueError(f"bounds grow from at least 1, got {bounds}")
        _put(self, feature=feature, bounds=bounds, fill=fill, truncate=truncate)

    def __call__(self, batch: Mapping[str, Any]) -> list[Batch]:
        """The buckets of a batch."""
        lengths = _rows_of(batch, self.feature).lengths
        if not self.truncate:
            _check_lengths(self.feature, lengths, self.bounds[-1])
        places = np.searchsorted(self.bounds[:-1], lengths)  # longer rows belong to the last bucket
        buckets = []
        for place in np.unique(places).tolist():
            pad = Pad(self.feature, length=self.bounds[place], fill=self.fill, truncate=True)
            chosen = np.flatnonzero(places == place)
            buckets.append(pad({name: take_rows(column, chosen) for name, column in batch.items()}))
        return buckets


@dataclass(frozen=True, slots=True)
class Pack:
    """Packs the rows of a batch into rows of one length, with little padding.

    Each row goes into the first packed row with enough room (first fit). For features of shape ``(None, *inner)``, the result
    has:

    - the features themselves, ``(m, length, *inner)``, filled up with ``fill``;
    - ``<first feature>_segment``, ``int32 (m, length)``: 1, 2, ... for the rows in a packed row, 0 for padding;
    - ``<first feature>_position``, ``int32 (m, length)``: the position within its row, from 0;
    - every other feature as a :class:`Ragged` of ``m`` rows: its values for the rows in each packed row, in order.

    Nothing is carried from one batch to the next, so the result depends on that batch alone. Larger batches need less padding.

    Args:
        features: A name, or several whose rows have the same lengths (tokens and their labels).
        length: The length of packed rows.
        fill: The value of padding. ``None``: 0, or empty text or bytes among those.
        overlong: Treatment of longer rows: ``"raise"``, ``"truncate"`` to ``length``, or ``"split"`` into pieces, which
            count as separate rows (other features are repeated for each piece).

    Raises:
        SchemaMismatch: (when called) a row is longer, lengths differ between the features, or a feature has a name that this makes.
        TypeError: (when called) text is to be filled with other values.
        ValueError: (when called) the dtype does not hold ``fill``.

    >>> packed = Pack("x", length=4)({"x": Ragged.from_list([[1, 2, 3], [4, 5], [6]])})
    >>> packed["x"].tolist(), packed["x_segment"].tolist()
    ([[1, 2, 3, 6], [4, 5, 0, 0]], [[1, 1, 1, 2], [1, 1, 0, 0]])
    """

    features: tuple[str, ...]
    length: int
    fill: Any
    overlong: Overlong

    def __init__(
        self, features: str | Sequence[str], *, length: int, fill: Any = None, overlong: Overlong = "raise"
    ) -> None:
        length = check_integer(length, "length", least=1)
        check_choice(overlong, "overlong", OVERLONG)
        _put(self, features=list_feature_names(features, "features"), length=length, fill=fill, overlong=overlong)

    def __call__(self, batch: Mapping[str, Any]) -> Batch:
        """The packed batch."""
        first = self.features[0]
        columns = {name: _rows_of(batch, name) for name in self.features}
        lengths = columns[first].lengths
        for name, rows in columns.items():
            if not np.array_equal(rows.lengths, lengths):
                raise SchemaMismatch(
                    Where(feature=name), expected=f"rows as long as those of {first!r}", found="others"
                )
        if self.overlong == "raise":
            _check_lengths(first, lengths, self.length)
        pieces = Pieces.of(lengths, self.length, split=self.overlong == "split")
        row, begin = _first_fit(pieces.lengths, self.length)
        count = int(row.max(initial=-1)) + 1
        return fill_packed(batch, columns, pieces, (row, begin), (count, self.length), self.fill)


def fill_packed(
    batch: Mapping[str, Any],
    columns: Mapping[str, Ragged],
    pieces: Pieces,
    places: tuple[Indices, Indices],
    shape: tuple[int, int],
    fill: Any,
) -> Batch:
    """Put pieces of rows into packed rows: see :class:`Pack` for what it gives.

    Args:
        batch: The columns that the rows come from.
        columns: Those that are packed, as rows of equal lengths; the first names segments and positions.
        pieces: The pieces.
        places: For each piece, its packed row, and its position there.
        shape: How many packed rows there are, and their length.
        fill: The value where nothing is. ``None``: 0, or empty text or bytes among those.
    """
    check_dense(name for name, column in batch.items() if hasattr(column, "tocsr"))
    (row, begin), (count, length) = places, shape
    order = np.argsort(row, kind="stable")
    offsets = np.searchsorted(row[order], np.arange(count + 1))
    segment = np.empty(len(row), np.int64)
    segment[order] = np.arange(len(row)) - offsets[row[order]] + 1
    moves = _Moves(pieces.lengths, row * length + begin)
    packed: Batch = {
        name: moves.place(rows.values, np.asarray(rows.offsets)[pieces.row] + pieces.begin, (count, length), fill)
        for name, rows in columns.items()
    }
    first, longest = next(iter(columns)), int(pieces.lengths.max(initial=0))
    check_new(batch, f"{first}_segment", f"{first}_position")
    packed[f"{first}_segment"] = moves.repeat(segment, (count, length))
    counting = np.arange(longest, dtype=np.int32)
    packed[f"{first}_position"] = moves.place(counting, np.zeros_like(row), (count, length), 0)
    for name, column in batch.items():
        if name not in packed:
            packed[name] = Ragged(take_rows(column, pieces.row[order]), offsets.astype(np.int64))
    return packed


def check_dense(sparse: Iterable[str]) -> None:
    """Refuse sparse features beside packed ones: a packed row has those of several examples.

    Raises:
        UnsupportedData: There is one.
    """
    for name in sparse:
        raise UnsupportedData(
            Where(feature=name),
            expected="dense features beside packed ones",
            found="a sparse one",
            hint="select() the other features, or make it dense with map().",
        )


@dataclass(frozen=True, slots=True)
class _Moves:
    """Pieces that are copied to a flat column: piece by piece where they are long, else all at once by index.

    Args:
        lengths: Of the pieces.
        to: Where each begins in the column.
    """

    lengths: Indices
    to: Indices

    @property
    def are_long(self) -> bool:
        return int(self.lengths.sum()) >= LONG * len(self.lengths) > 0

    def place(self, values: Any, take: Indices, shape: tuple[int, int], fill: Any) -> Any:
        """A column of a shape, in which each piece is the part of ``values`` from ``take``."""
        if not isinstance(values, np.ndarray) or values.dtype.kind in "SUO" or not self.are_long:
            within = self._within()
            taken, to = np.repeat(take, self.lengths) + within, np.repeat(self.to, self.lengths) + within
            return place_values(values, taken, to, shape, fill)
        column = np.full((shape[0] * shape[1], *values.shape[1:]), choose_fill(values, fill), values.dtype)
        for start, to, size in zip(take.tolist(), self.to.tolist(), self.lengths.tolist(), strict=True):
            column[to : to + size] = values[start : start + size]
        return column.reshape(*shape, *values.shape[1:])

    def repeat(self, numbers: Indices, shape: tuple[int, int]) -> npt.NDArray[np.int32]:
        """A column of a shape, in which each piece is a number, and 0 elsewhere."""
        column = np.zeros(shape[0] * shape[1], np.int32)
        if self.are_long:
            for number, to, size in zip(numbers.tolist(), self.to.tolist(), self.lengths.tolist(), strict=True):
                column[to : to + size] = number
        else:
            column[np.repeat(self.to, self.lengths) + self._within()] = np.repeat(numbers, self.lengths)
        return column.reshape(shape)

    def _within(self) -> Indices:
        ends = np.cumsum(self.lengths)
        return np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - self.lengths, self.lengths)


@dataclass(frozen=True, slots=True)
class Pieces:
    """The pieces to pack: parts of rows, in order."""

    row: Indices
    begin: Indices
    lengths: Indices

    @classmethod
    def of(cls, lengths: Indices, most: int, *, split: bool) -> Pieces:
        """Each row as one piece of at most ``most``, or as several pieces that hold all of it."""
        counts = np.maximum(-(-lengths // most), 1) if split else np.ones(len(lengths), np.int64)
        row = np.repeat(np.arange(len(lengths)), counts)
        begin = (np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)) * most
        return cls(row, begin, np.minimum(lengths[row] - begin, most))


def _first_fit(lengths: Indices, room: int) -> tuple[Indices, Indices]:
    """For each piece, the first packed row with room for it, and its position there."""
    leaves = 1 << max(len(lengths) - 1, 0).bit_length()  # as many rows as pieces suffice: an empty row takes any
    most = [room] * (2 * leaves)  # a tree of the most room in any row below a node, whose children are 2n and 2n + 1
    row, begin = [], []
    for length in lengths.tolist():
        node = 1
        while node < leaves:
            node *= 2
            if most[node] < length:
                node += 1
        free = most[node]
        row.append(node - leaves)
        begin.append(room - free)
        free -= length
        most[node] = free
        while node > 1:
            other = most[node ^ 1]
            node //= 2
            free = max(free, other)
            if most[node] == free:
                break
            most[node] = free
    return np.array(row, np.int64), np.array(begin, np.int64)


def _check_lengths(name: str, lengths: Indices, most: int) -> None:
    if int(lengths.max(initial=0)) > most:
        row = int(np.argmax(lengths > most))
        raise SchemaMismatch(
            Where(feature=name),
            expected=f"rows of at most {most} values",
            found=f"{lengths[row]} in row {row} of the batch",
            hint="Choose a larger length, or truncate longer rows.",
        )


def check_new(features: Container[str], *made: str) -> None:
    """Check that no feature has the name of one that packing or padding makes.

    Raises:
        SchemaMismatch: One has.
    """
    for name in made:
        if name in features:
            raise SchemaMismatch(
                Where(feature=name),
                expected="every feature name once",
                found=f"{name!r} in the examples, and made of {name.rpartition('_')[0]!r}",
                hint="rename() that feature first, or leave it out with select().",
            )


def _rows_of(batch: Mapping[str, Any], name: str) -> Ragged:
    """A feature of a batch as rows.

    Raises:
        NoSuchFeature: There is no such feature.
        SchemaMismatch: No axis of it varies.
    """
    if name not in batch:
        hint = did_you_mean(name, batch)
        raise NoSuchFeature(Where(), expected=f"one of the features {list(batch)}", found=repr(name), hint=hint)
    return ragged_rows(batch[name], name)


def _put(value: Any, **fields: Any) -> None:
    for name, field in fields.items():
        object.__setattr__(value, name, field)  # frozen: only this function sets attributes
