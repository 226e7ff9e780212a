"""HTML from parts. Text is escaped wherever it goes in, so data cannot become markup; the only other way in is :class:`Markup`."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

__all__ = ["Markup", "element", "escape", "figure", "join", "page", "sparkline", "visible"]

SHOWN_JOINERS = "\u200c\u200d"
"""Invisible characters that scripts and emoji need, and that move nothing."""
KEPT = "\n\t\u00a0\u3000"
VOID = frozenset({"img", "input", "link", "meta", "br"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def visible(text: str) -> str:
    r"""Text with its control, bidirectional and other invisible characters written as escapes, so that none acts on the page.

    >>> visible("a\u202eb\x00")
    'a\\u202eb\\x00'
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in KEPT or char in SHOWN_JOINERS else ascii(char)[1:-1] for char in text
    )


def escape(value: object) -> Markup:
    """A value as text of a page or an attribute."""
    return value if isinstance(value, Markup) else Markup(html.escape(visible(str(value))))


def join(parts: Iterable[object]) -> Markup:
    """Parts end to end; ``None`` is nothing."""
    return Markup("".join(escape(part) for part in parts if part is not None))


def element(tag: str, *children: object, **attributes: object) -> Markup:
    """One element. Names of attributes are written with ``_`` for ``-``, and ``class_`` for ``class``.

    Args:
        tag: Its name, from our own code.
        children: Text and markup; ``None`` is left out.
        attributes: ``None`` and ``False`` are left out, ``True`` has no value.

    >>> element("a", "1 < 2", href="?row=1", class_="x")
    '<a href="?row=1" class="x">1 &lt; 2</a>'
    """
    parts = []
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        key = name.rstrip("_").replace("_", "-")
        parts.append(f" {key}" if value is True else f' {key}="{escape(value)}"')
    head = f"<{tag}{''.join(parts)}>"
    return Markup(head if tag in VOID else f"{head}{join(children)}</{tag}>")


def sparkline(values: Any, *, label: str, width: int = 120, height: int = 24) -> Markup:
    """A line through numbers, as SVG that scales with its class. Values that are not finite leave gaps.

    Args:
        values: ``(n,)`` numbers; more than ``width`` of them are drawn by the least and largest of each stretch.
        label: What a screen reader says.
        width, height: In pixels.
    """
    numbers = np.asarray(values, np.float64).reshape(-1)
    if len(numbers) > 2 * width:
        step = -(-len(numbers) // width)
        padded = np.concatenate([numbers, np.repeat(numbers[-1:], -len(numbers) % step)]).reshape(-1, step)
        numbers = np.stack([padded.min(axis=1), padded.max(axis=1)], axis=1).reshape(-1)
    finite = numbers[np.isfinite(numbers)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
    with np.errstate(all="ignore"):
        # Quarters, because the distance of two numbers may be beyond float64.
        span = high / 4 - low / 4
        y = (
            height - 2 - (numbers / 4 - low / 4) / span * (height - 4)
            if span > 0
            else np.full(len(numbers), height / 2)
        )
    x = np.linspace(1, width - 1, max(len(numbers), 2))[: len(numbers)]
    points, runs = [], []
    for px, py, is_drawn in zip(x.tolist(), y.tolist(), np.isfinite(numbers).tolist(), strict=True):
        if is_drawn and math.isfinite(py):
            points.append(f"{px:.1f},{py:.1f}")
        elif points:
            runs.append(points)
            points = []
    if points:
        runs.append(points)
    lines = "".join(f'<polyline points="{" ".join(run)}"/>' for run in runs)
    return Markup(
        f'<svg class="spark" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}">{lines}</svg>'
    )


def figure(bars: Sequence[tuple[str, int, str | None]], *, label: str) -> Markup:
    """A histogram as a list of bars, each a link where it has an address.

    Args:
        bars: Label, count and address of each.
        label: What it shows.
    """
    most = max((count for _, count, _ in bars), default=0) or 1
    rows = []
    for name, count, address in bars:
        share = max(1.0, 100 * count / most) if count else 0.0
        bar = Markup(
            f'<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true"><rect width="{share:.2f}" height="10"/></svg>'
        )
        text = element("span", name, class_="bar-name")
        rows.append(
            element(
                "li",
                element("a", text, href=address, title=f"show rows: {name}") if address else text,
                bar,
                element("span", f"{count:,}", class_="bar-count"),
            )
        )
    return element("ul", *rows, class_="bars", aria_label=label)


def page(title: str, *, base: str, navigation: object, content: object, refresh: int | None = None) -> Markup:
    """A whole page.

    Args:
        title: Of the window.
        base: What the paths of this viewer begin with.
        navigation: The links at its top.
        content: What it shows.
        refresh: After how many seconds a browser without JavaScript loads it again.
    """
    head = join(
        [
            element("meta", charset="utf-8"),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", name="referrer", content="no-referrer"),
            element("noscript", element("meta", http_equiv="refresh", content=refresh)) if refresh else None,
            element("title", f"{title} - headrace view"),
            element("link", rel="stylesheet", href=f"{base}/static/style.css"),
            element("link", rel="icon", href="data:,"),
            element("script", src=f"{base}/static/script.js", defer=True),
        ]
    )
    body = join(
        [
            element("a", "Skip to the content", href="#content", class_="skip"),
            element("header", navigation),
            element("main", content, id="content", tabindex="-1"),
        ]
    )
    refreshing = {"data_refresh": refresh} if refresh else {}
    return join(
        [
            "",
            Markup("<!doctype html>\n"),
            element("html", element("head", head), element("body", body, **refreshing), lang="en"),
        ]
    )
