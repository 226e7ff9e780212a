"""The exceptions of headrace, and the common form of their messages.

    HeadraceError
    ├── DataError                expected X, found Y - at file, record, byte, feature. What to do.
    │   ├── CorruptFile          (ValueError)  a file's own structure is damaged: header, footer, compression
    │   ├── CorruptRecord        (ValueError)  one record is damaged: checksum, length, payload
    │   ├── SchemaMismatch       (ValueError)  intact data that does not match the schema
    │   ├── UnknownFormat        (ValueError)  neither content nor name identifies the format
    │   ├── UnsupportedData      (ValueError)  recognised, but refused for the stated reason
    │   ├── NoSuchFeature        (KeyError)    a feature that is not in the schema
    │   ├── NoFiles              (FileNotFoundError)  a path, glob or shard pattern that matches nothing
    │   ├── DownloadFailed       (OSError)     no address served the file intact
    │   ├── Unreachable          (OSError)     a URL that may exist, but cannot be read: refused, timed out, ...
    │   └── StateMismatch        (ValueError)  a saved state that belongs to other data or another loader
    ├── TransformError           (RuntimeError)  the user's own function failed; the cause is chained
    ├── WorkerDied               (RuntimeError)  a worker process of a loader or of Ray was killed, or exited
    ├── JobFailed                (RuntimeError, ValueError)  a training or transform job failed
    ├── RequestError             (ValueError)  a request answered with an HTTP status other than 200
    └── MissingExtra             (ImportError)  an optional package is not installed

Each class also derives from the built-in exception that users expect.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

__all__ = [
    "CorruptFile",
    "CorruptRecord",
    "DataError",
    "DownloadFailed",
    "HeadraceError",
    "JobFailed",
    "MissingExtra",
    "NoFiles",
    "NoSuchFeature",
    "RequestError",
    "SchemaMismatch",
    "StateMismatch",
    "TransformError",
    "UnknownFormat",
    "Unreachable",
    "UnsupportedData",
    "Where",
    "WorkerDied",
]

PASSWORD = re.compile(r"(?<=://)[^/?#]*@")
LOG_MARK = "\nEnd of its log:\n"  # precedes the log lines at the end of a message, which are shown unchanged


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """A hint for an unknown name that is close to a known one; empty if none is close.

    >>> did_you_mean("fashon_mnist", ["mnist", "fashion_mnist"])
    "Did you mean 'fashion_mnist'?"
    """
    import difflib  # imported here, because few programs fail

    close = difflib.get_close_matches(str(name), list(known), n=1)
    return f"Did you mean {close[0]!r}?" if close and close[0] != name else ""


def shorten_path(path: str) -> str:
    """A path for a message: relative if it is below the current folder. Sources keep absolute paths, because that folder may change."""
    try:
        return path.removeprefix(os.getcwd() + os.sep)  # noqa: PTH109 - this module imports little
    except OSError:  # the current folder was removed
        return path


def hide_secrets(url: str) -> str:
    """A URL without the query and the password of HTTP. In a store, "?" and "@" are parts of names."""
    if url[:4].lower() != "http":
        return url
    address, query, _ = url.partition("?")
    return PASSWORD.sub("...@", address) + (query and "?...")


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """A location in the data. ``None`` means not applicable or unknown."""

    path: str | None = None
    record: int | None = None
    """Number of the record in its file, counted from 0."""
    offset: int | None = None
    """Byte offset in the file (in the decompressed stream, for a compressed file)."""
    feature: str | None = None

    def at(
        self,
        *,
        path: str | None = None,
        record: int | None = None,
        offset: int | None = None,
        feature: str | None = None,
    ) -> Where:
        """A copy with these fields filled in."""
        given = {"path": path, "record": record, "offset": offset, "feature": feature}
        return replace(self, **{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]

    def __str__(self) -> str:
        parts = []
        if self.path is not None:
            # A query may hold a signature, and the part before the host a password. Neither may be logged; `path` has the full URL.
            parts.append(hide_secrets(self.path) if "://" in self.path else shorten_path(self.path))
        if self.record is not None:
            parts.append(f"record {self.record}")
        if self.offset is not None:
            parts.append(f"byte {self.offset:#x}")
        if self.feature is not None:
            parts.append(f"feature {self.feature!r}")
        return ", ".join(parts)


class HeadraceError(Exception):
    """Base class of all errors that headrace raises deliberately."""


ABSENT = "nothing of that name"
EXISTING = "one that already exists"


def _sentence(place: str, expected: str, found: str) -> str:
    if place and found == ABSENT:
        return f"no such {expected.removeprefix('a ').removeprefix('an ')}: {place}."
    if place and found == EXISTING:
        return f"{place} already exists."
    return f"expected {expected}, found {found}" + (f" - at {place}." if place else ".")


class DataError(HeadraceError):
    """The data is not as expected.

    Args:
        where: The location, as far as known.
        expected: The expected data.
        found: The data found. ``"nothing of that name"`` and ``"one that already exists"`` shorten the message.
        hint: Advice to the user.
    """

    def __init__(self, where: Where, *, expected: str, found: str, hint: str = "") -> None:
        self.where = where
        self.expected = expected
        self.found = found
        self.hint = hint
        super().__init__(_sentence(str(where), expected, found) + (f" {hint}" if hint else ""))

    def relocated(self, where: Where) -> DataError:
        """A copy of the error with the known fields of ``where`` filled in."""
        place = self.where.at(path=where.path, record=where.record, offset=where.offset, feature=where.feature)
        return type(self)(place, expected=self.expected, found=self.found, hint=self.hint)

    def __str__(self) -> str:  # KeyError would show the repr of its argument
        return str(self.args[0])

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.where, self.expected, self.found, self.hint)


def _rebuild(kind: type[DataError], where: Where, expected: str, found: str, hint: str) -> DataError:
    return kind(where, expected=expected, found=found, hint=hint)


class CorruptFile(DataError, ValueError):
    """The structure of a file is damaged: its header, footer or compressed stream."""


class CorruptRecord(DataError, ValueError):
    """One record is damaged: a checksum, a length, or a payload that its codec cannot read."""


class SchemaMismatch(DataError, ValueError):
    """The data is intact, but does not match the schema."""


class UnknownFormat(DataError, ValueError):
    """Neither content nor name identifies the format of a file."""


class UnsupportedData(DataError, ValueError):
    """The data or the request is valid but not supported, for the reason in the message."""


class NoSuchFeature(DataError, KeyError):
    """A feature is not in the schema."""


class NoFiles(DataError, FileNotFoundError):
    """A path, glob or shard pattern matches no file."""


class DownloadFailed(DataError, OSError):
    """No address served the file intact. Bytes already received are kept, and the next attempt resumes from there."""


class Unreachable(DataError, OSError):
    """A URL cannot be read: no permission, a timeout, or a server error."""


class StateMismatch(DataError, ValueError):
    """A saved state belongs to other data or to another kind of loader."""


class TransformError(HeadraceError, RuntimeError):
    """The user's function failed. ``__cause__`` is its exception."""

    def __init__(self, function: str, where: Where, cause: BaseException) -> None:
        self.function = function
        self.where = where
        place = str(where)
        super().__init__(f"{function} failed with {describe_error(cause)}" + (f" - at {place}." if place else "."))

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_transform_error, (self.function, self.where, str(self))


def describe_error(error: BaseException) -> str:
    """The name and message of an exception of any library; only its name if the message itself fails."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - __str__ of a user's exception may raise anything
        return type(error).__name__


def _rebuild_transform_error(function: str, where: Where, message: str) -> TransformError:
    error = TransformError.__new__(TransformError, message)
    error.function, error.where = function, where
    return error


class WorkerDied(HeadraceError, RuntimeError):
    """A worker process of a loader or of Ray was killed or exited. The message names the worker, the signal or status, and
    its work.
    """


class JobFailed(HeadraceError, RuntimeError, ValueError):
    """A training or transform job failed. The message is the reason, in one line.

    Also a ValueError, because notebooks catch the SDK's ``UnexpectedStatusException``.
    """


class RequestError(HeadraceError, ValueError):
    """A request answered with an HTTP status other than 200.

    Attributes:
        status: The HTTP status, 400 to 599.
        reason: The message for the client.
        container: The container of a pipeline that raised it, or ``None``.
    """

    def __init__(self, status: int, reason: str, *, container: str | None = None) -> None:
        self.status = status
        self.reason = reason
        self.container = container
        super().__init__(f"{status}: {reason}" + (f" (from {container})" if container else ""))

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_request_error, (self.status, self.reason, self.container)


def _rebuild_request_error(status: int, reason: str, container: str | None) -> RequestError:
    return RequestError(status, reason, container=container)


class MissingExtra(HeadraceError, ImportError):
    """An optional package is not installed. The message has the install command, and what works without the package."""

    def __init__(self, package: str, extra: str, hint: str = "") -> None:
        self.package = package
        self.extra = extra
        self.hint = hint
        install = f'this needs {package}. Install it with: pip install "headrace[{extra}]"'
        super().__init__(f"{install}. {hint}" if hint else install, name=package)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.package, self.extra, self.hint)
