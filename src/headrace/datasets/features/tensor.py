"""Tensors of numbers and of bytes."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from headrace._numbers import fill_masked, kept_mask, to_array
from headrace.contracts.values import Ragged
from headrace.datasets.features.base import (
    BYTES,
    DtypeLike,
    LeafFeature,
    Shape,
    Stored,
    dtype_json,
    shape_json,
    stack_or_list,
)
from headrace.errors import SchemaMismatch, UnsupportedData, Where

__all__ = ["Encoding", "Scalar", "Tensor", "Text"]

Encoding = Literal["none", "bytes", "zlib"]
ENCODINGS = ("none", "bytes", "zlib")
MOST_BYTES = 1 << 31
LARGE = 8
"""The bytes of integers that NumPy calls safe to cast to floats, which round them."""
TRUSTED_VALUES = 1 << 24
"""Bytes above which a declared shape is allocated only when an example fills it."""


class Tensor(LeafFeature):
    """An array of any dtype and shape.

    Args:
        shape: Axis lengths, ``None`` for varying axes.
        dtype: A NumPy dtype, ``"string"`` for bytes, ``"bfloat16"``.
        encoding: ``"none"`` stores single numbers, and rounds ``float64`` to ``float32`` (see :attr:`stored_dtype`);
            ``"bytes"`` stores the memory of the array; ``"zlib"`` compresses that. More than one varying axis needs
            ``"bytes"`` or ``"zlib"``.
        minimum, maximum: Bounds of the values, as information; not checked.
        optional: Whether examples may lack the value, which is then ``None``.
        description, value_range: Text.

    >>> Tensor(shape=(None, 3), dtype="float32")
    Tensor(shape=(None, 3), dtype=float32)
    """

    class_name = "tensor_feature.Tensor"

    def __init__(
        self,
        *,
        shape: Sequence[int | None],
        dtype: DtypeLike,
        encoding: str = "none",
        minimum: float | None = None,
        maximum: float | None = None,
        optional: bool = False,
        description: str = "",
        value_range: str = "",
    ) -> None:
        super().__init__(shape=shape, dtype=dtype, description=description, value_range=value_range)
        found = (encoding or "none").lower()
        if found not in ENCODINGS:
            raise ValueError(f"encoding must be one of {ENCODINGS}, got {encoding!r}")
        if found != "none" and self.declared_dtype == BYTES:
            raise ValueError("bytes and text are not encoded: encoding must be 'none'")
        self.encoding = cast("Encoding", found)
        self.minimum = minimum
        self.maximum = maximum
        self.optional = optional

    @property
    def stored_dtype(self) -> str:
        """The dtype of the values in an Example.

        ``"float32"`` for ``float64`` without encoding, which rounds the values.
        """
        if self.encoding == "none" and self.declared_dtype == "float64":
            return "float32"
        return self.declared_dtype

    @property
    def _is_dynamic(self) -> bool:
        return self.shape.count(None) > 1

    @property
    def varies(self) -> bool:
        return None in self.shape[1:]

    @property
    def stored(self) -> dict[str, Stored]:
        if self.encoding != "none":
            value = Stored(dtype=BYTES)
        elif self._is_dynamic:
            raise UnsupportedData(
                Where(),
                expected="encoding 'bytes' or 'zlib' where more than one axis varies",
                found=repr(self),
                hint="TFDS itself cannot store it otherwise.",
            )
        else:
            dtype = "float32" if self.declared_dtype == "bfloat16" else self.declared_dtype
            value = Stored(dtype=dtype, shape=self._flat_shape())
        if self._is_dynamic:
            return {"/shape": Stored(dtype="int32", shape=(len(self.shape),)), "/value": value}
        return {"": value}

    @property
    def is_as_stored(self) -> bool:
        """Whether the stored numbers equal the value, with the same shape."""
        return self.encoding == "none" and not self.varies

    def _flat_shape(self) -> Shape:
        """The shape with the varying axis first. Values are stored flat, and only the reader knows which axis varies."""
        if None not in self.shape[1:]:
            return self.shape
        return (None,)

    def decode(self, parts: list[Any]) -> Any:
        if self._is_dynamic:
            shapes, values = parts
            return self._arrays(values, [tuple(int(n) for n in shape) for shape in shapes])
        values = parts[0]
        if self.encoding != "none":
            return self._arrays(values, None)
        if isinstance(values, Ragged) and None in self.shape[1:]:
            return stack_or_list([self._reshape(row, i) for i, row in enumerate(values)], self.shape, self.value_dtype)
        return values

    def _reshape(self, row: npt.NDArray[Any], record: int) -> npt.NDArray[Any]:
        step = int(np.prod([n for n in self.shape if n is not None]))
        if step == 0 or len(row) % step:
            raise self.misfit(f"{len(row)} values", record=record)
        return row.reshape([-1 if n is None else n for n in self.shape])

    def _arrays(self, values: Any, shapes: list[tuple[int, ...]] | None) -> Any:
        """Convert memory to arrays."""
        if shapes is None and None not in self.shape:
            return self._join(values)
        given = [self.shape] * len(values) if shapes is None else shapes
        arrays = [self._array(value, shape, i) for i, (value, shape) in enumerate(zip(values, given, strict=True))]
        if self.varies:
            return stack_or_list(arrays, self.shape, self.value_dtype)
        if not arrays:
            arrays = [np.zeros((0, *(n or 0 for n in self.shape[1:])), self.value_dtype)]
            return Ragged(arrays[0], np.zeros(1, np.int64))
        return Ragged.from_list(arrays)

    def _join(self, values: Any) -> npt.NDArray[Any]:
        shape = (len(values), *cast("tuple[int, ...]", self.shape))
        if math.prod(shape) > TRUSTED_VALUES:
            self._array(values[0], self.shape, 0)
        out = np.empty(shape, self.value_dtype)
        for position, value in enumerate(values):
            out[position] = self._array(value, self.shape, position)
        return out

    def _array(self, value: bytes, shape: Shape, record: int) -> npt.NDArray[Any]:
        memory = self._memory(value, shape, record)
        wire = np.dtype("uint16" if self.declared_dtype == "bfloat16" else self.declared_dtype).newbyteorder("<")
        fixed = int(np.prod([n for n in shape if n is not None], dtype=np.int64)) * wire.itemsize
        fits = len(memory) == fixed if None not in shape else fixed > 0 and len(memory) % fixed == 0
        agrees = all(own is None or own == n for own, n in zip(self.shape, shape, strict=True))
        if not fits or not agrees:
            raise self.misfit(f"{len(memory)} bytes of shape {shape}", record=record)
        array = np.frombuffer(memory, wire).reshape([-1 if n is None else n for n in shape])
        if self.declared_dtype == "bfloat16":
            return (array.astype(np.uint32) << 16).view(np.float32)
        return array.astype(self.value_dtype)

    def _memory(self, value: bytes, shape: Shape, record: int) -> bytes:
        if self.encoding != "zlib":
            return value
        itemsize = 2 if self.declared_dtype == "bfloat16" else np.dtype(self.declared_dtype).itemsize
        known = int(np.prod([n or 0 for n in shape], dtype=np.int64)) * itemsize
        inflater = zlib.decompressobj()
        try:
            memory = inflater.decompress(value, known + 1 if None not in shape else MOST_BYTES)
        except zlib.error as error:
            raise self.misfit(f"bytes that are no zlib stream ({error})", record=record) from error
        if not inflater.eof:
            raise self.misfit("a zlib stream that is truncated, or larger than its shape", record=record)
        return memory

    def encode_example(self, value: Any) -> Any:
        if value is None and self.optional:
            return None
        if self.declared_dtype == BYTES:
            return self._encode_bytes(value)
        wanted = np.dtype(self.value_dtype)
        array = to_array(fill_masked(value), _floats_like(self.value_dtype))
        if not array.size:  # a list without values has no dtype of its own
            array = np.zeros(array.shape, wanted)
        array = self._cast(array, wanted)
        if self.stored_dtype == "float32" and wanted == np.float64:
            self._cast(array, np.dtype(np.float32))  # rounded as documented, but not to infinity
        self._check_shape(array.shape)
        if self.encoding == "none":
            _ = self.stored
            return array
        memory = self._little_endian(array)
        packed = zlib.compress(memory) if self.encoding == "zlib" else memory
        return {"/shape": np.array(array.shape, np.int64), "/value": packed} if self._is_dynamic else packed

    def _cast(self, array: npt.NDArray[Any], wanted: np.dtype[Any]) -> npt.NDArray[Any]:
        """An array of numbers in another dtype. Only floats may be rounded."""
        kind = array.dtype.kind
        is_large = kind in "iu" and array.dtype.itemsize == LARGE and wanted.kind in "fc"
        if array.dtype == wanted or (not is_large and np.can_cast(array.dtype, wanted)):
            return array.astype(wanted)
        if kind not in "biufc" or (kind in "fc" and not np.can_cast(array.dtype, wanted, "same_kind")):
            raise self.misfit(f"{array.dtype} values")
        if kind == "f" and not array.ndim and abs(array.item()) <= _largest(wanted):
            return array.astype(wanted)  # in a third of the time
        with np.errstate(all="ignore"):
            fitted = array.astype(wanted)
            if kind in "fc" and np.isfinite(fitted).all():
                return fitted
            kept = kept_mask(array.reshape(-1), fitted.reshape(-1))
        if not kept.all():
            raise self.misfit(f"{array.reshape(-1)[~kept][0]} ({array.dtype})")
        return fitted

    def _little_endian(self, array: npt.NDArray[Any]) -> bytes:
        if self.declared_dtype == "bfloat16":
            bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
            if np.any(bits & 0xFFFF):
                raise self.misfit("float32 values that bfloat16 cannot hold")
            return (bits >> 16).astype("<u2").tobytes()
        return array.astype(np.dtype(self.declared_dtype).newbyteorder("<")).tobytes()

    def _encode_bytes(self, value: Any) -> Any:
        if self.shape == ():
            return _as_bytes(value, self)
        array = np.asarray(fill_masked(value), object)
        self._check_shape(array.shape)
        flat = np.empty(array.size, object)
        flat[:] = [_as_bytes(item, self) for item in array.reshape(-1)]
        return flat.reshape(array.shape)

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        fits = len(shape) == len(self.shape) and all(
            a is None or a == b for a, b in zip(self.shape, shape, strict=True)
        )
        if not fits:
            raise self.misfit(f"shape {shape}")

    def content(self) -> tuple[str, dict[str, Any]]:
        out: dict[str, Any] = {
            "shape": shape_json(self.shape),
            "dtype": dtype_json(self.declared_dtype),
            "encoding": self.encoding,
        }
        if self.minimum is not None:
            out["minimum"] = self.minimum
        if self.maximum is not None:
            out["maximum"] = self.maximum
        if self.optional:
            out["optional"] = True
        return "tensor", out

    def _parameters(self) -> Mapping[str, Any]:
        out = {**super()._parameters()}
        if self.encoding != "none":
            out["encoding"] = self.encoding
        if self.optional:
            out["optional"] = True
        if self.stored_dtype != self.declared_dtype:
            out["stored_dtype"] = self.stored_dtype
        return out


class Scalar(Tensor):
    """One number, or one bytes string.

    Args:
        dtype, optional, description, value_range: As in :class:`Tensor`.

    >>> Scalar("int32")
    Scalar(dtype=int32)
    """

    class_name = "scalar.Scalar"

    def __init__(
        self, dtype: DtypeLike, *, optional: bool = False, description: str = "", value_range: str = ""
    ) -> None:
        super().__init__(shape=(), dtype=dtype, optional=optional, description=description, value_range=value_range)

    def _parameters(self) -> Mapping[str, Any]:
        return {name: value for name, value in super()._parameters().items() if name != "shape"}


class Text(Tensor):
    r"""UTF-8 text, decoded as ``bytes``, as in TFDS.

    >>> Text().encode_example("例")
    b'\xe4\xbe\x8b'
    """

    class_name = "text_feature.Text"

    def __init__(self, *, description: str = "", value_range: str = "") -> None:
        super().__init__(shape=(), dtype=BYTES, description=description, value_range=value_range)

    def content(self) -> tuple[str, dict[str, Any]]:
        return "text", {}

    def _parameters(self) -> Mapping[str, Any]:
        return {}


@cache
def _largest(dtype: np.dtype[Any]) -> float:
    """The largest number of a dtype of floats."""
    return float(np.finfo(dtype).max)


@cache
def _floats_like(dtype: str) -> type[np.floating[Any]]:
    """The floats that numbers are stored as: a list may hold integers beside them."""
    return np.finfo(dtype).dtype.type if np.dtype(dtype).kind in "fc" else np.float64


def _as_bytes(value: Any, feature: Tensor) -> bytes:
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise feature.misfit(f"half a surrogate pair in {value!r:.40}") from error
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise SchemaMismatch(
        Where(), expected=f"bytes or text for {feature!r}", found=f"{type(value).__name__} {value!r:.40}"
    )
