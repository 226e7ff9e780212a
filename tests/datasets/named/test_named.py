"""Every known dataset, by its real builder, from small files in the original layout on a local server."""

import gzip
import hashlib
import re
from pathlib import Path

import numpy as np
import pytest
from tests.datasets.authors import (
    IRIS,
    TEST,
    TRAIN,
    cifar10_file,
    digits,
    files_of,
    mnist_files,
    photographs,
    served,
)
from tests.datasets.web import IMPATIENT, Page, idx, zipped

import headrace
from headrace import data_source
from headrace.datasets.locate import KNOWN_NAMES
from headrace.datasets.named import known_builders, named_builder
from headrace.datasets.named.catalogue import BUILDERS
from headrace.datasets.named.cifar import COARSE, FINE
from headrace.datasets.named.mnist import EMNIST_CONFIGS, read_idx
from headrace.errors import CorruptFile, DataError, DownloadFailed, NoFiles, SchemaMismatch

GOLDEN = Path(__file__).parents[2] / "golden" / "named"


def prepared(web, tmp_path, name, files=None):
    builder = served(web, name, files)
    builder.download_and_prepare(data_dir=tmp_path, patience=IMPATIENT, progress=False)
    return data_source(name, data_dir=tmp_path, download=False)


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist", "kmnist", "emnist/digits", "emnist/letters"])
def test_digits(web, tmp_path, name):
    source = prepared(web, tmp_path, name)
    assert source["train"].supervised_keys == ("image", "label")
    for split, count in (("train", TRAIN), ("test", TEST)):
        images, labels = digits(count, count)
        # Pinned to TFDS: the key of an example is its number.
        order = sorted(range(count), key=lambda key: hashlib.md5(split.encode() + str(key).encode()).digest())
        batch = source[split].batch(np.arange(count))
        np.testing.assert_array_equal(batch["image"], images[order][..., None])
        np.testing.assert_array_equal(batch["label"], labels[order])


def test_each_config_of_emnist_has_its_own_files(web, tmp_path):
    configs = ("digits", "balanced", "byclass")
    members = {}
    for number, config in enumerate(configs):
        for split in ("train", "test"):
            stem = f"gzip/emnist-{config}-{split}"
            members[f"{stem}-images-idx3-ubyte.gz"] = idx(np.full((3, 28, 28), number, np.uint8))
            members[f"{stem}-labels-idx1-ubyte.gz"] = idx(np.full(3, number, np.uint8))
    for number, config in enumerate(configs):
        source = prepared(web, tmp_path, f"emnist/{config}", {"archive": zipped(members)})
        batch = source["train"].batch([0, 1, 2])
        assert (set(batch["label"].tolist()), set(batch["image"].flat)) == ({number}, {number})


@pytest.mark.parametrize(("name", "keys"), [("cifar10", ["label"]), ("cifar100", ["coarse_label", "label"])])
def test_photographs(web, tmp_path, name, keys):
    source = prepared(web, tmp_path, name)
    numbers = (10,) if name == "cifar10" else (20, 100)
    parts = (
        [photographs(TRAIN // 5, n, numbers) for n in range(1, 6)]
        if name == "cifar10"
        else [photographs(TRAIN, 1, numbers)]
    )
    pixels = np.concatenate([part[1] for part in parts])
    labels = np.concatenate([part[2] for part in parts])
    rows = {row["id"].decode(): row for row in source["train"]}
    assert sorted(rows) == [f"train_{i:05}" for i in range(TRAIN)]
    for i in range(TRAIN):
        np.testing.assert_array_equal(rows[f"train_{i:05}"]["image"], pixels[i])
        assert [rows[f"train_{i:05}"][key] for key in keys] == list(labels[i])
    assert len(source["test"]) == TEST


def test_iris(web, tmp_path):
    source = prepared(web, tmp_path, "iris")["train"]
    rows = [(list(map(float, np.round(row["features"], 4))), row["label"]) for row in source]
    assert min(rows, key=lambda row: row[1]) == (list(map(float, np.float32([5.1, 3.5, 1.4, 0.2]).round(4))), 0)
    assert sorted(int(row[1]) for row in rows) == [0, 1, 2]


def test_iris_comes_without_its_archive_too(web, tmp_path):
    builder = served(web, "iris", {"iris": IRIS})
    assert named_builder("iris").resources["iris"].otherwise.size == 4551
    builder.download_and_prepare(data_dir=tmp_path)
    assert len(data_source("iris", "train", data_dir=tmp_path)) == 3


def test_abalone(web, tmp_path):
    source = prepared(web, tmp_path, "abalone")["train"]
    rows = sorted(source, key=lambda row: row["rings"])
    assert [int(row["rings"]) for row in rows] == [7, 15]
    assert [source.features["features/Sex"].int2str(row["features/Sex"]) for row in rows] == ["I", "M"]
    assert rows[1]["features/Whole weight"] == np.float32(0.514)


def test_published_sizes_and_checksums():
    """Sizes, checksums, class names and counts equal those that TFDS publishes for these addresses."""
    for builder in known_builders():
        for resource in builder.resources.values():
            assert re.fullmatch("[0-9a-f]{64}", resource.sha256)
            assert resource.size > 1000
    sizes = {builder.full_name: builder.download_size for builder in known_builders()}
    assert sizes["mnist/3.0.1"] == 11_594_722
    assert sizes["fashion_mnist/3.0.1"] == 30_878_645
    assert sizes["kmnist/3.0.1"] == 21_240_888
    assert sizes["emnist/letters/3.1.0"] == 561_753_746
    assert sizes["cifar10/3.0.2"] == 170_052_171
    assert sizes["cifar100/3.0.2"] == 168_513_733
    assert len(sizes) == len(KNOWN_NAMES) + len(EMNIST_CONFIGS) - 1
    assert tuple(BUILDERS) == KNOWN_NAMES
    assert (len(FINE), len(COARSE)) == (100, 20)
    assert list(FINE) == sorted(FINE)


def test_addresses_sizes_and_checksums_are_those_that_tfds_ships():
    """The golden file comes from ``url_checksums/`` in the wheel of tensorflow-datasets 4.9.10."""
    lines = (GOLDEN / "tfds_4.9.10_url_checksums.tsv").read_text().splitlines()
    reported = {url: (int(size), checksum) for url, size, checksum, _ in (line.split("\t") for line in lines)}
    ours = {}
    for builder in known_builders():
        for resource in builder.resources.values():
            for file in filter(None, (resource, resource.otherwise)):
                known = [url for url in file.urls if url in reported]
                assert known or builder.name == "abalone", file.urls
                ours |= {url: (file.size, file.sha256) for url in known}
    assert ours == reported
    # TFDS has no abalone. This is the file of the UCI repository, as in Amazon SageMaker's examples.
    abalone = named_builder("abalone").resources
    (file,) = abalone.values()
    assert (file.size, file.sha256[:16]) == (191_873, "de37cdcdcaaa50c3")


def test_names_are_found_and_meant():
    assert named_builder("emnist").config == "byclass"
    assert named_builder("emnist/letters:3.*.*").full_name == "emnist/letters/3.1.0"
    for wrong in ("mnits", "mnist:2.0.0", "mnist/config", "emnist/none", "..", "mnist extra"):
        with pytest.raises(NoFiles, match="one of the known datasets"):
            named_builder(wrong)
    with pytest.raises(NoFiles, match="Did you mean 'mnist'"):
        named_builder("mnits")


def test_other_class_names_than_ours_are_an_error(web, tmp_path):
    with pytest.raises(CorruptFile, match="the classes"):
        prepared(web, tmp_path, "cifar10", {"archive": cifar10_file(names=["cat", "airplane"])})


@pytest.mark.parametrize(
    "change",
    [
        {"train_images": idx(np.zeros((TRAIN - 1, 28, 28), np.uint8))},
        {"train_images": idx(np.zeros((TRAIN, 27, 28), np.uint8))},
        {"train_labels": idx(np.zeros((TRAIN, 1, 1), np.uint8))},
        {"train_labels": idx(np.full(TRAIN, 10, np.uint8))},
        {"train_labels": gzip.compress(b"")},
        {"train_labels": b"plain"},
        {"test_images": mnist_files()["test_images"][:-9]},
        {"test_images": gzip.compress(gzip.decompress(mnist_files()["test_images"]) + b"x")},
        {"test_images": gzip.compress(bytes((0, 0, 8, 3)) + b"\xff" * 12)},
    ],
    ids=range(9),
)
def test_wrong_files_leave_nothing(web, tmp_path, change):
    with pytest.raises((CorruptFile, SchemaMismatch)):
        prepared(web, tmp_path, "mnist", {**mnist_files(), **change})
    assert [p.name for p in (tmp_path / "mnist").iterdir()] == [".3.0.1.lock"]


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("cifar10", {"archive": cifar10_file()[:-40]}),
        ("iris", {"iris": zipped({"other": b""})}),
        ("iris", {"iris": b"1,2,3\n"}),
        ("iris", {"iris": b"1,2,3,four,Iris-setosa\n"}),
        ("iris", {"iris": b"1,2,3,4,Rose\n"}),
        ("abalone", {"abalone": b"M,1\n"}),
        ("abalone", {"abalone": b"\xff\xfe"}),
        ("emnist/mnist", {"archive": zipped({"gzip/a": b""})}),
    ],
)
def test_other_wrong_files_leave_nothing(web, tmp_path, name, files):
    with pytest.raises(DataError):
        prepared(web, tmp_path, name, files)
    assert not list(tmp_path.rglob("dataset_info.json"))


def test_damaged_idx_files_are_errors(tmp_path):
    whole = gzip.decompress(mnist_files()["train_labels"])
    for cut in range(len(whole)):
        path = tmp_path / "labels.gz"
        path.write_bytes(gzip.compress(whole[:cut]))
        with pytest.raises(CorruptFile):
            read_idx(path, axes=1)


def test_opening_a_known_dataset_fetches_it(web, tmp_path, monkeypatch, capsys):
    builder = served(web, "fashion_mnist")
    monkeypatch.setitem(BUILDERS, "fashion_mnist", lambda: builder)
    monkeypatch.delenv("HEADRACE_DOWNLOAD", raising=False)
    source = headrace.data_source("fashion_mnist", "train", data_dir=tmp_path)
    assert len(source) == TRAIN
    assert source.features["label"].names[9] == "Ankle boot"
    message = capsys.readouterr().err
    assert message.startswith("headrace: fashion_mnist/3.0.1 is not prepared yet: downloading")
    assert "HEADRACE_DOWNLOAD=0" in message
    asked = len(web.asked)
    headrace.data_source("fashion_mnist", data_dir=tmp_path)
    assert len(web.asked) == asked
    assert capsys.readouterr().err == ""


def test_it_can_be_forbidden(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HEADRACE_DOWNLOAD", "0")
    with pytest.raises(NoFiles, match="headrace prepare mnist"):
        data_source("mnist", data_dir=tmp_path)
    monkeypatch.delenv("HEADRACE_DOWNLOAD")
    with pytest.raises(NoFiles, match="download=False"):
        data_source("mnist", data_dir=tmp_path, download=False)
    with pytest.raises(NoFiles, match="a prepared dataset 'nobody_knows'"):
        data_source("nobody_knows", data_dir=tmp_path)
    with pytest.raises(NoFiles, match="mnist"):
        data_source("mnist:9.9.9", data_dir=tmp_path)
    assert capsys.readouterr().err == ""
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_had_leaves_no_dataset(web, tmp_path):
    builder = served(web, "mnist")
    web.pages["/mnist/t10k-labels-idx1-ubyte.gz"] = Page(b"", statuses=[404])
    with pytest.raises(DownloadFailed, match="404"):
        builder.download_and_prepare(data_dir=tmp_path, patience=IMPATIENT)
    assert not (tmp_path / "mnist" / "3.0.1").exists()
    web.pages["/mnist/t10k-labels-idx1-ubyte.gz"] = Page(files_of("mnist")["test_labels"])
    before = len(web.asked)
    builder.download_and_prepare(data_dir=tmp_path, patience=IMPATIENT)
    assert len(web.asked) == before + 1  # the other three were kept
