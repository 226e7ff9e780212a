"""One SageMaker Record as plain values, and back: for code that handles records one by one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headrace import _native
from headrace._faults import describe
from headrace.codecs.sagemaker_record.columns import BYTES, FEATURE, INT32, LABEL, NOTHING, WIRE
from headrace.errors import Where

__all__ = ["Message", "Tensor", "is_record", "read_message", "write_message", "write_tensor"]


TENSOR_FIELDS = {1: 2, 2: 3, 3: 7, 4: 9}  # where a Value holds each kind


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


def write_message(message: Message) -> bytes:
    """The payload of a Record: fields by number, map entries by key, numbers packed."""
    parts = [_entry(FEATURE, key, tensor) for key, tensor in sorted(message.features.items())]
    parts += [_entry(LABEL, key, tensor) for key, tensor in sorted(message.label.items())]
    texts = (message.uid, message.metadata, message.configuration)
    parts += [_field(number, _utf8(text)) for number, text in enumerate(texts, start=3) if text is not None]
    return b"".join(parts)


def _entry(place: int, key: str, tensor: Tensor) -> bytes:
    return _field(place, _field(1, _utf8(key)) + _field(2, write_tensor(tensor)))


def write_tensor(tensor: Tensor) -> bytes:
    """One value, encoded."""
    return b"" if tensor.kind == NOTHING else _field(TENSOR_FIELDS[tensor.kind], _content(tensor))


def _content(tensor: Tensor) -> bytes:
    if tensor.kind == BYTES:
        texts = b"".join(_field(1, value) for value in tensor.values)
        return texts if tensor.content_type is None else texts + _field(2, _utf8(tensor.content_type))
    if tensor.kind == INT32:
        values = b"".join(map(_varint, _plain(tensor.values)))
    else:
        values = np.array(tensor.values, WIRE[tensor.kind].newbyteorder("<")).tobytes()
    packed = (values, b"".join(map(_varint, _plain(tensor.keys))), b"".join(map(_varint, _plain(tensor.shape))))
    return b"".join(_field(number, content) for number, content in enumerate(packed, start=1) if content)


def _plain(numbers: Any) -> list[int]:
    return numbers.tolist() if isinstance(numbers, np.ndarray) else list(numbers)


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    """Negative numbers as 64 bits, as protobuf's int32 does."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _utf8(text: str) -> bytes:
    return text.encode(errors="surrogateescape")
