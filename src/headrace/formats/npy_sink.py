"""Batches of features into one ``.npy`` file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema
from headrace.contracts.tables import Misfit
from headrace.errors import UnsupportedData, Where
from headrace.formats.npy_header import MOST_BYTES
from headrace.formats.npy_writer import NpyWriter
from headrace.io.paths import PathLike

__all__ = ["ArraySink", "join_arrays", "misfits"]


def misfits(schema: Schema) -> list[Misfit]:
    """What a ``.npy`` cannot hold: text, bytes, lengths that vary, sparse rows."""
    sparse = [
        Misfit(feature=name, expected="dense rows", found=repr(feature), instead=Feature(feature.dtype, feature.shape))
        for name, feature in schema.items()
        if feature.sparse
    ]
    return sparse + [
        Misfit(
            feature=name,
            expected="numbers of a fixed shape, which is what a .npy holds",
            found=repr(feature),
            hint="Write a .tfrecord, or select the other features.",
        )
        for name, feature in schema.items()
        if feature.is_text or not feature.is_fixed
    ]


class ArraySink:
    """Batches into one ``.npy``: one feature as it is, several as the fields of a structured array."""

    def __init__(self, path: PathLike, schema: Schema, *, compression: str = "none") -> None:
        if compression != "none":
            raise UnsupportedData(Where(path=str(path)), expected="a .npy without compression", found=compression)
        for misfit in misfits(schema):
            raise UnsupportedData(
                Where(path=str(path), feature=misfit.feature),
                expected=misfit.expected,
                found=misfit.found,
                hint=misfit.hint,
            )
        self.schema = schema
        if len(schema) == 1:
            feature = next(iter(schema.values()))
            self.dtype, shape = feature.numpy_dtype, tuple(int(n or 0) for n in feature.shape)
        else:
            self.dtype = np.dtype(
                [(name, f.numpy_dtype, tuple(int(n or 0) for n in f.shape)) for name, f in schema.items()]
            )
            shape = ()
        self.writer = NpyWriter(path, self.dtype, shape)

    def write_batch(self, batch: Mapping[str, Any], n: int, /) -> None:
        """Append rows."""
        if len(self.schema) == 1:
            self.writer.write(np.asarray(next(iter(batch.values()))))
            return
        rows = np.empty(n, self.dtype)
        for name in self.schema:
            rows[name] = batch[name]
        self.writer.write(rows)

    def close(self) -> None:
        """Put the file into its place."""
        self.writer.close()

    def abort(self) -> None:
        """Leave no file behind."""
        self.writer.abort()


def join_arrays(parts: Sequence[str], path: str) -> None:
    """The rows of some ``.npy`` files behind one header."""
    rows = _mapped(parts[0])
    with NpyWriter(path, rows.dtype, rows.shape[1:]) as out:
        for part in parts:
            out.write(_mapped(part))


def _mapped(part: str) -> npt.NDArray[Any]:
    rows: npt.NDArray[Any] = np.load(part, mmap_mode="r", max_header_size=MOST_BYTES)
    return rows
