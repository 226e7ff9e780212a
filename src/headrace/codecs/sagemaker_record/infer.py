"""Infer the schema of SageMaker Records from a sample, and describe their faults."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace import _native
from headrace._faults import describe, describe_payload
from headrace.codecs.sagemaker_record.columns import (
    BYTES,
    FEATURE,
    FLOAT32,
    FLOAT64,
    INT32,
    LABEL,
    VALUES,
    Place,
    names_of,
)
from headrace.contracts.feature import Feature
from headrace.contracts.images import encoding_by_counts
from headrace.contracts.schema import Schema
from headrace.errors import CorruptRecord, DataError, SchemaMismatch, Where

__all__ = ["RecordInference", "explain", "infer_records"]


DTYPES = {FLOAT32: "float32", FLOAT64: "float64", INT32: "int32", BYTES: "bytes"}
Facts = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RecordInference:
    """The result of inference.

    Attributes:
        schema: Feature types.
        places: The place of each feature in a Record.
        kinds: The tensor type of each feature.
    """

    schema: Schema
    places: dict[str, Place]
    kinds: dict[str, int]


def infer_records(blocks: Iterable[_native.Spans], only: Collection[str] | None = None) -> RecordInference | None:
    """Infer the schema of these records.

    A feature with keys is sparse, and as wide as its stored shapes (``None`` if they differ); a shape without values and
    keys is an empty sparse row. A dense feature has its stored shape, with ``None`` for axes that differ. Without a stored
    shape it has ``(k,)`` for ``k`` values in every record, ``()`` for one value (``(1,)`` for ``values``, the feature
    vector), and ``(None,)`` if the number varies or some records lack it. Bytes that are UTF-8 without control characters
    in every record are ``"str"``; bytes that begin like images in more than half of the values have an ``encoding``. A string that
    some records lack has the default ``""``, and a sparse feature the default 0, an empty row. Keys that never hold a tensor are omitted.

    Args:
        blocks: The sample.
        only: The features that are wanted, if known. Others of several kinds are left out.

    Returns:
        ``None`` if these are not Records: at least half of the payloads do not parse as Records, or none has a tensor.

    Raises:
        CorruptRecord: The checksum of the very first record is wrong.
        SchemaMismatch: A wanted feature holds different kinds of tensors.
    """
    scanner = _native.RecordScanner()
    for spans in blocks:
        try:
            scanner.add(spans)
        except _native.FormatError as error:
            if scanner.records == 0:
                raise describe(error, Where(record=error.record)) from error
            break  # Reading reports it with its location; the records before it determine the schema.
    if scanner.rejected >= scanner.records:
        return None  # Otherwise these are damaged Records, which reading reports.
    facts = {Place(key["place"], bytes(key["key"])): key for key in scanner.keys if key["records"]}
    if not any(place.field <= LABEL for place in facts):
        return None
    places = names_of(facts)
    if only is not None:
        places = {name: place for name, place in places.items() if name in only or len(_kinds(facts[place])) < 2}
    features = {name: _feature(name, place, facts[place], scanner.records) for name, place in places.items()}
    kinds = {name: _kind(name, facts[place]) for name, place in places.items() if place.field <= LABEL}
    return RecordInference(Schema(features), places, kinds)


def _feature(name: str, place: Place, facts: Facts, records: int) -> Feature:
    everywhere = facts["records"] == records
    if place.field > LABEL:
        return Feature("str", default=None if everywhere else "")
    kind = _kind(name, facts)
    if kind == BYTES:
        dtype, encoding = _text(facts)
        return Feature(dtype, _dense(place, facts, everywhere=everywhere), encoding=encoding)
    if facts["sparse"] or facts["shape_only"] == facts["records"]:
        same = facts["narrowest"] == facts["widest"]
        width = facts["widest"] if same else None
        return Feature(DTYPES[kind], (width,), sparse=True, default=None if everywhere else 0)
    return Feature(DTYPES[kind], _dense(place, facts, everywhere=everywhere))


def _kinds(facts: Facts) -> list[int]:
    return [kind for kind in DTYPES if facts["kinds"][kind]]


def _kind(name: str, facts: Facts) -> int:
    held = _kinds(facts)
    if len(held) == 1:
        return held[0]
    raise SchemaMismatch(
        Where(feature=name),
        expected="one kind of tensor in all records",
        found=", ".join(f"{DTYPES[kind]} in {facts['kinds'][kind]}" for kind in held),
        hint=KIND_HINT,
    )


def _dense(place: Place, facts: Facts, *, everywhere: bool) -> tuple[int | None, ...]:
    if facts["shaped"] == facts["records"] and facts["same_rank"] and facts["sound"]:
        axes = tuple(a if a == b else None for a, b in zip(facts["shortest"], facts["longest"], strict=True))
        return axes if everywhere else (None, *axes[1:])
    if facts["fewest"] != facts["most"] or not everywhere:
        return (None,)
    return () if facts["most"] == 1 and place != VALUES else (facts["most"],)


def _text(facts: Facts) -> tuple[str, Any]:
    encoding = encoding_by_counts(facts["texts"], facts["images"])
    if encoding is not None:
        return "bytes", encoding
    return ("str" if facts["plain_text"] and facts["texts"] else "bytes"), None


KINDS = ("no", "float32", "float64", "int32", "bytes")
HINT = "Pass a schema= that says what the records hold."
VARIES_HINT = "If the number varies, use None in the schema's shape: Feature(dtype, (None,))."
WIDTH_HINT = "Where widths differ, the schema's shape needs None: Feature(dtype, (None,), sparse=True)."
MISSING_HINT = "Give the feature a default=, or the shape (None,) if it may be absent."
ABSENT_ROW_HINT = "Give the feature default=0 if it may be absent: its rows are empty there."
KIND_HINT = "Give a schema without it, or read the records with codec='raw'."


@dataclass(frozen=True, slots=True)
class TensorFacts:
    """The contents of one tensor of a record.

    Args:
        kind: 1 float32, 2 float64, 3 int32, 4 bytes.
        values: How many values.
        keys: How many keys.
        shape: The stored shape; empty if there is none.
    """

    kind: int
    values: int
    keys: int = 0
    shape: tuple[int, ...] = ()

    def __str__(self) -> str:
        kind = KINDS[self.kind]
        if self.keys or (self.shape and not self.values and 0 not in self.shape):
            return f"a sparse {kind} tensor of shape {self.shape} with {self.values} values"
        if self.shape:
            return f"a dense {kind} tensor of shape {self.shape}"
        return f"a dense {kind} tensor of {self.values} values"


def explain(
    error: _native.FormatError, spans: _native.Spans, schema: Schema, places: Mapping[str, Place], kinds: Sequence[int]
) -> DataError:
    """The error for a fault in record ``error.record`` of ``spans``. ``kinds`` are the tensor types of the features."""
    names = list(schema)
    if not 0 <= error.feature < len(names):
        return _in_payload(error)
    name = names[error.feature]
    where = Where(record=error.record, feature=name)
    if error.fault == "missing":
        hint = ABSENT_ROW_HINT if schema[name].sparse else MISSING_HINT
        return SchemaMismatch(where, expected=_describe_feature(schema[name]), found="none in this record", hint=hint)
    if error.fault in ("wire", "truncated"):
        return describe_payload(error, where)
    if error.fault == "range":
        return CorruptRecord(where, expected=f"keys below the width {error.expected}", found=f"the key {error.found}")
    try:
        found = _tensor(spans, error.record, places[name])
    except _native.FormatError as damage:  # The tensor does not parse at all: a varint without an end.
        return describe_payload(damage, where)
    kind = DTYPES.get(kinds[error.feature])
    if error.fault == "wrong_kind" and kind not in (None, schema[name].dtype) and not schema[name].is_text:
        stored = Feature(kind, schema[name].shape, sparse=schema[name].sparse)
        expected = f"{_describe_feature(stored)}, as in other records"
        return SchemaMismatch(where, expected=expected, found=str(found), hint=KIND_HINT)
    return _mismatch_error(error.fault, where, schema[name], found)


def _in_payload(error: _native.FormatError) -> DataError:
    known = error.fault in ("wire", "truncated") and error.offset > 0
    fault = describe_payload(error, Where(record=error.record, offset=error.offset if known else None))
    if known:
        return fault
    place = Where(record=error.record)
    return type(fault)(place, expected=fault.expected, found=fault.found, hint=fault.hint)


def _mismatch_error(fault: str, where: Where, wanted: Feature, found: TensorFacts) -> DataError:
    if fault == "tensor":
        return CorruptRecord(
            where,
            expected="values, keys and shape of a tensor that go together",
            found=f"{found.values} values, {found.keys} keys and {f'the shape {found.shape}' if found.shape else 'no shape'}",
        )
    hint = HINT
    if fault == "wrong_count":
        hint = VARIES_HINT
    elif fault == "wrong_shape" and wanted.sparse and found.keys:
        hint = WIDTH_HINT
    return SchemaMismatch(where, expected=_describe_feature(wanted), found=str(found), hint=hint)


def _describe_feature(feature: Feature) -> str:
    if feature.sparse:
        width = feature.shape[0]
        return f"a sparse {feature.dtype} tensor of " + ("any width" if width is None else f"shape ({width},)")
    if feature.shape == ():
        return f"one {feature.dtype} value"
    return f"a dense {feature.dtype} tensor of shape {feature.shape}"


def _tensor(spans: _native.Spans, record: int, place: Place) -> TensorFacts:
    """The tensor as stored in the record."""
    features, label, *_ = _native.parse_record(spans.view(record))
    kind, values, keys, shape = {FEATURE: features, LABEL: label}[place.field][place.key]
    has_keys = keys is not None and kind != BYTES
    return TensorFacts(kind, len(values), len(keys) if has_keys else 0, () if shape is None else tuple(shape.tolist()))
