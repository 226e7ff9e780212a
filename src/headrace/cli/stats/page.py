"""Summaries as one page that needs nothing else: no script, no fonts, no network."""

from __future__ import annotations

import html
from collections.abc import Sequence

from headrace.cli.stats.numbers import Summary
from headrace.cli.stats.report import distinct, figures, kind, number, size_name, svg

__all__ = ["page"]

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
    """The page as text.

    Args:
        title: What was read, as the user named it.
        statement: How much of it.
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
