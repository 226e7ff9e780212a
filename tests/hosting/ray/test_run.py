"""Endpoints on Ray: the life of one, errors as on one machine, updates, and what is left when processes or nodes are killed."""

import json
import os
import random
import signal
import subprocess
import sys
import urllib.request

import pytest
from tests.clusters import running_cluster
from tests.hosting.places import lives, ping, sample, wait
from tests.hosting.ray.load import Load, kill_one, own, replicas

from headrace.hosting.client import Client, ModelError
from headrace.hosting.endpoint import EndpointError, create_endpoint, find_endpoint, list_endpoints
from headrace.hosting.settings import Settings

ANY_PORT = Settings(port=0)
ABALONE = own("abalone")
ERRORS = ("refuse 415 not this", "raise it", "status 418 tea", "status 503 tea", "die", "exit 3", "nothing")


def versioned(mark):
    return sample("Versioned", arguments={"mark": mark, "seconds": 0.002})


@pytest.fixture(scope="module")
def endpoint():
    """An endpoint with a cluster of its own: a connection that tests before these have left would be used instead."""
    if "ray" in sys.modules:
        sys.modules["ray"].shutdown()
    return create_endpoint(ABALONE, [sample("obedient")], settings=ANY_PORT, on="ray", replicas=2)


def outcome(endpoint, body):
    try:
        return endpoint.invoke(body).body
    except ModelError as error:
        return str(error)


@pytest.mark.ray
def test_answers_and_errors_are_those_of_one_machine(endpoint):
    local = create_endpoint("local", [sample("obedient")], settings=Settings(port=0, workers=1))
    for body in ERRORS:
        assert outcome(endpoint, body) == outcome(local, body), body
    answer = endpoint.invoke("hello", content_type="text/csv", custom_attributes="trace=1", inference_id="x1")
    assert (answer.body, answer.content_type, answer.custom_attributes) == (b"HELLO", "text/plain", "seen")
    assert answer.production_variant == "AllTraffic"
    clients = [Client(endpoint.address), Client(local.address)]
    for method, path in (("GET", "/execution-parameters"), ("GET", "/nowhere"), ("GET", "/invocations"), ("GET", "/")):
        remote, here = (client.request(method, path) for client in clients)
        assert remote[0] == here[0], path
        assert remote[2].replace(ABALONE.encode(), b"local") == here[2], path
    status, headers, body = clients[0].request("GET", "/ping")
    assert (status, headers["content-type"], body) == (200, "application/json", b"")
    local.delete()


@pytest.mark.ray
def test_metrics_of_every_replica(endpoint):
    for _ in range(20):
        endpoint.invoke("hello")
    page = urllib.request.urlopen(f"{endpoint.address}/metrics").read().decode()
    counted = [line for line in page.splitlines() if line.startswith("headrace_workers_ready")]
    from ray.serve.handle import DeploymentHandle

    # Without a call to all replicas, as in Ray 2.52, one answers for itself.
    assert len(counted) == (2 if hasattr(DeploymentHandle, "broadcast") else 1)
    assert all('replica="' in line for line in counted)


@pytest.mark.ray
def test_others_find_it(endpoint):
    code = f"from headrace.hosting import *; e = find_endpoint({ABALONE!r}); print(e.invoke('hello').body.decode(), e.status, e.pid)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == f"HELLO InService {endpoint.pid}"
    reported = endpoint.describe()
    assert json.loads(json.dumps(reported)) == reported
    assert (reported["status"], reported["replicas"], reported["cluster"]) == ("InService", 2, None)
    assert "is ready" in endpoint.logs()


@pytest.mark.ray
def test_an_update_and_one_that_fails(endpoint):
    endpoint.update([versioned("new")])
    assert endpoint.invoke("ab").body == b"new:ba"
    with pytest.raises(EndpointError, match="keeps its containers, since the update failed: the model does not load"):
        endpoint.update([sample("dies_at_load")])
    wait(lambda: endpoint.status == "InService")  # Ray 2.52 has stopped a replica first
    assert {endpoint.invoke("ab").body for _ in range(10)} == {b"new:ba"}
    with pytest.raises(ValueError, match="1 to 15 containers"):
        endpoint.update([])
    endpoint.update([sample("echo", name="a"), sample("obedient", name="b")])
    assert endpoint.describe()["containers"] == ["a", "b"]
    assert b"MARK" in endpoint.invoke("x").body


@pytest.mark.ray
@pytest.mark.parametrize("seed", [7])
def test_replicas_killed_and_updated_under_load(endpoint, seed):
    chosen = random.Random(seed)
    endpoint.update([versioned("one")])

    def right(body):
        return {f"{mark}:{body.decode()[::-1]}".encode() for mark in ("one", "two")}

    with Load(endpoint.address, right, seed) as load:
        load.wait_for(chosen.randrange(50, 300))
        kill_one(ABALONE, chosen)
        load.wait_for(chosen.randrange(300, 500))
        endpoint.update([versioned("two")])
        kill_one(ABALONE, chosen)
    assert load.wrong == []
    assert load.answered == 2000
    assert {endpoint.invoke("ab").body for _ in range(10)} == {b"two:ba"}


@pytest.mark.ray
def test_its_end(endpoint):
    wait(lambda: len(replicas(ABALONE)) == 2, "the replacement of a killed replica")
    pids = [endpoint.pid, *replicas(ABALONE)]
    endpoint.delete()
    wait(lambda: not any(map(lives, pids)))
    assert ABALONE not in [one.name for one in list_endpoints()]
    with pytest.raises(EndpointError, match=f"{ABALONE} is Stopped: it does not run"):
        endpoint.invoke("hello")


@pytest.mark.ray
def test_a_model_that_does_not_load():
    with pytest.raises(
        EndpointError, match=r"cannot be created: the model does not load: .*\nEnd of its log"
    ) as raised:
        create_endpoint(own("bad"), [sample("nothing_of_the_kind")], settings=ANY_PORT, on="ray")
    assert "nothing_of_the_kind" in str(raised.value)
    assert find_endpoint(own("bad")).status == "Failed"
    assert replicas(own("bad")) == []


@pytest.mark.ray
def test_a_cluster_that_does_not_answer():
    with pytest.raises(EndpointError, match="expected a Ray cluster that answers"):
        create_endpoint("far", [sample("echo")], settings=ANY_PORT, on="ray", address="127.0.0.1:1")


def test_only_endpoints_on_ray_are_updated():
    local = create_endpoint("local", [sample("echo")], settings=Settings(port=0, workers=1))
    with pytest.raises(EndpointError, match="the endpoint local cannot be updated: it is not on Ray"):
        local.update([sample("obedient")])
    local.delete()


@pytest.mark.ray
def test_a_running_cluster_is_used_and_left_running(monkeypatch):
    with running_cluster(2, cpus=2, connected=False) as nodes:
        monkeypatch.setenv("RAY_ADDRESS", nodes.address)
        names = own("first"), own("second")
        first = create_endpoint(names[0], [versioned("a")], settings=ANY_PORT, on="ray", replicas=2)
        second = create_endpoint(names[1], [versioned("b")], settings=ANY_PORT, on="ray")
        assert first.describe()["cluster"] == nodes.address
        assert first.address.endswith(f"/{names[0]}")
        assert first.address.removesuffix(names[0]) == second.address.removesuffix(names[1])
        assert (first.invoke("xy").body, second.invoke("xy").body) == (b"a:yx", b"b:yx")
        os.kill(second.pid, signal.SIGKILL)
        wait(lambda: second.status == "Stopped")
        assert replicas(names[1]) != []
        second.delete()
        wait(lambda: replicas(names[1]) == [])
        with Load(first.address, lambda body: {f"a:{body.decode()[::-1]}".encode()}, 5) as load:
            load.wait_for(100)
            kill_one(names[0], random.Random(5))
        assert load.wrong == []  # refusals are 503, also of proxies that every endpoint shares
        assert load.answered == 2000
        # The proxies of all nodes share one port here, so some connections end with the node.
        with Load(first.address, lambda body: {f"a:{body.decode()[::-1]}".encode()}, 3, reconnects=True) as load:
            load.wait_for(200)
            nodes.kill(0)
        assert load.wrong == []
        assert load.answered == 2000
        first.delete()
        assert replicas(names[0]) == []


@pytest.mark.ray
def test_the_command_in_the_foreground(tmp_path):
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "inference.py").write_text(
        "def model_fn(folder): return 2\ndef predict_fn(x, model): return x * model\n"
    )
    command = [
        sys.executable,
        "-m",
        "headrace",
        "serve",
        str(tmp_path),
        "--on",
        "ray",
        "--port",
        "0",
        "--replicas",
        "1:2",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        address = process.stdout.readline().strip()
        assert ping(address) == (200, "")
        assert Client(address).invoke("1,2", content_type="text/csv", accept="text/csv").body == b"2.0,4.0\n"
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)
    assert process.returncode == 0


@pytest.mark.ray
def test_the_command_in_the_background(tmp_path):
    for name, factor in (("two", 2), ("three", 3)):
        (tmp_path / name / "code").mkdir(parents=True)
        script = f"def model_fn(folder): return {factor}\ndef predict_fn(x, model): return x * model\n"
        (tmp_path / name / "code" / "inference.py").write_text(script)

    def headrace(*arguments):
        found = subprocess.run(
            [sys.executable, "-m", "headrace", *arguments], capture_output=True, text=True, check=False
        )
        return found.returncode, found.stdout, found.stderr

    name = own("twice")
    code, out, _ = headrace("serve", str(tmp_path / "two"), "--name", name, "--on", "ray")
    assert (code, out.strip()) == (0, find_endpoint(name).address)
    assert headrace("invoke", name, "5", "--accept", "text/csv")[1] == "10.0\n"
    assert headrace("serve", str(tmp_path / "three"), "--name", name, "--update")[::2] == (0, f"{name} is updated\n")
    assert headrace("invoke", name, "5", "--accept", "text/csv")[1] == "15.0\n"
    listed = json.loads(headrace("endpoints", "--json")[1])
    assert [(one["name"], one["status"], one["replicas"]) for one in listed if one["name"] == name] == [
        (name, "InService", 1)
    ]
    assert headrace("endpoints", "--delete", name)[0] == 0
    assert replicas(name) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--replicas", "2"], "go with --on ray"),
        (["--address", "a:1"], "go with --on ray"),
        (["--update"], "--update goes with --name"),
    ],
)
def test_wrong_options(tmp_path, options, message):
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "inference.py").write_text("")
    command = [sys.executable, "-m", "headrace", "serve", str(tmp_path), *options]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert message in found.stderr
