"""The SageMaker SDK 2, as its users write and read RecordIO-protobuf."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from sagemaker.amazon.common import read_recordio, write_numpy_to_dense_tensor, write_spmatrix_to_sparse_tensor
from sagemaker.amazon.record_pb2 import Record

from benchmarks.compare.systems.recordio import csr_of, written
from benchmarks.compare.tasks import MatrixTask, WriteTask
from benchmarks.data import WIDTH, Files


def dense_read(files: Files) -> MatrixTask:
    """``read_recordio``, ``ParseFromString`` and ``np.array`` into a matrix."""

    def read() -> tuple[np.ndarray, np.ndarray]:
        matrix = np.empty((files.sizes.rows, WIDTH), np.float32)
        labels = np.empty(files.sizes.rows, np.float32)
        with files.recordio.open("rb") as file:
            for i, payload in enumerate(read_recordio(file)):
                record = Record()
                record.ParseFromString(payload)
                matrix[i] = np.array(record.features["values"].float32_tensor.values, np.float32)
                labels[i] = record.label["values"].float32_tensor.values[0]
        return matrix, labels

    return MatrixTask(read=read, matrix=files.images, labels=files.float_labels)


def sparse_read(files: Files) -> MatrixTask:
    """The same into the parts of a CSR matrix."""
    matrix, labels = csr_of(files)
    return MatrixTask(read=lambda: _csr(files), matrix=matrix, labels=labels)


def _csr(files: Files) -> tuple[object, np.ndarray]:
    values, keys, ends, labels, width = [], [], [0], [], 0
    with files.recordio_sparse.open("rb") as file:
        for payload in read_recordio(file):
            record = Record()
            record.ParseFromString(payload)
            tensor = record.features["values"].float32_tensor
            values.append(np.array(tensor.values, np.float32))
            keys.append(np.array(tensor.keys, np.int32))
            ends.append(ends[-1] + len(values[-1]))
            labels.append(record.label["values"].float32_tensor.values[0])
            width = tensor.shape[0]
    parts = (np.concatenate(values), np.concatenate(keys), np.array(ends, np.int32))
    return sp.csr_matrix(parts, shape=(len(labels), width)), np.array(labels, np.float32)


def dense_write(files: Files) -> WriteTask:
    """``write_numpy_to_dense_tensor`` into a file."""
    return written(
        files,
        "sdk-dense",
        files.recordio,
        lambda file: write_numpy_to_dense_tensor(file, files.images, files.float_labels),
    )


def sparse_write(files: Files) -> WriteTask:
    """``write_spmatrix_to_sparse_tensor`` into a file."""
    matrix, labels = csr_of(files)
    return written(
        files, "sdk-sparse", files.recordio_sparse, lambda file: write_spmatrix_to_sparse_tensor(file, matrix, labels)
    )
