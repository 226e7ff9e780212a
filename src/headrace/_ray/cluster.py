"""Tasks and actors of a cluster that this process is connected to: :meth:`Cluster.submit`, and what runs on the worker.

On the worker a task first compares the version of Headrace with the driver's. It counts as one busy thread, because Ray gives each task
one core.
"""

from __future__ import annotations

import os
import pickle
import socket
import sys
import threading
import traceback
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Self

from headrace._optional import require
from headrace.errors import DataError, HeadraceError, UnsupportedData, Where, WorkerDied, describe_error
from headrace.io.system import as_pool_thread, search_path

__all__ = ["Cluster", "RayNode", "Shared", "enter_folder", "is_end_of_worker"]

RETRIES = 20
"""How often a task is started again after its worker or node was lost. Not without end: a task may itself end its worker."""


@dataclass(frozen=True, slots=True)
class RayNode:
    """One living node of a cluster.

    Args:
        id: As Ray writes it.
        name: Its address, and the machine's name.
        cpus: How many it offers to tasks.
    """

    id: str
    name: str
    cpus: float


@dataclass(frozen=True, slots=True)
class Shared:
    """A value for many tasks, in the object store.

    Args:
        key: Differs for each.
        reference: Of the pickled value.
        bytes: Its size.
    """

    key: str
    reference: Any
    bytes: int


class Cluster:
    """A connection to Ray.

    Args:
        ray: The module, connected.
        give_back: Called with it once, when this is closed.
    """

    def __init__(self, ray: ModuleType, give_back: Callable[[ModuleType], None]) -> None:
        self.ray = ray
        self._give_back = give_back
        self._closing = threading.Lock()
        self._closed = False
        self._dumps: Callable[[Any], bytes] = ray.cloudpickle.dumps  # also for functions of the user's main program
        self._call = ray.remote(_checking_call(_own_version()))

    def close(self) -> None:
        """Give the connection back. The last to do so ends what was started for it, and nothing else."""
        with self._closing:
            if not self._closed:
                self._closed = True
                self._give_back(self.ray)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def is_remote(self) -> bool:
        """Whether it was reached through Ray Client, at ``ray://``: this process is none of the cluster, and streams no results."""
        return bool(self.ray.util.client.ray.is_connected())

    def cpus(self) -> int:
        """How many tasks of one core the cluster runs at once, at least 1."""
        return max(1, int(sum(node.cpus for node in self.nodes())))

    def nodes(self) -> list[RayNode]:
        """The living nodes, by identifier."""
        found = [
            RayNode(
                node["NodeID"],
                f"{node['NodeManagerAddress']} ({node['NodeManagerHostname']})",
                node["Resources"].get("CPU", 0.0),
            )
            for node in self.ray.nodes()
            if node["Alive"]
        ]
        return sorted(found, key=lambda node: node.id)

    def share(self, value: Any) -> Shared:
        """Send a value that many tasks take to each node once, and unpickle it once in each worker process."""
        content = self._dumps(value)
        return Shared(uuid.uuid4().hex, self.ray.put(content), len(content))

    def submit(
        self,
        function: Callable[..., Any],
        *args: Any,
        common: Shared | None = None,
        cpus: float = 1,
        retries: int = RETRIES,
        node: RayNode | None = None,
    ) -> Any:
        """Run ``function(*args)``, or ``function(common, *args)``, on a worker; returns a reference for :meth:`result` and ``ray.wait``.

        Args:
            function: One of a module, and not a method, so that it is sent by name.
            args: Sent by pickle. Large ones belong into files, and not here.
            common: What :meth:`share` made.
            cpus: How many cores Ray sets aside.
            retries: How often it is started again when its worker or node dies. Its own exceptions end it at once.
            node: Run it there and nowhere else.
        """
        options: dict[str, Any] = {"num_cpus": cpus, "max_retries": retries, "retry_exceptions": False}
        if node is not None:
            strategies = require("ray.util.scheduling_strategies", extra="ray")
            options["scheduling_strategy"] = strategies.NodeAffinitySchedulingStrategy(node.id, soft=False)
        options["name"] = f"headrace {function.__name__.strip('_')}"
        place = _working_folder(), search_path()
        call, work = self._call.options(**options), self._dumps((self._dumps((function, args)), *place))
        return call.remote(work) if common is None else call.remote(work, common.key, common.reference)

    def result(self, reference: Any) -> Any:
        """Wait for a task.

        Raises:
            UnsupportedData: The worker has another version of Headrace.
            WorkerDied: Its worker or node died, again and again.
            Exception: What the function raised, with a note that names the node.
        """
        problems = require("ray.exceptions", extra="ray")
        try:
            outcome = self.ray.get(reference)
        except problems.RayTaskError as error:
            raise WorkerDied(f"a Ray task could not start: {error}") from None
        except problems.RayError as error:
            text = str(error).strip().partition("\n")[0]
            raise WorkerDied(
                f"a Ray task died more often than it is tried again. {type(error).__name__}: {text}"
            ) from error
        if "value" in outcome:
            return outcome["value"]
        if "error" in outcome:
            outcome["error"].add_note(f"On the Ray node {outcome['node']}.{outcome['trace']}")
            raise outcome["error"]
        raise UnsupportedData(
            Where(path=f"node {outcome['node']}"),
            expected=f"Headrace {_own_version()} on the worker, as on the driver",
            found=outcome["found"],
            hint="Install the same version on every node, or name it in ray.init(runtime_env={'pip': [...]}).",
        )

    def on_each_node(self, function: Callable[..., Any], *args: Any) -> Iterator[tuple[RayNode, Any]]:
        """Run ``function(*args)`` once on every node that has cores; yields each node with the result, or raises as :meth:`result`."""
        waiting = [(node, self.submit(function, *args, cpus=0, node=node)) for node in self.nodes() if node.cpus]
        for node, reference in waiting:
            try:
                found = self.result(reference)
            except WorkerDied:
                if node in self.nodes():
                    raise
                continue  # it left meanwhile, and needs to do nothing
            yield node, found


def _own_version() -> str:
    return str(sys.modules["headrace"].__version__)


def _working_folder() -> str:
    return str(Path.cwd())


def _checking_call(version: str) -> Callable[..., dict[str, Any]]:
    """The function that runs on a worker. Being local, it is sent as code: a worker with another Headrace can still run it."""

    def headrace_task(work: bytes, key: str = "", common: bytes = b"") -> dict[str, Any]:
        import importlib
        import socket

        try:
            found = f"Headrace {importlib.import_module('headrace').__version__}"
        except ImportError:
            found = "no Headrace"
        if found != f"Headrace {version}":
            return {"node": socket.gethostname(), "found": found}
        outcome: dict[str, Any] = importlib.import_module("headrace._ray.cluster").run_task(work, key, common)
        return outcome

    return headrace_task


_common: dict[str, Any] = {}
"""In a worker: the shared value of the task before, which is that of the next one too."""


def run_task(work: bytes, key: str, common: bytes) -> dict[str, Any]:
    """Run a task on this worker as one busy thread.

    Args:
        work: A function and its arguments, pickled.
        key: Of the shared value; empty: there is none.
        common: The shared value, pickled.

    Returns:
        Its value, or its error with the node and the traceback: pickling an exception by itself would lose both.
    """
    try:
        call, folder, path = pickle.loads(work)  # noqa: S301 - from the driver, by way of Ray, which pickles too
        enter_folder(folder, path)
        function, args = pickle.loads(call)  # noqa: S301
        if key:
            if key not in _common:
                _common.clear()
                _common[key] = pickle.loads(common)  # noqa: S301
            args = (_common[key], *args)
        with as_pool_thread():
            return {"value": function(*args)}
    except (Exception, SystemExit) as error:
        if is_end_of_worker(error):
            raise
        trace = "" if isinstance(error, DataError) else f" There:\n{traceback.format_exc()}"
        return {"error": _portable(error), "node": _own_node(), "trace": trace}


def enter_folder(folder: str, path: Sequence[str]) -> None:
    """Make relative paths and imports on a worker mean the same as in the driver.

    Args:
        folder: The working folder of the driver. Left out where this node does not have it.
        path: What :func:`search_path` gives there.
    """
    if Path(folder).is_dir():
        os.chdir(folder)
    sys.path.extend(one for one in path if one not in sys.path)


def is_end_of_worker(error: BaseException) -> bool:
    """Whether an error is Ray's own end of a worker, as after SIGTERM, and not a ``sys.exit()`` in a function."""
    return hasattr(error, "ray_terminate_msg")


def _portable(error: BaseException) -> BaseException:
    """The error, or one that says the same where it cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301
    except Exception:  # noqa: BLE001 - whatever a class of the user raises
        return HeadraceError(describe_error(error))
    return error


def _own_node() -> str:
    ray = require("ray", extra="ray")
    return f"{ray.util.get_node_ip_address()} ({socket.gethostname()})"
