"""Endpoints in the viewer, against a real one."""

import json

import numpy as np
import pytest
from tests.hosting.places import sample
from tests.viewer.conftest import data

import headrace as hr
from headrace.hosting.endpoint import create_endpoint
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


def test_bodies(shown):
    assert request_body(shown, 0, ["t", "a"], "csv") == '"x""y",1.5'
    bytes_source = ShownDataset(hr.ColumnSource({"x": hr.Strings.from_values([b"\xff"])}), name="x", code="x")
    with pytest.raises(BadQuery, match="no form for bytes"):
        request_body(bytes_source, 0, ["x"], "csv")
    assert "b64" in request_body(bytes_source, 0, ["x"], "json")
