from __future__ import annotations

import pickle
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.errors import CorruptFile, CorruptRecord
from headrace.formats.framed.records import FramedRecords, bounds
from headrace.formats.index import index
from headrace.formats.recordio.format import RecordIORecords
from headrace.formats.tfrecord.format import TFRecordRecords
from headrace.io.local import mapped

NUMBERS = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1)


@given(NUMBERS, st.sampled_from([1, -1, 2, -3]))
def test_the_least_and_the_largest(numbers: list[int], step: int) -> None:
    array = np.array(numbers, np.int64)[::step]
    array.flags.writeable = False
    assert bounds(array) == (array.min(), array.max())


def test_bounds_of_nothing() -> None:
    with pytest.raises(ValueError, match="no bounds"):
        bounds(np.zeros(0, np.int64))


def write_shards(folder, payloads, suffix="tfrecord"):
    """A file for each list of payloads, as their paths."""
    paths = [str(folder / f"{number:03d}.{suffix}") for number in range(len(payloads))]
    for path, some in zip(paths, payloads, strict=True):
        hr.write_records(path, some)
    return paths


def payloads_of(records: FramedRecords, indices) -> list[bytes]:
    return records.spans(np.array(indices, np.int64)).to_bytes()


def is_joined(records: FramedRecords) -> bool:
    """Whether all files are read as one buffer."""
    payloads_of(records, [0])
    payloads_of(records, [0])
    return records._joined is not None


SHARDS = [[bytes([number]) * (number * 700 + i) for i in range(1, 5)] for number in range(1, 9)]


@settings(deadline=None)
@given(
    sizes=st.lists(st.lists(st.integers(0, 9000), max_size=5), min_size=2, max_size=6).filter(any),
    data=st.data(),
)
def test_files_read_as_one_buffer_hold_the_same_records(tmp_path_factory, sizes, data):
    payloads = [[bytes([k + 1]) * size for size in some] for k, some in enumerate(sizes)]
    paths = write_shards(tmp_path_factory.mktemp("shards"), payloads)
    every = [payload for some in payloads for payload in some]
    records = TFRecordRecords(paths)
    assert is_joined(records)
    indices = data.draw(st.lists(st.integers(0, len(every) - 1), max_size=30))
    assert payloads_of(records, indices) == [every[i] for i in indices]
    assert [bytes(record) for record in records] == every
    again = pickle.loads(pickle.dumps(records))
    for _ in range(2):
        assert payloads_of(again, range(len(every))) == every


def test_files_are_read_as_one_buffer_where_checksums_prove_their_records(tmp_path, monkeypatch):
    paths = write_shards(tmp_path, SHARDS)
    assert is_joined(TFRecordRecords(paths))
    assert not is_joined(TFRecordRecords(paths[:1]))
    assert not is_joined(TFRecordRecords(paths, verify=False))
    assert not is_joined(TFRecordRecords(paths, on_corrupt="skip"))
    assert not is_joined(RecordIORecords(write_shards(tmp_path, SHARDS, "rec")))
    monkeypatch.setattr(index, "MOST_JOINED", 31)  # of 32
    assert not is_joined(TFRecordRecords(paths))


def test_large_files_are_not_read_as_one_buffer(tmp_path):
    """They are mapped where huge pages fit."""
    records = TFRecordRecords(write_shards(tmp_path, [[b"a" * 10], [b"b" * (3 << 20)], [b"c" * 10]]))
    assert not is_joined(records)
    assert [len(payload) for payload in payloads_of(records, [2, 1, 0])] == [10, 3 << 20, 10]


def test_a_large_set_in_order_releases_its_pages(tmp_path, monkeypatch):
    """Its files are then passed one by one; at random places they are one buffer."""
    records = TFRecordRecords(write_shards(tmp_path, SHARDS))
    assert is_joined(records)
    monkeypatch.setattr(mapped, "IN_ORDER_MAPPED_BYTES", 1)
    every = [payload for some in SHARDS for payload in some]
    passed = []
    monkeypatch.setattr(records._files, "passed", lambda size, **places: passed.append(places))
    assert payloads_of(records, range(6, 20)) == every[6:20]
    assert [(places["first"], places["last"]) for places in passed] == [(1, 4)]
    assert payloads_of(records, [30, 2]) == [every[30], every[2]]
    assert len(passed) == 1


@pytest.mark.parametrize("part", [0, 3, 9, 12, 500, -1])
def test_errors_in_files_read_as_one_buffer_name_the_file(tmp_path, part):
    """The same error as that of the file alone: in the length, its checksum, the payload and its checksum."""
    paths = write_shards(tmp_path, SHARDS)
    records, alone = TFRecordRecords(paths), TFRecordRecords(paths[4:5])
    assert is_joined(records)
    assert len(alone) == 4
    where = alone.where(2).offset
    with open(paths[4], "r+b") as file:
        file.seek(where + part if part >= 0 else where + 12 + 3503 + 3)
        byte = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte[0] ^ 0x40]))
    assert payloads_of(records, [17, 19]) == [SHARDS[4][1], SHARDS[4][3]]
    with pytest.raises(CorruptRecord) as expected:
        alone[2]
    with pytest.raises(CorruptRecord) as found:
        records[18]
    assert str(found.value) == str(expected.value)


REPLACED = ["tfrecord", "tfrecord.gz", "recordio", "csv", "csv.gz", "avro", "jsonl", "array_record", "npz"]


def put(path, first):
    """A file that replaces another one of its name, as all writers of Headrace do it."""
    hr.write(path, {"a": np.arange(first, first + 3000)})


def rows_or_refusal(read):
    """Which versions the rows are of; nothing if the other version was refused."""
    try:
        return {value >= 10**6 for value in np.concatenate(read()).tolist()}
    except CorruptFile as error:
        assert "open it again" in str(error)
        return set()


@pytest.mark.parametrize("suffix", ["tfrecord", "tfrecord.gz", "recordio", "csv", "csv.gz"])
@pytest.mark.parametrize("read", ["records", "examples", "loader"])
def test_a_set_that_is_replaced_never_gives_rows_of_both(tmp_path, suffix, read):
    path = tmp_path / f"x.{suffix}@12"
    put(path, 0)
    if read == "records":
        rows = iter(hr.records(path))
        next(rows)
        put(path, 10**6)
        new = set(map(bytes, hr.records(path)))
        with pytest.raises(CorruptFile, match="open it again"):
            assert not [row for row in rows if bytes(row) in new]
        return
    source = hr.open(path)
    rows = iter(source) if read == "examples" else iter(hr.Loader(source, 10, threads=0))
    next(rows)
    put(path, 10**6)
    assert rows_or_refusal(lambda: [np.atleast_1d(row["a"]) for row in rows]) <= {False}


@pytest.mark.parametrize("suffix", REPLACED)
def test_a_file_that_is_replaced_after_it_was_opened(tmp_path, suffix):
    """Also for a process that gets the source before its records are counted."""
    path = tmp_path / f"x.{suffix}"
    put(path, 0)
    source = hr.open(path)
    pickled = pickle.dumps(source)
    put(path, 10**6)
    assert rows_or_refusal(lambda: [source.batch([0, 2999])["a"]]) <= {False}
    assert rows_or_refusal(lambda: [row["a"][None] for row in source]) <= {False}
    assert rows_or_refusal(lambda: [pickle.loads(pickled).batch([0])["a"]]) == set()
    assert hr.open(path)[0]["a"] == 10**6


def test_a_file_that_appears_after_the_set_was_opened(tmp_path):
    first, second = write_shards(tmp_path, [[b"a"], [b"b"]])
    records = TFRecordRecords([first, str(tmp_path / "later.tfrecord")])
    shutil.copy(second, tmp_path / "later.tfrecord")
    assert [bytes(record) for record in records] == [b"a", b"b"]


def test_several_records_are_read_one_by_one(tmp_path):
    for suffix in ("tfrecord", "array_record"):
        hr.write_records(tmp_path / f"x.{suffix}", [b"a", b"b"])
        records = hr.records(tmp_path / f"x.{suffix}")
        with pytest.raises(TypeError, match=r"found slice. For several records: \[records\[i\] for i"):
            records[0:1]
