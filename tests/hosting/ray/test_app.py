"""Endpoints that share one cluster: names, real models, scaling, limits, and a controller that is killed."""

import http.client
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from tests.clusters import descendants, running_cluster
from tests.hosting.places import post, sample, wait
from tests.hosting.ray.load import Load, own, replicas

from headrace.containers.linear_learner.artifact import Model, save_model
from headrace.hosting.client import ModelError
from headrace.hosting.endpoint import EndpointError, create_endpoint
from headrace.hosting.ray.app import ServeApp, reason_in
from headrace.hosting.ray.replica import ReplicaSpec
from headrace.hosting.ray.run import _Rollouts
from headrace.hosting.settings import RaySettings, Settings
from headrace.hosting.stage import linear_learner_stage, script_stage

ROOT = Path(__file__).parents[3]
ANY_PORT = Settings(port=0)
SCRIPT = """
def model_fn(folder):
    return 3
def predict_fn(rows, factor):
    return rows * factor
def output_fn(rows, accept):
    return "\\n".join(",".join(map(str, row)) for row in rows), "text/csv"
"""
DEPLOYS = """
import sys
from headrace.hosting.endpoint import create_endpoint
from headrace.hosting.settings import Settings
from tests.hosting.places import sample
name, mark = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
endpoint = create_endpoint(name, [sample("Versioned", arguments={"mark": mark})], settings=Settings(port=0), on="ray")
print(endpoint.invoke("xy").body.decode(), flush=True)
sys.stdin.readline()
endpoint.delete()
"""
APPLICATION = """
import ray, sys
from ray import serve
ray.init(address=sys.argv[1], logging_level="error", log_to_driver=False)

@serve.deployment(num_replicas=1, ray_actor_options={"num_cpus": 0})
class Own:
    def __call__(self, request):
        return "own"

serve.run(Own.bind(), name=sys.argv[2], route_prefix=sys.argv[3])
"""
SCALES = """
import sys
from headrace.hosting.ray import replica, run
from headrace.hosting.settings import RaySettings, Settings
from tests.hosting.places import sample
replica.SCALING = {"upscale_delay_s": 0.5, "downscale_delay_s": 1.0, "metrics_interval_s": 1.0, "look_back_period_s": 2.0}
settings = Settings(port=0, timeout_s=600)
run.serve_on_ray([sample("obedient")], settings, RaySettings(replicas=(1, 3)), name=sys.argv[1], started=lambda address: print(address, flush=True))
"""


def versioned(mark, seconds=0.0):
    return sample("Versioned", arguments={"mark": mark, "seconds": seconds})


def python(code, *arguments, state=None):
    """A process that runs this code; ``state``: as another machine does, with endpoints of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    if state is not None:
        environment["HEADRACE_STATE_DIR"] = str(state)
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen([sys.executable, "-c", code, *arguments], env=environment, text=True, **pipes)


def outcome(endpoint, body):
    try:
        return endpoint.invoke(body).body
    except ModelError as error:
        return str(error)


def run_to_end(code, *arguments):
    with python(code, *arguments) as process:
        _, errors = process.communicate()
    assert process.returncode == 0, errors


@pytest.fixture(scope="module")
def nodes():
    with running_cluster(2, cpus=4, connected=False) as nodes, pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_ADDRESS", nodes.address)
        yield nodes


def race(tmp_path, names):
    """Deploy several at the same moment, each as another machine does. Returns what each printed, and its error."""
    processes = [python(DEPLOYS, name, f"m{n}", state=tmp_path / str(n)) for n, name in enumerate(names)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    answers = [process.stdout.readline().strip() for process in processes]
    errors = [process.communicate("\n")[1] for process in processes]
    return list(zip(answers, errors, strict=True))


@pytest.mark.ray
def test_two_deploys_at_once(nodes, tmp_path):
    """The first ones of their cluster, so both start Ray Serve."""
    names = own("left"), own("right")
    assert race(tmp_path, names) == [("m0:yx", ""), ("m1:yx", "")]
    assert [replicas(name) for name in names] == [[], []]


@pytest.mark.ray
def test_two_deploys_of_one_name_at_once(nodes, tmp_path):
    name = own("same")
    found = race(tmp_path, [name, name])
    (loser,) = [number for number, (answer, _) in enumerate(found) if not answer]
    assert found[1 - loser] == (f"m{1 - loser}:yx", "")
    assert f"the endpoint '{name}' already exists in this cluster, run by process " in found[loser][1]
    assert replicas(name) == []


@pytest.mark.ray
def test_names_and_paths_of_other_applications(nodes):
    name = own("taken")
    run_to_end(APPLICATION, nodes.address, name, f"/{own('elsewhere')}")
    with pytest.raises(EndpointError, match=f"already has an application '{name}', which no endpoint of this machine"):
        create_endpoint(name, [versioned("a")], settings=ANY_PORT, on="ray")
    with pytest.raises(EndpointError, match=f"{own('elsewhere')}.*{name}"):
        create_endpoint(own("elsewhere"), [versioned("a")], settings=ANY_PORT, on="ray")
    assert len(replicas(name)) == 1  # of the other application


@pytest.mark.ray
def test_a_process_killed_while_it_deploys_and_the_same_name_again(nodes):
    name = own("again")
    first = create_endpoint(name, [sample("slow_to_load")], settings=ANY_PORT, on="ray", wait_s=None)
    wait(lambda: replicas(name))
    before = replicas(name)
    os.kill(first.pid, signal.SIGKILL)
    wait(lambda: first.status == "Stopped")
    second = create_endpoint(name, [versioned("b")], settings=ANY_PORT, on="ray")
    assert second.invoke("xy").body == b"b:yx"
    wait(lambda: not set(before) & set(replicas(name)))
    second.delete()
    assert replicas(name) == []


@pytest.mark.ray
def test_the_controller_is_killed_under_load(nodes):
    name = own("headless")
    endpoint = create_endpoint(name, [versioned("a", 0.002)], settings=ANY_PORT, on="ray", replicas=2)
    with Load(endpoint.address, lambda body: {b"a:" + body[::-1]}, 5) as load:
        load.wait_for(100)
        (controller,) = descendants(b"ray::ServeController")
        os.kill(controller, signal.SIGKILL)
        load.wait_for(300)
    assert (load.wrong, load.answered) == ([], 2000)
    wait(lambda: descendants(b"ray::ServeController") not in ([], [controller]), "another controller")
    endpoint.update([versioned("b")])
    assert {endpoint.invoke("xy").body for _ in range(10)} == {b"b:yx"}
    endpoint.delete()
    assert replicas(name) == []


@pytest.mark.ray
def test_linear_learner_and_a_pipeline_with_it(nodes, tmp_path):
    rng = np.random.default_rng(3)
    folder = tmp_path / "linear"
    folder.mkdir()
    weights, bias = rng.normal(size=(4, 3)).astype(np.float32), rng.normal(size=4).astype(np.float32)
    save_model(Model(predictor_type="multiclass_classifier", loss="softmax_loss", weights=weights, bias=bias), folder)
    (tmp_path / "script").mkdir()
    (tmp_path / "serve.py").write_text(SCRIPT)
    linear, script = linear_learner_stage(folder), script_stage(tmp_path / "script", entry_point=tmp_path / "serve.py")
    name = own("linear")
    endpoint = create_endpoint(name, [linear], settings=ANY_PORT, on="ray", replicas=2)
    wrong = {"body": "1,2", "content_type": "text/csv"}, {"body": "a,b,c", "content_type": "text/csv"}
    rows = {
        "body": "\n".join(",".join(map(str, row)) for row in rng.normal(size=(20, 3)).round(3)),
        "content_type": "text/csv",
    }
    for stages in ([linear], [script, linear]):
        if len(stages) > 1:
            endpoint.update(stages)
        local = create_endpoint("local", stages, settings=Settings(port=0, workers=1))
        statuses = []
        for given in (rows, {**rows, "accept": "application/jsonlines"}, {**rows, "accept": "text/csv"}, *wrong):
            body = given["body"].encode()
            headers = {name: value for name, value in given.items() if name != "body"}
            there, here = (post(each.address, body, **headers) for each in (endpoint, local))
            assert there == here
            statuses.append(here[0])
        assert statuses == [200, 200, 406, 400, 400]
        local.delete()
    endpoint.delete()


@pytest.mark.ray
def test_limits_and_clients_that_leave(nodes):
    name, limit = own("limits"), Settings().max_payload_bytes
    settings = Settings(port=0, workers=1)
    endpoint = create_endpoint(name, [sample("obedient")], settings=settings, on="ray")
    local = create_endpoint("local", [sample("obedient")], settings=settings)
    for body in (b"x" * limit, b"x" * (limit + 1), b"large %d" % limit, b"large %d" % (limit + 1)):
        there, here = (outcome(each, body) for each in (endpoint, local))
        assert there == here
    parts = urlsplit(endpoint.address)
    for sent in (b"", b"sleep 0.2"):  # before the body is whole, and before the answer
        connection = http.client.HTTPConnection(parts.hostname, parts.port)
        connection.putrequest("POST", f"{parts.path}/invocations")
        connection.putheader("Content-Type", "text/plain")
        connection.putheader("Content-Length", str(len(sent) or 100))
        connection.endheaders(sent)
        connection.close()
    assert endpoint.invoke("hello").body == b"HELLO"
    local.delete()
    endpoint.delete()


@pytest.mark.ray
def test_replicas_come_with_the_load_and_go(tmp_path, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    name, gate = own("scales"), tmp_path / "gate"
    found = []

    def hold(address):
        found.append(post(address, f"until {gate}".encode(), content_type="text/plain"))

    with python(SCALES, name) as process:
        address = process.stdout.readline().strip()
        held = [threading.Thread(target=hold, args=(address,)) for _ in range(12)]
        assert len(replicas(name)) == 1
        for thread in held:
            thread.start()
        wait(lambda: len(replicas(name)) == 3, "two more replicas")
        gate.touch()
        for thread in held:
            thread.join()
        assert found == [(200, b"found")] * 12
        wait(lambda: post(address, b"x", content_type="text/plain") == (200, b"X") and len(replicas(name)) == 1)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate()
    assert process.returncode == 0, errors


class Silent:
    """Ray Serve while its controller does not answer."""

    def __init__(self):
        self.deployed = []
        self.answers = True

    def roll_out(self, spec, placement):
        if not self.answers:
            raise TimeoutError("the controller does not answer")
        self.deployed.append(spec)

    def status(self):
        raise ConnectionError("no controller")


def test_a_failed_update_goes_back_once_serve_answers():
    app, settled = Silent(), []
    rollouts = _Rollouts(app, lambda *given: settled.append(given))
    rollouts.begin("1", lambda: ("good", RaySettings()))
    rollouts.note(app_state("running"))
    app.answers = False
    rollouts.begin("2", lambda: ("bad", RaySettings()))
    rollouts.note(app_state("unknown"))
    assert app.deployed == ["good"]
    app.answers = True
    rollouts.note(app_state("running"))
    rollouts.note(app_state("running"))
    assert app.deployed == ["good", "good"]
    assert settled == [("1", None), ("2", "the controller does not answer")]


def test_a_controller_that_stays_away(monkeypatch):
    from headrace.hosting.ray import app as module

    app = ServeApp.__new__(ServeApp)
    app.name, app._serve, app._answered, app._replicas = "x", Silent(), 0.0, 2
    now = [10.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    assert (app.state().phase, app.state().replicas) == ("unknown", 2)
    now[0] = module.SILENCE_S + 1
    with pytest.raises(EndpointError, match="the controller of Ray Serve does not answer: no controller"):
        app.state()


class SmallRay:
    """A cluster of four processors, two of them in use."""

    def cluster_resources(self):
        return {"CPU": 4.0}

    def available_resources(self):
        return {"CPU": 2.0}


def test_the_cluster_of_an_endpoint_has_room_for_the_workers_of_its_replicas():
    app = ServeApp.__new__(ServeApp)
    app.name, app._ray, app._is_own, app._placement = "x", SmallRay(), True, RaySettings(replicas=2)
    assert app._most_processors(Settings()) == 3
    assert app._most_processors(Settings(workers=3)) == 9
    assert app._has_room({"CPU": 2.0})
    assert not app._has_room({"CPU": 3.0})
    spec = ReplicaSpec.of("x", [sample("echo")], Settings(workers=3), direct=False, path=[])
    with pytest.raises(EndpointError, match="its replicas take 6 processors, and the Ray cluster .* offers 4"):
        app.roll_out(spec, RaySettings(replicas=2))


def app_state(phase):
    from headrace.hosting.ray.app import AppState

    return AppState(phase)


def test_reasons_in_messages_of_serve():
    trace = (
        "Traceback (most recent call last):\n  File x\nheadrace.hosting.ray.replica.ReplicaError: on node a:\nno model"
    )
    assert reason_in(f"It failed 2 times. Error:\n{trace}\n\nmore") == "on node a: no model"
    assert reason_in("Error:\nTraceback\nValueError: wrong\n") == "ValueError: wrong"
    assert reason_in("waiting\n for 1 CPU") == "waiting for 1 CPU"
    assert reason_in("") is None
