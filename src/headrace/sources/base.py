"""What every source can do."""

from __future__ import annotations

import hashlib
import operator
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import numpy.typing as npt

from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Example, Indices
from headrace.errors import Where
from headrace.formats.framed.records import bounds
from headrace.sources.stacking import row

if TYPE_CHECKING:
    from headrace.sources.views import Source as Views

__all__ = ["BaseSource", "as_indices", "compose"]


def as_indices(indices: npt.ArrayLike, n: int) -> Indices:
    """Indices into ``n`` examples as ``int64 (k,)``, negative ones counted from the end.

    Raises:
        IndexError: an index is outside ``[-n, n)``.
        TypeError: they are not integers in one dimension.
    """
    array = np.asarray(indices)
    if array.size == 0:
        return np.zeros(0, np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise TypeError(f"indices are a sequence of integers, got {array.dtype} with shape {array.shape}")
    array = array.astype(np.int64, copy=False)
    low, high = bounds(array)
    if low < -n or high >= n:
        raise IndexError(f"index {low if low < -n else high} is outside a source of {n} examples")
    return np.where(array < 0, array + n, array) if low < 0 else array


def compose(outer: range | Indices, inner: range | Indices) -> range | Indices:
    """The indices that ``inner`` chooses of those that ``outer`` chose."""
    if isinstance(outer, range) and isinstance(inner, range):
        start, step = outer.start + inner.start * outer.step, outer.step * inner.step
        return range(start, start + step * len(inner), step)
    positions = np.arange(inner.start, inner.stop, inner.step, dtype=np.int64) if isinstance(inner, range) else inner
    return positions * outer.step + outer.start if isinstance(outer, range) else outer[positions]


class BaseSource(Sequence[Example]):
    """Examples by index: random access, picklable, safe in threads and after a fork.

    A subclass gives ``schema``, ``__len__`` and :meth:`_batch`; everything else follows from them.
    """

    @property
    @abstractmethod
    def schema(self) -> Schema:
        """Feature names and types of the examples."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def _batch(self, indices: Indices) -> Batch:
        """The examples at ``indices`` (checked, not negative), stacked."""

    def where(self, index: int) -> Where:
        """The place of example ``index`` in its file, for messages."""
        return Where(record=index)

    def batch(self, indices: npt.ArrayLike) -> Batch:
        """The examples at ``indices``, stacked feature by feature. The fast path; safe to call from many threads.

        Args:
            indices: ``k`` integers in any order, repeats allowed; negative ones count from the end.

        Returns:
            One column per feature: ``ndarray (k, *shape)``, a :class:`~headrace.Ragged` where a length varies, an object
            array of ``bytes`` or ``str``.

        Raises:
            IndexError: an index is out of range.
            CorruptRecord, SchemaMismatch: with file, record, byte and feature.
        """
        return self._batch(as_indices(indices, len(self)))

    @overload
    def __getitem__(self, index: int) -> Example: ...
    @overload
    def __getitem__(self, index: slice) -> Views: ...
    @overload
    def __getitem__(self, index: Sequence[int]) -> list[Example]: ...
    def __getitem__(self, index: Any) -> Any:
        """An example for an integer, a source for a slice, a list of examples for a sequence of integers."""
        if isinstance(index, slice):
            return self._sliced(index)
        if isinstance(index, (list, tuple, np.ndarray, range)):
            return self.__getitems__(index)
        position = operator.index(index)
        n = len(self)
        if not -n <= position < n:
            raise IndexError(f"index {position} is outside a source of {n} examples")
        return self._example(position % n)

    def __getitems__(self, indices: Sequence[int] | Indices) -> list[Example]:
        """Several examples in one call: what ``torch.utils.data.DataLoader`` and Grain ask for."""
        checked = as_indices(indices, len(self))
        batch = self._batch(checked)
        return [row(batch, i) for i in range(len(checked))]

    def __iter__(self) -> Iterator[Example]:
        """All examples in order, read in blocks."""
        n, block = len(self), 256
        for start in range(0, n, block):
            yield from self.__getitems__(np.arange(start, min(start + block, n)))

    def _example(self, index: int) -> Example:
        return row(self._batch(np.array([index], np.int64)), 0)

    @abstractmethod
    def _sliced(self, index: slice) -> Views: ...

    @cached_property
    def fingerprint(self) -> str:
        """Tells other data from the same data: number of examples, schema, and what the first and last one hold.

        Does not change when files are moved, renamed, re-sharded or compressed.
        """
        digest = hashlib.sha256(f"{len(self)}{self.schema.to_json()}".encode(errors="surrogateescape"))
        for index in (0, len(self) - 1) if len(self) else ():
            _add(digest.update, self._example(index))
        return digest.hexdigest()[:16]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)} examples: {', '.join(self.schema)}>"


def _add(update: Callable[[bytes], object], value: Any) -> None:
    if isinstance(value, dict):
        for name, item in value.items():
            update(str(name).encode(errors="surrogateescape"))
            _add(update, item)
    elif isinstance(value, bytes):
        update(value)
    elif hasattr(value, "tocsr"):
        entries = value.reshape((1, -1)).tocsr()
        update(entries.indices.astype(np.int64).tobytes() + entries.data.tobytes())
    elif isinstance(value, np.ndarray) and value.dtype != object:
        update(value.tobytes())
    else:
        update(repr(value.to_list() if hasattr(value, "to_list") else value).encode())
