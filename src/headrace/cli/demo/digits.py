"""The handwritten digits that scikit-learn ships, and the files that the demo makes of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

import headrace as hr
from headrace import _optional

__all__ = ["Digits", "Files", "load_digits", "write_digits"]

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
