"""What writers of tables share."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headrace.contracts.tables import Misfit
from headrace.errors import UnsupportedData, Where
from headrace.io.atomic import AtomicFile
from headrace.io.compression import checked, deflater
from headrace.io.paths import PathLike

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["ByteFile", "PackedFile", "refuse_misfits"]


def refuse_misfits(path: PathLike, misfits: Sequence[Misfit]) -> None:
    """Raise for the first feature that a format cannot hold.

    Raises:
        UnsupportedData: There is one.
    """
    for misfit in misfits:
        raise UnsupportedData(
            Where(path=str(path), feature=misfit.feature),
            expected=misfit.expected,
            found=misfit.found,
            hint=misfit.hint,
        )


class PackedFile:
    """An atomic file, in a GZIP or ZLIB stream if that is wanted."""

    def __init__(self, path: PathLike, compression: str) -> None:
        wrapper = checked(compression) or "none"
        self._deflater: Any = None if wrapper == "none" else deflater(wrapper, -1)
        self.file = AtomicFile(path)

    def write(self, part: bytes) -> None:
        """Append bytes."""
        self.file.write(part if self._deflater is None else self._deflater.compress(part))

    def close(self) -> None:
        """Put the file into its place."""
        if not self.file.closed and self._deflater is not None:
            self.file.write(self._deflater.flush())
        self.file.close()

    def abort(self) -> None:
        """Leave no file behind."""
        self.file.abort()


class ByteFile(io.RawIOBase):
    """An atomic file as libraries want a file that they write in order. Closing it is left to its owner."""

    def __init__(self, file: AtomicFile) -> None:
        super().__init__()
        self.file = file

    def write(self, part: Buffer, /) -> int:
        """Append bytes. Libraries that end a file when they are thrown away write to one that was aborted, too."""
        return memoryview(part).nbytes if self.file.closed else self.file.write(part)

    def tell(self) -> int:
        """How many were written."""
        return self.file.size

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        """Do nothing: the owner closes, or aborts, the file itself."""

    def __del__(self) -> None:
        """Likewise."""

    def __reduce__(self) -> Any:
        raise TypeError("a file that is being written cannot be pickled")
