import warnings
from pathlib import Path

import numpy as np
import pytest
from tests.reference.tf_example_wire import example

import headrace as hr
from headrace.errors import UnsupportedData
from headrace.writing import verify as module

GOLDEN = Path(__file__).parent.parent / "golden"


@pytest.mark.parametrize(
    "path",
    [
        p
        for p in sorted((GOLDEN / "tfrecord").glob("*.tfrecord"))
        if not any(w in p.name for w in ("bad", "trunc", "huge"))
    ],
    ids=lambda p: p.name,
)
def test_sound_files(path):
    report = hr.verify(path)
    assert report.ok, str(report)
    assert report.records == len(hr.open(path))
    assert report.bytes == path.stat().st_size


@pytest.mark.parametrize(
    "name",
    ["bad_payload_crc", "bad_length_crc", "truncated_payload", "truncated_header", "huge_length", "truncated.gzip"],
)
def test_every_golden_damage_is_listed(name):
    report = hr.verify(GOLDEN / "tfrecord" / f"{name}.tfrecord")
    assert not report.ok
    assert len(report.faults) == 1
    assert report.faults[0].where.path.endswith(f"{name}.tfrecord")
    assert "1 fault" in str(report)
    assert report.to_json()["faults"][0]["record"] == report.faults[0].where.record


def test_all_faults_of_all_files(tmp_path):
    hr.write(tmp_path / "x.tfrecord@2", {"x": np.arange(40)})
    for path, places in zip(sorted(tmp_path.iterdir()), ([3, 9], [5]), strict=True):
        data = bytearray(path.read_bytes())
        size = len(data) // 20
        for record in places:
            data[record * size + 14] ^= 1
        path.write_bytes(data)
    report = hr.verify(tmp_path / "x.tfrecord@2")
    assert [(Path(f.where.path).name[11:16], f.where.record) for f in report.faults] == [
        ("00000", 3),
        ("00000", 9),
        ("00001", 5),
    ]
    assert report.records == 37


def test_payloads_are_checked_too(tmp_path):
    good = bytes(hr.records(GOLDEN / "tfrecord" / "dense.tfrecord")[0])
    hr.write_records(tmp_path / "x.tfrecord", [good, good, b"\x0a\x7f", good])
    report = hr.verify(tmp_path / "x.tfrecord")
    assert [(type(f), f.where.record) for f in report.faults] == [(hr.CorruptRecord, 2)]
    report = hr.verify(tmp_path / "x.tfrecord", schema={"image": hr.Feature("float32", (63,))})
    assert len(report.faults) == 4
    assert hr.verify(tmp_path / "x.tfrecord", codec="raw").ok


def test_a_schema_that_the_columns_do_not_have_is_a_fault(tmp_path):
    """It was taken for damage that the framing shows, and nothing was checked against it."""
    path = tmp_path / "x.csv"
    hr.write(path, {"v": np.arange(8).reshape(2, 4), "y": np.arange(2)})
    assert hr.verify(path, schema={"v": hr.Feature("int64", (4,))}).ok
    for feature, error in [
        ({"v": hr.Feature("int64", (3,))}, hr.SchemaMismatch),
        ({"v": hr.Feature("int64", (5,))}, hr.NoSuchFeature),
        ({"z": hr.Feature("int64")}, hr.NoSuchFeature),
    ]:
        report = hr.verify(path, schema=feature)
        assert [type(fault) for fault in report.faults] == [error]
    with open(path, "a") as file:
        file.write("1,2\n")
    (fault,) = hr.verify(path, schema={"z": hr.Feature("int64")}).faults
    assert isinstance(fault, hr.CorruptRecord)


def test_steps_of_several_values_are_sound(tmp_path):
    payload = example({"a": (3, [1])}, {"x": [(3, [1, 2]), (3, [3, 4])], "y": [(2, [0.5]), (2, [])]})
    hr.write_records(tmp_path / "x.tfrecord", [payload, payload])
    assert hr.verify(tmp_path / "x.tfrecord").faults == []


def test_npy():
    for path in sorted((GOLDEN / "npy").glob("*.npy")):
        if "damaged_magic" in path.name:
            continue
        assert hr.verify(path, format="npy").ok == ("damaged" not in path.name and path.name != "object.npy"), path.name


def test_more_faults_than_a_report_holds(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MOST_FAULTS", 3)
    hr.write_records(tmp_path / "x.tfrecord", [b"\x0a\x01\x02"] * 5)
    report = hr.verify(tmp_path / "x.tfrecord", schema={"n": hr.Feature("int64")})
    assert (len(report.faults), report.more_faults, report.records) == (3, 2, 0)
    assert not report.ok
    first, *_, last = str(report).splitlines()
    assert first.endswith(": 5 faults")
    assert last == "  ... and 2 more"
    assert report.to_json()["more_faults"] == 2


@pytest.mark.parametrize("name", ["x.jsonl.gz", "x.npz"])
def test_no_space_in_the_cache_is_no_damage(tmp_path, monkeypatch, name):
    columns = {"a": np.arange(300_000)}
    np.savez_compressed(tmp_path / "x.npz", **columns) if name == "x.npz" else hr.write(tmp_path / name, columns)
    monkeypatch.setenv("HEADRACE_CACHE_LIMIT", "1000")
    with warnings.catch_warnings(), pytest.raises(UnsupportedData, match="space for .* in the cache") as found:
        warnings.simplefilter("ignore")
        hr.verify(tmp_path / name)
    assert "HEADRACE_CACHE_LIMIT" in str(found.value)
