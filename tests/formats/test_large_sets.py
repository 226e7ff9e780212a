"""Sets too large to be mapped are read, with the same records."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as hr
from headrace import _native
from headrace.formats.parquet import groups
from headrace.io.local import mapped as mapping_limits
from headrace.io.local.mapped import MappedFile

N = 300


@pytest.fixture
def read_everything(monkeypatch):
    monkeypatch.setattr(mapping_limits, "scattered_limit", lambda: 0)


@pytest.mark.parametrize("name", ["x.tfrecord", "x.tfrecord@4", "x.tfrecord.gz", "x.npy"])
@pytest.mark.parametrize("order", ["in order", "backwards", "shuffled", "one", "twice the same", "none"])
def test_read_is_as_mapped(tmp_path, name, order, read_everything, monkeypatch):
    rng = np.random.default_rng(3)
    hr.write(tmp_path / name, {"x": rng.random((N, 17), dtype=np.float32), "y": rng.integers(0, 9, N)})
    indices = {
        "in order": np.arange(N),
        "backwards": np.arange(N)[::-1],
        "shuffled": rng.permutation(N),
        "one": np.array([N - 1]),
        "twice the same": np.array([5, 5, 0, 5]),
        "none": np.zeros(0, np.int64),
    }[order]
    read = hr.open(tmp_path / name).batch(indices)
    monkeypatch.undo()
    mapped = hr.open(tmp_path / name).batch(indices)
    assert read.keys() == mapped.keys()
    for feature in mapped:
        assert np.array_equal(read[feature], mapped[feature])


def test_every_record_is_read_once(tmp_path, read_everything, monkeypatch):
    hr.write(tmp_path / "x.tfrecord@4", {"y": np.arange(N)})
    source = hr.open(tmp_path / "x.tfrecord@4")
    len(source)
    ranges, read = [], _native.read_ranges
    monkeypatch.setattr(_native, "read_ranges", lambda *given: (ranges.append(len(given[2])), read(*given))[1])
    assert source.batch(np.array([7, 250, 3]))["y"].tolist() == [7, 250, 3]
    assert ranges == [3]


def test_pages_already_read_in_order_are_released(tmp_path, monkeypatch):
    values = np.random.default_rng(3).random((N, 17), dtype=np.float32)
    hr.write(tmp_path / "x.tfrecord@2", {"x": values})
    monkeypatch.setattr(mapping_limits, "IN_ORDER_MAPPED_BYTES", 1000)
    monkeypatch.setattr(mapping_limits, "PASSED_BYTES", 5000)
    dropped, drop = [], MappedFile.drop
    monkeypatch.setattr(MappedFile, "drop", lambda file, *range: (dropped.append(file.path), drop(file, *range)))
    source = hr.open(tmp_path / "x.tfrecord@2")
    len(source)
    dropped.clear()  # what opening and indexing the files has touched
    for start in range(0, N, 20):
        assert np.array_equal(source.batch(np.arange(start, start + 20))["x"], values[start : start + 20])
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    # Only one of the files is passed at a time, but where the second one begins.
    assert size // 5000 - 1 <= len(dropped) <= size // 5000 + 2
    assert dropped == sorted(dropped)
    assert len(set(dropped)) == 2


@pytest.mark.parametrize("threads", [0, 2])
def test_pages_of_parquet_already_decoded_are_released(tmp_path, monkeypatch, threads):
    values = np.random.default_rng(3).random((3000, 8))
    table = pa.table({f"x{k}": values[:, k] for k in range(8)})
    for number in range(2):
        pq.write_table(table.slice(1500 * number, 1500), tmp_path / f"{number}.parquet", row_group_size=100)
    monkeypatch.setattr(groups, "JOINED_ROWS", 0)
    monkeypatch.setattr(mapping_limits, "IN_ORDER_MAPPED_BYTES", 1000)
    monkeypatch.setattr(mapping_limits, "PASSED_BYTES", 50_000)
    dropped, drop = [], MappedFile.drop
    monkeypatch.setattr(MappedFile, "drop", lambda file, *range: (dropped.append(file.path), drop(file, *range)))
    loader = hr.Loader(hr.open(tmp_path / "*.parquet"), 70, threads=threads)
    assert np.array_equal(np.concatenate([batch["x5"] for batch in loader]), values[:, 5])
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert 2 <= len(dropped) // 2 <= size // 50_000 + 1


def test_skipped_records_in_between_are_accepted(tmp_path, read_everything):
    hr.write(tmp_path / "x.tfrecord", {"x": np.arange(100)})
    data = bytearray((tmp_path / "x.tfrecord").read_bytes())
    size = len(data) // 100
    for record in (0, 40, 41, 99):
        data[record * size + 14] ^= 1
    (tmp_path / "x.tfrecord").write_bytes(data)
    source = hr.open(tmp_path / "x.tfrecord", on_corrupt="skip")
    assert source.batch(range(96))["x"].tolist() == [i for i in range(100) if i not in (0, 40, 41, 99)]


def test_damage_is_named_nevertheless(tmp_path, read_everything):
    hr.write(tmp_path / "x.tfrecord@2", {"x": np.arange(100)})
    path = tmp_path / "x.tfrecord-00001-of-00002"
    data = bytearray(path.read_bytes())
    data[7 * (len(data) // 50) + 14] ^= 1
    path.write_bytes(data)
    with pytest.raises(hr.CorruptRecord, match=r"x.tfrecord-00001-of-00002, record 7, byte"):
        hr.open(tmp_path / "x.tfrecord@2").batch(range(100))


def test_a_file_that_shrank_is_an_error(tmp_path, read_everything):
    hr.write(tmp_path / "x.tfrecord", {"x": np.arange(100)})
    source = hr.open(tmp_path / "x.tfrecord")
    source.batch([0])
    with (tmp_path / "x.tfrecord").open("r+b") as file:
        file.truncate(1000)
    with pytest.raises((hr.CorruptRecord, hr.CorruptFile), match=r"x\.tfrecord"):
        source.batch(range(100))
