"""What a format of framed records is, as far as scanning, indexing, gathering and writing are concerned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.contracts.values import Indices
from headrace.errors import DataError

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["Framing"]


class Framing(Protocol):
    """Records one behind the other, each found from the end of the one before it. Has no state; picklable.

    Attributes:
        name: Of the format.
        head: Bytes before each payload.
        tail: Bytes behind it, at most.
        has_checksums: Whether records show that the index is of another version of the file; else blocks of the file are compared.
        index_name: What an index is kept under: the name, and whatever else decides where records begin.
    """

    name: str
    head: int
    tail: int
    has_checksums: bool

    @property
    def index_name(self) -> str: ...

    def one_pass(self, size: int, /) -> Framing:
        """This framing for one pass over one buffer of ``size`` bytes by one thread, with whatever it has to remember from call
        to call so that no bytes, hostile ones included, make the pass longer than linear. It has no state: itself.
        """

    def is_plain(self, head: bytes, /) -> bool:
        """Whether some first bytes are those of a file of this format that is not compressed."""

    def begin(self, buffer: memoryview, path: str, /, *, last: bool) -> int:
        """Where the first record of a file begins; -1 where that takes more of it than this (which is all, if ``last``)."""

    def scan(
        self, buffer: memoryview, start: int, stop: int, /, *, verify: bool, max_records: int, last: bool = True
    ) -> tuple[Indices, int]:
        """Starts of the records that begin in ``[start, stop)``, and where the next one begins.

        ``last``: the file ends where these bytes do, so that a record whose end nothing marks is whole.

        Raises:
            FormatError: With the starts found before it as ``starts``.
        """

    def find(self, buffer: memoryview, start: int, /) -> int:
        """The first place from ``start`` on at which a whole sound record stands; -1 where none does."""

    def resume_after(self, error: _native.FormatError, buffer: memoryview, /, *, last: bool) -> tuple[int, int]:
        """How to go on behind damage: how many of ``error.starts`` count, and where the next sound record begins (-1 where
        none does; unless this is the ``last`` of the stream, one may come).
        """

    def gather(
        self,
        buffers: _native.Buffers | list[Any],
        which: npt.NDArray[np.int32] | None,
        offsets: Indices,
        /,
        *,
        verify: bool,
    ) -> _native.Spans:
        """Payloads of the records at these offsets."""

    def payloads(self, buffer: memoryview, starts: Indices, end: int, /) -> Iterator[memoryview]:
        """Views of the payloads of records that lie one behind the other up to ``end``; they were checked before."""

    def fault_at(self, error: _native.FormatError, path: str | None, record: int, base: int, /) -> DataError:
        """The error for a fault that native code saw at record ``record`` of a file, in bytes that begin at ``base``."""

    def frame_block(self, block: npt.NDArray[np.uint8], starts: Indices, sizes: Indices, /) -> int:
        """Fill in what surrounds the payloads of a block; returns how much of the block is used."""

    def frame_payloads(self, payloads: Sequence[Buffer], /) -> npt.NDArray[np.uint8]:
        """Whole framed records, joined."""
