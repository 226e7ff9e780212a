"""Sources of generators: what they yield is stored once, in the cache folder, and then read by index."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from headrace import _optional
from headrace._numbers import kept_mask
from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema
from headrace.contracts.strings import Strings
from headrace.contracts.values import Batch, Example, Ragged
from headrace.errors import SchemaMismatch, UnsupportedData, Where
from headrace.formats.columns.write import VERSION, StoredBlock, as_strings, store_batches
from headrace.formats.table.values import BadValue, column_of
from headrace.io.cache.folder import cache_folder, cache_key
from headrace.io.system import discard_folder
from headrace.io.write.pending import remove_abandoned, temporary_name
from headrace.sources.operations.stored import StoredNode, check_key, store_once
from headrace.sources.source import Source
from headrace.sources.stacking import stack
from headrace.sources.tables import ragged_rows
from headrace.sources.user_functions import found_instead
from headrace.sources.views import copy_example

__all__ = ["from_generator"]

BLOCK = 1024
"""Examples stored at a time."""


def from_generator(
    function: Callable[[], Iterable[Example]],
    schema: Schema | Mapping[str, Feature] | None = None,
    *,
    key: str | None = None,
) -> Source:
    """A source of the examples that a generator yields. It is called once, now, and its examples are stored in the cache folder.

    Args:
        function: Called without arguments; returns or yields examples as dicts.
        schema: The features. By default inferred from the first 1,024 examples, which all others must then match in dtype (integers
            among floats become floats) and number of axes.
        key: A name for the data. Later calls with it, in any process, use the stored examples without calling ``function``:
            choose another key when the data change. Without a key the files are deleted as soon as they are mapped, and the
            source cannot be pickled.

    Raises:
        TypeError: ``function`` is none, or returns something else.
        SchemaMismatch: An example does not fit the schema, or has other features than the first; nothing is left behind.
        UnsupportedData: A feature cannot be stored: objects, steps of episodes.

    >>> source = from_generator(lambda: ({"x": number} for number in range(1000)))
    >>> len(source), int(source[500]["x"])
    (1000, 500)
    """
    called: Any = function
    if not callable(called):
        hint = ": hr.open(iterable) reads examples into memory" if isinstance(called, Iterable) else ""
        raise TypeError(f"function must be a function that yields examples, got {called!r:.80}{hint}")
    given = None if schema is None else Schema(schema)
    root = cache_folder("generated")
    if key is None:
        remove_abandoned(str(root), "once")
        folder = root / temporary_name("once")
        try:
            store_batches(folder, _blocks(function, given), given, is_checked=True)
            return Source(_Unnamed(folder))
        finally:
            discard_folder(folder)  # what is mapped stays
    check_key(key)
    folder = root / cache_key("generated", VERSION, key, "" if given is None else given.to_json())

    def store() -> None:
        store_batches(folder, _blocks(function, given), given, is_checked=True)

    return Source(store_once(folder, store))


def _blocks(function: Callable[[], Iterable[Any]], schema: Schema | None) -> Iterator[StoredBlock]:
    def convert(some: list[Example]) -> Batch:
        return stack(some) if schema is None else _as_features(some, schema)

    made: Any = function()
    if not isinstance(made, Iterable) and not hasattr(made, "__getitem__"):
        raise TypeError(f"function must return or yield examples, got {found_instead(made)}")
    examples, count = _copies(made), 0
    while block := list(islice(examples, BLOCK)):
        for number, example in enumerate(block, count):
            if schema is not None and set(example) != set(schema):
                raise SchemaMismatch(
                    Where(record=number), expected=f"the features {list(schema)}", found=str(list(example))
                )
        try:
            batch = convert(block)
        except SchemaMismatch as error:
            raise _find_fault(convert, block, count, error) from error
        yield StoredBlock(batch, len(block), partial(_convert_one, convert, block, count))
        count += len(block)


def _convert_one(convert: Callable[[list[Example]], Batch], block: list[Example], first: int, index: int) -> Batch:
    return convert([block[index - first]])


def _find_fault(
    convert: Callable[[list[Example]], Batch], block: list[Example], first: int, error: SchemaMismatch
) -> SchemaMismatch:
    """The error with the number that the example has among all. If it names none, that of the first example that does not fit alone."""
    if error.where.record is not None:
        return _relocate(error, first + error.where.record)
    for row, example in enumerate(block):
        try:
            convert([example])
        except SchemaMismatch as alone:
            return _relocate(alone, first + row)
    return error


def _relocate(error: SchemaMismatch, record: int) -> SchemaMismatch:
    where = error.where
    return SchemaMismatch(where.at(record=record), expected=error.expected, found=error.found, hint=error.hint)


def _copies(examples: Iterable[Any]) -> Iterator[Example]:
    """The examples as they are when they are yielded: a generator may fill the same arrays again."""
    for number, example in enumerate(examples):
        if not isinstance(example, Mapping):
            found = f"{type(example).__name__} {example!r:.80}"
            raise SchemaMismatch(Where(record=number), expected="an example: a dict of features", found=found)
        yield copy_example(example)


def _as_features(block: list[Example], schema: Schema) -> dict[str, Any]:
    """Examples as columns of the types of a schema."""
    return {name: _fit(_stack_values(block, name, feature), feature, name) for name, feature in schema.items()}


def _stack_values(block: list[Example], name: str, feature: Feature) -> Any:
    """The column of one feature. Lists of lists of different lengths become rows of rows."""
    values = [example[name] for example in block]
    if feature.shape[:2] == (None, None) and not feature.sparse and any(isinstance(v, (list, tuple)) for v in values):
        try:
            return column_of([v.to_list() if isinstance(v, Ragged) else v for v in values], feature)
        except BadValue as bad:
            raise bad.at(Where(record=bad.row, feature=name)) from bad
    return stack([{name: value} for value in values])[name]


def _fit(column: Any, feature: Feature, name: str) -> Any:
    """A column in the dtype and shape of a feature. Integers keep their values; floats may lose precision, but stay finite."""
    if feature.sparse or hasattr(column, "tocsr"):
        return _fit_sparse(column, feature, name)
    varies = feature.shape[:1] == (None,)
    if isinstance(column, Ragged) and isinstance(column.values, Ragged) and feature.shape[:2] == (None, None):
        inner = Feature(feature.dtype, feature.shape[1:])
        try:
            return Ragged(_fit(column.values, inner, name), column.offsets)
        except SchemaMismatch as error:
            at = error.where.record
            row = None if at is None else int(np.searchsorted(column.offsets, at, side="right")) - 1
            raise SchemaMismatch(
                Where(record=row, feature=name), expected=repr(feature), found=error.found, hint=error.hint
            ) from error
    if varies and isinstance(column, Ragged) and not isinstance(column.values, Ragged):
        rows = column
        return Ragged(_fit_values(rows.values, feature, name, feature.shape[1:], rows.offsets), rows.offsets)
    if varies and None not in feature.shape[1:]:
        rows = ragged_rows(column, name)
        return Ragged(_fit_values(rows.values, feature, name, feature.shape[1:], rows.offsets), rows.offsets)
    if isinstance(column, (np.ndarray, Strings)):
        return _fit_values(column, feature, name, feature.shape, None)
    if varies and isinstance(column, list):  # arrays that differ in several axes
        arrays = [np.asarray(array) for array in column]
        for at, array in enumerate(arrays):
            if not _fits_shape(array.shape, feature.shape):
                raise SchemaMismatch(
                    Where(record=at, feature=name), expected=repr(feature), found=f"an array of shape {array.shape}"
                )
        return [_fit_values(array[None], feature, name, feature.shape, None)[0] for array in arrays]
    raise SchemaMismatch(Where(feature=name), expected=repr(feature), found="values whose lengths vary")


def _fit_values(values: Any, feature: Feature, name: str, shape: tuple[int | None, ...], offsets: Any) -> Any:
    def refuse(found: str, at: int | None = None) -> SchemaMismatch:
        record = at if at is None or offsets is None else int(np.searchsorted(offsets, at, side="right")) - 1
        return SchemaMismatch(Where(record=record, feature=name), expected=repr(feature), found=found)

    values = as_strings(values)
    if not _fits_shape(values.shape[1:], shape) and values.size:
        raise refuse(f"values of shape {values.shape[1:]}")
    if not values.size:
        return np.zeros(values.shape, feature.numpy_dtype)
    found = _describe_kind(values)
    if feature.is_text != isinstance(values, Strings) or (feature.is_text and found != feature.dtype):
        raise refuse(found)
    wanted = feature.numpy_dtype
    if feature.is_text or values.dtype == wanted:
        return values
    kind = values.dtype.kind
    if kind not in "biufcmM" or (kind != wanted.kind and (kind in "mM" or wanted.kind in "mM")):
        raise refuse(found)
    changed = np.ones(values.shape, bool)
    with np.errstate(all="ignore"), suppress(OverflowError):  # days in attoseconds
        cast = values.astype(wanted)
        changed = ~kept_mask(values, cast)
    if changed.any():
        at = int(np.argmax(changed.reshape(len(values), -1).any(axis=1)))
        raise refuse(f"{values[at]!r:.60}", at)
    return cast


def _describe_kind(values: Any) -> str:
    if isinstance(values, Strings):
        return "str" if values.is_text else "bytes"
    return f"{values.reshape(-1)[0]!r:.60}" if values.dtype == object else str(values.dtype)


def _fits_shape(shape: tuple[int, ...], wanted: tuple[int | None, ...]) -> bool:
    return len(shape) == len(wanted) and all(two in (None, one) for one, two in zip(shape, wanted, strict=True))


def _fit_sparse(column: Any, feature: Feature, name: str) -> Any:
    """A column as sparse rows: of sparse rows, or of dense ones of the same width."""
    is_dense = isinstance(column, np.ndarray) and column.ndim == 2 and column.dtype.kind in "biuf"
    if not feature.sparse or not (is_dense or hasattr(column, "tocsr")):
        raise SchemaMismatch(
            Where(feature=name), expected=repr(feature), found="dense values" if feature.sparse else "sparse rows"
        )
    if column.shape[1] != feature.shape[0]:
        raise SchemaMismatch(Where(feature=name), expected=repr(feature), found=f"rows of {column.shape[1]} values")
    sparse = _optional.require("scipy.sparse", extra="sklearn")
    rows = sparse.csr_array(column)
    values = _fit_values(rows.data, Feature(feature.dtype), name, (), rows.indptr)
    return sparse.csr_array((values, rows.indices, rows.indptr), shape=rows.shape)


class _Unnamed(StoredNode):
    """Examples in files that have no name any more."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.map_files()

    def __reduce__(self) -> Any:
        raise UnsupportedData(
            Where(),
            expected="a source with files",
            found="one of a generator without a key",
            hint="from_generator(function, key='...') gives one that can be pickled.",
        )
