"""RawCodec: unchanged payloads."""

import numpy as np
import pytest
from tests.reference import tfrecord

from headrace import _native
from headrace.codecs.infer import RawCodec
from headrace.errors import CorruptRecord, NoSuchFeature, SchemaMismatch

PAYLOADS = [b"", b"a", b"\x00\xff" * 50, b"abc"]


def test_payloads_come_as_bytes():
    batch = RawCodec().decode_batch(_native.spans_of_buffers(PAYLOADS))
    assert batch["record"].dtype == object
    assert batch["record"].tolist() == PAYLOADS
    assert RawCodec().decode(memoryview(b"xyz")) == {"record": b"xyz"}
    assert RawCodec().decode_batch(_native.spans_of_buffers([]))["record"].shape == (0,)


@pytest.mark.parametrize(("head", "tail", "align"), [(0, 0, 1), (12, 4, 1), (8, 0, 4)])
def test_encoding_leaves_room_for_frames(head, tail, align):
    given = np.array([PAYLOADS[0], bytearray(PAYLOADS[1]), memoryview(PAYLOADS[2]), PAYLOADS[3]], object)
    block, starts, sizes = RawCodec().encode_batch({"record": given}, 4, head, tail, align)
    assert [bytes(block[start : start + size]) for start, size in zip(starts, sizes, strict=True)] == PAYLOADS
    ends = np.concatenate([[0], starts + -(-sizes // align) * align + tail])
    assert (starts == ends[:-1] + head).all()
    assert ends[-1] == len(block)


def test_memory_of_other_items_is_written_as_bytes():
    numbers = np.arange(6, dtype="<i4").reshape(2, 3)
    block, _, sizes = RawCodec().encode_batch({"record": [memoryview(numbers), memoryview(numbers)[::2]]}, 2, 0, 0)
    assert sizes.tolist() == [24, 12]
    assert bytes(block) == numbers.tobytes() + numbers[::2].tobytes()


def test_non_payloads_are_refused():
    with pytest.raises(SchemaMismatch, match="expected bytes, found str - at record 1, feature 'record'"):
        RawCodec().encode_batch({"record": [b"", "text"]}, 2, 0, 0)
    with pytest.raises(SchemaMismatch, match="expected 3 payloads, found 1"):
        RawCodec().encode_batch({"record": [b""]}, 3, 0, 0)
    with pytest.raises(NoSuchFeature):
        RawCodec().encode_batch({"other": [b""]}, 1, 0, 0)
    with pytest.raises(NoSuchFeature):
        RawCodec().narrowed(("other",))
    assert RawCodec().narrowed(("record",)).schema == RawCodec().schema


def test_checksums_are_checked_and_every_bad_payload_is_reported():
    raw = bytearray(b"".join(tfrecord.framed(payload) for payload in [b"one", b"two", b"three"]))
    starts, _, _ = tfrecord.read(bytes(raw))
    raw[-5] ^= 1
    raw[starts[1] + 12] ^= 1
    held = _native.gather_tfrecord([raw], None, np.array(starts), verify=True)
    with pytest.raises(CorruptRecord, match="payload checksum") as caught:
        RawCodec().decode_batch(held)
    assert caught.value.where.record == 1
    assert [fault.where.record for fault in RawCodec().faults_in(held)] == [1, 2]
