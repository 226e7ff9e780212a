"""One folder of endpoints for the tests of a module, as an endpoint on Ray takes long to start."""

import pytest

from headrace.hosting.endpoint import list_endpoints


@pytest.fixture(autouse=True, scope="module")
def _own_state(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADRACE_STATE_DIR", str(tmp_path_factory.mktemp("state")))
        patch.delenv("RAY_ADDRESS", raising=False)
        yield
        for endpoint in list_endpoints():
            endpoint.delete()
