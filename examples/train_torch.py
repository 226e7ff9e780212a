"""Train and test a linear classifier with PyTorch: on fashion_mnist if it is prepared, otherwise on handwritten digits.

python examples/train_torch.py
headrace prepare fashion_mnist && python examples/train_torch.py

Twice: with our loader, which gives tensors, and with torch's DataLoader over the same source.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader

import headrace as hr

CLASSES, BATCH, STEPS = 10, 64, 180


def make_data(path: Path) -> None:
    """1,797 digits of 8 x 8 pixels, in an order unrelated to their labels."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    images = (digits.images.reshape(-1, 64) / 16).astype(np.float32)
    hr.write(path, {"image": images[order], "label": digits.target[order]})


def splits(folder: Path) -> tuple[str, hr.Source, hr.Source]:
    """The dataset: its name, training examples and test examples."""
    try:
        fashion = hr.data_source("fashion_mnist", download=False)
    except hr.NoFiles:
        path = folder / "digits.tfrecord"
        make_data(path)
        return "digits", hr.open(path, split="train[:80%]"), hr.open(path, split="train[80%:]")
    return "fashion_mnist", fashion["train"], fashion["test"]


def inputs(batch) -> torch.Tensor:
    """Images as rows of numbers from 0 to 1."""
    rows = batch["image"].flatten(1)
    return rows / 255 if rows.dtype == torch.uint8 else rows


def train(batches) -> torch.nn.Module:
    """A linear classifier after all batches."""
    torch.manual_seed(0)
    model = optimizer = None
    for batch in batches:
        rows = inputs(batch)
        if model is None or optimizer is None:
            model = torch.nn.Linear(rows.shape[1], CLASSES)
            optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        loss = torch.nn.functional.cross_entropy(model(rows), batch["label"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert model is not None
    return model


def accuracy(model: torch.nn.Module, source: hr.Source) -> float:
    """The accuracy."""
    with torch.no_grad():
        hits = [
            int((model(inputs(batch)).argmax(1) == batch["label"]).sum())
            for batch in hr.Loader(source, 256, to="torch")
        ]
    return sum(hits) / len(source)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        name, train_split, test_split = splits(Path(folder))
        epochs = max(1, STEPS * BATCH // len(train_split))

        ours = train(hr.Loader(train_split, BATCH, shuffle=True, seed=1, epochs=epochs, to="torch"))
        loader = DataLoader(train_split, batch_size=BATCH, shuffle=True, generator=torch.Generator().manual_seed(1))
        theirs = train(batch for _ in range(epochs) for batch in loader)

        for way, model in (("headrace.Loader", ours), ("torch DataLoader over the same source", theirs)):
            share = accuracy(model, test_split)
            print(f"{name}, {way}: {share:.1%} of {len(test_split)} test examples are recognised")
            assert share > (0.9 if name == "digits" else 0.75)


if __name__ == "__main__":
    main()
