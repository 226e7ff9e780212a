"""Reading the same files the plain way, without headrace: what the demo compares with."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

__all__ = ["plain_batches", "plain_npy", "plain_tfrecord"]

Arrays = tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]
BATCH = 64


def plain_tfrecord(paths: Sequence[Path]) -> Arrays:
    """All images and labels, by the standard library and a small protobuf reader. Checksums are not looked at."""
    pairs = [_example(payload) for path in paths for payload in _payloads(path)]
    return np.stack([image for image, _ in pairs]), np.array([label for _, label in pairs], np.int64)


def plain_batches(paths: Sequence[Path]) -> Iterator[Arrays]:
    """The same in batches."""
    pairs = (_example(payload) for path in paths for payload in _payloads(path))
    held = []
    for pair in pairs:
        held.append(pair)
        if len(held) == BATCH:
            yield np.stack([image for image, _ in held]), np.array([label for _, label in held], np.int64)
            held = []
    if held:
        yield np.stack([image for image, _ in held]), np.array([label for _, label in held], np.int64)


def plain_npy(images: Path, labels: Path) -> Iterator[Arrays]:
    """Batches by slicing the mapped arrays."""
    pixels, digits = np.load(images, mmap_mode="r"), np.load(labels, mmap_mode="r")
    for start in range(0, len(digits), BATCH):
        yield np.array(pixels[start : start + BATCH]), np.array(digits[start : start + BATCH])


def _payloads(path: Path) -> Iterator[bytes]:
    """A record is a length of 8 bytes, its checksum of 4, the payload, its checksum of 4."""
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    at = 0
    while at < len(content):
        (size,) = struct.unpack_from("<Q", content, at)
        yield content[at + 12 : at + 12 + size]
        at += 16 + size


def _example(payload: bytes) -> tuple[npt.NDArray[np.float32], int]:
    """A tf.train.Example of one image and one label: maps of messages, each a tag, a length and bytes."""
    found: dict[bytes, bytes] = {}
    for entry in _messages(_messages(payload)[0]):
        name, feature = _messages(entry)
        found[name] = _messages(_messages(feature)[0])[0]
    return np.frombuffer(found[b"image"], "<f4"), _number(found[b"label"], 0)[0]


def _messages(content: bytes) -> list[bytes]:
    """The fields of a message, all of which have a length here."""
    parts, at = [], 0
    while at < len(content):
        size, at = _number(content, at + 1)
        parts.append(content[at : at + size])
        at += size
    return parts


def _number(content: bytes, at: int) -> tuple[int, int]:
    """A protobuf varint, and where it ends."""
    value = shift = 0
    while True:
        byte = content[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
