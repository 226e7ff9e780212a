"""The settings of an endpoint: SageMaker's limits, how many processes share the work, and its place on a Ray cluster."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from headrace.io.system import usable_cores

__all__ = ["RaySettings", "Settings"]

MEBIBYTE = 1 << 20
MOST_PORT = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of an endpoint.

    Raises:
        ValueError: An invalid value; the message names it.
    """

    host: str = "127.0.0.1"
    """The address to listen on. Other machines reach the endpoint only if this is not the loopback address."""
    port: int = 8080
    """The port to listen on; 0 takes a free one."""
    workers: int | None = None
    """Processes that hold the model and answer requests; one per processor by default. 0 answers in threads of the server's
    own process, for tests and where no process may be started."""
    threads: int = 1
    """Concurrent calls in one worker. More than one needs a container that is safe in threads."""
    max_payload_bytes: int = 6 * MEBIBYTE
    """Largest body of a request, and of an answer."""
    max_between_bytes: int = 5 * MEBIBYTE
    """Largest body between two containers of a pipeline."""
    timeout_s: float = 60.0
    """A request that takes longer is answered with 504, and a worker that hangs on it is replaced."""
    concurrency: int = 1000
    """Requests that may be queued or in progress at a time; more are answered with 503."""
    batch: int = 64
    """Most requests that are answered as one batch, if the containers can."""
    gather_ms: float = 2.0
    """How long a request waits for others to make a batch, while a worker is busy. An idle endpoint never waits."""
    drain_s: float = 25.0
    """How long requests in flight may take after SIGTERM. SageMaker kills after 30 s."""
    debug: bool = False
    """Whether answers to failed requests contain the traceback. The log always does."""
    fast_path: bool = True
    """Whether invocations are answered by the connection itself, for about a quarter of the processor time. ``False`` serves with
    uvicorn and Starlette alone."""

    def __post_init__(self) -> None:
        least = {
            "port": 0,
            "threads": 1,
            "max_payload_bytes": 1,
            "max_between_bytes": 1,
            "concurrency": 1,
            "batch": 1,
            "gather_ms": 0,
            "drain_s": 0,
        }
        for name, bound in least.items():
            if not getattr(self, name) >= bound:
                raise ValueError(f"{name} must be at least {bound}, got {getattr(self, name)}")
        if self.port > MOST_PORT:
            raise ValueError(f"port must be at most {MOST_PORT}, got {self.port}")
        if not self.timeout_s > 0:
            raise ValueError(f"timeout_s must be more than 0, got {self.timeout_s}")
        if self.workers is not None and self.workers < 0:
            raise ValueError(f"workers must be at least 0, got {self.workers}")

    @property
    def num_workers(self) -> int:
        """The number of worker processes, with the default resolved."""
        return usable_cores() if self.workers is None else self.workers

    def with_environment(self, environment: Mapping[str, str] | None = None) -> Settings:
        """These settings, overridden by the environment variables of SageMaker's containers.

        ``SAGEMAKER_BIND_TO_PORT``, ``SAGEMAKER_MODEL_SERVER_WORKERS``, ``SAGEMAKER_MODEL_SERVER_TIMEOUT`` (seconds) and
        ``MAX_CONTENT_LENGTH`` (bytes).

        Raises:
            ValueError: One of them is not a number.
        """
        given = os.environ if environment is None else environment
        found: dict[str, Any] = {}
        for variable, (name, kind) in VARIABLES.items():
            text = given.get(variable, "").strip()
            if text:
                try:
                    found[name] = kind(text)
                except ValueError:
                    raise ValueError(f"{variable} must be a number, got {text!r}") from None
        return replace(self, **found)

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Settings:
        """The inverse of :meth:`to_json`."""
        return cls(**values)


VARIABLES: dict[str, tuple[str, Callable[[str], float]]] = {
    "SAGEMAKER_BIND_TO_PORT": ("port", int),
    "SAGEMAKER_MODEL_SERVER_WORKERS": ("workers", int),
    "SAGEMAKER_MODEL_SERVER_TIMEOUT": ("timeout_s", float),
    "MAX_CONTENT_LENGTH": ("max_payload_bytes", int),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RaySettings:
    """The place of an endpoint on a Ray cluster.

    Raises:
        ValueError: An invalid value; the message names it.
    """

    replicas: int | tuple[int, int] = 1
    """How many replicas hold the model: a number, or the least and the most, between which Ray Serve chooses by the requests in
    progress."""
    address: str | None = None
    """The cluster, as for ``ray.init``. ``None``: a cluster on this machine that starts for the endpoint and ends with it."""
    resources: Mapping[str, float] = field(default_factory=dict)
    """What each replica takes of its node, such as ``{"CPU": 2, "GPU": 1}``. By default, one processor for each of its workers."""

    def __post_init__(self) -> None:
        least, most = self.bounds
        if not 1 <= least <= most:
            raise ValueError(f"replicas must be at least 1, or the least and the most, got {self.replicas!r}")
        for name, amount in self.resources.items():
            if not amount >= 0:
                raise ValueError(f"a replica cannot take {amount} of {name}")

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the most replicas."""
        if isinstance(self.replicas, int):
            return self.replicas, self.replicas
        try:
            least, most = map(operator.index, self.replicas)
        except (TypeError, ValueError):
            raise ValueError(f"replicas must be a number, or the least and the most, got {self.replicas!r}") from None
        return least, most

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {"replicas": list(self.bounds), "address": self.address, "resources": dict(self.resources)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> RaySettings:
        """The inverse of :meth:`to_json`."""
        least, most = values["replicas"]
        return cls(replicas=(least, most), address=values["address"], resources=values["resources"])
