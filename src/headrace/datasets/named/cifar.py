"""CIFAR-10 and CIFAR-100, from their binary files.

Layout: for each image its classes (one byte; in CIFAR-100 the coarse one and the fine one), then 1,024 bytes each of red, green and
blue, row by row.

Names, versions, features, keys and checksums are those of TFDS, so that the order of examples is the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from headrace.datasets.building.builder import DatasetBuilder
from headrace.datasets.building.preparing import Examples
from headrace.datasets.downloading.downloads import Downloads, Resource
from headrace.datasets.features.image import Image
from headrace.datasets.features.label import ClassLabel
from headrace.datasets.features.mapping import FeaturesDict
from headrace.datasets.features.tensor import Text
from headrace.errors import CorruptFile, Where
from headrace.io.faults import name_in_errors

__all__ = ["cifar10", "cifar100"]


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


SIDE = 32
IMAGE_BYTES = 3 * SIDE * SIDE
THINGS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
COARSE = _names(
    "aquatic_mammals fish flowers food_containers fruit_and_vegetables household_electrical_devices household_furniture insects "
    "large_carnivores large_man-made_outdoor_things large_natural_outdoor_scenes large_omnivores_and_herbivores medium_mammals "
    "non-insect_invertebrates people reptiles small_mammals trees vehicles_1 vehicles_2"
)
FINE = _names(
    "apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can castle caterpillar "
    "cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant flatfish forest fox girl "
    "hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain mouse mushroom "
    "oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine possum rabbit raccoon ray road "
    "rocket rose sea seal shark shrew skunk skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank "
    "telephone television tiger tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm"
)
CITATION = "A. Krizhevsky: Learning multiple layers of features from tiny images. Technical report, 2009."
HOME = "https://www.cs.toronto.edu/~kriz/cifar.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """Layout of an archive: the files of each split, and class names by feature, in the order of their bytes."""

    folder: str
    splits: Mapping[str, tuple[str, ...]]
    labels: Mapping[str, tuple[str, Sequence[str]]]


_CIFAR10 = _Layout(
    folder="cifar-10-batches-bin",
    splits={"train": tuple(f"data_batch_{number}.bin" for number in range(1, 6)), "test": ("test_batch.bin",)},
    labels={"label": ("batches.meta.txt", THINGS)},
)
_CIFAR100 = _Layout(
    folder="cifar-100-binary",
    splits={"train": ("train.bin",), "test": ("test.bin",)},
    labels={"coarse_label": ("coarse_label_names.txt", COARSE), "label": ("fine_label_names.txt", FINE)},
)


def cifar10() -> DatasetBuilder:
    """Photographs: 50,000 to train, 10,000 to test, of 32 x 32 pixels, in 10 classes."""
    return _builder(
        "cifar10",
        _CIFAR10,
        Resource(
            urls=("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
            size=170052171,
            sha256="c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
        ),
        "Photographs of 32 x 32 pixels in 10 classes.",
    )


def cifar100() -> DatasetBuilder:
    """Photographs: 50,000 to train, 10,000 to test, of 32 x 32 pixels, in 100 classes of 20 kinds."""
    return _builder(
        "cifar100",
        _CIFAR100,
        Resource(
            urls=("https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",),
            size=168513733,
            sha256="58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
        ),
        "Photographs of 32 x 32 pixels in 100 classes of 20 kinds.",
    )


def _builder(name: str, layout: _Layout, archive: Resource, description: str) -> DatasetBuilder:
    labels = {key: ClassLabel(names=names) for key, (_, names) in reversed([*layout.labels.items()])}
    return DatasetBuilder(
        name=name,
        version="3.0.2",
        features=FeaturesDict({"id": Text(), "image": Image(shape=(SIDE, SIDE, 3)), **labels}),
        splits=partial(_splits, layout),
        resources={"archive": archive},
        supervised_keys=("image", "label"),
        description=description,
        citation=CITATION,
        urls=(HOME,),
    )


def _splits(layout: _Layout, downloads: Downloads) -> Mapping[str, Examples]:
    folder = downloads.unpacked("archive") / layout.folder
    for file, names in layout.labels.values():
        _check_names(folder / file, names)
    return {
        split: partial(_examples, split, [folder / file for file in files], tuple(layout.labels))
        for split, files in layout.splits.items()
    }


def _check_names(path: Path, names: Sequence[str]) -> None:
    """Check that the class names are the expected ones, in the same order."""
    with name_in_errors(str(path)):
        found = [line for line in path.read_text(encoding="utf-8", errors="replace").split("\n") if line]
    if found != list(names):
        raise CorruptFile(Where(path=str(path)), expected=f"the classes {list(names)}", found=str(found)[:200])


def _examples(split: str, paths: list[Path], labels: tuple[str, ...]) -> Iterator[tuple[int, dict[str, Any]]]:
    number = 0
    for path in paths:
        with name_in_errors(str(path)):
            found = np.frombuffer(path.read_bytes(), np.uint8)
        row = len(labels) + IMAGE_BYTES
        if found.size == 0 or found.size % row:
            raise CorruptFile(Where(path=str(path)), expected=f"rows of {row} bytes", found=f"{found.size} bytes")
        for values in found.reshape(-1, row):
            image = values[len(labels) :].reshape(3, SIDE, SIDE).transpose(1, 2, 0)
            classes = {key: int(value) for key, value in zip(labels, values, strict=False)}
            yield number, {"id": f"{split}_{number:05}", "image": image, **classes}
            number += 1
