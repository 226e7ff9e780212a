"""The codec of TFDS: Examples by the features that a dataset declares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headrace.codecs.example.codec import ExampleCodec
from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Example
from headrace.datasets.columns import LeafColumn, StepsColumn
from headrace.datasets.decoders import Decoder, SkipDecoding, decoders_by_key, replaced
from headrace.datasets.features.base import DatasetFeature
from headrace.datasets.features.sequence import Dataset
from headrace.errors import DataError, NoSuchFeature, UnsupportedData, Where

__all__ = ["FeaturesCodec"]

Column = LeafColumn | StepsColumn


class FeaturesCodec:
    """Examples as TFDS stores them: native code decodes the protobuf a batch at a time, the features do the rest.

    Args:
        features: What the dataset declares.
        decoders: One for all features, by key or nested by name: see :mod:`headrace.datasets.decoders`.
        names: Only these features, in this order: keys of columns, or of features that several columns are read from.

    Raises:
        NoSuchFeature: A decoder or a name is for no feature.
        UnsupportedData: Two features are stored under one key.
    """

    name = "tfds"

    def __init__(self, features: DatasetFeature, *, decoders: Any = None, names: Iterable[str] | None = None) -> None:
        self.features = features
        self.decoders = {} if decoders is None else decoders_by_key(features, decoders)
        parts = {key: _columns(key, leaf, levels, self.decoders) for key, leaf, levels in features.leaves("", ())}
        columns = {name: column for part in parts.values() for name, column in part.items()}
        _check_keys(parts)
        self.names = None
        if names is not None:
            self.names = tuple(column for name in names for column in _chosen(name, columns, parts))
        self._columns = columns if self.names is None else {name: columns[name] for name in self.names}
        self.schema = Schema({name: column.schema for name, column in self._columns.items()})
        self._others = [(name, column) for name, column in self._columns.items() if not _is_plain(column)]
        self.wire = Schema({key: wire for column in self._columns.values() for key, wire in column.wire.items()})
        self._example = ExampleCodec(self.wire)

    @property
    def cuts_cleanly(self) -> bool:
        """Whether columns are of the same kind whatever the examples are."""
        return all(column.cuts_cleanly for column in self._columns.values())

    def decode_batch(self, spans: Any) -> Batch:
        """Decode ``n`` payloads into a column for each feature.

        Raises:
            CorruptRecord, SchemaMismatch: ``where.record`` is the position of the first payload with a fault.
        """
        batch = self._example.decode_batch(spans)
        if not self._others:
            return batch
        decoded, faults = self._decoded(batch, len(spans))
        if faults:
            first = min(faults, key=lambda fault: fault.where.record or 0)
            if first.where.record:
                self.decode_batch(
                    spans.part(0, first.where.record)
                )  # Another check of the same values may fail earlier.
            raise first
        return {name: decoded[name] if name in decoded else batch[name] for name in self._columns}

    def _decoded(self, batch: Batch, n: int) -> tuple[Batch, list[DataError]]:
        """The columns that are not given as they are stored, and what is wrong with some."""
        out: Batch = {}
        faults: list[DataError] = []
        for name, column in self._others:
            try:
                out[name] = column.decode(column.nested(batch, n))  # type: ignore[arg-type]
            except DataError as fault:
                faults.append(fault)
        return out, faults

    def spans_of(self, payloads: Any) -> Any:
        """Payloads in memory, one record each, as :meth:`decode_batch` takes them. Not copied."""
        return self._example.spans_of(payloads)

    def decode(self, payload: Any) -> Example:
        """Decode one payload into an example."""
        batch = self.decode_batch(self._example.spans_of([payload]))
        return {name: column[0] for name, column in batch.items()}

    def encoded(self) -> FeaturesCodec:
        """The codec that leaves images as the files that they are stored as."""
        images: dict[str, SkipDecoding | Decoder] = {
            name: SkipDecoding() for name, column in self._columns.items() if column.schema.is_image
        }
        return FeaturesCodec(self.features, decoders={**images, **self.decoders}, names=self.names)

    def narrowed(self, names: tuple[str, ...]) -> FeaturesCodec:
        """The codec for only these features."""
        return FeaturesCodec(self.features, decoders=self.decoders, names=names)

    def __getstate__(self) -> dict[str, Any]:
        return {"features": self.features, "decoders": self.decoders, "names": self.names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["features"], decoders=state["decoders"], names=state["names"])  # type: ignore[misc]

    def __repr__(self) -> str:
        return f"FeaturesCodec({list(self.schema)})"


def _is_plain(column: Column) -> bool:
    """Whether the values are those of one key, as they are stored."""
    return isinstance(column, LeafColumn) and column.is_plain


def _columns(key: str, feature: Any, levels: tuple[int | None, ...], decoders: Mapping[str, Any]) -> dict[str, Column]:
    """The columns of one feature: one, or as many as the keys that it is stored under where it is not decoded."""
    if not isinstance(feature, Dataset):
        return {
            name: LeafColumn(name, leaf, levels) for name, leaf in replaced(key, feature, decoders.get(key)).items()
        }
    inner = {}
    for path, leaf, inner_levels in feature.inner_leaves(key):
        for name, part in replaced(path, leaf, decoders.get(path)).items():
            inner[name[len(key) + 1 :]] = LeafColumn(name, part, inner_levels[1:])
    return {key: StepsColumn(key, feature, inner)}


def _check_keys(parts: Mapping[str, Mapping[str, Column]]) -> None:
    """Refuse features that read the same key of an Example."""
    owners: dict[str, str] = {}
    for feature, columns in parts.items():
        for key in {key for column in columns.values() for key in column.wire}:
            if owners.setdefault(key, feature) != feature:
                raise UnsupportedData(
                    Where(feature=feature),
                    expected="features that are stored under keys of their own",
                    found=f"{owners[key]!r} and {feature!r}, which share {key!r}",
                )


def _chosen(name: str, columns: Mapping[str, Column], parts: Mapping[str, Mapping[str, Column]]) -> Iterable[str]:
    if name in columns:
        return (name,)
    if name in parts:
        return parts[name]
    raise _no_such(name, columns)


def _no_such(name: str, columns: Mapping[str, Column]) -> NoSuchFeature:
    return NoSuchFeature(Where(), expected=f"one of the features {list(columns)}", found=repr(name))
