"""Columns of text and bytes without a Python object for each value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from headrace import _hooks, _native, _optional
from headrace._arguments import check_integer, check_positions, check_vector

__all__ = ["Strings"]

MOST_SEED, MOST_BUCKETS = 2**64 - 1, 2**63 - 1
AT_ONCE = 4096  # values that iteration makes objects of


class Strings(Sequence[Any]):
    """A column of text or bytes in Arrow's layout. Read-only. Python objects are made only of the values that you access.

    Args:
        data: ``uint8 (bytes,)``: the values end to end.
        offsets: ``int64 (values + 1,)``: value ``k`` is ``data[offsets[k]:offsets[k + 1]]``. The first may be above 0.
        is_text: Whether values are ``str`` (``data`` then holds UTF-8) or ``bytes``.
        shape: ``(n,)`` or ``(n, *inner)``, values in row-major order. Default: ``(values,)``.

    Raises:
        ValueError: Offsets fall or leave the data, text is not UTF-8, or the shape does not match.

    >>> s = Strings.from_values(["one", "two", "", "four"])
    >>> s
    Strings(['one', 'two', '', 'four'])
    >>> s[1], s[-1:].to_list(), s[[2, 0]].to_list()
    ('two', ['four'], ['', 'one'])
    >>> s == "two"
    array([False,  True, False, False])
    >>> s.hash_buckets(1000)
    array([870, 259, 921, 801])
    >>> s.reshape(2, 2)[1]
    Strings(['', 'four'])
    """

    __slots__ = ("_data", "_offsets", "is_text", "shape")
    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    _data: npt.NDArray[np.uint8]
    _offsets: npt.NDArray[np.int64]
    is_text: bool
    shape: tuple[int, ...]

    def __init__(self, data: Any, offsets: Any, *, is_text: bool, shape: Sequence[int] | None = None) -> None:
        data = _read_only(check_vector(data, np.uint8))
        offsets = _read_only(check_vector(offsets, np.int64))
        if len(offsets) == 0:
            raise ValueError("expected offsets, one more than there are values, found none")
        outside, bad = _native.check_strings(data, offsets, is_text)
        if outside >= 0:
            found = f"{offsets[outside : outside + 2].tolist()} for value {outside}"
            raise ValueError(f"expected offsets that do not fall and end by {len(data)}, found {found}")
        if bad >= 0:
            value = data[offsets[bad] : offsets[bad + 1]][:16].tobytes()
            raise ValueError(f"expected UTF-8 text, found the bytes {value!r} in value {bad}")
        flat = self.trust(data, offsets, bool(is_text))
        made = flat if shape is None else flat.reshape(tuple(shape))
        for name in self.__slots__:
            object.__setattr__(self, name, getattr(made, name))

    @classmethod
    def trust(cls, data: Any, offsets: Any, is_text: bool, shape: tuple[int, ...] | None = None) -> Strings:  # noqa: FBT001
        """Make a column without checks, for parts that native code made or checked."""
        self: Strings = _NEW(cls)
        _PUT_DATA(self, data)
        _PUT_OFFSETS(self, offsets)
        _PUT_IS_TEXT(self, is_text)
        _PUT_SHAPE(self, (len(offsets) - 1,) if shape is None else shape)
        return self

    @classmethod
    def from_values(cls, values: Iterable[Any], *, is_text: bool | None = None) -> Strings:
        """A column of ``str`` or ``bytes``, or of equally nested lists or an array of them.

        Args:
            values: All of one kind. With ``is_text``, text and bytes are converted into each other by UTF-8.
            is_text: Default: whether the first value is ``str``; true if there is none.

        Raises:
            TypeError: A value is neither text nor bytes, or not of the kind of the first.
            ValueError: Bytes are not UTF-8, text holds a lone surrogate, or the array has no axis.
        """
        if isinstance(values, Strings) and is_text in (None, values.is_text):
            return values
        flat, shape = _flatten(values)
        if not shape:
            raise ValueError(
                f"expected values along at least one axis, found the single {values!r:.60}: put it into a list"
            )
        if is_text is None:
            is_text = not flat or isinstance(flat[0], str)
            kind = str if is_text else bytes
            mixed = flat if set(map(type, flat)) - {kind} else ()
            other = next((i for i, v in enumerate(mixed) if isinstance(v, str) != is_text), None)
            if other is not None:
                raise TypeError(f"expected {kind.__name__} as before, found {flat[other]!r:.60} at {other}")
        data, offsets, bad = _native.make_strings(flat, is_text)
        if bad >= 0:
            value = flat[bad]
            if isinstance(value, (str, bytes, bytearray)):
                raise ValueError(f"expected UTF-8 text, found {value!r:.60} at {bad}")
            raise TypeError(f"expected text or bytes, found {type(value).__name__} {value!r:.60} at {bad}")
        return cls.trust(data, offsets, is_text, shape)

    @classmethod
    def from_arrow(cls, array: Any) -> Strings:
        """A column from an Arrow array of text or bytes, a series, or any object with ``__arrow_c_array__``.

        Shares memory with large strings and binaries; others get new offsets or are copied. Needs pyarrow.

        Raises:
            TypeError: It holds neither text nor bytes.
            ValueError: It has nulls, or text that is not UTF-8.
        """
        pa = _optional.require("pyarrow", extra="arrow")
        if not isinstance(array, (pa.Array, pa.ChunkedArray)):  # Polars itself knows the type of a series without rows
            array = array.to_arrow() if hasattr(array, "to_arrow") else pa.array(array)
        if isinstance(array, pa.ChunkedArray):
            parts = [cls.from_arrow(chunk) for chunk in array.chunks]
            return cls.concatenate(parts or [cls.from_arrow(pa.array([], array.type))])
        if not isinstance(array, pa.Array):
            raise TypeError(f"expected an Arrow array of text or bytes, found {type(array).__name__}: pass one column")
        array = array.storage if isinstance(array, pa.ExtensionArray) else array
        if array.null_count:
            raise ValueError(f"expected no nulls, found {array.null_count}: fill them first")
        types = pa.types
        if types.is_fixed_size_list(array.type):
            inner = cls.from_arrow(array.flatten())
            return inner.reshape(len(array), array.type.list_size, *inner.shape[1:])
        if types.is_dictionary(array.type):
            if array.dictionary.null_count:  # which no row may use
                return cls.from_arrow(array.dictionary_decode())
            return cls.from_arrow(array.dictionary).take(np.asarray(array.indices.cast(pa.int64())))
        kind = str(array.type)  # that of a list or struct may hold these words, too
        is_text = kind in ("string", "large_string", "string_view")
        if not (is_text or kind in ("binary", "large_binary", "binary_view") or types.is_fixed_size_binary(array.type)):
            raise TypeError(f"expected an Arrow array of text or bytes, found {array.type}")
        small = types.is_string(array.type) or types.is_binary(array.type)
        if not (small or types.is_large_string(array.type) or types.is_large_binary(array.type)):
            array = array.cast(pa.large_string() if is_text else pa.large_binary())
        _, offsets, data = array.buffers()
        whole = np.frombuffer(offsets or b"", np.int32 if small else np.int64)
        starts = whole[array.offset : array.offset + len(array) + 1] if len(whole) else np.zeros(1, np.int64)
        return cls(np.frombuffer(data or b"", np.uint8), starts.astype(np.int64, copy=False), is_text=is_text)

    @classmethod
    def concatenate(cls, columns: Sequence[Strings]) -> Strings:
        """Columns end to end. All hold text or all hold bytes, and their inner shapes are equal.

        Raises:
            ValueError: There is none, or they differ.
        """
        if len(columns) == 1:
            return columns[0]
        if len({(column.is_text, column.shape[1:]) for column in columns}) != 1:
            raise ValueError(f"expected columns of one kind and inner shape, found {'several' if columns else 'none'}")
        first = columns[0]
        offsets = np.empty(sum(column.size for column in columns) + 1, np.int64)
        offsets[0] = at = used = 0
        for column in columns:
            end = at + column.size
            np.add(column._offsets[1:], used - int(column._offsets[0]), out=offsets[at + 1 : end + 1])
            at, used = end, int(offsets[end])
        data = _native.pooled(used)
        np.concatenate([column.content for column in columns], out=data)
        return cls.trust(data, offsets, first.is_text, (sum(map(len, columns)), *first.shape[1:]))

    @property
    def data(self) -> npt.NDArray[np.uint8]:
        """``uint8 (bytes,)``, read-only: the values end to end."""
        return _read_only(self._data)

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """``int64 (values + 1,)``, read-only: value ``k`` is ``data[offsets[k]:offsets[k + 1]]``."""
        return _read_only(self._offsets)

    @property
    def content(self) -> npt.NDArray[np.uint8]:
        """The part of ``data`` that holds these values, a read-only view."""
        return _read_only(self._data[int(self._offsets[0]) : int(self._offsets[-1])])

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """``int64``, of the column's shape: the length of each value in bytes."""
        return np.diff(self._offsets).reshape(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """``object``: the dtype of ``np.asarray(column)``."""
        return np.dtype(object)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of values."""
        return len(self._offsets) - 1

    @property
    def nbytes(self) -> int:
        """Bytes of values and offsets."""
        return int(self._offsets.item(-1) - self._offsets.item(0)) + self._offsets.nbytes

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a column of strings is read-only")

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> Any:
        """As in NumPy: one value, or a column of a row, of a slice (a view if its step is 1), or of indices or a mask (a copy)."""
        if type(index) is int:
            return self._row(index)
        if type(index) is slice:  # every batch makes many slices
            start, stop, step = index.indices(self.shape[0])
            if step == 1:
                stop = max(start, stop)
                if len(self.shape) == 1:
                    return self.trust(self._data, self._offsets[start : stop + 1], self.is_text, (stop - start,))
                inner = self._inner()
                offsets = self._offsets[start * inner : stop * inner + 1]
                return self.trust(self._data, offsets, self.is_text, (stop - start, *self.shape[1:]))
        elif isinstance(index, np.integer) or (isinstance(index, int) and not isinstance(index, bool)):
            return self._row(int(index))
        elif isinstance(index, (list, np.ndarray)):
            rows = np.asarray(index) if isinstance(index, np.ndarray) or index else np.zeros(0, np.int64)
            if rows.shape == self.shape[:1] and rows.dtype == bool:
                return self.take(np.flatnonzero(rows))
            if rows.ndim == 1 and rows.dtype.kind in "iu":
                return self.take(rows)
        picked = np.arange(self.size).reshape(self.shape)[index]
        if not np.ndim(picked):  # also with an ellipsis, for which NumPy makes an array without axes
            return self.reshape(-1)._row(int(picked))
        taken = self.reshape(-1).take(np.ascontiguousarray(picked.reshape(-1)))
        return self.trust(taken.data, taken.offsets, self.is_text, picked.shape)

    def _inner(self) -> int:
        return int(np.prod(self.shape[1:], dtype=np.int64)) if len(self.shape) > 1 else 1

    def _row(self, row: int) -> Any:
        n = self.shape[0]
        if not -n <= row < n:
            raise IndexError(f"row {row} of {n}")
        row = row if row >= 0 else row + n
        if len(self.shape) > 1:
            offsets = self._offsets[row * self._inner() : (row + 1) * self._inner() + 1]
            return self.trust(self._data, offsets, self.is_text, self.shape[1:])
        value = self._data[self._offsets[row] : self._offsets[row + 1]].tobytes()
        return value.decode() if self.is_text else value

    def take(self, rows: npt.ArrayLike) -> Strings:
        """The rows at these positions, copied. Negative positions count from the end; one outside the column is an IndexError."""
        wanted = np.ascontiguousarray(check_positions(rows, len(self)))
        if len(self.shape) > 1:
            inner = self._inner()
            wanted = (wanted[:, None] * inner + np.arange(inner)).reshape(-1)
        data, offsets = _native.take_strings(self._data, self._offsets, wanted)
        return self.trust(data, offsets, self.is_text, (len(np.atleast_1d(rows)), *self.shape[1:]))

    def __iter__(self) -> Iterator[Any]:
        if len(self.shape) > 1:
            yield from (self._row(i) for i in range(len(self)))
            return
        for start in range(0, len(self), AT_ONCE):
            yield from _native.list_strings(self._data, self._offsets[start : start + AT_ONCE + 1], self.is_text)

    def tolist(self) -> list[Any]:
        """``str`` or ``bytes`` in nested lists."""
        if len(self.shape) == 1:
            return _native.list_strings(self._data, self._offsets, self.is_text)
        return np.asarray(self).tolist()  # type: ignore[no-any-return]

    to_list = tolist  # as of Ragged

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:  # noqa: FBT001
        if copy is False:
            raise ValueError("a column of strings becomes an array only by a copy")
        out = np.empty(self.shape, object)
        out.reshape(-1)[:] = _native.list_strings(self._data, self._offsets, self.is_text)
        return out if dtype is None else out.astype(dtype, copy=False)

    def __contains__(self, value: object) -> bool:
        """Whether any value equals this one, as in NumPy."""
        return bool(np.any(self == value))

    def __eq__(self, other: object) -> Any:
        if isinstance(other, (str, bytes, bytearray, memoryview)):
            if isinstance(other, str) != self.is_text:
                return np.zeros(self.shape, bool)
            # Lone surrogates become bytes that no text has.
            value = other.encode(errors="surrogatepass") if isinstance(other, str) else bytes(other)
            return _native.compare_strings_with(self._data, self._offsets, value).reshape(self.shape)
        if isinstance(other, Strings) and other.shape == self.shape:
            if other.is_text != self.is_text:
                return np.zeros(self.shape, bool)
            return _native.compare_strings(self._data, self._offsets, other._data, other._offsets).reshape(self.shape)
        return np.asarray(self) == (np.asarray(other) if hasattr(other, "__array__") else np.asarray(other, object))

    def __ne__(self, other: object) -> Any:
        return ~np.asarray(self == other)

    def reshape(self, *shape: Any) -> Strings:
        """The same values in another shape, of at least one axis. One length may be -1. ValueError if the sizes differ."""
        wanted = shape[0] if len(shape) == 1 and not isinstance(shape[0], (int, np.integer)) else shape
        if len(wanted) == 1 and wanted[0] in (-1, self.size):
            return self.trust(self._data, self._offsets, self.is_text, (self.size,))
        found = np.broadcast_to(np.int8(0), self.size).reshape(wanted).shape
        if not found:
            raise ValueError("a column of strings has at least one axis")
        return self.trust(self._data, self._offsets, self.is_text, found)

    def hash_buckets(self, n: int, seed: int = 0) -> npt.NDArray[np.int64]:
        """A bucket for each value: XXH64 of its bytes (UTF-8 of text), modulo ``n``. ``int64`` of the column's shape.

        This equals ``xxhash.xxh64_intdigest(value, seed) % n`` of the package ``xxhash``, on every machine. ``n`` is 1 to
        2**63 - 1, ``seed`` 0 to 2**64 - 1: another seed gives other collisions.
        """
        n, seed = check_integer(n, "n", least=1, most=MOST_BUCKETS), check_integer(seed, "seed", most=MOST_SEED)
        return _native.hash_strings(self._data, self._offsets, n, seed).reshape(self.shape)

    def to_arrow(self) -> Any:
        """A ``pyarrow`` array of ``large_string`` or ``large_binary`` (in fixed-size lists for inner axes), without a copy."""
        pa = _optional.require("pyarrow", extra="arrow")
        outside, _ = _native.check_strings(self._data, self._offsets, False)  # noqa: FBT003
        if outside >= 0:  # pyarrow trusts offsets, and a column may share them with an array that has changed
            raise ValueError(f"expected offsets as they were, found others at value {outside} of the column")
        kind = pa.large_string() if self.is_text else pa.large_binary()
        if 0 in self.shape[1:]:
            for length in reversed(self.shape[1:]):
                kind = pa.list_(kind, length)
            return pa.array(self.tolist(), kind)
        array = pa.Array.from_buffers(kind, self.size, [None, pa.py_buffer(self.offsets), pa.py_buffer(self.data)], 0)
        for length in reversed(self.shape[1:]):
            array = pa.FixedSizeListArray.from_arrays(array, length)
        return array

    def __arrow_array__(self, type: Any = None) -> Any:
        array = self.to_arrow()
        return array if type is None or type == array.type else array.cast(type)

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        return self.to_arrow().__arrow_c_array__(requested_schema)

    def __reduce__(self) -> Any:
        offsets = self._offsets if self._offsets[0] == 0 else self._offsets - self._offsets[0]
        return type(self).trust, (self.content, offsets, self.is_text, self.shape)

    def _repr_html_(self) -> str | None:
        return _hooks.to_html(self)

    def __repr__(self) -> str:
        if self.size <= 8 and self.nbytes <= 500:
            return f"Strings({self.tolist()!r})"
        return f"Strings({'text' if self.is_text else 'bytes'} of shape {self.shape}, {self.nbytes} bytes)"


# Columns are read-only. Bound once, because every batch makes many columns.
_NEW = object.__new__
_PUT_DATA, _PUT_OFFSETS, _PUT_IS_TEXT, _PUT_SHAPE = (getattr(Strings, name).__set__ for name in Strings.__slots__)


def _read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A view through which nothing can be changed: other libraries trust offsets that they share."""
    if not array.flags.writeable:
        return array
    view = array.view()
    view.flags.writeable = False
    return view


def _flatten(values: Any) -> tuple[list[Any], tuple[int, ...]]:
    """Values end to end, and their shape."""
    if not isinstance(values, (list, np.ndarray)):
        if isinstance(values, (str, bytes, bytearray)) or not hasattr(values, "__iter__"):
            return [values], ()  # a text is one value, not its characters
        values = np.asarray(values) if hasattr(values, "__array__") else list(values)
    if isinstance(values, list):
        if not values or not isinstance(values[0], (list, tuple, np.ndarray, Strings)):
            return values, (len(values),)
        rows = [_flatten(row) for row in values]
        shape = rows[0][1]
        other = next((at for at, (_, found) in enumerate(rows) if found != shape), None)
        if other is not None:
            found = f"{rows[other][1]} at {other}: {values[other]!r:.60}"
            raise ValueError(f"expected rows of one shape, {shape} as at 0, found {found}")
        return [value for row, _ in rows for value in row], (len(rows), *rows[0][1])
    return values.reshape(-1).tolist(), values.shape
