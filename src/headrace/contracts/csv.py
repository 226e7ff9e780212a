"""The dialect of CSV files: the options that a caller gives, and those that were found."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from encodings.aliases import aliases
from functools import cache
from typing import Any

import numpy as np

from headrace import _native
from headrace.contracts.feature import Feature
from headrace.errors import did_you_mean

__all__ = ["CSV", "MISSING", "CsvDialect", "Marks", "is_direct"]

MISSING = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "-NaN", "-nan", "null", "NULL", "None")
"""Texts that mean a missing value, by default."""

Marks = tuple[str, str, str]
"""Delimiter, quote (or nothing) and decimal mark, for native code."""

WORDS = {"tab": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": " ", "none": "", "crlf": "\r\n", "lf": "\n"}
OPTIONS = ("header", "delimiter", "quote", "encoding", "floats", "decimal", "newline")
TRUTHS = {"yes": True, "true": True, "no": False, "false": False}
NEWLINES = ("\n", "\r\n")
FLOATS = ("float64", "float32")
UTF_8 = ("utf-8", "utf-8-sig")
COUNTED_ROWS = 50
"""Rows whose fields are counted after an error."""
NO_TEXT = ("undefined", "idna", "punycode", "unicode-escape", "raw-unicode-escape")


@dataclass(frozen=True, slots=True, kw_only=True)
class CSV:
    """The dialect of a CSV file, for ``format=``. Omitted options are inferred from the file.

    Args:
        header: ``True``: the first row names the columns. ``False``: there is no header, and the columns are ``c0``,
            ``c1``, .... A list of names: there is no header. For writing: whether to write one (``None``: yes); a list of
            names must be those of the columns.
        delimiter: The character between fields; for writing, by default ``","``, or a tab in a ``.tsv``.
        quote: The character around quoted fields, doubled inside them; ``""`` if quotes are ordinary text.
        encoding: Any text encoding of Python: ``"utf-8"``, ``"utf-8-sig"`` (with a byte order mark), ``"utf-16"``,
            ``"latin-1"``, ``"cp1252"``, ``"cp932"``, ``"euc_jp"``, ``"gb18030"``, ... By default UTF-8, or UTF-16 if the
            file begins with its byte order mark.
        missing: Texts that mean a missing number. Text columns keep them. For writing: NaN is ``nan``, or the first of
            these if that is not among them.
        types: Types of some columns, instead of inferred ones: names to dtypes or to :class:`~headrace.Feature` values.
        floats: The dtype of columns inferred as floats: ``"float64"`` or ``"float32"``, rounded to the nearest.
        decimal: The decimal mark: ``"."`` or ``","``.
        newline: For writing: the end of each row.

    Raises:
        TypeError, ValueError: An option is of another type, or the options contradict each other.

    >>> CSV(header=False, delimiter=";").delimiter
    ';'
    """

    header: bool | tuple[str, ...] | None = None
    delimiter: str | None = None
    quote: str = '"'
    encoding: str | None = None
    missing: tuple[str, ...] = MISSING
    types: Mapping[str, Feature] | None = None
    floats: str = "float64"
    decimal: str = "."
    newline: str = "\n"

    def __post_init__(self) -> None:
        put = object.__setattr__  # frozen: this is the one place that may set
        if not (self.header is None or isinstance(self.header, bool)):
            put(self, "header", _names(self.header))
        if self.encoding is not None:
            put(self, "encoding", _known_encoding(self.encoding))
        put(self, "missing", _words(self.missing))
        put(self, "types", _features(self.types))
        self._check_marks()

    def _check_marks(self) -> None:
        if self.delimiter is not None and not _is_mark(self.delimiter):
            raise ValueError(
                f"delimiter must be one ASCII character, such as ',' or '\\t', not a line end or a quote, got {self.delimiter!r}"
            )
        if self.quote != "" and (not _is_mark(self.quote) or self.quote == self.delimiter):
            raise ValueError(f"quote must be one ASCII character, or '' for none, got {self.quote!r}")
        if self.decimal not in (".", ",") or self.decimal == self.delimiter:
            raise ValueError(f"decimal must be '.' or ',', and not the delimiter, got {self.decimal!r}")
        if self.floats not in FLOATS:
            raise ValueError(f"floats must be one of {FLOATS}, got {self.floats!r}")
        if self.newline not in NEWLINES:
            raise ValueError(f"newline must be one of {NEWLINES}, got {self.newline!r}")

    @classmethod
    def parse(cls, text: str) -> CSV:
        r"""Parse options in one line, as commands take them after ``csv:``.

        Args:
            text: ``NAME=VALUE`` parts with commas between them. Marks have names: ``tab``, ``comma``, ``semicolon``, ``pipe``.

        Raises:
            ValueError: There is no such option.

        >>> CSV.parse("header=no,delimiter=tab").delimiter
        '\t'
        """
        if not isinstance(text, str):
            raise TypeError(f"options of CSV are text, such as 'delimiter=tab', got {text!r:.60}")
        given: dict[str, Any] = {}
        for part in filter(None, text.split(",")):
            name, _, value = part.partition("=")
            if name == "header" and value not in TRUTHS:
                raise ValueError(f"header is yes or no, got {value!r}")
            if name not in OPTIONS:
                hint = did_you_mean(name, OPTIONS)
                raise ValueError(f"CSV has no option {name!r} here; it has {', '.join(OPTIONS)}. {hint}".rstrip())
            given[name] = TRUTHS[value] if name == "header" else WORDS.get(value, value)
        return cls(**given)

    def with_delimiter(self, delimiter: str) -> CSV:
        """A copy with this delimiter, unless it has one: a semicolon in place of a decimal comma, as when reading."""
        chosen = ";" if delimiter == self.decimal else delimiter
        return self if self.delimiter is not None else replace(self, delimiter=chosen)


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvDialect:
    """The complete dialect of some files.

    Args:
        names: Of the columns.
        header: The bytes of the first row of each file; ``None`` where it is data.
        delimiter, quote, decimal, floats: As in :class:`CSV`.
        encoding: Of the rows. Files in UTF-16 are read as UTF-8.
        transcode: The encoding of the files where rows are transcoded to UTF-8; else ``""``.
        missing: Texts that mean a missing number.
        types: Types of some columns.
    """

    names: tuple[str, ...] = ()
    header: tuple[bytes, ...] | None = None
    delimiter: str = ","
    quote: str = '"'
    decimal: str = "."
    encoding: str = "utf-8"
    transcode: str = ""
    missing: tuple[str, ...] = MISSING
    types: Mapping[str, Feature] | None = None
    floats: str = "float64"

    @property
    def marks(self) -> Marks:
        """The marks, for native code."""
        return (self.delimiter, self.quote, self.decimal)

    @property
    def width(self) -> int:
        """Fields of a row."""
        return len(self.names)

    @property
    def is_utf8(self) -> bool:
        """Whether rows are UTF-8."""
        return self.encoding == "utf-8"

    def encode(self, text: str) -> bytes:
        """Text as rows hold it."""
        return text.encode(self.encoding, "replace")

    @property
    def key(self) -> str:
        """Differs between dialects that find other rows, or other damage."""
        return repr((self.header, self.marks, self.width, self.encoding, self.transcode))

    def width_hint(self, rows: _native.Spans, number: int, width: int) -> str:
        """What to do about a row that has not ``width`` fields, by what rows look like.

        Args:
            rows: Some rows.
            number: Of the row among them.
            width: The expected number of fields.
        """
        if self.quote and f"{self.delimiter} {self.quote}".encode() in rows.part(number, number + 1).to_bytes()[0]:
            return "Quotes do not count after a blank. pandas.read_csv(path, skipinitialspace=True) reads such rows; hr.open takes its frame."
        first = rows.part(0, min(len(rows), COUNTED_ROWS)).to_bytes()
        if all(len(_native.values_of_csv(each, self.marks)) == width + 1 for each in first):
            return (
                "If rows begin with a name that the header leaves out, as R writes them, hr.open(pandas.read_csv(path)) opens the other columns; "
                "in R, row.names=FALSE leaves the names out."
            )
        return (
            "`headrace verify` lists all rows of another length. If the delimiter is wrong, give hr.CSV(delimiter=...)."
        )


def _is_mark(text: Any) -> bool:
    return isinstance(text, str) and len(text) == 1 and text.isascii() and text not in "\r\n\0" and not text.isalnum()


def _names(names: Sequence[str]) -> tuple[str, ...]:
    if (isinstance(names, str) and "," in names) or not isinstance(names, Iterable):
        raise ValueError(f"header must be True, False or a list of names, such as ['a', 'b'], got {names!r}")
    found = (names,) if isinstance(names, str) else tuple(names)
    if not found or not all(isinstance(name, str) for name in found) or len(set(found)) < len(found):
        raise ValueError(f"header must be True, False or names that differ from each other, got {names!r}")
    return found


def _words(missing: Any) -> tuple[str, ...]:
    words = (missing,) if isinstance(missing, str) and "," not in missing else missing
    is_list = isinstance(words, Iterable) and not isinstance(words, (str, bytes))
    found = tuple(words) if is_list else ()
    if not is_list or not all(isinstance(word, str) for word in found):
        raise ValueError(f"missing must be a list of words, such as ['?', 'NA'], got {missing!r}")
    return found


def _features(types: Any) -> dict[str, Feature]:
    if not isinstance(types, Mapping | None):
        raise TypeError(f"types must be a dict, such as {{'age': 'int16'}}, got {types!r}")
    return {name: given if isinstance(given, Feature) else Feature(given) for name, given in (types or {}).items()}


def _known_encoding(name: str) -> str:
    """The normal name of an encoding.

    Raises:
        TypeError: It is no name.
        ValueError: There is no such encoding, or it is not one of text.
    """
    if not isinstance(name, str):
        raise TypeError(f"encoding must be the name of one, such as 'cp932', got {name!r}")
    try:
        codec = codecs.lookup(name)
    except (LookupError, ValueError):
        known = sorted({*aliases.values(), *aliases})
        hint = did_you_mean(name.lower().replace("-", "_"), known)
        raise ValueError(f"there is no encoding {name!r}. {hint}".rstrip()) from None
    is_text = getattr(codec, "_is_text_encoding", True) and getattr(codec, "incrementaldecoder", None) is not None
    if not is_text or codec.name in NO_TEXT:
        raise ValueError(f"encoding must be one of text, such as 'cp932', got {name!r}")
    found = codec.name.replace("_", "-")
    return "utf-8" if found == "ascii" else found


def is_direct(encoding: str) -> bool:
    """Whether rows are found without transcoding: in UTF-8, and in encodings of one byte a character that extend ASCII."""
    return encoding in UTF_8 or _is_one_byte(encoding)


@cache
def _is_one_byte(name: str) -> bool:
    ascii_bytes = bytes(range(128))
    try:
        if ascii_bytes.decode(name) != ascii_bytes.decode("ascii"):
            return False
        upper = [bytes([byte]).decode(name, "replace") for byte in range(128, 256)]
    except (UnicodeError, LookupError):
        return False
    pairs = np.array([len((bytes([byte]) * 2).decode(name, "replace")) for byte in range(128, 256)])
    if all(text == "\ufffd" for text in upper):  # of seven bits, with marks that switch between character sets
        return False
    return all(len(text) == 1 for text in upper) and bool((pairs == 2).all())
