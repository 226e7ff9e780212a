"""Encodes and decodes bodies of RecordIO-protobuf."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from headrace._optional import available, require
from headrace.codecs.sagemaker_record.codec import RecordMessage, RecordTensor, is_record, read_message
from headrace.errors import CorruptRecord, SchemaMismatch, UnsupportedData, Where
from headrace.formats.recordio.format import HEAD, is_recordio, read_stream
from headrace.writing.matrices import Matrix, write_matrix

__all__ = ["decode_recordio", "encode_recordio", "read_messages"]

BYTES = 4
VALUES = "values"


def encode_recordio(array_like: Any, labels: Any = None) -> bytes:
    """Records of the rows of a matrix.

    Args:
        array_like: ``(n, width)``, or ``(width,)`` for one row; dense, or a SciPy matrix, which is written sparse.
        labels: ``(n,)``.

    Raises:
        ValueError: A Record cannot hold it.
    """
    buffer = io.BytesIO()
    if available("scipy") and require("scipy.sparse", extra="sklearn").issparse(array_like):
        write_matrix(buffer, Matrix.sparse(array_like, labels))
    else:
        array = np.asarray(array_like)
        write_matrix(buffer, Matrix.dense(array.reshape(1, -1) if array.ndim == 1 else array, labels))
    return buffer.getvalue()


def read_messages(body: bytes) -> list[RecordMessage]:
    """The Records of a body. A single Record may come without RecordIO framing, as batch transform sends it.

    Raises:
        CorruptRecord: It is truncated or damaged, or a payload is not a Record.
    """
    if not is_recordio(body[:HEAD]) and body and is_record(body):
        return [read_message(body, Where(record=0))]
    payloads = read_stream(
        io.BytesIO(body), lambda magic, plain: plain if is_record(plain) and not is_record(magic) else magic
    )
    return [read_message(payload, Where(record=number)) for number, payload in enumerate(payloads)]


def decode_recordio(body: bytes) -> Any:
    """The vectors of a body.

    Returns:
        ``(n, width)``: an array, or a SciPy CSR array where the Records are sparse.

    Raises:
        DataError: Damaged Records, Records without ``values``, or of different widths.
    """
    tensors = [_vector(message, number) for number, message in enumerate(read_messages(body))]
    if not tensors:
        raise CorruptRecord(Where(), expected="at least one record", found="an empty body")
    if any(_is_sparse(tensor) for tensor in tensors):
        return _sparse(tensors)
    rows = [np.asarray(tensor.values) for tensor in tensors]
    for number, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise _mismatch(number, f"{len(rows[0])} values, as the first record has", f"{len(row)}")
    return np.stack(rows)


def _vector(message: RecordMessage, number: int) -> RecordTensor:
    tensor = message.features.get(VALUES)
    if tensor is None or tensor.kind == BYTES:
        names = ", ".join(message.features) or "no features"
        raise _mismatch(number, "a numeric feature 'values'", names if tensor is None else "bytes")
    return tensor


def _is_sparse(tensor: RecordTensor) -> bool:
    return len(tensor.keys) > 0 or (len(tensor.values) == 0 and len(tensor.shape) > 0)


def _sparse(tensors: list[RecordTensor]) -> Any:
    widths = [int(np.prod(tensor.shape, dtype=object)) if len(tensor.shape) else -1 for tensor in tensors]
    for number, (tensor, width) in enumerate(zip(tensors, widths, strict=True)):
        if not _is_sparse(tensor) or width < 0:
            raise _mismatch(number, "a sparse row with its shape, as other records are", "a dense one, or no shape")
        if width != widths[0]:
            raise _mismatch(number, f"a row of width {widths[0]}, as the first record has", f"{width}")
        if len(tensor.keys) != len(tensor.values) or (len(tensor.keys) and int(max(tensor.keys)) >= width):
            raise _mismatch(number, f"as many keys as values, below {width}", f"{len(tensor.keys)} keys")
    if widths[0] >= 1 << 31:
        raise UnsupportedData(Where(), expected="rows narrower than 2^31", found=f"a width of {widths[0]}")
    indptr = np.cumsum([0, *(len(tensor.values) for tensor in tensors)])
    values = np.concatenate([np.asarray(tensor.values) for tensor in tensors])
    keys = np.concatenate([np.asarray(tensor.keys, np.int64) for tensor in tensors])
    sparse = require("scipy.sparse", extra="sklearn")
    return sparse.csr_array((values, keys, indptr), shape=(len(tensors), widths[0]))


def _mismatch(number: int, expected: str, found: str) -> SchemaMismatch:
    return SchemaMismatch(Where(record=number, feature=VALUES), expected=expected, found=found)
