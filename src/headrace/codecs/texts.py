"""Bytes and UTF-8 text, between columns and the values of messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.contracts.feature import Feature
from headrace.errors import SchemaMismatch, Where

__all__ = ["bytes_of", "texts_of"]

RecordOf = Callable[[int], int | None]
"""The record that the value at a position belongs to; ``None`` where that is not known."""


def texts_of(values: Sequence[bytes], feature: Feature, name: str, record_of: RecordOf) -> npt.NDArray[Any]:
    """Values as they are read: ``bytes``, or ``str`` where the feature is text; an object array.

    Raises:
        SchemaMismatch: Text that is not UTF-8.
    """
    column = np.empty(len(values), object)
    column[:] = values if feature.dtype == "bytes" else _decoded(values, name, record_of)
    return column


def bytes_of(values: Iterable[Any], feature: Feature, name: str, record_of: RecordOf) -> list[bytes]:
    """Values as they are stored.

    Raises:
        SchemaMismatch: One is neither text nor bytes, or does not fit the feature: bytes that are not UTF-8 are no text.
    """
    stored = []
    for position, value in enumerate(values):
        content = _stored(value, feature)
        if content is None:
            raise SchemaMismatch(
                Where(record=record_of(position), feature=name),
                expected="UTF-8 text" if feature.dtype == "str" else "bytes",
                found=f"{type(value).__name__} {value!r:.40}",
            )
        stored.append(content)
    return stored


def _decoded(values: Sequence[bytes], name: str, record_of: RecordOf) -> list[str]:
    try:
        return [value.decode() for value in values]
    except UnicodeDecodeError as error:
        position = next(i for i, value in enumerate(values) if not _is_utf8(value))
        raise SchemaMismatch(
            Where(record=record_of(position), feature=name),
            expected="UTF-8 text",
            found=f"the bytes {values[position][:16]!r}",
            hint=f"Open with a schema in which {name!r} is Feature('bytes').",
        ) from error


def _stored(value: Any, feature: Feature) -> bytes | None:
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError:  # half of a surrogate pair is no text either
            return None
    if isinstance(value, bytearray):
        value = bytes(value)
    if isinstance(value, bytes) and (feature.dtype == "bytes" or _is_utf8(value)):
        return value
    return None


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
