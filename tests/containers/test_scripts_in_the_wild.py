"""Scripts as people write them, from the training job to the answer."""

import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
from tests.containers.conftest import SCRIPTS, ask
from tests.containers.test_interpreter import write_wheel

from headrace.containers.script import ScriptContainer
from headrace.contracts.job import Channel
from headrace.errors import JobFailed, RequestError
from headrace.hosting.endpoint import create_endpoint
from headrace.hosting.prepare import unpack_model
from headrace.hosting.settings import Settings
from headrace.hosting.stage import recognise, script_stage
from headrace.jobs.spec import TrainingSpec
from headrace.jobs.store import PathStore
from headrace.jobs.training import train
from headrace.jobs.tree import as_json

ONE = Settings(port=0, workers=1)


class Place:
    """A folder with channels, jobs and models."""

    def __init__(self, root):
        self.root = root
        self.lines = []

    def channel(self, name, text):
        path = self.root / name / "part-0.csv"
        path.parent.mkdir()
        path.write_text(text)
        return Channel(uri=str(path.parent), content_type="text/csv")

    def train(self, container, channels=None, **hyperparameters):
        """The artifact of the job."""
        spec = TrainingSpec(
            name="job",
            channels=channels or {},
            hyperparameters=as_json(hyperparameters),
            output_path=str(self.root / "models"),
        )
        job = train(spec, container, PathStore(), work_dir=self.root / "jobs", on_line=self.lines.append)
        assert job.status == "Completed"
        return Path(job.model_uri)

    def handler(self, container, archive):
        unpack_model(archive, self.root / "opt" / "model")
        return container.handler(self.root / "opt" / "model")

    def output(self, name):
        with tarfile.open(self.root / "models" / "job" / "output" / "output.tar.gz") as archive:
            return json.load(archive.extractfile(name))


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_STATE_DIR", str(tmp_path / "state"))
    return Place(tmp_path)


def rows(count=60, seed=3):
    features = np.random.default_rng(seed).normal(size=(count, 3))
    labels = (features[:, 0] > 0).astype(int) + (features[:, 1] > 0.5)
    return features, "\n".join(",".join(map(str, [label, *row])) for label, row in zip(labels, features.tolist()))


def test_2018_with_default_functions_and_npy_both_ways(place):
    features, text = rows()
    container = ScriptContainer(entry_point=SCRIPTS / "tree_2018.py")
    archive = place.train(container, {"train": place.channel("train", text)}, max_leaf_nodes=30)
    assert any("leaves: " in line for line in place.lines)
    endpoint = create_endpoint("tree", [script_stage(archive, entry_point=SCRIPTS / "tree_2018.py")], settings=ONE)
    try:
        body = io.BytesIO()
        np.save(body, features)
        answer = endpoint.invoke(body.getvalue(), content_type="application/x-npy", accept="application/x-npy")
        assert answer.content_type == "application/x-npy"
        predicted = np.load(io.BytesIO(answer.body))
        expected = (features[:, 0] > 0).astype(int) + (features[:, 1] > 0.5)
        assert (predicted == expected).mean() > 0.9
        one = ",".join(map(str, features[0]))
        assert json.loads(endpoint.invoke(one, content_type="text/csv").body) == [predicted[0]]
    finally:
        endpoint.delete()


def churn(place):
    rng = np.random.default_rng(5)
    lines = []
    for _ in range(80):
        plan, months, calls = rng.choice(["basic", "gold"]), rng.integers(1, 40), rng.integers(0, 9)
        lines.append(f"{plan},{months},{calls},{int(calls > 4 or months < 3)}")
    container = ScriptContainer(entry_point="train.py", source_dir=SCRIPTS / "churn")
    channels = {"train": place.channel("train", "\n".join(lines)), "validation": place.channel("validation", lines[0])}
    settings = {
        "n_estimators": 20,
        "fit_intercept": False,
        "title": 'it\'s "odd" & long',
        "extra-one": [1, 2],
        "note": None,
    }
    return place.train(container, channels, **settings)


def test_today_training_and_serving_apart_and_tables_with_names(place):
    archive = churn(place)
    reported = place.output("settings.json")
    assert reported["title"] == 'it\'s "odd" & long'
    assert reported["hyperparameters"] == {
        "n_estimators": 20, "fit_intercept": False, "title": "it's \"odd\" & long", "extra-one": [1, 2], "note": None
    }  # fmt: skip
    assert (reported["channels"], reported["current"], reported["entry"]) == (
        ["train", "validation"],
        "algo-1",
        "train.py",
    )
    assert reported["inputs"]["train"]["ContentType"] == "text/csv"
    assert (reported["intercept"], reported["hosts"], reported["processors"]) == (False, ["algo-1"], True)
    assert any("validation:accuracy=" in line for line in place.lines)
    assert any("unknown arguments: ['--extra-one', '[1, 2]', '--note', '']" in line for line in place.lines)
    stage = script_stage(archive, entry_point="inference.py", source_dir=SCRIPTS / "churn")
    endpoint = create_endpoint("churn", [stage], settings=ONE)
    try:
        answer = endpoint.invoke("gold,20,8\nbasic,30,0\n", content_type="text/csv", accept="text/csv")
        high, low = map(float, answer.body.decode().split("\n"))
        assert high > 0.5 > low
        assert answer.content_type.startswith("text/csv")
        body = json.dumps({"instances": [["gold", 20, 8], ["silver", 30, 0]]})
        assert len(json.loads(endpoint.invoke(body).body)["probabilities"]) == 2
        assert "rows: 2" in endpoint.logs()
        assert "INFO:churn:loading from model" in endpoint.logs()
    finally:
        endpoint.delete()


def test_2021_with_answers_of_flask_and_werkzeug(place):
    container = ScriptContainer(entry_point=SCRIPTS / "answers_of_flask.py")
    archive = place.train(container, {"train": place.channel("train", "M,1\nF,3\n")})
    handler = place.handler(container, archive)
    answer = handler(ask("M,3", accept="application/json"))
    assert json.loads(answer.body) == {"instances": [{"features": [1.0, 0.0, 1.0]}]}
    assert answer.content_type == "application/json"
    answer = handler(ask("M,3\nF,1", accept="text/csv"))
    assert (answer.body, answer.content_type) == (b"1.0,0.0,1.0\n-1.0,1.0,0.0\n", "text/csv; charset=utf-8")


def test_the_environment_as_an_object(place):
    container = ScriptContainer(entry_point=SCRIPTS / "environment_object.py")
    archive = place.train(container, {"training": place.channel("training", "1,2\n3,4\n")}, power=2)
    assert place.output("environment.json") == {"names": ["training"], "power": 2, "module": "environment_object"}
    assert any("first host: True, level 20" in line for line in place.lines)
    handler = place.handler(container, archive)
    answer = handler(ask("5,10"))
    assert (answer.body, answer.content_type) == (b'{"instances": [{"features": [0.0, 0.0]}]}', "application/json")
    assert handler(ask("6,10\n5,11", accept="text/csv")).body == b"1.0,0.0\n0.0,1.0\n"
    assert handler(ask("[[6, 10]]", "application/json", "text/csv")).content_type == "text/csv; charset=utf-8"


def test_one_function_for_all_of_it(place):
    container = ScriptContainer(entry_point=SCRIPTS / "whole_transform.py")
    handler = place.handler(container, place.train(container, b=0.5, weights=[1, 2]))
    answer = handler(ask('{"inputs": [[1, 1], [0, 2]]}', "application/json"))
    assert (answer.body, answer.content_type) == (b'{"outputs": [3.5, 4.5]}', "application/json")
    assert handler(ask("x", "text/plain")).content_type == "text/plain"
    with pytest.raises(RequestError, match="KeyError") as error:
        handler(ask("{}", "application/json"))
    assert error.value.status == 500


def test_the_inference_toolkit_with_requirements(place):
    folder = place.root / "source"
    folder.mkdir()
    for path in (SCRIPTS / "toolkit_2021").iterdir():
        if path.is_file():
            (folder / path.name).write_bytes(path.read_bytes())
    wheel = write_wheel(folder, "tiny_scaling", "1.0", "def scaled(value, factor):\n    return value * factor\n")
    (folder / "requirements.txt").write_text("-r more.txt\n")
    (folder / "more.txt").write_text(f"./{wheel.name}\n")
    model = place.root / "opt" / "model"
    unpack_model(place.train(ScriptContainer(entry_point="train.py", source_dir=folder), factor=3), model)
    folder.rename(model / "code")
    endpoint = create_endpoint("tiny", [recognise(model)], settings=ONE)
    try:
        answer = endpoint.invoke("1,2", content_type="text/csv", accept="text/csv")
        assert (answer.body, answer.custom_attributes) == (b"3\n6\n", "warm=1")
        with pytest.raises(Exception, match="values below zero") as error:
            endpoint.invoke("[-1, 2]")
        assert error.value.original_status == 422
        assert "model_fn" not in endpoint.logs()
    finally:
        endpoint.delete()


BROKEN = {
    "at import": ("import nothing_of_this_name\n", "No module named 'nothing_of_this_name'"),
    "at import, by ending": ("import sys\nsys.exit('no licence')\n", "SystemExit: no licence"),
    "in its syntax": ("def model_fn(model_dir)\n    return 1\n", "SyntaxError"),
    "in model_fn": ("def model_fn(model_dir):\n    raise FileNotFoundError('no model here')\n", "no model here"),
}


@pytest.mark.parametrize(("text", "message"), BROKEN.values(), ids=BROKEN)
def test_scripts_that_do_not_load(write_script, tmp_path, text, message):
    with pytest.raises(JobFailed, match=message):
        ScriptContainer(entry_point=write_script(text)).handler(tmp_path)


def test_a_script_that_fails_while_training_and_one_that_fails_while_predicting(place, write_script, load):
    path = write_script("import argparse\nargparse.ArgumentParser().parse_args()\n", "strict.py")
    with pytest.raises(JobFailed, match="unrecognized arguments: --surprise 1"):
        place.train(ScriptContainer(entry_point=path), surprise=1)
    handler = load("def model_fn(d):\n    return 1\ndef predict_fn(x, model):\n    return [1 / 0]\n")
    for _ in range(2):
        with pytest.raises(RequestError, match="predict_fn failed with ZeroDivisionError") as error:
            handler(ask("1"))
        assert error.value.status == 500
