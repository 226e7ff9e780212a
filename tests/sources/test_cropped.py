"""Images cropped and resized as they are read: from every kind of file, and the same whatever reads them."""

import json
import pickle
import tarfile
from io import BytesIO
from itertools import islice

import numpy as np
import pytest
import simplejpeg
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.codecs.images.files import made, noise
from tests.contracts.test_random_keys import stated
from tests.reference.views import view

import headrace as hr
from headrace.sampling.samplers import InOrder, Shuffled

N = 23
PIXELS = [noise(20 + k, 24 + 2 * k, seed=k) for k in range(N)]
FILES = [
    made(pixels) if k % 5 == 4 else made(pixels, "jpeg", quality=90, progressive=k % 5 == 3)
    for k, pixels in enumerate(PIXELS)
]
WHOLE = [
    pixels if k % 5 == 4 else simplejpeg.decode_jpeg(file)
    for k, (pixels, file) in enumerate(zip(PIXELS, FILES, strict=True))
]
TRAIN = hr.ImageOptions(crop=hr.RandomResizedCrop((12, 10)), flip=True)
EVALUATE = hr.ImageOptions(resize=14, center_crop=12)


def wanted(index, *, options=TRAIN, seed=0, epoch=0, position=None, stream=0):
    """What an example should hold, from its whole pixels and the numbers that the definition gives."""
    draws = stated(seed, epoch, index if position is None else position, stream).random(41)
    return view(WHOLE[index], options, draws)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The same images in every kind of file."""
    root = tmp_path_factory.mktemp("cropped")
    for k, file in enumerate(FILES):
        (root / "images" / "all").mkdir(parents=True, exist_ok=True)
        (root / "images" / "all" / f"{k}.{'png' if k % 5 == 4 else 'jpg'}").write_bytes(file)
    examples = [{"image": file, "label": k} for k, file in enumerate(FILES)]
    for name in ("x.tfrecord", "x.recordio", "x.array_record", "x.parquet"):
        hr.write(root / name, examples)
    with tarfile.open(root / "x.tar", "w") as tar:
        for k, file in enumerate(FILES[:4]):
            for name, content in ((f"{k:03}.jpg", file), (f"{k:03}.cls", str(k).encode())):
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, BytesIO(content))
    return root


@pytest.mark.parametrize("name", ["images", "x.tfrecord", "x.recordio", "x.array_record", "x.parquet"])
def test_every_kind_of_file(folder, name):
    for options in (TRAIN, EVALUATE):
        source = hr.open(folder / name, decode=options)
        height, width = options.fixed_size
        assert source.schema["image"].shape == (height, width, 3)
        assert source.cuts_cleanly
        batch = source.batch(range(N))["image"]
        assert batch.shape == (N, height, width, 3)
        assert batch.dtype == np.uint8
        for index in range(N):
            np.testing.assert_array_equal(batch[index], wanted(index, options=options))
        np.testing.assert_array_equal(source[7]["image"], batch[7])
        np.testing.assert_array_equal(np.stack([example["image"] for example in source]), batch)
        assert source.encoded()[4]["image"] == FILES[4]
        assert source.fingerprint == hr.open(folder / name).fingerprint


def test_webdataset(folder):
    source = hr.open(folder / "x.tar", decode=EVALUATE)
    assert source.schema["jpg"].shape == (12, 12, 3)
    for k, image in enumerate(source.batch(range(4))["jpg"]):
        np.testing.assert_array_equal(image, wanted(k, options=EVALUATE))


def images_of(batches):
    return [image for batch in batches if len(batch["label"]) for image in batch["image"]]


@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_any_topology_gives_the_same_pixels(folder, data):
    epochs, seed, shuffle = 2, data.draw(st.sampled_from([0, 7])), data.draw(st.booleans())
    order = Shuffled(N, seed=seed) if shuffle else InOrder(N)
    expected = [
        wanted(int(order.indices(epoch, position, position + 1)[0]), seed=seed, epoch=epoch, position=position)
        for epoch in range(epochs)
        for position in range(N)
    ]
    source = hr.open(folder / "x.tfrecord", decode=TRAIN)
    state, found = None, []
    while len(found) < len(expected):
        world = data.draw(st.integers(1, 3))
        loaders = [
            hr.Loader(
                source,
                data.draw(st.integers(1, 6)) if world == 1 else 2,
                shuffle=shuffle,
                seed=seed,
                epochs=epochs,
                shard=hr.Shard(rank, world),
                threads=data.draw(st.integers(0, 2)),
            )
            for rank in range(world)
        ]
        steps = data.draw(st.integers(1, 8))
        for loader in loaders:
            if state is not None:
                loader.load_state_dict(json.loads(json.dumps(state)))
        for batches in islice(zip(*map(iter, loaders), strict=True), steps):
            found.extend(images_of(batches))
        state = loaders[0].state_dict()
    np.testing.assert_array_equal(np.stack(found), np.stack(expected))


def test_workers_give_the_same_pixels(folder):
    source = hr.open(folder / "images", decode=TRAIN)
    here = images_of(hr.Loader(source, 4, shuffle=True, seed=3, threads=0))
    for method in ("fork", "spawn"):
        there = images_of(hr.Loader(source, 4, shuffle=True, seed=3, workers=2, start_method=method))
        np.testing.assert_array_equal(np.stack(there), np.stack(here))


def test_a_loader_state_names_the_seed(folder):
    source = hr.open(folder / "x.tfrecord", decode=TRAIN)
    state = hr.Loader(source, 4, seed=3).state_dict()
    with pytest.raises(hr.StateMismatch):
        hr.Loader(source, 4, seed=4).load_state_dict(state)
    plain = hr.open(folder / "x.tfrecord", decode=EVALUATE)
    hr.Loader(plain, 4, seed=4).load_state_dict(hr.Loader(plain, 4, seed=3).state_dict())


def test_another_epoch_gives_other_pixels(folder):
    source = hr.open(folder / "x.tfrecord", decode=TRAIN)
    first, second = (np.stack(images_of([batch])) for batch in hr.Loader(source, N, epochs=2))
    assert (first != second).any(axis=(1, 2, 3)).sum() > N // 2


def test_operations_above_and_below(folder):
    source = hr.open(folder / "x.tfrecord", decode=TRAIN)
    seeded = source[3:].map(lambda example, rng: {**example, "x": rng.random()}, seeded=True)
    batch = next(iter(hr.Loader(seeded.select("image", "x", "label"), 5, seed=9)))
    assert batch["x"].tolist() == [stated(9, 0, position, 1).random() for position in range(5)]
    for position in range(5):
        np.testing.assert_array_equal(batch["image"][position], wanted(3 + position, seed=9, position=position))
    twice = source.concat(source)
    np.testing.assert_array_equal(twice.batch([N + 2])["image"][0], wanted(2))
    again = pickle.loads(pickle.dumps(source))
    np.testing.assert_array_equal(again[2]["image"], source[2]["image"])
    assert "image" not in source.select("label").schema


def test_all_images_of_an_example_are_cropped_alike(tmp_path):
    pixels = noise(30, 40)
    mask = pixels[:, :, :1]
    frames = np.array([made(pixels), made(pixels)], object)
    hr.write(tmp_path / "x.tfrecord", [{"image": made(pixels), "mask": made(mask), "frames": frames}] * 3)
    options = hr.ImageOptions(crop=hr.RandomResizedCrop(20), flip=True, interpolation="nearest")
    batch = hr.open(tmp_path / "x.tfrecord", decode=options).batch([0, 1, 2])
    assert batch["frames"].shape == (3, 2, 20, 20, 3)
    for k in range(3):
        np.testing.assert_array_equal(batch["image"][k, :, :, :1], batch["mask"][k])
        for frame in batch["frames"][k]:
            np.testing.assert_array_equal(frame, batch["image"][k])
    assert (batch["image"][0] != batch["image"][1]).any()


def test_lists_of_images_of_any_length(tmp_path):
    pixels = [noise(30, 40, seed=k) for k in range(5)]
    rows = [pixels[:2], pixels[2:3], pixels[3:]]
    hr.write(
        tmp_path / "x.tfrecord",
        [{"frames": np.array([made(each) for each in row], object)} for row in rows],
        schema=hr.Schema({"frames": hr.Feature("bytes", (None,), encoding="png")}),
    )
    schema = hr.Schema({"frames": hr.Feature("uint8", (None, None, None, 3), encoding="png")})
    source = hr.open(tmp_path / "x.tfrecord", schema=schema, decode=TRAIN)
    assert source.schema["frames"].shape == (None, 12, 10, 3)
    frames = source.batch([0, 1, 2])["frames"]
    for k, row in enumerate(rows):
        draws = stated(0, 0, k).random(41)
        np.testing.assert_array_equal(frames[k], np.stack([view(each, TRAIN, draws) for each in row]))


def test_a_stream_of_compressed_records(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("headrace.formats.framed.records.FramedRecords.prefers_streaming", True)
    source = hr.open(folder / "x.tfrecord", decode=EVALUATE)
    found = images_of(hr.Loader(source, 4, threads=0))
    np.testing.assert_array_equal(np.stack(found), [wanted(k, options=EVALUATE) for k in range(N)])
    random = hr.open(folder / "x.tfrecord", decode=TRAIN)
    np.testing.assert_array_equal(np.stack(images_of(hr.Loader(random, 4, threads=0))), [wanted(k) for k in range(N)])
    np.testing.assert_array_equal(
        np.concatenate([batch["image"] for batch in random.stream(5)]), [wanted(k) for k in range(N)]
    )


def test_writing_passes_the_stored_images_on(folder, tmp_path):
    with pytest.warns(UserWarning, match="gets the stored images of 'image', without ImageOptions"):
        hr.write(tmp_path / "y.tfrecord", hr.open(folder / "x.tfrecord", decode=TRAIN))
    assert [example["image"] for example in hr.open(tmp_path / "y.tfrecord", decode=False)] == FILES
    hr.write(tmp_path / "y.npz", hr.open(folder / "x.tfrecord", decode=EVALUATE))
    np.testing.assert_array_equal(
        hr.open(tmp_path / "y.npz").batch(range(N))["image"], [wanted(k, options=EVALUATE) for k in range(N)]
    )


def test_damage_names_its_place(tmp_path):
    hr.write(tmp_path / "x.tfrecord", [{"image": file} for file in (FILES[0], FILES[1], FILES[2][:-300])])
    source = hr.open(tmp_path / "x.tfrecord", decode=TRAIN)
    with pytest.raises(hr.CorruptRecord, match=r"x.tfrecord, record 2,.*feature 'image'"):
        source.batch([0, 2, 1])


def test_a_given_schema(folder):
    schema = {"image": hr.Feature("uint8", (None, None, 1), encoding="jpeg")}
    options = hr.ImageOptions(resize=(9, 8), dtype="float32", layout="NCHW")
    source = hr.open(folder / "x.tfrecord", schema=schema, decode=options)
    assert source.schema["image"] == hr.Feature("float32", (1, 9, 8))
    assert source.batch([0, 4])["image"].shape == (2, 1, 9, 8)
    wrong = {"image": hr.Feature("uint8", (7, 7, 3), encoding="jpeg")}
    with pytest.raises(hr.SchemaMismatch, match="as ImageOptions says"):
        hr.open(folder / "x.tfrecord", schema=wrong, decode=options).schema


def test_channels_of_options_and_of_a_given_schema(folder):
    for options in (hr.ImageOptions(channels=1), hr.ImageOptions(channels=1, resize=(9, 8))):
        for shape in ((None, None, None), (None, None, 1)):
            schema = {"image": hr.Feature("uint8", shape, encoding="jpeg")}
            source = hr.open(folder / "x.tfrecord", schema=schema, decode=options)
            assert source.schema["image"].shape[-1] == source[0]["image"].shape[-1] == 1
        schema = {"image": hr.Feature("uint8", (None, None, 3), encoding="jpeg")}
        with pytest.raises(hr.SchemaMismatch, match="1 channels, as ImageOptions says"):
            _ = hr.open(folder / "x.tfrecord", schema=schema, decode=options).schema


def test_a_size_in_a_given_schema_is_what_the_hint_names(folder):
    schema = {"image": hr.Feature("uint8", (1, 1, 3), encoding="jpeg")}
    with pytest.raises(hr.SchemaMismatch, match="where a schema= gives the shape, None in it does"):
        hr.open(folder / "x.tfrecord", schema=schema, decode=hr.ImageOptions(any_size=True))[0]
