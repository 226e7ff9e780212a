"""What is said of one feature."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from headrace.cli.stats.histogram import Bar
from headrace.cli.terminal.values import plain

__all__ = ["Summary"]


@dataclass(slots=True, kw_only=True)
class Summary:
    """What is known of one feature.

    Attributes:
        name, dtype, shape: As in the schema.
        examples: How many were read.
        empty: Of those, how many hold no value: the feature is missing, or its list is empty.
        values: Values in them together.
        lengths: Smallest, mean and largest number of values in an example, where that varies.
        sizes: The same of the bytes (or characters) of texts.
        nan, infinite: Numbers that are none, which nothing below counts.
        minimum, maximum, mean, std: Of numbers. Complex ones are measured by their magnitude.
        distinct: How many different values; ``None`` where there are more than 10,000.
        bars: The distribution: of values, of ranges of values, or of the sizes of texts.
        bars_of: Which of those.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...]
    examples: int = 0
    empty: int = 0
    values: int = 0
    lengths: tuple[int, float, int] | None = None
    sizes: tuple[int, float, int] | None = None
    nan: int = 0
    infinite: int = 0
    minimum: Any = None
    maximum: Any = None
    mean: float | None = None
    std: float | None = None
    distinct: int | None = 0
    bars: list[Bar] = field(default_factory=list)
    bars_of: str = "values"

    def to_json(self) -> Any:
        """As JSON values."""
        return plain(asdict(self))
