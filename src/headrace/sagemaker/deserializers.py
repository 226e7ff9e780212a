"""Deserializers: convert the body of an answer to a value. ``sagemaker.deserializers``."""

from __future__ import annotations

import codecs
import io
import json
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from headrace._optional import require
from headrace.containers.content_types import media_type
from headrace.containers.toolkit.encoders import csv_rows
from headrace.formats.npy.header import MOST_BYTES
from headrace.sagemaker.arguments import warn_old_name
from headrace.sagemaker.common import read_records

__all__ = [
    "BaseDeserializer",
    "BytesDeserializer",
    "CSVDeserializer",
    "JSONDeserializer",
    "JSONLinesDeserializer",
    "NumpyDeserializer",
    "PandasDeserializer",
    "RecordDeserializer",
    "SimpleBaseDeserializer",
    "StreamDeserializer",
    "StringDeserializer",
    "TorchTensorDeserializer",
    "csv_deserializer",
    "json_deserializer",
    "numpy_deserializer",
    "record_deserializer",
]


class BaseDeserializer(ABC):
    """Base of deserializers in notebooks: ``ACCEPT``, which may be a property, and ``deserialize``."""

    @abstractmethod
    def deserialize(self, stream: Any, content_type: str) -> Any:
        """Convert a stream of bytes to a value."""


class Deserializer(BaseDeserializer):
    """Converts the body of an answer to a value.

    Args:
        accept: The content type or types to ask for; by default those of the class.
    """

    ACCEPTED: tuple[str, ...] = ("*/*",)

    def __init__(self, accept: str | tuple[str, ...] | None = None) -> None:
        given = self.ACCEPTED if accept is None else accept
        self.ACCEPT = (given,) if isinstance(given, str) else tuple(given)

    @property
    def accept(self) -> str:
        """The ``Accept`` header."""
        return ", ".join(self.ACCEPT)

    def __call__(self, stream: Any, content_type: str = "*/*") -> Any:
        return self.deserialize(stream, content_type)


class SimpleBaseDeserializer(Deserializer):
    """Base of deserializers in notebooks whose content types are constructor arguments."""


class BodyDeserializer(Deserializer):
    """Reads the whole body, and closes the stream."""

    def deserialize(self, stream: Any, content_type: str) -> Any:
        try:
            return self.read(stream.read(), content_type)
        finally:
            stream.close()

    @abstractmethod
    def read(self, body: bytes, content_type: str) -> Any:
        """Convert a body to a value."""


class BytesDeserializer(BodyDeserializer):
    """The body unchanged."""

    def read(self, body: bytes, content_type: str) -> bytes:  # noqa: ARG002 - one signature for all
        return body


class StringDeserializer(BodyDeserializer):
    """Text.

    Args:
        encoding: Encoding of the body.
        accept: The content type or types to ask for.
    """

    ACCEPTED: tuple[str, ...] = ("application/json",)

    def __init__(self, encoding: str = "UTF-8", accept: str | tuple[str, ...] | None = None) -> None:
        super().__init__(accept)
        self.encoding = encoding

    def read(self, body: bytes, content_type: str) -> str:  # noqa: ARG002 - other deserializers need it
        return body.decode(self.encoding)


class StreamDeserializer(Deserializer):
    """The stream and its content type. The caller closes the stream."""

    def deserialize(self, stream: Any, content_type: str) -> tuple[Any, str]:
        return stream, content_type


class CSVDeserializer(BodyDeserializer):
    """Rows of cells: a list of lists of texts.

    Args:
        encoding: Encoding of the body.
        accept: The content type or types to ask for.
    """

    ACCEPTED: tuple[str, ...] = ("text/csv",)

    def __init__(self, encoding: str = "utf-8", accept: str | tuple[str, ...] | None = None) -> None:
        super().__init__(accept)
        self.encoding = encoding

    def read(self, body: bytes, content_type: str) -> list[list[str]]:  # noqa: ARG002 - other deserializers need it
        return csv_rows(body.decode(self.encoding), strict=False)


class JSONDeserializer(BodyDeserializer):
    """The value of a JSON text."""

    ACCEPTED: tuple[str, ...] = ("application/json",)

    def read(self, body: bytes, content_type: str) -> Any:  # noqa: ARG002 - other deserializers need it
        return json.loads(body)


class JSONLinesDeserializer(BodyDeserializer):
    """A list with the value of each line of JSON."""

    ACCEPTED: tuple[str, ...] = ("application/jsonlines",)

    def read(self, body: bytes, content_type: str) -> list[Any]:  # noqa: ARG002 - other deserializers need it
        return [json.loads(line) for line in body.decode().split("\n") if line.strip()]


class NumpyDeserializer(BodyDeserializer):
    """An array of npy, npz, csv or json.

    Args:
        dtype: Dtype of the array (csv and json).
        accept: The content type or types to ask for.
        allow_pickle: Must be ``False``: loading pickled objects runs code in the answer.

    Raises:
        ValueError: ``allow_pickle=True``.
    """

    ACCEPTED: tuple[str, ...] = ("application/x-npy",)

    def __init__(
        self, dtype: Any = None, accept: str | tuple[str, ...] | None = None, allow_pickle: bool = False
    ) -> None:
        if allow_pickle:
            raise ValueError(
                "allow_pickle=True: pickled arrays are refused, because loading one runs the code in it. Omit the argument: "
                "arrays of numbers and text need no pickle"
            )
        super().__init__(accept)
        self.dtype = dtype
        self.allow_pickle = False

    def read(self, body: bytes, content_type: str) -> Any:
        """Convert a body to an array, or to an ``NpzFile``.

        Raises:
            ValueError: The content type is another one, or the arrays are pickled.
        """
        media = media_type(content_type)
        if media == "text/csv":
            text = codecs.getreader("utf-8")(io.BytesIO(body))
            return np.genfromtxt(text, delimiter=",", dtype=self.dtype)
        if media == "application/json":
            return np.array(json.loads(body), dtype=self.dtype)
        if media in ("application/x-npy", "application/x-npz"):
            return _load_array(body)
        raise ValueError(f"{type(self).__name__} cannot read content type {content_type}.")


def _load_array(body: bytes) -> Any:
    """``np.load`` with the header limit of :mod:`headrace.formats.npy.header`."""
    return np.load(io.BytesIO(body), allow_pickle=False, max_header_size=MOST_BYTES)


class TorchTensorDeserializer(BodyDeserializer):
    """A tensor of a ``.npy`` file."""

    ACCEPTED: tuple[str, ...] = ("tensor/pt",)

    def __init__(self, accept: str | tuple[str, ...] | None = None) -> None:
        super().__init__(accept)
        self.convert_npy_to_tensor: Any = require("torch", extra="torch").from_numpy

    def deserialize(self, stream: Any, content_type: str = "tensor/pt") -> Any:
        """Convert a stream to a tensor.

        Raises:
            ValueError: It is not a ``.npy`` file, or PyTorch lacks its dtype.
        """
        return super().deserialize(stream, content_type)

    def read(self, body: bytes, content_type: str) -> Any:  # noqa: ARG002 - one signature for all
        try:
            return self.convert_npy_to_tensor(_load_array(body))
        except (ValueError, TypeError, EOFError, OSError) as error:
            raise ValueError(f"Unable to deserialize your data to torch.Tensor: {error}") from error


class PandasDeserializer(BodyDeserializer):
    """A data frame of csv (the first row holds the names) or json."""

    ACCEPTED: tuple[str, ...] = ("text/csv", "application/json")

    def read(self, body: bytes, content_type: str) -> Any:
        """Convert a body to a data frame.

        Raises:
            ValueError: The content type is another one.
        """
        pandas: Any = require("pandas", extra="sklearn")
        media = media_type(content_type)
        if media == "text/csv":
            return pandas.read_csv(io.BytesIO(body))
        if media == "application/json":
            return pandas.read_json(io.BytesIO(body))
        raise ValueError(f"{type(self).__name__} cannot read content type {content_type}.")


class RecordDeserializer(BodyDeserializer):
    """A list of Records."""

    ACCEPTED: tuple[str, ...] = ("application/x-recordio-protobuf",)

    def read(self, body: bytes, content_type: str) -> Any:  # noqa: ARG002 - other deserializers need it
        return read_records(io.BytesIO(body))


def record_deserializer() -> RecordDeserializer:
    """:class:`RecordDeserializer` by its name in version 1 of the SDK."""
    warn_old_name("record_deserializer is RecordDeserializer in version 2 of the SDK and here")
    return RecordDeserializer()


class _Deprecated:
    """A name of version 1: it works, with a warning."""

    def __init__(self, name: str, kind: type[BodyDeserializer]) -> None:
        self._name, self._kind = name, kind
        self.ACCEPT = kind.ACCEPTED
        self.accept: str = kind.ACCEPTED[0]

    def deserialize(self, stream: Any, content_type: str) -> Any:
        message = f"{self._name} is {self._kind.__name__}() in version 2 of the SDK and here"
        warn_old_name(message)
        return self._kind().deserialize(stream, content_type)

    def __call__(self, stream: Any, content_type: str = "*/*") -> Any:
        return self.deserialize(stream, content_type)


csv_deserializer: _Deprecated = _Deprecated("csv_deserializer", CSVDeserializer)
json_deserializer: _Deprecated = _Deprecated("json_deserializer", JSONDeserializer)
numpy_deserializer: _Deprecated = _Deprecated("numpy_deserializer", NumpyDeserializer)
