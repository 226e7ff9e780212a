"""TFRecord files of tf.Example records made with NumPy alone: slow, plain, and independent of the measured code.

All records are equally long, so the framing and the protobuf bytes around the values are one template, and the
checksums of a block of records are computed side by side, one byte column at a time.
"""

from __future__ import annotations

import struct

import numpy as np


def framed_examples(images: np.ndarray, labels: np.ndarray, *, label_first: bool = False) -> bytes:
    """Whole TFRecord records, one tf.Example per row, with the features ``image`` and ``label``.

    Args:
        images: float32 (n, width).
        labels: int64 (n,), each in 0..127 (one varint byte).
        label_first: Put ``label`` before ``image``; a map of protobuf has no order, sorted names are the usual one.

    Returns:
        The framed records, joined.
    """
    payload, image_at, label_at = _template(images.shape[1], label_first=label_first)
    block = np.empty((len(images), 12 + len(payload) + 4), np.uint8)
    length = struct.pack("<Q", len(payload))
    block[:, :8] = np.frombuffer(length, np.uint8)
    block[:, 8:12] = _masked(np.frombuffer(length, np.uint8)[None])
    body = block[:, 12:-4]
    body[:] = np.frombuffer(payload, np.uint8)
    body[:, image_at : image_at + images.shape[1] * 4] = images.astype("<f4").view(np.uint8)
    body[:, label_at] = labels
    block[:, -4:] = _masked(body)
    return block.tobytes()


def image_offset(width: int) -> int:
    """The offset of the image's floats in a framed record."""
    return 12 + _template(width)[1]


def _template(width: int, *, label_first: bool = False) -> tuple[bytes, int, int]:
    """A payload of zeros, and the offsets of its floats and label byte."""
    floats = bytes(width * 4)
    image = field(1, field(1, b"image") + field(2, field(2, field(1, floats))))
    label = field(1, field(1, b"label") + field(2, field(3, field(1, b"\0"))))
    payload = field(1, label + image if label_first else image + label)
    end = len(payload)
    if label_first:
        return payload, end - len(floats), end - len(image) - 1
    return payload, end - len(label) - len(floats), end - 1


def field(number: int, value: bytes) -> bytes:
    """A length-delimited protobuf field."""
    return bytes([number << 3 | 2]) + varint(len(value)) + value


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _crc_table() -> np.ndarray:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, table >> 1 ^ np.uint32(0x82F63B78), table >> 1)
    return table.astype(np.uint32)


CRC_TABLE = _crc_table()


def _masked(rows: np.ndarray) -> np.ndarray:
    """Masked CRC-32C of each row of bytes, as uint8 (n, 4), little-endian."""
    crc = np.full(len(rows), 0xFFFFFFFF, np.uint32)
    for column in np.ascontiguousarray(rows.T):
        crc = CRC_TABLE[(crc ^ column) & 0xFF] ^ (crc >> np.uint32(8))
    crc = ~crc
    masked = (crc >> np.uint32(15) | crc << np.uint32(17)) + np.uint32(0xA282EAD8)
    return masked.astype("<u4").view(np.uint8).reshape(-1, 4)
