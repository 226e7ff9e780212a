"""ArrayRecord files as records."""

import os
import pickle
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.forks import exit_code, fork
from tests.formats.array_record.files import CODECS, GOLDENS, noted, some_payloads, write
from tests.reference import riegeli as reference

import headrace as hr
from headrace import _native, _optional
from headrace.contracts.records import Records, Skipped
from headrace.errors import CorruptFile, CorruptRecord, NoFiles
from headrace.formats.array_record import chunks as reader
from headrace.formats.array_record import codecs
from headrace.formats.array_record.codecs import NONE
from headrace.formats.array_record.footer import Footer
from headrace.formats.array_record.format import ArrayRecordRecords
from headrace.formats.array_record.write import file_end
from headrace.io.engines import engines

BLOCK = 1 << 16


@pytest.fixture(params=[1, 7, 1000], ids="group{}".format)
def group_size(request):
    return request.param


def all_of(records):
    return [bytes(view) for view in records]


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.stem)
def test_goldens_read_alike_in_every_way(path):
    payloads = noted(path)
    records = ArrayRecordRecords([str(path)])
    assert isinstance(records, Records)
    assert len(records) == len(payloads)
    assert all_of(records) == payloads
    assert [bytes(records[index]) for index in range(len(records))] == payloads
    assert bytes(records[-1]) == payloads[-1]
    order = np.random.default_rng(0).permutation(len(payloads))
    assert records.spans(order).to_bytes() == [payloads[i] for i in order]
    assert records.spans(np.array([5, 5, 0, 5])).to_bytes() == [payloads[i] for i in (5, 5, 0, 5)]
    assert len(records.spans(np.zeros(0, np.int64))) == 0
    assert records.skipped == Skipped()
    assert not records.prefers_streaming
    if "transpose" not in path.stem:
        assert reference.read(path.read_bytes()) == payloads


@pytest.mark.parametrize("records", [1, 3, 16, 20, 43, 100, None])
@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.stem)
def test_blocks_of_any_size_in_order(path, records):
    payloads = noted(path)
    blocks = list(ArrayRecordRecords([str(path)]).iter_spans(records))
    assert [record for _, spans in blocks for record in spans.to_bytes()] == payloads
    lengths = [len(spans) for _, spans in blocks]
    assert [first for first, _ in blocks] == [sum(lengths[:i]) for i in range(len(lengths))]
    if records is not None:
        assert all(length == records for length in lengths[:-1])
        assert 0 < lengths[-1] <= records


def test_goldens_open_by_the_public_calls(tmp_path):
    path = next(path for path in GOLDENS if path.stem == "group16_zstd")
    unnamed = tmp_path / "unnamed"
    unnamed.write_bytes(path.read_bytes())
    records = hr.records(unnamed)
    assert records.format == "array_record"
    assert all_of(records) == noted(path)


def test_examples_come_out_of_a_loader(tmp_path):
    image, label = np.random.default_rng(0).random((100, 9), dtype=np.float32), np.arange(100)
    hr.write(tmp_path / "x.tfrecord", {"image": image, "label": label})
    write(tmp_path / "x.array_record", all_of(hr.records(tmp_path / "x.tfrecord")), group_size=8)
    source = hr.open(tmp_path / "x.array_record")
    assert source.schema["image"].shape == (9,)
    batches = list(hr.Loader(source, 32, shuffle=True))
    order = np.concatenate([batch["label"] for batch in batches])
    assert sorted(order.tolist()) == label.tolist()
    assert np.array_equal(np.concatenate([batch["image"] for batch in batches]), image[order])


@pytest.mark.parametrize("codec", CODECS)
def test_several_files_are_one_sequence(tmp_path, codec, group_size):
    parts = [some_payloads(40, seed=1), [], some_payloads(23, seed=2), some_payloads(1, seed=3)]
    paths = [
        write(tmp_path / f"{i}.array_record", part, compression=codec, group_size=group_size)
        for i, part in enumerate(parts)
    ]
    payloads = [payload for part in parts for payload in part]
    records = ArrayRecordRecords(paths)
    assert len(records) == 64
    assert all_of(records) == payloads
    order = np.random.default_rng(0).permutation(64)
    assert records.spans(order).to_bytes() == [payloads[i] for i in order]
    assert [bytes(records[i]) for i in (0, 39, 40, 62, 63)] == [payloads[i] for i in (0, 39, 40, 62, 63)]
    assert [record for _, spans in records.iter_spans(9) for record in spans.to_bytes()] == payloads
    where = records.where(41)
    assert (where.path, where.record) == (paths[2], 1)
    assert records.where_in_order(63).path == paths[3]


@pytest.mark.parametrize("size", [BLOCK - 64, BLOCK, 3 * BLOCK, 1 << 20])
@pytest.mark.parametrize("codec", CODECS)
def test_records_larger_than_a_block(tmp_path, codec, size):
    rng = np.random.default_rng(size)
    payloads = [rng.bytes(size), b"small", b"x" * size, rng.bytes(size)]
    for group_size in (1, 2, 4):
        path = write(tmp_path / "x.array_record", payloads, compression=codec, group_size=group_size)
        records = ArrayRecordRecords([path])
        assert all_of(records) == payloads
        assert bytes(records[2]) == payloads[2]


def test_no_records(tmp_path):
    records = ArrayRecordRecords([write(tmp_path / "x.array_record", [])])
    assert os.path.getsize(records.paths[0]) == 2 * BLOCK
    assert len(records) == 0
    assert all_of(records) == []
    assert list(records.iter_spans(5)) == []
    with pytest.raises(IndexError, match="record 0 of 0"):
        records[0]


def test_chunks_of_many_empty_records(tmp_path):
    path = write(tmp_path / "x.array_record", [b""] * 70_000, group_size=70_000)
    records = ArrayRecordRecords([path])
    assert len(records) == 70_000
    assert bytes(records[69_999]) == b""
    assert len(records.spans(np.arange(70_000))) == 70_000


def test_indices_out_of_range(tmp_path):
    records = ArrayRecordRecords([write(tmp_path / "x.array_record", some_payloads(5))])
    for index in (5, -6):
        with pytest.raises(IndexError, match=f"record {index} of 5"):
            records[index]
    with pytest.raises(IndexError, match="records 0 to 5 of 5"):
        records.spans(np.array([0, 5]))
    with pytest.raises(IndexError, match="records -1 to 0 of 5"):
        records.spans(np.array([0, -1]))


def test_views_outlive_everything(tmp_path, group_size):
    payloads = some_payloads(20)
    records = ArrayRecordRecords([write(tmp_path / "x.array_record", payloads, group_size=group_size)])
    views, spans = [records[i] for i in range(20)], records.spans(np.arange(20))
    part = spans.view(7)
    del records, spans
    _native.pool_clear()
    assert [bytes(view) for view in views] == payloads
    assert bytes(part) == payloads[7]
    assert all(view.readonly for view in views)


def test_pickles_by_path(tmp_path):
    payloads = some_payloads(20)
    records = ArrayRecordRecords([write(tmp_path / "x.array_record", payloads, group_size=4)], verify=False)
    assert len(records) == 20
    again = pickle.loads(pickle.dumps(records))
    assert all_of(again) == payloads
    assert again.verify is False
    assert repr(again) == f"ArrayRecordRecords({str(tmp_path / 'x.array_record')!r})"


def test_threads_share_records(tmp_path, group_size):
    payloads = some_payloads(200)
    records = ArrayRecordRecords([write(tmp_path / "x.array_record", payloads, group_size=group_size)])
    wrong = []

    def read(seed):
        for _ in range(20):
            order = np.random.default_rng(seed).permutation(200)[:50]
            if records.spans(order).to_bytes() != [payloads[i] for i in order]:
                wrong.append(seed)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_works_after_a_fork(tmp_path):
    payloads = some_payloads(50)
    records = ArrayRecordRecords([write(tmp_path / "x.array_record", payloads, group_size=25)])
    assert bytes(records[3]) == payloads[3]
    assert exit_code(fork(lambda: all_of(records) == payloads and bytes(records[3]) == payloads[3])) == 0


@pytest.mark.parametrize("codec", CODECS)
def test_bytes_are_the_same_whether_copied_or_decoded_into(tmp_path, codec):
    payloads = some_payloads(300, most=3000)
    payloads[5] = bytes(range(256)) * 1000  # larger than what is decoded so
    path = write(tmp_path / "x.array_record", payloads, group_size=1, compression=codec)
    records = ArrayRecordRecords([path])
    rng = np.random.default_rng(0)
    for call in range(4):
        order = np.append(rng.integers(0, 300, 100), [5, 4, 4])
        spans = records.spans(order)
        views = [spans.view(i) for i in range(len(order))]
        made = spans.to_bytes()
        same = [one is other for one, other in zip(made, spans.to_bytes(), strict=True)]
        expected = [payloads[i] for i in order]
        assert made == expected
        part = spans.part(3, 50)
        del spans
        _native.pool_clear()
        assert made == expected
        assert [bytes(view) for view in views] == expected
        assert part.to_bytes() == expected[3:50]
        # Half of the records are compressed; the interpreter shares objects of up to one byte.
        is_packed = np.array([i % 2 == 0 and len(payloads[i]) > 50 for i in order])
        assert np.array(same)[is_packed].all() == (codec == "zstd" and call > 0 and engines().zstd.is_own)


@pytest.mark.parametrize("files", [1, 3])
def test_chunks_of_other_kinds_among_those_of_one_small_record(tmp_path, monkeypatch, files):
    monkeypatch.setattr(reader, "USUAL_AT_ONCE", 64)
    payloads = some_payloads(300, most=2000)
    payloads[7], payloads[150], payloads[299] = b"", bytes(200_000), b""
    parts = np.array_split(np.arange(300), files)
    paths = [
        write(tmp_path / f"{i}.array_record", [payloads[k] for k in part], group_size=1, compression="zstd")
        for i, part in enumerate(parts)
    ]
    records = ArrayRecordRecords(paths)
    rng = np.random.default_rng(0)
    for order in (
        np.arange(300),
        rng.permutation(300),
        rng.integers(0, 300, 100),
        np.array([7]),
        np.array([150, 7, 299, 150, 3]),
    ):
        for _ in range(2):
            assert records.spans(order).to_bytes() == [payloads[i] for i in order]
    assert [bytes(records[i]) for i in (7, 150, 299, 1)] == [payloads[i] for i in (7, 150, 299, 1)]
    if engines().zstd.is_own:
        assert records._open()[1]._is_usual  # A call with only the other kind does not slow down later calls.


@pytest.mark.parametrize("where", [10, 45], ids=["header", "data"])
def test_a_damaged_chunk_among_small_ones_is_named(tmp_path, where):
    payloads = some_payloads(100, most=900)
    path = write(tmp_path / "x.array_record", payloads, group_size=1, compression="zstd")
    begin = int(ArrayRecordRecords([path])._table.begins[40])
    data = bytearray(Path(path).read_bytes())
    data[begin + where] ^= 1
    Path(path).write_bytes(data)
    records = ArrayRecordRecords([path])
    for _ in range(3):
        with pytest.raises(CorruptRecord) as caught:
            records.spans(np.arange(30, 60))
        assert (caught.value.where.record, caught.value.where.offset) == (40, begin)
        order = np.delete(np.arange(100), 40)
        assert records.spans(order).to_bytes() == [payloads[i] for i in order]


@pytest.mark.usefixtures("own_engines")  # Only our decoder unpacks into bytes objects.
def test_bytes_are_decoded_into_only_while_they_are_wanted(tmp_path):
    payloads = [bytes([number]) * 1000 for number in range(50)]
    path = write(tmp_path / "x.array_record", payloads, group_size=1, compression="zstd")
    records = ArrayRecordRecords([path])

    def shares():
        made = spans.to_bytes()
        assert made == payloads
        return all(one is other for one, other in zip(made, spans.to_bytes(), strict=True))

    spans = records.spans(np.arange(50))
    assert not shares()
    spans = records.spans(np.arange(50))
    assert shares()
    for _ in range(20):
        spans = records.spans(np.arange(50))
        assert [bytes(spans.view(i)) for i in range(50)] == payloads
    assert not shares()


def test_more_than_is_held_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "HELD_BYTES", 5_000)
    monkeypatch.setattr(reader, "MOST_KEPT_BYTES", 0)
    payloads = some_payloads(300, most=500)
    order = np.random.default_rng(0).permutation(300)
    for group_size in (1, 3, 20):
        records = ArrayRecordRecords([write(tmp_path / "x.array_record", payloads, group_size=group_size)])
        assert records.spans(order).to_bytes() == [payloads[i] for i in order]


def test_few_records_of_a_large_chunk_do_not_hold_it(tmp_path):
    payloads = [bytes([i % 256]) * 5000 for i in range(200)]
    records = ArrayRecordRecords([write(tmp_path / "x.array_record", payloads, group_size=200)])
    before = _native.pool_stats()["used_bytes"]
    spans = records.spans(np.array([7, 100]))
    records._opened = None  # with all chunks that it keeps
    assert _native.pool_stats()["used_bytes"] - before < 50_000
    assert spans.to_bytes() == [payloads[7], payloads[100]]


def test_chunks_of_irregular_sizes(tmp_path):
    """The reference divides by the size of the first chunk; other tools may join files or omit chunks."""
    counts, payloads = [5, 3, 5], []
    parts, position = [_native.frame_signature()], len(_native.frame_signature())
    begins, decoded = [], []
    for seed, count in enumerate(counts):
        group = some_payloads(count, seed=seed)
        sizes = np.array([len(payload) for payload in group], np.int64)
        framed, begin, position = _native.frame_chunks(position, NONE, group, sizes, group_size=count)
        payloads += group
        parts.append(framed)
        begins.append(int(begin[0]))
        decoded.append(int(sizes.sum()))
    parts += file_end(Footer(position, "", np.array(begins), np.array(decoded), np.array(counts)), NONE, bytes)
    path = tmp_path / "x.array_record"
    path.write_bytes(b"".join(map(bytes, parts)))
    records = ArrayRecordRecords([str(path)])
    assert [bytes(records[i]) for i in range(13)] == payloads


@given(
    st.lists(st.binary(max_size=600), max_size=40),
    st.sampled_from(CODECS),
    st.integers(1, 12),
    st.booleans(),
    st.lists(st.integers(0, 39), max_size=20),
)
def test_written_files_are_read_as_by_the_reference(tmp_path_factory, payloads, codec, group_size, pad, picks):
    path = tmp_path_factory.mktemp("x") / "x.array_record"
    write(path, payloads, compression=codec, group_size=group_size, pad_to_block_boundary=pad)
    assert reference.read(path.read_bytes(), check=False) == payloads
    records = ArrayRecordRecords([str(path)])
    assert all_of(records) == payloads
    chosen = [pick for pick in picks if pick < len(payloads)]
    assert records.spans(np.array(chosen, np.int64)).to_bytes() == [payloads[i] for i in chosen]


def test_options_that_do_not_fit():
    with pytest.raises(ValueError, match="on_corrupt must be"):
        ArrayRecordRecords(["x"], on_corrupt="ignore")
    with pytest.raises(NoFiles):
        len(ArrayRecordRecords(["not there"]))


def test_a_file_that_changed_is_refused(tmp_path):
    path = write(tmp_path / "x.array_record", some_payloads(5))
    records = ArrayRecordRecords([path])
    again = pickle.loads(pickle.dumps(records))
    assert len(records) == 5
    write(tmp_path / "x.array_record", some_payloads(2000))
    assert bytes(records[4]) == some_payloads(5)[4]  # The mapping is of the old file.
    assert len(again) == 2000


def test_a_missing_library_is_named(tmp_path, monkeypatch):
    path = write(tmp_path / "x.array_record", [b"a" * 1000], compression="brotli")

    def missing(module, *, extra):
        raise hr.MissingExtra(module, extra)

    codecs.library.cache_clear()
    monkeypatch.setattr(_optional, "require", missing)
    with pytest.raises(hr.MissingExtra, match=r'pip install "headrace\[array-record\]"'):
        ArrayRecordRecords([path])[0]
    codecs.library.cache_clear()


def test_text_is_not_an_array_record(tmp_path):
    path = tmp_path / "x.array_record"
    path.write_bytes(b"hello " * 30_000)
    with pytest.raises(CorruptFile, match=r"x\.array_record"):
        len(ArrayRecordRecords([str(path)]))
    skipping = ArrayRecordRecords([str(path)], on_corrupt="skip")
    assert len(skipping) == 0
    assert skipping.skipped.bytes == 180_000
