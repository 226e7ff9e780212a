"""Build the index of framed records. Files are scanned once, in parallel; large ones in several pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from time import perf_counter_ns
from typing import TypeAlias

import numpy as np

from headrace import _native
from headrace.contracts.records import OnCorrupt
from headrace.contracts.values import Indices
from headrace.errors import Where
from headrace.formats.framed.scan import KEPT_BYTES, ByteStream, Framing, Scan
from headrace.formats.index.index import FileIndex, RecordIndex, index_path, load_index, warn_of_damage, write_index
from headrace.formats.index.places import HELD_BYTES, Starts
from headrace.io.local.fileset import FileSet
from headrace.io.local.mapped import MappedFile
from headrace.io.local.signatures import SUMMED_BYTES, BlockSums, Signature, Sums, wait_for_tick
from headrace.io.progress import Progress
from headrace.io.system import usable_cores
from headrace.io.threads import ThreadPool
from headrace.io.urls import is_url

__all__ = ["build_index", "record_index"]


STEP_BYTES = 16 << 20
CACHED_BYTES = 1 << 20  # a step where checksums of the content follow, so that they find it in the processor's cache
PIECE_BYTES = 256 << 20  # pieces of a large file; for smaller ones, one core is faster than two
TEXT_BYTES = 4 << 20  # the same where each byte is read, and not only the lengths of records
SMALL_BYTES = 256 << 10  # a file up to this size mostly costs calls of Python and of the system
WHOLE_BYTES = 2 << 20  # The system reads so much at a time.
SHORT_NS, LEAST_SHORT = 500_000, 8
"""Small files are scanned one by one if they take no longer than this on average, or if there are few. 100 to 200 us are usual."""
MOST_THREADS = 16
NO_SUMS = BlockSums(0, np.zeros(0, np.uint32), SUMMED_BYTES)
MOST_PRINTED = 1024  # files whose content is checked before a cached index is trusted; beyond that, only size and time


def record_index(framing: Framing, files: FileSet, *, on_corrupt: OnCorrupt, compression: str | None) -> RecordIndex:
    """The index of some files, from the cache. Stale parts are rebuilt.

    Raises:
        CorruptRecord, CorruptFile: A file is damaged and ``on_corrupt`` is ``"raise"``.
        NoFiles: A file no longer exists.
    """
    path = index_path(files.paths, format=framing.index_name, on_corrupt=on_corrupt, compression=compression)
    kept = load_index(path, files.paths)
    is_proven = kept is not None and files.versions.are([file.signature for file in kept.files])  # when opened
    built = None if is_proven else _build(framing, files, on_corrupt=on_corrupt, kept=kept)
    index = _save(built, path) if built is not None else kept
    assert index is not None
    index.path = path
    index.make_again = partial(_made_again, framing, files, on_corrupt, path)
    files.expect([file.signature for file in index.files])
    return index


def _made_again(framing: Framing, files: FileSet, on_corrupt: OnCorrupt, path: Path) -> RecordIndex:
    """Rebuild the index after a part of the cached one turned out to be damaged."""
    warn_of_damage(path)
    path.unlink(missing_ok=True)
    return _save(_Built.of(framing, files, on_corrupt), path)


@dataclass(slots=True)
class _Built:
    """The result of a build: the files, and their record starts in blocks."""

    files: list[FileIndex]
    starts: list[Iterable[Indices]]
    content: list[BlockSums]

    @classmethod
    def of(cls, framing: Framing, files: FileSet, on_corrupt: OnCorrupt) -> _Built:
        """Build for all files, ignoring the cache."""
        built = _build(framing, files, on_corrupt=on_corrupt, kept=None, show=False)
        assert built is not None
        return built

    def __iter__(self) -> Iterator[Indices]:
        """The blocks of all files, in order."""
        return chain.from_iterable(self.starts)

    def index(self) -> RecordIndex:
        return RecordIndex(self.files, _together(list(self)), content=self.content)


def _save(built: _Built, path: Path) -> RecordIndex:
    """Store the index. A large one is returned as a map of its file, so it takes no memory of ours."""
    is_large = sum(file.records for file in built.files) * 8 > HELD_BYTES
    if not is_large:
        built.starts = [[_together(list(built))]]
    is_kept = write_index(built.files, built, path, built.content)
    mapped = load_index(path) if is_kept and is_large else None
    return built.index() if mapped is None or mapped.files != tuple(built.files) else mapped


def build_index(
    framing: Framing,
    files: FileSet,
    *,
    on_corrupt: OnCorrupt = "raise",
    kept: RecordIndex | None = None,
    show: bool = True,
) -> RecordIndex:
    """Scan files for records.

    Args:
        framing: The framing of their format.
        files: The files.
        on_corrupt: ``"raise"`` checks lengths and their checksums; ``"skip"`` checks payloads too and skips
            damaged records.
        kept: An earlier index, whose entries for unchanged files are reused. If no file has changed, it is
            returned as is.
        show: Whether a progress bar may appear.
    """
    built = _build(framing, files, on_corrupt=on_corrupt, kept=kept, show=show)
    index = built.index() if built is not None else kept
    assert index is not None
    return index


def _build(
    framing: Framing, files: FileSet, *, on_corrupt: OnCorrupt, kept: RecordIndex | None, show: bool = True
) -> _Built | None:
    """Like :func:`build_index`; ``None`` if nothing has changed since ``kept``."""
    places = files.places if kept is None and files.versions.local else None
    if places is not None and files.worth_mapping(sum(size for size, *_ in files.versions.local.values())):
        places.read_whole(WHOLE_BYTES)  # since all of them will be; large files gain nothing
    signatures = _signatures(files)
    stale = [
        number
        for number, signature in enumerate(signatures)
        if kept is None or not kept.files[number].signature.proves(signature)
    ]
    if kept is not None and not stale:
        return None
    wait_for_tick(signatures[number] for number in stale)
    total = sum(signatures[number].size for number in stale)
    kept_bytes = KEPT_BYTES if files.keeps_pages(total) else 0
    cores = usable_cores()
    with (
        Progress("indexing", total, "bytes", show=show) as bar,
        ThreadPool(min(MOST_THREADS, cores)) as pool,
    ):
        jobs = {n: _Job(framing, files, n, signatures[n], on_corrupt, bar, kept_bytes) for n in stale}
        scans = _Scans(pool, cores)
        try:
            for job in jobs.values():
                job.submit(scans)
            found = [jobs[n].result() if n in jobs else _taken(kept, n) for n in range(len(files))]
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    if places is not None:
        places.read_whole(0)
    return _Built([file for file, _, _ in found], [starts for _, starts, _ in found], [sums for _, _, sums in found])


def _together(starts: list[Indices]) -> Indices:
    return np.concatenate(starts) if starts else np.zeros(0, np.int64)


def _signatures(files: FileSet) -> list[Signature]:
    if files.is_remote:
        files.fetch_heads()
    if len(files) <= MOST_PRINTED or files.is_remote:
        return [files.signature(number) for number in range(len(files))]
    return [files.versions.check(number, Signature.of(path), path) for number, path in enumerate(files.paths)]


def _taken(kept: RecordIndex | None, number: int) -> _Found:
    if kept is None:
        raise AssertionError("only what was kept is taken over")
    return kept.files[number], [kept.part(number)], kept.content[number]


_Found: TypeAlias = tuple[FileIndex, Iterable[Indices], BlockSums]
"""For one file: its description, its record starts, and checksums of its content (none if the format has its own)."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """What looks like records that begin before ``stop`` in a piece of a file; the next one begins at ``end``."""

    stop: int
    starts: Indices
    end: int


class _Scans:
    """Scans files in threads, but short ones here: threads would wait for the interpreter lock longer than those take.

    Once short ones have taken long as a rule, because they wait for a disk, they go to threads, too.
    """

    def __init__(self, pool: ThreadPool, cores: int) -> None:
        self.pool, self.cores = pool, cores
        self._calls = self._spent_ns = 0  # here

    def submit_short(self, scan: Callable[[], _Found]) -> Future[_Found] | _Done:
        """Do a scan that is expected to be short."""
        if self._spent_ns > SHORT_NS * max(self._calls, LEAST_SHORT):
            return self.pool.submit(scan)
        begun = perf_counter_ns()
        try:
            done = _Done(scan(), None)
        except Exception as error:  # noqa: BLE001 - raised by result(), when the files before this one are known to be intact
            done = _Done(None, error)
        self._calls, self._spent_ns = self._calls + 1, self._spent_ns + perf_counter_ns() - begun
        return done


@dataclass(frozen=True, slots=True)
class _Done:
    """A scan that is over. Thousands of futures, each with a lock, would take longer to make than small files to scan."""

    found: _Found | None
    error: Exception | None

    def result(self) -> _Found:
        if self.found is None:
            assert self.error is not None
            raise self.error
        return self.found


class _Job:
    """The scan of one file."""

    def __init__(
        self,
        framing: Framing,
        files: FileSet,
        number: int,
        signature: Signature,
        on_corrupt: OnCorrupt,
        bar: Progress,
        kept_bytes: int,
    ) -> None:
        self._framing, self._kept_bytes = framing, kept_bytes
        self._files, self._number = files, number
        self._signature = signature
        self._skip = on_corrupt == "skip"
        self._remote = is_url(files.paths[number])
        self._bar = bar
        self._pieces: list[Future[_Piece]] = []
        self._sums: dict[int, Sums] = {}
        """Checksums of the content, by number of the first block."""
        self._content_bytes = 0
        self._step = STEP_BYTES if framing.has_checksums else min(STEP_BYTES, CACHED_BYTES)
        self._whole: Future[_Found] | _Done | None = None
        self._is_cut = False  # into pieces

    def submit(self, scans: _Scans) -> None:
        """Scan a large plain file in pieces, any other in one go."""
        size = self._signature.size
        at_once = PIECE_BYTES
        if not self._framing.has_checksums and scans.cores > 1:
            at_once = min(PIECE_BYTES, max(TEXT_BYTES, size // (2 * scans.cores) + 1))
        if self._remote or self._skip or size < 2 * at_once or self._files.wrapper(self._number) != "none":
            is_short = size <= SMALL_BYTES and not self._remote
            self._whole = scans.submit_short(self._scan_file) if is_short else scans.pool.submit(self._scan_file)
            return
        self._is_cut = True
        bounds = [*range(0, size - at_once // 2, at_once), size]
        self._pieces = [scans.pool.submit(self._piece, a, b) for a, b in pairwise(bounds)]

    def result(self) -> _Found:
        """Wait for the result."""
        return self._found(self._join()) if self._whole is None else self._whole.result()

    def _scan_file(self) -> _Found:
        content = self._files.stream(self._number) if self._remote else self._files.content(self._number)
        if self._skip or not isinstance(content, MappedFile):
            return self._in_order(content)
        starts = Starts()
        self._chain(content, self._begin(content), content.size, starts, sums=True)
        if content.fault is not None:
            raise content.fault.relocated(Where(record=len(starts)))
        return self._found(starts)

    def _begin(self, content: MappedFile) -> int:
        begin = self._framing.begin(content.buffer, content.path, last=content.fault is None)
        return content.size if begin < 0 else begin

    def _in_order(self, content: MappedFile | ByteStream) -> _Found:
        """One pass in order: over a stream, or over any content when skipping damage."""
        mode: OnCorrupt = "skip" if self._skip else "raise"
        scan = Scan(self._framing, content, verify=self._skip, on_corrupt=mode, run_bytes=STEP_BYTES)
        starts = Starts()
        for run in scan:
            starts.add(run.starts + run.base)
        if isinstance(content, MappedFile):
            self._sum(content, 0, content.size)
        return self._found(starts, scan)

    def _sum(self, content: MappedFile, start: int, stop: int) -> None:
        """Checksum the blocks that begin in a stretch while it is in memory, if the format has no checksums."""
        if self._framing.has_checksums:
            return
        first, stop_block = -(-start // SUMMED_BYTES), -(-stop // SUMMED_BYTES)
        if first < stop_block:
            part = content.buffer[first * SUMMED_BYTES : stop_block * SUMMED_BYTES]
            self._sums[first] = _native.crc32c_blocks(part, SUMMED_BYTES)
            self._content_bytes = content.size

    def _found(self, starts: Starts, scan: Scan | None = None) -> _Found:
        faults = [] if scan is None else scan.faults
        skipped = tuple((fault.where.record or 0) - before for before, (fault, _) in enumerate(faults))
        self._bar.advance(0 if self._is_cut else self._signature.size)
        content = NO_SUMS
        if not self._framing.has_checksums:
            sums = np.concatenate([NO_SUMS.sums, *(self._sums[first] for first in sorted(self._sums))])
            content = BlockSums(self._content_bytes, sums, SUMMED_BYTES)
            self._files.check_in_place(self._number)
        path, lost = self._files.paths[self._number], sum(size for _, size in faults)
        file = FileIndex(path, self._signature, len(starts), skipped, lost, self._content_bytes)
        return file, starts, content

    def _piece(self, start: int, stop: int) -> _Piece:
        content = self._files.content(self._number)
        begin = self._begin(content) if start == 0 else self._framing.find(content.buffer, start)
        found, at, summed = [np.zeros(0, np.int64)], begin, start
        while 0 <= at < stop:
            try:
                starts, at = self._framing.scan(
                    content.buffer, at, min(stop, at + self._step), verify=False, max_records=stop
                )
            except _native.FormatError:
                begin = -1  # Joining meets this fault again, and knows the record number by then.
                break
            found.append(starts)
            self._sum(content, summed, min(at, stop))
            summed = min(at, stop)
        self._sum(content, summed, stop)
        self._bar.advance(stop - start)
        if content.size > KEPT_BYTES:
            content.drop(start, stop - start)
        return _Piece(stop, np.concatenate(found), at) if 0 <= begin < stop else _Piece(stop, found[0], -1)

    def _join(self) -> Starts:
        """The starts of all pieces. Those of a piece count from where the records before it end, if that is one of them. Until
        then, they may be inside a record.
        """
        content = self._files.content(self._number)
        at, starts = self._begin(content), Starts()
        while self._pieces:
            piece = self._pieces.pop(0).result()  # freed once its starts are taken
            step = SUMMED_BYTES
            while at < piece.stop:  # else one record covers the whole piece
                which = int(np.searchsorted(piece.starts, at))
                if which < len(piece.starts) and piece.starts[which] == at:
                    starts.add(piece.starts[which:])
                    at = piece.end
                else:
                    at = self._chain(content, at, min(piece.stop, at + step), starts)
                    step *= 2
        return starts

    def _chain(self, content: MappedFile, at: int, stop: int, to: Starts, *, sums: bool = False) -> int:
        """Find record starts in ``[at, stop)``; return where the next record begins."""
        begin, dropped = 0, at
        while at < stop:
            try:
                starts, end = self._framing.scan(
                    content.buffer,
                    at,
                    min(stop, at + self._step),
                    verify=False,
                    max_records=stop,
                    last=content.fault is None,
                )
            except _native.FormatError as error:
                if error.fault == "truncated" and content.fault is not None:
                    to.add(error.starts)
                    return stop  # The compressed stream ends here; its own error says why.
                raise self._framing.fault_at(error, content.path, len(to) + error.record, 0) from error
            to.add(starts)
            if sums:
                self._sum(content, begin, end)
                begin = end
            at = end
            if at - dropped > self._kept_bytes:
                content.drop(dropped, at - dropped)
                dropped = at
        if sums:
            self._sum(content, begin, content.size)
        return at
