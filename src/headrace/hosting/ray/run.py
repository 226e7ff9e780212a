"""The process of an endpoint on a Ray cluster: deploys it, rolls out its updates, records its state, and removes it at the end."""

from __future__ import annotations

import contextlib
import inspect
import logging
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from headrace import _optional
from headrace._ray.connection import connect
from headrace.errors import Unreachable
from headrace.hosting.endpoint import EndpointError
from headrace.hosting.http.server import bind
from headrace.hosting.ray import proxy
from headrace.hosting.ray.replica import DEPLOYMENT, ReplicaSpec, deployment_of
from headrace.hosting.registry import EndpointEntry
from headrace.hosting.run import log_to_standard_error
from headrace.hosting.settings import RaySettings, Settings
from headrace.hosting.stage import Stage
from headrace.io.system import usable_cores

__all__ = ["AppState", "ServeApp", "main", "serve_on_ray"]

LOG = logging.getLogger("headrace.hosting")
POLL_S = 0.25
MARGIN_S = 10.0
"""How much longer than a replica the proxy waits for an answer."""
REPLICA_ERROR = re.compile(r"ReplicaError: (.*?)(?:\n\s*\n|\Z)", re.DOTALL)
LAST_ERROR = re.compile(r"^(?:[\w.]+\.)?(\w*(?:Error|Exception|Failed|NoFiles)): (.*)$", re.MULTILINE)
GUARD = f"{proxy.__name__}.{proxy.middlewares.__name__}"


@dataclass(frozen=True, slots=True)
class AppState:
    """What Ray Serve reports about an endpoint."""

    phase: Literal["starting", "running", "failed", "gone"]
    reason: str | None = None
    """Why it is not running, as far as known."""
    replicas: int = 0
    """Replicas that answer requests."""


class ServeApp:
    """An endpoint as an application of Ray Serve.

    Args:
        name: Its name; that of the application, too.
        placement: Its place on a cluster.
        settings: The address to listen on, if Serve does not run yet.
        stack: Ends the cluster, if it was started here.

    Raises:
        Unreachable: No such cluster answers.
        EndpointError: Its proxies cannot be reached from here.
    """

    def __init__(self, name: str, placement: RaySettings, settings: Settings, stack: ExitStack) -> None:
        self.name = name
        self._placement = placement
        self._is_own = placement.address is None
        if self._is_own:
            bind(settings).close()  # A port that is taken is an error before Ray starts.
        processors = max(usable_cores(), self._most_processors())
        cluster = stack.enter_context(connect(placement.address or "local", cpus=processors, shows_log=True))
        self._ray = cluster.ray
        self._serve = _optional.require("ray.serve", extra="ray")
        host, port = self._start_serve(settings)
        self._prefix = "/" if self._is_own else f"/{name}"
        self.address: str = f"http://{f'[{host}]' if ':' in host else host}:{port}{self._prefix.rstrip('/')}"

    @property
    def cluster(self) -> str | None:
        """The address of the cluster; ``None`` if it was started for this endpoint."""
        return None if self._is_own else str(self._ray.get_runtime_context().gcs_address)

    def _most_processors(self) -> int:
        """What all replicas take, and one more while an update is rolled out."""
        each = self._placement.resources.get("CPU", 1)
        return round(each * (self._placement.bounds[1] + 1))

    def _start_serve(self, settings: Settings) -> tuple[str, int]:
        """Start Ray Serve, unless it runs. Returns the host and port of a proxy."""
        context = _optional.require("ray.serve.context", extra="ray")
        running = context._get_global_client(raise_if_no_controller_running=False)
        if running is not None:
            http = running.http_config
            return self._reachable(str(http.host)), int(http.port)
        with bind(settings) as probe:
            port = int(probe.getsockname()[1])
        http_options = {"host": settings.host, "port": port, "request_timeout_s": settings.timeout_s + MARGIN_S}
        options: dict[str, Any] = {"http_options": http_options}
        if "controller_options" in inspect.signature(self._serve.start).parameters:
            options["controller_options"] = {"runtime_env": {"env_vars": {proxy.VARIABLE: GUARD}}}
        self._serve.start(**options)
        return (settings.host if self._is_own else self._reachable(settings.host)), port

    def _reachable(self, host: str) -> str:
        """A host at which a proxy can be reached from here.

        Raises:
            EndpointError: All proxies listen on the loopback address of other nodes.
        """
        here = self._ray.get_runtime_context().get_node_id()
        nodes = {node["NodeID"]: node["NodeManagerAddress"] for node in self._ray.nodes() if node["Alive"]}
        with_proxy = [node for node in self._serve.status().proxies if node in nodes]
        is_loopback = host in ("localhost", "::1") or host.startswith("127.")
        if here in with_proxy or not with_proxy:
            return host if is_loopback else nodes.get(here, host)
        if is_loopback:
            raise EndpointError(
                f"the proxies of Ray Serve listen on {host} of other nodes than this one: start Ray Serve with "
                "host 0.0.0.0, or deploy from the head node"
            )
        return str(nodes[with_proxy[0]])

    def roll_out(self, spec: ReplicaSpec, placement: RaySettings) -> None:
        """Deploy these containers. The replicas of an earlier version answer until those of this one are ready."""
        application = deployment_of(spec, placement, surge=self._has_room(placement))
        target = self._serve.RunTarget(application, name=self.name, route_prefix=self._prefix)
        self._serve.run_many([target], wait_for_ingress_deployment_creation=False, wait_for_applications_running=False)

    def _has_room(self, placement: RaySettings) -> bool:
        """Whether the cluster has room for one more replica."""
        free = self._ray.available_resources()
        wanted = {"CPU": 1.0, **placement.resources}
        return all(free.get(name, 0.0) >= amount for name, amount in wanted.items())

    def state(self) -> AppState:
        """What Ray Serve reports now."""
        found = self._serve.status().applications.get(self.name)
        if found is None or str(found.status.value) == "DELETING":
            return AppState("gone", "it was deleted in the cluster")
        one = found.deployments.get(DEPLOYMENT)
        running = 0 if one is None else sum(n for state, n in one.replica_states.items() if state == "RUNNING")
        reason = reason_in(one.message if one is not None and one.message else found.message)
        status = str(found.status.value)
        if status == "DEPLOY_FAILED":
            return AppState("failed", reason or "it could not be deployed", running)
        if status in ("RUNNING", "UNHEALTHY"):
            return AppState("running", None, running)
        return AppState("starting", reason or "its replicas are starting", running)

    def remove(self) -> None:
        """Delete the application, after its replicas have answered the requests in flight; with our own cluster, also Serve."""
        self._serve.delete(self.name)
        if self._is_own:
            self._serve.shutdown()


def reason_in(message: str) -> str | None:
    r"""Why replicas do not start, from a message of Ray Serve, which may hold a traceback.

    >>> reason_in("Error: Traceback ...\nheadrace.hosting.ray.replica.ReplicaError: on node a: no model")
    'on node a: no model'
    """
    found = REPLICA_ERROR.findall(message)
    if found:
        return " ".join(found[-1].split())
    lines = LAST_ERROR.findall(message)
    if lines:
        return ": ".join(lines[-1])
    return " ".join(message.split()) or None


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

    @property
    def is_busy(self) -> bool:
        """Whether a version is being rolled out."""
        return self._new is not None

    def begin(self, version: str, make: Callable[[], _Version]) -> None:
        """Roll out a version."""
        self._version = version
        try:
            self._new = make()
            self._app.roll_out(*self._new)
        except Exception as error:
            LOG.exception("the new version cannot be rolled out")
            self._fail(str(error))

    def note(self, state: AppState) -> None:
        """Settle the version that is being rolled out, if its end is known."""
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
        self._app.roll_out(*self._good)
        self._settled(self._version, reason)


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
