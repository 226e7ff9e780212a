"""RecordIO files: contents and damage."""

import base64
import gzip
import itertools
import json
import os
import pickle
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference import recordio as reference

import headrace as hr
from headrace.errors import CorruptRecord, DataError, UnknownFormat, UnsupportedData
from headrace.formats.framed.records import NoLength
from headrace.formats.framed.scan import Scan
from headrace.formats.open import detect
from headrace.formats.recordio.format import RecordIOFraming, RecordIORecords, RecordIOWriter, is_recordio
from headrace.formats.registry import format_of_name
from headrace.io.local import open
from headrace.io.local.mapped import MappedFile

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "recordio"
FILES = sorted(path for path in GOLDEN.glob("*.rec*") if path.suffix != ".json")
NOTES = {path: json.loads(Path(f"{path}.json").read_text(encoding="utf-8")) for path in FILES}
SOUND = [path for path in FILES if "damaged" not in NOTES[path]]
MAGIC = reference.MAGIC_BYTES


def write(path, content):
    path.write_bytes(content)
    return str(path)


def payloads_of(records):
    return [bytes(view) for view in records]


# ------------------------------------------------------------------------------------------------------------ reading


@pytest.mark.parametrize("path", SOUND, ids=lambda path: path.name)
def test_goldens(path):
    expected = list(reference.read_records(path.read_bytes()))
    records = hr.records(path)
    assert isinstance(records, RecordIORecords)
    assert payloads_of(records) == expected
    assert [bytes(records[index]) for index in range(-len(records), 0)] == expected
    assert len(expected) == NOTES[path]["records"]
    if path.name == "multipart.rec":
        assert expected == [base64.b64decode(example["b64"]) for example in NOTES[path]["examples"]]


def test_several_files_gzip_and_pickling(tmp_path):
    paths = [write(tmp_path / f"{n}.rec", reference.frame(b"%d" % n) * 3) for n in range(3)]
    paths.append(write(tmp_path / "3.rec.gz", gzip.compress(reference.frame(b"3") * 3)))
    expected = [b"%d" % n for n in range(4) for _ in range(3)]
    records = hr.records(tmp_path)
    assert records.paths == tuple(paths)
    assert payloads_of(records) == expected
    order = np.array([11, 0, 5, 5])
    assert records.spans(order).to_bytes() == [expected[i] for i in order]
    assert (records.where(4).path, records.where(4).record, records.where(4).offset) == (paths[1], 1, 12)
    assert payloads_of(pickle.loads(pickle.dumps(records))) == expected
    blocks = [(first, spans.to_bytes()) for first, spans in records.iter_spans(5)]
    assert blocks == [(0, expected[:5]), (5, expected[5:10]), (10, expected[10:])]


def test_joining_parts(tmp_path):
    path = write(tmp_path / "x.rec", reference.frame_parts([b"abcd", b"ef", b""]) + reference.frame(b"whole"))
    for join, expected in (
        ("auto", b"abcd" + MAGIC + b"ef" + MAGIC),
        ("magic", b"abcd" + MAGIC + b"ef" + MAGIC),
        ("plain", b"abcdef"),
    ):
        records = RecordIORecords([path], join=join)
        assert payloads_of(records) == [expected, b"whole"]
        assert [bytes(records[0]), bytes(records[1])] == [expected, b"whole"]
        assert records.spans(np.array([1, 0])).to_bytes() == [b"whole", expected]
    with pytest.raises(ValueError, match="join must be 'auto', 'magic' or 'plain', got 'both'"):
        RecordIORecords([path], join="both")


def test_views_outlive_the_records(tmp_path):
    records = RecordIORecords(
        [write(tmp_path / "x.rec", reference.frame_parts([b"ab", b"cd"]) + reference.frame(b"whole"))]
    )
    joined, whole = records
    single = records[0]
    del records
    assert (bytes(joined), bytes(whole), bytes(single)) == (b"ab" + MAGIC + b"cd", b"whole", b"ab" + MAGIC + b"cd")


parts = st.lists(st.binary(max_size=20) | st.just(MAGIC * 2), min_size=1, max_size=4)


@given(st.lists(parts, max_size=6), st.sampled_from([1, 40, 1 << 20]))
def test_native_equals_reference(tmp_path_factory, records, run_bytes):
    content = b"".join(map(reference.frame_parts, records))
    path = tmp_path_factory.mktemp("scan") / "x"
    path.write_bytes(content)
    for join, between in (("magic", MAGIC), ("plain", b"")):
        framing = RecordIOFraming(join)
        seen = []
        for run in Scan(framing, MappedFile(str(path)), verify=True, run_bytes=run_bytes):
            seen += payloads_of(framing.payloads(run.buffer, run.starts, run.end))
        assert (
            seen == list(reference.read_records(content, join=between)) == [between.join(record) for record in records]
        )


@given(st.binary(max_size=60))
def test_records_split_by_dmlc_are_joined(payload):
    payload = payload.replace(b"\0", MAGIC)
    framed = reference.frame_parts(reference.split_as_dmlc(payload))
    spans = RecordIOFraming().gather([memoryview(framed)], None, np.zeros(1, np.int64), verify=True)
    assert spans.to_bytes() == [payload]


# ------------------------------------------------------------------------------------------------------------- damage


def test_the_damaged_goldens():
    with pytest.raises(CorruptRecord) as caught:
        payloads_of(hr.records(GOLDEN / "bad_magic.recordio"))
    assert str(caught.value).startswith("expected the magic word 0xced7230a, found 0x04030201 - at ")
    assert (caught.value.where.record, caught.value.where.offset) == (1, 64)
    assert "the length of the one before it" in caught.value.hint
    with pytest.raises(CorruptRecord, match=r"expected 56 more bytes, found 27 before the end .*record 4, byte 0x100"):
        len(hr.records(GOLDEN / "truncated.recordio"))
    skipping = hr.records(GOLDEN / "bad_magic.recordio", on_corrupt="skip")
    whole = list(reference.read_records((GOLDEN / "dense_float32.recordio").read_bytes()))
    assert payloads_of(skipping) == whole[:1] + whole[2:]
    assert (skipping.skipped.records, skipping.skipped.bytes) == (1, 64)


def outcome(content):
    """Payloads before the first fault, and its position."""
    seen, at = [], 0
    while at < len(content):
        try:
            found, at = reference.read_parts(content, at)
        except reference.Damaged as damage:
            return seen, (len(seen), damage.offset)
        seen.append(MAGIC.join(found))
    return seen, None


def damaged_forms(content, step, flips):
    for at in range(0, len(content), step):
        yield content[:at]
        for flip in flips:
            yield content[:at] + bytes([content[at] ^ flip]) + content[at + 1 :]


@pytest.mark.parametrize("name", ["multipart.rec", "dense_int64.recordio", "walkthrough_sparse.recordio"])
def test_cut_at_every_length_and_flipped_at_every_byte(name, tmp_path):
    whole = (GOLDEN / name).read_bytes()
    target = tmp_path / "x.rec"
    for content in damaged_forms(whole, 1 if len(whole) < 200 else 7, (0x01, 0x20, 0xFF)):
        target.write_bytes(content)
        expected, damage = outcome(content)
        seen, error = [], None
        try:
            seen.extend(map(bytes, RecordIORecords([str(target)], compression="none")))
        except DataError as raised:
            error = raised
        assert seen == expected
        assert (error and (error.where.record, error.where.offset)) == damage
        assert error is None or error.where.path == str(target)


@pytest.mark.parametrize("name", ["multipart.rec", "dense_int64.recordio"])
def test_skipping_gives_whole_records_and_counts_every_byte(name, tmp_path):
    whole = (GOLDEN / name).read_bytes()
    target = tmp_path / "x.rec"
    for content in damaged_forms(whole, 1 if len(whole) < 200 else 5, (0x01, 0xFF)):
        target.write_bytes(content)
        records = RecordIORecords([str(target)], on_corrupt="skip", compression="none")
        in_order = payloads_of(records)
        assert [bytes(records[index]) for index in range(len(records))] == in_order
        assert all(content.count(payload) for payload in in_order if MAGIC not in payload)
        scan = Scan(RecordIOFraming(), MappedFile(str(target)), verify=True, on_corrupt="skip")
        covered = sum(run.size for run in scan)
        assert covered + sum(size for _, size in scan.faults) == len(content)
        assert records.skipped.bytes == len(content) - covered


def test_a_wrong_length_costs_one_record(tmp_path):
    payloads = [b"first", b"second record", b"third", b"fourth"]
    frames = [reference.frame(payload) for payload in payloads]
    for length in (0, 3, 20, 100, 1 << 28):  # a length that rounds to the same number of words cannot be detected
        second = frames[1][:4] + length.to_bytes(4, "little") + frames[1][8:]
        path = write(tmp_path / "x.rec", frames[0] + second + frames[2] + frames[3])
        for run_bytes in (1, 1 << 20):
            scan = Scan(RecordIOFraming(), MappedFile(path), verify=True, on_corrupt="skip", run_bytes=run_bytes)
            kept = [
                payload
                for run in scan
                for payload in payloads_of(RecordIOFraming().payloads(run.buffer, run.starts, run.end))
            ]
            assert kept[0] == payloads[0]
            assert kept[-2:] == payloads[2:], length
            assert len(scan.faults) == 1
            assert scan.faults[0][0].where.record in (1, 2)


def test_files_that_are_not_recordio(tmp_path):
    path = write(tmp_path / "x.rec", b"name,age\nann,3\n")
    with pytest.raises(CorruptRecord, match="Is this a RecordIO file at all"):
        payloads_of(hr.records(path, format="recordio"))
    assert hr.records(path).format == "csv"  # which is what it holds
    with pytest.raises(UnknownFormat):
        hr.records(write(tmp_path / "x", b"name\nann\n"))


def test_verify(tmp_path):
    report = hr.verify(GOLDEN / "bad_magic.recordio")
    assert (report.records, [fault.where.offset for fault in report.faults]) == (8, [64])
    assert hr.verify(GOLDEN / "sparse_coo.recordio").faults == []
    codec_fault = hr.verify(
        write(tmp_path / "x.rec", (GOLDEN / "dense_float32.recordio").read_bytes() + reference.frame(b"\x0b"))
    )
    assert [fault.where.record for fault in codec_fault.faults] == [9]


# ---------------------------------------------------------------------------------------------------------- detection


def test_detection(tmp_path):
    assert is_recordio(reference.frame(b""))
    assert is_recordio(reference.frame_parts([b"a", b"b"]))
    assert not is_recordio(reference.frame(b"", 2))
    assert not is_recordio(MAGIC)
    for name in ("x.recordio", "x.rec", "x.pbr", "matrix_0.pbr", "x.recordio.gz", "x.rec-00000-of-00002"):
        assert format_of_name(name) == "recordio"
    assert detect(write(tmp_path / "nameless", reference.frame(b"a"))).name == "recordio"
    assert detect(write(tmp_path / "empty.recordio", b"")).name == "recordio"
    assert detect(write(tmp_path / "packed", gzip.compress(reference.frame(b"a")))).name == "recordio"
    assert len(hr.records(tmp_path / "empty.recordio")) == 0


# ------------------------------------------------------------------------------------------------------------ writing


@given(st.lists(st.binary(max_size=30), max_size=8), st.sampled_from(["none", "gzip"]))
def test_written_bytes(tmp_path_factory, payloads, compression):
    path = tmp_path_factory.mktemp("write") / "x.rec"
    with RecordIOWriter(path, compression=compression) as writer:
        for payload in payloads:
            writer.write(payload)
    content = path.read_bytes()
    assert (gzip.decompress(content) if compression == "gzip" and content else content) == b"".join(
        map(reference.frame, payloads)
    )
    assert payloads_of(hr.records(path, format="recordio")) == payloads


@given(st.lists(st.binary(max_size=30), min_size=1, max_size=8), st.integers(0, 9))
def test_blocks_are_framed_where_they_lie(tmp_path_factory, payloads, spare):
    head, tail = RecordIOWriter.head, RecordIOWriter.tail
    steps = [head + len(payload) + tail + spare for payload in payloads]
    starts = np.array([sum(steps[:i]) + head for i in range(len(steps))], np.int64)
    block = np.full(sum(steps), 0xEE, np.uint8)
    for payload, start in zip(payloads, starts, strict=True):
        block[start : start + len(payload)] = np.frombuffer(payload, np.uint8)
    path = tmp_path_factory.mktemp("block") / "x.rec"
    with RecordIOWriter(path) as writer:
        writer.write(b"before")
        writer.write_block(block, starts, np.array([len(payload) for payload in payloads], np.int64))
    assert path.read_bytes() == b"".join(map(reference.frame, [b"before", *payloads]))


def test_payloads_that_are_too_long(tmp_path):
    with RecordIOWriter(tmp_path / "x.rec") as writer:
        block = np.zeros(64, np.uint8)
        with pytest.raises(UnsupportedData, match="up to 536870911 bytes.* found one of 536870912 bytes"):
            writer.write_block(block, np.array([8], np.int64), np.array([1 << 29], np.int64))


def test_convert_chooses_the_reading_that_is_a_record(tmp_path):
    whole = list(reference.read_records((GOLDEN / "dense_float32.recordio").read_bytes()))
    cut = b"".join(reference.frame_parts([payload[:10], payload[10:]]) for payload in whole)
    source = hr.open(write(tmp_path / "cut.rec", cut))
    assert source.to_numpy()[0].shape == (9, 5)
    hr.convert(tmp_path / "cut.rec", tmp_path / "whole.rec")
    assert (tmp_path / "whole.rec").read_bytes() == (GOLDEN / "dense_float32.recordio").read_bytes()


# -------------------------------------------------------------------------------------------------------------- pipes


@pytest.fixture
def fifo(tmp_path):
    """Makes a FIFO that a thread writes some bytes into."""
    threads = []

    def make(content, name="pipe.recordio"):
        path = str(tmp_path / name)
        os.mkfifo(path)
        threads.append(threading.Thread(target=lambda: Path(path).write_bytes(content)))
        threads[-1].start()
        return path

    yield make
    for thread in threads:
        thread.join()


def test_a_pipe_is_read_in_order(fifo):
    content = (GOLDEN / "dense_float32.recordio").read_bytes()
    records = hr.records(fifo(content))
    assert records.prefers_streaming
    expected = list(reference.read_records(content))
    assert payloads_of(records) == expected
    assert list(map(bytes, list(records))) == expected  # a short one can be read again
    with pytest.raises(NoLength, match="found a pipe - at .*Iterate over it"):
        len(records)
    with pytest.raises(UnsupportedData, match="in any order, found a pipe"):
        records[0]


def test_examples_from_a_pipe(fifo):
    path = GOLDEN / "sparse_csr.recordio"
    source = hr.open(fifo(path.read_bytes()))
    assert source.schema == hr.open(path).schema
    assert [example["label"] for example in source] == list(range(11))
    matrix, labels = source.to_csr()
    assert np.array_equal(matrix.toarray(), np.load(GOLDEN / "sparse_dense_equivalent.npy"))
    assert labels.tolist() == list(range(11))


def test_an_empty_pipe(fifo):
    assert payloads_of(hr.records(fifo(b""))) == []
    schema = {"values": hr.Feature("float32", (3,))}
    assert hr.open(fifo(b"", "other.rec"), schema=schema).to_numpy()[0].shape == (0, 3)


def test_a_pipe_that_ends_within_a_record(fifo):
    content = (GOLDEN / "truncated.recordio").read_bytes()
    records = hr.records(fifo(content))
    seen = []
    with pytest.raises(CorruptRecord, match="record 4, byte 0x100"):
        seen.extend(map(bytes, records))
    assert len(seen) == 4


def test_a_long_pipe_is_read_once(fifo, monkeypatch):
    monkeypatch.setattr(open, "KEPT_BYTES", 100_000)
    payloads = [os.urandom(1000) for _ in range(300)]
    records = hr.records(fifo(b"".join(map(reference.frame, payloads))))
    first = list(itertools.islice(iter(records), 5))
    assert list(map(bytes, first)) == payloads[:5]
    assert payloads_of(records) == payloads  # begins anew
    with pytest.raises(UnsupportedData, match="a pipe from which too much was read already"):
        payloads_of(records)


def test_the_name_of_a_pipe_must_tell_its_format(fifo):
    with pytest.raises(UnknownFormat, match="a pipe, unknown extension"):
        hr.records(path := fifo(b"", "channel_0"))
    assert payloads_of(hr.records(path, format="recordio")) == []
