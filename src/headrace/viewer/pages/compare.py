"""Two datasets side by side, as before and after a conversion: which features and rows differ."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace._numbers import exact_mask
from headrace.contracts.strings import Strings
from headrace.contracts.values import Ragged
from headrace.sources.matrices import compare_times
from headrace.sources.views import keep_features
from headrace.viewer.dataset import ShownDataset
from headrace.viewer.display.cells import CellPlace, large_cell, small_cell
from headrace.viewer.display.markup import Markup, element, join
from headrace.viewer.pages.page import BadQuery, Links, Page, Query, code_block, command_line, progress_note, table
from headrace.viewer.pages.rows import command_for, describe_kind
from headrace.viewer.work import Work, Works

__all__ = ["Difference", "compare", "compare_page", "differing", "is_equal"]

AT_ONCE = 256
KEPT_ROWS, SHOWN_ROWS = 1000, 50
SHOWN_FEATURES = 200
ROWS_AS_TEXT = 1000


@dataclass(slots=True)
class Difference:
    """What differs between two datasets.

    Attributes:
        only_left, only_right: Features that one of them has.
        types: Features of another type: name, left, right.
        counts: Their numbers of examples.
        rows: The first rows that differ, with the features that do.
        differing: How many rows differ.
        features: How many rows differ in each feature.
        compared: How many rows were compared.
        is_complete: Whether all rows that both have were compared.
    """

    only_left: list[str] = field(default_factory=list)
    only_right: list[str] = field(default_factory=list)
    types: list[tuple[str, str, str]] = field(default_factory=list)
    counts: tuple[int, int] = (0, 0)
    rows: list[tuple[int, list[str]]] = field(default_factory=list)
    differing: int = 0
    features: Counter[str] = field(default_factory=Counter)
    compared: int = 0
    is_complete: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing differs, of what was compared."""
        return not (self.only_left or self.only_right or self.types or self.differing) and len(set(self.counts)) == 1

    def to_json(self) -> dict[str, Any]:
        """As JSON values. ``equal`` is null while that is not known."""
        return {
            "equal": None if self.is_empty and not self.is_complete else self.is_empty,
            "examples": list(self.counts),
            "only_left": self.only_left,
            "only_right": self.only_right,
            "types": [{"feature": name, "left": left, "right": right} for name, left, right in self.types],
            "compared": self.compared,
            "differing": self.differing,
            "features": dict(self.features),
            "rows": [{"row": row, "features": names} for row, names in self.rows],
        }


def compare(left: ShownDataset, right: ShownDataset, work: Work) -> Difference:
    """Compare schemas, then all rows that both have, in order.

    Args:
        left, right: The datasets. Images are compared as they are stored.
        work: Gets the progress, and what is known so far.
    """
    found = Difference(counts=(len(left.source), len(right.source)))
    work.result = found
    found.only_left = [name for name in left.names if name not in right.positions]
    found.only_right = [name for name in right.names if name not in left.positions]
    shared = [name for name in left.names if name in right.positions]
    for name in shared:
        kinds = describe_kind(left.schema[name]), describe_kind(right.schema[name])
        if kinds[0] != kinds[1]:
            found.types.append((name, *kinds))
    total = min(found.counts)
    if not shared:
        found.is_complete = True
        return found
    nodes = [keep_features(each.stored.node, tuple(shared)) for each in (left, right)]
    for start in range(0, total, AT_ONCE):
        work.advance(start, total)
        indices = np.arange(start, min(start + AT_ONCE, total))
        first, second = (node.batch(indices) for node in nodes)
        differs = {name: differing(first[name], second[name], len(indices)) for name in shared}
        _add(found, start, {name: mask for name, mask in differs.items() if mask.any()})
        found.compared = start + len(indices)
    work.advance(total, total)
    found.is_complete = True
    return found


def _add(found: Difference, start: int, differs: dict[str, npt.NDArray[np.bool_]]) -> None:
    if not differs:
        return
    any_of = np.logical_or.reduce(list(differs.values()))
    found.differing += int(any_of.sum())
    for name, mask in differs.items():
        found.features[name] += int(mask.sum())
    for row in np.flatnonzero(any_of).tolist():
        if len(found.rows) >= KEPT_ROWS:
            return
        found.rows.append((start + row, [name for name, mask in differs.items() if mask[row]]))


def differing(left: Any, right: Any, count: int) -> npt.NDArray[np.bool_]:
    """Which rows of two columns differ, ``bool (count,)``: as :func:`is_equal` says of each."""
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray) and object not in (left.dtype, right.dtype):
        if left.shape != right.shape:
            return np.ones(count, bool)
        unequal = _unequal(left, right)
        return np.asarray(unequal.reshape(count, -1).any(axis=1), bool) if count else np.zeros(0, bool)
    if (
        isinstance(left, Strings)
        and isinstance(right, Strings)
        and left.ndim == right.ndim == 1
        and left.is_text == right.is_text
    ):
        return np.asarray(left != right)
    return np.fromiter((not is_equal(left[i], right[i]) for i in range(count)), bool, count)


def _unequal(left: Any, right: Any) -> npt.NDArray[np.bool_]:
    """Which of the values of two arrays of one shape differ. Integers beside floats and times of two units are compared exactly."""
    kinds = {left.dtype.kind, right.dtype.kind}
    if "c" in kinds:
        return _unequal(left.real, right.real) | _unequal(left.imag, right.imag)
    if kinds & {"m", "M"}:
        try:
            return np.asarray((compare_times(left, right) != 0) & ~(np.isnat(left) & np.isnat(right)))
        except TypeError:  # a time beside a number, or units without a common one
            return np.ones(left.shape, bool)
    with np.errstate(invalid="ignore"):
        found = np.asarray((left != right) & ((left == left) | (right == right)))  # noqa: PLR0124 - NaN is unlike itself
        if (
            "f" in kinds
            and (integers := next((each for each in (left, right) if each.dtype.kind in "iu"), None)) is not None
        ):
            found |= ~exact_mask(integers)
    return found


def is_equal(left: Any, right: Any) -> bool:
    """Whether two values are the same. NaN equals NaN, and NaT equals NaT; numbers of different types are equal if their values are.

    >>> is_equal(np.array([1, 2]), np.array([1.0, 2.0])), is_equal(np.array(2**53 + 1), np.array(2.0**53))
    (True, False)
    """
    arrays = [each for each in (left, right) if isinstance(each, (np.ndarray, np.generic)) and each.dtype != object]
    if len(arrays) == 2 and left.shape == right.shape and not {"S", "U"} & {a.dtype.kind for a in arrays}:
        return not _unequal(*arrays).any()
    left, right = _plain(left), _plain(right)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(is_equal, left, right))
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (math.isnan(left) and math.isnan(right))
    return bool(left == right)


def _plain(value: Any) -> Any:
    """A value as plain Python: text and bytes that hold the same are the same."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value
    if isinstance(value, Ragged):
        return [_plain(each) for each in value]
    if hasattr(value, "tocsr"):
        return value.toarray().reshape(-1).tolist()
    if hasattr(value, "tolist"):
        return value.tolist()
    return value


def compare_page(datasets: list[ShownDataset], query: Query, base: str, works: Works) -> Page:
    """Two of the datasets that are shown.

    Raises:
        BadQuery: There are fewer than two, or no such numbers.
    """
    if len(datasets) < 2:
        raise BadQuery("comparing needs two paths: headrace view BEFORE AFTER")
    most = len(datasets) - 1
    numbers = query.number("left", 0, most=most), query.number("right", 1, most=most)
    left, right = (datasets[number] for number in numbers)
    for each in (left, right):
        if each.refusal is not None:
            raise BadQuery(f"{each.name} cannot be opened: {each.refusal}")
    work = works.get(("compare", *numbers), "comparing", lambda work: compare(left, right, work), patience_s=0.3)
    found: Difference | None = work.result
    content = join(
        [
            element("h1", "Side by side"),
            element("p", left.name, " and ", right.name),
            _choice(datasets, numbers, Links(base)),
            progress_note(work),
            _summary(found) if found else None,
            _rows(found, (left, right), [Links(base, number) for number in numbers]) if found else None,
            code_block(python=_code(left, right), command=_commands(left, right)),
        ]
    )
    data = {"left": left.name, "right": right.name, **work.to_json(), "difference": found.to_json() if found else None}
    return Page(title="Side by side", content=content, data=data, refresh=None if work.is_finished else 2)


def _code(left: ShownDataset, right: ShownDataset) -> str:
    sides = [f"{each.code}.encoded()" for each in (left, right)]
    return (
        "from headrace.viewer.pages.compare import is_equal\n\n"
        f"left = {sides[0]}\nright = {sides[1]}\nprint(left.schema)\nprint(right.schema)\n"
        "for row, (a, b) in enumerate(zip(left, right)):\n"
        "    unequal = [name for name in a if name in b and not is_equal(a[name], b[name])]\n"
        "    if unequal:\n        print(row, unequal)"
    )


def _commands(left: ShownDataset, right: ShownDataset) -> str | None:
    """The page itself, and the same rows as text; ``None`` where a side has no files."""
    if not (left.paths and right.paths):
        return None
    count = f"--json --count {ROWS_AS_TEXT}"
    sides = [f"<({command_for(each, 'head', count)})" for each in (left, right)]
    # Options of a command are the same for both paths.
    view = command_line(["headrace", "view", *left.paths, *right.paths, *left.flags("view")])
    is_more = any((each.count(0) or 0) > ROWS_AS_TEXT for each in (left, right))
    note = f"# the first {ROWS_AS_TEXT:,} rows, as text\n" if is_more else ""
    return f"{view}\n{note}diff {' '.join(sides)}"


def _choice(datasets: list[ShownDataset], numbers: tuple[int, int], links: Links) -> Markup | None:
    if len(datasets) <= len(numbers):
        return None
    selects = []
    for name, chosen in zip(("left", "right"), numbers, strict=True):
        options = [element("option", each.name, value=n, selected=n == chosen) for n, each in enumerate(datasets)]
        selects.append(element("label", name, " ", element("select", *options, name=name)))
    return element(
        "form", *selects, element("button", "Compare"), method="get", action=links.above("compare"), class_="fields"
    )


def _summary(found: Difference) -> Markup:
    lines = []
    if found.counts[0] != found.counts[1]:
        lines.append(f"{found.counts[0]:,} and {found.counts[1]:,} examples")
    if found.only_left:
        lines.append(f"only on the left: {', '.join(found.only_left[:SHOWN_FEATURES])}")
    if found.only_right:
        lines.append(f"only on the right: {', '.join(found.only_right[:SHOWN_FEATURES])}")
    lines += [
        f"{name} is {left} on the left and {right} on the right" for name, left, right in found.types[:SHOWN_FEATURES]
    ]
    lines += [f"{name} differs in {count:,} rows" for name, count in found.features.most_common(SHOWN_FEATURES)]
    if not lines and found.is_complete:
        return element("p", f"No difference in {found.compared:,} rows.", class_="ok", role="status")
    return join(
        [
            element(
                "p",
                f"{found.differing:,} of {'' if found.is_complete else 'the first '}{found.compared:,} rows differ.",
            ),
            element("ul", *(element("li", line) for line in lines)),
        ]
    )


def _rows(found: Difference, sides: tuple[ShownDataset, ShownDataset], links: list[Links]) -> Markup | None:
    if not found.rows:
        return None
    lines = []
    for index, names in found.rows[:SHOWN_ROWS]:
        first, second = (each.rows_at([index], names)[0] for each in sides)
        for name in names[:3]:
            cells = []
            for row, side, link in zip((first, second), sides, links, strict=True):
                position = str(side.positions[name])

                def media(
                    kind: str, item: int, size: int, link: Links = link, position: str = position, index: int = index
                ) -> str:
                    return link.to(kind, row=str(index), feature=position, item=item or None, size=size or None)

                place = CellPlace(index, side.schema[name], name, media)
                cells.append(
                    _cell(row.values[name], place)
                    if row.values and name in row.values
                    else row.fault or "too large to show"
                )
            address = element("a", f"{index:,}", href=links[0].to(row=str(index)))
            lines.append((address, name, *cells))
    return table(("row", "feature", "left", "right"), lines, caption="rows that differ")


def _cell(value: Any, place: CellPlace) -> Markup:
    """A value; a float with all of its digits, because the last ones may be what differs."""
    return large_cell(value, place) if isinstance(value, (float, np.floating)) else small_cell(value, place)
