import base64
import collections
import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest

import headrace as hr

GOLDEN = Path(__file__).parent.parent / "golden"
TFRECORD = GOLDEN / "tfrecord"
FLAT = ["dense", "dense.gzip", "dense.zlib", "varlen", "extremes", "wire", "empty", "empty_payloads"]


def note(name):
    return json.loads((TFRECORD / f"{name}.tfrecord.json").read_text())


def wanted(value):
    if isinstance(value, dict):
        return base64.b64decode(value["b64"])
    return float(value) if value in ("nan", "inf", "-inf") else value


def listed(value):
    """A feature of an example as the list that the reference reader gives."""
    values = [value] if isinstance(value, (bytes, str)) or np.ndim(value) == 0 else list(value)
    return [v.encode() if isinstance(v, str) else v.item() if isinstance(v, np.generic) else v for v in values]


@pytest.mark.parametrize("name", FLAT)
@pytest.mark.parametrize("how", ["in order", "by index", "batch"])
def test_goldens_read_as_protobuf_reads_them(name, how):
    source = hr.open(TFRECORD / f"{name}.tfrecord")
    expected = note(name)["examples"]
    if how == "in order":
        examples = list(source)
    elif how == "by index":
        examples = [source[i] for i in range(len(source))]
    else:
        examples = source[np.arange(len(source))]
    assert len(source) == len(examples) == len(expected)
    for example, want in zip(examples, expected, strict=True):
        assert set(example) >= {key for key, feature in want.items() if feature["value"]}
        for key, value in example.items():
            assert listed(value) == [wanted(v) for v in want.get(key, {"value": []})["value"]]


def read_whole(path):
    source = hr.open(path)
    return source.batch(range(len(source)))


def test_sequence_examples():
    source = hr.open(TFRECORD / "sequence.tfrecord")
    assert {name: feature.shape for name, feature in source.schema.items()} == {
        "id": (), "name": (), "token": (None, None), "weight": (None,),
    }  # fmt: skip
    for example, want in zip(source, note("sequence")["examples"], strict=True):
        assert [example["id"]] == want["context"]["id"]
        assert example["token"].to_list() == want["feature_lists"].get("token", [])
        assert [[w] for w in example["weight"].tolist()] == want["feature_lists"].get("weight", [])
    batch = source.batch([3, 0])
    assert batch["token"].to_list() == [source[3]["token"].to_list(), source[0]["token"].to_list()]


def test_shards_are_one_source():
    whole, shards = hr.open(TFRECORD / "dense.tfrecord"), hr.open(TFRECORD / "sharded.tfrecord@3")
    order = [*range(0, 40, 3), *range(1, 40, 3), *range(2, 40, 3)]
    assert len(shards) == 40
    assert np.array_equal(shards.batch(range(40))["image"], whole.batch(order)["image"])
    assert shards.where(39).path.endswith("00002-of-00003")


@pytest.mark.parametrize("ending", ["tfrecord", "array_record", "npy", "csv", "jsonl"])
def test_the_name_of_one_shard_is_that_shard_in_every_call(tmp_path, ending):
    """A rank that opens its own shard must not read the others."""
    hr.write(tmp_path / f"x.{ending}@4", {"k": np.arange(40)})
    own = tmp_path / f"x.{ending}-00002-of-00004"
    for given in (own, str(own), [own]):
        assert len(hr.open(given)) == 10
        assert hr.verify(given).records == 10
    assert np.sort(np.concatenate([batch[next(iter(batch))] for batch in hr.Loader(hr.open(own), 4)])).tolist() == [
        *range(20, 30)
    ]
    assert hr.convert(own, tmp_path / "one.npz").examples == 10
    assert len(hr.open(f"{tmp_path}/x.{ending}@4")) == len(hr.open(f"{tmp_path}/x.{ending}@*")) == 40
    if ending in ("tfrecord", "array_record"):
        assert len(hr.records(own)) == 10
    own.unlink()
    for call in (hr.open, hr.records, hr.verify, lambda path: hr.convert(path, tmp_path / "two.npz")):
        with pytest.raises(hr.NoFiles, match=rf"x.{ending}@4 or x.{ending}@\* names the whole set"):
            call(own)


@pytest.mark.parametrize(
    ("name", "error", "place"),
    [
        ("bad_payload_crc", hr.CorruptRecord, "record 1, byte 0x136"),
        ("bad_length_crc", hr.CorruptRecord, "record 1, byte 0x136"),
        ("truncated_payload", hr.CorruptRecord, "record 1, byte 0x136"),
        ("truncated_header", hr.CorruptRecord, "record 1, byte 0x136"),
        ("huge_length", hr.CorruptRecord, "record 1, byte 0x136"),
        ("truncated.gzip", hr.CorruptFile, "record 39"),
    ],
)
def test_damage_is_named_after_what_comes_before_it(name, error, place):
    path = TFRECORD / (f"{name}.tfrecord" if name != "truncated.gzip" else "truncated.gzip.tfrecord")
    seen = []
    with pytest.raises(error, match=f"{path.name}, {place}"):
        collections.deque(map(seen.append, hr.open(path)))
    expected = note("dense")["examples"]
    assert len(seen) == (39 if name == "truncated.gzip" else 1)
    for example, want in zip(seen, expected, strict=False):
        assert example["image"].tolist() == want["image"]["value"]
    with pytest.raises(error, match=place.split(",")[0]):
        read_whole(path)


def test_skipping_resumes_if_the_framing_allows():
    for name, kept in (
        ("bad_payload_crc", 39),
        ("bad_length_crc", 39),
        ("truncated_payload", 1),
        ("truncated_header", 1),
        ("huge_length", 39),
    ):
        source = hr.open(TFRECORD / f"{name}.tfrecord", on_corrupt="skip")
        assert len(list(source)) == kept
        assert source.records.skipped.records == 1
        assert len(source) == kept
        assert len(source.batch(range(kept))["label"]) == kept


def test_a_given_schema_is_checked():
    path = TFRECORD / "dense.tfrecord"
    assert hr.open(path, schema={"image": hr.Feature("float32", (8, 8))})[0]["image"].shape == (8, 8)
    assert hr.open(path, schema={"label": hr.Feature("uint8")}).batch([0, 1])["label"].dtype == np.uint8
    with pytest.raises(
        hr.SchemaMismatch,
        match=r"expected 63 values, found 64 - at .*dense\.tfrecord, record 5, byte .*feature 'image'",
    ):
        hr.open(path, schema={"image": hr.Feature("float32", (63,))})[5]
    with pytest.raises(
        hr.SchemaMismatch, match=r"expected int64 values, found float32 - at .*record 2, .*feature 'image'"
    ):
        hr.open(path, schema={"image": hr.Feature("int64", (64,))}).batch([2])
    with pytest.raises(hr.SchemaMismatch, match=r"expected a value, found none in this record - at .*feature 'weight'"):
        hr.open(path, schema={"weight": hr.Feature("float32")})[0]
    filled = hr.open(
        path, schema={"weight": hr.Feature("float32", (2,), default=1.5), "name": hr.Feature("str", default="none")}
    )
    assert filled.batch([0, 1])["weight"].tolist() == [[1.5, 1.5]] * 2
    assert filled[3]["name"] == "none"


def test_columns_and_codec():
    path = TFRECORD / "dense.tfrecord"
    assert list(hr.open(path, columns=["label"]).schema) == ["label"]
    with pytest.raises(hr.NoSuchFeature):
        hr.open(path, columns=["nothing"])
    raw = hr.open(path, codec="raw")
    assert raw[7]["record"] == bytes(hr.records(path)[7])
    with pytest.raises(hr.UnsupportedData):
        hr.open(path, codec="json")


def test_images_and_text_are_recognised(tmp_path):
    jpeg, png = b"\xff\xd8\xff\xe0rest", b"\x89PNG\r\n\x1a\nrest"
    hr.write(
        tmp_path / "x.tfrecord",
        {"photo": [jpeg] * 3, "chart": [png] * 3, "text": ["日本", "", "x\n"], "blob": [b"\xff", b"", b"a"]},
    )
    schema = hr.open(tmp_path / "x.tfrecord").schema
    assert (schema["photo"].encoding, schema["chart"].encoding) == ("jpeg", "png")
    assert (schema["text"].dtype, schema["blob"].dtype) == ("str", "bytes")


def test_text_that_turns_out_invalid(tmp_path):
    hr.write_records(tmp_path / "x.tfrecord", [bytes(hr.records(TFRECORD / "dense.tfrecord")[0])])
    hr.write(tmp_path / "t.tfrecord", {"t": [b"fine"] * 300 + [b"\xff\xfe"]})
    with pytest.raises(
        hr.SchemaMismatch,
        match=r"expected UTF-8 text, found the bytes b'\\xff\\xfe' - at .*record 300.*Feature\('bytes'\)",
    ):
        list(hr.open(tmp_path / "t.tfrecord"))


def test_mixed_kinds(tmp_path):
    ints, floats = tmp_path / "i.tfrecord", tmp_path / "f.tfrecord"
    hr.write(ints, {"x": np.array([2**40])})
    hr.write(floats, {"x": np.array([0.5], np.float32)})
    both = hr.open([ints, floats])
    assert both.schema["x"] == hr.Feature("float64")
    assert both.batch([0, 1])["x"].tolist() == [2**40, 0.5]
    hr.write(tmp_path / "b.tfrecord", {"x": [b"\xff"]})
    with pytest.raises(hr.SchemaMismatch, match="bytes in 1, floats in 1"):
        hr.open([floats, tmp_path / "b.tfrecord"])


def test_npy():
    source = hr.open(GOLDEN / "npy" / "f4.npy")
    array = np.load(GOLDEN / "npy" / "f4.npy")
    assert source.schema == hr.Schema({"values": hr.Feature("float32", (5,))})
    assert np.array_equal(source.batch([6, 0, 3])["values"], array[[6, 0, 3]])
    fields = hr.open(GOLDEN / "npy" / "structured.npy")
    assert list(fields.schema) == ["id", "x", "tag"]
    assert fields.select("x").batch([1, 0])["x"].tolist() == [4.5, 2.5]
    with pytest.raises(hr.UnsupportedData, match="object"):
        hr.open(GOLDEN / "npy" / "object.npy")[0]
    for name in ("truncated", "magic", "header"):
        with pytest.raises((hr.CorruptFile, hr.UnknownFormat), match=f"damaged_{name}.npy"):
            hr.open(GOLDEN / "npy" / f"damaged_{name}.npy")[0]


def test_npy_under_a_given_schema():
    path = GOLDEN / "npy" / "f4.npy"
    assert hr.open(path, schema={"values": hr.Feature("float32", (5,))})[0]["values"].shape == (5,)
    with pytest.raises(hr.SchemaMismatch, match="float64"):
        hr.open(path, schema={"values": hr.Feature("float64", (5,))})


def test_splits_by_name(tmp_path):
    for name, count in (("train", 10), ("test", 4)):
        hr.write(tmp_path / f"mini-{name}.tfrecord@2", {"x": np.arange(count)})
    assert len(hr.open(tmp_path, split="train")) == 10
    assert [int(e["x"]) for e in hr.open(tmp_path, split="train[:20%]+test[-1:]")] == [0, 1, 3]
    assert len(hr.open(tmp_path / "mini-test.tfrecord@2", split="test[:50%]")) == 2
    assert len(hr.open(tmp_path, split="all")) == 14
    with pytest.raises(hr.NoFiles, match="validation"):
        hr.open(tmp_path, split="validation")
    for one in (tmp_path / "one.tfrecord", tmp_path / "one.tfrecord@2"):
        hr.write(one, {"x": np.arange(10)})
        assert len(hr.open(one, split="train[:80%]")) == 8
        assert len(hr.open(one, split="all")) == 10


@pytest.mark.parametrize("name", ["mini-train.tfrecord", "Mini_Train.tfrecord", "mini-train.tfrecord@2"])
def test_a_file_of_another_split_is_not_opened_in_its_place(tmp_path, name):
    hr.write(tmp_path / name, {"x": np.arange(10)})
    for place in (tmp_path, tmp_path / name, tmp_path / "*"):
        for split in ("test", "validation[:50%]"):
            with pytest.raises(hr.NoFiles, match=f"names hold '{split[:4]}"):
                hr.open(place, split=split)
        assert len(hr.open(place, split="all")) == 10
    if name[0] == "m":
        assert len(hr.open(tmp_path, split="train[:80%]")) == 8
        with pytest.raises(hr.NoFiles, match="Did you mean 'train'"):
            hr.open(tmp_path, split="trian")


def test_sources_pickle_and_move(tmp_path):
    moved = tmp_path / "elsewhere.tfrecord"
    shutil.copy(TFRECORD / "dense.tfrecord", moved)
    source = hr.open(TFRECORD / "dense.tfrecord")
    again = pickle.loads(pickle.dumps(source))
    assert np.array_equal(again.batch([5])["image"], source.batch([5])["image"])
    assert hr.open(moved).fingerprint == source.fingerprint == hr.open(TFRECORD / "dense.gzip.tfrecord").fingerprint


def test_schema_infer():
    expected = hr.open(TFRECORD / "dense.tfrecord").schema
    assert hr.Schema.infer(TFRECORD / "dense.tfrecord") == expected
    assert hr.Schema.infer(hr.records(TFRECORD / "dense.tfrecord"), most=None) == expected
    assert hr.Schema.infer([bytes(r) for r in hr.records(TFRECORD / "dense.tfrecord")]) == expected
    assert hr.Schema.infer([]) == hr.Schema({})


def test_a_folder_of_several_formats_is_refused(tmp_path):
    hr.write(tmp_path / "a.tfrecord", {"x": np.arange(3)})
    hr.write(tmp_path / "b.npy", {"x": np.arange(3)})
    with pytest.raises(
        hr.UnsupportedData, match=r"expected tfrecord, as a\.tfrecord, found a file of npy - at .*b\.npy"
    ):
        hr.open(tmp_path)
    assert len(hr.open(tmp_path / "*.npy")) == 3


def test_views_in_order_need_no_index(tmp_path, monkeypatch):
    hr.write(tmp_path / "x.tfrecord", {"x": np.arange(9)})
    source = hr.open(tmp_path / "x.tfrecord")
    monkeypatch.setattr(type(source), "__len__", lambda self: pytest.fail("an index was asked for"))
    assert [int(e["y"]) for e in source.map(lambda e: {"y": e["x"] * 2})] == list(range(0, 18, 2))
    assert [int(e["x"]) for e in source.filter(lambda e: e["x"] % 4 == 0)] == [0, 4, 8]


def test_features_of_several_kinds_may_be_left_out(tmp_path):
    hr.write(tmp_path / "1.tfrecord", [{"a": 1, "x": 1}])
    hr.write(tmp_path / "2.tfrecord", [{"a": "s", "x": 2}])
    paths = [tmp_path / "1.tfrecord", tmp_path / "2.tfrecord"]
    for options in ({"schema": {"x": hr.Feature("int64")}}, {"columns": ["x"]}):
        assert hr.open(paths, **options).batch([0, 1])["x"].tolist() == [1, 2]
    for options in ({}, {"columns": ["a", "x"]}):
        with pytest.raises(hr.SchemaMismatch, match="one kind of values in all records"):
            hr.open(paths, **options)


def test_a_wrong_length_inside_a_payload_is_not_said_to_be_skipped(tmp_path):
    hr.write(tmp_path / "a.tfrecord", [{"a": 1}])
    (good,) = hr.records(tmp_path / "a.tfrecord")
    hr.write_records(tmp_path / "b.tfrecord", [bytes(good), b"\x0a\x05abc"])
    for on_corrupt in ("raise", "skip"):
        with pytest.raises(
            hr.CorruptRecord, match=r"record 1, .* The record is truncated, or a length in it is wrong"
        ) as caught:
            hr.open(tmp_path / "b.tfrecord", on_corrupt=on_corrupt)[1]
        assert "on_corrupt" not in str(caught.value)


def test_examples_without_features(tmp_path):
    hr.write_records(tmp_path / "x.tfrecord", [b"\n\x00", b"", b"\n\x00"])
    source = hr.open(tmp_path / "x.tfrecord", codec="example")
    assert (len(source), len(source.schema), list(source)) == (3, 0, [{}, {}, {}])
    hr.write_records(tmp_path / "y.tfrecord", [b"no message"])
    with pytest.raises(hr.CorruptRecord, match="codec='raw'"):
        hr.open(tmp_path / "y.tfrecord", codec="example")[0]
