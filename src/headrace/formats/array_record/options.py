"""How an ArrayRecord file is to be written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from headrace.formats.array_record.codecs import BROTLI, NONE, SNAPPY, ZSTD, library

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["CodecName", "WriterOptions"]


CodecName = Literal["none", "zstd", "brotli", "snappy"]


@dataclass(frozen=True, slots=True)
class _Kind:
    number: int
    levels: range  # empty: there is nothing to choose
    level: int
    windows: range
    window_log: int | None


_KINDS = {
    "none": _Kind(NONE, range(0), 0, range(0), None),
    "zstd": _Kind(ZSTD, range(-131072, 23), 3, range(10, 32), 20),
    "brotli": _Kind(BROTLI, range(12), 6, range(10, 25), None),
    "snappy": _Kind(SNAPPY, range(0), 0, range(0), None),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterOptions:
    """The options of a writer, checked.

    Args:
        group_size: Records in a chunk. One makes random access fastest, hundreds make compression better.
        codec: ``"zstd"``, ``"brotli"``, ``"snappy"`` or ``"none"``.
        level: Of the compression: Zstandard -131072 to 22, Brotli 0 to 11; ``None``: 3, and 6.
        window_log: Base-2 logarithm of how far back it may refer: Zstandard 10 to 31 (``None``: 20), Brotli 10 to 24
            (``None``: its own choice).
        pad_to_block_boundary: Begin every chunk at a multiple of 64 KiB.

    Raises:
        ValueError: One of them is out of range.
    """

    group_size: int = 1
    codec: CodecName = "zstd"
    level: int | None = None
    window_log: int | None = None
    pad_to_block_boundary: bool = False

    def __post_init__(self) -> None:
        if self.codec not in _KINDS:
            raise ValueError(f"codec must be one of {', '.join(map(repr, _KINDS))}, got {self.codec!r}")
        if self.group_size < 1:
            raise ValueError(f"group_size must be at least 1, got {self.group_size}")
        kind = _KINDS[self.codec]
        _check("level", self.level, kind.levels, self.codec)
        _check("window_log", self.window_log, kind.windows, self.codec)

    @property
    def number(self) -> int:
        """How chunks name the codec."""
        return _KINDS[self.codec].number

    def packer(self) -> Callable[[Buffer], Buffer]:
        """A function that compresses one buffer.

        Raises:
            MissingExtra: The library for the codec is not installed.
        """
        kind = _KINDS[self.codec]
        level = kind.level if self.level is None else self.level
        return library(kind.number).packer(level, self.window_log or kind.window_log)

    def canonical(self) -> str:
        """The options as ArrayRecord's own writer puts them into a file.

        >>> WriterOptions().canonical()
        'group_size:1,transpose:false,pad_to_block_boundary:false,zstd:3,window_log:20,max_parallelism:1'
        """
        kind = _KINDS[self.codec]
        codec: str = "uncompressed" if self.codec == "none" else self.codec
        if kind.levels:
            codec += f":{kind.level if self.level is None else self.level}"
        window_log = self.window_log or kind.window_log
        parts = [
            f"group_size:{self.group_size}",
            "transpose:false",
            f"pad_to_block_boundary:{str(self.pad_to_block_boundary).lower()}",
            codec,
            *([] if window_log is None else [f"window_log:{window_log}"]),
            "max_parallelism:1",
        ]
        return ",".join(parts)


def _check(name: str, value: int | None, allowed: range, codec: str) -> None:
    if value is None or value in allowed:
        return
    if not allowed:
        raise ValueError(f"{codec!r} has no {name}")
    raise ValueError(f"{name} of {codec!r} must be in [{allowed[0]}, {allowed[-1]}], got {value}")
