"""Damaged or contradictory prepared folders give errors with a position, and nothing else."""

import copy
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.datasets.test_opening import make

import headrace as hr
from headrace.contracts.feature import Feature
from headrace.contracts.values import Ragged
from headrace.datasets import SkipDecoding, data_source
from headrace.datasets.codec import FeaturesCodec, FeaturesEncoder
from headrace.datasets.features import Dataset, FeaturesDict, Image, Sequence, Tensor, Text
from headrace.errors import CorruptFile, CorruptRecord, HeadraceError, NoFiles, SchemaMismatch, UnsupportedData

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "tfds" / "features"
GONE = object()
WRONG = [
    *(GONE, None, True, 0, -1, 7, 2**63, 2**64, 10**30, 1.5, float("nan"), float("inf")),
    *("", "x", "-1", "99999999999", "1" * 5000, "../../etc", "a/b", "\ud800", "\0"),
    *([], ["x"], [None], {}, {"x": 1}, {"dimensions": ["-1", "-1"]}, [{"name": "train"}]),
]
NOT_READ = {"statistics", "schema", "citation", "description", "downloadChecksums", "releaseNotes", "location"}


def places(tree, path=()):
    yield path
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in inner:
        if key not in NOT_READ:
            yield from places(value, (*path, key))


def changed(tree, path, value):
    if not path:
        return value
    out = copy.deepcopy(tree)
    node = out
    for key in path[:-1]:
        node = node[key]
    if value is GONE:
        del node[path[-1]]
    else:
        node[path[-1]] = value
    return out


def read_everything(folder):
    for source in data_source(folder).values():
        n = min(len(source), 3)
        if n:
            batch = source.batch(range(n))
            source.nested(source[0])
            for column in batch.values():
                if hasattr(column[0], "batch"):
                    column[0].batch()
        if source.supervised_keys:
            source.supervised()


@pytest.mark.parametrize("file", ["dataset_info.json", "features.json"])
@pytest.mark.parametrize("name", ["sequences", "episodes"])
def test_whatever_is_in_the_description(tmp_path, name, file):
    folder = tmp_path / "1.0.0"
    shutil.copytree(GOLDEN / name / "1.0.0", folder)
    sound = json.loads((folder / file).read_text(encoding="utf-8"))
    refused = 0
    for number, path in enumerate(places(sound)):
        for value in WRONG[number % 4 :: 4] if path else WRONG[1:]:
            (folder / file).write_text(json.dumps(changed(sound, path, value)))
            try:
                read_everything(folder)
            except HeadraceError:
                refused += 1
    assert refused > 50


@pytest.mark.parametrize(
    ("feature", "words"),
    [
        (
            {"pythonClassName": "x.Tensor", "tensor": {"shape": {"dimensions": ["2", str(2**30)]}, "dtype": "uint8"}},
            "got",
        ),
        ({"pythonClassName": "x.Tensor", "tensor": {"shape": "99999999999", "dtype": "uint8"}}, "a list of at most 24"),
        (
            {"pythonClassName": "x.Tensor", "tensor": {"shape": {"dimensions": [2] * 25}, "dtype": "uint8"}},
            "at most 24",
        ),
        ({"pythonClassName": "x.Tensor", "tensor": {"shape": {}, "dtype": "1" * 5000}}, "a NumPy dtype"),
        ({"pythonClassName": "x.Tensor", "tensor": {"shape": {}, "dtype": "2i4"}}, "a NumPy dtype"),
        ({"pythonClassName": "x.ClassLabel", "classLabel": {"numClasses": 1.5}}, "numClasses is an integer"),
        ({"pythonClassName": "x.ClassLabel", "classLabel": {"names": "abc"}}, "names are a list of texts"),
        ({"pythonClassName": "x.Translation", "translation": {"languages": ["\ud800"]}}, "surrogates not allowed"),
    ],
)
def test_features_that_no_record_has(tmp_path, feature, words):
    folder = make(tmp_path / "1.0.0", [2])
    (folder / "features.json").write_text(
        json.dumps({"pythonClassName": "x.FeaturesDict", "featuresDict": {"features": {"n": feature}}})
    )
    if words == "got":
        data_source(folder, "train")  # 2 GiB in each is allowed
        return
    with pytest.raises((CorruptFile, UnsupportedData), match=words):
        data_source(folder, "train")


def test_no_memory_for_declared_shapes_that_are_not_there(tmp_path):
    large = {"t": Tensor(shape=(2**31,), dtype="uint8", encoding="bytes"), "i": Image(shape=(2**15, 2**14, 3))}
    for name, feature in large.items():
        codec = FeaturesCodec(FeaturesDict({name: feature}))
        payload = FeaturesEncoder(FeaturesDict({name: Text()})).encode({name: png() if name == "i" else b"abc"})
        with pytest.raises(SchemaMismatch) as caught:
            codec.decode_batch(codec.spans_of([payload] * 500))
        assert (caught.value.where.record, caught.value.where.feature) == (0, name)
    with pytest.raises(UnsupportedData, match="at most 2147483648 values"):
        FeaturesCodec(FeaturesDict({"s": Sequence(Tensor(shape=(2**20,), dtype="uint8"), length=2**20)}))


def png():
    return Image(shape=(1, 1, 3)).encode_example(np.zeros((1, 1, 3), np.uint8))


@pytest.mark.parametrize("lengths", [[-1, 1], [2**62] * 4 + [2], [2**63 - 1, 2**63 - 1, 4]])
def test_lengths_of_rows_that_overflow(lengths):
    codec = FeaturesCodec(FeaturesDict({"x": Sequence(Sequence("int32"))}))
    sound = FeaturesEncoder(codec.features).encode({"x": [[1], [2]]})
    flat = FeaturesEncoder(
        FeaturesDict({"x/ragged_flat_values": Sequence("int32"), "x/ragged_row_lengths_0": Sequence("int64")})
    )
    wrong = flat.encode({"x/ragged_flat_values": [1, 2], "x/ragged_row_lengths_0": lengths})
    with pytest.raises(SchemaMismatch, match="a length of") as caught:
        codec.decode_batch(codec.spans_of([sound, wrong]))
    assert (caught.value.where.record, caught.value.where.feature) == (1, "x")


@pytest.mark.parametrize("shape", [(300, 300, 3), (None, None, 3), (300, 300, 1)])
@pytest.mark.parametrize("place", [0, 3, 7])
def test_a_damaged_image_among_many_large_ones_is_named(shape, place):
    rng = np.random.default_rng(1)
    files = [Image(shape=(300, 300, 3)).encode_example(rng.integers(0, 256, (300, 300, 3), np.uint8)) for _ in range(8)]
    encoder = FeaturesEncoder(FeaturesDict({"x": Text()}))
    codec = FeaturesCodec(FeaturesDict({"x": Image(shape=shape)}))
    assert len(codec.decode_batch(codec.spans_of([encoder.encode({"x": file}) for file in files]))["x"]) == 8
    files[place] = files[place][:5000]
    with pytest.raises(CorruptRecord) as caught:
        codec.decode_batch(codec.spans_of([encoder.encode({"x": file}) for file in files]))
    assert (caught.value.where.record, caught.value.where.feature) == (place, "x")


def test_a_dataset_of_nothing():
    with pytest.raises(UnsupportedData, match="at least one feature"):
        FeaturesCodec(FeaturesDict({"steps": Dataset({})}))


@pytest.mark.parametrize(
    "template",
    [
        "../{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}",
        "/etc/{SPLIT}-{SHARD_X_OF_Y}",
        "a/../../{SHARD_X_OF_Y}",
        "\\..\\x",
        "{HOME}",
    ],
)
def test_files_outside_the_folder(tmp_path, template):
    folder = make(tmp_path / "1.0.0", [2])
    info = json.loads((folder / "dataset_info.json").read_text())
    info["splits"][0]["filepathTemplate"] = template
    (folder / "dataset_info.json").write_text(json.dumps(info))
    with pytest.raises(CorruptFile, match="inside the folder") as caught:
        data_source(folder, "train")
    assert caught.value.where.path == str(folder / "dataset_info.json")


def change_info(folder, change):
    info = json.loads((folder / "dataset_info.json").read_text())
    change(info)
    (folder / "dataset_info.json").write_text(json.dumps(info))


@pytest.mark.parametrize("name", ["../x", "a/../../b", "/etc/x"])
def test_names_that_lead_outside(tmp_path, name):
    folder = make(tmp_path / "1.0.0", [2])
    for file in folder.glob("made-*"):  # where the names would point
        for outside in ("x-train", "b-train", "x"):
            shutil.copy(file, tmp_path / file.name.replace("made-train", outside))
    change_info(folder, lambda info: info.update(name=name))
    with pytest.raises(CorruptFile, match="inside the folder"):
        data_source(folder, "train")
    change_info(folder, lambda info: (info.update(name="made"), info["splits"][0].update(name=name)))
    with pytest.raises((CorruptFile, NoFiles), match="inside the folder|files missing"):
        data_source(folder)


def test_two_splits_of_one_name(tmp_path):
    folder = make(tmp_path / "1.0.0", [2])
    change_info(folder, lambda info: info["splits"].append({**info["splits"][0], "shardLengths": ["1"]}))
    with pytest.raises(CorruptFile, match="'train' twice"):
        data_source(folder, "train")


@pytest.mark.parametrize(
    ("lengths", "found"), [(["3", "1"], "2"), (["1", "3"], "2"), (["2", "3"], "2"), (["0", "4"], "2")]
)
def test_files_with_other_numbers_of_examples(tmp_path, lengths, found):
    folder = make(tmp_path / "1.0.0", [2, 2])
    change_info(folder, lambda info: info["splits"][0].update(shardLengths=lengths))
    source = data_source(folder, "train")
    for read in (
        lambda: source[0],
        lambda: source.batch([0]),
        lambda: list(source),
        lambda: list(hr.Loader(source, 2)),
    ):
        with pytest.raises(CorruptFile, match=f"as dataset_info.json says, found {found}"):
            read()


def test_missing_files_and_folders_in_their_place(tmp_path):
    folder = make(tmp_path / "1.0.0", [2, 2])
    second = folder / "made-train.tfrecord-00001-of-00002"
    second.unlink()
    with pytest.raises(NoFiles, match="1 of 2 files missing: made-train.tfrecord-00001"):
        data_source(folder, "train")
    second.mkdir()
    with pytest.raises(NoFiles, match="1 of 2 files missing: made-train.tfrecord-00001"):
        data_source(folder, "train")


@pytest.mark.parametrize("content", [b"\xff\xfe", b"a\n\xff\n", b"a\na\n", b"a\nb\nc\n"])
def test_damaged_names_of_classes(tmp_path, content):
    folder = make(tmp_path / "1.0.0", [2])
    (folder / "label.labels.txt").write_bytes(content)
    with pytest.raises(CorruptFile) as caught:
        data_source(folder, "train")
    assert caught.value.where.path == str(folder / "label.labels.txt")


@pytest.mark.parametrize("content", [b"", b"\xff", b"{", b"[]", b"null", b"[" * 200])
@pytest.mark.parametrize("file", ["dataset_info.json", "features.json"])
def test_damaged_json(tmp_path, file, content):
    folder = make(tmp_path / "1.0.0", [2])
    (folder / file).write_bytes(content)
    with pytest.raises(CorruptFile) as caught:
        data_source(folder, "train")
    assert caught.value.where.path == str(folder / file)


def test_every_key_of_every_feature_with_every_wrong_list():
    rows = {
        "int64": [-1, 2**31, 2**63 - 1],
        "float32": [float("nan")],
        "bytes": [b"", b"\xff\xfe", b"\x89PNG\r\n\x1a\n", b"x\x9c"],
    }
    for name in ("kinds", "numbers", "images", "episodes", "sequences"):
        source = next(iter(data_source(GOLDEN / name / "1.0.0").values()))
        for codec in (source.codec, FeaturesCodec(source.codec.features, decoders=SkipDecoding())):
            sound = bytes(source.records[0])
            for key in codec.wire:
                for dtype, values in rows.items():
                    for value in values:
                        for count in (0, 3) if value is values[0] else (1,):
                            wrong_list(codec, sound, key, dtype, [value] * count)


def wrong_list(codec, sound, key, dtype, values):
    """A record in which this list replaces another: protobuf uses the last of two equal keys."""
    column = np.empty(len(values), object if dtype == "bytes" else dtype)
    column[:] = values
    one = hr.Schema({key: Feature(dtype, (None,))})
    from headrace.codecs.example.codec import ExampleCodec

    block, starts, sizes = ExampleCodec(one).encode_batch({key: Ragged(column, np.array([0, len(values)]))}, 1, 0, 0)
    wrong = sound + block[int(starts[0]) : int(starts[0] + sizes[0])].tobytes()
    try:
        batch = codec.decode_batch(codec.spans_of([sound, wrong]))
        for found in batch.values():
            if hasattr(found[1], "batch"):
                found[1].batch()
    except HeadraceError as error:
        assert error.where.feature is not None
        assert error.where.record is not None
