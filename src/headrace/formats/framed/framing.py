"""What formats of framed records tell scanning, indexing, gathering and writing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.contracts.values import Indices
from headrace.errors import DataError

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["Framing", "RecordFraming"]


class Framing(ABC):
    """A sequence of records, each found from the end of the one before it. Has no state; picklable."""

    name: str
    """Of the format."""
    has_checksums: bool = True
    """Whether records show that the index is of another version of the file. If not, blocks of the file are compared."""

    @property
    def index_name(self) -> str:
        """What an index is kept under: the name, and whatever else decides where records begin."""
        return self.name

    def one_pass(self, size: int, /) -> Self:  # noqa: ARG002 - for those that need it
        """This framing for one pass over one buffer of ``size`` bytes by one thread, with what it has to remember between calls."""
        return self

    @abstractmethod
    def is_plain(self, head: bytes, /) -> bool:
        """Whether some first bytes are those of a file that is not compressed."""

    def begin(self, buffer: memoryview, path: str, /, *, last: bool) -> int:  # noqa: ARG002 - for those that need it
        """Where the first record begins; -1 where that needs more bytes, which never is so if these are the ``last``.

        Raises:
            DataError: What comes before the first record is not right.
        """
        return 0

    @abstractmethod
    def scan(
        self, buffer: memoryview, start: int, stop: int, /, *, verify: bool, max_records: int, last: bool = True
    ) -> tuple[Indices, int]:
        """Starts of the records that begin in ``[start, stop)``, and where the next one begins.

        ``last``: the file ends where these bytes do, so that a record whose end nothing marks is whole.

        Raises:
            FormatError: With the starts found before it as ``starts``.
        """

    @abstractmethod
    def find(self, buffer: memoryview, start: int, /) -> int:
        """The first place from ``start`` on at which a whole sound record begins; -1 if there is none."""

    def resume_after(
        self,
        error: _native.FormatError,
        buffer: memoryview,
        /,
        *,
        last: bool,  # noqa: ARG002 - for those that need it
    ) -> tuple[int, int]:
        """How to go on after damage: how many of ``error.starts`` count, and where the next sound record begins (-1 if there is
        none; unless this is the ``last`` part of the stream, one may come).
        """
        return len(error.starts), self.find(buffer, int(error.offset) + 1)

    @abstractmethod
    def fault_at(self, error: _native.FormatError, path: str | None, record: int, base: int, /) -> DataError:
        """The error for a fault that native code saw at record ``record`` of a file, in bytes that begin at ``base``."""


class RecordFraming(Framing):
    """Records of bytes: payloads that are gathered, and framed."""

    head: int
    """Bytes before each payload."""
    tail: int
    """Bytes after it, at most."""

    @abstractmethod
    def gather(
        self,
        buffers: _native.Buffers | list[Any],
        which: npt.NDArray[np.int32] | None,
        offsets: Indices,
        /,
        *,
        verify: bool,
    ) -> _native.Spans:
        """Payloads of the records at these offsets. ``verify`` leaves checksums to who reads the payloads."""

    @abstractmethod
    def payloads(self, buffer: memoryview, starts: Indices, end: int, /) -> Iterator[memoryview]:
        """Views of the payloads of adjacent records, the last of which ends at ``end``. They were checked before."""

    @abstractmethod
    def frame_block(self, block: npt.NDArray[np.uint8], starts: Indices, sizes: Indices, /) -> int:
        """Fill in what surrounds the payloads of a block. Returns how much of the block is used."""

    @abstractmethod
    def frame_payloads(self, payloads: Sequence[Buffer], /) -> npt.NDArray[np.uint8]:
        """Whole framed records, joined."""
