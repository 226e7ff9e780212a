"""TFRecord files as records."""

import gzip
import os
import pickle
import threading
import zlib
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.forks import exit_code, fork
from tests.formats.golden import DAMAGED, SOUND, TFRECORD, noted
from tests.reference import tfrecord as reference

from headrace.contracts.records import Records, Skipped
from headrace.errors import CorruptFile, CorruptRecord, NoFiles, Where
from headrace.formats.tfrecord.format import TFRecordRecords


def plain(path):
    """The decompressed bytes of a golden file, by another library."""
    content = path.read_bytes()
    if content[:2] == b"\x1f\x8b":
        return gzip.decompress(content)
    return zlib.decompress(content) if ".zlib." in path.name else content


def write(path, payloads, pack=bytes):
    path.write_bytes(pack(b"".join(map(reference.framed, payloads))))
    return str(path)


@pytest.fixture(params=["none", "gzip", "zlib"])
def pack(request):
    return {"none": bytes, "gzip": gzip.compress, "zlib": zlib.compress}[request.param]


def some_payloads(count=100, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.bytes(int(size)) for size in rng.integers(0, 300, count)]


@pytest.mark.parametrize("path", SOUND, ids=lambda path: path.name)
def test_goldens_read_alike_in_every_way(path):
    starts, payloads, fault = reference.read(plain(path))
    records = TFRecordRecords([str(path)])
    assert fault is None
    assert isinstance(records, Records)
    assert len(payloads) == noted(path)["records"]
    assert [bytes(view) for view in records] == payloads
    assert len(records) == len(payloads)
    assert [bytes(records[index]) for index in range(len(records))] == payloads
    assert records.index.starts.tolist() == starts
    assert records.spans(np.arange(len(payloads))).to_bytes() == payloads
    assert [record for _, spans in records.iter_spans() for record in spans.to_bytes()] == payloads
    assert records.skipped == Skipped()


@pytest.mark.parametrize("path", DAMAGED, ids=lambda path: path.name)
def test_damaged_goldens_raise_with_their_place(path):
    content = path.read_bytes()
    if path.name == "truncated.gzip.tfrecord":
        content = zlib.decompressobj(31).decompress(content)
    starts, payloads, fault = reference.read(content)
    records = TFRecordRecords([str(path)])
    seen = []
    with pytest.raises((CorruptRecord, CorruptFile)) as raised:
        seen.extend(bytes(view) for view in records)
    assert seen == payloads, "everything before the damage can be read"
    where = raised.value.where
    assert (where.path, where.record) == (str(path), fault.record)
    assert where.offset == (len(content) if path.name == "truncated.gzip.tfrecord" else fault.offset)
    if path.name == "bad_payload_crc.tfrecord":
        assert len(records) == 40, "lengths are sound, so an index is"
        with pytest.raises(CorruptRecord, match="payload checksum") as again:
            records[1]
        assert again.value.where == where
        assert bytes(records[2]) == reference.read(content[starts[0] + 620 :])[1][0]
    else:
        with pytest.raises((CorruptRecord, CorruptFile)) as again:
            len(records)
        assert str(again.value) == str(raised.value)


@pytest.mark.parametrize("path", DAMAGED, ids=lambda path: path.name)
def test_damaged_goldens_can_be_gone_through(path):
    records = TFRecordRecords([str(path)], on_corrupt="skip")
    in_order = [bytes(view) for view in records]
    assert records.skipped.records == 1
    skipped_in_order = records.skipped
    assert [bytes(records[index]) for index in range(len(records))] == in_order
    assert records.skipped == skipped_in_order
    size = sum(16 + len(payload) for payload in in_order) + records.skipped.bytes
    assert size == (
        len(zlib.decompressobj(31).decompress(path.read_bytes())) if ".gzip" in path.name else path.stat().st_size
    )
    again = TFRecordRecords([str(path)], on_corrupt="skip")
    assert len(again) == len(in_order)
    assert again.skipped == skipped_in_order, "known from the index that was kept"


def test_shards_join(tmp_path):
    paths = [str(TFRECORD / f"sharded.tfrecord-{number:05d}-of-00003") for number in range(3)]
    records = TFRecordRecords(paths)
    payloads = [payload for path in paths for payload in reference.read(Path(path).read_bytes())[1]]
    assert [bytes(view) for view in records] == payloads
    indices = np.random.default_rng(0).permutation(len(payloads))
    assert records.spans(indices).to_bytes() == [payloads[index] for index in indices]
    assert records.where(14) == Where(path=paths[1], record=0, offset=0)
    assert records.where(39).record == 12


@given(st.data(), st.lists(st.lists(st.binary(max_size=40), max_size=6), min_size=1, max_size=4))
def test_any_shards_in_any_order(tmp_path_factory, data, shards):
    folder = tmp_path_factory.mktemp("shards")
    paths = [write(folder / str(number), payloads) for number, payloads in enumerate(shards)]
    payloads = [payload for shard in shards for payload in shard]
    records = TFRecordRecords(paths)
    assert [bytes(view) for view in records] == payloads
    assert len(records) == len(payloads)
    if payloads:
        indices = data.draw(st.lists(st.integers(0, len(payloads) - 1), max_size=10))
        assert records.spans(np.array(indices, np.int64)).to_bytes() == [payloads[index] for index in indices]
        assert bytes(records[-1]) == payloads[-1]
    step = data.draw(st.integers(1, 5))
    blocks = list(records.iter_spans(step))
    assert [first for first, _ in blocks] == list(range(0, len(payloads), step))
    assert [payload for _, spans in blocks for payload in spans.to_bytes()] == payloads


def test_two_thousand_shards(tmp_path):
    payloads = some_payloads(4000)
    paths = [write(tmp_path / f"{number:04d}", payloads[2 * number : 2 * number + 2]) for number in range(2000)]
    records = TFRecordRecords(paths)
    assert len(records) == 4000
    indices = np.random.default_rng(0).permutation(4000)
    assert records.spans(indices).to_bytes() == [payloads[index] for index in indices]
    assert sum(1 for _ in records) == 4000
    assert len(os.listdir("/proc/self/fd")) < 100 if os.path.isdir("/proc/self/fd") else True


def test_invalid_indices(tmp_path):
    records = TFRecordRecords([write(tmp_path / "x", [b"a", b"b"])])
    for index in (2, -3):
        with pytest.raises(IndexError, match=f"record {index} of 2"):
            records[index]
    for indices in ([0, 2], [-1, 0]):
        with pytest.raises(IndexError):
            records.spans(np.array(indices, np.int64))
    with pytest.raises(TypeError):
        records["a"]
    assert len(records.spans(np.zeros(0, np.int64))) == 0


def test_no_records_at_all(tmp_path, pack):
    records = TFRecordRecords([write(tmp_path / "x", [], pack)])
    assert list(records) == list(records.iter_spans()) == list(records.iter_spans(3)) == []
    assert len(records) == 0
    assert TFRecordRecords([write(tmp_path / "y", [])] * 3).spans(np.zeros(0, np.int64)).total_bytes == 0


def test_large_records_among_small_ones(tmp_path, pack):
    rng = np.random.default_rng(0)
    payloads = [b"a", rng.bytes(1_300_000), b"", rng.bytes(300_000), *some_payloads(500)]
    records = TFRecordRecords([write(tmp_path / "x", payloads, pack)])
    assert [bytes(view) for view in records] == payloads
    records = TFRecordRecords([write(tmp_path / "x", payloads, pack)])
    assert [payload for _, spans in records.iter_spans(7) for payload in spans.to_bytes()] == payloads
    assert [bytes(records[index]) for index in range(len(records))] == payloads


def test_streaming_comes_first_and_mapping_later(tmp_path):
    payloads = some_payloads()
    records = TFRecordRecords([write(tmp_path / "x", payloads, gzip.compress)])
    assert records.prefers_streaming
    assert [bytes(view) for view in records] == payloads
    assert not records.prefers_streaming
    assert not TFRecordRecords([write(tmp_path / "y", payloads)]).prefers_streaming


def test_a_plain_file_that_looks_compressed(tmp_path):
    for length in (0x8B1F, 0x9C78, 0x0178):
        payloads = [bytes(length), b"next"]
        assert [bytes(view) for view in TFRecordRecords([write(tmp_path / "x", payloads)])] == payloads


def test_compression_that_is_named_wrongly(tmp_path):
    path = write(tmp_path / "x", [b"a"])
    with pytest.raises(CorruptFile, match="intact gzip stream"):
        list(TFRecordRecords([path], compression="GZIP"))
    packed = write(tmp_path / "y", [b"a"], gzip.compress)
    with pytest.raises(CorruptRecord, match="Is this a TFRecord file at all"):
        list(TFRecordRecords([packed], compression="none"))
    with pytest.raises(ValueError, match="compression must be"):
        TFRecordRecords([path], compression="snappy")
    with pytest.raises(ValueError, match="on_corrupt must be"):
        TFRecordRecords([path], on_corrupt="ignore")


def test_no_tfrecord_at_all(tmp_path):
    (tmp_path / "x").write_bytes(b"This is a text, of more than twelve bytes.")
    with pytest.raises(CorruptRecord, match="Is this a TFRecord file at all") as raised:
        list(TFRecordRecords([str(tmp_path / "x")]))
    assert raised.value.where == Where(path=str(tmp_path / "x"), record=0, offset=0)
    with pytest.raises(NoFiles, match="nowhere"):
        len(TFRecordRecords([str(tmp_path / "nowhere")]))


def flipped(path, offset):
    content = bytearray(path.read_bytes())
    content[offset] ^= 1
    path.write_bytes(content)


def test_checksums_can_be_left_out(tmp_path):
    path = tmp_path / "x"
    write(path, [b"abc", b"def"])
    flipped(path, 12)
    for records in (TFRecordRecords([str(path)], verify=False),):
        assert [bytes(view) for view in records] == [b"`bc", b"def"]
        assert bytes(records[0]) == b"`bc"
        assert next(iter(records.iter_spans()))[1].to_bytes() == [b"`bc", b"def"]


def test_skipping_trusts_lengths_and_searches_where_it_cannot(tmp_path):
    inner = b"".join(map(reference.framed, [b"inner 1", b"inner 2"]))
    payloads = [b"first", inner, b"third", b"fourth", b"fifth"]
    path = tmp_path / "x"
    write(path, payloads)
    starts = reference.read(path.read_bytes())[0]
    flipped(path, starts[1] + 16 + len(inner) - 1)  # in the payload's checksum: the payload is not searched for records
    flipped(path, starts[3] + 2)
    records = TFRecordRecords([str(path)], on_corrupt="skip")
    assert [bytes(view) for view in records] == [b"first", b"third", b"fifth"]
    assert records.skipped == Skipped(2, 16 + len(inner) + 16 + len(b"fourth"))
    assert len(records) == 3
    for where in (records.where, TFRecordRecords([str(path)], on_corrupt="skip").where_in_order):
        assert where(2) == Where(path=str(path), record=4, offset=starts[4])


def test_skipping_in_a_stream(tmp_path, monkeypatch):
    """Damage at the boundaries of scan blocks."""
    monkeypatch.setattr("headrace.io.cache.inflate.PART_BYTES", 1000)
    payloads = some_payloads(300)
    content = bytearray(b"".join(map(reference.framed, payloads)))
    starts = reference.read(content)[0]
    wrong = list(range(5, 300, 7))
    for number, record in enumerate(wrong):
        content[starts[record] + (0 if number % 2 else 12 + len(payloads[record]))] ^= 1
    (tmp_path / "x").write_bytes(gzip.compress(content))
    records = TFRecordRecords([str(tmp_path / "x")], on_corrupt="skip")
    sound = [payload for number, payload in enumerate(payloads) if number not in wrong]
    assert [bytes(view) for view in records] == sound
    assert records.skipped.records == len(wrong)
    assert records.skipped.bytes == sum(16 + len(payloads[record]) for record in wrong)
    assert [bytes(records[index]) for index in range(len(records))] == sound


def test_where_without_an_index(tmp_path):
    payloads = some_payloads(50)
    path = tmp_path / "x"
    write(path, payloads)
    starts = reference.read(path.read_bytes())[0]
    records = TFRecordRecords([str(path), str(path)])
    assert records.where_in_order(53) == Where(path=str(path), record=3, offset=starts[3])
    assert records.where_in_order(1000) == Where()
    flipped(path, starts[20])
    damaged = TFRecordRecords([str(path)])
    assert damaged.where_in_order(19).offset == starts[19]
    assert damaged.where_in_order(30) == Where(path=str(path))


def test_views_outlive_everything(tmp_path):
    path = tmp_path / "x"
    records = TFRecordRecords([write(path, [b"abc" * 1000])])
    views = [records[0], next(iter(records))]
    spans = records.spans(np.array([0]))
    del records
    path.unlink()
    assert {bytes(view) for view in [*views, spans.view(0)]} == {b"abc" * 1000}
    assert all(view.readonly for view in views)


def test_pickling_keeps_the_options_and_not_the_index(tmp_path):
    path = tmp_path / "x"
    payloads = some_payloads()
    records = TFRecordRecords([write(path, payloads)], on_corrupt="skip", verify=False, compression="none")
    len(records)
    kept = pickle.dumps(records)
    assert len(kept) < 1000
    again = pickle.loads(kept)
    assert (again.on_corrupt, again.verify, again.paths) == ("skip", False, (str(path),))
    assert [bytes(again[index]) for index in range(len(again))] == payloads


def test_threads(tmp_path, pack):
    payloads = some_payloads(500)
    records = TFRecordRecords([write(tmp_path / str(n), payloads[100 * n : 100 * n + 100], pack) for n in range(5)])
    wrong = []

    def read(seed):
        for _ in range(20):
            indices = np.random.default_rng(seed).integers(0, 500, 32)
            if records.spans(indices).to_bytes() != [payloads[index] for index in indices]:
                wrong.append(seed)
        if [bytes(view) for view in records] != payloads:
            wrong.append(-seed)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("indexed", [False, True])
def test_fork(tmp_path, indexed):
    payloads = some_payloads()
    records = TFRecordRecords([write(tmp_path / "x", payloads)])
    if indexed:
        len(records)

    def reads_all():
        return [bytes(records[index]) for index in range(len(records))] == payloads == [bytes(view) for view in records]

    assert exit_code(fork(reads_all)) == 0


def test_pages_are_released_during_sequential_reading(tmp_path, monkeypatch):
    monkeypatch.setattr("headrace.formats.framed.scan.KEPT_BYTES", 10_000)
    payloads = some_payloads(1000)
    records = TFRecordRecords([write(tmp_path / "x", payloads)])
    dropped = []
    monkeypatch.setattr(
        "headrace.io.local.mapped.MappedFile.drop", lambda self, offset, size: dropped.append((offset, size))
    )
    assert sum(len(spans) for _, spans in records.iter_spans(max_bytes=5000)) == 1000
    assert dropped[0][0] == 0
    assert all(a[0] + a[1] == b[0] for a, b in pairwise(dropped))


def test_its_name_shows_what_it_reads(tmp_path):
    assert "x.tfrecord" in repr(TFRecordRecords(["x.tfrecord"]))
    assert "3 files" in repr(TFRecordRecords(["a", "b", "c"]))
