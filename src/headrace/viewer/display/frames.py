"""The fields of a record's frame in its file: of TFRecord, RecordIO, ArrayRecord, Avro, tar archives and arrays."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.formats.npy.header import MAGIC, header_in

__all__ = ["Field", "ReadsBytes", "frame_fields"]

ReadsBytes = Callable[[int, int], bytes]
"""Bytes of a file, decompressed: from an offset on, as many as asked for or up to its end."""

LENGTH, RECORDIO_MAGIC = 0x1FFFFFFF, 0xCED7230A
RIEGELI_BLOCK = 1 << 16
"""Riegeli files, and ArrayRecord files in them, have a block header at each multiple of this."""
TAR_BLOCK = 512
TAR_FIELDS = (
    (0, 100, "name"),
    (100, 108, "mode"),
    (108, 116, "owner"),
    (116, 124, "group"),
    (124, 136, "size"),
    (136, 148, "time"),
    (148, 156, "checksum"),
    (156, 157, "kind"),
    (157, 257, "link"),
    (257, 265, "magic and version"),
    (265, 297, "owner's name"),
    (297, 329, "group's name"),
    (329, 345, "device"),
    (345, 500, "start of the name"),
)
TAR_KINDS = {
    "0": "a file",
    "": "a file",
    "5": "a folder",
    "x": "extended header",
    "g": "global header",
    "L": "long name",
}
AVRO_MAGIC = b"Obj\x01"
AVRO_MARKER = 16
NPY_HEADER = 4096
SHOWN_VALUES = 64
FARTHEST = 2**62


@dataclass(frozen=True, slots=True)
class Field:
    """A stretch of a file: first byte, one after the last, its name, and what it says."""

    start: int
    stop: int
    name: str
    meaning: str


def frame_fields(format: str, read: ReadsBytes, at: int, size: int) -> list[Field]:
    """The fields of the frame that begins at ``at``; none for formats without frames, and where the file ends before them.

    Args:
        format: The name of the format.
        read: Reads the file.
        at: The offset of the frame; of a tar archive, of a member's header or its content.
        size: The size of the file.
    """
    known = {
        "tfrecord": _tfrecord_fields,
        "recordio": _recordio_fields,
        "array_record": _riegeli_fields,
        "riegeli": _riegeli_fields,
        "avro": _avro_fields,
        "webdataset": _tar_fields,
        "npy": _npy_fields,
    }
    found = known.get(format)
    return found(read, at, size) if found is not None else []


def _tfrecord_fields(read: ReadsBytes, at: int, _: int) -> list[Field]:
    head = read(at, 12)
    if len(head) < struct.calcsize("<QI"):
        return []
    length, checksum = struct.unpack("<QI", head)
    end = at + 12 + min(length, FARTHEST)
    return [
        Field(at, at + 8, "length", f"{length:,} bytes of payload"),
        Field(at + 8, at + 12, "checksum of the length", f"masked CRC-32C {checksum:#010x}"),
        Field(at + 12, end, "payload", f"{length:,} bytes"),
        Field(end, end + 4, "checksum of the payload", "masked CRC-32C"),
    ]


def _recordio_fields(read: ReadsBytes, at: int, _: int) -> list[Field]:
    head = read(at, 8)
    if len(head) < struct.calcsize("<II"):
        return []
    magic, word = struct.unpack("<II", head)
    length, part = word & LENGTH, word >> 29
    fits = "correct" if magic == RECORDIO_MAGIC else f"expected {RECORDIO_MAGIC:#010x}"
    padding = -length % 4
    parts = ("a whole record", "the first part", "a middle part", "the last part")
    kind = parts[part] if part < len(parts) else f"unknown part {part}"
    end = at + 8 + length
    return [
        Field(at, at + 4, "magic number", f"{magic:#010x}, {fits}"),
        Field(at + 4, at + 8, "length and part", f"{length:,} bytes, {kind}"),
        Field(at + 8, end, "payload", f"{length:,} bytes"),
        *([Field(end, end + padding, "padding", f"{padding} bytes")] if padding else []),
    ]


def _riegeli_fields(read: ReadsBytes, at: int, _: int) -> list[Field]:
    """The fields of a chunk header; one that crosses a block boundary is not taken apart."""
    if at % RIEGELI_BLOCK + 40 > RIEGELI_BLOCK:
        return []
    begin = at + 24 if at % RIEGELI_BLOCK == 0 else at
    header = read(begin, 40)
    if len(header) < struct.calcsize("<QQQQQ"):
        return []
    checksum, size, data_checksum, kind_and_records, decoded = struct.unpack("<QQQQQ", header)
    kind, records = chr(kind_and_records & 0xFF), kind_and_records >> 8
    return [
        *([Field(at, at + 24, "block header", "one in every 65,536 bytes")] if begin != at else []),
        Field(begin, begin + 8, "checksum of the header", f"HighwayHash64 {checksum:#018x}"),
        Field(begin + 8, begin + 16, "size of the data", f"{size:,} bytes"),
        Field(begin + 16, begin + 24, "checksum of the data", f"HighwayHash64 {data_checksum:#018x}"),
        Field(begin + 24, begin + 32, "kind and records", f"kind {kind!r}, {records:,} records"),
        Field(begin + 32, begin + 40, "decoded size", f"{decoded:,} bytes"),
        Field(begin + 40, begin + 40 + min(size, FARTHEST), "data", f"{size:,} bytes"),
    ]


def _avro_fields(read: ReadsBytes, at: int, _: int) -> list[Field]:
    """A block: counts, data and the marker that follows each block."""
    head = read(at, 20)
    if head.startswith(AVRO_MAGIC):
        return [Field(at, at + 4, "magic number", "Obj, version 1: a header with the schema follows")]
    (records, middle), (size, end) = _zigzag(head, 0), (0, 0)
    if middle:
        size, end = _zigzag(head, middle)
    if not end or records < 0 or not 0 <= size <= FARTHEST:
        return []
    data, stop = at + end, at + end + size
    return [
        Field(at, at + middle, "records", f"{records:,}"),
        Field(at + middle, data, "size", f"{size:,} bytes"),
        Field(data, stop, "data", f"{size:,} bytes, compressed as the header says"),
        Field(stop, stop + AVRO_MARKER, "marker", "16 bytes that are the same after each block"),
    ]


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    """An integer of seven bits a byte, and where it ends; 0 where it does not."""
    value = 0
    for number, byte in enumerate(data[at : at + 10]):
        value |= (byte & 0x7F) << 7 * number
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at + number + 1
    return 0, 0


def _tar_fields(read: ReadsBytes, at: int, size: int) -> list[Field]:
    """The header of a member, its content and what pads it."""
    header, begin = read(at, TAR_BLOCK), at
    if not _is_tar_header(header) and at >= TAR_BLOCK:
        begin = at - TAR_BLOCK
        header = read(begin, TAR_BLOCK)
    if len(header) < TAR_BLOCK:
        return []
    is_sound = _is_tar_header(header)
    found = []
    for start, stop, name in TAR_FIELDS:
        text = header[start:stop].rstrip(b"\0 ").decode("utf-8", "backslashreplace")
        if name == "checksum":
            text = f"{text}, {'correct' if is_sound else f'expected {_tar_checksum(header):06o}'}"
        elif name == "kind":
            text = f"{text} {TAR_KINDS.get(text, 'unknown')}"
        if text.strip():
            found.append(Field(begin + start, begin + stop, name, text))
    content = begin + TAR_BLOCK
    length = _octal(header[124:136])
    if length is None:
        return found
    end = content + min(length, FARTHEST)
    padding = min(-length % TAR_BLOCK, max(0, size - end))
    found.append(Field(content, end, "content", f"{length:,} bytes"))
    return [*found, *([Field(end, end + padding, "padding", f"{padding} bytes")] if padding else [])]


def _is_tar_header(header: bytes) -> bool:
    stated = _octal(header[148:156])
    return len(header) == TAR_BLOCK and stated is not None and stated == _tar_checksum(header)


def _tar_checksum(header: bytes) -> int:
    return sum(header) - sum(header[148:156]) + 8 * ord(" ")


def _octal(field: bytes) -> int | None:
    """A number of a tar header: octal digits, or base 256 where its first bit is set."""
    if field[:1] >= b"\x80":
        return int.from_bytes(field, "big") & ((1 << 8 * len(field) - 1) - 1)
    text = field.split(b"\0")[0].strip()
    return int(text, 8) if text and not text.strip(b"01234567") else None


def _npy_fields(read: ReadsBytes, at: int, size: int) -> list[Field]:
    """The header of an array, or a row and its first values."""
    head = read(0, NPY_HEADER)
    if len(head) < len(MAGIC) + 4 or not head.startswith(MAGIC):
        return []
    width = 2 if head[6] == 1 else 4
    length = int.from_bytes(head[8 : 8 + width], "little")
    end = 8 + width + length
    text = head[8 + width : end].strip().decode("latin-1")
    parts = [
        Field(0, 6, "magic number", "the start of an array of NumPy"),
        Field(6, 8, "version", f"{head[6]}.{head[7]}"),
        Field(8, 8 + width, "length of the header", f"{length:,} bytes"),
        Field(8 + width, end, "header", text[:200]),
    ]
    if at < end:
        return parts
    try:
        header = header_in(memoryview(head if end <= len(head) else read(0, min(end, size))), "", size)
    except Exception:  # noqa: BLE001 - a damaged header has no rows to name
        return parts
    if header.is_fortran or not header.row_bytes:
        return []
    row = (at - header.data_offset) // header.row_bytes
    start = header.data_offset + row * header.row_bytes
    if header.dtype.kind not in "biufc":
        return [Field(start, start + header.row_bytes, f"row {row:,}", str(header.dtype))]
    return _value_fields(read, start, header.dtype, header.row_bytes // header.dtype.itemsize)


def _value_fields(read: ReadsBytes, start: int, dtype: np.dtype[Any], count: int) -> list[Field]:
    """The first values of a row, and the rest in one."""
    width, shown = dtype.itemsize, min(count, SHOWN_VALUES)
    stored = read(start, shown * width)
    values = np.frombuffer(stored[: len(stored) // width * width], dtype).tolist()
    found = [
        Field(start + n * width, start + (n + 1) * width, f"value {n}", f"{value} as {dtype.name}")
        for n, value in enumerate(values)
    ]
    rest = Field(start + shown * width, start + count * width, "the other values", f"{count - shown:,} of {dtype.name}")
    return [*found, *([rest] if count > shown else [])]
