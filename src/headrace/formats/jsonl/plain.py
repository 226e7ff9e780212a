"""Plain lines of JSON, decoded by native code.

Plain are lines whose wanted features are keys of the line's object with a number, a truth value, a text, or a list of
those, each of the expected type. Whatever else a line may hold is left to pyarrow's reader, and all damage with it, so
errors come from one reader. Both give the same columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headrace import _native
from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema
from headrace.contracts.strings import Strings
from headrace.contracts.values import Batch, Indices, Ragged
from headrace.formats.jsonl.types import MOST_BYTES
from headrace.io.local.fileset import Buffers

__all__ = ["PlainDecoder", "as_strings", "plain_decoder"]


INT64, UINT64, FLOAT64, BOOL, TEXT = 1, 2, 3, 4, 5
NO_LIMITS = (-(1 << 63), (1 << 63) - 1)


class PlainDecoder:
    """Decodes plain lines.

    Args:
        features: The features to decode, by name, each under a key of the same name or another.
        keys: Their keys.
        exact: Whether an integer in a column of floats must not be rounded.
    """

    def __init__(self, features: Mapping[str, Feature], keys: Sequence[str], *, exact: bool) -> None:
        self._features = dict(features)
        specs = [_spec(key, feature, exact=exact) for key, feature in zip(keys, features.values(), strict=True)]
        self._decoder = _native.JsonDecoder(specs)

    def decode(self, buffers: Buffers, which: Any, begins: Indices, ends: Indices) -> Batch | None:
        """Columns of lines.

        Args:
            buffers, which, begins, ends: The lines are the bytes ``[begins[i], ends[i])`` of ``buffers[which[i]]``.

        Returns:
            A column per feature; ``None`` if any line is not plain.
        """
        if int(np.sum(ends - begins)) > MOST_BYTES:
            return None
        found = self._decoder.decode(buffers, which, begins, ends)
        if found is None:
            return None
        batch: Batch = {}
        for (name, feature), (values, offsets) in zip(self._features.items(), found, strict=True):
            column = _column(feature, values, offsets)
            if column is None:
                return None
            batch[name] = column
        return batch


def plain_decoder(
    schema: Schema, names: Sequence[str], found: Mapping[str, tuple[tuple[str, ...], Any]], *, exact: bool
) -> PlainDecoder | None:
    """What decodes plain lines to these features; ``None`` if native code cannot.

    Args:
        schema: The features of the lines.
        names: Those wanted.
        found: The keys of the features that were found in the first lines.
        exact: Whether an integer in a column of floats must not be rounded.
    """
    paths = [found[name][0] if name in found else (name,) for name in names]
    features = {name: schema[name] for name in names}
    is_flat = all(len(path) == 1 for path in paths) and len(set(paths)) == len(paths)
    if not names or not is_flat or not all(map(_is_known, features.values())):
        return None
    return PlainDecoder(features, [path[0] for path in paths], exact=exact)


def _is_known(feature: Feature) -> bool:
    if feature.sparse or len(feature.shape) > 1 or feature.default is not None:
        return False
    return feature.dtype == "str" or (not feature.is_text and np.dtype(feature.dtype).kind in "biuf")


def _spec(key: str, feature: Feature, *, exact: bool) -> tuple[str, int, bool, int, int, bool, bool]:
    is_list = feature.shape != ()
    least, most = NO_LIMITS
    may_miss = feature.shape == (None,)
    if feature.is_text:
        return key, TEXT, is_list, least, most, False, may_miss
    dtype = np.dtype(feature.dtype)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        kind = UINT64 if dtype.kind == "u" else INT64
        return key, kind, is_list, least if kind == UINT64 else int(limits.min), int(limits.max), False, may_miss
    if dtype.kind == "b":
        return key, BOOL, is_list, least, most, False, may_miss
    return key, FLOAT64, is_list, least, most, exact, may_miss or not is_list


def _column(feature: Feature, values: Any, offsets: Any) -> Any:
    """The batch column of decoded values; ``None`` if the feature cannot hold them."""
    column: Any
    if feature.is_text:
        data, text_offsets = values
        column = Strings.trust(data, text_offsets, is_text=True)
    else:
        column = _narrow(feature, values)
        if column is None:
            return None
    if not feature.shape:
        return column
    length = feature.shape[0]
    if length is None:
        return Ragged(column, offsets)
    if not (np.diff(offsets) == length).all():
        return None
    return column.reshape(len(offsets) - 1, length)


def _narrow(feature: Feature, values: Any) -> Any:
    """The values in the dtype of the feature. Floats may be rounded, but not become infinite."""
    dtype = feature.numpy_dtype
    if dtype.kind == "b":
        return values.view(np.bool_)
    with np.errstate(over="ignore"):
        narrow = values.astype(dtype, copy=False)
    if dtype.kind == "f" and dtype.itemsize < values.dtype.itemsize and np.isinf(narrow).any():
        return None
    return narrow


def as_strings(column: Any) -> Any:
    """A column of text from objects, as the same column without them. Others stay as they are."""
    if isinstance(column, Ragged):
        return Ragged(as_strings(column.values), column.offsets)
    if isinstance(column, np.ndarray) and column.dtype == object:
        return Strings.from_values(column, is_text=True)
    return column
