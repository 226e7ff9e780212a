"""Threads that end with the process, iterators prefetched by a thread, and background calls.

If Python exits while a daemon thread runs native code, it unwinds the thread's stack as soon as the thread requests the
GIL. C++ frames cannot be unwound like that, so the process aborts. Non-daemon threads would keep the process alive. So the
threads here are daemons that an exit handler stops and joins. For users' threads inside native code, see
``gil_scoped_release`` in native/bind.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Executor, Future
from contextlib import ExitStack
from contextvars import copy_context
from functools import cache, partial
from threading import Condition, Thread, current_thread, get_ident, main_thread
from time import monotonic
from typing import Any, Generic, TypeVar

from headrace import _native
from headrace._optional import JaxSettings, find_loaded

__all__ = ["FORKS", "BackgroundCalls", "ConsumerContext", "ThreadPool", "prefetch", "start_thread"]


T = TypeVar("T")
EXIT_WAIT_S = 10.0
"""How long exiting waits for all threads together: a user's function may never return."""


class ForkCount:
    """How often this process and its ancestors were forked."""

    count = 0


FORKS = ForkCount()
"""Threads and locks created under another ``FORKS.count`` belong to a parent process. Read for every batch, so it is a plain
attribute, not a function.
"""

_threads: dict[Thread, Callable[[], object]] = {}
"""The stop function of each thread. Ended threads are removed when the next one starts, because exiting still has to join them."""


def start_thread(target: Callable[..., object], *args: object, name: str, stop: Callable[[], object]) -> Thread:
    """Start a thread that is stopped and joined when Python exits.

    Args:
        target: The function to run.
        args: Its arguments.
        name: For debuggers.
        stop: Makes ``target`` return soon. May be called more than once, and after the thread has ended.
    """
    for ended in [each for each in _other_threads() if not each.is_alive()]:
        _threads.pop(ended, None)
    if not _threads:
        # As late as possible: exit handlers run in reverse order, and other libraries register some too.
        atexit.unregister(_stop_all)
        atexit.register(_stop_all)
    thread = Thread(target=_run, args=(target, args, stop), name=name, daemon=True)
    thread.start()
    _threads.setdefault(thread, stop)
    return thread


def _run(target: Callable[..., object], args: tuple[object, ...], stop: Callable[[], object]) -> None:
    _threads[current_thread()] = stop  # Also here, because Ctrl-C may interrupt the thread that starts this one.
    try:
        target(*args)
    except RuntimeError:
        if not _Exit.has_begun:
            raise
        # From Python 3.12 on, no thread starts once exiting has begun: this one needed another, and is being stopped anyway.
    finally:
        _threads[current_thread()] = _nothing  # Drops the references that `stop` holds.


def _nothing() -> None:
    """Stop nothing."""


class _Exit:
    """Whether Python is exiting."""

    has_begun = False


def _stop_all() -> None:
    """Stop and join all threads, including those that start meanwhile."""
    _Exit.has_begun = True
    until = monotonic() + EXIT_WAIT_S
    while (others := _other_threads()) and monotonic() < until:
        for stop in others.values():
            stop()
        for thread in others:
            thread.join(max(until - monotonic(), 0))
            if not thread.is_alive():
                _threads.pop(thread, None)


def _other_threads() -> dict[Thread, Callable[[], object]]:
    return {each: stop for each, stop in dict(_threads).items() if each.ident != get_ident()}


class ConsumerContext:
    """What a loop or a call had set for its own thread when it began: other threads then run its functions as the consumer would.

    That is every ``ContextVar``, NumPy's handling of errors, PyTorch's grad, inference and autocast modes, and the
    :class:`~headrace._optional.JaxSettings`. Libraries that are not loaded yet have nothing set.
    """

    def __init__(self) -> None:
        import numpy as np  # as slow to import as the rest of this package

        self._variables = copy_context()
        self._numpy, self._errstate = np.geterr(), np.errstate
        torch, jax = find_loaded("torch", "is_autocast_enabled"), find_loaded("jax", "config")
        if torch is not None:
            self._grad, self._inference = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
            kinds = [kind for kind in ("cpu", "cuda") if torch.is_autocast_enabled(kind)]
            self._autocast = {kind: torch.get_autocast_dtype(kind) for kind in kinds}
        self._torch = torch
        self._jax = jax
        self._jax_settings = None if jax is None else JaxSettings.read(jax)

    def run(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        """Call a function in this thread, with these settings."""
        # A copy for each thread: no two may be in the same context.
        return self._variables.copy().run(self._enter, partial(function, *args, **kwargs))

    def _enter(self, call: Callable[[], T]) -> T:
        with ExitStack() as stack:
            stack.enter_context(self._errstate(**self._numpy))  # A ``ContextVar`` only since NumPy 2.
            if self._torch is not None:
                stack.enter_context(self._torch.inference_mode(self._inference))
                stack.enter_context(self._torch.set_grad_enabled(self._grad))
                for kind, dtype in self._autocast.items():
                    stack.enter_context(self._torch.autocast(kind, dtype=dtype))
            if self._jax_settings is not None:
                stack.enter_context(self._jax_settings.applied(self._jax))
            return call()


class ThreadPool(Executor):
    """An executor that runs calls inline once the main thread has ended and Python starts no more threads.

    Args:
        threads: The most threads.
        thread_name_prefix: For debuggers.
        context: Runs the calls, where they are a user's functions.
    """

    def __init__(self, threads: int, thread_name_prefix: str = "", *, context: ConsumerContext | None = None) -> None:
        self._context = context
        self._pool: Executor | None = None
        try:
            from concurrent.futures import (
                ThreadPoolExecutor,  # importing it fails once the main thread has ended
            )

            self._pool = ThreadPoolExecutor(threads, thread_name_prefix)
        except RuntimeError:
            if main_thread().is_alive():
                raise

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Run a call in a thread, or here if no thread can start."""
        if self._context is not None:
            fn = partial(self._context.run, fn)
        try:
            if self._pool is not None:
                return self._pool.submit(fn, *args, **kwargs)
        except RuntimeError:
            if main_thread().is_alive():
                raise
        made: Future[T] = Future()
        try:
            made.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - raised by result()
            made.set_exception(error)
        return made

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 - it is Executor's
        """Accept no more calls; with ``wait``, return when all are done."""
        if self._pool is not None:
            self._pool.shutdown(wait, cancel_futures=cancel_futures)


def _after_fork() -> None:
    FORKS.count += 1
    _Exit.has_begun = False
    _threads.clear()
    _native.pool_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def prefetch(items: Iterable[T], *, depth: int = 8) -> Generator[T, None, None]:
    """The same items, computed by a thread up to ``depth`` in advance.

    An exception of ``items`` is raised here, in its place. Closing this generator stops the thread and closes ``items``.
    """
    forks = FORKS.count
    buffer = _PrefetchBuffer(items, depth)
    thread = start_thread(buffer.fill, name="headrace-ahead", stop=buffer.stop)
    try:
        while True:
            if forks != FORKS.count:
                raise RuntimeError("this iterator was made before the process was forked: make a new one in the child")
            item = buffer.take()
            if item is None:
                break
            yield item[0]
            del item
        if buffer.error is not None:
            raise buffer.error
    finally:
        if forks == FORKS.count:
            buffer.stop()
            if not sys.is_finalizing():  # Daemon threads stop with the process.
                thread.join()


class _PrefetchBuffer(Generic[T]):
    """Items in transit from the producing thread to the consumer."""

    def __init__(self, items: Iterable[T], depth: int) -> None:
        self.error: BaseException | None = None
        """The exception that ended the items."""
        self._items = items
        self._depth = depth
        self._ready: deque[T] = deque()
        self._changed = Condition()
        self._done = self._stop = False

    def fill(self) -> None:
        """Compute items until they end or :meth:`stop` is called."""
        try:
            for item in self._items:
                if not self._put(item):
                    self.error = RuntimeError("Python is exiting: reading has stopped")
                    break
        except BaseException as failure:  # noqa: BLE001 - raised in the consumer
            self.error = failure
        finally:
            self._end()

    def _put(self, item: T) -> bool:
        with self._changed:
            while len(self._ready) >= self._depth and not self._stop:
                self._changed.wait()
            self._ready.append(item)
            self._changed.notify_all()
            return not self._stop

    def _end(self) -> None:
        try:
            close = getattr(self._items, "close", None)
            if close is not None:
                close()
        except BaseException as failure:  # noqa: BLE001 - as above
            self.error = self.error or failure
        with self._changed:
            self._done = True
            self._changed.notify_all()

    def take(self) -> tuple[T] | None:
        """Wait for the next item; ``None`` at the end."""
        with self._changed:
            while not self._ready and not self._done:
                self._changed.wait()
            if not self._ready:
                return None
            item = self._ready.popleft()
            self._changed.notify_all()
            return (item,)

    def stop(self) -> None:
        """Compute no more items."""
        with self._changed:
            self._stop = True
            self._changed.notify_all()


DEPTH = 2  # pending calls; each holds a block of about a megabyte
MOST_THREADS = 4  # for all files of a process: a thousand shards do not need a thousand threads


class BackgroundCalls:
    """Calls that a thread runs in order. A caller that has to wait runs them itself if no thread has begun.

    The error of a call is raised by the next :meth:`add` or :meth:`wait`; later calls are dropped. Use it from one thread
    of one process: a forked child must not touch an inherited one.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._calls: deque[Callable[[], object]] = deque()
        self._busy = False  # a thread runs calls
        self._error: BaseException | None = None
        self._failed = False

    def add(self, call: Callable[[], object]) -> None:
        """Queue a call; waits while too many are pending."""
        with self._changed:
            self._raise()
            if self._failed:
                return
            self._calls.append(call)
            is_seen = self._busy
        if not is_seen:
            try:
                _write_behind_pool(os.getpid()).submit(self._run)
            except RuntimeError:  # No thread can start.
                self._run()
        self._wait(DEPTH)

    def wait(self) -> None:
        """Wait until all calls are done."""
        self._wait(0)
        self._raise()

    def abandon(self) -> None:
        """Drop pending calls, wait for the running one, and ignore its error."""
        with self._changed:
            self._failed = True
            self._calls.clear()
        self._wait(0)

    def _wait(self, most: int) -> None:
        """Wait until at most ``most`` calls are pending. Runs them here if no thread has begun."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: not self._busy or len(self._calls) < most)
                if len(self._calls) + self._busy <= most:
                    return
            self._run()

    def _raise(self) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _run(self) -> None:
        with self._changed:
            if self._busy:
                return
            self._busy = True
        try:
            while (call := self._next()) is not None:
                try:
                    call()
                except BaseException as error:  # noqa: BLE001 - raised by add() or wait()
                    self._fail(error)
                del call  # frees what it holds before the next one arrives
        except BaseException:  # Ctrl-C between two calls.
            self._busy = False
            raise

    def _next(self) -> Callable[[], object] | None:
        with self._changed:
            call = self._calls.popleft() if self._calls else None
            self._busy = call is not None
            self._changed.notify()
            return call

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            if not self._failed:
                self._error, self._failed = error, True
            self._calls.clear()


@cache
def _write_behind_pool(_process: int) -> ThreadPool:
    """The threads that run calls. A forked child makes its own."""
    return ThreadPool(MOST_THREADS, thread_name_prefix="headrace-write-behind")
