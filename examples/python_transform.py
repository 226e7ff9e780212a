"""A transform in plain Python, in this process and in two workers: same batches, and a time report.

python examples/python_transform.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import headrace as hr

WORDS = ["the", "pipe", "that", "brings", "water", "from", "the", "reservoir", "to", "the", "turbine"]


def make_data(path: Path) -> None:
    """Random sentences of a few words."""
    chance = np.random.default_rng(0)
    sentences = [" ".join(chance.choice(WORDS, chance.integers(3, 30))) for _ in range(3000)]
    hr.write(path, ({"text": sentence} for sentence in sentences), schema=hr.Schema({"text": hr.Feature("str")}))


def tokenized(example: hr.Example) -> hr.Example:
    """Number the words in plain Python, which holds the GIL."""
    return {"tokens": np.array([1 + WORDS.index(word) for word in example["text"].split()], np.int32)}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sentences.tfrecord"
        make_data(path)
        source = hr.open(path, schema=hr.Schema({"text": hr.Feature("str")})).map(tokenized)
        pack = hr.Pack("tokens", length=128)
        here = hr.Loader(source, 256, shuffle=True, seed=1, map_batch=pack, threads=0)
        there = hr.Loader(source, 256, shuffle=True, seed=1, map_batch=pack, workers=2)
        filled = 0
        for one, other in zip(here, there, strict=True):
            assert np.array_equal(one["tokens"], other["tokens"])
            filled += int((one["tokens_segment"] > 0).sum())
        print(there.report())
        print(f"The same batches from both; {filled:,} tokens.")


if __name__ == "__main__":
    main()
