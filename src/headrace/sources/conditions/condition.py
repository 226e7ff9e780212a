"""A small language that picks examples: ``label = 7 and width > 100``. It is data, not code: nothing in it is executed.

Grammar::

    condition:   both ("or" both)*
    both:        negation ("and" negation)*
    negation:    "not" negation | "(" condition ")" | comparison
    comparison:  value (("=" | "==" | "!=" | "<" | "<=" | ">" | ">=") value | "contains" text | ["not"] "in" "(" value, ... ")")?
    value:       number | text | "true" | "false" | name | name "[" whole number "]" | function "(" name ")"
    function:    "length" | "min" | "max" | "mean"
    name:        letters, digits, "_", "/" and "." without quotes; any other in `backticks`
    text:        in 'single' or "double" quotes; a quote in it is written twice
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.contracts.protocols import PicksRows
from headrace.contracts.schema import Schema
from headrace.contracts.strings import Strings
from headrace.contracts.values import Batch, Example
from headrace.errors import NoSuchFeature, Where, did_you_mean
from headrace.sources.conditions.terms import (
    COMPARISONS,
    FUNCTIONS,
    Comparison,
    ConditionError,
    FeatureValues,
    Flat,
    Literal,
    Mask,
    Rows,
    Summarised,
    Term,
    Value,
    any_of,
    is_searched,
)
from headrace.sources.stacking import stack

__all__ = ["WORDS", "Condition", "condition"]

MOST_CHARACTERS = 10_000
MOST_NESTED = 50
MOST_DIGITS = 400  # more than the largest float64 has
MOST_POSITION_DIGITS = 12
TOKEN = re.compile(
    r"""\s*(?:
    (?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]))
    |(?P<text>'(?:[^']|'')*'|"(?:[^"]|"")*")
    |(?P<quoted>`[^`]+`)
    |(?P<name>[^\W\d][\w./]*)
    |(?P<sign>==|!=|<>|<=|>=|[=<>()\[\],])
    )""",
    re.VERBOSE,
)
WORDS = ("and", "or", "not", "in", "contains", "true", "false")
"""Features of these names go in backticks."""


@dataclass(frozen=True, repr=False)
class Condition(PicksRows):
    """Picks examples: ``source.filter(headrace.condition("label = 7 and width > 100"))``. Made by :func:`condition`.

    Attributes:
        text: What was written.
        names: The features that it names.
        searches: Whether it also looks at all features of text.
    """

    text: str
    names: tuple[str, ...]
    searches: bool
    _term: Term

    def mask(self, batch: Batch, count: int, schema: Schema | None = None) -> Mask:
        """Which rows of a batch fit.

        Args:
            batch: Has at least the features of :meth:`needed`.
            count: The number of its rows.
            schema: With it, labels are compared with their names.

        Returns:
            ``bool (count,)``.

        Raises:
            ConditionError: It does not fit the types of the features.
        """
        return self._term.mask(Rows(batch, count, schema))

    def needed(self, schema: Schema) -> tuple[str, ...]:
        """The features of a source that it needs.

        Raises:
            NoSuchFeature: One does not exist; the message suggests a name.
        """
        for name in self.names:
            if name not in schema:
                raise NoSuchFeature(
                    Where(),
                    expected=f"one of {len(schema)} features in {self.text!r:.200}",
                    found=repr(name),
                    hint=did_you_mean(name, schema) or "A text is written in quotes.",
                )
        if not self.searches:
            return self.names
        return tuple(name for name, feature in schema.items() if name in self.names or is_searched(feature))

    def __call__(self, example: Example) -> bool:
        """Whether one example fits."""
        names = list(example) if self.searches else self.names
        return bool(self.mask(stack([{name: example[name] for name in names}]), 1)[0])

    def __repr__(self) -> str:
        return f"condition({self.text!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return condition, (self.text,)


def condition(text: str) -> Condition:
    """Parse a condition, for :meth:`headrace.Source.filter` and the viewer.

    A comparison with a feature of several values holds if any value satisfies it; ``length``, ``min``, ``max`` and ``mean``
    reduce them to one. Labels compare with their class names. A text alone is searched for in all features of text.

    Args:
        text: For example ``"label = 7 and width > 100"``, ``"name contains 'cat' or length(tokens) >= 512"``, ``"score[0] < 0.5"``,
            ``"label in ('cat', 'dog')"``, ``"'needle'"``.

    Raises:
        ConditionError: The text cannot be parsed; the message shows where.

    >>> condition("label = 7 and width > 100").names
    ('label', 'width')
    """
    if not isinstance(text, str):
        raise TypeError(f"a condition is written as text, got {type(text).__name__}")
    if len(text) > MOST_CHARACTERS:
        raise ConditionError(f"a condition has at most {MOST_CHARACTERS:,} characters, got {len(text):,}")
    parser = Parser(text)
    term = parser.condition(0)
    if parser.kind:
        raise parser.error("the end, 'and' or 'or'")
    return Condition(text, tuple(dict.fromkeys(parser.names)), parser.searches, term)


class Parser:
    """Reads a condition by recursive descent; the depth is bounded."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.names: list[str] = []
        self.searches: bool = False
        self.at: int = 0
        self.end: int = 0
        self.kind: str = ""
        self.token: str = ""
        self.advance()

    def advance(self) -> None:
        """Read the next token; its kind is empty at the end."""
        self.at = self.end
        if not self.text[self.at :].strip():
            self.at, self.kind, self.token = len(self.text), "", ""
            return
        found = TOKEN.match(self.text, self.at)
        if found is None:
            self.at += len(self.text[self.at :]) - len(self.text[self.at :].lstrip())
            self.kind, self.token = "other", self.text[self.at]
            raise self.error("a feature, a number, a text in quotes or an operator")
        self.kind = str(found.lastgroup)
        self.token = found[self.kind]
        self.at, self.end = found.start(self.kind), found.end()
        if self.kind == "name" and self.token.lower() in WORDS:
            self.kind, self.token = "word", self.token.lower()

    def error(self, expected: str) -> ConditionError:
        """The error for the token that is here."""
        found = repr(self.token) if self.kind else "the end"
        window = self.text[max(0, self.at - 40) : self.at + 40]
        return ConditionError(f"expected {expected} at character {self.at + 1}, found {found}: {window!r}")

    def take(self, token: str) -> bool:
        """Whether the token is here; then go on."""
        if self.kind in ("word", "sign") and self.token == token:
            self.advance()
            return True
        return False

    def expect(self, token: str) -> None:
        """Go on after a token that must be here."""
        if not self.take(token):
            raise self.error(repr(token))

    def condition(self, depth: int) -> Term:
        """``both ("or" both)*``."""
        if depth > MOST_NESTED:
            raise ConditionError(f"at most {MOST_NESTED} brackets may be nested")
        terms = [self.both(depth)]
        while self.take("or"):
            terms.append(self.both(depth))
        return terms[0] if len(terms) == 1 else Combined(tuple(terms), is_any=True)

    def both(self, depth: int) -> Term:
        """``negation ("and" negation)*``."""
        terms = [self.negation(depth)]
        while self.take("and"):
            terms.append(self.negation(depth))
        return terms[0] if len(terms) == 1 else Combined(tuple(terms), is_any=False)

    def negation(self, depth: int) -> Term:
        """``"not" negation | "(" condition ")" | comparison``."""
        if depth > MOST_NESTED:
            raise ConditionError(f"at most {MOST_NESTED} of 'not' and brackets may be nested")
        if self.take("not"):
            return Negated(self.negation(depth + 1))
        if self.take("("):
            inside = self.condition(depth + 1)
            self.expect(")")
            return inside
        return self.comparison()

    def comparison(self) -> Term:
        """One comparison, or a value alone."""
        left = self.value()
        if self.kind == "sign" and self.token in COMPARISONS:
            sign = self.token
            self.advance()
            return Comparison(left, sign, self.value())
        if self.take("contains"):
            if self.kind != "text":
                raise self.error("a text in quotes")
            return Contains(left, self.unquote())
        is_out = self.take("not")
        if self.take("in"):
            found = Combined(tuple(Comparison(left, "=", each) for each in self.list_of_values()), is_any=True)
            return Negated(found) if is_out else found
        if is_out:
            raise self.error("'in'")
        if isinstance(left, Literal) and isinstance(left.value, str):
            self.searches = True
            return Search(left.value)
        return Truth(Literal(left.value != 0) if isinstance(left, Literal) else left)

    def list_of_values(self) -> Sequence[Value]:
        """``"(" value ("," value)* ")"``."""
        self.expect("(")
        found = [self.value()]
        while self.take(","):
            found.append(self.value())
        self.expect(")")
        return found

    def value(self) -> Value:
        """A literal, a feature or a function of one."""
        if self.kind == "number":
            token = self.token
            if len(token) > MOST_DIGITS:
                raise self.error(f"a number of at most {MOST_DIGITS} characters")
            self.advance()
            return Literal(_number(token))
        if self.kind == "text":
            return Literal(self.unquote())
        for word in ("true", "false"):
            if self.take(word):
                return Literal(word == "true")
        if self.kind not in ("name", "quoted"):
            raise self.error("a feature, a number or a text in quotes")
        return self.column()

    def column(self) -> Value:
        """A feature, with a position in it or a function around it."""
        is_plain, name = self.kind == "name", self.token.strip("`")
        self.advance()
        if is_plain and name.lower() in FUNCTIONS and self.take("("):
            if self.kind not in ("name", "quoted"):
                raise self.error("the name of a feature")
            inner = self.token.strip("`")
            self.advance()
            self.expect(")")
            self.names.append(inner)
            return Summarised(name.lower(), inner)
        self.names.append(name)
        if self.take("["):
            if self.kind != "number" or not self.token.isdecimal() or len(self.token) > MOST_POSITION_DIGITS:
                raise self.error("a position from 0")
            position = int(self.token)
            self.advance()
            self.expect("]")
            return FeatureValues(name, position)
        return FeatureValues(name)

    def unquote(self) -> str:
        """The text in quotes that is here; go on after it."""
        quote, text = self.token[0], self.token[1:-1]
        self.advance()
        return text.replace(quote * 2, quote)


@dataclass(frozen=True, slots=True)
class Combined:
    """``and``, ``or``."""

    terms: tuple[Term, ...]
    is_any: bool

    def mask(self, rows: Rows, /) -> Mask:
        masks = [term.mask(rows) for term in self.terms]
        found = masks[0]
        for other in masks[1:]:
            found = found | other if self.is_any else found & other
        return found


@dataclass(frozen=True, slots=True)
class Negated:
    """``not``."""

    term: Term

    def mask(self, rows: Rows, /) -> Mask:
        return ~self.term.mask(rows)


@dataclass(frozen=True, slots=True)
class Contains:
    """``feature contains 'text'``: upper and lower case are the same."""

    value: Value
    part: str

    def mask(self, rows: Rows, /) -> Mask:
        flat = self.value.flat(rows)
        if flat.is_unknown:
            return np.zeros(rows.count, bool)
        values = np.asarray(_name_values(flat), object)
        if not isinstance(flat.values, Strings) and flat.names is None:
            raise ConditionError("'contains' needs a feature of text or bytes, or one whose values have names")
        wanted = self.part.casefold()
        # Different bytes stay different.
        texts = (each.decode("utf-8", "surrogateescape") if isinstance(each, bytes) else str(each) for each in values)
        held = np.fromiter((wanted in text.casefold() for text in texts), bool, len(values))
        return any_of(held, flat.row, rows.count)


@dataclass(frozen=True, slots=True)
class Search:
    """A text alone: it is in any feature of text."""

    part: str

    def mask(self, rows: Rows, /) -> Mask:
        found = np.zeros(rows.count, bool)
        for name in rows.batch:
            feature, values = None if rows.schema is None else rows.schema[name], FeatureValues(name)
            if isinstance(values.flat(rows).values, Strings) if feature is None else is_searched(feature):
                found |= Contains(values, self.part).mask(rows)
        return found


@dataclass(frozen=True, slots=True)
class Truth:
    """A feature or literal alone: it is not zero."""

    value: Value

    def mask(self, rows: Rows, /) -> Mask:
        flat = self.value.flat(rows)
        if flat.is_unknown:
            return np.zeros(rows.count, bool)
        if isinstance(flat.values, Strings):
            return any_of(flat.values.lengths > 0, flat.row, rows.count)
        kind = np.asarray(flat.values).dtype.kind
        if kind not in "biufcm":
            raise ConditionError("a feature alone means that it is not 0, which needs numbers or texts: compare it")
        return any_of(np.asarray(flat.values) != (np.timedelta64(0) if kind == "m" else 0), flat.row, rows.count)


def _number(token: str) -> int | float:
    """A number as it is written. Integers stay exact, also those that no feature holds."""
    return float(token) if re.search(r"[.eE]", token) else int(token)


def _name_values(flat: Flat) -> Any:
    """The names of values that have some; else the values."""
    if flat.names is None:
        return np.asarray(flat.values, object)
    return np.array(
        [flat.names[v] if 0 <= v < len(flat.names) else str(v) for v in np.asarray(flat.values).tolist()], object
    )
