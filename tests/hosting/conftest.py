"""Test endpoints are registered in a separate folder, and none is left running."""

import pytest
from tests.hosting.places import CONTAINERS, sample

from headrace.hosting.endpoint import list_endpoints


@pytest.fixture(autouse=True)
def _own_state(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("HEADRACE_STATE_DIR", str(tmp_path_factory.mktemp("state")))
    monkeypatch.syspath_prepend(str(CONTAINERS))
    yield
    for endpoint in list_endpoints():
        endpoint.delete()


@pytest.fixture
def echo():
    return sample("echo")
