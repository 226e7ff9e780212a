"""Read any record of a sharded TFRecord, plain or compressed, by its number.

python examples/tfrecord_random_access.py
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np

import headrace as hr

EXAMPLES = 20_000


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        columns = {"id": np.arange(EXAMPLES), "vector": np.random.default_rng(0).random((EXAMPLES, 32), np.float32)}
        hr.write(Path(folder) / "plain.tfrecord", columns, shards=4)
        hr.write(Path(folder) / "packed.tfrecord.gz", columns)

        for name in ("plain.tfrecord@4", "packed.tfrecord.gz"):
            begun = time.perf_counter()
            source = hr.open(Path(folder) / name)
            first = source[EXAMPLES - 1]  # builds the index and inflates compressed files, once
            between = time.perf_counter()
            chosen = np.random.default_rng(1).integers(0, EXAMPLES, 1000)
            batch = source.batch(chosen)
            end = time.perf_counter()
            assert first["id"] == EXAMPLES - 1
            assert np.array_equal(batch["id"], chosen)
            assert np.array_equal(batch["vector"], columns["vector"][chosen])
            print(f"{name}: first access {between - begun:.3f} s, then 1,000 records anywhere in {end - between:.4f} s")
            print(f"  record {chosen[0]} is at {source.where(int(chosen[0]))}")


if __name__ == "__main__":
    main()
