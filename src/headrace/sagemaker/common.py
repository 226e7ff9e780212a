"""RecordIO-protobuf files from NumPy and SciPy matrices and back: the functions of ``sagemaker.amazon.common``.

They have the SDK's signatures and write the same bytes. They differ where the SDK fails: SciPy's sparse arrays are written like
its sparse matrices, integers and floats of other sizes are written if no value changes, labels are counted before anything is
written, truncated and damaged records raise errors, and records of several parts are read.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from headrace import _optional
from headrace.codecs.sagemaker_record.codec import check_record, is_record
from headrace.errors import Where
from headrace.formats.recordio.format import Readable, read_stream
from headrace.sagemaker.amazon import record_pb2
from headrace.writing.matrices import Matrix, Writable, write_matrix

__all__ = ["read_recordio", "read_records", "write_numpy_to_dense_tensor", "write_spmatrix_to_sparse_tensor"]


def write_numpy_to_dense_tensor(file: Writable, array: Any, labels: Any = None) -> None:
    """Write the rows of a matrix, a dense tensor each.

    Args:
        file: A binary file, written from its current position.
        array: ``(n, width)``. ``float64`` and ``float32`` keep their type, ``float16`` becomes ``float32``, integers and
            booleans become int32, the only integer tensor of the format.
        labels: ``(n,)``, of any of these dtypes.

    Raises:
        ValueError: ``array`` is not a matrix, ``labels`` has another length, the dtype is none of these, or an integer does not
            fit int32. Nothing has been written.

    >>> import io, numpy as np
    >>> file = io.BytesIO()
    >>> write_numpy_to_dense_tensor(file, np.array([[1.0, 2.0]], np.float32), np.array([3.0], np.float32))
    >>> file.getvalue().hex()[:48]
    '0a23d7ce2c0000000a160a0676616c756573120c120a0a08'
    """
    write_matrix(file, Matrix.dense(array, labels))


def write_spmatrix_to_sparse_tensor(file: Writable, array: Any, labels: Any = None) -> None:
    """Write the rows of a sparse matrix, a sparse tensor each.

    Args:
        file: A binary file, written from its current position.
        array: ``(n, width)``: any SciPy sparse matrix or array. Entries are written in CSR order, including stored zeros and
            repeated columns.
        labels: ``(n,)``. Dtypes as in :func:`write_numpy_to_dense_tensor`.

    Raises:
        TypeError: ``array`` is not sparse.
        ValueError: As in :func:`write_numpy_to_dense_tensor`, or a column index exceeds the width.
    """
    if not _optional.available("scipy") or not _optional.require("scipy.sparse", extra="sklearn").issparse(array):
        raise TypeError("Array must be sparse")
    write_matrix(file, Matrix.sparse(array, labels))


def read_recordio(file: Readable | bytes) -> Iterator[bytes]:
    """Iterate over the payloads of a file's records.

    The parts of a record are joined by the magic word, as dmlc splits them, or directly where only that is a valid Record, as
    ML-IO splits them. The padding of the last record may be missing.

    Args:
        file: A binary file, read from its current position to its end, or the bytes that ``RecordSerializer`` makes.

    Raises:
        CorruptRecord: A record is truncated, or does not start with the magic word.
    """
    return read_stream(io.BytesIO(file) if isinstance(file, (bytes, bytearray)) else file, _choose_join)


def _choose_join(with_magic: bytes, plain: bytes) -> bytes:
    return plain if is_record(plain) and not is_record(with_magic) else with_magic


def read_records(file: Readable) -> list[Any]:
    """Read all Records of a file as protobuf messages.

    To read the matrix they hold, use ``headrace.open(path).to_numpy()`` or ``.to_csr()``, which are far faster.

    Args:
        file: A binary file, read from its current position to its end.

    Returns:
        ``record_pb2.Record`` messages: ``record.features["values"].float32_tensor.values`` and so on.

    Raises:
        CorruptRecord: A record is damaged, or its payload is not a Record.
        MissingExtra: protobuf is not installed.
    """
    parse = record_pb2.Record.FromString
    return [parse(check_record(payload, Where(record=number))) for number, payload in enumerate(read_recordio(file))]
