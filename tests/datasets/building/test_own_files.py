"""Prepared datasets made from users' files."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image as Pillow

from headrace import data_source
from headrace.datasets.building import DatasetBuilder, csv_builder, image_folder_builder, tfds_folder_builder
from headrace.datasets.building.own_files import builder_for
from headrace.errors import NoFiles, NoSuchFeature, SchemaMismatch, UnsupportedData


def pictures(root, classes=("cat", "dog"), each=3):
    for number in range(each):
        for value, name in enumerate(classes):
            path = root / name / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Pillow.fromarray(np.full((4, 6, 3), 40 * number + value, np.uint8)).save(path)


def test_images_of_several_splits(tmp_path):
    pictures(tmp_path / "in" / "train")
    pictures(tmp_path / "in" / "val", each=1)
    image_folder_builder(tmp_path / "in", name="pets").download_and_prepare(data_dir=tmp_path)
    source = data_source("pets", data_dir=tmp_path)
    assert {name: len(split) for name, split in source.items()} == {"train": 6, "validation": 1 * 2}
    assert source["train"].features["label"].names == ["cat", "dog"]
    for row in source["train"]:
        number = int(row["image/filename"].split(b".")[0])
        assert (row["image"] == 40 * number + row["label"]).all()
        assert row["image"].shape == (4, 6, 3)


def test_images_of_one_split(tmp_path):
    pictures(tmp_path / "in", classes=("b", "a", "c"))
    builder_for(tmp_path / "in", name="pets").download_and_prepare(data_dir=tmp_path)
    source = data_source("pets", data_dir=tmp_path)
    assert list(source) == ["train"]
    assert source["train"].features["label"].names == ["a", "b", "c"]


def test_images_without_classes_are_refused(tmp_path):
    pictures(tmp_path, classes=("cat",))
    with pytest.raises(UnsupportedData, match="a folder for each class"):
        image_folder_builder(tmp_path / "cat", name="pets")
    with pytest.raises(NoFiles):
        builder_for(tmp_path / "nothing", name="pets")


TEXT = "size,weight,kind,note\n1,0.1,big,x\n2,1e300,small,\n-3,2.5,big,é\n"


def test_rows_of_a_csv_file(tmp_path):
    (tmp_path / "rows.csv").write_text(TEXT, encoding="utf-8")
    builder_for(tmp_path / "rows.csv", name="rows", label="kind").download_and_prepare(data_dir=tmp_path)
    source = data_source("rows", "train", data_dir=tmp_path)
    assert [int(row["size"]) for row in source] == [1, 2, -3]
    assert [float(row["weight"]) for row in source] == [0.1, 1e300, 2.5]
    assert [source.features["kind"].int2str(row["kind"]) for row in source] == ["big", "small", "big"]
    assert [row["note"] for row in source] == [b"x", b"", "é".encode()]


def test_a_folder_of_csv_files(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "train.csv").write_text("a,label\n1,3\n2,10\n")
    (folder / "test.csv").write_text("a,label\n0.5,2\n")
    builder_for(folder, name="rows", label="label").download_and_prepare(data_dir=tmp_path)
    source = data_source("rows", data_dir=tmp_path)
    assert source["train"].features["label"].names == ["2", "3", "10"]
    assert [float(row["a"]) for row in source["train"]] == [1.0, 2.0]
    assert [float(row["a"]) for row in source["test"]] == [0.5]


def test_csv_files_that_do_not_fit(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    (tmp_path / "b.csv").write_text("a,c\n1,2\n")
    with pytest.raises(UnsupportedData, match="the columns"):
        csv_builder({"train": tmp_path / "a.csv", "test": tmp_path / "b.csv"}, name="rows")
    with pytest.raises(NoSuchFeature, match="'zz'"):
        csv_builder(tmp_path / "a.csv", name="rows", label="zz")
    made = csv_builder(tmp_path / "a.csv", name="rows", columns=["b"])
    assert list(made.features) == ["b"]


@pytest.mark.parametrize("text", ["", "a,b\n"])
@pytest.mark.parametrize("label", [None, "b"])
def test_a_csv_file_without_rows_is_named(tmp_path, text, label):
    (tmp_path / "train.csv").write_text("a,b\n1,2\n")
    (tmp_path / "test.csv").write_text(text)
    for paths in (tmp_path / "test.csv", {"train": tmp_path / "train.csv", "test": tmp_path / "test.csv"}):
        with pytest.raises(SchemaMismatch, match=r"at least one row below the header, found none - at .*test\.csv"):
            csv_builder(paths, name="rows", label=label)


def test_a_copy_in_another_format(tmp_path, golden):
    made = tfds_folder_builder(golden / "tfrecord" / "mini").download_and_prepare(
        data_dir=tmp_path, file_format="array_record", num_shards=2
    )
    assert (made.full_name, made.file_format) == ("mini/1.2.0", "array_record")
    for split in ("train", "test"):
        ours = data_source("mini", split, data_dir=tmp_path)
        theirs = data_source(golden / "tfrecord" / "mini", split)
        assert [bytes(a) for a in ours.records] == [bytes(b) for b in theirs.records]
        assert ours.supervised_keys == theirs.supervised_keys
        assert ours.features == theirs.features


@pytest.fixture
def golden():
    from pathlib import Path

    return Path(__file__).resolve().parents[2] / "golden" / "tfds"


def test_two_names_of_one_split_are_refused(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("train", "val", "dev"):
        (folder / f"{name}.csv").write_text("a\n1\n")
    with pytest.raises(UnsupportedData, match=r"one name for split 'validation', found 'dev\.csv' and 'val\.csv'"):
        builder_for(folder, name="rows")
    (folder / "other.csv").write_text("a\n1\n")
    with pytest.raises(NoFiles, match="images"):
        builder_for(folder, name="rows")
    pictures(tmp_path / "images" / "valid", each=1)
    pictures(tmp_path / "images" / "validation", each=1)
    with pytest.raises(UnsupportedData, match="found 'valid' and 'validation'"):
        image_folder_builder(tmp_path / "images", name="pets")


def splits_of(folder, label=None, **texts):
    """What a builder makes of one CSV file for each split."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, text in texts.items():
        (folder / f"{split}.csv").write_text(text)
    made = csv_builder({split: folder / f"{split}.csv" for split in texts}, name="rows", label=label)
    made.download_and_prepare(data_dir=folder, progress=False)
    return data_source("rows", data_dir=folder)


def test_a_class_is_the_same_in_splits_of_other_types(tmp_path):
    found = splits_of(tmp_path, "y", train="x,y\n1,0\n2,1\n", test="x,y\n1,0.0\n2,1.0\n")
    assert found["train"].features["y"].names == ["0.0", "1.0"]
    assert [int(row["y"]) for row in found["test"]] == [int(row["y"]) for row in found["train"]] == [0, 1]
    found = splits_of(tmp_path / "text", "y", train="x,y\n1,0\n2,1\n", test="x,y\n1,zero\n2,1\n")
    assert found["train"].features["y"].names == ["0", "1", "zero"]
    found = splits_of(tmp_path / "flags", "y", train="x,y\n1,true\n2,false\n", test="x,y\n1,1\n2,0\n")
    assert found["train"].features["y"].names == ["0", "1", "false", "true"]


@pytest.mark.parametrize("text", ["x,y\n1,0\n2,\n", "x,y\n1,a\n2,\n"])
def test_missing_labels_are_refused(tmp_path, text):
    (tmp_path / "train.csv").write_text(text)
    with pytest.raises(
        SchemaMismatch, match=r"a label in each row, found none - at .*train\.csv, record 1, feature 'y'"
    ):
        csv_builder(tmp_path / "train.csv", name="rows", label="y")


def test_integers_keep_their_digits_beside_another_split(tmp_path):
    with pytest.raises(UnsupportedData, match=r"9007199254740993 in split 'train'"):
        splits_of(tmp_path, train="x\n9007199254740993\n", test="x\n0.5\n")
    with pytest.raises(UnsupportedData, match=r"uint64 holds.*-1 in split 'train'"):
        splits_of(tmp_path, train="x\n-1\n", test="x\n18446744073709551615\n")
    found = splits_of(tmp_path / "large", train="x\n9007199254740993\n", test="x\n18446744073709551615\n")
    assert [int(split[0]["x"]) for split in found.values()] == [9007199254740993, 18446744073709551615]
    found = splits_of(tmp_path / "text", train="x\n0.10\n2.00\n", test="x\nnone\n")
    assert [row["x"] for row in found["train"]] == [b"0.10", b"2.00"]


def test_a_class_that_no_line_holds_is_named_before_data_is_written(tmp_path):
    (tmp_path / "train.csv").write_text('x,y\n1,"a\nb"\n2,c\n')
    made = csv_builder(tmp_path / "train.csv", name="rows", label="y")
    with pytest.raises(UnsupportedData, match=r"found 'a\\nb'"):
        made.download_and_prepare(data_dir=tmp_path / "data")
    assert [path.name for path in (tmp_path / "data" / "rows").iterdir()] == [".1.0.0.lock"]


def test_a_copy_of_episodes(tmp_path, golden):
    tfds_folder_builder(golden / "features" / "episodes").download_and_prepare(data_dir=tmp_path)
    ours, theirs = data_source("episodes", data_dir=tmp_path), data_source(golden / "features" / "episodes")
    for split, source in theirs.items():
        assert [bytes(a) for a in ours[split].records] == [bytes(b) for b in source.records]


def test_the_order_of_classes_does_not_depend_on_hashes(tmp_path):
    (tmp_path / "train.csv").write_text("label\n" + "\n".join(["01", "1", "001", "-0", "0", "10", "9"] * 2) + "\n")
    code = (
        "from headrace.datasets.building import csv_builder\n"
        f"print(csv_builder({str(tmp_path / 'train.csv')!r}, name='c', label='label').features['label'].names)"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in "123"
    }
    assert found == {"['-0', '0', '001', '01', '1', '9', '10']\n"}


def test_a_copy_of_what_a_prepared_source_reads(tmp_path):
    """Also if a shard without examples has no file, and if only files of another format are there."""
    builder = DatasetBuilder(name="a", features={"x": "int64"}, splits={"train": [{"x": i} for i in range(7)]}, shuffled=False)  # fmt: skip
    made = builder.download_and_prepare(data_dir=tmp_path, num_shards=2)
    info = json.loads((made.folder / "dataset_info.json").read_text())
    first, last = info["splits"][0]["shardLengths"]
    info["splits"][0]["shardLengths"] = [first, "0", last]
    for old, new in (("00000-of-00002", "00000-of-00003"), ("00001-of-00002", "00002-of-00003")):
        (made.folder / f"a-train.tfrecord-{old}").rename(made.folder / f"a-train.tfrecord-{new}")
    (made.folder / "dataset_info.json").write_text(json.dumps(info))
    other = tmp_path / "other"
    described = builder.download_and_prepare(data_dir=other, file_format="array_record").folder / "dataset_info.json"
    info = json.loads(described.read_text())
    described.write_text(json.dumps({**info, "fileFormat": "tfrecord", "alternativeFileFormats": ["array_record"]}))
    for folder in (tmp_path, other):
        copy = tfds_folder_builder("a", name="b", data_dir=folder).download_and_prepare(data_dir=folder)
        assert [int(example["x"]) for example in data_source(copy.folder, "train")] == list(range(7))
