"""RecordIO files of SageMaker Records made with NumPy alone: slow, plain, and independent of the measured code."""

from __future__ import annotations

import struct

import numpy as np

from benchmarks.example_bytes import field, varint

MAGIC = 0xCED7230A


def framed_dense(images: np.ndarray, labels: np.ndarray) -> bytes:
    """Whole records, one for each row: the tensor ``values``, and the label ``values``.

    Args:
        images: float32 (n, width).
        labels: float32 (n,).

    Returns:
        The framed records, joined. All are equally long.
    """
    record, values_at, label_at = dense_template(images.shape[1])
    block = np.empty((len(images), len(record)), np.uint8)
    block[:] = np.frombuffer(record, np.uint8)
    block[:, values_at : values_at + images.shape[1] * 4] = images.astype("<f4").view(np.uint8)
    block[:, label_at : label_at + 4] = labels.astype("<f4").view(np.uint8).reshape(-1, 4)
    return block.tobytes()


def dense_template(width: int) -> tuple[bytes, int, int]:
    """A framed record of zeros, and the offsets of its values and label."""
    floats = bytes(width * 4)
    head = _features(field(1, floats))
    payload = head + _label(0.0)
    return _framed(payload), 8 + len(head) - len(floats), 8 + len(payload) - 4


def framed_sparse(values: np.ndarray, columns: np.ndarray, labels: np.ndarray, width: int) -> bytes:
    """Whole records, one for each row of a sparse matrix.

    Args:
        values: float32 (n, entries).
        columns: The column of each value, (n, entries).
        labels: float32 (n,).
        width: Of the matrix.
    """
    shape = field(3, varint(width))
    records = []
    for row, keys, label in zip(values, columns.tolist(), labels.tolist(), strict=True):
        tensor = field(1, row.astype("<f4").tobytes()) + field(2, b"".join(map(varint, keys))) + shape
        records.append(_framed(_features(tensor) + _label(label)))
    return b"".join(records)


def _features(tensor: bytes) -> bytes:
    return field(1, field(1, b"values") + field(2, field(2, tensor)))


def _label(value: float) -> bytes:
    return field(2, field(1, b"values") + field(2, field(2, field(1, struct.pack("<f", value)))))


def _framed(payload: bytes) -> bytes:
    return struct.pack("<II", MAGIC, len(payload)) + payload + bytes(-len(payload) % 4)
