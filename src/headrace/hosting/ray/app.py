"""An endpoint as an application of Ray Serve: its name in the cluster, its address, its state, and how a version is rolled out."""

from __future__ import annotations

import contextlib
import inspect
import math
import os
import re
import socket
import sys
import time
import warnings
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Literal

from headrace import _optional
from headrace._ray.connection import connect
from headrace.hosting.endpoint import EndpointError
from headrace.hosting.http.server import bind
from headrace.hosting.ray import proxy
from headrace.hosting.ray.replica import DEPLOYMENT, ReplicaSpec, deployment_of, resources_of
from headrace.hosting.settings import RaySettings, Settings
from headrace.io.system import usable_cores

__all__ = ["AppState", "ServeApp", "reason_in"]

MARGIN_S = 10.0
"""How much longer than a replica the proxy waits for an answer."""
SILENCE_S = 120.0
"""How long the controller of Ray Serve may not answer: it is started again when it dies."""
CLAIM_S = 30.0
NAMESPACE = "headrace"
REPLICA_ERROR = re.compile(r"ReplicaError: (.*?)(?:\n\s*\n|\Z)", re.DOTALL)
LAST_ERROR = re.compile(r"^(?:[\w.]+\.)?(\w*(?:Error|Exception|Failed|NoFiles)): (.*)$", re.MULTILINE)
GUARD = f"{proxy.__name__}.{proxy.middlewares.__name__}"


@dataclass(frozen=True, slots=True)
class AppState:
    """What Ray Serve reports about an endpoint."""

    phase: Literal["starting", "running", "failed", "gone", "unknown"]
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
        EndpointError: The name is taken in the cluster, or its proxies cannot be reached from here.
    """

    def __init__(self, name: str, placement: RaySettings, settings: Settings, stack: ExitStack) -> None:
        self.name = name
        self._placement = placement
        self._is_own = placement.address is None
        self._answered = time.monotonic()
        self._replicas = 0
        if self._is_own:
            bind(settings).close()  # A port that is taken is an error before Ray starts.
            os.environ.setdefault(proxy.VARIABLE, GUARD)  # for Ray 2.52; the cluster inherits it
        processors = max(usable_cores(), self._most_processors(settings))
        cluster = stack.enter_context(connect(placement.address or "local", cpus=processors, shows_log=True))
        self._ray = cluster.ray
        self._serve = _optional.require("ray.serve", extra="ray")
        if not self._is_own:
            stack.callback(self._ray.kill, _claim(self._ray, name))
        host, port = self._start_serve(settings)
        if name in self._serve.status().applications:
            raise EndpointError(
                f"Ray Serve in this cluster already has an application {name!r}, which no endpoint of this machine runs: choose another "
                "name, or delete it there"
            )
        self._prefix = "/" if self._is_own else f"/{name}"
        self.address: str = f"http://{f'[{host}]' if ':' in host else host}:{port}{self._prefix.rstrip('/')}"

    @property
    def cluster(self) -> str | None:
        """The address of the cluster; ``None`` if it was started for this endpoint."""
        return None if self._is_own else str(self._ray.get_runtime_context().gcs_address)

    def _most_processors(self, settings: Settings) -> int:
        """What all replicas take, and one more while an update is rolled out."""
        each = resources_of(self._placement, settings)["CPU"]
        return math.ceil(each * (self._placement.bounds[1] + 1))

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
        elif not self._is_own:
            options["http_options"] = self._with_guard(http_options)
        with contextlib.suppress(ValueError):  # Another process has started it at this moment.
            self._serve.start(**options)
        http = context._get_global_client().http_config
        return (settings.host if self._is_own else self._reachable(str(http.host))), int(http.port)

    def _with_guard(self, http_options: dict[str, Any]) -> dict[str, Any]:
        """The options with the layers of proxies in them, as Ray 2.52 takes them. Releases that refuse these get none."""
        guarded = {**http_options, "middlewares": proxy.middlewares()}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # it says that they will go
                self._serve.HTTPOptions(**guarded)
        except ValueError:
            return http_options
        return guarded

    def _reachable(self, host: str) -> str:
        """A host at which a proxy can be reached from here.

        Raises:
            EndpointError: All proxies listen on the loopback address of other nodes.
        """
        here = self._ray.get_runtime_context().get_node_id()
        nodes = {node["NodeID"]: node["NodeManagerAddress"] for node in self._ray.nodes() if node["Alive"]}
        with_proxy = [node for node in self._serve.status().proxies if node in nodes]
        is_loopback = host in ("localhost", "::1") or host.startswith("127.")
        if nodes.get(here) in [nodes[node] for node in with_proxy] or not with_proxy:
            return host if is_loopback else nodes.get(here, host)
        if is_loopback:
            raise EndpointError(
                f"the proxies of Ray Serve listen on {host} of other nodes than this one: start Ray Serve with "
                "host 0.0.0.0, or deploy from the head node"
            )
        return str(nodes[with_proxy[0]])

    def roll_out(self, spec: ReplicaSpec, placement: RaySettings) -> None:
        """Deploy these containers. The replicas of an earlier version answer until those of this one are ready.

        Raises:
            EndpointError: The cluster was started for the endpoint, and is too small for them.
        """
        resources = resources_of(placement, spec.settings)
        if self._is_own:
            self._check_size(resources["CPU"] * placement.bounds[0])
        application = deployment_of(spec, placement, surge=self._has_room(resources))
        target = self._serve.RunTarget(application, name=self.name, route_prefix=self._prefix)
        self._serve.run_many([target], wait_for_ingress_deployment_creation=False, wait_for_applications_running=False)

    def _check_size(self, wanted: float) -> None:
        found = self._ray.cluster_resources().get("CPU", 0.0)
        if found < wanted:
            raise EndpointError(
                f"its replicas take {wanted:g} processors, and the Ray cluster that was started for the endpoint {self.name} offers {found:g}: "
                "delete the endpoint, and create it again with these replicas, or on a cluster of your own"
            )

    def _has_room(self, wanted: Mapping[str, float]) -> bool:
        """Whether the cluster has room for one more replica, which takes these resources."""
        free = self._ray.available_resources()
        return all(free.get(name, 0.0) >= amount for name, amount in wanted.items())

    def state(self) -> AppState:
        """What Ray Serve reports now. ``"unknown"`` while its controller starts again after it died: replicas answer meanwhile.

        Raises:
            EndpointError: The controller has not answered for two minutes.
        """
        try:
            found = self._serve.status().applications.get(self.name)
        except Exception as error:
            if time.monotonic() - self._answered > SILENCE_S:
                raise EndpointError(f"the controller of Ray Serve does not answer: {error}") from error
            return AppState("unknown", None, self._replicas)
        self._answered = time.monotonic()
        if found is None or str(found.status.value) == "DELETING":
            return AppState("gone", "it was deleted in the cluster")
        one = found.deployments.get(DEPLOYMENT)
        running = 0 if one is None else sum(n for state, n in one.replica_states.items() if state == "RUNNING")
        self._replicas = running
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


def _claim(ray: Any, name: str) -> Any:
    """Take the name of an endpoint in a cluster, for as long as this process lives. Returns what holds it.

    Ray Serve itself replaces an application by another one of its name, also one of another machine. So a named actor holds
    the name. Only one process can create it, and it ends with its process.

    Raises:
        EndpointError: Another process has the name.
    """

    class NameHolder:
        def __init__(self, owner: str) -> None:
            self._owner = owner

        def owner(self) -> str:
            return self._owner

    chosen, owner = f"endpoint {name}", f"process {os.getpid()} on {socket.gethostname()}"
    options = {"name": chosen, "namespace": NAMESPACE, "num_cpus": 0, "max_restarts": -1}
    kind = ray.remote(NameHolder).options(**options)
    deadline = time.monotonic() + CLAIM_S
    while True:
        try:
            return kind.remote(owner)
        except ValueError:  # it is taken
            taken_by = _owner_of(ray, chosen)
        if taken_by is not None or time.monotonic() > deadline:
            raise EndpointError(
                f"the endpoint {name!r} already exists in this cluster, run by {taken_by or 'another process'}: delete it there, or choose "
                "another name"
            )
        time.sleep(1.0)  # Its process has ended, and the cluster is about to notice.


def _owner_of(ray: Any, name: str) -> str | None:
    """The process that holds a name; ``None`` if it has ended."""
    try:
        return str(ray.get(ray.get_actor(name, namespace=NAMESPACE).owner.remote(), timeout=CLAIM_S))
    except (ValueError, sys.modules["ray.exceptions"].RayError):
        return None


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
