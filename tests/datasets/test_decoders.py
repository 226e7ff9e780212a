"""Undecoded features: one, a group, all."""

import io
import json
import pickle
import struct

import numpy as np
import pytest
from PIL import Image as Pillow
from tests.codecs.images.files import made, noise
from tests.contracts.test_random_keys import stated
from tests.datasets.test_opening import make
from tests.reference.tf_example import parse
from tests.reference.views import view

import headrace as hr
from headrace.contracts.strings import Strings
from headrace.contracts.values import Ragged
from headrace.datasets import Decoder, PartialDecoding, SkipDecoding, Steps, data_source
from headrace.datasets.codec import FeaturesCodec, FeaturesEncoder
from headrace.datasets.features import (
    Audio,
    BBoxFeature,
    ClassLabel,
    Dataset,
    FeaturesDict,
    Image,
    Scalar,
    Sequence,
    Tensor,
    Text,
    Translation,
    Video,
)
from headrace.datasets.pixels import _convert
from headrace.errors import NoSuchFeature, SchemaMismatch, UnsupportedData

SKIP = SkipDecoding()


def image(seed, height=4):
    return np.random.default_rng(seed).integers(0, 256, (height, 5, 3), np.uint8)


def ones(*shape):
    return np.ones(shape, np.int16)


SQUARES = Tensor(shape=(None, None), dtype="int16", encoding="bytes")
KINDS = {
    "scalar": (Scalar("int32"), [5, -7, 3]),
    "label": (ClassLabel(names=["a", "b"]), [0, 1, 0]),
    "text": (Text(), [b"a", b"", b"c"]),
    "box": (BBoxFeature(), [[0, 0, 1, 1]] * 3),
    "fixed": (Tensor(shape=(2, 3), dtype="float32"), [np.full((2, 3), i) for i in range(3)]),
    "rows": (Tensor(shape=(None, 3), dtype="float32"), [np.ones((i, 3)) for i in (2, 0, 1)]),
    "columns": (Tensor(shape=(3, None), dtype="int64"), [np.ones((3, i), int) for i in (2, 1, 4)]),
    "memory": (Tensor(shape=(2,), dtype="int16", encoding="bytes"), [ones(2)] * 3),
    "packed": (Tensor(shape=(None,), dtype="int16", encoding="zlib"), [ones(i) for i in (2, 0, 1)]),
    "squares": (SQUARES, [ones(2, i) for i in (2, 0, 1)]),
    "cubes": (Tensor(shape=(None, 2, None), dtype="int16", encoding="zlib"), [ones(3, 2, i) for i in (2, 4, 1)]),
    "image": (Image(shape=(4, 5, 3)), [image(i) for i in range(3)]),
    "images of sizes": (Image(), [image(i, 4 + i) for i in range(3)]),
    "video": (Video(shape=(None, 4, 5, 3)), [[image(i)] * i for i in (1, 0, 2)]),
    "sound": (Audio(), [np.arange(i) for i in (3, 0, 4)]),
    "translation": (Translation(["en", "fr"]), [{"en": "a", "fr": "b"}] * 3),
    "numbers": (Sequence("int32"), [[1, 2], [], [3]]),
    "pairs": (Sequence("int32", length=2), [[1, 2], [3, 4], [5, 6]]),
    "texts": (Sequence(Text()), [["a"], [], ["b", "c"]]),
    "frames": (Sequence(Image(shape=(4, 5, 3))), [[image(i)] * i for i in (1, 0, 2)]),
    "several squares": (Sequence(SQUARES), [[ones(2, 3)] * i for i in (1, 0, 2)]),
    "rows of rows": (Sequence(Sequence("int32")), [[[1], [2, 3]], [], [[], [4]]]),
    "rows of images": (Sequence(Sequence(Image(shape=(4, 5, 3)))), [[[image(1)]], [], [[], [image(2)]]]),
    "group": (
        FeaturesDict({"a": "int32", "i": Image(shape=(4, 5, 3)), "s": SQUARES}),
        [{"a": i, "i": image(i), "s": ones(2, i)} for i in range(3)],
    ),
    "groups": (
        Sequence({"a": "int32", "i": Image(shape=(4, 5, 3))}),
        [[{"a": j, "i": image(j)} for j in range(i)] for i in (1, 0, 2)],
    ),
    "perhaps": (Scalar("int32", optional=True), [5, None, 3]),
    "perhaps a list": (Tensor(shape=(None,), dtype="int32", optional=True), [[1, 2], None, []]),
    "perhaps texts": (Tensor(shape=(None,), dtype="string", optional=True), [None, ["a"], []]),
    "perhaps rows": (Tensor(shape=(2, None), dtype="float32", optional=True), [ones(2, 3), None, ones(2, 0)]),
    "perhaps squares": (
        Tensor(shape=(None, None), dtype="int16", encoding="bytes", optional=True),
        [ones(2, 3), None, ones(1, 1)],
    ),
}


def plain(value):
    """Lists, numbers and bytes."""
    if isinstance(value, (list, Ragged, Strings)) or (isinstance(value, np.ndarray) and value.dtype == object):
        return [plain(item) for item in value]
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def flat(value):
    if isinstance(value, list):
        return [item for inner in value for item in flat(inner)]
    return [] if value is None else [value]


@pytest.fixture(params=KINDS)
def kind(request, tmp_path):
    """A folder with one feature ``x``, and the payloads in it."""
    feature, values = KINDS[request.param]
    features = FeaturesDict({"x": feature})
    folder = make(tmp_path / "1.0.0", [2, 1], features=features, rows=[{"x": value} for value in values])
    return folder, [FeaturesEncoder(features).encode({"x": value}) for value in values]


def stored(payload):
    """All values of an Example by key, by a slow plain reader."""
    found, _ = parse(payload)
    return {
        key.decode(): [struct.unpack("<f", v)[0] for v in values] if kind == 2 else values
        for key, (kind, values) in found.items()
    }


@pytest.mark.parametrize(
    "decoders", [SKIP, {"x": SKIP}, PartialDecoding(True, SKIP), PartialDecoding(["x"], {"x": SKIP})]
)
def test_skipped_features_are_the_stored_values(kind, decoders):
    folder, payloads = kind
    source = data_source(folder, "train", decoders)
    batch = source.batch([0, 1, 2])
    assert list(batch) == list(source.schema)
    examples = [source[i] for i in range(3)]
    for i, payload in enumerate(payloads):
        expected = stored(payload)
        for name, column in batch.items():
            found = flat(plain(column[i]))
            assert found == expected.get(name, expected.get(f"{name}/ragged_flat_values", [])), name
            assert plain(examples[i][name]) == plain(column[i])
    assert [plain(list(example.values())) for example in source] == [plain(list(e.values())) for e in examples]
    for name, feature in source.schema.items():
        if isinstance(batch[name], np.ndarray) and batch[name].dtype != object:
            assert batch[name].dtype == feature.numpy_dtype


def test_skipping_survives_pickling_narrowing_and_loaders(kind):
    folder, _ = kind
    source = data_source(folder, "train", SKIP)
    whole = source.batch([0, 1, 2])
    again = pickle.loads(pickle.dumps(source))
    first = next(iter(source.schema))
    few = source.select(first)
    for found in (again.batch([0, 1, 2]), next(iter(hr.Loader(source, 3))), {**whole, **few.batch([0, 1, 2])}):
        assert {name: plain(list(column)) for name, column in found.items()} == {
            name: plain(list(column)) for name, column in whole.items()
        }
    assert list(few.schema) == [first]


def test_workers_give_skipped_values(tmp_path):
    rows = [{"s": ones(2, i), "i": image(i)} for i in range(4)]
    features = FeaturesDict({"s": SQUARES, "i": Image(shape=(4, 5, 3))})
    source = data_source(make(tmp_path / "1.0.0", [4], features=features, rows=rows), "train", SKIP)
    batches = list(hr.Loader(source, 2, map_batch=dict, workers=1))
    assert [plain(batch["s/shape"]) for batch in batches] == [[[2, 0], [2, 1]], [[2, 2], [2, 3]]]
    assert all(value.startswith(b"\x89PNG") for batch in batches for value in batch["i"])


def test_a_tensor_with_two_unknown_lengths_keeps_its_shape(tmp_path):
    features = FeaturesDict({"x": SQUARES, "n": "int64"})
    rows = [{"x": np.arange(6, dtype=np.int16).reshape(2, 3), "n": 1}]
    folder = make(tmp_path / "1.0.0", [1], features=features, rows=rows)
    source = data_source(folder, "train", {"x": SKIP})
    assert list(source.schema) == ["x/shape", "x/value", "n"]
    example = source[0]
    assert example["x/shape"].tolist() == [2, 3]
    assert example["x/shape"].dtype == np.int32
    assert np.frombuffer(example["x/value"], np.int16).reshape(example["x/shape"]).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert source.nested(example) == {"x": {"shape": example["x/shape"], "value": example["x/value"]}, "n": 1}
    assert list(source.select("x").schema) == ["x/shape", "x/value"]
    assert list(source.select("x/value")[0]) == ["x/value"]
    assert list(data_source(folder, "train", PartialDecoding(["x"], {"x": SKIP})).schema) == ["x/shape", "x/value"]


def unpacked(given, feature):
    assert feature == SQUARES
    return np.frombuffer(given["value"], np.int16).reshape(given["shape"]).sum()


def widest(given, feature):
    assert feature.shape == (3, None)
    return given.shape[1]


def test_a_function_gets_every_stored_value_in_its_shape(tmp_path):
    features = FeaturesDict({"x": SQUARES, "c": KINDS["columns"][0]})
    rows = [{"x": ones(2, 3), "c": np.ones((3, 2), int)}, {"x": ones(1, 1), "c": np.ones((3, 5), int)}]
    folder = make(tmp_path / "1.0.0", [2], features=features, rows=rows)
    own = {"x": Decoder(function=unpacked, dtype="int64"), "c": Decoder(function=widest, dtype="int64")}
    batch = data_source(folder, "train", own).batch([0, 1])
    assert batch["x"].tolist() == [6, 1]
    assert batch["c"].tolist() == [2, 5]


def test_a_group_is_skipped_but_for_what_has_a_decoder_of_its_own(tmp_path):
    features = FeaturesDict(
        {"g": {"i": Image(shape=(4, 5, 3)), "j": Image(shape=(4, 5, 3))}, "k": Image(shape=(4, 5, 3))}
    )
    rows = [{"g": {"i": image(1), "j": image(2)}, "k": image(3)}]
    folder = make(tmp_path / "1.0.0", [1], features=features, rows=rows)
    for decoders in ({"g": SKIP}, {"g": {"i": SKIP, "j": SKIP}}, {"g/i": SKIP, "g/j": SKIP}):
        example = data_source(folder, "train", decoders)[0]
        assert example["g/i"][:4] == example["g/j"][:4] == b"\x89PNG"
        assert example["k"].tolist() == image(3).tolist()
    first = Decoder(function=lambda file, feature: file[0], dtype="uint8")
    mixed = data_source(folder, "train", {"g/j": first, "g": SKIP})[0]
    assert mixed["g/j"] == 0x89
    assert mixed["g/i"][:4] == b"\x89PNG"


def test_steps_are_skipped_as_a_whole_or_in_part(tmp_path):
    inner = {"i": Image(shape=(4, 5, 3)), "s": SQUARES, "o": {"a": "int32"}}
    rows = [{"steps": [{"i": image(j), "s": ones(1, j), "o": {"a": j}} for j in range(n)]} for n in (2, 0)]
    folder = make(tmp_path / "1.0.0", [2], features=FeaturesDict({"steps": Dataset(inner)}), rows=rows)
    for decoders in (SKIP, {"steps": SKIP}):
        source = data_source(folder, "train", decoders)
        steps = source[0]["steps"]
        assert isinstance(steps, Steps)
        assert steps.batch()["s/shape"].tolist() == [[1, 0], [1, 1]]
        assert [file[:4] for file in steps.batch()["i"]] == [b"\x89PNG"] * 2
        assert steps[1]["o/a"] == 1
        assert len(source[1]["steps"]) == 0
    steps = data_source(folder, "train", {"steps": {"i": SKIP}})[0]["steps"]
    assert steps[1]["i"][:4] == b"\x89PNG"
    assert steps[1]["s"].tolist() == [[1]]


def test_a_dataset_of_single_values_takes_a_decoder(tmp_path):
    rows = [{"steps": [image(1), image(2)]}]
    folder = make(tmp_path / "1.0.0", [1], features=FeaturesDict({"steps": Dataset(Image(shape=(4, 5, 3)))}), rows=rows)
    assert data_source(folder, "train", {"steps": SKIP})[0]["steps"][1][:4] == b"\x89PNG"


@pytest.mark.parametrize(
    ("decoders", "error", "words"),
    [
        ("skip", TypeError, "for the dataset"),
        (7, TypeError, "a decoder is"),
        ({"g": None}, TypeError, "a decoder is"),
        (Decoder(function=len, dtype="int64"), TypeError, "the dataset"),
        ({"g": Decoder(function=len, dtype="int64")}, TypeError, "a Decoder is for one feature"),
        ({"g": {"z": SKIP}}, NoSuchFeature, "found 'g/z'"),
        ({"n": {"z": SKIP}}, NoSuchFeature, "found 'n/z'"),
    ],
)
def test_decoders_that_fit_nothing(tmp_path, decoders, error, words):
    features = FeaturesDict({"g": {"a": "int64"}, "n": "int64"})
    folder = make(tmp_path / "1.0.0", [1], features=features, rows=[{"g": {"a": 1}, "n": 2}])
    with pytest.raises(error, match=words):
        data_source(folder, "train", decoders)


def test_features_of_a_top_level_sequence(tmp_path):
    features = Sequence({"a": "int32", "i": Image(shape=(4, 5, 3)), "s": SQUARES})
    rows = [[{"a": j, "i": image(j), "s": ones(1, j)} for j in range(n)] for n in (2, 0, 1)]
    folder = make(tmp_path / "1.0.0", [3], features=features, rows=rows)
    source = data_source(folder, "train")
    assert list(source.features) == ["a", "i", "s"]
    assert dict(source.features) == dict(features.feature)
    assert [name for name, _ in source.features.items()] == ["a", "i", "s"]
    assert "a" in source.features
    assert "z" not in source.features
    assert source.features["s"] == SQUARES
    skipped = data_source(folder, "train", SKIP)
    assert skipped.batch([0, 1, 2])["s/shape"].to_list() == [[[1, 0], [1, 1]], [], [[1, 0]]]
    assert skipped.nested(skipped[0])["s"]["shape"].tolist() == [[1, 0], [1, 1]]
    with pytest.raises(TypeError):
        iter(Sequence("int64"))
    assert "a" not in Sequence("int64")


def test_a_top_level_sequence_of_tensors_uses_the_keys_of_tfds(tmp_path):
    folder = make(tmp_path / "1.0.0", [1], features=Sequence(SQUARES), rows=[[ones(1, 2)]])
    payload = bytes(hr.records(folder / "made-train.tfrecord-00000-of-00001")[0])
    assert set(stored(payload)) == {"shape", "value"}
    skipped = data_source(folder, "train", SKIP)
    assert list(skipped.schema) == ["shape", "value"]
    assert skipped.nested(skipped[0])["shape"].tolist() == [[1, 2]]
    assert data_source(folder, "train")[0][""].tolist() == [[[1, 1]]]


def test_optional_values_keep_their_place(tmp_path):
    features = FeaturesDict({"x": Tensor(shape=(), dtype="int16", encoding="bytes", optional=True)})
    codec = FeaturesCodec(features)
    wrong = FeaturesEncoder(FeaturesDict({"x": Text()})).encode({"x": b"123"})
    missing = FeaturesEncoder(FeaturesDict({})).encode({})
    with pytest.raises(SchemaMismatch) as caught:
        codec.decode_batch(codec.spans_of([missing, missing, wrong]))
    assert caught.value.where.record == 2


def test_optional_values_of_several_lists_are_all_there_or_not_at_all():
    codec = FeaturesCodec(FeaturesDict({"x": KINDS["perhaps squares"][0]}))
    missing = FeaturesEncoder(FeaturesDict({})).encode({})
    half = FeaturesEncoder(FeaturesDict({"x/value": Text()})).encode({"x/value": b"12"})
    twice = FeaturesEncoder(FeaturesDict({"x/value": Sequence(Text()), "x/shape": Sequence("int64")})).encode(
        {"x/value": [b"12", b"12"], "x/shape": [1, 1, 1, 1]}
    )
    for wrong, words in ((half, "only a part of one"), (twice, "found 2 of them")):
        with pytest.raises(SchemaMismatch, match=words) as caught:
            codec.decode_batch(codec.spans_of([missing, wrong]))
        assert (caught.value.where.record, caught.value.where.feature) == (1, "x")


@pytest.mark.parametrize("heights", [(4, 4, 4), (4, 5, 4)])
def test_rows_of_rows_of_images_of_any_size(heights):
    features = FeaturesDict({"x": Sequence(Sequence(Image()))})
    codec = FeaturesCodec(features)
    a, b, c = (image(seed, height) for seed, height in enumerate(heights))
    payloads = [FeaturesEncoder(features).encode({"x": rows}) for rows in ([[a], [b, c]], [[]])]
    column = codec.decode_batch(codec.spans_of(payloads))["x"]
    assert [len(row) for row in column] == [2, 1]
    assert [len(row) for row in column[0]] == [1, 2]
    assert [cell.tolist() for cell in column[0][1]] == [b.tolist(), c.tolist()]


def double(file, feature):
    return len(file) if feature == Image(shape=(4, 5, 3)) else -1


def test_a_replaced_feature_is_still_stored_as_the_feature(tmp_path):
    for decoder in (SKIP, Decoder(function=double, dtype="int64")):
        codec = FeaturesCodec(FeaturesDict({"x": Image(shape=(4, 5, 3))}), decoders={"x": decoder})
        (column,) = codec._columns.values()
        file = column.feature.encode_example(image(1))
        assert file.startswith(b"\x89PNG")
        assert column.feature.content() == Image(shape=(4, 5, 3)).content()
        payload = FeaturesEncoder(codec.features).encode({"x": file})
        assert codec.decode(payload)["x"] == (file if decoder is SKIP else len(file))


def test_features_that_share_a_key_are_refused():
    features = FeaturesDict({"x": SQUARES, "x/shape": "int32"})
    with pytest.raises(UnsupportedData, match="'x' and 'x/shape'"):
        FeaturesCodec(features)


def test_names_with_slashes_are_found_whatever_comes_first():
    features = FeaturesDict({"a": {"c": "int64"}, "a/b": {"d": "int32"}})
    assert features["a/b/d"].dtype == np.int32
    codec = FeaturesCodec(features, decoders={"a/b/d": SKIP})
    assert list(codec.schema) == ["a/c", "a/b/d"]


def test_a_sequence_of_a_declared_length_names_the_record_that_differs():
    features = FeaturesDict({"x": Sequence(Sequence("int32", length=2))})
    other = FeaturesDict({"x": Sequence(Sequence("int32"))})
    codec = FeaturesCodec(features)
    payloads = [FeaturesEncoder(other).encode({"x": rows}) for rows in ([[1, 2]], [], [[1, 2], [3]])]
    with pytest.raises(SchemaMismatch, match="sequences of 2") as caught:
        codec.decode_batch(codec.spans_of(payloads))
    assert (caught.value.where.record, caught.value.where.feature) == (2, "x")


def test_a_skipped_sound_is_its_file(tmp_path):
    buffer = io.BytesIO()
    Pillow.new("L", (2, 2)).save(buffer, "png")  # any bytes will do: they are not looked at
    folder = make(
        tmp_path / "1.0.0", [1], features=FeaturesDict({"x": Audio(lazy_decode=True)}), rows=[{"x": buffer.getvalue()}]
    )
    assert data_source(folder, "train", SKIP)[0]["x"] == buffer.getvalue()
    assert json.loads((folder / "features.json").read_text())["featuresDict"]["features"]["x"]["audio"]["lazyDecode"]


def photos(folder):
    """Photos in two places of each example, of several sizes."""
    rows = [{"photo": image(i, 20 + i), "pair": {"left": image(i + 9, 30)}, "label": i % 2} for i in range(6)]
    features = {"photo": Image(shape=(None, None, 3)), "pair": {"left": Image()}, "label": ClassLabel(num_classes=2)}
    make(folder, [2, 4], features=FeaturesDict(features), rows=rows)
    return rows


def test_images_are_cropped_and_resized(tmp_path):
    rows = photos(tmp_path)
    train = hr.ImageOptions(crop=hr.RandomResizedCrop((3, 4)), flip=True)
    plain = hr.ImageOptions(resize=(5, 6), layout="NCHW")
    source = data_source(tmp_path, "train", decoders={"photo": train, "pair": {"left": plain}})
    assert source.schema["photo"] == hr.Feature("uint8", (3, 4, 3), encoding="image")
    assert source.schema["pair/left"] == hr.Feature("uint8", (3, 5, 6))
    batch = source.batch([2, 0, 5])
    for k, index in enumerate([2, 0, 5]):
        draws = stated(0, 0, index).random(41)
        np.testing.assert_array_equal(batch["photo"][k], view(rows[index]["photo"], train, draws))
        left = view(rows[index]["pair"]["left"], plain, draws)
        np.testing.assert_array_equal(batch["pair/left"][k], left.transpose(2, 0, 1))
    assert source[1:].encoded()[0]["photo"].startswith(b"\x89PNG")
    assert source[1:].encoded()[0]["pair/left"].startswith(b"\x89PNG")
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(source))[2]["photo"], batch["photo"][0])
    some = data_source(tmp_path, "train[:50%]", decoders=PartialDecoding(["photo"], {"photo": train}))
    assert list(some.schema) == ["photo"]
    np.testing.assert_array_equal(some[2]["photo"], batch["photo"][0])


@pytest.mark.parametrize(
    ("decoders", "kind", "message"),
    [
        (hr.ImageOptions(), TypeError, r"for one feature: decoders=\{'image': ImageOptions\(\)\}"),
        ({"label": hr.ImageOptions()}, UnsupportedData, "an image, which ImageOptions decodes, found Feature"),
        ({"phto": hr.ImageOptions()}, NoSuchFeature, "phto"),
    ],
)
def test_image_options_of_what_is_no_image(tmp_path, decoders, kind, message):
    photos(tmp_path)
    with pytest.raises(kind, match=message):
        data_source(tmp_path, "train", decoders=decoders)


def test_image_options_of_groups_and_of_steps_are_refused(tmp_path):
    features = FeaturesDict({"pair": {"left": Image(), "k": "int64"}, "steps": Dataset({"view": Image()})})
    make(tmp_path, [1], features=features, rows=[{"pair": {"left": image(1, 9), "k": 1}, "steps": []}])
    options = hr.ImageOptions(resize=(2, 2))
    for decoders, message in (
        ({"pair": options}, "found a group of features .*'pair'.* Give each of its images"),
        ({"steps": {"view": options}}, "found a feature of the steps in 'steps' .*'steps/view'"),
        ({"steps": options}, "steps"),
        (PartialDecoding(["pair"], {"pair": options}), "a group of features"),
    ):
        with pytest.raises(UnsupportedData, match=message):
            data_source(tmp_path, "train", decoders=decoders)
    source = data_source(tmp_path, "train", decoders={"pair": {"left": options}})
    assert source[0]["pair/left"].shape == (2, 2, 3)


def test_partial_decoding_inside_steps(tmp_path):
    inner = {"o": {"a": "int64", "b": Tensor(shape=(2,), dtype="float64", encoding="zlib")}, "s": Text()}
    features = FeaturesDict({"g": {"steps": Dataset(inner)}, "id": "int64"})
    rows = [{"g": {"steps": [{"o": {"a": k, "b": [0, k]}, "s": "x"}] * k}, "id": k} for k in range(4)]
    make(tmp_path, [4], features=features, rows=rows)

    def read(spec, **options):
        return data_source(tmp_path, "train", decoders=PartialDecoding(spec, **options))

    source = read({"g": {"steps": {"o": ["b"]}}, "id": True})
    assert list(source.schema) == ["g/steps", "id"]
    for each in (source, pickle.loads(pickle.dumps(source)), source.select("g/steps"), source.encoded()):
        assert list(each[3]["g/steps"].schema) == ["o/b"]
        assert each[3]["g/steps"][1]["o/b"].tolist() == [0, 3]
    assert not any(key.endswith(("/a", "/s")) for key in source.codec.wire)
    assert list(source.steps().schema) == ["o/b", "episode_id", "step_id"]
    assert list(read({"g": {"steps": {"s": True, "o": False}}})[1]["g/steps"].schema) == ["s"]
    assert list(read({"g": True})[1]["g/steps"].schema) == ["o/a", "o/b", "s"]
    skipped = read({"g": {"steps": ["o"]}}, decoders={"g": {"steps": SKIP}})
    assert isinstance(skipped[1]["g/steps"][0]["o/b"], bytes)


@pytest.mark.parametrize("spec", [[], {}, {"x": False}, False])
def test_partial_decoding_of_nothing_is_refused(tmp_path, spec):
    make(tmp_path, [1], features=FeaturesDict({"x": "int64"}), rows=[{"x": 1}])
    with pytest.raises(NoSuchFeature, match="expected at least one feature"):
        data_source(tmp_path, "train", decoders=PartialDecoding(spec))


def test_image_options_keep_the_declared_channels_and_depth(tmp_path):
    kinds = [noise(16, 24), noise(16, 24, 1), noise(16, 24, 4), noise(16, 24, 1).astype(np.uint16) * 257]
    files = [made(pixels, "png") for pixels in kinds]
    features = {"any": Image(), "grey": Image(shape=(None, None, 1)), "fixed": Image(shape=(16, 24, 3))}
    make(tmp_path, [4], features=FeaturesDict(features), rows=[dict.fromkeys(features, file) for file in files])
    whole = data_source(tmp_path, "train")
    for options, size in (
        (hr.ImageOptions(), (16, 24)),
        (hr.ImageOptions(oriented=True), (16, 24)),
        (hr.ImageOptions(center_crop=(8, 9)), (8, 9)),
        (hr.ImageOptions(resize=(8, 9), dtype="uint8"), (8, 9)),
    ):
        source = data_source(tmp_path, "train", decoders=dict.fromkeys(features, options))
        for name, channels in (("any", 3), ("grey", 1), ("fixed", 3)):
            for index in range(4):
                found = source[index][name]
                assert (found.shape, found.dtype) == ((*size, channels), np.uint8)
                if size == (16, 24) and name != "grey":
                    np.testing.assert_array_equal(found, whole[index][name])
    one = data_source(tmp_path, "train", decoders={"any": hr.ImageOptions(channels=1)})
    assert one[0]["any"].shape == (16, 24, 1)


def test_grey_of_coloured_pngs_has_the_weights_of_libpng():
    """Those of ``tf.io.decode_png(channels=1)``, which rounds samples of 16 bits only."""
    narrow, deep = np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255]]], np.uint8), np.array([[[6, 6, 5]]], np.uint16)
    for pixels, dtype in ((narrow, "uint8"), (deep, "uint16")):
        weighted = (pixels @ np.array([9797, 19234, 3737], np.int64) + (1 << 14 if dtype == "uint16" else 0)) >> 15
        assert np.array_equal(_convert(pixels[None], 1, dtype)[0, :, :, 0], weighted)
