"""RecordIO-protobuf files from NumPy and SciPy matrices and back: the functions of ``sagemaker.amazon.common``.

Same signatures, and the same bytes for whatever the SDK writes. What it gets wrong is different: SciPy's sparse arrays are
written as its sparse matrices are; whole numbers and floats of other sizes are written where no value changes by it; labels
are counted before anything is written; records that are cut off or damaged are errors, and those of several parts are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace import _optional
from headrace.codecs.sagemaker_record.message import is_record
from headrace.errors import CorruptRecord, Where
from headrace.formats.recordio.stream import Readable, read_stream
from headrace.sagemaker.record import Record
from headrace.writing.matrices import Matrix, Writable, write_matrix

__all__ = ["Record", "read_recordio", "read_records", "write_numpy_to_dense_tensor", "write_spmatrix_to_sparse_tensor"]


def write_numpy_to_dense_tensor(file: Writable, array: Any, labels: Any = None) -> None:
    """Write the rows of a matrix, a dense tensor each.

    Args:
        file: A binary file to write to, from where it stands.
        array: ``(n, width)``. ``float64`` and ``float32`` are written as they are, ``float16`` as ``float32``, whole
            numbers and booleans as the int32 tensor (which is the only one there is for them).
        labels: ``(n,)``, of the same dtypes, whatever that of ``array`` is.

    Raises:
        ValueError: The array has another number of axes, labels another number of values than it has rows; a dtype that
            is none of these, or a whole number that int32 cannot hold. Nothing has been written then.

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
        file: A binary file to write to, from where it stands.
        array: ``(n, width)``: any of SciPy's sparse matrices and arrays. Entries are written in the order of its CSR
            form, zeros and repeated columns too where they are stored.
        labels: ``(n,)``. Dtypes as in :func:`write_numpy_to_dense_tensor`.

    Raises:
        TypeError: ``array`` is not sparse.
        ValueError: As in :func:`write_numpy_to_dense_tensor`, and for column numbers outside the width.
    """
    if not _optional.available("scipy") or not _optional.require("scipy.sparse", extra="sklearn").issparse(array):
        raise TypeError("Array must be sparse")
    write_matrix(file, Matrix.sparse(array, labels))


def read_recordio(file: Readable) -> Iterator[bytes]:
    """The payloads of the records in a file, one after the other.

    A record of several parts is put together with the magic word between the parts, as dmlc's writer cut it, or without,
    where only that gives a Record (ML-IO's way). Padding may be missing at the very end.

    Args:
        file: A binary file to read from, from where it stands to its end.

    Raises:
        CorruptRecord: A record is cut off, or does not begin where it should.
    """
    return read_stream(file, _readable)


def _readable(with_magic: bytes, plain: bytes) -> bytes:
    return plain if is_record(plain) and not is_record(with_magic) else with_magic


def read_records(file: Readable) -> list[Record]:
    """All Records in a file.

    Args:
        file: A binary file to read from, from where it stands to its end.

    Returns:
        Objects with the attributes of protobuf's: ``record.features["values"].float32_tensor.values`` and so on. To get
        the whole matrix, ``headrace.open(path).to_numpy()`` or ``.to_csr()`` is far faster.

    Raises:
        CorruptRecord: A record is damaged, or its payload is no Record.
    """
    records = []
    for number, payload in enumerate(read_recordio(file)):
        record = Record()
        try:
            record.ParseFromString(payload)
        except CorruptRecord as error:
            raise error.relocated(Where(record=number)) from error.__cause__
        records.append(record)
    return records
