"""MNIST and the datasets that share its files: images and labels in idx format, compressed by gzip.

Layout of idx: two zero bytes, the type of the values (8 is uint8), the number of axes; the length of each axis as a big-endian
32-bit number; the values, the last axis running fastest.

Names, versions, features, keys and checksums are those of TFDS, so that the order of examples is the same.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from headrace.datasets.building.builder import DatasetBuilder
from headrace.datasets.building.preparing import Examples
from headrace.datasets.downloading.downloads import Downloads, Resource
from headrace.datasets.features.image import Image
from headrace.datasets.features.label import ClassLabel
from headrace.datasets.features.mapping import FeaturesDict
from headrace.errors import CorruptFile, Where
from headrace.io.faults import name_in_errors

__all__ = ["EMNIST_CONFIGS", "emnist", "fashion_mnist", "kmnist", "mnist", "read_idx"]

SIDE = 28
MOST_BYTES = 1 << 33
FILES = {
    "train_images": "train-images-idx3-ubyte.gz",
    "train_labels": "train-labels-idx1-ubyte.gz",
    "test_images": "t10k-images-idx3-ubyte.gz",
    "test_labels": "t10k-labels-idx1-ubyte.gz",
}
EMNIST_CONFIGS = {"byclass": 62, "bymerge": 47, "balanced": 47, "letters": 37, "digits": 10, "mnist": 10}
"""Number of classes. Letters are numbered from 1, so that class 0 stays empty."""
GARMENTS = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
SYLLABLES = ("o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo")


def mnist() -> DatasetBuilder:
    """Handwritten digits: 60,000 images to train, 10,000 to test, of 28 x 28 pixels, in 10 classes."""
    return _builder(
        name="mnist",
        mirrors=(
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
        ),
        known={
            "train_images": (9912422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
            "train_labels": (28881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
            "test_images": (1648877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
            "test_labels": (4542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
        },
        label=ClassLabel(num_classes=10),
        description="Handwritten digits, by Y. LeCun, C. Cortes and C. Burges: 28 x 28 pixels, grey, 10 classes.",
        citation="Y. LeCun, C. Cortes, C. Burges: MNIST handwritten digit database. 2010.",
        urls=("http://yann.lecun.com/exdb/mnist/",),
    )


def fashion_mnist() -> DatasetBuilder:
    """Articles of clothing: 60,000 images to train, 10,000 to test, of 28 x 28 pixels, in 10 classes."""
    return _builder(
        name="fashion_mnist",
        mirrors=("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
        known={
            "train_images": (26421880, "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"),
            "train_labels": (29515, "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"),
            "test_images": (4422102, "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"),
            "test_labels": (5148, "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"),
        },
        label=ClassLabel(names=GARMENTS),
        description="Articles of clothing from Zalando: 28 x 28 pixels, grey, 10 classes.",
        citation="H. Xiao, K. Rasul, R. Vollgraf: Fashion-MNIST. arXiv:1708.07747, 2017.",
        license="MIT",
        urls=("https://github.com/zalandoresearch/fashion-mnist",),
    )


def kmnist() -> DatasetBuilder:
    """Cursive Japanese characters: 60,000 images to train, 10,000 to test, of 28 x 28 pixels, in 10 classes."""
    return _builder(
        name="kmnist",
        mirrors=("http://codh.rois.ac.jp/kmnist/dataset/kmnist/",),
        known={
            "train_images": (18165135, "51467d22d8cc72929e2a028a0428f2086b092bb31cfb79c69cc0a90ce135fde4"),
            "train_labels": (29497, "e38f9ebcd0f3ebcdec7fc8eabdcdaef93bb0df8ea12bee65224341c8183d8e17"),
            "test_images": (3041136, "edd7a857845ad6bb1d0ba43fe7e794d164fe2dce499a1694695a792adfac43c5"),
            "test_labels": (5120, "20bb9a0ef54c7db3efc55a92eef5582c109615df22683c380526788f98e42a1c"),
        },
        label=ClassLabel(names=SYLLABLES),
        description="Kuzushiji: one cursive character for each row of the hiragana. 28 x 28 pixels, grey, 10 classes.",
        citation="T. Clanuwat and others: Deep Learning for Classical Japanese Literature. arXiv:1812.01718, 2018.",
        license="CC BY-SA 4.0",
        urls=("http://codh.rois.ac.jp/kmnist/index.html.en",),
    )


def emnist(config: str = "byclass") -> DatasetBuilder:
    """Handwritten digits and letters, of 28 x 28 pixels; images are transposed, as published.

    Args:
        config: ``"byclass"`` (62 classes), ``"bymerge"``, ``"balanced"`` (47), ``"letters"`` (37, of which 0 is empty),
            ``"digits"`` or ``"mnist"`` (10). All are in one file of 562 MB.
    """
    archive = Resource(
        urls=(
            "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",
            "https://www.itl.nist.gov/iaui/vip/cs_links/EMNIST/gzip.zip",
        ),
        size=561753746,
        sha256="fb9bb67e33772a9cc0b895e4ecf36d2cf35be8b709693c3564cea2a019fcda8e",
    )
    return DatasetBuilder(
        name="emnist",
        version="3.1.0",
        config=config,
        default_config="byclass",
        features=_features(ClassLabel(num_classes=EMNIST_CONFIGS[config])),
        splits=partial(_emnist_splits, config),
        resources={"archive": archive},
        supervised_keys=("image", "label"),
        description="Handwritten digits and letters from NIST Special Database 19, in the layout of MNIST; images lie on their side.",
        citation="G. Cohen, S. Afshar, J. Tapson, A. van Schaik: EMNIST. IJCNN 2017, doi:10.1109/ijcnn.2017.7966217.",
        urls=("https://www.nist.gov/itl/products-and-services/emnist-dataset",),
    )


def _builder(
    *, name: str, mirrors: tuple[str, ...], known: Mapping[str, tuple[int, str]], label: ClassLabel, **options: Any
) -> DatasetBuilder:
    resources = {
        part: Resource(urls=tuple(mirror + FILES[part] for mirror in mirrors), size=size, sha256=sha256)
        for part, (size, sha256) in known.items()
    }
    return DatasetBuilder(
        name=name,
        version="3.0.1",
        features=_features(label),
        splits=_mnist_splits,
        resources=resources,
        supervised_keys=("image", "label"),
        **options,
    )


def _features(label: ClassLabel) -> FeaturesDict:
    return FeaturesDict({"image": Image(shape=(SIDE, SIDE, 1)), "label": label})


def _mnist_splits(downloads: Downloads) -> Mapping[str, Examples]:
    # Download all files first, so that a failure comes before any work.
    paths = {part: downloads[part] for part in FILES}
    return {
        split: partial(_examples, paths[f"{split}_images"], paths[f"{split}_labels"]) for split in ("train", "test")
    }


def _emnist_splits(config: str, downloads: Downloads) -> Mapping[str, Examples]:
    parts = {
        f"gzip/emnist-{config}-{split}-{kind}-ubyte.gz": f"{split}-{kind}.gz"
        for split in ("train", "test")
        for kind in ("images-idx3", "labels-idx1")
    }
    folder = downloads.unpacked("archive", only=parts)
    return {
        split: partial(_examples, folder / f"{split}-images-idx3.gz", folder / f"{split}-labels-idx1.gz")
        for split in ("train", "test")
    }


def _examples(images: Path, labels: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    pixels, classes = read_idx(images, axes=3), read_idx(labels, axes=1)
    if len(pixels) != len(classes) or pixels.shape[1:] != (SIDE, SIDE):
        raise CorruptFile(
            Where(path=str(images)),
            expected=f"{len(classes)} images of {SIDE} x {SIDE} pixels, one for each label",
            found=f"an array of {pixels.shape}",
        )
    for number, (image, label) in enumerate(zip(pixels, classes, strict=True)):
        yield number, {"image": image[..., None], "label": int(label)}


def read_idx(path: Path, *, axes: int) -> npt.NDArray[np.uint8]:
    """Read a gzipped idx file of ``uint8`` values.

    Raises:
        CorruptFile: It is another file, or truncated.
    """
    import gzip
    import zlib

    where = Where(path=str(path))
    with name_in_errors(str(path)), gzip.open(path) as file:
        try:
            return _idx(file, axes, where)  # type: ignore[arg-type]
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise CorruptFile(where, expected="a complete gzip file", found=str(error)) from error


def _idx(file: IO[bytes], axes: int, where: Where) -> npt.NDArray[np.uint8]:
    head = file.read(4 + 4 * axes)
    magic = bytes((0, 0, 8, axes))
    if len(head) < 4 + 4 * axes or head[:4] != magic:
        raise CorruptFile(
            where, expected=f"an idx file of {axes} axes, which begins with {magic!r}", found=repr(head[:4])
        )
    shape = struct.unpack(f">{axes}I", head[4:])
    size = math.prod(shape)
    if size > MOST_BYTES:
        raise CorruptFile(where, expected=f"at most {MOST_BYTES:,} values", found=f"{size:,} announced")
    values = file.read(size)
    if len(values) != size or file.read(1):
        raise CorruptFile(where, expected=f"{size} values, as in its header", found="fewer or more")
    return np.frombuffer(values, np.uint8).reshape(shape)
