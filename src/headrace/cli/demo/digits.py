"""The first half of the demo: the handwritten digits of scikit-learn, written in every format and read back."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import headrace as hr
from headrace import _optional
from headrace.cli.terminal import print_line, print_table, printable, size_of
from headrace.errors import MissingExtra
from headrace.statistics.display import shorten

__all__ = ["DemoSteps", "Digits", "Files", "load_digits", "show_formats", "show_ways_to_read", "write_digits"]

SHARDS = 4
CHOSEN = 5


class DemoSteps:
    """Prints numbered steps and checks, and collects the checks that failed."""

    def __init__(self, count: int) -> None:
        self.failed: list[str] = []
        self._count = count
        self._number = 0

    def begin(self, title: str) -> None:
        """Print the title of the next step."""
        self._number += 1
        print_line()
        print_line(f"{self._number} of {self._count}  {title}", style="bold")

    def say(self, text: str) -> None:
        """Print a line below the title."""
        print_line(f"        {text}")

    def check(self, holds: bool, claim: str) -> None:
        """Print a claim, and whether it holds."""
        print_line(f"  {'  ok' if holds else 'FAIL'}  {claim}", style="green" if holds else "bold red")
        if not holds:
            self.failed.append(claim)


@dataclass(frozen=True, slots=True)
class Digits:
    """The data.

    Args:
        images: ``float32 (n, 64)``: 8 x 8 pixels from 0 to 16.
        labels: ``int64 (n,)``: the digit.
    """

    images: npt.NDArray[np.float32]
    labels: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, slots=True)
class Files:
    """Paths of the demo's files."""

    folder: Path

    @property
    def tfrecord(self) -> str:
        """The set of shards."""
        return f"{self.folder / 'digits.tfrecord'}@{SHARDS}"

    @property
    def images(self) -> Path:
        """All images as one array."""
        return self.folder / "images.npy"

    @property
    def labels(self) -> Path:
        """All labels as one array."""
        return self.folder / "labels.npy"


def load_digits() -> Digits:
    """Load the digits.

    Raises:
        MissingExtra: scikit-learn is not installed.
    """
    found = _optional.require("sklearn.datasets", extra="demo").load_digits()
    return Digits(found.data.astype(np.float32), found.target.astype(np.int64))


def write_digits(digits: Digits, files: Files, steps: DemoSteps) -> None:
    """Write the digits as shards of TFRecord and as arrays."""
    hr.write(files.tfrecord, {"image": digits.images, "label": digits.labels})
    hr.write(files.images, {"image": digits.images})
    hr.write(files.labels, {"label": digits.labels})
    for path in (*sorted(files.folder.glob("digits.tfrecord-*")), files.images, files.labels):
        steps.say(f"{printable(str(path))}  {size_of(path.stat().st_size)}")


def show_ways_to_read(digits: Digits, files: Files, steps: DemoSteps) -> None:
    """Read the files by ``records``, ``open`` and ``Loader``, and compare what they give."""
    arrays = hr.open(files.images).rename({"values": "image"})
    sources = {
        "TFRecord": hr.open(files.tfrecord),
        "npy": arrays.zip(hr.open(files.labels).rename({"values": "label"})),
    }
    framed, rows = hr.records(files.tfrecord), hr.records(files.images)
    steps.say(f"hr.records  record {CHOSEN}: {len(framed[CHOSEN])} bytes of TFRecord, {len(rows[CHOSEN])} bytes of npy")
    same = all(bytes(row) == image.tobytes() for row, image in zip(rows, digits.images, strict=True))
    steps.check(
        len(framed) == len(digits) and same, f"{len(digits):,} records; those of npy are the bytes of the images"
    )

    chosen = sources["TFRecord"][CHOSEN]
    steps.say(f"hr.open     example {CHOSEN}: label {chosen['label']}, image {shorten(chosen['image'])}")
    for name, source in sources.items():
        steps.check(_holds(source, digits), f"every example from {name} equals scikit-learn's")

    batches = [list(hr.Loader(source, 64, shuffle=True, seed=7)) for source in sources.values()]
    shapes = ", ".join(f"{name} {column.dtype} {column.shape}" for name, column in batches[0][0].items())
    steps.say(f"hr.Loader   a batch: {shapes}")
    same = all(np.array_equal(a[name], b[name]) for a, b in zip(*batches, strict=True) for name in ("image", "label"))
    steps.check(same, f"{len(batches[0])} shuffled batches are the same from both formats")


PIXELS = (8, 8, 1)
FLAT = {"image": hr.Feature("float32", (64,)), "label": hr.Feature("int64")}
PNG = {"image": hr.Feature("uint8", PIXELS, encoding="png"), "label": hr.Feature("int64")}
FORMS = (
    ("tfrecord", "digits.tfrecord", "tf.train.Example in TFRecord"),
    ("recordio", "digits.recordio", "SageMaker's Record in RecordIO"),
    ("array_record", "digits.array_record", "tf.train.Example in ArrayRecord, zstd"),
    ("npz", "digits.npz", "one array for each feature, zipped"),
    ("csv", "digits.csv", "one line of text for each example"),
    ("parquet", "digits.parquet", "columns of Arrow"),
    ("jsonl", "digits.jsonl", "one JSON object for each example"),
    ("avro", "digits.avro", "blocks of Avro"),
    ("webdataset", "digits.tar", "a tar archive of small files"),
    ("npz_folder", "digits-npz", "one .npz file for each example"),
    ("npy_folder", "digits-npy", "one .npy file for each example, and a manifest"),
    ("image_folder", "digits-images", "class/number.png"),
)
IMAGE_NAMES = {"recordio": "values", "npy_folder": "values"}


def show_formats(digits: Digits, folder: Path, steps: DemoSteps) -> None:
    """Write the digits in every format, and read each of them back."""
    rows, wrong = [], []
    for format, name, description in FORMS:
        path = folder / name
        _remove(path)
        try:
            source = _write_and_open(format, digits, path)
        except MissingExtra as error:
            steps.say(f"{format}: {error}")
            continue
        if not _holds(source, digits, IMAGE_NAMES.get(format, "image"), ordered=format != "image_folder"):
            wrong.append(format)
        files = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
        rows.append((format, size_of(sum(file.stat().st_size for file in files)), description))
    claim = f"every example is the same in {len(rows)} formats" + (f", but not in {', '.join(wrong)}" if wrong else "")
    steps.check(not wrong and bool(rows), claim)
    print_table(("format", "size", "content"), rows, right=("size",), indent=8)


def _write_and_open(format: str, digits: Digits, path: Path) -> hr.Source:
    is_image = format == "image_folder"
    images: npt.NDArray[Any] = digits.images.astype(np.uint8).reshape(-1, *PIXELS) if is_image else digits.images
    columns = {IMAGE_NAMES.get(format, "image"): images, "label": digits.labels}
    hr.write(path, columns, format=format, schema=PNG if is_image else None)
    return hr.open(path, schema=FLAT if format == "csv" else None)


def _holds(source: hr.Source, digits: Digits, name: str = "image", *, ordered: bool = True) -> bool:
    """Whether a source holds the digits."""
    batch = source.batch(np.arange(len(source)))
    images = np.asarray(batch[name], np.float32).reshape(-1, digits.images.shape[1])
    found = np.column_stack([np.asarray(batch["label"], np.int64), images])
    expected = np.column_stack([digits.labels, digits.images])
    return np.array_equal(found, expected) if ordered else np.array_equal(_sort(found), _sort(expected))


def _sort(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return rows[np.lexsort(rows.T[::-1])]


def _remove(path: Path) -> None:
    """Remove the output of an earlier run."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
