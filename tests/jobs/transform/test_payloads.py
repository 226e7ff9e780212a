"""Records of an object, gathered into payloads."""

from __future__ import annotations

import gzip
import struct
import tracemalloc

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.errors import CorruptFile, CorruptRecord, UnsupportedData
from headrace.formats.recordio.format import RecordIOFraming
from headrace.formats.tfrecord.format import TFRecordFraming
from headrace.jobs.transform import payloads as splitting
from headrace.jobs.transform.payloads import payloads_of

MEBIBYTE = 1 << 20
FRAMINGS = {"RecordIO": RecordIOFraming(), "TFRecord": TFRecordFraming()}


@pytest.fixture
def split(tmp_path):
    def payloads(content, split="Line", *, limit=0, single=False, is_gzip=False):
        path = tmp_path / "object"
        path.write_bytes(gzip.compress(content) if is_gzip else content)
        return payloads_of(path, split=split, is_gzip=is_gzip, limit=limit, is_single=single)

    return payloads


def bodies(payloads):
    return [payload.body() for payload in payloads]


def framed(kind, records):
    return FRAMINGS[kind].frame_payloads(records).tobytes() if records else b""


def test_as_many_lines_as_fit(split):
    assert bodies(split(b"1\n22\n333\n4\n", limit=5)) == [b"1\n22\n", b"333\n", b"4\n"]
    assert bodies(split(b"1\n22\n333\n4\n", limit=6)) == [b"1\n22\n", b"333\n4\n"]
    assert bodies(split(b"1\n22\n333\n4", limit=0)) == [b"1\n22\n333\n4"]


def test_one_line_each(split):
    assert bodies(split(b"1\n22\r\n333", single=True)) == [b"1\n", b"22\r\n", b"333"]


def test_empty_lines_are_not_records(split):
    text = b"\n1\n\n\r\n22\n\n"
    assert bodies(split(text)) == [b"1\n22\n"]
    payloads = list(split(text, single=True))
    assert bodies(payloads) == [b"1\n", b"22\n"]
    assert [(one.where().record, one.where().offset) for one in payloads] == [(0, 1), (1, 6)]
    assert bodies(split(b"\n\n\n")) == []


def test_a_blank_line_is_one(split):
    assert bodies(split(b" \n1\n", single=True)) == [b" \n", b"1\n"]


def test_an_object_in_one_piece(split):
    assert bodies(split(b"a\n\nb", "None")) == [b"a\n\nb"]
    assert bodies(split(b"", "None")) == []


@pytest.mark.parametrize("kind", ["RecordIO", "TFRecord"])
def test_frames_stay_where_records_are_sent_together(split, kind):
    records = [b"", b"a", b"bb" * 50, b"c"]
    content = framed(kind, records)
    assert bodies(split(content, kind)) == [content]
    assert bodies(split(content, kind, single=True)) == records
    assert b"".join(bodies(split(content, kind, limit=130))) == content


def test_a_record_of_several_parts_is_one(split):
    magic = struct.pack("<I", 0xCED7230A)
    parts = magic + struct.pack("<I", 1 << 29 | 4) + b"abcd" + magic + struct.pack("<I", 3 << 29 | 3) + b"efg\0"
    assert bodies(split(parts + framed("RecordIO", [b"x"]), "RecordIO", single=True)) == [
        b"abcd" + magic + b"efg",
        b"x",
    ]


LINES = st.lists(
    st.binary(max_size=30).map(lambda line: line.replace(b"\n", b" ").replace(b"\r", b" ") + b"!"), max_size=30
)
ANY = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@ANY
@given(
    LINES,
    st.sampled_from([b"\n", b"\r\n"]),
    st.booleans(),
    st.integers(0, 90),
    st.booleans(),
    st.booleans(),
    st.integers(1, 50),
)
def test_lines_come_together_again(split, monkeypatch, lines, end, ended, limit, single, is_gzip, part):
    monkeypatch.setattr(splitting, "PART_BYTES", part)
    content = end.join(lines) + (end if ended and lines else b"")
    limit = limit and max(limit, max((len(line) + 2 for line in lines), default=1))
    payloads = list(split(content, limit=limit, single=single, is_gzip=is_gzip))
    _check_payloads(payloads, content, lines, limit, single)
    assert b"".join(bodies(payloads)) == content


@ANY
@given(st.lists(st.binary(max_size=40), max_size=30), st.sampled_from(["RecordIO", "TFRecord"]), st.integers(0, 200),
       st.booleans(), st.booleans(), st.integers(1, 90))  # fmt: skip
def test_framed_records_come_together_again(split, monkeypatch, records, kind, limit, single, is_gzip, part):
    monkeypatch.setattr(splitting, "PART_BYTES", part)
    content = framed(kind, records)
    limit = limit and max(limit, 60)
    payloads = list(split(content, kind, limit=limit, single=single, is_gzip=is_gzip))
    _check_payloads(payloads, content, records, limit, single)
    if single:
        assert bodies(payloads) == records
    else:
        assert b"".join(bodies(payloads)) == content


def _check_payloads(payloads, content, records, limit, single):
    assert sum(map(len, payloads)) == len(records)
    assert not single or all(len(payload) == 1 for payload in payloads)
    assert not limit or all(payload.size <= limit for payload in payloads)
    number = 0
    for payload in payloads:
        for position, record in enumerate(payload.each()):
            place = payload.where(position)
            assert place.record == number
            assert content[place.offset : place.offset + len(record)] == record
            assert payload.part(position, position + 1).each() == [record]
            number += 1
    if limit and not single:  # no payload could have taken the next record too
        following = [payload.part(0, 1).size for payload in payloads[1:]]
        assert all(payload.size + more > limit for payload, more in zip(payloads, following, strict=False))


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("part", [3, 1 << 20])
def test_a_line_beyond_the_limit_names_itself(split, monkeypatch, single, part):
    monkeypatch.setattr(splitting, "PART_BYTES", part)
    with pytest.raises(
        UnsupportedData,
        match=r"expected a record of at most .* MB.*, found .* - at record 1, byte 0x2\..*max_payload_mb",
    ):
        list(split(b"1\n" + b"2" * 20 + b"\n3\n", limit=10, single=single))


@pytest.mark.parametrize("kind", ["RecordIO", "TFRecord"])
@pytest.mark.parametrize("part", [7, 1 << 20])
def test_a_record_beyond_the_limit_names_itself(split, monkeypatch, kind, part):
    monkeypatch.setattr(splitting, "PART_BYTES", part)
    content = framed(kind, [b"1", b"2" * 400, b"3"])
    with pytest.raises(UnsupportedData, match=r"- at record 1, byte 0x(c|11)\."):
        list(split(content, kind, limit=40))


def test_an_object_beyond_the_limit_is_refused(split):
    assert bodies(split(b"x" * 10, "None", limit=10)) == [b"x" * 10]
    with pytest.raises(UnsupportedData, match="expected an object of at most .* split_type"):
        list(split(b"x" * 11, "None", limit=10))


@pytest.mark.parametrize("kind", ["RecordIO", "TFRecord"])
def test_every_cut_is_found(split, kind):
    content = framed(kind, [b"one", b"", b"three!"])
    whole = {0, *np.cumsum([len(framed(kind, [record])) for record in (b"one", b"", b"three!")]).tolist()}
    for size in range(len(content)):
        payloads = split(content[:size], kind, single=True)
        if size in whole:
            list(payloads)
        else:
            with pytest.raises(CorruptRecord, match="record"):
                list(payloads)


def test_every_flipped_bit_of_a_tfrecord_is_found(split):
    content = framed("TFRecord", [b"one", b"", b"three!"])
    for at in range(len(content)):
        damaged = bytearray(content)
        damaged[at] ^= 0x10
        with pytest.raises((CorruptRecord, UnsupportedData), match="record"):
            list(split(bytes(damaged), "TFRecord", limit=MEBIBYTE))


def test_flipped_bits_of_recordio_never_crash(split):
    content = framed("RecordIO", [b"one", b"", b"three!"])
    for at in range(len(content) * 8):
        damaged = bytearray(content)
        damaged[at // 8] ^= 1 << at % 8
        try:
            found = bodies(split(bytes(damaged), "RecordIO", limit=MEBIBYTE, single=True))
        except (CorruptRecord, UnsupportedData):
            continue
        assert len(found) <= 3


def test_records_before_damage_are_delivered(split):
    content = bytearray(framed("TFRecord", [b"one", b"two", b"three"]))
    content[19 + 12] ^= 1
    payloads = split(bytes(content), "TFRecord", single=True)
    assert next(payloads).body() == b"one"
    with pytest.raises(CorruptRecord, match="record 1, byte 0x13"):
        next(payloads)


@pytest.mark.parametrize("kind", ["None", "Line", "TFRecord"])
def test_a_cut_gzip_stream_is_found(tmp_path, kind):
    path = tmp_path / "object.gz"
    path.write_bytes(gzip.compress(framed("TFRecord", [bytes(range(256))] * 50))[:-12])
    with pytest.raises(CorruptFile, match="gzip"):
        list(payloads_of(path, split=kind, is_gzip=True, limit=0, is_single=False))


def test_data_that_is_not_gzip_is_refused(tmp_path):
    path = tmp_path / "object.gz"
    path.write_bytes(b"1,2\n")
    with pytest.raises(CorruptFile, match="gzip"):
        list(payloads_of(path, split="Line", is_gzip=True, limit=0, is_single=False))


@pytest.mark.parametrize("kind", ["Line", "TFRecord"])
def test_memory_is_bounded_by_the_limit(tmp_path, kind):
    path = tmp_path / "object"
    if kind == "Line":
        path.write_bytes(b"1234567\n" * (4 << 20))
    else:
        hr.write_records(path, (bytes(1000) for _ in range(32_000)), format="tfrecord")
    size = path.stat().st_size
    tracemalloc.start()
    try:
        passed = sum(
            len(one.body()) for one in payloads_of(path, split=kind, is_gzip=False, limit=MEBIBYTE, is_single=False)
        )
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert passed == size
    assert peak < size // 2  # about 20 bytes of positions for each line of 8, of a part at a time


def test_a_damaged_length_takes_no_memory(tmp_path):
    path = tmp_path / "object"
    with path.open("wb") as file:
        file.write(framed("RecordIO", [b"one"]) + struct.pack("<II", 0xCED7230A, (1 << 29) - 1))
        file.truncate(64 << 20)
    tracemalloc.start()
    try:
        with pytest.raises(UnsupportedData, match="record 1, byte 0xc"):
            list(payloads_of(path, split="RecordIO", is_gzip=False, limit=MEBIBYTE, is_single=False))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 32 << 20
