"""Repeated fields of a message, and Records as text, as protobuf prints them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, MutableSequence, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from headrace.codecs.sagemaker_record.message import Message, Tensor

__all__ = [
    "Check",
    "Repeated",
    "as_bytes",
    "as_float32",
    "as_float64",
    "as_int32",
    "as_uint64",
    "record_lines",
    "value_lines",
]


Check = Callable[[Iterable[Any]], list[Any]]


class Owner(Protocol):
    """What a repeated field is in."""

    def touched(self) -> None: ...


class Repeated(MutableSequence[Any]):
    """The values of a repeated field. What was read stays an array until something is put in.

    Args:
        items: The first ones, known to be right.
        check: What turns values from outside into what the field holds, or refuses them.
        owner: Told before a value is put in.
    """

    __slots__ = ("_check", "_items", "_owner")

    def __init__(self, items: npt.NDArray[Any] | Sequence[Any], check: Check, owner: Owner) -> None:
        self._items = items
        self._check = check
        self._owner = owner

    def _list(self) -> list[Any]:
        """The values as a list that may be changed."""
        items = self._items
        if not isinstance(items, list):
            items = self._items = items.tolist() if isinstance(items, np.ndarray) else list(items)
        return items

    def extend(self, values: Iterable[Any], /) -> None:
        """Put values at the end.

        Raises:
            TypeError, ValueError: One of them is not what the field holds; none is put in then.
        """
        checked = self._check(values)
        self._owner.touched()
        self._list().extend(checked)

    MergeFrom = extend

    def append(self, value: Any, /) -> None:
        """Put one value at the end."""
        self.extend((value,))

    def insert(self, index: int, value: Any, /) -> None:
        """Put one value before ``index``."""
        checked = self._check((value,))
        self._owner.touched()
        self._list().insert(index, checked[0])

    def sort(self, **how: Any) -> None:
        """Put the values in order, as ``list.sort`` does."""
        self._list().sort(**how)

    def __getitem__(self, index: Any) -> Any:
        found = self._items[index]
        return found.tolist() if isinstance(found, np.ndarray | np.generic) else found

    def __setitem__(self, index: Any, value: Any) -> None:
        checked = self._check(value if isinstance(index, slice) else (value,))
        self._list()[index] = checked if isinstance(index, slice) else checked[0]

    def __delitem__(self, index: Any) -> None:
        del self._list()[index]

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items.tolist() if isinstance(self._items, np.ndarray) else self._items)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """As ``numpy.array`` makes it of the Python numbers: ``float64`` or ``int64``."""
        items = self._items
        if dtype is None and isinstance(items, np.ndarray) and len(items):
            dtype = np.float64 if items.dtype.kind == "f" else np.asarray(items[:1].tolist()).dtype
        return np.array(items, dtype) if copy is not False else np.asarray(items, dtype)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Repeated | list | tuple):
            return list(self) == list(other)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))


def as_float64(values: Iterable[Any]) -> list[float]:
    """Floats. Text is refused."""
    given = values if isinstance(values, np.ndarray) else list(values)
    if not isinstance(given, np.ndarray):
        _refuse_text(given)
    return np.asarray(given, np.float64).reshape(-1).tolist()


def as_float32(values: Iterable[Any]) -> list[float]:
    """Floats, rounded to what four bytes hold."""
    with np.errstate(over="ignore"):
        return np.asarray(as_float64(values)).astype(np.float32).tolist()  # type: ignore[no-any-return]


def as_int32(values: Iterable[Any]) -> list[int]:
    """Whole numbers of four bytes with a sign."""
    return _whole(values, -(1 << 31), (1 << 31) - 1)


def as_uint64(values: Iterable[Any]) -> list[int]:
    """Whole numbers of eight bytes without a sign."""
    return _whole(values, 0, (1 << 64) - 1)


def as_bytes(values: Iterable[Any]) -> list[bytes]:
    """Bytes, or text as UTF-8."""
    return [value.encode() if isinstance(value, str) else bytes(memoryview(value)) for value in values]


def _whole(values: Iterable[Any], low: int, high: int) -> list[int]:
    numbers = [operator.index(value) for value in values]
    for number in numbers:
        if not low <= number <= high:
            raise ValueError(f"Value out of range: {number}")
    return numbers


def _refuse_text(values: list[Any]) -> None:
    for value in values:
        if isinstance(value, (str, bytes)):
            raise TypeError(f"must be real number, not {type(value).__name__}")


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
