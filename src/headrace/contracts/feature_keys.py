"""The lists of a tf.Example that together hold one feature."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

__all__ = ["Partition", "RaggedKeys", "SparseKeys", "keys_from_json"]

Partition = Literal["row_splits", "row_lengths", "row_starts", "row_limits", "value_rowids", "uniform_row_length"]
PARTITIONS: tuple[str, ...] = get_args(Partition)
UNIFORM = "uniform_row_length"
MOST_CELLS = (1 << 63) - 1


@dataclass(frozen=True, slots=True, init=False)
class SparseKeys:
    """The lists of a tf.Example that hold a sparse feature: values, and their positions on each axis.

    TensorFlow calls this ``tf.io.SparseFeature``.

    Args:
        indices: The key of the positions; a list of keys for several axes.
        values: The key of the values.
        size: The number of positions; a list of lengths for several axes. Positions on several axes are flattened
            row by row, as ``numpy.ravel_multi_index`` does: the feature is a row of ``prod(size)`` cells.
        is_sorted: The positions in each record are sorted already.

    >>> SparseKeys(["row", "column"], "value", [3, 4]).shape
    (12,)
    """

    indices: tuple[str, ...]
    values: str
    size: tuple[int, ...]
    is_sorted: bool

    def __init__(
        self, indices: str | Sequence[str], values: str, size: int | Sequence[int], *, is_sorted: bool = False
    ) -> None:
        put = object.__setattr__
        put(self, "indices", (indices,) if isinstance(indices, str) else tuple(indices))
        put(self, "values", values)
        put(
            self,
            "size",
            (operator.index(size),) if not isinstance(size, Sequence) else tuple(map(operator.index, size)),
        )
        put(self, "is_sorted", is_sorted)
        if not self.indices or not all(isinstance(key, str) for key in (*self.indices, values)):
            raise TypeError(f"the keys of a sparse feature are strings, got {indices!r} and {values!r}")
        if len(set(self.keys)) != len(self.keys):
            raise ValueError(f"the keys of a sparse feature differ from each other, got {self.keys}")
        if len(self.size) != len(self.indices):
            raise ValueError(
                f"a sparse feature has one length for each index key, got {len(self.indices)} and {size!r}"
            )
        if min(self.size) < 1 or math.prod(self.size) > MOST_CELLS:
            raise ValueError(f"a sparse feature has from 1 to {MOST_CELLS} cells, got the size {self.size}")

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys that are read from a record: the values, then the positions."""
        return (self.values, *self.indices)

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Of the feature."""
        return (math.prod(self.size),)

    def to_json(self) -> dict[str, Any]:
        """A JSON object that :meth:`from_json` reads back."""
        out: dict[str, Any] = {"indices": list(self.indices), "values": self.values, "size": list(self.size)}
        return {**out, "is_sorted": True} if self.is_sorted else out

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> SparseKeys:
        """The keys that :meth:`to_json` wrote."""
        return cls(value["indices"], value["values"], value["size"], is_sorted=value.get("is_sorted", False))

    def __repr__(self) -> str:
        one = len(self.indices) == 1
        end = ", is_sorted=True" if self.is_sorted else ""
        indices, size = (self.indices[0], self.size[0]) if one else (list(self.indices), list(self.size))
        return f"SparseKeys({indices!r}, {self.values!r}, {size!r}{end})"


@dataclass(frozen=True, slots=True, init=False)
class RaggedKeys:
    """The lists of a tf.Example that hold nested rows: one flat list of values, and lists of numbers that divide it into rows.

    TensorFlow calls this ``tf.io.RaggedFeature``.

    Args:
        values: The key of the values.
        partitions: The division, from the outermost rows to the innermost: pairs of a kind and a key, such as
            ``("row_splits", "key")``. Kinds are ``row_splits``, ``row_lengths``, ``row_starts``, ``row_limits``,
            ``value_rowids``; ``("uniform_row_length", 3)`` needs no key.

    >>> RaggedKeys("v", [("row_splits", "s"), ("uniform_row_length", 2)]).shape
    (None, None, 2)
    """

    values: str
    partitions: tuple[tuple[Partition, str | int], ...]

    def __init__(self, values: str, partitions: Sequence[tuple[Partition, str | int]] = ()) -> None:
        put = object.__setattr__
        put(self, "values", values)
        put(self, "partitions", tuple(map(_parse_partition, partitions)))
        if not isinstance(values, str):
            raise TypeError(f"the key of the values is a string, got {values!r}")
        if len(set(self.keys)) != len(self.keys):
            raise ValueError(f"the keys of a ragged feature differ from each other, got {self.keys}")

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys that are read from a record: the values, then the partitions."""
        return (self.values, *(key for _, key in self.partitions if isinstance(key, str)))

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Of the feature."""
        return (None, *(length if isinstance(length, int) else None for _, length in self.partitions))

    def to_json(self) -> dict[str, Any]:
        """A JSON object that :meth:`from_json` reads back."""
        return {"values": self.values, "partitions": [list(partition) for partition in self.partitions]}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> RaggedKeys:
        """The keys that :meth:`to_json` wrote."""
        return cls(value["values"], value["partitions"])

    def __repr__(self) -> str:
        return f"RaggedKeys({self.values!r}, {list(self.partitions)!r})"


def _parse_partition(given: Any) -> tuple[Partition, str | int]:
    if isinstance(given, (str, bytes)) or not isinstance(given, Sequence) or len(given) != 2:
        raise TypeError(f"a partition is a pair such as ('row_splits', 'key'), got {given!r}")
    kind, key = given
    if kind not in PARTITIONS:
        raise ValueError(f"a partition is one of {PARTITIONS}, got {kind!r}")
    if kind == UNIFORM:
        if isinstance(key, bool) or not isinstance(key, int) or key < 1:
            raise ValueError(f"a uniform row length is an integer of at least 1, got {key!r}")
    elif not isinstance(key, str):
        raise TypeError(f"a partition by {kind} has a key, which is a string, got {key!r}")
    return kind, key


def keys_from_json(value: Mapping[str, Any] | None) -> SparseKeys | RaggedKeys | None:
    """The keys that ``to_json`` of either wrote."""
    if value is None:
        return None
    return SparseKeys.from_json(value) if "indices" in value else RaggedKeys.from_json(value)
