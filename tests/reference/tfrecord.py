"""A slow, plain TFRecord reader, record by record and CRC byte by byte."""

from __future__ import annotations

import struct

CASTAGNOLI = 0x82F63B78
MASK = 0xA282EAD8


class Damaged(Exception):
    """A fault, with the record's number and offset."""

    def __init__(self, kind: str, record: int, offset: int) -> None:
        super().__init__(kind, record, offset)
        self.kind, self.record, self.offset = kind, record, offset


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in bytes(data):
        crc = TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def _entry(value: int) -> int:
    for _ in range(8):
        value = (value >> 1) ^ (CASTAGNOLI if value & 1 else 0)
    return value


TABLE = [_entry(value) for value in range(256)]


def masked(data: bytes) -> int:
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + MASK) & 0xFFFFFFFF


def framed(payload: bytes) -> bytes:
    length = struct.pack("<Q", len(payload))
    return length + struct.pack("<I", masked(length)) + payload + struct.pack("<I", masked(payload))


def read(data: bytes) -> tuple[list[int], list[bytes], Damaged | None]:
    """Starts and payloads of the records before the first fault, and the fault."""
    starts: list[int] = []
    payloads: list[bytes] = []
    at = 0
    while at < len(data):
        kind, payload = _record(data, at)
        if kind:
            return starts, payloads, Damaged(kind, len(starts), at)
        starts.append(at)
        payloads.append(payload)
        at += 16 + len(payload)
    return starts, payloads, None


def _record(data: bytes, at: int) -> tuple[str, bytes]:
    if len(data) - at < 12:
        return "truncated", b""
    length, crc = struct.unpack_from("<QI", data, at)
    if masked(data[at : at + 8]) != crc:
        return "length_checksum", b""
    payload = data[at + 12 : at + 12 + length]
    if len(data) - at < 16 + length:
        return "truncated", b""
    if masked(payload) != struct.unpack_from("<I", data, at + 12 + length)[0]:
        return "payload_checksum", b""
    return "", payload


def read_around(data: bytes) -> tuple[list[bytes], list[int]]:
    """Payloads of all records that can be read, and where each damaged stretch begins.

    The length of a record whose payload is damaged is trusted if the head of a record, or the end, follows. Otherwise the
    next whole record is searched for, byte by byte.
    """
    payloads: list[bytes] = []
    faults: list[int] = []
    at = 0
    while at < len(data):
        kind, payload = _record(data, at)
        if not kind:
            payloads.append(payload)
            at += 16 + len(payload)
            continue
        faults.append(at)
        after = at + 16 + int.from_bytes(data[at : at + 8], "little")
        head = data[after : after + 12]
        follows = after == len(data) or (len(head) == 12 and head[8:] == struct.pack("<I", masked(head[:8])))
        if kind != "payload_checksum" or not follows:
            after = next((place for place in range(at + 1, len(data)) if not _record(data, place)[0]), len(data))
        at = after
    return payloads, faults
