"""Columns of image paths: detected, named, refused."""

import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import simplejpeg
from tests.codecs.images.files import jpeg, made, noise
from tests.io.file_server import serving

import headrace as hr
from headrace import _native
from headrace.errors import Unreachable
from headrace.sources.decoded import decode_images
from headrace.sources.images import with_images
from headrace.sources.tables import ColumnNode

N = 6


class Rows(ColumnNode):
    """A table of text, as the readers of CSV and JSON Lines give it."""

    def __init__(self, files, columns):
        super().__init__(
            {
                name: np.array(column, object) if isinstance(column[0], str) else np.array(column)
                for name, column in columns.items()
            }
        )
        self.records = SimpleNamespace(paths=tuple(str(path) for path, _ in files), format="csv")
        self.places = [(str(path), i) for path, count in files for i in range(count)]

    def where(self, index):
        return hr.Where(path=self.places[index][0], record=self.places[index][1])


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "jpegs").mkdir()
    for i in range(N):
        (tmp_path / "jpegs" / f"{i}.jpg").write_bytes(jpeg(seed=i))
    return tmp_path


def rows(folder, paths=None, **more):
    paths = [f"jpegs/{i}.jpg" for i in range(N)] if paths is None else paths
    return Rows([(folder / "train.csv", len(paths))], {"path": paths, "label": list(range(len(paths))), **more})


def test_paths_are_recognised(folder):
    source = hr.Source(with_images(rows(folder, note=["x.jpg"] * N), None))
    assert source.schema["path"] == hr.Feature("bytes", encoding="jpeg")
    assert source.schema["note"] == hr.Feature("str")  # no such file
    assert source.batch([4, 2])["path"].tolist() == [jpeg(seed=4), jpeg(seed=2)]
    assert [e["path"] for e in source] == [jpeg(seed=i) for i in range(N)]
    assert source.select("label")[3] == {"label": 3}
    assert source.format == "csv"


def test_they_are_decoded_and_written_like_any_image(folder):
    source = hr.Source(decode_images(with_images(rows(folder), None), decode=True, given=None))
    np.testing.assert_array_equal(source[3]["path"], simplejpeg.decode_jpeg(jpeg(seed=3)))
    hr.write(folder / "x.tfrecord", source)
    assert hr.open(folder / "x.tfrecord", decode=False)[5]["path"] == jpeg(seed=5)
    assert sum(len(b["path"]) for b in hr.Loader(source, 4, shuffle=True, threads=2)) == N
    (folder / "jpegs" / "4.jpg").write_bytes(jpeg()[:-9])
    with pytest.raises(hr.CorruptRecord, match=r"train.csv, record 4, feature 'path'"):
        source[4]


def test_several_kinds_and_several_files(folder):
    (folder / "b").mkdir()
    (folder / "b" / "0.png").write_bytes(made(noise(3, 3)))
    files = [(folder / "a.csv", 1), (folder / "b" / "b.csv", 1)]
    source = hr.Source(with_images(Rows(files, {"path": ["jpegs/0.jpg", "0.png"]}), ["path"]))
    assert source.schema["path"].encoding == "image"
    assert source[1]["path"] == made(noise(3, 3))


@pytest.mark.parametrize("how", ["absolute", "out"])
def test_paths_that_lead_elsewhere_must_be_named(folder, how):
    (folder / "in").mkdir()
    paths = [str(folder / "jpegs" / "0.jpg") if how == "absolute" else "../jpegs/0.jpg"]
    table = Rows([(folder / "in" / "train.csv", 1)], {"path": paths})
    assert with_images(table, None) is table
    assert hr.Source(with_images(table, ["path"]))[0]["path"] == jpeg(seed=0)


def test_values_left_unchanged(folder):
    table = rows(folder)
    assert with_images(table, ()) is table
    table.records.format = "parquet"
    assert with_images(table, None) is table
    texts = rows(folder, paths=["jpegs/0.jpg", "a text"])
    assert with_images(texts, None) is texts
    empty = ColumnNode({"label": np.zeros(0)})
    assert with_images(empty, None) is empty


def test_a_missing_file_is_named_with_its_row(folder):
    source = hr.Source(with_images(rows(folder), None))
    (folder / "jpegs" / "3.jpg").unlink()
    with pytest.raises(
        hr.NoFiles,
        match=r"expected an image at .*jpegs/3.jpg, found no file there - at .*train.csv, record 3, feature 'path'",
    ):
        source.batch([1, 3])


def test_columns_that_cannot_be_paths(folder):
    with pytest.raises(hr.SchemaMismatch, match="expected text, one path in each row, found Feature"):
        with_images(rows(folder), ["label"])
    with pytest.raises(hr.NoSuchFeature):
        with_images(rows(folder), ["picture"])


@pytest.fixture(params=["train.csv", "train.jsonl"])
def table(folder, request):
    rows = [{"path": f"jpegs/{i}.jpg", "label": i} for i in range(N)]
    hr.write(folder / request.param, rows)
    return folder / request.param


def test_in_files_of_text(table):
    source = hr.open(table)
    assert source.schema["path"] == hr.Feature("uint8", (16, 24, 3), encoding="jpeg")
    np.testing.assert_array_equal(source.batch([5, 1])["path"], [simplejpeg.decode_jpeg(jpeg(seed=i)) for i in (5, 1)])
    assert hr.open(table, image_columns=())[2]["path"] == "jpegs/2.jpg"
    assert hr.open(table, decode=False)[2]["path"] == jpeg(seed=2)
    assert hr.open(table, columns=["label"])[2] == {"label": 2}
    hr.convert(table, table.with_suffix(".tfrecord"))
    assert [e["path"] for e in hr.open(table.with_suffix(".tfrecord"), decode=False)] == [
        jpeg(seed=i) for i in range(N)
    ]


def test_a_given_schema_of_images(table):
    schema = {"path": hr.Feature("uint8", (None, None, 1), encoding="jpeg"), "label": hr.Feature("int64")}
    source = hr.open(table, schema=schema)
    assert source.schema == hr.Schema(schema)
    assert source[3]["path"].shape == (16, 24, 1)


def test_a_given_type_of_text_stays_text(table):
    schema = {"path": hr.Feature("str")}
    assert hr.open(table, schema=schema)[0] == {"path": "jpegs/0.jpg"}
    assert hr.open(table, schema=schema, image_columns=["path"])[0]["path"].shape == (16, 24, 3)
    if table.suffix == ".csv":
        assert hr.open(table, format=hr.CSV(types={"path": "str"}))[0] == {"path": "jpegs/0.jpg", "label": 0}
        assert hr.open(table, format=hr.CSV(types={"label": "int8"}))[0]["path"].shape == (16, 24, 3)


ROWS_LOOKED_AT = 64
OUTSIDE = [
    "{secret}",
    "../secret.png",
    "jpegs/../../secret.png",
    "jpegs\\..\\..\\secret.png",
    "\\secret.png",
    "C:\\secret.png",
    "http://127.0.0.1:1/secret.png",
    "https://127.0.0.1:1/secret.png",
    "s3://bucket/secret.png",
    "file:///{secret}",
    "/etc/hostname",
    "jpegs/0.txt",
    "a\0.png",
]


@pytest.fixture
def trap(tmp_path):
    """A folder with images, and an image outside it; returns a function that writes a table with one row after the inspected ones."""
    inside = tmp_path / "inside"
    (inside / "jpegs").mkdir(parents=True)
    (tmp_path / "secret.png").write_bytes(made(noise(3, 3)))
    for i in range(N):
        (inside / "jpegs" / f"{i}.jpg").write_bytes(jpeg(seed=i))
    (inside / "jpegs" / "0.txt").write_text("a secret")

    def write(name, last, count=ROWS_LOOKED_AT + 6):
        paths = [f"jpegs/{i % N}.jpg" for i in range(count)]
        hr.write(inside / name, {"path": np.array([*paths, last], object), "n": np.arange(count + 1)})
        return inside / name

    return write


def ways_to_read(path, at):
    """Every way to read one row of a file."""
    yield lambda: hr.open(path, decode=False)[at]
    yield lambda: hr.open(path, decode=False).batch([0, at])
    yield lambda: list(hr.open(path, decode=False))
    yield lambda: hr.open(path, decode=False).select("path")[at]
    yield lambda: hr.open(path, decode=False).map(lambda example: example)[at]
    yield lambda: list(hr.Loader(hr.open(path, decode=False), 8, threads=2))
    yield lambda: hr.open(path, decode=False, schema={"path": hr.Feature("bytes", encoding="jpeg")})[at]
    yield lambda: hr.convert(path, path.with_suffix(".tfrecord"), overwrite=True)


@pytest.mark.parametrize("name", ["x.csv", "x.jsonl"])
@pytest.mark.parametrize("outside", OUTSIDE)
def test_every_row_stays_inside(trap, tmp_path, name, outside, monkeypatch):
    if "\0" in outside and name == "x.csv":
        outside = "~/../../secret.png"
    path = trap(name, outside.format(secret=tmp_path / "secret.png"))
    monkeypatch.setattr("headrace.sources.images.read_each", None)  # No request is ever made.
    for read in ways_to_read(path, ROWS_LOOKED_AT + 6):
        with pytest.raises(
            hr.UnsupportedData,
            match=r"in the folder of this file, or below it, found .* record 70,.* feature 'path'. If you trust",
        ):
            read()
    assert hr.open(path, decode=False)[3]["path"] == jpeg(seed=3)
    assert hr.open(path, image_columns=())[70]["path"].endswith(("png", "txt", "hostname"))


def test_verify_and_workers_stay_inside(trap, tmp_path):
    path = trap("x.csv", "../secret.png")
    checked = hr.verify(path, images=True)
    assert "in the folder of this file" in str(checked.faults[0])
    with pytest.raises(hr.UnsupportedData, match="in the folder of this file"):
        list(hr.Loader(hr.open(path, decode=False), 8, workers=1))


def test_links_that_lead_out_must_be_named(trap, tmp_path):
    path = trap("x.csv", "jpegs/link.png")
    (path.parent / "jpegs" / "link.png").symlink_to(tmp_path / "secret.png")
    with pytest.raises(hr.UnsupportedData, match=r"found 'jpegs/link.png', a symbolic link to .*secret.png - at"):
        hr.open(path, decode=False)[70]
    assert hr.open(path, decode=False, image_columns=["path"])[70]["path"] == made(noise(3, 3))

    path = trap("y.csv", "away/secret.png")
    (path.parent / "away").symlink_to(tmp_path)
    with pytest.raises(hr.UnsupportedData, match="a symbolic link to"):
        hr.open(path, decode=False)[70]


def test_only_files_inside_are_read_ahead(trap, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(_native, "has_read_from_disk", lambda: True)
    monkeypatch.setattr(
        _native, "request_files", lambda names, follow_links: asked.extend(names) if not follow_links else 1 / 0
    )
    path = trap("x.csv", "jpegs/../jpegs/1.jpg", count=ROWS_LOOKED_AT)
    inside = (path.parent / "jpegs").resolve()
    (path.parent / "away").symlink_to(tmp_path)
    for last in ("away/secret.png", "a\0/b.png", "jpegs/link.png", "jpegs/../../secret.png"):
        table = trap(f"{len(last)}.jsonl", last, count=ROWS_LOOKED_AT)
        asked.clear()
        with pytest.raises((hr.UnsupportedData, hr.NoFiles)):
            hr.open(table, decode=False).batch([3, 5, ROWS_LOOKED_AT])
        requested = {Path(os.fsdecode(name)) for name in asked}
        assert requested <= {inside / "3.jpg", inside / "5.jpg", inside / "link.png"}  # A link is not followed.
    asked.clear()
    assert hr.open(path, decode=False).batch([3, 3, 5])["path"][2] == jpeg(seed=5)
    assert [Path(os.fsdecode(name)) for name in asked] == [inside / "3.jpg", inside / "3.jpg", inside / "5.jpg"]


def test_links_that_stay_inside_are_followed(trap, tmp_path):
    path = trap("x.csv", "again/link.jpg")
    (path.parent / "again").symlink_to("jpegs")
    (path.parent / "jpegs" / "link.jpg").symlink_to("4.jpg")
    assert hr.open(path, decode=False)[70]["path"] == jpeg(seed=4)
    (tmp_path / "moved").symlink_to("inside")  # The folder itself may be a link.
    assert hr.open(tmp_path / "moved" / "x.csv", decode=False)[70]["path"] == jpeg(seed=4)


def test_pipes_and_devices_are_not_images(trap):
    path = trap("x.csv", "jpegs/pipe.png")
    os.mkfifo(path.parent / "jpegs" / "pipe.png")
    with pytest.raises(hr.UnsupportedData, match="no regular file"):
        hr.open(path, decode=False)[70]


def test_names_that_no_file_has_are_missing(trap):
    with pytest.raises(hr.NoFiles, match="record 70"):
        hr.open(trap("x.csv", "x" * 300 + ".png"), decode=False)[70]
    long = trap("y.csv", "x.png", count=1)
    long.unlink()
    hr.write(long, {"path": np.array(["y" * 300 + ".png"] * 4, object), "n": np.arange(4)})
    assert hr.open(long)[0]["path"].startswith("yyy")
    named = trap("z.jsonl", "a\0.png")
    with pytest.raises(hr.NoFiles, match="record 70"):
        hr.open(named, decode=False, image_columns=["path"])[70]


@pytest.mark.parametrize("odd", ["", "../secret.jpg", "none"])
@pytest.mark.parametrize("row", [0, 3])
def test_odd_paths_among_those_of_images_are_named_when_they_are_read(folder, odd, row):
    paths = [f"jpegs/{i}.jpg" for i in range(N)]
    paths[row] = odd
    source = hr.Source(with_images(rows(folder, paths), None))
    assert source.schema["path"] == hr.Feature("bytes", encoding="jpeg")
    assert source[1]["path"] == jpeg(seed=1)
    with pytest.raises(hr.errors.UnsupportedData, match=f"record {row}.*feature 'path'"):
        source[row]


def test_text_of_which_only_half_names_images_stays_text(folder):
    source = hr.Source(with_images(rows(folder, ["jpegs/1.jpg", "a note"] * 3), None))
    assert source.schema["path"] == hr.Feature("str")


@pytest.mark.parametrize("last", ["gone.jpg", "../outside.jpg"])
def test_a_state_is_saved_although_the_last_image_cannot_be_read(tmp_path, last):
    (tmp_path / "a.jpg").write_bytes(jpeg())
    (tmp_path / "x.csv").write_text(f"path,label\na.jpg,1\na.jpg,3\n{last},2\n")
    source = hr.open(tmp_path / "x.csv", decode=False)
    loader = hr.Loader(source, 1)
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    assert hr.open(tmp_path / "x.csv", decode=False).fingerprint == source.fingerprint
    again = hr.Loader(source, 1)
    again.load_state_dict(state)
    assert next(iter(again))["label"].tolist() == [3]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 500])
def test_images_that_a_server_refuses_are_text(tmp_path, monkeypatch, status):
    """S3 answers 403 for missing keys where listing is not allowed. After other failures, the images may be there."""
    monkeypatch.setenv("HEADRACE_TIMEOUT", "0.1")
    (tmp_path / "meta.csv").write_text("file,size\n" + "".join(f"photo{number}.jpg,{number}\n" for number in range(9)))

    def refuse(handler):
        if handler.path.endswith(".csv"):
            return False
        handler.send_response(status)
        handler.send_header("Content-Length", "0")
        handler.end_headers()
        return True

    with serving(tmp_path) as server:
        server.fault = refuse
        if status == 500:
            with pytest.raises(Unreachable, match=r"feature 'file'.*The column 'file' .*image_columns=\(\)"):
                hr.open(f"{server.url}/meta.csv")
        else:
            assert hr.open(f"{server.url}/meta.csv").schema["file"] == hr.Feature("str")
        assert hr.open(f"{server.url}/meta.csv", image_columns=())[1]["file"] == "photo1.jpg"
