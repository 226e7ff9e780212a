import pytest
from tests.datasets.web import Web


@pytest.fixture
def web(monkeypatch):
    """A local web server; no other host can be reached."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    server = Web()
    yield server
    server.close()
