"""Empty folders can be reopened with the schema they were written with."""

import json

import numpy as np
import pytest
from tests.codecs.images.files import jpeg
from tests.io.store_server import environment, serving_store

import headrace as hr
from headrace.errors import CorruptFile, NoFiles, UnsupportedData
from headrace.formats.example_files.write import join_folders as join_arrays
from headrace.formats.image_folder.write import join_folders as join_images
from headrace.formats.table.folders import FORMAT_NOTE, NOTE

ARRAYS = {"x": np.zeros((0, 3), np.float32), "label": np.zeros(0, np.int64)}
IMAGES = hr.Schema({"image": hr.Feature("bytes", encoding="jpeg"), "label": hr.Feature("int64", names=("cat", "dog"))})


def write(path, format, count=0):
    if format == "image_folder":
        hr.write(path, ({"image": jpeg(), "label": 1} for _ in range(count)), schema=IMAGES, format=format)
    else:
        rows = {
            name: np.repeat(np.ones_like(column, shape=(1, *column.shape[1:])), count, 0)
            for name, column in ARRAYS.items()
        }
        hr.write(path, rows, format=format)


@pytest.mark.parametrize("format", ["npy_folder", "npz_folder", "image_folder"])
def test_an_empty_folder_comes_back(tmp_path, format):
    write(tmp_path / "a", format)
    source = hr.open(tmp_path / "a")
    assert (len(source), source.format, list(source), list(hr.Loader(source, 4))) == (0, format, [], [])
    wanted = (
        {"label": IMAGES["label"]}
        if format == "image_folder"
        else {"x": hr.Feature("float32", (3,)), "label": hr.Feature("int64")}
    )
    assert {name: source.schema[name] for name in wanted} == wanted
    assert hr.verify(tmp_path / "a").ok
    hr.convert(tmp_path / "a", tmp_path / "b", format=format)
    assert hr.open(tmp_path / "b").schema == source.schema
    hr.convert(tmp_path / "a", tmp_path / "c.tfrecord")
    assert len(hr.records(tmp_path / "c.tfrecord")) == 0


@pytest.mark.parametrize("format", ["npy_folder", "npz_folder", "image_folder"])
def test_no_note_beside_examples(tmp_path, format):
    write(tmp_path / "a", format, 2)
    assert not list((tmp_path / "a").rglob(NOTE))
    assert len(hr.open(tmp_path / "a")) == 2


@pytest.mark.parametrize("format", ["npy_folder", "npz_folder", "image_folder"])
@pytest.mark.parametrize("counts", [(0, 2), (2, 0), (0, 0), (0, 1, 0, 2)])
def test_parts_are_joined_whether_empty_or_not(tmp_path, format, counts):
    parts = [str(tmp_path / f"part{number}") for number in range(len(counts))]
    for part, count in zip(parts, counts, strict=True):
        write(part, format, count)
    (join_images if format == "image_folder" else join_arrays)(parts, str(tmp_path / "whole"))
    assert len(hr.open(tmp_path / "whole")) == sum(counts)
    assert bool(list((tmp_path / "whole").rglob(NOTE))) == (not sum(counts))


@pytest.mark.parametrize(
    "text", ["", "{}", '{"format": "npy_folder"}', "[1]", '{"format": "npy_folder", "features": 3}', "\xff"]
)
def test_a_damaged_note_is_named(tmp_path, text):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / NOTE).write_bytes(text.encode("latin1"))
    with pytest.raises(CorruptFile, match=NOTE):
        hr.open(tmp_path / "a")


def test_an_empty_folder_is_not_a_dataset(tmp_path):
    (tmp_path / "a").mkdir()
    with pytest.raises(NoFiles):
        hr.open(tmp_path / "a")


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_manifest_has_the_fewest_digits_that_give_a_number_back(tmp_path, dtype):
    values = np.array([0.1, 1 / 3, 6e-5, -2.5, np.inf], dtype)
    values = np.concatenate([values, np.random.default_rng(0).normal(0, 9, 200).astype(dtype)])
    hr.write(tmp_path / "a", {"x": np.zeros((len(values), 2), np.uint8), "y": values}, format="npy_folder")
    lines = [json.loads(line) for line in (tmp_path / "a" / "manifest.jsonl").read_text().splitlines()]
    assert [str(line["y"]) for line in lines[:1] + lines[3:5]] == ["0.1", "-2.5", "inf"]
    assert max(len(repr(line["y"])) for line in lines) <= {"float16": 10, "float32": 14, "float64": 24}[dtype]
    found = hr.open(tmp_path / "a").batch(np.arange(len(values)))["y"].astype(dtype)
    np.testing.assert_array_equal(found, values)


@pytest.mark.parametrize("columns", [{"x": (2, 5)}, {"image": (3, 28, 28), "mask": (3, 28, 28)}])
def test_a_folder_of_arrays_says_that_each_file_is_an_example(tmp_path, columns):
    """The files alone could as well hold rows of vectors."""
    given = {name: np.arange(np.prod(shape), dtype=np.float32).reshape(shape) for name, shape in columns.items()}
    formats = ["npz_folder"] if len(columns) > 1 else ["npz_folder", "npy_folder"]
    for format in formats:
        folder = tmp_path / format
        hr.write(folder, given, format=format)
        assert (folder / FORMAT_NOTE).exists()
        source = hr.open(folder)
        assert (source.format, len(source)) == (format, len(next(iter(given.values()))))
        for column, found in zip(given.values(), source.batch(range(len(source))).values(), strict=True):
            np.testing.assert_array_equal(column, found)
        assert hr.verify(folder).records == len(source)
        assert hr.convert(folder, tmp_path / f"{format}.tfrecord").examples == len(source)
        hr.convert(folder, tmp_path / "copy", format=format, overwrite=True)
        assert len(hr.open(tmp_path / "copy")) == len(source)


def test_joined_folders_keep_the_note_of_their_format(tmp_path):
    parts = [str(tmp_path / f"part{number}") for number in range(3)]
    for part, count in zip(parts, (0, 2, 3), strict=True):
        hr.write(part, {"x": np.ones((count, 5))}, format="npz_folder")
    join_arrays(parts, str(tmp_path / "all"))
    assert hr.open(tmp_path / "all").batch(range(5))["x"].shape == (5, 5)


@pytest.mark.parametrize("text", ["", "[]", "{}", "\xff"])
def test_a_damaged_note_of_the_format_is_named(tmp_path, text):
    hr.write(tmp_path / "a", {"x": np.ones((2, 5))}, format="npz_folder")
    (tmp_path / "a" / FORMAT_NOTE).write_text(text, "latin-1")
    with pytest.raises(CorruptFile, match=f"expected a format as JSON.*{FORMAT_NOTE}"):
        hr.open(tmp_path / "a")


def managed(tmp_path, kind, inner=""):
    """A table folder of another table format, with one data file. Returns the table, and the folder of its file."""
    notes = {"delta": "_delta_log/0.json", "hudi": ".hoodie/hoodie.properties", "iceberg": "metadata/v1.metadata.json"}
    table = tmp_path / kind
    folder = table / ("data" if kind == "iceberg" else "") / inner
    for path in (table / notes[kind], folder / "x"):
        path.parent.mkdir(parents=True, exist_ok=True)
    (table / notes[kind]).write_text("{}")
    hr.write(folder / "a.parquet", {"x": np.arange(3)})
    return table, folder


@pytest.mark.parametrize("inner", ["", "year=2024/month=1"])
@pytest.mark.parametrize(("kind", "library"), [("delta", "deltalake"), ("hudi", "hudi"), ("iceberg", "pyiceberg")])
def test_folders_of_other_table_formats_are_refused(tmp_path, monkeypatch, kind, library, inner):
    """They keep the files of deleted and replaced rows."""
    table, folder = managed(tmp_path, kind, inner)
    for path in (table, folder, folder / "*.parquet"):
        for options in ({}, {"format": "parquet"}, {"split": "a"}):
            with pytest.raises(
                UnsupportedData, match=f"which keeps files of deleted.*Read it with {library}"
            ) as raised:
                hr.open(path, **options)
            assert raised.value.where.path == str(table)
    monkeypatch.chdir(folder)
    for path in (".", "*.parquet"):
        with pytest.raises(UnsupportedData, match=f"Read it with {library}"):
            hr.open(path)
    files = [folder / "a.parquet", f"file://{folder}/a.parquet", "a.parquet"]
    assert [len(hr.open(path)) for path in (*files, files)] == [3, 3, 3, 9]  # named, as by deltalake's file_uris()


def test_hudi_partitions_without_names_are_refused(tmp_path):
    _, folder = managed(tmp_path, "hudi", "2024/01")
    (folder / ".hoodie_partition_metadata").write_text("")
    with pytest.raises(UnsupportedData, match="a Hudi table"):
        hr.open(folder)


def test_plain_folders_beside_metadata_open(tmp_path):
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata" / "metadata.json").write_text("{}")
    (tmp_path / "data").mkdir()
    hr.write(tmp_path / "data" / "a.parquet", {"x": np.arange(3)})
    assert len(hr.open(tmp_path / "data")) == 3
    with pytest.raises(NoFiles):
        hr.open(tmp_path)


@pytest.mark.parametrize(("kind", "inner"), [("delta", ""), ("hudi", "month=1"), ("iceberg", "month=1")])
def test_folders_of_other_table_formats_in_a_store_are_refused(tmp_path, monkeypatch, kind, inner):
    table, folder = managed(tmp_path, kind, inner)
    with serving_store() as store:
        for name, value in environment("s3", store.url).items():
            monkeypatch.setenv(name, value)
        store.objects |= {
            str(each.relative_to(tmp_path)): each.read_bytes() for each in table.rglob("*") if each.is_file()
        }
        url, inside = f"s3://bucket/{kind}", f"s3://bucket/{folder.relative_to(tmp_path)}"
        for path in (url, url + "/", inside, inside + "/*.parquet"):
            with pytest.raises(UnsupportedData, match="which keeps files of deleted") as raised:
                hr.open(path)
            assert raised.value.where.path == url
        assert len(hr.open(inside + "/a.parquet")) == 3
