"""The shape of a dataset, as text: ``tfrecord 13f32+26s8+1i1 batch=256 shuffled``.

The text is the name of a row: any shape can be measured by writing it down. First the format, then the columns, joined by ``+``, each
``[count]kind[size][shape][~distinct]``:

| kind | values | size |
| --- | --- | --- |
| ``f`` | floats | 32 or 64 bits |
| ``i``, ``n`` | integers from 0, and negative ones | bits, or ``<50000`` for a bound |
| ``u`` | unsigned bytes | |
| ``t`` | true or false | |
| ``s``, ``w``, ``q`` | text: letters; words with accents and other scripts; words with quotes and commas | characters, or ``5-60`` |
| ``b`` | bytes, as hard to compress as an image | bytes, or a range |
| ``d`` | bytes that compress to about a third | bytes, or a range |
| ``j``, ``p`` | photographs as JPEG, baseline and progressive | quality, or a range |
| ``g`` | photographs as PNG | |
| ``k`` | the number of the row | |

A shape is ``[784]`` or ``[375x500]``; a ragged one begins with a range: ``[20-500]``, ``[5-60x16]``. Then follow the batch size, and what
differs from the usual: ``shuffled``, ``shards=1000``, ``group=16`` (records in a chunk), ``rows=200000``, ``crop=224``, ``objects`` (the ragged
columns are the keys of one list of objects, as the messages of a chat are; ``jsonl`` and ``parquet`` only).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

FORMATS = ("tfrecord", "sequence", "array_record", "npy", "csv", "jsonl", "parquet")
TEXT, BYTES, IMAGES = "swq", "bd", "jpg"
FACTORS = {"full": 1.0, "half": 0.5, "quick": 0.25, "tiny": 0.0005}
"""Share of the rows that a run of each size reads."""
_BYTES = 32_000_000  # of a full dataset whose shape does not say how many rows
_MOST_ROWS, _MOST_IMAGES = 100_000, 5_000
_COLUMN = re.compile(r"(\d*)([a-z])(?:(<?\d+)(?:-(\d+))?)?(?:\[([\dx-]+)\])?(?:~(\d+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """Several columns of one kind.

    Attributes:
        count: How many.
        kind: A letter of the table above.
        size: Lowest and highest size; for an integer column with a bound, ``(0, bound)``.
        shape: Dimensions of a value, without a ragged first one.
        lengths: Lowest and highest length of a ragged first dimension, or None.
        distinct: How many different values there are, or 0 for any number.
    """

    count: int
    kind: str
    size: tuple[int, int] = (0, 0)
    shape: tuple[int, ...] = ()
    lengths: tuple[int, int] | None = None
    distinct: int = 0

    @classmethod
    def parse(cls, text: str) -> Column:
        """Read ``26s8~100``."""
        found = _COLUMN.fullmatch(text)
        if not found or found[2] not in "finut" + TEXT + BYTES + IMAGES + "k":
            raise ValueError(f"{text!r} is no column; for example: 26s8, 1i<50000[20-500], 1j75-95[375x500]")
        count, kind, low, high, shape, distinct = found.groups()
        first, *inner = shape.split("x") if shape else [""]
        dimensions = [int(part) for part in ([*inner] if "-" in first else [first, *inner]) if part]
        least, _, most = first.partition("-")
        if low and low.startswith("<"):
            size = (0, int(low[1:]))
        else:
            size = (int(low or 0), int(high or low or 0))
        return cls(
            count=int(count or 1),
            kind=kind,
            size=size,
            shape=tuple(dimensions),
            lengths=(int(least), int(most)) if most else None,
            distinct=int(distinct or 0),
        )

    def __str__(self) -> str:
        low, high = self.size
        bound = self.kind == "i" and (low, high) == (0, high) and high > 0
        size = f"<{high}" if bound else (f"{low}-{high}" if low != high else f"{low or ''}")
        ragged = [f"{self.lengths[0]}-{self.lengths[1]}"] if self.lengths else []
        shape = "x".join([*ragged, *map(str, self.shape)])
        return f"{self.count}{self.kind}{size}{f'[{shape}]' if shape else ''}{f'~{self.distinct}' if self.distinct else ''}"

    @property
    def is_image(self) -> bool:
        """Whether values are encoded images."""
        return self.kind in IMAGES

    @property
    def strings(self) -> int:
        """How many texts, byte strings or encoded images a value consists of; 0 for numbers."""
        if self.is_image:
            return 1
        return prod(self.shape) if self.kind in TEXT + BYTES else 0

    @property
    def row_bytes(self) -> float:
        """About how many bytes a row holds. Decoded images count an eighth, since decoding takes most of the time."""
        if self.is_image:
            return self.count * prod(self.shape) * 3 / 8
        values = prod(self.shape) * (sum(self.lengths) / 2 if self.lengths else 1)
        each = {"f": self.size[0] / 8, "i": 4, "n": 8, "u": 1, "t": 1, "k": 4}.get(self.kind, 2 + sum(self.size) / 2)
        return self.count * values * each


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A dataset and how it is read.

    Attributes:
        format: One of `FORMATS`.
        columns: Its columns.
        batch: Examples in a batch, or records in a call.
        shuffled: Whether examples come in a random order.
        shards: Files.
        group: Records in a chunk of ArrayRecord.
        full_rows: Rows of the full dataset, or 0 for about 32 MB.
        crop: Side of the random crops that images become, or 0.
        objects: Whether the ragged columns are keys of one list of objects.
    """

    format: str
    columns: tuple[Column, ...]
    batch: int = 256
    shuffled: bool = False
    shards: int = 1
    group: int = 1
    full_rows: int = 0
    crop: int = 0
    objects: bool = False

    @classmethod
    def parse(cls, text: str) -> Shape:
        """Read the text form (ValueError if it is none)."""
        format, columns, *options = text.split()
        if format not in FORMATS:
            raise ValueError(f"{format!r} is none of the formats {', '.join(FORMATS)}")
        shape = cls(format=format, columns=tuple(Column.parse(part) for part in columns.split("+")))
        names = {"batch": "batch", "shards": "shards", "group": "group", "rows": "full_rows", "crop": "crop"}
        for option in options:
            name, _, value = option.partition("=")
            if option in ("shuffled", "objects"):
                shape = replace(shape, **{option: True})
            elif name in names and value.isdigit():
                shape = replace(shape, **{names[name]: int(value)})
            else:
                raise ValueError(
                    f"{option!r} is none of shuffled, objects, {', '.join(f'{known}=' for known in names)}"
                )
        ranges = {column.lengths for column in shape.columns if column.lengths}
        if shape.objects and (format not in ("jsonl", "parquet") or len(ranges) != 1):
            raise ValueError(
                f"{text!r}: objects are in jsonl and parquet, and have ragged columns of one range, as in 2s5[1-9]"
            )
        return shape

    def __str__(self) -> str:
        options = [f"batch={self.batch}", *(["shuffled"] if self.shuffled else [])]
        for name, value, usual in (("shards", self.shards, 1), ("group", self.group, 1), ("crop", self.crop, 0)):
            options += [f"{name}={value}"] if value != usual else []
        options += [f"rows={self.full_rows}"] if self.full_rows else []
        options += ["objects"] if self.objects else []
        return " ".join([self.data_text, *options])

    @property
    def data_text(self) -> str:
        """The part that names the format and columns."""
        return f"{self.format} {'+'.join(map(str, self.columns))}"

    @property
    def row_bytes(self) -> float:
        """About how many bytes a row holds."""
        each = 12 if self.format in ("tfrecord", "sequence", "jsonl") else 0  # every value carries its name
        return sum(column.row_bytes + each * column.count for column in self.columns)

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that are keys of a list of objects."""
        return tuple(name for name, column in self.names if self.objects and column.lengths)

    @property
    def image(self) -> Column | None:
        """The column of images, or None."""
        return next((column for column in self.columns if column.is_image), None)

    @cached_property
    def names(self) -> tuple[tuple[str, Column], ...]:
        """Every single column with its name."""
        single = [column for column in self.columns for _ in range(column.count)]
        return tuple((f"{column.kind}_{number:03d}", replace(column, count=1)) for number, column in enumerate(single))

    def rows(self, size: str) -> int:
        """How many rows a run of this size reads."""
        # Chunks of several records: far more than readers keep in memory. Arrays: enough for epochs that can be timed.
        whole = _BYTES * (16 if self.group > 1 else 4 if self.format in ("array_record", "npy") else 1)
        full = self.full_rows or min(
            _MOST_IMAGES if self.image else _MOST_ROWS * (4 if self.format in ("array_record", "npy") else 1),
            round(whole / self.row_bytes),
        )
        least = 24 if size == "tiny" else max(32, 2 * self.batch if self.batch * self.row_bytes < 1e6 else 0)
        shards = min(self.shards, 5) if size == "tiny" else self.shards
        share = 0.6 if size == "quick" and self.format in ("array_record", "npy") else FACTORS[size]
        return max(least, shards, round(full * share))
