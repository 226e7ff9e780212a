"""One feature of SageMaker Records: decoded values to a column and back, its place in the Record, and its name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace import _optional
from headrace.codecs.values import fit_dtype, nest, offsets_of, strings_of, texts_of, to_exact, unnest
from headrace.contracts.feature import Feature
from headrace.contracts.strings import Strings
from headrace.contracts.values import Ragged
from headrace.errors import SchemaMismatch, UnsupportedData, Where

__all__ = [
    "BYTES",
    "CONFIGURATION",
    "FEATURE",
    "FLOAT32",
    "FLOAT64",
    "INT32",
    "LABEL",
    "METADATA",
    "NOTHING",
    "UID",
    "VALUES",
    "Place",
    "RecordColumn",
    "column_of",
    "names_of",
    "place_of",
]


FEATURE, LABEL, UID, METADATA, CONFIGURATION = range(1, 6)
STRINGS = {"uid": UID, "metadata": METADATA, "configuration": CONFIGURATION}
LABEL_NAME = "label"
CLASH = "feature_"


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a feature in a Record.

    Args:
        field: 1 the map of features, 2 the map of labels, 3 uid, 4 metadata, 5 configuration.
        key: Its key in the map.
    """

    field: int
    key: bytes = b""


VALUES = Place(FEATURE, b"values")
"""The place of the feature vector in the SDK's writers."""


def names_of(places: Iterable[Place]) -> dict[str, Place]:
    """The names of places: features by their key, the label ``values`` as ``label``, other labels as ``label_KEY``, strings by
    their field name. A feature key that collides with another name is called ``feature_KEY``.

    >>> places = [Place(LABEL, b"score"), Place(LABEL, b"values"), Place(FEATURE, b"values"), Place(UID)]
    >>> list(names_of(places))
    ['values', 'label', 'label_score', 'uid']
    """
    ordered = sorted(places, key=lambda place: (place.field, place.key != VALUES.key, place.key))
    others = {_name(place): place for place in ordered if place.field != FEATURE}
    names: dict[str, Place] = {}
    for place in ordered:
        name = _name(place)
        while name in names or (place.field == FEATURE and name in others):
            name = CLASH + name
        names[name] = place
    return names


def _name(place: Place) -> str:
    for name, field in STRINGS.items():
        if place.field == field:
            return name
    key = place.key.decode(errors="surrogateescape")
    if place.field == FEATURE:
        return key
    return LABEL_NAME if place.key == VALUES.key else f"{LABEL_NAME}_{key}"


def place_of(name: str) -> Place:
    """The place of a name when nothing else is known."""
    if name in STRINGS:
        return Place(STRINGS[name])
    if name == LABEL_NAME:
        return Place(LABEL, VALUES.key)
    if name.startswith(LABEL_NAME + "_"):
        return Place(LABEL, name.removeprefix(LABEL_NAME + "_").encode(errors="surrogateescape"))
    return Place(FEATURE, name.encode(errors="surrogateescape"))


NOTHING, FLOAT32, FLOAT64, INT32, BYTES = range(5)
FIXED, VARYING, SPARSE, TEXT = range(4)
WIRE: dict[int, np.dtype[Any]] = {
    FLOAT32: np.dtype(np.float32),
    FLOAT64: np.dtype(np.float64),
    INT32: np.dtype(np.int32),
}

Offsets = npt.NDArray[np.int64]
Part = tuple[Any, Offsets | None, Any, int, Offsets | None, Offsets | None]
Spec = tuple[int, bytes, int, int, int, tuple[int, ...], bool]
Encodable = tuple[int, bytes, int, int, Any, Any, Any, int, tuple[int, ...], Any]


def column_of(name: str, feature: Feature, place: Place, kind: int | None) -> RecordColumn:
    """The column codec of one feature.

    Args:
        name: The name of the feature.
        feature: Its type.
        place: Its place in the Record.
        kind: The tensor type found in the records; ``None``: the best match for the dtype.

    Raises:
        UnsupportedData: A Record cannot hold such a feature.
    """
    _check_default(name, feature)
    if place.field > LABEL:
        if not feature.is_text or feature.shape:
            raise _cannot_hold(name, feature, "one text, Feature('str')")
        return StringColumn(name, feature, place, NOTHING)
    if feature.is_text:
        return BytesColumn(name, feature, place, BYTES)
    own = _own_kind(name, feature)
    kind = kind if _suits(kind, own, feature) else own
    return (CsrColumn if feature.sparse else TensorColumn)(name, feature, place, kind or own)


def _check_default(name: str, feature: Feature) -> None:
    if feature.default is None:
        return
    expected = ""
    if feature.sparse:
        expected = "the default 0 for a sparse feature, which makes an empty row" if np.any(feature.default) else ""
    elif not feature.is_fixed:
        expected = "a default only with a fixed shape; a missing feature of varying length is empty"
    if expected:
        raise UnsupportedData(Where(feature=name), expected=expected, found=repr(feature))


def _own_kind(name: str, feature: Feature) -> int:
    dtype = feature.numpy_dtype
    if dtype == np.float64:
        return FLOAT64
    if dtype.kind == "f" and dtype.itemsize <= 4:
        return FLOAT32
    if dtype.kind in "iub":
        return INT32
    raise _cannot_hold(name, feature, "float32, float64, integers, bytes or text")


def _suits(kind: int | None, own: int, feature: Feature) -> bool:
    """Whether values of a kind convert to the schema's dtype: floats to any floats, integers only to a dtype that holds them all."""
    if kind in (FLOAT32, FLOAT64):
        return own != INT32
    return kind == INT32 and (own == INT32 or feature.dtype == "float64")


def _cannot_hold(name: str, feature: Feature, expected: str) -> UnsupportedData:
    return UnsupportedData(Where(feature=name), expected=f"{expected}, as in every Record", found=repr(feature))


class RecordColumn(ABC):
    """Decodes and encodes one feature.

    Args:
        name: The name of the feature.
        feature: Its type.
        place: Its place in the Record.
        kind: The tensor type: 0 a plain string, 1 float32, 2 float64, 3 int32, 4 bytes.
    """

    def __init__(self, name: str, feature: Feature, place: Place, kind: int) -> None:
        self.name = name
        self.feature = feature
        self.place = place
        self.kind = kind

    @property
    def spec(self) -> Spec:
        """The spec for the native decoder."""
        axes = tuple(-1 if length is None else length for length in self.feature.shape)
        required = self._layout != VARYING and self.feature.default is None
        return self.place.field, self.place.key, self.kind, self._layout, self._count, axes, required

    @property
    @abstractmethod
    def _layout(self) -> int:
        """0 fixed number of values, 1 any number, 2 sparse, 3 string."""

    @property
    @abstractmethod
    def _count(self) -> int:
        """Values per record (for a sparse column, its width); -1 if varying."""

    @abstractmethod
    def values(self, part: Part, n: int, /) -> Any:
        """Build the column from decoded values."""

    def encoded(self, column: Any, n: int) -> Encodable:
        """The input of native code: place, key, kind, count, offsets, flat values, keys, width, shape, shapes.

        Raises:
            SchemaMismatch, UnsupportedData: The column does not match the feature, or encoding would lose information.
        """
        return self.place.field, self.place.key, self.kind, *self._content(column, n)

    @abstractmethod
    def _content(self, column: Any, n: int, /) -> tuple[int, Any, Any, Any, int, tuple[int, ...], Any]: ...

    def _check(self, shape: tuple[int, ...], n: int) -> None:
        wanted = self.feature.shape
        fits = len(shape) == 1 + len(wanted) and shape[0] == n
        if not fits or any(a not in (None, b) for a, b in zip(wanted, shape[1:], strict=True)):
            raise SchemaMismatch(
                Where(feature=self.name), expected=f"a column of shape {(n, *wanted)}", found=f"shape {shape}"
            )


class DenseColumn(RecordColumn):
    """A dense tensor, or text."""

    @property
    def _layout(self) -> int:
        return FIXED if self.feature.is_fixed else VARYING

    @property
    def _count(self) -> int:
        return self.feature.count

    def values(self, part: Part, n: int) -> Any:
        """``ndarray (n, *shape)``, or rows if a length varies."""
        flat, offsets, _, _, shapes, absent = part
        column = self._to_dtype(flat, offsets)
        try:
            return self._shaped(column, offsets, shapes, absent, n)
        except ValueError as error:  # axes without values may have any length in a Record, but not in an array
            where = Where(record=0, feature=self.name)
            raise SchemaMismatch(where, expected="axes that an array can have", found=repr(self.feature)) from error

    def _shaped(self, column: Any, offsets: Offsets | None, shapes: Any, absent: Offsets | None, n: int) -> Any:
        if offsets is not None and shapes is None:
            return Ragged(column, offsets) if len(self.feature.shape) == 1 else self._empty(column)
        if offsets is not None and shapes is not None:
            return nest(column, shapes.reshape(n, -1), self.feature.shape)
        column = column.reshape((n, *(length or 0 for length in self.feature.shape)))
        return column if absent is None else self._fill(column, absent)

    @abstractmethod
    def _fill(self, column: Any, absent: Offsets, /) -> Any:
        """The column with the default in these rows."""

    def _empty(self, column: Any) -> Ragged:
        """The column of zero records."""
        return nest(column, np.zeros((0, len(self.feature.shape)), np.int64), self.feature.shape)

    @abstractmethod
    def _to_dtype(self, flat: Any, offsets: Offsets | None, /) -> Any:
        """Decoded values in the schema's dtype."""

    def _content(self, column: Any, n: int) -> tuple[int, Any, Any, Any, int, tuple[int, ...], Any]:
        if isinstance(column, Ragged):
            flat, shapes = unnest(column, self.feature.shape, self.name)
            if len(shapes) != n:
                raise SchemaMismatch(Where(feature=self.name), expected=f"{n} rows", found=str(len(shapes)))
            axes = np.ascontiguousarray(shapes) if len(self.feature.shape) > 1 else None
            return -1, offsets_of(shapes.prod(axis=1)), self._wire(flat), None, 0, (), axes
        is_text = self.feature.is_text
        try:
            array = (
                column if is_text and isinstance(column, Strings) else np.asarray(column, object if is_text else None)
            )
        except ValueError as error:
            wanted = f"a column of shape {(n, *self.feature.shape)}"
            raise SchemaMismatch(Where(feature=self.name), expected=wanted, found="rows of other shapes") from error
        self._check(array.shape, n)
        shape = array.shape[1:]
        count = int(np.prod(shape, dtype=np.int64))
        return count, None, self._wire(array.reshape(-1)), None, 0, self._written(shape), None

    def _written(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape to store. A flat tensor needs none, except a single value, which would read back as a scalar."""
        return () if len(shape) < 2 and (shape != (1,) or self.place == VALUES) else shape

    @abstractmethod
    def _wire(self, flat: Any, /) -> Any:
        """Values in the form that native code encodes."""


class TensorColumn(DenseColumn):
    """A dense tensor of numbers."""

    def _to_dtype(self, flat: Any, offsets: Offsets | None) -> npt.NDArray[Any]:
        return fit_dtype(flat, self.feature.dtype, self.name, per_record=self._count, offsets=offsets)

    def _fill(self, column: npt.NDArray[Any], absent: Offsets) -> npt.NDArray[Any]:
        column[absent] = np.asarray(self.feature.default, column.dtype)
        return column

    def _wire(self, flat: Any) -> Any:
        return to_exact(flat, WIRE[self.kind], self.feature.dtype, self.name, per_record=self._count)


class CsrColumn(RecordColumn):
    """A sparse tensor: rows of a CSR matrix."""

    _layout = SPARSE

    @property
    def _count(self) -> int:
        width = self.feature.shape[0]
        return -1 if width is None else width

    def values(self, part: Part, n: int) -> Any:
        """``scipy.sparse.csr_array (n, width)``. Keys stay in the order of the record, and repeated ones are not merged."""
        flat, offsets, keys, width, _, _ = part
        assert offsets is not None
        sparse = _optional.require("scipy.sparse", extra="sklearn")
        data = fit_dtype(flat, self.feature.dtype, self.name, per_record=0, offsets=offsets)
        if keys.dtype == np.int32 and len(keys) <= np.iinfo(np.int32).max:
            offsets = offsets.astype(np.int32)  # SciPy wants both of one dtype, and is slow to find it
        return sparse.csr_array((data, keys, offsets), shape=(n, width))

    def _content(self, column: Any, n: int) -> tuple[int, Any, Any, Any, int, tuple[int, ...], Any]:
        sparse = _optional.require("scipy.sparse", extra="sklearn")
        rows = column.tocsr() if sparse.issparse(column) else sparse.csr_array(column)
        self._check(rows.shape, n)
        offsets = np.ascontiguousarray(rows.indptr, np.int64)
        used = int(offsets[-1])
        data = to_exact(rows.data[:used], WIRE[self.kind], self.feature.dtype, self.name, per_record=0)
        return -1, offsets, data, np.ascontiguousarray(rows.indices[:used]), rows.shape[1], (), None


class BytesColumn(DenseColumn):
    """A Bytes value: text, images, or any bytes."""

    def _to_dtype(self, flat: Any, offsets: Offsets | None) -> Strings:
        def record_of(position: int) -> int:
            if offsets is None:
                return position // max(self._count, 1)
            return int(np.searchsorted(offsets, position, side="right")) - 1

        return texts_of(flat, self.feature, self.name, record_of)

    def _fill(self, column: Strings, absent: Offsets) -> Strings:
        default = np.broadcast_to(np.asarray(self.feature.default, object), (1, *column.shape[1:]))
        rows = np.arange(len(column))
        rows[absent] = len(column)
        filling = Strings.from_values(default, is_text=column.is_text)
        return Strings.concatenate([column, filling]).take(rows)

    def _wire(self, flat: Any) -> Any:
        count = self._count
        strings = strings_of(flat, self.feature, self.name, lambda i: i // count if count > 0 else None)
        return strings.data, strings.offsets


class StringColumn(BytesColumn):
    """One of the strings of a Record: uid, metadata or configuration."""

    _layout = TEXT
