"""SageMaker Records in every legal wire encoding, for hypothesis."""

from __future__ import annotations

import struct
from typing import Any

from hypothesis import strategies as st

FIELDS = {"float32": 2, "float64": 3, "int32": 7, "bytes": 9}
LETTERS = {"float32": "f", "float64": "d"}


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def one(kind: str | None, value: Any) -> bytes:
    return struct.pack("<" + LETTERS[kind], value) if kind in LETTERS else varint(value)


def packed(number: int, kind: str | None, values: list[Any]) -> bytes:
    return field(number, b"".join(one(kind, value) for value in values))


def unpacked(number: int, kind: str | None, values: list[Any]) -> bytes:
    tag = varint(number << 3 | {"float32": 5, "float64": 1}.get(kind or "", 0))
    return b"".join(tag + one(kind, value) for value in values)


unknown = st.sampled_from(
    [b"", b"\x78\x05", field(14, b"abc"), b"\x7b\x08\x01\x7c", b"\x7d\0\0\0\0", b"\x79" + bytes(8)]
)


@st.composite
def repeated(draw: Any, number: int, kind: str | None, values: list[Any]) -> bytes:
    """A repeated number in up to three pieces, each packed or not, with unknown fields between."""
    cuts = sorted(draw(st.lists(st.integers(0, len(values)), max_size=2)))
    out = b""
    for begin, end in zip([0, *cuts], [*cuts, len(values)], strict=True):
        out += draw(st.sampled_from([packed, unpacked]))(number, kind, values[begin:end]) + draw(unknown)
    return out


def numbers(kind: str) -> Any:
    if kind == "int32":
        return st.integers(-(2**31), 2**31 - 1)
    return st.floats(width=32 if kind == "float32" else 64, allow_nan=False)


@st.composite
def tensor(draw: Any, kind: str, *, sparse: bool = False) -> bytes:
    """A Value with one tensor, in one or two pieces that are merged."""
    if kind == "bytes":
        return field(9, b"".join(field(1, value) for value in draw(st.lists(st.binary(max_size=5), max_size=3))))
    values = draw(st.lists(numbers(kind), max_size=5))
    parts = [draw(repeated(1, kind, values))]
    if sparse:
        parts += [
            draw(repeated(2, None, draw(st.lists(st.integers(0, 29), min_size=len(values), max_size=len(values)))))
        ]
        parts += [draw(repeated(3, None, [30]))]
    parts = draw(st.permutations(parts))
    cut = draw(st.integers(0, len(parts)))
    pieces = [parts[:cut], parts[cut:]] if draw(st.booleans()) else [parts]
    return b"".join(field(FIELDS[kind], b"".join(piece)) for piece in pieces)


@st.composite
def entry(draw: Any, number: int, key: bytes, value: bytes) -> bytes:
    parts = draw(st.permutations([field(1, key), field(2, value), draw(unknown)]))
    return field(number, b"".join(parts))


@st.composite
def records(draw: Any) -> bytes:
    """A Record: dense ``values``, sparse ``sparse``, a label, texts, strings, other keys, in any order, some repeated."""
    parts = [
        draw(entry(1, b"values", draw(tensor(draw(st.sampled_from(list(FIELDS))))))),
        draw(entry(1, b"sparse", draw(tensor("float32", sparse=True)))),
        draw(entry(2, b"values", draw(tensor("int32")))),
        draw(entry(draw(st.sampled_from([1, 2])), draw(st.binary(max_size=3)), draw(tensor("bytes")))),
        field(draw(st.sampled_from([3, 4, 5])), draw(st.sampled_from([b"", b"text"]))),
        draw(unknown),
    ]
    chosen = draw(st.lists(st.sampled_from(range(len(parts))), max_size=8))
    return b"".join(parts[number] for number in chosen)
