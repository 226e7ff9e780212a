"""What the layers ask of each other, and what a source may offer a loader besides batches; and how many examples to read at once, by their sizes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from functools import lru_cache
from inspect import getattr_static
from typing import Any, Protocol, TypeAlias, TypeGuard, TypeVar, cast, runtime_checkable

import numpy as np
import numpy.typing as npt

from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Example, Indices
from headrace.errors import Where

__all__ = [
    "TABLES",
    "BringsOrder",
    "Codec",
    "CutsCleanly",
    "File",
    "Filter",
    "Fingerprinted",
    "GivesArrow",
    "HasFilters",
    "HasSchema",
    "InnerExamples",
    "KnowsSizes",
    "Locates",
    "NeedsMultiple",
    "PicksRows",
    "Piece",
    "ReadsBatches",
    "ReadsChecked",
    "ReadsRuns",
    "RowSizer",
    "Sampler",
    "SizeEstimate",
    "SourceLike",
    "Streams",
    "class_defines",
    "defines",
    "offers",
    "reads_batches",
]

MOST_AHEAD = 64
"""How many times as many examples as were asked about are looked at together where they are small."""
TABLES = ("__array__", "__arrow_c_stream__", "with_format", "write_datasink")
"""An attribute of what holds examples: arrays, frames and tables, datasets of Hugging Face and of Ray Data."""

Offer = TypeVar("Offer")


def offers(source: object, protocol: type[Offer]) -> TypeGuard[Offer]:
    """Whether a source has the members of a protocol, also where ``__getattr__`` gives it those of another source.

    From Python 3.12 on, ``isinstance`` does not see members that ``__getattr__`` gives.
    """
    wanted: Any = protocol
    return all(hasattr(source, name) for name in _members(wanted))


def defines(source: object, protocol: type[Offer]) -> TypeGuard[Offer]:
    """Whether a source itself has the members of a protocol.

    For what describes how it reads: a source that passes on the ``stream`` of another one, but has a ``batch`` of its own, must be read by
    that.
    """
    kind, wanted = cast("Any", type(source)), cast("Any", protocol)
    if class_defines(kind, wanted):
        return True
    names, own = _members(wanted), source.__dict__ if kind.__dictoffset__ else ()
    return any(name in own for name in names) and all(getattr_static(source, name, None) is not None for name in names)


@lru_cache(maxsize=1024)
def class_defines(kind: Any, protocol: Any) -> bool:
    """Whether a class has the members of a protocol. Remembered, because every epoch asks, and finding out takes 20 us."""
    return all(
        next((vars(each)[name] for each in kind.__mro__ if name in vars(each)), None) is not None
        for name in _members(protocol)
    )


@lru_cache(maxsize=64)
def _members(protocol: Any) -> tuple[str, ...]:
    return tuple(name for name in vars(protocol) if not name.startswith("_"))


@runtime_checkable
class File(Protocol):
    """Bytes with a length that can be read anywhere: a mapped file, an object in a store."""

    path: str

    @property
    def size(self) -> int:
        """The number of bytes."""

    def read(self, offset: int, size: int, /) -> memoryview:
        """``size`` bytes from ``offset``, fewer at the end of the file. They stay valid for as long as the view is held.

        Raises:
            CorruptFile: The file shrank.
        """

    def read_many(self, ranges: Sequence[tuple[int, int]], /) -> list[memoryview]:
        """As :meth:`read`, for several ``(offset, size)``."""


class Piece(Protocol):
    """Some bytes of a new file, which can be made apart from the others."""

    @property
    def size(self) -> int: ...
    def content(self) -> Any:
        """The bytes, as a buffer of ``size`` bytes."""


class Codec(Protocol):
    """Turns the payloads of records into examples and back. Knows nothing of files or framing."""

    name: str
    schema: Schema

    def decode_batch(self, spans: Any, /) -> Batch:
        """One column per feature of ``schema``, with a row for each of the payloads, which are native spans.

        Raises:
            CorruptRecord: A payload is damaged; ``where.record`` is its place among them.
            SchemaMismatch: A payload does not fit ``schema``.
        """

    def decode(self, payload: Any, /) -> Example:
        """The example of one payload, a buffer of bytes. Raises as :meth:`decode_batch`."""

    def narrowed(self, names: tuple[str, ...], /) -> Codec:
        """The codec that decodes these features only."""


@runtime_checkable
class ReadsBatches(Protocol):
    """Examples by index, and stacked. Called from several threads at once.

    This is all that a loader needs. Each optional ability is a protocol of its own: below, in ``random_keys`` and in ``sources.node``.
    """

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Any: ...
    def batch(self, indices: Indices, /) -> Batch:
        """One column per feature, with a row for each index.

        Args:
            indices: ``int64 (k,)``, from 0 to below the length, in any order, also repeated.
        """


def reads_batches(given: object) -> TypeGuard[ReadsBatches]:
    """Whether an object is a source by itself. Tables are not: their ``batch`` is a column of that name, or takes the size of a batch.

    Their classes are asked, because a source may pass on all attributes of a table.
    """
    if isinstance(given, type) or any(hasattr(type(given), name) for name in TABLES):
        return False
    return callable(getattr(given, "batch", None)) and hasattr(given, "__len__")


class ReadsChecked(Protocol):
    """A source that need not check indices again."""

    def __len__(self) -> int: ...
    def checked_reader(self) -> Callable[[Indices], Batch]:
        """A function that equals ``batch`` for arrays of int64 indices from 0 to below the length."""


class InnerExamples(Sequence[Any]):
    """Examples inside an example, decoded on access: a value of a feature of the dtype ``"examples"``. A class, to tell it from lists."""


class PicksRows(ABC):
    """A filter that looks at the columns of many examples at once. A class, so that no other function is taken for one."""

    @abstractmethod
    def needed(self, schema: Schema) -> tuple[str, ...]:
        """The features of a source that it needs."""

    @abstractmethod
    def mask(self, batch: Batch, count: int, schema: Schema | None = None) -> npt.NDArray[np.bool_]:
        """Which of ``count`` rows fit, bool (count,)."""

    @abstractmethod
    def __call__(self, example: Example) -> bool:
        """Whether one example fits."""


class ReadsRuns(Protocol):
    """A checked reader that reads adjacent rows without an array of their indices."""

    def run(self, first: int, stop: int, size: int) -> list[tuple[int, Batch]]:
        """The rows from ``first`` to ``stop``, which is one or more batches of ``size`` later, in pieces.

        Each piece holds one batch or several and comes with their number. A reader that copies less if it may cut between batches gives
        several pieces.
        """

    def one(self, first: int, stop: int, /) -> Batch:
        """The rows from ``first`` to ``stop`` as a single batch."""


class GivesArrow(Protocol):
    """A table of any library with Arrow's interface for Python."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...


SourceLike: TypeAlias = ReadsBatches | GivesArrow | Mapping[str, Any] | Iterable[Any]
"""A source, or what is accepted as one: a frame, a table, columns as a dict, an iterable of examples."""


@runtime_checkable
class HasSchema(Protocol):
    """A source that knows the features of its examples."""

    @property
    def schema(self) -> Schema:
        """Feature names and types."""


@runtime_checkable
class CutsCleanly(Protocol):
    """A source or table that knows whether small batches may be read several at a time."""

    @property
    def cuts_cleanly(self) -> bool:
        """Whether ``batch(indices)`` cut at ``k`` equals ``batch(indices[:k])`` and ``batch(indices[k:])``, dtypes and kinds included."""


class KnowsSizes(Protocol):
    """A source, records or table that knows where its examples lie."""

    def stored_bytes(self, first: int, stop: int, /) -> int:
        """About how many bytes the examples from ``first`` up to ``stop`` take where they are stored; 0 if that is not known.

        There is at least one of them, and ``stop`` may be beyond the end.
        """


@runtime_checkable
class Fingerprinted(Protocol):
    """A source or sampler that can be told from another one; checked on resume."""

    @property
    def fingerprint(self) -> str:
        """Text that is the same for the same data (or order), and differs for other data."""


@runtime_checkable
class Locates(Protocol):
    """A source that knows where its examples are."""

    def where(self, index: int, /) -> Where:
        """The place of an example, for messages."""


@runtime_checkable
class Streams(Protocol):
    """A source that can read all batches in order."""

    def stream(self, batch_size: int, /) -> Iterator[Batch] | None:
        """All batches in order, where that is cheaper than by index just now; else ``None``."""


@runtime_checkable
class HasFilters(Protocol):
    """A source with filters that workers can evaluate."""

    def filters(self) -> Iterator[Filter]:
        """The filters that were not evaluated yet, each after those that it depends on."""


class Filter(Protocol):
    """A predicate over the examples of a parent."""

    @property
    def schema(self) -> Schema:
        """Their features."""

    @property
    def parent(self) -> Sized:
        """The examples that it chooses from."""

    def kept_in(self, begin: int, end: int, /) -> Indices:
        """The indices from ``begin`` up to ``end`` whose examples are kept."""

    def keep(self, indices: Indices, /) -> None:
        """Keep the examples at these indices."""


@runtime_checkable
class NeedsMultiple(Protocol):
    """A source whose batches cannot be of any size."""

    @property
    def batch_multiple(self) -> int:
        """The number that a batch size must be a multiple of."""


@runtime_checkable
class BringsOrder(Protocol):
    """A source that defines its own order."""

    def ordered(self, *, shuffle: bool, seed: int) -> tuple[ReadsBatches, Sampler]:
        """The source to read from, and the order to read it in."""


@runtime_checkable
class Sampler(Protocol):
    """A pure function from position to index: an order of ``len(self)`` indices for every epoch.

    The numbers are computed, never stored, and depend on nothing but the arguments and the sampler's own parameters. It is
    asked from several threads at once. One that is :class:`Fingerprinted` is checked on resume.
    """

    def __len__(self) -> int: ...
    def indices(self, epoch: int, start: int, stop: int, /) -> Indices:
        """``int64 (stop - start,)``: the indices at positions ``start`` up to ``stop`` of one epoch, each from 0 to below the source's length."""


class SizeEstimate:
    """Estimates how many bytes examples will have, from the bytes that they take where they are stored.

    Args:
        stored_bytes: As :class:`KnowsSizes` has it.
    """

    __slots__ = ("_latest", "_small", "_stored_bytes")

    def __init__(self, stored_bytes: Callable[[int, int], int]) -> None:
        self._stored_bytes = stored_bytes
        self._latest: tuple[int, int, int] | None = None
        self._small = range(0)
        """Examples that fit into one job all together, so that no part of them has to be looked at."""

    def note(self, first: int, stop: int, size: int) -> None:
        """Note that the examples from ``first`` up to ``stop`` have ``size`` bytes."""
        self._latest = first, stop, size

    def fitting(self, first: int, step: int, count: int, most_bytes: int) -> int:
        """How many of ``count`` steps of ``step`` examples from ``first`` on to read together, at least 1, so that they have at most
        ``most_bytes``, which is the same each time. As many as were asked for where too little is known.
        """
        small = self._small
        if count <= 1 or self._latest is None or small.start <= first <= first + count * step <= small.stop:
            return count
        begin, end, size = self._latest
        try:
            # Both sides in bytes of a batch times bytes in a file, which needs no division. Nothing is too large if a size is unknown.
            most = most_bytes * self._stored_bytes(begin, end) or 1 << 200
            found = size * self._stored_bytes(first, first + count * step)
            while found > most and count > 1:
                count //= 2
                found = size * self._stored_bytes(first, first + count * step)
            ahead = count * step * min(most // max(found, 1), MOST_AHEAD)
            if size * self._stored_bytes(first, first + ahead) <= most:
                self._small = range(first, first + ahead)
        except Exception:  # noqa: BLE001 - such as a damaged index, which reading the examples reports
            return 1
        return count


class RowSizer:
    """Finds how many examples to hold in memory at once, by the size of earlier ones.

    Args:
        first_rows: How many at first.
        most_rows: The most.
        most_bytes: About the most bytes that they may have.
        stored_bytes: As for :class:`SizeEstimate`: then examples that are far larger than the ones before count as that.
    """

    def __init__(
        self, first_rows: int, most_rows: int, most_bytes: int, stored_bytes: Callable[[int, int], int] | None = None
    ) -> None:
        self.rows: int = min(first_rows, most_rows)
        self._most_rows, self._most_bytes = most_rows, most_bytes
        self._sizes = None if stored_bytes is None else SizeEstimate(stored_bytes)

    def take(self, start: int, stop: int) -> int:
        """How many to take next of those from ``start`` up to ``stop``."""
        rows = min(self.rows, stop - start)
        return rows if self._sizes is None else self._sizes.fitting(start, 1, rows, 2 * self._most_bytes)

    def note(self, start: int, rows: int, size: int) -> None:
        """Take into account that ``rows`` examples from ``start`` on have ``size`` bytes."""
        self.rows = max(1, min(self._most_rows, self._most_bytes * rows // max(size, 1)))
        if self._sizes is not None:
            self._sizes.note(start, start + rows, size)
