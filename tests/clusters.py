"""Ray for tests: one local Ray for all of them, and clusters of several nodes on this machine whose nodes can be killed.

Everything here lives in folders of its own, so that tests never meet another Ray of this machine. A test that uses one of these has
the marker ``ray``; ``local_ray`` is a fixture of ``tests/conftest.py``.
"""

import contextlib
import os
import shutil
import signal
import sys
import tempfile
import warnings

LOCAL = {"num_cpus": 2, "include_dashboard": False, "object_store_memory": 200 << 20}
QUIET = {"log_to_driver": False, "logging_level": "error"}
LEFT_OPEN = (
    "ignore:unclosed:ResourceWarning",  # Ray leaves sockets and processes to its own exit
    "ignore:subprocess .* is still running:ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
    "ignore::DeprecationWarning:ray",
    "ignore::FutureWarning:ray",
)


def descendants(*titles):
    """The processes below this one whose title begins so, and none of another Ray on this machine."""
    parents, found = {}, []
    for entry in filter(str.isdecimal, os.listdir("/proc")):
        with (
            contextlib.suppress(OSError),
            open(f"/proc/{entry}/stat") as stat,
            open(f"/proc/{entry}/cmdline", "rb") as line,
        ):
            parents[int(entry)] = int(stat.read().rpartition(")")[2].split()[1])
            if line.read().startswith(titles):
                found.append(int(entry))
    return sorted(process for process in found if os.getpid() in _above(process, parents))


def _above(process, parents):
    while process in parents:
        process = parents[process]
        yield process


@contextlib.contextmanager
def folder_for_sockets():
    """A folder with a short path: the path of a socket has at most 107 bytes."""
    folder = tempfile.mkdtemp(prefix="hr-", dir="/tmp" if os.path.isdir("/tmp") else None)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def until_it_starts(start):
    """What ``start`` returns. Ray gives its processes 30 seconds to start, which a busy machine may exceed."""
    while True:
        try:
            return start()
        except Exception as error:
            if "timed out during startup" not in str(error):
                raise


@contextlib.contextmanager
def address_files_in(folder):
    """Ray 2.52 writes the address of a cluster to a file in its usual folder, which may not exist, and where another Ray would find it."""
    before = os.environ.get("RAY_TMPDIR")
    os.environ["RAY_TMPDIR"] = folder
    os.makedirs(os.path.join(folder, "ray"))
    try:
        yield
    finally:
        os.environ.pop("RAY_TMPDIR") if before is None else os.environ.update(RAY_TMPDIR=before)


class LocalRay:
    """One local Ray of this process, from the first test that needs it until a test of a cluster, or the end."""

    def __init__(self):
        self.folder = contextlib.ExitStack()

    def ensure(self):
        """The module ``ray``, connected."""
        from headrace._ray.connection import require_ray

        ray = require_ray()
        if not ray.is_initialized():
            self.close()
            folder = self.folder.enter_context(folder_for_sockets())
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                until_it_starts(lambda: ray.init(address="local", _temp_dir=folder, **LOCAL, **QUIET))
        return ray

    def close(self):
        """End it, if it runs."""
        if "ray" in sys.modules:
            sys.modules["ray"].shutdown()
        self.folder.close()


local = LocalRay()


class Nodes:
    """A cluster on this machine: a head without cores, and nodes with them.

    Args:
        cluster: Of ``ray.cluster_utils``.
        count: The number of nodes.
        cpus: Of each node.
    """

    def __init__(self, cluster, count, cpus):
        self.cluster = cluster
        self.cpus = cpus
        self.alive = []
        for _ in range(count):
            self.add()

    @property
    def address(self):
        return self.cluster.address

    def add(self):
        """Add a node."""
        options = {"num_cpus": self.cpus, "object_store_memory": 80 << 20, "include_log_monitor": False}
        node = until_it_starts(lambda: self.cluster.add_node(**options))
        self.alive.append(node)
        return node

    def kill(self, number=0):
        """End all processes of a node at once, as a power cut does."""
        self.cluster.remove_node(self.alive.pop(number), allow_graceful=False)

    def kill_raylet(self, number=0):
        """End only the process that speaks for a node: the cluster declares it dead while its workers still write."""
        node = self.alive.pop(number)
        os.kill(node.all_processes["raylet"][0].process.pid, signal.SIGKILL)
        return node

    def workers(self):
        """The processes of the workers of all nodes, by identifier."""
        found = []
        for entry in os.listdir("/proc"):
            if entry.isdecimal():
                with contextlib.suppress(OSError), open(f"/proc/{entry}/cmdline", "rb") as file:
                    line = file.read()
                    # A node's agents are no workers: without one, the node ends.
                    if line.startswith((b"ray::IDLE", b"ray::headrace")) and self._owns(int(entry)):
                        found.append(int(entry))
        return sorted(found)

    def _owns(self, process):
        raylets = {node.all_processes["raylet"][0].process.pid for node in self.alive}
        with open(f"/proc/{process}/stat") as file:
            return int(file.read().rpartition(")")[2].split()[1]) in raylets


@contextlib.contextmanager
def running_cluster(nodes=2, cpus=1, *, connected=True):
    """A cluster of several nodes, with this process connected to it or not.

    Nodes are declared dead after a second without an answer, not after half a minute.
    """
    from headrace._ray.connection import require_ray

    ray = require_ray()
    from ray.cluster_utils import Cluster

    local.close()
    quick = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 4}
    with folder_for_sockets() as folder, address_files_in(folder), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        head = {"num_cpus": 0, "object_store_memory": 80 << 20, "include_dashboard": False, "temp_dir": folder}
        arguments = {"initialize_head": True, "head_node_args": {**head, "_system_config": quick}}
        cluster = until_it_starts(lambda: Cluster(**arguments))
        try:
            found = Nodes(cluster, nodes, cpus)
            if connected:
                ray.init(address=cluster.address, **QUIET)
            yield found
        finally:
            ray.shutdown()
            cluster.shutdown()
