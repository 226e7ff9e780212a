"""A connection to Ray: to a cluster that runs, or to one started here for a while. No other module starts or stops Ray.

Tasks go through :meth:`Cluster.submit`. On the worker they first compare the version of Headrace with the driver's, and they count
as one busy thread, because Ray gives each task one core.
"""

from __future__ import annotations

import os
import pickle
import re
import socket
import sys
import threading
import traceback
import uuid
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Self

from headrace._optional import require
from headrace.errors import DataError, HeadraceError, MissingExtra, Unreachable, UnsupportedData, Where, WorkerDied
from headrace.io.system import as_pool_thread, usable_cores, usable_memory

__all__ = ["Cluster", "RayNode", "Shared", "connect", "find_cluster", "require_ray"]

OLDEST = (2, 52)
RETRIES = 20
"""How often a task is started again after its worker or node was lost. Not without end: a task may itself end its worker."""
ANSWER_S = 10.0
"""How long a cluster may take to answer. Ray itself waits two minutes, and then ends the process."""
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "RAY_TQDM_PATCH_PRINT": "0"}
LEAST_STORE, MOST_STORE = 100 << 20, 1 << 30
HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""How a gRPC client begins: the preface of HTTP/2 and empty settings, which a server answers with its own (RFC 9113, 3.4)."""
SETTINGS_TYPE = 4


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


def require_ray() -> ModuleType:
    """Import Ray, with usage statistics off.

    Raises:
        MissingExtra: It is not installed, or is older than 2.52.
    """
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    ray = require("ray", extra="ray")
    found = tuple(int(part) for part in re.findall(r"\d+", ray.__version__)[:2])
    if found < OLDEST:
        raise MissingExtra(f"Ray 2.52 or newer, and {ray.__version__} is installed", "ray")
    return ray


def connect(
    address: str | None = None,
    *,
    object_store_bytes: int | None = None,
    cpus: int | None = None,
    shows_log: bool = False,
) -> Cluster:
    """Connect to Ray. Close the result, or use it as a context.

    A connection that this process already has is used as it is. Otherwise the cluster at ``address`` or ``RAY_ADDRESS`` is
    connected to, and without either a local one starts, which ends when the last connection is closed.

    Args:
        address: ``host:port`` or ``ray://host:port`` of a cluster, ``"auto"`` for the one on this machine, ``"local"`` for a new one.
        object_store_bytes: Size of the object store of a local cluster; by default a tenth of the memory, at most 1 GiB.
        cpus: The cores of a local cluster; by default those of this machine.
        shows_log: Whether to write what workers print to the standard error of this process.

    Raises:
        MissingExtra: Ray is not installed, or too old.
        Unreachable: Nothing answers at the address within 10 seconds.
        ValueError: This process is connected to another cluster.
    """
    ray = require_ray()
    with _opening:
        if not ray.is_initialized():
            chosen = address or os.environ.get("RAY_ADDRESS") or "local"
            _start(ray, chosen, object_store_bytes, cpus, shows_log=shows_log)
            _open.update(address=chosen, users=0, ours=True)
        elif address is not None and not _is_current(ray, address):
            here = ray.get_runtime_context().gcs_address
            raise ValueError(
                f"this process is connected to Ray at {here}: call ray.shutdown() before connecting to {address}"
            )
        _open["users"] = _open.get("users", 0) + 1
    return Cluster(ray)


def find_cluster(address: str | None = None) -> str | None:
    """The address that :func:`connect` would connect to, for another process to do so; ``None`` if it would start a cluster."""
    ray = require_ray()
    if address is None and ray.is_initialized():
        return str(ray.get_runtime_context().gcs_address)
    found = address or os.environ.get("RAY_ADDRESS") or "local"
    return None if found == "local" else found


_opening = threading.RLock()
_open: dict[str, Any] = {}
"""The connection that this module has made: its address, whether it is ours to end, and how many use it."""


def _is_current(ray: ModuleType, address: str) -> bool:
    if address in ("auto", "local", _open.get("address")) or address.startswith("ray://"):
        return True
    host, _, port = address.rpartition(":")
    current_host, _, current_port = ray.get_runtime_context().gcs_address.rpartition(":")
    same = host == current_host or host in ("localhost", "127.0.0.1", "")
    return same and port == current_port


def _start(ray: ModuleType, address: str, object_store_bytes: int | None, cpus: int | None, *, shows_log: bool) -> None:
    options: dict[str, Any] = {"log_to_driver": shows_log, "logging_level": "error"}
    if address == "local":
        tenth = (usable_memory() or 0) // 10
        size = object_store_bytes or min(max(tenth, LEAST_STORE), MOST_STORE)
        options |= {"num_cpus": cpus or usable_cores(), "include_dashboard": False, "object_store_memory": size}
    else:
        _check_answer(address)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about Ray's own future
        try:
            ray.init(address=address, **options)
        except (ConnectionError, TimeoutError, RuntimeError, SystemExit) as error:
            raise Unreachable(
                Where(path=address), expected="a Ray cluster", found=str(error), hint="Look at `ray status` there."
            ) from error


def _check_answer(address: str) -> None:
    """Raise within seconds if no server of Ray's protocol answers."""
    if os.environ.get("RAY_USE_TLS", "0") != "0":
        return
    plain = address.removeprefix("ray://")
    if plain == "auto":
        services = require("ray._private.services", extra="ray")
        plain = services.canonicalize_bootstrap_address("auto") or ""
        if not plain:
            raise Unreachable(
                Where(path=address),
                expected="a Ray cluster on this machine",
                found="none",
                hint="Start it with `ray start`.",
            )
    host, _, port = plain.rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError(
            f"the address of a Ray cluster is host:port, ray://host:port, 'auto' or 'local', got {address!r}"
        )
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_S) as server:
            server.sendall(HELLO)
            answer = server.recv(9)
        found = "another kind of server" if len(answer) < 4 or answer[3] != SETTINGS_TYPE else ""
    except TimeoutError:
        found = f"no answer within {ANSWER_S:.0f} s"
    except (OSError, OverflowError) as error:
        found = str(error)
    if found:
        raise Unreachable(
            Where(path=address),
            expected="a Ray cluster that answers",
            found=found,
            hint="Check the address (RAY_ADDRESS, --address), and `ray status` on the head node.",
        )


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
    """A connection to Ray that :func:`connect` made.

    Args:
        ray: The module.
    """

    def __init__(self, ray: ModuleType) -> None:
        self.ray = ray
        self._closed = False
        self._dumps: Callable[[Any], bytes] = ray.cloudpickle.dumps  # also for functions of the user's main program
        self._call = ray.remote(_checking_call(_own_version()))

    def close(self) -> None:
        """Give the connection back. The last to do so ends what :func:`connect` has started, and nothing else."""
        with _opening:
            if self._closed:
                return
            self._closed = True
            _open["users"] -= 1
            if not _open["users"] and _open.pop("ours", False):
                _open.clear()
                self.ray.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

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
        call, work = self._call.options(**options), self._dumps((function, args, _working_folder()))
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
        outcome: dict[str, Any] = importlib.import_module("headrace._ray").run_task(work, key, common)
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
        function, args, folder = pickle.loads(work)  # noqa: S301 - from the driver, by way of Ray, which pickles too
        if Path(folder).is_dir():
            os.chdir(folder)  # relative paths mean the same as in the driver
        if key:
            if key not in _common:
                _common.clear()
                _common[key] = pickle.loads(common)  # noqa: S301
            args = (_common[key], *args)
        with as_pool_thread():
            return {"value": function(*args)}
    except Exception as error:  # noqa: BLE001 - raised again by the driver
        trace = "" if isinstance(error, DataError) else f" There:\n{traceback.format_exc()}"
        return {"error": _portable(error), "node": _own_node(), "trace": trace}


def _portable(error: Exception) -> Exception:
    """The error, or one that says the same where it cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301
    except Exception:  # noqa: BLE001 - whatever a class of the user raises
        return HeadraceError(f"{type(error).__name__}: {error}")
    return error


def _own_node() -> str:
    ray = require_ray()
    return f"{ray.util.get_node_ip_address()} ({socket.gethostname()})"
