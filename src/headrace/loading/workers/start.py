"""How workers are started, and what has to travel to them."""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Iterator
from typing import Any, Literal

from headrace.errors import UnsupportedData, Where

__all__ = ["START_METHODS", "StartMethod", "chosen", "frozen", "not_begun"]


StartMethod = Literal["fork", "spawn", "forkserver"]
START_METHODS: tuple[StartMethod, ...] = ("fork", "spawn", "forkserver")
MAX_DEPTH = 12


def chosen(wanted: StartMethod | None) -> tuple[StartMethod, str]:
    """The start method, and why it is not fork (empty: it is, or it was asked for).

    Fork where it is sound: on Linux, as long as no other Python thread runs, which might hold a lock that nobody would
    release in the child, and JAX, which always has threads, is not loaded. Else a fork server; a fresh interpreter where
    there is none.
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
    others = [thread.name for thread in threading.enumerate() if thread is not threading.current_thread()]
    return f"other threads run ({', '.join(sorted(others)[:3])})" if others else ""


def frozen(maker: Any, method: StartMethod, reason: str) -> bytes:
    """What a fresh process needs, pickled.

    Raises:
        UnsupportedData: names what cannot be pickled.
    """
    try:
        return pickle.dumps(maker, 5)
    except Exception as error:
        name, value = _culprit(maker)
        because = f", which is used because {reason}" if reason else ""
        raise UnsupportedData(
            Where(),
            expected=f"a source, an order and functions that can be pickled, for workers started by {method!r}{because}",
            found=f"{name} = {value!r} ({type(error).__name__}: {error})",
            hint="Define functions at the top level of a module; start_method='fork' needs no pickling.",
        ) from error


def not_begun(worker: str, error: BaseException) -> UnsupportedData:
    """The error of a worker that could not unpickle what it was sent."""
    refused = UnsupportedData(
        Where(),
        expected="a source, an order and functions that a fresh process can import",
        found=f"{type(error).__name__}: {error} (in {worker})",
        hint="What is defined in a notebook or at a prompt is only there: put it into a module, or use start_method='fork'.",
    )
    refused.__cause__ = error
    return refused


def _culprit(value: Any, name: str = "", depth: int = 0) -> tuple[str, Any]:
    """The innermost part of a value that cannot be pickled, and the way to it."""
    if depth < MAX_DEPTH:
        for part, inner in _parts(value):
            if not _pickles(inner):
                return _culprit(inner, f"{name}{part}" if name else part.removeprefix("."), depth + 1)
    return name or "it", value


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
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
    except Exception:  # noqa: BLE001 - that is the question
        return False
    return True
