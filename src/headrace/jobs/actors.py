"""Processes of a Ray cluster that work on a job. They report as they work, and their death is noticed."""

from __future__ import annotations

import contextlib
import queue
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from headrace._optional import require
from headrace._ray.cluster import Cluster
from headrace.errors import JobFailed, WorkerDied, describe_error
from headrace.io.system import discard_folder, search_path

__all__ = ["EventQueue", "RemoteActor", "check_direct", "node_name", "shared_folder_token", "size_of_place"]


class EventQueue:
    """What an actor reports while it works in a thread: lines of containers, progress, the result.

    Threads of containers put events at any time, also between two calls.
    """

    def __init__(self) -> None:
        self._events: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def put(self, kind: str, value: Any) -> None:
        """Report something."""
        self._events.put((kind, value))

    def run(self, work: Callable[[], Any]) -> Iterator[list[tuple[str, Any]]]:
        """Run a function in a thread. Yields what is reported meanwhile, and then its result as ``("result", value)``.

        Raises:
            BaseException: What the function raised, after everything that it reported.
        """
        errors: list[BaseException] = []

        def run() -> None:
            try:
                self._events.put(("result", work()))
            except BaseException as error:  # noqa: BLE001 - raised below
                errors.append(error)
                self._events.put(("error", None))

        threading.Thread(target=run, name="headrace actor", daemon=True).start()
        is_done = False
        while not is_done:
            events = [self._events.get()]
            with contextlib.suppress(queue.Empty):
                while True:
                    events.append(self._events.get_nowait())
            is_done = any(_ends(event) for event in events)
            # The result comes last, also behind lines that a container printed at the same moment.
            yield sorted((event for event in events if event[0] != "error"), key=_ends)
        if errors and isinstance(errors[0], SystemExit):  # it would end this process
            raise JobFailed(f"AlgorithmError: {describe_error(errors[0])}") from errors[0]
        if errors:
            raise errors[0]


def _ends(event: tuple[str, Any]) -> bool:
    return event[0] in ("result", "error")


class RemoteActor:
    """An object in a process of the cluster. It answers one more call while it works, such as one to stop.

    Args:
        cluster: The cluster.
        factory: Makes the object there: a class or function of a module.
        args: Its arguments, sent by pickle. They may be of classes of the user's main program.
        resources: What the process takes of its node, such as ``{"CPU": 1}``.

    The process has the working folder of this one, if its node has it, and imports from the same folders.

    Raises:
        JobFailed: An argument cannot be pickled.
    """

    def __init__(
        self, cluster: Cluster, factory: Callable[..., Any], *args: Any, resources: Mapping[str, float] | None = None
    ) -> None:
        taken = dict(resources or {})
        options: dict[str, Any] = {"num_cpus": taken.pop("CPU", 1.0), "num_gpus": taken.pop("GPU", 0.0)}
        options |= {"max_restarts": 0, "max_concurrency": 2, "scheduling_strategy": "SPREAD"}
        kind = cluster.ray.remote(_actor_class())
        self._cluster = cluster
        try:
            work = cluster.ray.cloudpickle.dumps((factory, args))
        except Exception as error:
            raise JobFailed(
                f"ClientError: a container and a store are sent to the nodes of Ray, and must be picklable: {type(error).__name__}: {error}"
            ) from error
        version = sys.modules["headrace"].__version__
        self._handle = kind.options(**options, resources=taken).remote(version, work, str(Path.cwd()), search_path())

    def stream(self, method: str, *args: Any) -> Iterator[Any]:
        """Call a method that yields; gives what it yields.

        Raises:
            WorkerDied: The process or its node died.
            JobFailed: Its node has another version of Headrace, or cannot import what its arguments are made of.
            Exception: What the method raised, as on this machine.
        """
        problems = require("ray.exceptions", extra="ray")
        try:
            for reference in self._handle.stream.options(num_returns="streaming").remote(method, args):
                found = self._cluster.ray.get(reference)
                if isinstance(found, str):
                    raise JobFailed(found)
                yield found[0]
        except problems.RayTaskError as error:
            cause = error.cause
            raise (cause if isinstance(cause, Exception) else WorkerDied(str(error))) from None
        except problems.RayError as error:
            text = " ".join(str(error).split("\n\t", 1)[0].split())
            raise WorkerDied(f"{type(error).__name__}: {text}") from error

    def kill(self) -> None:
        """End its process. Processes that it has started end with it."""
        with contextlib.suppress(Exception):  # It is dead, or the cluster is.
            self._cluster.ray.kill(self._handle)


def _actor_class() -> type:
    """The class of all actors. Being local, it is sent as code, so that a node with another Headrace can say so."""

    class HeadraceActor:
        def __init__(self, version: str, work: bytes, folder: str, path: list[str]) -> None:
            import importlib
            import os
            import pickle
            import sys
            from pathlib import Path

            try:
                found = f"Headrace {importlib.import_module('headrace').__version__}"
            except ImportError:
                found = "no Headrace"
            self.fault = ""
            node = os.uname().nodename if hasattr(os, "uname") else "?"
            if found != f"Headrace {version}":
                self.fault = f"InternalServerError: node {node} has {found}, and Headrace {version} is here: install the same version everywhere"
                return
            if Path(folder).is_dir():
                os.chdir(folder)  # relative paths mean the same as in the driver
            sys.path.extend(one for one in path if one not in sys.path)
            try:
                factory, args = pickle.loads(work)  # noqa: S301 - from the driver, by way of Ray, which does the same
            except Exception as error:  # noqa: BLE001 - a module of the user that is not there, or fails
                self.fault = (
                    f"ClientError: node {node} cannot load the container or the store: {type(error).__name__}: {error}. "
                    "Every node needs the modules that they come from"
                )
                return
            self.inner = factory(*args)

        def stream(self, method: str, args: tuple[Any, ...]) -> Iterator[Any]:
            if self.fault:
                yield self.fault
                return
            for one in getattr(self.inner, method)(*args):
                yield (one,)

    return HeadraceActor


def check_direct(cluster: Cluster) -> None:
    """Refuse a connection through Ray Client, by which no results can be streamed.

    Raises:
        JobFailed: The address begins with ``ray://``.
    """
    if cluster.is_remote:
        raise JobFailed(
            "ClientError: jobs need a process on a node of the Ray cluster, and ray:// is an address for others: run this on a node, with "
            "address='auto' or host:port"
        )


def node_name() -> str:
    """The address of the node that this process runs on, and its identifier in the cluster."""
    ray = require("ray", extra="ray")
    node = ray.get_runtime_context().get_node_id()
    return f"{ray.util.get_node_ip_address()} ({node[:8]})"


def size_of_place(cluster: Cluster, resources: Mapping[str, float]) -> int:
    """How many actors with these resources the living nodes hold."""
    wanted = {name: amount for name, amount in resources.items() if amount > 0}
    total = 0
    for node in cluster.ray.nodes():
        if node["Alive"]:
            total += min((int(node["Resources"].get(name, 0) // amount) for name, amount in wanted.items()), default=1)
    return total


@contextlib.contextmanager
def shared_folder_token(folder: Path, job: str) -> Iterator[Path]:
    """A hidden folder in a folder for nodes to look for: those that do not see it do not share the folder.

    Args:
        folder: Created if missing.
        job: The name of the job. If it is killed, its next run removes what is left.
    """
    token = folder / f".headrace-shared-{job}"
    folder.mkdir(parents=True, exist_ok=True)
    token.mkdir(exist_ok=True)
    try:
        yield token
    finally:
        discard_folder(token)
