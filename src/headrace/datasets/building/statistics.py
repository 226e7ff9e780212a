"""Statistics of a split, as ``DatasetFeatureStatistics`` of TensorFlow Metadata.

They are computed from the finished files, so that every example is read back once before the dataset gets its name.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.contracts.values import Ragged
from headrace.datasets.codec import FeaturesCodec
from headrace.datasets.decoders import SkipDecoding
from headrace.datasets.features.base import BYTES, LeafFeature
from headrace.datasets.features.sequence import Dataset
from headrace.datasets.prepared import Prepared, PreparedSplit
from headrace.datasets.source import SplitNode
from headrace.formats.registry import format_named
from headrace.io.progress import Progress
from headrace.sources.node import read_blocks

__all__ = ["statistics_of"]

BATCH = 1024


class _Numbers:
    """Count, mean, deviation and bounds, updated by batches."""

    def __init__(self) -> None:
        self.count = 0
        self.zeros = 0
        self.mean = np.float64(0)
        self.squares = np.float64(0)
        self.least = np.inf
        self.most = -np.inf

    def add(self, values: npt.NDArray[Any]) -> None:
        """Add numbers."""
        values = values[np.isfinite(values)] if values.dtype.kind == "f" else values
        if not values.size:
            return
        wide = values.astype(np.float64)
        total = self.count + wide.size
        # Combine means and sums of squares (Chan et al.), without differences of large sums.
        with np.errstate(over="ignore", invalid="ignore"):
            mean = wide.mean()
            apart = mean - self.mean
            self.squares += ((wide - mean) ** 2).sum() + apart**2 * (self.count * wide.size / total)
            self.mean += apart * (wide.size / total)
        self.count = total
        self.zeros += int((values == 0).sum())
        self.least = min(self.least, float(wide.min()))
        self.most = max(self.most, float(wide.max()))


class _Column:
    """Statistics of a feature: of its values, and of their number per example."""

    def __init__(self) -> None:
        self.values = _Numbers()
        self.present = _Numbers()
        self.missing = 0
        self.total = 0

    def add(self, column: Any) -> None:
        """Add the values of a batch."""
        values, counts = _flatten(column)
        if values.dtype == object:
            values = np.array([len(value) for value in values], np.int64)
        if values.dtype.kind in "biuf":
            self.values.add(values)
        self.present.add(counts[counts > 0])
        self.missing += int((counts == 0).sum())
        self.total += int(counts.sum())

    @property
    def common(self) -> dict[str, Any]:
        """The ``CommonStatistics`` message."""
        if not self.present.count:
            return {"numMissing": str(self.missing)}
        counts = {
            "numNonMissing": str(self.present.count),
            "minNumValues": str(int(self.present.least)),
            "maxNumValues": str(int(self.present.most)),
            "avgNumValues": float(self.present.mean),
            "totNumValues": str(self.total),
        }
        return {**counts, "numMissing": str(self.missing)} if self.missing else counts


def _flatten(column: Any) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Flatten a column, and count the values of each row."""
    if isinstance(column, Ragged):
        values, inner = _flatten(column.values)
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(inner)])[column.offsets]
        return values, np.diff(ends)
    if isinstance(column, np.ndarray) and column.dtype != object:
        return column.reshape(-1), np.full(len(column), column[:1].size, np.int64)
    cells = [_cell(value) for value in column]
    counts = np.array([len(cell) for cell in cells], np.int64)
    filled = [cell for cell in cells if len(cell)]
    return np.concatenate(filled) if filled else np.zeros(0, object), counts


def _cell(value: Any) -> npt.NDArray[Any]:
    """Flatten a cell of any type."""
    if value is None:
        return np.zeros(0, object)
    if isinstance(value, (bytes, str)):
        cell = np.empty(1, object)
        cell[0] = value
        return cell
    if isinstance(value, (Ragged, list)):
        return _flatten(value)[0]
    array = np.asarray(value)
    return array.reshape(-1) if array.dtype != object else _flatten(array)[0]


def statistics_of(
    prepared: Prepared, split: PreparedSplit, paths: list[str], *, progress: bool = False
) -> dict[str, Any]:
    """Read a split, and compute its statistics.

    For numbers these are mean, standard deviation and bounds, for bytes and undecoded images sizes, and for every feature the
    number of values per example and of examples without one. Examples inside examples are skipped.

    Raises:
        DataError: The written files cannot be read.
    """
    leaves = [
        (key, feature) for key, feature, _ in prepared.features.leaves("", ()) if not isinstance(feature, Dataset)
    ]
    encoded = {key: SkipDecoding() for key, feature in leaves if _is_image(feature)}
    names = [key for key, _ in leaves]
    codec = FeaturesCodec(prepared.features, decoders=encoded, names=names)
    source = SplitNode(format_named(prepared.file_format).open(paths), codec, prepared, split)
    found = {key: _Column() for key in names}
    with Progress(f"reading {split.name} back", len(source), "examples", show=progress) as bar:
        for start, stop, batch in read_blocks(source, BATCH):
            for key, column in found.items():
                column.add(batch[key])
            bar.advance(stop - start)
    described = [_feature(key, feature, found[key]) for key, feature in leaves]
    return {"numExamples": str(len(source)), "features": described}


def _feature(key: str, feature: LeafFeature, column: _Column) -> dict[str, Any]:
    """A ``FeatureNameStatistics`` message."""
    numbers = column.values
    common: dict[str, Any] = {"commonStats": column.common}
    if feature.value_dtype == BYTES or _is_image(feature):
        if numbers.count:
            sizes = {"avgNumBytes": float(numbers.mean), "minNumBytes": numbers.least, "maxNumBytes": numbers.most}
            common |= sizes
        return {"name": key, "type": "BYTES", "bytesStats": common}
    kind = "FLOAT" if np.dtype(feature.value_dtype).kind == "f" else "INT"
    if not numbers.count:
        return {"name": key, "type": kind, "numStats": common}
    moments = {
        "mean": float(numbers.mean),
        "stdDev": float(np.sqrt(numbers.squares / numbers.count)),
        "min": numbers.least,
        "max": numbers.most,
    }
    finite = {name: value for name, value in moments.items() if np.isfinite(value)}
    return {"name": key, "type": kind, "numStats": {**common, "numZeros": str(numbers.zeros), **finite}}


def _is_image(feature: LeafFeature) -> bool:
    return feature.class_name.partition(".")[0] in ("image_feature", "labeled_image")
