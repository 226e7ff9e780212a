"""Values for people (short) and for programs (JSON)."""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np

from headrace.contracts.values import Ragged

__all__ = ["amount", "plain", "printable", "short", "size_of"]

SHOWN_VALUES = 6
SHOWN_TEXT = 48
UNITS = ("bytes", "kB", "MB", "GB", "TB")


def printable(text: str) -> str:
    """Text from a file, with whatever could move a terminal's cursor escaped."""
    return text if text.isprintable() else repr(text)[1:-1]


def amount(count: int, one: str, many: str | None = None) -> str:
    """``1 file``, ``1,797 examples``."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def size_of(size: int) -> str:
    """``12 bytes``, ``1.3 MB``: three digits, units of 1,000."""
    value, unit = float(size), 0
    while value >= 999.5 and unit < len(UNITS) - 1:
        value, unit = value / 1000, unit + 1
    if unit == 0:
        return amount(size, "byte")
    return f"{value:.{max(0, 2 - int(math.log10(value)))}f} {UNITS[unit]}"


def short(value: Any, values: int = SHOWN_VALUES) -> str:
    """A value in one short line.

    >>> short(np.zeros((28, 28), np.uint8)), short(b"abc"), short(np.float32(0.1))
    ('[0 0 0 0 0 0 … 0] 28×28', "b'abc'", '0.1')
    """
    if isinstance(value, (bytes, str)):
        return _short_text(value)
    if isinstance(value, Ragged):
        rows = [short(row, 4) for row in value[:3]]
        return "[" + " ".join([*rows, *(["…"] if len(value) > 3 else [])]) + f"] {amount(len(value), 'row')}"
    if hasattr(value, "tocsr"):
        return f"sparse row, {value.nnz} of {value.shape[-1]} values"
    array = np.asarray(value)
    if array.ndim == 0:
        return _scalar(array[()])
    return _short_array(array, values)


def _short_text(value: bytes | str) -> str:
    if len(value) <= SHOWN_TEXT:
        return repr(value)
    kind = "bytes" if isinstance(value, bytes) else "characters"
    cut = repr(value[: SHOWN_TEXT // 2])
    return f"{cut[:-1]}…{cut[-1]} {len(value):,} {kind}"


def _short_array(array: np.ndarray[Any, Any], values: int) -> str:
    flat = array.reshape(-1)
    if len(flat) <= values + 1:
        shown = " ".join(map(_scalar, flat))
    else:
        shown = " ".join(map(_scalar, flat[:values])) + f" … {_scalar(flat[-1])}"
    lengths = "×".join(map(str, array.shape))
    return f"[{shown}] {lengths}" if array.ndim > 1 or len(flat) > values + 1 else f"[{shown}]"


def _scalar(value: Any) -> str:
    if isinstance(value, (bytes, str)):
        return _short_text(value)
    if isinstance(value, np.floating):
        return f"{float(value):.6g}"
    return str(value)


def plain(value: Any) -> Any:
    """A value as JSON knows it, whole.

    Bytes are ``{"b64": "..."}``; numbers that JSON has no words for are ``"nan"``, ``"inf"``, ``"-inf"``; complex numbers
    are ``[real, imaginary]``; dates and durations are text.
    """
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, Ragged):
        return [plain(row) for row in value]
    if hasattr(value, "tocsr"):
        return [plain(row) for row in value.toarray()]
    if isinstance(value, np.ndarray):
        return _plain_array(value)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return _plain_scalar(value)


def _plain_array(array: np.ndarray[Any, Any]) -> Any:
    if array.dtype.kind in "iub" or (
        array.dtype.kind == "f" and array.dtype.itemsize <= 8 and np.isfinite(array).all()
    ):
        return array.tolist()  # the fast way, for what JSON has
    return [plain(item) for item in array] if array.ndim else _plain_scalar(array[()])


def _plain_scalar(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"b64": base64.b64encode(value).decode("ascii")}
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return str(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, complex):
        return [_plain_scalar(value.real), _plain_scalar(value.imag)]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, bytes):
        return _plain_scalar(value)
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(value)
