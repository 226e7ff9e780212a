"""Runs a viewer: in this process until Ctrl-C, or beside a notebook in a thread."""

from __future__ import annotations

import contextlib
import html
import socket
import threading
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headrace import _hooks, _optional
from headrace.errors import UnsupportedData, Where
from headrace.hosting.http.server import bind
from headrace.hosting.settings import Settings
from headrace.io.threads import start_thread
from headrace.sources.source import Source
from headrace.viewer.access import Access, host_headers, loopback_hosts
from headrace.viewer.app import Viewer, create_app
from headrace.viewer.dataset import ShownDataset, open_datasets

__all__ = ["View", "run_viewer", "view"]

LOOPBACK = "127.0.0.1"
START_S = 10.0
HEIGHT = 640
MOST_HEAD_BYTES = 1 << 16
"""The most bytes of a request's line and headers. There is no body."""


def _hosts(host: str, port: int) -> frozenset[str]:
    """The ``Host`` headers to answer: with ``--host``, also that address and this machine's names."""
    found = set(loopback_hosts(port))
    if host not in (LOOPBACK, "localhost", "::1"):
        names = {host, socket.gethostname(), socket.getfqdn()}
        with contextlib.suppress(OSError):
            names.update(str(each[4][0]) for each in socket.getaddrinfo(socket.gethostname(), None))
        found.update(host_headers([f"[{name}]" if ":" in name else name for name in names], port))
    return frozenset(found)


def _server(app: Access) -> Any:
    uvicorn = _optional.require("uvicorn", extra="serve")
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        http="h11",  # bounds the head of a request, which httptools does not
        h11_max_incomplete_event_size=MOST_HEAD_BYTES,
        lifespan="on",
        timeout_graceful_shutdown=1,
    )
    return uvicorn.Server(config)


def _address(app: Access, host: str, port: int) -> str:
    shown = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(host, host)  # noqa: S104 - compared, not bound
    name = f"[{shown}]" if ":" in shown else shown
    return f"http://{name}:{port}{app.base}/" + ("" if app.base else f"?token={app.token}")


def run_viewer(
    datasets: Sequence[ShownDataset],
    *,
    host: str = LOOPBACK,
    port: int = 0,
    browser: bool = True,
    started: Callable[[str], None] | None = None,
) -> None:
    """Show datasets until Ctrl-C or SIGTERM.

    Args:
        datasets: What to show.
        host: The address to listen on. Others than this machine's own loopback address let other machines in, with the token.
        port: The port; 0: a free one.
        browser: Open a browser.
        started: Called with the address that holds the token.

    Raises:
        OSError: The address is not available.
        MissingExtra: Starlette or uvicorn is not installed.
    """
    with bind(Settings(host=host, port=port)) as sock:
        bound = sock.getsockname()[1]
        app = create_app(Viewer(datasets), hosts=_hosts(host, bound), port=bound)
        server = _server(app)
        address = _address(app, host, bound)
        if started is not None:
            started(address)
        if browser:
            # In a thread, because some browsers keep the call until they end.
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        server.run(sockets=[sock])


class View:
    """A viewer that runs in a thread of this process. A notebook shows it in a frame.

    Attributes:
        url: Its address.
    """

    def __init__(self, datasets: Sequence[ShownDataset], *, is_embedded: bool) -> None:
        self._socket = bind(Settings(host=LOOPBACK, port=0))
        port = self._socket.getsockname()[1]
        app = create_app(Viewer(datasets), hosts=loopback_hosts(port), port=port, is_embedded=is_embedded)
        self._server = _server(app)
        self.url: str = _address(app, "localhost" if is_embedded else LOOPBACK, port)
        self._thread = start_thread(self._run, name="headrace-view", stop=self._stop)

    def _run(self) -> None:
        with self._socket:
            self._server.run(sockets=[self._socket])

    def _stop(self) -> None:
        self._server.should_exit = True

    def close(self) -> None:
        """Stop it."""
        self._stop()
        self._thread.join(START_S)

    def __repr__(self) -> str:
        return f"View({self.url!r})"

    def _repr_html_(self) -> str:
        address = html.escape(self.url)
        return (
            f'<iframe src="{address}" width="100%" height="{HEIGHT}" title="headrace view" loading="lazy"></iframe>'
            f'<p><a href="{address}" target="_blank" rel="noopener noreferrer">Open in a tab</a></p>'
        )


def _as_source(given: Any) -> Source:
    try:
        source: Source = _hooks.as_source(given)
    except TypeError:
        raise UnsupportedData(Where(), expected="sources or paths to view", found=type(given).__name__) from None
    return source


def view(*sources: Any, embedded: bool = True) -> View:
    """Show sources in a notebook, or at an address of this machine.

    Args:
        sources: Sources, dicts of them, or what :func:`headrace.open` or :func:`headrace.data_source` opens: also frames, tables and lists of
            examples.
        embedded: ``False`` shows them at an address for a browser. The address then has a token, and the page a cookie.

    Returns:
        The running viewer; a notebook displays it, and :meth:`View.close` ends it.

    Raises:
        UnsupportedData: An argument is neither a path nor a source.
        NoFiles, UnknownFormat, DataError: A path cannot be opened.
        MissingExtra: Starlette or uvicorn is not installed.
    """
    datasets = []
    for number, each in enumerate(sources):
        if isinstance(each, str) or hasattr(each, "__fspath__"):
            datasets.extend(open_datasets(str(each)))
            continue
        is_several = isinstance(each, Mapping) and all(isinstance(part, Source) for part in each.values())
        own, code = (f"source {number}", f"source_{number}") if len(sources) > 1 else ("source", "source")
        if not (is_several and each):
            datasets.append(ShownDataset(_as_source(each), name=own, code=code))
            continue
        for name, source in each.items():
            datasets.append(ShownDataset(source, name=str(name), code=f"{code}[{name!r}]"))
    return View(datasets, is_embedded=embedded)
