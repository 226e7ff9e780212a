"""RecordIO framing in slow, plain Python, written from the format's description alone."""

from __future__ import annotations

import struct
from collections.abc import Iterator

MAGIC = 0xCED7230A
MAGIC_BYTES = struct.pack("<I", MAGIC)


class Damaged(ValueError):
    """Where a record does not follow the format."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


def read_parts(data: bytes, at: int) -> tuple[list[bytes], int]:
    """The parts of the record that begins at ``at``, and where the next one begins."""
    parts, begin = [], at
    while True:
        if len(data) - at < 8:
            raise Damaged(begin)
        magic, word = struct.unpack_from("<II", data, at)
        flag, size = word >> 29, word & (1 << 29) - 1
        if magic != MAGIC or flag not in ((2, 3) if parts else (0, 1)):
            raise Damaged(begin)
        end = at + 8 + size + -size % 4
        if end > len(data):
            raise Damaged(begin)
        parts.append(data[at + 8 : at + 8 + size])
        at = end
        if flag in (0, 3):
            return parts, at


def read_records(data: bytes, *, join: bytes = MAGIC_BYTES) -> Iterator[bytes]:
    """The payloads, the parts of each joined by ``join``: the magic word (dmlc) or nothing (ML-IO)."""
    at = 0
    while at < len(data):
        parts, at = read_parts(data, at)
        yield join.join(parts)


def frame(payload: bytes, flag: int = 0) -> bytes:
    """One part."""
    return struct.pack("<II", MAGIC, flag << 29 | len(payload)) + payload + bytes(-len(payload) % 4)


def frame_parts(parts: list[bytes]) -> bytes:
    """A record of these parts."""
    flags = [0] if len(parts) == 1 else [1, *[2] * (len(parts) - 2), 3]
    return b"".join(frame(part, flag) for part, flag in zip(parts, flags, strict=True))


def split_as_dmlc(payload: bytes) -> list[bytes]:
    """The parts that dmlc's writer makes: split wherever the magic word is at a multiple of 4."""
    parts, begin = [], 0
    for at in range(0, len(payload) - 3, 4):
        if payload[at : at + 4] == MAGIC_BYTES:
            parts.append(payload[begin:at])
            begin = at + 4
    return [*parts, payload[begin:]]


def read_around(data: bytes) -> tuple[list[bytes], list[int]]:
    """Payloads of all records that can be read, and where each damaged stretch begins.

    If no record begins there, the previous length may be wrong: a record that begins inside it counts instead.
    """
    payloads: list[bytes] = []
    faults: list[int] = []
    at, before = 0, None
    while at < len(data):
        try:
            parts, after = read_parts(data, at)
        except Damaged:
            begin = at if before is None or not _is_no_record(data, at) else before
            after = next(
                (place for place in range(begin + 4, len(data)) if place % 4 == 0 and _is_whole(data, place)), len(data)
            )
            if after < at:
                payloads.pop()
                at = begin
            faults.append(at)
            before = None
        else:
            payloads.append(MAGIC_BYTES.join(parts))
            before = at
        at = after
    return payloads, faults


def _is_whole(data: bytes, at: int) -> bool:
    try:
        read_parts(data, at)
    except Damaged:
        return False
    return True


def _is_no_record(data: bytes, at: int) -> bool:
    """Whether the fault is the magic word or the flag of a part, not the end of the file."""
    begin = True
    while len(data) - at >= 8:
        magic, word = struct.unpack_from("<II", data, at)
        if magic != MAGIC or word >> 29 not in ((0, 1) if begin else (2, 3)):
            return True
        at += 8 + (word & (1 << 29) - 1) + 3 & ~3
        begin = False
    return False
