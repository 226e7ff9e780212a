"""Named endpoints: processes that outlive the caller. Other processes can list, invoke, update and delete them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from http.client import HTTPConnection
from typing import Any, Literal, Unpack

from headrace import _hooks
from headrace._ray.connection import check_place, find_cluster
from headrace.errors import LOG_MARK
from headrace.hosting.client import Body, Client, InvocationResult, InvokeOptions
from headrace.hosting.registry import EndpointEntry, EndpointError, all_entries
from headrace.hosting.run import LEAVE_S, remove_replicas, start_process
from headrace.hosting.settings import RaySettings, Settings
from headrace.hosting.stage import Stage, check_stages, container_names
from headrace.io.system import search_path

__all__ = [
    "Endpoint",
    "EndpointError",
    "Status",
    "create_endpoint",
    "find_endpoint",
    "list_endpoints",
]


Status = Literal["Creating", "Updating", "InService", "Failed", "Stopped"]

PAUSE_S = 0.05
PING_TIMEOUT_S = 2.0  # as in SageMaker
MOST_LOG_LINES = 20
REPLACED_S = 3.0
FAILED = "does not load"


class Endpoint:
    """One endpoint, running or not. Returned by :func:`create_endpoint`, :func:`find_endpoint` and :func:`list_endpoints`.

    Attributes:
        name: Its name.
    """

    def __init__(self, entry: EndpointEntry) -> None:
        self.name: str = entry.name
        self._entry = entry
        self._client: Client | None = None

    def _repr_html_(self) -> str | None:
        return _hooks.to_html(self)

    def __repr__(self) -> str:
        return f"Endpoint({self.name!r}, {self.status})"

    @property
    def status(self) -> Status:
        """``"Creating"`` until its model is loaded; then ``"InService"``; ``"Updating"`` while new containers are rolled out and it answers
        all the same; ``"Failed"`` if it could not start; ``"Stopped"`` if its process has ended, for example by a restart of the machine.
        """
        if not self._entry.is_alive():
            return "Failed" if self._entry.read("state").get("failure") else "Stopped"
        if self.unready is not None:
            return "Creating"
        return "Updating" if self._entry.read("state").get("updating") else "InService"

    @property
    def address(self) -> str | None:
        """``http://host:port``, or ``None`` if it does not listen."""
        return self._entry.read("state").get("address") if self._entry.is_alive() else None

    @property
    def pid(self) -> int | None:
        """Its process number, or ``None`` if it does not run."""
        return self._entry.read("state").get("pid") if self._entry.is_alive() else None

    @property
    def unready(self) -> str | None:
        """Why it cannot answer now; ``None`` if it can."""
        address, state = self.address, self._entry.read("state")
        if address is None or state.get("waiting"):
            return state.get("failure") or state.get("waiting") or "it does not run"
        try:
            status, _, body = Client(address).request(
                "GET", "/ping", headers={"Connection": "close"}, timeout_s=PING_TIMEOUT_S
            )
            return None if status == 200 else str(json.loads(body)["message"])
        except (OSError, ValueError, KeyError) as error:
            return f"it does not answer: {error}"

    @property
    def stages(self) -> list[Stage]:
        """Its containers, in order."""
        return [Stage.from_json(plain) for plain in self._entry.read("spec").get("stages", ())]

    def describe(self) -> dict[str, Any]:
        """Its name, status, address, containers and so on, as JSON values."""
        state, spec = self._entry.read("state"), self._entry.read("spec")
        status, stages = self.status, self.stages
        return {
            "name": self.name,
            "status": status,
            "address": self.address,
            "pid": self.pid,
            "created": state.get("created"),
            "containers": container_names(stages),
            "models": [stage.model_dir for stage in stages],
            "log": str(self._entry.log),
            "reason": None if status in ("InService", "Updating") else self.unready,
            **({"replicas": state.get("replicas", 0), "cluster": state.get("cluster")} if "ray" in spec else {}),
        }

    def invoke(
        self,
        body: Body,
        **options: Unpack[InvokeOptions],
    ) -> InvocationResult:
        """Get a prediction; see :meth:`headrace.hosting.client.Client.invoke`.

        Raises:
            ModelError: A container, or the endpoint itself, answered with an error.
            EndpointError: It does not run.
        """
        try:
            return self._connect().invoke(body, **options)
        except ConnectionError as error:
            self._client = None
            if self.address is None:
                raise self._not_running() from None
            raise EndpointError(f"the endpoint {self.name} does not answer: {error}") from error

    def logs(self, lines: int | None = None) -> str:
        """The output of its processes: everything, or the last lines."""
        try:
            text = self._entry.log.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""
        return text if lines is None else "".join(text.splitlines(keepends=True)[-lines:])

    def update(
        self,
        stages: Sequence[Stage],
        *,
        settings: Settings | None = None,
        replicas: int | tuple[int, int] | None = None,
        wait_s: float | None = 900.0,
    ) -> None:
        """Replace its containers while it answers, one replica after another. Only for an endpoint on Ray.

        Args:
            stages: Its new containers, 1 to 15.
            settings: New limits; by default those that it has. Its address stays.
            replicas: Another number of replicas, or the least and the most.
            wait_s: How long to wait until every replica has the new containers. ``None`` does not wait.

        Raises:
            EndpointError: The new model does not load, so the endpoint keeps its containers; it did not finish in time; another update
                replaced this one; or the endpoint is not on Ray, or does not run.
            ValueError: An invalid set of containers.
        """
        check_stages(stages)
        spec = self._entry.read("spec")
        if "ray" not in spec or not self._entry.is_alive():
            reason = f"it is {self.status}" if "ray" in spec else "it is not on Ray"
            raise EndpointError(f"the endpoint {self.name} cannot be updated: {reason}. Delete it, and create it again")
        placement = RaySettings.from_json(spec["ray"])
        placement = placement if replicas is None else replace(placement, replicas=replicas)
        version = uuid.uuid4().hex
        new = {"stages": [stage.to_json() for stage in stages], "ray": placement.to_json(), "version": version}
        if settings is not None:
            new["settings"] = settings.to_json()
        self._entry.write("spec", {**spec, "path": search_path(), **new})
        if wait_s is not None:
            self._wait_for(version, wait_s)

    def _wait_for(self, version: str, wait_s: float) -> None:
        """Wait until an update is rolled out."""
        deadline = time.monotonic() + wait_s
        seen = time.monotonic()  # when this was the newest update
        while (settled := self._entry.read("state").get("settled", {})).get(version, "") == "":
            if self._entry.read("spec").get("version") == version:
                seen = time.monotonic()
            elif time.monotonic() - seen > REPLACED_S:  # A failed one is replaced, too, and settled a moment later.
                raise EndpointError(f"the update of the endpoint {self.name} was replaced by another one")
            if not self._entry.is_alive():
                raise EndpointError(f"the endpoint {self.name} ended during its update: {self.unready}")
            if time.monotonic() > deadline:
                raise EndpointError(f"the update of the endpoint {self.name} takes longer than {wait_s:g} s")
            time.sleep(PAUSE_S)
        if settled[version] is not None:
            raise EndpointError(
                f"the endpoint {self.name} keeps its containers, since the update failed: {settled[version]}"
            )

    def stop(self, *, timeout_s: float = 30.0) -> None:
        """Stop its processes, after answering the requests in flight. Does nothing if it does not run.

        Args:
            timeout_s: How long that may take. Then it is killed, as SageMaker does. An endpoint on Ray has a minute at least.
        """
        if "ray" in self._entry.read("spec"):
            timeout_s = max(timeout_s, LEAVE_S)
        for number, patience_s in ((signal.SIGTERM, timeout_s), (signal.SIGKILL, timeout_s)):
            deadline = time.monotonic() + patience_s
            while self._entry.is_alive():
                pid = self.pid
                if pid is not None:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, number)
                    break
                if time.monotonic() > deadline:  # It did not record its process number in time.
                    return
                time.sleep(PAUSE_S)
            while self._entry.is_alive() and time.monotonic() < deadline:
                time.sleep(PAUSE_S)
        if self._entry.read("state").get("cluster") and not self._entry.is_alive():
            remove_replicas(self._entry)  # It was killed: its replicas are still in the cluster.

    def delete(self) -> None:
        """Stop it, and delete its folder with its log. Does nothing if it is deleted already."""
        self.stop()
        if self._client is not None:
            self._client.close()
            self._client = None
        self._entry.remove()

    def _connect(self) -> Client:
        if self._client is None:
            address = self.address
            if address is None:
                raise self._not_running()
            self._client = _EndpointClient(address, self._entry)
        return self._client

    def _not_running(self) -> EndpointError:
        return EndpointError(f"the endpoint {self.name} is {self.status}: {self.unready}")

    def _wait(self, wait_s: float) -> None:
        deadline = time.monotonic() + wait_s
        while True:
            reason = self.unready
            if reason is None:
                return
            if not self._entry.is_alive() or FAILED in reason or time.monotonic() > deadline:
                break
            time.sleep(PAUSE_S)
        if time.monotonic() > deadline:
            reason = f"it was not in service within {wait_s:g} s: {reason}"
        self.stop(timeout_s=PING_TIMEOUT_S)
        self._entry.write("state", {"failure": reason})
        tail = self.logs(MOST_LOG_LINES).rstrip()
        raise EndpointError(
            f"the endpoint {self.name} cannot be created: {reason}" + (f"{LOG_MARK}{tail}" if tail else "")
        )


class _EndpointClient(Client):
    """The client of a named endpoint. It opens no connection to another endpoint that has got the port."""

    def __init__(self, address: str, entry: EndpointEntry) -> None:
        super().__init__(address)
        self._entry = entry

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.address, self._entry)

    def _open(self, timeout_s: float) -> HTTPConnection:
        if not self._entry.is_alive() or self._entry.read("state").get("address") != self.address:
            raise ConnectionError(f"the endpoint {self._entry.name} has left {self.address}")
        return super()._open(timeout_s)


def create_endpoint(
    name: str,
    stages: Sequence[Stage],
    *,
    settings: Settings | None = None,
    direct: bool = False,
    wait_s: float | None = 240.0,
    on: Literal["processes", "ray"] = "processes",
    replicas: int | tuple[int, int] = 1,
    address: str | None = None,
    resources: Mapping[str, float] | None = None,
) -> Endpoint:
    """Start an endpoint in its own process, which outlives this one.

    Args:
        name: Up to 63 letters, digits and inner hyphens. The name of a stopped or failed endpoint may be used again.
        stages: Its containers, 1 to 15.
        settings: Limits and workers; by default it listens on a free port of the loopback address.
        direct: Send each request to the one container that its header names, not through all of them.
        wait_s: How long to wait until its model is loaded (SageMaker gives it 4 minutes). ``None`` does not wait.
        on: Where the model is held: in worker processes of this machine, or in replicas under Ray Serve.
        replicas: With ``on="ray"``, how many: a number, or the least and the most.
        address: The Ray cluster, as for ``ray.init``. By default the cluster that this process uses, else ``RAY_ADDRESS``, else one on this machine
            that starts for the endpoint and ends with it.
        resources: What each replica takes of its node, such as ``{"CPU": 2, "GPU": 1}``. By default, one processor for each worker.

    Raises:
        MissingExtra: Ray is not installed.
        EndpointError: Its model does not load, or not in time. The message has the reason and the end of the log. The endpoint
            is stopped and stays in the list as ``"Failed"``.
        ValueError: An invalid set of containers, another place, or an option of Ray for an endpoint in processes.
    """
    check_stages(stages)
    check_place(on, resources, address=address, replicas=None if replicas == 1 else replicas)
    if sys.platform == "win32":
        raise EndpointError("named endpoints need a POSIX system; use headrace serve, which runs in the foreground")
    placement = None
    if on == "ray":
        placement = RaySettings(replicas=replicas, address=find_cluster(address), resources=resources or {})
    entry = EndpointEntry(name)
    claim = entry.claim()
    try:
        chosen = settings or Settings(port=0)
        if entry.read("state").get("cluster"):
            remove_replicas(entry)  # The endpoint of this name was killed: its replicas are still in the cluster.
        (entry.folder / "state.json").unlink(missing_ok=True)
        plain = [stage.to_json() for stage in stages]
        spec = {"settings": chosen.to_json(), "stages": plain, "direct": direct, "path": search_path()}
        if placement is not None:
            spec |= {"ray": placement.to_json(), "version": uuid.uuid4().hex}
        entry.write("spec", spec)
        start_process(entry, on, claim)
    finally:
        os.close(claim)  # The endpoint's process holds the lock now.
    endpoint = Endpoint(entry)
    if wait_s is not None:
        endpoint._wait(wait_s)
    return endpoint


def find_endpoint(name: str) -> Endpoint:
    """The endpoint of this name, created by any process.

    Raises:
        EndpointError: It does not exist; the message lists the existing names.
    """
    entry = EndpointEntry(name)
    if not entry.read("spec"):
        names = ", ".join(entry.name for entry in all_entries()) or "none"
        raise EndpointError(f"no endpoint is named {name!r}; existing endpoints: {names}")
    return Endpoint(entry)


def list_endpoints() -> list[Endpoint]:
    """All endpoints that were not deleted, by name, running or not."""
    return [Endpoint(entry) for entry in all_entries()]
