"""What the layers ask of each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Example, Indices

__all__ = ["Codec", "File", "ReadsBatches", "Sampler"]


@runtime_checkable
class File(Protocol):
    """Bytes with a length that can be read anywhere: a mapped file, an object in a store."""

    path: str

    @property
    def size(self) -> int: ...
    def read(self, offset: int, size: int, /) -> memoryview: ...
    def read_many(self, ranges: Sequence[tuple[int, int]], /) -> list[memoryview]: ...


class Codec(Protocol):
    """Turns the payloads of records into examples and back. Knows nothing of files or framing."""

    name: str
    schema: Schema

    def decode_batch(self, spans: Any, /) -> Batch: ...
    def decode(self, payload: Any, /) -> Example: ...
    def narrowed(self, names: tuple[str, ...], /) -> Codec: ...


@runtime_checkable
class ReadsBatches(Protocol):
    """Examples by index, and stacked. Asked from several threads at once.

    What a source may offer besides, and a loader then uses:

    - ``cuts_cleanly: bool``: ``batch(indices)`` cut at ``k`` equals ``batch(indices[:k])`` and ``batch(indices[k:])``, dtypes
      and kinds of columns included. Small batches are then read several at a time.
    - ``fingerprint: str``: tells other data from the same data, checked on resume.
    - ``where(index) -> Where``: the place of an example, for messages.
    - ``stream(batch_size) -> Iterator[Batch] | None``: all batches in order, where that is cheaper than by index just now.
    - ``filters()``: the filters in it whose examples were not read yet, for workers to read them; see ``sources/views.py``.
    - ``batch_multiple: int``: what the size of a batch must be a multiple of.
    - ``ordered(*, shuffle, seed) -> tuple[ReadsBatches, Sampler]``: the source brings its own order.
    """

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Any: ...
    def batch(self, indices: Indices, /) -> Batch: ...


@runtime_checkable
class Sampler(Protocol):
    """A pure function from position to index: an order of ``len(self)`` indices for every epoch.

    The numbers are computed, never stored, and depend on nothing but the arguments and the sampler's own parameters. It is
    asked from several threads at once. A sampler whose ``fingerprint: str`` tells its parameters is checked on resume.
    """

    def __len__(self) -> int: ...
    def indices(self, epoch: int, start: int, stop: int, /) -> Indices:
        """The indices at positions ``start`` up to ``stop`` of one epoch."""
