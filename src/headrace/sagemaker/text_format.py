"""Records as text, as protobuf prints them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from headrace.codecs.sagemaker_record_message import Message, Tensor

__all__ = ["record_lines", "value_lines"]

NAMES = {1: "float32_tensor", 2: "float64_tensor", 3: "int32_tensor", 4: "bytes"}
DIGITS = {1: (np.float32, 6, 9), 2: (np.float64, 15, 17)}
ESCAPES = {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t", ord('"'): '\\"', ord("'"): "\\'", ord("\\"): "\\\\"}
INDENT = "  "


def record_lines(message: Message) -> Iterator[str]:
    """The lines of a whole Record."""
    for field, tensors in (("features", message.features), ("label", message.label)):
        for key, tensor in tensors.items():
            yield f"{field} {{"
            yield f'{INDENT}key: "{_escaped(key.encode(errors="surrogateescape"))}"'
            yield f"{INDENT}value {{"
            yield from value_lines(tensor, INDENT * 2)
            yield f"{INDENT}}}"
            yield "}"
    for field in ("uid", "metadata", "configuration"):
        text = getattr(message, field)
        if text is not None:
            yield f'{field}: "{_escaped(text.encode(errors="surrogateescape"))}"'


def value_lines(tensor: Tensor, indent: str) -> Iterator[str]:
    """The lines of one feature or label."""
    if not tensor.kind:
        return
    yield f"{indent}{NAMES[tensor.kind]} {{"
    yield from (f"{indent}{INDENT}{line}" for line in _fields(tensor))
    yield f"{indent}}}"


def _fields(tensor: Tensor) -> Iterator[str]:
    if tensor.kind == 4:
        yield from (f'value: "{_escaped(value)}"' for value in tensor.values)
        if tensor.content_type is not None:
            yield f'content_type: "{_escaped(tensor.content_type.encode())}"'
        return
    yield from (f"values: {_number(value, tensor.kind)}" for value in tensor.values)
    yield from (f"keys: {key}" for key in tensor.keys)
    yield from (f"shape: {length}" for length in tensor.shape)


def _number(value: Any, kind: int) -> str:
    """The fewer of two numbers of digits, where that says which number it is."""
    if kind not in DIGITS:
        return str(value)
    dtype, few, many = DIGITS[kind]
    short = f"{value:.{few}g}"
    return short if np.isnan(value) or dtype(float(short)) == dtype(value) else f"{value:.{many}g}"


def _escaped(text: bytes) -> str:
    return "".join(ESCAPES.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in text)
