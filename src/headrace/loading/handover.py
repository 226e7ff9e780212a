"""Converts batches to arrays of other libraries, and copies them to an accelerator while it computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from headrace._numbers import fill_masked
from headrace._optional import JaxSettings, require, torch_device
from headrace.contracts.strings import Strings
from headrace.contracts.values import Ragged
from headrace.errors import DataError, UnsupportedData, Where

__all__ = ["Arrive", "Convert", "CudaStage", "To", "make_converter", "make_handover", "make_jax_putter"]

REGISTERED = 2
"""What ``dtype.isbuiltin`` is for dtypes that another package adds to NumPy, such as bfloat16 of ``ml_dtypes``."""
SHARED = frozenset("?bBhHiIlLefdFD")
"""Types of NumPy that torch has as they are."""


class Staged(NamedTuple):
    """A batch on its way to a GPU."""

    batch: Any
    event: Any
    tensors: list[Any]


class CudaStage:
    """Copies tensors to a GPU from pinned memory, on a separate stream, so that copies overlap with computation.

    Args:
        torch: The module.
        device: A CUDA device.
    """

    def __init__(self, torch: Any, device: Any) -> None:
        self._torch = torch
        self._device = device
        self._stream: Any = None

    def begin(self, go: Callable[[Any], Any], move: list[Any], batch: Any) -> Staged:
        """Start the copies of a batch: ``go`` converts it and collects the moved tensors in ``move``."""
        cuda = self._torch.cuda
        if self._stream is None:
            self._stream = cuda.Stream(self._device)
        with cuda.stream(self._stream):
            converted = go(batch)
            return Staged(converted, self._stream.record_event(), move)

    def copy(self, tensor: Any) -> Any:
        """Start copying a tensor to the GPU. Its allocator keeps the pinned memory until the copy is done."""
        tensor = tensor.pin_memory() if tensor.is_cpu else tensor
        return tensor.to(self._device, non_blocking=True)

    def copy_now(self, tensor: Any) -> Any:
        """Copy a tensor that no stream can be noted for, such as a sparse one. Its memory is of the default stream."""
        with self._torch.cuda.stream(self._torch.cuda.default_stream(self._device)):
            return tensor.to(self._device)

    def arrive(self, staged: Staged) -> Any:
        """The batch. What the consumer computes from now on waits for the copies on the GPU; nothing waits here."""
        current = self._torch.cuda.current_stream(self._device)
        current.wait_event(staged.event)
        for tensor in staged.tensors:
            tensor.record_stream(current)  # Its memory comes from the other stream.
        return staged.batch


def make_jax_putter(jax: Any, device: Any) -> Callable[[Any], Any]:
    """A function that puts an array on a device or a sharding.

    With a sharding over several processes, each process passes its own part of the batch.

    Raises:
        ValueError: ``device`` is neither.
    """
    if isinstance(device, jax.sharding.Sharding) and not device.is_fully_addressable:
        return lambda array: jax.make_array_from_process_local_data(device, array)
    if device is not None and not isinstance(device, jax.Device | jax.sharding.Sharding):
        raise ValueError(
            f"device must be a jax.Device, such as jax.devices()[0], or a jax.sharding.Sharding, got {device!r}"
        )
    return lambda array: jax.device_put(array, device)


To = Literal["numpy", "torch", "jax"]
Convert = Callable[[Any], Any]
ConvertMany = Callable[[list[npt.NDArray[Any]]], list[Any] | None]
Arrive = Callable[[Any], Any]


def make_handover(to: To, device: Any) -> tuple[Convert | None, Arrive | None]:
    """The last step of making a batch, and a step for when the consumer takes it.

    Only torch with a GPU needs the second: there the consumer's stream waits for copies on another one.

    Raises:
        MissingExtra: The library is not installed.
        ValueError: No such library, or a device for NumPy arrays.
        UnsupportedData: There is no such device.
    """
    if device is None:
        return make_converter(to), None
    if to == "jax":
        jax = require("jax", extra="jax")
        numbers = _JaxConverter(jax, device)
        return _convert_all(
            numbers.convert,
            many=numbers.convert_many,
            offsets=None,
            own=jax.Array,
            place=_jax_placer(jax, device),
            is_divided=not getattr(device, "is_fully_replicated", True),
        ), None
    if to != "torch":
        raise ValueError(f"device={device!r} needs to='torch' or to='jax'")
    torch = require("torch", extra="torch")
    found = torch_device(torch, device)
    if found.type != "cuda":
        return _convert_and_move(torch, lambda tensor: tensor.to(found)), None
    stage = CudaStage(torch, found)
    return _make_stager(torch, stage), stage.arrive


def _convert_and_move(torch: Any, move: Convert) -> Convert:
    """A function that makes tensors of arrays, and moves them and those that are in the batch already."""
    convert = _to_torch()

    def convert_and_move(array: npt.NDArray[Any]) -> Any:
        value = convert(array)
        return move(value) if isinstance(value, torch.Tensor) else value

    return _convert_all(convert_and_move, offsets=convert, own=torch.Tensor, place=move)


def _make_stager(torch: Any, stage: CudaStage) -> Convert:
    def begin(batch: Any) -> Any:
        moved: list[Any] = []

        def move(tensor: Any) -> Any:
            if tensor.layout is not torch.strided:
                return stage.copy_now(tensor)
            moved.append(stage.copy(tensor))
            return moved[-1]

        return stage.begin(_convert_and_move(torch, move), moved, batch)

    return begin


def make_converter(to: To) -> Convert | None:
    """A function that converts a batch of NumPy arrays to one of ``to``; ``None`` for NumPy itself.

    It converts the arrays inside dicts, lists and tuples; other mappings become dicts. Values without an equivalent stay unchanged: text
    and bytes (:class:`~headrace.Strings`), dates, records, scipy's sparse arrays. So do arrays that a function made with another library.
    Masked floats become NaN, other masked values are refused, and so are numbers of ``ml_dtypes`` that the library lacks.

    - **torch**: ``torch.from_numpy``, no copy: the tensor holds the batch's memory. (Read-only, byte-swapped, reversed or
      unaligned arrays, which only ``map_batch`` can bring in, are copied.) A :class:`Ragged` becomes a ``Ragged`` of two tensors,
      which ``torch.nested.nested_tensor_from_jagged(r.values, r.offsets)`` takes. Its offsets stay on the host, so that rows
      are found without waiting for a device.
    - **jax**: ``jax.device_put`` on the default device. JAX holds 64-bit numbers as 32-bit ones unless ``jax_enable_x64`` is
      set; integers that do not fit are refused, and finite floats that would become infinite. The values of a ``Ragged`` become a JAX array, its offsets stay NumPy's, as
      its shapes would otherwise be traced.

    Raises:
        MissingExtra: The library is not installed.
        ValueError: No such library.
    """
    if to == "numpy":
        return None
    if to == "torch":
        convert = _to_torch()
        return _convert_all(convert, offsets=convert)
    if to == "jax":
        numbers = _JaxConverter(require("jax", extra="jax"), None)
        return _convert_all(numbers.convert, many=numbers.convert_many, offsets=None)
    raise ValueError(f"to must be 'numpy', 'torch' or 'jax', got {to!r}")


def _convert_all(
    convert: Convert,
    *,
    many: ConvertMany | None = None,
    offsets: Convert | None,
    own: type[Any] | tuple[()] = (),
    place: Convert = lambda array: array,
    is_divided: bool = False,
) -> Convert:
    """A function that converts every array in a value.

    Args:
        convert: Of an array of NumPy.
        many: Converts those of a dict in one call, or gives ``None`` where one of them is refused, which ``convert`` then explains.
        offsets: Converts the offsets of a :class:`Ragged`.
        own: The type of the library's own arrays, which ``map_batch`` may have made.
        place: Brings one to the device.
        is_divided: Arrays are divided among devices. A ``Ragged`` is refused: its values would be divided anywhere in its rows.
    """

    def go(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return convert(value if type(value) is np.ndarray else fill_masked(value))
        if isinstance(value, (list, tuple)):
            return type(value)(map(go, value)) if not hasattr(value, "_fields") else type(value)(*map(go, value))
        if isinstance(value, Ragged):
            if is_divided and _is_number(value.dtype):
                raise _ragged_sharding_error(value)
            is_array = isinstance(value.offsets, np.ndarray)
            return Ragged.trust(go(value.values), offsets(value.offsets) if offsets and is_array else value.offsets)
        if isinstance(value, own):
            return place(value)
        # Other mappings are such as the encodings of tokenizers. Asking takes longest, and columns of text are in many batches.
        if isinstance(value, dict) or (type(value) is not Strings and isinstance(value, Mapping)):
            ready = _convert_together(many, value) if many is not None else {}
            return {name: ready[name] if name in ready else go_named(name, item) for name, item in value.items()}
        return value

    def go_named(name: Any, value: Any) -> Any:
        try:
            return convert(value) if type(value) is np.ndarray else go(value)
        except DataError as error:
            raise error.relocated(Where(feature=name if isinstance(name, str) else None)) from error

    return go


def _to_torch() -> Callable[[npt.NDArray[Any]], Any]:
    torch = require("torch", extra="torch")
    from_numpy = torch.from_numpy

    def convert(array: npt.NDArray[Any]) -> Any:
        dtype = array.dtype
        if dtype.char in SHARED and dtype.isnative and array.flags.carray:
            with suppress(ValueError):  # An axis of one value may be a reversed one.
                return from_numpy(array)
        if not _is_number(dtype):
            return array
        if not array.flags.writeable or not dtype.isnative or not _is_shareable(array):
            array = array.astype(dtype.newbyteorder("="))
        if dtype.isbuiltin == REGISTERED:
            kind = getattr(torch, dtype.name, None)
            if kind is None or not kind.is_floating_point or kind.itemsize != dtype.itemsize:
                raise _dtype_error(dtype, "PyTorch")
            return from_numpy(array.view(f"u{dtype.itemsize}")).view(kind)
        return from_numpy(array.view(array.dtype.str))  # long and long long are one type to torch

    return convert


def _convert_together(many: ConvertMany, values: Mapping[Any, Any]) -> dict[Any, Any]:
    """The arrays of numbers among values, converted; empty where there are fewer than two, or one of them is refused."""
    arrays = {name: item for name, item in values.items() if type(item) is np.ndarray and _is_number(item.dtype)}
    found = many(list(arrays.values())) if len(arrays) > 1 else None
    return {} if found is None else dict(zip(arrays, found, strict=True))


class _JaxConverter:
    """Makes JAX arrays of NumPy's: of one, or of many in one call, as a call of JAX takes about as long as an array."""

    def __init__(self, jax: Any, device: Any) -> None:
        self._jax = jax
        self._put = make_jax_putter(jax, device)
        self._is_sharding = isinstance(device, jax.sharding.Sharding)
        self._settings = JaxSettings.read(jax)  # those of the loop, for all of its batches: any thread may convert one

    def convert(self, array: npt.NDArray[Any]) -> Any:
        """The JAX array; values that JAX has no dtype for stay NumPy's."""
        if not _is_number(array.dtype):
            return array
        native = self._to_native(array)
        try:
            return self._put_as_set(native)
        except (TypeError, RuntimeError) as error:
            if array.dtype.isbuiltin != REGISTERED:
                raise
            raise _dtype_error(array.dtype, "JAX") from error
        except ValueError as error:
            if not self._is_sharding:
                raise
            raise _division_error(array, error) from error

    def convert_many(self, arrays: list[npt.NDArray[Any]]) -> list[Any] | None:
        """The JAX arrays, or ``None`` if one is refused, or for a sharding, whose function may take no lists."""
        if self._is_sharding:
            return None
        try:
            return list(self._put_as_set([self._to_native(array) for array in arrays]))
        except (DataError, TypeError, RuntimeError, ValueError):
            return None

    def _to_native(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if array.dtype.itemsize >= 8 and not self._settings.x64 and array.dtype.char != "F":
            _check_fits(array)
        return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))

    def _put_as_set(self, native: Any) -> Any:
        config, settings = self._jax.config, self._settings
        if config.jax_enable_x64 is settings.x64 and config.jax_default_device is settings.device:
            return self._put(native)
        with settings.applied(self._jax):
            return self._put(native)


def _jax_placer(jax: Any, device: Any) -> Convert:
    """A function that puts JAX's own arrays on a device or a sharding."""
    put = make_jax_putter(jax, device)

    def place(array: Any) -> Any:
        if not array.is_fully_addressable:  # it is divided among processes already
            return array
        try:
            return put(array)
        except ValueError as error:
            if not isinstance(device, jax.sharding.Sharding):
                raise
            raise _division_error(array, error) from error

    return place


def _is_number(dtype: np.dtype[Any]) -> bool:
    """Whether other libraries have this dtype: no other library has 80-bit or 128-bit numbers."""
    return (dtype.kind in "biufc" and dtype.char not in "gG") or dtype.isbuiltin == REGISTERED


def _is_shareable(array: npt.NDArray[Any]) -> bool:
    """Whether a tensor can share an array's memory: no axis is reversed, or a field among others of other sizes."""
    return array.flags.aligned and not any(stride < 0 or stride % array.itemsize for stride in array.strides)


def _ragged_sharding_error(value: Ragged) -> UnsupportedData:
    return UnsupportedData(
        Where(),
        expected="rows of one length, which a sharding divides among devices",
        found=repr(value),
        hint="Pad them, as with map_batch=hr.Pad(name, length=512), or drop the feature with source.select(...).",
    )


def _division_error(array: npt.NDArray[Any], error: ValueError) -> UnsupportedData:
    return UnsupportedData(
        Where(),
        expected="an array that the sharding divides among its devices",
        found=f"the shape {array.shape}: {str(error).partition('. Got shape')[0]}",
        hint="The last batch of an epoch may be smaller: drop_last=True leaves it out.",
    )


def _dtype_error(dtype: np.dtype[Any], library: str) -> UnsupportedData:
    hint = "Convert it in map or map_batch, as with array.astype(np.float32)."
    return UnsupportedData(Where(), expected=f"numbers of a dtype that {library} has", found=dtype.name, hint=hint)


def _check_fits(array: npt.NDArray[Any]) -> None:
    """Refuse 64-bit integers that would become others, and finite floats that would become infinite. Other floats are rounded."""
    if not array.size:
        return
    if array.dtype.kind in "fc":
        _check_floats_fit(array)
    elif array.dtype.kind in "iu":
        limits = np.iinfo(np.int32 if array.dtype.kind == "i" else np.uint32)
        if array.min() < limits.min or array.max() > limits.max:
            raise _narrowing_error("integers", limits.dtype, array, array.min(), array.max())


def _check_floats_fit(array: npt.NDArray[Any]) -> None:
    if array.dtype.kind == "c":
        for part in (array.real, array.imag):
            _check_floats_fit(part)
        return
    most = np.finfo(np.float32).max
    if -most <= array.min() and array.max() <= most:
        return
    finite = array[np.isfinite(array)]  # also where there is a NaN, which no comparison finds
    with np.errstate(over="ignore"):
        if finite.size and np.isinf([np.float32(finite.min()), np.float32(finite.max())]).any():
            raise _narrowing_error("floats", np.dtype(np.float32), array, finite.min(), finite.max())


def _narrowing_error(
    kind: str, dtype: np.dtype[Any], array: npt.NDArray[Any], least: Any, most: Any
) -> UnsupportedData:
    return UnsupportedData(
        Where(),
        expected=f"{kind} that fit into the {dtype} that JAX makes of {array.dtype}",
        found=f"values from {least} to {most}",
        hint="jax.config.update('jax_enable_x64', True) keeps 64 bits.",
    )
