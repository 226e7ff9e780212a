"""The digits in every format: written, read, compared, and measured."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import headrace as hr
from headrace.cli.demo.steps import Digits, Story
from headrace.cli.terminal import print_table, size_of
from headrace.errors import MissingExtra

__all__ = ["show_formats"]

BATCH = 64
MEASURED_S = 0.1
HEADINGS = ("format", "size", "written", "in order", "shuffled", "what it is")
PIXELS = (8, 8, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """How the digits look in a format.

    Args:
        format: Its name.
        path: Of the file or folder.
        what: In a few words.
        image: What the images are called in it.
        pictures: Whether images are stored as encoded pictures.
        schema: What to read it as, where that cannot be found.
    """

    format: str
    path: str
    what: str
    image: str = "image"
    pictures: bool = False
    schema: dict[str, hr.Feature] | None = field(default=None)


FLAT = {"image": hr.Feature("float32", (64,)), "label": hr.Feature("int64")}
PNG = {"image": hr.Feature("uint8", PIXELS, encoding="png"), "label": hr.Feature("int64")}
FORMS = (
    _Form(format="tfrecord", path="digits.tfrecord", what="tf.train.Example in TFRecord"),
    _Form(format="recordio", path="digits.recordio", what="SageMaker's Record in RecordIO", image="values"),
    _Form(format="array_record", path="digits.array_record", what="tf.train.Example in ArrayRecord, zstd"),
    _Form(format="npz", path="digits.npz", what="one array a feature, zipped"),
    _Form(format="csv", path="digits.csv", what="a row an example", schema=FLAT),
    _Form(format="parquet", path="digits.parquet", what="Arrow's columns"),
    _Form(format="jsonl", path="digits.jsonl", what="a line of JSON an example"),
    _Form(format="avro", path="digits.avro", what="Avro's blocks"),
    _Form(format="webdataset", path="digits.tar", what="a tar of files"),
    _Form(format="npz_folder", path="digits-npz", what="a .npz file an example"),
    _Form(format="npy_folder", path="digits-npy", what="a .npy file an example, and a manifest", image="values"),
    _Form(format="image_folder", path="digits-images", what="class/number.png", pictures=True, schema=PNG),
)


def show_formats(digits: Digits, folder: Path, story: Story) -> None:
    """Write the digits in every format, show that all hold the same, and a table of what each costs."""
    rows, missing = [], []
    wrong = []
    for form in FORMS:
        path = folder / form.path
        _remove(path)
        try:
            seconds = _write(form, digits, path)
            source = hr.open(path, schema=None if form.pictures else form.schema)
            if not _same(source, form, digits):
                wrong.append(form.format)
            rows.append(_row(form, path, source, len(digits), seconds))
        except MissingExtra as error:
            missing.append(f"{form.format}: {error}")
    for text in missing:
        story.say(text)
    claim = f"every example is the same in {len(rows)} formats" + (f", but not in {', '.join(wrong)}" if wrong else "")
    story.check(not wrong and bool(rows), claim)
    print_table(HEADINGS, rows, right=HEADINGS[1:5], indent=8)


def _write(form: _Form, digits: Digits, path: Path) -> float:
    images: npt.NDArray[Any] = digits.images
    if form.pictures:
        images = images.astype(np.uint8).reshape(-1, *PIXELS)
    begun = time.perf_counter()
    hr.write(
        path,
        {form.image: images, "label": digits.labels},
        format=form.format,
        schema=form.schema if form.pictures else None,
    )
    return time.perf_counter() - begun


def _same(source: hr.Source, form: _Form, digits: Digits) -> bool:
    """Whether it holds the digits; folders of classes have them in another order, which their names tell."""
    batch = source.batch(np.arange(len(source)))
    images = np.asarray(batch[form.image], np.float32).reshape(-1, digits.images.shape[1])
    labels = np.asarray(batch["label"], np.int64)
    if not form.pictures:
        return np.array_equal(images, digits.images) and np.array_equal(labels, digits.labels)
    return np.array_equal(_sorted(images, labels), _sorted(digits.images, digits.labels))


def _sorted(images: npt.NDArray[Any], labels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    rows = np.column_stack([labels, images])
    return rows[np.lexsort(rows.T[::-1])]


def _row(form: _Form, path: Path, source: hr.Source, count: int, seconds: float) -> tuple[str, ...]:
    files = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
    size = size_of(sum(file.stat().st_size for file in files))
    speeds = [_speed(source, count, shuffle=shuffle) for shuffle in (False, True)]
    return form.format, size, f"{count / seconds:,.0f}/s", *speeds, form.what


def _speed(source: hr.Source, count: int, *, shuffle: bool) -> str:
    """Examples a second through the Loader, over as many epochs as the measured time holds."""
    done, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < MEASURED_S:
        for _ in hr.Loader(source, BATCH, shuffle=shuffle):
            pass
        done += count
    return f"{done / (time.perf_counter() - begun):,.0f}/s"


def _remove(path: Path) -> None:
    """What an earlier demo left."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
