"""The base of feature classes: the type of a value, and how it is stored in an Example, decoded and encoded.

Source: the layout of what TensorFlow Datasets writes (its ``feature.proto`` and ``features.json``).
"""

from __future__ import annotations

import json
import operator
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from headrace.contracts.strings import Strings
from headrace.errors import SchemaMismatch, UnsupportedData, Where

__all__ = [
    "BYTES",
    "DatasetFeature",
    "DtypeLike",
    "LeafFeature",
    "Level",
    "Shape",
    "Stored",
    "check_shape",
    "declared_dtype",
    "shape_json",
]

Shape = tuple[int | None, ...]
Level = int | None
"""The length of a sequence; ``None`` if it varies."""
DtypeLike = str | type | np.dtype[Any]

BYTES = "bytes"
MODULE = "tensorflow_datasets.core.features."
_NAMES_OF_BYTES = frozenset(("string", "bytes", "object", "str", "tf.string"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The type of a value in an Example.

    Args:
        dtype: ``"bytes"``, or the NumPy dtype of the stored numbers.
        shape: Shape of a value; at most one axis varies.
    """

    dtype: str
    shape: Shape = ()


class DatasetFeature(ABC):
    """The type of a value of a dataset, or of several named values.

    Args:
        description: Its meaning, as text.
        value_range: The range of its values, as text.
    """

    class_name: ClassVar[str]
    """Name of the class in ``features.json``, below ``tensorflow_datasets.core.features``."""

    def __init__(self, *, description: str = "", value_range: str = "") -> None:
        self.description = description
        self.value_range = value_range

    @property
    @abstractmethod
    def shape(self) -> Any:
        """Axis lengths of a decoded value, ``None`` for varying axes; for named features a dict of shapes."""

    @property
    @abstractmethod
    def dtype(self) -> Any:
        """NumPy dtype of a decoded value (``object`` for bytes); for named features a dict of dtypes."""

    @abstractmethod
    def leaves(self, key: str, levels: tuple[Level, ...]) -> Iterator[tuple[str, LeafFeature, tuple[Level, ...]]]:
        """Iterate over the features that hold values: key in an Example, feature, lengths of the containing sequences."""

    @abstractmethod
    def encode_example(self, value: Any) -> Any:
        """Convert a value to its stored form: numbers, bytes, or dicts and lists of them.

        Raises:
            SchemaMismatch: The value does not match the feature.
        """

    @abstractmethod
    def content(self) -> tuple[str, dict[str, Any]]:
        """The field of the ``Feature`` message with the parameters, and its content."""

    def to_json(self) -> dict[str, Any]:
        """The ``Feature`` message for ``features.json``."""
        field, content = self.content()
        out: dict[str, Any] = {"pythonClassName": MODULE + self.class_name, field: content}
        if self.description:
            out["description"] = self.description
        if self.value_range:
            out["valueRange"] = self.value_range
        return out

    def label_files(self, key: str) -> Iterator[tuple[str, Any]]:  # noqa: ARG002 - most have none
        """Names of the ``.labels.txt`` files of this feature, and the feature that each belongs to."""
        return iter(())

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> str:
        return json.dumps(self.to_json(), sort_keys=True)


class LeafFeature(DatasetFeature):
    """A feature with one value in each example."""

    optional = False
    """Whether examples may lack the value, which is then ``None``."""

    def __init__(
        self, *, shape: Sequence[int | None], dtype: DtypeLike, description: str = "", value_range: str = ""
    ) -> None:
        super().__init__(description=description, value_range=value_range)
        self._shape = check_shape(shape)
        self.declared_dtype: str = declared_dtype(dtype)

    @property
    def shape(self) -> Shape:
        return self._shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(object if self.value_dtype == BYTES else self.value_dtype)

    @property
    def np_dtype(self) -> np.dtype[Any]:
        """TFDS's name for :attr:`dtype`."""
        return self.dtype

    @property
    def value_dtype(self) -> str:
        """``"bytes"``, or the name of the NumPy dtype of decoded values.

        ``bfloat16``, which NumPy lacks, becomes ``float32`` without loss.
        """
        return "float32" if self.declared_dtype == "bfloat16" else self.declared_dtype

    @property
    def value_shape(self) -> Shape:
        """The shape of decoded values."""
        return self._shape

    @property
    def schema_options(self) -> dict[str, Any]:
        """Arguments of a schema's :class:`~headrace.Feature` besides dtype and shape."""
        return {}

    @property
    @abstractmethod
    def stored(self) -> dict[str, Stored]:
        """The stored values, by the suffix of their keys (``""`` for a single value)."""

    @abstractmethod
    def decode(self, parts: list[Any]) -> Any:
        """Decode ``n`` values at once.

        Args:
            parts: A column of ``n`` stored values for each entry of :attr:`stored`, in its order.

        Returns:
            ``ndarray (n, *shape)``, or a list of ``n`` arrays if their shapes differ.
        """

    @property
    def varies(self) -> bool:
        """Whether decoded values may differ in shape beyond what :class:`~headrace.Ragged` can hold."""
        return None in self.value_shape[1:]

    def leaves(self, key: str, levels: tuple[Level, ...]) -> Iterator[tuple[str, LeafFeature, tuple[Level, ...]]]:
        yield key, self, levels

    def misfit(self, found: str, *, record: int | None = None, expected: str = "") -> SchemaMismatch:
        """The error for a value that does not match the feature."""
        return SchemaMismatch(Where(record=record), expected=expected or f"a value for {self!r}", found=found)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in self._parameters().items())})"

    def _parameters(self) -> Mapping[str, Any]:
        return {"shape": self.shape, "dtype": self.declared_dtype}


def check_shape(shape: Sequence[int | None]) -> Shape:
    """Convert axis lengths to a tuple, ``None`` for varying axes.

    Raises:
        TypeError: A length is not an integer.
        ValueError: A length is negative.
    """
    checked = tuple(None if length is None else operator.index(length) for length in shape)
    if any(length is not None and length < 0 for length in checked):
        raise ValueError(f"axis lengths are 0 or more (None where they vary), got {tuple(shape)}")
    return checked


def declared_dtype(dtype: DtypeLike) -> str:
    """The name of a dtype in features: ``"bytes"`` for bytes and text.

    Raises:
        UnsupportedData: The dtype is not supported.
    """
    name = dtype if isinstance(dtype, str) else None
    if dtype in (bytes, str, object) or name in _NAMES_OF_BYTES:
        return BYTES
    if name is not None and name.removeprefix("tf.") == "bfloat16":
        return "bfloat16"
    try:
        known = np.dtype(name.removeprefix("tf.") if name is not None else dtype)
    except (TypeError, ValueError, SyntaxError):  # NumPy would also parse names such as "2i4"
        known = np.dtype(object)
    if known.kind in "SU":
        return BYTES
    if known.kind not in "biufc":
        raise UnsupportedData(Where(), expected="a NumPy dtype, 'string' or 'bfloat16'", found=repr(dtype))
    return known.name


def dtype_json(dtype: str) -> str:
    """The name of a declared dtype in ``features.json``."""
    return "string" if dtype == BYTES else dtype


def shape_json(shape: Shape) -> dict[str, Any]:
    """Make a ``Shape`` message, in which integers are text, and varying lengths are -1."""
    return {"dimensions": [str(-1 if length is None else length) for length in shape]} if shape else {}


def as_cells(column: Any) -> npt.NDArray[Any]:
    """Convert a list of values to a one-dimensional object array."""
    if isinstance(column, (np.ndarray, Strings)):
        return np.asarray(column)
    cells = np.empty(len(column), object)
    for position, value in enumerate(column):
        cells[position] = value
    return cells


def stack_or_list(values: Sequence[npt.NDArray[Any]], shape: Shape, dtype: str) -> Any:
    """Stack values of equal shape; return others as a list."""
    if len(values) == 0:
        return np.zeros((0, *(length or 0 for length in shape)), object if dtype == BYTES else dtype)
    if all(value.shape == values[0].shape for value in values):
        return np.stack(values)
    return list(values)
