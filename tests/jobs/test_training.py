"""Training jobs of scripts, from inputs to artifacts."""

import errno
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tarfile
import threading

import numpy as np
import pytest
from tests.containers.conftest import SCRIPTS, ask
from tests.containers.test_interpreter import write_wheel

from headrace.containers.script import ScriptContainer
from headrace.contracts.job import Channel, Container, Store
from headrace.errors import JobFailed
from headrace.io.write.atomic import AtomicFile
from headrace.jobs.spec import TrainingSpec
from headrace.jobs.store import PathStore
from headrace.jobs.training import read_job, request_stop, train
from headrace.jobs.tree import as_json, pack, unpack

TELL = """
    import json, os, sys
    found = {"env": dict(os.environ), "args": sys.argv[1:], "cwd": os.getcwd()}
    found["files"] = {n: sorted(os.listdir(os.environ["SM_CHANNEL_" + n.upper()])) for n in json.loads(os.environ["SM_CHANNELS"])}
    with open(os.path.join(os.environ["SM_MODEL_DIR"], "found.json"), "w") as file:
        json.dump(found, file)
"""


def test_protocols(store):
    assert isinstance(ScriptContainer(entry_point="a.py"), Container)
    assert isinstance(store, Store)
    assert isinstance(PathStore(), Store)


def test_channels_are_described_as_the_api_does(run, script, store):
    store.put("s3://in/data/a.csv", "1")
    plain = Channel(uri="s3://in/data")
    sharded = Channel(uri="s3://in/data", content_type="text/csv", distribution="ShardedByS3Key", shuffle_seed=7)
    record = run(script("import os"), channels={"plain": plain, "sharded": sharded})
    source = {"S3DataType": "S3Prefix", "S3Uri": "s3://in/data"}
    assert record.content["InputDataConfig"] == [
        {
            "ChannelName": "plain",
            "DataSource": {"S3DataSource": {**source, "S3DataDistributionType": "FullyReplicated"}},
            "CompressionType": "None",
            "RecordWrapperType": "None",
            "InputMode": "File",
        },
        {
            "ChannelName": "sharded",
            "DataSource": {"S3DataSource": {**source, "S3DataDistributionType": "ShardedByS3Key"}},
            "ContentType": "text/csv",
            "CompressionType": "None",
            "RecordWrapperType": "None",
            "InputMode": "File",
            "ShuffleConfig": {"Seed": 7},
        },
    ]


def test_variables_of_a_script(run, script, store, model, tmp_path):
    store.put("s3://in/data/a.csv", "1")
    store.put("s3://in/data/b/c.csv", "2")
    values = {
        "n_estimators": 20,
        "name": "a b",
        "on": True,
        "no": None,
        "grid": {"b": 2, "a": 1},
        "l": [1, 2],
        "c": 1.5,
    }
    record = run(
        script(TELL, environment={"MINE": "1"}),
        channels={"train": Channel(uri="s3://in/data", content_type="text/csv"), "my-test.x": "s3://in/data/a.csv"},
        hyperparameters={**as_json(values), "raw": "no json", "sagemaker_extra": "7"},
        environment={"THEIRS": "2"},
    )
    assert (record.status, record.secondary_status) == ("Completed", "Completed")
    reported = json.loads(model(record)["found.json"])
    env, base = reported["env"], tmp_path / "jobs" / "job" / "hosts" / "algo-1"
    assert reported["files"] == {"train": ["a.csv", "b"], "my-test.x": ["a.csv"]}
    assert reported["cwd"] == str(base / "code")
    assert reported["args"] == [
        "-c", "1.5", "--grid", "a=1,b=2", "-l", "[1, 2]", "--n_estimators", "20", "--name", "a b", "--no", "", "--on", "True",
        "--raw", "no json",
    ]  # fmt: skip
    expected = {
        "SAGEMAKER_BASE_DIR": str(base),
        "SM_MODEL_DIR": str(base / "model"),
        "SM_OUTPUT_DIR": str(base / "output"),
        "SM_OUTPUT_DATA_DIR": str(base / "output/data"),
        "SM_OUTPUT_INTERMEDIATE_DIR": str(base / "output/intermediate"),
        "SM_INPUT_DIR": str(base / "input"),
        "SM_INPUT_CONFIG_DIR": str(base / "input/config"),
        "SM_CHANNELS": '["my-test.x","train"]',
        "SM_CHANNEL_TRAIN": str(base / "input/data/train"),
        "SM_CHANNEL_MY-TEST.X": str(base / "input/data/my-test.x"),
        "SM_HPS": '{"c":1.5,"grid":{"a":1,"b":2},"l":[1,2],"n_estimators":20,"name":"a b","no":null,"on":true,"raw":"no json"}',
        "SM_HP_NAME": "a b",
        "SM_HP_ON": "true",
        "SM_HP_NO": "",
        "SM_HP_GRID": '{"a":1,"b":2}',
        "SM_FRAMEWORK_PARAMS": '{"sagemaker_extra":7}',
        "SM_USER_ENTRY_POINT": "train.py",
        "SM_MODULE_NAME": "train",
        "SM_MODULE_DIR": str(base / "code"),
        "SM_HOSTS": '["algo-1"]',
        "SM_CURRENT_HOST": "algo-1",
        "SM_CURRENT_INSTANCE_TYPE": "local",
        "SM_CURRENT_INSTANCE_GROUP": "homogeneousCluster",
        "SM_CURRENT_INSTANCE_GROUP_HOSTS": '["algo-1"]',
        "SM_INSTANCE_GROUPS": '["homogeneousCluster"]',
        "SM_IS_HETERO": "false",
        "SM_LOG_LEVEL": "20",
        "SM_NUM_CPUS": str(os.cpu_count()),
        "SM_NUM_NEURONS": "0",
        "SM_FRAMEWORK_MODULE": "",
        "SM_INPUT_DATA_CONFIG": '{"my-test.x":{"RecordWrapperType":"None","S3DistributionType":"FullyReplicated",'
        '"TrainingInputMode":"File"},"train":{"ContentType":"text/csv","RecordWrapperType":"None",'
        '"S3DistributionType":"FullyReplicated","TrainingInputMode":"File"}}',
        "SAGEMAKER_JOB_NAME": "job",
        "TRAINING_JOB_NAME": "job",
        "CURRENT_HOST": "algo-1",
        "MINE": "1",
        "THEIRS": "2",
    }
    assert {name: env.get(name) for name in expected} == expected
    assert json.loads(env["SM_USER_ARGS"]) == reported["args"]
    training_env = json.loads(env["SM_TRAINING_ENV"])
    assert training_env["channel_input_dirs"]["train"] == expected["SM_CHANNEL_TRAIN"]
    assert training_env["job_name"] == "job"
    for name in ("SM_RESOURCE_CONFIG", "SM_NETWORK_INTERFACE_NAME", "SM_NUM_GPUS", "TRAINING_JOB_ARN", "SM_INPUT"):
        assert env[name]


def test_the_featurizer_runs_unmodified(run, store, tmp_path):
    rng = np.random.default_rng(0)
    rows = [f"{'MFI'[i % 3]},{','.join(f'{v:.3f}' for v in rng.random(7))},{i % 20}" for i in range(60)]
    store.put("s3://in/abalone/abalone.csv", "\n".join(rows))
    container = ScriptContainer(entry_point=SCRIPTS / "abalone_featurizer.py", rows_independent=True)
    record = run(container, channels={"train": "s3://in/abalone/abalone.csv"})
    assert run.lines[-1] == "algo-1 | saved model!"
    unpack(store.resolve(record.model_uri), tmp_path / "model")
    handler = container.handler(tmp_path / "model")
    answer = handler(ask("M, 0.44, 0.365, 0.125, 0.516, 0.2155, 0.114, 0.155", "text/csv; charset=utf-8"))
    assert answer.content_type == "application/json"
    (instance,) = json.loads(answer.body)["instances"]
    assert len(instance["features"]) == 10
    csv = handler(ask("\n".join(rows), accept="text/csv"))
    assert csv.content_type == "text/csv; charset=utf-8"
    lines = csv.body.decode().splitlines()
    assert len(lines) == 60
    assert [float(line.split(",")[0]) for line in lines] == [i % 20 for i in range(60)]
    requests = [ask(row.rpartition(",")[0]) for row in rows[:8]]
    for alone, together in zip(map(handler, requests), handler.answer_many(requests), strict=True):
        np.testing.assert_allclose(
            *(json.loads(one.body)["instances"][0]["features"] for one in (alone, together)), rtol=1e-12
        )


def test_artifacts_have_their_files_at_the_root_and_are_the_same_again(run, script, store):
    text = """
        import os, stat
        for folder, name in [("SM_MODEL_DIR", "b/x"), ("SM_MODEL_DIR", "a"), ("SM_OUTPUT_DATA_DIR", "report.txt")]:
            path = os.path.join(os.environ[folder], name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            open(path, "w").write(name)
        os.symlink(os.path.join(os.environ["SM_MODEL_DIR"], "a"), os.path.join(os.environ["SM_MODEL_DIR"], "link"))
    """
    records = [run(script(text), name=name) for name in ("one", "two")]
    archives = [store.resolve(record.model_uri).read_bytes() for record in records]
    assert archives[0] == archives[1]
    with tarfile.open(store.resolve("s3://out/models/one/output/model.tar.gz")) as archive:
        assert [(one.name, one.isreg(), one.mtime, one.uid) for one in archive] == [
            (name, True, 0, 0) for name in ("a", "b/x", "link")
        ]
    with tarfile.open(store.resolve("s3://out/models/one/output/output.tar.gz")) as archive:
        assert archive.getnames() == ["report.txt"]
    assert os.listdir(store.resolve("s3://out/models/one/output")) in (
        ["model.tar.gz", "output.tar.gz"],
        ["output.tar.gz", "model.tar.gz"],
    )


def test_links_to_folders_are_followed(run, script, store, tmp_path):
    store.put("s3://in/real/a", b"1")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "b").write_bytes(b"2")
    (store.resolve("s3://in") / "link").symlink_to(tmp_path / "elsewhere")
    (store.resolve("s3://in") / "real" / "back").symlink_to(store.resolve("s3://in"))
    text = """
        import glob, os
        model, data = os.environ["SM_MODEL_DIR"], os.environ["SM_CHANNEL_TRAIN"]
        os.mkdir(os.path.join(model, "step_2"))
        names = sorted(glob.glob("**/*", root_dir=data, recursive=True))
        open(os.path.join(model, "step_2", "names"), "w").write(" ".join(names))
        os.symlink("step_2", os.path.join(model, "latest"))
        os.symlink("..", os.path.join(model, "step_2", "up"))
        os.symlink("nothing", os.path.join(model, "dangling"))
        os.mkfifo(os.path.join(model, "step_2", "pipe"))
    """
    record = run(script(text), channels={"train": Channel(uri="s3://in/")})
    assert sorted(line for line in run.lines if "model.tar.gz does not contain" in line) == [
        "model.tar.gz does not contain dangling: it is a link that leads nowhere",
        "model.tar.gz does not contain latest/pipe: it is neither a file nor a folder",
        "model.tar.gz does not contain step_2/pipe: it is neither a file nor a folder",
    ]
    with tarfile.open(store.resolve(record.model_uri)) as archive:
        assert archive.getnames() == ["latest/names", "step_2/names"]
        assert archive.extractfile("latest/names").read() == b"link link/b real real/a"


def test_logs_are_live_kept_and_of_both_streams(run, script):
    text = """
        import sys
        print("one", flush=True)
        sys.stderr.write("two\\n"); sys.stderr.flush()
        input_ = sys.stdin.read()
        print("10%\\r20%\\r100%"); print("no end", end="")
        sys.stdout.buffer.write(b"\\xff")
    """
    record = run(script(text))
    assert sorted(run.lines) == ["algo-1 | 100%", "algo-1 | no end\ufffd", "algo-1 | one", "algo-1 | two"]
    assert sorted(record.files.log("algo-1").read_text().splitlines()) == ["100%", "no end\ufffd", "one", "two"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "raise KeyError('SM_CHANNEL_X')",
            "AlgorithmError: train.py failed with exit code 1: KeyError: 'SM_CHANNEL_X'",
        ),
        ("import sys; sys.exit(3)", "AlgorithmError: train.py failed with exit code 3"),
        ("import sys; sys.exit('as expected')", "AlgorithmError: train.py failed with exit code 1: as expected"),
        (
            "raise ValueError('a\\nb' + 'c' * 5000)",
            "AlgorithmError: train.py failed with exit code 1: ValueError: a bccc",
        ),
        (
            "import os; open(os.environ['SM_OUTPUT_DIR'] + '/failure', 'w').write('my own\\nwords'); os._exit(1)",
            "AlgorithmError: my own words",
        ),
        (
            "import os; os.kill(os.getpid(), 9)",
            "AlgorithmError: train.py was killed by SIGKILL (signal 9): the machine may",
        ),
        (
            "import os; open(os.environ['SM_OUTPUT_DIR'] + '/failure', 'w').write('Customer error: no rows'); os._exit(2)",
            "ClientError: no rows",
        ),
        (
            "raise ExceptionGroup('two failed', [ValueError('no rows')])",
            "exit code 1: ExceptionGroup: two failed (1 sub-exception); the first: ValueError: no rows",
        ),
        (
            "import os, shutil; shutil.rmtree(os.environ['SM_OUTPUT_DIR']); raise ValueError('its own')",
            "exit code 1: ValueError: its own",
        ),
        ("def f(:", "AlgorithmError: train.py failed with exit code 1: SyntaxError"),
        ("import argparse; argparse.ArgumentParser().parse_args(['--x'])", "error: unrecognized arguments: --x"),
    ],
)
def test_failures_say_why_in_one_line(run, script, store, text, reason):
    with pytest.raises(JobFailed) as error:
        run(script(text))
    message = str(error.value)
    assert reason in message
    assert "\n" not in message
    assert len(message) <= 1024
    record = read_job(run.work_dir, "job")
    assert (record.status, record.failure_reason) == ("Failed", message)
    assert not store.resolve("s3://out/models/job/output/model.tar.gz").exists()
    failure = (record.files.base_dir("algo-1") / "output" / "failure").read_text()
    assert failure
    if "KeyError" in text:
        assert failure.startswith(
            'ExecuteUserScriptError:\nExitCode 1\nErrorMessage "Traceback (most recent call last):'
        )
        assert failure.endswith(' train.py"')


def test_a_script_may_remove_its_output_folder(run, script, store):
    text = "import os, shutil; open(os.environ['SM_MODEL_DIR'] + '/m', 'w'); shutil.rmtree(os.environ['SM_OUTPUT_DIR'])"
    assert run(script(text)).status == "Completed"
    assert store.resolve("s3://out/models/job/output/model.tar.gz").exists()


@pytest.mark.parametrize(
    "left",
    [
        "os.mkfifo(out + '/failure')",
        "os.mkdir(out + '/failure')",
        "os.symlink('nowhere', out + '/failure')",
        "shutil.rmtree(out); open(out, 'w')",
        "shutil.rmtree(out); os.mkfifo(out)",
    ],
)
def test_what_a_script_leaves_in_its_output_does_not_hide_its_reason(run, script, left):
    text = f"import os, shutil; out = os.environ['SM_OUTPUT_DIR']; {left}; raise SystemExit('the reason')"
    with pytest.raises(JobFailed, match=r"^AlgorithmError: train.py failed with exit code 1: the reason$"):
        run(script(text))


def test_a_script_may_replace_its_output_folder(run, script):
    text = "import os, shutil; out = os.environ['SM_OUTPUT_DIR']; shutil.rmtree(out); open(out, 'w')"
    assert run(script(text)).status == "Completed"


def test_a_long_reason_of_the_script_is_cut(run, script):
    text = "import os; open(os.environ['SM_OUTPUT_DIR'] + '/failure', 'w').write('why ' * 100_000); raise SystemExit(1)"
    with pytest.raises(JobFailed, match=r"^AlgorithmError: why why .*\.\.\.$"):
        run(script(text))


def test_modules_of_all_python_paths_are_found(run, script, tmp_path, monkeypatch):
    for name in ("of_job", "of_container", "of_caller"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "of_caller"))
    text = "import of_job, of_container, of_caller, os; assert os.environ['PYTHONUNBUFFERED'] == 'no'"
    container = script(text, environment={"PYTHONPATH": str(tmp_path / "of_container")})
    run(container, environment={"PYTHONPATH": str(tmp_path / "of_job"), "PYTHONUNBUFFERED": "no"})


def test_empty_folders_of_a_model_are_kept(run, script, store, tmp_path):
    text = "import os; os.makedirs(os.environ['SM_MODEL_DIR'] + '/saved/assets'); open(os.environ['SM_MODEL_DIR'] + '/m', 'w')"
    run(script(text))
    unpack(store.resolve("s3://out/models/job/output/model.tar.gz"), tmp_path / "model")
    assert sorted(one.relative_to(tmp_path / "model").as_posix() for one in (tmp_path / "model").rglob("*")) == [
        "m",
        "saved",
        "saved/assets",
    ]


@pytest.mark.parametrize("name", ["W:0.npy", "back\\slash.bin"])
def test_names_of_linux_are_names_of_models(run, script, store, tmp_path, name):
    run(script(f"import os; open(os.environ['SM_MODEL_DIR'] + '/' + {name!r}, 'w')"))
    unpack(store.resolve("s3://out/models/job/output/model.tar.gz"), tmp_path / "model")
    assert os.listdir(tmp_path / "model") == [name]


def test_a_model_that_could_not_be_unpacked_fails_its_job(run, script, store, tmp_path):
    with pytest.raises(JobFailed, match=r"^AlgorithmError: the model has the file '~a', which could not be unpacked"):
        run(script("import os; open(os.environ['SM_MODEL_DIR'] + '/~a', 'w')"))
    assert not store.resolve("s3://out/models/job/output/model.tar.gz").exists()
    assert os.listdir(tmp_path / "jobs" / "job" / "hosts" / "algo-1" / "model") == ["~a"]


def test_a_model_folder_that_became_a_file_fails_the_job(run, script):
    text = "import os; d = os.environ['SM_MODEL_DIR']; os.rmdir(d); open(d, 'w')"
    with pytest.raises(JobFailed, match="AlgorithmError: the model is a folder, but the script has left a file at"):
        run(script(text))


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [("a", "a/b", ["a/b"]), ("a/b", "a", ["a"]), ("a", "a/b/", ["a"]), ("a/b/", "a", ["a"])],
)
def test_a_file_and_a_folder_of_one_name(run, script, store, tmp_path, first, second, kept):
    text = f"""
        import os
        name = {first!r} if os.environ["SM_CURRENT_HOST"] == "algo-1" else {second!r}
        path = os.environ["SM_MODEL_DIR"] + "/" + name
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if not name.endswith("/"):
            open(path, "w").close()
        open(os.environ["SM_MODEL_DIR"] + "/" + os.environ["SM_CURRENT_HOST"], "w").close()
    """
    run(script(text), num_hosts=2)
    unpack(store.resolve("s3://out/models/job/output/model.tar.gz"), tmp_path / "model")
    found = [
        path.relative_to(tmp_path / "model").as_posix() for path in (tmp_path / "model").rglob("*") if path.is_file()
    ]
    assert sorted(found) == [*kept, "algo-1", "algo-2"]


def test_a_failed_job_keeps_what_it_put_out(run, script, store):
    text = "import os; open(os.environ['SM_OUTPUT_DATA_DIR'] + '/x', 'w').write('1'); raise SystemExit(1)"
    with pytest.raises(JobFailed):
        run(script(text))
    assert os.listdir(store.resolve("s3://out/models/job/output")) == ["output.tar.gz"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"channels": {"train": "s3://in/nothing"}}, "channel train has no objects under s3://in/nothing"),
        ({"channels": {"train": "https://x"}}, "https://x"),
    ],
)
def test_missing_input(run, script, options, words):
    with pytest.raises(JobFailed, match=words):
        run(script("pass"), **options)
    assert read_job(run.work_dir, "job").secondary_status == "Failed"


def test_an_invalid_output_path_is_reported_before_training(run, script):
    with pytest.raises(JobFailed, match="^ClientError: .*https://nowhere"):
        run(script("print('trained')"), output_path="https://nowhere")
    assert run.lines == []


@pytest.mark.parametrize("setting", ["output_path", "checkpoint_uri"])
@pytest.mark.parametrize("uri", ["s3://out/file", "s3://out/file/below"])
def test_a_file_in_the_place_of_a_folder_is_reported_before_training(run, script, store, setting, uri):
    path = store.resolve(store.put("s3://out/file", "x"))
    message = f"^ClientError: {setting} {uri} must be a folder, or a new one, but {path} is a file: give another"
    with pytest.raises(JobFailed, match=message):
        run(script("print('trained')"), **{setting: uri})
    assert run.lines == []


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_folder_that_cannot_be_written_to_is_reported_before_training(run, script, store):
    store.resolve("s3://out").mkdir(parents=True, mode=0o500)
    with pytest.raises(JobFailed, match="^ClientError: output_path s3://out/models .* cannot be written to"):
        run(script("print('trained')"))
    assert run.lines == []


def test_a_missing_script(run, tmp_path):
    with pytest.raises(JobFailed, match="no file nothing.py"):
        run(ScriptContainer(entry_point=tmp_path / "nothing.py"))


def test_names_are_unique(run, script):
    run(script("pass"))
    with pytest.raises(ValueError, match="the training job 'job' already exists.*or remove") as reported:
        run(script("pass"))
    shutil.rmtree(str(reported.value).rpartition(" ")[2])
    run(script("pass"))
    with pytest.raises(ValueError, match="there is no training job 'other'"):
        read_job(run.work_dir, "other")


def test_a_damaged_record_is_named(run, script):
    run(script("pass"))
    path = run.work_dir / "job" / "status.json"
    path.write_text("{")
    with pytest.raises(ValueError, match=f"the record of the training job 'job' is damaged: {path} is not JSON"):
        read_job(run.work_dir, "job")


def test_statuses(run, script):
    record = run(script("pass"))
    transitions = record.content["SecondaryStatusTransitions"]
    assert [one["Status"] for one in transitions] == ["Starting", "Downloading", "Training", "Uploading", "Completed"]
    assert all("EndTime" in one for one in transitions[:-1])
    assert read_job(run.work_dir, "job").content == record.content
    assert not record.files.base_dir("algo-1").exists()
    request_stop(run.work_dir, "job")  # too late: nothing happens
    assert not record.files.stop.exists()


STUBBORN = """
    import os, signal, sys, time
    def stop(number, frame):
        open(os.environ["SM_MODEL_DIR"] + "/saved", "w").write("yes")
        {then}
    signal.signal(signal.SIGTERM, stop)
    print("ready", flush=True)
    while True:
        time.sleep(0.05)
"""


class WhenReady:
    """Call a function as soon as a script reports that it is ready."""

    def __init__(self, act):
        self.act = act
        self.lines = []

    def __call__(self, line):
        self.lines.append(line)
        if line.endswith("ready"):
            self.act()


@pytest.mark.parametrize(("then", "grace_s"), [("sys.exit(0)", 120), ("sys.exit(143)", 120), ("pass", 0.3)])
def test_stopping_keeps_the_model(run, script, model, then, grace_s):
    stop = threading.Event()
    record = run(script(STUBBORN.format(then=then)), on_line=WhenReady(stop.set), stop=stop, stop_grace_s=grace_s)
    assert (record.status, record.secondary_status) == ("Stopped", "Stopped")
    assert model(record) == {"saved": b"yes"}
    assert "Stopping" in [one["Status"] for one in record.content["SecondaryStatusTransitions"]]


def test_another_process_may_ask_to_stop(run, script):
    ask_to_stop = WhenReady(lambda: request_stop(run.work_dir, "job"))
    assert run(script(STUBBORN.format(then="sys.exit(0)")), on_line=ask_to_stop).status == "Stopped"


def test_time_is_up(run, script, model):
    record = run(script(STUBBORN.format(then="sys.exit(0)")), max_runtime_s=1.5)
    assert (record.status, record.secondary_status) == ("Stopped", "MaxRuntimeExceeded")


class Waiting:
    """A container that fails when stopped."""

    name = "waiting"
    environment: dict = {}  # noqa: RUF012

    def train(self, job):
        job.log("ready")
        job.stop.wait(300)
        raise JobFailed("stopped in the middle")

    def handler(self, model_dir):
        raise AssertionError


def test_a_container_that_cannot_stop_cleanly_was_stopped_and_did_not_fail(run, model):
    stop = threading.Event()
    record = run(Waiting(), on_line=WhenReady(stop.set), stop=stop)
    assert record.status == "Stopped"
    assert "stopped in the middle" in record.files.log("algo-1").read_text()


linux = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes as Linux shows them")


@linux
def test_processes_that_a_script_leaves_are_killed(run, script, model):
    text = """
        import os, subprocess, sys
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        open(os.environ["SM_MODEL_DIR"] + "/pid", "w").write(str(child.pid))
    """
    assert is_over(int(model(run(script(text)))["pid"]))


def is_over(pid):
    """Whether a process ends."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], 60)[0])
    finally:
        os.close(descriptor)


RUNNER = """
import sys
from pathlib import Path
from headrace.containers.script import ScriptContainer
from headrace.jobs.spec import TrainingSpec
from headrace.jobs.spec import TrainingSpec
from headrace.jobs.store import PathStore
from headrace.jobs.training import train
work, script = sys.argv[1:]
train(TrainingSpec(name="job", output_path=work + "/out"), ScriptContainer(entry_point=script), PathStore(), work_dir=Path(work))
"""


@linux
def test_a_killed_job_leaves_no_artifact_and_reports_it(script, tmp_path):
    text = STUBBORN.format(then="pass").replace('"ready"', '"ready", os.getpid()')
    container = script(text)
    command = [sys.executable, "-c", RUNNER, str(tmp_path), str(container.entry_point)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as runner:
        line = runner.stdout.readline()
        assert "ready" in line
        assert read_job(tmp_path, "job").status == "InProgress"
        runner.send_signal(signal.SIGKILL)
        assert runner.stdout.read() == ""  # a surviving script would hold it open
    record = read_job(tmp_path, "job")
    assert record.status == "Failed"
    assert "ended without finishing" in record.failure_reason
    assert not (tmp_path / "out").exists()
    assert is_over(int(line.split()[-1]))
    tree = tmp_path / "job" / "hosts" / "algo-1"
    assert (tree / "code").exists()
    assert not (tree / "input" / "data").exists()


@linux
def test_a_killed_job_takes_along_what_its_script_has_started(script, tmp_path):
    container = script(
        """
        import os, subprocess, sys, time
        quiet = dict(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
        started = [subprocess.Popen(sleep, **quiet, start_new_session=new).pid for new in (False, True)]
        print("ready", os.getpid(), *started, flush=True)
        time.sleep(600)
        """
    )
    command = [sys.executable, "-c", RUNNER, str(tmp_path), str(container.entry_point)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as runner:
        pids = [int(pid) for pid in runner.stdout.readline().rpartition("ready")[2].split()]
        runner.send_signal(signal.SIGKILL)
    assert len(pids) == 3
    assert all(map(is_over, pids))


def full(monkeypatch, *names, number=errno.ENOSPC):
    """Make completing files of these names fail, as on a full disk."""
    close = AtomicFile.close

    def fail(file):
        if any(name in file.path for name in names):
            file.abort()
            raise OSError(number, os.strerror(number), file.path)
        close(file)

    monkeypatch.setattr(AtomicFile, "close", fail)


@pytest.mark.parametrize(("number", "what"), [(errno.ENOSPC, "the disk is full"), (errno.EDQUOT, "the quota of the")])
def test_a_full_disk_error_names_the_file_and_the_remedy(run, script, store, monkeypatch, number, what):
    full(monkeypatch, "model.tar.gz", number=number)
    with pytest.raises(
        JobFailed, match=f"^ClientError: {what}.*model.tar.gz could not be written.*Free some"
    ) as raised:
        run(script("open(__import__('os').environ['SM_MODEL_DIR'] + '/m', 'w').write('x')"))
    assert isinstance(raised.value.__cause__, OSError)
    assert isinstance(raised.value, ValueError)
    assert not list(store.resolve("s3://out/models/job/output").iterdir())
    record = read_job(run.work_dir, "job")
    assert (record.status, record.failure_reason) == ("Failed", str(raised.value))


def test_a_disk_too_full_for_the_record(run, script, monkeypatch):
    container = script("pass")
    train_script = container.train

    def train(job):
        train_script(job)
        full(monkeypatch, "model.tar.gz", "status.json")

    monkeypatch.setattr(type(container), "train", lambda container, job: train(job))
    with pytest.raises(JobFailed, match="the disk is full"):
        run(container)
    monkeypatch.undo()
    assert read_job(run.work_dir, "job").status == "Failed"


def test_an_interrupted_job_stops_its_script(script, tmp_path):
    container = script(STUBBORN.format(then="sys.exit(0)"))
    command = [sys.executable, "-c", RUNNER, str(tmp_path), str(container.entry_point)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as runner:
        assert "ready" in runner.stdout.readline()
        runner.send_signal(signal.SIGINT)
        assert "KeyboardInterrupt" in runner.communicate()[1]
    record = read_job(tmp_path, "job")
    assert (record.status, record.failure_reason) == ("Stopped", "The process that ran the job was interrupted")
    assert not (tmp_path / "out").exists()


def test_two_jobs_at_once_do_not_disturb_each_other(run, script, model):
    both_run = threading.Barrier(2, timeout=300)
    records = {}
    text = """
        import os, sys
        print("ready", flush=True)
        open(os.environ["SM_MODEL_DIR"] + "/who", "w").write(os.environ["TRAINING_JOB_NAME"] + os.environ["SM_HP_N"])
    """
    container = script(text)

    def one(name):
        records[name] = run(container, name=name, hyperparameters={"n": name[-1]}, on_line=WhenReady(both_run.wait))

    threads = [threading.Thread(target=one, args=(name,)) for name in ("job-1", "job-2")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {name: model(record)["who"].decode() for name, record in records.items()} == {
        "job-1": "job-11",
        "job-2": "job-22",
    }


def test_checkpoints_outlive_a_job(run, script, store):
    text = """
        import os
        folder = os.environ["SAGEMAKER_BASE_DIR"] + "/checkpoints"
        found = sorted(os.listdir(folder))
        open(folder + "/" + str(len(found)), "w").write("x")
        raise SystemExit(len(found) == 0)
    """
    with pytest.raises(JobFailed):
        run(script(text), name="first", checkpoint_uri="s3://out/checkpoints")
    assert run(script(text), name="second", checkpoint_uri="s3://out/checkpoints").status == "Completed"
    assert sorted(os.listdir(store.resolve("s3://out/checkpoints"))) == ["0", "1"]


def test_several_hosts(run, script, store, model):
    for number in range(5):
        store.put(f"s3://in/data/{number}.csv", str(number))
    text = """
        import json, os
        host = os.environ["SM_CURRENT_HOST"]
        files = sorted(os.listdir(os.environ["SM_CHANNEL_TRAIN"]))
        open(os.environ["SM_MODEL_DIR"] + "/" + host, "w").write(",".join(files))
        open(os.environ["SM_MODEL_DIR"] + "/shared", "w").write(host)
        assert json.loads(os.environ["SM_HOSTS"]) == ["algo-1", "algo-2"]
    """
    record = run(
        script(text), num_hosts=2, channels={"train": Channel(uri="s3://in/data/", distribution="ShardedByS3Key")}
    )
    assert model(record) == {
        "algo-1": b"0.csv,2.csv,4.csv",
        "algo-2": b"1.csv,3.csv",
        "shared": b"algo-2",
    }


def test_one_failing_host_stops_the_others(run, script):
    text = """
        import os, time
        if os.environ["SM_CURRENT_HOST"] == "algo-2":
            raise ValueError("not me")
        time.sleep(600)
    """
    with pytest.raises(JobFailed, match="not me"):
        run(script(text), num_hosts=2)


def test_a_shell_script(run, script, model):
    text = '#!/bin/sh\nprintf "%s|" "$@" > "$SM_MODEL_DIR/args"\n'
    assert model(run(script(text, name="train.sh"), hyperparameters={"a": "b c; exit 3"})) == {
        "args": b"-a|b c; exit 3|"
    }
    with pytest.raises(JobFailed, match="train.sh failed with exit code 3"):
        run(script("#!/bin/sh\nexit 3\n", name="train.sh"), name="other")


def test_an_own_interpreter_that_is_not_there(run, script):
    with pytest.raises(JobFailed, match="no interpreter 'python0.1'"):
        run(script("pass", python="python0.1"))


@pytest.mark.parametrize("is_dependency", [False, True])
def test_links_in_code_are_followed(run, tmp_path, model, is_dependency):
    code, common = tmp_path / "project" / "job", tmp_path / "project" / "common"
    code.mkdir(parents=True)
    common.mkdir()
    (common / "utils.py").write_text("ANSWER = 'linked'")
    linked = tmp_path / "more" if is_dependency else code
    linked.mkdir(exist_ok=True)
    (linked / "utils.py").symlink_to(os.path.relpath(common / "utils.py", linked))
    (linked / "package").symlink_to(os.path.relpath(common, linked), target_is_directory=True)
    (linked / "back").symlink_to("..", target_is_directory=True)
    (linked / "nowhere").symlink_to("nothing")
    place = "more." if is_dependency else ""
    (code / "train.py").write_text(
        f"import os, {place}utils, {place}package.utils\n"
        f"text = {place}utils.ANSWER + {place}package.utils.ANSWER\n"
        "open(os.path.join(os.environ['SM_MODEL_DIR'], 'answer'), 'w').write(text)\n"
    )
    container = ScriptContainer(entry_point="train.py", source_dir=code, dependencies=[linked] if is_dependency else [])
    assert model(run(container)) == {"answer": b"linkedlinked"}


def test_source_dir_requirements_and_dependencies(run, tmp_path, model):
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    wheel = write_wheel(source, "only_here", "1.5")
    (source / "requirements.txt").write_text(f"./{wheel.name}\n")
    (source / "beside.py").write_text("N = 1")
    (source / "sub" / "train.py").write_text(
        "import os, sys, only_here, helping\n"
        "sys.path.insert(0, os.getcwd())\n"
        "import beside\n"
        "from sagemaker_containers.beta.framework import worker\n"
        "open(os.environ['SM_MODEL_DIR'] + '/x', 'w').write(f'{only_here.VERSION} {beside.N} {helping.N}')\n"
    )
    (tmp_path / "helping.py").write_text("N = 2")
    container = ScriptContainer(entry_point="sub/train.py", source_dir=source, dependencies=[tmp_path / "helping.py"])
    assert model(run(container)) == {"x": b"1.5 1 2"}


def test_source_dir_as_an_archive(run, store, tmp_path, model):
    (tmp_path / "main.py").write_text(
        "import os, beside\n"
        "def model_fn(model_dir):\n    with open(os.path.join(model_dir, 'x')) as file: return file.read()\n"
        "def predict_fn(rows, model):\n    import beside\n    return [model, beside.N]\n"
        "if __name__ == '__main__':\n    open(os.environ['SM_MODEL_DIR'] + '/x', 'w').write(str(beside.N))\n"
    )
    (tmp_path / "beside.py").write_text("N = 5\n")
    archive = tmp_path / "sourcedir.tar.gz"
    pack({name: tmp_path / name for name in ("main.py", "beside.py")}, archive)
    container = ScriptContainer(entry_point="main.py", source_dir=archive)
    record = run(container)
    assert model(record) == {"x": b"5"}
    unpack(store.resolve(record.model_uri), tmp_path / "model")
    handler = container.handler(tmp_path / "model")
    assert handler(ask("1")).body == b'["5", 5]'
    handler.close()
    with pytest.raises(JobFailed, match="no file other.py"):
        run(ScriptContainer(entry_point="other.py", source_dir=archive), name="other")
    archive.write_bytes(archive.read_bytes()[:40])
    with pytest.raises(JobFailed, match=r"nor an intact \.tar\.gz: Compressed file ended"):
        run(ScriptContainer(entry_point="main.py", source_dir=archive), name="cut")


def test_a_package_is_installed_and_run_as_a_module(run, tmp_path, model):
    pytest.importorskip("setuptools.command.bdist_wheel")  # otherwise pip would download a newer one
    source = tmp_path / "source"
    source.mkdir()
    (source / "setup.py").write_text(
        "from setuptools import setup\nsetup(name='mine', version='1', py_modules=['mine'])\n"
    )
    (source / "mine.py").write_text(
        "import os, sys\nopen(os.environ['SM_MODEL_DIR'] + '/x', 'w').write(__name__ + ' ' + ' '.join(sys.argv[1:]))\n"
    )
    record = run(ScriptContainer(entry_point="mine.py", source_dir=source), hyperparameters={"n": "3"})
    assert model(record) == {"x": b"__main__ -n 3"}


def test_the_toolkit_s_environment_in_a_script(run, script, store, model):
    store.put("s3://in/a", "1")
    text = """
        import sagemaker_containers, json
        from sagemaker_training import environment
        from sagemaker_containers.beta.framework import env as framework_env
        env = environment.Environment()
        assert dict(env)["model_dir"] == env.model_dir == framework_env.model_dir
        assert sagemaker_containers.training_env().hyperparameters == {"n": 3}
        open(env.model_dir + "/found", "w").write(json.dumps([env.channel_input_dirs, env.job_name, env.is_master]))
    """
    record = run(script(text), channels={"train": "s3://in/a"}, hyperparameters={"n": "3"})
    directories, name, is_master = json.loads(model(record)["found"])
    assert (list(directories), name, is_master) == (["train"], "job", True)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"on": "Ray"}, ValueError, "on must be 'processes' or 'ray', got 'Ray'"),
        ({"resources": {"GPU": 8}}, ValueError, "resources: only with on='ray', and on is 'processes'"),
        ({"address": "10.1.1.1:6379"}, ValueError, "address: only with on='ray'"),
        ({"on": "ray", "resources": {"CPU": "1"}}, TypeError, "resources are names and numbers"),
        ({"on": "ray", "resources": {"CPU": float("nan")}}, ValueError, "amounts of at least 0"),
    ],
)
def test_where_a_job_runs(tmp_path, store, options, error, message):
    spec = TrainingSpec(name="job", output_path="s3://out/models")
    with pytest.raises(error, match=message):
        train(spec, ScriptContainer(entry_point="a.py"), store, work_dir=tmp_path / "jobs", **options)
    assert not (tmp_path / "jobs").exists()
