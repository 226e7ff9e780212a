"""The codec of TFDS: Examples by the features that a dataset declares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.codecs.example import ExampleCodec
from penstock.contracts.schema import Schema
from penstock.contracts.values import Batch, Example
from penstock.datasets.columns import LeafColumn
from penstock.datasets.decoders import SkipDecoding, flat_decoders, replaced
from penstock.datasets.features.base import DatasetFeature
from penstock.datasets.features.sequence import Dataset
from penstock.datasets.steps import StepsColumn
from penstock.errors import DataError, NoSuchFeature, Where

__all__ = ["FeaturesCodec"]

Column = LeafColumn | StepsColumn


class FeaturesCodec:
    """Examples as TFDS stores them: native code decodes the protobuf a batch at a time, the features do the rest.

    Args:
        features: What the dataset declares.
        decoders: By key or nested by name: see :mod:`penstock.datasets.decoders`.
        names: Only these features, in this order.

    Raises:
        NoSuchFeature: A decoder or a name is for no feature.
    """

    name = "tfds"

    def __init__(
        self, features: DatasetFeature, *, decoders: Mapping[str, Any] | None = None, names: Iterable[str] | None = None
    ) -> None:
        self.features = features
        self.decoders = flat_decoders(decoders or {})
        unused = set(self.decoders)
        columns = {
            key: _column(key, feature, levels, self.decoders, unused)
            for key, feature, levels in features.leaves("", ())
        }
        if unused:
            raise _no_such(min(unused), columns)
        self.names = None if names is None else tuple(names)
        for name in self.names or ():
            if name not in columns:
                raise _no_such(name, columns)
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
        images = {name: SkipDecoding() for name, column in self._columns.items() if column.schema.is_image}
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


def _column(
    key: str, feature: Any, levels: tuple[int | None, ...], decoders: Mapping[str, Any], unused: set[str]
) -> Column:
    unused.discard(key)
    if not isinstance(feature, Dataset):
        return LeafColumn(key, replaced(key, feature, decoders), levels)
    inner = {}
    for path, leaf, inner_levels in feature.inner_leaves(key):
        unused.discard(path)
        inner[path[len(key) + 1 :]] = LeafColumn(path, replaced(path, leaf, decoders), inner_levels[1:])
    return StepsColumn(key, feature, inner)


def _no_such(name: str, columns: Mapping[str, Column]) -> NoSuchFeature:
    return NoSuchFeature(Where(), expected=f"one of the features {list(columns)}", found=repr(name))
