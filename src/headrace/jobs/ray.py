"""Training jobs on a Ray cluster: each host is a process on a node, with its own tree of folders there."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from headrace._ray.connection import connect
from headrace.containers.script import ScriptContainer
from headrace.contracts.job import Container, Store, TrainingJob
from headrace.errors import JobFailed, WorkerDied
from headrace.io.archive.unpack import unpack_into
from headrace.io.system import discard_folder, lock, usable_cores
from headrace.jobs.actors import EventQueue, RemoteActor, check_direct, node_name, shared_folder_token, size_of_place
from headrace.jobs.run import POLL_S, TrainingRun, job_of_host
from headrace.jobs.spec import TrainingSpec
from headrace.jobs.tree import LinkedFiles, archive_entries, lay_out, log_left_out, provide

__all__ = ["ADDRESSES", "HostWorker", "RayTrainingRun", "remove_abandoned_trees"]

ADDRESSES = "HEADRACE_HOST_ADDRESSES"
"""A variable of scripts on Ray: the address of each host, as JSON, since the hosts' names do not resolve there."""
PIECE_BYTES = 4 << 20
KEPT = ("model", "output")
"""The folders of a host's tree that come back."""
SIOCGIFADDR = 0x8915
TEMPORARY = "headrace-host-"
ALIVE = "alive"
"""A file in the tree of a host, which its process holds locked."""
SETTLED_S = 2.0
"""How soon after it makes the file a host has locked it."""
SILENCE_S = 10.0
"""How long hosts may wait for their nodes before the log says so."""


class HostWorker:
    """One host, on its node.

    Args:
        spec: The job.
        container: Trains.
        store: Holds inputs and artifacts.
        host: The name of the host.
        tokens: Visible if the node shares the folders of artifacts and checkpoints.
        stop_grace_s: How long a container may take to stop.
    """

    def __init__(
        self,
        spec: TrainingSpec,
        container: Container,
        store: Store,
        host: str,
        tokens: Sequence[Path],
        stop_grace_s: float,
    ) -> None:
        self._spec, self._container, self._store, self._tokens = spec, container, store, tokens
        self._events = EventQueue()
        self._stack = ExitStack()
        self._faults: list[Exception] = []
        self._linked = LinkedFiles()
        self._stop = threading.Event()
        remove_abandoned_trees()
        self._base = Path(tempfile.mkdtemp(prefix=f"{TEMPORARY}{spec.name}-{host}-"))
        self._alive = self._stack.enter_context((self._base / ALIVE).open("w"))
        lock(self._alive.fileno())
        job = job_of_host(spec, host, self._base / "ml", log=self._log, stop=self._stop, stop_grace_s=stop_grace_s)
        self._job = replace(job, network_interface=interface_of(_own_address()))

    def prepare(self) -> Iterator[list[tuple[str, Any]]]:
        """Lay out the tree, with its input. The result is the name of the node and its address."""
        return self._events.run(self._prepare)

    def train(self, addresses: Mapping[str, str]) -> Iterator[list[tuple[str, Any]]]:
        """Train. Reports the lines of the container."""
        return self._events.run(lambda: self._train(addresses))

    def stop(self) -> Iterator[list[tuple[str, Any]]]:
        """Make the container save and return."""
        self._stop.set()
        return iter([])

    def artifacts(self) -> Iterator[bytes]:
        """The folders of model and output as one archive, in pieces."""
        self._stack.close()
        with tempfile.TemporaryFile(dir=self._base) as file:
            with tarfile.open(mode="w", fileobj=file, format=tarfile.PAX_FORMAT, dereference=True) as archive:
                for folder in KEPT:
                    place = [self._job.base_dir / folder]
                    for name, path in archive_entries(place).items():
                        archive.add(path, f"{folder}/{name}")
            file.seek(0)
            while piece := file.read(PIECE_BYTES):
                yield piece

    def close(self) -> Iterator[bytes]:
        """Remove the tree."""
        self._stack.close()
        discard_folder(self._base)
        return iter([])

    def _log(self, line: str) -> None:
        self._events.put("line", line)

    def _prepare(self) -> tuple[str, str]:
        self._events.put("begun", None)
        try:
            self._check_shared_folders()
            lay_out(self._job, self._spec, self._store)
            self._linked = provide(self._job, self._store, self._stack, self._fail)
        except JobFailed as error:
            kind, _, reason = str(error).rpartition("ClientError: ")
            raise JobFailed(
                f"{kind}ClientError: host {self._job.current_host} on node {node_name()}: {reason}"
            ) from error
        return node_name(), _own_address()

    def _check_shared_folders(self) -> None:
        for token in self._tokens:
            if not token.exists():
                raise JobFailed(f"ClientError: it does not see {token.parent}, and all nodes must share that folder")

    def _fail(self, error: Exception) -> None:
        self._faults.append(error)
        self._stop.set()

    def _train(self, addresses: Mapping[str, str]) -> None:
        variables = {**self._job.environment, ADDRESSES: json.dumps(dict(addresses))}
        try:
            with self._linked.checked(self._log):
                self._container.train(replace(self._job, environment=variables))
            log_left_out(self._job.model_dir, self._log)
        finally:
            if self._faults:
                raise self._faults[0]


def remove_abandoned_trees() -> None:
    """Remove the trees of hosts on this machine whose process was killed, with their copies of the input."""
    for alive in Path(tempfile.gettempdir()).glob(f"{TEMPORARY}*/{ALIVE}"):
        with contextlib.suppress(OSError), alive.open("r+") as held:  # of another user, or just removed
            if time.time() - alive.stat().st_mtime > SETTLED_S and lock(held.fileno()):
                discard_folder(alive.parent)


def _own_address() -> str:
    from headrace._ray.connection import require_ray

    return str(require_ray().util.get_node_ip_address())


def interface_of(address: str) -> str:
    """The network interface with this address; ``lo`` if none has it or the system does not tell."""
    try:
        import fcntl
    except ImportError:
        return "lo"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                found = fcntl.ioctl(probe.fileno(), SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                if socket.inet_ntoa(found[20:24]) == address:
                    return name
    return "lo"


class RayTrainingRun(TrainingRun):
    """One run of a job on a cluster.

    Args:
        args: As for :class:`TrainingRun`.
        address: The cluster, as for :func:`headrace._ray.connection.connect`.
        resources: What each host takes of its node.
    """

    def __init__(self, *args: Any, address: str | None = None, resources: Mapping[str, float] | None = None) -> None:
        super().__init__(*args)
        self._address = address
        self._resources = {"CPU": 1.0, **(resources or {})}
        self._actors: dict[str, RemoteActor] = {}
        self._nodes: dict[str, tuple[str, str]] = {}
        self._begun: set[str] = set()  # hosts that have a place

    def _prepare_hosts(self, jobs: list[TrainingJob], stack: ExitStack) -> None:
        processors = max(usable_cores(), round(self._resources["CPU"] * len(jobs)))
        cluster = stack.enter_context(connect(self._address, cpus=processors))
        check_direct(cluster)
        room = size_of_place(cluster, self._resources)
        if room < len(jobs):
            raise JobFailed(
                f"ClientError: the Ray cluster holds {room} hosts that take {self._resources} each, and the job has {len(jobs)}"
            )
        tokens = [
            stack.enter_context(shared_folder_token(folder, self._spec.name)) for folder in self._shared_folders()
        ]
        stack.callback(self._end)
        for job in jobs:
            self._actors[job.current_host] = RemoteActor(
                cluster,
                HostWorker,
                self._spec,
                _with_whole_path(self._container),
                self._store,
                job.current_host,
                tokens,
                self._stop_grace_s,
                resources=self._resources,
            )
        if not self._wait_for_hosts(jobs):
            return
        for job in jobs:
            job.log(f"runs on node {self._nodes[job.current_host][0]}")
        self._record.content["HostNodes"] = {job.current_host: self._nodes[job.current_host][0] for job in jobs}

    def _wait_for_hosts(self, jobs: list[TrainingJob]) -> bool:
        """Wait until each host has its place and its input. Returns whether they have: not if the job is stopped meanwhile."""
        threads = ThreadPoolExecutor(len(jobs), "headrace prepare host")
        try:
            futures = {threads.submit(self._call, job, "prepare"): job.current_host for job in jobs}
            since: float | None = time.monotonic()
            left = set(futures)
            while left:
                done, left = wait(left, timeout=POLL_S, return_when=FIRST_EXCEPTION)
                self._nodes |= {futures[future]: future.result() for future in done}
                if left and (self._stop_request.is_set() or self._record.files.stop.exists()):
                    self._cause = "Stopped"
                    return False
                if since is not None and time.monotonic() - since > SILENCE_S:
                    since = None
                    self._explain_silence(jobs)
        finally:
            threads.shutdown(wait=False)  # Hosts that wait for a place are killed at the end, and end their threads.
        return True

    def _explain_silence(self, jobs: list[TrainingJob]) -> None:
        waiting = [job.current_host for job in jobs if job.current_host not in self._begun]
        if waiting:
            self._on_line(
                f"{', '.join(waiting)} wait for a node of the Ray cluster with {self._resources} free (`ray status` shows what is in use)"
            )

    def _shared_folders(self) -> list[Path]:
        folders = [self._store.resolve(self._artifact("model.tar.gz")).parent]
        if self._spec.checkpoint_uri is not None:
            folders.append(self._store.resolve(self._spec.checkpoint_uri))
        return folders

    def _call(self, job: TrainingJob, method: str, *args: Any) -> Any:
        """Call a method of a host, and log its lines. Returns its result."""
        result = None
        try:
            for batch in self._actors[job.current_host].stream(method, *args):
                for kind, value in batch:
                    if kind == "line":
                        job.log(value)
                    elif kind == "begun":
                        self._begun.add(job.current_host)
                    else:
                        result = value
        except WorkerDied as error:
            node = self._nodes.get(job.current_host, ("?", ""))[0]
            raise JobFailed(f"InternalServerError: host {job.current_host} on node {node} died: {error}") from error
        return result

    def _work(self, job: TrainingJob) -> None:
        addresses = {host: address for host, (_, address) in self._nodes.items()}
        self._call(job, "train", addresses)

    def _signal_stop(self, cause: str) -> None:
        super()._signal_stop(cause)
        for actor in self._actors.values():
            threading.Thread(target=_stop, args=(actor,), name="headrace stop host", daemon=True).start()

    def _train(self, jobs: list[TrainingJob]) -> None:
        if self._cause is not None:  # It was stopped before its hosts had begun: its model is empty, as on one machine.
            self._enter_stopping("Stopping the training job")
            for job in jobs:
                job.model_dir.mkdir(parents=True, exist_ok=True)
            return
        try:
            super()._train(jobs)
        finally:
            for job in jobs:
                self._fetch(job)

    def _fetch(self, job: TrainingJob) -> None:
        """Bring back what a host has left. Nothing comes from one that died."""
        actor = self._actors[job.current_host]
        for folder in (job.model_dir, job.output_data_dir):
            folder.mkdir(parents=True, exist_ok=True)
        try:
            with tempfile.NamedTemporaryFile(dir=job.base_dir, suffix=".tar") as file:
                _write_pieces(file, actor.stream("artifacts"))
                unpack_into(Path(file.name), job.base_dir)
        except WorkerDied as error:
            job.log(f"nothing came back from this host: {error}")

    def _end(self) -> None:
        for host, actor in self._actors.items():
            if host in self._begun:  # Another one would answer only when it has a place.
                with contextlib.suppress(WorkerDied, JobFailed):
                    list(actor.stream("close"))
            actor.kill()


def _write_pieces(file: IO[bytes], pieces: Iterator[bytes]) -> None:
    for piece in pieces:
        file.write(piece)
    file.flush()


def _stop(actor: RemoteActor) -> None:
    with contextlib.suppress(Exception):  # It has ended.
        list(actor.stream("stop"))


def _with_whole_path(container: Container) -> Container:
    """The container with a path that does not depend on the working folder, which differs on nodes."""
    if not isinstance(container, ScriptContainer):
        return container
    dependencies = [os.path.abspath(one) for one in container.dependencies]  # noqa: PTH100 - absolute() would keep ".."
    container = replace(container, dependencies=dependencies)
    if container.source_dir is not None:
        return replace(container, source_dir=os.path.abspath(container.source_dir))  # noqa: PTH100 - as above
    if container.entry_point is not None:
        return replace(container, entry_point=os.path.abspath(container.entry_point))  # noqa: PTH100 - as above
    return container
