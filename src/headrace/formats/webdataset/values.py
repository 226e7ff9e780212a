"""Members of a WebDataset archive as values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from headrace.contracts.feature import Feature
from headrace.contracts.values import Ragged
from headrace.errors import CorruptRecord, DataError, SchemaMismatch, Where
from headrace.formats.npy.header import NpyHeader, check_text, read_header
from headrace.formats.table.values import BadValue, column_of

__all__ = ["IMAGES", "KEY", "column_from", "feature_of", "named"]


KEY = "__key__"
IMAGES = {"jpg": "jpeg", "jpeg": "jpeg", "png": "png", "gif": "gif", "bmp": "bmp", "webp": "webp"}
TEXTS = ("txt", "text", "json")
NUMBERS = ("cls", "cls2", "index")
KINDS = (*IMAGES, *TEXTS, *NUMBERS, "npy", "bin")
Place = Callable[[int], Where]


@dataclass(frozen=True, slots=True)
class _Member:
    """A member as the header of an array is read from."""

    path: str
    buffer: memoryview

    @property
    def size(self) -> int:
        return len(self.buffer)


def named(endings: Sequence[str]) -> dict[str, str]:
    """Feature names for what stands behind the first dot: without the kind, where something else is left and unique."""
    short = [_short(ending) for ending in endings]
    return {name if short.count(name) == 1 else ending: ending for name, ending in zip(short, endings, strict=True)}


def _short(ending: str) -> str:
    name, _, kind = ending.rpartition(".")
    return name if name and kind.lower() in KINDS else ending


def _kind(ending: str) -> str:
    return ending.rpartition(".")[2].lower()


def feature_of(ending: str, members: Sequence[bytes], place: Place) -> Feature:
    """The feature of some members of one ending."""
    kind = _kind(ending)
    if kind in TEXTS:
        return Feature("str")
    if kind in NUMBERS:
        return Feature("int64")
    if kind != "npy":
        return Feature("bytes", encoding=IMAGES.get(kind))  # type: ignore[arg-type]
    headers = [_header(member, place(row)) for row, member in enumerate(members)]
    if not headers:
        return Feature("float32", (None,))
    first = headers[0]
    if first.dtype.names is not None:
        raise SchemaMismatch(
            place(0),
            expected="plain arrays",
            found=f"the structured {first.dtype}",
            hint="Save each field as a member of its own.",
        )
    for row, header in enumerate(headers):
        if header.dtype != first.dtype or len(header.shape) != len(first.shape):
            raise _other(header, Feature(first.dtype, first.shape), place(row))
    axes = zip(*(header.shape for header in headers), strict=True)
    return Feature(first.dtype, tuple(axis[0] if len(set(axis)) == 1 else None for axis in axes))


def _header(member: bytes, where: Where) -> NpyHeader:
    file: Any = _Member(where.path or "", memoryview(member))
    try:
        return read_header(file)
    except DataError as error:
        raise CorruptRecord(where, expected=error.expected, found=error.found, hint=error.hint) from error


def _other(header: NpyHeader, feature: Feature, where: Where) -> SchemaMismatch:
    found = f"an array of {header.dtype} with shape {header.shape}"
    hint = "Say what all of them are: schema={...}."
    return SchemaMismatch(where, expected=f"{feature.dtype} with shape {feature.shape}", found=found, hint=hint)


def column_from(members: Sequence[bytes | None], ending: str, feature: Feature, place: Place) -> Any:
    """The batch column of some members.

    Raises:
        CorruptRecord, SchemaMismatch: One is damaged, missing without a default, or something else.
    """
    values = [
        None if member is None else _value(member, ending, feature, place, row) for row, member in enumerate(members)
    ]
    if _kind(ending) == "npy" and all(value is not None for value in values):
        return _arrays(values, feature)
    try:
        return column_of(values, feature)
    except BadValue as bad:
        raise SchemaMismatch(place(bad.row), expected=bad.expected, found=bad.found, hint=bad.hint) from bad


def _value(member: bytes, ending: str, feature: Feature, place: Place, row: int) -> Any:
    kind = _kind(ending)
    if kind == "npy":
        return _array(member, feature, place(row))
    if feature.dtype == "bytes":
        return member
    try:
        text = member.decode()
        return int(text) if kind in NUMBERS and not feature.is_text else text
    except ValueError as error:
        expected = "a whole number" if kind in NUMBERS else "UTF-8 text"
        raise CorruptRecord(place(row), expected=expected, found=repr(member[:40])) from error


def _array(member: bytes, feature: Feature, where: Where) -> npt.NDArray[Any]:
    header = _header(member, where)
    wanted = feature.numpy_dtype
    fits = len(header.shape) == len(feature.shape) and all(
        axis in (None, length) for axis, length in zip(feature.shape, header.shape, strict=True)
    )
    if not fits or not np.can_cast(header.dtype, wanted, "same_kind"):
        raise _other(header, feature, where)
    order: Literal["F", "C"] = "F" if header.is_fortran else "C"
    array: npt.NDArray[Any] = np.ndarray(
        header.shape, header.dtype, memoryview(member)[header.data_offset :], order=order
    )
    check_text(np.atleast_1d(array), lambda _: where)
    return array.astype(wanted, copy=False)


def _arrays(values: list[Any], feature: Feature) -> Any:
    """Stacked, ragged along the first axis, or a list where other axes vary."""
    if feature.is_fixed:
        return np.stack(values)
    if None in feature.shape[1:]:
        return [np.array(value) for value in values]
    return Ragged.from_list(values) if values else column_of([], feature)
