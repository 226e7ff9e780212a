"""Requests to object stores and HTTP servers: many at once, with every response checked."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from headrace.errors import CorruptFile, NoFiles, Unreachable, Where
from headrace.io.faults import (
    OTHER_ANSWER,
    LostConnection,
    NoRanges,
    UnsizedResponse,
    as_headrace_error,
    file_changed_error,
    has_answer,
)
from headrace.io.store.client import (
    RETRIES,
    StoreClient,
    client_for,
    make_opener,
    obstore_for,
    request_seconds,
    run_all,
    store_of,
    submit,
)
from headrace.io.urls import Url, escape_url

__all__ = [
    "FetchedRange",
    "NotedVersion",
    "RangeRequest",
    "Version",
    "check_unchanged",
    "fetch",
    "fetch_one",
    "fetch_version",
    "noted_versions",
    "pause_before_retry",
    "read_small",
    "stream_object",
    "stream_plainly",
]


SETTLED_NS = 60 * 10**9
"""Last-Modified has a resolution of one second, so an object may change again within it. The margin is a minute, because the
server's clock may differ (RFC 9110, 8.8.2.2).
"""
CLOCK_NS = 2 * 10**9
"""How far Last-Modified may be off where it is the time of the response: it has whole seconds, and responses take time."""
SMALL_BYTES = 64 << 20
"""A million names. A larger object is no note of Headrace."""
BODY_RETRIES = 2  # after a truncated body; obstore itself retries only if there was no response


@dataclass(frozen=True, slots=True)
class Version:
    """Identifies one version of an object, by what its store reports.

    Args:
        size: In bytes.
        etag: ``None`` if the store reports none.
        modified_ns: Time of the last change; 0 if the store reports none.
        seen_ns: The time of the report.
    """

    size: int
    etag: str | None
    modified_ns: int
    seen_ns: int = field(default_factory=time.time_ns, compare=False)

    @property
    def has_strong_etag(self) -> bool:
        """Whether it has an ETag that changes with every change of the content. A weak one means "about the same"."""
        return self.etag is not None and not self.etag.startswith("W/")

    @property
    def is_certain(self) -> bool:
        """Whether a change of version would be detected: by a strong ETag, or because the last change is long past.

        An object without either is fetched again each time it is opened, because equal sizes prove nothing.
        """
        return self.has_strong_etag or 0 < self.modified_ns <= self.seen_ns - SETTLED_NS

    def differs(self, other: Version) -> bool:
        """Whether these are certainly two versions."""
        if self.size != other.size:
            return True
        if self.has_strong_etag and other.has_strong_etag:
            return self.etag != other.etag
        if self.etag is not None and other.etag is not None and self.etag != other.etag:
            return True
        return self.modified_ns != other.modified_ns and not self._passes_as_time(other)

    def _passes_as_time(self, other: Version) -> bool:
        """Whether Last-Modified is but the time of the response, as servers give it for what they make for each request."""
        passed = (other.modified_ns - self.modified_ns) - (other.seen_ns - self.seen_ns)
        return not self.is_certain and not other.is_certain and abs(passed) <= CLOCK_NS


@dataclass(frozen=True, slots=True)
class RangeRequest:
    """A range of an object to fetch.

    Args:
        url: The object.
        start: Its first byte.
        stop: The byte after its last; ``None``: the whole object, whatever ``start`` is.
        version: Refuse any other version.
    """

    url: str
    start: int = 0
    stop: int | None = None
    version: Version | None = None


@dataclass(frozen=True, slots=True)
class FetchedRange:
    """Fetched bytes, and their version of the object."""

    content: memoryview
    version: Version


def fetch(asks: Sequence[RangeRequest]) -> list[FetchedRange]:
    """Fetch several ranges, at most :data:`~headrace.io.store.client.MOST_AT_ONCE` at once.

    Raises:
        NoFiles: An object does not exist.
        Unreachable: It cannot be read; the message says why.
        CorruptFile: It is not the expected version, or its body does not have the announced length.
        NoRanges: The server supports no ranges.
    """
    return run_all(asks[0].url, [partial(fetch_one, ask) for ask in asks]) if asks else []


async def fetch_one(ask: RangeRequest) -> FetchedRange:
    """Fetch one range, once the limit on requests permits."""
    client = client_for(ask.url)
    async with client.slots:
        for left in range(BODY_RETRIES, -1, -1):
            found = await _start_request(client, ask)
            version = _version(found.meta)
            _check_version(ask, version)
            try:
                content = memoryview(await found.bytes_async())
            except Exception as error:
                if left:
                    continue
                raise as_headrace_error(error, ask.url) from error
            wanted = version.size if ask.stop is None else min(ask.stop, version.size) - ask.start
            if len(content) == wanted:
                return FetchedRange(content, version)
            if not left:
                raise _body_cut_off_error(ask.url, ask.start, wanted, len(content))
    raise AssertionError("the last round returns or raises")


async def _start_request(client: StoreClient, ask: RangeRequest) -> Any:
    """Make a request and return the head of the response."""
    obstore = obstore_for(ask.url)
    url = Url.of(ask.url)
    options: dict[str, Any] = {} if ask.stop is None else {"range": (ask.start, ask.stop)}
    if ask.version is not None and ask.version.has_strong_etag:  # by RFC 9110, a weak one never matches
        options["if_match"] = ask.version.etag
    try:
        return await obstore.get_async(store_of(client, url), url.key, options=options)
    except Exception as error:
        if ask.version is not None and isinstance(error, obstore.exceptions.PreconditionError):
            raise _object_changed_error(ask, "another version") from error
        ours = as_headrace_error(error, ask.url)
        if ask.stop is None and isinstance(ours, NoRanges):
            raise _whole_refused_error(ask.url) from error
        if ask.version is not None and isinstance(ours, NoRanges):
            if ours.is_whole:
                raise _whole_instead_error(ask) from error
            raise _object_changed_error(ask, f"a refusal of bytes {ask.start} to {ask.stop}") from error
        raise ours from error


async def fetch_version(url: str) -> Version:
    """The version of an object, without its content. HTTP servers that answer GET alone are asked for it, and not listened to."""
    client, place = client_for(url), Url.of(url)
    async with client.slots:
        try:
            return _version(await obstore_for(url).head_async(store_of(client, place), place.key))
        except Exception as error:
            ours = as_headrace_error(error, url)
            if isinstance(ours, NoFiles) or place.lists or not (has_answer(error) or isinstance(ours, UnsizedResponse)):
                raise (_whole_refused_error(url) if isinstance(ours, NoRanges) else ours) from error
        return _version((await _start_request(client, RangeRequest(url))).meta)


NotedVersion = list[Any] | None
"""The version of an object as it can be stored: size, ETag and time of the last change. ``None``: there is none."""


def noted_versions(urls: Sequence[str]) -> list[NotedVersion]:
    """The versions of objects, of which some may be missing, as they can be stored.

    Raises:
        Unreachable: The store does not answer.
    """
    return run_all(urls[0], [partial(_noted_version, url) for url in urls]) if urls else []


async def _noted_version(url: str) -> NotedVersion:
    try:
        version = await fetch_version(url)
    except NoFiles:
        return None
    return [version.size, version.etag, version.modified_ns]


def stream_object(url: str, version: Version, part_bytes: int) -> Iterator[memoryview]:
    """The bytes of a whole object in order. If the connection is lost, they are requested again, and what was given is left out."""
    given = 0
    for attempt in range(RETRIES + 1):
        at = 0
        try:
            for part in _stream_once(url, version, part_bytes):
                at += len(part)
                if at > given:
                    new, given = at - given, at
                    yield part[-new:]
        except LostConnection:
            if attempt == RETRIES or (given and not version.is_certain):
                raise
        else:
            return
        pause_before_retry(attempt)


def pause_before_retry(attempt: int) -> None:
    """Wait after an attempt that failed, the first being 0, each time longer."""
    time.sleep(0.1 * 2**attempt)


def _stream_once(url: str, version: Version, part_bytes: int) -> Iterator[memoryview]:
    async def begin() -> Any:
        found = await _start_request(client_for(url), RangeRequest(url, version=version))
        _check_version(RangeRequest(url, version=version), _version(found.meta))
        return found.stream(min_chunk_size=part_bytes).__aiter__()

    parts = submit(url, begin).result()

    async def following() -> memoryview | None:
        try:
            return memoryview(await anext(parts))
        except StopAsyncIteration:
            return None
        except Exception as error:
            raise as_headrace_error(error, url) from error

    size = 0
    while (part := submit(url, following).result()) is not None:
        size += len(part)
        yield part
    if size != version.size:
        raise _body_cut_off_error(url, 0, version.size, size)


def stream_plainly(url: str, part_bytes: int) -> Iterator[bytes]:
    """The bytes of a whole object of an HTTP server that does not say how long it is: obstore does not take those.

    Raises:
        NoFiles, Unreachable, CorruptFile: As for :func:`fetch`.
    """
    from http.client import HTTPException  # as slow to import as the rest of this package
    from urllib.request import Request

    size = 0
    try:
        opener = make_opener(OSError)
        with opener.open(Request(escape_url(url)), timeout=request_seconds()) as response:  # noqa: S310 - http(s) alone
            _check_is_whole(response.status)
            wanted = response.length
            while part := response.read(part_bytes):
                size += len(part)
                yield part
    except (HTTPException, OSError, ValueError) as error:
        found = f"{type(error).__name__}: {error}"
        hint = "Try again later, or copy the file to this machine."
        kind = LostConnection if isinstance(error, (HTTPException, ConnectionError)) else Unreachable
        raise kind(Where(path=url), expected="the whole object", found=found, hint=hint) from error
    if wanted not in (None, size):
        raise _body_cut_off_error(url, 0, wanted, size)


def _check_is_whole(status: int) -> None:
    if status != 200:  # such as 206: a part, although no range was asked for
        raise OSError(f"the response {status}")


def check_unchanged(url: str, version: Version) -> None:
    """Check again after reading an object, if its responses could not reveal a change meanwhile.

    Raises:
        CorruptFile: The object changed.
    """
    if not version.has_strong_etag:
        _check_version(RangeRequest(url, version=version), run_all(url, [partial(fetch_version, url)])[0])


def _whole_refused_error(url: str) -> Unreachable:
    found = "the response 416 (Range Not Satisfiable), although no range was asked for"
    hint = "Copy the file to this machine."
    return Unreachable(Where(path=url), expected="a response with the object", found=found, hint=hint)


def _whole_instead_error(ask: RangeRequest) -> Unreachable:
    """The error for a server that gave a range before, and now the whole object."""
    expected, found = f"bytes {ask.start} to {ask.stop}", "a response with the whole object"
    return Unreachable(Where(path=ask.url), expected=expected, found=found, hint=OTHER_ANSWER)


def _body_cut_off_error(url: str, start: int, wanted: int, found: int) -> CorruptFile:
    return CorruptFile(
        Where(path=url, offset=start),
        expected=f"a body of {wanted} bytes",
        found=f"{found}",
        hint="The server truncates its responses.",
    )


def _version(meta: Any) -> Version:
    modified = meta["last_modified"]
    return Version(meta["size"], meta.get("e_tag"), int(modified.timestamp()) * 10**9)


def _check_version(ask: RangeRequest, found: Version) -> None:
    if ask.version is not None and ask.version.differs(found):
        raise _object_changed_error(ask, found.size)


def _object_changed_error(ask: RangeRequest, found: str | int) -> CorruptFile:
    return file_changed_error(
        ask.url, size=None if ask.version is None else ask.version.size, found=found, what="object"
    )


def read_small(url: str) -> bytes:
    """The content of an object; nothing if there is none, or it is large."""
    return run_all(url, [partial(_read_small, url)])[0]


async def _read_small(url: str) -> bytes:
    place, client = Url.of(url), client_for(url)
    async with client.slots:
        try:
            found = await obstore_for(url).get_async(store_of(client, place), place.key)
            return bytes(await found.bytes_async()) if found.meta["size"] <= SMALL_BYTES else b""
        except FileNotFoundError:
            return b""
        except Exception as error:
            raise as_headrace_error(error, url) from error
