"""The code that runs in a worker process."""

from __future__ import annotations

import gc
import os
import pickle
import select
import signal
import sys
from collections.abc import Callable
from threading import Thread
from time import perf_counter_ns
from typing import Any, NamedTuple, Protocol

from headrace.io.system import as_pool_thread
from headrace.loading.jobs import Block
from headrace.loading.rounds import BatchRun
from headrace.loading.workers.transfer import PackedBatches, Slots, TransferredError, check_transferable, pack

__all__ = ["JobOrder", "JobResult", "Makes", "work"]


class Makes(Protocol):
    """Makes blocks in a worker."""

    def prepare(self) -> None:
        """Called once, before the first block."""

    def make(self, run: BatchRun, /) -> Block: ...


class JobOrder(NamedTuple):
    """A job for a worker."""

    number: int
    slot: int
    job: BatchRun


class JobResult(NamedTuple):
    """The result of a job. ``number`` -1: the worker could not start."""

    number: int
    packed: PackedBatches | None = None
    bytes: int = 0
    reading_ns: int = 0
    transform_ns: int = 0
    carrying_ns: int = 0
    error: TransferredError | None = None
    """The error in place of the next batch."""
    stop: TransferredError | None = None
    """An exception such as SystemExit, which is raised at once instead of in order."""


def work(connection: Any, maker: Makes | None, other_end: Any, room: int) -> None:
    """Run jobs from the connection until it closes.

    Args:
        connection: The connection to the consumer. First come the segment and, if ``maker`` is ``None``, the pickled maker.
        maker: The inherited maker of batches.
        other_end: The inherited end of the consumer. It counts as open until it is closed here, too.
        room: The address range of a slot in the segment.
    """
    if other_end is not None:
        other_end.close()
        gc.freeze()  # Inherited objects stay in shared memory while their reference counts do not change.
    _reset_signals()
    _end_with_parent()
    try:
        slots, maker = _begin(connection, maker, room)
    except (EOFError, OSError):
        return
    except Exception as error:  # noqa: BLE001 - unpickling runs code of users
        _send(connection, JobResult(-1, error=TransferredError.of(error)))
        return
    maker.prepare()
    while (order := _next(connection)) is not None:
        if not _send(connection, _do_job(maker, slots, order)):
            return


def _begin(connection: Any, maker: Makes | None, room: int) -> tuple[Slots, Makes]:
    from multiprocessing.reduction import recv_handle

    slots = Slots(recv_handle(connection), room)
    if maker is None:
        maker = pickle.loads(connection.recv_bytes())  # noqa: S301 - sent by the process that started this one
    assert maker is not None
    if "torch" in sys.modules:
        # After a fork torch would wait for its threads, which do not exist here. And there are other workers.
        sys.modules["torch"].set_num_threads(1)
    return slots, maker


def _next(connection: Any) -> JobOrder | None:
    try:
        order: JobOrder = connection.recv()
    except (EOFError, OSError):
        return None
    return order


def _send(connection: Any, answer: JobResult) -> bool:
    try:
        connection.send(answer)
    except OSError:
        return False
    return True


def _do_job(maker: Makes, slots: Slots, order: JobOrder) -> JobResult:
    try:
        with as_pool_thread():
            return _pack_result(maker.make(order.job), slots, order)
    except Exception as error:  # noqa: BLE001 - raised in order in the consumer's process
        return JobResult(order.number, error=TransferredError.of(error))
    except BaseException as error:  # noqa: BLE001 - sys.exit() in a transform is raised in the loop
        return JobResult(order.number, stop=TransferredError.of(error))


def _pack_result(block: Block, slots: Slots, order: JobOrder) -> JobResult:
    begun = perf_counter_ns()
    try:
        packed = pack(block.batches, slots, order.slot)
    except Exception:
        count, error = check_transferable(block.batches)
        if error is None:
            raise
        block.batches, block.error = block.batches[:count], error
        packed = pack(block.batches, slots, order.slot)
    return JobResult(
        order.number,
        packed,
        bytes=block.bytes,
        reading_ns=block.reading_ns,
        transform_ns=block.transform_ns,
        carrying_ns=perf_counter_ns() - begun,
        error=None if block.error is None else TransferredError.of(block.error),
    )


def _reset_signals() -> None:
    """Ignore Ctrl-C, which the consumer handles, and drop its signal handlers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT, signal.SIGTERM])


def _end_with_parent() -> None:
    """End this process when the consumer's process ends, also during a job and however it ended."""
    from multiprocessing import parent_process

    parent = parent_process()
    assert parent is not None
    assert parent.pid is not None
    watched = [parent.sentinel]
    if hasattr(os, "pidfd_open"):
        try:
            watched.append(os.pidfd_open(parent.pid))
        except ProcessLookupError:
            os._exit(1)
        except OSError:  # An old kernel: the sentinel suffices, unless others have inherited its other end.
            pass
    Thread(target=_watch, args=(watched, lambda: os._exit(1)), name="headrace-watch", daemon=True).start()


def _watch(watched: list[Any], end: Callable[[], object]) -> None:
    polled = select.poll()
    for descriptor in watched:
        polled.register(descriptor, select.POLLIN)
    polled.poll()
    end()
