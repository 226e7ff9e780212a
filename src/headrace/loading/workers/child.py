"""What runs in a worker."""

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
from headrace.loading.jobs import BatchRun, Block
from headrace.loading.workers.transfer import PackedBatches, Slots, TransferredError, check_transferable, pack

__all__ = ["JobOrder", "JobResult", "Makes", "work"]


class Makes(Protocol):
    """What workers work with."""

    def make(self, run: BatchRun, /) -> Block: ...


class JobOrder(NamedTuple):
    """What the consumer asks of a worker."""

    number: int
    slot: int
    job: BatchRun


class JobResult(NamedTuple):
    """What a worker has done. ``number`` -1: it could not begin."""

    number: int
    packed: PackedBatches | None = None
    bytes: int = 0
    reading_ns: int = 0
    transform_ns: int = 0
    carrying_ns: int = 0
    error: TransferredError | None = None
    """Stands in place of the next batch."""
    stop: TransferredError | None = None
    """Not an ``Exception``: meant for now, whatever comes before."""


def work(connection: Any, maker: Makes | None, other_end: Any) -> None:
    """Do what comes through the connection until it closes.

    Args:
        connection: To the consumer. First come the segment and, where ``maker`` is ``None``, the pickled maker.
        maker: What makes batches, where it was inherited.
        other_end: The consumer's end of the connection, where it was inherited: as long as it is open here, it is not closed.
    """
    if other_end is not None:
        other_end.close()
        gc.freeze()  # What was inherited is shared memory as long as nobody counts it anew.
    _reset_signals()
    _end_with_parent()
    try:
        slots, maker = _begin(connection, maker)
    except (EOFError, OSError):
        return
    except Exception as error:  # noqa: BLE001 - unpickling runs anyone's code
        _send(connection, JobResult(-1, error=TransferredError.of(error)))
        return
    while (order := _next(connection)) is not None:
        if not _send(connection, _do_job(maker, slots, order)):
            return


def _begin(connection: Any, maker: Makes | None) -> tuple[Slots, Makes]:
    from multiprocessing.reduction import recv_handle

    slots = Slots(recv_handle(connection))
    if maker is None:
        maker = pickle.loads(connection.recv_bytes())  # noqa: S301 - sent by the process that started this one
    assert maker is not None
    if "torch" in sys.modules:
        # After a fork the threads that it computes with are not there, and it would wait for them; and there are other workers.
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
    except Exception as error:  # noqa: BLE001 - raised in the consumer's process, in its turn
        return JobResult(order.number, error=TransferredError.of(error))
    except BaseException as error:  # noqa: BLE001 - sys.exit() in a transform: the loop has to hear of it
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
    """Signals: Ctrl-C is the consumer's to handle, and what it has set up for itself is not for this process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT, signal.SIGTERM])


def _end_with_parent() -> None:
    """End this process when the consumer's does, also in the middle of a job and however it ended."""
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
        except OSError:  # A kernel that has none: the sentinel is enough, unless others have inherited its other end.
            pass
    Thread(target=_watch, args=(watched, lambda: os._exit(1)), name="headrace-watch", daemon=True).start()


def _watch(watched: list[Any], end: Callable[[], object]) -> None:
    polled = select.poll()
    for descriptor in watched:
        polled.register(descriptor, select.POLLIN)
    polled.poll()
    end()
