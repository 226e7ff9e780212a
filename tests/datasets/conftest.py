import pytest
from tests.datasets.web import Web


@pytest.fixture
def web(monkeypatch):
    """A web server on this machine; nothing else can be reached through it."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    server = Web()
    yield server
    server.close()
