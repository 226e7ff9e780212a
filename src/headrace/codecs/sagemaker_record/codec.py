"""SageMaker's Record: named dense and sparse tensors, labels, and a few strings.

Source of the format: the protobuf package ``aialgs.data`` (``record.proto`` of the SageMaker SDK); protobuf's wire
format; ML-IO's reader for how keys, values and shapes combine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace._faults import describe, describe_payload
from headrace.codecs.sagemaker_record.columns import BYTES, NOTHING, Place, RecordColumn, column_of, place_of
from headrace.codecs.sagemaker_record.infer import explain
from headrace.codecs.values import all_faults, refuse_missing, shape_column
from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Example
from headrace.errors import DataError, SchemaMismatch, UnsupportedData, Where
from headrace.io.system import spare_cores

__all__ = ["RecordMessage", "RecordTensor", "SageMakerRecordCodec", "check_record", "is_record", "read_message"]


class SageMakerRecordCodec:
    """Decodes and encodes the Records of SageMaker's algorithms, a batch at a time in native code.

    Features keep their names; the label ``values`` is called ``label``, other labels ``label_KEY``; ``uid``, ``metadata``
    and ``configuration`` are text. A tensor with keys is sparse: a row of a ``csr_array``. A shape stored with a tensor
    must match the schema's, unless either is flat.

    Args:
        schema: What to decode; everything else in the records is ignored.
        places: The places of features in a Record, for those whose name does not determine it.
        kinds: The tensor type of features in the records (1 float32, 2 float64, 3 int32, 4 bytes), if it differs from the
            schema's dtype. Schema inference finds both.

    Raises:
        UnsupportedData: A Record cannot hold a feature of the schema, or two features have the same place.
    """

    name = "sagemaker_record"

    def __init__(
        self, schema: Schema, *, places: Mapping[str, Place] | None = None, kinds: Mapping[str, int] | None = None
    ) -> None:
        self.schema = schema
        self.places: dict[str, Place] = {name: (places or {}).get(name) or place_of(name) for name in schema}
        self.kinds: dict[str, int] = {name: kind for name, kind in (kinds or {}).items() if name in schema}
        _check_apart(self.places)
        self._columns: list[RecordColumn] = [
            column_of(name, feature, self.places[name], self.kinds.get(name)) for name, feature in schema.items()
        ]
        self._decoder = _native.RecordDecoder([column.spec for column in self._columns])

    def decode_batch(self, spans: _native.Spans) -> Batch:
        """Decode ``n`` payloads. Megabytes of sparse ones are decoded on all cores that a call may use.

        Returns:
            One column per feature of the schema: ``ndarray (n, *shape)``; :class:`~headrace.Ragged` where a length varies;
            ``scipy.sparse.csr_array (n, width)`` for a sparse feature; ``Strings`` for text and bytes.

        Raises:
            CorruptRecord: A payload is not a Record, or contains an inconsistent tensor.
            SchemaMismatch: A payload does not match the schema.
            MissingExtra: A feature is sparse and SciPy is not installed.

        ``where.record`` of the error is the position in ``spans`` of the first bad payload.
        """
        try:
            parts = self._decoder.decode(spans, spare_cores())
        except _native.FormatError as error:
            if error.record > 0:
                self.decode_batch(
                    spans.part(0, error.record)
                )  # raises earlier if a check outside native code fails first
            kinds = [column.kind for column in self._columns]
            raise explain(error, spans, self.schema, self.places, kinds) from error
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

    def decode(self, payload: Any) -> Example:
        """Decode one payload into an example."""
        batch = self.decode_batch(_native.spans_of_buffers([payload]))
        return {name: column[0] for name, column in batch.items()}

    def payloads(self, spans: _native.Spans) -> list[bytes]:
        """The payloads as bytes. If a frame allows two readings, the one that is a Record.

        Raises:
            CorruptRecord: A checksum is wrong; ``where.record`` is the position in ``spans``.
        """
        try:
            return _native.record_payloads(spans)
        except _native.FormatError as error:
            raise describe(error, Where(record=error.record)) from error

    def encode_batch(
        self, batch: Mapping[str, Any], n: int, head: int, tail: int, align: int = 1
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Serialise ``n`` examples: the same bytes as the SDK's writers.

        A dense tensor is written without a shape if it has one axis, else with it. Integers are stored as int32.

        Args:
            batch: Columns as :meth:`decode_batch` returns them; sparse features may be any SciPy matrix.
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
        columns = [
            column.encoded(shape_column(batch[column.name], column.feature, column.name), n) for column in self._columns
        ]
        try:
            return _native.encode_records(columns, n, head, tail, align)
        except _native.FormatError as error:
            if error.fault == "changed":
                raise describe(error, Where()) from error
            name = self._columns[error.feature].name
            record = error.record if error.record >= 0 else None
            raise UnsupportedData(
                Where(record=record, feature=name),
                expected=f"column numbers of a sparse matrix in [0, {error.expected})",
                found=str(np.uint64(error.found).astype(np.int64)),
            ) from error

    def narrowed(self, names: tuple[str, ...]) -> SageMakerRecordCodec:
        """A codec for only these features."""
        return SageMakerRecordCodec(self.schema.select(names), places=self.places, kinds=self.kinds)

    def faults_in(self, spans: _native.Spans) -> list[DataError]:
        """The errors in these payloads, at most one per payload. ``where.record`` is the position of the payload."""
        return all_faults(self.decode_batch, spans)

    def __getstate__(self) -> dict[str, Any]:
        return {"schema": self.schema, "places": self.places, "kinds": self.kinds}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["schema"], places=state["places"], kinds=state["kinds"])  # type: ignore[misc]

    def __repr__(self) -> str:
        return f"SageMakerRecordCodec({list(self.schema)})"


def _check_apart(places: Mapping[str, Place]) -> None:
    taken: dict[Place, str] = {}
    for name, place in places.items():
        if taken.setdefault(place, name) != name:
            raise UnsupportedData(
                Where(feature=name),
                expected="features that stand in different places of a Record",
                found=f"{taken[place]!r} in the same place",
            )


@dataclass(slots=True, eq=False)
class RecordTensor:
    """One value of a Record.

    Args:
        kind: 0 nothing, 1 float32, 2 float64, 3 int32, 4 bytes.
        values: Numbers (when read, an array of the kind's dtype), or ``bytes``.
        keys: For a sparse tensor, one key per value (``uint64``).
        shape: Axis lengths (``uint64``); empty if not stored.
        content_type: The content type, for bytes.
    """

    kind: int = NOTHING
    values: Any = ()
    keys: Any = ()
    shape: Any = ()
    content_type: str | None = None


@dataclass(slots=True, eq=False)
class RecordMessage:
    """A whole Record as plain values; missing strings are ``None``."""

    features: dict[str, RecordTensor] = field(default_factory=dict)
    label: dict[str, RecordTensor] = field(default_factory=dict)
    uid: str | None = None
    metadata: str | None = None
    configuration: str | None = None


def is_record(payload: Any) -> bool:
    """Whether the whole payload is a Record."""
    return _native.is_record(payload)


def check_record(payload: bytes, where: Where) -> bytes:
    """Return the payload if it is a Record.

    Raises:
        CorruptRecord: The payload is not a Record.
    """
    if not is_record(payload):
        read_message(payload, where)
    return payload


def read_message(payload: Any, where: Where | None = None) -> RecordMessage:
    """The Record in a payload.

    Raises:
        CorruptRecord: The payload is not a Record.
    """
    try:
        features, label, *strings = _native.parse_record(payload)
    except _native.FormatError as error:
        raise describe_payload(error, where or Where()) from error
    texts = [None if text is None else _text(text) for text in strings]
    return RecordMessage(_tensors(features), _tensors(label), *texts)


def _tensors(entries: Mapping[bytes, Any]) -> dict[str, RecordTensor]:
    return {_text(key): _tensor(*entry) for key, entry in entries.items()}


def _tensor(kind: int, values: Any, keys: Any, shape: Any) -> RecordTensor:
    if kind == NOTHING:
        return RecordTensor()
    if kind == BYTES:
        return RecordTensor(kind, values, content_type=None if keys is None else _text(keys))
    return RecordTensor(kind, values, () if keys is None else keys, () if shape is None else shape)


def _text(utf8: bytes) -> str:
    return utf8.decode(errors="surrogateescape")
