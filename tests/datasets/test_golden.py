"""Folders that TensorFlow Datasets prepared, compared with its own reading."""

import base64
import json
import pickle
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from tests.datasets.alike import same_example

from headrace.contracts.values import Ragged
from headrace.datasets import Decoder, PartialDecoding, SkipDecoding, Steps, data_source
from headrace.errors import NoSuchFeature
from headrace.loading.loader import Loader

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "tfds"
SETS = ["numbers", "kinds", "images", "episodes", "sequences"]


def same_as_json(theirs, ours):
    """The results of ``as_data_source``, from the golden files."""
    if isinstance(theirs, dict) and "b64" in theirs:
        return base64.b64decode(theirs["b64"]) == ours
    if isinstance(theirs, dict) and "dtype" in theirs:
        tolerance = 2 if theirs["dtype"] == "uint8" else 0
        expected = np.array(theirs["value"], theirs["dtype"])
        return (
            ours.dtype == expected.dtype and ours.shape == expected.shape and np.allclose(ours, expected, 0, tolerance)
        )
    if isinstance(theirs, dict):
        return theirs.keys() == ours.keys() and all(same_as_json(theirs[name], ours[name]) for name in theirs)
    if isinstance(theirs, list):
        return len(theirs) == len(ours) and all(map(same_as_json, theirs, ours))
    return theirs == ours


@pytest.mark.parametrize("split", ["train", "test"])
def test_mini_is_what_tfds_data_source_gives(split):
    rows = json.loads((GOLDEN / f"array_record_{split}.json").read_text(encoding="utf-8"))
    source = data_source("mini", split, data_dir=GOLDEN / "array_record")
    assert len(source) == len(rows)
    batch = source.batch(range(len(rows)))
    for index, theirs in enumerate(rows):
        assert same_as_json(theirs, source.nested(source[index]))
        assert same_as_json(theirs, source.nested({name: column[index] for name, column in batch.items()}))


@pytest.mark.parametrize("split", ["train", "test"])
def test_tfrecord_holds_the_same_examples(split):
    def texts(file_format):
        return sorted(example["text"] for example in data_source("mini", split, data_dir=GOLDEN / file_format))

    assert texts("tfrecord") == texts("array_record")


@pytest.mark.parametrize("name", SETS)
def test_every_feature_is_what_tensorflow_reads(name):
    rows = json.loads((GOLDEN / "features" / f"{name}.json").read_text(encoding="utf-8"))
    source = data_source(name, "test", data_dir=GOLDEN / "features")
    batch = source.batch(np.arange(len(rows)))
    for index, (theirs, streamed) in enumerate(zip(rows, source, strict=True)):
        same_example(theirs, source.nested(source[index]), f"{name}[{index}]")
        same_example(theirs, source.nested({key: column[index] for key, column in batch.items()}), f"{name}[{index}]")
        same_example(theirs, source.nested(streamed), f"{name}[{index}]")


@pytest.mark.parametrize("name", SETS)
def test_the_schema_matches_the_values(name):
    source = data_source(name, "test", data_dir=GOLDEN / "features")
    batch = source.batch(np.arange(len(source)))
    assert list(batch) == list(source.schema)
    for key, feature in source.schema.items():
        column = batch[key]
        if isinstance(column, np.ndarray) and "maybe" not in key:
            assert column.dtype == feature.numpy_dtype, key
            assert all(a in (None, b) for a, b in zip(feature.shape, column.shape[1:], strict=True)), key
        if isinstance(column, Ragged):
            assert feature.shape[0] is None, key
            assert column.dtype == feature.numpy_dtype, key


@pytest.mark.parametrize("name", SETS)
def test_no_examples_at_all(name):
    source = data_source(name, "test", data_dir=GOLDEN / "features")
    empty, full = source.batch([]), source.batch([0])
    for key in full:
        if isinstance(full[key], np.ndarray):
            assert empty[key].dtype == full[key].dtype, key
        assert len(empty[key]) == 0, key


@pytest.mark.parametrize("name", SETS)
def test_batches_are_the_rows_in_any_order(name):
    source = data_source(name, "test", data_dir=GOLDEN / "features")
    order = [3, 0, 3, 4]
    batch = source.batch(order)
    for position, index in enumerate(order):
        for key, value in source[index].items():
            found = batch[key][position]
            if isinstance(value, Steps):
                assert len(found) == len(value)
            else:
                assert repr(found) == repr(value), key


def double(example):
    return {"x": example["label"] * 2}


def first(source):
    return int(source[0]["label"]), source.batch([1])["label"].tolist()


def test_it_is_an_ordinary_source():
    source = data_source("mini", "train", data_dir=GOLDEN / "tfrecord")
    labels = source.batch(range(23))["label"].tolist()
    assert [int(example["label"]) for example in source] == labels
    assert source[5:10].batch([0, 4])["label"].tolist() == [labels[5], labels[9]]
    assert source[5:10].features is source.features
    assert source.shard(1, 2)[0]["label"] == labels[11]
    assert source.select("label").batch([2]).keys() == {"label"}
    assert source.map(double)[3]["x"] == labels[3] * 2
    assert pickle.loads(pickle.dumps(source))[7]["label"] == labels[7]
    assert [row["label"] for row in source.__getitems__([4, 2])] == [labels[4], labels[2]]
    loaded = [batch["label"].tolist() for batch in Loader(source.select("label", "image"), 5)]
    assert [label for batch in loaded for label in batch] == labels
    for method in ("fork", "spawn"):
        with get_context(method).Pool(1) as pool:
            assert pool.apply(first, (source,)) == (labels[0], [labels[1]])


def test_features_agree_with_tfds():
    source = data_source("mini", "train", data_dir=GOLDEN / "array_record")
    features = source.features
    assert features["label"].num_classes == 3
    assert features["label"].names == ["cat", "dog", "鳥"]
    assert (features["label"].int2str(2), features["label"].str2int("dog")) == ("鳥", 1)
    assert (features["image"].shape, features["image"].dtype) == ((8, 6, 3), np.uint8)
    assert features["boxes"].shape == {"bbox": (None, 4), "name": (None,)}
    assert features["boxes/bbox"].bbox_format == "REL_YXYX"
    assert features["doubles"].stored_dtype == "float32"
    assert "stored_dtype=float32" in repr(features["doubles"])
    assert source.schema["label"].names == ("cat", "dog", "鳥")
    assert source.supervised_keys == ("image", "label")
    assert list(source.supervised()[0]) == ["image", "label"]
    assert repr(source[:3]).startswith("<mini/1.2.0 'train' of 3 examples")


def test_names_with_slashes_are_not_split():
    source = data_source("kinds", "test", data_dir=GOLDEN / "features")
    assert source[2]["image/id"] == 2
    assert source.nested(source[2])["image/id"] == 2
    assert source.nested(source[2])["deep"]["er/"].keys() == {"label", "v"}
    assert source.features["deep"]["er/"]["label"].names == ["x", "y"]
    assert list(source.select("deep").schema) == ["deep/er//label", "deep/er//v"]


def test_missing_optional_values_are_none():
    source = data_source("kinds", "test", data_dir=GOLDEN / "features")
    column = source.batch([0, 1, 2])["maybe"]
    assert column.tolist() == [0, None, 2]
    assert source[1]["maybe"] is None
    assert isinstance(source[0]["maybe"], np.int32)


def test_values_that_tfds_cannot_read_as_numpy():
    numbers = data_source("numbers", "test", data_dir=GOLDEN / "features")
    assert numbers.batch(range(5))["uint64"].max() > 1 << 63
    frames = data_source("images", "test", data_dir=GOLDEN / "features").batch(range(3))["nested_frames"]
    assert frames[2][1].shape == (1, 2, 2, 3)


def test_episodes_are_decoded_step_by_step():
    source = data_source("episodes", "test", data_dir=GOLDEN / "features")
    steps = source[3]["steps"]
    assert len(steps) == 3
    assert steps[1]["observation/state"].tolist() == [3.0, 1.0]
    assert steps[-1]["words"].tolist() == [b"w", b"w"]
    assert [step["action"] for step in steps[1:]] == [1, 2]
    assert [step["action"] for step in steps[::-2]] == [2, 0]
    batch = steps.batch([2, 0])
    assert batch["reward"].tolist() == [1.0, 0.0]
    assert batch["observation/image"].shape == (2, 4, 4, 3)
    assert steps.batch()["words"].to_list() == [[], [b"w"], [b"w", b"w"]]
    assert list(source[2]["plain"]) == [0, 1]
    assert len(pickle.loads(pickle.dumps(steps))) == 3
    assert "3 examples" in repr(steps)
    with pytest.raises(IndexError, match="outside 3 steps"):
        steps[3]
    assert source.schema["steps"].dtype == "examples"


def brighter(image, feature):
    assert feature.shape == (9, 7, 3)
    return np.frombuffer(image, np.uint8)[:4]


def test_decoders():
    folder = GOLDEN / "features"
    skipped = data_source("images", "test", {"png": SkipDecoding(), "video": SkipDecoding()}, folder)
    assert skipped[0]["png"].startswith(b"\x89PNG")
    assert skipped.schema["png"].dtype == "bytes"
    assert skipped.schema["png"].encoding == "png"
    assert [frame[:4] for frame in skipped[2]["video"]] == [b"\x89PNG"] * 2
    own = data_source("images", "test", {"png": Decoder(function=brighter, dtype="uint8", shape=(4,))}, folder)
    assert own.batch([0, 1])["png"].tolist() == [[0x89, 0x50, 0x4E, 0x47]] * 2
    with pytest.raises(NoSuchFeature, match="found 'pnk'"):
        data_source("images", "test", {"pnk": SkipDecoding()}, folder)
    with pytest.raises(TypeError, match="a decoder is"):
        data_source("images", "test", {"png": "skip"}, folder)
    steps = data_source("episodes", "test", {"steps": {"observation": {"image": SkipDecoding()}}}, folder)[2]["steps"]
    assert steps[0]["observation/image"].startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        (["text", "label"], ["label", "text"]),
        ({"objects": {"bbox": True, "name": False}, "text": True}, ["objects/bbox", "text"]),
        ({"objects": ["kind"]}, ["objects/kind"]),
        ({"deep": True, "text": False}, ["deep/er//label", "deep/er//v"]),
    ],
)
def test_partial_decoding(spec, names):
    source = data_source("kinds", "test", PartialDecoding(spec), GOLDEN / "features")
    assert sorted(source.schema) == sorted(names)
    assert sorted(source[0]) == sorted(names)


def test_partial_decoding_names_what_is_not_there():
    with pytest.raises(NoSuchFeature, match="found 'bbix'"):
        data_source("kinds", "test", PartialDecoding({"objects": ["bbix"]}), GOLDEN / "features")


def test_images_can_be_read_encoded():
    source = data_source("images", "test", data_dir=GOLDEN / "features")
    stored = source.select("png", "jpeg").encoded()
    assert stored[0]["jpeg"].startswith(b"\xff\xd8")
