"""Verification by other processes: the report is that of this machine, for every format and kind of damage."""

import numpy as np
import pytest
from tests.writing.test_engines import Pickling

import headrace as hr

NAMES = [
    "a.tfrecord@3",
    "a.tfrecord.gz",
    "a.array_record@3",
    "a.recordio@3",
    "a.parquet@3",
    "a.npy",
    "a.npz",
    "a.csv@3",
    "a.jsonl@3",
    "a.avro@2",
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("where", [None, 0.1, 0.5, 0.97, "cut"])
def test_the_report_is_the_same(tmp_path, name, where):
    columns = {"x": np.arange(600, dtype=np.int64), "y": np.ones((600, 3), np.float32)}
    hr.write(tmp_path / name, columns if name != "a.npy" else {"x": columns["x"]})
    damaged = max(tmp_path.iterdir())
    data = bytearray(damaged.read_bytes())
    if where == "cut":
        del data[-5:]
    elif where is not None:
        data[int(len(data) * where)] ^= 129
    damaged.write_bytes(data)
    here = report(tmp_path / name)
    there = report(tmp_path / name, on=Pickling())
    assert there == here
    assert where is not None or not here["faults"]


def report(path, **options):
    try:
        return hr.verify(path, **options).to_json()
    except hr.DataError as error:
        return {"faults": str(error)}


def test_images_are_decoded_there(tmp_path):
    pytest.importorskip("PIL")
    pixels = np.zeros((5, 8, 8, 3), np.uint8)
    schema = {"image": hr.Feature("uint8", (8, 8, 3), encoding="png")}
    hr.write(tmp_path / "a.tfrecord@2", {"image": pixels}, schema=schema)
    here = hr.verify(tmp_path / "a.tfrecord@2", images=True)
    there = hr.verify(tmp_path / "a.tfrecord@2", images=True, on=Pickling())
    assert there.to_json() == here.to_json()
    assert here.images == 5


@pytest.mark.ray
def test_on_ray(local_ray, tmp_path):
    hr.write(tmp_path / "a.tfrecord@3", {"x": np.arange(600, dtype=np.int64)})
    damaged = sorted(tmp_path.iterdir())[1]
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 129
    damaged.write_bytes(data)
    assert hr.verify(tmp_path / "a.tfrecord@3", on="ray").to_json() == hr.verify(tmp_path / "a.tfrecord@3").to_json()
