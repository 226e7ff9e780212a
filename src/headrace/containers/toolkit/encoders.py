"""Arrays to bodies and back, as ``sagemaker_containers`` does it, to the byte and the shape.

What surprises people is kept: one CSV row comes back as one axis. The forms that Headrace uses by default are in
:mod:`headrace.containers.fixed`. Pickled arrays are the one thing that is refused.
"""

from __future__ import annotations

import csv
import io
import json
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from . import content_types, errors

__all__ = [
    "array_to_csv",
    "array_to_json",
    "array_to_npy",
    "array_to_recordio_protobuf",
    "csv_rows",
    "csv_to_numpy",
    "decode",
    "encode",
    "json_to_numpy",
    "npy_to_numpy",
]


MOST_HEADER_BYTES = (
    1 << 20
)  # of a .npy, as everywhere in Headrace; NumPy's own bound is 10,000, which many fields exceed


def array_to_npy(array_like: Any) -> bytes:
    """The bytes of a ``.npy`` file."""
    buffer = io.BytesIO()
    np.save(buffer, array_like)
    return buffer.getvalue()


def npy_to_numpy(npy_array: bytes) -> Any:
    """The array in the bytes of a ``.npy`` file.

    Raises:
        ValueError: It holds Python objects, which would be unpickled: a request must not run code.
    """
    return np.load(io.BytesIO(npy_array), allow_pickle=False, max_header_size=MOST_HEADER_BYTES)


def array_to_json(array_like: Any) -> str:
    """JSON of anything that is JSON, arrays or a mixture."""
    return json.dumps(array_like, default=_as_list)


def _as_list(value: Any) -> Any:
    found = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(found, np.longdouble):  # Python has no such number, and tolist() gives itself
        return float(found)
    return json.JSONEncoder().default(found) if found is value or isinstance(found, np.generic) else found


def json_to_numpy(string_like: Any, dtype: Any = None) -> Any:
    """``np.array`` of what JSON says.

    Raises:
        ValueError: It is no JSON, or nested deeper than Python's parser goes.
    """
    try:
        found = json.loads(string_like)
    except RecursionError as error:
        raise ValueError("JSON with lists and objects nested too deeply") from error
    return np.array(found, dtype=dtype)


_field_limit = threading.Lock()


def csv_rows(text: str, *, strict: bool = True) -> list[list[str]]:
    """The rows of CSV. A field may be as long as the text: by default the csv module refuses 131,072 characters.

    Raises:
        csv.Error: No CSV, if ``strict``.
    """
    try:
        return list(csv.reader(io.StringIO(text, newline=""), strict=strict))
    except csv.Error:
        if len(text) <= csv.field_size_limit():
            raise
    with _field_limit:  # the limit is that of the whole process
        before = csv.field_size_limit(len(text))
        try:
            return list(csv.reader(io.StringIO(text, newline=""), strict=strict))
        finally:
            csv.field_size_limit(before)


def csv_to_numpy(string_like: str, dtype: Any = None) -> Any:
    """Cells of CSV without axes of length 1: floats if all are, else texts (``dtype``: that, or an error).

    Raises:
        ClientError: No CSV; rows of several lengths; not of this dtype.
    """
    try:
        rows = list(csv.reader(io.StringIO(string_like), delimiter=",", quotechar='"', doublequote=True, strict=True))
        array = np.array(rows).squeeze()
    except Exception as error:
        raise errors.ClientError(f"Error while decoding csv: {error}") from error
    try:
        return array.astype(dtype)
    except ValueError as error:
        if dtype is not None:
            raise errors.ClientError(f"Error while writing numpy array: {error}. dtype is: {dtype}") from error
        return array


def array_to_csv(array_like: Any) -> str:
    """Rows of CSV; an array of one axis becomes one value per line.

    Raises:
        ClientError: The csv module refuses it.
        TypeError: A single number.
    """
    array = np.array(array_like)
    if array.ndim == 1:
        array = array.reshape(-1, 1)
    stream = io.StringIO()
    try:
        csv.writer(stream, lineterminator="\n", delimiter=",", quotechar='"', doublequote=True, strict=True).writerows(
            array  # a 0-d array is refused by iterating over it, as in the original
        )
    except csv.Error as error:
        raise errors.ClientError(f"Error while encoding csv: {error}") from error
    return stream.getvalue()


def array_to_recordio_protobuf(array_like: Any, labels: Any = None) -> bytes:
    """RecordIO-protobuf of the rows of a dense or a SciPy matrix, with a label each where they are given."""
    from headrace.containers.recordio_bodies import encode_recordio

    return encode_recordio(array_like, labels)


_ENCODERS: dict[str, Callable[..., Any]] = {
    content_types.NPY: array_to_npy,
    content_types.CSV: array_to_csv,
    content_types.JSON: array_to_json,
}
_DECODERS: dict[str, Callable[..., Any]] = {
    content_types.NPY: npy_to_numpy,
    content_types.CSV: csv_to_numpy,
    content_types.JSON: json_to_numpy,
}


def decode(obj: Any, content_type: str) -> Any:
    """The array in a body.

    Raises:
        UnsupportedFormatError: Neither csv, json nor npy, to the letter.
    """
    if content_type not in _DECODERS:
        raise errors.UnsupportedFormatError(content_type)
    return _DECODERS[content_type](obj)


def encode(array_like: Any, content_type: str) -> Any:
    """The body for an array: text for csv and json, bytes for npy.

    Raises:
        UnsupportedFormatError: Neither csv, json nor npy, to the letter.
    """
    if content_type not in _ENCODERS:
        raise errors.UnsupportedFormatError(content_type)
    return _ENCODERS[content_type](array_like)
