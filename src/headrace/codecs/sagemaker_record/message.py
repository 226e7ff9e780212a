"""A SageMaker Record as plain values, for code that handles records one by one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace import _native
from headrace._faults import describe
from headrace.codecs.sagemaker_record.columns import BYTES, NOTHING
from headrace.errors import Where

__all__ = ["Message", "Tensor", "check_record", "is_record", "read_message"]


@dataclass(slots=True, eq=False)
class Tensor:
    """One value of a Record.

    Args:
        kind: 0 nothing, 1 float32, 2 float64, 3 int32, 4 bytes.
        values: Numbers (an array of the kind's dtype where they were read), or ``bytes``.
        keys: Of a sparse tensor: one for each value (``uint64``).
        shape: Axis lengths (``uint64``); empty where none are written.
        content_type: Of bytes.
    """

    kind: int = NOTHING
    values: Any = ()
    keys: Any = ()
    shape: Any = ()
    content_type: str | None = None


@dataclass(slots=True, eq=False)
class Message:
    """A whole Record; strings are ``None`` where it has none."""

    features: dict[str, Tensor] = field(default_factory=dict)
    label: dict[str, Tensor] = field(default_factory=dict)
    uid: str | None = None
    metadata: str | None = None
    configuration: str | None = None


def is_record(payload: Any) -> bool:
    """Whether a payload is a Record to its last byte."""
    return _native.is_record(payload)


def check_record(payload: bytes, where: Where) -> bytes:
    """Return the payload if it is a Record.

    Raises:
        CorruptRecord: It is not.
    """
    if not is_record(payload):
        read_message(payload, where)
    return payload


def read_message(payload: Any, where: Where | None = None) -> Message:
    """The Record in a payload.

    Raises:
        CorruptRecord: It is none.
    """
    try:
        features, label, *strings = _native.parse_record(payload)
    except _native.FormatError as error:
        raise describe(error, where or Where()) from error
    texts = [None if text is None else _text(text) for text in strings]
    return Message(_tensors(features), _tensors(label), *texts)


def _tensors(entries: Mapping[bytes, Any]) -> dict[str, Tensor]:
    return {_text(key): _tensor(*entry) for key, entry in entries.items()}


def _tensor(kind: int, values: Any, keys: Any, shape: Any) -> Tensor:
    if kind == NOTHING:
        return Tensor()
    if kind == BYTES:
        return Tensor(kind, values, content_type=None if keys is None else _text(keys))
    return Tensor(kind, values, () if keys is None else keys, () if shape is None else shape)


def _text(utf8: bytes) -> str:
    return utf8.decode(errors="surrogateescape")
