"""tf.train.Example and tf.train.SequenceExample.

Source of the format: TensorFlow's ``tensorflow/core/example/{example,feature}.proto``; protobuf's rules of the wire.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock import _native
from penstock._faults import describe
from penstock.codecs.example_columns import Column, column_of
from penstock.codecs.faults import all_faults, refuse_missing
from penstock.contracts.schema import Schema
from penstock.contracts.values import Batch, Example
from penstock.errors import DataError, SchemaMismatch, Where

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
        self.lists = lists | {name for name in schema if schema[name].steps or _varies_twice(schema, name)}
        self.mixed = frozenset(name for name, feature in schema.items() if name in mixed and feature.dtype == "float64")
        self._columns: list[Column] = [
            column_of(name, feature, is_list=name in self.lists, lists=self.lists, mixed=name in self.mixed)
            for name, feature in schema.items()
        ]
        self._decoder = _native.ExampleDecoder([column.spec for column in self._columns])

    def decode_batch(self, spans: _native.Spans) -> Batch:
        """Decode ``n`` payloads.

        Returns:
            One column per feature of the schema: ``ndarray (n, *shape)``; :class:`~penstock.Ragged` where a length varies;
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
        for column, part in zip(self._columns, parts, strict=True):
            try:
                batch[column.name] = column.values(part, len(spans))
            except SchemaMismatch as fault:
                faults.append(fault)
        if faults:
            raise min(faults, key=lambda fault: fault.where.record or 0)
        return batch

    def _described(self, error: _native.FormatError) -> DataError:
        """The error for a fault in a payload. Only faults of the wire have a byte; for the others native code says 0."""
        features = list(self.schema)
        if error.fault in ("wire", "truncated"):
            return describe(error, Where(record=error.record), features)
        place = Where(record=error.record, feature=features[error.feature] if error.feature >= 0 else None)
        described = describe(error, place, features)
        return type(described)(place, expected=described.expected, found=described.found, hint=described.hint)

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
        columns = [column.encoded(batch[column.name], n) for column in self._columns]
        try:
            return _native.encode_examples(columns, n, head, tail, align)
        except _native.FormatError as error:
            if error.fault == "changed":
                raise describe(error, Where()) from error
            column = self._columns[error.feature]
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


def _varies_twice(schema: Schema, name: str) -> bool:
    return schema[name].shape[:2] == (None, None)
