"""tf.train.Example and tf.train.SequenceExample.

Source of the format: TensorFlow's ``tensorflow/core/example/{example,feature}.proto``; protobuf's wire format.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace._faults import describe, describe_payload
from headrace.codecs.example.columns import CONTEXT, FLOAT, INT, Column, Spec, column_of
from headrace.codecs.example.keys import KeyedColumn, keyed_column_of
from headrace.codecs.values import all_faults, refuse_missing, shape_column
from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema
from headrace.contracts.strings import Strings
from headrace.contracts.values import Batch, Example
from headrace.errors import DataError, SchemaMismatch, UnsupportedData, Where
from headrace.io.system import cached_property

__all__ = ["ExampleCodec"]


class ExampleCodec:
    """Decodes and encodes TensorFlow's Examples, a batch at a time in native code.

    Args:
        schema: What to decode; other keys in the records are ignored.
        lists: Names of features that are feature lists of SequenceExamples, in addition to those whose type says so
            (``steps``) and those with two varying axes. A context feature that shares its name with a feature list is called
            ``context/NAME``.
        mixed: Names of features with integers in some records and floats in others; read as ``float64``. Batches with integers for
            other features of ``float64`` are decoded twice.
        shared: Names of feature lists that are plain features, too, in addition to those whose ``context/NAME`` is in the schema. Any
            other list must not be a plain feature instead.
    """

    name = "example"

    def __init__(
        self,
        schema: Schema,
        *,
        lists: frozenset[str] = frozenset(),
        mixed: frozenset[str] = frozenset(),
        shared: frozenset[str] = frozenset(),
    ) -> None:
        self.schema = schema
        features = list(schema.items())
        self.lists: frozenset[str] = lists | {
            name for name, feature in features if feature.steps or _varies_twice(feature)
        }
        self.mixed = mixed
        self.shared: frozenset[str] = shared | {name for name in self.lists if CONTEXT + name in schema}
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
        self._directness = [
            (column, self._is_plain and isinstance(column, Column) and column.direct) for column in self._columns
        ]
        self._shared = _first_shared(self._columns)
        features_only = {key for key, _, _, is_list, _ in self._specs if not is_list} - self.lists
        self._decoder = _native.ExampleDecoder(self._specs, self.lists - self.shared, features_only)

    def decode_batch(self, spans: _native.Spans) -> Batch:
        """Decode ``n`` payloads.

        Returns:
            One column per feature of the schema: ``ndarray (n, *shape)``; :class:`~headrace.Ragged` where a length varies;
            :class:`~headrace.Strings` for ``bytes`` and ``str``.

        Raises:
            CorruptRecord: A payload is not an Example, or its checksum is wrong.
            SchemaMismatch: A payload does not match the schema.

        ``where.record`` of the error is the position in ``spans`` of the first bad payload.
        """
        try:
            parts = self._decoder.decode(spans, Strings)
        except _native.FormatError as error:
            if self._is_integer_in_float64(error):
                return self._of_integers.decode_batch(spans)
            if error.record > 0:
                self.decode_batch(
                    spans.part(0, error.record)
                )  # raises earlier if a check outside native code fails first
            raise self._as_error(error) from error
        batch: Batch = {}
        faults: list[DataError] = []
        n = len(spans)
        for number, (column, direct) in enumerate(self._directness):
            flat = parts[number][0] if direct else None
            if type(flat) is np.ndarray or type(flat) is Strings:
                batch[column.name] = flat
                continue
            its_parts = (parts[number],) if self._is_plain else [parts[place] for place in self._places[number]]
            try:
                batch[column.name] = column.values(its_parts, n)
            except SchemaMismatch as fault:
                faults.append(fault)
        if faults:
            raise min(faults, key=lambda fault: fault.where.record or 0)
        return batch

    def _is_integer_in_float64(self, error: _native.FormatError) -> bool:
        """Whether a record holds integers where the schema says ``float64``, and floats were expected."""
        if error.fault != "wrong_kind" or (error.expected, error.found) != (FLOAT, INT):
            return False
        return self.schema[self._owners[error.feature]].dtype == "float64"

    @cached_property
    def _of_integers(self) -> ExampleCodec:
        """A slower codec, which takes integers where the schema says ``float64``."""
        mixed = self.mixed.union(self.schema, (spec[0] for spec in self._specs))
        return ExampleCodec(self.schema, lists=self.lists, mixed=mixed, shared=self.shared)

    def _as_error(self, error: _native.FormatError) -> DataError:
        """The error for a fault in a payload. Only wire faults have an offset; for others, native code reports 0."""
        features = self._owners
        if error.fault in ("wire", "truncated"):
            return describe_payload(error, Where(record=error.record), features)
        place = Where(record=error.record, feature=features[error.feature] if error.feature >= 0 else None)
        if error.fault == "range":
            whole = int(np.uint64(error.found).astype(np.int64))
            expected = "integers that float64 holds exactly, as other records have floats"
            return SchemaMismatch(place, expected=expected, found=str(whole), hint="Write floats in every record.")
        described = describe(error, place, features)
        key = self._specs[error.feature][0] if error.feature >= 0 else None
        found = described.found if key is None or key in self.schema else f"{described.found} under {key!r}"
        return type(described)(place, expected=described.expected, found=found, hint=described.hint)

    @staticmethod
    def spans_of(payloads: Sequence[Any]) -> _native.Spans:
        """Payloads in memory, in the form that :meth:`decode_batch` takes. Not copied."""
        return _native.spans_of_buffers(payloads)

    def decode(self, payload: Any) -> Example:
        """Decode one payload into an example."""
        batch = self.decode_batch(self.spans_of([payload]))
        return {name: column[0] for name, column in batch.items()}

    def encode_batch(
        self, batch: Mapping[str, Any], n: int, head: int, tail: int, align: int = 1
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Serialise ``n`` examples. The bytes are those of protobuf's deterministic serialisation: sorted keys, packed numbers.

        Args:
            batch: Columns as :meth:`decode_batch` returns them.
            n: The number of rows.
            head: Bytes to reserve before each payload, for the format's frame.
            tail: Bytes to reserve after it.
            align: Pad payloads to a multiple of this.

        Returns:
            The block ``uint8 (size,)``, and the offset and length of each payload in it, ``int64 (n,)`` each.

        Raises:
            NoSuchFeature, SchemaMismatch, UnsupportedData: The columns do not match the schema, or encoding would lose information.
        """
        refuse_missing(self.schema, batch)
        if self._shared is not None:
            raise self._shared.relocated(Where())  # a new instance, so that each has its own traceback
        encoded = [
            part
            for column in self._columns
            for part in column.encoded(shape_column(batch[column.name], column.feature, column.name), n)
        ]
        try:
            return _native.encode_examples(encoded, n, head, tail, align)
        except _native.FormatError as error:
            if error.fault == "changed":
                raise describe(error, Where()) from error
            column = [column for column in self._columns for _ in column.specs][error.feature]
            raise column.misfit(batch[column.name], n) from error

    def narrowed(self, names: tuple[str, ...]) -> ExampleCodec:
        """A codec for only these features."""
        return ExampleCodec(self.schema.select(names), lists=self.lists, mixed=self.mixed, shared=self.shared)

    def faults_in(self, spans: _native.Spans) -> list[DataError]:
        """The errors in these payloads, at most one per payload. ``where.record`` is the position of the payload."""
        return all_faults(self.decode_batch, spans)

    def __getstate__(self) -> dict[str, Any]:
        return {"schema": self.schema, "lists": self.lists, "mixed": self.mixed, "shared": self.shared}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state.pop("schema"), **state)  # type: ignore[misc]

    def __repr__(self) -> str:
        return f"ExampleCodec({list(self.schema)})"


def _varies_twice(feature: Feature) -> bool:
    return feature.shape[:2] == (None, None) and feature.keys is None


def _shared_specs(columns: Sequence[Column | KeyedColumn]) -> tuple[list[Spec], list[str], list[list[int]]]:
    """The specs for native code, one per list; the first feature that uses each; and the specs that each column uses.

    Raises:
        UnsupportedData: Two features read the same list as different types.
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
    """The error for the first two columns that would be stored under the same key."""
    owners: dict[tuple[str, bool], str] = {}
    for column in columns:
        for key, _, _, is_list, _ in column.specs:
            first = owners.setdefault((key, is_list), column.name)
            if first != column.name:
                return UnsupportedData(
                    Where(feature=column.name),
                    expected="a separate key for each feature",
                    found=f"{key!r}, also used by {first!r}",
                    hint="Leave one of them out, with select(), or write it with other keys.",
                )
    return None
