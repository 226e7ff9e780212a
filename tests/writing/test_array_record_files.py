"""ArrayRecord through write, write_records, convert, verify."""

import numpy as np
import pytest
from tests.formats.array_record.files import CODECS, GOLDENS, noted

import headrace as hr
from headrace.formats.array_record.format import ArrayRecordRecords
from headrace.writing import units

COLUMNS = {"image": np.random.default_rng(0).random((100, 9), dtype=np.float32), "label": np.arange(100)}


def same(path):
    batch = hr.open(path).batch(range(100))
    return np.array_equal(batch["image"], COLUMNS["image"]) and np.array_equal(batch["label"], COLUMNS["label"])


@pytest.mark.parametrize("compression", [*CODECS, None])
def test_write_and_read(tmp_path, compression):
    path = tmp_path / "x.array_record"
    assert hr.write(path, COLUMNS, compression=compression) == 100
    assert same(path)
    named = {"none": "uncompressed", None: "zstd"}.get(compression, compression)
    assert named in ArrayRecordRecords([str(path)]).footer().options
    report = hr.verify(path)
    assert (report.ok, report.records, report.bytes) == (True, 100, path.stat().st_size)


def test_shards(tmp_path):
    hr.write(tmp_path / "x.array_record@4", COLUMNS)
    assert len(list(tmp_path.iterdir())) == 4
    assert same(tmp_path / "x.array_record@4")


@pytest.mark.parametrize("compression", CODECS)
def test_write_records(tmp_path, compression):
    path = tmp_path / "x.array_record"
    assert hr.write_records(path, (bytes([i]) * i for i in range(50)), compression=compression) == 50
    assert [bytes(view) for view in hr.records(path)] == [bytes([i]) * i for i in range(50)]


@pytest.mark.parametrize("unit", [7, 1000])
@pytest.mark.parametrize("compression", CODECS)
def test_convert_there_and_back(tmp_path, monkeypatch, unit, compression):
    monkeypatch.setattr(units, "UNIT_EXAMPLES", unit)
    hr.write(tmp_path / "x.tfrecord", COLUMNS)
    done = hr.convert(tmp_path / "x.tfrecord", tmp_path / "x.array_record@2", compression=compression)
    assert done.examples == 100
    assert same(tmp_path / "x.array_record@2")
    assert hr.verify(tmp_path / "x.array_record@2").ok
    hr.convert(tmp_path / "x.array_record@2", tmp_path / "y.tfrecord")
    assert (tmp_path / "y.tfrecord").read_bytes() == (tmp_path / "x.tfrecord").read_bytes()


def test_convert_with_another_schema_encodes_again(tmp_path, monkeypatch):
    monkeypatch.setattr(units, "UNIT_EXAMPLES", 30)
    hr.write(tmp_path / "x.tfrecord", COLUMNS)
    hr.convert(tmp_path / "x.tfrecord", tmp_path / "x.array_record", columns=["label"])
    source = hr.open(tmp_path / "x.array_record")
    assert list(source.schema) == ["label"]
    assert source.batch(range(100))["label"].tolist() == list(range(100))


@pytest.mark.parametrize(
    ("name", "compression", "message"),
    [
        (
            "x.array_record",
            "gzip",
            "a compression that array_record has: 'zstd', 'none', 'brotli', 'snappy', found 'gzip'",
        ),
        (
            "x.array_record.gz",
            None,
            "a compression that array_record has: 'zstd', 'none', 'brotli', 'snappy', found 'gzip'",
        ),
        ("x.tfrecord", "zstd", "a compression that tfrecord has: 'none', 'gzip', 'zlib', found 'zstd'"),
        ("x.npy", "zstd", "a compression that npy has: 'none', found 'zstd'"),
    ],
)
def test_compressions_that_a_format_does_not_have(tmp_path, name, compression, message):
    with pytest.raises(hr.UnsupportedData, match=message):
        hr.write(tmp_path / name, {"x": np.arange(3)}, compression=compression)
    assert list(tmp_path.iterdir()) == []


def test_verify_reports_damage(tmp_path):
    golden = next(path for path in GOLDENS if path.stem == "group7_brotli")
    data = bytearray(golden.read_bytes())
    data[64 + 50] ^= 1
    (tmp_path / "x.array_record").write_bytes(data)
    report = hr.verify(tmp_path / "x.array_record")
    assert not report.ok
    assert report.records == len(noted(golden)) - 7
    (fault,) = report.faults
    assert fault.where.offset == 64
