"""Native parsing equals the plain reference on every legal encoding, and both refuse anything that is not a Record."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference import sagemaker_record, sagemaker_wire

from headrace import _native

KINDS = (None, "float32", "float64", "int32", "bytes")


def native(payload):
    features, label, uid, metadata, configuration = _native.parse_record(payload)
    return {
        "features": {key: plain(value) for key, value in features.items()},
        "label": {key: plain(value) for key, value in label.items()},
        "uid": uid,
        "metadata": metadata,
        "configuration": configuration,
    }


def plain(value):
    kind, values, keys, shape = value
    if kind == 0:
        return None
    if kind == 4:
        return {"kind": "bytes", "values": values, "keys": [], "shape": []}
    return {"kind": KINDS[kind], "values": values.tolist(), "keys": listed(keys), "shape": listed(shape)}


def listed(numbers):
    return [] if numbers is None else numbers.tolist()


@settings(max_examples=50)
@given(sagemaker_wire.records())
def test_every_legal_form_is_read_as_the_reference_reads_it(payload):
    assert _native.is_record(payload)
    assert native(payload) == sagemaker_record.parse(payload)


@settings(max_examples=50)
@given(sagemaker_wire.records(), st.data())
def test_headers_that_the_reference_refuses_are_refused(payload, data):
    at = data.draw(st.integers(0, len(payload)))
    broken = payload[:at] + data.draw(st.binary(max_size=3)) + payload[at + data.draw(st.integers(0, 3)) :]
    try:
        expected = sagemaker_record.parse(broken)
    except Exception:
        with pytest.raises(_native.FormatError):
            native(broken)
        assert not _native.is_record(broken)
    else:
        np.testing.assert_equal(native(broken), expected)


def spec(place, key, kind, layout, count):
    return (place, key, kind, layout, count, (), False)


@settings(max_examples=50)
@given(st.lists(sagemaker_wire.records(), max_size=4))
def test_columns_hold_what_the_reference_reads(payloads):
    spans = _native.spans_of_buffers(payloads)
    records = [sagemaker_record.parse(payload) for payload in payloads]
    decoder = _native.RecordDecoder([spec(1, b"sparse", 1, 2, 30), spec(2, b"values", 3, 1, -1), spec(3, b"", 0, 3, 1)])
    sparse, label, uid = decoder.decode(spans)
    rows = [record["features"].get(b"sparse") for record in records]
    assert np.array_equal(sparse[0], np.array([v for row in rows if row for v in row["values"]], np.float32))
    assert sparse[2].tolist() == [k for row in rows if row for k in row["keys"]]
    assert sparse[1].tolist() == np.cumsum([0, *(len(row["values"]) if row else 0 for row in rows)]).tolist()
    labels = [record["label"].get(b"values") for record in records]
    assert label[0].tolist() == [v for row in labels if row for v in row["values"]]
    data, ends, _ = uid[0]
    assert _native.list_strings(data, ends, False) == [record["uid"] or b"" for record in records]
    assert (uid[5].tolist() if uid[5] is not None else []) == [i for i, r in enumerate(records) if r["uid"] is None]


LAYOUTS = [
    spec(1, b"sparse", 1, 2, 30),
    spec(1, b"sparse", 2, 2, -1),
    (1, b"sparse", 1, 2, 30, (), True),
    spec(1, b"values", 1, 2, -1),
    spec(1, b"values", 1, 0, 2),
    spec(1, b"values", 4, 1, -1),
    spec(2, b"values", 3, 1, -1),
    (2, b"values", 3, 1, -1, (-1, 2), False),
    (2, b"values", 4, 0, 1, (), False),
    spec(3, b"", 0, 3, 1),
]


def plain_columns(decoder, spans, *threads):
    """The columns as lists, or every number of the error."""
    try:
        parts = decoder.decode(spans, *threads)
    except _native.FormatError as error:
        return error.fault, error.offset, error.expected, error.found, error.record, error.feature
    return [[comparable(part) for part in column] for column in parts]


def comparable(part):
    if isinstance(part, tuple):  # data and offsets of bytes
        return [comparable(inner) for inner in part]
    return (str(part.dtype), part.tobytes()) if isinstance(part, np.ndarray) else part


@settings(max_examples=100)
@given(
    st.lists(sagemaker_wire.records() | st.binary(max_size=3), max_size=12),
    st.lists(st.sampled_from(LAYOUTS), min_size=1, max_size=4),
    st.integers(2, 5),
)
def test_several_threads_make_the_columns_and_the_errors_of_one(payloads, specs, threads):
    decoder = _native.RecordDecoder([LAYOUTS[0], *specs])
    spans = _native.spans_of_buffers(payloads)
    assert plain_columns(decoder, spans, threads, 1) == plain_columns(decoder, spans)


def test_the_first_faulty_record_is_reported_wherever_it_is():
    """Later parts also have faults, and reach them sooner."""
    good = sagemaker_wire.field(1, sagemaker_wire.field(1, b"x"))
    decoder = _native.RecordDecoder([spec(1, b"sparse", 1, 2, 30)])
    for at in range(12):
        payloads = [good] * at + [b"\x00"] + [b"\x0a\x7f"] * (11 - at)
        found = plain_columns(decoder, _native.spans_of_buffers(payloads), 4, 1)
        assert found == plain_columns(decoder, _native.spans_of_buffers(payloads))
        assert found[0] == "wire"
        assert found[4] == at
