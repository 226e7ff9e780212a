"""What the body of an answer becomes, by the names of the SDK."""

from __future__ import annotations

import codecs
import csv
import io
import json
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from headrace._optional import require
from headrace.containers.content_types import media_type
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
    """What deserializers of notebooks are made of: ``ACCEPT``, which may be a property, and ``deserialize``."""

    @abstractmethod
    def deserialize(self, stream: Any, content_type: str) -> Any:
        """The value of a stream of bytes."""


class Deserializer(BaseDeserializer):
    """Turns the body of an answer into a value.

    Args:
        accept: The content type, or the types, that are asked for; the class's own by default.
    """

    ACCEPTED: tuple[str, ...] = ("*/*",)

    def __init__(self, accept: str | tuple[str, ...] | None = None) -> None:
        given = self.ACCEPTED if accept is None else accept
        self.ACCEPT = (given,) if isinstance(given, str) else tuple(given)

    @property
    def accept(self) -> str:
        """The header."""
        return ", ".join(self.ACCEPT)

    def __call__(self, stream: Any, content_type: str = "*/*") -> Any:
        return self.deserialize(stream, content_type)


class SimpleBaseDeserializer(Deserializer):
    """What deserializers of notebooks are made of whose content types are said when they are made."""


class BodyDeserializer(Deserializer):
    """Reads the whole body, and closes the stream."""

    def deserialize(self, stream: Any, content_type: str) -> Any:
        try:
            return self.read(stream.read(), content_type)
        finally:
            stream.close()

    @abstractmethod
    def read(self, body: bytes, content_type: str) -> Any:
        """The value of a body."""


class BytesDeserializer(BodyDeserializer):
    """The body as it is."""

    def read(self, body: bytes, content_type: str) -> bytes:  # noqa: ARG002 - one signature for all
        return body


class StringDeserializer(BodyDeserializer):
    """Text.

    Args:
        encoding: Of the body.
        accept: What is asked for.
    """

    ACCEPTED = ("application/json",)

    def __init__(self, encoding: str = "UTF-8", accept: str | tuple[str, ...] | None = None) -> None:
        super().__init__(accept)
        self.encoding = encoding

    def read(self, body: bytes, content_type: str) -> str:  # noqa: ARG002
        return body.decode(self.encoding)


class StreamDeserializer(Deserializer):
    """The stream itself, and its content type; whoever gets it closes it."""

    def deserialize(self, stream: Any, content_type: str) -> tuple[Any, str]:
        return stream, content_type


class CSVDeserializer(BodyDeserializer):
    """Rows of cells: a list of lists of texts.

    Args:
        encoding: Of the body.
        accept: What is asked for.
    """

    ACCEPTED = ("text/csv",)

    def __init__(self, encoding: str = "utf-8", accept: str | tuple[str, ...] | None = None) -> None:
        super().__init__(accept)
        self.encoding = encoding

    def read(self, body: bytes, content_type: str) -> list[list[str]]:  # noqa: ARG002
        return list(csv.reader(body.decode(self.encoding).splitlines()))


class JSONDeserializer(BodyDeserializer):
    """What the JSON says."""

    ACCEPTED = ("application/json",)

    def read(self, body: bytes, content_type: str) -> Any:  # noqa: ARG002
        return json.loads(body)


class JSONLinesDeserializer(BodyDeserializer):
    """A list of what the lines say."""

    ACCEPTED = ("application/jsonlines",)

    def read(self, body: bytes, content_type: str) -> list[Any]:  # noqa: ARG002
        return [json.loads(line) for line in body.decode().splitlines() if line.strip()]


class NumpyDeserializer(BodyDeserializer):
    """An array of npy, npz, csv or json.

    Args:
        dtype: Of the array (csv and json).
        accept: What is asked for.
        allow_pickle: Only ``False``: loading pickled objects would run code that is in the answer.

    Raises:
        ValueError: ``allow_pickle=True``.
    """

    ACCEPTED = ("application/x-npy",)

    def __init__(
        self, dtype: Any = None, accept: str | tuple[str, ...] | None = None, allow_pickle: bool = False
    ) -> None:
        if allow_pickle:
            raise ValueError(
                "allow_pickle=True: pickled arrays are not read here, because loading one runs code that is in it. Leave it "
                "out: arrays of numbers and texts need no pickle"
            )
        super().__init__(accept)
        self.dtype = dtype
        self.allow_pickle = False

    def read(self, body: bytes, content_type: str) -> Any:
        """The array; of npz the file with its arrays.

        Raises:
            ValueError: Another content type, or arrays that would have to be unpickled.
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
    """What NumPy loads, with the bound for headers that :mod:`headrace.formats.npy.header` has."""
    return np.load(io.BytesIO(body), allow_pickle=False, max_header_size=MOST_BYTES)


class TorchTensorDeserializer(BodyDeserializer):
    """A tensor of a ``.npy`` file."""

    ACCEPTED = ("tensor/pt",)

    def __init__(self, accept: str | tuple[str, ...] | None = None) -> None:
        super().__init__(accept)
        self.convert_npy_to_tensor = require("torch", extra="torch").from_numpy

    def deserialize(self, stream: Any, content_type: str = "tensor/pt") -> Any:
        """The tensor.

        Raises:
            ValueError: It is no ``.npy`` file, or of a type that PyTorch has not.
        """
        return super().deserialize(stream, content_type)

    def read(self, body: bytes, content_type: str) -> Any:  # noqa: ARG002 - one signature for all
        try:
            return self.convert_npy_to_tensor(_load_array(body))
        except (ValueError, TypeError, EOFError, OSError) as error:
            raise ValueError(f"Unable to deserialize your data to torch.Tensor: {error}") from error


class PandasDeserializer(BodyDeserializer):
    """A data frame of csv (whose first row are the names) or json."""

    ACCEPTED = ("text/csv", "application/json")

    def read(self, body: bytes, content_type: str) -> Any:
        """The frame.

        Raises:
            ValueError: Another content type.
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

    ACCEPTED = ("application/x-recordio-protobuf",)

    def read(self, body: bytes, content_type: str) -> Any:  # noqa: ARG002
        return read_records(io.BytesIO(body))


def record_deserializer() -> RecordDeserializer:
    """:class:`RecordDeserializer` by its name in version 1 of the SDK."""
    warn_old_name("record_deserializer is RecordDeserializer in version 2 of the SDK and here")
    return RecordDeserializer()


class _Deprecated:
    """A name of version 1: used, it warns and works."""

    def __init__(self, name: str, kind: type[BodyDeserializer]) -> None:
        self._name, self._kind = name, kind
        self.ACCEPT = kind.ACCEPTED
        self.accept = kind.ACCEPTED[0]

    def deserialize(self, stream: Any, content_type: str) -> Any:
        message = f"{self._name} is {self._kind.__name__}() in version 2 of the SDK and here"
        warn_old_name(message)
        return self._kind().deserialize(stream, content_type)

    def __call__(self, stream: Any, content_type: str = "*/*") -> Any:
        return self.deserialize(stream, content_type)


csv_deserializer = _Deprecated("csv_deserializer", CSVDeserializer)
json_deserializer = _Deprecated("json_deserializer", JSONDeserializer)
numpy_deserializer = _Deprecated("numpy_deserializer", NumpyDeserializer)
