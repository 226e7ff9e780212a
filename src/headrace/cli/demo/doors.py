"""Both formats through the three doors."""

from __future__ import annotations

import numpy as np

import headrace as hr
from headrace.cli.demo.digits import Digits, Files
from headrace.cli.demo.plain import plain_tfrecord
from headrace.cli.demo.story import Story
from headrace.cli.terminal.values import short

__all__ = ["arrays_source", "show_doors"]

CHOSEN = 5


def arrays_source(files: Files) -> hr.Source:
    """The two arrays as one source."""
    images = hr.open(files.images).rename({"values": "image"})
    return images.zip(hr.open(files.labels).rename({"values": "label"}))


def show_doors(digits: Digits, files: Files, story: Story) -> None:
    """Open everything in every way, and compare."""
    _show_records(digits, files, story)
    _show_sources(digits, files, story)
    _show_loaders(files, story)


def _show_records(digits: Digits, files: Files, story: Story) -> None:
    framed, rows = hr.records(files.tfrecord), hr.records(files.images)
    story.say(f"hr.records  record {CHOSEN}: {len(framed[CHOSEN])} bytes of TFRecord, {len(rows[CHOSEN])} bytes of npy")
    story.check(len(framed) == len(rows) == len(digits), f"{len(digits):,} records in either format")
    same = all(bytes(row) == image.tobytes() for row, image in zip(rows, digits.images, strict=True))
    story.check(same, "every npy record is the bytes of its image")


def _show_sources(digits: Digits, files: Files, story: Story) -> None:
    framed, arrays = hr.open(files.tfrecord), arrays_source(files)
    chosen = framed[CHOSEN]
    story.say(f"hr.open     example {CHOSEN}: label {chosen['label']}, image {short(chosen['image'])}")
    everything = np.arange(len(digits))
    for source, name in ((framed, "TFRecord"), (arrays, "npy")):
        batch = source.batch(everything)
        same = np.array_equal(batch["image"], digits.images) and np.array_equal(batch["label"], digits.labels)
        story.check(same, f"every example from {name} is the one that scikit-learn gave")
    plain_images, plain_labels = plain_tfrecord(files.tfrecord_shards)
    same = np.array_equal(plain_images, digits.images) and np.array_equal(plain_labels, digits.labels)
    story.check(same, "a plain Python reader finds the same in the TFRecord files")


def _show_loaders(files: Files, story: Story) -> None:
    loaders = [hr.Loader(s, 64, shuffle=True, seed=7) for s in (hr.open(files.tfrecord), arrays_source(files))]
    batches = [list(loader) for loader in loaders]
    first = batches[0][0]
    shapes = ", ".join(f"{name} {column.dtype} {column.shape}" for name, column in first.items())
    story.say(f"hr.Loader   a batch: {shapes}")
    same = all(np.array_equal(a[name], b[name]) for a, b in zip(*batches, strict=True) for name in ("image", "label"))
    story.check(same, f"{len(batches[0])} shuffled batches are equal, whichever format they come from")
