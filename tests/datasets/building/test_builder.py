"""Prepared folders: complete, reproducible, and equal when read back."""

import json
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

from headrace import Feature, data_source
from headrace.datasets.building import DatasetBuilder
from headrace.datasets.features import (
    Audio,
    BBoxFeature,
    ClassLabel,
    Dataset,
    FeaturesDict,
    Image,
    LabeledImage,
    Scalar,
    Sequence,
    Tensor,
    Text,
)
from headrace.errors import NoSuchFeature, SchemaMismatch, UnsupportedData

PIXELS = np.arange(30 * 4 * 5 * 3).reshape(30, 4, 5, 3).astype(np.uint8)


def example(i):
    return {
        "id": i,
        "image": PIXELS[i],
        "label": i % 3,
        "words": [f"w{j}" for j in range(i % 4)],
        "deep": {"x": i / 3, "text": f"text {i} é"},
    }


FEATURES = {
    "id": "int64",
    "image": Image(shape=(4, 5, 3)),
    "label": ClassLabel(names=["a", "b", "ü"]),
    "words": Sequence(Text()),
    "deep": {"x": Tensor(shape=(), dtype="float64", encoding="bytes"), "text": Text()},
}


def builder(**reported):
    splits = {"train": [example(i) for i in range(30)], "test": lambda: ((f"k{i}", example(i)) for i in range(5))}
    return DatasetBuilder(**{"name": "made", "features": FEATURES, "splits": splits, **reported})


def files_in(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("file_format", ["tfrecord", "array_record"])
@pytest.mark.parametrize("shards", [None, 4])
def test_values_round_trip(tmp_path, file_format, shards):
    made = builder(supervised_keys=("image", "label")).download_and_prepare(
        data_dir=tmp_path, file_format=file_format, num_shards=shards
    )
    assert made.folder == tmp_path / "made" / "1.0.0"
    source = data_source("made", data_dir=tmp_path)
    assert {name: len(split) for name, split in source.items()} == {"train": 30, "test": 5}
    assert source["train"].supervised_keys == ("image", "label")
    assert source["train"].features["label"].names == ["a", "b", "ü"]
    assert len(made.splits["train"].shard_lengths) == (shards or 1)
    found = {int(row["id"]): row for row in source["train"]}
    assert sorted(found) == list(range(30))
    for i, row in found.items():
        np.testing.assert_array_equal(row["image"], PIXELS[i])
        assert (row["label"], row["deep/x"], row["deep/text"]) == (i % 3, i / 3, f"text {i} é".encode())
        assert list(row["words"]) == [f"w{j}".encode() for j in range(i % 4)]


def test_the_same_input_gives_the_same_bytes(tmp_path):
    first = builder().download_and_prepare(data_dir=tmp_path / "a")
    rows = [(i, example(i)) for i in reversed(range(30))]
    again = builder(splits={"train": rows, "test": builder().splits["test"]}).download_and_prepare(
        data_dir=tmp_path / "b"
    )
    assert files_in(first.folder) == files_in(again.folder)


def test_the_order_can_be_kept(tmp_path):
    builder(shuffled=False).download_and_prepare(data_dir=tmp_path)
    assert [int(row["id"]) for row in data_source("made", "train", data_dir=tmp_path)] == list(range(30))
    assert json.loads((tmp_path / "made/1.0.0/dataset_info.json").read_text())["disableShuffling"] is True


def test_metadata_of_the_folder(tmp_path):
    made = builder(
        description="About.",
        citation="Us.",
        license="MIT",
        urls=("https://example.org",),
        config="big",
        config_description="The big one.",
        default_config="big",
        release_notes={"1.0.0": "first"},
        supervised_keys=({"a": "image", "b": "id"}, "label"),
    ).download_and_prepare(data_dir=tmp_path)
    assert made.folder == tmp_path / "made" / "big" / "1.0.0"
    assert (made.description, made.citation, made.license) == ("About.", "Us.", "MIT")
    assert (made.urls, made.full_name) == (("https://example.org",), "made/big/1.0.0")
    assert made.supervised_keys == ({"a": "image", "b": "id"}, "label")
    assert (made.folder / "label.labels.txt").read_text(encoding="utf-8") == "a\nb\nü\n"
    assert json.loads((tmp_path / "made/.config/metadata.json").read_text()) == {"default_config_name": "big"}
    assert sorted(os.listdir(tmp_path / "made")) == [".config", "big"]
    assert len(data_source("made", "train", data_dir=tmp_path)) == 30


def test_statistics_are_those_of_the_values(tmp_path):
    made = builder().download_and_prepare(data_dir=tmp_path, num_shards=3)
    reported = made.fields["splits"][0]["statistics"]
    assert reported["numExamples"] == "30"
    by_name = {entry["name"]: entry for entry in reported["features"]}
    ids = by_name["id"]["numStats"]
    assert (ids["min"], ids["max"], ids["mean"], ids["numZeros"]) == (0, 29, 14.5, "1")
    assert ids["stdDev"] == pytest.approx(np.arange(30).std())
    assert by_name["deep/x"]["type"] == "FLOAT"
    sizes = [len(f"text {i} é".encode()) for i in range(30)]
    assert by_name["deep/text"]["bytesStats"]["avgNumBytes"] == pytest.approx(np.mean(sizes))
    assert by_name["image"]["bytesStats"]["minNumBytes"] > 50
    counts = [len(example(i)["words"]) for i in range(30)]
    words = [len(word.encode()) for i in range(30) for word in example(i)["words"]]
    reported = by_name["words"]["bytesStats"]
    assert reported["avgNumBytes"] == pytest.approx(np.mean(words))
    filled = [count for count in counts if count]
    assert reported["commonStats"] == {
        "numNonMissing": str(len(filled)),
        **({"numMissing": str(30 - len(filled))} if len(filled) < 30 else {}),
        "minNumValues": str(min(filled)),
        "maxNumValues": str(max(filled)),
        "avgNumValues": pytest.approx(np.mean(filled)),
        "totNumValues": str(sum(counts)),
    }
    assert by_name["id"]["numStats"]["commonStats"]["totNumValues"] == "30"


def test_statistics_of_what_varies_nests_or_is_missing(tmp_path):
    rows = [
        {
            "deep": [[float(j)] * j for j in range(i % 4)],
            "maybe": None if i % 5 == 0 else i,
            "boxes": {"label": list(range(i % 3))},
            "varying": np.full((i % 2, 2), i, np.float32),
            "never": [],
        }
        for i in range(20)
    ]
    features = {
        "deep": Sequence(Sequence("float32")),
        "maybe": Tensor(shape=(), dtype="int64", optional=True),
        "boxes": Sequence({"label": "int64"}),
        "varying": Tensor(shape=(None, 2), dtype="float32"),
        "never": Sequence("int64"),
    }
    made = DatasetBuilder(name="varied", features=features, splits={"train": rows}).download_and_prepare(
        data_dir=tmp_path
    )
    reported = {entry["name"]: entry["numStats"] for entry in made.fields["splits"][0]["statistics"]["features"]}
    deep = [value for row in rows for inner in row["deep"] for value in inner]
    assert (reported["deep"]["mean"], reported["deep"]["max"]) == (pytest.approx(np.mean(deep)), 2)
    assert reported["deep"]["commonStats"]["totNumValues"] == str(len(deep))
    assert reported["maybe"]["commonStats"]["numNonMissing"] == "16"
    assert reported["maybe"]["commonStats"]["numMissing"] == "4"
    assert reported["boxes/label"]["commonStats"]["maxNumValues"] == "2"
    assert reported["varying"]["commonStats"] == {
        "numNonMissing": "10",
        "numMissing": "10",
        "minNumValues": "2",
        "maxNumValues": "2",
        "avgNumValues": 2.0,
        "totNumValues": "20",
    }
    assert reported["never"] == {"commonStats": {"numMissing": "20"}}


def test_an_existing_folder_is_used(tmp_path):
    calls = []

    def rows():
        calls.append(1)
        return [example(0)]

    made = builder(splits={"train": rows})
    first = made.download_and_prepare(data_dir=tmp_path)
    before = {p: p.stat().st_mtime_ns for p in first.folder.iterdir()}
    made.download_and_prepare(data_dir=tmp_path)
    assert {p: p.stat().st_mtime_ns for p in first.folder.iterdir()} == before
    assert calls == [1]


def test_a_different_existing_folder_is_refused(tmp_path):
    builder().download_and_prepare(data_dir=tmp_path)
    with pytest.raises(UnsupportedData, match="files of array_record"):
        builder().download_and_prepare(data_dir=tmp_path, file_format="array_record")
    with pytest.raises(UnsupportedData, match="Raise the version"):
        builder(features={"id": "int64"}, splits={"train": [{"id": 1}]}).download_and_prepare(data_dir=tmp_path)


@pytest.mark.parametrize(
    ("feature", "value"),
    [
        (Tensor(shape=(), dtype="float32"), 1e300),
        (Tensor(shape=(2,), dtype="float32"), np.array([1.0, -1e300])),
        (Tensor(shape=(), dtype="float16"), 70000.0),
        (Tensor(shape=(), dtype="float16"), 70000),
        (Tensor(shape=(), dtype="float64"), 1e300),
        (Tensor(shape=(), dtype="float64", encoding="bytes"), 2**53 + 1),
        (Tensor(shape=(), dtype="float32"), 2**53 + 1),
        (Tensor(shape=(2,), dtype="float32"), [2**24 + 1, 0.5]),
        (Tensor(shape=(), dtype="complex64", encoding="bytes"), 1e300 + 0j),
        (Tensor(shape=(2,), dtype="int64"), np.ma.array([1, 2], mask=[0, 1])),
        (Tensor(shape=(2,), dtype="string"), np.ma.array(["a", "b"], mask=[0, 1])),
        (Audio(shape=(None,)), np.ma.array([1, 2], mask=[0, 1])),
        (Image(shape=(1, 1, 1)), np.ma.array([[[1]]], mask=[[[1]]], dtype=np.uint8)),
        (BBoxFeature(bbox_format="XYXY"), [0, 0, 1, 1e300]),
    ],
)
def test_numbers_that_would_change_are_refused(tmp_path, feature, value):
    made = DatasetBuilder(name="d", features={"x": feature}, splits={"train": [{"x": value}]})
    with pytest.raises(SchemaMismatch, match=r"split 'train', key 0, record 0, feature 'x'"):
        made.download_and_prepare(data_dir=tmp_path, progress=False)
    assert not list(tmp_path.glob("d/1.0.0"))


@pytest.mark.parametrize(
    ("feature", "value", "stored"),
    [
        (Tensor(shape=(), dtype="float32"), np.inf, np.inf),
        (Tensor(shape=(), dtype="float32"), 0.1, np.float32(0.1)),
        (Tensor(shape=(2,), dtype="float32"), np.array([np.nan, -np.inf]), [np.nan, -np.inf]),
        (Tensor(shape=(), dtype="float32"), float(np.finfo(np.float32).max), np.finfo(np.float32).max),
        (Tensor(shape=(), dtype="float64"), 0.1, np.float32(0.1)),
        (Tensor(shape=(), dtype="float64", encoding="bytes"), 2**53, 2.0**53),
        (Tensor(shape=(2,), dtype="float64"), np.ma.array([1.0, 2.0], mask=[0, 1]), [1.0, np.nan]),
        (Tensor(shape=(2,), dtype="int64"), np.ma.array([1, 2]), [1, 2]),
    ],
)
def test_numbers_that_are_only_rounded_are_stored(tmp_path, feature, value, stored):
    made = DatasetBuilder(name="d", features={"x": feature}, splits={"train": [{"x": value}]})
    made.download_and_prepare(data_dir=tmp_path, progress=False)
    np.testing.assert_array_equal(data_source("d", "train", data_dir=tmp_path)[0]["x"], stored)


@pytest.mark.parametrize(
    ("example", "place"),
    [
        ({"t": "\ud800"}, "key 0, record 0, feature 't'"),
        (("\ud800", {"t": "a"}), "key '\\ud800', record 0"),
    ],
)
def test_half_a_surrogate_pair_is_refused_with_its_place(tmp_path, example, place):
    made = DatasetBuilder(name="d", features={"t": "string"}, splits={"train": [example]})
    with pytest.raises(SchemaMismatch, match="half a surrogate pair") as caught:
        made.download_and_prepare(data_dir=tmp_path, progress=False)
    assert f"split 'train', {place}" in str(caught.value)


def test_a_text_is_no_sequence_and_other_bytes_are_no_class(tmp_path):
    for feature, value, found in (
        (Sequence(Text()), "abc", "the text 'abc'"),
        (ClassLabel(names=["a"]), b"\xff", "xff"),
    ):
        made = DatasetBuilder(name="d", features={"x": feature}, splits={"train": [{"x": value}]})
        with pytest.raises(SchemaMismatch, match=found):
            made.download_and_prepare(data_dir=tmp_path, progress=False)


def test_supervised_keys_are_checked_before_any_work(tmp_path):
    def splits(_):
        raise AssertionError("called")

    with pytest.raises(NoSuchFeature, match=r"found 'lable'.*Did you mean 'label'"):
        builder(splits=splits, supervised_keys=("deep", {"y": "lable"})).download_and_prepare(data_dir=tmp_path)
    made = builder(supervised_keys=("deep", "label")).download_and_prepare(data_dir=tmp_path)
    assert list(data_source("made", "train", data_dir=tmp_path).supervised().schema) == ["deep/x", "deep/text", "label"]
    assert made.supervised_keys == ("deep", "label")


@pytest.mark.parametrize("features", ["int64", Scalar("int64"), Text()])
def test_features_without_names_are_refused_before_any_work(tmp_path, features):
    with pytest.raises(UnsupportedData, match=r"expected a dict of features.*Give it a name"):
        builder(features=features).download_and_prepare(data_dir=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_default_config_is_a_config():
    with pytest.raises(ValueError, match="default_config"):
        builder(config="a", default_config='a"b')


class Odd(Exception):
    pass


def broken():
    yield 0, example(0)
    raise Odd


@pytest.mark.parametrize(
    ("splits", "error", "words"),
    [
        ({"train": broken}, Odd, None),
        ({"train": [example(0), {"id": 1}]}, SchemaMismatch, r"split 'train', key 1, record 1"),
        ({"train": [{**example(0), "label": 9}]}, SchemaMismatch, "label"),
        ({"train": [("a", example(0)), ("a", example(1))]}, SchemaMismatch, "'a' twice"),
        ({"train": []}, SchemaMismatch, "examples of split 'train'"),
        ({}, UnsupportedData, "at least one split"),
        ({"all": [example(0)]}, ValueError, "all"),
        ({"../x": [example(0)]}, ValueError, "letters"),
    ],
)
def test_failures_leave_nothing(tmp_path, splits, error, words):
    with pytest.raises(error, match=words):
        builder(splits=splits).download_and_prepare(data_dir=tmp_path)
    assert [p.name for p in (tmp_path / "made").iterdir()] == [".1.0.0.lock"]


@pytest.mark.parametrize("wrong", [{"name": "a/b"}, {"name": ""}, {"version": "1.0"}, {"config": "a/b"}, {"name": "ü"}])
def test_builders_are_validated(wrong):
    with pytest.raises(ValueError, match="expected"):
        builder(**wrong)


@pytest.mark.parametrize("wrong", [{"file_format": "parquet"}, {"num_shards": 0}])
def test_arguments_are_checked(tmp_path, wrong):
    with pytest.raises(ValueError, match="must be"):
        builder().download_and_prepare(data_dir=tmp_path, **wrong)


def test_more_files_than_examples(tmp_path):
    with pytest.raises(UnsupportedData, match="at least one example"):
        builder().download_and_prepare(data_dir=tmp_path, num_shards=6)


def test_every_feature_that_is_a_label_has_its_file(tmp_path):
    features = FeaturesDict(
        {"a": {"b/c": ClassLabel(names=["x"])}, "mask": LabeledImage(labels=["p", "q"]), "n": ClassLabel(num_classes=3)}
    )
    rows = [{"a": {"b/c": "x"}, "mask": np.zeros((2, 2, 1), np.uint8), "n": 2}]
    made = builder(features=features, splits={"train": rows}).download_and_prepare(data_dir=tmp_path)
    assert sorted(p.name for p in made.folder.glob("*.txt")) == ["a-b.c.labels.txt", "mask.labels.txt"]
    assert made.features == features


def test_two_at_once_make_it_once(tmp_path):
    calls = []

    def rows():
        calls.append(1)
        yield from (example(i) for i in range(30))

    made = builder(splits={"train": rows})
    threads = [threading.Thread(target=made.download_and_prepare, kwargs={"data_dir": tmp_path}) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calls == [1]
    assert len(data_source("made", "train", data_dir=tmp_path)) == 30


KILLED = """
import sys, time
from headrace.datasets.building import DatasetBuilder
def rows():
    yield {"x": 1}
    print("half", flush=True)
    time.sleep(600)
DatasetBuilder(name="made", features={"x": "int64"}, splits={"train": rows}).download_and_prepare(data_dir=sys.argv[1])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_a_killed_process_leaves_nothing_that_lasts(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"half\n"
    waiting = DatasetBuilder(name="made", features={"x": "int64"}, splits={"train": [{"x": 2}]})
    thread = threading.Thread(target=waiting.download_and_prepare, kwargs={"data_dir": tmp_path})
    thread.start()
    assert not (tmp_path / "made" / "1.0.0").exists()
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    thread.join()
    assert [row["x"] for row in data_source("made", "train", data_dir=tmp_path)] == [2]
    assert sorted(p.name for p in (tmp_path / "made").iterdir()) == [".1.0.0.lock", "1.0.0"]


def test_a_serialised_example_will_do(tmp_path):
    builder().download_and_prepare(data_dir=tmp_path)
    payloads = [bytes(payload) for payload in data_source("made", "test", data_dir=tmp_path).records]
    builder(name="copy", splits={"test": payloads}, shuffled=False).download_and_prepare(data_dir=tmp_path)
    both = [data_source(name, "test", data_dir=tmp_path) for name in ("made", "copy")]
    assert [int(row["id"]) for row in both[0]] == [int(row["id"]) for row in both[1]]


def test_a_schema_knows_the_names(tmp_path):
    builder().download_and_prepare(data_dir=tmp_path)
    assert data_source("made", "train", data_dir=tmp_path).schema["label"] == Feature("int64", names=("a", "b", "ü"))


def test_other_classes_in_an_existing_folder_are_refused(tmp_path):
    def prepare(label):
        made = DatasetBuilder(name="made", features={"y": label}, splits={"train": [{"y": 0}]})
        return made.download_and_prepare(data_dir=tmp_path)

    prepare(ClassLabel(names=["a", "b"]))
    assert prepare(ClassLabel(names=["a", "b"])).features["y"].names == ["a", "b"]
    assert prepare(ClassLabel(num_classes=2)).features["y"].names == ["a", "b"]
    for other in (ClassLabel(names=["b", "a"]), ClassLabel(names=["a", "b", "c"]), ClassLabel(num_classes=3)):
        with pytest.raises(UnsupportedData, match=r"classes, .* found 2, \['a', 'b'\].*Raise the version"):
            prepare(other)


def test_episodes(tmp_path):
    def prepare(dtype):
        steps = [{"action": 1, "reward": 0.5}, {"action": 2, "reward": 1.5}]
        features = {"steps": Dataset({"action": dtype, "reward": "float32"})}
        made = DatasetBuilder(name="made", features=features, splits={"train": [{"steps": steps}]})
        return made.download_and_prepare(data_dir=tmp_path)

    prepare("int64")
    prepare("int64")
    steps = data_source("made", "train", data_dir=tmp_path)[0]["steps"]
    assert [int(step["action"]) for step in steps] == [1, 2]
    with pytest.raises(UnsupportedData, match="Raise the version"):
        prepare("int32")


@pytest.mark.parametrize("name", ["a\nb", "a\rb", "", " c", "e\x85", "\ud800"])
def test_classes_that_a_file_of_names_cannot_hold(tmp_path, name):
    def rows():
        raise AssertionError("nothing is read before the names are checked")

    made = DatasetBuilder(name="made", features={"y": ClassLabel(names=["ok", name])}, splits={"train": rows})
    with pytest.raises(UnsupportedData, match=r"names of classes that fit on a line.*y\.labels\.txt"):
        made.download_and_prepare(data_dir=tmp_path)
