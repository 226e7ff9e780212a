"""Small files in the layouts that dataset authors publish, and builders that download them from a test server."""

from __future__ import annotations

import gzip
import io
import zipfile
from dataclasses import replace

import numpy as np
from tests.datasets.web import Page, idx, tar_gz, zipped

from headrace.datasets.named import named_builder
from headrace.datasets.named.cifar import COARSE, FINE, THINGS

TRAIN, TEST = 30, 12


def digits(count, seed, classes=10):
    chance = np.random.default_rng(seed)
    return chance.integers(0, 256, (count, 28, 28), np.uint8), (np.arange(count) % classes).astype(np.uint8)


def mnist_files():
    """The four files by the name of their resource."""
    out = {}
    for split, count in (("train", TRAIN), ("test", TEST)):
        images, labels = digits(count, count)
        out[f"{split}_images"], out[f"{split}_labels"] = idx(images), idx(labels)
    return out


def emnist_file(config):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for split, count in (("train", TRAIN), ("test", TEST)):
            images, labels = digits(count, count)
            archive.writestr(f"gzip/emnist-{config}-{split}-images-idx3-ubyte.gz", idx(images))
            archive.writestr(f"gzip/emnist-{config}-{split}-labels-idx1-ubyte.gz", idx(labels))
        archive.writestr("gzip/emnist-other-train-images-idx3-ubyte.gz", b"not looked at")
    return buffer.getvalue()


def photographs(count, seed, classes):
    """Rows of the binary layout, with pixels as ``(n, 32, 32, 3)`` and classes ``(n, k)``."""
    pixels = np.random.default_rng(seed).integers(0, 256, (count, 32, 32, 3), np.uint8)
    labels = np.stack([(np.arange(count) * 7) % number for number in classes], 1).astype(np.uint8)
    rows = np.concatenate([labels, pixels.transpose(0, 3, 1, 2).reshape(count, -1)], 1)
    return rows.tobytes(), pixels, labels


def cifar10_file(names=THINGS):
    files = {f"cifar-10-batches-bin/data_batch_{n}.bin": photographs(TRAIN // 5, n, (10,))[0] for n in range(1, 6)}
    files["cifar-10-batches-bin/test_batch.bin"] = photographs(TEST, 6, (10,))[0]
    files["cifar-10-batches-bin/batches.meta.txt"] = ("\n".join(names) + "\n\n").encode()
    files["cifar-10-batches-bin/readme.html"] = b"<html>"
    return tar_gz(files)


def cifar100_file():
    return tar_gz(
        {
            "cifar-100-binary/train.bin": photographs(TRAIN, 1, (20, 100))[0],
            "cifar-100-binary/test.bin": photographs(TEST, 2, (20, 100))[0],
            "cifar-100-binary/coarse_label_names.txt": ("\n".join(COARSE) + "\n").encode(),
            "cifar-100-binary/fine_label_names.txt": ("\n".join(FINE) + "\n").encode(),
        }
    )


IRIS = b"5.1,3.5,1.4,0.2,Iris-setosa\n7.0,3.2,4.7,1.4,Iris-versicolor\n6.3,3.3,6.0,2.5,Iris-virginica\n\n"
ABALONE = b"M,0.455,0.365,0.095,0.514,0.2245,0.101,0.15,15\nI,0.33,0.255,0.08,0.205,0.0895,0.0395,0.055,7\n"


def files_of(name):
    """The files that a dataset is made of, by the name of their resource."""
    plain = name.partition("/")[0]
    if plain in ("mnist", "fashion_mnist", "kmnist"):
        return mnist_files()
    return {
        "emnist": lambda: {"archive": emnist_file(name.partition("/")[2] or "byclass")},
        "cifar10": lambda: {"archive": cifar10_file()},
        "cifar100": lambda: {"archive": cifar100_file()},
        "iris": lambda: {"iris": zipped({"iris.data": IRIS, "iris.names": b"words"})},
        "abalone": lambda: {"abalone": ABALONE},
    }[plain]()


def served(web, name, files=None):
    """The real builder of a dataset, with the addresses and checksums of small files on ``web``."""
    builder = named_builder(name)
    files = files_of(name) if files is None else files
    resources = {}
    for part, resource in builder.resources.items():
        path = f"/{builder.name}/{resource.name}"
        web.pages[path] = Page(files[part])
        resources[part] = web.resource(path)
    return replace(builder, resources=resources)


def unidx(content):
    """The values of an idx file."""
    plain = gzip.decompress(content)
    axes = plain[3]
    shape = [int.from_bytes(plain[4 + 4 * i : 8 + 4 * i], "big") for i in range(axes)]
    return np.frombuffer(plain[4 + 4 * axes :], np.uint8).reshape(shape)
