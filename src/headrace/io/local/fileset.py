"""Sets of up to thousands of files, mapped on demand, with bounded resident memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.contracts.values import Indices
from headrace.io.cache.inflate import Compression, wrapper_of, wrapper_of_name
from headrace.io.cache.inflated import InflatedHead, InflatedStream, RemoteCompressed, find_inflated, inflate_file
from headrace.io.cache.mirror import copy_to_cache, find_copy
from headrace.io.faults import file_shrank_error
from headrace.io.local import mapped as mapping_limits
from headrace.io.local.mapped import Descriptor, Descriptors, MappedFile, read_ranges
from headrace.io.local.signatures import Signature, Versions
from headrace.io.store.object import RemoteFile, fetch_extents, fetch_heads
from headrace.io.store.stream import BLOCK_BYTES, RemoteStream
from headrace.io.urls import is_url

__all__ = ["Buffers", "FileSet"]


Buffers: TypeAlias = "_native.Buffers | list[Any]"
Ranges: TypeAlias = tuple[npt.NDArray[np.uint8], Indices]

MOST_MAPPED = 4096  # of one set, whatever others have mapped; it has more while the process can map more
HEAD_BYTES = 64
HEADS_AT_ONCE = 256
NEIGHBOURS = 4  # this many consecutive files are passed without checking which ones are needed


class FileSet:
    """The (decompressed) contents of some files.

    Safe in threads and after fork; picklable (by paths).

    Args:
        paths: The files.
        compression: How all of them are compressed; ``None`` detects it for each from its first bytes.
        is_plain: Whether first bytes that look compressed belong to a plain file.
        pinned: Refuse other versions of local files than those that are there now.
    """

    def __init__(
        self,
        paths: Sequence[str],
        *,
        compression: Compression | None = "none",
        is_plain: Callable[[bytes], bool] | None = None,
        pinned: bool = False,
    ) -> None:
        self.paths: tuple[str, ...] = tuple(paths)
        self._compression = compression
        self._is_plain = is_plain
        self._forget()
        self.versions: Versions = Versions(self.paths if pinned else ())

    def _forget(self) -> None:
        # No lock: single operations on a dict are atomic, and another thread could hold a lock during a fork.
        self.is_remote: bool = any("://" in path and is_url(path) for path in self.paths)  # some of them
        self._mapped: dict[int, MappedFile] = {}
        self.places = _native.AdjacentPlaces() if len(self.paths) > 1 and _native.HAS_MAPPED_FILE else None
        self._whole: _native.Buffers | None = None  # all of them, once all are mapped: passing a thousand takes time
        self._wrappers: dict[int, Compression] = {}
        self._open = Descriptors()
        self._touched_bytes = self._passed_bytes = 0
        self._passed_files: tuple[int, int] | None = None  # the first and the last one since pages were released
        self._advised = (False, 0)
        self.expects_all: bool = False  # so mapped files are read in large parts
        self._remote: dict[int, RemoteFile] = {}

    def __len__(self) -> int:
        return len(self.paths)

    def expect(self, signatures: Sequence[Signature]) -> None:
        """From now on, refuse files of other versions."""
        self.versions.indexed = signatures
        for number, file in list(self._remote.items()):
            file.expect(signatures[number])

    def wrapper(self, number: int) -> Compression:
        """The compression of file ``number``."""
        if self._compression is not None:
            return self._compression
        found = self._wrappers.get(number)
        if found is None and self.is_remote and is_url(self.paths[number]):
            found = self._wrappers[number] = self._look(self.paths[number], self.remote(number).head)
        if found is None:
            file = MappedFile(self.paths[number], expected=self.versions.of(number), among=self.places)
            found = self._wrappers[number] = self._look(file.path, bytes(file.read(0, HEAD_BYTES)))
            if found == "none":
                self._keep(number, file)
        return found

    def content(self, number: int) -> MappedFile:
        """The (decompressed) content of file ``number``. A compressed file is inflated into the cache first.

        Raises:
            NoFiles, CorruptFile: The file is missing, or of another version than expected.
            UnsupportedData: The cache has no space left.
        """
        found = self._mapped.get(number)
        return self._keep(number, self._open_file(number)) if found is None else found

    def stream(self, number: int) -> MappedFile | InflatedStream | RemoteStream:
        """The content for reading in order: mapped if available, else inflated or fetched while reading."""
        wrapper = self.wrapper(number)
        if number in self._mapped or (wrapper == "none" and not is_url(self.paths[number])):
            return self.content(number)
        if wrapper == "none":
            copy = find_copy(self.remote(number))
            return RemoteStream(self.remote(number)) if copy is None else self._keep(number, copy)
        path, packed, expected = self.paths[number], self._packed(number), self.versions.of(number)
        found = find_inflated(path, wrapper, packed, expected=expected)
        return InflatedStream(path, wrapper, packed, expected=expected) if found is None else self._keep(number, found)

    def head(self, number: int) -> MappedFile | InflatedHead | RemoteStream:
        """Like :meth:`stream`, for reading little more than the first records: nothing inflated for those is kept."""
        content = self.stream(number)
        return InflatedHead(content) if isinstance(content, InflatedStream) else content

    def waits_for_inflating(self) -> bool:
        """Whether any file is compressed or remote, and not cached yet."""
        if self.is_remote:
            self.fetch_heads()
        elif self._compression == "none":
            return False
        return any(not isinstance(self.stream(number), MappedFile) for number in range(len(self.paths)))

    def remote(self, number: int) -> RemoteFile:
        """The remote file ``number``, with its head. As long as nothing is known of the files, the heads of all are fetched at once."""
        if number not in self._remote:
            self.fetch_heads(None if self.versions.indexed is None else [number])
        return self._remote[number]

    def fetch_heads(self, numbers: Iterable[int] | None = None) -> None:
        """Fetch the heads of these remote files (``None``: of all), at once, unless they are here."""
        wanted = range(len(self.paths)) if numbers is None else numbers
        files = {
            n: RemoteFile(self.paths[n], expected=self.versions.of(n))
            for n in wanted
            if n not in self._remote and is_url(self.paths[n])
        }
        fetch_heads(list(files.values()))
        self._remote.update(files)

    def _packed(self, number: int) -> RemoteCompressed | None:
        if not is_url(self.paths[number]):
            return None
        return RemoteCompressed(self.remote(number).signature, self.remote(number).opened)

    def worth_fetching(self, first: Sequence[int] = ()) -> bool:
        """Whether fetching records by range beats fetching whole files: some are plain, on servers with ranges, and larger than one request.
        If the ``first`` files are enough, nothing is asked about the others.
        """
        if not self.is_remote:
            return False  # without looking at thousands of paths in every batch
        total, asked = 0, set(first)
        others = (range(k, min(k + HEADS_AT_ONCE, len(self.paths))) for k in range(0, len(self.paths), HEADS_AT_ONCE))
        for numbers in chain((first,), ([n for n in group if n not in asked] for group in others)):
            self.fetch_heads(numbers)
            total += sum(self.remote(number).size for number in numbers if self.by_range(number))
            if total > BLOCK_BYTES:
                return True
        return False

    def by_range(self, number: int) -> bool:
        """Whether file ``number`` is plain, on a server with ranges, and not in the cache yet."""
        if not is_url(self.paths[number]) or number in self._mapped or self.wrapper(number) != "none":
            return False
        return self.remote(number).has_ranges

    def fetched(
        self, which: npt.NDArray[np.int32] | None, offsets: Indices, sizes: Indices
    ) -> tuple[list[Any], npt.NDArray[np.int32], Indices]:
        """Ranges of the contents of files ``which`` (``None``: all in file 0), those of remote files fetched at once: the buffers, and
        for each range the number of its buffer and its offset there.
        """
        which = np.zeros(len(offsets), np.int32) if which is None else which
        numbers, renumbered = np.unique(which, return_inverse=True)
        buffers: list[Any] = []
        holding = np.zeros(len(offsets), np.int32)
        starts = offsets.copy()
        remote = [number for number in numbers.tolist() if self.by_range(number)]
        for position, number in enumerate(numbers.tolist()):
            if number not in remote:
                holding[renumbered == position] = len(buffers)
                buffers.append(self.content(number).buffer)
        mine = np.flatnonzero(np.isin(which, remote))
        if len(mine):
            order = np.searchsorted(remote, which[mine]).astype(np.int32)
            pieces, piece_of, starts[mine] = fetch_extents(
                [self.remote(n) for n in remote], order, offsets[mine], sizes[mine]
            )
            holding[mine] = piece_of + len(buffers)
            buffers += pieces
        return buffers, holding, starts

    def size(self, number: int) -> int:
        """The size of the (decompressed) content of file ``number``."""
        return self.remote(number).size if self.by_range(number) else self.content(number).size

    def beginning(self, number: int) -> RemoteFile | MappedFile:
        """The (decompressed) content of file ``number``, for reading only a little."""
        return self.remote(number) if self.by_range(number) else self.content(number)

    def buffers(self, which: npt.NDArray[np.int32] | None) -> tuple[Buffers, npt.NDArray[np.int32] | None]:
        """Buffers for native code that reads records in files ``which`` (``None``: all in file 0), and the buffer of each record."""
        if which is None:
            if len(self.paths) > 1:
                return [self.content(0).buffer], None
            if self._whole is None:
                self._whole = _native.Buffers([self.content(0).buffer])
            return self._whole, None
        if not len(which):
            return [], which
        if (every := self.all_buffers()) is not None:
            return every, which
        first = int(which[0])
        if (which == first).all():
            return [self.content(first).buffer], None
        numbers, renumbered = self._renumber(which)
        return [self.content(number).buffer for number in numbers], renumbered

    def all_buffers(self) -> _native.Buffers | None:
        """Buffers of all files, if all are mapped."""
        if self._whole is None and len(self._mapped) == len(self.paths):
            self._whole = _native.Buffers([self.content(number).buffer for number in range(len(self.paths))])
        return self._whole

    def joined(self) -> tuple[_native.Buffers, Indices] | None:
        """All files as one buffer, and where each begins in it (``int64 (files,)``), if all are mapped on adjacent pages."""
        every = self.all_buffers() if 1 < len(self.paths) <= MOST_MAPPED else None
        return None if every is None else every.join()

    def _renumber(self, which: npt.NDArray[np.int32]) -> tuple[Sequence[int], npt.NDArray[np.int32]]:
        """The files that occur, and ``which`` renumbered among those. Takes a third of the time of sorting."""
        first, last = int(which.min()), int(which.max())
        if last - first < NEIGHBOURS:  # in order
            return range(first, last + 1), which - np.int32(first)
        table = np.zeros(len(self.paths), np.int32)
        table[which] = 1
        numbers = np.flatnonzero(table)
        table[numbers] = np.arange(len(numbers), dtype=np.int32)
        return numbers.tolist(), table[which]

    def worth_mapping(self, total: int) -> bool:
        """Whether it is better to map records of a set of ``total`` bytes than to read them."""
        return not mapping_limits.CAN_READ or total <= mapping_limits.scattered_limit()

    def keeps_pages(self, of: int) -> bool:
        """Whether all pages of ``of`` bytes stay mapped behind a sequential reader."""
        return of <= mapping_limits.IN_ORDER_MAPPED_BYTES

    def passed(self, size: int, *, of: int, first: int = 0, last: int = 0) -> None:
        """Count ``size`` bytes, out of ``of``, that a sequential reader has read, of the files from ``first`` to ``last``.

        Releases their pages, and those of files passed before, whenever the bytes that may stay mapped behind such a reader have been
        read. A set may have thousands of files, so others are left alone.
        """
        if self.keeps_pages(of):
            return
        low, high = self._passed_files or (first, last)
        if last < low:  # the next epoch
            self._release(low, high)
            low, high = first, last
        self._passed_files = min(low, first), max(high, last)
        self._passed_bytes += size
        if self._passed_bytes >= mapping_limits.PASSED_BYTES:
            self._release(*self._passed_files)

    def expect_all(self) -> None:
        """Have what is missing of mapped files read in large parts, because all of it will be read."""
        if not self.expects_all:
            self.expects_all = True
            for file in list(self._mapped.values()):
                file.expect_all()

    def _release(self, first: int, last: int) -> None:
        """Release the pages of these files."""
        self._passed_bytes, self._passed_files = 0, None
        for number in range(first, last + 1):
            if (file := self._mapped.get(number)) is not None:
                file.drop()

    def touched(self, size: int, *, scattered: int = 0) -> None:
        """Count ``size`` bytes at ``scattered`` positions, for readers that map sets of any size. Releases all pages whenever the bytes
        that may stay mapped have been read, unless the mapped files total less.
        """
        self._touched_bytes += size + scattered * mapping_limits.WINDOW_BYTES
        limit = mapping_limits.scattered_limit()
        if self._advised != (scattered > 0, len(self._mapped)):
            self._advise(limit, scattered=scattered > 0)
        if self._touched_bytes < limit:
            return
        self._touched_bytes, mapped = 0, list(self._mapped.values())
        if sum(file.size for file in mapped) > limit:
            for file in mapped:
                file.drop()

    def _advise(self, limit: int, *, scattered: bool) -> None:
        """Turn read-ahead off for random access to files that do not fit into memory: those pages would be evicted unused."""
        self._advised = (scattered, len(self._mapped))
        mapped = list(self._mapped.values())
        if sum(file.size for file in mapped) > limit:
            for file in mapped:
                file.expect_scattered_reads(scattered=scattered)

    def read(self, which: npt.NDArray[np.int32] | None, offsets: Indices, sizes: Indices) -> Ranges:
        """The bytes of ranges of files ``which`` (``None``: all in file 0), end to end, and the offset of each range in them.

        Raises:
            CorruptFile: A file shrank since it was opened.
        """
        with mapping_limits.limit_open() as most:
            return self._read(which, offsets, sizes, most)

    def _read(self, which: Any, offsets: Indices, sizes: Indices, most: int) -> Ranges:
        numbers, places = (range(1), None) if which is None else self._renumber(which)
        try:
            if len(numbers) <= most:
                return read_ranges([self._descriptor(number) for number in numbers], places, offsets, sizes)
        except _native.FormatError as error:
            content = self.content(0 if which is None else int(which[error.record]))
            raise file_shrank_error(os.fsencode(content.path), os.fsencode(content.opened), content.size) from error
        except OSError as error:
            if error.errno not in mapping_limits.TOO_MANY_OPEN or which is None or len(numbers) == 1:
                raise
        half = len(which) // 2
        block, starts = self._read(which[:half], offsets[:half], sizes[:half], most)
        other, others = self._read(which[half:], offsets[half:], sizes[half:], most)
        return np.concatenate([block, other]), np.concatenate([starts, others + len(block)])

    def _descriptor(self, number: int) -> Descriptor:
        if (found := self._open.get(number)) is not None:
            return found
        in_cache = self.wrapper(number) != "none" or is_url(self.paths[number])
        return self._open.opened(number, self.content(number), in_cache=in_cache)

    def _open_file(self, number: int) -> MappedFile:
        wrapper = self.wrapper(number)
        if (found := self._mapped.get(number)) is not None:  # wrapper() may have mapped it
            return found
        if is_url(self.paths[number]):
            remote = self.remote(number)
            return (
                copy_to_cache(remote) if wrapper == "none" else inflate_file(remote.path, wrapper, self._packed(number))
            )
        expected = self.versions.of(number)
        if wrapper == "none":
            return MappedFile(self.paths[number], expected=expected, among=self.places)
        return inflate_file(self.paths[number], wrapper, expected=expected)

    def _look(self, path: str, head: bytes) -> Compression:
        if not head:
            return wrapper_of_name(path)  # A plain file may be empty; one named .gz and the like was truncated.
        head = head[:HEAD_BYTES]
        wrapper = wrapper_of(head)
        return "none" if wrapper != "none" and self._is_plain is not None and self._is_plain(head) else wrapper

    def _keep(self, number: int, file: MappedFile) -> MappedFile:
        if len(self._mapped) >= MOST_MAPPED and not mapping_limits.can_map_more():
            for oldest in list(self._mapped)[: MOST_MAPPED // 4]:
                self._mapped.pop(oldest, None)
        if not self.keeps_pages(2 * mapping_limits.WINDOW_BYTES * len(self._mapped)):
            file.drop()  # Opening it has touched its ends.
        if self.expects_all:
            file.expect_all()
        return self._mapped.setdefault(number, file)  # another thread may have been faster

    def signature(self, number: int) -> Signature:
        """The signature of file ``number`` on disk or in its store, before decompression."""
        if is_url(self.paths[number]):
            return self.remote(number).signature
        if self.wrapper(number) == "none":
            return self.content(number).signature
        return self.versions.check(number, Signature.read(self.paths[number]), self.paths[number])

    def check_in_place(self, number: int) -> None:
        """Refuse a plain local file that was rewritten in place since it was mapped: see :meth:`Versions.check_in_place`."""
        file = self._mapped.get(number)
        if file is not None and self._wrappers.get(number, self._compression) == "none" and not is_url(file.path):
            self.versions.check_in_place(number, file, file.signature)

    def __getstate__(self) -> dict[str, object]:
        for number, file in self._remote.items():
            if file.is_known and file.is_certain:
                self.versions.note(number, file.signature)
        kept = ("paths", "_compression", "_is_plain", "versions")
        return {name: self.__dict__[name] for name in kept}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._forget()
