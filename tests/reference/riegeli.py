"""A slow, plain reader of Riegeli files with simple chunks, written from the format's description."""

import struct

import brotli
import cramjam
import zstandard
from tests.reference.highway_hash import highway_hash

BLOCK, HEADER = 65536, 24


def take(file, at, size):
    """``size`` bytes from ``at`` on without block headers, and where they end."""
    out = b""
    while len(out) < size:
        at += HEADER if at % BLOCK == 0 else 0
        part = file[at : min(at + size - len(out), at - at % BLOCK + BLOCK)]
        assert part, "truncated"
        out, at = out + part, at + len(part)
    return out, at


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return value, at


def unpacked(codec, part):
    if codec == 0:
        return part
    size, at = varint(part, 0)
    if codec == ord("z"):
        return zstandard.ZstdDecompressor().decompressobj().decompress(part[at:])[:size]
    return brotli.decompress(part[at:]) if codec == ord("b") else bytes(cramjam.snappy.decompress_raw(part[at:]))


def split(data, num_records):
    """The records of a simple chunk."""
    size, at = varint(data, 1)
    sizes, values = unpacked(data[0], data[at : at + size]), unpacked(data[0], data[at + size :])
    records = []
    at = 0
    for _ in range(num_records):
        size, at = varint(sizes, at)
        records.append(values[:size])
        values = values[size:]
    assert at == len(sizes)
    assert not values
    return records


def chunks(file, *, check=True):
    """Type, records and begin of every chunk."""
    at = 0
    while at < len(file):
        begin = at
        header, at = take(file, at, 40)
        stored, size, data_hash, kind, _ = struct.unpack("<5Q", header)
        data, at = take(file, at, size)
        if check:
            assert stored == highway_hash(header[8:])
            assert data_hash == highway_hash(data)
        num_records = kind >> 8
        yield chr(kind & 255), split(data, num_records) if kind & 255 == ord("r") else [], begin
        least = begin + num_records
        at = max(at, least + max(0, 25 - least % BLOCK) if 0 < least % BLOCK < 25 else least)


def read(file, *, check=True):
    """The records of an ArrayRecord file, by its chunks: the last two hold footer and postscript."""
    groups = [records for kind, records, _ in chunks(file, check=check) if kind == "r"]
    return [record for group in groups[:-2] for record in group]
