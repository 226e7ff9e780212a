"""Write CSV files: examples as rows, batch by batch."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.contracts.csv import CSV, CsvDialect, Marks
from headrace.contracts.feature import Feature
from headrace.contracts.records import SPARSE_HINT, Misfit
from headrace.contracts.schema import Schema, join_even
from headrace.contracts.strings import Strings
from headrace.contracts.values import Ragged
from headrace.errors import DataError, NoSuchFeature, SchemaMismatch, UnsupportedData, Where
from headrace.formats.csv.framing import CsvFraming, preamble
from headrace.formats.csv.header import check_names, needs_quotes
from headrace.formats.framed.write import FramedWriter
from headrace.formats.table.base import refuse_misfits
from headrace.io.paths import PathLike

__all__ = ["CsvRows", "CsvSink", "CsvWriter", "misfits", "refused_misfits"]


INT64, UINT64, FLOAT64, FLOAT32, BOOL, TEXT = 1, 2, 3, 4, 5, 6
UTF8 = ("utf-8", "utf-8-sig")
SHOWN = 40
SEP_BYTES = 5  # of Excel's line sep=;
MOST_COLUMNS = 1 << 24  # of one feature, each with its own name
LOSS_HINT = (
    "Leave the feature out (columns=, source.select), or write a format that holds it: .tfrecord, .array_record."
)


class CsvRows:
    """Encodes batches as rows, in native code.

    A scalar feature is one column. A feature of fixed shape is one column per value, ``NAME_0``, ``NAME_1``, ... in C
    order. Floats are the shortest text that reads back as the same float; a missing one is ``nan``, or the first word of
    ``missing`` where that is not among them.

    Args:
        schema: The features, in column order; none in :func:`refused_misfits`.
        options: How to write the file.

    Raises:
        UnsupportedData: Two columns would have the same name, or a mark occurs in numbers.
        SchemaMismatch: ``header`` has other names than the columns.
    """

    def __init__(self, schema: Schema, options: CSV | None = None) -> None:
        self.schema = schema
        self.options: CSV = options or CSV()
        self.marks: Marks = (self.options.delimiter or ",", self.options.quote, self.options.decimal)
        _check_signs(self.marks)
        self._encoding = self.options.encoding or "utf-8"
        self.writes_names = not isinstance(self.options.header, tuple) and self.options.header is not False
        self.names: list[str] = self._columns()
        self._missing: str | None = self._find_word()
        self._own_names: dict[str, list[bytes]] = self._names_above()

    def _columns(self) -> list[str]:
        names = [column for name, feature in self.schema.items() for column in _column_names(name, feature)]
        given = self.options.header
        if isinstance(given, tuple) and list(given) != names:
            differs = [f"{a!r} for {b!r}" for a, b in zip(given, names, strict=False) if a != b]
            raise SchemaMismatch(
                Where(),
                expected="the names of the columns in header=, which says how a file without a header is read",
                found=differs[0] if differs else f"{len(given)} names for {len(names)} columns",
                hint="Rename the features before, as with source.rename, or leave header= out.",
            )
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise UnsupportedData(
                Where(feature=twice),
                expected="columns with different names",
                found=f"two {twice!r}",
                hint="Rename one.",
            )
        return names

    def _find_word(self) -> str | None:
        """What is written for NaN: a word that the same options read as that; ``None`` if there is none."""
        words = self.options.missing
        if "nan" in words or not words:
            return "nan" if words else None
        return words[0] if self.marks[1] or self._is_kept_bare(words[0]) else None

    def _is_kept_bare(self, text: str) -> bool:
        """Whether a text is read back without quotes around it. An empty line is no row."""
        has_marks = any(mark in text for mark in (self.marks[0], "\n", "\r"))
        return not has_marks and (bool(text) or len(self.names) > 1)

    def preamble(self) -> bytes:
        """The bytes before the rows: a byte order mark and a header, if requested."""
        mark = "\ufeff" if self._encoding in ("utf-8-sig", "utf-16", "utf-32") else ""
        if not self.writes_names or not self.names:
            return self._encode(mark.encode())
        texts = [self._text(name, None, "header") for name in self.names]
        check_names(self.names)
        has_numbers = any(not feature.is_text for feature in self.schema.values())
        quoted = texts if needs_quotes(self.names, self.marks, has_numbers=has_numbers) else []
        return self._encode(mark.encode() + self._quote_sep(self._laid([(TEXT, len(texts), texts, quoted)], 1)))

    def _quote_sep(self, text: bytes) -> bytes:
        """The first rows, with quotes around a first one that reads as Excel's line ``sep=;``.

        Raises:
            UnsupportedData: There is one, and no quotes are wanted.
        """
        if preamble(memoryview(text)) == 0:
            return text
        if not self.marks[1]:
            found = text[:SEP_BYTES].decode("utf-8", "replace")
            raise UnsupportedData(Where(), expected="a first row other than Excel's sep=;", found=repr(found))
        quote = self.marks[1].encode()
        return quote + text[:SEP_BYTES] + quote + text[SEP_BYTES:]

    def encode_rows(self, batch: Mapping[str, Any], n: int, *, begins: bool = False) -> bytes:
        """``n`` examples as text, with line ends.

        Args:
            batch: Columns as a source returns them.
            n: The number of rows.
            begins: Whether they are the first of a file, without a header above them.

        Raises:
            NoSuchFeature, SchemaMismatch, UnsupportedData: The columns do not match the schema, or contain values that are not text.
        """
        missing = [name for name in self.schema if name not in batch]
        if missing:
            raise NoSuchFeature(Where(), expected=f"the features {list(self.schema)}", found=f"no {missing[0]!r}")
        if not self.schema:
            return b""
        columns = [
            (*self._column(name, feature, batch[name], n), self._own_names.get(name, []))
            for name, feature in self.schema.items()
        ]
        text = self._laid(columns, n)
        return self._encode(self._quote_sep(text) if begins else text)

    def _names_above(self) -> dict[str, list[bytes]]:
        """The names above the values of each feature of text. Values like them are quoted, so that the names still look like a header."""
        if not self.writes_names or not self.marks[1]:
            return {}
        rest = iter(self.names)
        above = {name: list(islice(rest, feature.count)) for name, feature in self.schema.items()}
        return {
            name: [column.encode(errors="replace") for column in columns]
            for name, columns in above.items()
            if self.schema[name].is_text
        }

    def _laid(self, columns: Any, rows: int) -> bytes:
        missing = "nan" if self._missing is None else self._missing
        return _native.encode_csv(columns, rows, self.marks, self.options.newline, missing)

    def _encode(self, text: bytes) -> bytes:
        """Transcode UTF-8 to the encoding of the file."""
        if self._encoding in UTF8:
            return text
        ordered = {
            "utf-16": "utf-16-le",
            "utf-32": "utf-32-le",
        }  # The byte order mark is written once, in the preamble.
        return text.decode().encode(ordered.get(self._encoding, self._encoding))

    def _column(self, name: str, feature: Feature, column: Any, n: int) -> tuple[int, int, Any]:
        if isinstance(column, Ragged):
            try:
                column = join_even(column, feature.shape)
            except ValueError as error:
                raise SchemaMismatch(
                    Where(feature=name), expected=f"rows of shape {feature.shape}", found=str(error)
                ) from error
        if hasattr(column, "tocsr"):
            expected = f"a column of shape {(n, *feature.shape)}"
            raise SchemaMismatch(Where(feature=name), expected=expected, found=type(column).__name__)
        is_plain = isinstance(column, Strings) and column.is_text and bool(self.marks[1])
        if is_plain and self._encoding in UTF8 and column.shape == (n, *feature.shape):
            return TEXT, feature.count, (column.data, column.offsets)
        values = np.asarray(column, object if feature.is_text else None)
        if values.shape != (n, *feature.shape):
            raise SchemaMismatch(
                Where(feature=name), expected=f"a column of shape {(n, *feature.shape)}", found=f"shape {values.shape}"
            )
        flat, count = values.reshape(-1), feature.count
        if feature.is_text:
            return TEXT, count, [self._text(value, i // max(count, 1), name) for i, value in enumerate(flat.tolist())]
        kind, wire = _wire(feature)
        if flat.dtype.kind not in ("iub" if kind in (INT64, UINT64, BOOL) else "fiub"):
            raise SchemaMismatch(Where(feature=name), expected=f"{feature.dtype} values", found=str(flat.dtype))
        stored = np.ascontiguousarray(flat, wire)
        if flat.dtype != stored.dtype:
            _check_kept(name, flat, stored, count)
        if self._missing is None and kind in (FLOAT64, FLOAT32):
            self._refuse_missing(name, stored, count)
        return kind, count, stored.view(np.uint8) if kind == BOOL else stored

    def _refuse_missing(self, name: str, values: npt.NDArray[Any], count: int) -> None:
        """Refuse a missing value for which there is no word.

        Raises:
            UnsupportedData: There is one.
        """
        bad = np.flatnonzero(np.isnan(values))
        if len(bad):
            raise UnsupportedData(
                Where(record=int(bad[0]) // count, feature=name),
                expected="no missing value, as no word in missing= can stand for it",
                found="nan",
                hint="Add 'nan' to missing=.",
            )

    def _text(self, value: Any, record: int | None, name: str) -> bytes:
        """Text as UTF-8, checked to be encodable in the file's encoding.

        Raises:
            UnsupportedData: The value is not such text.
        """
        place = Where(record=record, feature=name)
        text = ""
        try:
            text = value if isinstance(value, str) else bytes(value).decode()
            text.encode(self._encoding)
        except UnicodeDecodeError as error:
            found = f"bytes that are not UTF-8, {bytes(value)[:SHOWN]!r}"
            raise UnsupportedData(place, expected="text in UTF-8", found=found, hint=LOSS_HINT) from error
        except UnicodeEncodeError as error:
            found = f"{text[:SHOWN]!r}"
            raise UnsupportedData(
                place, expected=f"text that {self._encoding} can encode", found=found, hint="Write UTF-8."
            ) from error
        except TypeError as error:
            raise SchemaMismatch(place, expected="text", found=f"{type(value).__name__}") from error
        if not self.marks[1] and not self._is_kept_bare(text):
            alone = "" if text else ", and not empty where it is the only column"
            expected = f"text without delimiters and line ends{alone}, as quote='' asks for"
            raise UnsupportedData(place, expected=expected, found=f"{text[:SHOWN]!r}")
        return text.encode()

    def __repr__(self) -> str:
        return f"CsvRows({list(self.schema)})"


def _check_signs(marks: Marks) -> None:
    """Refuse marks that numbers have: they are written without quotes.

    Raises:
        UnsupportedData: There is one.
    """
    for name, mark in zip(("delimiter", "quote"), marks[:2], strict=True):
        if mark in ("+", "-"):
            raise UnsupportedData(
                Where(), expected=f"a {name} that no number has, for writing", found=repr(mark), hint="Choose another."
            )


def misfits(schema: Schema) -> list[Misfit]:
    """What CSV cannot hold: too many values, bytes, varying lengths, sparse rows, images, dates, numbers of more than 64 bits."""
    found = []
    for name, feature in schema.items():
        expected, instead, hint = "", None, LOSS_HINT
        if feature.sparse:
            expected, instead, hint = "a value for every column", Feature(feature.dtype, feature.shape), SPARSE_HINT
        elif not feature.is_fixed:
            expected, hint = (
                "as many values in every example",
                LOSS_HINT + " Ragged values can be padded: r.to_padded().",
            )
        elif feature.count == 0:
            expected = "a value in every example"
        elif feature.count > MOST_COLUMNS:
            expected = f"at most {MOST_COLUMNS:,} values in every example"
        elif feature.dtype == "bytes":
            expected, hint = "text", "If the bytes are UTF-8, open them with a schema that says 'str'. " + LOSS_HINT
        elif not feature.is_text and np.dtype(feature.dtype).kind in "mM":
            expected, instead = "numbers, truth values or text", Feature("int64", feature.shape)
        elif not feature.is_text and (
            np.dtype(feature.dtype).kind not in "iufb" or np.dtype(feature.dtype).itemsize > 8
        ):
            expected = "numbers of up to 64 bits, truth values or text"
        if expected:
            expected = f"{expected}, for columns of CSV"
            found.append(Misfit(feature=name, expected=expected, found=repr(feature), instead=instead, hint=hint))
    return found


def _is_text(schema: Schema, misfit: Misfit) -> bool:
    """Whether values may still turn out to be text; each is checked when it is written."""
    feature = schema[misfit.feature]
    is_held = feature.is_fixed and 0 < feature.count <= MOST_COLUMNS
    return is_held and feature.dtype == "bytes" and feature.encoding is None


def refused_misfits(schema: Schema) -> list[Misfit]:
    """The :func:`misfits` that are refused regardless of their values. Bytes are not among them: they may be text."""
    return [misfit for misfit in misfits(schema) if not _is_text(schema, misfit)]


def _column_names(name: str, feature: Feature) -> list[str]:
    return [name] if feature.shape == () else [f"{name}_{k}" for k in range(feature.count)]


def _wire(feature: Feature) -> tuple[int, type[np.generic]]:
    dtype = np.dtype(feature.dtype)
    if dtype.kind == "b":
        return BOOL, np.bool_
    if dtype.kind == "f":
        return (FLOAT64, np.float64) if dtype.itemsize == 8 else (FLOAT32, np.float32)
    return (UINT64, np.uint64) if dtype.kind == "u" else (INT64, np.int64)


def _check_kept(name: str, flat: npt.NDArray[Any], stored: npt.NDArray[Any], count: int) -> None:
    """Refuse values that the schema's dtype cannot hold. Floats may be rounded."""
    if flat.dtype.kind == "f":
        return
    bad = np.flatnonzero((stored.astype(flat.dtype) != flat) | ((stored < 0) != (flat < 0)))
    if len(bad):
        position = int(bad[0])
        raise SchemaMismatch(
            Where(record=position // max(count, 1), feature=name),
            expected=f"{stored.dtype} values",
            found=str(flat[position]),
        )


class CsvWriter(FramedWriter):
    """Writes one CSV file. See :class:`FramedWriter` for the arguments and errors.

    Records are encoded rows without line ends; :meth:`write_text` takes rows with line ends.
    """

    framing = CsvFraming(CsvDialect())

    def write_text(self, text: bytes, rows: int) -> None:
        """Append text unchanged.

        Args:
            text: Complete rows with line ends, a header, or a byte order mark.
            rows: The number of records in it.
        """
        if self._file.closed:
            raise ValueError(f"{self.path} is closed")
        self._flush()
        self._put(np.frombuffer(text, np.uint8))
        self.records += rows


class CsvSink:
    """Writes batches to one CSV file, which appears under its name at ``close``, or never.

    Args:
        path, compression: Path and compression of the file.
        schema: The features, in column order.
        options: The write options.
        first: Whether to write the header; ``False`` if the file is appended to another.

    Raises:
        UnsupportedData: CSV cannot hold a feature.
    """

    def __init__(
        self,
        path: PathLike,
        schema: Schema,
        *,
        compression: str = "none",
        options: CSV | None = None,
        first: bool = True,
    ) -> None:
        refuse_misfits(path, refused_misfits(schema))
        try:
            self.rows: CsvRows = CsvRows(schema, options)
            header = self.rows.preamble() if first else b""  # may raise, so it runs before the file exists
        except DataError as error:
            raise error.relocated(Where(path=str(path))) from error
        self.writer: CsvWriter = CsvWriter(path, compression=compression)
        self.writer.write_text(header, 0)
        self._begins = first and not self.rows.writes_names

    def write_batch(self, batch: Mapping[str, Any], n: int, /) -> None:
        """Append rows."""
        self.writer.write_text(self.rows.encode_rows(batch, n, begins=self._begins), n)
        self._begins = self._begins and not n

    def close(self) -> None:
        """Move the complete file into place."""
        self.writer.close()

    def abort(self) -> None:
        """Remove the unfinished file."""
        self.writer.abort()
