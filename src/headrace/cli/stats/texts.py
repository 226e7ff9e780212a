"""Bytes and texts of one feature: sizes and most frequent values."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.cli.stats.histogram import Bar, Counts
from headrace.cli.stats.numbers import Numbers
from headrace.cli.stats.summary import Summary
from headrace.cli.terminal.values import short

__all__ = ["Texts"]

LONG = 64  # longer texts are counted by their hash


class Texts:
    """Gathers bytes and texts block by block."""

    def __init__(self) -> None:
        self._counts = Counts()
        self._long: dict[bytes, str] = {}
        self._sizes = Numbers(np.dtype(np.int64))

    def add(self, values: npt.NDArray[Any]) -> None:
        """Take in texts; what is neither bytes nor text counts as what it prints as."""
        texts = [value if isinstance(value, (bytes, str)) else str(value) for value in values.tolist()]
        self._sizes.add(np.fromiter(map(len, texts), np.int64, len(texts)))
        if self._counts.counts is not None:
            found = Counter(map(self._key, texts))
            self._counts.add(found.keys(), found.values())
        else:
            self._long.clear()

    def _key(self, text: bytes | str) -> Any:
        if len(text) <= LONG:
            return text
        content = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
        key = hashlib.blake2b(content, digest_size=16).digest()
        self._long.setdefault(key, short(text))
        return key

    def tell(self, summary: Summary, most_bars: int) -> None:
        """Put what was found into a summary."""
        summary.values = self._sizes.count
        summary.sizes = self._sizes.range()
        summary.distinct = self._counts.distinct
        counts = self._counts.counts
        if counts is not None and len(counts) <= most_bars:
            by_count = sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))
            summary.bars = [Bar(self._long.get(key, "") or short(key), count) for key, count in by_count]
        else:
            summary.bars = self._sizes.bars(most_bars)
            summary.bars_of = "sizes"
