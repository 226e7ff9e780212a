"""Matrices to be written as Records: checked and converted before a byte is written."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from headrace.codecs.sagemaker_record.codec import SageMakerRecordCodec
from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema
from headrace.formats.recordio.format import ALIGNMENT, RecordIOFraming

__all__ = ["Matrix", "Writable", "write_matrix"]

BLOCK_BYTES = 1 << 20  # of records encoded and written at once: they stay in the processor's cache
FRAME_BYTES = 64  # of a record besides its numbers, about
FRAMING = RecordIOFraming()


class Writable(Protocol):
    """A binary file."""

    def write(self, part: Any, /) -> Any: ...


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows to be written, with their labels.

    Args:
        values: ``ndarray (n, width)``, or a SciPy matrix of that shape in CSR form.
        feature: What each row is.
        labels: ``ndarray (n,)``.
        row_bytes: About how long a record is.
    """

    values: Any
    feature: Feature
    labels: npt.NDArray[Any] | None
    row_bytes: int

    @classmethod
    def dense(cls, array: Any, labels: Any) -> Self:
        """From a NumPy array, or a value that converts to one.

        Raises:
            ValueError: A Record cannot hold it, or the labels do not fit it.
        """
        array, labels = _as_array(array), _as_array(labels)
        dtype = _check_matrix(array, labels)
        values = _fill_masked(array)
        _check_range(values, "array")
        row_bytes = values.nbytes // max(1, len(values)) + FRAME_BYTES
        return cls(values, Feature(dtype, values.shape[1:]), _check_labels(labels), row_bytes)

    @classmethod
    def sparse(cls, array: Any, labels: Any) -> Self:
        """From a SciPy matrix of any format.

        Raises:
            ValueError: A Record cannot hold it, or the labels do not fit it.
        """
        labels = _as_array(labels)
        dtype = _check_matrix(array, labels)
        rows = array.tocsr()
        used = int(rows.indptr[-1])
        indices, width = rows.indices[:used], rows.shape[1]
        if used and not 0 <= int(indices.min()) <= int(indices.max()) < width:
            raise ValueError(f"Column numbers from {indices.min()} to {indices.max()} in a matrix of {width} columns")
        _check_range(rows.data[:used], "array")
        row_bytes = used * (rows.dtype.itemsize + 4) // max(1, rows.shape[0]) + FRAME_BYTES
        return cls(rows, Feature(dtype, (width,), sparse=True), _check_labels(labels), row_bytes)

    def blocks(self) -> Iterator[dict[str, Any]]:
        """Blocks of rows, as columns."""
        rows = self.values.shape[0]
        step = max(1, BLOCK_BYTES // self.row_bytes)
        for start in range(0, rows, step):
            batch = {"values": self.values[start : start + step]}
            if self.labels is not None:
                batch["label"] = self.labels[start : start + step]
            yield batch

    @property
    def schema(self) -> Schema:
        """Of the columns."""
        features = {"values": self.feature}
        if self.labels is not None:
            features["label"] = Feature(_record_dtype(self.labels.dtype))
        return Schema(features)


def _as_array(array: Any) -> Any:
    return array if array is None or (hasattr(array, "shape") and hasattr(array, "dtype")) else np.asarray(array)


def _check_matrix(array: Any, labels: Any) -> str:
    """Make every check that the SDK makes, in its order; returns the dtype in a Record.

    The number of labels is checked otherwise: the SDK also takes as many labels as there are columns.
    """
    if len(array.shape) != 2:
        raise ValueError("Array must be a Matrix")
    if labels is not None:
        if len(labels.shape) != 1:
            raise ValueError("Labels must be a Vector")
        if labels.shape[0] != array.shape[0]:
            raise ValueError(f"Label shape {tuple(labels.shape)} not compatible with array shape {tuple(array.shape)}")
        _record_dtype(labels.dtype)
    return _record_dtype(array.dtype)


def _check_labels(labels: Any) -> npt.NDArray[Any] | None:
    if labels is None:
        return None
    values = _fill_masked(labels)
    _check_range(values, "labels")
    return values


def _fill_masked(values: Any) -> npt.NDArray[Any]:
    """Masked floats become NaN, as in the SDK; integers have no such value."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        if values.dtype.kind != "f":
            raise ValueError(f"Masked values in an array of {values.dtype}: fill them first, with array.filled(...)")
        return values.filled(np.nan)
    return np.asarray(values)


def _record_dtype(dtype: np.dtype[Any]) -> str:
    """The dtype in which a Record holds values of a dtype unchanged."""
    dtype = np.dtype(dtype)
    if dtype.kind in "iub":
        return "int32"
    if dtype.kind == "f" and dtype.itemsize <= 8:
        return "float64" if dtype.itemsize == 8 else "float32"
    raise ValueError(f"Unsupported dtype {dtype} on array: a Record holds float64, float32 and int32")


def _check_range(numbers: npt.NDArray[Any], what: str) -> None:
    limits = np.iinfo(np.int32)
    if numbers.dtype.kind not in "iu" or numbers.size == 0 or np.can_cast(numbers.dtype, np.int32):
        return
    for number in (int(numbers.min()), int(numbers.max())):
        if not limits.min <= number <= limits.max:
            raise ValueError(f"Value out of range: {number} in {what}: a Record holds integers as int32")


def write_matrix(file: Writable, matrix: Matrix) -> None:
    """Write all rows, framed."""
    codec = SageMakerRecordCodec(matrix.schema)
    for batch in matrix.blocks():
        block, starts, sizes = codec.encode_batch(batch, batch["values"].shape[0], FRAMING.head, 0, ALIGNMENT)
        _put(file, block[: FRAMING.frame_block(block, starts, sizes)].data)


def _put(file: Writable, part: memoryview) -> None:
    """Python's own files take any memory; others may need bytes."""
    if isinstance(file, io.RawIOBase):
        while part:
            part = part[file.write(part) or 0 :]
    else:
        file.write(part if isinstance(file, io.IOBase) else bytes(part))
