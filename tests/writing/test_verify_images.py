"""Undecodable images, in every format."""

import json

import numpy as np
import pytest
from tests.codecs.images.files import golden, jpeg, made, noise
from tests.writing.test_engines import Pickling
from typer.testing import CliRunner

import headrace as hr
from headrace.cli.app import app
from headrace.writing.distributed.images import ROWS

CUT = jpeg()[:200]
SCHEMA = {"image": hr.Feature("bytes", encoding="jpeg"), "label": hr.Feature("int64")}


def images(count=100, bad=(3, 40, 99)):
    column = np.empty(count, object)
    column[:] = [CUT if number in bad else jpeg(8 + number % 3, 9, seed=number) for number in range(count)]
    return {"image": column, "label": np.arange(count)}


def places(report):
    return [(fault.where.record, fault.where.feature) for fault in report.faults]


@pytest.mark.parametrize("name", ["x.tfrecord", "x.array_record", "x.recordio", "x.parquet", "x.avro"])
def test_each_is_listed_with_its_place(tmp_path, name):
    hr.write(tmp_path / name, images(), schema=SCHEMA)
    assert hr.verify(tmp_path / name).ok  # whole records, all of them
    report = hr.verify(tmp_path / name, images=True)
    assert places(report) == [(3, "image"), (40, "image"), (99, "image")]
    assert {fault.where.path for fault in report.faults} == {str(tmp_path / name)}
    assert (report.records, report.images) == (97, 100)
    assert report.to_json()["images"] == 100


def test_a_folder_of_images(tmp_path):
    for label in ("cat", "dog"):
        (tmp_path / label).mkdir()
        for number in range(3):
            (tmp_path / label / f"{number}.jpg").write_bytes(jpeg(seed=number))
    (tmp_path / "dog" / "1.jpg").write_bytes(CUT)
    report = hr.verify(tmp_path)
    assert report.ok
    assert (report.files, report.records) == (6, 6)
    assert report.bytes == sum(file.stat().st_size for file in tmp_path.rglob("*.jpg"))
    assert [fault.where.path for fault in hr.verify(tmp_path, images=True).faults] == [str(tmp_path / "dog" / "1.jpg")]
    (tmp_path / "cat" / "0.jpg").write_bytes(b"<html>not found</html>")
    (tmp_path / "cat" / "1.jpg").write_bytes(b"")
    report = hr.verify(tmp_path, images=True)
    assert [fault.where.path for fault in report.faults] == [
        str(tmp_path / name) for name in ("cat/0.jpg", "cat/1.jpg", "dog/1.jpg")
    ]
    assert (report.files, report.records, report.images) == (6, 3, 4)  # each is counted once
    (tmp_path / "cat" / "1.jpg").write_bytes(jpeg())
    assert [fault.where.path for fault in hr.verify(tmp_path).faults] == [str(tmp_path / "cat" / "0.jpg")]


def test_shards_and_several_images_in_a_record(tmp_path):
    column = np.empty((40, 2), object)
    column[:] = [[jpeg(seed=number), jpeg(5, 5)] for number in range(40)]
    column[30] = [b"no image", CUT]
    schema = {"pair": hr.Feature("bytes", (2,), encoding="jpeg"), "other": hr.Feature("bytes", encoding="png")}
    other = np.array([made(noise(4, 4, seed=number)) for number in range(40)], object)
    other[7] = golden("png8_rgb_cut.png")
    hr.write(tmp_path / "x.tfrecord@2", {"pair": column, "other": other}, schema=schema)
    report = hr.verify(tmp_path / "x.tfrecord@2", schema=schema, images=True)
    assert places(report) == [(7, "other"), (10, "pair"), (10, "pair")]
    assert (report.records, report.images) == (38, 120)
    assert report.faults[1].where.path.endswith("00001-of-00002")


def test_sizes_channels_and_depths_may_differ(tmp_path):
    names = ["grey.jpg", "baseline.jpg", "png16_rgb.png", "palette_alpha.png", "rgb.webp", "grey.gif", "cmyk.jpg"]
    column = np.empty(len(names), object)
    column[:] = [golden(name) for name in names]
    hr.write(tmp_path / "x.tfrecord", {"image": column})
    report = hr.verify(tmp_path / "x.tfrecord", images=True)
    assert report.ok, str(report)
    assert report.images == len(names)


def test_beside_damaged_records(tmp_path):
    """Damage is reported once: by the file's checksum, or by the image if its record is valid."""
    path = tmp_path / "x.tfrecord"
    hr.write(path, images(), schema=SCHEMA)
    content = bytearray(path.read_bytes())
    content[hr.records(path).where(50).offset + 100] ^= 1
    path.write_bytes(content)
    report = hr.verify(path, images=True)
    assert places(report) == [(50, None), (3, "image"), (40, "image"), (99, "image")]
    assert (report.records, report.images) == (96, 99)


def test_without_images_there_is_nothing_to_do(tmp_path):
    hr.write(tmp_path / "x.tfrecord", {"n": np.arange(2 * ROWS)})
    report = hr.verify(tmp_path / "x.tfrecord", images=True)
    assert report.ok
    assert report.images == 0
    assert "0 images decoded: no fault" in str(report)
    assert "decoded" not in str(hr.verify(tmp_path / "x.tfrecord"))


@pytest.mark.parametrize("name", ["x.tfrecord", "x.array_record", "x.recordio", "x.parquet", "x.avro"])
def test_values_that_are_no_images_among_many_are_damaged_ones(tmp_path, name):
    column = images(bad=())["image"]
    column[3], column[5] = b"", b"<html>not found</html>"
    hr.write(tmp_path / name, {"image": column, "label": np.arange(len(column))})
    report = hr.verify(tmp_path / name, images=True)
    assert places(report) == [(3, "image"), (5, "image")]
    assert (report.records, report.images) == (98, 100)


def test_files_that_cannot_be_opened_at_all(tmp_path):
    (tmp_path / "x.tfrecord").write_bytes(b"nothing that a TFRecord could begin with")
    report = hr.verify(tmp_path / "x.tfrecord", images=True)
    assert len(report.faults) == 1


def test_on_the_command_line(tmp_path):
    hr.write(tmp_path / "x.tfrecord", images(10, bad=(4,)), schema=SCHEMA)
    assert CliRunner().invoke(app, ["verify", str(tmp_path / "x.tfrecord")]).exit_code == 0
    found = CliRunner().invoke(app, ["verify", "--images", "--json", str(tmp_path / "x.tfrecord")])
    assert found.exit_code == 1
    assert [fault["record"] for fault in json.loads(found.stdout)["faults"]] == [4]
    shown = CliRunner().invoke(app, ["verify", "--images", str(tmp_path / "x.tfrecord")])
    assert "10 images decoded: 1 fault" in shown.stdout


def test_images_in_lists_of_any_length(tmp_path):
    schema = {"pages": hr.Feature("bytes", (None,), encoding="jpeg")}
    pages = [[jpeg(seed=number)] * (number % 3) for number in range(12)]
    pages[7] = [jpeg(), CUT]
    hr.write(tmp_path / "x.parquet", [{"pages": page} for page in pages], schema=schema)
    report = hr.verify(tmp_path / "x.parquet", images=True)
    assert places(report) == [(7, "pages")]
    assert (report.records, report.images) == (11, sum(map(len, pages)))


@pytest.mark.parametrize("name", ["x.parquet", "x.avro", "x.tar"])
def test_a_file_that_was_cut_off_is_reported_once(tmp_path, name):
    path = tmp_path / name
    hr.write(path, images(), schema=SCHEMA)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    report = hr.verify(path, images=True)
    assert list(map(str, report.faults)) == list(map(str, hr.verify(path).faults))
    assert len(report.faults) == 1


@pytest.mark.parametrize("name", ["x.tfrecord", "x.array_record", "x.recordio", "x.parquet", "x.avro"])
def test_a_schema_of_images_is_that_of_the_source(tmp_path, name):
    hr.write(tmp_path / name, images(8, ()), schema=SCHEMA)
    schema = hr.open(tmp_path / name).schema
    assert schema["image"].is_image
    for given in (schema, {**schema, "image": hr.Feature("uint8", (None, None, 3), encoding="jpeg")}):
        for on in ("threads", Pickling()):
            report = hr.verify(tmp_path / name, schema=given, on=on)
            assert (report.ok, report.records) == (True, 8), report
    (tmp_path / "schema.json").write_text(schema.to_json())
    result = CliRunner().invoke(app, ["verify", str(tmp_path / name), "--schema", str(tmp_path / "schema.json")])
    assert result.exit_code == 0, result.output


def test_a_schema_of_image_paths_or_lists_of_images_is_that_of_the_source(tmp_path):
    (tmp_path / "a.jpg").write_bytes(jpeg())
    (tmp_path / "x.csv").write_text("image,label\na.jpg,1\n")
    column = np.empty((2, 2), object)
    column[:] = [[jpeg(seed=seed) for seed in range(row, row + 2)] for row in range(2)]
    hr.write(tmp_path / "x.tfrecord", {"image": column}, schema={"image": hr.Feature("bytes", (None,))})
    for name, count in (("x.csv", 1), ("x.tfrecord", 4)):
        report = hr.verify(tmp_path / name, schema=hr.open(tmp_path / name).schema, images=True)
        assert (report.ok, report.images) == (True, count), report


@pytest.mark.parametrize("name", ["x.tfrecord", "x.parquet", "x.avro"])
def test_images_of_another_size_than_the_schema_are_faults(tmp_path, name):
    hr.write(tmp_path / name, images(4, ()), schema=SCHEMA)
    schema = {"image": hr.Feature("uint8", (8, 9, 3), encoding="jpeg")}
    for on in ("threads", Pickling()):
        report = hr.verify(tmp_path / name, schema=schema, images=True, on=on)
        assert places(report) == [(1, "image"), (2, "image")]
        assert (report.records, report.images) == (2, 4)
        assert all(isinstance(fault, hr.SchemaMismatch) for fault in report.faults)
