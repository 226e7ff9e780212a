"""Batch transform on Ray: the same answers, errors and records as on one machine, and what happens when workers and nodes die."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from tests.clusters import descendants, running_cluster
from tests.jobs.transform.conftest import Jobs, sample

import headrace as hr
from headrace.errors import JobFailed
from headrace.jobs import actors
from headrace.jobs.transform import ray as module
from headrace.jobs.transform.running import read_transform, transform

LINES = {"split_type": "Line", "assemble_with": "Line"}
JOINED = {**LINES, "accept": "text/csv", "join_source": "Input", "input_filter": "$[1:]", "output_filter": "$[0,-1]"}
PATIENCE_S = 120


class BothJobs(Jobs):
    """Runs a job here and on Ray, over the same objects."""

    def both(self, container, **options):
        """Outcome, answers and records of both runs."""
        return [self.outcome(on, container, **options) for on in ("processes", "ray")]

    def outcome(self, on, container, *, run="", **options):
        stages = options.pop("stages", None) or [container if not isinstance(container, str) else sample(container)]
        spec = self.spec(name=f"job{run}-{on}", output_path=f"s3://out-{on}/{run}", **options)
        failure = ""
        try:
            record = transform(spec, stages, self.store, work_dir=self.work_dir, on_line=self.lines.append, on=on)
        except JobFailed as error:
            failure = str(error)
            record = read_transform(self.work_dir, spec.name)
        root = self.store.resolve(f"s3://out-{on}/{run}")
        answers = {
            path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()
        }
        files = sorted((one.input, one.output.partition("/out-")[0], one.status, one.records, one.reason, one.output_bytes, one.version) for one in record.files())  # fmt: skip
        content = {name: record.content.get(name) for name in ("Files", "BatchStrategy", "MaxPayloadInMB", "MaxConcurrentTransforms", "FailureReason")}  # fmt: skip
        return failure, record.status, answers, files, content


@pytest.fixture
def jobs(store, tmp_path):
    return BothJobs(store, tmp_path / "jobs")


def many(count, rows=50):
    """Objects with lines of numbers."""
    return {f"part-{n:03}.csv": "".join(f"{n * rows + row}\n" for row in range(rows)) for n in range(count)}


def children_of_actors():
    """The processes of actors."""
    return descendants(b"ray::HeadraceActor")


def answered(jobs, name="job-ray"):
    """How many objects of a job are answered."""
    journal = jobs.work_dir / name / "files.jsonl"
    return journal.read_text().count("\n") if journal.exists() else 0


def wait_until(condition):
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found


@pytest.mark.ray
@pytest.mark.parametrize(
    ("container", "options"),
    [
        ("Strict", LINES),
        ("Strict", {}),
        ("Lengths", JOINED),
        ("Documents", {**LINES, "accept": "application/jsonlines", "output_filter": "$.score", "max_payload_mb": 1}),
        ("Strict", {**LINES, "max_concurrent_transforms": 2, "strategy": "SingleRecord"}),
    ],
)
def test_answers_are_those_of_one_machine(jobs, local_ray, container, options):
    jobs.put(**many(5), **{"deep/er/x.csv": "3,4\n5,6\n" if options is JOINED else "3\n"})
    if options is JOINED:
        jobs.put(**{f"part-{n:03}.csv": "1,2,3\n4,5,6\n" for n in range(5)})
    here, there = jobs.both(container, **options)
    assert there == here
    assert here[1] == "Completed"
    assert len(there[2]) == 6


@pytest.mark.ray
def test_pipelines_and_scripts(jobs, local_ray, tmp_path):
    from headrace.hosting.stage import script_stage

    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "factor").write_text("3")
    (tmp_path / "serve.py").write_text(
        "import os\n"
        "def model_fn(folder): return float(open(os.path.join(folder, 'factor')).read())\n"
        "def predict_fn(data, model): return data * model\n"
    )
    jobs.put(**many(3))
    stages = [sample("Strict"), script_stage(tmp_path / "model", entry_point=tmp_path / "serve.py")]
    here, there = jobs.both(None, stages=stages, accept="text/csv", **LINES)
    assert there == here
    assert here[1] == "Completed"
    assert there[2]["part-000.csv.out"].startswith(b"0.0\n6.0\n12.0\n")


@pytest.mark.ray
def test_linear_learner_and_a_pipeline_with_it(jobs, local_ray, tmp_path):
    from headrace.containers.linear_learner.artifact import Model, save_model
    from headrace.hosting.stage import linear_learner_stage, script_stage

    rng = np.random.default_rng(5)
    (tmp_path / "linear").mkdir()
    (tmp_path / "script").mkdir()
    (tmp_path / "serve.py").write_text(
        "def model_fn(folder): return 3\n"
        "def predict_fn(rows, factor): return rows * factor\n"
        "def output_fn(rows, accept): return '\\n'.join(','.join(map(str, row)) for row in rows), 'text/csv'\n"
    )
    weights, bias = rng.normal(size=(4, 3)).astype(np.float32), rng.normal(size=4).astype(np.float32)
    kind = {"predictor_type": "multiclass_classifier", "loss": "softmax_loss"}
    save_model(Model(**kind, weights=weights, bias=bias), tmp_path / "linear")
    linear = linear_learner_stage(tmp_path / "linear")
    script = script_stage(tmp_path / "script", entry_point=tmp_path / "serve.py")
    rows = rng.normal(size=(4, 30, 4)).round(3)
    jobs.put(**{f"{n}.csv": "".join(",".join(map(str, row)) + "\n" for row in each) for n, each in enumerate(rows)})
    joined = {**LINES, "accept": "application/jsonlines", "input_filter": "$[1:]"}
    here, there = jobs.both(None, stages=[linear], **joined, output_filter="$.predicted_label")
    assert (there, here[1], len(there[2])) == (here, "Completed", 4)
    jobs.put(**{"2.csv": "1,2,3,4\n1,2\n"})
    here, there = jobs.both(None, stages=[script, linear], run="2", **joined)
    assert (there, here[1], len(there[2])) == (here, "Failed", 3)
    assert "1 of 4 files failed; the first: 2.csv: " in here[0]
    assert all("predicted_label" in json.loads(line) for line in there[2]["0.csv.out"].splitlines())


@pytest.mark.ray
def test_errors_are_those_of_one_machine(jobs, local_ray):
    jobs.put(**many(3) | {"part-001.csv": "1\nx\n3\n", "part-002.csv": "4\ny\n"})
    here, there = jobs.both("Strict", **LINES)
    assert there == here
    assert (
        here[0]
        == "ClientError: 2 of 3 files failed; the first: part-001.csv: 400: no number: 'x' - at record 1, byte 0x2."
    )
    assert list(there[2]) == ["part-000.csv.out"]


@pytest.mark.ray
def test_a_payload_that_kills_the_model(jobs, local_ray):
    jobs.put(**many(2) | {"part-001.csv": "1\ndie\n3\n"})
    here, there = jobs.both("Mortal", strategy="SingleRecord", invocations_max_retries=0, **LINES)
    assert there == here
    assert "was killed by SIGKILL while it had this request - at record 1, byte 0x2" in here[0]


@pytest.mark.ray
def test_a_model_that_does_not_load(jobs, local_ray):
    jobs.put(a="1\n")
    here, there = jobs.both(sample("NoSuchClass"))
    assert there == here
    assert here[0].startswith("AlgorithmError: the model does not load:")


@pytest.mark.ray
def test_output_of_containers_is_in_the_log(jobs, local_ray):
    jobs.put(a="1\n", b="2\n")
    jobs.outcome("ray", sample("Talkative"))
    log = (jobs.work_dir / "job-ray" / "logs" / "container.log").read_text()
    assert log.count("heard") == 2


@pytest.mark.ray
@pytest.mark.parametrize("seed", range(3))
def test_workers_are_killed(jobs, local_ray, seed, tmp_path):
    """Twice, at any moment of a job that cannot end before: its last object waits for a file."""
    chosen = random.Random(seed)
    jobs.put(**many(12, rows=20), **{"z-last": "wait\n"})
    gate = tmp_path / "gate"
    slow = sample("Slow", seconds=0.02, gate=str(gate))
    gate.touch()
    expected = jobs.outcome("processes", slow, strategy="SingleRecord", **LINES)[2]
    gate.unlink()
    killed = []

    def kill():
        for goal in (chosen.randrange(1, 5), chosen.randrange(5, 12)):
            wait_until(lambda goal=goal: answered(jobs) >= goal)
            found = wait_until(lambda: [process for process in children_of_actors() if process not in killed])
            killed.append(chosen.choice(found))
            os.kill(killed[-1], signal.SIGKILL)
        gate.touch()

    thread = threading.Thread(target=kill)
    thread.start()
    failure, status, answers, files, _ = jobs.outcome("ray", slow, strategy="SingleRecord", **LINES)
    thread.join()
    assert (failure, status, len(killed)) == ("", "Completed", 2)
    assert answers == expected
    assert len(files) == 13


@pytest.mark.ray
def test_an_object_that_kills_every_worker(jobs, local_ray):
    jobs.put(**many(2) | {"part-001.csv": "1\n"})
    failure, status, answers, *_ = jobs.outcome("ray", sample("KillsParent", name="part-001"))
    assert status == "Failed"
    assert (
        "InternalServerError: 1 of 2 files failed; the first: part-001.csv: the worker that had it died 4 times"
        in failure
    )
    assert list(answers) == ["part-000.csv.out"]


@pytest.mark.ray
def test_several_objects_that_kill_every_worker(jobs, local_ray):
    """One worker, which dies more often than an object may."""
    jobs.put(**many(4) | {"part-000.csv": "1\n", "part-002.csv": "1\n"})
    with pytest.raises(JobFailed, match=r"2 of 4 files failed; the first: part-00[02]\.csv: .* died 4 times"):
        transform(
            jobs.spec(),
            [sample("KillsParent", name="part")],
            jobs.store,
            work_dir=jobs.work_dir,
            on_line=print,
            on="ray",
            workers=1,
        )
    assert {one.input[-12:]: one.status for one in read_transform(jobs.work_dir, "job").files()} == {
        "part-000.csv": "Failed",
        "part-001.csv": "Completed",
        "part-002.csv": "Failed",
        "part-003.csv": "Completed",
    }


@pytest.mark.ray
def test_a_node_is_killed_and_the_job_resumes(jobs):
    jobs.put(**many(10, rows=20))
    slow = sample("Slow", seconds=0.02)
    expected = jobs.outcome("processes", slow, strategy="SingleRecord", **LINES)[2]
    with running_cluster(2) as nodes:

        def kill():
            wait_until(lambda: answered(jobs) >= 2)
            nodes.kill(0)

        thread = threading.Thread(target=kill)
        thread.start()
        failure, status, answers, *_ = jobs.outcome("ray", slow, strategy="SingleRecord", **LINES)
        thread.join()
    assert (failure, status, answers) == ("", "Completed", expected)


class Hog:
    """Takes all processors."""

    def ready(self):
        return True


@pytest.mark.ray
def test_a_job_that_waits_for_nodes_says_so(jobs, local_ray, monkeypatch):
    monkeypatch.setattr(module, "SILENCE_S", 0.5)
    jobs.put(**many(1))
    hog = local_ray.remote(num_cpus=2)(Hog).remote()
    local_ray.get(hog.ready.remote())

    def end_it():
        wait_until(lambda: any("wait for a node of the Ray cluster" in line for line in jobs.lines))
        local_ray.kill(hog)

    thread = threading.Thread(target=end_it)
    thread.start()
    given = {"work_dir": jobs.work_dir, "on_line": jobs.lines.append, "on": "ray"}
    assert transform(jobs.spec(**LINES), [sample("Strict")], jobs.store, **given).status == "Completed"
    thread.join()


@pytest.mark.ray
def test_a_job_stops_and_resumes(jobs, local_ray, tmp_path):
    """It is stopped when two objects are answered, and the others wait for a file."""
    jobs.put(**many(2, rows=20), **{f"wait-{n}": f"wait {n}\n" for n in range(6)})
    gate = tmp_path / "gate"
    spec, slow = jobs.spec(strategy="SingleRecord", **LINES), sample("Slow", seconds=0, gate=str(gate))
    stop = threading.Event()
    given = {"work_dir": jobs.work_dir, "on_line": jobs.lines.append, "on": "ray"}

    def stop_it():
        wait_until(lambda: answered(jobs, "job") == 2)
        stop.set()

    thread = threading.Thread(target=stop_it)
    thread.start()
    record = transform(spec, [slow], jobs.store, stop=stop, **given)
    thread.join()
    assert record.status == "Stopped"
    assert sorted(one.input for one in record.files()) == [f"s3://in/data/part-00{n}.csv" for n in range(2)]
    gate.touch()
    assert transform(spec, [slow], jobs.store, resume=True, **given).status == "Completed"
    assert jobs.out("wait-5") == b"wait 5\n"
    wait_until(lambda: children_of_actors() == [])


@pytest.mark.ray
@pytest.mark.parametrize("resources", [{"GPU": 3}, {"CPU": 64}])
def test_what_no_node_offers(jobs, local_ray, resources):
    jobs.put(a="1\n")
    name, amount = next(iter(resources.items()))
    with pytest.raises(JobFailed, match=rf"ClientError: no node of the Ray cluster offers .*'{name}': {amount}"):
        transform(
            jobs.spec(),
            [sample("Echo")],
            jobs.store,
            work_dir=jobs.work_dir,
            on_line=print,
            on="ray",
            resources=resources,
        )


@pytest.mark.ray
def test_a_script_that_nodes_do_not_see(jobs, local_ray, tmp_path):
    from headrace.hosting.stage import script_stage

    (tmp_path / "model").mkdir()
    jobs.put(a="1\n")
    stage = script_stage(tmp_path / "model", entry_point="serve.py", source_dir=tmp_path / "nowhere")
    here, there = jobs.both(stage)
    assert there == here
    assert "nowhere" in here[0]


@pytest.mark.ray
def test_another_version_of_headrace(jobs, local_ray, monkeypatch):
    jobs.put(a="1\n")
    monkeypatch.setattr(hr, "__version__", "9.9")
    failure, status, *_ = jobs.outcome("ray", "Echo")
    assert status == "Failed"
    assert "and Headrace 9.9 is here: install the same version everywhere" in failure


def test_events_of_a_call_come_in_order():
    events = actors.EventQueue()
    events.put("line", "before")

    def work():
        for number in range(100):
            events.put("line", str(number))
        return "done"

    found = [event for batch in events.run(work) for event in batch]
    assert found == [("line", "before"), *(("line", str(number)) for number in range(100)), ("result", "done")]
    with pytest.raises(ZeroDivisionError):
        list(events.run(lambda: 1 / 0))
    assert json.dumps(next(iter(events.run(lambda: 5)))) == '[["result", 5]]'


@pytest.mark.ray
def test_the_command_and_the_session(tmp_path, jobs, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    (tmp_path / "model" / "code").mkdir(parents=True)
    script = "def model_fn(folder): return 2\ndef predict_fn(x, model): return x * model\n"
    (tmp_path / "model" / "code" / "inference.py").write_text(script)
    jobs.put(**{"a.csv": "1\n2\n", "b.csv": "3\n"})
    rows = jobs.store.resolve("s3://in/data")
    options = ["--input", str(rows), "--split", "Line", "--assemble", "Line", "--accept", "text/csv"]
    command = [sys.executable, "-m", "headrace", "transform", str(tmp_path / "model"), *options]
    environment = {**os.environ, "HEADRACE_STATE_DIR": str(tmp_path / "state")}
    for place in ([], ["--on", "ray"]):
        output = tmp_path / f"out{len(place)}"
        found = subprocess.run(
            [*command, "--output", str(output), *place], capture_output=True, text=True, env=environment, check=False
        )
        assert found.returncode == 0, found.stderr
        assert {path.name: path.read_text() for path in output.iterdir()} == {
            "a.csv.out": "2.0\n4.0\n",
            "b.csv.out": "6.0\n",
        }
    wrong = subprocess.run([*command, "--output", "x", "--workers", "2"], capture_output=True, text=True, check=False)
    assert (wrong.returncode, "go with --on ray" in wrong.stderr) == (2, True)


@pytest.mark.ray
def test_the_driver_is_killed_and_the_same_call_goes_on(tmp_path, jobs, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    jobs.put(**many(8, rows=20))
    gate = tmp_path / "gate"  # the last objects wait for it
    script = f"""
import os, time
def model_fn(folder):
    return 2
def predict_fn(x, model):
    while x.max() >= 100 and not os.path.exists({str(gate)!r}):
        time.sleep(0.01)
    return x * model
"""
    (tmp_path / "model" / "code").mkdir(parents=True)
    (tmp_path / "model" / "code" / "inference.py").write_text(script)
    options = ["--input", str(jobs.store.resolve("s3://in/data")), "--output", str(tmp_path / "out"), "--name", "kept"]
    options += [
        "--split",
        "Line",
        "--assemble",
        "Line",
        "--accept",
        "text/csv",
        "--strategy",
        "SingleRecord",
        "--on",
        "ray",
    ]
    command = [sys.executable, "-m", "headrace", "transform", str(tmp_path / "model"), *options]
    environment = {**os.environ, "HEADRACE_STATE_DIR": str(tmp_path / "state")}
    journal = tmp_path / "state" / "transform-jobs" / "kept" / "files.jsonl"
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        wait_until(lambda: journal.exists() and journal.read_text().count("\n") >= 2)
        process.kill()
    done = {path.name: path.stat().st_ino for path in (tmp_path / "out").glob("*.out")}
    assert 2 <= len(done) <= 5
    gate.touch()
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [f"part-{n:03}.csv.out" for n in range(8)]
    assert (tmp_path / "out" / "part-007.csv.out").read_text() == "".join(f"{2.0 * n}\n" for n in range(140, 160))
