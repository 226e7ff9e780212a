"""Examples as TFDS stores them: decoded by the features that a dataset declares, and encoded the same way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from headrace.codecs.example.codec import ExampleCodec
from headrace.codecs.infer import find_lacking
from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema
from headrace.contracts.strings import Strings
from headrace.contracts.values import Batch, Example, Ragged
from headrace.datasets.columns import LeafColumn, StepsColumn, WireKey, stored_key
from headrace.datasets.decoders import Decoder, SkipDecoding, decoders_by_key, features_to_read
from headrace.datasets.features.base import BYTES, DatasetFeature, Stored, as_cells
from headrace.datasets.features.mapping import FeaturesDict
from headrace.datasets.features.sequence import Dataset, Sequence
from headrace.errors import DataError, NoSuchFeature, UnsupportedData, Where

__all__ = ["FeaturesCodec", "FeaturesEncoder"]

MOST_CODECS = 256
"""How many combinations of optional values that are there are kept ready for encoding."""

Column = LeafColumn | StepsColumn


class FeaturesCodec:
    """Decodes examples as TFDS stores them: native code parses protobuf in batches, the features convert the values.

    Args:
        features: The features that the dataset declares.
        decoders: One decoder for all features, or decoders by key or nested by name; see :mod:`headrace.datasets.decoders`.
        names: Select these features, in this order, by key.

    Raises:
        NoSuchFeature: A decoder or a name matches no feature.
        UnsupportedData: Two features are stored under one key.
    """

    name = "tfds"

    def __init__(self, features: DatasetFeature, *, decoders: Any = None, names: Iterable[str] | None = None) -> None:
        self.features = features
        self.decoders: dict[str, SkipDecoding | Decoder] = (
            {} if decoders is None else decoders_by_key(features, decoders)
        )
        parts = {key: _columns(key, leaf, levels, self.decoders) for key, leaf, levels in features.leaves("", ())}
        columns = {name: column for part in parts.values() for name, column in part.items()}
        _check_keys(parts)
        self.names: tuple[str, ...] | None = None
        if names is not None:
            self.names = tuple(column for name in names for column in _columns_named(name, columns, parts))
        self._columns = columns if self.names is None else {name: columns[name] for name in self.names}
        self.schema: Schema = Schema({name: column.schema for name, column in self._columns.items()})
        self._others = [(name, column) for name, column in self._columns.items() if not _is_stored_directly(column)]
        self.wire: Schema = Schema(
            {key: wire for column in self._columns.values() for key, wire in column.wire.items()}
        )
        self._example = ExampleCodec(self.wire)

    @property
    def cuts_cleanly(self) -> bool:
        """Whether the types of columns do not depend on the examples."""
        return all(column.cuts_cleanly for column in self._columns.values())

    def decode_batch(self, spans: Any) -> Batch:
        """Decode ``n`` payloads into a column for each feature.

        Raises:
            CorruptRecord, SchemaMismatch: ``where.record`` is the position of the first payload with a fault.
        """
        batch = self._example.decode_batch(spans)
        if not self._others:
            return batch
        decoded, faults = self._decode_columns(batch, spans)
        if faults:
            first = min(faults, key=lambda fault: fault.where.record or 0)
            if first.where.record:
                self.decode_batch(spans.part(0, first.where.record))  # Another check may fail at an earlier record.
            raise first
        return {name: decoded[name] if name in decoded else batch[name] for name in self._columns}

    def _decode_columns(self, batch: Batch, spans: Any) -> tuple[Batch, list[DataError]]:
        """Decode the columns that are not stored directly, and collect their faults."""
        out: Batch = {}
        faults: list[DataError] = []
        for name, column in self._others:
            try:
                if isinstance(column, LeafColumn) and column.lacks_key:
                    key = column.keys[0].key
                    lacking = find_lacking(spans, key, np.flatnonzero(batch[key].lengths == 0))
                    out[name] = column.decode(column.nested(batch, len(spans)), lacking)
                else:
                    out[name] = column.decode(column.nested(batch, len(spans)))  # type: ignore[arg-type]
            except DataError as fault:
                faults.append(fault)
        return out, faults

    def spans_of(self, payloads: Any) -> Any:
        """Wrap payloads in memory as spans for :meth:`decode_batch`, without a copy."""
        return self._example.spans_of(payloads)

    def decode(self, payload: Any) -> Example:
        """Decode one payload into an example."""
        batch = self.decode_batch(self._example.spans_of([payload]))
        return {name: column[0] for name, column in batch.items()}

    def encoded(self) -> FeaturesCodec:
        """The codec that returns images as encoded files."""
        images: dict[str, SkipDecoding | Decoder] = {
            name: SkipDecoding() for name, column in self._columns.items() if column.schema.is_image
        }
        return FeaturesCodec(self.features, decoders={**images, **self.decoders}, names=self.names)

    def narrowed(self, names: tuple[str, ...]) -> FeaturesCodec:
        """The codec for these features only."""
        return FeaturesCodec(self.features, decoders=self.decoders, names=names)

    def __getstate__(self) -> dict[str, Any]:
        return {"features": self.features, "decoders": self.decoders, "names": self.names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["features"], decoders=state["decoders"], names=state["names"])  # type: ignore[misc]

    def __repr__(self) -> str:
        return f"FeaturesCodec({list(self.schema)})"


def _is_stored_directly(column: Column) -> bool:
    """Whether the column holds the stored values of one key."""
    return isinstance(column, LeafColumn) and column.is_plain


def _columns(key: str, feature: Any, levels: tuple[int | None, ...], decoders: Mapping[str, Any]) -> dict[str, Column]:
    """The columns of a feature: one, or one for each of its keys if it is not decoded."""
    if not isinstance(feature, Dataset):
        return {
            name: LeafColumn(name, leaf, levels)
            for name, leaf in features_to_read(key, feature, decoders.get(key)).items()
        }
    inner = {}
    for path, leaf, inner_levels in feature.inner_leaves(key):
        for name, part in features_to_read(path, leaf, decoders.get(path)).items():
            inner[name[len(key) + 1 :]] = LeafColumn(name, part, inner_levels[1:], in_steps=True)
    return {key: StepsColumn(key, feature, inner)}


def _check_keys(parts: Mapping[str, Mapping[str, Column]]) -> None:
    """Refuse features that read the same key of an Example."""
    owners: dict[str, str] = {}
    for feature, columns in parts.items():
        for key in {key for column in columns.values() for key in column.wire}:
            if owners.setdefault(key, feature) != feature:
                raise UnsupportedData(
                    Where(feature=feature),
                    expected="a different key for each feature",
                    found=f"{owners[key]!r} and {feature!r}, which share {key!r}",
                )


def _columns_named(
    name: str, columns: Mapping[str, Column], parts: Mapping[str, Mapping[str, Column]]
) -> Iterable[str]:
    if name in columns:
        return (name,)
    if name in parts:
        return parts[name]
    raise _no_such_feature(name, columns)


def _no_such_feature(name: str, columns: Mapping[str, Column]) -> NoSuchFeature:
    return NoSuchFeature(Where(), expected=f"one of the features {list(columns)}", found=repr(name))


Leaf = tuple[str, Any, tuple[int | None, ...]]


class FeaturesEncoder:
    """Serialises examples as TFDS does.

    Keys are sorted and numbers packed, so equal examples become equal bytes.

    Args:
        features: The features that the dataset declares: a :class:`FeaturesDict`, or a :class:`Sequence` of one.
    """

    def __init__(self, features: DatasetFeature) -> None:
        self.features = features
        self._leaves = list(_leaves(features))
        self._codecs: dict[frozenset[str], ExampleCodec] = {}

    def encode(self, example: Any) -> bytes:
        """Serialise an example as a tf.train.Example.

        Args:
            example: Nested dicts, lists and arrays that match the features; for images also paths and open files.

        Raises:
            SchemaMismatch: A value does not match its feature.
        """
        values = _flatten(self.features, "", self.features.encode_example(example))
        columns: dict[str, Any] = {}
        schema: dict[str, Feature] = {}
        for key, feature, levels in self._leaves:
            for suffix, stored in feature.stored.items():
                part = _part(values[key], suffix)
                if part is None:
                    continue  # a missing optional value has no key
                if levels and feature.optional and _lacks_values(part):
                    fault = feature.misfit("None", expected="a value in each step and element of a sequence")
                    raise fault.relocated(Where(feature=key))
                wire = WireKey(stored_key(key, suffix), _wire_type(stored), levels, optional=False)
                schema.update(wire.features())
                columns.update(_encode_columns(wire, part))
        block, starts, sizes = self._codec(schema).encode_batch(columns, 1, 0, 0)
        return block[int(starts[0]) : int(starts[0] + sizes[0])].tobytes()

    def _codec(self, schema: Mapping[str, Feature]) -> ExampleCodec:
        present = frozenset(schema)
        if present not in self._codecs:
            if len(self._codecs) >= MOST_CODECS:
                del self._codecs[next(iter(self._codecs))]
            self._codecs[present] = ExampleCodec(Schema(schema))
        return self._codecs[present]


def _leaves(features: DatasetFeature) -> Iterator[Leaf]:
    """Iterate over the features that hold values, including those inside datasets."""
    for key, feature, levels in features.leaves("", ()):
        if isinstance(feature, Dataset):
            yield from feature.inner_leaves(key)
        else:
            yield key, feature, levels


def _flatten(feature: DatasetFeature, key: str, value: Any) -> dict[str, Any]:
    """Encoded values by key. Each level of sequences is a level of lists."""
    if isinstance(feature, FeaturesDict):
        out: dict[str, Any] = {}
        for name, inner in feature.items():
            out.update(_flatten(inner, f"{key}/{name}" if key else name, value[name]))
        return out
    if isinstance(feature, Sequence):
        elements = [_flatten(feature.feature, key, element) for element in value]
        keys = [leaf for leaf, _, _ in feature.feature.leaves(key, ())]
        return {leaf: [element[leaf] for element in elements] for leaf in keys}
    return {key: value}


def _part(value: Any, suffix: str) -> Any:
    """One of the values that a feature is stored as."""
    if not suffix or value is None:
        return value
    return [_part(element, suffix) for element in value] if isinstance(value, list) else value[suffix]


def _lacks_values(part: Any) -> bool:
    """Whether a value inside lists is missing."""
    return any(map(_lacks_values, part)) if isinstance(part, list) else part is None


def _wire_type(stored: Stored) -> Stored:
    """The type on the wire, which has a single float type."""
    is_float = stored.dtype != BYTES and np.dtype(stored.dtype).kind == "f"
    return Stored(dtype="float32" if is_float else stored.dtype, shape=stored.shape)


def _encode_columns(wire: WireKey, value: Any) -> dict[str, Any]:
    """Make the columns of one example for the keys of a value."""
    dtype, shape = wire.stored.dtype, wire.stored.shape
    if not wire.levels:
        row = _array(value, dtype)
        if None in shape:
            # Any axis may vary; the reader knows the lengths of the others.
            return {wire.key: _ragged_row(row.reshape(-1) if len(shape) == 1 else row)}
        return {wire.key: row[None]}
    if len(wire.levels) == 1:
        cells = _stack(value, dtype, shape)
        return {wire.key: _ragged_row(cells) if wire.levels[0] is None else cells[None]}
    names = list(wire.features())
    out: dict[str, Any] = {}
    for name in names[1:]:
        out[name] = _ragged_row(np.array([len(element) for element in value], np.int64))
        value = [inner for element in value for inner in element]
    out[names[0]] = _ragged_row(_stack(value, dtype, shape))
    return out


def _array(value: Any, dtype: str) -> Any:
    if dtype != BYTES:
        return np.asarray(value).astype(dtype)
    if isinstance(value, (np.ndarray, Strings)):
        return np.asarray(value)
    cell = np.empty((), object)
    cell[()] = value
    return cell


def _stack(cells: list[Any], dtype: str, shape: tuple[int | None, ...]) -> Any:
    if not cells:
        return np.zeros((0, *(length or 0 for length in shape)), object if dtype == BYTES else dtype)
    if dtype == BYTES and shape == ():
        return as_cells(cells)
    return np.stack([_array(cell, dtype) for cell in cells])


def _ragged_row(rows: Any) -> Ragged:
    """A ragged column with one row."""
    return Ragged(rows, np.array([0, len(rows)], np.int64))
