"""TFRecord files of tf.train.Example and SequenceExample, encoded with NumPy and plain Python: independent of the measured code."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Mapping
from math import prod

import numpy as np

from benchmarks.example_bytes import CRC_TABLE, field, varint
from benchmarks.shapes.shape import BYTES, IMAGES, TEXT, Column, Shape
from benchmarks.shapes.values import Cells

_BLOCK = 256  # bytes whose checksums are computed side by side


def examples(shape: Shape, cells: Mapping[str, Cells], rows: int) -> list[bytes]:
    """The tf.train.Example of each row."""
    entries = [_entries(name, column, cells[name], rows) for name, column in shape.names]
    return [field(1, b"".join(row)) for row in zip(*entries, strict=True)]


def sequence_examples(shape: Shape, cells: Mapping[str, Cells], rows: int) -> list[bytes]:
    """The tf.train.SequenceExample of each row; ragged columns are its feature lists."""
    context = [_entries(name, c, cells[name], rows) for name, c in shape.names if c.lengths is None]
    steps = [_step_entries(name, c, cells[name]) for name, c in shape.names if c.lengths is not None]
    heads = zip(*context, strict=True) if context else ((),) * rows
    tails = zip(*steps, strict=True) if steps else ((),) * rows
    return [
        field(1, b"".join(head)) + field(2, b"".join(tail)) if tail else field(1, b"".join(head))
        for head, tail in zip(heads, tails, strict=True)
    ]


def _entries(name: str, column: Column, cells: Cells, rows: int) -> list[bytes]:
    """The map entry of a feature for each row."""
    each = column.strings or 1
    bounds = np.arange(rows + 1) * each if cells.lengths is None else cells.bounds * each
    return _wrapped(name, _features(column, cells, bounds))


def _step_entries(name: str, column: Column, cells: Cells) -> list[bytes]:
    """The map entry of a feature list for each row."""
    steps = _features(column, cells, np.arange(len(cells.flat) + 1))
    fields = [field(1, step) for step in steps]
    bounds = cells.bounds.tolist()
    return _wrapped(name, [b"".join(fields[a:b]) for a, b in itertools.pairwise(bounds)])


def _features(column: Column, cells: Cells, bounds: np.ndarray) -> list[bytes]:
    """A Feature of the values between each two bounds."""
    flat, ends = cells.flat, bounds.tolist()
    pairs = list(itertools.pairwise(ends))
    if column.kind in TEXT + BYTES + IMAGES:
        return [field(1, b"".join([field(1, value) for value in flat[a:b]])) for a, b in pairs]
    width = prod(column.shape)
    if column.kind == "f":
        data = flat.astype("<f4").tobytes()
        return [field(2, field(1, data[4 * width * a : 4 * width * b])) for a, b in pairs]
    data, offsets = _varints(flat.reshape(-1).astype(np.int64).view(np.uint64))
    cuts = offsets[bounds * width].tolist()
    return [field(3, field(1, data[a:b])) for a, b in itertools.pairwise(cuts)]


def _wrapped(name: str, features: Iterable[bytes]) -> list[bytes]:
    heads: dict[int, bytes] = {}
    key = field(1, name.encode())
    out = []
    for feature in features:
        head = heads.get(len(feature))
        if head is None:
            value = b"\x12" + varint(len(feature))
            head = heads[len(feature)] = b"\x0a" + varint(len(key) + len(value) + len(feature)) + key + value
        out.append(head + feature)
    return out


def _varints(values: np.ndarray) -> tuple[bytes, np.ndarray]:
    """Every value as a varint, joined, and where each begins and the last one ends."""
    lengths = np.ones(len(values), np.int64)
    for k in range(1, 10):
        lengths += values >> np.uint64(7 * k) != 0
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    out = np.empty(offsets[-1], np.uint8)
    for k in range(int(lengths.max(initial=0))):
        some = np.flatnonzero(lengths > k)
        more = (lengths[some] > k + 1).astype(np.uint8) << 7
        out[offsets[some] + k] = (values[some] >> np.uint64(7 * k)).astype(np.uint8) & 0x7F | more
    return out.tobytes(), offsets


def framed(payloads: list[bytes]) -> Iterable[bytes]:
    """TFRecord records around the payloads."""
    lengths = [struct.pack("<Q", len(payload)) for payload in payloads]
    known = sorted(set(lengths))
    heads = dict(zip(known, masked_checksums(known), strict=True))
    for length, payload, checksum in zip(lengths, payloads, masked_checksums(payloads), strict=True):
        yield b"".join((length, heads[length], payload, checksum))


def masked_checksums(texts: list[bytes]) -> list[bytes]:
    """The masked CRC-32C of each text, 4 bytes each."""
    out: list[bytes] = []
    start = 0
    while start < len(texts):  # a few megabytes at a time
        stop, size = start, 0
        while stop < len(texts) and (size < 4_000_000 or stop == start):
            size += len(texts[stop])
            stop += 1
        crc = _checksums(texts[start:stop])
        masked = (crc >> np.uint32(15) | crc << np.uint32(17)) + np.uint32(0xA282EAD8)
        data = masked.astype("<u4").tobytes()
        out += [data[at : at + 4] for at in range(0, len(data), 4)]
        start = stop
    return out


def _checksums(texts: list[bytes]) -> np.ndarray:
    """CRC-32C: 32 one-bits before a text equal its first four bytes inverted, and zeros before that change nothing.

    So every text is padded in front to whole blocks, the blocks are computed side by side, and then combined.
    """
    assert all(len(text) >= 4 for text in texts)
    counts = np.array([-(-len(text) // _BLOCK) for text in texts])
    data = np.zeros(int(counts.sum()) * _BLOCK, np.uint8)
    ends = np.cumsum(counts) * _BLOCK
    for end, text in zip(ends.tolist(), texts, strict=True):
        data[end - len(text) : end] = np.frombuffer(text, np.uint8)
        data[end - len(text) : end - len(text) + 4] ^= 0xFF
    blocks = np.zeros(len(data) // _BLOCK, np.uint32)
    for column in np.ascontiguousarray(data.reshape(-1, _BLOCK).T):
        blocks = CRC_TABLE[(blocks ^ column) & 0xFF] ^ blocks >> np.uint32(8)
    most = int(counts.max(initial=0))
    crc = np.zeros(len(texts), np.uint32)
    last = np.cumsum(counts)
    for back in range(most, 0, -1):
        some = np.flatnonzero(counts >= back)
        crc[some] = _advanced(crc[some]) ^ blocks[last[some] - back]
    return ~crc


def _advanced(crc: np.ndarray) -> np.ndarray:
    """Checksums after a further block of zeros."""
    out = np.zeros_like(crc)
    for byte in range(4):
        out ^= _ZEROS[byte][crc >> np.uint32(8 * byte) & 0xFF]
    return out


def _zero_block_tables() -> np.ndarray:
    crc = (np.arange(256, dtype=np.uint32)[None] << (8 * np.arange(4, dtype=np.uint32))[:, None]).reshape(-1)
    for _ in range(_BLOCK):
        crc = CRC_TABLE[crc & 0xFF] ^ crc >> np.uint32(8)
    return crc.reshape(4, 256)


_ZEROS = _zero_block_tables()
