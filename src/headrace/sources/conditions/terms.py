"""What a condition means: which rows of a batch its parts hold for."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from headrace._numbers import MOST_EXACT
from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema, find_present, take_present
from headrace.contracts.strings import Strings
from headrace.contracts.values import Batch
from headrace.errors import did_you_mean
from headrace.sources.matrices import compare_times, count_characters, flatten

__all__ = [
    "COMPARISONS",
    "FUNCTIONS",
    "Comparison",
    "ConditionError",
    "FeatureValues",
    "Flat",
    "Literal",
    "Mask",
    "Rows",
    "Summarised",
    "Term",
    "Value",
    "any_of",
    "is_searched",
    "widen_floats",
]

Mask = npt.NDArray[np.bool_]

COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
FLOATS = (np.float16, np.float32, np.float64)
A_DAY = np.timedelta64(1, "D")
ZONE = re.compile(r"(?<=\d)(?:Z|(?P<sign>[+-])(?P<hours>\d\d):?(?P<minutes>\d\d)?)$")
"""Behind a time of day: that of Greenwich, or how far it is from it."""
COMPACT = re.compile(r"(\d{4})(\d\d)(\d\d)")
FUNCTIONS = ("length", "min", "max", "mean")


class ConditionError(ValueError):
    """The text of a condition cannot be read, or does not fit the features. The message shows the place."""


def is_searched(feature: Feature) -> bool:
    """Whether a text alone is searched in a feature: text, bytes that are no images, and labels with names."""
    is_text = feature.is_text or feature.numpy_dtype.kind in "US"
    return (is_text and feature.encoding is None) or feature.names is not None


class Term(Protocol):
    """A part of a condition: which rows of a batch it holds for."""

    def mask(self, rows: Rows, /) -> Mask: ...


class Value(Protocol):
    """One side of a comparison: its values in each row."""

    def flat(self, rows: Rows, /) -> Flat: ...


@dataclass(frozen=True, slots=True)
class Rows:
    """A batch, with what its features are."""

    batch: Batch
    count: int
    schema: Schema | None


@dataclass(frozen=True, slots=True)
class Flat:
    """Values of all rows end to end, and the row that each belongs to. ``row`` is ``None`` where there is one value for each row.

    ``is_single``: No row has several values; those without ``row`` have one.
    """

    values: Any
    row: npt.NDArray[np.int64] | None
    names: tuple[str, ...] | None = None
    is_single: bool = False

    @property
    def is_unknown(self) -> bool:
        """Whether all values are missing, and of what kind they would be is not known: nothing compares with them."""
        return isinstance(self.values, np.ndarray) and self.values.dtype == object


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, a text, true or false."""

    value: Any

    def flat(self, _: Rows, /) -> Flat:
        return Flat(self.value, None)


@dataclass(frozen=True, slots=True)
class FeatureValues:
    """The values of a feature, or those at one position of it."""

    name: str
    position: int | None = None

    def flat(self, rows: Rows, /) -> Flat:
        feature = None if rows.schema is None else rows.schema[self.name]
        names = None if feature is None else feature.names
        found = _flatten_feature(self.name, rows)
        values, row = found.values, found.row
        if self.position is None:
            return Flat(values, row, names, found.is_single)
        if row is None or (found.is_single and not found.is_unknown):
            raise ConditionError(
                f"{self.name!r} has one value in each example, so there is no {self.name}[{self.position}]"
            )
        if hasattr(rows.batch[self.name], "tocsr"):
            return self._at_sparse(rows)
        starts = np.searchsorted(row, np.arange(rows.count))
        at = starts + self.position
        exists = at < np.searchsorted(row, np.arange(rows.count), side="right")
        return Flat(values[at[exists]], np.flatnonzero(exists), names, is_single=True)

    def _at_sparse(self, rows: Rows) -> Flat:
        """The values in one column of a matrix: those that are not stored are 0."""
        matrix = rows.batch[self.name].tocsr()
        stored, row = flatten(matrix)
        is_here = matrix.indices == self.position
        width = _sparse_width(self.name, rows)
        exists = width is None or (self.position or 0) < width
        values = np.zeros(rows.count if exists else 0, stored.dtype)
        if exists and row is not None:
            values[row[is_here]] = stored[is_here]
        return Flat(values, np.arange(len(values)), is_single=True)


@dataclass(frozen=True, slots=True)
class Summarised:
    """``length(x)``, ``min(x)``, ``max(x)`` or ``mean(x)``. Without values there is no minimum, maximum or mean: nothing compares to it."""

    function: str
    name: str

    def flat(self, rows: Rows, /) -> Flat:
        found = _flatten_feature(self.name, rows)
        values, row = found.values, found.row
        if self.function == "length":
            return Flat(self._lengths(found, rows), None)
        if not found.is_unknown and (isinstance(values, Strings) or values.dtype.kind not in "biuf"):
            raise ConditionError(f"{self.function}({self.name}) needs numbers; {self.name!r} has none")
        if row is None or found.is_single:
            return found
        if hasattr(rows.batch[self.name], "tocsr"):
            return self._of_sparse(rows, values, row)
        counts = np.bincount(row, minlength=rows.count)
        full = np.flatnonzero(counts)
        starts = np.searchsorted(row, full)
        if not len(full):
            return Flat(values[:0], full, is_single=True)
        if self.function == "mean":
            return Flat(np.add.reduceat(values.astype(np.float64), starts) / counts[full], full, is_single=True)
        reduce = np.minimum if self.function == "min" else np.maximum
        return Flat(reduce.reduceat(values, starts), full, is_single=True)

    def _of_sparse(self, rows: Rows, values: Any, row: npt.NDArray[np.int64]) -> Flat:
        """The values that are not stored are 0, and count."""
        width = _sparse_width(self.name, rows)
        if width is None:
            raise ConditionError(
                f"{self.function}({self.name}) needs a length, because values that are not stored are 0; {self.name!r} has none"
            )
        if self.function == "mean":
            totals = np.bincount(row, weights=values, minlength=rows.count)
            return Flat(totals / width, None) if width else Flat(totals[:0], np.arange(0), is_single=True)
        counts = np.bincount(row, minlength=rows.count)
        full = np.flatnonzero(counts)
        reduce = np.minimum if self.function == "min" else np.maximum
        found = np.zeros(rows.count, values.dtype)
        if len(full):
            found[full] = reduce.reduceat(values, np.searchsorted(row, full))
        found = np.where(counts < width, reduce(found, found.dtype.type(0)), found)
        return Flat(found, None) if width else Flat(found[:0], np.arange(0), is_single=True)

    def _lengths(self, found: Flat, rows: Rows) -> npt.NDArray[np.int64]:
        """How many values each row has, 0 where it lacks them; of a single text, how many characters; of bytes, how many bytes."""
        values, row = found.values, found.row
        if isinstance(values, Strings) and (row is None or found.is_single):
            lengths = np.zeros(rows.count, np.int64)
            lengths[slice(None) if row is None else row] = (
                count_characters(values) if values.is_text else values.lengths
            )
            return lengths
        return np.ones(rows.count, np.int64) if row is None else np.bincount(row, minlength=rows.count)


def _flatten_feature(name: str, rows: Rows) -> Flat:
    feature = None if rows.schema is None else rows.schema[name]
    if feature is not None and feature.dtype == "examples":
        raise ConditionError(f"{name!r} holds examples, which a condition cannot compare: filter source.steps()")
    column = rows.batch[name]
    present = find_present(column)
    if present is None:
        return Flat(*flatten(column))
    if not len(present) and feature is None:
        return Flat(np.zeros(0, object), present, is_single=True)
    values, row = flatten(take_present(column, present, None if feature is None else feature.numpy_dtype))
    is_single = row is None and (feature is None or not feature.shape)
    return Flat(values, present if row is None else present[row], is_single=is_single)


def _sparse_width(name: str, rows: Rows) -> int | None:
    """The length of a sparse feature; ``None`` if it varies. A batch may be narrower."""
    return int(rows.batch[name].shape[1]) if rows.schema is None else rows.schema[name].shape[0]


@dataclass(frozen=True, slots=True)
class Comparison:
    """``left operator right``. Of several values, any may satisfy it."""

    left: Value
    sign: str
    right: Value

    def mask(self, rows: Rows, /) -> Mask:
        left, right = self.left.flat(rows), self.right.flat(rows)
        if left.is_unknown or right.is_unknown:
            return np.zeros(rows.count, bool)
        left_values, right_values = _comparable(left, right)
        row = right.row if left.row is None else left.row
        if left.row is not None and right.row is not None:
            row, left_places, right_places = _join_rows(left, right, rows.count)
            left_values, right_values = left_values[left_places], right_values[right_places]
        elif left.row is not None and _is_column(right):
            right_values = right_values[left.row]
        elif right.row is not None and _is_column(left):
            left_values = left_values[right.row]
        with np.errstate(invalid="ignore"):
            held = _compare(self.sign, left_values, right_values)
        return any_of(held, row, rows.count)


def _join_rows(left: Flat, right: Flat, count: int) -> tuple[npt.NDArray[np.int64], Any, Any]:
    """The rows in which both sides have values: for each pair that is compared its row, and its places in both sides."""
    if not (left.is_single or right.is_single):
        raise ConditionError("only one side of a comparison may have several values in an example")
    if not right.is_single:
        row, right_places, left_places = _join_rows(right, left, count)
        return row, left_places, right_places
    assert left.row is not None
    assert right.row is not None
    places = np.full(count, -1)
    places[right.row] = np.arange(len(right.row))
    has_both = np.flatnonzero(places[left.row] >= 0)
    row = left.row[has_both]
    return row, has_both, places[row]


def _is_column(flat: Flat) -> bool:
    return flat.row is None and np.ndim(flat.values) == 1


def any_of(held: Any, row: npt.NDArray[np.int64] | None, count: int) -> Mask:
    """The rows in which any value is held to fit."""
    if row is None:
        return np.broadcast_to(np.asarray(held, bool), (count,)).copy()
    found = np.zeros(count, bool)
    found[row[np.asarray(np.broadcast_to(held, row.shape), bool)]] = True
    return found


def _comparable(left: Flat, right: Flat) -> tuple[Any, Any]:
    """Both sides as values that compare: text with text, numbers with numbers, labels with their names."""
    left_text, right_text = _is_text(left.values), _is_text(right.values)
    if left_text == right_text:
        return (_text_values(left.values), _text_values(right.values)) if left_text else (left.values, right.values)
    number, text, swapped = (right, left, True) if left_text else (left, right, False)
    if number.names is not None and isinstance(text.values, str):
        if text.values not in number.names:
            hint = did_you_mean(text.values, number.names)
            raise ConditionError(f"no value is named {text.values!r}. {hint}".rstrip())
        as_number = number.names.index(text.values)
        return (as_number, number.values) if swapped else (number.values, as_number)
    if getattr(np.asarray(number.values).dtype, "kind", "") in "mM" and isinstance(text.values, str):
        moment = _parse_moment(text.values, np.asarray(number.values).dtype)
        return (moment, number.values) if swapped else (number.values, moment)
    raise ConditionError(
        "a text is compared with a number: quotes make a text, no quotes a number or the name of a feature"
    )


def _parse_moment(text: str, dtype: np.dtype[Any]) -> np.datetime64:
    if dtype.kind == "m":
        raise ConditionError(f"a duration is compared with a whole number of its unit, {dtype}, not with {text!r}")
    local, offset = COMPACT.sub(r"\1-\2-\3", text) if COMPACT.fullmatch(text) else text, np.timedelta64(0, "m")
    zone = ZONE.search(text) if re.search(r"[T ]\d\d", text) else None
    if zone is not None:
        minutes = 60 * int(zone["hours"] or 0) + int(zone["minutes"] or 0)
        local, offset = text[: zone.start()], np.timedelta64(-minutes if zone["sign"] == "-" else minutes, "m")
    # NumPy reads longer numbers as years, "now" as this second, and another zone with a warning.
    if not re.match(r"[+-]?\d+-|\d{1,4}$|NaT$|$", local) or re.search(r"[T ].*[Z+-]", local):
        raise ConditionError(f"{text!r} is not a date, as in '2026-01-31' or '2026-01-31T12:00:00Z'")
    try:
        moment = np.datetime64(local)
    except ValueError as error:
        raise ConditionError(f"{text!r} is not a date: {error}") from None
    seconds, _, fraction = local.partition(".")
    # NumPy's fractions overflow without an error, and nothing compares with those of 16 digits or more.
    is_far = len(fraction) > 15 or abs(moment.astype("M8[s]") - np.datetime64(seconds, "s")) > A_DAY
    if fraction and is_far:
        raise ConditionError(f"{text!r} has more digits than a time so far from 1970 can have")
    if np.isnat(moment):
        raise ConditionError(f"{text!r} is not a date, as in '2026-01-31' or '2026-01-31T12:00:00'")
    return moment - offset if offset else moment


def _compare(sign: str, left: Any, right: Any) -> Any:
    kinds = {getattr(getattr(each, "dtype", None), "kind", "") for each in (left, right)}
    try:
        if "M" in kinds or kinds == {"m"}:
            return COMPARISONS[sign](compare_times(np.asarray(left), np.asarray(right)), 0)
        return COMPARISONS[sign](widen_floats(left, right), widen_floats(right, left))
    except (TypeError, OverflowError) as error:
        types = " and ".join(str(getattr(each, "dtype", type(each).__name__)) for each in (left, right))
        is_fraction = "m" in kinds and kinds & {"", "f"}
        why = "a duration is compared with whole numbers of its unit, or another duration" if is_fraction else error
        raise ConditionError(f"values of {types} cannot be compared: {why}") from None


def widen_floats(values: Any, other: Any) -> Any:
    """Values as float64 where a number that they are compared with would become another one in a smaller float.

    Beside integers that float64 may round they are Python's floats. Fractions are rounded: 0.1 is the 0.1 of the feature.
    """
    if getattr(values, "dtype", None) not in FLOATS or not isinstance(other, (int, float, np.ndarray)):
        return values
    if isinstance(other, np.ndarray):
        is_large = other.dtype.kind in "iu" and ((other > MOST_EXACT) | (other < -MOST_EXACT)).any()
        return values.astype(object) if is_large else values
    if isinstance(other, int) and abs(other) > MOST_EXACT:
        return values.astype(object)
    with np.errstate(all="ignore"):
        rounded = float(values.dtype.type(other))
    is_other = isinstance(other, int) or rounded == 0 or np.isinf(rounded)
    return values.astype(np.float64) if is_other and rounded != other else values


def _is_text(values: Any) -> bool:
    return isinstance(values, (str, Strings))


def _text_values(values: Any) -> Any:
    """As bytes: text orders in UTF-8 as its characters do, and bytes that are no text stay different."""
    if isinstance(values, str):
        return np.array(values.encode("utf-8", "surrogatepass"), object)
    return np.array(list(Strings.trust(values.data, values.offsets, is_text=False)), object)
