"""Batches as arrays of another library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from penstock._optional import require
from penstock.contracts.values import Ragged
from penstock.errors import UnsupportedData, Where

__all__ = ["To", "converter"]

To = Literal["numpy", "torch", "jax"]
Convert = Callable[[Any], Any]


def converter(to: To) -> Convert | None:
    """What turns a batch of NumPy arrays into one of ``to``; ``None`` for NumPy itself.

    Dicts, lists and tuples are gone through. What the other library has no array for stays as it is: text, dates, records,
    scipy's sparse arrays.

    - **torch**: ``torch.from_numpy``, no copy: the tensor holds the batch's memory. (Read-only, byte-swapped or reversed
      arrays, which only ``map_batch`` can bring in, are copied.) A :class:`Ragged` becomes a ``Ragged`` of two tensors,
      which ``torch.nested.nested_tensor_from_jagged(r.values, r.offsets)`` takes.
    - **jax**: ``jax.device_put`` on the default device. JAX holds 64-bit numbers as 32-bit ones unless ``jax_enable_x64`` is
      set; integers that do not fit are refused. The values of a ``Ragged`` become a JAX array, its offsets stay NumPy's, as
      its shapes would otherwise be traced.

    Raises:
        MissingExtra: the library is not installed.
        ValueError: no such library.
    """
    if to == "numpy":
        return None
    if to == "torch":
        return _through(_to_torch(), offsets=True)
    if to == "jax":
        return _through(_to_jax(), offsets=False)
    raise ValueError(f"to must be 'numpy', 'torch' or 'jax', got {to!r}")


def _through(convert: Callable[[npt.NDArray[Any]], Any], *, offsets: bool) -> Convert:
    """``convert`` on every array inside a value."""

    def go(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return convert(value)
        if isinstance(value, dict):
            return {name: go(item) for name, item in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(map(go, value)) if not hasattr(value, "_fields") else type(value)(*map(go, value))
        if isinstance(value, Ragged):
            return Ragged(go(value.values), convert(value.offsets) if offsets else value.offsets)
        return value

    return go


def _to_torch() -> Callable[[npt.NDArray[Any]], Any]:
    from_numpy = require("torch", extra="torch").from_numpy

    def convert(array: npt.NDArray[Any]) -> Any:
        kind = array.dtype.kind
        if kind not in "biufc":
            return array
        if not array.flags.writeable or not array.dtype.isnative or min(array.strides, default=0) < 0:
            array = array.astype(array.dtype.newbyteorder("="))
        return from_numpy(array.view(array.dtype.str))  # long and long long are one type to torch

    return convert


def _to_jax() -> Callable[[npt.NDArray[Any]], Any]:
    jax = require("jax", extra="jax")

    def convert(array: npt.NDArray[Any]) -> Any:
        if array.dtype.kind not in "biufc":
            return array
        if array.dtype.kind in "iu" and array.dtype.itemsize == 8 and not jax.config.jax_enable_x64:
            _check_fits(array)
        return jax.device_put(array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("=")))

    return convert


def _check_fits(array: npt.NDArray[Any]) -> None:
    limits = np.iinfo(np.int32 if array.dtype.kind == "i" else np.uint32)
    if array.size and (array.min() < limits.min or array.max() > limits.max):
        raise UnsupportedData(
            Where(),
            expected=f"integers that fit into the {limits.dtype} that JAX makes of {array.dtype}",
            found=f"values from {array.min()} to {array.max()}",
            hint="jax.config.update('jax_enable_x64', True) keeps 64 bits.",
        )
