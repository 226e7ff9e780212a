"""Images as features: detected, decoded on access, in every view and call, and written back unchanged."""

import pickle

import numpy as np
import pytest
import simplejpeg
from tests.codecs.images.files import golden, jpeg, made, noise

import headrace as hr
from headrace import _optional
from headrace.codecs.images import open as opened
from headrace.sources import decoded

N = 40
IMAGES = [jpeg(seed=seed) for seed in range(N)]
PIXELS = np.stack([simplejpeg.decode_jpeg(image) for image in IMAGES])
JPEG = hr.Feature("uint8", (16, 24, 3), encoding="jpeg")
STORED = hr.Feature("bytes", encoding="jpeg")


def examples(images=IMAGES):
    return [{"image": image, "label": i} for i, image in enumerate(images)]


@pytest.fixture(params=["x.tfrecord", "x.tfrecord.gz", "x.array_record", "x.recordio"])
def path(request, tmp_path):
    hr.write(tmp_path / request.param, examples())
    return tmp_path / request.param


@pytest.fixture
def source(tmp_path):
    hr.write(tmp_path / "x.tfrecord", examples())
    return hr.open(tmp_path / "x.tfrecord")


def test_in_every_format_images_are_found_and_decoded(path):
    source = hr.open(path)
    assert source.schema["image"] == JPEG
    assert source.cuts_cleanly
    np.testing.assert_array_equal(source[7]["image"], PIXELS[7])
    np.testing.assert_array_equal(source.batch([5, -1, 5])["image"], PIXELS[[5, -1, 5]])
    for example, pixels in zip(source, PIXELS, strict=True):
        np.testing.assert_array_equal(example["image"], pixels)
    np.testing.assert_array_equal(source.to_numpy("image")[0], PIXELS)


def test_decode_false_leaves_the_bytes(path):
    source = hr.open(path, decode=False)
    assert source.schema["image"] == STORED
    assert source[3]["image"] == IMAGES[3]
    assert source.fingerprint == hr.open(path).fingerprint
    assert hr.open(path).encoded()[3]["image"] == IMAGES[3]


@pytest.mark.parametrize(
    "view",
    [
        lambda source: source[:],
        lambda source: source[5:1:-1],
        lambda source: source.select("image"),
        lambda source: source.concat(source),
        lambda source: source.filter(lambda example: example["image"].sum() > 0),
        lambda source: source.random_split([0.5, 0.5], 1)[0],
        lambda source: source.zip(source.rename({"image": "other"}).select("other")),
    ],
)
def test_views_of_decoded_images_have_the_fingerprint_of_stored_ones(path, view, monkeypatch):
    """Decoders may differ in pixels, and a state must fit all of them."""
    found = view(hr.open(path)).fingerprint
    decode = decoded.DecodedNode._pixels

    def brighter(node, *arguments):
        batch = decode(node, *arguments)
        return {**batch, "image": np.minimum(batch["image"], 254) + 1}

    monkeypatch.setattr(decoded.DecodedNode, "_pixels", brighter)
    source = hr.open(path)
    assert np.array_equal(source.batch([0])["image"][0], np.minimum(PIXELS[0], 254) + 1)
    assert view(source).fingerprint == found


@pytest.fixture
def stream(monkeypatch):
    """Files are read as large compressed ones are until they are inflated."""
    monkeypatch.setattr("headrace.formats.framed.records.FramedRecords.prefers_streaming", True)


@pytest.mark.usefixtures("stream")
@pytest.mark.parametrize("columns", [["image"], ["label", "image"]])
def test_a_stream_is_decoded_as_it_comes(source, columns):
    batches = list(hr.Loader(source.select(*columns), 16, threads=0))
    assert [list(batch) for batch in batches] == [columns] * 3
    np.testing.assert_array_equal(np.concatenate([batch["image"] for batch in batches]), PIXELS)


@pytest.mark.usefixtures("stream")
def test_damage_in_a_stream_is_named(tmp_path):
    hr.write(tmp_path / "x.tfrecord", examples([*IMAGES[:20], IMAGES[20][:-9], *IMAGES[21:]]))
    batches = hr.open(tmp_path / "x.tfrecord").stream(8)
    assert len([next(batches), next(batches)]) == 2
    with pytest.raises(hr.CorruptRecord, match=r"x.tfrecord, record 20,.*feature 'image'"):
        next(batches)


@pytest.mark.parametrize("name", ["x.tfrecord", "x.array_record", "x.recordio"])
def test_images_as_whole_records(tmp_path, name):
    hr.write_records(tmp_path / name, IMAGES)
    source = hr.open(tmp_path / name)
    assert source.schema == hr.Schema({"record": JPEG})
    np.testing.assert_array_equal(source[9]["record"], PIXELS[9])
    assert hr.open(tmp_path / name, codec="raw")[9]["record"] == IMAGES[9]  # as named
    named = hr.open(tmp_path / name, codec="raw", schema={"record": STORED})
    np.testing.assert_array_equal(named[9]["record"], PIXELS[9])


@pytest.mark.parametrize(("to", "kind"), [("numpy", "ndarray"), ("torch", "Tensor"), ("jax", "ArrayImpl")])
def test_loaders(source, to, kind):
    if to != "numpy":
        pytest.importorskip(to)
    seen = []
    for batch in hr.Loader(source, 16, shuffle=True, seed=3, threads=2, to=to):
        assert type(batch["image"]).__name__ == kind
        for image, label in zip(np.asarray(batch["image"]), np.asarray(batch["label"]), strict=True):
            np.testing.assert_array_equal(image, PIXELS[label])
            seen.append(int(label))
    assert sorted(seen) == list(range(N))


def test_a_stream_that_is_still_being_inflated(tmp_path):
    hr.write(tmp_path / "x.tfrecord.gz", examples())
    batches = list(hr.Loader(hr.open(tmp_path / "x.tfrecord.gz"), 16))
    np.testing.assert_array_equal(np.concatenate([batch["image"] for batch in batches]), PIXELS)


def test_views(source):
    again = pickle.loads(pickle.dumps(source))
    np.testing.assert_array_equal(again[2]["image"], PIXELS[2])
    assert list(source.select("label")[4]) == ["label"]
    np.testing.assert_array_equal(source.rename({"image": "x"})[10:20].shard(1, 2)[0]["x"], PIXELS[15])
    np.testing.assert_array_equal(
        source.filter(lambda e: e["image"].mean() > 0 and e["label"] == 6)[0]["image"], PIXELS[6]
    )
    joined = source[:3].concat(source.split("train[90%:]"))
    np.testing.assert_array_equal(joined.batch(range(len(joined)))["image"], np.concatenate([PIXELS[:3], PIXELS[36:]]))
    both = source.select("image").zip(source.select("label"))
    np.testing.assert_array_equal(both[8]["image"], PIXELS[8])
    np.testing.assert_array_equal(source.map(lambda e: {"mean": e["image"].mean()})[1]["mean"], PIXELS[1].mean())
    assert source.format == "tfrecord"
    assert source.skipped.records == 0


def test_selecting_other_features_decodes_nothing(tmp_path, monkeypatch):
    hr.write(tmp_path / "x.tfrecord", examples())
    for name in ("_turbo", "_pillow"):
        monkeypatch.setattr(opened, name, lambda: _optional.require("no_such_package", extra="images"))
    source = hr.open(tmp_path / "x.tfrecord")
    assert source.schema["image"] == hr.Feature("uint8", (None, None, None), encoding="jpeg")
    assert source.select("label").batch([3])["label"].tolist() == [3]
    assert hr.open(tmp_path / "x.tfrecord", columns=["label"])[5] == {"label": 5}
    assert hr.open(tmp_path / "x.tfrecord", decode=False)[0]["image"] == IMAGES[0]
    hr.convert(tmp_path / "x.tfrecord", tmp_path / "y.array_record")
    with pytest.raises(hr.MissingExtra, match="headrace.images"):
        source[0]


@pytest.mark.parametrize(
    "view",
    [
        lambda s: s,
        lambda s: s.select("label", "image")[2:30],
        lambda s: s.rename({"image": "picture"}).filter(lambda e: e["label"] % 3 == 0),
        lambda s: s[:5].concat(s[20:]),
        lambda s: s.select("image").zip(s.select("label")),
    ],
)
def test_written_images_are_the_same_bytes(source, tmp_path, view):
    chosen = view(source)
    hr.write(tmp_path / "y.array_record", chosen)
    hr.convert(chosen, tmp_path / "z.tfrecord")
    name = next(name for name in chosen.schema if name != "label")
    for path in (tmp_path / "y.array_record", tmp_path / "z.tfrecord"):
        written = hr.open(path, decode=False)
        assert [e[name] for e in written] == [IMAGES[e["label"]] for e in chosen.encoded()]


def test_formats_of_numbers_get_pixels(source, tmp_path):
    hr.write(tmp_path / "x.npy", source.select("image"))
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), PIXELS)


def test_damage_is_named_with_file_record_and_feature(tmp_path):
    images = list(IMAGES)
    images[23] = images[23][:-50]
    hr.write(tmp_path / "x.tfrecord@2", examples(images))
    source = hr.open(tmp_path / "x.tfrecord@2")
    reported = (
        r"Premature end of JPEG file - at .*00001-of-00002, record 3, byte 0x[0-9a-f]+, feature 'image'. decode=False"
    )
    for ask in (
        lambda: source[23],
        lambda: source.batch(range(N)),
        lambda: list(source),
        lambda: list(hr.Loader(source, 8)),
    ):
        with pytest.raises(hr.CorruptRecord, match=reported):
            ask()
    before = []
    with pytest.raises(hr.CorruptRecord):
        before.extend(iter(source))
    assert source[22:23][0]["label"] == 22


def test_sizes_that_differ(tmp_path):
    images = [jpeg(), jpeg(8, 9), made(noise(4, 4, 1)), jpeg()]
    hr.write(tmp_path / "x.tfrecord", examples(images))
    source = hr.open(tmp_path / "x.tfrecord")
    assert source.schema["image"] == hr.Feature("uint8", (None, None, 3), encoding="image")
    assert not source.cuts_cleanly
    assert [image.shape for image in source.batch(range(4))["image"]] == [
        (16, 24, 3),
        (8, 9, 3),
        (4, 4, 3),
        (16, 24, 3),
    ]
    assert source.batch([0, 3])["image"].shape == (2, 16, 24, 3)
    batches = [batch["image"] for batch in hr.Loader(source, 2)]
    assert [type(images) for images in batches] == [list, list]


def test_an_image_unlike_the_first_ones(tmp_path):
    hr.write(tmp_path / "x.tfrecord", examples([*IMAGES, *IMAGES, jpeg(17, 24)]))
    with pytest.raises(hr.SchemaMismatch, match=r"record 80, .*decode=ImageOptions\(any_size=True\)"):
        hr.open(tmp_path / "x.tfrecord")[80]
    loose = hr.open(tmp_path / "x.tfrecord", decode=hr.ImageOptions(any_size=True))
    assert loose.schema["image"].shape == (None, None, 3)
    assert loose[80]["image"].shape == (17, 24, 3)


def test_a_given_schema_is_what_comes(tmp_path):
    hr.write(tmp_path / "x.tfrecord", examples([golden("png16_rgba.png")] * 3))
    found = hr.open(tmp_path / "x.tfrecord")
    assert found.schema["image"] == hr.Feature("uint16", (13, 18, 4), encoding="png")
    grey = {"image": hr.Feature("uint8", (None, None, 1), encoding="png")}
    assert hr.open(tmp_path / "x.tfrecord", schema=grey)[0]["image"].shape == (13, 18, 1)
    assert hr.open(tmp_path / "x.tfrecord", schema=grey).schema == hr.Schema(grey)
    plain = {"image": hr.Feature("bytes")}
    assert hr.open(tmp_path / "x.tfrecord", schema=plain)[0]["image"] == golden("png16_rgba.png")
    again = hr.open(tmp_path / "x.tfrecord", schema=found.schema)
    np.testing.assert_array_equal(again[1]["image"], found[1]["image"])
    with pytest.raises(hr.SchemaMismatch):
        hr.open(tmp_path / "x.tfrecord", schema={"image": hr.Feature("uint8", (2, 2, 1), encoding="png")})[0]


def test_several_images_in_an_example(tmp_path):
    stack = [{"images": [IMAGES[i] for i in range(count)]} for count in (2, 1, 3)]
    hr.write(tmp_path / "x.tfrecord", stack, schema={"images": hr.Feature("bytes", (None,))})
    source = hr.open(tmp_path / "x.tfrecord")
    assert source.schema["images"] == hr.Feature("uint8", (None, 16, 24, 3), encoding="jpeg")
    np.testing.assert_array_equal(source[2]["images"], PIXELS[:3])
    assert [len(images) for images in source.batch([0, 1, 2])["images"]] == [2, 1, 3]
    hr.write(
        tmp_path / "y.tfrecord",
        [{"images": IMAGES[:2]}, {"images": IMAGES[2:4]}],
        schema={"images": hr.Feature("bytes", (2,))},
    )
    pairs = hr.open(tmp_path / "y.tfrecord")
    np.testing.assert_array_equal(pairs.batch([1, 0])["images"], np.stack([PIXELS[2:4], PIXELS[:2]]))


def test_an_empty_file(tmp_path):
    hr.write(tmp_path / "x.tfrecord", [], schema={"image": STORED})
    source = hr.open(tmp_path / "x.tfrecord", schema={"image": STORED})
    assert len(source) == 0
    assert source.batch([])["image"].shape == (0, 0, 0, 0)


def test_columns_of_bytes_in_tables(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = {"bytes": IMAGES[:20], "path": ["x"] * 20}
    nested = arrow.array([dict(zip(rows, row, strict=True)) for row in zip(*rows.values(), strict=True)])
    columns = {"plain": IMAGES[:20], "image": nested, "other": [b"x"] * 20, "late": [*IMAGES[:8], *[b"x"] * 12]}
    parquet.write_table(arrow.table(columns), tmp_path / "x.parquet")
    source = hr.open(tmp_path / "x.parquet")
    assert source.schema["plain"] == source.schema["image/bytes"] == JPEG
    assert source.schema["other"] == source.schema["late"] == hr.Feature("bytes")
    np.testing.assert_array_equal(source.batch([19, 2])["image/bytes"], PIXELS[[19, 2]])
    assert source.select("other")[3] == {"other": b"x"}
    assert hr.open(tmp_path / "x.parquet", decode=False)[0]["plain"] == IMAGES[0]
    hr.convert(tmp_path / "x.parquet", tmp_path / "y.tfrecord")
    assert hr.open(tmp_path / "y.tfrecord", decode=False)[7]["plain"] == IMAGES[7]


def test_the_schema_is_inferred_despite_damage(tmp_path):
    hr.write(tmp_path / "x.tfrecord", examples())
    whole = bytearray((tmp_path / "x.tfrecord").read_bytes())
    whole[len(whole) // N * 3] ^= 1
    (tmp_path / "x.tfrecord").write_bytes(whole)
    source = hr.open(tmp_path / "x.tfrecord")
    assert source.schema["image"] == JPEG
    assert source[1]["label"] == 1
    with pytest.raises(hr.CorruptRecord):
        list(source)


@pytest.mark.parametrize("decode", [hr.ImageOptions, [hr.ImageOptions()], {"image": "small"}, "false", 0, None])
def test_a_decode_argument_that_says_nothing_about_images_is_refused(source, tmp_path, decode):
    with pytest.raises(TypeError, match=r"decode must be True, False, an ImageOptions"):
        hr.open(tmp_path / "x.tfrecord", decode=decode)


def test_a_crop_that_is_no_option_is_refused_with_the_call_that_is_meant(source, tmp_path):
    with pytest.raises(TypeError, match=r"decode=ImageOptions\(crop=RandomResizedCrop\(size=\(8, 8\)"):
        hr.open(tmp_path / "x.tfrecord", decode=hr.RandomResizedCrop(8))


def test_flags_of_numpy_are_flags(source, tmp_path):
    assert hr.open(tmp_path / "x.tfrecord", decode=np.bool_(False)).schema["image"] == STORED


@pytest.mark.parametrize("name", ["x.tfrecord", "x.parquet", "x.npz", "x.csv"])
def test_options_for_what_holds_no_image_are_refused(tmp_path, name):
    hr.write(tmp_path / name, [{"x": 1.5, "y": 2}] * 3)
    with pytest.raises(hr.errors.UnsupportedData, match=r"none in the features \['x', 'y'\]"):
        hr.open(tmp_path / name, decode=hr.ImageOptions(flip=True))
    with pytest.raises(hr.errors.UnsupportedData, match="found Feature.*feature 'x'"):
        hr.open(tmp_path / name, decode={"x": hr.ImageOptions(flip=True)})
    with pytest.raises(hr.errors.NoSuchFeature, match="image"):
        hr.open(tmp_path / name, decode={"image": hr.ImageOptions(flip=True)})
    assert len(hr.open(tmp_path / name, decode={})) == 3


def test_options_for_a_file_without_examples_are_accepted(tmp_path):
    hr.write(tmp_path / "x.tfrecord", [])
    assert len(hr.open(tmp_path / "x.tfrecord", decode=hr.ImageOptions(flip=True))) == 0


@pytest.mark.parametrize("name", ["x.tfrecord", "x.parquet"])
def test_each_feature_may_have_options_of_its_own(tmp_path, name):
    """Both take the same random numbers, so a mask stays aligned, and its classes are not mixed."""
    classes = [np.where(noise(20, 30, 1, seed=seed) > 127, 2, 0).astype(np.uint8) for seed in range(N)]
    shapes = [made(np.repeat(each, 3, axis=2)) for each in classes]
    hr.write(tmp_path / name, [{"image": shape, "mask": shape, "other": shape} for shape in shapes])
    crop = {"crop": hr.RandomResizedCrop(16), "interpolation": "nearest"}
    source = hr.open(
        tmp_path / name,
        decode={
            "image": hr.ImageOptions(**crop, flip=True, dtype="float32", mean=0.5, std=0.5),
            "mask": hr.ImageOptions(**crop, flip=True, channels=1),
        },
    )
    assert source.schema["mask"] == hr.Feature("uint8", (16, 16, 1), encoding="png")
    assert source.schema["other"] == hr.Feature("uint8", (20, 30, 3), encoding="png")
    batch = next(iter(hr.Loader(source, N, shuffle=True, seed=3)))
    assert np.unique(batch["mask"]).tolist() == [0, 2]
    np.testing.assert_array_equal(batch["image"][..., :1] == batch["image"].max(), batch["mask"] == 2)
    np.testing.assert_array_equal(source.select("mask").batch(range(N))["mask"], source.batch(range(N))["mask"])
    pickle.loads(pickle.dumps(source))[0]


@pytest.mark.parametrize("name", ["x.tfrecord", "x.tfrecord.gz", "x.array_record", "x.recordio", "x.parquet"])
def test_an_odd_value_among_images_is_damage_and_no_reason_to_leave_the_options_out(tmp_path, name):
    path = tmp_path / name
    hr.write(path, examples([*IMAGES[:3], b"", *IMAGES[4:]]))
    source = hr.open(path, decode=hr.ImageOptions(resize=(8, 8)))
    assert source.schema["image"].shape == (8, 8, 3)
    assert source[2]["image"].shape == (8, 8, 3)
    with pytest.raises(hr.errors.CorruptRecord, match="an empty file or value.*record 3"):
        source[3]


@pytest.mark.parametrize("name", ["x.tfrecord", "x.recordio", "x.parquet"])
def test_bytes_of_which_only_half_are_images_stay_bytes(tmp_path, name):
    hr.write(tmp_path / name, examples([IMAGES[0], b"%PDF\xff"] * 5))
    assert hr.open(tmp_path / name).schema["image"] == hr.Feature("bytes")
    hr.write(tmp_path / f"more.{name}", examples([IMAGES[0], b"%PDF\xff"] * 5 + [IMAGES[1]]))
    assert hr.open(tmp_path / f"more.{name}").schema["image"].encoding == "jpeg"
