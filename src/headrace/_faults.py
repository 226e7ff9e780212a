"""Convert numeric faults of native code to errors with messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from headrace.errors import CorruptFile, CorruptRecord, DataError, SchemaMismatch, Where

__all__ = ["NativeFault", "describe", "describe_payload", "without_skip_hint"]

LIST_HINT = "`headrace verify` lists every fault"
RAW_HINT = f"If the records are not messages, read them with codec='raw'. {LIST_HINT}."
SKIP_HINT = "; on_corrupt='skip' leaves damaged records out"
VERIFY_HINT = LIST_HINT + SKIP_HINT + "."
KINDS = {0: "no values", 1: "bytes", 2: "float32", 3: "int64"}


class NativeFault(Protocol):
    """The attributes of ``_native.FormatError``: see ``Fault`` in ``native/core/base/cursor.hpp``."""

    fault: str
    offset: int
    """The byte, from the beginning of the buffer."""
    expected: int
    """Its meaning depends on ``fault``."""
    found: int
    """The same."""
    record: int
    """The number of the record in the call; -1: not known."""
    feature: int
    """The number of the feature in the decoder; -1: not known."""


def describe(error: NativeFault, where: Where, features: Sequence[str] = ()) -> DataError:
    """Convert a native error to an error of Headrace.

    Args:
        error: The native error.
        where: The location, as far as the caller knows it. The error supplies a missing ``record`` and ``offset``.
        features: Names of the features, in the numbering of native code.
    """
    if where.record is None and error.record >= 0:
        where = where.at(record=error.record)
    if where.offset is None:
        where = where.at(offset=error.offset)
    if 0 <= error.feature < len(features):
        where = where.at(feature=features[error.feature])
    make = _DESCRIPTIONS.get(error.fault, _describe_unknown)
    return make(error, where)


def describe_payload(error: NativeFault, where: Where, features: Sequence[str] = ()) -> DataError:
    """Like :func:`describe`, for a fault inside a payload, which is complete and which ``on_corrupt="skip"`` does not leave out."""
    fault = describe(error, where, features)
    if error.fault != "truncated":
        return fault
    hint = f"The record is truncated, or a length in it is wrong. {RAW_HINT}"
    return CorruptRecord(fault.where, expected=fault.expected, found=fault.found, hint=hint)


def without_skip_hint(error: DataError) -> DataError:
    """The error for a caller that has no ``on_corrupt``, such as a job."""
    hint = error.hint.replace(SKIP_HINT, "")
    return type(error)(error.where, expected=error.expected, found=error.found, hint=hint)


def _describe_unknown(error: NativeFault, where: Where) -> DataError:
    return CorruptRecord(where, expected="intact data", found=f"fault {error.fault!r}", hint=VERIFY_HINT)


def _describe_truncation(error: NativeFault, where: Where) -> DataError:
    return CorruptRecord(
        where,
        # Of a chunk, native code does not count the block headers in it.
        expected=f"{error.expected} more bytes" if error.expected > error.found else f"more than {error.found} bytes",
        found=f"{error.found} before the end",
        hint="The file is truncated, or a length in it is wrong. " + VERIFY_HINT,
    )


def _describe_checksum(part: str) -> Callable[[NativeFault, Where], DataError]:
    def make(error: NativeFault, where: Where) -> DataError:
        return CorruptRecord(
            where,
            expected=f"{part} checksum {error.expected:#010x}",
            found=f"{error.found:#010x}",
            hint=VERIFY_HINT,
        )

    return make


def _describe_wire(_error: NativeFault, where: Where) -> DataError:
    return CorruptRecord(
        where,
        expected="a valid protobuf message",
        found="other bytes",
        hint=RAW_HINT,  # skipping looks at records, not into them
    )


def _describe_wrong_kind(error: NativeFault, where: Where) -> DataError:
    return SchemaMismatch(
        where,
        expected=f"{KINDS.get(error.expected, '?')} values",
        found=KINDS.get(error.found, "?"),
        hint="Pass a schema= that describes the files.",
    )


def _describe_wrong_count(error: NativeFault, where: Where) -> DataError:
    return SchemaMismatch(
        where,
        expected=f"{error.expected} values",
        found=str(error.found),
        hint="If the number varies, use None in the schema's shape: Feature(dtype, (None,)).",
    )


def _describe_missing(_error: NativeFault, where: Where) -> DataError:
    return SchemaMismatch(
        where,
        expected="a value",
        found="none in this record",
        hint="Give the feature a default=, or the shape (None,) if it may be absent.",
    )


def _describe_header(_error: NativeFault, where: Where) -> DataError:
    return CorruptFile(where, expected="a valid file header", found="other bytes")


def _describe_magic(_error: NativeFault, where: Where) -> DataError:
    return CorruptFile(where, expected="the format's magic bytes", found="other bytes")


def _describe_range(error: NativeFault, where: Where) -> DataError:
    return CorruptRecord(where, expected=f"a number up to {error.expected}", found=str(error.found))


def _describe_structure(error: NativeFault, where: Where) -> DataError:
    if error.expected:
        expected, found = f"a chunk of {error.expected} records, as the footer says", f"one of {error.found}"
    else:
        expected, found = "a chunk whose parts fit together", "parts that contradict each other"
    return CorruptRecord(where, expected=expected, found=found, hint=VERIFY_HINT)


def _describe_part(error: NativeFault, where: Where) -> DataError:
    opening = "a whole record or a first part" if error.expected == 0 else "a middle or a last part"
    return CorruptRecord(where, expected=opening, found=f"a part with the flag {error.found}", hint=VERIFY_HINT)


def _describe_tensor(_error: NativeFault, where: Where) -> DataError:
    return CorruptRecord(
        where,
        expected="values, keys and a shape that fit together",
        found="a tensor that contradicts itself",
        hint=VERIFY_HINT,
    )


def _describe_change(error: NativeFault, where: Where) -> DataError:
    return CorruptRecord(
        where if error.offset else replace(where, offset=None),
        expected="data that does not change during the read",
        found="data that changed",
        hint="Another program or thread writes to it: try again when it has finished.",
    )


def _describe_wrong_shape(_error: NativeFault, where: Where) -> DataError:
    return SchemaMismatch(
        where,
        expected="a tensor with the schema's shape, sparse or dense as there",
        found="another shape or layout",
        hint="Pass a schema= that describes the files.",
    )


def _describe_flat(error: NativeFault, where: Where) -> DataError:
    return SchemaMismatch(
        where,
        expected="a feature list, as the schema says",
        found=f"a feature with {KINDS.get(error.found, '?')} values",
        hint="Pass a schema= without steps, and with at most one None in the shape: Feature(dtype, (None,)).",
    )


def _describe_steps(_error: NativeFault, where: Where) -> DataError:
    return SchemaMismatch(
        where,
        expected="a feature, as the schema says",
        found="a feature list of that name",
        hint="Pass a schema= with steps=True, or infer it from all records: headrace.Schema.infer(path, most=None).",
    )


_DESCRIPTIONS: dict[str, Callable[[NativeFault, Where], DataError]] = {
    "truncated": _describe_truncation,
    "length_checksum": _describe_checksum("length"),
    "payload_checksum": _describe_checksum("payload"),
    "wire": _describe_wire,
    "wrong_kind": _describe_wrong_kind,
    "wrong_count": _describe_wrong_count,
    "missing": _describe_missing,
    "header": _describe_header,
    "magic": _describe_magic,
    "range": _describe_range,
    "header_checksum": _describe_checksum("header"),
    "structure": _describe_structure,
    "part": _describe_part,
    "tensor": _describe_tensor,
    "changed": _describe_change,
    "wrong_shape": _describe_wrong_shape,
    "flat": _describe_flat,
    "steps": _describe_steps,
}
