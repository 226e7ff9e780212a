"""The thread that makes all requests to stores, and the stores in use.

obstore does the work: connections, TLS, signatures, and retries (after 5xx, 429 and lost connections). Credentials and endpoints come
from the environment variables of each cloud.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from datetime import timedelta
from typing import Any, TypeVar
from urllib.parse import urlsplit
from weakref import WeakSet

from headrace import _optional
from headrace.errors import Unreachable, UnsupportedData, Where
from headrace.io.faults import as_headrace_error
from headrace.io.system import most_open, number_setting
from headrace.io.threads import start_thread
from headrace.io.urls import Url

__all__ = [
    "StoreClient",
    "client_for",
    "make_opener",
    "obstore_for",
    "request_seconds",
    "run_all",
    "store_of",
    "submit",
]


MOST_AT_ONCE = 64
"""Concurrent requests of this process; ``HEADRACE_REQUESTS`` overrides it."""
TIMEOUT_S = 60.0
"""How long a server may be silent in one request; ``HEADRACE_TIMEOUT`` overrides it."""
WHOLE_REQUEST = "1year"
"""How long a request may take in all. obstore has a limit unless it is given one."""
RETRIES = 4
MOST_STORES = 256
"""Stores kept for later requests. Each URL with a query, as signed URLs have, needs its own, with its own connections."""
ENDPOINTS = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "gs": ("GOOGLE_BASE_URL",),
    "az": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
}
"""Variables that set another endpoint than the cloud's. The first one set counts."""
IDENTITIES = {
    "s3": (
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_SKIP_SIGNATURE",
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
        "AWS_ROLE_ARN",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    ),
    "gs": (
        "GOOGLE_APPLICATION_CREDENTIALS",
        "GOOGLE_SERVICE_ACCOUNT",
        "GOOGLE_SERVICE_ACCOUNT_KEY",
        "GOOGLE_SERVICE_ACCOUNT_PATH",
        "GOOGLE_BEARER_TOKEN",
        "GOOGLE_SKIP_SIGNATURE",
    ),
    "az": (
        "AZURE_STORAGE_ACCOUNT_NAME",
        "AZURE_STORAGE_ACCOUNT_KEY",
        "AZURE_STORAGE_SAS_TOKEN",
        "AZURE_STORAGE_SAS_KEY",
        "AZURE_STORAGE_TOKEN",
        "AZURE_SKIP_SIGNATURE",
        "AZURE_CLIENT_ID",
        "AZURE_CLIENT_SECRET",
        "AZURE_TENANT_ID",
        "AZURE_FEDERATED_TOKEN_FILE",
        "AZURE_USE_AZURE_CLI",
    ),
}
"""Variables with credentials. Changing them creates a new store, so that a user can correct them and try again."""
T = TypeVar("T")


class StoreClient:
    """The thread that makes requests, and the stores in use.

    Args:
        call_obstore: Any function of obstore that does nothing.
    """

    def __init__(self, call_obstore: Callable[[], object]) -> None:
        import asyncio  # as slow to import as the rest of this package

        request_seconds()  # checked before the first request, whose errors would be those of a store
        slots = requests_at_once()
        self._call_obstore = call_obstore
        self.process: int = os.getpid()
        self.stores: dict[str, Any] = {}
        self.writable: set[str] = set()
        """Stores that were checked before writing."""
        self.loop: asyncio.AbstractEventLoop = asyncio.new_event_loop()
        self.slots: asyncio.Semaphore = asyncio.Semaphore(slots)
        """Limits concurrent requests."""
        self._variables = _variables()
        self._answers: WeakSet[Any] = WeakSet()
        """Futures that threads of obstore may still touch. These threads ignore that Python exits, and would fail."""
        self._create_future = self.loop.create_future
        self.loop.create_future = self._watched_future  # type: ignore[method-assign]
        self.thread: threading.Thread = start_thread(self.loop.run_forever, name="headrace-requests", stop=self.stop)

    def _watched_future(self) -> Any:
        future = self._create_future()
        self._answers.add(future)
        return future

    def stop(self) -> None:
        """Cancel all requests and end the thread. A later request makes a new client."""
        import asyncio

        async def give_up() -> None:
            under_way = asyncio.all_tasks() - {asyncio.current_task()}
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)
            under_way.clear()
            self.loop.create_future = self._create_future  # type: ignore[method-assign]
            try:
                while len(self._answers):
                    await asyncio.sleep(0.001)
                    self._call_obstore()  # Each call frees what the threads of obstore no longer need.
            finally:
                self.loop.stop()

        if self in _clients:
            _clients.remove(self)
            asyncio.run_coroutine_threadsafe(give_up(), self.loop)

    def refresh(self) -> None:
        """Forget all stores if their environment variables have changed."""
        variables = _variables()
        if variables != self._variables:
            self._variables = variables
            self.stores.clear()
            self.writable.clear()


_clients: list[StoreClient] = []
_starting = threading.Lock()


def client_for(url: str) -> StoreClient:
    """The client of this process, made for the first request. ``url`` is for messages.

    Raises:
        MissingExtra: obstore is not installed.
        Unreachable: This process was forked from one that had a client.
    """
    if not _clients:
        with _starting:
            if not _clients:
                _clients.append(StoreClient(obstore_for(url).store.MemoryStore))
    client = _clients[0]
    if client.process != os.getpid():
        # The threads of obstore do not survive a fork: a request would wait forever.
        raise Unreachable(
            Where(path=url),
            expected="a process that was not forked after URLs were read",
            found="a forked one",
            hint="Start workers by 'spawn' or 'forkserver' (torch: multiprocessing_context='spawn'; headrace.Loader does so "
            "itself), or open the URL only in the child.",
        )
    return client


def obstore_for(url: str) -> Any:
    """Import obstore.

    Raises:
        MissingExtra: obstore is not installed.
    """
    hint = f"Without it, only local files can be read, not {Url.of(url).store}."
    return _optional.require("obstore", extra="cloud", hint=hint)


def submit(url: str, work: Callable[[], Coroutine[Any, Any, T]]) -> Future[T]:
    """Start a coroutine in the thread for requests. ``url`` is for messages."""
    import asyncio

    client = client_for(url)
    client.refresh()
    return asyncio.run_coroutine_threadsafe(work(), client.loop)


def run_all(url: str, works: Sequence[Callable[[], Coroutine[Any, Any, T]]]) -> list[T]:
    """Run several coroutines at once in the thread for requests. The first error cancels all of them."""
    import asyncio

    async def everything() -> list[T]:
        tasks = [asyncio.ensure_future(work()) for work in works]
        try:
            return list(await asyncio.gather(*tasks))
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise

    future = submit(url, everything)
    try:
        return future.result()
    except BaseException:
        future.cancel()  # The caller was interrupted, so the results are not needed.
        raise


def store_of(client: StoreClient, url: Url) -> Any:
    """The store of a URL, created on first use.

    Raises:
        UnsupportedData: The URL names no bucket.
        Unreachable: The settings of the store in the environment are invalid.
        ValueError: ``HEADRACE_TIMEOUT`` is.
    """
    found = client.stores.pop(url.store, None)
    if found is None:
        if url.store.endswith("://"):
            part = "bucket" if url.lists else "host"
            raise UnsupportedData(
                Where(path=url.store), expected=f"a URL with a {part}, {url.scheme}://{part}/...", found="none in it"
            )
        options = _options(url.scheme)
        try:
            module = obstore_for(url.store).store
            # from_url would take https://bucket.s3.amazonaws.com for S3, without the query that signs a URL.
            open_store = module.from_url if url.lists else module.HTTPStore.from_url
            made = open_store(url.store, **options)
        except Exception as error:
            raise as_headrace_error(error, url.store) from error
        found = made
    client.stores[url.store] = found  # behind all others: the one used least recently goes first
    for least in list(client.stores)[: -min(MOST_STORES, most_open())]:
        client.stores.pop(least, None)
    return found


def _variables() -> list[str | None]:
    return [os.environ.get(name) for names in (*ENDPOINTS.values(), *IDENTITIES.values()) for name in names]


def _endpoint(scheme: str) -> str:
    return next((os.environ[name] for name in ENDPOINTS.get(scheme, ()) if os.environ.get(name)), "")


def requests_at_once() -> int:
    """How many requests this process makes at once.

    Raises:
        ValueError: ``HEADRACE_REQUESTS`` is not such a number.
    """
    return int(number_setting("HEADRACE_REQUESTS", MOST_AT_ONCE, 1, 1_000_000, kind=int))


def request_seconds() -> float:
    """How long a server may take to respond, and to send more of its response.

    Raises:
        ValueError: ``HEADRACE_TIMEOUT`` is not such a number.
    """
    return number_setting("HEADRACE_TIMEOUT", TIMEOUT_S, 0.001, 100_000_000, kind=float)


def make_opener(refused: type[Exception]) -> Any:
    """An opener of ``urllib`` that uses the proxies of the environment, and follows redirections, but never from https to another scheme.

    Args:
        refused: What it raises for such a redirection.
    """
    from urllib.request import HTTPRedirectHandler, build_opener  # as slow to import as the rest of this package

    class Redirects(HTTPRedirectHandler):
        def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
            scheme, before = urlsplit(newurl).scheme, urlsplit(req.full_url).scheme
            if scheme != "https" and (scheme != "http" or before == "https"):
                raise refused(f"it redirects from {before} to {newurl}")
            return super().redirect_request(req, fp, code, msg, headers, newurl)

    return build_opener(Redirects())


def _options(scheme: str) -> dict[str, Any]:
    endpoint = _endpoint(scheme)
    seconds = request_seconds()
    client = {
        # Of each wait for bytes, and not of the whole request: a large object may take as long as its bytes flow.
        "timeout": WHOLE_REQUEST,
        "read_timeout": f"{seconds:.3f}s",
        "connect_timeout": f"{min(seconds, 10):.3f}s",
    }
    # Only for servers addressed over http themselves: otherwise https servers could redirect to http.
    is_http = scheme == "http" or endpoint.lower().startswith("http://")
    client["allow_http"] = "true" if is_http else "false"
    retries = {
        "max_retries": RETRIES,
        "retry_timeout": timedelta(seconds=2 * seconds),
        "backoff": {"init_backoff": timedelta(seconds=0.1), "max_backoff": timedelta(seconds=4), "base": 2},
    }
    return {"client_options": client, "retry_config": retries}
