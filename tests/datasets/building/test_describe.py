"""Existing files described in place: shard names, inferred and given features, refusals."""

import json

import numpy as np
import pytest

import headrace as hr
from headrace import data_source
from headrace.datasets.building import write_metadata
from headrace.datasets.features import ClassLabel, Sequence, Tensor, Text
from headrace.errors import DataError, NoFiles, SchemaMismatch, UnsupportedData

N = 50
COLUMNS = {
    "x": np.arange(N * 3, dtype=np.float32).reshape(N, 3),
    "label": np.arange(N) % 3,
    "name": np.array([f"row {i} é" for i in range(N)], object),
    "words": hr.Ragged.from_list([np.arange(i % 4) for i in range(N)], "int64"),
}


def files(folder, pattern="pets-{split}.tfrecord@3", **splits):
    folder.mkdir(parents=True, exist_ok=True)
    for split, count in (splits or {"train": N, "test": 20}).items():
        rows = hr.ColumnSource(COLUMNS)[:count]
        hr.write(folder / pattern.format(split=split), rows)
    return folder


@pytest.mark.parametrize("kind", ["tfrecord", "array_record"])
def test_files_become_a_dataset_where_they_lie(tmp_path, kind):
    folder = files(tmp_path / "pets" / "2.0.1", f"pets-{{split}}.{kind}@3")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    made = write_metadata(folder, supervised_keys=("x", "label"), description="Ours.")
    assert (made.full_name, made.file_format, list(made.splits)) == ("pets/2.0.1", kind, ["train", "test"])
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.name in before} == before
    train = data_source("pets", "train[:40]", data_dir=tmp_path)
    assert (len(train), train.supervised_keys, train.prepared.description) == (40, ("x", "label"), "Ours.")
    batch = train.batch(range(40))
    np.testing.assert_array_equal(batch["x"], COLUMNS["x"][:40])
    assert batch["words"].to_list() == COLUMNS["words"][:40].to_list()
    sizes = sum(len(bytes(payload)) for payload in hr.records(sorted(folder.glob(f"pets-train.{kind}*"))))
    assert made.splits["train"].num_bytes == sizes
    reported = made.fields["splits"][0]["statistics"]
    assert reported["numExamples"] == str(N)
    assert {entry["name"] for entry in reported["features"]} == set(COLUMNS)


def test_given_features(tmp_path):
    folder = files(tmp_path)
    features = {
        "x": Tensor(shape=(3,), dtype="float32"),
        "label": ClassLabel(names=["a", "b", "c"]),
        "name": Text(),
        "words": Sequence("int64"),
    }
    made = write_metadata(folder, features=features, version="3.1.4")
    assert made.version == "3.1.4"
    assert (folder / "label.labels.txt").read_text() == "a\nb\nc\n"
    source = data_source(folder, "test")
    assert source.features["label"].names == ["a", "b", "c"]
    assert source[7]["name"] == "row 7 é" or source[7]["name"] == "row 7 é".encode()


def test_names_of_another_pattern(tmp_path):
    folder = files(tmp_path, "{split}.tfrecord@2")
    template = "{SPLIT}.tfrecord-{SHARD_X_OF_Y}"
    made = write_metadata(folder, template=template, name="pets")
    assert (made.name, made.splits["test"].template) == ("pets", template)
    assert [len(split) for split in data_source(folder).values()] == [N, 20]


def test_images_come_with_their_encoding(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (6, 5, 4, 3), np.uint8)
    schema = {"image": hr.Feature("uint8", (5, 4, 3), encoding="png"), "id": hr.Feature("int64")}
    hr.write(tmp_path / "shots-train.tfrecord@2", {"image": pixels, "id": np.arange(6)}, schema=schema)
    write_metadata(tmp_path)
    source = data_source(tmp_path, "train")
    assert source.features["image"].encoding_format == "png"
    np.testing.assert_array_equal(source.batch(range(6))["image"], pixels)


def test_folders_that_are_not_datasets(tmp_path):
    with pytest.raises(NoFiles, match="files called"):
        write_metadata(tmp_path / "nothing")
    folder = files(tmp_path / "short")
    (folder / "pets-train.tfrecord-00001-of-00003").unlink()
    with pytest.raises(NoFiles, match="without pets-train.tfrecord-00001-of-00003"):
        write_metadata(folder)
    folder = files(tmp_path / "two")
    files(folder, "dogs-{split}.tfrecord@3")
    with pytest.raises(UnsupportedData, match="one dataset in one format"):
        write_metadata(folder)
    with pytest.raises(UnsupportedData, match="files of cats"):
        write_metadata(files(tmp_path / "other"), name="cats")
    with pytest.raises(ValueError, match="version"):
        write_metadata(files(tmp_path / "version"), version="one")


def test_features_that_the_files_lack(tmp_path):
    folder = files(tmp_path)
    with pytest.raises(DataError):
        write_metadata(folder, features={"x": Tensor(shape=(4,), dtype="float32")})
    assert not (folder / "dataset_info.json").exists()
    path = folder / "pets-train.tfrecord-00000-of-00003"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(DataError):
        write_metadata(folder)
    assert not (folder / "dataset_info.json").exists()


def test_an_existing_description(tmp_path):
    folder = files(tmp_path)
    write_metadata(folder)
    with pytest.raises(UnsupportedData, match="overwrite=True"):
        write_metadata(folder)
    write_metadata(folder, overwrite=True, description="Again.")
    assert json.loads((folder / "dataset_info.json").read_text())["description"] == "Again."


@pytest.mark.parametrize("features", [None, {"a": Sequence(Tensor(shape=(), dtype="int64")), "c": "int64"}])
def test_files_of_sequence_examples_are_refused(tmp_path, features):
    schema = {"a": hr.Feature("int64", (None,), steps=True), "c": hr.Feature("int64")}
    hr.write(tmp_path / "pets-train.tfrecord@1", [{"a": [1, 2], "c": 1}, {"a": [3], "c": 2}], schema=schema)
    with pytest.raises(UnsupportedData, match="a feature list of SequenceExamples.*feature 'a'"):
        write_metadata(tmp_path, features=features)


def test_class_names_are_checked_before_the_records_are_read(tmp_path):
    folder = files(tmp_path)
    with pytest.raises(UnsupportedData, match="found ' b'"):
        write_metadata(folder, features={"label": ClassLabel(names=["a", " b", "c"])})
    assert not (folder / "label.labels.txt").exists()


def test_a_shard_without_records(tmp_path):
    hr.write(tmp_path / "es-train.tfrecord@3", {"x": np.arange(2)})
    made = write_metadata(tmp_path)
    assert sorted(made.splits["train"].shard_lengths) == [0, 1, 1]
    assert sorted(int(example["x"]) for example in data_source(tmp_path, "train")) == [0, 1]


@pytest.mark.parametrize("compression", ["gzip", "zlib"])
def test_compressed_files_are_refused(tmp_path, compression):
    hr.write(tmp_path / "gz-train.tfrecord@2", {"x": np.arange(4)}, compression=compression)
    with pytest.raises(UnsupportedData, match=f"without compression.*found {compression}.*hr.convert"):
        write_metadata(tmp_path)
    assert not (tmp_path / "dataset_info.json").exists()


def test_a_hyphen_in_the_name(tmp_path):
    """It is not the dataset ``my`` with the split ``data-train``."""
    folder = tmp_path / "my-data" / "1.0.0"
    hr.write(files(folder, "cats-{split}.tfrecord@1") / "my-data-train.tfrecord@2", {"x": np.arange(4)})
    for name in (None, "my-data"):
        with pytest.raises(UnsupportedData, match=r"no hyphen.*found 'my-data'.*my_data-train"):
            write_metadata(folder, name=name)
    other = files(tmp_path / "my-cats", "cats-{split}.tfrecord@1")
    assert write_metadata(other).name == "cats"


@pytest.mark.parametrize("is_sequence", [False, True])
def test_labels_beyond_the_classes(tmp_path, is_sequence):
    labels = np.array([0, 1, 5, 2])

    def feature(count):
        label = ClassLabel(num_classes=count)
        return {"y": Sequence(label) if is_sequence else label}

    hr.write(tmp_path / "pets-train.tfrecord@1", {"y": labels[:, None] if is_sequence else labels})
    for count in (3, 5):
        with pytest.raises(SchemaMismatch, match=f"a class from -1 to {count - 1}, found 5 in split 'train'.*'y'"):
            write_metadata(tmp_path, features=feature(count))
    assert not (tmp_path / "dataset_info.json").exists()
    assert write_metadata(tmp_path, features=feature(6)).splits["train"].num_examples == 4


def test_integers_in_some_records_and_floats_in_others(tmp_path):
    parts = [hr.ColumnSource({"a": np.array([value])}) for value in (np.int64(1), np.float32(1.5))]
    for number, part in enumerate(parts):
        hr.write(tmp_path / f"{number}.tfrecord", part)
    payloads = [bytes(record) for number in range(2) for record in hr.records(tmp_path / f"{number}.tfrecord")]
    folder = tmp_path / "mixed"
    folder.mkdir()
    hr.write_records(folder / "mixed-train.tfrecord-00000-of-00001", payloads, format="tfrecord")
    with pytest.raises(UnsupportedData, match=r"integers in some and floats in others.*feature 'a'"):
        write_metadata(folder)
