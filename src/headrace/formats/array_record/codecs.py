"""Compression of Riegeli chunks: the libraries, and the options that a writer records."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Literal, Protocol

from headrace import _optional
from headrace._arguments import check_integer

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "BROTLI",
    "NONE",
    "SNAPPY",
    "ZSTD",
    "CodecName",
    "Library",
    "WriterOptions",
    "Zstandard",
    "library",
    "zstandard",
]


NONE, BROTLI, SNAPPY, ZSTD = 0, 98, 115, 122
LEAST = -(1 << 31)
"""Below every range of levels and windows: their own error says what is allowed."""
"""The codes of the compression types in a chunk."""

EXTRA = "array-record"
LARGEST_WINDOW = 1 << 31  # the largest window_log of the writer; memory is touched only as far as there is content
EXCESS_BYTES = 1 << 15
Pack = Callable[["Buffer"], "Buffer"]


class Library(Protocol):
    """A compression library."""

    errors: tuple[type[Exception], ...]
    """The exceptions it raises for damaged data."""

    def unpack_into(self, source: memoryview, target: memoryview) -> int:
        """Decompress, and return the decompressed size. If the data do not fit, return any size larger than ``target``."""

    def packer(self, level: int, window_log: int | None) -> Pack:
        """A function that compresses one buffer."""


class Zstandard:
    """Zstandard."""

    def __init__(self) -> None:
        self._library: Any = _optional.require("zstandard", extra=EXTRA)
        self._of_thread = threading.local()
        self.errors: tuple[type[Exception], ...] = (self._library.ZstdError,)

    def _decompressor(self) -> Any:
        """One decompressor per thread."""
        found = getattr(self._of_thread, "decompressor", None)
        if found is None:
            found = self._of_thread.decompressor = self._library.ZstdDecompressor(max_window_size=LARGEST_WINDOW)
        return found

    def unpack_into(self, source: memoryview, target: memoryview) -> int:
        # Decompress into existing memory: a fresh result would cost page faults, and a declared size could ask for any amount.
        stream = self._decompressor().stream_reader(source)
        size: int = stream.readinto(target)
        return size + len(stream.read(1))

    def packer(self, level: int, window_log: int | None) -> Pack:
        # Set only the level: the other parameters then follow from the size of each input.
        chosen = self._library.ZstdCompressionParameters(compression_level=level, window_log=window_log or 0)
        pack: Pack = self._library.ZstdCompressor(compression_params=chosen).compress
        return pack


class _Brotli:
    def __init__(self) -> None:
        self._library: Any = _optional.require("brotli", extra=EXTRA)
        self.errors: tuple[type[Exception], ...] = (self._library.error,)

    def unpack_into(self, source: memoryview, target: memoryview) -> int:
        stream = self._library.Decompressor()
        size = 0
        rest = source
        while not stream.is_finished() and size <= len(target):
            found = stream.process(rest, output_buffer_limit=len(target) - size + EXCESS_BYTES)
            if len(found) == len(rest) == 0:
                break  # truncated
            kept = min(len(found), len(target) - size)
            target[size : size + kept] = memoryview(found)[:kept]
            size += len(found)
            rest = source[:0]
        return size

    def packer(self, level: int, window_log: int | None) -> Pack:
        window = {} if window_log is None else {"lgwin": window_log}
        pack: Pack = partial(self._library.compress, quality=level, **window)
        return pack


class _Snappy:
    def __init__(self) -> None:
        cramjam = _optional.require("cramjam", extra=EXTRA)
        self._library: Any = cramjam.snappy
        self.errors: tuple[type[Exception], ...] = (cramjam.DecompressionError,)

    def unpack_into(self, source: memoryview, target: memoryview) -> int:
        return int(self._library.decompress_raw_into(source, target))

    def packer(self, level: int, window_log: int | None) -> Pack:  # noqa: ARG002 - Snappy has no options
        pack: Pack = self._library.compress_raw
        return pack


@cache
def zstandard() -> Zstandard:
    """The library for Zstandard.

    Raises:
        MissingExtra: It is not installed.
    """
    return Zstandard()


_LIBRARIES: dict[int, Callable[[], Library]] = {ZSTD: zstandard, BROTLI: _Brotli, SNAPPY: _Snappy}


@cache
def library(codec: int) -> Library:
    """The library for a codec.

    Raises:
        MissingExtra: It is not installed.
    """
    return _LIBRARIES[codec]()


CodecName = Literal["none", "zstd", "brotli", "snappy"]


@dataclass(frozen=True, slots=True)
class _CodecLimits:
    number: int
    levels: range  # empty: no levels
    level: int
    windows: range
    window_log: int | None


_KINDS = {
    "none": _CodecLimits(NONE, range(0), 0, range(0), None),
    "zstd": _CodecLimits(ZSTD, range(-131072, 23), 3, range(10, 32), 20),
    "brotli": _CodecLimits(BROTLI, range(12), 6, range(10, 25), None),
    "snappy": _CodecLimits(SNAPPY, range(0), 0, range(0), None),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterOptions:
    """The validated options of a writer.

    Args:
        group_size: Records in a chunk. One makes random access fastest, hundreds make compression better.
        codec: ``"zstd"``, ``"brotli"``, ``"snappy"`` or ``"none"``.
        level: Compression level: Zstandard -131072 to 22, Brotli 0 to 11; ``None``: 3 and 6, respectively.
        window_log: Base-2 logarithm of the compression window: Zstandard 10 to 31 (``None``: 20), Brotli 10 to 24
            (``None``: Brotli's default).
        pad_to_block_boundary: Start every chunk at a multiple of 64 KiB.

    Raises:
        TypeError, ValueError: An option has a wrong type or is out of range.
    """

    group_size: int = 1
    codec: CodecName = "zstd"
    level: int | None = None
    window_log: int | None = None
    pad_to_block_boundary: bool = False

    def __post_init__(self) -> None:
        if self.codec not in _KINDS:
            raise ValueError(f"codec must be one of {', '.join(map(repr, _KINDS))}, got {self.codec!r}")
        check_integer(self.group_size, "group_size", least=1)
        kind = _KINDS[self.codec]
        _check("level", self.level, kind.levels, self.codec)
        _check("window_log", self.window_log, kind.windows, self.codec)

    @property
    def number(self) -> int:
        """The code of the compression type."""
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
        """The options as ArrayRecord's own writer stores them.

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
    if value is None or check_integer(value, name, least=LEAST) in allowed:
        return
    if not allowed:
        raise ValueError(f"{codec!r} has no {name}")
    raise ValueError(f"{name} of {codec!r} must be in [{allowed[0]}, {allowed[-1]}], got {value}")
