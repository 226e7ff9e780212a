"""What writers of tables share."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.contracts.tables import Misfit
from penstock.errors import UnsupportedData, Where
from penstock.io.atomic import AtomicFile
from penstock.io.paths import PathLike

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["ByteFile", "refuse_misfits"]


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


class ByteFile(io.RawIOBase):
    """An atomic file as libraries want a file that they write in order. Closing it is left to its owner."""

    def __init__(self, file: AtomicFile) -> None:
        super().__init__()
        self.file = file

    def write(self, part: Buffer, /) -> int:
        """Append bytes."""
        return self.file.write(part)

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
