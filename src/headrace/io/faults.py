"""Errors about files and stores: changed while in use, special, refused by the system, failures of obstore and of servers."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterator
from types import TracebackType
from typing import Literal

from headrace import _optional
from headrace.errors import (
    CorruptFile,
    DataError,
    HeadraceError,
    NoFiles,
    Unreachable,
    UnsupportedData,
    Where,
    hide_secrets,
)
from headrace.io.names import whole_set_hint
from headrace.io.urls import lost_slash_hint

__all__ = [
    "OTHER_ANSWER",
    "LostConnection",
    "NoCacheSpace",
    "NoRanges",
    "UnsizedResponse",
    "as_headrace_error",
    "cache_emptied_error",
    "close_quietly",
    "file_changed_error",
    "file_exists_error",
    "file_shrank_error",
    "has_answer",
    "is_refusal",
    "name_in_errors",
    "name_target",
    "refuse_special_file",
]

SPECIAL_FILES = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
DESCRIPTORS = re.compile(r"/proc/\d+(/task/\d+)?/fd|/dev/fd")
"""Folders in which a name is what a process has open."""
ADDRESS = re.compile(r"https?://[^\s\"'()<>]+")
MOST_LINKS = 40
"""Links that the system follows, one after the other."""


class name_in_errors:  # noqa: N801 - used like a function
    """A context that adds the path to system errors: those of calls on open files lack it.

    Args:
        path: The file's name in errors.
    """

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path: str = path

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, OSError) or isinstance(error, HeadraceError) or error.filename is not None:
            return
        if error.errno is not None:
            raise OSError(error.errno, error.strerror, self.path) from error


@contextlib.contextmanager
def name_target(path: str) -> Iterator[None]:
    """A context that makes the temporary file or folder of a path. Errors name the path, because users do not know the temporary one.

    Raises:
        NoFiles: Its folder does not exist.
    """
    try:
        yield
    except OSError as error:
        folder = os.path.dirname(path)
        if isinstance(error, FileNotFoundError) and not os.path.exists(folder):
            hint = lost_slash_hint(path) or "Make it first, as with os.makedirs."
            raise NoFiles(Where(path=folder), expected="a folder", found="nothing of that name", hint=hint) from error
        raise OSError(error.errno, error.strerror, path) from error


def close_quietly(fd: int) -> None:
    """Close a file after its last write. Errors of closing are about writes, and the file is closed anyway."""
    try:
        os.close(fd)
    except OSError as error:
        if error.errno == errno.EBADF:  # a bug in Headrace
            raise


def file_changed_error(
    path: str, *, size: int | None, found: str | int, what: Literal["file", "object", "copy in the cache"]
) -> CorruptFile:
    """The error for a file or object that changed since it was opened.

    Args:
        path: The file or object.
        size: Its size in bytes when it was opened, if known.
        found: What was found, or the size of the other version.
        what: The kind of thing at this path.
    """
    first = "" if size is None else f" ({size} bytes)"
    return CorruptFile(
        Where(path=path),
        expected=f"the same {what} as when it was opened{first}",
        found=f"another version ({found} bytes)" if isinstance(found, int) else found,
        hint=f"The {what} changed while it was in use: open it again.",
    )


def cache_emptied_error(path: str) -> UnsupportedData:
    """The error for a file whose copy in the cache is gone as soon as it is made."""
    return UnsupportedData(
        Where(path=path),
        expected="a cache folder that keeps a copy of this file while it is opened",
        found="one that another process keeps emptying",
        hint="Stop that process, or set HEADRACE_CACHE_DIR to another folder.",
    )


class NoCacheSpace(UnsupportedData):
    """A file has to be copied or inflated into the cache, which has no space for it. The file itself may be intact."""


def file_exists_error(path: str, hint: str = "Pass overwrite=True to replace it.") -> UnsupportedData:
    """The error for a new file whose name is taken."""
    return UnsupportedData(Where(path=path), expected="a new file", found="one that already exists", hint=hint)


def file_shrank_error(name: bytes, opened: bytes, size: int) -> CorruptFile:
    """The error for a mapped file of ``size`` bytes that shrank while it was read.

    Args:
        name: The name to show.
        opened: The file that was mapped: ``name``, or its copy in the cache.
        size: Its size in bytes when it was mapped.
    """
    path, copy = os.fsdecode(name), os.fsdecode(opened)
    try:
        left = os.stat(copy).st_size
    except OSError:
        left = size
    is_copy = os.path.abspath(path) != copy
    what = "its copy in the cache" if is_copy else "the file"
    return CorruptFile(
        Where(path=path),
        expected=f"{size} bytes, as when {what} was opened",
        found=f"{left}: {what} shrank while being read"
        if left < size
        else f"bytes that cannot be read: {what} shrank, or its disk fails",
        hint=f"Delete {copy} and open the file again."
        if is_copy
        else "Open it again once it is whole. To replace a file that may be in use, write another one and rename it.",
    )


SHOWN = 160
STATUS = re.compile(r"status code: (\d{3})([^:<]*)")
REPEATED = re.compile(r"after [1-9]\d* retries")
NO_LENGTH = re.compile(r'Content-Length Header missing|Invalid last modified|CONTENT_RANGE header: "bytes \d+-\d+/\*')
"""``/*`` is a range of an object whose length the server does not know (RFC 9110, 14.4)."""
BAD_RANGE = re.compile(r"Failed to parse value for CONTENT_RANGE|Content-Range header not present")
OTHER_RANGE = re.compile(r"Requested (\d+)\.\.(\d+), got (\d+)\.\.(\d+)")
LOST = re.compile(
    r"Range request not supported|HTTP error: (?:request or response body error|error decoding response body)"
)
"""obstore continues a response by a range, if it can tell the version. Else it says that no ranges are supported, or why the body ended."""
TIMED_OUT = re.compile(r"timed out|Timeout|TimedOut")
NO_CONNECTION = (
    (
        "ConnectionRefused",
        "no server at this address and port (connection refused)",
        "Check the port, and that the server runs.",
    ),
    ("dns error", "no host of this name", "Check the name of the host, and the network of this machine."),
    (
        "InvalidCertificate",
        "a certificate that is not trusted",
        "Add its authority to the certificates of this machine, or copy the file to this machine.",
    ),
    ("HostUnreachable", "no way to this host", "Check the network of this machine."),
    ("NetworkUnreachable", "no network to this host", "Check the network of this machine."),
    ("invalid port number", "a URL with an invalid port", "Correct the URL."),
    ("invalid international domain name", "a URL with an invalid host", "Correct the URL."),
)
"""Marks in obstore's messages, what they say, and what to do."""
LATER = (408, 425, 429)
"""Refusals that may end."""
CODE = re.compile(r"<Code>(\w+)</Code>")
ODD_NAME = re.compile(r'[Pp]ath "([^"]*)"(?: contained|: Encountered)')
"""A name that obstore does not take; a listing fails where it comes to one."""
METADATA = "169.254."
"""Address prefix of cloud metadata services, which are queried if the environment has no credentials."""
ENVIRONMENT = "Credentials come from the environment (AWS_ACCESS_KEY_ID, GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_ACCOUNT_NAME, ...)."
OTHER_ANSWER = "The server does not return the requested bytes. Copy the file to this machine."
EXPIRED = "Set the credentials of the store in the environment; they may have expired."


class NoRanges(Exception):
    """The server supports no byte ranges, or the object is empty.

    Args:
        url: The object.
        is_whole: Whether the response holds the whole object, in place of a refusal (416).
    """

    def __init__(self, url: str, *, is_whole: bool) -> None:
        super().__init__(url)
        self.is_whole: bool = is_whole


class UnsizedResponse(Unreachable):
    """The response of an HTTP server does not say how long the object is, or its time is none. obstore does not take it."""


class LostConnection(Unreachable):
    """The connection was lost before all of the object came, and the server cannot continue."""


def has_answer(error: Exception) -> bool:
    """Whether an error of obstore is what a server answered."""
    return STATUS.search(str(error)) is not None


def is_refusal(error: Unreachable) -> bool:
    """Whether a server refused to give an object, so that asking again is no use. S3 answers 403 for missing keys if listing is not allowed."""
    cause = error.__cause__
    if not isinstance(cause, Exception):
        return False
    kinds = _optional.require("obstore", extra="cloud").exceptions
    status, *_ = _parse_answer(cause)
    is_denied = isinstance(cause, (kinds.PermissionDeniedError, kinds.UnauthenticatedError))
    return is_denied or (400 <= status < 500 and status not in LATER)


def as_headrace_error(error: Exception, url: str, *, act: str = "read") -> Exception:
    """Convert an error of obstore to one of Headrace.

    Args:
        error: The error. Headrace's own are returned unchanged. Others lose the password and the query of the URL, because a traceback shows
            the error from which ours is raised.
        url: The object.
        act: What failed: ``"read"`` or ``"write"``.
    """
    if isinstance(error, DataError):
        return error
    ours = _convert(error, url, act)
    if hide_secrets(url) != url:  # All else stays: what a server answered is read from the text again.
        error.args = (ADDRESS.sub(lambda found: hide_secrets(found[0]), str(error)),)
    return ours


def _convert(error: Exception, url: str, act: str) -> Exception:
    kinds = _optional.require("obstore", extra="cloud").exceptions
    text = str(error)
    status, code, reason = _parse_answer(error)
    where = Where(path=url)
    if status == 404 or (not status and isinstance(error, FileNotFoundError)):
        return _missing_error(error, url, code)
    if (isinstance(error, kinds.NotSupportedError) and "ange" in text) or status == 416:
        return NoRanges(url, is_whole=status != 416)
    if METADATA in text:
        hint = f"{ENVIRONMENT} For public data, AWS_SKIP_SIGNATURE, GOOGLE_SKIP_SIGNATURE or AZURE_SKIP_SIGNATURE is 'true'."
        expected = "credentials in the environment, or a role of this machine"
        return Unreachable(where, expected=expected, found="neither", hint=hint)
    if isinstance(error, kinds.PermissionDeniedError) or status == 403:
        found = f"a refusal (403{', ' + code if code else ''})"
        return Unreachable(where, expected=f"permission to {act} this", found=found, hint=ENVIRONMENT)
    if isinstance(error, kinds.UnauthenticatedError) or status == 401:
        return Unreachable(where, expected="credentials that the server accepts", found="a refusal (401)", hint=EXPIRED)
    if isinstance(error, kinds.UnknownConfigurationKeyError):
        return UnsupportedData(where, expected="a URL that names a store", found=reason)
    odd = ODD_NAME.search(text)
    if odd is not None:
        elsewhere = " Or remove it, or pass a list of the URLs to read." if "Encountered object" in text else ""
        hint = f"Rename that object.{elsewhere}"
        return UnsupportedData(
            where, expected="keys without empty parts, '.', '..' and control characters", found=repr(odd[1]), hint=hint
        )
    return _answer_error(text, where, status, reason, act)


def _answer_error(text: str, where: Where, status: int, reason: str, act: str) -> Unreachable:
    """The error for a response that is none of an object, or not all of it."""
    if LOST.search(text) and not TIMED_OUT.search(text):
        hint = "Try again later, or copy the file to this machine."
        return LostConnection(where, expected="the whole response", found="a connection that was lost", hint=hint)
    other = OTHER_RANGE.search(text)
    if other is not None:
        expected, found = f"bytes {other[1]} to {other[2]}", f"a response with bytes {other[3]} to {other[4]}"
        return Unreachable(where, expected=expected, found=found, hint=OTHER_ANSWER)
    expected = "a response with the object" if act == "read" else "the object to be stored"
    kind = UnsizedResponse if NO_LENGTH.search(text) else Unreachable
    return kind(where, expected=expected, found=reason, hint=_hint(text, status))


def _missing_error(error: Exception, url: str, code: str) -> NoFiles:
    where, found = Where(path=url), "none (the server returned 404)"
    if code in ("NoSuchBucket", "ContainerNotFound"):
        return NoFiles(where, expected="a bucket of this name", found=f"none (the server returned 404, {code})")
    if isinstance(error, FileNotFoundError):
        return NoFiles(where, expected="an object at this URL", found=found, hint=whole_set_hint(url))
    return NoFiles(where, expected="an object or a bucket of this name", found=found)


def _parse_answer(error: Exception) -> tuple[int, str, str]:
    """The status and the error code in the server's response, if any, and a short summary.

    obstore's messages are long and begin with what matters. The server's XML follows.
    """
    text = str(error)
    code = CODE.search(text)
    found = STATUS.search(text)
    if found is not None:
        words = f"{found[1]}{found[2].rstrip()}" + (f" ({code[1]})" if code else "")
        return int(found[1]), code[1] if code else "", f"the response {words}"
    first = text.partition("\n")[0]
    first = first.partition(" - ")[2] or first
    cause = next((words for mark, words, _ in NO_CONNECTION if mark in text), None)
    return 0, code[1] if code else "", cause or first[:SHOWN].rstrip(": ") or type(error).__name__


def _hint(text: str, status: int) -> str:
    cause = next((hint for mark, _, hint in NO_CONNECTION if mark in text), None)
    if cause is not None:
        return cause
    if "must be specified" in text:  # what a store needs besides its name
        return ENVIRONMENT
    if TIMED_OUT.search(text):
        return "HEADRACE_TIMEOUT sets how many seconds a request may take."
    if "configured region" in text:
        return "Set AWS_REGION to the region of the bucket."
    if BAD_RANGE.search(text) or NO_LENGTH.search(text):
        return "Its server does not follow HTTP. Copy the file to this machine."
    if 300 <= status < 500 and status not in LATER:
        return "Look at the URL in a browser, or copy the file to this machine."
    asked = "The request was repeated several times. " if REPEATED.search(text) else ""
    return f"{asked}Try again later, or copy the file to this machine."


def refuse_special_file(path: str) -> None:
    """Refuse to write where no file can get the name: it would replace a pipe or a device, and its readers would wait for ever.

    Raises:
        UnsupportedData: A FIFO, a socket or a device is there, or the name stands for what a process has open, as ``/dev/stdout`` does.
    """
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return  # there is nothing yet, or nothing that can be written to
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        if not os.path.islink(path) or not _is_descriptor(path):
            return
        found = "a name of what a process has open"
    else:
        found = next((name for is_one, name in SPECIAL_FILES if is_one(mode)), "another kind of file")
    raise UnsupportedData(
        Where(path=path),
        expected="a file or a new name, because a file is written under another name and renamed when it is complete",
        found=found,
        hint="Write to a file, and copy that there.",
    )


def _is_descriptor(path: str) -> bool:
    """Whether a link, or one that it leads to, is the descriptor of a process."""
    for _ in range(MOST_LINKS):
        folder = os.path.realpath(os.path.dirname(path) or ".")
        if DESCRIPTORS.fullmatch(folder):
            return True
        if not os.path.islink(path):
            return False
        path = os.path.join(folder, os.readlink(path))
    return False
