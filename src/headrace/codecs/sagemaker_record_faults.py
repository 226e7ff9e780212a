"""What is wrong with a SageMaker Record, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace import _native
from headrace._faults import describe
from headrace.codecs.sagemaker_record_columns import BYTES
from headrace.codecs.sagemaker_record_places import FEATURE, LABEL, Place
from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema
from headrace.errors import CorruptRecord, DataError, SchemaMismatch, Where

__all__ = ["explain"]

KINDS = ("no", "float32", "float64", "int32", "bytes")
HINT = "Pass a schema= that says what the records hold."
VARIES_HINT = "Where the number varies, the schema's shape needs None: Feature(dtype, (None,))."
WIDTH_HINT = "Where widths differ, the schema's shape needs None: Feature(dtype, (None,), sparse=True)."
MISSING_HINT = "Give the feature a default=, or the shape (None,) if it may be absent."


@dataclass(frozen=True, slots=True)
class Tensor:
    """What one tensor of a record holds.

    Args:
        kind: 1 float32, 2 float64, 3 int32, 4 bytes.
        values: How many values.
        keys: How many keys.
        shape: As written; empty where none is.
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


def explain(error: _native.FormatError, spans: _native.Spans, schema: Schema, places: Mapping[str, Place]) -> DataError:
    """The error for a fault in record ``error.record`` of ``spans``."""
    names = list(schema)
    if not 0 <= error.feature < len(names):
        return _in_payload(error)
    name = names[error.feature]
    where = Where(record=error.record, feature=name)
    if error.fault == "missing":
        return SchemaMismatch(where, expected=_wanted(schema[name]), found="none in this record", hint=MISSING_HINT)
    if error.fault in ("wire", "truncated"):
        return describe(error, where)
    if error.fault == "range":
        return CorruptRecord(where, expected=f"keys below the width {error.expected}", found=f"the key {error.found}")
    try:
        found = _tensor(spans, error.record, places[name])
    except _native.FormatError as damage:  # What does not fit the schema is no tensor at all: numbers that have no end.
        return describe(damage, where)
    return _mismatch(error.fault, where, schema[name], found)


def _in_payload(error: _native.FormatError) -> DataError:
    known = error.fault in ("wire", "truncated") and error.offset > 0
    fault = describe(error, Where(record=error.record, offset=error.offset if known else None))
    if known:
        return fault
    place = Where(record=error.record)
    return type(fault)(place, expected=fault.expected, found=fault.found, hint=fault.hint)


def _mismatch(fault: str, where: Where, wanted: Feature, found: Tensor) -> DataError:
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
    return SchemaMismatch(where, expected=_wanted(wanted), found=str(found), hint=hint)


def _wanted(feature: Feature) -> str:
    if feature.sparse:
        width = feature.shape[0]
        return f"a sparse {feature.dtype} tensor of " + ("any width" if width is None else f"shape ({width},)")
    if feature.shape == ():
        return f"one {feature.dtype} value"
    return f"a dense {feature.dtype} tensor of shape {feature.shape}"


def _tensor(spans: _native.Spans, record: int, place: Place) -> Tensor:
    """The tensor as the record has it."""
    features, label, *_ = _native.parse_record(spans.view(record))
    kind, values, keys, shape = {FEATURE: features, LABEL: label}[place.field][place.key]
    has_keys = keys is not None and kind != BYTES
    return Tensor(kind, len(values), len(keys) if has_keys else 0, () if shape is None else tuple(shape.tolist()))
