"""Conversion between JSON values and features, through pyarrow's JSON reader."""

from __future__ import annotations

import io
import json
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate
from typing import Any

from headrace._optional import require
from headrace.contracts.feature import Feature
from headrace.errors import CorruptRecord, DataError, SchemaMismatch, UnsupportedData, Where
from headrace.formats.jsonl.keys import (
    array_at,
    find_new_key,
    keep_keys,
    keys_of,
    repeated_key,
    replace_type,
    without_times,
)
from headrace.formats.jsonl.numbers import has_beyond_exact, integer_type
from headrace.formats.table.arrow_types import arrow, arrow_compute, feature_of, innermost, is_list, leaves_of
from headrace.formats.table.leaves import numbers_or_zero
from headrace.formats.table.values import BadValue, Keys, twice_error
from headrace.io.json_text import ARRAY_HINT, TOO_DEEP, are_objects, load_json, too_deep

__all__ = ["BadLine", "Found", "damage_of", "damaged_lines", "infer", "parse"]

Found = Mapping[str, tuple[Keys, Feature | DataError]]
"""Feature name to its keys, and its type or the error that explains why it has none."""

MOST_BYTES = (1 << 31) - 1
SHOWN = 60
OBJECTS = "one JSON object a line"
SKIPS = 'on_corrupt="skip" leaves such lines out.'


class BadLine(Exception):
    """A line that cannot be parsed. ``number`` is its position in the given lines."""

    def __init__(self, number: int, fault: DataError) -> None:
        super().__init__(str(fault))
        self.number = number
        self.fault = fault


def infer(lines: Sequence[bytes]) -> Found:
    """Infer the features of these lines. Lists of the same length in all lines have a fixed shape, unless they hold objects.

    Raises:
        BadLine: A line is not a JSON object, or its types differ from those before it.
        UnsupportedData: A value has no array type.
    """
    first = parse(lines, None)
    try:
        leaves = list(leaves_of(first.schema))
    except UnicodeDecodeError:
        _check_bytes(lines)
        raise
    inferred = first.schema
    types = given = without_times(inferred)
    # While inferring types, pyarrow drops leading nulls in lists. A second reading with explicit types gets the values right.
    is_right = types is inferred and not any(is_list(leaf.type) for leaf in leaves)
    table = first if is_right else parse(lines, types)
    faults: dict[str, DataError] = {}
    for leaf in leaves:
        keys = keys_of(first.schema, leaf.path)
        if arrow().types.is_floating(innermost(leaf.type)) and has_beyond_exact(array_at(table, keys)):
            try:
                types = replace_type(types, leaf, integer_type(lines, keys, leaf.type))
            except BadValue as bad:
                faults[leaf.name] = UnsupportedData(
                    Where(record=bad.row, feature=leaf.name), expected=bad.expected, found=bad.found, hint=bad.hint
                )
    table = table if types is given else parse(lines, types)
    found: dict[str, tuple[Keys, Feature | DataError]] = {}
    for leaf in leaves_of(table.schema):
        keys = keys_of(table.schema, leaf.path)
        fault = twice_error(Where(feature=leaf.name)) if leaf.name in found else faults.get(leaf.name)
        found[leaf.name] = keys, fault or _feature_at(table, keys, Where(feature=leaf.name))
    return found


def _feature_at(table: Any, keys: Keys, where: Where) -> Feature | DataError:
    array = array_at(table, keys)
    try:
        feature = feature_of(_check_known(array.type, where), where)
    except DataError as error:
        return error
    shape, lists = _shape(array, feature.shape), keys.count(None)
    return Feature(feature.dtype, (None,) * lists + shape[lists:])  # Objects in lists are few or many.


def _check_bytes(lines: Sequence[bytes]) -> None:
    """Refuse lines that are not UTF-8. pyarrow does not check that."""
    for number, line in enumerate(lines):
        try:
            bytes(line).decode()
        except UnicodeDecodeError as fault:
            raise BadLine(number, _not_utf8(bytes(line), fault)) from fault


def _not_utf8(text: bytes, fault: UnicodeDecodeError) -> CorruptRecord:
    found = f"byte 0x{text[fault.start]:02x} in {_show(text[max(0, fault.start - 20) : fault.start + 20])}"
    return CorruptRecord(Where(), expected="UTF-8 text", found=found)


def _check_known(kind: Any, where: Where) -> Any:
    inner = innermost(kind)
    if arrow().types.is_null(inner):
        raise UnsupportedData(
            where,
            expected="a value in one of the first rows",
            found="only null or empty lists",
            hint="Define its type, or list the columns that you want: schema={...}.",
        )
    return kind


def _shape(array: Any, shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
    if not shape:
        return ()
    lengths = numbers_or_zero(arrow_compute().list_value_length(array))
    same = not array.null_count and len(lengths) > 0 and lengths[0] > 0 and bool((lengths == lengths[0]).all())
    return (int(lengths[0]) if same else None, *_shape(array.flatten(), shape[1:]))


def parse(lines: Sequence[bytes], types: Any, *, is_given: bool = False, only_known: bool = False) -> Any:
    """Parse lines into a table.

    Args:
        lines: The lines.
        types: The Arrow types of the wanted keys; ``None``: all keys, types inferred.
        is_given: Whether the types are the user's, so that errors do not ask for them.
        only_known: Refuse other keys than the wanted ones, unless they hold nothing.

    Raises:
        BadLine: A line is not a JSON object, has another type, a wanted key twice, or a key that is refused.
    """
    size = sum(map(len, lines)) + len(lines)
    if size > MOST_BYTES:
        raise BadLine(0, UnsupportedData(Where(), expected="less than 2 GiB of rows at once", found=f"{size} bytes"))
    try:
        table = _read_json(lines, types, only_known=only_known)
    except ValueError:
        if (deep := too_deep(b"\n".join(lines))) >= 0:
            raise _deep_line(lines, deep) from None
        if only_known:
            _refuse_new_keys(lines, types)
        if types is not None:  # What is not wanted may be at fault.
            lines = keep_keys(lines, *_names_in(types))
        try:
            table = _read_json(lines, types)
        except ValueError as error:
            raise _bad_line(lines, types, error, is_given=is_given) from error
    if table.num_rows != len(lines):
        raise _bad_line(lines, types, None, is_given=is_given)
    return table


def _refuse_new_keys(lines: Sequence[bytes], types: Any) -> None:
    """Refuse keys that the inferred types do not have, or that cannot be read. Ignoring them would lose data silently."""
    found = find_new_key(lines, _names_in(types)[0])
    if found is not None:
        number, key = found
        fault = SchemaMismatch(
            Where(feature=key),
            expected="only the keys of the first rows",
            found="a new key",
            hint=f"List the keys that you want: with it in schema={{..., {key!r}: ...}}, or without it in columns=[...].",
        )
        raise BadLine(number, fault) from None
    _check_bytes(lines)  # the search ends there


def _names_in(types: Any) -> tuple[list[str], list[str]]:
    """The features of these types, and those of integers."""
    leaves = list(leaves_of(types))
    is_integer = arrow().types.is_integer
    return [leaf.name for leaf in leaves], [leaf.name for leaf in leaves if is_integer(innermost(leaf.type))]


def damaged_lines(lines: Sequence[bytes], types: Any, names: Collection[str] | None) -> list[int]:
    """Which lines are not JSON objects in UTF-8 as far as they are wanted, or have a wanted key twice.

    Args:
        lines: The lines.
        types: The Arrow types of the wanted keys, where they are known; ``None``: not known.
        names: The wanted features; ``None``: all.
    """
    if _are_objects(lines, types):
        return []
    broken = set(_broken_lines(lines))  # other lines may just have other types
    if names is not None:
        broken = {number for number in broken if _broken_lines(keep_keys([lines[number]], names))}
    twice = {number for number, line in enumerate(lines) if number not in broken and repeated_key(line, names)}
    return sorted(broken | twice)


def _broken_lines(lines: Sequence[bytes]) -> list[int]:
    """Which lines are not JSON objects in UTF-8. Lines are parsed together, and bisected on failure."""
    # a key that hardly any object has, so no value is parsed
    if _are_objects(lines, arrow().schema([arrow().field("\0", arrow().string())])):
        return []
    if len(lines) == 1:
        return [0]
    half = len(lines) // 2
    return [*_broken_lines(lines[:half]), *(half + number for number in _broken_lines(lines[half:]))]


def _are_objects(lines: Sequence[bytes], types: Any) -> bool:
    try:
        b"\n".join(lines).decode()
        return bool(_read_json(lines, types).num_rows == len(lines))
    except ValueError:
        return False


def _deep_line(lines: Sequence[bytes], at: int) -> BadLine:
    """The line that contains byte ``at`` of all lines."""
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    number = min(bisect_right(starts, at) - 1, len(lines) - 1)
    found = f"{TOO_DEEP}, {_show(bytes(lines[number][:SHOWN]))}"
    return BadLine(number, CorruptRecord(Where(), expected=OBJECTS, found=found))


def _read_json(lines: Sequence[bytes], types: Any, *, only_known: bool = False) -> Any:
    """Read lines with pyarrow, which gets nothing but one object a line: anything else may end the process.

    Raises:
        ValueError: They are not, or pyarrow refuses them; with ``only_known``, also for a key that is not among the types.
    """
    joined = b"\n".join(lines)
    if not are_objects(joined):
        raise ValueError(OBJECTS)
    reader = require("pyarrow.json", extra="arrow")
    behaviour = "infer" if types is None else "error" if only_known else "ignore"
    if types is not None and not len(types):  # With no columns, pyarrow would return no rows either.
        types, behaviour = None, "infer"
    table = reader.read_json(
        io.BytesIO(joined),
        read_options=reader.ReadOptions(use_threads=False, block_size=len(joined) + 1),
        parse_options=reader.ParseOptions(explicit_schema=types, unexpected_field_behavior=behaviour),
    )
    if only_known and types is None and table.num_columns:
        raise ValueError("keys, where none were expected")
    return table


def _bad_line(lines: Sequence[bytes], types: Any, error: Exception | None, *, is_given: bool) -> BadLine:
    """Find the bad line, and what is wrong with it."""
    for number, line in enumerate(lines):
        fault: Exception | None = damage_of(bytes(line).strip())
        if isinstance(fault, DataError):
            return BadLine(number, fault)
        fault = _fault_of([line], types)
        if fault is not None and str(fault) == OBJECTS:  # such as a byte order mark before it
            return BadLine(number, CorruptRecord(Where(), expected=OBJECTS, found=_show(bytes(line))))
        if fault is not None:
            return BadLine(number, _repeated_or_mismatch(types, fault, is_given=is_given))
    # Every line is valid by itself, so two of them differ in a type.
    for stop in range(1, len(lines) + 1):
        fault = _fault_of(lines[:stop], types)
        if fault is not None:
            return BadLine(stop - 1, _mismatch(types, fault, is_given=is_given))
    return BadLine(0, _mismatch(types, error, is_given=is_given))


def damage_of(text: bytes) -> DataError | None:
    """What makes a line another thing than a JSON object in Unicode."""
    try:
        value = load_json(text)
    except UnicodeDecodeError as fault:
        return _not_utf8(text, fault)
    except ValueError as fault:
        return CorruptRecord(Where(), expected=OBJECTS, found=_show(text), hint=f"({fault})")
    if not isinstance(value, dict):
        return CorruptRecord(Where(), expected=OBJECTS, found=_show(text), hint=ARRAY_HINT * isinstance(value, list))
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as fault:
        half = f"\\u{ord(fault.object[fault.start]):04x}, half a surrogate pair"
        return CorruptRecord(Where(), expected="Unicode text", found=half, hint=SKIPS)
    return None


def _fault_of(lines: Sequence[bytes], types: Any) -> Exception | None:
    try:
        _read_json(lines, types)
    except ValueError as fault:
        return fault
    return None


def _repeated_or_mismatch(types: Any, fault: Exception, *, is_given: bool) -> DataError:
    if "was specified twice" in str(fault):
        key = str(fault).partition("Column(/")[2].partition(") was")[0].replace("/[]", "")
        return CorruptRecord(Where(), expected="each key once", found=f"the key {key!r} twice", hint=SKIPS)
    return _mismatch(types, fault, is_given=is_given)


def _mismatch(types: Any, error: Exception | None, *, is_given: bool) -> SchemaMismatch:
    return SchemaMismatch(
        Where(),
        expected="the types of the rows before" if types is None else ", ".join(f"{f.name}: {f.type}" for f in types),
        found=str(error).splitlines()[0][:200] if error is not None else "other rows than lines",
        hint="" if is_given else "Pass the types of the columns that you want: schema={...}.",
    )


def _show(text: bytes) -> str:
    return repr(text[:SHOWN].decode("utf-8", "replace")) + ("..." if len(text) > SHOWN else "")
