"""A connection to Ray: to a cluster that runs, or to one started here for a while. No other module starts or stops Ray."""

from __future__ import annotations

import math
import os
import re
import socket
import threading
import warnings
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np

from headrace._arguments import check_choice
from headrace._optional import require
from headrace._ray.cluster import Cluster
from headrace.errors import MissingExtra, Unreachable, Where
from headrace.io.system import usable_cores, usable_memory

__all__ = ["check_place", "connect", "find_cluster", "require_ray"]

OLDEST = (2, 52)
ANSWER_S = 10.0
"""How long a cluster may take to answer. Ray itself waits two minutes, and then ends the process."""
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "RAY_TQDM_PATCH_PRINT": "0"}
STARTS = 4
"""How often a local Ray is started, if it is too slow: it gives its processes 30 seconds, which a busy machine may exceed."""
SLOW_START = "timed out during startup"
LEAST_STORE, MOST_STORE = 100 << 20, 1 << 30
HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""How a gRPC client begins: the preface of HTTP/2 and empty settings, which a server answers with its own (RFC 9113, 3.4)."""
SETTINGS_TYPE = 4


def check_place(on: object, resources: object = None, **options: object) -> None:
    """Check where a job or an endpoint is to run.

    Args:
        on: ``"processes"`` or ``"ray"``.
        resources: What each of its processes takes of its node.
        options: Other arguments that go with ``"ray"`` only; ``None`` where not given.

    Raises:
        TypeError: A value has another type.
        ValueError: There is no such place, processes have no such options, or an amount is none.
    """
    check_choice(on, "on", ("processes", "ray"))
    given = [name for name, value in {**options, "resources": resources or None}.items() if value is not None]
    if on == "processes" and given:
        raise ValueError(f"{' and '.join(given)}: only with on='ray', and on is 'processes'")
    if resources is not None and not isinstance(resources, Mapping):
        raise TypeError(f"resources must be a dict, such as {{'CPU': 2, 'GPU': 1}}, got {resources!r:.60}")
    for name, amount in (resources or {}).items():
        is_number = isinstance(amount, (int, float, np.integer)) and not isinstance(amount, bool)
        if not isinstance(name, str) or not is_number:
            raise TypeError(f"resources are names and numbers, such as {{'CPU': 2}}, got {name!r}: {amount!r}")
        if not (math.isfinite(amount) and amount >= 0):
            raise ValueError(f"resources are amounts of at least 0, got {name!r}: {amount!r}")


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
            _open.update(address=chosen, gcs=_current_address(ray), users=0, ours=True)
        elif address is not None and not _is_current(ray, address):
            here = _current_address(ray)
            raise ValueError(
                f"this process is connected to Ray at {here}. Leave the address out to use that cluster, "
                f"or call ray.shutdown() before connecting to {address}"
            )
        _open["users"] = _open.get("users", 0) + 1
    return Cluster(ray, _give_back)


def _give_back(ray: ModuleType) -> None:
    """End what :func:`connect` has started, unless it is still in use."""
    with _opening:
        _open["users"] -= 1
        if not _open["users"] and _open.pop("ours", False):
            _open.clear()
            ray.shutdown()


def find_cluster(address: str | None = None) -> str | None:
    """The address that :func:`connect` would connect to, for another process to do so; ``None`` if it would start a cluster."""
    ray = require_ray()
    if address is None and ray.is_initialized():
        return _current_address(ray)
    found = address or os.environ.get("RAY_ADDRESS") or "local"
    return None if found == "local" else found


_opening = threading.RLock()
_open: dict[str, Any] = {}
"""The connection that this module has made: the address it was asked for, that of the cluster, whether it is ours to end, and how many use it."""


def _current_address(ray: ModuleType) -> str:
    return str(ray.get_runtime_context().gcs_address)


def _is_current(ray: ModuleType, address: str) -> bool:
    """Whether an address is that of the connection that this process has.

    A ``ray://`` address is that of a proxy, and does not tell which cluster is behind it. So only one that :func:`connect` has itself
    connected to is known.
    """
    current = _current_address(ray)
    if address in ("auto", "local") or (address == _open.get("address") and current == _open.get("gcs")):
        return True
    host, _, port = address.rpartition(":")
    current_host, _, current_port = current.rpartition(":")
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
        for is_last in (*[False] * (STARTS - 1), True):
            try:
                ray.init(address=address, **options)
            except (ConnectionError, TimeoutError, RuntimeError, SystemExit) as error:
                raise Unreachable(
                    Where(path=address), expected="a Ray cluster", found=str(error), hint="Look at `ray status` there."
                ) from error
            except Exception as error:
                if SLOW_START not in str(error):
                    raise
                if is_last:
                    raise Unreachable(
                        Where(path=address),
                        expected="a local Ray that starts within 30 s",
                        found=f"none in {STARTS} attempts",
                        hint="The machine may be too busy, or have too little memory: see the logs of Ray.",
                    ) from error
            else:
                return


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
