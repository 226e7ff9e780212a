"""Training jobs on Ray: several hosts under the contract of one machine, failures, stopping, and nodes that die."""

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

import pytest
from tests.clusters import descendants, running_cluster

import headrace as hr
from headrace.containers.script import ScriptContainer
from headrace.contracts.job import Channel
from headrace.errors import JobFailed
from headrace.jobs import ray as module
from headrace.jobs import run
from headrace.jobs.ray import HostWorker, interface_of
from headrace.jobs.spec import TrainingSpec
from headrace.jobs.store import PathStore
from headrace.jobs.training import read_job, request_stop, train

SHARDED = {"train": Channel(uri="s3://in/data/", distribution="ShardedByS3Key"), "all": Channel(uri="s3://in/data/")}
REPORT = """
import json, os
host = os.environ["SM_CURRENT_HOST"]
folder = os.environ["SAGEMAKER_BASE_DIR"]
resources = json.load(open(folder + "/input/config/resourceconfig.json"))
resources.pop("network_interface_name")
report = {
    "files": {name: sorted(os.listdir(os.environ["SM_CHANNEL_" + name.upper()])) for name in ("train", "all")},
    "content": open(os.environ["SM_CHANNEL_ALL"] + "/1.csv").read(),
    "variables": {name: value for name, value in os.environ.items() if name in NAMES},
    "resources": resources,
    "parameters": {
        name: value.replace(folder, "BASE") for name, value in json.load(open(folder + "/input/config/hyperparameters.json")).items()
    },
    "channels": json.load(open(folder + "/input/config/inputdataconfig.json")),
}
json.dump(report, open(os.environ["SM_MODEL_DIR"] + "/" + host, "w"), sort_keys=True)
open(os.environ["SM_MODEL_DIR"] + "/shared", "w").write(host)
open(os.environ["SM_OUTPUT_DATA_DIR"] + "/notes-" + host, "w").write("noted")
os.makedirs(os.environ["SM_MODEL_DIR"] + "/deep", exist_ok=True)
open(os.environ["SM_MODEL_DIR"] + "/deep/weights", "wb").write(bytes(range(256)) * 40000)
print("trained on", host)
"""
NAMES = ["SM_HOSTS", "SM_CURRENT_HOST", "SM_NUM_CPUS", "SM_NUM_GPUS", "SM_HPS", "SM_CHANNELS", "SM_USER_ARGS", "OWN", "SM_MODULE_NAME"]  # fmt: skip


@pytest.fixture
def start(tmp_path, store):
    """Run a job; ``start.lines`` has its log."""

    def run(container, name="job", on="ray", stop=None, stop_grace_s=20, **options):
        spec = TrainingSpec(name=name, **{"output_path": "s3://out/models", "num_hosts": 2, **options})
        given = {"work_dir": tmp_path / "jobs", "on_line": run.lines.append, "on": on, "stop": stop}
        return train(spec, container, store, stop_grace_s=stop_grace_s, **given)

    run.lines = []
    run.work_dir = tmp_path / "jobs"
    return run


def actors():
    """The processes of hosts."""
    return descendants(b"ray::HeadraceActor")


def wait_until(condition):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.ray
def test_hosts_see_what_they_see_on_one_machine(start, script, store, model, local_ray):
    for number in range(5):
        store.put(f"s3://in/data/{number}.csv", str(number))
    container = script(REPORT.replace("NAMES", repr(NAMES)), environment={"OWN": "mine"})
    options = {"channels": SHARDED, "hyperparameters": {"epochs": "3"}}
    here = start(container, name="same", on="processes", **options)
    expected = model(here)
    kept = store.resolve("s3://out/models/same").rename(store.resolve("s3://out/kept"))
    (start.work_dir / "same").rename(start.work_dir / "kept")
    there = start(container, name="same", **options)
    found = model(there)
    for host in ("algo-1", "algo-2"):
        assert json.loads(found[host]) == json.loads(expected[host])
    assert found == expected
    for name in ("model.tar.gz", "output.tar.gz"):
        assert (store.resolve("s3://out/models/same/output") / name).read_bytes() == (
            kept / "output" / name
        ).read_bytes()
    assert json.loads(expected["algo-2"])["files"] == {
        "train": ["1.csv", "3.csv"],
        "all": [f"{n}.csv" for n in range(5)],
    }
    nodes = there.content["HostNodes"]
    assert list(nodes) == ["algo-1", "algo-2"]
    for host, node in nodes.items():
        assert f"{host} | runs on node {node}" in start.lines
        assert f"{host} | trained on {host}" in start.lines
    assert not (there.files.folder / "hosts" / "algo-1").exists()
    assert there.status == "Completed"
    wait_until(lambda: actors() == [])


@pytest.mark.ray
def test_hosts_know_the_addresses_of_others(start, script, model, local_ray):
    text = """
        import os
        open(os.environ["SM_MODEL_DIR"] + "/" + os.environ["SM_CURRENT_HOST"], "w").write(os.environ["HEADRACE_HOST_ADDRESSES"])
    """
    found = model(start(script(text)))
    addresses = json.loads(found["algo-1"])
    assert list(addresses) == ["algo-1", "algo-2"]
    assert addresses == json.loads(found["algo-2"])
    assert interface_of("127.0.0.1") == "lo"
    assert interface_of("203.0.113.7") == "lo"


@pytest.mark.ray
def test_one_failing_host_ends_the_job_with_its_reason(start, script, store, local_ray):
    text = """
        import os, sys, time
        open(os.environ["SM_OUTPUT_DATA_DIR"] + "/log", "w").write("before")
        if os.environ["SM_CURRENT_HOST"] == "algo-2":
            raise ValueError("not me")
        time.sleep(600)
    """
    reasons = []
    for on in ("processes", "ray"):
        with pytest.raises(JobFailed, match="not me") as raised:
            start(script(text), name=f"job-{on}", on=on)
        reasons.append(str(raised.value))
        assert read_job(start.work_dir, f"job-{on}").failure_reason == str(raised.value)
        assert store.resolve(f"s3://out/models/job-{on}/output/output.tar.gz").is_file()
        failure = start.work_dir / f"job-{on}" / "hosts" / "algo-2" / "output" / "failure"
        assert "not me" in failure.read_text()
    assert reasons[0] == reasons[1]
    wait_until(lambda: actors() == [])


@pytest.mark.ray
def test_exit_codes_and_missing_scripts(start, script, tmp_path, local_ray):
    outcomes = []
    for on in ("processes", "ray"):
        with pytest.raises(JobFailed) as raised:
            start(script("import sys; sys.exit(3)"), name=f"exit-{on}", on=on)
        outcomes.append(str(raised.value))
    assert outcomes[0] == outcomes[1]
    assert "3" in outcomes[0]
    with pytest.raises(JobFailed, match=r"nowhere\.py"):
        start(ScriptContainer(entry_point=tmp_path / "nowhere.py"), name="missing")
    with pytest.raises(JobFailed, match=r"host algo-[12] on node \S+ \(\w{8}\): .*channel train has no objects under"):
        start(script(""), name="empty", channels={"train": Channel(uri="s3://in/nothing/")})


STOPS = """
import os, signal, sys, time
def save(*_):
    open(os.environ["SM_MODEL_DIR"] + "/" + os.environ["SM_CURRENT_HOST"], "w").write("saved")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("waiting", flush=True)
time.sleep(600)
"""


class Clock:
    """The time, which a test can advance beyond the longest run."""

    ahead_s = 0

    def monotonic(self):
        return time.monotonic() + self.ahead_s

    def advance(self):
        self.ahead_s = 700

    def __getattr__(self, name):
        return getattr(time, name)


@pytest.mark.ray
@pytest.mark.parametrize("how", ["event", "request", "time"])
def test_stopping_keeps_the_model(start, script, model, local_ray, how, monkeypatch):
    stop, clock = threading.Event(), Clock()
    seen = []
    if how == "time":
        monkeypatch.setattr(run, "time", clock)
    ways = {"event": stop.set, "request": lambda: request_stop(start.work_dir, "job"), "time": clock.advance}

    class Lines(list):
        def append(self, line):
            super().append(line)
            if line.endswith("| waiting"):
                seen.append(line)
                if len(seen) == 2:
                    ways[how]()

    start.lines = Lines()
    record = start(script(STOPS), stop=stop, max_runtime_s=600)
    assert (record.status, record.secondary_status) == ("Stopped", "MaxRuntimeExceeded" if how == "time" else "Stopped")
    assert model(record) == {"algo-1": b"saved", "algo-2": b"saved"}


@pytest.mark.ray
def test_a_host_is_killed(start, script, tmp_path, local_ray):
    text = f"""
        import os, time
        if os.environ["SM_CURRENT_HOST"] == "algo-2":
            open({str(tmp_path / "pid")!r}, "w").write(str(os.getpid()))
        time.sleep(600)
    """

    def kill():
        wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
        os.kill(actors()[1], signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    with pytest.raises(JobFailed, match=r"InternalServerError: host algo-[12] on node .* died"):
        start(script(text))
    thread.join()
    assert read_job(start.work_dir, "job").status == "Failed"
    wait_until(lambda: actors() == [])


@pytest.mark.ray
def test_two_nodes_and_one_that_is_killed(start, script, store, model):
    store.put("s3://in/data/0.csv", "0")
    text = """
        import os
        open(os.environ["SM_MODEL_DIR"] + "/" + os.environ["SM_CURRENT_HOST"], "w").write(open(os.environ["SM_CHANNEL_TRAIN"] + "/0.csv").read())
    """
    with running_cluster(2) as nodes:
        record = start(script(text), channels={"train": Channel(uri="s3://in/data/")})
        assert model(record) == {"algo-1": b"0", "algo-2": b"0"}
        assert len(set(record.content["HostNodes"].values())) == 2
        with pytest.raises(
            JobFailed, match=r"ClientError: the Ray cluster holds 2 hosts that take .* and the job has 3"
        ):
            start(script(text), name="three", num_hosts=3)

        def kill():
            wait_until(lambda: sum(line.endswith("| waiting") for line in start.lines) == 2)
            nodes.kill(0)

        thread = threading.Thread(target=kill)
        thread.start()
        with pytest.raises(JobFailed, match=r"InternalServerError: host algo-[12] on node .* died"):
            start(script(STOPS), name="killed")
        thread.join()


@pytest.mark.ray
def test_a_pipe_on_a_node(start, script, store, model, local_ray):
    for number in range(4):
        store.put(f"s3://in/data/{number}.csv", f"{number}\n")
    text = """
        import os
        folder = os.environ["SM_INPUT_DIR"] + "/data"
        rows = open(folder + "/train_0").read()
        open(os.environ["SM_MODEL_DIR"] + "/" + os.environ["SM_CURRENT_HOST"], "w").write(rows)
    """
    piped = Channel(uri="s3://in/data/", input_mode="Pipe", distribution="ShardedByS3Key")
    assert model(start(script(text), channels={"train": piped})) == {"algo-1": b"0\n2\n", "algo-2": b"1\n3\n"}


@pytest.mark.ray
def test_another_version_of_headrace(start, script, local_ray, monkeypatch):
    monkeypatch.setattr(hr, "__version__", "9.9")
    with pytest.raises(JobFailed, match=r"and Headrace 9\.9 is here: install the same version everywhere"):
        start(script(""))


@pytest.mark.ray
def test_relative_paths_are_those_of_the_folder_of_the_caller(tmp_path, local_ray, monkeypatch):
    for folder in ("numbers", "lib", "ck"):
        (tmp_path / folder).mkdir()
    (tmp_path / "numbers" / "a.csv").write_text("7")
    (tmp_path / "lib" / "dep.py").write_text("NAME = 'dep'")
    (tmp_path / "train.py").write_text(
        "import dep, os, shutil\nbase = os.environ['SAGEMAKER_BASE_DIR']\n"
        "open(base + '/checkpoints/' + dep.NAME, 'w').write(open(os.environ['SM_CHANNEL_TRAIN'] + '/a.csv').read())\n"
    )
    monkeypatch.chdir(tmp_path)
    container = ScriptContainer(entry_point="train.py", dependencies=["lib/dep.py"])
    channels = {"train": Channel(uri="numbers")}
    spec = TrainingSpec(name="relative", channels=channels, output_path="models", checkpoint_uri="ck")
    record = train(spec, container, PathStore(), work_dir=tmp_path / "jobs", on_line=print, on="ray")
    assert record.status == "Completed"
    assert (tmp_path / "ck" / "dep").read_text() == "7"


MODULE = """
from dataclasses import dataclass, field

@dataclass(frozen=True)
class Own:
    name: str = "own"
    environment: dict = field(default_factory=dict)

    def train(self, job):
        (job.model_dir / job.current_host).write_text("own")

    def handler(self, model_dir):
        raise NotImplementedError
"""


@pytest.mark.ray
def test_a_container_of_a_module_of_the_program(start, model, tmp_path, local_ray, monkeypatch):
    (tmp_path / "ownmodule.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    made = importlib.import_module("ownmodule").Own()
    assert model(start(made)) == {"algo-1": b"own", "algo-2": b"own"}
    local = {"__name__": "__main__"}
    exec(MODULE, local)
    monkeypatch.setattr(sys.modules["__main__"], "Own", local["Own"], raising=False)
    assert model(start(local["Own"](), name="main")) == {"algo-1": b"own", "algo-2": b"own"}
    with pytest.raises(JobFailed, match="ClientError: a container and a store .* must be picklable: TypeError"):
        start(type(made)(environment={"lock": threading.Lock()}), name="lock")
    (tmp_path / "ownmodule.py").unlink()
    importlib.invalidate_caches()
    with pytest.raises(JobFailed, match="ClientError: node .* cannot load the container or the store: .*ownmodule"):
        start(made, name="gone")


@pytest.mark.ray
@pytest.mark.parametrize("how", ["request", "interrupt"])
def test_a_job_that_waits_for_nodes_is_stopped(start, script, model, local_ray, how, monkeypatch):
    monkeypatch.setattr(module, "SILENCE_S", 0.5)
    hog = local_ray.remote(num_cpus=2)(Hog).remote()
    local_ray.get(hog.ready.remote())

    def stop():
        wait_until(lambda: any("wait for a node of the Ray cluster" in line for line in start.lines))
        if how == "request":
            request_stop(start.work_dir, "job")
        else:
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=stop)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # Ray Train leaves its own behind
    thread.start()
    try:
        if how == "interrupt":
            with pytest.raises(KeyboardInterrupt):
                start(script(""))
        else:
            assert model(start(script(""))) == {}
    finally:
        thread.join()
        signal.signal(signal.SIGINT, handler)
        local_ray.kill(hog)
    assert any(line.startswith("algo-1, algo-2 wait for a node") for line in start.lines)
    assert read_job(start.work_dir, "job").status == "Stopped"
    wait_until(lambda: actors() == [])


class Hog:
    def ready(self):
        return True


def test_trees_of_killed_hosts_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(module, "_own_address", lambda: "127.0.0.1")
    monkeypatch.setattr(module, "SETTLED_S", -1)
    left = tmp_path / f"{module.TEMPORARY}job-algo-1-x"
    (left / "ml" / "input").mkdir(parents=True)
    (left / module.ALIVE).touch()
    made = (TrainingSpec(name="job", output_path="out"), None, PathStore())
    first, second = (HostWorker(*made, host, [], 1.0) for host in ("algo-1", "algo-1"))
    assert len(list(tmp_path.iterdir())) == 2
    assert not left.exists()
    list(first.close())
    list(second.close())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.ray
def test_the_command(tmp_path):
    (tmp_path / "train.py").write_text(
        "import os\nopen(os.environ['SM_MODEL_DIR'] + '/' + os.environ['SM_CURRENT_HOST'], 'w').write('x')\n"
    )
    environment = {**os.environ, "HEADRACE_STATE_DIR": str(tmp_path / "state")}
    environment.pop("RAY_ADDRESS", None)
    command = [sys.executable, "-m", "headrace", "train", "train.py", "--hosts", "3", "--name", "far", "--on", "ray"]
    found = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
    assert (found.returncode, found.stdout) == (0, "far/output/model.tar.gz\n"), found.stderr
    assert "algo-3 | runs on node" in found.stderr
