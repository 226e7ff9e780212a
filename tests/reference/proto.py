"""A slow, plain reader of the protobuf wire format."""

from __future__ import annotations

VARINT, FIXED64, BYTES, GROUP, END, FIXED32 = range(6)


class Malformed(Exception):
    """Not a message."""


def varint(data, at):
    value = 0
    for i in range(10):
        if at + i >= len(data):
            raise Malformed("cut varint")
        value |= (data[at + i] & 0x7F) << (7 * i)
        if data[at + i] < 0x80:
            return value & (2**64 - 1), at + i + 1
    raise Malformed("long varint")


def signed(value):
    return value - 2**64 if value >= 2**63 else value


def one(data, at):
    """The field at ``at``: number, layout, value (``None`` of a group), and where it ends."""
    tag, at = varint(data, at)
    number, layout = tag >> 3, tag & 7
    if tag >= 2**32 or number == 0 or layout > FIXED32:
        raise Malformed("tag")
    if layout == VARINT:
        value, at = varint(data, at)
        return number, layout, value, at
    if layout in (GROUP, END):
        return number, layout, None, at
    size = {FIXED64: 8, FIXED32: 4}.get(layout)
    if size is None:
        size, at = varint(data, at)
    if size > len(data) - at:
        raise Malformed("cut value")
    return number, layout, data[at : at + size], at + size


def fields(data):
    """Number, layout and value of every field outside groups."""
    at, groups = 0, []
    while at < len(data):
        number, layout, value, at = one(data, at)
        if layout == GROUP:
            groups.append(number)
            if len(groups) > 101:
                raise Malformed("deep")
        elif layout == END:
            if not groups or groups.pop() != number:
                raise Malformed("end of another group")
        elif not groups:
            yield number, layout, value
    if groups:
        raise Malformed("open group")


def messages(data, number):
    return [value for field, layout, value in fields(data) if (field, layout) == (number, BYTES)]
