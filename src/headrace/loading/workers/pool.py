"""Starts worker processes, gives them what they need, and ends them."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import warnings
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Literal

from headrace._arguments import check_choice, check_integer
from headrace.errors import UnsupportedData, Where, describe_error
from headrace.io.threads import FORKS
from headrace.loading.prefetch import join_ending

if TYPE_CHECKING:
    from headrace.loading.workers.child import JobOrder, Makes

__all__ = [
    "START_METHODS",
    "StartMethod",
    "Worker",
    "WorkerCrew",
    "check_workers",
    "choose_start_method",
    "pickle_maker",
    "unpickling_error",
]


StartMethod = Literal["fork", "spawn", "forkserver"]
START_METHODS: tuple[StartMethod, ...] = ("fork", "spawn", "forkserver")
MAX_DEPTH = 12


def check_workers(workers: int, threads: int | None, start_method: StartMethod | None) -> int:
    """The number of workers of a loader.

    Raises:
        ValueError, TypeError: It is not a number, or threads are requested, too.
        UnsupportedData: This system has no workers.
    """
    check_choice(start_method, "start_method", (*START_METHODS, None))
    workers = check_integer(workers, "workers")
    if workers and threads is not None and check_integer(threads, "threads"):
        raise ValueError("batches are made by threads or by workers: give one of the two")
    if workers and os.name != "posix":
        raise UnsupportedData(Where(), expected="workers=0 on this system", found=f"{workers}", hint="Use threads=.")
    return workers


def choose_start_method(wanted: StartMethod | None) -> tuple[StartMethod, str]:
    """The start method, and the reason if it is not fork (empty if it is, or if the user chose it).

    Fork if that is safe: on Linux, without JAX (which always has threads), and while no other Python thread runs. Such a thread might hold a
    lock, which would never be released in the child. Otherwise a fork server, or a fresh interpreter.
    """
    if wanted is not None:
        return wanted, ""
    reason = _against_fork()
    if not reason:
        return "fork", ""
    from multiprocessing import get_all_start_methods

    return ("forkserver" if "forkserver" in get_all_start_methods() else "spawn"), reason


def _against_fork() -> str:
    if sys.platform != "linux":
        return "this system forks only by start_method='fork'"
    if "jax" in sys.modules:
        return "JAX is loaded"
    join_ending()
    others = [thread.name for thread in threading.enumerate() if thread is not threading.current_thread()]
    return f"other threads run ({', '.join(sorted(others)[:3])})" if others else ""


def pickle_maker(maker: Any, method: StartMethod, reason: str) -> bytes:
    """Pickle what a fresh process needs.

    Raises:
        UnsupportedData: It cannot be pickled; the message names the part.
    """
    try:
        return pickle.dumps(maker, 5)
    except Exception as error:
        name, value = _culprit(maker)
        because = f", which is used because {reason}" if reason else ""
        raise UnsupportedData(
            Where(),
            expected=f"a source, an order and functions that can be pickled, for workers started by {method!r}{because}",
            found=f"{name} = {value!r} ({describe_error(error)})",
            hint=_pickling_hint(value),
        ) from error


def _pickling_hint(value: Any) -> str:
    if getattr(value, "__module__", "") == "__main__" and "ray" in sys.modules:
        return "On a worker of Ray, __main__ is not your script: put functions into a module that every node can import, or use workers=0."
    return "Define functions at the top level of a module; start_method='fork' needs no pickling."


def unpickling_error(worker: str, error: BaseException) -> UnsupportedData:
    """The error of a worker that could not unpickle what it was sent."""
    refused = UnsupportedData(
        Where(),
        expected="a source, an order and functions that a fresh process can import",
        found=f"{describe_error(error)} (in {worker})",
        hint="Definitions in a notebook or at a prompt cannot be imported: put them into a module, or use start_method='fork'.",
    )
    refused.__cause__ = error
    return refused


def _culprit(value: Any, name: str = "", depth: int = 0) -> tuple[str, Any]:
    """The innermost part of a value that cannot be pickled, and its path."""
    if depth < MAX_DEPTH:
        for part, inner in _inner_values(value):
            if not _pickles(inner):
                return _culprit(inner, f"{name}{part}" if name else part.removeprefix("."), depth + 1)
    return name or "it", value


def _inner_values(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from ((f"[{key!r}]", inner) for key, inner in value.items())
    elif isinstance(value, (list, tuple)):
        yield from ((f"[{number}]", inner) for number, inner in enumerate(value))
    elif not callable(value) or not hasattr(value, "__qualname__"):
        state = vars(value) if hasattr(value, "__dict__") else {k: getattr(value, k, None) for k in _slots(value)}
        yield from ((f".{key}", inner) for key, inner in state.items())


def _slots(value: Any) -> tuple[str, ...]:
    found = getattr(type(value), "__slots__", ())
    return (found,) if isinstance(found, str) else tuple(found)


def _pickles(value: Any) -> bool:
    try:
        pickle.dumps(value, 5)
    except Exception:  # noqa: BLE001 - pickle raises anything
        return False
    return True


GRACE_S = 0.2
"""How many seconds a worker may take to end by itself."""
LAST_S = 5.0


class Worker:
    """One process and the connection to it."""

    def __init__(self, number: int, process: Any, connection: Any) -> None:
        self.number = number
        self.process = process
        self.connection = connection
        self.orders: list[JobOrder] = []
        """Its unfinished jobs, in order."""

    def __str__(self) -> str:
        return f"worker {self.number} (process {self.process.pid})"

    def end_of(self) -> str:
        """How the process ended."""
        self.process.join(LAST_S)
        code = self.process.exitcode
        if code is None:
            return "closed its connection"
        if code >= 0:
            return f"ended with exit status {code}"
        try:
            return f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"was killed by signal {-code}"

    def hint(self) -> str:
        """A hint for the error about its end."""
        code = self.process.exitcode
        if code == -signal.SIGKILL:
            return "Most often memory ran out: use fewer workers or smaller batches."
        if code == -signal.SIGBUS:
            return (
                "A file that it had mapped into memory shrank, or its disk failed; the worker's last line on stderr names a file that "
                "headrace had mapped, and HEADRACE_MAPPED_BYTES=0 avoids it there. Full shared memory (/dev/shm) does the same."
            )
        if code is not None and code > 0:
            return "Its stderr shows the reason. (A script that starts workers must run its code below `if __name__ == '__main__'`.)"
        return "The most frequent cause is native code that one of your functions calls: workers=0 shows where."


class WorkerCrew:
    """Processes that make batches.

    Args:
        maker: Makes blocks in each of them.
        count: How many.
        method: The start method; ``None``: choose one.
        room: The address range of a slot in their segment.
    """

    def __init__(self, maker: Makes, count: int, method: StartMethod | None, room: int) -> None:
        from multiprocessing import current_process

        from headrace.loading.workers.transfer import open_segment

        if current_process().daemon:
            raise UnsupportedData(
                Where(),
                expected="workers=0 in a process that is a worker itself",
                found=f"workers={count} in {current_process().name}",
                hint="Such processes may not start others.",
            )
        # Python's warning about forking also counts the threads of BLAS, which survive a fork.
        hides_warning = method is None
        method, reason = choose_start_method(method)
        pickled = None if method == "fork" else pickle_maker(maker, method, reason)
        self.forks: int = FORKS.count
        self.segment: int = open_segment()
        self.workers: list[Worker] = []
        _crews.add(self)
        masked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            context = _context_of(method)
            with _quiet() if hides_warning and method == "fork" else nullcontext():
                for number in range(count):
                    worker = _start_process(context, number, maker if pickled is None else None, room)
                    self.workers.append(worker)
                    _held.add(worker)
            for worker in self.workers:  # once all of them have started
                _equip(worker, self.segment, pickled)
        except BaseException:
            self.close()
            raise
        finally:
            # Ctrl-C must not end a worker before the worker ignores it.
            signal.pthread_sigmask(signal.SIG_SETMASK, masked)

    def close(self, *, at_once: bool = False) -> None:
        """End the processes. Idle ones end by themselves, busy ones are terminated."""
        if self.segment >= 0:
            os.close(self.segment)
            self.segment = -1
        if self.forks != FORKS.count:
            return  # They belong to the parent.
        workers = self._release()
        if at_once:
            for worker in workers:
                worker.process.kill()
        deadline = perf_counter_ns() + int(GRACE_S * 1e9)
        for worker in workers:
            worker.process.join(max(deadline - perf_counter_ns(), 0) / 1e9)
        for worker in workers:
            _end(worker.process)

    def _release(self) -> list[Worker]:
        """Close the connections to the workers, and return those."""
        workers, self.workers = self.workers, []
        for worker in workers:
            worker.connection.close()
        _held.difference_update(workers)
        return workers

    def forget(self) -> None:
        """After a fork: close this copy of the connections, so that workers notice when the consumer closes its own."""
        self._release()
        if self.segment >= 0:
            os.close(self.segment)
            self.segment = -1


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the warning of Python 3.12 and later about forking while other threads run."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*multi-threaded.*fork", DeprecationWarning)
        yield


def _start_process(context: Any, number: int, maker: Makes | None, room: int) -> Worker:
    from headrace.loading.workers.child import work

    ours, theirs = context.Pipe()
    try:
        inherited = None if maker is None else ours
        process = context.Process(
            target=work, args=(theirs, maker, inherited, room), name=f"headrace-worker-{number}", daemon=True
        )
        process.start()
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    return Worker(number, process, ours)


def _context_of(method: StartMethod) -> Any:
    """What starts processes by a method: ``spawn`` instead of a fork server that belongs to the process of which this one is a fork.

    Python waits for the server as for a child of its own, which fails here.
    """
    from multiprocessing import forkserver, get_context

    if method == "forkserver":
        try:
            forkserver.ensure_running()
        except ChildProcessError:
            return get_context("spawn")
    return get_context(method)


def _equip(worker: Worker, segment: int, pickled: bytes | None) -> None:
    from multiprocessing.reduction import send_handle

    try:
        send_handle(worker.connection, segment, worker.process.pid)
        if pickled is not None:
            worker.connection.send_bytes(pickled)
    except OSError:  # It has ended already, which shows when it does not respond.
        pass


def _end(process: Any) -> None:
    if process.is_alive():
        process.terminate()
        process.join(GRACE_S)
    if process.is_alive():
        process.kill()
        process.join(LAST_S)
    if not process.is_alive():
        process.close()


_crews: weakref.WeakSet[WorkerCrew] = weakref.WeakSet()
_held: set[Worker] = set()
"""All workers that run. If an iterator ends as part of a cycle of references, Python would finalize its connections and processes before it: they
would close their descriptors, and the iterator those that another thread has opened since under the same numbers.
"""


def _after_fork() -> None:
    global _crews
    inherited, _crews = list(_crews), weakref.WeakSet()
    for crew in inherited:
        crew.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
