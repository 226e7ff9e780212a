"""Summaries on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.cli.stats.plot import bar_lines, spark
from headrace.cli.stats.summary import Summary
from headrace.cli.terminal.console import print_line, print_table
from headrace.cli.terminal.values import printable, short

__all__ = ["distinct", "figures", "kind", "number", "print_report", "size_name"]

HEADINGS = ("feature", "type", "values", "empty", "min", "max", "mean", "std", "distinct", "distribution")
RIGHT = HEADINGS[2:9]
OPTIONAL = ("distribution", "distinct", "empty", "std")


def number(value: Any, *, digits: int = 6) -> str:
    """A figure with as many digits as help; whole numbers whole."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.{digits}g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else short(value)


def kind(summary: Summary) -> str:
    """``float32 (28, 28)``."""
    return f"{summary.dtype} {summary.shape}" if summary.shape else summary.dtype


def distinct(summary: Summary) -> str:
    """How many different values, or that they are too many to count."""
    return "> 10,000" if summary.distinct is None else f"{summary.distinct:,}"


def size_name(summary: Summary) -> str:
    """What the sizes of its texts are."""
    return "sizes in bytes" if summary.dtype == "bytes" else "lengths in characters"


def figures(summary: Summary) -> list[tuple[str, str]]:
    """Everything there is to say beside the table's columns, as names and texts."""
    found = []
    if summary.lengths is not None:
        found.append(("values in an example", _range(summary.lengths)))
    if summary.sizes is not None:
        found.append((size_name(summary), _range(summary.sizes)))
    if summary.nan:
        found.append(("NaN or NaT", f"{summary.nan:,}"))
    if summary.infinite:
        found.append(("infinite", f"{summary.infinite:,}"))
    return found


def _range(found: tuple[int, float, int]) -> str:
    return f"{found[0]:,} to {found[2]:,}, mean {found[1]:,.6g}"


def print_report(title: str, statement: str, summaries: Sequence[Summary], *, brief: bool) -> None:
    """The table, then a histogram of every feature."""
    print_line(f"{printable(title)}: {statement}")
    print_line()
    print_table(HEADINGS, [_row(summary) for summary in summaries], right=RIGHT, optional=OPTIONAL)
    if brief:
        return
    for summary in summaries:
        print_line()
        print_line(printable(summary.name), style="bold")
        for name, text in figures(summary):
            print_line(f"  {name}: {text}")
        for line in bar_lines(summary.bars):
            print_line(f"  {printable(line)}", style="")


def _row(summary: Summary) -> list[str]:
    return [
        printable(summary.name),
        kind(summary),
        f"{summary.values:,}",
        f"{summary.empty:,}" if summary.empty else "",
        *(number(value, digits=4) for value in (summary.minimum, summary.maximum, summary.mean, summary.std)),
        distinct(summary),
        spark(summary.bars),
    ]
