"""Train an image classifier on random crops, from a folder of JPEGs and from TFRecord, and test it on the middle of other images.

python examples/train_on_crops.py

The images are cut out of the two photographs that scikit-learn ships, and their class is the photograph: the left of it for training,
the right of it for testing. Images are cropped, mirrored and normalised while a batch is decoded. What is random depends only
on the seed, the epoch and the position, so both kinds of files train the same model.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_images
from sklearn.linear_model import SGDClassifier

import headrace as hr

CLASSES, SIZE, EPOCHS = ("china", "flower"), 16, 4
NORMAL = {"dtype": "float32", "mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
TRAIN = hr.ImageOptions(crop=hr.RandomResizedCrop(SIZE, scale=(0.3, 1.0)), flip=True, **NORMAL)
TEST = hr.ImageOptions(resize=SIZE + 4, center_crop=SIZE, **NORMAL)


def make_images(folder: Path, count: int, *, from_column: int, to_column: int, seed: int) -> None:
    """``folder/class/number.jpg``: parts of the photographs between two columns, of 48 to 120 pixels on each side."""
    random = np.random.default_rng(seed)
    for name, pixels in zip(CLASSES, load_sample_images().images, strict=True):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            height, width = random.integers(48, 120, 2)
            top = random.integers(0, pixels.shape[0] - height)
            left = random.integers(from_column, to_column - width)
            part = Image.fromarray(pixels[top : top + height, left : left + width])
            part.save(folder / name / f"{number}.jpg", quality=85)


def train(source: hr.Source) -> SGDClassifier:
    """A linear classifier after a few epochs of random crops."""
    model = SGDClassifier(loss="log_loss", alpha=0.01, learning_rate="constant", eta0=0.001, random_state=0)
    for batch in hr.Loader(source, 32, shuffle=True, seed=1, epochs=EPOCHS):
        rows = batch["image"].reshape(len(batch["label"]), -1)
        model.partial_fit(rows, batch["label"], classes=range(len(CLASSES)))
    return model


def accuracy(model: SGDClassifier, source: hr.Source) -> float:
    """The share of images that are recognised."""
    hits = 0
    for batch in hr.Loader(source, 64):
        hits += int((model.predict(batch["image"].reshape(len(batch["label"]), -1)) == batch["label"]).sum())
    return hits / len(source)


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        make_images(folder / "train", 200, from_column=0, to_column=320, seed=0)
        make_images(folder / "test", 100, from_column=320, to_column=640, seed=1)
        for part in ("train", "test"):
            hr.convert(folder / part, folder / f"{part}.tfrecord")

        shares = []
        for kind, ending in (("a folder of images", ""), ("TFRecord", ".tfrecord")):
            model = train(hr.open(folder / f"train{ending}", decode=TRAIN))
            test = hr.open(folder / f"test{ending}", decode=TEST)
            shares.append(accuracy(model, test))
            print(f"{kind}: {shares[-1]:.1%} of {len(test)} test images are recognised")
        assert shares[0] == shares[1] > 0.8


if __name__ == "__main__":
    main()
