"""Decodes request bodies to arrays, and encodes predictions as answer bodies.

A decoded request always has one row per example. ``sagemaker_containers`` returns one axis for a single CSV row and refuses
``text/csv; charset=utf-8``; this returns ``(1, n)`` and accepts it. Nothing is unpickled, and no declared length allocates more memory
than the body needs. Answers in csv, json and npy equal those of ``sagemaker_containers`` to the byte, except for its bugs, which only
:mod:`headrace.containers.toolkit.encoders` reproduces.
"""

from __future__ import annotations

import csv
import io
import numbers
import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from headrace._numbers import MASKED, fill_masked
from headrace._optional import available, require
from headrace.containers import content_types
from headrace.containers.recordio_bodies import decode_recordio, encode_recordio
from headrace.containers.toolkit import encoders
from headrace.errors import DataError, RequestError, SchemaMismatch
from headrace.formats.npy.header import read_header
from headrace.io.json_text import load_json
from headrace.io.local.mapped import MappedFile

__all__ = [
    "DECODED",
    "ENCODED",
    "check_numbers",
    "decode",
    "encode",
    "first_text",
    "is_sparse",
    "to_float32",
]


def is_sparse(values: Any) -> bool:
    """Whether this is a SciPy matrix."""
    return available("scipy") and require("scipy.sparse", extra="sklearn").issparse(values)


def encode(prediction: Any, media: str) -> bytes:
    """Encode a prediction.

    Args:
        prediction: An array, a list, a number, a DataFrame, a SciPy matrix; for json any JSON value.
        media: A content type without parameters.

    Raises:
        RequestError: 406, an unknown type, or one that cannot represent this prediction although another one can; 500, no type can,
            so the script has to return something else.
    """
    encoder = _ENCODERS.get(media)
    if encoder is None:
        raise RequestError(406, f"answers are available as {', '.join(ENCODED)}, not as {media!r}")
    try:
        return encoder(prediction)
    except (ValueError, TypeError) as error:
        others = [name for name in ENCODED if _can_hold(prediction, name)]
        if others:
            reason = f"this prediction cannot be answered as {media}: {error}; ask for {' or '.join(others)}"
            raise RequestError(406, reason) from error
        kind = type(prediction).__name__
        reason = f"the script returned a {kind} that no content type can represent ({error}); return arrays, lists, numbers or strings"
        raise RequestError(500, reason) from error


def _can_hold(prediction: Any, media: str) -> bool:
    try:
        _ENCODERS[media](prediction)
    except Exception:  # noqa: BLE001 - any error means that it cannot
        return False
    return True


def _dense(prediction: Any) -> Any:
    if is_sparse(prediction):
        return prediction.toarray()
    if hasattr(prediction, "detach"):
        return prediction.detach().cpu()  # a tensor that requires grad, or is on a GPU, does not convert
    return prediction.to_numpy() if hasattr(prediction, "to_numpy") else prediction


def _plain(prediction: Any) -> Any:
    """An array. What a mask hides is no answer: masked floats are NaN, and other masked values are refused."""
    values = _dense(prediction)
    if isinstance(values, list | tuple) and not MASKED.isdisjoint(map(type, values)):
        values = np.ma.stack(values)
    try:
        return np.asarray(fill_masked(values))
    except SchemaMismatch as error:
        raise ValueError(str(error)) from error


def _as_text(values: Any) -> Any:
    """Arrays of bytes as text, such as the labels of a model that was trained on bytes."""
    return np.char.decode(values, "utf-8") if isinstance(values, np.ndarray) and values.dtype.kind == "S" else values


def _encode_csv(prediction: Any) -> bytes:
    array = np.atleast_1d(_as_text(_plain(prediction)))
    if array.ndim > 2:
        raise ValueError(f"csv has rows and columns, and the prediction has shape {array.shape}")
    if array.dtype.kind == "V":
        raise ValueError(f"csv has columns of plain values, and the prediction has the dtype {array.dtype}")
    if array.dtype.hasobject:
        for cell in array.flat:
            _check_cell(cell)
    return encoders.array_to_csv(array).encode()


def _check_cell(cell: Any) -> None:
    """Refuse values such as functions, sets and bytes, for which CSV would contain Python's ``repr``."""
    is_value = cell is None or isinstance(cell, str | numbers.Number | np.generic) or hasattr(cell, "isoformat")
    if not is_value and not type(cell).__module__.startswith("pandas."):  # pandas has missing values of its own types
        raise TypeError(f"Object of type {type(cell).__name__} is not a csv value")


def _encode_json(prediction: Any) -> bytes:
    return encoders.array_to_json(_as_text(_dense(prediction))).encode()


def _encode_jsonlines(prediction: Any) -> bytes:
    values = _as_text(_dense(prediction))
    if not isinstance(values, list | tuple | np.ma.MaskedArray):
        values = np.asarray(values)
    rows = values if isinstance(values, list | tuple) else np.atleast_1d(values)
    return b"".join(encoders.array_to_json(row).encode() + b"\n" for row in rows)


def _encode_npy(prediction: Any) -> bytes:
    array = _plain(prediction)
    if array.dtype.hasobject:
        raise ValueError("npy would need pickled objects")
    return encoders.array_to_npy(array)


def _encode_npz(prediction: Any) -> bytes:
    sparse = require("scipy.sparse", extra="sklearn")
    buffer = io.BytesIO()
    sparse.save_npz(
        buffer, prediction if is_sparse(prediction) else sparse.csr_matrix(np.atleast_2d(_plain(prediction)))
    )
    return buffer.getvalue()


def _encode_recordio(prediction: Any) -> bytes:
    if is_sparse(prediction):
        return encode_recordio(prediction)
    array = _plain(prediction)
    return encode_recordio(array.reshape(-1, 1) if array.ndim < 2 else array)


_ENCODERS: dict[str, Callable[[Any], bytes]] = {
    content_types.JSON: _encode_json,
    content_types.CSV: _encode_csv,
    content_types.NPY: _encode_npy,
    content_types.JSONLINES: _encode_jsonlines,
    content_types.NPZ: _encode_npz,
    content_types.RECORDIO_PROTOBUF: _encode_recordio,
}
ENCODED = tuple(_ENCODERS)
"""The content types that :func:`encode` supports."""


NPZ_LIMIT_BYTES = 256 << 20
NUMBER_LIKE = re.compile(r"[^0-9eE+\-.,\sinfatyINFATY]")  # characters that do not occur in rows of numbers
PYTHON_ONLY = re.compile(r"[^\x00-\x7f]|_")
"""What Python's numbers may have, as in 1_0, but not those of training data."""


def decode(body: bytes, content_type: str) -> Any:
    """Decode a body.

    Args:
        body: The bytes.
        content_type: As in the header. Of its parameters only the charset has an effect.

    Returns:
        csv: ``(rows, columns)``, ``float64``, or strings if a cell is not a number. json: the array that NumPy makes.
        jsonlines: an array of the lines. npy: the array. npz: a SciPy matrix, the array, or arrays by name.
        RecordIO: ``(n, width)``, a CSR array for sparse records.

    Raises:
        RequestError: 415, an unsupported type; 400, the body does not match its type.
    """
    decoder = _DECODERS.get(content_types.media_type(content_type))
    if decoder is None:
        raise RequestError(415, f"content type {content_type!r} is not supported; send one of {', '.join(DECODED)}")
    return decoder(body, content_type)


def _decode_csv(body: bytes, content_type: str) -> Any:
    text = content_types.as_text(body, content_type)
    rows = _csv_rows(text)
    if not rows:
        raise RequestError(400, "the body has no rows: send one line of comma-separated values for each example")
    for number, row in enumerate(rows):
        if len(row) != len(rows[0]):
            reason = f"row {number + 1} of the csv body has {len(row)} values, but row 1 has {len(rows[0])}"
            raise RequestError(400, reason)
    if (NUMBER_LIKE.search(text) is None or '"' in text) and PYTHON_ONLY.search(text) is None:
        try:
            return np.array(rows, dtype=np.float64)
        except ValueError:
            pass  # then strings
    _check_string_size(rows, "the csv body")
    return np.array(rows)


def _check_string_size(values: Any, what: str) -> None:
    """Check the size of an array of strings, in which each element has room for the longest string.

    Raises:
        RequestError: 400, it would need far more memory than a body may have.
    """
    cells, longest, waiting = 0, 0, [values]
    while waiting:
        for value in waiting.pop():
            if isinstance(value, list):
                waiting.append(value)
            elif isinstance(value, dict):
                return  # NumPy makes an array of objects
            else:
                cells += 1
                longest = max(longest, len(value) if isinstance(value, str) else 0)
    if 4 * cells * longest > NPZ_LIMIT_BYTES:
        raise RequestError(
            400, f"{what} has a string of {longest:,} characters among {cells:,} values; send fewer values at once"
        )


def _csv_rows(text: str) -> list[list[str]]:
    if '"' not in text:  # the same as the csv module, and several times faster
        return [line.split(",") for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n") if line]
    try:
        return [row for row in encoders.csv_rows(text) if row]
    except csv.Error as error:
        raise RequestError(400, f"the body is not valid csv: {error}") from error


def _loads(text: str, what: str) -> Any:
    try:
        return load_json(text)
    except ValueError as error:
        raise RequestError(400, f"{what} is not valid JSON: {error}") from error


def _as_array(values: Any, what: str) -> Any:
    if isinstance(values, list):
        _check_string_size(values, what)
    try:
        return np.array(values)
    except (ValueError, OverflowError, RecursionError) as error:
        raise RequestError(400, f"{what} has rows of different lengths; send rows of equal length") from error


def _decode_json(body: bytes, content_type: str) -> Any:
    return _as_array(_loads(content_types.as_text(body, content_type), "the body"), "the json body")


def _decode_jsonlines(body: bytes, content_type: str) -> Any:
    lines = [line for line in content_types.as_text(body, content_type).split("\n") if line.strip()]
    if not lines:
        raise RequestError(400, "the body has no lines: send one JSON value per line")
    return _as_array(
        [_loads(line, f"line {number}") for number, line in enumerate(lines, start=1)], "the jsonlines body"
    )


@dataclass(frozen=True, slots=True)
class _Body:
    """The attributes of a mapped file that reading a header needs."""

    buffer: bytes
    size: int
    path: str = "the npy body"


def _decode_npy(body: bytes, content_type: str) -> Any:
    _ = content_type
    try:
        header = read_header(cast("MappedFile", _Body(body, len(body))))
        flat = np.frombuffer(body, header.dtype, offset=header.data_offset).copy()  # scripts may write to it
        return flat.reshape(header.shape, order="F" if header.is_fortran else "C")
    except (DataError, ValueError) as error:
        raise RequestError(400, f"the body is not a supported array: {error}") from error


def _decode_npz(body: bytes, content_type: str) -> Any:
    arrays = _npz_members(body, content_type)
    if {"format", "shape", "data"} <= arrays.keys():
        return _sparse_matrix(body)
    return next(iter(arrays.values())) if len(arrays) == 1 else arrays


def _npz_members(body: bytes, content_type: str) -> dict[str, Any]:
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            _check_size(archive)
            return {
                member.filename.removesuffix(".npy"): _decode_npy(_read(archive, member), content_type)
                for member in archive.infolist()
            }
    except RequestError:
        raise
    except Exception as error:  # zipfile passes on errors of zlib, bz2 and lzma
        raise RequestError(400, f"the npz body is not an npz archive: {error}") from error


def _check_size(archive: zipfile.ZipFile) -> None:
    # zipfile decompresses a whole bzip2 or LZMA member at once, regardless of its declared size. NumPy writes neither.
    if any(member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for member in archive.infolist()):
        raise RequestError(
            400, "the npz body is compressed by another method than deflate, the only one that NumPy uses"
        )
    if sum(member.file_size for member in archive.infolist()) > NPZ_LIMIT_BYTES:
        raise RequestError(400, f"the npz body unpacks to more than {NPZ_LIMIT_BYTES >> 20} MiB")


def _read(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    with archive.open(member) as file:  # the limit bounds how much is inflated beyond the declared size
        return file.read(member.file_size + 1)


def _sparse_matrix(body: bytes) -> Any:
    sparse = require("scipy.sparse", extra="sklearn")
    try:
        matrix = sparse.load_npz(io.BytesIO(body))
        if hasattr(matrix, "check_format"):
            matrix.check_format(full_check=True)
    except Exception as error:
        raise RequestError(400, f"the npz body is not a sparse matrix: {error}") from error
    return matrix


def _decode_recordio(body: bytes, content_type: str) -> Any:
    _ = content_type
    try:
        return decode_recordio(body)
    except DataError as error:
        raise RequestError(400, f"the RecordIO body cannot be decoded: {error}") from error


_DECODERS: dict[str, Callable[[bytes, str], Any]] = {
    content_types.CSV: _decode_csv,
    content_types.JSON: _decode_json,
    content_types.JSONLINES: _decode_jsonlines,
    content_types.NPY: _decode_npy,
    content_types.NPZ: _decode_npz,
    content_types.RECORDIO_PROTOBUF: _decode_recordio,
}
DECODED = tuple(_DECODERS)
"""The content types that :func:`decode` supports."""


def to_float32(array: Any, content_type: str) -> Any:
    """Convert to ``float32``, as the default ``input_fn`` does for csv and json.

    Raises:
        RequestError: 400, with the first cell that is not a number.
    """
    try:
        check_numbers(array)
        with np.errstate(over="ignore"):
            return array.astype(np.float32)
    except (ValueError, TypeError, OverflowError) as error:
        place = first_text(array)
        hint = "the model takes numbers; a script for strings needs its own input_fn"
        found = "a value that is not a number" if place is None else f"{str(array[place])[:80]!r}"
        at = ", ".join(f"{axis} {index + 1}" for axis, index in zip(("row", "column"), place or (), strict=False))
        found += f" at {at}" if at else ""
        raise RequestError(400, f"the {content_types.media_type(content_type)} body has {found}: {hint}") from error


def check_numbers(table: Any) -> None:
    """Check that no string is a number for Python but not in training data.

    Raises:
        ValueError: One is.
    """
    if table.dtype.kind in "UO" and any(isinstance(cell, str) and PYTHON_ONLY.search(cell) for cell in table.flat):
        raise ValueError("a cell is a number for Python only")


def first_text(table: Any) -> tuple[int, ...] | None:
    """The place of the first cell that is not a number. ``None`` is a missing number for NumPy."""
    for place, cell in np.ndenumerate(table):
        try:
            float(0 if cell is None else "?" if isinstance(cell, str) and PYTHON_ONLY.search(cell) else cell)
        except (ValueError, TypeError, OverflowError):
            return place
    return None
