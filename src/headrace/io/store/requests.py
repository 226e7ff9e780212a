"""Requests to object stores and HTTP servers: many at once, every answer checked."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from headrace.errors import CorruptFile, Where
from headrace.io.faults import NoRanges, as_headrace_error, file_changed_error
from headrace.io.store.client import StoreClient, client_for, obstore_for, run_all, store_of, submit
from headrace.io.urls import Url

__all__ = [
    "FetchedRange",
    "RangeRequest",
    "Version",
    "check_unchanged",
    "fetch",
    "fetch_one",
    "fetch_version",
    "stream_object",
]


SETTLED_NS = 60 * 10**9
"""A Last-Modified counts seconds, so within one of them an object may change again under the same. A minute, because the clock of
the server need not be ours (RFC 9110, 8.8.2.2)."""
BODY_RETRIES = 2  # of a body that breaks off: obstore asks again only where there was no answer


@dataclass(frozen=True, slots=True)
class Version:
    """What tells an object from another version of it: whatever the store says of it.

    Args:
        size: In bytes.
        etag: ``None`` where the store gives none.
        modified_ns: Time of the last change; 0 where the store gives none.
        seen_ns: When the store said so.
    """

    size: int
    etag: str | None
    modified_ns: int
    seen_ns: int = field(default_factory=time.time_ns, compare=False)

    @property
    def has_strong_etag(self) -> bool:
        """Whether it has an ETag that is another one for every other content. A weak one stands for "about the same"."""
        return self.etag is not None and not self.etag.startswith("W/")

    @property
    def is_certain(self) -> bool:
        """Whether another version of the object would show: by its ETag, or by the time of a change that is long past.

        Of an object without either, equal sizes say nothing: it is fetched anew by everyone who opens it.
        """
        return self.has_strong_etag or 0 < self.modified_ns <= self.seen_ns - SETTLED_NS

    def differs(self, other: Version) -> bool:
        """Whether these are two versions for sure."""
        if self.size != other.size:
            return True
        if self.has_strong_etag and other.has_strong_etag:
            return self.etag != other.etag
        if self.etag is not None and other.etag is not None and self.etag != other.etag:
            return True
        return self.modified_ns != other.modified_ns


@dataclass(frozen=True, slots=True)
class RangeRequest:
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
class FetchedRange:
    """Bytes, and the version of the object that they are from."""

    content: memoryview
    version: Version


def fetch(asks: Sequence[RangeRequest]) -> list[FetchedRange]:
    """The answers to all of ``asks``, fetched at once as far as :data:`~headrace.io.store.client.MOST_AT_ONCE` allows.

    Raises:
        NoFiles: An object is not there.
        Unreachable: It cannot be read; the message says why.
        CorruptFile: It is another version than expected, or its body has another length than announced.
        NoRanges: The server has no ranges.
    """
    return run_all(asks[0].url, [partial(fetch_one, ask) for ask in asks]) if asks else []


async def fetch_one(ask: RangeRequest) -> FetchedRange:
    """One answer, within the room that there is."""
    line = client_for(ask.url)
    async with line.room:
        for left in range(BODY_RETRIES, -1, -1):
            found = await _start_request(line, ask)
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


async def _start_request(line: StoreClient, ask: RangeRequest) -> Any:
    """The head of an answer."""
    obstore = obstore_for(ask.url)
    url = Url.of(ask.url)
    options: dict[str, Any] = {} if ask.stop is None else {"range": (ask.start, ask.stop)}
    if ask.version is not None and ask.version.has_strong_etag:  # By RFC 9110 a weak one never matches.
        options["if_match"] = ask.version.etag
    try:
        return await obstore.get_async(store_of(line, url), url.key, options=options)
    except Exception as error:
        if ask.version is not None and isinstance(error, obstore.exceptions.PreconditionError):
            raise _object_changed_error(ask, "another version") from error
        told = as_headrace_error(error, ask.url)
        if ask.version is not None and isinstance(told, NoRanges):
            raise _object_changed_error(ask, f"a refusal of bytes {ask.start} to {ask.stop}") from error
        raise told from error


async def fetch_version(url: str) -> Version:
    """The version of an object, without a byte of it."""
    line = client_for(url)
    async with line.room:
        place = Url.of(url)
        try:
            return _version(await obstore_for(url).head_async(store_of(line, place), place.key))
        except Exception as error:
            raise as_headrace_error(error, url) from error


def stream_object(url: str, version: Version, part_bytes: int) -> Iterator[memoryview]:
    """A whole object in order, by one request."""

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


def check_unchanged(url: str, version: Version) -> None:
    """Ask once more, after an object was read, where nothing in its answers gives away that it changed meanwhile.

    Raises:
        CorruptFile: It did.
    """
    if not version.has_strong_etag:
        _check_version(RangeRequest(url, version=version), run_all(url, [partial(fetch_version, url)])[0])


def _body_cut_off_error(url: str, start: int, wanted: int, found: int) -> CorruptFile:
    return CorruptFile(
        Where(path=url, offset=start),
        expected=f"a body of {wanted} bytes",
        found=f"{found}",
        hint="The server cuts its answers off.",
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
