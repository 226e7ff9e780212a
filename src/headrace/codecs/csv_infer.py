"""The types of the columns of CSV files, from their values."""

from __future__ import annotations

from collections.abc import Iterable

from headrace import _native
from headrace.contracts.csv import CsvDialect
from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema

__all__ = ["infer_csv"]

Facts = dict[str, int]


def infer_csv(blocks: Iterable[_native.Spans], dialect: CsvDialect) -> Schema:
    """What all values of each column fit into.

    A column is a number only where nothing is lost by it: numbers with needless zeros in front (``007``) are text, and so are whole
    numbers beyond 64 bits, or, beside floats or missing values, those that a float64 does not hold.

    ===========================================================  ===========
    values                                                       type
    ===========================================================  ===========
    whole numbers                                                ``int64``, or ``uint64`` where they need it
    numbers, or whole numbers and missing values                 ``float64``, or what ``floats`` says
    ``true`` and ``false``                                       ``bool``
    anything else, or nothing at all                             ``str``
    ===========================================================  ===========

    Args:
        blocks: Rows.
        dialect: Of the rows. Its ``types`` come first.
    """
    totals: list[Facts] = [{} for _ in dialect.names]
    for spans in blocks:
        found = _native.examine_csv(spans, dialect.marks, dialect.width, list(dialect.missing))
        for total, facts in zip(totals, found, strict=True):
            for kind, count in facts.items():
                total[kind] = total.get(kind, 0) + count
    given = dialect.types or {}
    names = Schema(dict.fromkeys(dialect.names, Feature("str")))
    for name in given:
        _ = names[name]  # a type for a column that is not there is a slip of the pen
    return Schema(
        {
            name: given[name]
            if name in given
            else Feature(_dtype(total, dialect.floats, empty_counts="" in dialect.missing))
            for name, total in zip(dialect.names, totals, strict=True)
        }
    )


def _dtype(facts: Facts, floats: str, *, empty_counts: bool) -> str:
    """The narrowest type that holds everything."""

    def seen(*kinds: str) -> int:
        return sum(facts.get(kind, 0) for kind in kinds)

    numbers, whole = seen("whole", "positive", "huge", "real"), seen("whole", "positive", "huge")
    missing = seen("missing", "empty")
    if seen("text", "padded") or (seen("empty") and not empty_counts):
        return "str"
    if seen("boolean"):
        return "str" if numbers or missing else "bool"
    if not numbers:
        return floats if seen("missing") else "str"
    if seen("real") == 0 and not missing:
        return _whole(facts)
    return "str" if whole and seen("wide") else floats


def _whole(facts: Facts) -> str:
    if facts["huge"] or (facts["positive"] and facts["negative"]):
        return "str"
    return "uint64" if facts["positive"] else "int64"
