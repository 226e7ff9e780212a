"""One replica of an endpoint on a Ray cluster: the application of one machine, in a process that Ray Serve starts and replaces."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import logging
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace import _optional
from headrace.errors import HeadraceError, NoFiles, RequestError, Where
from headrace.hosting.http.server import application
from headrace.hosting.metrics import CONTENT_TYPE
from headrace.hosting.prepare import prepare_stages
from headrace.hosting.settings import RaySettings, Settings
from headrace.hosting.stage import Stage
from headrace.io.system import search_path

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request as HttpRequest
    from starlette.responses import Response as HttpResponse

__all__ = ["DEPLOYMENT", "ReplicaError", "ReplicaSpec", "build_app", "deployment_of", "merge_metrics", "resources_of"]

DEPLOYMENT = "replica"
"""The name of the deployment in its application."""
LOADING_FAULTS = ("the model does not load", "a worker cannot be started")
PAUSE_S = 0.05
STARTS = 2
"""How often Ray Serve starts a replica of a new version that fails, before it gives the version up."""
HEALTH_PERIOD_S = 2.0
"""How soon Ray Serve notices a dead replica."""
SURGE_PERCENT = 20
ONGOING = 2.0
"""Requests in progress for each thread of each worker, above which Ray Serve adds replicas."""
SCALING = {"upscale_delay_s": 30.0, "downscale_delay_s": 600.0}
"""How long more or fewer replicas must be wanted; Ray Serve's own figures."""
METRICS_TIMEOUT_S = 5.0
JSON_ONLY = ((b"content-type", b"application/json"),)


class ReplicaError(HeadraceError, RuntimeError):
    """A replica cannot start on its node. The message names the node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSpec:
    """What a replica needs. Small, as it is sent to every node."""

    name: str
    """The name of the endpoint."""
    stages: tuple[Stage, ...]
    settings: Settings
    direct: bool = False
    path: tuple[str, ...] = ()
    """Folders to import containers from."""
    version: str = ""
    """The version of Headrace that made this."""
    files: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Size and modification time of each archive of a model."""

    @classmethod
    def of(
        cls, name: str, stages: Sequence[Stage], settings: Settings, *, direct: bool, path: Sequence[str] | None = None
    ) -> ReplicaSpec:
        """The specification for these containers as they are now.

        Raises:
            NoFiles: A model does not exist.
        """
        workers = 1 if settings.workers is None else settings.workers
        models = [stage.model_dir for stage in stages if stage.model_dir is not None]
        return cls(
            name=name,
            stages=tuple(stages),
            settings=replace(settings, workers=workers),
            direct=direct,
            path=tuple(search_path() if path is None else path),
            version=own_version(),
            files={model: _state_of(model) for model in models if not Path(model).is_dir()},
        )


def own_version() -> str:
    """The version of Headrace in this process."""
    return str(importlib.import_module("headrace").__version__)


def _state_of(model: str) -> tuple[int, int]:
    try:
        found = Path(model).stat()
    except FileNotFoundError as error:
        raise NoFiles(Where(path=model), expected="a folder or a model.tar.gz", found="nothing") from error
    return found.st_size, found.st_mtime_ns


def build_app(spec: ReplicaSpec) -> Starlette:
    """The application of a replica, on the node that runs it.

    Raises:
        ReplicaError: This node has another version of Headrace, does not see a model or a script, or sees another one.
    """
    _log_to_standard_error()
    try:
        _check_node(spec)
        sys.path.extend(folder for folder in spec.path if folder not in sys.path)
        stack = ExitStack()
        ready = stack.enter_context(prepare_stages(spec.stages))
        app = application(ready, spec.settings, direct=spec.direct, title=spec.name)
    except Exception as error:
        hint = ". Every node must see the same files: use a folder that all nodes share"
        raise ReplicaError(f"on node {_node()}: {error}{hint if isinstance(error, OSError) else ''}") from error
    app.state.prepared = stack  # removes the unpacked models when the replica ends
    return app


def _log_to_standard_error() -> None:
    """Log as an endpoint on one machine does. Ray sends it to the log of the endpoint."""
    log = logging.getLogger("headrace.hosting")
    if not log.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        log.addHandler(handler)
        log.setLevel(logging.INFO)


def _check_node(spec: ReplicaSpec) -> None:
    if spec.version != own_version():
        raise ReplicaError(
            f"Headrace {own_version()} is installed there, and {spec.version} here: install the same version"
        )
    for model, then in spec.files.items():
        now = _state_of(model)
        if now != tuple(then):
            raise ReplicaError(
                f"{model} is not the file that was deployed ({now[0]} bytes, and {then[0]} then, or another time): update the "
                "endpoint to serve a changed model"
            )


def _node() -> str:
    return socket.gethostname()


class _Replica:
    """The class that Ray Serve creates in each replica. ``serve.ingress`` adds ``app`` and the answering of requests."""

    app: Starlette

    def __init__(self, spec: ReplicaSpec) -> None:
        self._name = spec.name

    async def check_health(self) -> None:
        """Wait until the model is loaded. Ray Serve calls it before it sends requests to the replica, and again and again later.

        Raises:
            ReplicaError: The model does not load.
        """
        pool = self.app.state.pool
        while (reason := pool.unready) is not None:
            if reason.startswith(LOADING_FAULTS):
                raise ReplicaError(reason)
            await asyncio.sleep(PAUSE_S)

    async def metrics_text(self) -> tuple[str, str]:
        """The name of this replica, and its metrics."""
        return _replica_name(), self.app.state.metrics.text()


def _replica_name() -> str:
    serve = _optional.require("ray.serve", extra="ray")
    found = serve.get_replica_context()
    return str(getattr(found, "replica_tag", ""))


def _for_all_replicas(app: Starlette, name: str) -> Starlette:
    """The application, whose pages concern the endpoint and not only this replica.

    ``/metrics`` has the numbers of every replica. ``/ping`` is 200 while a dead worker is replaced, as requests wait for its replacement.
    """
    responses = _optional.require("starlette.responses", extra="serve")
    routing = _optional.require("starlette.routing", extra="serve")

    async def metrics(_: HttpRequest) -> HttpResponse:
        found = await _metrics_of_all(name) or [(_replica_name(), app.state.metrics.text())]
        page: HttpResponse = responses.Response(merge_metrics(found), headers={"content-type": CONTENT_TYPE})
        return page

    async def ping(_: HttpRequest) -> HttpResponse:
        status, headers, body = 200, JSON_ONLY, b""
        if not app.state.pool.accepts:
            error = RequestError(503, app.state.pool.unready or "the model is not ready")
            status, headers, body = app.state.invocations.error_answer(error)
        given = {name.decode(): value.decode() for name, value in headers}
        answer: HttpResponse = responses.Response(body, status_code=status, headers=given)
        return answer

    app.router.routes.insert(0, routing.Route("/metrics", metrics, methods=["GET"]))
    app.router.routes.insert(0, routing.Route("/ping", ping, methods=["GET"]))
    return app


async def _metrics_of_all(name: str) -> list[tuple[str, str]]:
    """What every replica reports; empty if this version of Ray cannot ask them."""
    serve = _optional.require("ray.serve", extra="ray")
    handle = serve.get_deployment_handle(DEPLOYMENT, name)
    if not hasattr(type(handle), "broadcast"):  # An attribute of a handle that is not there is a method of the replica.
        return []
    response = handle.broadcast("metrics_text")
    try:
        found = await asyncio.to_thread(response.results, timeout_s=METRICS_TIMEOUT_S)
    except Exception:  # noqa: BLE001 - a replica that just died must not hide the numbers of this one
        return []
    return [tuple(one) for one in found]


def merge_metrics(texts: Iterable[tuple[str, str]]) -> str:
    r"""One Prometheus page from those of several replicas: each sample gets the label ``replica``, and samples of a metric stay together.

    >>> print(merge_metrics([("a", "# TYPE n counter\nn 1\n"), ("b", "# TYPE n counter\nn 2\n")]), end="")
    # TYPE n counter
    n{replica="a"} 1
    n{replica="b"} 2
    """
    heads: dict[str, list[str]] = {}
    samples: dict[str, list[str]] = {}
    for replica, text in sorted(texts):
        for metric, line in _lines(text):
            if line.startswith("#"):
                known = heads.setdefault(metric, [])
                known += [] if line in known else [line]
            else:
                samples.setdefault(metric, []).append(_with_label(line, replica))
    lines = [line for metric, head in heads.items() for line in (*head, *samples.get(metric, ()))]
    return "\n".join(lines) + "\n"


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """The lines of a page, each with the metric that it belongs to: the one whose head came last."""
    metric = ""
    for line in text.splitlines():
        if line.startswith("#"):
            metric = line.split(" ", 3)[2]
        yield metric, line


def _with_label(sample: str, replica: str) -> str:
    label = f'replica="{replica}"'
    name, brace, rest = sample.partition("{")
    if brace:
        return f"{name}{{{label},{rest}"
    name, _, value = sample.rpartition(" ")
    return f"{name}{{{label}}} {value}"


def resources_of(placement: RaySettings, settings: Settings) -> dict[str, float]:
    """What a replica takes of its node: a processor for each worker, unless the placement says more."""
    workers = 1 if settings.workers is None else max(1, settings.workers)
    return {"CPU": float(workers), **placement.resources}


def deployment_of(spec: ReplicaSpec, placement: RaySettings, *, surge: bool) -> Any:
    """The endpoint as an application for ``serve.run``.

    Args:
        spec: What each replica serves.
        placement: How many replicas, and what each takes of a node.
        surge: Whether the cluster has room to start a new replica before an old one ends.
    """
    serve = _optional.require("ray.serve", extra="ray")

    def build() -> Starlette:
        return _for_all_replicas(build_app(spec), spec.name)

    settings = spec.settings
    workers = max(1, settings.num_workers)
    least, most = placement.bounds
    resources = resources_of(placement, settings)
    actor = {"num_cpus": resources.pop("CPU"), "num_gpus": resources.pop("GPU", 0.0)}
    options: dict[str, Any] = {
        "name": DEPLOYMENT,
        "ray_actor_options": {**actor, "resources": resources} if resources else actor,
        # Two full batches for each worker: one is answered while the next one gathers.
        "max_ongoing_requests": min(settings.concurrency, 2 * settings.batch * workers * settings.threads),
        "max_queued_requests": settings.concurrency,
        "health_check_period_s": HEALTH_PERIOD_S,
        "graceful_shutdown_timeout_s": settings.drain_s,
        "max_constructor_retry_count": STARTS,
        "max_surge_percent": SURGE_PERCENT if surge else 0,
        "logging_config": {"enable_access_log": False, "log_level": "WARNING"},
    }
    if least == most:
        options["num_replicas"] = least
    else:
        target = ONGOING * workers * settings.threads
        options["autoscaling_config"] = {
            "min_replicas": least,
            "max_replicas": most,
            "target_ongoing_requests": target,
        } | SCALING
    known = inspect.signature(serve.deployment).parameters
    options = {name: value for name, value in options.items() if name in known}
    return serve.deployment(**options)(serve.ingress(build)(_Replica)).bind(spec)
