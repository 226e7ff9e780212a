"""A slow, plain reader of tf.train.Example and SequenceExample, by protobuf's rules.

A feature is ``(kind, values)``: kind 0 no list, 1 bytes, 2 float32 (as the four bytes of each), 3 int64.
"""

from __future__ import annotations

from tests.reference.proto import BYTES, FIXED32, VARINT, Malformed, fields, messages, signed, varint


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


def feature(parts, *, whole):
    """The Feature that several encodings merge to: of two kinds, the last. ``whole``: also validate the others."""
    kind, pieces = 0, []
    for part in parts:
        for number, layout, piece in fields(part):
            if layout == BYTES and 1 <= number <= 3:
                pieces = [*pieces, piece] if number == kind else [piece]
                kind = number
                if whole:
                    values_of(kind, piece)
    return kind, [value for piece in pieces for value in values_of(kind, piece)]


def entries(payload):
    """Every map entry: whether it is a feature list, its key, and the encodings of its value."""
    for number, layout, body in fields(payload):
        if layout == BYTES and number <= 2:
            for entry in messages(body, 1):
                yield number == 2, [b"", *messages(entry, 1)][-1], messages(entry, 2)


def value_of(in_lists, parts, *, whole):
    if not in_lists:
        return feature(parts, whole=whole)
    return [feature([step], whole=whole) for part in parts for step in messages(part, 1)]


def parse(payload):
    """Features by key, and feature lists by key, of an Example or SequenceExample. Of equal keys the last entry counts."""
    features, lists = {}, {}
    for in_lists, key, parts in entries(payload):
        (lists if in_lists else features)[key] = value_of(in_lists, parts, whole=True)
    return features, lists


def look_up(payload, key, *, in_lists=False):
    """One feature or feature list, without reading the others. ``None`` if missing."""
    found = [parts for where, name, parts in entries(payload) if (where, name) == (in_lists, key)]
    return value_of(in_lists, found[-1], whole=False) if found else None
