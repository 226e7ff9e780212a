"""RecordIO: Headrace with its defaults, and the limits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.compare.tasks import MatrixTask, WriteTask
from benchmarks.data import ROW_BYTES, WIDTH, Files
from benchmarks.record_bytes import dense_template

BLOCK_BYTES = 1 << 20


def dense_read(files: Files) -> MatrixTask:
    """``open(path).to_numpy()``, opening the file again in every epoch."""
    import headrace as hr

    return MatrixTask(read=lambda: hr.open(files.recordio).to_numpy(), matrix=files.images, labels=files.float_labels)


def dense_write(files: Files) -> WriteTask:
    """``write_numpy_to_dense_tensor`` into a file."""
    from headrace.sagemaker.common import write_numpy_to_dense_tensor

    return written(
        files,
        "headrace-dense",
        files.recordio,
        lambda file: write_numpy_to_dense_tensor(file, files.images, files.float_labels),
    )


def dense_write_columns(files: Files) -> WriteTask:
    """``headrace.write`` of the two arrays, which makes the file durable."""
    import headrace as hr

    columns = {"values": files.images, "label": files.float_labels}
    path = files.folder / "written" / "headrace-columns.recordio"
    path.parent.mkdir(exist_ok=True)
    return WriteTask(
        write=lambda to: hr.write(to, columns), path=path, references=(files.recordio,), rows=files.sizes.rows
    )  # type: ignore[arg-type]


def sparse_read(files: Files) -> MatrixTask:
    """``open(path).to_csr()``, opening the file again in every epoch."""
    import headrace as hr

    matrix, labels = csr_of(files)
    return MatrixTask(read=lambda: hr.open(files.recordio_sparse).to_csr(), matrix=matrix, labels=labels)


def sparse_write(files: Files) -> WriteTask:
    """``write_spmatrix_to_sparse_tensor`` into a file."""
    from headrace.sagemaker.common import write_spmatrix_to_sparse_tensor

    matrix, labels = csr_of(files)
    return written(
        files,
        "headrace-sparse",
        files.recordio_sparse,
        lambda file: write_spmatrix_to_sparse_tensor(file, matrix, labels),
    )


def strided_copy(files: Files) -> MatrixTask:
    """The floats of each record copied out of blocks of the file into one reused matrix; labels not decoded."""
    record, first, _ = dense_template(WIDTH)
    matrix = np.empty((files.sizes.rows, WIDTH), np.float32)

    def read() -> tuple[np.ndarray, np.ndarray]:
        block = np.empty((256, len(record)), np.uint8)
        at = 0
        with files.recordio.open("rb", buffering=0) as file:
            while count := file.readinto(memoryview(block.reshape(-1))) // len(record):
                np.copyto(matrix[at : at + count].view(np.uint8), block[:count, first : first + ROW_BYTES])
                at += count
        return matrix, files.float_labels

    return MatrixTask(read=read, matrix=files.images, labels=files.float_labels)


def bare_write(files: Files) -> WriteTask:
    """The finished bytes of the dense file written from memory."""
    return _bare(files, "bare-dense", files.recordio)


def bare_write_sparse(files: Files) -> WriteTask:
    """The finished bytes of the sparse file written from memory."""
    return _bare(files, "bare-sparse", files.recordio_sparse)


def _bare(files: Files, name: str, reference: Path) -> WriteTask:
    content = memoryview(reference.read_bytes())

    def write(file: Any) -> None:
        for start in range(0, len(content), BLOCK_BYTES):
            file.write(content[start : start + BLOCK_BYTES])

    return written(files, name, reference, write)


def csr_of(files: Files) -> tuple[Any, np.ndarray]:
    """The sparse matrix and its labels."""
    import scipy.sparse as sp

    values, columns, labels = files.sparse
    indptr = np.arange(0, values.size + 1, values.shape[1], dtype=np.int32)
    return sp.csr_matrix(
        (values.reshape(-1), columns.reshape(-1), indptr), shape=(len(values), files.sizes.sparse_width)
    ), labels


def written(files: Files, name: str, reference: Path, write: Callable[[Any], None]) -> WriteTask:
    """Write a file that is opened for it, as large as the reference and equal to it."""
    path = files.folder / "written" / f"{name}.recordio"
    path.parent.mkdir(exist_ok=True)

    def write_file(to: Path) -> None:
        with to.open("wb") as file:
            write(file)

    rows = files.sizes.rows if reference == files.recordio else files.sizes.sparse_rows
    return WriteTask(write=write_file, path=path, references=(reference,), rows=rows)
