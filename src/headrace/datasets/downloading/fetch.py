"""One attempt to download from one address: appends to the part that exists."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

from headrace.io.faults import name_in_errors
from headrace.io.store.client import make_opener
from headrace.io.urls import escape_url
from headrace.io.write.atomic import write_atomic

__all__ = ["Attempt", "Patience", "Refused", "Unfinished", "fetch"]

BLOCK_BYTES = 1 << 18
LEAST_BYTES = 1 << 10
"""This many bytes must arrive within the time-out of one read, so that a dripping server fails."""
LONGEST_WAIT_S = 120.0
TRANSIENT = frozenset((408, 425, 429, 500, 502, 503, 504, 507, 509, 520, 521, 522, 523, 524))
_RANGE = re.compile(r"bytes\s+(\d+)-(\d+)/(\d+|\*)")
AGENT = "headrace"


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Limits for slow servers.

    Args:
        timeout_s: Seconds to wait for a connection, and for each kilobyte.
        attempts: Consecutive attempts at an address that receive less than 64 KiB.
        backoff_s: Seconds between the first two attempts, doubled each time. A server may ask for up to two minutes.
    """

    timeout_s: float = 30.0
    attempts: int = 5
    backoff_s: float = 1.0

    def __post_init__(self) -> None:
        if self.timeout_s <= 0 or self.attempts < 1 or self.backoff_s < 0:
            raise ValueError(f"expected a time-out above 0, 1 attempt or more and a pause of 0 or more, got {self}")


class Refused(Exception):
    """The address does not have the file; another attempt would fail, too."""


class Unfinished(Exception):
    """The file is incomplete; another attempt may complete it.

    Args:
        reason: The reason.
        wait_s: Seconds that the server asks to wait.
    """

    def __init__(self, reason: str, *, wait_s: float = 0.0) -> None:
        super().__init__(reason)
        self.wait_s: float = min(wait_s, LONGEST_WAIT_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """Arguments of an attempt.

    Args:
        url: The address.
        part: The unfinished file, which may exist.
        size: Size of the complete file, if known.
        can_be_checked: Whether a checksum detects parts of different versions.
        timeout_s: See :class:`Patience`.
        arrived: Called with the current size and the final size, ``None`` if unknown.
    """

    url: str
    part: Path
    size: int | None
    can_be_checked: bool
    timeout_s: float
    arrived: Callable[[int, int | None], None]

    @property
    def notes(self) -> Path:
        """The notes on the version of the part."""
        return self.part.with_name(self.part.name + ".json")


def fetch(attempt: Attempt) -> None:
    """Complete a part.

    Raises:
        Refused, Unfinished: The attempt failed.
        OSError: The disk is full, and so on.
    """
    validator = _validator(attempt)
    begun = attempt.part.stat().st_size if attempt.part.exists() and validator is not None else 0
    if attempt.size is not None and begun >= attempt.size > 0:
        if begun == attempt.size:
            return
        _forget(attempt)
        begun = 0
    response = _open(attempt, begun, validator or "")
    with response:
        start, total = _read_range(attempt, response, begun)
        if attempt.size is not None and total is not None and total != attempt.size:
            raise Refused(f"it has {total} bytes there, not {attempt.size}")
        _note(attempt, response)
        _receive(attempt, response, start, total)


def _open(attempt: Attempt, begun: int, validator: str) -> Any:
    # Imported here, because it takes as long as all of Headrace, and few programs download.
    from http.client import HTTPException
    from urllib.error import HTTPError, URLError
    from urllib.request import Request

    headers = {"User-Agent": AGENT, "Accept-Encoding": "identity"}
    if begun:
        headers["Range"] = f"bytes={begun}-"
        if validator:
            headers["If-Range"] = validator
    try:
        return make_opener(Refused).open(Request(escape_url(attempt.url), headers=headers), timeout=attempt.timeout_s)  # noqa: S310 - http(s) alone
    except HTTPError as error:
        with error:
            raise _answer(attempt, error) from error
    except URLError as error:
        # By name, because some builds of Python lack ssl.
        is_final = type(error.reason).__name__ == "SSLCertVerificationError"
        raise (Refused if is_final else Unfinished)(str(error.reason)) from error
    except (HTTPException, OSError) as error:
        raise Unfinished(f"{type(error).__name__}: {error}") from error
    except ValueError as error:
        raise Refused(f"it redirects to a malformed address: {error}") from error


def _answer(attempt: Attempt, error: Any) -> Exception:
    """The error for an HTTP status."""
    if error.code == 416:
        # The server has no more bytes: the part is another file, or complete.
        _forget(attempt)
        return Unfinished("416: the part is longer than the file")
    reason = f"{error.code} {error.reason}"
    if error.code in TRANSIENT:
        return Unfinished(reason, wait_s=_seconds(error.headers.get("Retry-After", "")))
    return Refused(reason)


def _seconds(text: str) -> float:
    return float(text) if re.fullmatch(r"\d{1,9}", text.strip()) else 0.0


def _read_range(attempt: Attempt, response: Any, begun: int) -> tuple[int, int | None]:
    """The offset of the body in the file, and the length of the file."""
    encoding = response.headers.get("Content-Encoding", "identity").lower()
    if encoding not in ("identity", ""):
        raise Refused(f"it is encoded as {encoding}, although the request excluded that")
    length = response.headers.get("Content-Length", "")
    expected = int(length) if re.fullmatch(r"\d{1,18}", length) else None
    if response.status != 206:
        return 0, expected
    match = _RANGE.match(response.headers.get("Content-Range", ""))
    if match is None or int(match[1]) != begun:
        _forget(attempt)
        raise Unfinished("the server sent another range than the requested one")
    return begun, None if match[3] == "*" else int(match[3])


def _receive(attempt: Attempt, response: Any, start: int, total: int | None) -> None:
    from http.client import HTTPException

    limit = attempt.size if attempt.size is not None else total
    mode = "r+b" if attempt.part.exists() else "xb"
    with name_in_errors(str(attempt.part)), attempt.part.open(mode) as file:
        file.truncate(start)
        file.seek(start)
        there, window, since = start, start, time.monotonic()
        while True:
            try:
                block = response.read1(BLOCK_BYTES)
            except (HTTPException, OSError) as error:
                raise Unfinished(f"{type(error).__name__}: {error}") from error
            if not block:
                break
            there += len(block)
            if limit is not None and there > limit:
                file.close()
                _forget(attempt)
                raise Refused(f"the address sends more than {limit} bytes")
            file.write(block)
            attempt.arrived(there, limit)
            if there - window >= LEAST_BYTES:
                window, since = there, time.monotonic()
            elif time.monotonic() - since > attempt.timeout_s:
                raise Unfinished(f"{there - window} bytes in {attempt.timeout_s:g} s")
    if limit is not None and there < limit:
        raise Unfinished(f"the connection ended after {there} of {limit} bytes")


def _validator(attempt: Attempt) -> str | None:
    """The server's tag for the version of the part; ``""`` if a checksum must detect other versions.

    ``None`` if the part is useless, because the rest might belong to another version.
    """
    try:
        noted = json.loads(attempt.notes.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        noted = {}
    known = noted.get("validator", "") if isinstance(noted, dict) and noted.get("url") == attempt.url else ""
    if isinstance(known, str) and known and known.isprintable():
        return known
    return "" if attempt.can_be_checked else None


def _note(attempt: Attempt, response: Any) -> None:
    tag = response.headers.get("ETag", "")
    # A weak tag means equivalent versions, not equal bytes.
    validator = tag if tag.startswith('"') else _settled_time(response.headers)
    text = json.dumps({"url": attempt.url, "validator": validator})
    write_atomic(attempt.notes, text.encode(), durable=False)


def _settled_time(headers: Any) -> str:
    """The time of the last change, unless it is within a second of the answer and cannot identify the version (RFC 9110, 8.8.2.2)."""
    modified = headers.get("Last-Modified", "")
    try:
        passed = parsedate_to_datetime(headers.get("Date", "")) - parsedate_to_datetime(modified)
    except (TypeError, ValueError):
        return ""
    return modified if passed.total_seconds() > 1 else ""


def _forget(attempt: Attempt) -> None:
    attempt.part.unlink(missing_ok=True)
    attempt.notes.unlink(missing_ok=True)
