"""What people pass as data to write: taken as a source, columns, or examples; or refused, saying what to pass instead."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from headrace.adapters.arrow import from_arrow
from headrace.adapters.pandas import from_pandas
from headrace.contracts.values import Example, Ragged
from headrace.errors import SchemaMismatch, Where
from headrace.formats.npy.header import fields_of
from headrace.sources.source import Source
from headrace.sources.stacking import as_columns

__all__ = ["as_examples", "check_example", "check_values"]

UNNAMED = "values"
"""What the one feature of a plain array is called, as where a ``.npy`` is read."""


def as_examples(given: Any) -> Source | dict[str, Any] | Iterable[Example]:
    """A source, columns, or an iterable of examples, of what was given as one of those.

    Tables of pandas, Arrow and Polars become sources. An array ``(n, ...)`` of NumPy, SciPy, PyTorch or JAX is the one column
    ``values``; of a structured array, each field is a column.

    Raises:
        TypeError: It is none of those; the message says what to pass.
    """
    if isinstance(given, Source):
        return given
    if isinstance(given, Mapping) and not hasattr(given, "tocsr"):
        return as_columns(given)
    library = type(given).__module__.partition(".")[0]
    if library == "pandas" and len(getattr(given, "shape", ())) != 1:
        return from_pandas(given)
    if library in ("polars", "pyarrow") and len(getattr(given, "shape", ())) != 1:
        return from_arrow(given)
    if (
        isinstance(given, Ragged)
        or hasattr(given, "tocsr")
        or (hasattr(given, "__array__") and hasattr(given, "shape"))
    ):
        return _array_columns(given)
    hint = _refusal(given)
    if hint:
        raise TypeError(f"headrace writes a source, columns or examples, got {type(given).__name__}. {hint}")
    return given  # type: ignore[no-any-return]


def _array_columns(given: Any) -> dict[str, Any]:
    if isinstance(given, np.ndarray) and given.dtype.names is not None and given.ndim:
        fields = fields_of(given.dtype, given.shape[1:])
        return {name: field.of(given) for name, field in fields.items()}
    name = getattr(given, "name", None)  # of a series
    return as_columns({name if isinstance(name, str) and name else UNNAMED: given})


def _refusal(given: Any) -> str:
    """What to pass instead of something that holds no examples; empty where it may."""
    if isinstance(given, (str, os.PathLike)):
        return "Of a file, pass headrace.open(path), or call headrace.convert(path, new_path)."
    if isinstance(given, (bytes, bytearray, memoryview)):
        return "Payloads are written by headrace.write_records(path, [payload, ...])."
    if hasattr(given, "iter_spans"):
        return "Records are written by headrace.write_records(path, records)."
    if hasattr(given, "batch_size"):
        return "A loader gives batches: pass its source, or hand each batch to headrace.Writer.write_batch."
    if hasattr(given, "read"):
        return "Of an open file, pass headrace.open(its name)."
    if not (hasattr(given, "__iter__") or hasattr(given, "__getitem__")):
        return "Pass {'name': array, ...}, or an iterable of examples, each a dict."
    return ""


def check_example(example: Any, number: int) -> None:
    """See that an example is a dict.

    Raises:
        SchemaMismatch: It is something else.
    """
    if not isinstance(example, Mapping):
        raise SchemaMismatch(
            Where(record=number),
            expected="an example, which is a dict of features",
            found=f"{type(example).__name__} {example!r:.80}",
            hint="Pass columns, as {'name': array, ...}, or one dict for each example.",
        )


def check_values(batch: Mapping[str, Any], first: int) -> None:
    """See that there is a value in every place of some stacked examples. Only columns of Python objects are looked at.

    Args:
        batch: The examples.
        first: Number of the first of them.

    Raises:
        SchemaMismatch: There is nothing, or a dict.
    """
    for name, column in batch.items():
        if isinstance(column, list) or (isinstance(column, np.ndarray) and column.dtype == object):
            for position, value in enumerate(column):
                if value is None or type(value) is dict:
                    raise _no_value(value, Where(record=first + position, feature=name))


def _no_value(value: object, where: Where) -> SchemaMismatch:
    if value is None:
        hint = "Give a value in its place, such as NaN, or leave the feature out of every example."
        return SchemaMismatch(where, expected="a value", found="None", hint=hint)
    hint = f"Name what is in it by its path: '{where.feature}/...'."
    return SchemaMismatch(where, expected="a value", found=f"a dict, {value!r:.80}", hint=hint)
