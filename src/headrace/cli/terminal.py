"""Output of commands: results on stdout, notes on stderr, and values formatted for people or for programs."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from typing import Any, Literal

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = [
    "count_of",
    "is_terminal",
    "note",
    "print_json",
    "print_line",
    "print_table",
    "printable",
    "size_of",
    "width",
]


GAP = 2  # spaces between columns
PIPE_WIDTH = 4096  # output to a program is never wrapped or cut


class _Console(Console):
    """A console that raises an error for a closed pipe, where rich would exit with code 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def is_terminal() -> bool:
    """Whether stdout is a terminal."""
    return sys.stdout.isatty()


def _console() -> _Console:
    if is_terminal():
        return _Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
    return _Console(file=sys.stdout, highlight=False, markup=False, emoji=False, color_system=None, width=PIPE_WIDTH)


def width() -> int:
    """Width of the terminal in columns; without one, effectively unlimited."""
    return _console().width


def print_line(text: str = "", *, style: str = "") -> None:
    """Print a line, styled on a terminal."""
    if is_terminal():
        _console().print(Text(text, style=style), soft_wrap=True)
    else:
        typer.echo(text)


def print_table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Sequence[str] = (),
    optional: Sequence[str] = (),
    show_headings: bool = True,
    indent: int = 0,
) -> None:
    """Print a table without rules, as wide as its content.

    Args:
        headings: Headings of the columns.
        rows: Cells, already printable.
        right: Headings of right-aligned columns: numbers.
        optional: Columns to omit, in this order, while the terminal is too narrow.
        show_headings: ``False`` for a list of names and values.
        indent: Spaces before every row.
    """
    console = _console()
    shown = _columns_that_fit(headings, rows, optional, console.width - indent)
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold", show_header=show_headings)
    for number in shown:
        side: Literal["left", "right"] = "right" if headings[number] in right else "left"
        table.add_column(Text(headings[number]), justify=side, overflow="fold", style="" if number else "cyan")
    for row in rows:
        table.add_row(*(Text(row[number]) for number in shown))
    with console.capture() as captured:
        console.print(table, width=console.width - indent)
    for line in captured.get().splitlines():
        typer.echo(" " * indent + line.rstrip(), color=is_terminal())


def _columns_that_fit(
    headings: Sequence[str], rows: Sequence[Sequence[str]], optional: Sequence[str], width: int
) -> list[int]:
    """Indices of the columns that fit."""
    widths = [max(map(cell_len, column)) for column in zip(headings, *rows, strict=True)]
    shown = list(range(len(headings)))
    for heading in optional:
        if sum(widths[number] + GAP for number in shown) - GAP <= width:
            break
        shown.remove(headings.index(heading))
    return shown


def print_json(value: Any, *, indent: int | None = 2) -> None:
    """Print JSON. NaN and infinities must have been replaced (see :func:`to_json`)."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:  # A name that is not valid Unicode, or an ASCII output: escape everything else.
        text = json.dumps(value, indent=indent, allow_nan=False)
    typer.echo(text)


def note(text: str) -> None:
    """Print a note on stderr, apart from the results."""
    typer.echo(text, err=True)


UNITS = ("bytes", "kB", "MB", "GB", "TB")


def printable(text: str) -> str:
    """Escape control characters in text from a file."""
    return text if text.isprintable() else repr(text)[1:-1]


def count_of(count: int, one: str, many: str | None = None) -> str:
    """A count with its noun: ``1 file``, ``1,797 examples``."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def size_of(size: int) -> str:
    """A size with three digits in units of 1,000: ``12 bytes``, ``1.3 MB``."""
    value, unit = float(size), 0
    while value >= 999.5 and unit < len(UNITS) - 1:
        value, unit = value / 1000, unit + 1
    if unit == 0:
        return count_of(size, "byte")
    return f"{value:.{max(0, 2 - int(math.log10(value)))}f} {UNITS[unit]}"
