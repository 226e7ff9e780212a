"""From a script and a table to an endpoint, on the command line."""

import importlib.util
import json
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from headrace.hosting.endpoint import list_endpoints

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPT = EXAMPLES / "scripts" / "sklearn_abalone_featurizer.py"
ROW = "M, 0.44, 0.365, 0.125, 0.516, 0.2155, 0.114, 0.155"


@pytest.fixture(autouse=True)
def _nothing_left_running(own_cache):
    yield
    for endpoint in list_endpoints():
        endpoint.delete()


def make_table(path, rows):
    spec = importlib.util.spec_from_file_location("abalone_endpoint", EXAMPLES / "abalone_endpoint.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.make_table(path, rows)


def headrace(*args, **options):
    command = [sys.executable, "-m", "headrace", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **options)


def test_the_whole_way(run):
    make_table("abalone.csv", 300)
    done = run("train", SCRIPT, "--channel", "train=abalone.csv", "--name", "features")
    assert done.code == 0, done.err
    assert done.out == "features/output/model.tar.gz\n"
    assert "algo-1" in done.err

    options = ["--script", SCRIPT, "--input", "abalone.csv", "--output", "features.out", "--accept", "text/csv"]
    done = run("transform", "features/output/model.tar.gz", *options, "--json")
    assert done.code == 0, done.err
    assert done.json["TransformJobStatus"] == "Completed"
    assert len(Path("features.out/abalone.csv.out").read_text().splitlines()) == 300

    done = run(
        "train", "linear-learner", "--channel", "train=features.out;text/csv", "-p", "predictor_type=regressor",
        "-p", "mini_batch_size=20", "-p", "num_models=4", "--name", "linear", "--output", "models", "--json",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert done.json["TrainingJobStatus"] == "Completed"

    models = ["features/output/model.tar.gz", "models/linear/output/model.tar.gz"]
    done = headrace("serve", *models, "--script", SCRIPT, "--name", "abalone", "--workers", 1)
    assert done.returncode == 0, done.stderr
    address = done.stdout.strip()
    assert address.startswith("http://127.0.0.1:")

    answers = [headrace("invoke", "abalone", ROW).stdout, run("invoke", address, ROW).out]
    assert answers[0] == answers[1]
    assert 0 < json.loads(answers[0])["predictions"][0]["score"] < 30
    Path("row.csv").write_text(ROW)
    lines = run("invoke", "abalone", "--file", "row.csv", "--accept", "application/jsonlines").out
    assert json.loads(lines) == json.loads(answers[0])["predictions"][0]
    assert headrace("invoke", "abalone", input=ROW).stdout == answers[0]

    refused = headrace("invoke", "abalone", "1,2")
    assert refused.returncode == 1
    assert "container-1" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1

    assert [one["name"] for one in run("endpoints", "--json").json] == ["abalone"]
    assert "InService" in run("endpoints").out
    assert run("endpoints", "--logs", "abalone").out
    assert run("endpoints", "--delete", "abalone").code == 0
    assert run("endpoints", "--json").json == []
    assert "serve MODEL" in run("endpoints").err


def test_a_job_that_fails(run, tmp_path):
    Path("fails.py").write_text("raise SystemExit('no luck')\n")
    done = run("train", "fails.py")
    assert done.code == 1
    assert "no luck" in done.err.splitlines()[-1]
    done = run("train", "linear-learner", "-p", "predictor_type=regressor")
    assert done.code == 1
    assert "'train' is required" in done.err.splitlines()[-1]


def test_a_job_that_is_asked_to_stop(tmp_path, own_cache):
    Path("saves.py").write_text(
        "import os, signal, sys, time\n"
        "def save(*_):\n"
        "    open(os.path.join(os.environ['SM_MODEL_DIR'], 'model'), 'w').write('so far')\n"
        "    sys.exit()\n"
        "signal.signal(signal.SIGTERM, save)\n"
        "print('begun', flush=True)\n"
        "while True: time.sleep(0.05)\n"
    )
    command = [sys.executable, "-m", "headrace", "train", "saves.py", "--name", "stopped"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert "begun" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=300)
    assert (process.returncode, out) == (143, "stopped/output/model.tar.gz\n")
    assert err == "the job was stopped by SIGTERM\n"
    with tarfile.open("stopped/output/model.tar.gz") as model:
        assert model.getnames() == ["model"]


def test_a_job_that_runs_too_long(run):
    Path("sleeps.py").write_text("import time\ntime.sleep(60)\n")
    done = run("train", "sleeps.py", "--max-run", "0.5", "--name", "long")
    assert (done.code, done.out) == (0, "long/output/model.tar.gz\n")
    assert done.err.splitlines()[-1] == "the job was stopped after --max-run"


def test_a_model_that_does_not_load_shows_its_log_as_lines(run):
    archive("empty.tar.gz", "model.joblib")
    Path("fails.py").write_text("raise SystemExit('no luck')\n")
    done = run("serve", "empty.tar.gz", "--script", "fails.py", "--name", "unlucky", "--workers", "1")
    first, second, *log = done.err.splitlines()
    assert done.code == 1
    assert first.startswith("headrace: error: the endpoint unlucky cannot be created: the model does not load")
    assert (second, len(log) > 3) == ("End of its log:", True)
    assert not any("\\n" in line for line in (first, *log))


def archive(path, *names):
    with tarfile.open(path, "w:gz") as tar:
        for name in names:
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_text("x")
            tar.add(name)
    return path


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["serve", "nothing.tar.gz"], 2, "nothing.tar.gz"),
        (["serve", "damaged.tar.gz"], 1, "damaged.tar.gz"),
        (["serve", "plain.tar.gz"], 2, "--script"),
        (["serve", "plain.tar.gz", "--script", "none.py"], 2, "none.py"),
        (["serve", "coded.tar.gz", "--script", "coded.tar.gz"], 2, "no model needs the script"),
        (["invoke", "nobody", "x"], 1, "no endpoint is named 'nobody'"),
        (["invoke", "nobody", "x", "--file", "y"], 2, "--file"),
        (["invoke", "http://127.0.0.1:1", "x"], 1, "127.0.0.1:1"),
        (["invoke", "https://127.0.0.1:1", "x"], 2, "http://host:port, got 'https://127.0.0.1:1'"),
        (["invoke", "http://bad:port", "x"], 2, "http://host:port, got 'http://bad:port'"),
        (["invoke", "http://127.0.0.1:1", "x", "--timeout", "0"], 2, "--timeout is above 0"),
        (["invoke", "http://127.0.0.1:1", "x", "--timeout", "-1"], 2, "--timeout is above 0"),
        (["endpoints", "--delete", "nobody"], 1, "nobody"),
        (["train", "x.py", "--channel", "train"], 2, "NAME=PATH"),
        (["train", "x.py", "-p", "power"], 2, "NAME=VALUE"),
        (["train", "x.py", "-p", "a=1", "-p", "a=2"], 2, "--hyperparameter a is given twice"),
        (["train", "x.py", "--channel", "train=nothing.csv"], 2, "nothing.csv"),
        (["train", "x.py", "--input-mode", "Fast", "--channel", "a=damaged.tar.gz"], 2, "FastFile"),
        (["train", "none.py"], 2, "a script, or linear-learner, found nothing - at none.py"),
        (["transform", "plain.tar.gz", "--input", "nothing", "--output", "out"], 2, "nothing"),
    ],
)
def test_refusals(run, args, code, message):
    Path("damaged.tar.gz").write_bytes(b"\x1f\x8b no archive")
    archive("plain.tar.gz", "model.joblib")
    archive("coded.tar.gz", "code/inference.py")
    done = run(*args)
    assert done.code == code, done.err
    assert message in done.err
