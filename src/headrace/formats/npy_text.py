"""Text in arrays: NumPy stores four bytes for each character, and not every four bytes are one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.errors import CorruptRecord, Where

__all__ = ["check_text", "holds_text"]

LAST_CHARACTER = 0x10FFFF
"""Of Unicode. NumPy takes more without a word, and Python then ends in a SystemError when the value is made a ``str``."""


def holds_text(dtype: np.dtype[Any]) -> bool:
    """Whether values of this dtype are text, or records with text in them."""
    if dtype.names is not None:
        return any(holds_text(dtype[name]) for name in dtype.names)
    return dtype.base.kind == "U" or (dtype.base.names is not None and holds_text(dtype.base))


def check_text(rows: npt.NDArray[Any], place: Callable[[int], Where]) -> None:
    """Look at every character of some rows.

    Args:
        rows: ``(n, ...)`` of any dtype; what is no text is passed.
        place: Where a row stands.

    Raises:
        CorruptRecord: One is beyond Unicode.
    """
    if not rows.size or not holds_text(rows.dtype):
        return
    for texts in _texts(rows):
        codes = np.ascontiguousarray(texts).view(np.dtype("u4").newbyteorder(texts.dtype.byteorder))
        bad = codes.reshape(len(rows), -1) > LAST_CHARACTER
        if bad.any():
            row = int(np.flatnonzero(bad.any(axis=1))[0])
            found = int(codes.reshape(len(rows), -1)[row][bad[row]][0])
            raise CorruptRecord(place(row), expected="text, whose characters end at 0x10ffff", found=f"{found:#x}")


def _texts(rows: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
    """The array itself, or those of its fields, however deep, that are text."""
    for name in rows.dtype.names or ():
        yield from _texts(rows[name])
    if rows.dtype.kind == "U" and rows.dtype.itemsize:
        yield rows
