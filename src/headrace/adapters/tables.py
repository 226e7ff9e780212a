"""What users pass where a source is expected: frames, tables, columns, examples."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from headrace.adapters.arrow import from_arrow
from headrace.adapters.huggingface import from_hf
from headrace.adapters.pandas import from_pandas
from headrace.contracts.values import Ragged
from headrace.errors import SchemaMismatch, Where
from headrace.formats.npy.header import fields_of
from headrace.sources.operations.column import FeatureColumn
from headrace.sources.source import ColumnSource, Source
from headrace.sources.stacking import stack
from headrace.sources.tables import ColumnNode, as_columns, find_object, object_error
from headrace.sources.views import copy_example

__all__ = ["as_columns_or_source", "as_source", "check_example", "check_values"]

UNNAMED = "values"
"""The name of the one feature of a plain array, as where a ``.npy`` is read."""
BLOCK = 1024


def as_source(given: Any) -> Source:
    """A source of what was passed as one.

    Args:
        given: A source, or a column of one; a frame of pandas or Polars; an Arrow table; a Hugging Face ``Dataset``; columns, as
            ``{"image": array, ...}``; an array, as the feature ``values``; or examples, as a list or another iterable of dicts, which is
            read into memory now.

    Raises:
        TypeError: It is none of these; the message says what to pass.
        SchemaMismatch: Examples have different features, or a value is None.
    """
    found = as_columns_or_source(given)
    if found is None:
        columns, count = _stack_examples(given)
        return ColumnSource(columns) if columns else Source(ColumnNode({}, count=count))
    return found if isinstance(found, Source) else ColumnSource(found)


def as_columns_or_source(given: Any) -> Source | dict[str, Any] | None:
    """Tables as sources, and arrays as columns; ``None`` for what may be an iterable of examples.

    Raises:
        TypeError: It holds no examples; the message says what to pass.
    """
    if isinstance(given, FeatureColumn):
        given = given.source  # which keeps the types of texts and of lists
    if isinstance(given, Source):
        return given
    if isinstance(given, type):  # which has the methods of its objects, but is none of them
        raise _not_a_source(given, f"That is a class: pass an object, as {given.__name__}(...) makes one.")
    if callable(getattr(given, "batch", None)) and hasattr(given, "where") and hasattr(given, "schema"):
        return Source(given)  # such as a Mixture
    if isinstance(given, Mapping) and not hasattr(given, "tocsr"):
        _refuse_splits(given)
        return as_columns(given)
    table = _read_table(given)
    if table is not None:
        return table
    if (
        isinstance(given, Ragged)
        or hasattr(given, "tocsr")
        or (hasattr(given, "__array__") and hasattr(given, "shape"))
    ):
        return _array_columns(given)
    hint = _refusal(given)
    if hint:
        raise _not_a_source(given, hint)
    return None


def _read_table(given: Any) -> Source | None:
    """A frame or a table as a source; ``None`` for anything else."""
    library = type(given).__module__.partition(".")[0]
    if library == "pandas" and len(getattr(given, "shape", ())) != 1:
        return from_pandas(given)
    if library in ("polars", "pyarrow") and len(getattr(given, "shape", ())) != 1:
        return from_arrow(given)
    if library == "datasets" and hasattr(given, "with_format") and hasattr(given, "__len__"):
        source: Source = from_hf(given)
        return source
    return None


def _not_a_source(given: Any, hint: str) -> TypeError:
    found = f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__
    return TypeError(f"expected a source, which has len() and batch(indices), columns or examples, got {found}. {hint}")


def _refuse_splits(given: Mapping[str, Any]) -> None:
    """Refuse the splits of a dataset: they would be taken for columns."""
    for name, value in given.items():
        is_dataset = type(value).__module__.partition(".")[0] == "datasets" and hasattr(value, "with_format")
        if is_dataset or isinstance(value, Source):
            raise TypeError(
                f"expected a source, columns or examples, got a {type(given).__name__} of the splits {', '.join(map(repr, given))}. "
                f"Choose one, as in splits[{name!r}], or join them, as in one.concat(other)."
            )


def _array_columns(given: Any) -> dict[str, Any]:
    if isinstance(given, np.ndarray) and given.dtype.names is not None and given.ndim:
        fields = fields_of(given.dtype, given.shape[1:])
        return {name: field.of(given) for name, field in fields.items()}
    name = getattr(given, "name", None)  # of a series
    return as_columns({name if isinstance(name, str) and name else UNNAMED: given})


def _refusal(given: Any) -> str:
    """What to pass instead of an argument that holds no examples; empty if it may hold some."""
    if isinstance(given, (str, os.PathLike)):
        return "Of a file, pass headrace.open(path), or call headrace.convert(path, new_path)."
    if isinstance(given, (bytes, bytearray, memoryview)):
        return "Payloads are written by headrace.write_records(path, [payload, ...])."
    if hasattr(given, "iter_spans"):
        return "Records are written by headrace.write_records(path, records)."
    if hasattr(given, "batch_size"):
        return "A loader gives batches: pass its source, or hand each batch to headrace.Writer.write_batch."
    if hasattr(given, "write_datasink"):
        return "Write a dataset of Ray Data with headrace.adapters.ray.write(dataset, path), then open the files."
    if hasattr(given, "read"):
        return "Of an open file, pass headrace.open(its name)."
    if not (hasattr(given, "__iter__") or hasattr(given, "__getitem__")):
        return "Pass {'name': array, ...}, or an iterable of examples, each a dict."
    return ""


def _stack_examples(given: Iterable[Any]) -> tuple[dict[str, Any], int]:
    """The columns of some examples, and their number, which no column shows where examples have no features."""
    examples = []
    is_held = isinstance(given, (list, tuple))  # all examples are there, unlike those of a generator
    for number, example in enumerate(given):
        if type(example) is not dict:
            check_example(example, number)
        examples.append(example if is_held else copy_example(example))
    columns = stack(examples)
    check_values(columns, 0)
    return columns, len(examples)


def check_example(example: Any, number: int) -> None:
    """Check that an example is a dict.

    Raises:
        SchemaMismatch: It is not.
    """
    if callable(getattr(example, "batch", None)):
        raise TypeError("expected a source or examples, got a list of sources: write source.concat(one, other)")
    if not isinstance(example, Mapping):
        hint = "Pass columns, as {'name': array, ...}, or one dict for each example."
        if isinstance(example, (str, os.PathLike)):
            hint = "Of files, pass headrace.open([path, ...]): a list of paths."
        raise SchemaMismatch(
            Where(record=number),
            expected="an example: a dict of features",
            found=f"{type(example).__name__} {example!r:.80}",
            hint=hint,
        )


def check_values(batch: Mapping[str, Any], first: int) -> None:
    """Check that stacked examples have a value everywhere, of a kind that can be stored. Only columns of Python objects can be at fault.

    Args:
        batch: The examples.
        first: The number of the first.

    Raises:
        SchemaMismatch: There is None, a dict, or an object that is no number, text or bytes.
    """
    for name, column in batch.items():
        if isinstance(column, list) or (isinstance(column, np.ndarray) and column.dtype == object):
            for position, value in enumerate(column):
                where = Where(record=first + position, feature=name)
                if value is None:
                    hint = "Give a value in its place, such as NaN, or leave the feature out of every example."
                    raise SchemaMismatch(where, expected="a value", found="None", hint=hint)
                if (other := find_object(value)) is not None:
                    raise object_error(other, where)
