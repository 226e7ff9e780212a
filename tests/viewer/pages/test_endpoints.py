"""Endpoints in the viewer, against a real one."""

import base64
import json
import shlex
import subprocess
import sys

import numpy as np
import pytest
from tests.hosting.places import sample
from tests.viewer.conftest import code_of, data

import headrace as hr
from headrace.containers.linear_learner.artifact import Model, save_model
from headrace.hosting.endpoint import create_endpoint
from headrace.hosting.stage import linear_learner_stage
from headrace.viewer.dataset import ShownDataset
from headrace.viewer.pages.endpoints import request_body
from headrace.viewer.pages.page import BadQuery


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_STATE_DIR", str(tmp_path / "state"))


@pytest.fixture
def shown():
    source = hr.ColumnSource(
        {"a": np.array([1.5, 2.5]), "b": np.array([[1, 2], [3, 4]]), "t": hr.Strings.from_values(['x"y', "z"])}
    )
    return ShownDataset(source, name="made", code="made")


def test_without_endpoints(client_for, state):
    client = client_for()
    assert data(client, "/endpoints") == {"endpoints": []}
    assert "No endpoint" in client.get("/endpoints").text


def test_a_row_is_sent_to_an_endpoint(client_for, state, shown):
    endpoint = create_endpoint("echo-one", [sample("echo")])
    try:
        client = client_for(shown)
        [listed] = data(client, "/endpoints")["endpoints"]
        assert (listed["name"], listed["status"]) == ("echo-one", "InService")
        found = data(client, "/endpoints/echo-one?dataset=0&row=1&features=a,b&as=csv")
        assert found["answer"]["body"] == "2.5,3,4"
        assert json.loads(found["answer"]["answer"])["content_type"] == "text/csv"
        found = data(client, "/endpoints/echo-one?dataset=0&row=0&as=json")
        assert json.loads(found["answer"]["body"]) == {"instances": [{"a": 1.5, "b": [1, 2], "t": 'x"y'}]}
        [listed] = data(client, "/endpoints")["endpoints"]
        assert (listed["requests"], listed["errors"]) == (2, 0)
        assert listed["mean_ms"] > 0
        html = client.get("/endpoints/echo-one?dataset=0&row=1&features=a").text
        assert "<h2>Answer</h2>" in html
        assert client.get("/endpoints/echo-one?dataset=0&row=1&features=nothing").status_code == 400
        assert client.get("/endpoints/echo-one?dataset=5&row=1").status_code == 400
    finally:
        endpoint.delete()


def run_code(page):
    """What the Python lines and the command of a page print; ``None`` for a command that is not there."""
    python, command = code_of(page)
    printed = subprocess.run([sys.executable, "-c", python], check=True, capture_output=True, text=True).stdout
    if command is None:
        return printed, None
    name, *words = shlex.split(command)
    assert name == "headrace"
    words = [sys.executable, "-m", "headrace", *words]
    return printed, subprocess.run(words, check=True, capture_output=True, text=True).stdout


def test_the_code_of_a_page_sends_a_request(client_for, state, tmp_path):
    path, wide = tmp_path / "rows.npz", tmp_path / "wide.npy"
    np.savez(path, a=np.array([-1.5, 2.5]), b=np.array([[1, 2], [3, 4]]), label=np.array([0, 1]))
    np.save(wide, np.full((1, 40_000), 0.125))
    endpoint = create_endpoint("echo-one", [sample("echo")])
    try:
        for datasets, query, body in (
            ((), "", "0"),
            ((path,), "", "-1.5,1,2"),  # without the label
            ((path,), "?row=1&features=b,a", "3,4,2.5"),
            ((path,), "?row=1&features=a&as=json", '{"instances": [{"a": 2.5}]}'),
            ((wide,), "", ",".join(["0.125"] * 40_000)),
        ):
            page = client_for(*datasets).get(f"/endpoints/echo-one{query}")
            printed, answer = run_code(page)
            assert json.loads(printed)["body"] == body
            assert answer is None if len(body) > 100_000 else json.loads(answer)["body"] == body
    finally:
        endpoint.delete()


def test_a_sample_request_has_as_many_numbers_as_the_model_takes(client_for, state, tmp_path):
    model = Model(
        predictor_type="regressor", loss="squared_loss", weights=np.ones((1, 3), "f4"), bias=np.zeros(1, "f4")
    )
    save_model(model, tmp_path / "model")
    path, other = tmp_path / "rows.npz", tmp_path / "other.npz"
    np.savez(path, target_class=np.array([7]), x=np.array([[1.0, 2.0, 3.0]]))
    np.savez(other, x=np.array([[1.0, 2.0]]))
    endpoint = create_endpoint("linear", [linear_learner_stage(tmp_path / "model")])
    try:
        for dataset, score in ((path, 6.0), (other, 0.0)):
            _, answer = run_code(client_for(dataset).get("/endpoints/linear"))
            assert json.loads(answer) == {"predictions": [{"score": score}]}
    finally:
        endpoint.delete()


def test_a_failing_endpoint_is_told(client_for, state, shown):
    endpoint = create_endpoint("bad-one", [sample("obedient")])
    try:
        client = client_for(shown)
        shown_text = hr.ColumnSource({"t": hr.Strings.from_values(["refuse 400 why not"])})
        client = client_for(ShownDataset(shown_text, name="text", code="text"))
        answer = data(client, "/endpoints/bad-one?dataset=0&row=0&as=csv")["answer"]
        assert "error" in answer or "answer" in answer
        assert data(client, "/endpoints/bad-one")["status"] == "InService"
    finally:
        endpoint.delete()
    assert client.get("/endpoints/bad-one").status_code == 400


def test_an_endpoint_as_json(client_for, state, shown):
    endpoint = create_endpoint("echo-json", [sample("echo")])
    try:
        client = client_for(shown)
        found = data(client, "/endpoints/echo-json")
        described = endpoint.describe()
        assert {key: found[key] for key in described} == described
        assert (found["requests"], found["errors"], found["mean_ms"], found["answer"]) == (0, 0, None, None)
        sent = data(client, "/endpoints/echo-json?row=1&features=a")["answer"]
        assert (sent["row"], sent["content_type"], sent["body"]) == (1, "text/csv", "2.5")
        assert sent["answer_type"].startswith("application/json")
        assert data(client, "/endpoints/echo-json")["requests"] == 1
    finally:
        endpoint.delete()
    gone = client.get("/endpoints/echo-json?format=json")
    assert (gone.status_code, gone.headers["content-type"]) == (400, "application/json")
    assert "no endpoint named 'echo-json'" in gone.json()["error"]


def test_bodies(shown):
    assert request_body(shown, 0, ["t", "a"], "csv") == '"x""y",1.5'
    bytes_source = ShownDataset(hr.ColumnSource({"x": hr.Strings.from_values([b"\xff"])}), name="x", code="x")
    with pytest.raises(BadQuery, match="no form for bytes"):
        request_body(bytes_source, 0, ["x"], "csv")
    assert "b64" in request_body(bytes_source, 0, ["x"], "json")


def test_bodies_are_whole():
    text, image, numbers = "a" * 12_000, bytes(range(256)) * 100, np.arange(1_000_001)
    source = hr.ColumnSource(
        {
            "text": [text],
            "image": hr.Strings.from_values([image]),
            "numbers": numbers[None],
            "words": hr.Ragged.from_list([[text, "b"]], "str"),
            "nan": np.array([[np.nan, 1.5]]),
            "day": np.array(["2026-01-31"], "M8[D]"),
        }
    )
    shown = ShownDataset(source, name="x", code="x")
    [sent] = json.loads(request_body(shown, 0, list(source.schema), "json"))["instances"]
    assert sent["text"] == text
    assert base64.b64decode(sent["image"]["b64"]) == image
    assert sent["numbers"] == numbers.tolist()
    assert sent["words"] == [text, "b"]
    assert np.isnan(sent["nan"][0])
    assert sent["day"] == "2026-01-31"
    assert request_body(shown, 0, ["nan", "text"], "csv") == f'nan,1.5,"{text}"'
