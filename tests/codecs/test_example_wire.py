"""Native decoding equals the plain reference on every legal encoding, and returns no values for invalid messages."""

import base64
import json
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference import tf_example, tfrecord
from tests.reference import tf_example_wire as wire
from tests.reference.proto import Malformed

from headrace import _native
from headrace.codecs.example.codec import ExampleCodec
from headrace.codecs.infer import infer_payloads
from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema
from headrace.errors import CorruptRecord, SchemaMismatch

GOLDEN = Path(__file__).parents[1] / "golden" / "tfrecord"
DTYPES = {1: "bytes", 2: "float32", 3: "int64"}
ABSENT = (0, [])
CODECS = {}


def codec(key, kind, shape=(None,), *, in_lists=False):
    """The codec for one feature; made once."""
    made = CODECS.get((key, kind, shape, in_lists))
    if made is None:
        lists = frozenset([key]) if in_lists else frozenset()
        made = ExampleCodec(Schema({key: Feature(DTYPES[kind], shape)}), lists=lists, shared=lists)
        CODECS[key, kind, shape, in_lists] = made
    return made


def native(payload, key, kind, shape=(None,), *, in_lists=False):
    """The feature's values as the reference has them, or the class of the error."""
    try:
        value = codec(key, kind, shape, in_lists=in_lists).decode(payload)[key]
    except (CorruptRecord, SchemaMismatch) as error:
        return type(error)
    return [plain(row, kind) for row in value] if in_lists else plain(value, kind)


def plain(values, kind):
    if kind == 2:
        return [bytes(number) for number in np.asarray(values).reshape(-1).view("V4")]
    return np.asarray(values).reshape(-1).tolist()


def expected(payload, key, kind, *, in_lists=False):
    """What native code must give: values, or the class of the error."""
    try:
        found = tf_example.look_up(payload, key.encode(), in_lists=in_lists)
        if not in_lists and not (found or ABSENT)[0] and tf_example.look_up(payload, key.encode(), in_lists=True):
            return SchemaMismatch  # its values are the steps of a feature list
    except Malformed:
        return CorruptRecord
    rows = (found or []) if in_lists else [found or ABSENT]
    if any(row[0] not in (0, kind) for row in rows):
        return SchemaMismatch
    return [row[1] for row in rows] if in_lists else rows[0][1]


def is_message(payload):
    try:
        tf_example.parse(payload)
    except Malformed:
        return False
    return True


def check(payload, key, kind, *, in_lists=False):
    shape = (None, None) if in_lists else (None,)
    got, want = native(payload, key, kind, shape, in_lists=in_lists), expected(payload, key, kind, in_lists=in_lists)
    if isinstance(want, list) and got is CorruptRecord:
        assert not is_message(payload)  # damage in a value that another entry replaces may be reported or ignored
    elif want is SchemaMismatch:
        assert got is SchemaMismatch or (got is CorruptRecord and not is_message(payload))
    elif want is CorruptRecord:
        assert got in (CorruptRecord, SchemaMismatch)  # either of the two faults
    else:
        assert got == want
    if isinstance(want, list) and not in_lists:
        check_fixed(payload, key, kind, got, want)


def check_fixed(payload, key, kind, got, want):
    """The same feature with a fixed shape: its values when their number is right, an error when it is not."""
    present = (tf_example.look_up(payload, key.encode()) or ABSENT)[0] != 0
    for count in {len(want), len(want) + 1, 1}:
        fixed = native(payload, key, kind, (count,))
        assert fixed == (got if present and count == len(want) else got if got is CorruptRecord else SchemaMismatch)


@given(wire.payloads)
def test_every_legal_form_is_read_as_the_reference_reads_it(payload):
    features, lists = tf_example.parse(payload)
    for key in wire.KEYS:
        for kind in DTYPES:
            check(payload, key, kind)
            check(payload, key, kind, in_lists=True)
        found = features.get(key.encode(), ABSENT)
        if found[0]:
            assert native(payload, key, found[0]) == found[1]
        steps = lists.get(key.encode(), [])
        if len({kind for kind, _ in steps} - {0}) == 1:
            kind = max(kind for kind, _ in steps)
            assert native(payload, key, kind, (None, None), in_lists=True) == [values for _, values in steps]


@given(st.lists(wire.payloads, min_size=2, max_size=6))
def test_a_batch_equals_its_single_records(payloads):
    """No state leaks from one record to the next: no list, no step, no guess."""
    schema = Schema(
        {"a": Feature("int64", (None,)), "context/b": Feature("bytes", (None,)), "b": Feature("float32", (None, None))}
    )
    both = ExampleCodec(schema, lists=frozenset({"b"}))
    good = [payload for payload in payloads if not both.faults_in(_native.spans_of_buffers([payload]))]
    batch = both.decode_batch(_native.spans_of_buffers(good))
    for i, payload in enumerate(good):
        assert repr({name: column[i] for name, column in batch.items()}) == repr(both.decode(payload))


def entry(body):
    return wire.message(1, wire.message(1, wire.message(1, b"a") + wire.message(2, body)))


HALVES, ONES, TWOS = (
    wire.message(kind, wire.list_of(kind, values)) for kind, values in [(2, [0.5]), (3, [1]), (3, [2])]
)


@pytest.mark.parametrize(
    ("payload", "values"),
    [
        (entry(ONES + TWOS), [1, 2]),
        (entry(HALVES + HALVES + ONES), [1]),
        (entry(ONES + HALVES + TWOS), [2]),
        (entry(ONES + wire.message(3, b"")), [1]),
        (entry(ONES) + entry(TWOS), [2]),
        (entry(HALVES) + entry(TWOS), [2]),
        (entry(ONES) + entry(b""), []),
        (entry(wire.message(3, b"\x08\x01\x0a\x02\x02\x03\x08\x04")), [1, 2, 3, 4]),
        (entry(wire.message(3, b"\x0a\x02\x81\x00")), [1]),
        (entry(wire.message(3, b"\x0b\x08\x07\x0c\x08\x01")), [1]),
        (entry(wire.message(3, b"\x0a\x01\x81")), CorruptRecord),
        (entry(wire.message(3, b"\x0b\x08\x07\x14")), CorruptRecord),
        (entry(wire.message(3, b"\x0a\x0b" + b"\x80" * 10 + b"\x00")), CorruptRecord),
        (entry(wire.message(3, b"\x00\x01")), CorruptRecord),
        (entry(HALVES), SchemaMismatch),
    ],
)
def test_odd_forms(payload, values):
    assert expected(payload, "a", 3) == values
    check(payload, "a", 3)


def test_a_packed_float_is_not_cut():
    payload = entry(wire.message(2, wire.message(1, b"\x00" * 7)))
    assert native(payload, "a", 2) is CorruptRecord
    check(payload, "a", 2)


@settings(max_examples=300)
@given(wire.damaged())
def test_damage_gives_an_error_or_what_the_reference_reads(payload):
    for key in ("a", ""):
        for kind in DTYPES:
            check(payload, key, kind)
            check(payload, key, kind, in_lists=True)


def golden_payloads(name):
    return tfrecord.read((GOLDEN / name).read_bytes())[1]


def values_in(listed):
    return [base64.b64decode(value["b64"]) if isinstance(value, dict) else value for value in listed]


def as_reference(kind, listed):
    values = values_in(listed)
    return [struct.pack("<f", float(value)) for value in values] if kind == 2 else values


@pytest.mark.parametrize("name", ["dense", "varlen", "extremes", "wire", "empty_payloads"])
def test_golden_examples_read_as_protobuf_read_them(name):
    reported = json.loads((GOLDEN / f"{name}.tfrecord.json").read_text())
    payloads = golden_payloads(f"{name}.tfrecord")
    assert len(payloads) == reported["records"] == len(reported["examples"])
    for payload, features in zip(payloads, reported["examples"], strict=True):
        for key, feature in features.items():
            for kind, name_of_kind in enumerate(("bytes_list", "float_list", "int64_list"), start=1):
                if feature["kind"] in (None, name_of_kind):
                    assert native(payload, key, kind) == as_reference(kind, feature["value"])
                else:
                    assert native(payload, key, kind) is SchemaMismatch


def test_golden_sequences_read_as_protobuf_read_them():
    reported = json.loads((GOLDEN / "sequence.tfrecord.json").read_text())
    for payload, one in zip(golden_payloads("sequence.tfrecord"), reported["examples"], strict=True):
        assert native(payload, "id", 3) == one["context"]["id"]
        assert native(payload, "name", 1) == values_in(one["context"]["name"])
        assert native(payload, "token", 3, (None, None), in_lists=True) == one["feature_lists"]["token"]
        weights = [as_reference(2, step) for step in one["feature_lists"]["weight"]]
        assert native(payload, "weight", 2, (None, 1), in_lists=True) == weights


def small_payloads():
    """One of each golden kind, and all of the unusual ones."""
    odd = [("wire", i, payload) for i, payload in enumerate(golden_payloads("wire.tfrecord"))]
    some = [
        (name, i, golden_payloads(f"{name}.tfrecord")[i]) for name, i in [("dense", 0), ("varlen", 3), ("sequence", 2)]
    ]
    return [pytest.param(payload, id=f"{name}-{i}") for name, i, payload in odd + some + extremes()]


def extremes():
    return [("extremes", i, one) for i, one in enumerate(golden_payloads("extremes.tfrecord")) if len(one) < 1000]


def queries(payload):
    """Every feature of a payload, with its kind."""
    features, lists = tf_example.parse(payload)
    asked = [(key.decode(), kind or 1, False) for key, (kind, _) in features.items()]
    return asked + [(key.decode(), steps[0][0], True) for key, steps in lists.items()]


@pytest.mark.parametrize("payload", small_payloads())
def test_cut_off_anywhere(payload):
    for size in range(len(payload)):
        for key, kind, in_lists in queries(payload):
            check(payload[:size], key, kind, in_lists=in_lists)


@pytest.mark.parametrize("payload", small_payloads())
def test_every_byte_flipped(payload):
    asked = queries(payload)
    for at in range(len(payload)):
        for change in (1 << at % 8, 0xFF):
            damaged = bytearray(payload)
            damaged[at] ^= change
            for key, kind, in_lists in asked:
                check(bytes(damaged), key, kind, in_lists=in_lists)


def test_large_values_cut_off():
    """The 90 kB record, cut at its ends and at some places between."""
    payload = max(golden_payloads("extremes.tfrecord"), key=len)
    sizes = [*range(200), *range(200, len(payload), 997), *range(len(payload) - 200, len(payload))]
    for size in sizes:
        for key, kind, _ in queries(payload):
            check(payload[:size], key, kind)


def test_groups_nested_too_deep_are_refused():
    for depth, good in ((100, True), (5000, False)):
        payload = b"\x0b" * depth + b"\x0c" * depth
        assert is_message(payload) is good
        assert (native(payload, "a", 3) == []) is good


@given(wire.payloads)
def test_inference_reads_whatever_is_a_message(payload):
    """Whatever the scan accepts as Examples, the decoder reads, and encodes to the same values."""
    try:
        found = infer_payloads([payload] * 3)
    except SchemaMismatch:  # bytes and numbers under one key
        return
    if found.codec == "example" and not found.mixed:  # integers among floats may be too large for either
        both = ExampleCodec(found.schema, lists=found.lists, mixed=found.mixed, shared=found.shared)
        batch = both.decode_batch(_native.spans_of_buffers([payload] * 3))
        block, starts, sizes = both.encode_batch(batch, 3, 12, 4)
        again = both.decode(block[starts[1] : starts[1] + sizes[1]])
        assert repr(again) == repr(both.decode(payload))
