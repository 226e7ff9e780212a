"""Batches and errors on their way from a worker to the consumer.

A job's batches become a *stream* and *buffers*: pickle's protocol 5 writes what is around the arrays (names, text, lists, shapes) into
the stream and hands the memory of every array out as it is. Both go into one slot, each part at a multiple of 64 bytes; the consumer's
arrays are views of the buffers there. Nothing of this is ever stored, or read from anyone but a process that the loader itself started.
"""

from __future__ import annotations

import io
import pickle
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.errors import UnsupportedData, Where
from headrace.loading.workers.ring import Slots

__all__ = ["CarriedError", "Packed", "check_carried", "pack", "unpack"]

ALIGNMENT = 64


class _Pickler(pickle.Pickler):
    """Takes all arrays of numbers out of the stream, also those that do not lie end to end in memory."""

    def reducer_override(self, value: Any) -> Any:
        if type(value) is np.ndarray:
            if value.dtype.hasobject or value.flags.forc:
                return NotImplemented
            return np.ascontiguousarray(value).__reduce_ex__(5)
        torch = sys.modules.get("torch")
        if torch is not None and type(value) is torch.Tensor and _is_plain(torch, value):
            return torch.from_numpy, (value.numpy(),)
        return NotImplemented


def _is_plain(torch: Any, tensor: Any) -> bool:
    """Whether a tensor is memory of this process and nothing more, in a dtype that NumPy has."""
    return (
        tensor.device.type == "cpu"
        and tensor.layout is torch.strided
        and not tensor.requires_grad
        and tensor.dtype is not torch.bfloat16
        and not (tensor.is_quantized or tensor.is_conj() or tensor.is_neg())
    )


@dataclass(frozen=True, slots=True)
class Packed:
    """Where in a slot the parts of a job lie."""

    sizes: bytes
    """``int64``: the bytes of the stream, then of each buffer."""
    total: int
    room: int
    """How large the slot is."""

    def places(self) -> list[tuple[int, int]]:
        """From and up to which byte each part reaches."""
        sizes = np.frombuffer(self.sizes, np.int64)
        ends = np.cumsum(-(-sizes // ALIGNMENT) * ALIGNMENT)
        begins = ends - (-(-sizes // ALIGNMENT) * ALIGNMENT)
        return list(zip(begins.tolist(), (begins + sizes).tolist(), strict=True))


def pack(batches: Sequence[Any], slots: Slots, slot: int) -> Packed:
    """Put batches into a slot.

    Raises:
        Exception: whatever pickle has to say of something that it cannot carry.
        UnsupportedData, OSError: there is no room.
    """
    stream, buffers = io.BytesIO(), list[pickle.PickleBuffer]()
    _Pickler(stream, 5, buffer_callback=buffers.append).dump(list(batches))
    parts = [stream.getbuffer(), *(buffer.raw() for buffer in buffers)]
    sizes = np.array([part.nbytes for part in parts], np.int64)
    total = int((-(-sizes // ALIGNMENT) * ALIGNMENT).sum())
    with slots.writable(slot, total) as room:
        packed = Packed(sizes.tobytes(), total, len(room))
        for part, (begin, end) in zip(parts, packed.places(), strict=True):
            room[begin:end] = part
    return packed


def unpack(packed: Packed, held: npt.NDArray[np.uint8]) -> list[Any]:
    """The batches whose bytes these are; their arrays are views of ``held``."""
    (begin, end), *places = packed.places()
    buffers = [held[first:last] for first, last in places]
    batches: list[Any] = pickle.loads(held[begin:end].data, buffers=buffers)  # noqa: S301 - written by our own worker
    return batches


def check_carried(batches: Sequence[Any]) -> tuple[int, Exception | None]:
    """How many of the batches can be carried, and the error for the first that cannot."""
    for number, batch in enumerate(batches):
        try:
            _Pickler(io.BytesIO(), 5, buffer_callback=lambda _: None).dump(batch)
        except Exception as error:  # noqa: BLE001 - pickle raises anything
            return number, _uncarried(batch, error)
    return len(batches), None


def _uncarried(batch: Any, error: Exception) -> UnsupportedData:
    feature = None
    for name, column in batch.items() if isinstance(batch, dict) else ():
        try:
            pickle.dumps(column, 5)
        except Exception:  # noqa: BLE001 - this is the one
            feature = str(name)
            break
    return UnsupportedData(
        Where(feature=feature),
        expected="values that can be carried from a worker to the loop (what pickle takes)",
        found=f"{type(error).__name__}: {error}",
        hint="Make them in the loop, or use workers=0.",
    )


@dataclass(frozen=True, slots=True)
class CarriedError:
    """An exception with its cause, and the traceback that it had in the worker."""

    error: bytes
    cause: bytes | None
    trace: str

    @classmethod
    def of(cls, error: BaseException) -> CarriedError:
        """What to send of an exception."""
        cause = error.__cause__
        trace = "".join(traceback.format_exception(error))
        return cls(_frozen(error), None if cause is None else _frozen(cause), trace)

    def thaw(self, worker: str) -> BaseException:
        """The exception again; its notes hold the worker's traceback."""
        error: BaseException = pickle.loads(self.error)  # noqa: S301 - written by our own worker
        if self.cause is not None:
            error.__cause__ = pickle.loads(self.cause)  # noqa: S301 - as above
        error.add_note(f"In {worker}:\n{self.trace.rstrip()}")
        return error


def _frozen(error: BaseException) -> bytes:
    """An exception as bytes; of one that does not come back as it was, what it says."""
    try:
        frozen = pickle.dumps(error, 5)
        again = pickle.loads(frozen)  # noqa: S301 - written a line above
        if type(again) is type(error) and str(again) == str(error):
            return frozen
    except Exception:  # noqa: BLE001, S110 - exceptions of any library, with any arguments
        pass
    return pickle.dumps(RuntimeError(f"{type(error).__qualname__}: {error}"), 5)
