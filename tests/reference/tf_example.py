"""tf.train.Example and SequenceExample the slow, plain way, by protobuf's rules.

A feature is ``(kind, values)``: kind 0 no list, 1 bytes, 2 float32 (as the four bytes of each), 3 int64.
"""

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


def values_of(kind, piece):
    """The values in a BytesList, FloatList or Int64List, packed or not."""
    out = []
    for number, layout, value in fields(piece):
        if number != 1:
            continue
        if kind == 1 and layout == BYTES:
            out.append(value)
        elif kind == 2 and layout in (FIXED32, BYTES):
            if len(value) % 4:
                raise Malformed("cut float")
            out += [value[i : i + 4] for i in range(0, len(value), 4)]
        elif kind == 3 and layout == VARINT:
            out.append(signed(value))
        elif kind == 3 and layout == BYTES:
            at = 0
            while at < len(value):
                number_there, at = varint(value, at)
                out.append(signed(number_there))
    return out


def feature(parts):
    """The Feature that several encodings of it merge to: of two kinds, the last one."""
    kind, values = 0, []
    for part in parts:
        for number, layout, piece in fields(part):
            if layout == BYTES and 1 <= number <= 3:
                values = values_of(number, piece) if number != kind else values + values_of(number, piece)
                kind = number
    return kind, values


def parse(payload):
    """Features by key, and feature lists by key, of an Example or SequenceExample. Of equal keys the last entry counts."""
    features, lists = {}, {}
    for number, layout, body in fields(payload):
        if layout != BYTES or number > 2:
            continue
        for entry in messages(body, 1):
            key = ([b"", *messages(entry, 1)])[-1]
            parts = messages(entry, 2)
            if number == 1:
                features[key] = feature(parts)
            else:
                lists[key] = [feature([step]) for part in parts for step in messages(part, 1)]
    return features, lists
