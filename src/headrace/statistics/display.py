"""Values as one short line of text, and as JSON."""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np

from headrace.contracts.values import Ragged

__all__ = ["shorten", "to_json"]

SHOWN_VALUES = 6
SHOWN_TEXT = 48


def shorten(value: Any, values: int = SHOWN_VALUES) -> str:
    """Format a value in one short line.

    >>> shorten(np.zeros((28, 28), np.uint8)), shorten(b"abc"), shorten(np.float32(0.1))
    ('[0 0 0 0 0 0 … 0] 28×28', "b'abc'", '0.1')
    """
    if isinstance(value, (bytes, str)):
        return _short_text(value)
    if isinstance(value, Ragged):
        rows = [shorten(row, 4) for row in value[:3]]
        return (
            "["
            + " ".join([*rows, *(["…"] if len(value) > 3 else [])])
            + f"] {len(value):,} row{'' if len(value) == 1 else 's'}"
        )
    if hasattr(value, "tocsr"):
        return f"sparse row, {value.nnz} of {value.shape[-1]} values"
    array = np.asarray(value)
    if array.ndim == 0:
        return _scalar(array[()])
    return _short_array(array, values)


def _short_text(value: bytes | str) -> str:
    value = bytes(value) if isinstance(value, bytes) else str(value)  # NumPy's are shown as np.str_('a').
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


def to_json(value: Any) -> Any:
    """Convert a value to JSON without loss.

    Bytes become ``{"b64": "..."}``, numbers that JSON lacks ``"nan"``, ``"inf"`` and ``"-inf"``, complex numbers
    ``[real, imaginary]``, dates and durations text.
    """
    if isinstance(value, dict):
        return {str(name): to_json(item) for name, item in value.items()}
    if isinstance(value, Ragged):
        return [to_json(row) for row in value]
    if hasattr(value, "tocsr"):
        return [to_json(row) for row in value.toarray()]
    if isinstance(value, np.ndarray):
        return _plain_array(value)
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    return _plain_scalar(value)


def _plain_array(array: np.ndarray[Any, Any]) -> Any:
    if array.dtype.kind in "iub" or (
        array.dtype.kind == "f" and array.dtype.itemsize <= 8 and np.isfinite(array).all()
    ):
        return array.tolist()  # the fast path, for types that JSON has
    return [to_json(item) for item in array] if array.ndim else _plain_scalar(array[()])


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
