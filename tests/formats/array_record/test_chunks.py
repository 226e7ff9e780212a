"""Chunks of one record each, in one native call."""

from pathlib import Path

import numpy as np
import pytest
from tests.formats.array_record.files import some_payloads, write

from headrace import _native
from headrace.errors import CorruptRecord
from headrace.formats.array_record.format import ArrayRecordRecords

BUFFER, BEGINS = [b"x" * 1000], np.zeros(2, np.int64)


def gather(buffers, which, begins, *, verify=True, threads=2, wanted=None):
    return _native.gather_singles(
        buffers, which, begins, verify=verify, threads=threads, bytes_wanted=wanted or _native.BytesWanted()
    )


@pytest.fixture
def two(tmp_path):
    """Two files, the offsets of their chunks, and their records."""
    payloads = [some_payloads(60, most=1500), some_payloads(80, most=900)[30:]]
    paths = [
        write(tmp_path / f"{number}.array_record", part, group_size=1, compression="zstd")
        for number, part in enumerate(payloads)
    ]
    begins = [ArrayRecordRecords([path])._table.begins for path in paths]
    buffers = [Path(path).read_bytes() for path in paths]
    return buffers, begins, payloads


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("verify", [True, False])
def test_records_of_several_buffers_in_any_order(two, threads, verify):
    buffers, begins, payloads = two
    order = np.random.default_rng(0).permutation(110)
    which = (order >= 60).astype(np.int32)
    at = np.concatenate(begins)[order]
    wanted = _native.BytesWanted()
    for _ in range(3):
        spans, left = gather(_native.Buffers(buffers), which, at, verify=verify, threads=threads, wanted=wanted)
        assert [i for i, number in enumerate(order) if not (payloads[0] + payloads[1])[number]] == (
            [] if left is None else left.tolist()
        )
        expected = [(payloads[0] + payloads[1])[number] for number in order]
        assert spans.to_bytes() == expected


def test_other_chunks_are_left_to_the_general_path(two):
    (first, _), (begins, _), (payloads, _) = two
    at = np.array([begins[1], 0, -1, 1 << 40, begins[2] + 1, begins[3]])
    spans, left = gather([first], None, at)
    assert left.tolist() == [1, 2, 3, 4]
    assert [spans.to_bytes()[i] for i in (0, 5)] == [payloads[1], payloads[3]]


def test_nothing_at_all():
    spans, left = gather(BUFFER, None, np.zeros(0, np.int64))
    assert left is None
    assert spans.to_bytes() == []


def test_contradictions_are_refused():
    with pytest.raises(ValueError, match="which and begins differ in length"):
        gather(BUFFER, np.zeros(3, np.int32), BEGINS)
    for number in (1, -1):
        with pytest.raises(IndexError, match="no such buffer"):
            gather(BUFFER, np.full(2, number, np.int32), BEGINS)
    with pytest.raises(TypeError):
        _native.gather_singles(BUFFER, None, BEGINS, verify=True, threads=1, bytes_wanted=None)


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("as_array", [True, False])
def test_one_record_at_a_time(two, verify, as_array):
    (buffer, _), (begins, _), (payloads, _) = two
    data = np.frombuffer(buffer, np.uint8) if as_array else buffer
    for begin, payload in zip(begins.tolist(), payloads, strict=True):
        found = _native.read_single(data, begin, verify=verify)
        if payload:
            assert found.readonly
            assert found.format == "B"
            assert found == payload
        else:
            assert found is None


def test_one_record_that_is_stored_is_a_view(tmp_path):
    payloads = some_payloads(20, seed=3)
    path = write(tmp_path / "a.array_record", payloads, group_size=1, compression="none")
    data = np.frombuffer(bytearray(Path(path).read_bytes()), np.uint8)
    begins = ArrayRecordRecords([path])._table.begins.tolist()
    for begin, payload in zip(begins, payloads, strict=True):
        found = _native.read_single(data, begin, verify=True)
        assert (found or b"") == payload
        assert found is None or np.shares_memory(np.frombuffer(found, np.uint8), data)


@pytest.mark.parametrize("compression", ["none", "zstd", "brotli", "snappy"])
@pytest.mark.parametrize("is_mapped", [True, False])
def test_one_at_a_time_is_the_same_as_many(tmp_path, monkeypatch, compression, is_mapped):
    payloads = [*some_payloads(30, seed=5, most=9000), b"", bytes(200_000), b"x"]
    path = write(tmp_path / "a.array_record", payloads, group_size=1, compression=compression)
    if not is_mapped:
        monkeypatch.setenv("HEADRACE_MAPPED_BYTES", "0")
    records = ArrayRecordRecords([path])
    for _ in range(2):
        views = [records[number] for number in range(len(payloads))]
        assert views == payloads
        assert all(view.readonly or not is_mapped for view in views)
    assert records.spans(np.arange(len(payloads))).to_bytes() == payloads


def large_payloads():
    """Records of 128 KiB and more: random, text that compresses to a third, and one letter; the largest is left to the general path."""
    rng = np.random.default_rng(11)
    sizes = [128 << 10, (128 << 10) + 1, 300_000, 1_500_000, 70]
    texts = [rng.choice(np.frombuffer(b"etaoin shrdlu", np.uint8), size).tobytes() for size in sizes]
    return [*map(rng.bytes, sizes), *texts, bytes(400_000), rng.bytes((16 << 20) + 1)]


@pytest.mark.parametrize("compression", ["none", "zstd", "brotli"])
@pytest.mark.parametrize("is_mapped", [True, False])
def test_large_records_of_several_files(tmp_path, monkeypatch, compression, is_mapped):
    if not is_mapped:
        monkeypatch.setenv("HEADRACE_MAPPED_BYTES", "0")
    payloads = large_payloads()
    parts = [payloads[number::3] for number in range(3)]
    paths = [
        write(tmp_path / f"{number}.array_record", part, group_size=1, compression=compression)
        for number, part in enumerate(parts)
    ]
    expected = [payload for part in parts for payload in part]
    records = ArrayRecordRecords(paths)
    order = np.random.default_rng(3).permutation(len(expected))
    for some in (order, order[:5], np.arange(len(expected)), order[:1]):
        assert records.spans(some).to_bytes() == [expected[number] for number in some]
    assert [records[number] for number in range(len(expected))] == expected
    assert [bytes(record) for record in records] == expected


def test_damage_of_a_large_record_is_found_beside_others(tmp_path):
    payloads = large_payloads()[:9]
    path = write(tmp_path / "a.array_record", payloads, group_size=1, compression="zstd")
    begins = ArrayRecordRecords([path])._table.begins
    whole = Path(path).read_bytes()
    for number in (1, 3, 7):
        for at in (begins[number] + 60, begins[number] + 70_000, begins[number + 1] - 100):
            Path(path).write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
            with pytest.raises(CorruptRecord) as raised:
                ArrayRecordRecords([path]).spans(np.arange(9)[::-1].copy())
            assert raised.value.where.record == number
            with pytest.raises(CorruptRecord):
                ArrayRecordRecords([path])[number]
            assert ArrayRecordRecords([path])[number + 1] == payloads[number + 1]


def test_each_damaged_byte_gives_the_record_or_the_error_of_the_general_path(tmp_path):
    """Whatever byte of a chunk changes, one record is what many are, or nothing."""
    payload = b"some text, some text, " * 9
    path = write(tmp_path / "a.array_record", [payload], group_size=1, compression="zstd")
    whole = Path(path).read_bytes()
    begin = ArrayRecordRecords([path])._table.begins.item(0)
    _, end, *_ = _native.scan_chunks(whole, begin, most=1, verify=True)[0][0].tolist()
    for at in range(begin, end):
        for flipped in (1, 128):
            damaged = bytearray(whole)
            damaged[at] ^= flipped
            assert _native.read_single(bytes(damaged), begin, verify=True) is None, at
            unchecked = _native.read_single(bytes(damaged), begin, verify=False)
            assert unchecked is None or len(unchecked) == len(payload)
    for stop in range(begin, end):
        assert _native.read_single(whole[:stop], begin, verify=False) is None
    for nowhere in (0, -1, 7, len(whole), 1 << 40):
        assert _native.read_single(whole, nowhere, verify=True) is None
    with pytest.raises(TypeError):
        _native.read_single(3, 0, verify=True)
