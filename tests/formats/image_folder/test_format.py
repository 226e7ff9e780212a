"""Folders of images: files, order, labels; writing; conversion both ways."""

import os
import pickle
import shutil

import numpy as np
import pytest
import simplejpeg
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.codecs.images.files import jpeg, made, noise

import headrace as hr
from headrace.contracts.schema import Schema
from headrace.formats.image_folder.format import looks_like_image_folder
from headrace.formats.image_folder.write import ImageFolderSink
from headrace.writing import units

NAME = hr.Feature("str")
JPEG = hr.Feature("uint8", (16, 24, 3), encoding="jpeg")
STORED = hr.Feature("bytes", encoding="jpeg")


def put(path, content=b""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "pets"
    for label, name in enumerate(["cat", "dog"]):
        for i in (1, 2, 10):
            put(root / name / f"{i}.jpg", jpeg(seed=100 * label + i))
        put(root / name / "more" / "x.JPEG", jpeg(seed=100 * label + 50))
        put(root / name / ".hidden.jpg", b"none")
        put(root / name / "notes.txt", b"none")
    put(root / ".cache" / "y.jpg", b"none")
    put(root / "README.md", b"none")
    return root


NAMES = [f"{name}/{file}" for name in ("cat", "dog") for file in ("1.jpg", "2.jpg", "10.jpg", "more/x.JPEG")]


def test_images_labels_and_names(folder):
    source = hr.open(folder)
    label = hr.Feature("int64", names=("cat", "dog"))
    assert source.schema == hr.Schema({"image": JPEG, "label": label, "name": NAME})
    assert [example["name"] for example in source] == NAMES
    batch = source.batch([6, 0])
    assert batch["label"].tolist() == [1, 0]
    np.testing.assert_array_equal(batch["image"][0], simplejpeg.decode_jpeg(jpeg(seed=110)))
    assert source.schema["label"].names[source[6]["label"]] == "dog"
    assert source.where(6) == hr.Where(path=str(folder / "dog" / "10.jpg"))
    assert source.format == "image_folder"
    assert hr.open(folder, decode=False)[0]["image"] == jpeg(seed=1)
    assert hr.open(folder, columns=["label"]).batch([7])["label"].tolist() == [1]


def test_opening_opens_no_image(folder, monkeypatch):
    for path in folder.rglob("*.jpg"):
        path.chmod(0)
        path.write_bytes(b"") if os.access(path, os.W_OK) else None
    source = hr.open(folder)
    assert len(source) == 8
    assert source.select("name", "label")[7] == {"name": "dog/more/x.JPEG", "label": 1}


def test_pickled_and_in_a_loader(folder):
    again = pickle.loads(pickle.dumps(hr.open(folder)))
    seen = [name for batch in hr.Loader(again, 3, shuffle=True, threads=2) for name in batch["name"]]
    assert sorted(seen) == sorted(NAMES)


def test_a_flat_folder_has_no_labels(tmp_path):
    for i in (1, 2, 10):
        put(tmp_path / "flat" / f"{i}.png", made(noise(4, 5, seed=i)))
    source = hr.open(tmp_path / "flat")
    assert source.schema == hr.Schema({"image": hr.Feature("uint8", (4, 5, 3), encoding="png"), "name": NAME})
    assert [e["name"] for e in source] == ["1.png", "2.png", "10.png"]
    put(tmp_path / "flat" / "3.jpg", jpeg(4, 5))
    assert hr.open(tmp_path / "flat").schema["image"] == hr.Feature("uint8", (4, 5, 3), encoding="image")


def test_several_folders_number_their_classes_together(tmp_path):
    put(tmp_path / "a" / "cat" / "1.jpg", jpeg())
    put(tmp_path / "b" / "ant" / "1.jpg", jpeg())
    source = hr.open([tmp_path / "a", tmp_path / "b"])
    assert source.schema["label"].names == ("ant", "cat")
    assert [e["label"] for e in source] == [1, 0]


def test_splits(tmp_path):
    for place in ("train/cat", "train/dog", "test/dog"):
        put(tmp_path / "pets" / place / "1.jpg", jpeg())
    root = tmp_path / "pets"
    assert [e["label"] for e in hr.open(root, split="train+test")] == [0, 1, 1]
    assert len(hr.open(root, split="train[:50%]")) == 1
    assert hr.open(root / "test").schema["label"].names == ("cat", "dog")  # the classes of all splits
    with pytest.raises(hr.UnsupportedData, match=r"found the splits test, train .*split='test'"):
        hr.open(root)


def test_folders_that_are_not_class_folders(tmp_path, folder):
    put(folder / "lost.jpg", jpeg())
    with pytest.raises(hr.UnsupportedData, match="images in folders of classes, or in no folder"):
        hr.open(folder, format="image_folder")
    os.mkdir(tmp_path / "empty")
    with pytest.raises(hr.NoFiles, match=r"expected images \(.jpg, "):
        hr.open(tmp_path / "empty", format="image_folder").schema
    with pytest.raises(hr.NoFiles):
        hr.open(tmp_path / "empty")
    os.mkdir(tmp_path / "circle")
    os.symlink(tmp_path / "circle", tmp_path / "circle" / "again")
    with pytest.raises(hr.UnsupportedData, match="32 deep"):
        hr.open(tmp_path / "circle", format="image_folder").schema


def test_links_that_lead_nowhere_are_images_and_classes_that_cannot_be_read(folder):
    """Without them, a dataset that was fetched in part would look whole, and a missing class change the numbers of others."""
    os.symlink("/not/fetched", folder / "cat" / "00.jpg")
    source = hr.open(folder)
    names = [str(source.where(row).path) for row in range(len(source))]
    row = names.index(str(folder / "cat" / "00.jpg"))
    with pytest.raises(hr.NoFiles, match=r"00\.jpg"):
        source[row]
    report = hr.verify(folder, images=True)
    assert [fault.where.path for fault in report.faults] == [names[row]]
    assert report.records == len(source) - 1
    os.symlink("/not/mounted", folder / "ant")
    with pytest.raises(hr.NoFiles, match=r"no such folder.*ant"):
        hr.open(folder)


def test_a_class_may_be_named_like_an_image(folder):
    put(folder / "zebra.png" / "1.jpg", jpeg())
    assert "zebra.png" in hr.open(folder).schema["label"].names


def test_other_folders_are_not_mistaken_for_images(tmp_path):
    hr.write(tmp_path / "records" / "a.tfrecord", [{"x": 1}]) if (tmp_path / "records").mkdir() else None
    hr.write(tmp_path / "records" / "a.tfrecord", [{"x": 1}])
    put(tmp_path / "records" / "preview.png", made(noise(2, 2)))
    assert not looks_like_image_folder(str(tmp_path / "records"))
    os.mkdir(tmp_path / "deep")
    shutil.copytree(tmp_path / "records", tmp_path / "deep" / "x" / "y" / "z")
    assert not looks_like_image_folder(str(tmp_path / "deep"))


@pytest.mark.parametrize("name", ["README", "Thumbs.db", "desktop.ini", "LICENSE", "x.svg", "1.xml", "2.HEIC"])
def test_files_that_surely_hold_no_records_are_ignored(tmp_path, name):
    flat, classes, both = (tmp_path / each for each in ("flat", "classes", "both"))
    for path in (
        flat / "1.jpg",
        classes / "a" / "1.jpg",
        classes / "b" / "2.jpg",
        both / "a" / "1.jpg",
        both / "b" / "2.jpg",
    ):
        put(path, jpeg())
    for path in (flat, classes, both / "a", both / "b"):
        put(path / name, b"\xd0\xcf\x11\xe0")
    assert len(hr.open(flat)) == 1
    for folder in (classes, both):
        assert hr.open(folder).schema["label"].names == ("a", "b")


@pytest.mark.parametrize("name", ["x.bin", "x"])
def test_files_that_may_hold_records_need_the_format(tmp_path, name):
    flat, classes = tmp_path / "flat", tmp_path / "classes"
    for path in (flat / "1.jpg", classes / "a" / "1.jpg", classes / "b" / "2.jpg"):
        put(path, jpeg())
        put(path.parent / name, b"\xd0\xcf\x11\xe0")
    for folder in (flat, classes):
        with pytest.raises((hr.UnknownFormat, hr.NoFiles), match="format='image_folder'"):
            hr.open(folder)
        assert len(hr.open(folder, format="image_folder")) > 0


def test_damaged_and_missing_files_are_named(folder):
    put(folder / "dog" / "2.jpg", jpeg(seed=102)[:-9])
    source = hr.open(folder)
    with pytest.raises(
        hr.CorruptRecord, match=r"Premature end .* - at .*/pets/dog/2.jpg, feature 'image'\. decode=False"
    ):
        source[5]
    (folder / "cat" / "1.jpg").unlink()
    with pytest.raises(hr.NoFiles, match=r"no such file: .*/pets/cat/1.jpg"):
        source[0]


def test_written_folders_are_the_same(folder, tmp_path):
    hr.write(tmp_path / "copy", hr.open(folder), format="image_folder")
    assert {p.relative_to(tmp_path / "copy").as_posix() for p in (tmp_path / "copy").rglob("*.*")} == set(NAMES)
    for name in NAMES:
        assert (tmp_path / "copy" / name).read_bytes() == (folder / name).read_bytes()
    assert hr.open(tmp_path / "copy").schema == hr.open(folder).schema
    assert sorted(os.listdir(tmp_path)) == ["copy", "pets"]


@pytest.mark.parametrize("name", ["x.tfrecord", "x.array_record"])
def test_to_records_and_back(folder, tmp_path, name):
    hr.convert(folder, tmp_path / name)
    records = hr.open(tmp_path / name, decode=False)
    assert [e["image"] for e in records] == [e["image"] for e in hr.open(folder, decode=False)]
    done = hr.convert(tmp_path / name, tmp_path / "back", format="image_folder")
    assert done.examples == 8
    assert done.bytes == sum(len(e["image"]) for e in records)
    back = hr.open(tmp_path / "back")
    assert back.schema["label"].names == ("00000", "00001")  # records hold no names of classes
    assert [e["name"] for e in back] == [f"{name.startswith('dog'):05d}/{name}" for name in NAMES]


def test_files_are_numbered_where_they_have_no_names(tmp_path, monkeypatch):
    images = [jpeg(seed=i) for i in range(12)]
    hr.write(tmp_path / "x.tfrecord", [{"image": image, "label": i % 11} for i, image in enumerate(images)])
    hr.write(tmp_path / "one", hr.open(tmp_path / "x.tfrecord"), format="image_folder")
    monkeypatch.setattr("headrace.writing.units.UNIT_EXAMPLES", 5)
    hr.convert(tmp_path / "x.tfrecord", tmp_path / "many", format="image_folder")
    for root in ("one", "many"):
        source = hr.open(tmp_path / root, decode=False)
        assert [e["label"] for e in source] == [0, 0, *range(1, 11)]
        assert source[1]["name"] == "00000/00000011.jpg"
        assert source[1]["image"] == images[11]


@pytest.mark.parametrize(
    "names",
    [
        [*(f"img{i}" for i in range(5)), *(f"{i:08d}" for i in range(3))],
        [f"{i:08d}" for i in reversed(range(8))],
    ],
)
def test_names_that_are_numbers_are_kept(tmp_path, monkeypatch, names):
    """The last unit looks as if its files had been numbered because they have no names."""
    hr.write(tmp_path / "x.tfrecord", [{"image": jpeg(seed=i), "name": name} for i, name in enumerate(names)])
    monkeypatch.setattr("headrace.writing.units.UNIT_EXAMPLES", 5)
    hr.convert(tmp_path / "x.tfrecord", tmp_path / "many", format="image_folder")
    source = hr.open(tmp_path / "many", decode=False)
    assert {e["name"]: e["image"] for e in source} == {f"{name}.jpg": jpeg(seed=i) for i, name in enumerate(names)}


def test_pixels_and_text_are_not_an_image(tmp_path):
    pixels = {"image": np.zeros((2, 4, 4, 3), np.uint8), "label": np.arange(2)}
    with pytest.raises(hr.UnsupportedData, match="encoding='png'"):
        hr.write(tmp_path / "x", pixels, format="image_folder")
    with pytest.raises(hr.SchemaMismatch, match=r"expected the bytes of an image, found bytes b'text' - at .*record 0"):
        hr.write(tmp_path / "x", [{"image": b"text"}], format="image_folder", schema={"image": hr.Feature("bytes")})
    with pytest.raises(hr.UnsupportedData, match="one image, a label and a name"):
        hr.write(
            tmp_path / "x",
            [{"image": jpeg(), "size": 3}],
            format="image_folder",
            schema={"image": STORED, "size": hr.Feature("int64")},
        )
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "name", ["../x.jpg", "/etc/x.jpg", ".x.jpg", "a//b.jpg", "a/../b.jpg", "a\\b.jpg", "", "a\0.jpg"]
)
def test_names_stay_inside_the_folder(tmp_path, name):
    os.mkdir(tmp_path / "in")
    with pytest.raises(hr.UnsupportedData, match="inside the folder"):
        hr.write(
            tmp_path / "in" / "x",
            [{"image": jpeg(), "name": name}],
            format="image_folder",
            schema={"image": STORED, "name": NAME},
        )
    with pytest.raises(hr.UnsupportedData, match="a visible folder"):
        schema = {"image": STORED, "label": hr.Feature("str")}
        hr.write(tmp_path / "in" / "x", [{"image": jpeg(), "label": name}], format="image_folder", schema=schema)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


KINDS = {"jpeg": ".jpg", "png": ".png", "gif": ".gif", "bmp": ".bmp", "webp": ".webp", "tiff": ".tiff"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["first", "v1.2", "photo.raw", "a b", "UPPER", "x~", "y.tmp"])
def test_names_without_an_ending_get_that_of_the_image(tmp_path, kind, name):
    image = jpeg() if kind == "jpeg" else made(noise(5, 6, 3), kind)
    schema = {"image": hr.Feature("bytes", encoding=kind), "name": NAME}
    assert hr.write(tmp_path / "x", [{"image": image, "name": name}], format="image_folder", schema=schema) == 1
    source = hr.open(tmp_path / "x", decode=False)
    assert [(example["image"], example["name"]) for example in source] == [(image, name + KINDS[kind])]
    assert source.schema["image"].encoding == kind


def test_names_with_an_ending_stay(tmp_path):
    names = ["a.JPG", "b.jpeg", "c.png"]
    examples = [{"image": jpeg(seed=number), "name": name} for number, name in enumerate(names)]
    hr.write(tmp_path / "x", examples, format="image_folder", schema={"image": STORED, "name": NAME})
    assert sorted(example["name"] for example in hr.open(tmp_path / "x")) == names


LABELS = ["cat", "dog.png", "train", "test", "a b", "x~", "x.tmp", ".x", "", "a/b", "1", "é", "Val"]
PARTS = ["one", "two.jpg", "three.txt", "d/one", "d.png/one", "e~/one", "d/e/f", ".g", "h/", "/i", "cat/j"]


@settings(max_examples=150, deadline=None)
@given(
    names=st.lists(st.sampled_from(PARTS), min_size=1, max_size=4),
    classes=st.none() | st.lists(st.sampled_from(LABELS), min_size=1, max_size=3, unique=True),
    seed=st.integers(0, 9),
)
def test_values_round_trip_or_are_refused_before_writing(tmp_path_factory, names, classes, seed):
    folder = tmp_path_factory.mktemp("written")
    label = {} if classes is None else {"label": hr.Feature("int64", names=tuple(classes))}
    examples = [{"image": jpeg(seed=number), "name": name} for number, name in enumerate(names)]
    if classes is not None:
        for number, example in enumerate(examples):
            example["label"] = (seed + number) % len(classes)
    try:
        hr.write(folder / "x", examples, format="image_folder", schema={"image": STORED, **label, "name": NAME})
    except (hr.UnsupportedData, hr.SchemaMismatch):
        assert list(folder.iterdir()) == []
        return
    source = hr.open(folder / "x", decode=False)
    found = {
        example["image"]: None if classes is None else source.schema["label"].names[example["label"]]
        for example in source
    }
    assert found == {example["image"]: None if classes is None else classes[example["label"]] for example in examples}


def test_the_sink(tmp_path):
    label = hr.Feature("int64", names=("a", "b"))
    sink = ImageFolderSink(tmp_path / "x", Schema({"image": STORED, "label": label}))
    sink.write_batch({"image": [jpeg()], "label": [1]}, 1)
    assert not (tmp_path / "x").exists()
    sink.close()
    assert sorted(path.relative_to(tmp_path / "x").as_posix() for path in (tmp_path / "x").rglob("*")) == [
        "a",
        "b",
        "b/00000000.jpg",
    ]
    assert [e["label"] for e in hr.open(tmp_path / "x")] == [1]
    with pytest.raises(hr.UnsupportedData, match="Remove it first"):
        ImageFolderSink(tmp_path / "x", Schema({"image": STORED}))
    sink = ImageFolderSink(tmp_path / "y", Schema({"image": STORED, "label": label, "name": NAME}))
    with pytest.raises(hr.SchemaMismatch, match="a label from 0 to 1, found 2"):
        sink.write_batch({"image": [jpeg()], "label": [2], "name": ["x.jpg"]}, 1)
    with pytest.raises(hr.SchemaMismatch, match="a different name for every image"):
        sink.write_batch({"image": [jpeg()] * 2, "label": [0, 0], "name": ["x.jpg"] * 2}, 2)
    sink.abort()
    assert os.listdir(tmp_path) == ["x"]
    with pytest.raises(hr.UnsupportedData):
        ImageFolderSink(tmp_path / "z", Schema({"image": STORED}), compression="gzip")


def test_verify(folder):
    assert hr.verify(folder).ok


@pytest.mark.parametrize("parts", [False, True])
@pytest.mark.parametrize("labels", [["train", "test", "train"], ["test"], ["train", "cat"]])
def test_labels_that_are_called_as_splits(tmp_path, monkeypatch, labels, parts):
    if parts:
        monkeypatch.setattr(units, "UNIT_EXAMPLES", 1)
    schema = {"image": STORED, "label": hr.Feature("str")}
    rows = {"image": [jpeg(seed=seed) for seed in range(len(labels))], "label": labels}
    hr.write(tmp_path / "in.tfrecord", rows, schema=schema)
    hr.convert(tmp_path / "in.tfrecord", tmp_path / "out", format="image_folder", schema=schema)
    found = hr.open(tmp_path / "out", decode=False)
    assert sorted(found.schema["label"].names[row["label"]] for row in found) == sorted(labels)
    assert hr.verify(tmp_path / "out").ok


@pytest.mark.parametrize("labels", [[5, 7, 5], [-1, 0, 1], [99_999, 100_000, 3], [0, 2, 1], [1, 1, 1], [0, 1, 3, 2]])
@pytest.mark.parametrize("how", ["write", "convert", "parts"])
def test_numbers_without_names_are_kept(tmp_path, monkeypatch, labels, how):
    """Only a reader that counts the folders gives other labels to numbers that are not 0, 1, 2, ..."""
    monkeypatch.setattr(units, "UNIT_EXAMPLES", 1 if how == "parts" else 100)
    columns = {"image": [jpeg(seed=seed) for seed in range(len(labels))], "label": np.array(labels)}
    schema = {"image": STORED, "label": hr.Feature("int64")}
    if how == "write":
        hr.write(tmp_path / "x", columns, format="image_folder", schema=schema)
    else:
        hr.write(tmp_path / "x.tfrecord", columns, schema=schema)
        assert hr.convert(tmp_path / "x.tfrecord", tmp_path / "x", format="image_folder").lost == ()
    found = hr.open(tmp_path / "x", decode=False)
    wanted = dict(zip(columns["image"], labels, strict=True))
    assert {row["image"]: row["label"] for row in found} == wanted
    is_counted = sorted(set(labels)) == list(range(len(set(labels))))
    assert (found.schema["label"].names is None) != is_counted
    assert (tmp_path / "x" / "headrace-labels.json").exists() != is_counted
    assert hr.verify(tmp_path / "x").ok
    hr.write(tmp_path / "y.tfrecord", columns, schema=schema)
    hr.convert(tmp_path / "y.tfrecord", tmp_path / "x", format="image_folder", overwrite=True)
    assert {row["image"]: row["label"] for row in hr.open(tmp_path / "x", decode=False)} == wanted


def test_a_class_among_numbers_is_refused(tmp_path):
    columns = {"image": [jpeg()], "label": np.array([5])}
    schema = {"image": STORED, "label": hr.Feature("int64")}
    hr.write(tmp_path / "x", columns, format="image_folder", schema=schema)
    put(tmp_path / "x" / "cat" / "a.jpg", jpeg())
    with pytest.raises(hr.UnsupportedData, match=r"a number as the name .*found 'cat'.*headrace-labels.json"):
        len(hr.open(tmp_path / "x"))


@pytest.mark.parametrize("change", ["none", "zero", "short", "behind"])
def test_bmps_that_are_read_are_no_fault(tmp_path, change):
    image = bytearray(made(noise(10, 12), "bmp"))
    if change in ("zero", "short"):
        image[2:6] = (0 if change == "zero" else 100).to_bytes(4, "little")
    put(tmp_path / "bmps" / "1.bmp", bytes(image) + (b"xx" if change == "behind" else b""))
    assert hr.open(tmp_path / "bmps")[0]["image"].shape == (10, 12, 3)
    report = hr.verify(tmp_path / "bmps", images=True)
    assert (report.ok, report.images) == (True, 1), report
    put(tmp_path / "bmps" / "1.bmp", bytes(image[:-7]) if change in ("none", "behind") else b"BM" + bytes(40))
    assert not hr.verify(tmp_path / "bmps", images=True).ok


def test_a_split_that_is_not_there_names_those_that_are(tmp_path):
    for name in ("Train", "test", "val"):
        put(tmp_path / name / "cat" / "1.jpg", jpeg())
    for split in ("dev", "train", "test+dev"):
        with pytest.raises(
            hr.NoFiles,
            match="expected a folder or files of the split '(dev|train)', found folders of the splits Train, test, val",
        ):
            hr.open(tmp_path, split=split)
