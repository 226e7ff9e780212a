"""Feature names to feature types."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace import _hooks
from headrace._arguments import check_names
from headrace.contracts.feature import Feature
from headrace.contracts.strings import Strings
from headrace.contracts.values import Ragged
from headrace.errors import NoSuchFeature, SchemaMismatch, Where, did_you_mean

__all__ = [
    "Schema",
    "any_width",
    "check_class_names",
    "find_present",
    "join_even",
    "join_present",
    "take_present",
]

SHOWN = 8
"""Features that a summary names."""
SHOWN_CHARACTERS = 60
SHOWN_CLASSES = 200
"""Characters of a list of class names in a message."""
MISSING = "No format holds missing values: put others in their place, with source.map(...)."


class Schema(Mapping[str, Feature]):
    """The features of an example: names to :class:`Feature`, in order.

    Immutable, hashable, prints as a table, round-trips as JSON.

    >>> print(Schema({"label": Feature("int64"), "image": Feature("float32", (784,))}))
    feature  dtype    shape
    label    int64    ()
    image    float32  (784,)
    """

    __slots__ = ("_features",)

    def __init__(self, features: Mapping[str, Feature]) -> None:
        given: Any = features
        if not hasattr(given, "items"):
            hint = " Schema.from_json reads JSON text." if isinstance(given, str) else ""
            raise TypeError(f"a schema is {{name: Feature(...)}}, got {type(given).__name__} {given!r:.60}.{hint}")
        for name, feature in features.items():
            if not (isinstance(name, str) and isinstance(feature, Feature)):  # type: ignore[redundant-expr]
                raise TypeError(f"a schema maps str to Feature, got {name!r}: {feature!r}")
        self._features = dict(features)

    def __getitem__(self, name: str) -> Feature:
        try:
            return self._features[name]
        except KeyError:
            raise NoSuchFeature(
                Where(),
                expected=f"one of the features {list(self._features)}",
                found=repr(name),
                hint=did_you_mean(name, self._features),
            ) from None

    def __contains__(self, name: object) -> bool:
        return name in self._features

    def __iter__(self) -> Iterator[str]:
        return iter(self._features)

    def __len__(self) -> int:
        return len(self._features)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Schema) and list(self.items()) == list(other.items()))

    def __hash__(self) -> int:
        return hash(tuple(self.items()))

    def select(self, names: tuple[str, ...] | list[str]) -> Schema:
        """The schema of only these features, in this order.

        Raises:
            NoSuchFeature: a name is not in the schema.
        """
        check_names(names, "names")
        return Schema({name: self[name] for name in names})

    def summary(self, most: int = SHOWN) -> str:
        """The features in one line, at most ``most`` of them, with characters that cannot be printed escaped.

        >>> Schema({"label": Feature("int64"), "image": Feature("float32", (784,))}).summary()
        'label int64, image float32 (784,)'
        """
        shown = [_in_few_words(name, feature) for name, feature in islice(self._features.items(), most)]
        rest = len(self) - len(shown)
        return ", ".join(shown) + (f" and {rest} more" if rest else "")

    def to_json(self) -> str:
        """JSON text that :meth:`from_json` reads back."""
        return json.dumps({"features": {name: feature.to_json() for name, feature in self.items()}}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Schema:
        """The schema that :meth:`to_json` wrote.

        Raises:
            ValueError: The text is something else.
        """
        try:
            return cls({name: Feature.from_json(value) for name, value in json.loads(text)["features"].items()})
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError, RecursionError) as error:
            raise ValueError(f"this is not the JSON of a schema: {type(error).__name__}: {error}") from error

    @classmethod
    def infer(cls, records: Any, *, most: int | None = 256) -> Schema:
        """Infer the schema of records.

        Args:
            records: A path (as for :func:`headrace.open`), the result of :func:`headrace.records`, or payloads as ``bytes``.
            most: The number of records to examine; ``None``: all.

        Raises:
            CorruptRecord: A record is damaged.
            SchemaMismatch: A feature holds bytes in some records and numbers in others.
        """
        found: Schema = _hooks.find_schema(records, most)
        return found

    def _repr_html_(self) -> str | None:
        return _hooks.to_html(self)

    def __repr__(self) -> str:
        return f"Schema({self._features!r})"

    def __str__(self) -> str:
        rows = [("feature", "dtype", "shape"), *((name, _kind(f), _shape(f)) for name, f in self.items())]
        widths = [max(len(row[column]) for row in rows) for column in range(2)]
        return "\n".join(f"{n:<{widths[0]}}  {d:<{widths[1]}}  {s}" for n, d, s in rows)


def _in_few_words(name: str, feature: Feature) -> str:
    text = name if name.isprintable() and len(name) <= SHOWN_CHARACTERS else ascii(name[:SHOWN_CHARACTERS])
    return f"{text} {_kind(feature)} {feature.shape}" if feature.shape else f"{text} {_kind(feature)}"


def _kind(feature: Feature) -> str:
    if feature.encoding is not None:
        return f"{feature.dtype} ({feature.encoding})"
    if feature.names is not None:
        return f"{feature.dtype} ({len(feature.names)} names)"
    return f"{feature.dtype} (sparse)" if feature.sparse else feature.dtype


def _shape(feature: Feature) -> Any:
    text = str(feature.shape) if feature.keys is None else f"{feature.shape} from {', '.join(feature.keys.keys)}"
    return text if feature.default is None else f"{text} default {feature.default!r}"


def check_class_names(names: Sequence[str], others: Sequence[str], where: Where, place: str, hint: str) -> None:
    """Check that numbers stand for the same classes in two places.

    Args:
        names: The class names in the first place.
        others: Those in the other one.
        where: The feature, and the other place.
        place: Where the first ones are, for the message.
        hint: What to do.

    Raises:
        SchemaMismatch: They do not.
    """
    if names == others:
        return
    pairs = zip(names, others, strict=False)
    at = next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(names), len(others)))
    one, other = (repr(each[at]) if at < len(each) else "nothing" for each in (names, others))
    raise SchemaMismatch(
        where,
        expected=f"the class names {names!r:.{SHOWN_CLASSES}}, as in {place}",
        found=f"{others!r:.{SHOWN_CLASSES}}: {at} is {other}, not {one}",
        hint=hint,
    )


def join_even(column: Any, shape: tuple[int | None, ...]) -> Any:
    """Rows of one length as an array, on every axis that does not vary: lists of other libraries have no fixed length.

    Raises:
        ValueError: Rows have other lengths, or more axes.
    """
    if not isinstance(column, Ragged):
        return column
    inner = join_even(column.values, shape[1:])
    length = shape[0] if shape else 0
    if length is None:
        return column if inner is column.values else Ragged(inner, column.offsets)
    if not shape or (column.lengths != length).any() or not isinstance(inner, (np.ndarray, Strings)):
        raise ValueError("rows of another shape")
    first = int(column.offsets[0])
    return inner[first : int(column.offsets[-1])].reshape(len(column), length, *inner.shape[1:])


def any_width(schema: Schema, names: Iterable[str] | None = None) -> Schema:
    """A schema in which arrays of text (``U3``) are ``str``, and those of bytes (``S3``) ``bytes``: of any length.

    Lists of text in examples become such arrays, as wide as the longest text so far.

    Args:
        schema: The schema.
        names: Only these features.
    """
    kinds = {"U": "str", "S": "bytes"}
    wanted = schema if names is None else set(names)
    return Schema(
        {
            name: Feature(kinds[feature.numpy_dtype.kind], feature.shape)
            if name in wanted and feature.numpy_dtype.kind in kinds
            else feature
            for name, feature in schema.items()
        }
    )


def find_present(column: Any) -> npt.NDArray[np.int64] | None:
    """The rows of an object column that hold a value, ``int64 (k,)``. ``None`` if the column holds no optional values, or text without gaps."""
    if type(column) is not np.ndarray or column.dtype != object or column.ndim != 1 or not len(column):
        return None
    is_present = np.fromiter((value is not None for value in column), bool, len(column))
    is_whole = bool(is_present.all()) and not (
        isinstance(column[0], (np.generic, np.ndarray)) or hasattr(column[0], "is_text")
    )
    return None if is_whole else np.flatnonzero(is_present)


def take_present(column: npt.NDArray[Any], rows: npt.NDArray[np.int64], dtype: npt.DTypeLike | None = None) -> Any:
    """The values in these rows of a column of objects, as a column of their own; of ``dtype`` if there are none."""
    values = column[rows].tolist()
    if not values or isinstance(values[0], (str, bytes)):
        return np.array(values, dtype if not values else object)
    return np.stack(values) if len({np.shape(value) for value in values}) == 1 else values


def join_present(column: Any, name: str) -> Any:
    """A column of optional values, all of which are there, as a column of those values. Any other column as it is.

    Args:
        column: The column.
        name: Its feature, for messages.

    Raises:
        SchemaMismatch: A value is missing. ``where.record`` is its row.
    """
    present = find_present(column)
    if present is None:
        return column
    if len(present) < len(column):
        row = next(row for row, value in enumerate(column) if value is None)
        raise SchemaMismatch(Where(record=row, feature=name), expected="a value", found="None", hint=MISSING)
    values = take_present(column, present)
    is_ragged = isinstance(values, list) and all(np.shape(value)[1:] == np.shape(values[0])[1:] for value in values)
    return Ragged.from_list(values) if is_ragged else values
