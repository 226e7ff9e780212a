"""Records parsed by template give what each record gives alone."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.reference.tf_example_wire import BYTES_LIST, FLOAT_LIST, INT64_LIST, example

from headrace import _native
from headrace.codecs.example.codec import ExampleCodec
from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema
from headrace.errors import DataError

CODEC = ExampleCodec(
    Schema(
        {
            "default": Feature("int64", (2,), default=[7, 8]),
            "floats": Feature("float32", (3,)),
            "label": Feature("int64", ()),
            "text": Feature("bytes", ()),
            "varying": Feature("int64", (None,)),
        }
    )
)


NARROW = CODEC.narrowed(("label", "text"))


def payload(floats=(1.0, 2.0, 3.0), label=5, text=b"abc", varying=(1, 2), more=(9, 10)):
    """``more`` is a feature that is not selected."""
    return example(
        {
            "floats": (FLOAT_LIST, list(floats)),
            "label": (INT64_LIST, [label]),
            "more": (INT64_LIST, list(more)),
            "text": (BYTES_LIST, [text]),
            "varying": (INT64_LIST, list(varying)),
        }
    )


def decoded(codec, payloads):
    """The rows, or the error with its record and feature."""
    try:
        batch = codec.decode_batch(_native.spans_of_buffers(payloads))
    except DataError as error:
        where = error.where
        return type(error), where.record, where.feature, where.offset, error.expected, error.found
    return [{name: np.asarray(column[i]).tolist() for name, column in batch.items()} for i in range(len(payloads))]


def check(codec, payloads):
    """Records in one batch give what each gives alone; a single record is always parsed in full."""
    rows = []
    for number, one in enumerate(payloads):
        row = decoded(codec, [one])
        if isinstance(row, tuple):
            assert decoded(codec, payloads) == (row[0], number, *row[2:])
            return
        rows += row
    assert decoded(codec, payloads) == rows


def test_records_of_one_form():
    payloads = [payload((i, 2 * i, -i), i, b"%03d" % i, (i, 127 - i), (i, 1)) for i in range(100)]
    check(CODEC, payloads)
    check(NARROW, payloads)
    got = CODEC.decode_batch(_native.spans_of_buffers(payloads))
    assert got["floats"].tolist() == [[i, 2 * i, -i] for i in range(100)]
    assert got["label"].tolist() == list(range(100))
    assert got["text"].tolist() == [b"%03d" % i for i in range(100)]
    assert got["varying"].to_list() == [[i, 127 - i] for i in range(100)]
    assert got["default"].tolist() == [[7, 8]] * 100


def test_another_form_of_the_same_length():
    usual = payload()
    forms = [
        payload(label=300, text=b"ab"),  # a byte from one value to another
        payload(varying=(300,)),
        payload(varying=(), more=range(9, 15)),
        usual.replace(b"label", b"lobel"),  # missing
        usual.replace(b"more", b"text"),  # a key twice: the last counts
        usual.replace(b"label", b"texts").replace(b"more", b"labe"),
        usual[:-1] + b"\x80",  # a number that does not end
        usual[: len(usual) // 2] + bytes(len(usual) - len(usual) // 2),
    ]
    assert {len(form) for form in forms} == {len(usual)}
    for form in forms:
        for codec in (CODEC, NARROW):
            check(codec, [usual, usual, form, usual, form])
            check(codec, [form, form, usual, form])


changes = st.lists(st.tuples(st.integers(0, len(payload()) - 1), st.integers(0, 255)), max_size=3)


@given(st.lists(changes, min_size=1, max_size=8), st.booleans())
def test_any_bytes_changed(records, narrow):
    payloads = [payload()] * 3
    for changed in records:
        damaged = bytearray(payload())
        for at, byte in changed:
            damaged[at] = byte
        payloads.append(bytes(damaged))
    check(NARROW if narrow else CODEC, payloads)
