"""Reports: summaries on a terminal, or as one HTML page without scripts, fonts or network; bars as text and as SVG."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from headrace.cli.terminal import print_line, print_table, printable
from headrace.statistics.display import shorten
from headrace.statistics.histogram import Bar
from headrace.statistics.numbers import Summary

__all__ = ["bar_lines", "distinct", "figures", "kind", "number", "page", "print_report", "size_name", "spark", "svg"]


EIGHTHS = " ▁▂▃▄▅▆▇█"
LEFT_EIGHTHS = " ▏▎▍▌▋▊▉█"
BAR_COLUMNS = 32
SPARK_BARS = 12


def spark(bars: Sequence[Bar]) -> str:
    """Draw all bars as one word: ``▁▃█▅▁``. A bar that is not empty is visible."""
    step = -(-len(bars) // SPARK_BARS) or 1
    counts = [sum(bar.count for bar in bars[at : at + step]) for at in range(0, len(bars), step)]
    most = max(counts, default=0)
    return "".join(EIGHTHS[-(-count * 8 // most)] if most else " " for count in counts)


def bar_lines(bars: Sequence[Bar]) -> list[str]:
    """Draw a line for each bar: label, bar, count."""
    if not bars:
        return []
    most = max(bar.count for bar in bars)
    width = max(len(bar.label) for bar in bars)
    digits = max(len(f"{bar.count:,}") for bar in bars)
    return [f"{bar.label:>{width}}  {bar.count:>{digits},}  {_bar(bar.count, most)}".rstrip() for bar in bars]


def _bar(count: int, most: int) -> str:
    eighths = -(-count * BAR_COLUMNS * 8 // most) if most else 0
    return LEFT_EIGHTHS[8] * (eighths // 8) + (LEFT_EIGHTHS[eighths % 8] if eighths % 8 else "")


def svg(bars: Sequence[Bar], name: str) -> str:
    """Draw bars as an SVG that scales with the page and has tooltips.

    Ranges become columns, single values labelled rows.
    """
    return _columns(bars, name) if bars and bars[0].start is not None else _rows(bars, name)


def _columns(bars: Sequence[Bar], name: str) -> str:
    most = max(bar.count for bar in bars)
    step = 360 / len(bars)
    shapes = []
    for number, bar in enumerate(bars):
        height = 120 * bar.count / most
        shapes.append(
            f'<g><title>{_escape(bar)}</title><rect class="hit" x="{number * step:.2f}" y="0" width="{step:.2f}" height="120"/>'
            f'<rect class="bar" x="{number * step + 0.5:.2f}" y="{120 - height:.2f}" width="{max(step - 1, 0.5):.2f}" '
            f'height="{height:.2f}"/></g>'
        )
    first, last = (html.escape(bar.label.split(" to ")[end]) for bar, end in ((bars[0], 0), (bars[-1], -1)))
    axis = (
        '<line class="axis" x1="0" y1="120.5" x2="360" y2="120.5"/>'
        f'<text x="0" y="137">{first}</text><text x="360" y="137" text-anchor="end">{last}</text>'
    )
    return _svg("".join(shapes) + axis, 142, name)


def _rows(bars: Sequence[Bar], name: str) -> str:
    most = max((bar.count for bar in bars), default=1)
    shapes = []
    for number, bar in enumerate(bars):
        y = number * 20
        label = bar.label if len(bar.label) <= 18 else bar.label[:17] + "…"
        shapes.append(
            f'<g><title>{_escape(bar)}</title><text x="120" y="{y + 14}" text-anchor="end">{html.escape(label)}</text>'
            f'<rect class="bar" x="126" y="{y + 3}" width="{max(185 * bar.count / most, 1):.2f}" height="14"/>'
            f'<text x="{132 + 185 * bar.count / most:.2f}" y="{y + 14}">{bar.count:,}</text></g>'
        )
    return _svg("".join(shapes), 20 * len(bars) + 2, name)


def _svg(content: str, height: int, name: str) -> str:
    label = html.escape(f"distribution of {name}")
    return f'<svg viewBox="0 0 360 {height}" role="img" aria-label="{label}">{content}</svg>'


def _escape(bar: Bar) -> str:
    return html.escape(f"{bar.label}: {bar.count:,}")


HEADINGS = ("feature", "type", "values", "empty", "min", "max", "mean", "std", "distinct", "distribution")
NOT_FINITE = ("nan", "infinite")
"""Columns of a table in which any value is."""
RIGHT = (*HEADINGS[2:9], *NOT_FINITE)
OPTIONAL = ("distribution", "distinct", "empty", "std")


def number(value: Any, *, digits: int = 6) -> str:
    """Format a number: integers in full, others with ``digits`` significant digits."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.{digits}g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else shorten(value)


def kind(summary: Summary) -> str:
    """``float32 (28, 28)``."""
    return f"{summary.dtype} {summary.shape}" if summary.shape else summary.dtype


def distinct(summary: Summary) -> str:
    """Format the number of distinct values."""
    return "> 10,000" if summary.distinct is None else f"{summary.distinct:,}"


def size_name(summary: Summary) -> str:
    """The unit of text sizes."""
    return "sizes in bytes" if summary.dtype == "bytes" else "lengths in characters"


def figures(summary: Summary) -> list[tuple[str, str]]:
    """Figures that are not in the table, as names and texts."""
    found = []
    if summary.lengths is not None:
        found.append(("values per example", _range(summary.lengths)))
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
    """Print the table, then a histogram of every feature."""
    print_line(f"{printable(title)}: {statement}")
    print_line()
    more = [name for name in NOT_FINITE if any(getattr(summary, name) for summary in summaries)]
    headings = (*HEADINGS[:4], *more, *HEADINGS[4:])
    right = [name for name in headings if name in RIGHT]
    print_table(headings, [_row(summary, more) for summary in summaries], right=right, optional=OPTIONAL)
    if brief:
        return
    for summary in summaries:
        print_line()
        print_line(printable(summary.name), style="bold")
        for name, text in figures(summary):
            print_line(f"  {name}: {text}")
        for line in bar_lines(summary.bars):
            print_line(f"  {printable(line)}", style="")


def _row(summary: Summary, more: Sequence[str]) -> list[str]:
    return [
        printable(summary.name),
        kind(summary),
        f"{summary.values:,}",
        f"{summary.empty:,}" if summary.empty else "",
        *(f"{getattr(summary, name):,}" if getattr(summary, name) else "" for name in more),
        *(number(value, digits=4) for value in (summary.minimum, summary.maximum, summary.mean, summary.std)),
        distinct(summary),
        spark(summary.bars),
    ]


STYLE = """
:root { color-scheme: light dark; --paper: #fbfbf9; --card: #fff; --ink: #1d2329; --faint: #5d6873; --line: #e2e4e1; --bar: #2f6f9f; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #14171a; --card: #1c2126; --ink: #e4e8eb; --faint: #9aa5af; --line: #30373d; --bar: #6cb0e0; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 76rem; padding: 1.25rem 1rem 3rem; background: var(--paper); color: var(--ink);
  font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.3rem; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin: 0; overflow-wrap: anywhere; }
p { margin: 0 0 1.25rem; color: var(--faint); }
h2 + p { margin: 0 0 .75rem; font-size: .85rem; }
main { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 22rem), 1fr)); gap: 1rem; align-items: start; }
section { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: .9rem 1rem 1rem; min-width: 0; }
dl { display: grid; grid-template-columns: auto 1fr; gap: .15rem 1rem; margin: 0 0 .9rem; font-size: .9rem; }
dt { color: var(--faint); }
dd { margin: 0; text-align: right; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
figure { margin: 0; }
figcaption { color: var(--faint); font-size: .8rem; margin-bottom: .35rem; }
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--faint); font: 12px system-ui, sans-serif; }
.bar { fill: var(--bar); }
.hit { fill: transparent; }
g:hover .bar { opacity: .7; }
.axis { stroke: var(--line); }
"""


def page(title: str, statement: str, summaries: Sequence[Summary]) -> str:
    """Make the HTML page.

    Args:
        title: The files, as the user named them.
        statement: How many examples were read.
        summaries: One card each.
    """
    name = html.escape(title)
    cards = "\n".join(map(_card, summaries))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{name} - values</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{name}</h1>\n<p>{html.escape(statement[:1].upper() + statement[1:])}.</p>\n<main>\n{cards}\n</main>\n</body>\n</html>\n"
    )


def _card(summary: Summary) -> str:
    facts = [
        ("values", f"{summary.values:,}"),
        ("empty examples", f"{summary.empty:,}" if summary.empty else ""),
        ("smallest", number(summary.minimum)),
        ("largest", number(summary.maximum)),
        ("mean", number(summary.mean)),
        ("standard deviation", number(summary.std)),
        ("distinct", distinct(summary)),
        *figures(summary),
    ]
    rows = "".join(f"<dt>{html.escape(name)}</dt><dd>{html.escape(text)}</dd>" for name, text in facts if text)
    return (
        f"<section>\n<h2>{html.escape(summary.name)}</h2>\n<p>{html.escape(kind(summary))}</p>\n<dl>{rows}</dl>\n"
        f"{_plot(summary)}</section>"
    )


def _plot(summary: Summary) -> str:
    if not summary.bars:
        return ""
    caption = {
        "values": "how often each value",
        "ranges": "values in each range",
        "sizes": size_name(summary),
    }
    most = max(bar.count for bar in summary.bars)
    return (
        f"<figure><figcaption>{caption[summary.bars_of]}, at most {most:,}</figcaption>"
        f"{svg(summary.bars, summary.name)}</figure>\n"
    )
