"""The same images twice: a CSV with one file per image, and one TFRecord. Reads both shuffled and compares.

On a local disk they are close, because decoding takes most of the time. Over a network, where every file is a request, they are not.

python examples/records_against_csv_with_images.py
"""

from __future__ import annotations

import csv
import io
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

import headrace as hr

PICTURES = 300
SIDE = 64


def make_pictures(folder: Path) -> Path:
    """A CSV of paths and labels, and its JPEGs."""
    rng = np.random.default_rng(0)
    (folder / "jpegs").mkdir()
    with (folder / "train.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["image", "label"])
        for number in range(PICTURES):
            small = rng.integers(0, 256, (4, 4, 3), dtype=np.uint8)
            encoded = io.BytesIO()
            Image.fromarray(small).resize((SIDE, SIDE)).save(encoded, "JPEG", quality=90)
            (folder / "jpegs" / f"{number:04d}.jpg").write_bytes(encoded.getvalue())
            rows.writerow([f"jpegs/{number:04d}.jpg", number])
    return folder / "train.csv"


def timed_epoch(source: hr.Source) -> float:
    """Milliseconds for all images in shuffled batches of 32."""
    start = time.perf_counter()
    found = sum(len(batch["image"]) for batch in hr.Loader(source, 32, shuffle=True))
    assert found == PICTURES
    return (time.perf_counter() - start) * 1e3


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = make_pictures(folder)
        hr.convert(table, folder / "train.tfrecord")  # the original JPEGs, not encoded again

        files, records = hr.open(table), hr.open(folder / "train.tfrecord")
        print(files.schema)
        for number in (0, PICTURES - 1):
            assert np.array_equal(files[number]["image"], records[number]["image"])
            assert files[number]["label"] == records[number]["label"] == number

        size = sum(path.stat().st_size for path in folder.rglob("*.jpg"))
        print(
            f"{PICTURES} files of together {size:,} bytes; one file of {(folder / 'train.tfrecord').stat().st_size:,} bytes"
        )
        for what, source in (("CSV and files", files), ("TFRecord", records)):
            timed_epoch(source)
            print(f"{what}: {min(timed_epoch(source) for _ in range(3)):.0f} ms an epoch")


if __name__ == "__main__":
    main()
