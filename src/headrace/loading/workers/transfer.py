"""The shared memory for batches of workers, and how batches and errors are stored in it.

The batches of a job become a *stream* and *buffers*: pickle's protocol 5 writes names, text, lists and shapes into the stream, and passes
the memory of every array on. Both go into one slot, each part at a multiple of 64 bytes. The consumer's arrays are views of the buffers
there. Pickles are never stored, and are read only from processes that the loader itself started.
"""

from __future__ import annotations

import errno
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

from headrace.errors import UnsupportedData, Where, describe_error

__all__ = [
    "ROOM",
    "Lending",
    "PackedBatches",
    "Slots",
    "TransferredError",
    "check_transferable",
    "open_segment",
    "pack",
    "room_of",
    "unpack",
]


ROOM = 1 << 36
"""The address range of a slot, which limits one job. It costs nothing, because only used pages are backed."""
STEP = 1 << 16


def room_of(slots: int) -> int:
    """The address range of each of several slots: less than :data:`ROOM` where the system limits the size of files, as ``ulimit -f`` does."""
    import resource  # not on every system, nor are workers

    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    return ROOM if limit == resource.RLIM_INFINITY else max(min(ROOM, limit // slots // STEP * STEP), STEP)


def open_segment() -> int:
    """A descriptor of unnamed shared memory. The memory is freed with the last process that has it open, however that ends."""
    if hasattr(os, "memfd_create"):
        try:
            return os.memfd_create("headrace")
        except OSError:  # not available in some sandboxes
            pass
    import tempfile

    # A file without a name, in memory if there is such a folder.
    with tempfile.TemporaryFile(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as file:  # noqa: S108, PTH112
        return os.dup(file.fileno())


class Slots:
    """A segment with numbered slots that grow in place. Each process has its own object for the same segment.

    A slot grows to the size of a job plus a quarter, so that slowly growing batches do not grow it each time. It never shrinks. Only the
    worker that owns a slot writes to it and grows it.

    Args:
        segment: The descriptor of the segment.
        room: The address range of each slot, alike in all processes.
    """

    def __init__(self, segment: int, room: int = ROOM) -> None:
        self.segment: int = segment
        self.room: int = room
        self._mapped: dict[int, mmap.mmap] = {}

    def writable(self, slot: int, size: int) -> memoryview:
        """At least ``size`` bytes of a slot, backed by memory.

        Raises:
            UnsupportedData: The result of a job is larger than a slot.
            OSError: There is not enough memory.
        """
        mapped = self._mapped.get(slot)
        if mapped is None or len(mapped) < size:
            if size > self.room:
                raise self._no_room(size)
            wanted = min(-(-(size + size // 4) // STEP) * STEP or STEP, self.room)
            try:
                self._back(slot * self.room, wanted)
            except OSError as error:
                raise self._no_room(size) if error.errno == errno.EFBIG else error from None
            mapped = self._map(slot, wanted)
        return memoryview(mapped)

    def readable(self, slot: int, size: int, room: int) -> npt.NDArray[np.uint8]:
        """The first ``size`` bytes of a slot that a worker has filled and made ``room`` bytes large."""
        mapped = self._mapped.get(slot)
        if mapped is None or len(mapped) < size:
            mapped = self._map(slot, room)
        return np.frombuffer(mapped, np.uint8, size)

    def _map(self, slot: int, size: int) -> mmap.mmap:
        # Arrays keep the earlier mapping alive.
        self._mapped[slot] = mapped = mmap.mmap(self.segment, size, offset=slot * self.room)
        return mapped

    def _no_room(self, size: int) -> UnsupportedData:
        raised = (
            ""
            if self.room == ROOM
            else " or raise the limit of the size of files (ulimit -f), which all batches in memory share"
        )
        return UnsupportedData(
            Where(), expected=f"batches of up to {self.room:,} bytes", found=f"{size:,}", hint=f"Use workers=0{raised}."
        )

    def _back(self, begin: int, size: int) -> None:
        """Allocate memory now, because running out of it at the first access would end the process."""
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(self.segment, begin, size)
        elif os.fstat(self.segment).st_size < begin + size:
            os.pwrite(self.segment, b"\0", begin + size - 1)

    def close(self) -> None:
        """Close the segment. Arrays over a slot keep it alive."""
        if self.segment >= 0:
            os.close(self.segment)
            self.segment = -1
        self._mapped.clear()


class Lending:
    """Tracks which slots are free, and which the consumer holds. Never waits and takes no lock.

    Args:
        slots: The consumer's own slots.
        count: The number of slots.
        lent: How many the consumer may hold at once. Further jobs are copied.
    """

    def __init__(self, slots: Slots, count: int, lent: int) -> None:
        self.count = count
        self.copied: int = 0
        """How many jobs were copied because the consumer still held earlier ones."""
        self._slots = slots
        self._most = lent
        # Arrays are freed in any thread at any time: appending is atomic.
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

        A view of the slot if the consumer holds few slots: it is free again when the last array over it is freed. Otherwise a copy, and
        the slot is free at once.
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
        """Forget lent slots. Arrays keep their memory alive."""
        self._lent.clear()

    @property
    def lent(self) -> int:
        """How many slots the consumer holds."""
        return len(self._lent)


ALIGNMENT = 64


class _Pickler(pickle.Pickler):
    """Keeps the memory of all arrays of numbers out of the stream, also of arrays with gaps."""

    def reducer_override(self, value: Any) -> Any:
        if type(value) is np.ndarray:
            if value.dtype.hasobject or value.flags.forc:
                return NotImplemented
            return np.ascontiguousarray(value).__reduce_ex__(5)
        torch = sys.modules.get("torch")
        if torch is not None and type(value) is torch.Tensor and _is_plain(torch, value):
            try:
                return torch.from_numpy, (value.numpy(),)
            except TypeError:  # a dtype that NumPy lacks, such as bfloat16
                bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[value.dtype.itemsize]
                return _view_bits, (value.view(bits), value.dtype)
        return NotImplemented


def _view_bits(bits: Any, dtype: Any) -> Any:
    return bits.view(dtype)


def _is_plain(torch: Any, tensor: Any) -> bool:
    """Whether a tensor is plain memory of this process."""
    return (
        tensor.device.type == "cpu"
        and tensor.layout is torch.strided
        and not tensor.requires_grad
        and not (tensor.is_quantized or tensor.is_conj() or tensor.is_neg())
    )


@dataclass(frozen=True, slots=True)
class PackedBatches:
    """The places of a job's parts in a slot."""

    sizes: bytes
    """``int64``: the bytes of the stream, then of each buffer."""
    total: int
    room: int
    """The size of the slot."""

    def places(self) -> list[tuple[int, int]]:
        """Where each part begins, and where it ends."""
        sizes = np.frombuffer(self.sizes, np.int64)
        ends = np.cumsum(-(-sizes // ALIGNMENT) * ALIGNMENT)
        begins = ends - (-(-sizes // ALIGNMENT) * ALIGNMENT)
        return list(zip(begins.tolist(), (begins + sizes).tolist(), strict=True))


def pack(batches: Sequence[Any], slots: Slots, slot: int) -> PackedBatches:
    """Put batches into a slot.

    Raises:
        Exception: Any error of pickle.
        UnsupportedData, OSError: There is no space.
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
    """Restore batches from their bytes. Their arrays are views of ``held``."""
    (begin, end), *places = packed.places()
    buffers = [held[first:last] for first, last in places]
    batches: list[Any] = pickle.loads(held[begin:end].data, buffers=buffers)  # noqa: S301 - written by our own worker
    return batches


def _try_pickling(value: Any) -> None:
    _Pickler(io.BytesIO(), 5, buffer_callback=lambda _: None).dump(value)


def check_transferable(batches: Sequence[Any]) -> tuple[int, Exception | None]:
    """How many of the batches can be transferred, and the error for the first that cannot."""
    for number, batch in enumerate(batches):
        try:
            _try_pickling(batch)
        except Exception as error:  # noqa: BLE001 - pickle raises anything
            return number, _not_transferable_error(batch, error)
    return len(batches), None


def _not_transferable_error(batch: Any, error: Exception) -> UnsupportedData:
    feature = None
    for name, column in batch.items() if isinstance(batch, dict) else ():
        try:
            _try_pickling(column)
        except Exception:  # noqa: BLE001 - this is the one
            feature = str(name)
            break
    return UnsupportedData(
        Where(feature=feature),
        expected="values that can be pickled to leave a worker",
        found=describe_error(error),
        hint="Make them in the loop, or use workers=0.",
    )


@dataclass(frozen=True, slots=True)
class TransferredError:
    """An exception with its cause and its traceback in the worker."""

    error: bytes
    cause: bytes | None
    trace: str

    @classmethod
    def of(cls, error: BaseException) -> TransferredError:
        """Prepare an exception for sending."""
        cause = error.__cause__
        trace = "".join(traceback.format_exception(error))
        return cls(_pickle_error(error), None if cause is None else _pickle_error(cause), trace)

    def restore(self, worker: str) -> BaseException:
        """Restore the exception, with the worker's traceback as a note."""
        error: BaseException = pickle.loads(self.error)  # noqa: S301 - written by our own worker
        if self.cause is not None:
            error.__cause__ = pickle.loads(self.cause)  # noqa: S301 - as above
        error.add_note(f"In {worker}:\n{self.trace.rstrip()}")
        return error


def _pickle_error(error: BaseException) -> bytes:
    """Pickle an exception, or a RuntimeError with its message if it does not survive pickling."""
    try:
        frozen = pickle.dumps(error, 5)
        again = pickle.loads(frozen)  # noqa: S301 - written a line above
        if type(again) is type(error) and str(again) == str(error):
            return frozen
    except Exception:  # noqa: BLE001, S110 - exceptions of any library, with any arguments
        pass
    return pickle.dumps(RuntimeError(describe_error(error)), 5)
