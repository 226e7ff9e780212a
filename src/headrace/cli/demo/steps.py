"""The first half of the demo: the digits that scikit-learn ships, written in two formats, read, and compared with plain readers."""

from __future__ import annotations

import gzip
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import headrace as hr
from headrace import _optional
from headrace.cli.terminal import print_line, print_table, shorten, size_of

__all__ = [
    "Digits",
    "Files",
    "Story",
    "arrays_source",
    "load_digits",
    "plain_batches",
    "plain_npy",
    "plain_tfrecord",
    "show_doors",
    "show_speed",
    "write_digits",
]


class Story:
    """Prints steps and checks, and remembers the checks that failed."""

    def __init__(self, steps: int) -> None:
        self.failed: list[str] = []
        self._steps = steps
        self._step = 0

    def step(self, title: str) -> None:
        """Begin the next step."""
        self._step += 1
        print_line()
        print_line(f"{self._step} of {self._steps}  {title}", style="bold")

    def say(self, text: str) -> None:
        """One line of what is done."""
        print_line(f"        {text}")

    def check(self, holds: bool, claim: str) -> None:
        """A claim, and whether it holds."""
        print_line(f"  {'  ok' if holds else 'FAIL'}  {claim}", style="green" if holds else "bold red")
        if not holds:
            self.failed.append(claim)


SHARDS = 4


@dataclass(frozen=True, slots=True)
class Digits:
    """The data as scikit-learn gives them.

    Args:
        images: ``float32 (n, 64)``: 8 x 8 pixels from 0 to 16.
        labels: ``int64 (n,)``: which digit.
    """

    images: npt.NDArray[np.float32]
    labels: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, slots=True)
class Files:
    """Where the demo's files lie."""

    folder: Path

    @property
    def tfrecord(self) -> str:
        """A set of shards, as headrace is given it."""
        return f"{self.folder / 'digits.tfrecord'}@{SHARDS}"

    @property
    def tfrecord_shards(self) -> list[Path]:
        """The same as single files."""
        return [self.folder / f"digits.tfrecord-{i:05d}-of-{SHARDS:05d}" for i in range(SHARDS)]

    @property
    def gzip(self) -> Path:
        """One compressed TFRecord file."""
        return self.folder / "digits.tfrecord.gz"

    @property
    def images(self) -> Path:
        """One array of all images."""
        return self.folder / "images.npy"

    @property
    def labels(self) -> Path:
        """One array of all labels."""
        return self.folder / "labels.npy"


def load_digits() -> Digits:
    """The digits.

    Raises:
        MissingExtra: scikit-learn, which ships them, is not installed.
    """
    found = _optional.require("sklearn.datasets", extra="demo").load_digits()
    return Digits(found.data.astype(np.float32), found.target.astype(np.int64))


def write_digits(digits: Digits, files: Files) -> None:
    """Write the same examples in both formats."""
    columns = {"image": digits.images, "label": digits.labels}
    hr.write(files.tfrecord, columns)
    hr.write(files.gzip, columns)
    hr.write(files.images, {"image": digits.images})
    hr.write(files.labels, {"label": digits.labels})


Arrays = tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]
PLAIN_BATCH = 64


def plain_tfrecord(paths: Sequence[Path]) -> Arrays:
    """All images and labels, by the standard library and a small protobuf reader. Checksums are not looked at."""
    pairs = [_example(payload) for path in paths for payload in _payloads(path)]
    return np.stack([image for image, _ in pairs]), np.array([label for _, label in pairs], np.int64)


def plain_batches(paths: Sequence[Path]) -> Iterator[Arrays]:
    """The same in batches."""
    pairs = (_example(payload) for path in paths for payload in _payloads(path))
    held = []
    for pair in pairs:
        held.append(pair)
        if len(held) == PLAIN_BATCH:
            yield np.stack([image for image, _ in held]), np.array([label for _, label in held], np.int64)
            held = []
    if held:
        yield np.stack([image for image, _ in held]), np.array([label for _, label in held], np.int64)


def plain_npy(images: Path, labels: Path) -> Iterator[Arrays]:
    """Batches by slicing the mapped arrays."""
    pixels, digits = np.load(images, mmap_mode="r"), np.load(labels, mmap_mode="r")
    for start in range(0, len(digits), PLAIN_BATCH):
        yield np.array(pixels[start : start + PLAIN_BATCH]), np.array(digits[start : start + PLAIN_BATCH])


def _payloads(path: Path) -> Iterator[bytes]:
    """A record is a length of 8 bytes, its checksum of 4, the payload, its checksum of 4."""
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    at = 0
    while at < len(content):
        (size,) = struct.unpack_from("<Q", content, at)
        yield content[at + 12 : at + 12 + size]
        at += 16 + size


def _example(payload: bytes) -> tuple[npt.NDArray[np.float32], int]:
    """A tf.train.Example of one image and one label: maps of messages, each a tag, a length and bytes."""
    found: dict[bytes, bytes] = {}
    for entry in _messages(_messages(payload)[0]):
        name, feature = _messages(entry)
        found[name] = _messages(_messages(feature)[0])[0]
    return np.frombuffer(found[b"image"], "<f4"), _number(found[b"label"], 0)[0]


def _messages(content: bytes) -> list[bytes]:
    """The fields of a message, all of which have a length here."""
    parts, at = [], 0
    while at < len(content):
        size, at = _number(content, at + 1)
        parts.append(content[at : at + size])
        at += size
    return parts


def _number(content: bytes, at: int) -> tuple[int, int]:
    """A protobuf varint, and where it ends."""
    value = shift = 0
    while True:
        byte = content[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


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
    story.say(f"hr.open     example {CHOSEN}: label {chosen['label']}, image {shorten(chosen['image'])}")
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


BATCH = 64
MEASURED_S = 0.15
HEADINGS = ("files", "size", "in order", "shuffled", "the plain way")
EPOCHS = 50


def show_speed(files: Files, count: int) -> None:
    """A table: bytes, and examples a second."""
    framed, packed, arrays = hr.open(files.tfrecord), hr.open(files.gzip), arrays_source(files)
    rows = [
        _row(
            "digits.tfrecord, 4 shards",
            files.tfrecord_shards,
            framed,
            lambda: plain_batches(files.tfrecord_shards),
            count,
        ),
        _row("digits.tfrecord.gz", [files.gzip], packed, lambda: plain_batches([files.gzip]), count),
        _row(
            "images.npy, labels.npy",
            [files.images, files.labels],
            arrays,
            lambda: plain_npy(files.images, files.labels),
            count,
        ),
    ]
    print_table(HEADINGS, rows, right=HEADINGS[1:], indent=8)


def _row(
    name: str, paths: list[Path], source: hr.Source, plain: Callable[[], Iterable[Any]], count: int
) -> tuple[str, ...]:
    size = size_of(sum(path.stat().st_size for path in paths))
    in_order = _speed(lambda: hr.Loader(source, BATCH, epochs=EPOCHS), count * EPOCHS)
    shuffled = _speed(lambda: hr.Loader(source, BATCH, shuffle=True, epochs=EPOCHS), count * EPOCHS)
    return name, size, in_order, shuffled, _speed(plain, count)


def _speed(passes: Callable[[], Iterable[Any]], examples: int) -> str:
    """Examples a second, over as many passes as the measured time holds; the first one opens files and does not count."""
    for _ in passes():
        pass
    done, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < MEASURED_S:
        for _ in passes():
            pass
        done += examples
    return f"{done / (time.perf_counter() - begun):,.0f}/s"
