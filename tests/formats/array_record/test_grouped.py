"""Chunks of many records: read as far as needed, and kept while they are recent."""

import multiprocessing
import os
import pickle
import random
import threading
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.formats.array_record.files import CODECS, GOLDENS, noted, some_payloads, write

from headrace import _native
from headrace.errors import CorruptFile, CorruptRecord
from headrace.formats.array_record import chunks as reader
from headrace.formats.array_record.format import ArrayRecordRecords, RiegeliRecords
from headrace.io.local import mapped
from headrace.io.local.signatures import Signature, wait_for_tick
from headrace.io.system import as_pool_thread

quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def store_of(records):
    return records._open()[1]._store


def large_payloads(count, *, seed=0):
    """Records of which sixteen take several blocks of 128 KiB: some compress well, some not at all."""
    rng = np.random.default_rng(seed)
    words = [rng.bytes(9) for _ in range(500)]
    kinds = (lambda size: b"".join(random.Random(size).choices(words, k=size // 9)), rng.bytes, bytes)
    return [kinds[number % 3](int(rng.integers(0, 60_000))) for number in range(count)]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Files of all codecs and group sizes, with their records."""
    folder = tmp_path_factory.mktemp("grouped")
    made = {}
    for codec in CODECS:
        for group in (2, 16, 70):
            payloads = some_payloads(230, seed=group)
            made[codec, group] = (
                write(folder / f"{codec}{group}", payloads, compression=codec, group_size=group),
                payloads,
            )
        large = large_payloads(50)
        made[codec, "large"] = write(folder / f"{codec}large", large, compression=codec, group_size=16), large
    return made


@quick
@given(data=st.data())
def test_any_batches_equal_the_records(files, monkeypatch, data):
    """Random indices with repeats, runs, single records; much, little and no memory for chunks; one thread and all; requested or not."""
    path, payloads = files[data.draw(st.sampled_from(sorted(files, key=str)))]
    monkeypatch.setattr(reader, "MOST_KEPT_BYTES", data.draw(st.sampled_from([0, 30_000, 1 << 30])))
    monkeypatch.setattr(_native, "has_read_from_disk", lambda: data.draw(st.booleans()))
    records = ArrayRecordRecords([path, path], verify=data.draw(st.booleans()))
    every = payloads * 2
    some = st.integers(0, len(every) - 1)
    run = st.tuples(some, st.integers(1, 200)).map(lambda at: list(range(at[0], min(len(every), sum(at)))))
    with as_pool_thread() if data.draw(st.booleans()) else nullcontext():
        for batch in data.draw(st.lists(st.lists(some, min_size=1, max_size=90) | run | some, max_size=8)):
            if isinstance(batch, int):
                assert bytes(records[batch]) == every[batch]
            else:
                spans = records.spans(np.array(batch))
                expected = [every[i] for i in batch]
                assert [bytes(spans.view(k)) for k in range(len(batch))] == expected
                assert spans.to_bytes() == expected
    assert store_of(records).held_bytes <= reader.MOST_KEPT_BYTES


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.name)
def test_files_of_the_reference(path):
    expected = noted(path)
    records = ArrayRecordRecords([str(path)])
    for turn in range(3):
        order = np.random.default_rng(turn).integers(0, len(expected), 2 * len(expected))
        assert records.spans(order).to_bytes() == [expected[i] for i in order]
        assert [bytes(records[int(i)]) for i in order] == [expected[i] for i in order]


def test_recent_chunks_are_kept_up_to_a_bound(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "MOST_KEPT_BYTES", 30_000)
    payloads = [bytes([i]) * 1000 for i in range(100)]
    records = ArrayRecordRecords([write(tmp_path / "x.array_record", payloads, group_size=10)])
    for index in (5, 6, 15, 15, 25, 5, 25, 99, 99, 50):
        assert bytes(records[index]) == payloads[index]
        assert len(store_of(records)) > 0
        assert store_of(records).held_bytes <= 30_000


@pytest.mark.parametrize("group", [1, 10])
def test_chunks_of_a_scattered_batch_are_requested_before_they_are_read(tmp_path, monkeypatch, group):
    payloads = some_payloads(200)
    paths = [write(tmp_path / f"{name}.array_record", payloads, group_size=group) for name in "ab"]
    records, asked, has_read = ArrayRecordRecords(paths), [], True
    monkeypatch.setattr(_native, "has_read_from_disk", lambda: has_read)
    monkeypatch.setattr(_native, "request_ranges", lambda *what: asked.append(what[1:]))
    batch = np.array([350, 5, 170, 23, 29])
    for _ in range(2):
        assert records.spans(batch).to_bytes() == [payloads[i % 200] for i in batch]
    records.spans(np.arange(5, 25))  # The system reads ahead by itself.
    has_read = False
    records.spans(batch)
    assert len(asked) == 2
    begins = [records.footer(number).begins for number in range(2)]
    expected = {
        (i // 200, int(begins[i // 200][i % 200 // group]), int(begins[i // 200][i % 200 // group + 1])) for i in batch
    }
    which, starts, ends = asked[0]
    assert set(zip(which.tolist(), starts.tolist(), ends.tolist(), strict=True)) == expected
    assert len(asked[1][1]) <= len(asked[0][1])  # those that are still in memory are not read again


@pytest.mark.usefixtures("own_engines")  # The library's decoder keeps no chunk apart.
@pytest.mark.parametrize("several", [False, True])
def test_a_chunk_stays_once_it_is_wanted_again(tmp_path, several):
    """Until then, only where its records are is remembered: in data far larger than memory, chunks would push each other out."""
    payloads = [bytes([i]) * 1000 for i in range(100)]
    records = ArrayRecordRecords([write(tmp_path / "x.array_record", payloads, group_size=10)])
    for turn in range(3):
        for chunk in range(10):
            index = 10 * chunk + 7 - turn
            got = records.spans(np.array([index, index])).to_bytes() if several else [bytes(records[index])] * 2
            assert got == [payloads[index]] * 2
        held = store_of(records).held_bytes
        assert held < 10_000 if turn == 0 else held > 100_000


@pytest.mark.usefixtures("own_engines")
def test_readers_of_the_same_files_share_which_hashes_were_right(tmp_path):
    payloads = some_payloads(60, most=200)
    path = tmp_path / "x"
    wait_for_tick([Signature.read(write(path, payloads, group_size=20))])
    assert bytes(ArrayRecordRecords([str(path)])[5]) == payloads[5]
    (shared,) = [intact for key, (_, intact) in reader._INTACT.items() if key[0][0] == str(path)]
    assert shared.tolist() == [1, 0, 0]
    again = ArrayRecordRecords([str(path)])
    assert again.spans(np.array([45, 50])).to_bytes() == [payloads[45], payloads[50]]
    assert shared.tolist() == [1, 0, 1]
    without = ArrayRecordRecords([str(path)], verify=False)
    assert bytes(without[25]) == payloads[25]
    assert shared.tolist() == [1, 0, 1]
    assert bytes(ArrayRecordRecords([str(path)] * 2)[65]) == payloads[5]  # another set of files
    assert shared.tolist() == [1, 0, 1]


def test_a_changed_file_is_checked_again_even_under_its_old_time(tmp_path):
    payloads = some_payloads(400, most=400)
    path = tmp_path / "x"
    wait_for_tick([Signature.read(write(path, payloads, compression="none", group_size=200))])
    records = ArrayRecordRecords([str(path)])
    assert bytes(records[30]) == payloads[30]
    times, data = os.stat(path), path.read_bytes()
    middle = records.footer().begins.tolist()[0] + 8000
    path.write_bytes(data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :])
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(CorruptRecord):
        ArrayRecordRecords([str(path)])[30]


def test_a_file_that_may_change_unnoticed_is_not_remembered(tmp_path, monkeypatch):
    path = write(tmp_path / "x", some_payloads(60, most=200), group_size=20)
    monkeypatch.setattr(Signature, "is_settled", lambda _: False)
    ArrayRecordRecords([path])[5]
    assert not any(key[0][0] == path for key in reader._INTACT)


def test_the_oldest_sets_of_files_are_forgotten(tmp_path, monkeypatch):
    monkeypatch.setattr(Signature, "is_settled", lambda _: True)
    for number in range(reader.MOST_SHARED_SETS + 3):
        ArrayRecordRecords([write(tmp_path / str(number), some_payloads(9, most=20), group_size=3)])[5]
    assert len(reader._INTACT) == reader.MOST_SHARED_SETS
    assert not any(key[0][0] == str(tmp_path / "2") for key in reader._INTACT)


def test_the_bound_follows_the_memory(monkeypatch):
    for memory, bound in ((None, 16 << 20), (1 << 20, 16 << 20), (2 << 30, 64 << 20), (1 << 40, 1 << 30)):
        monkeypatch.setattr(reader, "usable_memory", lambda memory=memory: memory)
        assert reader._most_kept_bytes() == bound


def test_reading_in_order_keeps_no_finished_chunk(files):
    for (codec, _), (path, payloads) in files.items():
        records = ArrayRecordRecords([path])
        for start in range(0, len(payloads), 40):
            batch = np.arange(start, min(start + 40, len(payloads)))
            assert records.spans(batch).to_bytes() == payloads[start : start + 40]
            assert len(store_of(records)) <= 1, codec
        assert len(store_of(records)) == 0, codec


def test_pickling_forgets_chunks(files):
    path, payloads = files["zstd", 16]
    records = ArrayRecordRecords([path])
    assert bytes(records[20]) == payloads[20]
    other = pickle.loads(pickle.dumps(records))
    assert len(store_of(other)) == 0
    assert bytes(other[20]) == payloads[20]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_starts_without_chunks(files):
    path, payloads = files["zstd", "large"]
    records = ArrayRecordRecords([path])
    order = np.arange(0, 50, 7)
    records.spans(order)
    assert len(store_of(records)) > 0

    def child(answers):
        answers.put((len(store_of(records)), records.spans(order).to_bytes() == [payloads[i] for i in order]))

    fork = multiprocessing.get_context("fork")
    answers = fork.Queue()
    process = fork.Process(target=child, args=(answers,))
    process.start()
    assert answers.get(timeout=60) == (0, True)
    process.join()


@pytest.mark.parametrize("codec", CODECS)
def test_threads_share_chunks(files, monkeypatch, codec):
    path, payloads = files[codec, "large"]
    monkeypatch.setattr(reader, "MOST_KEPT_BYTES", 2 << 20)  # about two chunks: they come and go
    records = ArrayRecordRecords([path])
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(30):
            batch = rng.integers(0, len(payloads), 5)
            one = int(batch[0])
            if records.spans(batch).to_bytes() != [payloads[i] for i in batch] or bytes(records[one]) != payloads[one]:
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_file_that_shrinks_is_refused_even_if_its_chunks_are_kept(tmp_path, codec):
    payloads = large_payloads(50)
    path = write(tmp_path / "x", payloads, compression=codec, group_size=16)
    records = ArrayRecordRecords([path])
    records.spans(np.arange(0, 50, 3))
    os.truncate(path, 70_000)
    with pytest.raises(CorruptFile, match="shrank|became shorter|truncated|fewer|was cut"):
        records[3]
    with pytest.raises(CorruptFile):
        records.spans(np.arange(0, 50, 3)).to_bytes()
    with pytest.raises(CorruptFile):
        records.spans(np.arange(0, 40)).to_bytes()


@pytest.mark.parametrize("codec", ["none", "zstd", "snappy"])
def test_damage_is_reported_wherever_it_is(tmp_path, codec):
    """As in chunks of one record: the first record of the chunk, and its offset. Other chunks can be read."""
    payloads = some_payloads(60, most=200)
    sound = Path(write(tmp_path / "sound", payloads, compression=codec, group_size=20)).read_bytes()
    with_footer = ArrayRecordRecords([str(tmp_path / "sound")])
    begins = with_footer.footer().begins.tolist()
    path = tmp_path / "damaged"
    for at in range(begins[1], begins[2], 13):
        path.write_bytes(sound[:at] + bytes([sound[at] ^ 0x40]) + sound[at + 1 :])
        records = ArrayRecordRecords([str(path)])
        order = np.array([59, 3, 45, 3])
        assert records.spans(order).to_bytes() == [payloads[i] for i in order]
        for ask in (lambda records=records: records[39], lambda records=records: records.spans(np.array([1, 30, 50]))):
            with pytest.raises(CorruptRecord) as caught:
                ask()
            assert caught.value.where.record == 20
            assert caught.value.where.offset == begins[1]
        assert bytes(records[0]) == payloads[0]


def test_without_verification_damage_never_crashes(tmp_path):
    payloads = large_payloads(16)
    sound = Path(write(tmp_path / "sound", payloads, group_size=16)).read_bytes()
    path = tmp_path / "damaged"
    rng = np.random.default_rng(0)
    for _ in range(60):
        data = bytearray(sound)
        for at in rng.integers(104, 200_000, 3).tolist():
            data[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(data)
        records = ArrayRecordRecords([str(path)], verify=False)
        for batch in ([2], [9, 15, 0], list(range(16))):
            try:
                spans = records.spans(np.array(batch))
                assert [len(part) for part in spans.to_bytes()] == [len(payloads[i]) for i in batch]
            except CorruptRecord:
                pass


def test_records_without_a_footer(files):
    path, payloads = files["zstd", 16]
    records = RiegeliRecords([path])
    extra = len(records) - len(payloads)  # what follows the records is a chunk, too
    assert extra >= 0
    assert bytes(records[77]) == payloads[77]
    assert records.spans(np.array([200, 3, 200])).to_bytes() == [payloads[i] for i in (200, 3, 200)]


def test_users_get_copies_where_views_are_refused(files, monkeypatch):
    monkeypatch.setattr(mapped, "scattered_limit", lambda: 0)
    path, payloads = files["none", 16]
    records = ArrayRecordRecords([path])
    assert records[5].readonly
    assert bytes(records[5]) == payloads[5]


def test_wrong_numbers_are_refused(files):
    path, payloads = files["zstd", 16]
    records = ArrayRecordRecords([path])
    store = store_of(records)
    assert store.chunks_of(np.array([0, 15, 16, 229])).tolist() == [0, 0, 1, 14]
    for index in (-1, len(payloads)):
        with pytest.raises(IndexError):
            store.chunk_of(index)
        with pytest.raises(IndexError):
            store.chunks_of(np.array([0, index]))
    data = Path(path).read_bytes()
    with pytest.raises(IndexError):
        store.take(data, 1, 15, 1 << 62)
    with pytest.raises(IndexError):
        store.take(data, 99, 15, 1 << 62)
    assert store.take(data[:500], 3, 50, 1 << 62) is None
