"""Serializers: convert a value to the body of a request. ``sagemaker.serializers``."""

from __future__ import annotations

import csv
import io
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

import numpy as np

from headrace._numbers import fill_masked
from headrace._optional import available, require
from headrace.containers.recordio_bodies import encode_recordio
from headrace.errors import SchemaMismatch
from headrace.sagemaker.arguments import warn_old_name

__all__ = [
    "BaseSerializer",
    "CSVSerializer",
    "DataSerializer",
    "IdentitySerializer",
    "JSONLinesSerializer",
    "JSONSerializer",
    "LibSVMSerializer",
    "NumpySerializer",
    "RecordSerializer",
    "SimpleBaseSerializer",
    "SparseMatrixSerializer",
    "StringSerializer",
    "TorchTensorSerializer",
    "csv_serializer",
    "json_serializer",
    "npy_serializer",
    "numpy_to_record_serializer",
]


TABLE_AXES = 2
BYTES = (bytes, bytearray, memoryview)
PLAIN = frozenset({int, float, str, bool, type(None), np.float64, np.float32, np.int64, np.str_, np.bool_})
"""Types of cells that need no check."""


class BaseSerializer(ABC):
    """Base of serializers in notebooks: ``CONTENT_TYPE``, which may be a property, and ``serialize``."""

    @abstractmethod
    def serialize(self, data: Any) -> bytes | str:
        """Convert a value to a body."""


class Serializer(BaseSerializer):
    """Converts a value to a body.

    Args:
        content_type: The content type to send; by default that of the class.
    """

    CONTENT_TYPE = "application/octet-stream"

    def __init__(self, content_type: str | None = None) -> None:
        if content_type and not isinstance(getattr(type(self), "CONTENT_TYPE", None), property):
            self.CONTENT_TYPE = content_type
        self.content_type: str = content_type or self.CONTENT_TYPE

    def __call__(self, data: Any) -> bytes | str:
        return self.serialize(data)


class SimpleBaseSerializer(Serializer):
    """Base of serializers in notebooks whose content type is a constructor argument."""

    CONTENT_TYPE = "application/json"


class IdentitySerializer(Serializer):
    """Bytes and text unchanged."""

    def serialize(self, data: Any) -> bytes | str:
        return data.read() if hasattr(data, "read") else data  # type: ignore[no-any-return]


class StringSerializer(Serializer):
    """Text in UTF-8."""

    CONTENT_TYPE = "text/plain"

    def serialize(self, data: Any) -> bytes:
        if isinstance(data, str):
            return data.encode()
        raise ValueError("Object of type %s is not String serializable." % type(data))  # noqa: UP031 - the SDK's words


class DataSerializer(Serializer):
    """Bytes, or the content of the file at a path."""

    CONTENT_TYPE = "file-path/raw-bytes"

    def serialize(self, data: Any) -> bytes:
        """The bytes.

        Raises:
            ValueError: Neither bytes nor the path of a file that can be read.
        """
        if isinstance(data, bytes):
            return data
        if isinstance(data, dict) and "data" in data:
            return self.serialize(data["data"])
        if not isinstance(data, str | os.PathLike):
            raise ValueError(f"Object of type {type(data)} is not Data serializable.")  # noqa: TRY004 - as the SDK
        try:
            return Path(data).read_bytes()
        except OSError as error:
            raise ValueError(f"Could not open/read file: {data}. {error}") from error


class CSVSerializer(Serializer):
    """Rows of comma-separated values from arrays, tensors, nested sequences and data frames; text unchanged."""

    CONTENT_TYPE = "text/csv"

    def serialize(self, data: Any) -> str:
        """The rows, joined by newlines, without one at the end.

        Raises:
            ValueError: ``data`` is empty, or has a row that is a single number, or a cell that is no single value.
        """
        if hasattr(data, "read"):
            data = data.read()
        if isinstance(data, BYTES):
            data = bytes(data).decode()
        if isinstance(data, str):
            return data
        if hasattr(data, "to_csv"):
            return str(data.to_csv(header=False, index=False)) if data.ndim == TABLE_AXES else _csv_of_series(data)
        data = _as_numpy(data)
        if len(data) == 0:
            raise ValueError("Cannot serialize empty array")
        if isinstance(data, np.ndarray) and data.ndim > TABLE_AXES:
            raise ValueError(f"rows of comma-separated values have one or two axes, got an array of {data.ndim}")
        return "\n".join(map(_csv_row, data if _has_rows(data) else [data]))


def _csv_of_series(series: Any) -> str:
    """A column of text has a row in each value, as in the SDK; another series is one row, such as that of a frame."""
    values = list(series)
    is_column_of_rows = 0 in series.index and isinstance(series[0], str)
    return "\n".join(map(_csv_row, values)) if is_column_of_rows else _csv_row(values)


def _as_numpy(value: Any) -> Any:
    """Tensors and arrays of other libraries as those of NumPy, and masked floats as NaN; other values unchanged.

    Raises:
        ValueError: NumPy lacks the dtype, or values are masked that are no floats.
    """
    try:
        if hasattr(value, "detach"):
            value = value.detach().cpu().numpy()
        elif hasattr(value, "__array__") and not isinstance(value, np.ndarray | np.generic):
            value = np.asarray(value)
        value = fill_masked(value)
    except (TypeError, SchemaMismatch) as error:
        raise ValueError(f"Unable to serialize {type(value)}: {error}") from error
    return value


def _has_rows(data: Any) -> bool:
    """Whether a sequence consists of rows. A text in a list or an array is a whole row, in a tuple a cell, as in the SDK."""
    if isinstance(data, np.ndarray):
        is_text = data.dtype.kind in "US" or (data.dtype.kind == "O" and all(isinstance(one, str) for one in data))
        return data.ndim == TABLE_AXES or is_text
    if isinstance(data[0], str | bytes):
        return not isinstance(data, tuple)
    return hasattr(data[0], "__len__") and getattr(data[0], "ndim", 1) > 0


def _csv_row(row: Any) -> str:
    if isinstance(row, str | bytes):
        return _csv_cell(row)  # type: ignore[no-any-return]
    if not hasattr(row, "to_csv"):
        row = _as_numpy(row)
    if not hasattr(row, "__len__") or isinstance(row, Mapping | AbstractSet) or getattr(row, "ndim", 1) == 0:
        raise ValueError(
            f"Unable to handle input format: {type(row)}. In a list that begins with a text or a row, each item is a row; "
            "write [row] or a tuple for a single row of several values"
        )
    if len(row) == 0:
        raise ValueError("Cannot serialize empty array")
    if isinstance(row, np.ndarray):
        row = row.ravel()  # as in the SDK
    buffer = io.StringIO()
    are_plain = (isinstance(row, np.ndarray) and row.dtype.kind not in "OSV") or PLAIN.issuperset(map(type, row))
    csv.writer(buffer).writerow(row if are_plain else map(_csv_cell, row))  # newlines in cells are quoted
    return buffer.getvalue().removesuffix("\r\n")


def _csv_cell(value: Any) -> Any:
    if type(value) in PLAIN:
        return value
    if isinstance(value, BYTES):
        return bytes(value).decode()
    value = _as_numpy(value)
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if hasattr(value, "__len__") and not isinstance(value, str):
        raise ValueError(f"expected a number or a text in each cell, found {type(value)}: flatten the rows first")
    return value


class JSONSerializer(Serializer):
    """JSON; arrays become nested lists."""

    CONTENT_TYPE = "application/json"

    def serialize(self, data: Any) -> bytes | str:
        if hasattr(data, "read"):
            return data.read()  # type: ignore[no-any-return]
        return json.dumps(data, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, np.longdouble):
        return float(value)  # its tolist() gives itself
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


class JSONLinesSerializer(Serializer):
    """A line of JSON for each item; text unchanged."""

    CONTENT_TYPE = "application/jsonlines"

    def serialize(self, data: Any) -> bytes | str:
        if isinstance(data, str):
            return data
        if hasattr(data, "read"):
            return data.read()  # type: ignore[no-any-return]
        if not hasattr(data, "__iter__"):
            raise ValueError(f"Object of type {type(data)} is not JSON Lines serializable.")
        return "\n".join(json.dumps(item, default=_plain) for item in data)


class NumpySerializer(Serializer):
    """A ``.npy`` file.

    Args:
        dtype: Dtype of the array that is made of a list; other values keep theirs, as in the SDK.
        content_type: The content type to send.
    """

    CONTENT_TYPE = "application/x-npy"

    def __init__(self, dtype: Any = None, content_type: str | None = None) -> None:
        super().__init__(content_type)
        self.dtype = dtype

    def serialize(self, data: Any) -> bytes:
        """The file.

        Raises:
            ValueError: ``data`` is empty, or would need pickle.
        """
        if hasattr(data, "read"):
            return data.read()  # type: ignore[no-any-return]
        array = np.asarray(_as_numpy(data), self.dtype if isinstance(data, list) else None)
        if array.size == 0:
            raise ValueError("Cannot serialize empty array.")
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=False)
        return buffer.getvalue()


class TorchTensorSerializer(Serializer):
    """The array of a tensor as a ``.npy`` file."""

    CONTENT_TYPE = "tensor/pt"

    def __init__(self, content_type: str | None = None) -> None:
        super().__init__(content_type)
        self.torch_tensor: Any = require("torch", extra="torch").Tensor

    def serialize(self, data: Any) -> bytes:
        """The file.

        Raises:
            ValueError: ``data`` is not a tensor, or NumPy lacks its dtype.
        """
        if not isinstance(data, self.torch_tensor):
            raise ValueError(f"Object of type {type(data)} is not a torch.Tensor")  # noqa: TRY004 - as the SDK
        try:
            return NumpySerializer().serialize(data.detach().cpu().numpy())
        except (TypeError, RuntimeError) as error:
            raise ValueError(f"Unable to serialize your data because: {error}") from error


class SparseMatrixSerializer(Serializer):
    """The ``.npz`` file that ``scipy.sparse.save_npz`` writes."""

    CONTENT_TYPE = "application/x-npz"

    def serialize(self, data: Any) -> bytes:
        buffer = io.BytesIO()
        require("scipy.sparse", extra="sklearn").save_npz(buffer, data)
        return buffer.getvalue()


class LibSVMSerializer(IdentitySerializer):
    """Lines of LIBSVM unchanged."""

    CONTENT_TYPE = "text/libsvm"

    def serialize(self, data: Any) -> bytes | str:
        """The lines.

        Raises:
            ValueError: ``data`` is neither text nor a file.
        """
        if isinstance(data, str) or hasattr(data, "read"):
            return super().serialize(data)
        raise ValueError(f"Unable to handle input format: {type(data)}")


class RecordSerializer(Serializer):
    """RecordIO-protobuf: a Record for each row."""

    CONTENT_TYPE = "application/x-recordio-protobuf"

    def serialize(self, data: Any) -> bytes:
        """The records.

        Raises:
            ValueError: ``data`` has neither one axis nor two.
        """
        is_sparse = available("scipy") and require("scipy.sparse", extra="sklearn").issparse(data)
        array = data if is_sparse else np.asarray(_as_numpy(data))
        if not is_sparse and array.ndim not in (1, 2):
            raise ValueError(f"Expected a 1D or 2D array, but got a {array.ndim}D array instead.")
        return encode_recordio(array)


class _Deprecated:
    """A name of version 1: it works, with a warning."""

    def __init__(self, name: str, kind: type[Serializer]) -> None:
        self._name, self._kind = name, kind
        self.content_type: str = kind.CONTENT_TYPE

    def serialize(self, data: Any) -> bytes | str:
        message = f"{self._name} is {self._kind.__name__}() in version 2 of the SDK and here"
        warn_old_name(message)
        return self._kind().serialize(data)

    def __call__(self, data: Any) -> bytes | str:
        return self.serialize(data)


csv_serializer: _Deprecated = _Deprecated("csv_serializer", CSVSerializer)
json_serializer: _Deprecated = _Deprecated("json_serializer", JSONSerializer)
npy_serializer: _Deprecated = _Deprecated("npy_serializer", NumpySerializer)


def numpy_to_record_serializer() -> RecordSerializer:
    """:class:`RecordSerializer` by its name in version 1 of the SDK."""
    message = "numpy_to_record_serializer is RecordSerializer in version 2 of the SDK and here"
    warn_old_name(message)
    return RecordSerializer()
