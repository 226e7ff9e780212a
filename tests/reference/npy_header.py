"""A slow, plain reader of .npy headers: Python's literal parser, then every check by hand."""

from __future__ import annotations

import ast
import re
import struct

MAGIC = b"\x93NUMPY"
WIDTHS = {1: "<H", 2: "<I", 3: "<I"}


class Refused(Exception):
    """Not a header."""


def parse(data: bytes) -> tuple[tuple[int, int], object, bool, tuple[int, ...], int]:
    """Version, descr, Fortran order, shape, and where the data begin."""
    if data[:6] != MAGIC or len(data) < 8 or data[6] not in WIDTHS or data[7] != 0:
        raise Refused("magic or version")
    width = WIDTHS[data[6]]
    begin = 8 + struct.calcsize(width)
    if len(data) < begin:
        raise Refused("truncated")
    (length,) = struct.unpack_from(width, data, 8)
    if len(data) < begin + length:
        raise Refused("truncated")
    descr, fortran_order, shape = _checked(_literal(data[begin : begin + length], data[6]))
    return (data[6], 0), descr, fortran_order, shape, begin + length


def _literal(text: bytes, major: int) -> object:
    try:
        header = text.decode("utf-8" if major == 3 else "latin-1")
        try:
            return ast.literal_eval(header)
        except SyntaxError:
            if major == 3:
                raise
            return ast.literal_eval(re.sub(r"(?<=\d)L", "", header))  # Python 2 wrote 3L
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise Refused("no literal") from error


def _checked(header: object) -> tuple[object, bool, tuple[int, ...]]:
    if not isinstance(header, dict) or set(header) != {"descr", "fortran_order", "shape"}:
        raise Refused("keys")
    shape = header["shape"]
    if type(header["fortran_order"]) is not bool or not isinstance(shape, tuple):
        raise Refused("types")
    if not all(type(length) is int and 0 <= length < 1 << 63 for length in shape):
        raise Refused("lengths")
    if type(header["descr"]) not in (str, list, tuple):
        raise Refused("descr")
    return header["descr"], header["fortran_order"], shape
