"""The pages of the documentation, parsed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted([*(ROOT / "docs").glob("*.md"), *ROOT.glob("README.md"), *ROOT.glob("SECURITY.md")])
FENCE = re.compile(
    r"^(?P<before><!--(?P<reason>.*?)-->\n)?```(?P<language>\w+)\n(?P<body>.*?)^```$"
    r"(?P<output>\n+```text\n(?P<printed>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
NOT_RUN = "not run:"


@dataclass(frozen=True)
class Block:
    """A block of code, and its output as shown on the page (``None`` if not shown)."""

    language: str
    line: int
    code: str
    printed: str | None
    reason: str | None
    """Why it is not run."""


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a page. A ``text`` block right after a ``python`` block is its output."""
    for found in FENCE.finditer(text):
        reason = (found["reason"] or "").strip()
        yield Block(
            language=found["language"],
            line=text.count("\n", 0, found.start("body")),
            code=found["body"],
            printed=found["printed"],
            reason=reason.removeprefix(NOT_RUN).strip() if reason.startswith(NOT_RUN) else None,
        )


def headings(text: str) -> list[str]:
    """All headings of a page outside of code."""
    return re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.MULTILINE)


def anchor(heading: str) -> str:
    """The link anchor of a heading, as on GitHub."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def links(text: str) -> list[str]:
    """The link targets of a page."""
    return re.findall(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)", FENCE.sub("", text))
