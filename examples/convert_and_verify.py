"""Convert a GZIP TFRecord into plain shards and an array, and find a damaged record.

python examples/convert_and_verify.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import headrace as hr


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        features = np.random.default_rng(0).random((5000, 20), np.float32)
        hr.write(folder / "data.tfrecord.gz", {"features": features, "label": np.arange(5000) % 3})

        done = hr.convert(folder / "data.tfrecord.gz", folder / "data.tfrecord@3")
        print(f"{done.examples} examples in {len(done.paths)} files, {done.bytes:,} bytes together")
        hr.convert(folder / "data.tfrecord@3", folder / "features.npy", columns=["features"])
        assert np.array_equal(np.load(folder / "features.npy"), features)
        assert hr.verify(folder / "data.tfrecord@3").ok

        shard = Path(done.paths[1])
        content = bytearray(shard.read_bytes())
        content[len(content) // 2] ^= 1
        shard.write_bytes(content)
        report = hr.verify(folder / "data.tfrecord@3")
        print(report)
        assert len(report.faults) == 1

        sound = hr.convert(folder / "data.tfrecord@3", folder / "sound.npy", columns=["features"], on_corrupt="skip")
        print(f"{sound.examples} sound examples, {sound.skipped} left out")
        assert (sound.examples, sound.skipped) == (4999, 1)


if __name__ == "__main__":
    main()
