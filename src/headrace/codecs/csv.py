"""CSV rows as examples: one feature per column, with types inferred from the values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NoReturn

import numpy as np

from headrace import _native
from headrace.codecs.values import all_faults, fit_dtype
from headrace.contracts.csv import CsvDialect
from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema
from headrace.contracts.strings import Strings
from headrace.contracts.values import Batch, Example, Indices
from headrace.errors import (
    CorruptRecord,
    DataError,
    NoSuchFeature,
    SchemaMismatch,
    UnsupportedData,
    Where,
    did_you_mean,
)
from headrace.io.encodings import encoding_hint
from headrace.io.system import usable_cores

__all__ = ["CsvCodec", "Facts", "examine_head", "examine_rows", "has_columns", "infer_csv"]


INT64, UINT64, FLOAT64, FLOAT32, BOOL, TEXT, EXACT_FLOAT64 = 1, 2, 3, 4, 5, 6, 7
WIRES = {INT64: "int64", UINT64: "uint64", FLOAT64: "float64", FLOAT32: "float32", BOOL: "bool"}
AS_DECODED = frozenset(WIRES.values()) | {
    "str",
    "bytes",
}  # types of columns that native code returns in their final form
KINDS = {
    INT64: "an integer",
    UINT64: "an integer",
    FLOAT64: "a number",
    FLOAT32: "a number",
    BOOL: "true or false",
}
SHOWN = 60
NEAR = 50  # rows sampled for an encoding hint
LINE = b"\n"


class CsvCodec:
    """Decodes rows to examples, a batch at a time in native code.

    Numbers may have blanks around them; text keeps its blanks. A missing number becomes the feature's default, else NaN for
    floats, else an error. Missing text is kept as written unless the feature has a default.

    A feature of fixed shape is read from one column per value: ``v_0``, ``v_1``, ... in C order, or ``v0``, ``v1``, ...

    Args:
        schema: The columns to decode, by name, and their types.
        dialect: The dialect of the rows.
        inferred: Features with inferred types: in their ``float64`` columns, an integer that would be rounded is an error.
            If the caller gave the type, it is rounded.

    Raises:
        NoSuchFeature: No column has this name.
        UnsupportedData: A text column cannot have this type.
    """

    name = "csv"

    def __init__(self, schema: Schema, dialect: CsvDialect, *, inferred: Collection[str] = ()) -> None:
        self.schema = schema
        self.inferred: frozenset[str] = frozenset(inferred)
        self.dialect = dialect
        numbers = {name: number for number, name in enumerate(dialect.names)}
        self._columns = [
            (numbers[column], column, feature, value)
            for name, feature in schema.items()
            for value, column in enumerate(_columns_of(name, feature, numbers))
        ]
        specs = []
        for number, column, feature, value in self._columns:
            kind = _kind(column, feature)
            default = _default(feature, kind, value, dialect.encoding)
            specs.append((number, EXACT_FLOAT64 if kind == FLOAT64 and column in self.inferred else kind, default))
        encodings = ["" if feature.dtype == "bytes" else dialect.encoding for _, _, feature, _ in self._columns]
        self._as_decoded = [feature.dtype in AS_DECODED for _, _, feature, _ in self._columns]
        self._plain = list(schema) if all(self._as_decoded) and all(f.shape == () for f in schema.values()) else None
        self._decoder = _native.CsvDecoder(dialect.marks, dialect.width, list(dialect.missing), specs, encodings)

    def decode_batch(self, spans: _native.Spans) -> Batch:
        """Decode ``n`` rows.

        Returns:
            One column per feature of the schema: ``ndarray (n,)``, or :class:`~headrace.Strings` for ``str`` and ``bytes``.

        Raises:
            CorruptRecord: A row has more or fewer fields than there are columns, broken quotes, or bytes that are not text.
            SchemaMismatch: A value does not have its column's type.

        ``where.record`` of the error is the position in ``spans``; ``where.offset`` counts from the start of the row.
        """
        try:
            parts = self._decoder.decode(spans, Strings)
        except _native.FormatError as error:
            if error.record > 0:
                # Raises earlier if a check outside native code fails first.
                self.decode_batch(spans.part(0, error.record))
            raise self._as_error(error, spans) from error
        return self._features(parts, spans)

    def decode_rows(self, stretches: list[tuple[Any, int, int]], rows: int) -> Batch | None:
        """Decode rows that follow each other, for less than :meth:`decode_batch`.

        Args:
            stretches: Buffers; in each, the start of the first row and the end of the last one, or the start of the one after it.
            rows: How many rows they hold together.

        Returns:
            The same batch; ``None`` if a row needs the slow path, for its values or its error.
        """
        parts = self._decoder.decode_rows(stretches, rows, Strings)
        if parts is None:
            return None
        try:
            return self._features(parts, rows)
        except DataError:
            return None

    def _features(self, parts: list[Any], spans: _native.Spans | int) -> Batch:
        """What native code decoded as features. ``spans`` are the rows, or how many there are."""
        if self._plain is not None and int not in map(type, parts):
            return dict(zip(self._plain, parts, strict=True))
        columns: list[Any] = []
        faults: list[DataError] = []
        for (number, name, feature, _), part, is_done in zip(self._columns, parts, self._as_decoded, strict=True):
            if is_done and type(part) is not int:
                columns.append(part)
                continue
            try:
                columns.append(self._column(number, name, feature, part, spans))
            except DataError as fault:
                faults.append(fault)
        if faults:
            raise min(faults, key=lambda fault: fault.where.record or 0)
        return self._batch(iter(columns), spans if isinstance(spans, int) else len(spans))

    def _batch(self, columns: Iterator[Any], n: int) -> Batch:
        """Columns as features, with the columns of a shape combined."""
        batch: Batch = {}
        for name, feature in self.schema.items():
            if feature.shape == ():
                batch[name] = next(columns)
                continue
            shape = (n, *(length or 0 for length in feature.shape))
            if feature.is_text:
                by_column = Strings.concatenate([next(columns) for _ in range(feature.count)])
                batch[name] = by_column[np.arange(n * feature.count).reshape(feature.count, n).T.reshape(-1)].reshape(
                    *shape
                )
                continue
            whole = np.empty((n, feature.count), feature.numpy_dtype)
            for value in range(feature.count):
                whole[:, value] = next(columns)
            batch[name] = whole.reshape(shape)
        return batch

    def _column(self, number: int, name: str, feature: Feature, part: Any, spans: _native.Spans | int) -> Any:
        if isinstance(part, int) and not isinstance(spans, int):
            self._raise_no_text(number, name, part, spans)
        return fit_dtype(part, feature.dtype, name, per_record=1, offsets=None)

    def _raise_no_text(self, number: int, name: str, record: int, spans: _native.Spans) -> NoReturn:
        row = spans.part(record, record + 1).to_bytes()[0]
        value = _native.values_of_csv(row, self.dialect.marks)[number]
        reason, at = "bytes that are not", row.find(value)
        near = [each for each in spans.part(record, min(len(spans), record + NEAR)).to_bytes() if not each.isascii()]
        try:
            value.decode(self.dialect.encoding)
        except UnicodeDecodeError as error:
            reason, at = f"the byte {value[error.start]:#04x} in {_shorten(value)}", at + error.start
        raise CorruptRecord(
            Where(record=record, feature=name, offset=max(at, 0)),
            expected=f"text in {self.dialect.encoding}",
            found=reason,
            hint=f"{encoding_hint(LINE.join(near))} Or give the column the type 'bytes'.",
        )

    def _as_error(self, error: _native.FormatError, spans: _native.Spans) -> DataError:
        place = Where(record=error.record, offset=int(error.offset))
        if error.fault == "wrong_count":
            hint = self.dialect.width_hint(spans, error.record, error.expected)
            return CorruptRecord(place, expected=f"{error.expected} fields", found=f"{error.found}", hint=hint)
        if error.fault not in ("wrong_kind", "missing"):
            return CorruptRecord(place, expected="a row of CSV", found="broken quotes")
        number, name, feature, _ = self._columns[error.feature]
        row = spans.part(error.record, error.record + 1).to_bytes()[0]
        value = _native.values_of_csv(row, self.dialect.marks)[number]
        place = place.at(feature=name)
        if error.fault == "missing":
            hint = f"Give the column a default, types={{{name!r}: hr.Feature({feature.dtype!r}, default=0)}}, or read floats."
            return SchemaMismatch(place, expected="a value", found=f"none, {_shorten(value)}", hint=hint)
        rounded = error.expected == FLOAT64 and name in self.inferred and value.strip().lstrip(b"+-").isdigit()
        kind = "an integer that float64 holds exactly" if rounded else KINDS[error.expected]
        return SchemaMismatch(
            place,
            expected=f"{kind}, as the column is {feature.dtype}",
            found=_shorten(value),
            hint=f"If the value is right, open with format=hr.CSV(types={{{name!r}: 'str'}}), or another type.",
        )

    def decode(self, payload: Any) -> Example:
        """One row as an example."""
        batch = self.decode_batch(_native.spans_of_buffers([payload]))
        return {name: column[0] for name, column in batch.items()}

    def narrowed(self, names: tuple[str, ...]) -> CsvCodec:
        """A codec for only these columns."""
        return CsvCodec(self.schema.select(names), self.dialect, inferred=self.inferred)

    def faults_in(self, spans: _native.Spans) -> list[DataError]:
        """The errors in these rows, at most one per row. ``where.record`` is the position of the row."""
        return all_faults(self.decode_batch, spans)

    def __getstate__(self) -> dict[str, Any]:
        return {"schema": self.schema, "dialect": self.dialect, "inferred": self.inferred}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["schema"], state["dialect"], inferred=state.get("inferred", ()))  # type: ignore[misc]

    def __repr__(self) -> str:
        return f"CsvCodec({list(self.schema)})"


def has_columns(schema: Schema, names: Iterable[str]) -> bool:
    """Whether all features of a schema, which has some, can be read from columns of these names."""
    numbers = {name: number for number, name in enumerate(names)}
    try:
        return bool([_columns_of(name, feature, numbers) for name, feature in schema.items()])
    except NoSuchFeature:
        return False


def _columns_of(name: str, feature: Feature, names: Mapping[str, int]) -> list[str]:
    """The columns that a feature is read from.

    Args:
        names: All columns by name, in order. A mapping, because a table of ten thousand columns would search a list too often.

    Raises:
        NoSuchFeature: There are no such columns.
    """
    if not feature.shape and name in names:
        return [name]
    is_list = feature.shape and feature.is_fixed and feature.count <= len(names)
    values = range(feature.count)
    choices = [[f"{name}{mark}{value}" for value in values] for mark in ("_", "")] if is_list else []
    for columns in choices or [[name]]:
        if all(column in names for column in columns):
            return columns
    first = choices[0][0] if choices and choices[0] else name
    missing = f"{name!r}, nor {first!r}, ..." if feature.shape else repr(name)
    hint = did_you_mean(name, list(names))
    raise NoSuchFeature(Where(), expected=f"one of the features {list(names)}", found=missing, hint=hint)


def _kind(name: str, feature: Feature) -> int:
    """The native type code of a column.

    Raises:
        UnsupportedData: A CSV field cannot hold such values.
    """
    if feature.is_fixed and not feature.sparse:
        if feature.is_text:
            return TEXT
        dtype = np.dtype(feature.dtype)
        exact = {"uint64": UINT64, "float64": FLOAT64, "float32": FLOAT32, "float16": FLOAT64, "bool": BOOL}
        if feature.dtype in exact:
            return exact[feature.dtype]
        if dtype.kind in "iu":
            return INT64
    raise UnsupportedData(
        Where(feature=name),
        expected="one number, truth value or text, as in every field",
        found=repr(feature),
        hint="Dates stay text: read 'str', and convert them with source.map or map_batch.",
    )


def _default(feature: Feature, kind: int, value: int, encoding: str) -> bytes | None:
    if feature.default is None:
        return None
    given = np.asarray(feature.default, object if feature.is_text else None)
    default = given.item() if given.ndim == 0 else given.reshape(-1)[value]
    if kind == TEXT:
        return default if isinstance(default, bytes) else str(default).encode(encoding)
    return np.asarray(default).astype(WIRES[kind]).tobytes()


def _shorten(value: bytes) -> str:
    text = value.decode("utf-8", "backslashreplace")
    return repr(text if len(text) <= SHOWN else text[:SHOWN] + "...")


Facts = dict[str, int]
"""How many values of a column are integers, texts, ..."""


def examine_rows(buffer: Any, starts: Indices, end: int, dialect: CsvDialect) -> list[Facts]:
    """What the columns of some rows look like, which follow each other and end at ``end``."""
    width, missing = dialect.width, list(dialect.missing)
    return _native.examine_csv_rows(
        buffer, starts, end, dialect.marks, width, missing, until_text=True, threads=usable_cores()
    )


def examine_head(
    buffer: Any, begin: int, runs: tuple[int, int, int], dialect: CsvDialect
) -> tuple[list[Facts], int] | None:
    """The same for the rows that a scan in runs from ``begin`` on would find, and where they end.

    Args:
        buffer: The file.
        begin: Where the first row begins.
        runs: The bytes of the first run, of the largest ones, and of all together.
        dialect: The dialect of the rows.

    Returns:
        ``None`` if only a scan can tell where rows begin.
    """
    width, missing = dialect.width, list(dialect.missing)
    return _native.examine_csv_head(
        buffer, begin, runs, dialect.marks, width, missing, until_text=True, threads=usable_cores()
    )


def infer_csv(parts: Iterable[list[Facts]], dialect: CsvDialect) -> Schema:
    """Infer a type for each column that holds all its values.

    A column is numeric only if that loses nothing. Numbers with leading zeros (``007``) are text, and so are integers
    beyond 64 bits. Beside floats or missing values, integers that float64 cannot hold make a column text too.

    ===========================================================  ===========
    values                                                       type
    ===========================================================  ===========
    integers                                                     ``int64``, or ``uint64`` if needed
    numbers, or integers and missing values                      ``float64``, or the dialect's ``floats``
    ``true`` and ``false``                                       ``bool``
    anything else, or nothing at all                             ``str``
    ===========================================================  ===========

    Args:
        parts: What the columns of some rows look like, part by part.
        dialect: The dialect of the rows. Its ``types`` take precedence.
    """
    every = iter(parts)
    totals: list[Facts] = next(every, []) or [{} for _ in dialect.names]
    for found in every:
        for total, facts in zip(totals, found, strict=True):
            for kind, count in facts.items():
                total[kind] = total.get(kind, 0) + count
    given = dialect.types or {}
    names = Schema(dict.fromkeys(dialect.names, Feature("str")))
    for name in given:
        _ = names[name]  # raises for a type of a missing column, which is a typo
    alike: dict[str, Feature] = {}  # Wide tables have few types, and a feature takes microseconds to make.
    features: dict[str, Feature] = {}
    for name, total in zip(dialect.names, totals, strict=True):
        if name in given:
            features[name] = given[name]
            continue
        dtype = _dtype(total, dialect.floats, empty_counts="" in dialect.missing)
        if dtype not in alike:
            alike[dtype] = Feature(dtype)
        features[name] = alike[dtype]
    return Schema(features)


def _dtype(facts: Facts, floats: str, *, empty_counts: bool) -> str:
    """The narrowest type that holds all values."""
    if not facts:
        return "str"
    whole, empty = facts["whole"] + facts["positive"] + facts["huge"], facts["empty"]
    numbers, missing = whole + facts["real"], facts["missing"] + empty
    if facts["text"] or facts["padded"] or (empty and not empty_counts):
        return "str"
    if facts["boolean"]:
        return "str" if numbers or missing else "bool"
    if not numbers:
        return floats if facts["missing"] else "str"
    if facts["real"] == 0 and not missing:
        return _whole(facts)
    return "str" if whole and facts["wide"] else floats


def _whole(facts: Facts) -> str:
    if facts["huge"] or (facts["positive"] and facts["negative"]):
        return "str"
    return "uint64" if facts["positive"] else "int64"
