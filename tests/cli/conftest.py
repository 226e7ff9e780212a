"""Files and helpers shared by the tests of the commands."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import headrace as hr
from headrace.cli.app import app

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """Every test gets its own cache, endpoints, jobs and working directory."""
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("HEADRACE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("HEADRACE_TRACEBACK", raising=False)
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)


class Ran:
    """What a command did."""

    def __init__(self, result):
        self.code = result.exit_code
        self.out = result.stdout
        self.err = result.stderr
        self.exception = result.exception

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture
def run():
    """``run("head", "-n", 3, path)``."""

    def call(*args) -> Ran:
        return Ran(CliRunner().invoke(app, list(map(str, args)), prog_name="headrace"))

    return call


@pytest.fixture
def golden():
    """``golden("tfrecord/dense.tfrecord")``: the path of a golden file."""

    def path(name: str) -> str:
        found = GOLDEN / name
        assert found.exists()
        return str(found)

    return path


@pytest.fixture
def people(tmp_path):
    """Twelve examples of every kind of feature, in one TFRecord file."""
    path = tmp_path / "people.tfrecord"
    examples = [
        {
            "age": np.int64(20 + i % 4),
            "height": np.float32(1.5 + i / 16),
            "name": f"person {i}",
            "photo": bytes([137, i]) * (i + 1),
            "tags": np.arange(i % 3, dtype=np.int64),
        }
        for i in range(12)
    ]
    schema = {
        "age": hr.Feature("int64"),
        "height": hr.Feature("float32"),
        "name": hr.Feature("str"),
        "photo": hr.Feature("bytes"),
        "tags": hr.Feature("int64", (None,)),
    }
    hr.write(path, examples, schema=schema)
    return path
