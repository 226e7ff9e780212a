"""tf.train.Example and tf.train.SequenceExample.

Source of the format: TensorFlow's ``tensorflow/core/example/{example,feature}.proto``; protobuf's rules of the wire.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace._faults import describe
from headrace.codecs.example.columns import Column, Spec, column_of
from headrace.codecs.example.keys import KeyedColumn, keyed_column_of
from headrace.codecs.values import all_faults, refuse_missing
from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Example
from headrace.errors import DataError, SchemaMismatch, UnsupportedData, Where

__all__ = ["ExampleCodec"]


class ExampleCodec:
    """Examples as TensorFlow writes them, by native code a batch at a time.

    Args:
        schema: What to decode; keys of the records that it does not name are passed over.
        lists: Names of the features that are feature lists of SequenceExamples rather than features, besides those whose
            type says so (``steps``); a feature with two varying axes is one in any case. Where a context feature has the name of a
            feature list, it is called ``context/NAME``.
        mixed: Names of the features that hold whole numbers in some records and floats in others: read as ``float64``.
    """

    name = "example"

    def __init__(
        self, schema: Schema, *, lists: frozenset[str] = frozenset(), mixed: frozenset[str] = frozenset()
    ) -> None:
        self.schema = schema
        features = list(schema.items())
        self.lists = lists | {name for name, feature in features if feature.steps or _varies_twice(feature)}
        self.mixed = mixed
        self._columns: list[Column | KeyedColumn] = [
            column_of(
                name,
                feature,
                is_list=name in self.lists,
                lists=self.lists,
                mixed=name in mixed and feature.dtype == "float64",
            )
            if feature.keys is None
            else keyed_column_of(name, feature, lists=lists, mixed=mixed)
            for name, feature in features
        ]
        self._specs, self._owners, self._places = _shared_specs(self._columns)
        self._is_plain = self._places == [[number] for number in range(len(self._columns))]
        self._shared = _first_shared(self._columns)
        self._decoder = _native.ExampleDecoder(self._specs)

    def decode_batch(self, spans: _native.Spans) -> Batch:
        """Decode ``n`` payloads.

        Returns:
            One column per feature of the schema: ``ndarray (n, *shape)``; :class:`~headrace.Ragged` where a length varies;
            object arrays of ``bytes`` or ``str``.

        Raises:
            CorruptRecord: A payload is no Example, or its checksum is wrong.
            SchemaMismatch: It holds something else than the schema says.

        ``where.record`` of the error is the position in ``spans`` of the first payload that has one.
        """
        try:
            parts = self._decoder.decode(spans)
        except _native.FormatError as error:
            if error.record > 0:
                self.decode_batch(spans.part(0, error.record))  # what native code does not check may fail earlier
            raise self._described(error) from error
        batch: Batch = {}
        faults: list[DataError] = []
        n = len(spans)
        for number, column in enumerate(self._columns):
            its_parts = (parts[number],) if self._is_plain else [parts[place] for place in self._places[number]]
            try:
                batch[column.name] = column.values(its_parts, n)
            except SchemaMismatch as fault:
                faults.append(fault)
        if faults:
            raise min(faults, key=lambda fault: fault.where.record or 0)
        return batch

    def _described(self, error: _native.FormatError) -> DataError:
        """The error for a fault in a payload. Only faults of the wire have a byte; for the others native code says 0."""
        features = self._owners
        if error.fault in ("wire", "truncated"):
            return describe(error, Where(record=error.record), features)
        place = Where(record=error.record, feature=features[error.feature] if error.feature >= 0 else None)
        described = describe(error, place, features)
        key = self._specs[error.feature][0] if error.feature >= 0 else None
        found = described.found if key is None or key in self.schema else f"{described.found} under {key!r}"
        return type(described)(place, expected=described.expected, found=found, hint=described.hint)

    @staticmethod
    def spans_of(payloads: Sequence[Any]) -> _native.Spans:
        """Payloads in memory, one record each, as :meth:`decode_batch` takes them. Not copied."""
        return _native.spans_of_buffers(payloads)

    def decode(self, payload: Any) -> Example:
        """Decode one payload into an example."""
        batch = self.decode_batch(self.spans_of([payload]))
        return {name: column[0] for name, column in batch.items()}

    def encode_batch(
        self, batch: Mapping[str, Any], n: int, head: int, tail: int, align: int = 1
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Serialise ``n`` examples: keys in order, numbers packed, the bytes of protobuf's deterministic serialisation.

        Args:
            batch: Columns as :meth:`decode_batch` returns them.
            n: How many rows they have.
            head: Free bytes before each payload, for the format's frame.
            tail: Free bytes behind it.
            align: The multiple to which payloads are padded.

        Returns:
            The block of bytes ``uint8 (size,)``, where each payload starts in it, and how long each is, ``int64 (n,)``.

        Raises:
            NoSuchFeature, SchemaMismatch, UnsupportedData: The columns are not what the schema says, or would lose something.
        """
        refuse_missing(self.schema, batch)
        if self._shared is not None:
            raise self._shared.relocated(Where())  # a new one: each has a traceback of its own
        encoded = [part for column in self._columns for part in column.encoded(batch[column.name], n)]
        try:
            return _native.encode_examples(encoded, n, head, tail, align)
        except _native.FormatError as error:
            if error.fault == "changed":
                raise describe(error, Where()) from error
            column = [column for column in self._columns for _ in column.specs][error.feature]
            raise column.misfit(batch[column.name], n) from error

    def narrowed(self, names: tuple[str, ...]) -> ExampleCodec:
        """The codec for only these features."""
        return ExampleCodec(self.schema.select(names), lists=self.lists, mixed=self.mixed)

    def faults_in(self, spans: _native.Spans) -> list[DataError]:
        """What is wrong with some payloads, one error for each bad one, ``where.record`` being its position."""
        return all_faults(self.decode_batch, spans)

    def __getstate__(self) -> dict[str, Any]:
        return {"schema": self.schema, "lists": self.lists, "mixed": self.mixed}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["schema"], lists=state["lists"], mixed=state["mixed"])  # type: ignore[misc]

    def __repr__(self) -> str:
        return f"ExampleCodec({list(self.schema)})"


def _varies_twice(feature: Feature) -> bool:
    return feature.shape[:2] == (None, None) and feature.keys is None


def _shared_specs(columns: Sequence[Column | KeyedColumn]) -> tuple[list[Spec], list[str], list[list[int]]]:
    """What native code decodes, each list once; the feature that asks for it first; and which of these each column takes.

    Raises:
        UnsupportedData: Two features read one list as different things.
    """
    specs: dict[tuple[str, bool], Spec] = {}
    owners: dict[tuple[str, bool], str] = {}
    for column in columns:
        for spec in column.specs:
            key = (spec[0], spec[3])
            if specs.setdefault(key, spec) != spec:
                raise UnsupportedData(
                    Where(feature=column.name),
                    expected=f"features that read the values of {spec[0]!r} as one type, of varying length",
                    found=f"{owners[key]!r}, which reads them as another",
                    hint="Open the files twice, each time with one of the two.",
                )
            owners.setdefault(key, column.name)
    numbers = {key: number for number, key in enumerate(specs)}
    places = [[numbers[spec[0], spec[3]] for spec in column.specs] for column in columns]
    return list(specs.values()), list(owners.values()), places


def _first_shared(columns: Sequence[Column | KeyedColumn]) -> UnsupportedData | None:
    """Why columns cannot be written, where two would be stored under one key."""
    owners: dict[tuple[str, bool], str] = {}
    for column in columns:
        for key, _, _, is_list, _ in column.specs:
            first = owners.setdefault((key, is_list), column.name)
            if first != column.name:
                return UnsupportedData(
                    Where(feature=column.name),
                    expected="features with keys of their own",
                    found=f"{key!r}, which holds {first!r} as well",
                    hint="Leave one of them out, with select(), or write it with other keys.",
                )
    return None
