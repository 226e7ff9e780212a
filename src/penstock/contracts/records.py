"""Records: bytes by index, whatever the format. What the formats give and the sources build on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from typing_extensions import Buffer

    from penstock.contracts.protocols import Indices
    from penstock.errors import Where

__all__ = ["Format", "OnCorrupt", "RecordWriter", "Records", "Salvaged", "Skipped"]

OnCorrupt = Literal["raise", "skip"]


@dataclass(frozen=True, slots=True)
class Skipped:
    """What ``on_corrupt="skip"`` left out so far.

    Args:
        records: Damaged stretches. One stretch is one record where its length can be trusted; where it cannot,
            everything up to the next sound record is one stretch.
        bytes: Their size in the file (in the decompressed stream of a compressed file).
    """

    records: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Salvaged:
    """What was saved of a damaged file.

    Args:
        records: How many are in the new file.
        lost_records: How many were lost; ``None`` where the file no longer tells how many it had.
        lost_bytes: How much of the file is damaged.
    """

    records: int
    lost_records: int | None
    lost_bytes: int


@runtime_checkable
class Records(Protocol):
    """The records of some files, joined in order. Picklable; safe in threads and after fork."""

    format: str
    paths: tuple[str, ...]

    @property
    def skipped(self) -> Skipped: ...
    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> memoryview: ...
    def __iter__(self) -> Iterator[memoryview]: ...

    def spans(self, indices: Indices, /) -> Any:
        """``_native.Spans`` of these records, in this order: the fast path."""

    def iter_spans(self, records: int | None = None, /) -> Iterator[tuple[int, Any]]:
        """All records in order without an index, as (number of the first record, ``_native.Spans``)."""

    def where(self, index: int, /) -> Where:
        """Path, number of the record in its file, and byte offset of a global index."""

    def where_in_order(self, index: int, /) -> Where:
        """The same without an index, for files that are too damaged for one."""

    @property
    def prefers_streaming(self) -> bool:
        """Whether reading in order would begin sooner than random access."""


class RecordWriter(Protocol):
    """Takes records one by one. The file appears under its name at ``close``, or never."""

    head: int
    """Bytes that :meth:`write_block` needs before each payload."""
    tail: int
    """Bytes that it needs behind each."""

    def write(self, payload: Buffer, /) -> None: ...
    def write_many(self, payloads: Sequence[Buffer], /) -> None: ...
    def write_block(self, block: npt.NDArray[np.uint8], starts: Indices, sizes: Indices, /) -> None:
        """Append records that lie in one array with room round each payload."""

    def close(self) -> None: ...
    def abort(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One entry of the table of formats.

    Args:
        name: What ``format=`` takes.
        suffixes: Ends of file names, in lower case with the dot, that mean this format.
        knows: Whether the first bytes of a file show this format.
        open: ``open(paths, compression=..., on_corrupt=..., verify=...)``.
        compressible: Whether a file may lie in one GZIP or ZLIB stream.
        writer: ``writer(path, compression=...)`` for one file of records; ``None`` where records alone do not make one.
        compressions: What the writer takes as ``compression=``; the first is what it takes when nobody says. Empty: none,
            gzip and zlib where ``compressible``, else none.
        join: ``join(parts, path)`` puts complete files together as one; ``None`` where they may simply follow one another.
        salvage: ``salvage(path, out)`` copies what is intact; ``None`` where reading on behind damage and writing again does.
    """

    name: str
    suffixes: tuple[str, ...]
    knows: Callable[[bytes], bool]
    open: Callable[..., Records]
    compressible: bool = False
    writer: Callable[..., RecordWriter] | None = None
    compressions: tuple[str, ...] = ()
    join: Callable[[Sequence[str], str], None] | None = None
    salvage: Callable[[str, str], Salvaged] | None = None
