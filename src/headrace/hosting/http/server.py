"""Runs one endpoint in this process: binds its socket, serves, and drains at the end."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace import _optional
from headrace.contracts.serving import Handler
from headrace.hosting.http.app import create_app
from headrace.hosting.http.fast_path import KEEP_ALIVE_S, MOST_HEAD_BYTES, connection_class
from headrace.hosting.http.invocations import Invocations, Pool
from headrace.hosting.metrics import Metrics
from headrace.hosting.pipeline import CallObserver
from headrace.hosting.prepare import prepare_stages, states_of_files
from headrace.hosting.settings import Settings
from headrace.hosting.stage import Stage, check_stages
from headrace.hosting.workers.child import load_pipeline
from headrace.hosting.workers.dispatch import Dispatcher
from headrace.hosting.workers.local import LocalPool
from headrace.hosting.workers.pool import WorkerPool
from headrace.hosting.workers.process import worker_spec

if TYPE_CHECKING:
    from starlette.applications import Starlette

__all__ = ["application", "bind", "serve"]


LOG = logging.getLogger("headrace.hosting")
BACKLOG = 2048
SIGNALS = (signal.SIGTERM, signal.SIGINT)


def application(
    stages: Sequence[Stage], settings: Settings | None = None, *, direct: bool = False, title: str = "endpoint"
) -> Starlette:
    """An endpoint as an ASGI application, for servers and tests of your own.

    Args:
        stages: Its containers, 1 to 15.
        settings: Limits and workers.
        direct: Send each request to the one container that its header names, not through all of them.
        title: Its name.

    Raises:
        ValueError: An invalid set of containers.
        MissingExtra: Starlette is not installed.
    """
    app, _ = _application(stages, settings or Settings(), direct, title)
    return app


def _application(
    stages: Sequence[Stage],
    settings: Settings,
    direct: bool,  # noqa: FBT001 - internal
    title: str,
) -> tuple[Starlette, Invocations]:
    check_stages(stages)
    metrics = Metrics()
    dispatcher = Dispatcher(settings, metrics)
    pool = _pool(stages, settings, direct, dispatcher, metrics)
    invocations = Invocations(pool, dispatcher, settings, metrics)
    return create_app(pool, invocations, settings, metrics, title=title), invocations


def _pool(
    stages: Sequence[Stage],
    settings: Settings,
    direct: bool,  # noqa: FBT001 - internal
    dispatcher: Dispatcher,
    metrics: Metrics,
) -> Pool:
    between = settings.max_between_bytes
    if settings.num_workers:
        spec = worker_spec(stages, direct=direct, max_between_bytes=between)
        return WorkerPool(spec, settings, dispatcher, metrics, files=partial(states_of_files, stages))

    def make(observer: CallObserver) -> Handler:
        return load_pipeline(
            stages, direct=direct, max_between_bytes=between, observer=observer, channels=settings.threads
        )

    return LocalPool(make, settings, dispatcher, metrics)


def bind(settings: Settings) -> socket.socket:
    """A socket that listens on the address and port of the settings.

    Raises:
        OSError: The address or the port is not available; the message names it.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        if sys.platform != "win32":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((settings.host, settings.port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise OSError(error.errno, f"cannot listen on {settings.host}:{settings.port}: {error.strerror}") from error
    return listening


def serve(
    stages: Sequence[Stage],
    settings: Settings | None = None,
    *,
    direct: bool = False,
    title: str = "endpoint",
    listening: socket.socket | None = None,
    models: str | os.PathLike[str] | None = None,
    started: Callable[[str], None] | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT. Then accept no more connections, finish the requests in flight, and return.

    Args:
        stages: Its containers, 1 to 15.
        settings: Limits and workers.
        direct: Send each request to the one container that its header names, not through all of them.
        title: Its name.
        listening: A listening socket; by default a new one.
        models: The folder to unpack archives of models in; a temporary one by default.
        started: Called with the address once connections are accepted. The model may still be loading; ask ``/ping``.

    Raises:
        ValueError: An invalid set of containers.
        OSError: The port is not available.
        CorruptFile: The archive of a model cannot be unpacked.
        JobFailed: The requirements of a script cannot be installed.
        MissingExtra: Starlette or uvicorn is not installed.
    """
    settings = settings or Settings()
    uvicorn = _optional.require("uvicorn", extra="serve")
    with prepare_stages(stages, models) as ready, listening or bind(settings) as sock:
        app, invocations = _application(ready, settings, direct, title)
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            http=connection_class(invocations) if settings.fast_path else "h11",
            h11_max_incomplete_event_size=MOST_HEAD_BYTES,
            proxy_headers=False,
            ws="none",
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=max(1, round(settings.drain_s)),
            backlog=BACKLOG,
            lifespan="on",
        )
        server = uvicorn.Server(config)
        server.capture_signals = partial(_signals, server)
        if started is not None:
            started(_address(sock))
        LOG.info("%s listens on %s", title, _address(sock))
        if threading.current_thread() is threading.main_thread():
            gc.freeze()  # Collecting everything that is loaded would delay requests by milliseconds.
        server.run(sockets=[sock])


@contextlib.contextmanager
def _signals(server: Any) -> Iterator[None]:
    """Drain at the first signal and end at once at the second. The exit status is 0 after a drain."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, _: object) -> None:
        server.force_exit = server.should_exit
        server.should_exit = True
        with contextlib.suppress(RuntimeError):  # The signal interrupted a write to the log.
            LOG.info("%s: finishing the requests in flight", signal.Signals(number).name)

    before = {number: signal.signal(number, stop) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _address(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
