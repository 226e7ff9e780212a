"""The process of an endpoint on this machine: starts it, and is its main program. ``ray/run.py`` is that of an endpoint on Ray."""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import threading
import time

from headrace.hosting.http.server import bind, serve
from headrace.hosting.registry import EndpointEntry
from headrace.hosting.settings import Settings
from headrace.hosting.stage import Stage
from headrace.hosting.workers.process import python_arguments

__all__ = ["LEAVE_S", "log_to_standard_error", "main", "remove_replicas", "start_process"]

MODULES = {"processes": "headrace.hosting.run", "ray": "headrace.hosting.ray.run"}
"""The main program of an endpoint, by the place where its model is held."""
LEAVE_S = 60.0
"""How long an endpoint may take to leave its Ray cluster."""
ENVIRONMENT = {"RAY_DEDUP_LOGS": "0", "RAY_COLOR_PREFIX": "0"}  # a log is complete, and plain


def start_process(entry: EndpointEntry, on: str, claim: int | None = None) -> subprocess.Popen[bytes]:
    """Start the process of an endpoint, which outlives this one and writes its output to the log of the entry.

    Args:
        entry: The endpoint.
        on: ``"processes"`` or ``"ray"``.
        claim: The descriptor of its lock, which the process inherits. ``None``: a process without the lock, which only removes what a
            killed one has left on Ray, and appends to its log.
    """
    arguments = [] if claim is None else [str(claim)]
    with entry.log.open("ab" if claim is None else "wb") as log:
        process = subprocess.Popen(  # noqa: S603 - ourselves
            [sys.executable, *python_arguments(MODULES[on]), entry.name, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[] if claim is None else [claim],
            start_new_session=True,
            env={**ENVIRONMENT, **os.environ},
        )
    # Reap the child when it ends, so that it leaves no zombie.
    threading.Thread(target=process.wait, name="headrace-endpoint-wait", daemon=True).start()
    return process


def remove_replicas(entry: EndpointEntry) -> None:
    """Remove what a killed endpoint has left in its Ray cluster."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        start_process(entry, "ray").wait(LEAVE_S)
    entry.write("state", {})


def log_to_standard_error(level: int = logging.INFO) -> None:
    """Log to standard error, with the time in front."""
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    # Show what goes wrong in uvicorn, not that it starts and stops.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)


def main() -> None:
    """Serve the endpoint with the name in the first argument. The second is the descriptor of its lock.

    The descriptor stays open and locked until this process ends.
    """
    entry, claim = EndpointEntry(sys.argv[1]), int(sys.argv[2])
    inheritable = False
    os.set_inheritable(claim, inheritable)
    log_to_standard_error()
    spec = entry.read("spec")
    settings = Settings.from_json(spec["settings"])
    sys.path.extend(folder for folder in spec["path"] if folder not in sys.path)
    stages = [Stage.from_json(plain) for plain in spec["stages"]]
    try:
        listening = bind(settings)
        serve(
            stages,
            settings,
            models=entry.folder / "models",
            direct=spec["direct"],
            title=entry.name,
            listening=listening,
            started=lambda address: entry.write(
                "state", {"address": address, "pid": os.getpid(), "created": time.time()}
            ),
        )
    except Exception as error:
        logging.getLogger("headrace.hosting").exception("the endpoint %s ended", entry.name)
        with contextlib.suppress(OSError):
            entry.write("state", {"failure": f"{type(error).__name__}: {error}"})
        sys.exit(1)
