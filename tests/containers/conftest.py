"""Scripts, models and their handlers."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from headrace.containers.script import ScriptContainer
from headrace.contracts.serving import Request

SCRIPTS = Path(__file__).parent / "scripts"

DOUBLE = """
    import numpy as np

    class Doubling:
        def predict(self, rows):
            return np.asarray(rows).sum(axis=1) * 2

    def model_fn(model_dir):
        return Doubling()
"""


@pytest.fixture
def write_script(tmp_path):
    """Write a script and return its path."""

    def write(text=DOUBLE, name="serve.py"):
        path = tmp_path / "code" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    return write


@pytest.fixture
def load(write_script, tmp_path):
    """The handler of a script."""
    (tmp_path / "model").mkdir(exist_ok=True)

    def make(text=DOUBLE, **options):
        return ScriptContainer(entry_point=write_script(text), **options).handler(tmp_path / "model")

    return make


def ask(body, content_type="text/csv", accept="*/*", **headers):
    """A request."""
    body = body.encode() if isinstance(body, str) else body
    return Request(body=body, content_type=content_type, accept=accept, headers=headers)
