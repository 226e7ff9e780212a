"""TFRecord framing: TensorFlow's files are read, damage is located, and the reference agrees on any bytes."""

from __future__ import annotations

import gc
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference.tfrecord import framed, masked, read

from headrace import _native

GOLDEN = Path(__file__).parent.parent / "golden" / "tfrecord"
PLAIN = sorted(
    path for path in GOLDEN.iterdir() if path.suffix != ".json" and not {"gzip", "zlib"} & set(path.name.split("."))
)
RECORDS = [b"", b"a", b"hello" * 100, bytes(300), b""]
FILE = b"".join(framed(record) for record in RECORDS)
STARTS = [0, 16, 33, 549, 865]

payload_lists = st.lists(st.binary(max_size=60), max_size=8)


def scan(data, start=0, stop=None, *, verify=True, max_records=1 << 40):
    return _native.scan_tfrecord(
        data, start, len(data) if stop is None else stop, verify=verify, max_records=max_records
    )


def scan_all(data, **options):
    """Offsets, fault or None, and its position or the end of the data."""
    try:
        starts, end = scan(data, **options)
    except _native.FormatError as error:
        if error.record != len(error.starts):
            raise
        return error.starts.tolist(), error.fault, error.offset
    return starts.tolist(), None, end


def gather(data, offsets, *, verify=True):
    return _native.gather_tfrecord([data], None, np.array(offsets, np.int64), verify=verify)


def spoiled(data, at, bits=0x10):
    return data[:at] + bytes([data[at] ^ bits]) + data[at + 1 :]


@pytest.mark.parametrize("path", PLAIN, ids=lambda path: path.name)
def test_golden_files(path):
    data = path.read_bytes()
    starts, payloads, damage = read(data)
    found, fault, offset = scan_all(data)
    assert (found, fault) == (starts, damage.kind if damage else None)
    assert offset == (damage.offset if damage else len(data))
    assert len(found) == json.loads((GOLDEN / f"{path.name}.json").read_text())["records"]  # those before the damage
    assert gather(data, found).to_bytes() == payloads


def test_frames_are_those_of_tensorflow():
    for path in PLAIN:
        data = path.read_bytes()
        _, payloads, damage = read(data)
        if damage is None:
            assert _native.frame_tfrecords(payloads).tobytes() == data


def test_scanning_in_parts():
    assert scan(FILE)[0].tolist() == STARTS
    assert scan(FILE)[1] == len(FILE)
    assert scan(FILE, max_records=2)[0].tolist() == STARTS[:2]
    assert scan(FILE, max_records=2)[1] == STARTS[2]
    assert scan(FILE, max_records=0)[1] == 0
    assert scan(FILE, 16, 34)[0].tolist() == [16, 33]  # those that begin before the stop, whole
    assert scan(FILE, 16, 33)[1] == 33
    assert scan(FILE, len(FILE))[1] == len(FILE)
    assert scan(b"")[0].dtype == np.int64
    assert len(scan(b"")[0]) == 0


def test_payload_checksums_only_if_asked():
    data = spoiled(FILE, 50)
    assert scan_all(data) == ([0, 16], "payload_checksum", 33)
    assert scan_all(data, verify=False) == (STARTS, None, len(FILE))


def test_length_checksums_always():
    for at in range(33, 45):
        assert scan_all(spoiled(FILE, at), verify=False) == ([0, 16], "length_checksum", 33)


def test_every_cut_is_seen():
    clean = {*STARTS, len(FILE)}
    for size in range(len(FILE)):
        starts, fault, offset = scan_all(FILE[:size])
        before = max(start for start in clean if start <= size)
        assert (fault, offset) == (None if size in clean else "truncated", size if size in clean else before)
        assert starts == [start for start in STARTS if start < before]


def test_every_flipped_byte_is_detected_and_skipped():
    ends = [*STARTS[1:], len(FILE)]
    for at in range(len(FILE)):
        data = spoiled(FILE, at)
        bad = max(i for i, start in enumerate(STARTS) if start <= at)
        starts, fault, offset = scan_all(data)
        assert (starts, offset) == (STARTS[:bad], STARTS[bad])
        assert fault == ("length_checksum" if at < STARTS[bad] + 12 else "payload_checksum")
        assert _native.find_tfrecord(data, offset) == (ends[bad] if bad + 1 < len(STARTS) else -1)


def test_finding_from_anywhere():
    for start in range(len(FILE) + 2):
        assert _native.find_tfrecord(FILE, start) == next((at for at in STARTS if at >= start), -1)
    assert _native.find_tfrecord(b"", 0) == -1
    assert _native.find_tfrecord(bytes(1000), 0) == -1  # zeros are not a record
    assert _native.find_tfrecord(FILE, 1 << 63) == -1


def test_finding_takes_no_longer_than_it_must():
    # A header at every twelfth byte that claims all the rest: summing each claim would take about a minute.
    size = 6 << 20
    data = bytearray()
    while len(data) < size:
        head = (size - len(data)).to_bytes(8, "little")
        data += head + _native.masked_crc32c(head).to_bytes(4, "little")
    data += framed(b"")
    patience = _native.Patience(len(data))
    before = patience.left
    assert _native.find_tfrecord(data, 0, patience) == len(data) - 16
    assert before == 64 * len(data)
    assert 0 < patience.left < before, "it summed what it may, and went on without what is longer than that"


@pytest.mark.parametrize("length", [1 << 62, (1 << 64) - 1, (1 << 64) - 4, (1 << 64) - 16, (1 << 64) - 17, 5, 1 << 31])
def test_lengths_are_not_believed(length):
    head = length.to_bytes(8, "little")
    data = head + masked(head).to_bytes(4, "little") + b"12345678"
    assert scan_all(data) == ([], "truncated", 0)
    assert _native.find_tfrecord(data, 0) == -1
    with pytest.raises(_native.FormatError) as caught:
        gather(data, [0], verify=False)
    assert (caught.value.fault, caught.value.found) == ("truncated", 8)
    assert caught.value.expected >= length


def test_gathering_in_any_order():
    spans = gather(FILE, STARTS[::-1])
    assert spans.to_bytes() == RECORDS[::-1]
    assert spans.total_bytes == sum(map(len, RECORDS))
    other = framed(b"other")
    which = np.array([0, 1, 0, 1], np.int32)
    mixed = _native.gather_tfrecord([FILE, other], which, np.array([16, 0, 33, 0]), verify=True)
    assert mixed.to_bytes() == [b"a", b"other", b"hello" * 100, b"other"]
    assert len(gather(FILE, [])) == 0
    assert len(_native.gather_tfrecord([], None, np.zeros(0, np.int64), verify=True)) == 0
    assert gather(FILE, [33] * 1000).to_bytes() == [b"hello" * 100] * 1000


def test_payloads_are_checked_where_they_are_read():
    data = spoiled(FILE, 50)
    spans = gather(data, STARTS)
    assert bytes(spans.view(1)) == b"a"
    for read_it in (lambda: spans.view(2), spans.to_bytes):
        with pytest.raises(_native.FormatError) as caught:
            read_it()
        assert (caught.value.fault, caught.value.record, caught.value.offset) == ("payload_checksum", 2, 12)
        assert caught.value.expected == masked(b"hello" * 100)
        assert caught.value.found == masked(bytes(spans_of(data)[2]))
    assert gather(data, STARTS, verify=False).to_bytes()[2] == bytes(spans_of(data)[2])


def spans_of(data):
    return [data[start + 12 : start + 12 + len(record)] for start, record in zip(STARTS, RECORDS, strict=True)]


def test_gathering_faults():
    def fault(offset, data=FILE, *, verify=True):
        with pytest.raises(_native.FormatError) as caught:
            gather(data, [0, offset], verify=verify)
        assert caught.value.record == 1
        return caught.value.fault

    assert fault(1) == "length_checksum"
    assert fault(1, verify=False) in ("truncated", "length_checksum")
    for offset in (-1, -(1 << 63), (1 << 63) - 1, len(FILE), len(FILE) - 1, len(FILE) - 11):
        assert fault(offset, verify=False) == "truncated"
    for number in (1, -1, 1 << 30, -(1 << 31)):
        with pytest.raises(_native.FormatError) as caught:
            _native.gather_tfrecord([FILE], np.array([0, number], np.int32), np.array([0, 0]), verify=False)
        assert (caught.value.fault, caught.value.record) == ("range", 1)


def test_gathering_wants_arguments_that_fit():
    with pytest.raises(ValueError, match="length"):
        _native.gather_tfrecord([FILE], np.zeros(1, np.int32), np.zeros(2, np.int64), verify=True)
    with pytest.raises(ValueError, match="buffers"):
        _native.gather_tfrecord([], None, np.zeros(1, np.int64), verify=True)
    with pytest.raises(TypeError):
        _native.gather_tfrecord(["text"], None, np.zeros(1, np.int64), verify=True)
    with pytest.raises(IndexError):
        gather(FILE, STARTS).view(5)


def test_spans_keep_the_bytes_alive():
    view = gather(bytearray(FILE), STARTS).view(2)
    gc.collect()
    _ = [bytearray(len(FILE)) for _ in range(50)]  # would overwrite released memory
    assert bytes(view) == b"hello" * 100
    assert view.readonly


def test_a_buffer_in_use_cannot_be_resized():
    data = bytearray(FILE)
    spans = gather(data, STARTS)
    with pytest.raises(BufferError):
        data.clear()
    del spans
    gc.collect()
    data.clear()


def test_framing_in_place():
    starts, sizes, block = [], [], bytearray()
    for record in RECORDS:
        block += bytes(12)
        starts.append(len(block))
        sizes.append(len(record))
        block += record + bytes(4)
    array = np.frombuffer(block, np.uint8)
    _native.frame_tfrecord(array, np.array(starts), np.array(sizes))
    assert block == FILE


@pytest.mark.parametrize(
    ("start", "size"), [(11, 1), (12, 5), (12, -1), (-1, 1), (1 << 62, 1 << 62), (12, (1 << 63) - 1), (21, 0)]
)
def test_framing_stays_within_the_block(start, size):
    block = np.zeros(20, np.uint8)
    with pytest.raises(_native.FormatError) as caught:
        _native.frame_tfrecord(block, np.array([start]), np.array([size]))
    assert (caught.value.fault, caught.value.record) == ("range", 0)
    assert not block.any()


def test_framing_wants_arguments_that_fit():
    with pytest.raises(ValueError, match="length"):
        _native.frame_tfrecord(np.zeros(20, np.uint8), np.zeros(1, np.int64), np.zeros(2, np.int64))
    read_only = np.zeros(20, np.uint8)
    read_only.setflags(write=False)
    with pytest.raises(TypeError):
        _native.frame_tfrecord(read_only, np.zeros(0, np.int64), np.zeros(0, np.int64))
    with pytest.raises(TypeError):
        _native.frame_tfrecords(["text"])


@given(payload_lists)
def test_framing_equals_reference(payloads):
    data = _native.frame_tfrecords(payloads)
    assert data.dtype == np.uint8
    assert data.tobytes() == b"".join(map(framed, payloads))
    starts, fault, end = scan_all(data)
    assert (fault, end) == (None, len(data))
    assert gather(data, starts).to_bytes() == payloads


@given(payload_lists, st.lists(st.tuples(st.sampled_from("xid"), st.integers(0, 400), st.integers(0, 255)), max_size=3))
def test_scanning_damaged_data_equals_reference(payloads, edits):
    data = bytearray(b"".join(map(framed, payloads)))
    for kind, place, value in edits:
        at = place % (len(data) + 1)
        data[at : at + (kind != "i")] = b"" if kind == "d" else bytes([value])
    data = bytes(data)
    starts, payloads, damage = read(data)
    found, fault, offset = scan_all(data)
    assert (found, fault, offset) == (starts, damage and damage.kind, damage.offset if damage else len(data))
    assert gather(data, found).to_bytes() == payloads
    again = _native.find_tfrecord(data, offset)
    sound = [at for at in range(offset, len(data)) if read(data[at:])[0]]
    assert again == (sound[0] if sound else -1)


@given(st.binary(max_size=200), st.integers(0, 250))
def test_no_bytes_break_it(data, start):
    scan_all(data)
    _native.find_tfrecord(data, start)
    with pytest.raises(_native.FormatError):
        gather(data, [len(data) - 11], verify=False)


def test_many_threads_at_once():
    def work(seed):
        order = np.random.default_rng(seed).permutation(STARTS * 50)
        number = {start: record for start, record in zip(STARTS, RECORDS, strict=True)}
        return gather(FILE, order).to_bytes() == [number[start] for start in order] and scan(FILE)[1] == len(FILE)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(64)))
