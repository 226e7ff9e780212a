"""One feature of tf.train.Examples: decoded values to a column, and a column to values for encoding."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.codecs.fit import fit_column
from headrace.codecs.values import fit_dtype, strings_of, texts_of, to_wire
from headrace.contracts.feature import Feature
from headrace.contracts.records import SPARSE_HINT
from headrace.contracts.schema import join_even
from headrace.contracts.strings import Strings
from headrace.contracts.values import Ragged
from headrace.errors import SchemaMismatch, UnsupportedData, Where

__all__ = ["CONTEXT", "FLOAT", "INT", "Column", "Encoded", "Part", "Spec", "column_of", "name_of"]


BYTES, FLOAT, INT, EITHER, TEXT = 1, 2, 3, 4, 5
WIRE_DTYPES = {FLOAT: "float32", INT: "int64", EITHER: "float64"}
CONTEXT = "context/"

Spec = tuple[str, int, int, bool, Any]
Encoded = tuple[str, int, int, bool, Any, Any, Any]
Part = tuple[Any, npt.NDArray[np.int64] | None, npt.NDArray[np.int64] | None]


def column_of(
    name: str, feature: Feature, *, is_list: bool, lists: frozenset[str], mixed: bool, key: str | None = None
) -> Column:
    """The column codec of a feature; ``key`` is its key in the records, if it differs from the name in the schema.

    Raises:
        UnsupportedData: Examples cannot hold such a feature.
        SchemaMismatch: The feature is a feature list, and its shape does not begin with the steps.
    """
    dtype, is_fixed = feature.numpy_dtype, feature.is_fixed
    kind = _kind(name, feature.dtype, dtype)
    if is_list and feature.shape[:1] != (None,):
        raise SchemaMismatch(
            Where(feature=name),
            expected="a shape that begins with None, for the steps of a feature list",
            found=repr(feature),
        )
    varying = feature.shape[1 + is_list :]
    if None in varying or feature.sparse or (not is_fixed and 0 in feature.shape):
        raise UnsupportedData(
            Where(feature=name),
            expected="a shape whose first axis may vary, and dense values",
            found=repr(feature),
            hint=_hint_for(name, feature),
        )
    if feature.default is not None and not is_fixed:
        raise UnsupportedData(
            Where(feature=name),
            expected="a default only with a fixed shape; a missing feature of varying length is empty",
            found=repr(feature),
        )
    if key is None:
        bare = name.removeprefix(CONTEXT)
        key = bare if not is_list and name.startswith(CONTEXT) and name_of(bare, lists) == name else name
    if mixed or (dtype == "float64" and _rounds(feature.default)):
        kind = EITHER  # which is stored as float64
    make = TextColumn if kind in (BYTES, TEXT) else NumberColumn
    return make(name, key, feature, kind, is_list=is_list, is_fixed=is_fixed)


def _hint_for(name: str, feature: Feature) -> str:
    if feature.sparse:
        return SPARSE_HINT
    flat = (
        "Examples hold flat lists: reshape after reading, with source.map or map_batch. SparseKeys and RaggedKeys name "
        "several lists that hold one feature."
    )
    if len(feature.shape) == 3 and feature.dtype in ("uint8", "uint16"):
        image = f"Feature({feature.dtype!r}, (None, None, 3), encoding='png')"
        return f"Store images as images: schema={{{name!r}: {image}}}. {flat}"
    return flat


def name_of(key: str, lists: frozenset[str]) -> str:
    """The name of a plain feature of records with these feature lists: ``context/KEY`` if a list has its name, or the name that it has then.

    >>> [name_of(key, frozenset({"a"})) for key in ("a", "b", "context/a", "context/b")]
    ['context/a', 'b', 'context/context/a', 'context/b']
    """
    bare = key
    while bare not in lists and bare.startswith(CONTEXT):
        bare = bare.removeprefix(CONTEXT)
    return CONTEXT + key if bare in lists else key


def _rounds(default: Any) -> bool:
    """Whether float32 does not hold a default."""
    if default is None:
        return False
    with np.errstate(over="ignore"):
        return not np.array_equal(np.asarray(default, np.float32), np.asarray(default, np.float64), equal_nan=True)


def _kind(name: str, dtype: str, stored: np.dtype[Any]) -> int:
    if dtype in ("bytes", "str"):
        return BYTES if dtype == "bytes" else TEXT
    if stored.kind in "iub":
        return INT
    if stored.kind == "f" and stored.itemsize <= 8:
        return FLOAT
    raise UnsupportedData(
        Where(feature=name),
        expected="bytes, text, integers or floats, as in every Example",
        found=dtype,
        hint="Store the array's bytes (tobytes) as a bytes feature, or write a .npy.",
    )


class Column(ABC):
    """Decodes and encodes one feature.

    Args:
        name, feature: From the schema.
        key: Its key in the records.
        kind: 1 bytes, 2 float32, 3 int64, 4 either number, 5 text.
        is_list: Whether it is a feature list of SequenceExamples.
        is_fixed: Whether the feature's shape is fixed.
    """

    def __init__(self, name: str, key: str, feature: Feature, kind: int, *, is_list: bool, is_fixed: bool) -> None:
        self.name = name
        self.feature = feature
        self.is_list = is_list
        inner = feature.shape[1:] if is_list or not is_fixed else feature.shape
        self.inner: tuple[int, ...] = tuple(int(n) for n in inner if n is not None)
        self.row: int = int(np.prod(self.inner, dtype=np.int64))
        self.count: int = -1 if None in inner or (not is_list and not is_fixed) else self.row
        self.spec: Spec = (key, kind, self.count, is_list, self._default(kind))
        self.specs: list[Spec] = [self.spec]
        is_one = feature.shape == () and not is_list
        is_text = kind in (BYTES, TEXT)
        self._is_stored = not is_text and feature.dtype == WIRE_DTYPES[kind]
        self.direct: bool = is_one and (is_text or self._is_stored)
        """Whether the decoded values are the column: one of the stored dtype in each record."""

    def _default(self, kind: int) -> Any:
        feature = self.feature
        if feature.default is None or self.count < 0 or self.is_list:
            return None
        if kind in (BYTES, TEXT):
            flat = np.broadcast_to(np.asarray(feature.default, object), self.inner).reshape(-1)
            return [text.encode() if isinstance(text, str) else text for text in flat]
        wire = {FLOAT: np.float32, INT: np.int64, EITHER: np.float64}[kind]
        return np.ascontiguousarray(np.broadcast_to(np.asarray(feature.default), self.inner).astype(wire)).tobytes()

    def values(self, parts: Sequence[Part], n: int) -> Any:
        """Build the column from decoded values.

        Raises:
            SchemaMismatch: A value does not fit the dtype, or values do not fill rows. The error names the first such record.
        """
        ((flat, steps, offsets),) = parts
        column = flat if self._is_stored else self._to_dtype(flat, self._starts(steps, offsets))
        if steps is None and offsets is None:
            return column.reshape((n, *self.feature.shape))
        if steps is None:
            return self._rows(column, _whole(offsets))
        if offsets is not None:
            return Ragged(self._rows(column, offsets), steps)
        return Ragged(column.reshape((-1, *self.inner)), steps)

    def _starts(self, steps: Any, offsets: Any) -> npt.NDArray[np.int64] | None:
        """Where each record's values begin; ``None`` if every record holds ``count``."""
        if steps is None:
            return offsets  # type: ignore[no-any-return]
        return steps * self.count if offsets is None else offsets[steps]  # type: ignore[no-any-return]

    @abstractmethod
    def _to_dtype(self, flat: Any, starts: Any, /) -> npt.NDArray[Any] | Strings:
        """Decoded values in the schema's dtype. Record ``i`` begins at ``starts[i]``, or at ``i * count``."""

    def _rows(self, flat: npt.NDArray[Any] | Strings, offsets: npt.NDArray[np.int64]) -> Ragged:
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

    def encoded(self, column: Any, n: int) -> list[Encoded]:
        """The input of native code: key, kind, count, is a list, flat values, step offsets, value offsets.

        Raises:
            SchemaMismatch, UnsupportedData: The column has the wrong shape, or values that an Example cannot hold.
        """
        key, kind, count, is_list, _ = self.spec
        kind = {EITHER: FLOAT, TEXT: BYTES}.get(kind, kind)
        rows, steps, offsets = self._arrange(self._array(column, n), n)
        return [(key, kind, count, is_list, self._wire(rows.reshape(-1)), steps, offsets)]

    def _arrange(self, column: Any, n: int) -> tuple[npt.NDArray[Any], Any, Any]:
        """Values, step offsets of feature lists, and value offsets if the count varies."""
        if self.feature.is_fixed:
            if isinstance(column, Ragged) or column.shape != (n, *self.feature.shape):
                raise self.misfit(column, n)
            return column, None, None
        if self.is_list and self.count < 0:
            steps, rest = self._cut(column, n)
            values, offsets = self._rows_of(rest, int(steps[-1]), column)
            return values, steps, _whole(offsets * self.row)
        values, offsets = self._rows_of(column, n, column)
        return (values, offsets, None) if self.is_list else (values, None, _whole(offsets * self.row))

    def _rows_of(self, column: Any, n: int, whole: Any) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
        """Values ``(total, *inner)`` and the ``n + 1`` offsets of rows in them."""
        offsets, values = self._cut(column, n)
        if isinstance(values, Ragged) or values.shape[1:] != self.inner:
            raise self.misfit(whole, n)
        return values, offsets

    def _cut(self, column: Any, n: int) -> tuple[npt.NDArray[np.int64], Any]:
        """The first varying axis: ``n + 1`` offsets, and the values that they split."""
        if isinstance(column, Ragged):
            if len(column) != n:
                raise self.misfit(column, n)
            return _whole(column.offsets), column.values
        if column.ndim < 2 or len(column) != n:
            raise self.misfit(column, n)
        length = column.shape[1]
        return np.arange(n + 1, dtype=np.int64) * length, column.reshape((n * length, *column.shape[2:]))

    def _array(self, column: Any, n: int) -> Any:
        if isinstance(column, Ragged):
            try:
                return join_even(column, self.feature.shape)
            except ValueError as error:
                fit_column(column, self.feature, self.name)  # which names the first row that does not fit
                raise self.misfit(column, n) from error
        if isinstance(column, Strings) and self.feature.is_text:
            return column
        try:  # as objects, because NumPy's text dtypes strip trailing zero bytes
            return np.asarray(column, object if self.feature.is_text else None)
        except ValueError as error:
            raise self.misfit(column, n) from error

    def misfit(self, column: Any, n: int) -> SchemaMismatch:
        """The error for a column whose shape does not match the feature's."""
        shape = getattr(column, "shape", None)
        found = repr(column) if shape is None else f"shape {shape}"
        expected = f"a column of shape {(n, *self.feature.shape)}"
        return SchemaMismatch(
            Where(feature=self.name), expected=expected, found=found if len(found) < 200 else "a list"
        )

    @abstractmethod
    def _wire(self, flat: Any, /) -> Any:
        """Values in the form that native code encodes."""


class NumberColumn(Column):
    """Integers or floats."""

    def _to_dtype(self, flat: Any, starts: Any) -> npt.NDArray[Any]:
        if flat.dtype == self.feature.dtype:
            return flat  # type: ignore[no-any-return]
        return fit_dtype(flat, self.feature.dtype, self.name, per_record=self.count, offsets=starts)

    def _wire(self, flat: Any) -> Any:
        return to_wire(flat, np.int64 if self.spec[1] == INT else np.float32, self.feature.dtype, self.name)


class TextColumn(Column):
    """Bytes or UTF-8 text."""

    def _to_dtype(self, flat: Any, starts: Any) -> Strings:
        def record_of(position: int) -> int:
            if starts is None:
                return position // self.count
            return int(np.searchsorted(starts, position, "right")) - 1

        return texts_of(flat, self.feature, self.name, record_of)

    def _wire(self, flat: Any) -> Any:
        per_record = self.count if self.count > 0 and not self.is_list else None
        strings = strings_of(flat, self.feature, self.name, lambda i: None if per_record is None else i // per_record)
        return strings.data, strings.offsets


def _whole(offsets: Any) -> npt.NDArray[np.int64]:
    return np.ascontiguousarray(offsets, np.int64)
