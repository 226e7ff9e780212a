"""TFDS reads what we prepare, and both prepare equal files from equal examples."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.datasets.authors import served
from tests.datasets.web import Web

import headrace as hr
from headrace import data_source
from headrace.datasets.building import DatasetBuilder, csv_builder, image_folder_builder, write_metadata
from headrace.datasets.features import ClassLabel, Image, Sequence, Tensor, Text

ROOT = Path(__file__).resolve().parents[2]
PEERS = Path(os.environ.get("HEADRACE_PEERS_VENV", ROOT / ".venv-peers")) / "bin" / "python"
SCRIPT = Path(__file__).with_name("tfds_made_peer.py")


def has_tfds():
    code = "import importlib.util as u, sys; sys.exit(u.find_spec('tensorflow_datasets') is None)"
    return PEERS.exists() and subprocess.run([PEERS, "-c", code], check=False).returncode == 0


pytestmark = [pytest.mark.peer, pytest.mark.skipif(not has_tfds(), reason="needs .venv-peers with tensorflow-datasets")]


def ask(job, folder):
    done = subprocess.run([PEERS, SCRIPT, job, str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def same(theirs, source):
    """All examples of a split as TFDS read them, in the order of the files, against ours."""
    assert len(theirs["rows"]) == theirs["examples"] == len(source)
    assert theirs["half"] == round(len(source) / 2)
    for row, ours in zip(theirs["rows"], source, strict=True):
        for name, value in source.nested(ours).items():
            assert row[name] == listed(value), name


def listed(value):
    if isinstance(value, dict):
        return {name: listed(item) for name, item in value.items()}
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    array = np.asarray(value)
    return [listed(item) for item in array] if array.dtype == object and array.ndim else array.tolist()


@pytest.mark.parametrize("file_format", ["tfrecord", "array_record"])
def test_tfds_reads_what_we_prepare(tmp_path, file_format):
    pixels = np.random.default_rng(0).integers(0, 256, (40, 5, 4, 3), np.uint8)
    rows = [
        {
            "image": pixels[i],
            "label": i % 3,
            "exact": [i / 3, 1e300],
            "words": [f"w{j}" for j in range(i % 4)],
            "deep": {"text": f"text {i} é"},
        }
        for i in range(40)
    ]
    made = DatasetBuilder(
        name="made",
        features={
            "image": Image(shape=(5, 4, 3)),
            "label": ClassLabel(names=["a", "b", "ü"]),
            "exact": Tensor(shape=(2,), dtype="float64", encoding="bytes"),
            "words": Sequence(Text()),
            "deep": {"text": Text()},
        },
        splits={"train": rows, "test": rows[:7]},
        supervised_keys=("image", "label"),
        description="About.",
        citation="Us.",
        urls=("https://example.org/home",),
    ).download_and_prepare(data_dir=tmp_path, file_format=file_format, num_shards=3)
    theirs = ask("describe", made.folder)
    known = {name: theirs[name] for name in ("name", "version", "description", "citation", "homepage", "supervised")}
    assert known == {
        "name": "made",
        "version": "1.0.0",
        "description": "About.",
        "citation": "Us.",
        "homepage": "https://example.org/home",
        "supervised": ["image", "label"],
    }
    assert theirs["labels"] == {"label": ["a", "b", "ü"]}
    for name, split in theirs["splits"].items():
        same(split, data_source(made.folder, name))
        assert split.get("pair") == (2 if file_format == "tfrecord" else None)
        assert split["lengths"] == list(made.splits[name].shard_lengths)
        assert split["bytes"] == made.splits[name].num_bytes


def test_both_prepare_the_same(tmp_path):
    def rows(count, prefix):
        for i in range(count):
            words = [f"w{j}" for j in range(i % 4)]
            row = {"id": i, "label": i % 3, "words": words, "deep": {"x": i / 4, "text": f"text {i} é"}}
            yield f"{prefix}{i}" if prefix else i, row

    ours = DatasetBuilder(
        name="made",
        features={
            "id": "int64",
            "label": ClassLabel(names=["a", "b", "ü"]),
            "words": Sequence(Text()),
            "deep": {"x": "float32", "text": Text()},
        },
        splits={"train": lambda: rows(100, ""), "test": lambda: rows(17, "key/")},
    ).download_and_prepare(data_dir=tmp_path / "ours", num_shards=3)
    theirs = Path(ask("make", tmp_path / "theirs"))
    for name in ("train", "test"):
        ours_split, their_split = data_source(ours.folder, name), data_source(theirs, name)
        assert len(ours_split) == len(their_split)
        for a, b in zip(ours_split, their_split, strict=True):
            assert {key: listed(value) for key, value in a.items()} == {key: listed(value) for key, value in b.items()}
        # The features of an Example are a map, whose order protobuf leaves open: the same bytes, in another order.
        for a, b in zip(ours_split.records, their_split.records, strict=True):
            assert sorted(bytes(a)) == sorted(bytes(b))
        entries = [source.prepared.splits[name] for source in (ours_split, their_split)]
        assert entries[0].shard_lengths == entries[1].shard_lengths
        assert entries[0].num_bytes == entries[1].num_bytes
    names = [sorted(p.name for p in folder.iterdir()) for folder in (ours.folder, theirs)]
    assert names[0] == names[1]
    assert (ours.folder / "label.labels.txt").read_bytes() == (theirs / "label.labels.txt").read_bytes()
    features = [json.loads((folder / "features.json").read_text()) for folder in (ours.folder, theirs)]
    assert features[0] == features[1]


@pytest.mark.parametrize("name", ["fashion_mnist", "emnist/letters", "cifar10", "cifar100", "iris", "abalone"])
def test_tfds_reads_the_named_datasets(tmp_path, name):
    web = Web()
    try:
        made = served(web, name).download_and_prepare(data_dir=tmp_path)
    finally:
        web.close()
    theirs = ask("describe", made.folder)
    for split, reported in theirs["splits"].items():
        same(reported, data_source(made.folder, split))


def test_tfds_reads_own_files(tmp_path):
    (tmp_path / "rows.csv").write_text("size,weight,kind\n1,0.1,big\n2,1e300,small\n", encoding="utf-8")
    made = csv_builder(tmp_path / "rows.csv", name="rows", label="kind").download_and_prepare(data_dir=tmp_path)
    theirs = ask("describe", made.folder)
    same(theirs["splits"]["train"], data_source(made.folder, "train"))
    from PIL import Image as Pillow

    for i in range(4):
        folder = tmp_path / "pets" / ("cat", "dog")[i % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Pillow.fromarray(np.full((3, 4, 3), i, np.uint8)).save(folder / f"{i}.png")
    made = image_folder_builder(tmp_path / "pets", name="pets").download_and_prepare(data_dir=tmp_path)
    theirs = ask("describe", made.folder)
    same(theirs["splits"]["train"], data_source(made.folder, "train"))
    assert theirs["labels"] == {"label": ["cat", "dog"]}


@pytest.mark.parametrize(
    "pattern", ["{name}-{split}.tfrecord@3", "{split}.tfrecord@2", "{name}-{split}.array_record@2"]
)
def test_tfds_reads_files_that_were_described(tmp_path, pattern):
    pixels = np.random.default_rng(0).integers(0, 256, (30, 5, 4, 3), np.uint8)
    rows = {
        "image": pixels,
        "label": np.arange(30) % 3,
        "x": np.arange(60, dtype=np.float32).reshape(30, 2),
        "words": hr.Ragged.from_list([np.arange(i % 4) for i in range(30)], "int64"),
        "name": np.array([f"row {i} é".encode() for i in range(30)], object),
    }
    schema = {
        "image": hr.Feature("uint8", (5, 4, 3), encoding="png"),
        "label": hr.Feature("int64"),
        "x": hr.Feature("float32", (2,)),
        "words": hr.Feature("int64", (None,)),
        "name": hr.Feature("bytes"),
    }
    for split, count in (("train", 30), ("test", 8)):
        part = {name: column[:count] for name, column in rows.items()}
        hr.write(tmp_path / pattern.format(name="pets", split=split), part, schema=schema)
    template = (
        "{SPLIT}.tfrecord-{SHARD_X_OF_Y}"
        if "{name}" not in pattern
        else "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"
    )
    made = write_metadata(
        tmp_path, name="pets", template=template, supervised_keys=("image", "label"), description="Ours."
    )
    theirs = ask("describe", made.folder)
    assert (theirs["name"], theirs["version"], theirs["description"]) == ("pets", "1.0.0", "Ours.")
    assert theirs["supervised"] == ["image", "label"]
    assert sorted(theirs["splits"]) == ["test", "train"]
    for split, reported in theirs["splits"].items():
        same(reported, data_source(made.folder, split))
        assert reported["lengths"] == list(made.splits[split].shard_lengths)
        assert reported["bytes"] == made.splits[split].num_bytes
