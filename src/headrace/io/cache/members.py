"""File parts with their own CRC-32, such as members of a ZIP file: checking them, and inflating them into the cache."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from headrace.errors import CorruptFile, Where
from headrace.io.cache.folder import (
    ATTEMPTS,
    CacheEntry,
    cache_folder,
    cache_key,
    cache_limit_bytes,
    entry_path,
    is_trusted,
    open_entry,
)
from headrace.io.cache.inflated import LIMIT_HINT
from headrace.io.engines import zlib_library
from headrace.io.faults import NoCacheSpace, cache_emptied_error
from headrace.io.local.mapped import MappedFile, guard_reads
from headrace.io.local.signatures import wait_for_tick
from headrace.io.paths import absolute
from headrace.io.system import boot_id
from headrace.io.write.atomic import write_atomic

__all__ = ["FilePart", "check_crc", "crc_fault", "inflate_bytes", "inflate_to_cache"]


VERSION = 3
STEP_BYTES = 4 << 20
REMEMBERED_BYTES = 16 << 20  # smaller parts are checked faster than the cached result is looked up


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePart:
    """A part of a file.

    Args:
        name: Its name in messages.
        offset: Its first byte.
        packed_bytes: Its length.
        size: The size of its content; the same if it is not deflated.
        crc: CRC-32 of its content.
    """

    name: str
    offset: int
    packed_bytes: int
    size: int
    crc: int


def check_crc(file: MappedFile, part: FilePart) -> None:
    """Check a part that is not deflated. For large parts, the cache records success.

    Raises:
        CorruptFile: Its CRC-32 differs.
    """
    mark = _mark_path(file, part) if part.size >= REMEMBERED_BYTES else None
    if mark is not None and is_trusted(mark) and mark.exists():
        return
    if mark is not None:
        wait_for_tick([file.signature])
    library = zlib_library()
    found = 0
    for start in range(part.offset, part.offset + part.size, STEP_BYTES):
        size = min(STEP_BYTES, part.offset + part.size - start)
        with guard_reads(file.buffer):
            found = library.crc32(file.buffer[start : start + size], found)
        if mark is not None:
            file.drop(start, size)  # An array larger than memory may pass through here.
    if found != part.crc:
        raise crc_fault(file.path, part, found)
    if mark is not None:
        write_atomic(mark, b"", durable=False)


def inflate_bytes(packed: memoryview, part: FilePart, path: str) -> bytes:
    """The content of a deflated part in memory.

    Raises:
        CorruptFile: The stream is damaged, or its CRC-32 differs.
    """
    blocks = (packed[start : start + STEP_BYTES] for start in range(0, part.packed_bytes, STEP_BYTES))
    return b"".join(_inflate_blocks(blocks, path, part))


def inflate_to_cache(file: MappedFile, part: FilePart) -> MappedFile:
    """The content of a deflated part, mapped from the cache. Inflated on first use.

    Raises:
        CorruptFile: The stream is damaged, or its CRC-32 differs.
        UnsupportedData: The cache has no space left.
    """
    path = entry_path(_key(file, part))
    for _ in range(ATTEMPTS):
        found = _find_cached(path, file, part)
        if found is not None:
            return found
        entry = CacheEntry.claim(path, wait=True)
        if entry is not None:
            _fill(entry, file, part)
            if not entry.may_be_again:
                break
    else:
        raise cache_emptied_error(file.path)
    raise NoCacheSpace(
        Where(path=file.path, feature=part.name),
        expected=f"space for {part.size} inflated bytes in the cache, which random access needs",
        found="none",
        hint=LIMIT_HINT,
    )


def _find_cached(path: Path, file: MappedFile, part: FilePart) -> MappedFile | None:
    return open_entry(file.path, path, size=part.size) if is_trusted(path) else None


def _fill(entry: CacheEntry, file: MappedFile, part: FilePart) -> None:
    try:
        limit = cache_limit_bytes(entry.path.parent)
        if part.size > limit:
            return
        stop = part.offset + part.packed_bytes
        packed = (file.read(at, min(STEP_BYTES, stop - at)) for at in range(part.offset, stop, STEP_BYTES))
        for block in _inflate_blocks(packed, file.path, part):
            if not entry.write(block):
                return
        if entry.write_note(None):
            entry.commit(limit, durable=not boot_id())
    finally:
        if not entry.closed:
            entry.abort()


def _inflate_blocks(blocks: Iterable[memoryview], path: str, part: FilePart) -> Iterator[bytes]:
    library = zlib_library()
    stream = library.decompressobj(wbits=-15)
    crc = size = 0
    for block in blocks:
        packed: Any = block
        more = True
        while more and not stream.eof:
            # One byte more than expected, to detect a stream that is too long.
            most = min(STEP_BYTES, part.size - size + 1)
            try:
                found = stream.decompress(packed, most)
            except (library.error, zlib.error) as error:
                raise _broken(path, part, str(error).partition(": ")[2] or str(error)) from error
            crc, size = library.crc32(found, crc), size + len(found)
            if size > part.size:
                raise _broken(path, part, "a longer one")
            if found:
                yield found
            packed = stream.unconsumed_tail
            more = bool(packed) or len(found) == most
    if not stream.eof or stream.unused_data:
        raise _broken(path, part, "one that ends elsewhere")
    if size != part.size:
        raise _broken(path, part, f"one of {size}")
    if crc != part.crc:
        raise crc_fault(path, part, crc)


def _broken(path: str, part: FilePart, found: str) -> CorruptFile:
    where = Where(path=path, offset=part.offset, feature=part.name)
    return CorruptFile(where, expected=f"a deflate stream of {part.size} bytes", found=found)


def crc_fault(path: str, part: FilePart, found: int) -> CorruptFile:
    """The error for a part whose CRC-32 differs."""
    return CorruptFile(
        Where(path=path, offset=part.offset, feature=part.name),
        expected=f"content of CRC-32 {part.crc:#010x}",
        found=f"{found:#010x}",
        hint="The array is damaged. verify=False reads it unchecked.",
    )


def _mark_path(file: MappedFile, part: FilePart) -> Path:
    return cache_folder("checked") / _key(file, part)


def _key(file: MappedFile, part: FilePart) -> str:
    return cache_key(VERSION, absolute(file.path), *astuple(file.signature), part.offset, part.size, part.crc)
