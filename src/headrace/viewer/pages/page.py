"""What all pages share: the query, addresses, navigation, and a page as HTML or JSON."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, urlencode

from headrace.viewer.dataset import ShownDataset
from headrace.viewer.display.markup import Markup, element, join, page
from headrace.viewer.work import Work

__all__ = [
    "BadQuery",
    "Links",
    "Page",
    "Query",
    "change_note",
    "code_block",
    "command_line",
    "progress_note",
    "table",
    "with_changes",
]


MOST_NUMBER_LENGTH = 20  # of a sign and the 19 digits of 2**62
MOST_POSITION_DIGITS = 9


class BadQuery(ValueError):
    """An address has a value that does not fit. The message names it."""


@dataclass(frozen=True, slots=True)
class Query:
    """The query of an address, by type and within bounds."""

    values: Mapping[str, str]

    def text(self, name: str, default: str = "") -> str:
        """A text, without blanks around it."""
        return self.values.get(name, default).strip()

    def number(self, name: str, default: int, *, least: int = 0, most: int = 2**62) -> int:
        """An integer.

        Raises:
            BadQuery: It is none, or out of bounds.
        """
        given = self.text(name)
        if not given:
            return default
        if not given.removeprefix("-").isdecimal() or len(given) > MOST_NUMBER_LENGTH:
            raise BadQuery(f"{name} must be an integer, got {given!r:.60}")
        found = int(given)
        if not least <= found <= most:
            raise BadQuery(f"{name} must be from {least:,} to {most:,}, got {found:,}")
        return found

    def flag(self, name: str) -> bool:
        """Whether it is switched on."""
        return self.text(name) in ("1", "true", "on", "yes")

    def choice(self, name: str, known: Sequence[str], default: str) -> str:
        """One of some words.

        Raises:
            BadQuery: It is none of them.
        """
        found = self.text(name, default) or default
        if found not in known:
            raise BadQuery(f"{name} must be one of {', '.join(known)}, got {found!r:.60}")
        return found

    def feature(self, name: str, dataset: ShownDataset) -> str | None:
        """A feature, given by its position or its name; ``None`` if none is given.

        Raises:
            BadQuery: There is no such feature.
        """
        given = self.text(name)
        if not given:
            return None
        if given.isdecimal() and len(given) <= MOST_POSITION_DIGITS and int(given) < len(dataset.names):
            return dataset.names[int(given)]
        if given in dataset.schema:
            return given
        raise BadQuery(f"{name} must be the position or the name of a feature, got {given!r:.60}")


@dataclass(frozen=True, slots=True)
class Links:
    """Addresses of pages.

    Args:
        base: What all paths begin with.
        number: The position of the dataset among those that are shown.
    """

    base: str
    number: int = 0

    def to(self, view: str = "", /, **query: object) -> str:
        """A page of the dataset. Queries that are ``None`` or empty are left out."""
        given = {name: value for name, value in query.items() if value not in (None, "", False)}
        return f"{self.base}/{self.number}/{view}" + (f"?{urlencode(given, errors='replace')}" if given else "")

    def above(self, view: str = "", /, **query: object) -> str:
        """A page about more than one dataset."""
        given = {name: value for name, value in query.items() if value not in (None, "", False)}
        return f"{self.base}/{quote(view)}" + (f"?{urlencode(given, errors='replace')}" if given else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page, as both forms.

    Args:
        title: Of the window.
        content: What it shows.
        data: The same as JSON values.
        refresh: After how many seconds to load it again, while work goes on.
        status: The HTTP status.
    """

    title: str
    content: Markup
    data: dict[str, Any]
    refresh: int | None = None
    status: int = 200

    def html(self, navigation: Markup, base: str) -> Markup:
        """The whole page."""
        return page(self.title, base=base, navigation=navigation, content=self.content, refresh=self.refresh)


def command_line(words: Iterable[str]) -> str:
    r"""Words as a line for a shell. Control and other invisible characters are written as escapes, so the line works as it is shown.

    >>> print(command_line(["headrace", "head", "a b", "tab\t"]))
    headrace head 'a b' $'tab\x09'
    """
    return " ".join(shlex.quote(word) if word.isprintable() else f"$'{_escape_word(word)}'" for word in words)


def _escape_word(word: str) -> str:
    known = {"'": "\\'", "\\": "\\\\"}
    return "".join(known.get(char) or (char if char.isprintable() else _escape_character(ord(char))) for char in word)


def _escape_character(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def table(heads: Sequence[object], rows: Sequence[Sequence[object]], *, caption: str, class_: str = "") -> Markup:
    """A table that scrolls sideways by itself.

    Args:
        heads: The heads of its columns.
        rows: Cells; the first of a row is its head.
        caption: What it shows, for screen readers.
        class_: For its style.
    """
    head = element("tr", *(element("th", each, scope="col") for each in heads))
    body = [
        element("tr", element("th", first, scope="row"), *(element("td", each) for each in rest))
        for first, *rest in rows
    ]
    inside = element(
        "table", element("caption", caption), element("thead", head), element("tbody", *body), class_=class_ or None
    )
    return element("div", inside, class_="scroll", tabindex="0", role="region", aria_label=caption)


def code_block(*, python: str, command: str | None = None, title: str = "") -> Markup:
    """The same in Python, and as a command."""
    parts = [element("h3", "Python"), element("pre", element("code", f"import headrace\n\n{python}"))]
    if command:
        parts += [element("h3", "Command"), element("pre", element("code", command))]
    return element(
        "details",
        element("summary", title or "The same in Python" + (" and as a command" if command else "")),
        *parts,
        class_="code",
    )


def progress_note(work: Work) -> Markup:
    """How far some work is."""
    if work.failure:
        return element("p", f"{work.label}: {work.failure}", class_="fault", role="alert")
    if work.is_finished:
        return join([])
    known = f"{work.done:,} of {work.total:,}" if work.total else f"{work.done:,}"
    bar = element("progress", max=work.total, value=work.done) if work.total else element("progress")
    return element("p", f"{work.label}: {known} ", bar, class_="progress", role="status")


def change_note(datasets: Iterable[ShownDataset]) -> str | None:
    """Which files were changed after they were opened; ``None`` if none were."""
    changed = [path for each in datasets for path in each.changed_files]
    if not changed:
        return None
    more = f" and {len(changed) - 1:,} more" if len(changed) > 1 else ""
    return f"{changed[0]}{more} was changed after it was opened, and rows may be the old ones: open it again"


def with_changes(made: Page, datasets: Iterable[ShownDataset]) -> Page:
    """A page that says, above its content, which files of its datasets were changed after they were opened."""
    note = change_note(datasets)
    if note is None:
        return made
    content = join([element("p", note, class_="fault", role="alert"), made.content])
    return replace(made, content=content, data={**made.data, "changed": note})
