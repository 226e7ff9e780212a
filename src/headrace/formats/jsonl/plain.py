"""Plain lines of JSON, decoded by native code, and their features, found without pyarrow, whose import takes longer than reading a small file.

Plain are lines whose wanted features are keys of the line's object, or of objects in it, with a number, a truth value, a text, or
lists of those, each of the expected type. Whatever else a line may hold is left to pyarrow's reader, and all damage with it, so
errors come from one reader. Both give the same columns.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from headrace import _native
from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema
from headrace.contracts.strings import Strings
from headrace.contracts.values import Batch, Indices, Ragged
from headrace.formats.jsonl.numbers import EXACT
from headrace.formats.jsonl.types import MOST_BYTES
from headrace.formats.table.values import Keys
from headrace.io.local.fileset import Buffers

__all__ = ["PlainDecoder", "as_strings", "infer_plain", "plain_decoder"]


INT64, UINT64, FLOAT64, BOOL, TEXT = 1, 2, 3, 4, 5
NO_LIMITS = (-(1 << 63), (1 << 63) - 1)
MOST_DEPTH = 64
"""Of objects and lists that native code decodes."""


MOST_LEVELS = 16
"""Of objects and lists in lines whose features are found without pyarrow."""
FEW_BYTES, MOST_PARSED = 256 << 10, 4 << 20
"""Bytes of lines that Python parses: the first ones, whose features the others should have, and else all. Of more, pyarrow's import is faster."""
PIECE_BYTES = 1 << 20
Inferred = Mapping[str, tuple[Keys, Feature]]


class _NotPlain(ValueError):
    """Only pyarrow can tell the features."""


def infer_plain(lines: Sequence[bytes]) -> Inferred | None:
    """The features of lines, as `headrace.formats.jsonl.types.infer` finds them; ``None`` for lines that are not plain.

    Args:
        lines: The lines. Objects and lists may be in each other. Where they hold values, all in one place are numbers, truth values or text.
    """
    few = next(_cut(lines, FEW_BYTES), [])
    found = _infer_few(few)
    if len(few) == len(lines) or (found is not None and _all_have(found, lines[len(few) :])):
        return found
    return _infer_few(lines)


def _cut(lines: Sequence[bytes], most: int) -> Iterator[Sequence[bytes]]:
    """The lines in pieces of so many bytes, or of one line."""
    begin = size = 0
    for number, line in enumerate(lines):
        if size + len(line) > most and number > begin:
            yield lines[begin:number]
            begin, size = number, 0
        size += len(line)
    if begin < len(lines):
        yield lines[begin:]


def _infer_few(lines: Sequence[bytes]) -> Inferred | None:
    if sum(map(len, lines)) > MOST_PARSED:
        return None
    found: dict[str, tuple[Keys, Feature]] = {}
    try:
        for keys, feature in _find_features((), [_load_plain(line) for line in lines], 0):
            found["/".join(filter(None, keys))] = keys, feature
    except (ValueError, RecursionError):  # also of text that is not UTF-8 or not JSON
        return None
    return found


def _all_have(found: Inferred, lines: Sequence[bytes]) -> bool:
    """Whether native code decodes lines to these features. It refuses other keys, but not null ones, which pyarrow takes for features."""
    schema = Schema({name: feature for name, (_, feature) in found.items()})
    paths = {name: keys for name, (keys, _) in found.items()}
    decoder = plain_decoder(schema, tuple(found), paths, exact=True, only_known=True)
    if decoder is None:
        return False
    for piece in _cut(lines, PIECE_BYTES):
        if any(b"null" in line for line in piece):
            return False
        sizes = np.array(list(map(len, piece)), np.int64)
        batch = decoder.decode(list(piece), np.arange(len(piece), dtype=np.int32), np.zeros_like(sizes), sizes)
        if batch is None or not all(map(_are_exact, batch.values())):
            return False
    return True


def _are_exact(column: Any) -> bool:
    """Whether a column has no floats so large that an integer among them might have been rounded."""
    while isinstance(column, Ragged):
        column = column.values
    if not isinstance(column, np.ndarray) or column.dtype.kind != "f":
        return True
    return bool(((np.abs(column) < EXACT) | np.isnan(column)).all())


def _load_plain(line: bytes) -> Any:
    text = bytes(line).decode()
    value = json.loads(text, object_pairs_hook=_as_dict, parse_constant=_refuse)
    if "\\u" in text:
        json.dumps(value, ensure_ascii=False).encode()  # raises for half a surrogate pair
    if type(value) is not dict:
        raise _NotPlain
    return value


def _as_dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs) or any(not key or "/" in key for key in found):
        raise _NotPlain
    return found


def _refuse(constant: str) -> None:
    raise _NotPlain(constant)


def _find_features(keys: Keys, values: list[Any], level: int, *, whole: bool = True) -> Iterator[tuple[Keys, Feature]]:
    """The features under some keys, in the order of their first values.

    Args:
        keys: The keys.
        values: The values there, without nulls.
        level: How many objects and lists they are in.
        whole: Whether no object lacks the value, or has a null in its place.
    """
    kinds = set(map(type, values))
    if level > MOST_LEVELS:
        raise _NotPlain
    if kinds == {dict}:
        fields: dict[str, list[Any]] = {}
        for value in values:
            for name, field in value.items():
                fields.setdefault(name, []).append(field)
        if not fields:
            raise _NotPlain
        for name, found in fields.items():
            present = _without_nulls(found)
            is_whole = whole and len(present) == len(values)
            yield from _find_features((*keys, name), present, level + 1, whole=is_whole)
        return
    if kinds == {list}:
        items = [item for value in values for item in value]
        present = _without_nulls(items)
        if any(type(item) is dict for item in present):
            is_whole = len(present) == len(items)
            yield from _find_features((*keys, None), present, level + 1, whole=is_whole)
            return
    dtype, shape = _type_of(values, level, whole=whole)
    yield keys, Feature(dtype, (None,) * keys.count(None) + shape)


def _without_nulls(values: list[Any]) -> list[Any]:
    return [value for value in values if value is not None]


def _type_of(values: list[Any], level: int, *, whole: bool) -> tuple[str, tuple[int | None, ...]]:
    """The dtype of values, or of those in lists, and the lengths of the lists: ``None`` where they differ, or one is missing or empty."""
    kinds = set(map(type, values))
    if kinds == {list} and level <= MOST_LEVELS:
        items = [item for value in values for item in value]
        present = _without_nulls(items)
        dtype, shape = _type_of(present, level + 1, whole=len(present) == len(items))
        lengths = set(map(len, values))
        length = lengths.pop() if whole and len(lengths) == 1 else None
        return dtype, (length or None, *shape)
    if kinds == {int} and NO_LIMITS[0] <= min(values) <= max(values) <= NO_LIMITS[1]:
        return "int64", ()
    if kinds and kinds <= {int, float} and max(map(abs, values)) < EXACT:
        return "float64", ()
    if kinds in ({bool}, {str}):
        return ("bool" if kinds == {bool} else "str"), ()
    raise _NotPlain


class PlainDecoder:
    """Decodes plain lines.

    Args:
        features: The features to decode, by name.
        paths: The keys that lead to each.
        exact: Whether an integer in a column of floats must not be rounded.
        only_known: Whether a line with other keys is not plain, unless they hold nothing.
    """

    def __init__(
        self,
        features: Mapping[str, Feature],
        paths: Sequence[Keys],
        *,
        exact: bool,
        only_known: bool = False,
    ) -> None:
        self._columns = [(name, feature, _is_ready(feature)) for name, feature in features.items()]
        specs = [_spec(path, feature, exact=exact) for path, feature in zip(paths, features.values(), strict=True)]
        self._decoder = _native.JsonDecoder(specs, only_known)

    def decode(self, buffers: Buffers, which: Any, begins: Indices, ends: Indices) -> Batch | None:
        """Columns of lines.

        Args:
            buffers, which, begins, ends: The lines are the bytes ``[begins[i], ends[i])`` of ``buffers[which[i]]``.

        Returns:
            A column per feature; ``None`` if any line is not plain.
        """
        if int(np.sum(ends - begins)) > MOST_BYTES:
            return None
        found = self._decoder.decode(buffers, which, begins, ends, Strings)
        if found is None:
            return None
        batch: Batch = {}
        for (name, feature, is_ready), (values, offsets) in zip(self._columns, found, strict=True):
            column = values if is_ready else _column(feature, values, offsets)
            if column is None:
                return None
            batch[name] = column
        return batch


def plain_decoder(
    schema: Schema,
    names: Sequence[str],
    paths: Mapping[str, Keys],
    *,
    exact: bool,
    only_known: bool = False,
) -> PlainDecoder | None:
    """What decodes plain lines to these features; ``None`` if native code cannot.

    Args:
        schema: The features of the lines.
        names: Those wanted.
        paths: The keys that lead to a feature. One that is not among them is a key of that name.
        exact: Whether an integer in a column of floats must not be rounded.
        only_known: Whether a line with other keys is not plain, unless they hold nothing.
    """
    ways = [paths.get(name, (name,)) for name in names]
    features = {name: schema[name] for name in names}
    if not names or not _are_apart(ways) or not all(map(_is_known, features.values(), ways)):
        return None
    return PlainDecoder(features, ways, exact=exact, only_known=only_known)


def _are_apart(paths: Sequence[Keys]) -> bool:
    """Whether no path is or leads to another one, and none is too deep."""
    ways = {path[:length] for path in paths for length in range(1, len(path))}
    return len(set(paths)) == len(paths) and ways.isdisjoint(paths) and max(map(len, paths)) <= MOST_DEPTH


def _is_known(feature: Feature, way: Keys) -> bool:
    if (None, None) in pairwise(way) or way.count(None) > len(feature.shape):
        return False
    if feature.sparse or len(feature.shape) > MOST_DEPTH or (feature.default is not None and feature.shape):
        return False
    return feature.dtype == "str" or (not feature.is_text and np.dtype(feature.dtype).kind in "biuf")


def _spec(path: Keys, feature: Feature, *, exact: bool) -> tuple[Any, ...]:
    depth = len(feature.shape)
    least, most = NO_LIMITS
    missing = _missing(feature)
    if feature.is_text:
        return path, TEXT, depth, least, most, False, missing
    dtype = np.dtype(feature.dtype)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        kind = UINT64 if dtype.kind == "u" else INT64
        return path, kind, depth, least if kind == UINT64 else int(limits.min), int(limits.max), False, missing
    if dtype.kind == "b":
        return path, BOOL, depth, least, most, False, missing
    return path, FLOAT64, depth, least, most, exact, missing


def _missing(feature: Feature) -> bytes | None:
    """What stands for a missing value: its text, or its number in the type that native code decodes; ``None`` where that is an error."""
    if feature.shape:
        return b"" if feature.shape[0] is None else None
    if feature.is_text:
        return None if feature.default is None else str(feature.default).encode()
    kind = np.dtype(feature.dtype).kind
    if feature.default is None:
        return np.float64(np.nan).tobytes() if kind == "f" else None
    wide = {"i": np.int64, "u": np.uint64, "f": np.float64, "b": np.uint8}[kind]
    return np.asarray(feature.default).astype(wide).tobytes()


def _is_ready(feature: Feature) -> bool:
    """Whether the decoded values are the column: one text for each line, or one number of the type that native code decodes."""
    return not feature.shape and (feature.is_text or feature.numpy_dtype in (np.int64, np.uint64, np.float64))


def _column(feature: Feature, values: Any, offsets: list[Any]) -> Any:
    """The batch column of decoded values; ``None`` if the feature cannot hold them."""
    column: Any = values if feature.is_text else _narrow(feature, values)
    for length, places in zip(reversed(feature.shape), reversed(offsets), strict=True):
        if column is None or (length is not None and not (np.diff(places) == length).all()):
            return None
        if length is None or isinstance(column, Ragged):
            column = Ragged(column, places)
        else:
            column = column.reshape(len(places) - 1, length, *column.shape[1:])
    return column


def _narrow(feature: Feature, values: Any) -> Any:
    """The values in the dtype of the feature. Floats may be rounded, but not become infinite."""
    dtype = feature.numpy_dtype
    if dtype.kind == "b":
        return values.view(np.bool_)
    if dtype.kind != "f" or dtype == values.dtype:  # Native code has checked the range of integers.
        return values.astype(dtype, copy=False)
    with np.errstate(over="ignore"):
        narrow = values.astype(dtype)
    return None if np.isinf(narrow).any() else narrow


def as_strings(column: Any) -> Any:
    """A column of text from objects, as the same column without them. Others stay as they are."""
    if isinstance(column, Ragged):
        return Ragged(as_strings(column.values), column.offsets)
    if isinstance(column, np.ndarray) and column.dtype == object:
        return Strings.from_values(column, is_text=True)
    return column
