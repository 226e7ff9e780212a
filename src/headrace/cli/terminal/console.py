"""Where commands print: results on stdout, everything else on stderr; colours on a terminal only."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any, Literal

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = ["is_terminal", "note", "print_json", "print_line", "print_table", "width"]

GAP = 2  # spaces between columns
PIPE_WIDTH = 4096  # what is read by a program is never wrapped or cut


class _Console(Console):
    """A console that leaves a closed pipe to the caller; rich would exit with code 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def is_terminal() -> bool:
    """Whether results go to a person's terminal."""
    return sys.stdout.isatty()


def _console() -> _Console:
    if is_terminal():
        return _Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
    return _Console(file=sys.stdout, highlight=False, markup=False, emoji=False, color_system=None, width=PIPE_WIDTH)


def width() -> int:
    """Columns of the terminal; very many where there is none."""
    return _console().width


def print_line(text: str = "", *, style: str = "") -> None:
    """One line, styled on a terminal."""
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
    """A table without lines, as wide as it needs to be.

    Args:
        headings: Of the columns.
        rows: Cells; whatever cannot be printed in them is shown escaped by whoever makes them.
        right: Headings of the columns that are set flush right: numbers.
        optional: Columns that are left out, one after the other, where the terminal is too narrow for all.
        show_headings: ``False`` for a list of names and values.
        indent: Spaces before every row.
    """
    console = _console()
    shown = _fitting(headings, rows, optional, console.width - indent)
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


def _fitting(headings: Sequence[str], rows: Sequence[Sequence[str]], optional: Sequence[str], width: int) -> list[int]:
    """The numbers of the columns that are shown."""
    widths = [max(map(cell_len, column)) for column in zip(headings, *rows, strict=True)]
    shown = list(range(len(headings)))
    for heading in optional:
        if sum(widths[number] + GAP for number in shown) - GAP <= width:
            break
        shown.remove(headings.index(heading))
    return shown


def print_json(value: Any, *, indent: int | None = 2) -> None:
    """JSON text; NaN and infinities must have been replaced (see ``plain``)."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:  # A name that is no Unicode, or an output in ASCII: escaped, all of it comes through.
        text = json.dumps(value, indent=indent, allow_nan=False)
    typer.echo(text)


def note(text: str) -> None:
    """A remark on stderr, where it does not get into what a program reads."""
    typer.echo(text, err=True)
