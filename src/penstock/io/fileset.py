"""Many files as memory: mapped when needed, thousands at once, with a bound on what stays resident."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from penstock.io.compression import Compression, wrapper_of
from penstock.io.inflated import InflatedStream, find_inflated, inflated
from penstock.io.mapped import MappedFile, Signature

__all__ = ["FileSet"]

MOST_MAPPED = 8192  # a process may have 65,530 mappings (vm.max_map_count), and others need some
HEAD_BYTES = 64
# Pages that were touched stay resident until they are dropped. Dropping costs a page fault at the next touch: measured
# on 3 KB records, nothing in order from 16 MiB up; at random 4 % when it happens every 512 MiB of touched windows.
IN_ORDER_BYTES = 64 << 20
SCATTERED_BYTES = 512 << 20
WINDOW_BYTES = 64 << 10  # what the kernel maps round one fault


class FileSet:
    """The contents of some files, decompressed where they are compressed.

    Safe in threads and after fork; picklable (by paths).

    Args:
        paths: The files.
        compression: Of all of them; ``None`` finds out for each from its first bytes.
        is_plain: Whether the first bytes show a plain file although they look like compression.
    """

    def __init__(
        self,
        paths: Sequence[str],
        *,
        compression: Compression | None = "none",
        is_plain: Callable[[bytes], bool] | None = None,
    ) -> None:
        self.paths = tuple(paths)
        self._compression = compression
        self._is_plain = is_plain
        self._expected: Sequence[Signature] | None = None
        self._forget()

    def _forget(self) -> None:
        # No lock: single operations on a dict are atomic, and a lock could be held by another thread when we are forked.
        self._mapped: dict[int, MappedFile] = {}
        self._wrappers: dict[int, Compression] = {}
        self._touched_bytes = 0

    def __len__(self) -> int:
        return len(self.paths)

    def expect(self, signatures: Sequence[Signature]) -> None:
        """Refuse, from now on, to map files that are another version than these."""
        self._expected = signatures

    def wrapper(self, number: int) -> Compression:
        """How file ``number`` is compressed."""
        if self._compression is not None:
            return self._compression
        found = self._wrappers.get(number)
        if found is None:
            found = self._wrappers[number] = self._look(MappedFile(self.paths[number]))
        return found

    def content(self, number: int) -> MappedFile:
        """The (decompressed) content of file ``number``. A compressed file is inflated into the cache first.

        Raises:
            NoFiles, CorruptFile: The file is gone, or another version than expected.
            UnsupportedData: The cache has no room.
        """
        found = self._mapped.get(number)
        return self._keep(number, self._opened(number)) if found is None else found

    def stream(self, number: int) -> MappedFile | InflatedStream:
        """The content for reading in order: mapped if that needs no waiting, else as it is inflated."""
        wrapper = self.wrapper(number)
        if wrapper == "none" or number in self._mapped:
            return self.content(number)
        found = find_inflated(self.paths[number], wrapper)
        return self._keep(number, found) if found is not None else InflatedStream(self.paths[number], wrapper)

    def waits_for_inflating(self) -> bool:
        """Whether a file is compressed and not in the cache yet."""
        return self._compression != "none" and any(
            isinstance(self.stream(number), InflatedStream) for number in range(len(self.paths))
        )

    def buffers(self, which: npt.NDArray[np.int32] | None) -> tuple[list[memoryview], npt.NDArray[np.int32] | None]:
        """What native code takes for records in files ``which`` (``None``: all in file 0): buffers, and which of *those*."""
        if which is None:
            return [self.content(0).buffer], None
        if not len(which):
            return [], which
        first = int(which[0])
        if (which == first).all():
            return [self.content(first).buffer], None
        numbers, renumbered = np.unique(which, return_inverse=True)
        return [self.content(int(number)).buffer for number in numbers], renumbered.astype(np.int32)

    def touched(self, size: int, *, scattered: int = 0) -> None:
        """Note that ``size`` bytes were handed out, in ``scattered`` places; lets go of pages when it gets too much."""
        self._touched_bytes += size + scattered * WINDOW_BYTES
        if self._touched_bytes < (SCATTERED_BYTES if scattered else IN_ORDER_BYTES):
            return
        self._touched_bytes = 0
        files = list(self._mapped.values())
        # What is mapped bounds what can be resident: a small set is left alone.
        if not scattered or sum(file.size for file in files) > SCATTERED_BYTES // 2:
            for file in files:
                file.drop()

    def _opened(self, number: int) -> MappedFile:
        path = self.paths[number]
        expected = None if self._expected is None else self._expected[number]
        wrapper = self._compression or self._wrappers.get(number)
        if wrapper is None or wrapper == "none" or expected is not None:
            file = MappedFile(path, expected=expected)
            wrapper = wrapper or self._look(file)
            self._wrappers[number] = wrapper
            if wrapper == "none":
                return file
        return inflated(path, wrapper)

    def _look(self, file: MappedFile) -> Compression:
        head = bytes(file.read(0, HEAD_BYTES))
        wrapper = wrapper_of(head)
        return "none" if wrapper != "none" and self._is_plain is not None and self._is_plain(head) else wrapper

    def _keep(self, number: int, file: MappedFile) -> MappedFile:
        if len(self._mapped) >= MOST_MAPPED:
            for oldest in list(self._mapped)[: MOST_MAPPED // 4]:
                self._mapped.pop(oldest, None)
        return self._mapped.setdefault(number, file)  # Another thread may have been faster.

    def signature(self, number: int) -> Signature:
        """Size, time and fingerprint of file ``number`` as it lies on the disk."""
        if self.wrapper(number) == "none":
            return self.content(number).signature
        return MappedFile(self.paths[number]).signature

    def __getstate__(self) -> dict[str, object]:
        kept = ("paths", "_compression", "_is_plain", "_expected")
        return {name: self.__dict__[name] for name in kept}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._forget()
