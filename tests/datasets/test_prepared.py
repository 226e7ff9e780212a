"""dataset_info.json in its forms, and damaged."""

import json

import pytest

from headrace.datasets import PreparedSplit
from headrace.datasets.prepared import read_prepared, shard_names
from headrace.errors import CorruptFile, DataError, NoFiles, UnsupportedData

FEATURES = {
    "pythonClassName": "x.FeaturesDict",
    "featuresDict": {"features": {"a": {"pythonClassName": "x.Text", "text": {}}}},
}


def prepared(tmp_path, fields, features=FEATURES):
    (tmp_path / "dataset_info.json").write_text(fields if isinstance(fields, str) else json.dumps(fields))
    if features is not None:
        (tmp_path / "features.json").write_text(features if isinstance(features, str) else json.dumps(features))
    return read_prepared(tmp_path)


def test_the_fields(tmp_path):
    found = prepared(
        tmp_path,
        {
            "name": "wiki",
            "configName": "en",
            "version": "2.0.1",
            "description": "Texts.",
            "citation": "@x",
            "location": {"urls": ["https://example.org"]},
            "redistributionInfo": {"license": "CC"},
            "fileFormat": "array_record",
            "alternativeFileFormats": ["tfrecord", "unheard-of"],
            "splits": [{"name": "train", "shardLengths": ["3", 4], "numBytes": "99", "filepathTemplate": "{SPLIT}/x"}],
            "supervisedKeys": {
                "tuple": {"items": [{"featureKey": "a"}, {"dict": {"dict": {"b": {"featureKey": "c"}}}}]}
            },
            "somethingNew": {"x": 1},
        },
    )
    assert found.full_name == "wiki/en/2.0.1"
    assert found.splits["train"] == PreparedSplit(
        name="train", shard_lengths=(3, 4), num_shards=2, num_bytes=99, template="{SPLIT}/x"
    )
    assert found.splits["train"].num_examples == 7
    assert found.supervised_keys == ("a", {"b": "c"})
    assert (found.file_format, found.other_formats) == ("array_record", ("tfrecord",))
    assert (found.license, found.urls, found.citation) == ("CC", ("https://example.org",), "@x")
    assert found.fields["somethingNew"] == {"x": 1}


def test_old_folders_say_less(tmp_path):
    found = prepared(
        tmp_path,
        {
            "name": "old",
            "sizeInBytes": "77",
            "splits": [{"name": "test", "numShards": "2", "statistics": {"numExamples": "5"}}],
            "supervisedKeys": {"input": "image", "output": "label"},
        },
    )
    assert found.file_format == "tfrecord"
    assert (found.splits["test"].num_shards, found.splits["test"].num_examples) == (2, None)
    assert found.supervised_keys == ("image", "label")
    assert prepared(tmp_path, {"name": "bare"}).splits == {}


def test_names_of_the_protobuf_message_are_taken_too(tmp_path):
    found = prepared(
        tmp_path, {"config_name": "c", "splits": [{"name": "t", "shard_lengths": ["1"]}], "file_format": "riegeli"}
    )
    assert (found.config, found.splits["t"].shard_lengths, found.file_format) == ("c", (1,), "riegeli")


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ("", CorruptFile, "expected JSON"),
        ("[]", CorruptFile, "expected a JSON object, found list"),
        ("{\xff", CorruptFile, "expected JSON"),
        ({"splits": {"train": 1}}, CorruptFile, "splits as a list"),
        ({"splits": [{"shardLengths": ["1"]}]}, CorruptFile, "a split with a name"),
        ({"splits": [{"name": "t", "shardLengths": ["x"]}]}, CorruptFile, "shardLengths of t as integers"),
        ({"splits": [{"name": "t", "shardLengths": ["-1"]}]}, CorruptFile, "shardLengths of t as integers"),
        ({"splits": [{"name": "t", "shardLengths": [1.5]}]}, CorruptFile, "shardLengths of t as integers"),
        ({"splits": [{"name": "t", "shardLengths": 5}]}, CorruptFile, "shardLengths of t as a list"),
        (
            {"splits": [{"name": "t", "shardLengthz": ["1"], "numBytes": "9"}]},
            CorruptFile,
            "shardLengths of t, which has 9",
        ),
        ({"splits": [{"name": "t", "numShards": "99999999999"}]}, CorruptFile, "at most 10000000 files"),
        ({"fileFormat": "sqlite"}, UnsupportedData, "found 'sqlite'"),
        ({"supervisedKeys": {"tuple": {"items": [{"x": 1}]}}}, CorruptFile, "names of features as supervisedKeys"),
        ({"supervisedKeys": {"tuple": {"items": 5}}}, CorruptFile, "names of features as supervisedKeys"),
    ],
)
def test_damaged_ones_say_what_is_wrong(tmp_path, fields, error, message):
    with pytest.raises(error, match=message) as caught:
        prepared(tmp_path, fields)
    assert "dataset_info.json" in str(caught.value)


def test_missing_files(tmp_path):
    with pytest.raises(NoFiles, match="features.json, which holds the types"):
        prepared(tmp_path, {}, None)
    with pytest.raises(NoFiles, match="no such dataset_info.json"):
        read_prepared(tmp_path / "no")
    inside = tmp_path / "x"
    inside.mkdir()
    assert prepared(inside, {"features": FEATURES}, None).features["a"].shape == ()


@pytest.mark.parametrize("name", ["dataset_info.json", "features.json"])
def test_every_cut_and_flipped_byte_is_reported_or_harmless(tmp_path, name):
    prepared(
        tmp_path,
        {
            "name": "x",
            "splits": [{"name": "t", "shardLengths": ["3", "4"]}],
            "supervisedKeys": {"input": "a", "output": "b"},
        },
    )
    whole = (tmp_path / name).read_bytes()
    broken = [whole[:size] for size in range(len(whole))]
    broken += [whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :] for at in range(len(whole)) for bit in (1, 0x80)]
    for content in broken:
        (tmp_path / name).write_bytes(content)
        try:
            read_prepared(tmp_path)
        except DataError:
            continue


@pytest.mark.parametrize(
    ("template", "count", "names"),
    [
        ("", 1, ["d-s.tfrecord-00000-of-00001"]),
        ("{SPLIT}.{FILEFORMAT}", 2, ["s.tfrecord-00000-of-00002", "s.tfrecord-00001-of-00002"]),
        ("{SPLIT}/{SHARD_INDEX}of{NUM_SHARDS}.x", 2, ["s/00000of00002.x", "s/00001of00002.x"]),
        ("{DATASET}@{SHARD_X_OF_Y}", 1, ["d@00000-of-00001"]),
        ("", 0, []),
    ],
)
def test_names_of_shards(template, count, names):
    assert shard_names(template, dataset="d", split="s", file_format="tfrecord", count=count) == names


def test_more_shards_than_five_digits_hold():
    names = shard_names("", dataset="d", split="s", file_format="parquet", count=100_001)
    assert names[7] == "d-s.parquet-000007-of-100001"


@pytest.mark.parametrize(
    "template", ["{OTHER}", "../{SPLIT}", "/etc/{SPLIT}", "a/../../{SPLIT}", "{SPLIT.__class__}/{X}"]
)
def test_templates_stay_in_the_folder(template):
    with pytest.raises(CorruptFile, match="a template of file names inside the folder"):
        shard_names(template, dataset="d", split="s", file_format="tfrecord", count=1)


@pytest.mark.parametrize("name", ["..", "/etc", "../..", "http://127.0.0.1", "a/../.."])
def test_names_in_templates_stay_in_the_folder(name):
    with pytest.raises(CorruptFile, match=r"inside the folder.*which means"):
        shard_names("{DATASET}/{SPLIT}", dataset=name, split="s", file_format="tfrecord", count=1)
    with pytest.raises(CorruptFile, match="inside the folder"):
        shard_names("x/{SPLIT}/{SHARD_INDEX}", dataset="d", split=f"../{name}", file_format="tfrecord", count=1)
