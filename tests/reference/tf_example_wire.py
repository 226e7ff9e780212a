"""Examples and SequenceExamples in every legal wire encoding, and illegal ones."""

from __future__ import annotations

import struct

from hypothesis import strategies as st
from tests.reference.proto import BYTES, END, FIXED32, FIXED64, GROUP, VARINT

KEYS = ["", "a", "b", "ü"]
BYTES_LIST, FLOAT_LIST, INT64_LIST = 1, 2, 3


def varint(value, padding=0):
    """``padding`` more bytes than needed, which is legal up to ten in all."""
    value &= 2**64 - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    for _ in range(min(padding, 10 - len(out))):
        out[-1] |= 0x80
        out.append(0)
    return bytes(out)


def field(number, layout, value):
    return varint(number << 3 | layout) + value


def message(number, body):
    return field(number, BYTES, varint(len(body)) + body)


def packed(kind, values):
    return b"".join(struct.pack("<f", value) if kind == FLOAT_LIST else varint(value) for value in values)


def list_of(kind, values):
    """A list as every writer writes it."""
    if kind == BYTES_LIST:
        return b"".join(message(1, value) for value in values)
    return message(1, packed(kind, values)) if len(values) else b""


def entry(key, value):
    return message(1, message(1, key.encode("utf-8", "surrogateescape")) + message(2, value))


def example(features, lists=None):
    """The canonical bytes of ``{key: (kind, values)}`` and of ``{key: [(kind, values), ...]}``."""
    feature = lambda one: message(one[0], list_of(*one)) if one[0] else b""  # noqa: E731
    ordered = lambda named: sorted(named.items(), key=lambda item: item[0].encode("utf-8", "surrogateescape"))  # noqa: E731
    top = b"".join(entry(key, feature(one)) for key, one in ordered(features))
    out = message(1, top) if features or lists is None else b""
    if lists is not None:
        out += message(2, b"".join(entry(k, b"".join(message(1, feature(s)) for s in v)) for k, v in ordered(lists)))
    return out


ints = st.one_of(st.integers(-300, 300), st.integers(-(2**63), 2**63 - 1))
floats = st.floats(width=32)
texts = st.binary(max_size=5)
VALUES = {BYTES_LIST: texts, FLOAT_LIST: floats, INT64_LIST: ints}


def unknown(least=4):
    """Unknown fields, including groups."""
    number = st.integers(least, 20)
    plain = st.one_of(
        st.builds(lambda n, v, pad: field(n, VARINT, varint(v, pad)), number, ints, st.integers(0, 9)),
        st.builds(lambda n, v: field(n, FIXED64, v), number, st.binary(min_size=8, max_size=8)),
        st.builds(lambda n, v: field(n, FIXED32, v), number, st.binary(min_size=4, max_size=4)),
        st.builds(message, number, texts),
    )
    grouped = lambda inner: st.builds(  # noqa: E731
        lambda n, parts: field(n, GROUP, b"".join(parts)) + field(n, END, b""), number, st.lists(inner, max_size=2)
    )
    return st.recursive(plain, grouped, max_leaves=3)


def joined(*parts, most=3):
    return st.lists(st.one_of(*parts), max_size=most).map(b"".join)


def lists(kind):
    """A BytesList, FloatList or Int64List in pieces of every kind."""
    value = VALUES[kind]
    if kind == BYTES_LIST:
        return joined(value.map(lambda v: message(1, v)), unknown(2))
    single = value.map(
        lambda v: field(1, FIXED32, struct.pack("<f", v)) if kind == FLOAT_LIST else field(1, VARINT, varint(v, 1))
    )
    return joined(st.lists(value, max_size=4).map(lambda vs: message(1, packed(kind, vs))), single, unknown(2))


features = joined(*[lists(kind).map(lambda body, kind=kind: message(kind, body)) for kind in VALUES], unknown())
feature_lists = joined(features.map(lambda body: message(1, body)), unknown())


def maps(value):
    key = st.sampled_from(KEYS).map(lambda text: message(1, text.encode()))
    usual = st.builds(lambda k, v: message(1, k + message(2, v)), key, value)
    odd = joined(key, value.map(lambda body: message(2, body)), unknown(3)).map(lambda body: message(1, body))
    return joined(usual, usual, odd, unknown(2), most=5)


payloads = joined(
    maps(features).map(lambda body: message(1, body)),
    maps(feature_lists).map(lambda body: message(2, body)),
    unknown(3),
)


@st.composite
def damaged(draw):
    """A payload with a few bytes changed, cut out or put in."""
    data = bytearray(draw(payloads))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 2))] = draw(st.binary(max_size=2))
    return bytes(data)
