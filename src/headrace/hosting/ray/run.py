"""The process of an endpoint on a Ray cluster: deploys it, rolls out its updates, records its state, and removes it at the end."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from headrace import _optional
from headrace._ray.connection import connect
from headrace.errors import Unreachable
from headrace.hosting.endpoint import EndpointError
from headrace.hosting.ray.app import AppState, ServeApp
from headrace.hosting.ray.replica import ReplicaSpec
from headrace.hosting.registry import EndpointEntry
from headrace.hosting.run import log_to_standard_error
from headrace.hosting.settings import RaySettings, Settings
from headrace.hosting.stage import Stage

__all__ = ["main", "serve_on_ray"]

LOG = logging.getLogger("headrace.hosting")
POLL_S = 0.25

_Version = tuple[ReplicaSpec, RaySettings]


class _Rollouts:
    """Rolls out one version after another, and goes back to the last good one if a new one fails.

    Args:
        app: The application.
        settled: Called with a version and, if it failed, the reason.
    """

    def __init__(self, app: ServeApp, settled: Callable[[str, str | None], None]) -> None:
        self._app = app
        self._settled = settled
        self._good: _Version | None = None
        self._new: _Version | None = None
        self._version = ""
        self._goes_back = False

    @property
    def is_busy(self) -> bool:
        """Whether a version is being rolled out."""
        return self._new is not None

    def begin(self, version: str, make: Callable[[], _Version]) -> None:
        """Roll out a version."""
        self._version, self._goes_back = version, False
        try:
            self._new = make()
            self._app.roll_out(*self._new)
        except Exception as error:
            LOG.exception("the new version cannot be rolled out")
            self._fail(str(error))

    def note(self, state: AppState) -> None:
        """Settle the version that is being rolled out, if its end is known."""
        if self._goes_back:
            self._go_back()
        if self._new is None:
            return
        if state.phase == "running":
            self._good, self._new = self._new, None
            self._settled(self._version, None)
        elif state.phase == "failed":
            self._fail(state.reason or "its replicas do not start")

    def _fail(self, reason: str) -> None:
        self._new = None
        if self._good is None:
            raise EndpointError(reason)
        LOG.error("the update failed, and the version before it stays: %s", reason)
        self._goes_back = True
        self._go_back()
        self._settled(self._version, reason)

    def _go_back(self) -> None:
        """Roll out the last good version. If Ray Serve does not answer, the next :meth:`note` tries again."""
        assert self._good is not None
        with contextlib.suppress(Exception):
            self._app.roll_out(*self._good)
            self._goes_back = False


def serve_on_ray(
    stages: Sequence[Stage],
    settings: Settings,
    placement: RaySettings,
    *,
    name: str,
    direct: bool = False,
    started: Callable[[str], None] | None = None,
) -> None:
    """Serve on a cluster until SIGTERM or SIGINT, and remove the endpoint from it.

    Args:
        stages: Its containers, 1 to 15.
        settings: Limits and workers, and the address to listen on where Ray Serve does not run yet.
        placement: The cluster and the number of replicas.
        name: The name of the application.
        direct: Send each request to the one container that its header names, not through all of them.
        started: Called with the address once the model is loaded.

    Raises:
        EndpointError: The model does not load, or the cluster does not answer; the message has the reason.
    """
    spec = ReplicaSpec.of(name, stages, settings, direct=direct)
    with ExitStack() as stack:
        app = ServeApp(name, placement, settings, stack)
        stop = stack.enter_context(_stopped_by_signals())
        stack.callback(app.remove)
        rollouts = _Rollouts(app, lambda *_: started(app.address) if started is not None else None)
        rollouts.begin("", lambda: (spec, placement))
        while not stop.wait(POLL_S):
            state = app.state()
            if state.phase == "gone":
                raise EndpointError(str(state.reason))
            rollouts.note(state)


@contextlib.contextmanager
def _stopped_by_signals() -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set. Call it after ``ray.init``, which has its own handlers."""
    stop = threading.Event()
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in numbers}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Recorder:
    """Records the state of a named endpoint for other processes, and reads their updates."""

    def __init__(self, entry: EndpointEntry, app: ServeApp) -> None:
        self._entry = entry
        self._state: dict[str, Any] = {
            "address": app.address,
            "pid": os.getpid(),
            "created": time.time(),
            "cluster": app.cluster,
            "waiting": "its replicas are starting",
            "replicas": 0,
            "updating": False,
            "settled": {},
        }
        self._good: dict[str, Any] = {}
        self._seen = ""
        self._save()

    def wanted(self) -> dict[str, Any] | None:
        """The specification, if it is new."""
        spec = self._entry.read("spec")
        version = spec.get("version")
        if not version or version == self._seen:
            return None
        self._seen = version
        self._good = self._good or spec
        self._wanted = spec
        self._change(updating=self._state["waiting"] is None)
        return spec

    def settle(self, version: str, reason: str | None) -> None:
        """Record the end of an update. The specification of a failed one is replaced by the good one."""
        if reason is None:
            self._good = self._wanted
        elif self._entry.read("spec").get("version") == version:
            self._entry.write("spec", self._good)
            self._seen = self._good["version"]
        self._change(updating=False, settled={**self._state["settled"], version: reason})

    def note(self, state: AppState, *, is_busy: bool) -> None:
        """Record the state of the application."""
        is_first = is_busy and not self._state["updating"]
        self._change(replicas=state.replicas, waiting=state.reason if is_first else None)

    def _change(self, **values: Any) -> None:
        if any(self._state[name] != value for name, value in values.items()):
            self._state.update(values)
            self._save()

    def _save(self) -> None:
        with contextlib.suppress(OSError):  # a full disk does not end the endpoint
            self._entry.write("state", self._state)


def _serve_named(entry: EndpointEntry) -> None:
    spec = entry.read("spec")
    with ExitStack() as stack:
        app = ServeApp(entry.name, RaySettings.from_json(spec["ray"]), Settings.from_json(spec["settings"]), stack)
        recorder = _Recorder(entry, app)
        stop = stack.enter_context(_stopped_by_signals())
        stack.callback(app.remove)
        rollouts = _Rollouts(app, recorder.settle)
        while True:
            new = recorder.wanted()
            if new is not None:
                rollouts.begin(new["version"], partial(_version_of, entry.name, new))
            if stop.wait(POLL_S):
                break
            state = app.state()
            if state.phase == "gone":
                raise EndpointError(str(state.reason))
            rollouts.note(state)
            recorder.note(state, is_busy=rollouts.is_busy)
        LOG.info("finishing the requests in flight")
    entry.write("state", {})


def _version_of(name: str, spec: dict[str, Any]) -> _Version:
    stages = [Stage.from_json(plain) for plain in spec["stages"]]
    settings = Settings.from_json(spec["settings"])
    made = ReplicaSpec.of(name, stages, settings, direct=spec["direct"], path=spec["path"])
    return made, RaySettings.from_json(spec["ray"])


def _remove_left(entry: EndpointEntry) -> None:
    """Delete the application of an endpoint whose process was killed."""
    # If nothing answers, the cluster has ended, and the application with it.
    with contextlib.suppress(Unreachable), connect(entry.read("state")["cluster"]):
        _optional.require("ray.serve", extra="ray").delete(entry.name)


def main() -> None:
    """Serve the endpoint with the name in the first argument. The second is the descriptor of its lock; without it, remove what a killed
    endpoint has left in its cluster.
    """
    entry, *claims = sys.argv[1:]
    log_to_standard_error()
    try:
        if not claims:
            _remove_left(EndpointEntry(entry))
            return
        os.set_inheritable(int(claims[0]), False)  # noqa: FBT003
        _serve_named(EndpointEntry(entry))
    except Exception as error:
        LOG.exception("the endpoint %s ended", entry)
        with contextlib.suppress(OSError):
            EndpointEntry(entry).write("state", {"failure": str(error)})
        sys.exit(1)
