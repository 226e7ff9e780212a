"""Every check of ``.npy`` files: their headers, their sizes, that text is text, and that they fit together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from headrace.contracts.records import Checked
from headrace.errors import DataError, SchemaMismatch, Where
from headrace.formats.npy_header import NpyHeader, header_of
from headrace.formats.npy_text import holds_text
from headrace.io.reading import open_file

__all__ = ["check_alike", "check_texts", "verify_npy"]

BLOCK_BYTES = 1 << 20


def verify_npy(records: Any) -> Iterator[Checked]:
    """Rows carry no checksums, so this is quick, but where they hold text."""
    first: tuple[str, NpyHeader] | None = None
    for path in records.paths:
        file = open_file(path)
        try:
            header = header_of(file, file.size)
            first = first or (path, header)
            check_alike(path, header, *first)
            check_texts(type(records)([path]))
        except DataError as fault:
            yield Checked(path, bytes=file.size, faults=[fault])
        else:
            yield Checked(path, header.rows, file.size)


def check_texts(records: Any) -> None:
    """Look at all rows of :class:`~headrace.formats.npy.NpyRecords`, if they hold text."""
    if not holds_text(records.dtype):
        return
    step = max(1, BLOCK_BYTES // max(1, records.headers[0].row_bytes))
    for first in range(0, len(records), step):
        records.take(np.arange(first, min(first + step, len(records))))


def check_alike(path: str, header: NpyHeader, first_path: str, first: NpyHeader) -> None:
    """Refuse a file whose rows are not those of the first one."""
    if header.dtype.newbyteorder("=") == first.dtype.newbyteorder("=") and header.row_shape == first.row_shape:
        return
    raise SchemaMismatch(
        Where(path=path),
        expected=f"rows of {first.dtype} with shape {first.row_shape}, as in {first_path}",
        found=f"{header.dtype} with shape {header.row_shape}",
        hint="Open them as two sources, or convert one of them.",
    )
