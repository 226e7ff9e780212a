"""Connecting to Ray, tasks on its workers, and what goes wrong with either. What needs no Ray runs with all other tests."""

import errno
import importlib
import os
import socket
import subprocess
import sys
import threading

import pytest
from tests.clusters import running_cluster

import headrace as hr
from headrace._ray import cluster as tasks
from headrace._ray import connection
from headrace._ray.cluster import Cluster
from headrace._ray.connection import connect, require_ray


def test_without_ray_the_message_holds_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(hr.MissingExtra, match=r'pip install "headrace\[ray\]"'):
        connect()


class OldRay:
    __version__ = "2.51.3"


def test_an_old_ray_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", OldRay)
    with pytest.raises(hr.MissingExtra, match=r"2\.52 or newer, and 2\.51\.3 is installed"):
        require_ray()


class ConnectedRay:
    """A module that is connected to a cluster at 10.0.0.1:6379."""

    __version__ = "2.60.0"
    gcs_address = "10.0.0.1:6379"

    @staticmethod
    def is_initialized():
        return True

    @classmethod
    def get_runtime_context(cls):
        return cls


@pytest.mark.parametrize("address", ["ray://10.0.0.1:10001", "ray://10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.1:6380"])
def test_another_cluster_than_the_one_of_this_process(monkeypatch, address):
    """What is behind a ray:// address cannot be known."""
    monkeypatch.setitem(sys.modules, "ray", ConnectedRay)
    monkeypatch.setattr(connection, "_open", {"address": address, "gcs": "10.0.0.9:6379", "users": 1})  # left by a user
    with pytest.raises(ValueError, match=rf"Ray at 10\.0\.0\.1:6379\. Leave the address out.*shutdown.*{address}"):
        connect(address)


class SlowRay(ConnectedRay):
    """A module whose processes do not start in time, for some attempts."""

    def __init__(self, failures, message="The current node timed out during startup. This could happen because ..."):
        self.failures, self.message, self.starts = failures, message, 0

    def is_initialized(self):
        return self.starts > self.failures

    def init(self, **_):
        self.starts += 1
        if not self.is_initialized():
            raise Exception(self.message)


def test_a_busy_machine_starts_ray_once_more():
    slow = SlowRay(failures=2)
    connection._start(slow, "local", None, 1, shows_log=False)
    assert slow.starts == 3
    with pytest.raises(hr.Unreachable, match=r"starts within 30 s, found none in 4 attempts.*too busy"):
        connection._start(SlowRay(failures=99), "local", None, 1, shows_log=False)
    other = SlowRay(failures=99, message="no space left")
    with pytest.raises(Exception, match="no space left"):
        connection._start(other, "local", None, 1, shows_log=False)
    assert other.starts == 1


class NoRay:
    """A module that has no connection, and fails the test if one is tried."""

    __version__ = "2.60.0"

    @staticmethod
    def is_initialized():
        return False

    @staticmethod
    def init(**_):
        raise AssertionError("Ray itself waits two minutes for an address")


@pytest.fixture
def no_ray(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", NoRay)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(connection, "ANSWER_S", 0.2)


def a_port(serve):
    """The port of a server that treats one connection by ``serve``."""
    listening = socket.create_server(("127.0.0.1", 0))

    def run():
        with listening, listening.accept()[0] as peer:
            serve(peer)

    threading.Thread(target=run, daemon=True).start()
    return listening.getsockname()[1]


def test_an_address_that_refuses(no_ray, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(hr.Unreachable, match=f"127.0.0.1:{port}.*Check the address"):
        connect(f"127.0.0.1:{port}")
    monkeypatch.setenv("RAY_ADDRESS", f"ray://127.0.0.1:{port}")
    with pytest.raises(hr.Unreachable, match=f"ray://127.0.0.1:{port}"):
        connect()


def test_an_address_that_says_nothing(no_ray):
    ended = threading.Event()
    port = a_port(lambda peer: ended.wait(60))
    with pytest.raises(hr.Unreachable, match="no answer within"):
        connect(f"127.0.0.1:{port}")
    ended.set()


def test_an_address_of_another_server(no_ray):
    port = a_port(lambda peer: peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"))
    with pytest.raises(hr.Unreachable, match="another kind of server"):
        connect(f"127.0.0.1:{port}")


@pytest.mark.parametrize("address", ["nonsense", "host:", ":", "host:port", "host:99999999"])
def test_an_address_that_is_none(no_ray, address):
    with pytest.raises((ValueError, hr.Unreachable), match="nonsense|host"):
        connect(address)


def _twice(value):
    return 2 * value


def _fail(where):
    raise hr.CorruptRecord(where, expected="a checksum", found="another")


def _fill_disk():
    raise OSError(errno.ENOSPC, "No space left on device", "/data/out/.b.tfrecord")


def _end_worker():
    os._exit(9)


def _cores():
    from headrace.io.system import spare_cores

    return spare_cores()


@pytest.mark.ray
def test_tasks_and_their_errors(local_ray):
    with connect() as cluster:
        assert cluster.cpus() == 2
        assert cluster.result(cluster.submit(_twice, 21)) == 42
        assert cluster.result(cluster.submit(_cores)) == 1  # two tasks of two threads each would be four on two cores
        where = hr.Where(path="a.tfrecord", record=3, offset=17)
        with pytest.raises(hr.CorruptRecord) as raised:
            cluster.result(cluster.submit(_fail, where))
        assert raised.value.where == where
        with pytest.raises(OSError, match=r"No space left on device: '/data/out") as full:
            cluster.result(cluster.submit(_fill_disk))
        assert full.value.errno == errno.ENOSPC
        assert "On the Ray node" in full.value.__notes__[0]
        with pytest.raises(hr.WorkerDied, match="more often than it is tried again"):
            cluster.result(cluster.submit(_end_worker, retries=1))
        with pytest.raises(ZeroDivisionError) as divided:
            list(cluster.on_each_node(divmod, 1, 0))
        assert "On the Ray node" in divided.value.__notes__[0]
        with pytest.raises(SystemExit, match="bye"):  # as here, and without another start
            cluster.result(cluster.submit(sys.exit, "bye"))
    assert local_ray.is_initialized()  # it was there before, so it stays


@pytest.mark.ray
def test_functions_of_a_folder_that_the_program_added(local_ray, tmp_path, monkeypatch):
    (tmp_path / "addedmodule.py").write_text("def double(x):\n    return 2 * x\n")
    monkeypatch.syspath_prepend(tmp_path)
    double = importlib.import_module("addedmodule").double
    with connect() as cluster:
        assert cluster.result(cluster.submit(double, 21)) == 42


class RayClient(ConnectedRay):
    """A module that is connected through Ray Client."""

    class util:
        class client:
            class ray:
                @staticmethod
                def is_connected():
                    return True


def test_datasets_at_an_address_of_ray_client():
    from headrace.adapters.ray_blocks import check_member

    cluster = Cluster.__new__(Cluster)
    cluster.ray = RayClient
    with pytest.raises(hr.UnsupportedData, match="a process on a node of the cluster, found ray://"):
        check_member(cluster)


@pytest.mark.ray
def test_another_version_on_a_worker(local_ray, monkeypatch):
    monkeypatch.setattr(tasks, "_own_version", lambda: "9.9")
    with (
        connect() as cluster,
        pytest.raises(hr.UnsupportedData, match=rf"expected Headrace 9\.9.*found Headrace {hr.__version__}"),
    ):
        cluster.result(cluster.submit(_twice, 1))


@pytest.mark.ray
def test_no_headrace_on_a_worker(local_ray):
    hidden = {"env_vars": {"PYTHONPATH": ""}}
    call = local_ray.remote(_hide_headrace).options(runtime_env=hidden)
    found = local_ray.get(call.remote(tasks._checking_call(hr.__version__)))
    assert found["found"] == "no Headrace"


def _hide_headrace(call):
    sys.modules["headrace"] = None
    return call(b"")


LOCAL_LIFE = """
import ray
from headrace._ray.connection import connect

def twice(value):
    return 2 * value

assert not ray.is_initialized()
with connect(object_store_bytes=100 << 20) as outer:
    with connect() as inner:
        assert inner.result(inner.submit(abs, -3)) == 3
    assert ray.is_initialized()
    try:
        connect("127.0.0.1:1")
    except ValueError as error:
        assert "ray.shutdown()" in str(error)
    outer.close()
    assert not ray.is_initialized()
print("done")
"""


@pytest.mark.ray
def test_a_local_ray_is_quiet_and_ends():
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    run = subprocess.run(
        [sys.executable, "-c", LOCAL_LIFE], capture_output=True, text=True, env=environment, check=False
    )
    assert (run.stdout, run.stderr, run.returncode) == ("done\n", "", 0)


CLUSTER_LIFE = """
import sys
import ray
from headrace._ray.connection import connect

with connect() as cluster:
    print(cluster.cpus(), len(list(cluster.on_each_node(abs, -1))), cluster.ray.get_runtime_context().gcs_address == sys.argv[1])
assert not ray.is_initialized()
"""


@pytest.mark.ray
def test_the_cluster_of_the_environment_is_used_and_left_running():
    command = [sys.executable, "-c", CLUSTER_LIFE]
    with running_cluster(2, connected=False) as nodes:
        environment = {**os.environ, "RAY_ADDRESS": nodes.address}
        for _ in range(2):
            run = subprocess.run(
                [*command, nodes.address], capture_output=True, text=True, env=environment, check=False
            )
            assert (run.stdout, run.stderr, run.returncode) == ("2 2 True\n", "", 0)


@pytest.mark.ray
def test_a_node_is_killed():
    with running_cluster(2) as nodes, connect() as cluster:
        assert isinstance(cluster, Cluster)
        gone = nodes.alive[0].node_id
        waiting = [cluster.submit(_twice, number) for number in range(8)]
        nodes.kill(0)
        assert [cluster.result(reference) for reference in waiting] == [2 * number for number in range(8)]
        while gone in [node.id for node in cluster.nodes()]:  # Ray tells it a little later
            threading.Event().wait(0.1)
