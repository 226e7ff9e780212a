"""One feature of tf.train.Examples: from decoded values to a column, and from a column to values to be encoded."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.codecs.numbers import fitted, stored
from penstock.contracts.feature import Feature
from penstock.contracts.values import Ragged
from penstock.errors import SchemaMismatch, UnsupportedData, Where

__all__ = ["Column", "column_of"]

BYTES, FLOAT, INT, EITHER = 1, 2, 3, 4
CONTEXT = "context/"

Part = tuple[Any, npt.NDArray[np.int64] | None, npt.NDArray[np.int64] | None]


def column_of(name: str, feature: Feature, *, is_list: bool, lists: frozenset[str], mixed: bool) -> Column:
    """What decodes and encodes one feature.

    Raises:
        UnsupportedData: Examples cannot hold such a feature.
    """
    kind = _kind(name, feature)
    if None in feature.shape[1 + is_list :] or feature.sparse:
        raise UnsupportedData(
            Where(feature=name),
            expected="a shape whose first axis may vary, and dense values",
            found=repr(feature),
            hint="Examples hold flat lists: reshape after reading, with source.map or map_batch.",
        )
    bare = name.removeprefix(CONTEXT)
    key = bare if not is_list and name.startswith(CONTEXT) and bare in lists else name
    make = TextColumn if kind == BYTES else NumberColumn
    return make(name, key, feature, EITHER if mixed else kind, is_list=is_list)


def _kind(name: str, feature: Feature) -> int:
    if feature.is_text:
        return BYTES
    kind = np.dtype(feature.dtype).kind
    if kind in "iub":
        return INT
    if kind == "f" and feature.numpy_dtype.itemsize <= 8:
        return FLOAT
    raise UnsupportedData(
        Where(feature=name),
        expected="bytes, text, whole numbers or floats, which is what an Example holds",
        found=feature.dtype,
        hint="Store the array's bytes (tobytes) as a bytes feature, or write a .npy.",
    )


class Column(ABC):
    """One feature in decoding and encoding.

    Args:
        name, feature: Of the schema.
        key: What the records call it.
        kind: 1 bytes, 2 float32, 3 int64.
        is_list: Whether it is a feature list of SequenceExamples.
    """

    def __init__(self, name: str, key: str, feature: Feature, kind: int, *, is_list: bool) -> None:
        self.name = name
        self.feature = feature
        self.is_list = is_list
        inner = feature.shape[1:] if is_list or not feature.is_fixed else feature.shape
        self.inner = tuple(int(n) for n in inner if n is not None)
        self.row = int(np.prod(self.inner, dtype=np.int64))
        self.count = -1 if None in inner or (not is_list and not feature.is_fixed) else self.row
        self.spec: tuple[str, int, int, bool, Any] = (key, kind, self.count, is_list, self._default(kind))

    def _default(self, kind: int) -> Any:
        feature = self.feature
        if feature.default is None or self.is_list or not feature.is_fixed:
            return None
        if kind == BYTES:
            flat = np.broadcast_to(np.asarray(feature.default, object), self.inner).reshape(-1)
            return [text.encode() if isinstance(text, str) else text for text in flat]
        wire = {FLOAT: np.float32, INT: np.int64, EITHER: np.float64}[kind]
        return np.ascontiguousarray(np.broadcast_to(np.asarray(feature.default), self.inner).astype(wire)).tobytes()

    def values(self, part: Part, n: int) -> Any:
        """The column that decoded values make."""
        flat, steps, offsets = part
        column = self._typed(flat, steps, offsets)
        if steps is None and offsets is None:
            return column.reshape((n, *self.feature.shape))
        if steps is None:
            return self._rows(column, _whole(offsets))
        if offsets is not None:
            return Ragged(self._rows(column, offsets), steps)
        return Ragged(column.reshape((-1, *self.inner)), steps)

    @abstractmethod
    def _typed(self, flat: Any, steps: Any, offsets: Any, /) -> npt.NDArray[Any]:
        """Decoded values under the schema's dtype."""

    def _rows(self, flat: npt.NDArray[Any], offsets: npt.NDArray[np.int64]) -> Ragged:
        if self.row == 1 and not self.inner:
            return Ragged(flat, offsets)
        rows, rest = np.divmod(offsets, self.row)
        bad = np.flatnonzero(rest)
        if len(bad):
            position = int(bad[0]) - 1
            count = int(offsets[position + 1] - offsets[position])
            raise SchemaMismatch(
                Where(record=position, feature=self.name), expected=f"a multiple of {self.row} values", found=str(count)
            )
        return Ragged(flat.reshape((-1, *self.inner)), rows)

    def encoded(self, column: Any, n: int) -> tuple[str, int, int, bool, Any, Any, Any]:
        """What native code encodes: key, kind, count, is a list, flat values, step offsets, value offsets."""
        key, kind, count, is_list, _ = self.spec
        kind = FLOAT if kind == EITHER else kind
        flat, outer, inner = self._flattened(column, n)
        if is_list:
            steps = outer if outer is not None else np.arange(n + 1, dtype=np.int64)
            return key, kind, count, True, self._wire(flat), _whole(steps), inner if count < 0 else None
        if count < 0:
            rows = np.arange(n + 1, dtype=np.int64) * (len(flat) // max(n, 1)) if outer is None else outer * self.row
            return key, kind, -1, False, self._wire(flat), None, _whole(rows)
        return key, kind, count, False, self._wire(flat), None, None

    def _flattened(self, column: Any, n: int) -> tuple[npt.NDArray[Any], Any, Any]:
        """Values in one dimension, with the offsets of the first and, for rows of rows, of the second varying axis."""
        if not isinstance(column, Ragged):
            array = np.asarray(column)
            if self.feature.is_fixed and array.shape != (n, *self.feature.shape):
                raise self._misshapen(array.shape, n)
            return array.reshape(-1), None, None
        if isinstance(column.values, Ragged):
            return (
                np.asarray(column.values.values).reshape(-1),
                column.offsets,
                _whole(column.values.offsets) * max(self.row, 1),
            )
        if self.feature.is_fixed:
            raise SchemaMismatch(
                Where(feature=self.name),
                expected=f"rows of shape {self.feature.shape}",
                found="rows of different lengths",
            )
        return np.asarray(column.values).reshape(-1), column.offsets, None

    def _misshapen(self, shape: tuple[int, ...], n: int) -> SchemaMismatch:
        return SchemaMismatch(
            Where(feature=self.name), expected=f"a column of shape {(n, *self.feature.shape)}", found=f"shape {shape}"
        )

    @abstractmethod
    def _wire(self, flat: npt.NDArray[Any], /) -> Any:
        """Values as native code encodes them."""


class NumberColumn(Column):
    """Whole numbers or floats."""

    def _typed(self, flat: Any, steps: Any, offsets: Any) -> npt.NDArray[Any]:
        return fitted(
            flat, self.feature.dtype, self.name, per_record=self.count if steps is None else 0, offsets=offsets
        )

    def _wire(self, flat: npt.NDArray[Any]) -> Any:
        return stored(flat, np.int64 if self.spec[1] == INT else np.float32, self.feature.dtype, self.name)


class TextColumn(Column):
    """Bytes or UTF-8 text."""

    def _typed(self, flat: Any, steps: Any, offsets: Any) -> npt.NDArray[Any]:
        column = np.empty(len(flat), object)
        column[:] = flat if self.feature.dtype == "bytes" else self._decoded(flat, steps, offsets)
        return column

    def _decoded(self, flat: list[bytes], steps: Any, offsets: Any) -> list[str]:
        try:
            return [text.decode() for text in flat]
        except UnicodeDecodeError as error:
            position = next(i for i, text in enumerate(flat) if not _is_utf8(text))
            record = _record_of(position, steps, offsets, self.count)
            raise SchemaMismatch(
                Where(record=record, feature=self.name),
                expected="UTF-8 text",
                found=f"the bytes {flat[position][:16]!r}",
                hint=f"Open with a schema in which {self.name!r} is Feature('bytes').",
            ) from error

    def _wire(self, flat: npt.NDArray[Any]) -> Any:
        return [self._bytes_of(value, i) for i, value in enumerate(flat.tolist())]

    def _bytes_of(self, value: Any, position: int) -> bytes:
        if isinstance(value, bytes):
            return value
        if isinstance(value, str):
            return value.encode()
        raise SchemaMismatch(
            Where(record=position // max(self.count, 1) if self.count > 0 else None, feature=self.name),
            expected=self.feature.dtype,
            found=type(value).__name__,
        )


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _record_of(position: int, steps: Any, offsets: Any, count: int) -> int:
    """Which record a flat position belongs to."""
    if offsets is not None:
        position = int(np.searchsorted(offsets, position, side="right")) - 1
    elif steps is not None or count > 1:
        position //= max(count, 1)
    return position if steps is None else int(np.searchsorted(steps, position, side="right")) - 1


def _whole(offsets: Any) -> npt.NDArray[np.int64]:
    return np.ascontiguousarray(offsets, np.int64)
