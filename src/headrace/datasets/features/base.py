"""What every class of feature is: a value's type, how an Example stores it, how it is decoded and encoded.

Source: the layout of what TensorFlow Datasets writes (its ``feature.proto`` and ``features.json``).
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

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
"""The length of a sequence: ``None`` where it varies."""
DtypeLike = str | type | np.dtype[Any]

BYTES = "bytes"
MODULE = "tensorflow_datasets.core.features."
_NAMES_OF_BYTES = frozenset(("string", "bytes", "object", "str", "tf.string"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """One value as an Example holds it.

    Args:
        dtype: ``"bytes"``, or the NumPy dtype that the stored numbers are read as.
        shape: Of one value; at most one axis varies.
    """

    dtype: str
    shape: Shape = ()


class DatasetFeature(ABC):
    """The type of one value of a dataset, or of several with names.

    Args:
        description: What it means, in words.
        value_range: What values it may have, in words.
    """

    class_name: ClassVar[str]
    """What ``features.json`` calls the class, below ``tensorflow_datasets.core.features``."""

    def __init__(self, *, description: str = "", value_range: str = "") -> None:
        self.description = description
        self.value_range = value_range

    @property
    @abstractmethod
    def shape(self) -> Any:
        """Axis lengths of a decoded value, ``None`` where they vary; of named features a dict of shapes."""

    @property
    @abstractmethod
    def dtype(self) -> Any:
        """NumPy dtype of a decoded value (``object`` for bytes); of named features a dict of dtypes."""

    @abstractmethod
    def leaves(self, key: str, levels: tuple[Level, ...]) -> Iterator[tuple[str, LeafFeature, tuple[Level, ...]]]:
        """The features with values of their own: key in an Example, feature, lengths of the sequences round it."""

    @abstractmethod
    def encode_example(self, value: Any) -> Any:
        """A value as it is to be stored: numbers, bytes, or dicts and lists of them.

        Raises:
            SchemaMismatch: It is no such value.
        """

    @abstractmethod
    def content(self) -> tuple[str, dict[str, Any]]:
        """The field of the ``Feature`` message that tells the parameters, and its content."""

    def to_json(self) -> dict[str, Any]:
        """The ``Feature`` message as ``features.json`` holds it: TFDS reads it back."""
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
    """Whether an example may lack it; the value is ``None`` then."""

    def __init__(
        self, *, shape: Sequence[int | None], dtype: DtypeLike, description: str = "", value_range: str = ""
    ) -> None:
        super().__init__(description=description, value_range=value_range)
        self._shape = check_shape(shape)
        self.declared_dtype = declared_dtype(dtype)

    @property
    def shape(self) -> Shape:
        return self._shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(object if self.value_dtype == BYTES else self.value_dtype)

    @property
    def np_dtype(self) -> np.dtype[Any]:
        """The same as :attr:`dtype`, under the name that TFDS gives it."""
        return self.dtype

    @property
    def value_dtype(self) -> str:
        """``"bytes"``, or the name of the NumPy dtype of decoded values.

        ``bfloat16``, which NumPy does not have, is given as ``float32``: every value is kept exactly.
        """
        return "float32" if self.declared_dtype == "bfloat16" else self.declared_dtype

    @property
    def value_shape(self) -> Shape:
        """The shape of what :meth:`decode` gives."""
        return self._shape

    @property
    def schema_options(self) -> dict[str, Any]:
        """What a :class:`~headrace.Feature` of a schema says of it besides dtype and shape."""
        return {}

    @property
    @abstractmethod
    def stored(self) -> dict[str, Stored]:
        """What an Example holds of it, by what is put behind its key (``""`` where there is one value)."""

    @abstractmethod
    def decode(self, parts: list[Any]) -> Any:
        """Decode ``n`` values at once.

        Args:
            parts: A column of ``n`` stored values for each entry of :attr:`stored`, in its order.

        Returns:
            ``ndarray (n, *shape)``, or a list of ``n`` arrays where shapes differ.
        """

    @property
    def varies(self) -> bool:
        """Whether decoded values may differ in shape in a way that no :class:`~headrace.Ragged` tells."""
        return None in self.value_shape[1:]

    def leaves(self, key: str, levels: tuple[Level, ...]) -> Iterator[tuple[str, LeafFeature, tuple[Level, ...]]]:
        yield key, self, levels

    def misfit(self, found: str, *, record: int | None = None, expected: str = "") -> SchemaMismatch:
        """The error for a value that is not what the feature says."""
        return SchemaMismatch(Where(record=record), expected=expected or f"a value for {self!r}", found=found)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in self._parameters().items())})"

    def _parameters(self) -> Mapping[str, Any]:
        return {"shape": self.shape, "dtype": self.declared_dtype}


def check_shape(shape: Sequence[int | None]) -> Shape:
    """Axis lengths as a tuple, ``None`` where they vary.

    Raises:
        ValueError: A length is negative.
    """
    checked = tuple(None if length is None else int(length) for length in shape)
    if any(length is not None and length < 0 for length in checked):
        raise ValueError(f"axis lengths are 0 or more (None where they vary), got {tuple(shape)}")
    return checked


def declared_dtype(dtype: DtypeLike) -> str:
    """The name of a dtype as features know it: ``"bytes"`` for bytes and text.

    Raises:
        UnsupportedData: Nothing of that name can be read.
    """
    name = dtype if isinstance(dtype, str) else None
    if dtype in (bytes, str, object) or name in _NAMES_OF_BYTES:
        return BYTES
    if name is not None and name.removeprefix("tf.") == "bfloat16":
        return "bfloat16"
    try:
        known = np.dtype(name.removeprefix("tf.") if name is not None else dtype)
    except (TypeError, ValueError, SyntaxError):  # NumPy parses names of its own, such as "2i4"
        known = np.dtype(object)
    if known.kind in "SU":
        return BYTES
    if known.kind not in "biufc":
        raise UnsupportedData(Where(), expected="a NumPy dtype, 'string' or 'bfloat16'", found=repr(dtype))
    return known.name


def dtype_json(dtype: str) -> str:
    """What ``features.json`` calls a declared dtype."""
    return "string" if dtype == BYTES else dtype


def shape_json(shape: Shape) -> dict[str, Any]:
    """A ``Shape`` message: whole numbers are text in it, and a varying length is -1."""
    return {"dimensions": [str(-1 if length is None else length) for length in shape]} if shape else {}


def as_cells(column: Any) -> npt.NDArray[Any]:
    """A list of values as an object array of one axis."""
    if isinstance(column, np.ndarray):
        return column
    cells = np.empty(len(column), object)
    for position, value in enumerate(column):
        cells[position] = value
    return cells


def stack_or_list(values: Sequence[npt.NDArray[Any]], shape: Shape, dtype: str) -> Any:
    """Values of equal shape as one array, others as a list."""
    if len(values) == 0:
        return np.zeros((0, *(length or 0 for length in shape)), object if dtype == BYTES else dtype)
    if all(value.shape == values[0].shape for value in values):
        return np.stack(values)
    return list(values)
