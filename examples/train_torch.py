"""Train and test a linear classifier with PyTorch, on handwritten digits in a TFRecord file.

python examples/train_torch.py

Twice: with our own loader, which hands over tensors, and with torch's DataLoader over the same source.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader

import penstock as ps

PIXELS, CLASSES, BATCH, EPOCHS = 64, 10, 64, 8


def make_data(path: Path) -> None:
    """1,797 digits of 8 x 8 pixels, in an order that has nothing to do with their labels."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    images = (digits.images.reshape(-1, PIXELS) / 16).astype(np.float32)
    ps.write(path, {"image": images[order], "label": digits.target[order]})


def train(batches) -> torch.nn.Module:
    """A linear classifier after the batches of all epochs."""
    torch.manual_seed(0)
    model = torch.nn.Linear(PIXELS, CLASSES)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for batch in batches:
        loss = torch.nn.functional.cross_entropy(model(batch["image"]), batch["label"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def accuracy(model: torch.nn.Module, source: ps.Source) -> float:
    """The share of examples that are recognised."""
    with torch.no_grad():
        hits = [
            int((model(batch["image"]).argmax(1) == batch["label"]).sum())
            for batch in ps.Loader(source, 256, to="torch")
        ]
    return sum(hits) / len(source)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "digits.tfrecord"
        make_data(path)
        train_split, test_split = (ps.open(path, split=split) for split in ("train[:80%]", "train[80%:]"))

        ours = train(ps.Loader(train_split, BATCH, shuffle=True, seed=1, epochs=EPOCHS, to="torch"))
        loader = DataLoader(train_split, batch_size=BATCH, shuffle=True, generator=torch.Generator().manual_seed(1))
        theirs = train(batch for _ in range(EPOCHS) for batch in loader)

        for name, model in (("penstock.Loader", ours), ("torch DataLoader over the same source", theirs)):
            share = accuracy(model, test_split)
            print(f"{name}: {share:.1%} of {len(test_split)} test examples are recognised")
            assert share > 0.9


if __name__ == "__main__":
    main()
