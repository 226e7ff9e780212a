"""Zstandard, Brotli and Snappy, each through the library that measured best on thousands of small frames.

Zstandard is unpacked by native code; its library packs, and says what is wrong with a frame, or is beyond that code.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Protocol

from headrace import _optional

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["BROTLI", "NONE", "SNAPPY", "ZSTD", "Library", "Zstandard", "library", "zstandard"]


NONE, BROTLI, SNAPPY, ZSTD = 0, 98, 115, 122
"""How chunks name their codecs."""

EXTRA = "array-record"
LARGEST_WINDOW = 1 << 31  # what the writer's window_log allows; memory is touched only as far as there is content
EXCESS_BYTES = 1 << 15
Pack = Callable[["Buffer"], "Buffer"]


class Library(Protocol):
    """One codec."""

    errors: tuple[type[Exception], ...]
    """What it raises for damaged data."""

    def unpack_into(self, source: memoryview, target: memoryview) -> int:
        """Decompress, and return how many bytes there are: of more than fit, at least one more than fits."""

    def packer(self, level: int, window_log: int | None) -> Pack:
        """A function that compresses one buffer."""


class Zstandard:
    """Zstandard."""

    def __init__(self) -> None:
        self._library: Any = _optional.require("zstandard", extra=EXTRA)
        self._of_thread = threading.local()
        self.errors: tuple[type[Exception], ...] = (self._library.ZstdError,)

    def _decompressor(self) -> Any:
        """One for each thread."""
        found = getattr(self._of_thread, "decompressor", None)
        if found is None:
            found = self._of_thread.decompressor = self._library.ZstdDecompressor(max_window_size=LARGEST_WINDOW)
        return found

    def unpack_into(self, source: memoryview, target: memoryview) -> int:
        # Into memory that exists: a fresh result would cost page faults, and a declared size could ask for any amount.
        stream = self._decompressor().stream_reader(source)
        size: int = stream.readinto(target)
        return size + len(stream.read(1))

    def packer(self, level: int, window_log: int | None) -> Pack:
        # The level itself, not the parameters behind it: those then follow from the size of each content.
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
                break  # It ends too early.
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

    def packer(self, level: int, window_log: int | None) -> Pack:  # noqa: ARG002 - there is nothing to choose
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
