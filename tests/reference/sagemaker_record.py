"""SageMaker's Record in slow, plain Python, written from its definition and protobuf's rules alone."""

from __future__ import annotations

import struct
from typing import Any

KINDS = {2: ("float32", "f", 5), 3: ("float64", "d", 1), 7: ("int32", None, 0), 9: ("bytes", None, 2)}


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & (1 << 64) - 1, at
    raise ValueError("overlong varint")


def scalar(data: bytes, at: int, wire: int) -> tuple[Any, int]:
    """The value of a field that is not a group."""
    if wire == 0:
        return varint(data, at)
    size, at = varint(data, at) if wire == 2 else ({1: 8, 5: 4}[wire], at)
    if at + size > len(data):
        raise ValueError("cut off")
    return data[at : at + size], at + size


def fields(data: bytes) -> list[tuple[int, int, Any]]:
    """(number, wire type, value) of every field; groups are ignored. Raises some exception if it is not a message."""
    found, at, groups = [], 0, []
    while at < len(data):
        tag, at = varint(data, at)
        number, wire = tag >> 3, tag & 7
        if not 1 <= number < 1 << 29:
            raise ValueError("bad tag")
        if wire == 3:
            groups.append(number)
        elif wire == 4:
            if groups.pop() != number:
                raise ValueError("bad group")
        else:
            value, at = scalar(data, at, wire)
            if not groups:
                found.append((number, wire, value))
    if groups:
        raise ValueError("open group")
    return found


def packed(data: bytes, letter: str | None) -> list[Any]:
    if letter is not None:
        return list(struct.unpack(f"<{len(data) // struct.calcsize(letter)}{letter}", data))
    values, at = [], 0
    while at < len(data):
        value, at = varint(data, at)
        values.append(value)
    return values


def int32(value: int) -> int:
    return (value & 0xFFFFFFFF) - ((value & 0x80000000) << 1)


def parse_value(pieces: list[bytes]) -> dict[str, Any] | None:
    tensor: dict[str, Any] | None = None
    for number, wire, message in (field for piece in pieces for field in fields(piece)):
        if number not in KINDS or wire != 2:
            continue
        kind, letter, single = KINDS[number]
        if tensor is None or tensor["kind"] != kind:
            tensor = {"kind": kind, "values": [], "keys": [], "shape": []}
        for field, inner, value in fields(message):
            if kind == "bytes" and (field, inner) == (1, 2):
                tensor["values"].append(value)
            elif kind != "bytes" and field in (1, 2, 3) and inner in (2, single if field == 1 else 0):
                plain = letter if field == 1 else None
                numbers = packed(value, plain) if isinstance(value, bytes) else [value]
                tensor[("values", "keys", "shape")[field - 1]] += (
                    map(int32, numbers) if kind == "int32" and field == 1 else numbers
                )
    return tensor


def parse(payload: bytes) -> dict[str, Any]:
    """``{"features": {key: tensor}, "label": ..., "uid": ..., "metadata": ..., "configuration": ...}``."""
    record: dict[str, Any] = {"features": {}, "label": {}, "uid": None, "metadata": None, "configuration": None}
    for number, wire, value in fields(payload):
        if wire != 2 or number > 5:
            continue
        if number > 2:
            record[("uid", "metadata", "configuration")[number - 3]] = value
            continue
        inner = [(n, v) for n, w, v in fields(value) if w == 2]
        key = next((v for n, v in reversed(inner) if n == 1), b"")
        record[("features", "label")[number - 1]][key] = parse_value([v for n, v in inner if n == 2])
    return record
