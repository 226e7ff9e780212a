"""The memory that workers write batches into and the consumer reads them from.

Batches and errors on their way from a worker to the consumer.

A job's batches become a *stream* and *buffers*: pickle's protocol 5 writes what is around the arrays (names, text, lists, shapes) into
the stream and hands the memory of every array out as it is. Both go into one slot, each part at a multiple of 64 bytes; the consumer's
arrays are views of the buffers there. Nothing of this is ever stored, or read from anyone but a process that the loader itself started.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import sys
import traceback
import weakref
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.errors import UnsupportedData, Where

__all__ = [
    "ROOM",
    "Lending",
    "PackedBatches",
    "Slots",
    "TransferredError",
    "check_transferable",
    "open_segment",
    "pack",
    "unpack",
]


ROOM = 1 << 36
"""Bytes of address between two slots: what one job may carry at most. Costs nothing, since only what is used is backed."""
STEP = 1 << 16


def open_segment() -> int:
    """A descriptor of shared memory without a name: it is gone with the last process that holds it, however that ends."""
    if hasattr(os, "memfd_create"):
        try:
            return os.memfd_create("headrace")
        except OSError:  # A sandbox that does not know it.
            pass
    import tempfile

    # A file that has no name from the start, or loses it at once; in memory where there is a folder that is.
    with tempfile.TemporaryFile(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as file:  # noqa: S108, PTH112
        return os.dup(file.fileno())


class Slots:
    """One segment, cut into numbered slots that grow in place. Each process has its own of these over the same segment.

    A slot grows to what a job needs and a quarter more, so that batches that get larger bit by bit do not grow it each time;
    it never shrinks. Only the worker that a slot was given to writes to it and grows it.
    """

    def __init__(self, segment: int) -> None:
        self.segment = segment
        self._mapped: dict[int, mmap.mmap] = {}

    def writable(self, slot: int, size: int) -> memoryview:
        """At least ``size`` bytes of a slot, backed by memory.

        Raises:
            UnsupportedData: a job made more than fits between two slots.
            OSError: there is not enough memory.
        """
        mapped = self._mapped.get(slot)
        if mapped is None or len(mapped) < size:
            if size > ROOM:
                raise UnsupportedData(
                    Where(), expected=f"batches of up to {ROOM:,} bytes", found=f"{size:,}", hint="Use workers=0."
                )
            wanted = min(-(-(size + size // 4) // STEP) * STEP or STEP, ROOM)
            self._back(slot * ROOM, wanted)
            mapped = self._map(slot, wanted)
        return memoryview(mapped)

    def readable(self, slot: int, size: int, room: int) -> npt.NDArray[np.uint8]:
        """The first ``size`` bytes of a slot that a worker has filled and made ``room`` bytes large."""
        mapped = self._mapped.get(slot)
        if mapped is None or len(mapped) < size:
            mapped = self._map(slot, room)
        return np.frombuffer(mapped, np.uint8, size)

    def _map(self, slot: int, size: int) -> mmap.mmap:
        # The mapping that was there before lives on for as long as arrays view it.
        self._mapped[slot] = mapped = mmap.mmap(self.segment, size, offset=slot * ROOM)
        return mapped

    def _back(self, begin: int, size: int) -> None:
        """Have memory behind a stretch now: to find out at the first touch that there is none would end the process."""
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(self.segment, begin, size)
        elif os.fstat(self.segment).st_size < begin + size:
            os.pwrite(self.segment, b"\0", begin + size - 1)

    def close(self) -> None:
        """Let go of the segment; arrays that view a slot keep it alive."""
        if self.segment >= 0:
            os.close(self.segment)
            self.segment = -1
        self._mapped.clear()


class Lending:
    """Which slots are free, and which are in the hands of the consumer. Never waits and takes no lock.

    Args:
        slots: The consumer's own slots.
        count: How many there are.
        lent: How many the consumer may hold at once; what comes beyond that is copied.
    """

    def __init__(self, slots: Slots, count: int, lent: int) -> None:
        self.count = count
        self.copied = 0
        """How many jobs were copied because the consumer still held the ones before."""
        self._slots = slots
        self._most = lent
        # Filled by whoever lets go of an array, in any thread and in the middle of anything: appending is atomic.
        self._free = deque(range(count))
        self._lent: dict[int, weakref.ref[Any]] = {}

    def take(self) -> int:
        """A free slot."""
        return self._free.popleft()

    def give_back(self, slot: int) -> None:
        """The slot may be written to again."""
        self._free.append(slot)

    def bytes_of(self, slot: int, size: int, room: int) -> npt.NDArray[np.uint8]:
        """The first ``size`` bytes of a slot that holds ``room``.

        The slot itself where the consumer holds few of them, free again when the last array over these bytes has died; else
        a copy, and the slot is free at once.
        """
        view = self._slots.readable(slot, size, room)
        if len(self._lent) >= self._most:
            self.copied += 1
            copy = view.copy()
            self.give_back(slot)
            return copy
        lent, free = self._lent, self._free

        def died(_: weakref.ref[Any]) -> None:
            del lent[slot]
            free.append(slot)

        lent[slot] = weakref.ref(view, died)
        return view

    def close(self) -> None:
        """Forget what is lent: it is of no more use here, and lives as long as the arrays over it."""
        self._lent.clear()

    @property
    def lent(self) -> int:
        """How many slots the consumer holds."""
        return len(self._lent)


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
class PackedBatches:
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


def pack(batches: Sequence[Any], slots: Slots, slot: int) -> PackedBatches:
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
        packed = PackedBatches(sizes.tobytes(), total, len(room))
        for part, (begin, end) in zip(parts, packed.places(), strict=True):
            room[begin:end] = part
    return packed


def unpack(packed: PackedBatches, held: npt.NDArray[np.uint8]) -> list[Any]:
    """The batches whose bytes these are; their arrays are views of ``held``."""
    (begin, end), *places = packed.places()
    buffers = [held[first:last] for first, last in places]
    batches: list[Any] = pickle.loads(held[begin:end].data, buffers=buffers)  # noqa: S301 - written by our own worker
    return batches


def check_transferable(batches: Sequence[Any]) -> tuple[int, Exception | None]:
    """How many of the batches can be carried, and the error for the first that cannot."""
    for number, batch in enumerate(batches):
        try:
            _Pickler(io.BytesIO(), 5, buffer_callback=lambda _: None).dump(batch)
        except Exception as error:  # noqa: BLE001 - pickle raises anything
            return number, _not_transferable_error(batch, error)
    return len(batches), None


def _not_transferable_error(batch: Any, error: Exception) -> UnsupportedData:
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
class TransferredError:
    """An exception with its cause, and the traceback that it had in the worker."""

    error: bytes
    cause: bytes | None
    trace: str

    @classmethod
    def of(cls, error: BaseException) -> TransferredError:
        """What to send of an exception."""
        cause = error.__cause__
        trace = "".join(traceback.format_exception(error))
        return cls(_pickle_error(error), None if cause is None else _pickle_error(cause), trace)

    def thaw(self, worker: str) -> BaseException:
        """The exception again; its notes hold the worker's traceback."""
        error: BaseException = pickle.loads(self.error)  # noqa: S301 - written by our own worker
        if self.cause is not None:
            error.__cause__ = pickle.loads(self.cause)  # noqa: S301 - as above
        error.add_note(f"In {worker}:\n{self.trace.rstrip()}")
        return error


def _pickle_error(error: BaseException) -> bytes:
    """An exception as bytes; of one that does not come back as it was, what it says."""
    try:
        frozen = pickle.dumps(error, 5)
        again = pickle.loads(frozen)  # noqa: S301 - written a line above
        if type(again) is type(error) and str(again) == str(error):
            return frozen
    except Exception:  # noqa: BLE001, S110 - exceptions of any library, with any arguments
        pass
    return pickle.dumps(RuntimeError(f"{type(error).__qualname__}: {error}"), 5)
