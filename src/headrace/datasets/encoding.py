"""From examples to the payloads that TFDS stores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from headrace.codecs.example.codec import ExampleCodec
from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema
from headrace.contracts.values import Ragged
from headrace.datasets.columns import WireKey, stored_key
from headrace.datasets.features.base import BYTES, DatasetFeature, Stored, as_cells
from headrace.datasets.features.mapping import FeaturesDict
from headrace.datasets.features.sequence import Dataset, Sequence

__all__ = ["FeaturesEncoder"]

Leaf = tuple[str, Any, tuple[int | None, ...]]


class FeaturesEncoder:
    """Serialises examples as TFDS does, for folders that it can read.

    Keys are in order and numbers are packed, so the same example always becomes the same bytes.

    Args:
        features: What the dataset declares: a :class:`FeaturesDict`, or a :class:`Sequence` of one.
    """

    def __init__(self, features: DatasetFeature) -> None:
        self.features = features
        self._leaves = list(_leaves(features))
        self._codecs: dict[frozenset[str], ExampleCodec] = {}

    def encode(self, example: Any) -> bytes:
        """One example as a tf.train.Example.

        Args:
            example: Nested dicts, lists and arrays as the features have them; paths and open files for images.

        Raises:
            SchemaMismatch: It is not what the features declare; names the feature.
        """
        values = _flat(self.features, "", self.features.encode_example(example))
        columns: dict[str, Any] = {}
        schema: dict[str, Feature] = {}
        for key, feature, levels in self._leaves:
            for suffix, stored in feature.stored.items():
                part = _part(values[key], suffix)
                if part is None:
                    continue  # an optional value that is not there: no key at all
                wire = WireKey(stored_key(key, suffix), _written(stored), levels, optional=False)
                schema.update(wire.features())
                columns.update(_columns(wire, part))
        block, starts, sizes = self._codec(schema).encode_batch(columns, 1, 0, 0)
        return block[int(starts[0]) : int(starts[0] + sizes[0])].tobytes()

    def _codec(self, schema: Mapping[str, Feature]) -> ExampleCodec:
        present = frozenset(schema)
        if present not in self._codecs:
            self._codecs[present] = ExampleCodec(Schema(schema))
        return self._codecs[present]


def _leaves(features: DatasetFeature) -> Iterator[Leaf]:
    """All features with values of their own, those inside datasets too."""
    for key, feature, levels in features.leaves("", ()):
        if isinstance(feature, Dataset):
            yield from feature.inner_leaves(key)
        else:
            yield key, feature, levels


def _flat(feature: DatasetFeature, key: str, value: Any) -> dict[str, Any]:
    """Encoded values by key; of sequences lists, as deep as there are levels."""
    if isinstance(feature, FeaturesDict):
        out: dict[str, Any] = {}
        for name, inner in feature.items():
            out.update(_flat(inner, f"{key}/{name}" if key else name, value[name]))
        return out
    if isinstance(feature, Sequence):
        elements = [_flat(feature.feature, key, element) for element in value]
        keys = [leaf for leaf, _, _ in feature.feature.leaves(key, ())]
        return {leaf: [element[leaf] for element in elements] for leaf in keys}
    return {key: value}


def _part(value: Any, suffix: str) -> Any:
    """One of the values under which a feature is stored."""
    if not suffix or value is None:
        return value
    return [_part(element, suffix) for element in value] if isinstance(value, list) else value[suffix]


def _written(stored: Stored) -> Stored:
    """What numbers become: there is but one kind of float."""
    is_float = stored.dtype != BYTES and np.dtype(stored.dtype).kind == "f"
    return Stored(dtype="float32" if is_float else stored.dtype, shape=stored.shape)


def _columns(wire: WireKey, value: Any) -> dict[str, Any]:
    """The columns of one example for the keys of a value."""
    dtype, shape = wire.stored.dtype, wire.stored.shape
    if not wire.levels:
        row = _array(value, dtype)
        if None in shape:
            # A varying axis that is not the first: the reader knows how long the others are.
            return {wire.key: _ragged(row.reshape(-1) if len(shape) == 1 else row)}
        return {wire.key: row[None]}
    if len(wire.levels) == 1:
        cells = _stack(value, dtype, shape)
        return {wire.key: _ragged(cells) if wire.levels[0] is None else cells[None]}
    names = list(wire.features())
    out: dict[str, Any] = {}
    for name in names[1:]:
        out[name] = _ragged(np.array([len(element) for element in value], np.int64))
        value = [inner for element in value for inner in element]
    out[names[0]] = _ragged(_stack(value, dtype, shape))
    return out


def _array(value: Any, dtype: str) -> Any:
    if dtype != BYTES:
        return np.asarray(value).astype(dtype)
    if isinstance(value, np.ndarray):
        return value
    cell = np.empty((), object)
    cell[()] = value
    return cell


def _stack(cells: list[Any], dtype: str, shape: tuple[int | None, ...]) -> Any:
    if not cells:
        return np.zeros((0, *(length or 0 for length in shape)), object if dtype == BYTES else dtype)
    if dtype == BYTES and shape == ():
        return as_cells(cells)
    return np.stack([_array(cell, dtype) for cell in cells])


def _ragged(rows: Any) -> Ragged:
    """A column of one example whose length varies."""
    return Ragged(rows, np.array([0, len(rows)], np.int64))
