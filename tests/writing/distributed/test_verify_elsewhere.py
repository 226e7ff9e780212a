"""Verification by other processes: the report is that of this machine, for every format and kind of damage."""

import numpy as np
import pytest
from tests.writing.test_engines import Pickling
from typer.testing import CliRunner

import headrace as hr
from headrace.cli.app import app

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


FOLDERS = ["npz_folder", "npy_folder", "image_folder", "files", "prepared"]


def make_folder(folder, kind):
    """A folder of 40 examples; returns the path to check."""
    labels = np.arange(40) % 3
    if kind == "image_folder":
        pytest.importorskip("PIL")
        pixels = np.random.default_rng(0).integers(0, 255, (40, 8, 8, 3)).astype(np.uint8)
        schema = {"image": hr.Feature("uint8", (8, 8, 3), encoding="png"), "label": hr.Feature("int64")}
        hr.write(folder, {"image": pixels, "label": labels}, format=kind, schema=schema)
    elif kind == "files":
        folder.mkdir()
        hr.write(folder / "a.tfrecord@3", {"label": labels})
    elif kind == "prepared":
        table = folder.with_suffix(".csv")
        table.write_text("x,species\n" + "".join(f"{label / 2},s{label}\n" for label in labels))
        command = ["prepare", "flowers", "--from", str(table), "--label", "species", "--data-dir", str(folder)]
        assert CliRunner().invoke(app, command).exit_code == 0
        return next(folder.rglob("dataset_info.json")).parent
    else:
        columns = {"x": np.arange(80.0).reshape(40, 2), "label": labels}
        hr.write(folder, columns if kind == "npz_folder" else {"x": columns["x"]}, format=kind)
    return folder


@pytest.mark.parametrize("kind", FOLDERS)
@pytest.mark.parametrize("damage", [None, "middle", "sampled"])
@pytest.mark.parametrize("images", [False, True])
def test_folders(tmp_path, kind, damage, images):
    """A file may be damaged that tells the types of the others."""
    path = make_folder(tmp_path / "data", kind)
    files = [file for file in sorted(path.rglob("*")) if file.is_file() and file.suffix not in (".json", ".txt")]
    if damage is not None:
        damaged = files[(len(files) + 1) // 2 % len(files) if damage == "middle" else 0]
        damaged.write_bytes(damaged.read_bytes()[:-5])
    here, there = (report(path, images=images, **options) for options in ({}, {"on": Pickling()}))
    assert there == here
    assert bool(here["faults"]) == (damage is not None and (images or kind != "image_folder"))
    assert here["files"] >= (1 if kind == "prepared" else 3)
    if damage is None:
        assert hr.stats(path, on=Pickling()).to_json() == hr.stats(path).to_json()


def test_many_small_files_are_checked_by_few_tasks(tmp_path):
    engine = Pickling()
    assert hr.verify(make_folder(tmp_path / "data", "npz_folder"), on=engine).records == 40
    assert engine.done < 40


def test_faults_of_records_come_before_those_of_images(tmp_path):
    """As on one machine, and although both are found in every file."""
    pytest.importorskip("PIL")
    pixels = np.random.default_rng(0).integers(0, 255, (40, 8, 8, 3)).astype(np.uint8)
    schema = {"image": hr.Feature("uint8", (8, 8, 3), encoding="png")}
    hr.write(tmp_path / "whole.tfrecord", {"image": pixels}, schema=schema)
    payloads = [bytes(each) for each in hr.records(tmp_path / "whole.tfrecord")]
    for number in (3, 17, 35):
        at = payloads[number].index(b"IDAT") + 20
        payloads[number] = payloads[number][:at] + b"damage" + payloads[number][at + 6 :]
    hr.write_records(tmp_path / "a.tfrecord@4", payloads)
    for damaged in sorted(tmp_path.glob("a.tfrecord-*"))[1:3]:
        data = bytearray(damaged.read_bytes())
        data[-30] ^= 1
        damaged.write_bytes(data)
    here = hr.verify(tmp_path / "a.tfrecord@4", images=True)
    there = hr.verify(tmp_path / "a.tfrecord@4", images=True, on=Pickling())
    assert there.to_json() == here.to_json()
    assert [fault.where.feature for fault in here.faults] == [None, None, "image", "image", "image"]


@pytest.mark.ray
@pytest.mark.parametrize("kind", FOLDERS)
def test_folders_on_ray(local_ray, tmp_path, kind):
    path = make_folder(tmp_path / "data", kind)
    assert hr.verify(path, images=True, on="ray").to_json() == hr.verify(path, images=True).to_json()
    assert hr.stats(path, on="ray").to_json() == hr.stats(path).to_json()


@pytest.mark.ray
def test_on_ray(local_ray, tmp_path):
    hr.write(tmp_path / "a.tfrecord@3", {"x": np.arange(600, dtype=np.int64)})
    damaged = sorted(tmp_path.iterdir())[1]
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 129
    damaged.write_bytes(data)
    assert hr.verify(tmp_path / "a.tfrecord@3", on="ray").to_json() == hr.verify(tmp_path / "a.tfrecord@3").to_json()


@pytest.mark.parametrize("name", ["a.tar@2", "a.tar.gz@2", "a.jsonl@3"])
def test_all_files_of_a_set_have_the_types_of_the_first_rows(tmp_path, name):
    """Each file by itself shows others: lists that happen to be empty, or of one length."""
    lengths = np.r_[np.arange(300) % 3, np.zeros(300, int), np.ones(300, int)]
    lists = hr.Ragged(np.arange(lengths.sum()), np.r_[0, np.cumsum(lengths)])
    hr.write(tmp_path / name, {"list": lists, "label": np.arange(900)})
    here, there = hr.verify(tmp_path / name), hr.verify(tmp_path / name, on=Pickling())
    assert (here.ok, here.records) == (True, 900)
    assert there.to_json() == here.to_json()


@pytest.mark.parametrize("name", ["a.tar@2", "a.jsonl@2"])
def test_the_types_of_a_set_whose_first_file_is_damaged_or_empty(tmp_path, name):
    hr.write(tmp_path / name, {"label": np.arange(20)})
    first = min(tmp_path.iterdir())
    sound = first.read_bytes()
    for damaged, faults in ((b'{"label": 1' if "json" in name else sound[:1000], 1), (b"", None)):
        first.write_bytes(damaged)
        here, there = hr.verify(tmp_path / name), hr.verify(tmp_path / name, on=Pickling())
        assert there.to_json() == here.to_json()
        assert here.records >= 10
        if faults is not None:
            assert [fault.where.path for fault in here.faults] == [str(first)] * faults


def test_a_given_schema_counts_for_archives(tmp_path):
    hr.write(tmp_path / "a.tar", {"label": np.arange(20)})
    wrong = {"label": hr.Feature("float32", (3,))}
    assert not hr.verify(tmp_path / "a.tar", schema=wrong).ok
    assert (
        hr.verify(tmp_path / "a.tar", schema=wrong, on=Pickling()).to_json()
        == hr.verify(tmp_path / "a.tar", schema=wrong).to_json()
    )
