"""A separate store for every test; no endpoint is left running."""

import pytest

from headrace.hosting.endpoint import list_endpoints
from headrace.sagemaker import Session


@pytest.fixture(autouse=True)
def _own_state(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("HEADRACE_STATE_DIR", str(tmp_path_factory.mktemp("state")))
    monkeypatch.delenv("HEADRACE_SAGEMAKER_DIR", raising=False)
    yield
    for endpoint in list_endpoints():
        endpoint.delete()


@pytest.fixture
def session(tmp_path):
    return Session(tmp_path / "store")
