"""Requests to object stores and HTTP servers: many at once, in a thread of their own, every answer checked.

obstore does the work: connections, TLS, signatures, retries of what a server may be asked again (after 5xx and lost connections).
Credentials and endpoints come from the environment, by the names that each cloud has for them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

from penstock import _optional
from penstock.errors import CorruptFile, DataError, NoFiles, Unreachable, UnsupportedData, Where
from penstock.io.urls import Url

__all__ = [
    "Answer",
    "Ask",
    "NoRanges",
    "Version",
    "ask_one",
    "fetch",
    "look_whole",
    "names_under",
    "run_all",
    "submit",
    "whole_parts",
]

MOST_AT_ONCE = 64
"""Requests under way in this process; ``PENSTOCK_REQUESTS`` sets another number."""
TIMEOUT_S = 60.0
"""How long one request may take, retries not counted; ``PENSTOCK_TIMEOUT`` sets another number of seconds."""
RETRIES = 4
BODY_RETRIES = 2  # of a body that breaks off: obstore asks again only where there was no answer
SHOWN = 160
T = TypeVar("T")


class NoRanges(Exception):
    """The server gives whole objects only, or the object is empty, so that there is no range of it."""


@dataclass(frozen=True, slots=True)
class Version:
    """What tells an object from another version of it: whatever the store says of it.

    Args:
        size: In bytes.
        etag: ``None`` where the store gives none.
        modified_ns: Time of the last change.
    """

    size: int
    etag: str | None
    modified_ns: int

    def same_as(self, other: Version) -> bool:
        """Whether both may be of the same version. ETags decide where both have one."""
        if self.size != other.size:
            return False
        if self.etag is not None and other.etag is not None:
            return self.etag == other.etag
        return self.modified_ns == other.modified_ns


@dataclass(frozen=True, slots=True)
class Ask:
    """One thing to fetch.

    Args:
        url: Of the object.
        start: First byte.
        stop: One past the last byte; ``None``: the whole object, whatever ``start`` is.
        version: Refuse another version than this.
    """

    url: str
    start: int = 0
    stop: int | None = None
    version: Version | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """Bytes, and the version of the object that they are from."""

    content: memoryview
    version: Version


class _Line:
    """The thread in which requests are made, and the stores that were asked."""

    def __init__(self) -> None:
        import asyncio  # takes as long to load as the rest of this package

        self.process = os.getpid()
        self.stores: dict[str, Any] = {}
        self.loop = asyncio.new_event_loop()
        self.room = asyncio.Semaphore(int(os.environ.get("PENSTOCK_REQUESTS") or MOST_AT_ONCE))
        self.thread = threading.Thread(target=self.loop.run_forever, name="penstock-requests", daemon=True)
        self.thread.start()


_lines: list[_Line] = []
_starting = threading.Lock()


def _line(url: str) -> _Line:
    if not _lines:
        with _starting:
            if not _lines:
                _require(url)
                _lines.append(_Line())
    line = _lines[0]
    if line.process != os.getpid():
        # The threads of the runtime behind obstore are not there after a fork: a request would wait for ever.
        raise Unreachable(
            Where(path=url),
            expected="a process that was not forked off one that had read URLs",
            found="a forked one",
            hint="Start workers by 'spawn' or 'forkserver' (torch: multiprocessing_context='spawn'; penstock.Loader does it by "
            "itself), or open the URL first in the child.",
        )
    return line


def _require(url: str) -> Any:
    hint = f"Without it, only files on this machine are read; {Url.of(url).store} is none."
    return _optional.require("obstore", extra="cloud", hint=hint)


def submit(url: str, work: Callable[[], Coroutine[Any, Any, T]]) -> Future[T]:
    """Start ``work`` in the thread of requests. ``url`` is for messages."""
    import asyncio

    line = _line(url)
    return asyncio.run_coroutine_threadsafe(work(), line.loop)


def fetch(asks: Sequence[Ask]) -> list[Answer]:
    """The answers to all of ``asks``, fetched at once as far as :data:`MOST_AT_ONCE` allows.

    Raises:
        NoFiles: An object is not there.
        Unreachable: It cannot be read; the message says why.
        CorruptFile: It is another version than expected, or its body has another length than announced.
        NoRanges: The server has no ranges.
    """
    return run_all(asks[0].url, [partial(ask_one, ask) for ask in asks]) if asks else []


def run_all(url: str, works: Sequence[Callable[[], Coroutine[Any, Any, T]]]) -> list[T]:
    """The results of several coroutines, run at once in the thread of requests. The first error ends all of them."""
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
        future.cancel()  # Whoever asked was interrupted: nobody waits for the others.
        raise


async def ask_one(ask: Ask) -> Answer:
    """One answer, within the room that there is."""
    line = _line(ask.url)
    async with line.room:
        for left in range(BODY_RETRIES, -1, -1):
            found = await _begun(line, ask)
            version = _version(found.meta)
            _check_version(ask, version)
            try:
                content = memoryview(await found.bytes_async())
            except Exception as error:
                if left:
                    continue
                raise _worded(error, ask.url) from error
            wanted = version.size if ask.stop is None else min(ask.stop, version.size) - ask.start
            if len(content) == wanted:
                return Answer(content, version)
            if not left:
                raise _cut_off(ask.url, ask.start, wanted, len(content))
    raise AssertionError("the last round returns or raises")


async def _begun(line: _Line, ask: Ask) -> Any:
    """The head of an answer."""
    obstore = _require(ask.url)
    url = Url.of(ask.url)
    options: dict[str, Any] = {} if ask.stop is None else {"range": (ask.start, ask.stop)}
    etag = None if ask.version is None else ask.version.etag
    if etag is not None and not etag.startswith("W/"):  # By RFC 9110 a weak one never matches.
        options["if_match"] = etag
    try:
        return await obstore.get_async(_store(line, url), url.key, options=options)
    except Exception as error:
        if ask.version is not None and isinstance(error, obstore.exceptions.PreconditionError):
            raise _changed(ask, "another version") from error
        worded = _worded(error, ask.url)
        if ask.version is not None and isinstance(worded, NoRanges):
            raise _changed(ask, f"a refusal of bytes {ask.start} to {ask.stop}") from error
        raise worded from error


async def look_whole(url: str) -> Version:
    """The version of an object, without a byte of it."""
    line = _line(url)
    async with line.room:
        place = Url.of(url)
        try:
            return _version(await _require(url).head_async(_store(line, place), place.key))
        except DataError:
            raise
        except Exception as error:
            raise _worded(error, url) from error


def whole_parts(url: str, version: Version, part_bytes: int) -> Iterator[memoryview]:
    """A whole object in order, by one request."""

    async def begin() -> Any:
        found = await _begun(_line(url), Ask(url, version=version))
        _check_version(Ask(url, version=version), _version(found.meta))
        return found.stream(min_chunk_size=part_bytes).__aiter__()

    parts = submit(url, begin).result()

    async def following() -> memoryview | None:
        try:
            return memoryview(await anext(parts))
        except StopAsyncIteration:
            return None
        except Exception as error:
            raise _worded(error, url) from error

    size = 0
    while (part := submit(url, following).result()) is not None:
        size += len(part)
        yield part
    if size != version.size:
        raise _cut_off(url, 0, version.size, size)


def _cut_off(url: str, start: int, wanted: int, found: int) -> CorruptFile:
    return CorruptFile(
        Where(path=url, offset=start),
        expected=f"a body of {wanted} bytes",
        found=f"{found}",
        hint="The server cuts its answers off.",
    )


def _version(meta: Any) -> Version:
    modified = meta["last_modified"]
    return Version(meta["size"], meta.get("e_tag"), int(modified.timestamp()) * 10**9)


def _check_version(ask: Ask, found: Version) -> None:
    if ask.version is not None and not ask.version.same_as(found):
        raise _changed(ask, f"another version ({found.size} bytes)")


def _changed(ask: Ask, found: str) -> CorruptFile:
    size = "" if ask.version is None else f" ({ask.version.size} bytes)"
    return CorruptFile(
        Where(path=ask.url),
        expected=f"the object as it was when it was first looked at{size}",
        found=found,
        hint="The object was changed meanwhile: open it again.",
    )


def _store(line: _Line, url: Url) -> Any:
    found = line.stores.get(url.store)
    if found is None:
        timeout = f"{float(os.environ.get('PENSTOCK_TIMEOUT') or TIMEOUT_S):g}s"
        client = {"timeout": timeout, "connect_timeout": timeout if float(timeout[:-1]) < 10 else "10s"}
        if url.scheme == "http" or os.environ.get("AWS_ALLOW_HTTP", "").lower() == "true":
            client["allow_http"] = "true"
        retries = {
            "max_retries": RETRIES,
            "retry_timeout": timedelta(seconds=2 * float(timeout[:-1])),
            "backoff": {"init_backoff": timedelta(seconds=0.1), "max_backoff": timedelta(seconds=4), "base": 2},
        }
        try:
            made = _require(url.store).store.from_url(url.store, client_options=client, retry_config=retries)
        except Exception as error:
            raise _worded(error, url.store) from error
        found = line.stores.setdefault(url.store, made)
    return found


def names_under(url: str) -> tuple[list[str], list[str]]:
    """The URLs of the objects, and of the folders, right under a folder of a store that lists.

    Raises:
        Unreachable: The store does not answer.
    """
    place = Url.of(url)

    async def listed() -> tuple[list[str], list[str]]:
        line = _line(url)
        try:
            found = await _require(url).list_with_delimiter_async(_store(line, place), place.key.rstrip("/") or None)
        except DataError:
            raise
        except Exception as error:
            raise _worded(error, url) from error
        return [each["path"] for each in found["objects"]], list(found["common_prefixes"])

    objects, folders = submit(url, listed).result()
    return [place.at(key) for key in objects], [place.at(key) for key in folders]


def _worded(error: Exception, url: str) -> Exception:
    """An error of obstore in our words. What it says is long, and begins with what matters."""
    kinds = _require(url).exceptions
    said = str(error).partition("\n")[0]
    said = said.partition(" - ")[2] or said
    reason = said[:SHOWN].rstrip(": ") or type(error).__name__
    where = Where(path=url)
    if isinstance(error, FileNotFoundError):
        return NoFiles(where, expected="an object at this URL", found="none (the server says 404)")
    if (isinstance(error, kinds.NotSupportedError) and "ange" in str(error)) or " 416 " in said + " ":
        return NoRanges(url)
    if isinstance(error, kinds.PermissionDeniedError) or " 403" in said:
        hint = "Credentials come from the environment (AWS_ACCESS_KEY_ID, GOOGLE_APPLICATION_CREDENTIALS, ...)."
        return Unreachable(where, expected="permission to read this", found="a refusal (403)", hint=hint)
    if isinstance(error, kinds.UnauthenticatedError) or " 401" in said:
        hint = "Set the credentials of the store in the environment; they may have run out."
        return Unreachable(where, expected="to be known to the server", found="a refusal (401)", hint=hint)
    if isinstance(error, kinds.UnknownConfigurationKeyError):
        return UnsupportedData(where, expected="a URL with a store in it", found=reason)
    return Unreachable(where, expected="an answer with the object", found=reason, hint=_hint(str(error)))


def _hint(text: str) -> str:
    if "timed out" in text or "Timeout" in text or "TimedOut" in text:
        return "PENSTOCK_TIMEOUT sets how many seconds a request may take."
    return "It was asked several times. Try again later, or copy the file to this machine."
