"""What the values of a split are like, in the words of TensorFlow Metadata's ``DatasetFeatureStatistics``.

They are counted from the finished files, so every example has been read back once before a dataset gets its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.datasets.codec import FeaturesCodec
from penstock.datasets.decoders import SkipDecoding
from penstock.datasets.features.base import BYTES, LeafFeature
from penstock.datasets.prepared import Prepared, PreparedSplit
from penstock.datasets.source import SplitSource
from penstock.formats.detect import format_named
from penstock.io.progress import Progress

__all__ = ["statistics_of"]

BATCH = 1024


class _Numbers:
    """Count, mean, deviation and bounds, a batch at a time."""

    def __init__(self) -> None:
        self.count = 0
        self.zeros = 0
        self.mean = np.float64(0)
        self.squares = np.float64(0)
        self.least = np.inf
        self.most = -np.inf

    def add(self, values: npt.NDArray[Any]) -> None:
        values = values[np.isfinite(values)] if values.dtype.kind == "f" else values
        if not values.size:
            return
        wide = values.astype(np.float64)
        total = self.count + wide.size
        # Two means with their sums of squares join into one: no difference of large sums.
        with np.errstate(over="ignore", invalid="ignore"):
            mean = wide.mean()
            apart = mean - self.mean
            self.squares += ((wide - mean) ** 2).sum() + apart**2 * (self.count * wide.size / total)
            self.mean += apart * (wide.size / total)
        self.count = total
        self.zeros += int((values == 0).sum())
        self.least = min(self.least, float(wide.min()))
        self.most = max(self.most, float(wide.max()))


def statistics_of(
    prepared: Prepared, split: PreparedSplit, paths: list[str], *, progress: bool = False
) -> dict[str, Any]:
    """Read a split, and tell how many examples it has and what their values are like.

    Numbers have mean, standard deviation and bounds, bytes (and images, which are not decoded for it) their sizes. Features whose
    lengths vary have none.

    Raises:
        DataError: What was written cannot be read.
    """
    leaves = list(prepared.features.leaves("", ()))
    encoded = {key: SkipDecoding() for key, feature, _ in leaves if _is_image(feature)}
    codec = FeaturesCodec(prepared.features, decoders=encoded)
    source = SplitSource(format_named(prepared.file_format).open(paths), codec, prepared, split)
    found = {key: _Numbers() for key, feature, levels in leaves if not levels and not feature.optional}
    with Progress(f"reading {split.name} back", len(source), "examples", show=progress) as bar:
        for start in range(0, len(source), BATCH):
            rows = np.arange(start, min(start + BATCH, len(source)))
            batch = source.batch(rows)
            for key, numbers in found.items():
                _add(numbers, batch[key])
            bar.advance(len(rows))
    told = [_feature(key, feature, found, len(source)) for key, feature, _ in leaves]
    return {"numExamples": str(len(source)), "features": [entry for entry in told if entry is not None]}


def _add(numbers: _Numbers, column: Any) -> None:
    if not isinstance(column, np.ndarray):
        return
    if column.dtype == object:
        sizes = [len(value) for value in column.reshape(-1) if isinstance(value, (bytes, str))]
        numbers.add(np.array(sizes, np.int64))
    elif column.dtype.kind in "biuf":
        numbers.add(column)


def _feature(key: str, feature: LeafFeature, found: Mapping[str, _Numbers], count: int) -> dict[str, Any] | None:
    numbers = found.get(key)
    if numbers is None or numbers.count == 0:
        return None
    common = {"numNonMissing": str(count)}
    if feature.value_dtype == BYTES or _is_image(feature):
        sizes = {"avgNumBytes": float(numbers.mean), "minNumBytes": numbers.least, "maxNumBytes": numbers.most}
        return {"name": key, "type": "BYTES", "bytesStats": {"commonStats": common, **sizes}}
    moments = {
        "mean": float(numbers.mean),
        "stdDev": float(np.sqrt(numbers.squares / numbers.count)),
        "min": numbers.least,
        "max": numbers.most,
    }
    return {
        "name": key,
        "type": "FLOAT" if np.dtype(feature.value_dtype).kind == "f" else "INT",
        "numStats": {
            "commonStats": common,
            "numZeros": str(numbers.zeros),
            **{name: value for name, value in moments.items() if np.isfinite(value)},
        },
    }


def _is_image(feature: LeafFeature) -> bool:
    return feature.class_name.partition(".")[0] in ("image_feature", "labeled_image")
