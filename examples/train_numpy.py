"""Train a softmax classifier with plain NumPy, fed by a Loader.

python examples/train_numpy.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import headrace as hr

CLASSES, PIXELS = 4, 16


def make_data(path: Path) -> None:
    """Points around four centres, one class each."""
    chance = np.random.default_rng(0)
    labels = chance.integers(0, CLASSES, 4000)
    centres = chance.standard_normal((CLASSES, PIXELS))
    images = (centres[labels] + chance.standard_normal((4000, PIXELS))).astype(np.float32)
    hr.write(path, {"image": images, "label": labels})


def train(source: hr.Source) -> np.ndarray:
    """Weights after two epochs of gradient descent."""
    weights = np.zeros((PIXELS, CLASSES), np.float32)
    for batch in hr.Loader(source, 64, shuffle=True, seed=1, epochs=2):
        images, labels = batch["image"], batch["label"]
        error = chances(images @ weights)
        error[np.arange(len(labels)), labels] -= 1
        weights -= 0.1 * images.T @ error / len(labels)
    return weights


def chances(scores: np.ndarray) -> np.ndarray:
    """Softmax."""
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "points.tfrecord"
        make_data(path)
        source = hr.open(path)
        weights = train(source[:3200])
        test = source.batch(np.arange(3200, 4000))
        accuracy = ((test["image"] @ weights).argmax(axis=1) == test["label"]).mean()
        print(f"{accuracy:.1%} of 800 test examples are recognised")
        assert accuracy > 0.9


if __name__ == "__main__":
    main()
