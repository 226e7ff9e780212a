from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.errors import CorruptRecord
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
