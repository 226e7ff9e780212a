"""Packed runs of integers, and steps of equal form, against a plain reader of one value at a time."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference import tf_example_wire as wire

from headrace import _native
from headrace.codecs.example.codec import ExampleCodec
from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema
from headrace.contracts.values import Ragged
from headrace.errors import CorruptRecord, SchemaMismatch

VARYING = ExampleCodec(Schema({"a": Feature("int64", (None,))}))
LENGTHS = st.integers(0, 120)


def record(run):
    """An Example whose feature ``a`` holds one packed run, and where the run begins."""
    payload = wire.message(1, wire.entry("a", wire.message(3, wire.message(1, run))))
    return payload, len(payload) - len(run)


def read_plainly(run):
    """The values of a run, or the offset in it at which it is refused: a run that ends within a value is refused as a
    whole."""
    if run and run[-1] >= 0x80:
        return 0
    values, at = [], 0
    while at < len(run):
        value, size = 0, 0
        while True:
            byte = run[at + size]
            value |= (byte & 0x7F) << 7 * size
            size += 1
            if byte < 0x80:
                break
            if size == 10:
                return at
        values.append((value & 2**64 - 1) - ((value & 2**63) << 1))
        at += size
    return values


def check(run):
    """A list that may have any length, and one of a fixed length."""
    payload, begin = record(run)
    expected = read_plainly(run)
    if isinstance(expected, int):
        with pytest.raises(CorruptRecord) as caught:
            VARYING.decode(payload)
        assert caught.value.where.offset == begin + expected
        for count in (1, len(run)):
            with pytest.raises((CorruptRecord, SchemaMismatch)):
                fixed(count).decode(payload)
        return
    assert VARYING.decode(payload)["a"].tolist() == expected
    assert fixed(len(expected)).decode(payload)["a"].tolist() == expected
    with pytest.raises(SchemaMismatch):
        fixed(len(expected) + 1).decode(payload)


def fixed(count):
    return ExampleCodec(Schema({"a": Feature("int64", (count,))}))


@st.composite
def runs(draw):
    """Values of one to ten bytes, in a mix that differs from run to run."""
    least, most = sorted((draw(st.integers(1, 64)), draw(st.integers(1, 64))))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    bits = rng.integers(least, most + 1, draw(LENGTHS))
    return b"".join(wire.varint(int(rng.integers(0, 2**64, dtype=np.uint64)) >> 64 - int(n)) for n in bits)


@given(runs())
def test_values_of_every_size(run):
    check(run)


@given(runs(), st.data())
def test_a_run_cut_anywhere_and_changed_anywhere(run, data):
    run = bytearray(run[: data.draw(st.integers(0, len(run)))])
    for _ in range(data.draw(st.integers(0, 3)) if run else 0):
        run[data.draw(st.integers(0, len(run) - 1))] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
    check(bytes(run))


@given(st.integers(0, 80), st.integers(8, 30), st.integers(0, 80))
def test_long_values_at_every_place(before, marked, after):
    check(b"\x01" * before + b"\xff" * marked + b"\x01" + b"\x02" * after)


@given(st.lists(runs(), min_size=1, max_size=12))
def test_records_of_different_lengths(several):
    batch = VARYING.decode_batch(_native.spans_of_buffers([record(run)[0] for run in several]))
    assert batch["a"].to_list() == [read_plainly(run) for run in several]


def test_a_long_run():
    run = b"".join(wire.varint(value) for value in range(0, 300_000, 7))
    check(run)
    check(run + b"\x80")
    check(b"\xff" * 9 + b"\x01" + run + b"\xff" * 11 + b"\x01")


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**64 - 1), max_size=120), st.integers(0, 64))
def test_written_as_one_value_at_a_time(values, bits):
    numbers = [(value >> bits % 64) - ((value >> bits % 64 & 2**63) << 1) for value in values]
    block, starts, sizes = VARYING.encode_batch(
        {"a": Ragged(np.array(numbers, np.int64), np.array([0, len(numbers)]))}, 1, 3, 5
    )
    run = b"".join(wire.varint(number) for number in numbers)
    payload = record(run)[0] if numbers else wire.message(1, wire.entry("a", wire.message(3, b"")))
    assert bytes(block[starts[0] : starts[0] + sizes[0]]) == payload


STEPS = Schema({"s": Feature("float32", (None, None)), "t": Feature("float32", (None, 2), steps=True)})


def step(values):
    return wire.message(1, wire.message(2, wire.list_of(2, values)))


@st.composite
def step_forms(draw, values):
    """The same step in the usual form or in another one."""
    run = b"".join(struct.pack("<f", value) for value in values)
    return draw(
        st.sampled_from(
            [
                step(values),
                step(values),
                step(values),
                wire.message(1, wire.message(2, wire.message(1, run[:4]) + wire.message(1, run[4:]))),
                wire.message(1, wire.message(2, wire.message(1, run)) + wire.field(9, 0, b"\x07")),
                wire.message(1, wire.message(3, b"") + wire.message(2, wire.message(1, run))),
                wire.field(7, 0, b"\x01") + step(values),
                wire.message(1, wire.field(2, 2, wire.varint(len(run) + 2, 1)) + wire.message(1, run)),
            ]
        )
    )


@given(st.data())
def test_steps_in_usual_and_other_forms(data):
    payloads, expected = [], []
    for _ in range(data.draw(st.integers(1, 4))):
        pairs = data.draw(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=8))
        other = data.draw(st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=3), max_size=8))
        body = lambda steps: b"".join(data.draw(step_forms(values)) for values in steps)  # noqa: E731
        payloads.append(wire.message(2, wire.entry("s", body(other)) + wire.entry("t", body(pairs))))
        expected.append((other, [list(pair) for pair in pairs]))
    batch = ExampleCodec(STEPS).decode_batch(_native.spans_of_buffers(payloads))
    got = [([row.tolist() for row in batch["s"][i]], batch["t"][i].tolist()) for i in range(len(payloads))]
    assert got == expected


def test_a_step_with_another_number_of_values():
    usual = step([1.0, 2.0])
    for other in (step([1.0]), step([1.0, 2.0, 3.0]), step([])):
        payload = wire.message(2, wire.entry("t", usual * 3 + other + usual))
        with pytest.raises(SchemaMismatch):
            ExampleCodec(STEPS.select(["t"])).decode(payload)
    cut = wire.message(2, wire.entry("t", usual * 3 + usual[:-1]))
    with pytest.raises(CorruptRecord):
        ExampleCodec(STEPS.select(["t"])).decode(cut)


INT_STEPS = Schema({"s": Feature("int64", (None, None)), "t": Feature("int64", (None, 2), steps=True)})


def int_step(values, form):
    """A step of integers: packed as usual, with a longer length, unpacked, or after an unknown field."""
    run = b"".join(wire.varint(value) for value in values)
    if form == 1:
        return wire.field(1, 2, wire.varint(len(run) + 4, 1)) + wire.message(3, wire.message(1, run))
    if form == 2:
        return wire.message(1, wire.message(3, b"".join(wire.field(1, 0, wire.varint(value)) for value in values)))
    if form == 3:
        return wire.message(1, wire.field(9, 0, b"\x07") + wire.message(3, wire.message(1, run)))
    return wire.message(1, wire.message(3, wire.message(1, run)))


FORMS = st.sampled_from([0, 0, 0, 0, 1, 2, 3])
SIZES = st.one_of(st.integers(0, 127), st.integers(0, 50_000), st.integers(-(2**63), 2**63 - 1))


@given(
    st.lists(
        st.tuples(
            st.lists(st.tuples(st.lists(SIZES, min_size=1, max_size=25), FORMS), max_size=6),
            st.lists(st.tuples(st.lists(SIZES, min_size=2, max_size=2), FORMS), max_size=6),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_steps_of_integers(records):
    payloads = [
        wire.message(
            2,
            b"".join(
                wire.entry(key, b"".join(int_step(*one) for one in steps))
                for key, steps in zip("st", record, strict=True)
            ),
        )
        for record in records
    ]
    codec = ExampleCodec(INT_STEPS)
    batch = codec.decode_batch(_native.spans_of_buffers(payloads))
    for i, (varying, pairs) in enumerate(records):
        assert [row.tolist() for row in batch["s"][i]] == [values for values, _ in varying]
        assert batch["t"][i].tolist() == [values for values, _ in pairs]


@given(st.lists(SIZES, min_size=2, max_size=2), st.data())
def test_damaged_steps_of_integers(values, data):
    """What one record gives with damage is an error, or what it gives when nothing was learned or guessed before."""
    usual = wire.message(2, wire.entry("t", int_step(values, 0) * 3))
    damaged = bytearray(usual)
    for _ in range(data.draw(st.integers(1, 2))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    codec = ExampleCodec(INT_STEPS.select(["t"]))

    def decoded(payloads):
        try:
            return codec.decode_batch(_native.spans_of_buffers(payloads))["t"][len(payloads) - 1].tolist()
        except (CorruptRecord, SchemaMismatch) as error:
            return type(error), error.where.offset, error.expected, error.found

    assert decoded([usual, bytes(damaged)]) == decoded([bytes(damaged)])
