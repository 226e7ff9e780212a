"""features.json in all forms that TFDS has written."""

import json
from pathlib import Path

import numpy as np
import pytest

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
    Translation,
    TranslationVariableLanguages,
    Video,
)
from headrace.datasets.features.reading import feature_from_json, read_features
from headrace.errors import CorruptFile, UnsupportedData

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "tfds"
ALL = [
    Scalar("int32"),
    Scalar("float32", optional=True, description="how much", value_range="0 to 1"),
    Tensor(shape=(None, 3), dtype="float64"),
    Tensor(shape=(None, None), dtype="bfloat16", encoding="zlib"),
    Tensor(shape=(2,), dtype="uint8", encoding="bytes", minimum=0, maximum=9),
    ClassLabel(num_classes=7),
    ClassLabel(),
    Text(),
    Image(),
    Image(shape=(28, 28, 1), encoding_format="png", use_colormap=True),
    Image(shape=(None, None, 1), dtype="float32"),
    LabeledImage(labels=4),
    Video(shape=(None, 4, 4, 3), encoding_format="jpeg", ffmpeg_extra_args=["-r", "1"]),
    Audio(file_format="wav", shape=(None, 2), dtype="int16", sample_rate=44100, encoding="zlib"),
    Audio(lazy_decode=True),
    BBoxFeature(),
    BBoxFeature(bbox_format="XYWH"),
    Sequence("int64", 3),
    Sequence({"a": Sequence(Text()), "b": Image()}),
    Dataset({"observation": {"x": Tensor(shape=(2,), dtype="float32")}}),
    Translation(["en", "fr"]),
    TranslationVariableLanguages(["de", "en"]),
    TranslationVariableLanguages(),
    FeaturesDict({"a/b": "int64", "c": {"d": bool, "e": str}}),
]


@pytest.mark.parametrize("feature", ALL, ids=repr)
def test_json_and_back(feature):
    tree = json.loads(json.dumps(feature.to_json()))
    again = feature_from_json(tree)
    assert again == feature
    assert hash(again) == hash(feature)
    assert again.to_json() == tree
    assert again.description == feature.description
    assert eval(repr(type(feature).__name__)) == type(again).__name__


@pytest.mark.parametrize("path", sorted(GOLDEN.rglob("features.json")), ids=lambda path: path.parts[-3])
def test_files_equal_those_of_tfds(path):
    assert read_features(path).to_json() == json.loads(path.read_text(encoding="utf-8"))


OLD = "tensorflow_datasets.core.features."


@pytest.mark.parametrize(
    ("tree", "feature"),
    [
        ({"type": OLD + "text_feature.Text", "content": None}, Text()),
        ({"type": OLD + "class_label_feature.ClassLabel", "content": '{"num_classes": 3}'}, ClassLabel(num_classes=3)),
        (
            {
                "type": OLD + "image_feature.Image",
                "content": {"shape": [None, None, 3], "dtype": "uint8", "encoding_format": "jpeg"},
            },
            Image(encoding_format="jpeg"),
        ),
        (
            {"type": OLD + "feature.Tensor", "content": {"shape": [2, None], "dtype": "string", "encoding": "none"}},
            Tensor(shape=(2, None), dtype="string"),
        ),
        (
            {
                "type": OLD + "sequence_feature.Sequence",
                "content": {
                    "feature": {"type": OLD + "scalar.Scalar", "content": '{"dtype": "tf.int64"}'},
                    "length": None,
                },
            },
            Sequence("int64"),
        ),
        (
            {
                "type": OLD + "features_dict.FeaturesDict",
                "proto_cls": "tensorflow_datasets.FeaturesDict",
                "content": json.dumps({"features": {"a": {"pythonClassName": OLD + "text_feature.Text", "text": {}}}}),
            },
            FeaturesDict({"a": Text()}),
        ),
        (
            {
                "type": OLD + "video_feature.Video",
                "content": {"shape": [None, 2, 2, 3], "encoding_format": "png", "ffmpeg_extra_args": []},
            },
            Video(shape=(None, 2, 2, 3)),
        ),
        ({"pythonClassName": "somebody.TheirLabel", "classLabel": {"numClasses": "2"}}, ClassLabel(num_classes=2)),
        (
            {"pythonClassName": OLD + "image_feature.Image", "jsonFeature": {"json": '{"shape": [2, 2, 1]}'}},
            Image(shape=(2, 2, 1)),
        ),
        (
            {"python_class_name": OLD + "text_feature.Text", "text": {}, "value_range": "words"},
            Text(value_range="words"),
        ),
        ({"type": OLD + "bounding_boxes.BBoxFeature", "content": {}}, BBoxFeature(bbox_format=None)),
        ({"type": OLD + "translation_feature.Translation", "content": {"languages": ["en"]}}, Translation(["en"])),
    ],
)
def test_older_forms(tree, feature):
    assert feature_from_json(tree) == feature


@pytest.mark.parametrize(
    ("tree", "error", "message"),
    [
        ([], CorruptFile, "a feature as a JSON object"),
        ({"pythonClassName": "their.Thing"}, UnsupportedData, "found one of their.Thing"),
        ({"pythonClassName": "x.Tensor", "tensor": {"dtype": "float99"}}, UnsupportedData, "found 'float99'"),
        ({"pythonClassName": "x.Tensor", "tensor": {}}, CorruptFile, "the parameters of Tensor"),
        (
            {"pythonClassName": "x.Tensor", "tensor": {"shape": {"dimensions": [10**30]}, "dtype": "int64"}},
            CorruptFile,
            "a length is an integer from 0 to 2147483648",
        ),
        (
            {"pythonClassName": "x.Tensor", "tensor": {"dtype": "int8", "shape": {"dimensions": ["x"]}}},
            CorruptFile,
            "parameters",
        ),
        (
            {"pythonClassName": "x.Tensor", "tensor": {"dtype": "int8", "shape": {"dimensions": ["-5"]}}},
            CorruptFile,
            "parameters",
        ),
        (
            {"pythonClassName": "x.Tensor", "tensor": {"dtype": "int8", "encoding": "lzma"}},
            CorruptFile,
            "encoding must be",
        ),
        ({"pythonClassName": "x.Image", "image": {"shape": {"dimensions": ["3"]}}}, CorruptFile, "an image is"),
        ({"pythonClassName": "x.Sequence", "sequence": {}}, CorruptFile, "the parameters of Sequence"),
        ({"type": "x.Text", "content": "{"}, CorruptFile, "JSON in a feature's content"),
        ({"type": "x.Text", "content": 5}, CorruptFile, "content as a JSON object"),
        ({"type": "x.Text", "content": {"use_encoder": True}}, UnsupportedData, "an encoder of old"),
        ({"type": "x.FeaturesDict", "content": {"features": []}}, CorruptFile, "the parameters of FeaturesDict"),
    ],
)
def test_values_that_are_not_features(tree, error, message):
    with pytest.raises(error, match=message):
        feature_from_json(tree)


def test_nothing_too_deep():
    tree = {"pythonClassName": "x.Text", "text": {}}
    for _ in range(200):
        tree = {"pythonClassName": "x.Sequence", "sequence": {"feature": tree}}
    with pytest.raises(CorruptFile, match="a feature as a JSON object"):
        feature_from_json(tree)


def test_the_top_is_a_dict_or_a_sequence(tmp_path):
    path = tmp_path / "features.json"
    path.write_text(json.dumps(Text().to_json()))
    with pytest.raises(CorruptFile, match="expected a FeaturesDict or a Sequence, found Text"):
        read_features(path)
    path.write_text('{"a": ' * 5000)
    with pytest.raises(CorruptFile, match="expected JSON"):
        read_features(path)


def test_shapes_and_dtypes():
    features = FeaturesDict({"x": Sequence({"y": Tensor(shape=(2,), dtype="bfloat16")}), "z": Text()})
    assert features.shape == {"x": {"y": (None, 2)}, "z": ()}
    assert features.dtype == {"x": {"y": np.float32}, "z": np.object_}
    assert features["x/y"].declared_dtype == "bfloat16"
    assert Sequence(ClassLabel(names=["a"])).names == ["a"]
    assert list(features.label_files("")) == []
    nested = FeaturesDict({"a/b": {"c": Sequence(ClassLabel(num_classes=2))}})
    assert [name for name, _ in nested.label_files("")] == ["a.b-c.labels.txt"]


def test_a_description_does_not_choose_files_to_read(tmp_path):
    (tmp_path / "secret").write_text("a\nb\n")
    image = {"pythonClassName": "LabeledImage", "image": {"shape": {"dimensions": ["-1", "-1", "1"]}}}
    with pytest.raises(CorruptFile, match="the number of classes, or their names"):
        feature_from_json({**image, "image": {**image["image"], "label": str(tmp_path / "secret")}})
