"""What obstore and the servers behind it say of a failure, in our words."""

from __future__ import annotations

import re

from headrace import _optional
from headrace.errors import DataError, NoFiles, Unreachable, UnsupportedData, Where
from headrace.io.names import whole_set_hint

__all__ = ["NoRanges", "worded"]

SHOWN = 160
STATUS = re.compile(r"status code: (\d{3})([^:<]*)")
CODE = re.compile(r"<Code>(\w+)</Code>")
METADATA = "169.254."
"""Where clouds tell machines their roles: asked when the environment has no credentials."""
ENVIRONMENT = "Credentials come from the environment (AWS_ACCESS_KEY_ID, GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_ACCOUNT_NAME, ...)."
EXPIRED = "Set the credentials of the store in the environment; they may have run out."


class NoRanges(Exception):
    """The server gives whole objects only, or the object is empty, so that there is no range of it."""


def worded(error: Exception, url: str, *, act: str = "read") -> Exception:
    """An error of obstore as one of ours.

    Args:
        error: What was raised. Errors of ours stay as they are.
        url: Of what was asked for.
        act: What was tried: ``"read"`` or ``"write"``.
    """
    if isinstance(error, DataError):
        return error
    kinds = _optional.require("obstore", extra="cloud").exceptions
    text = str(error)
    status, code, reason = _said(error)
    where = Where(path=url)
    if status == 404 and code in ("NoSuchBucket", "ContainerNotFound"):
        return NoFiles(where, expected="a bucket of this name", found=f"none (the server says 404, {code})")
    if isinstance(error, FileNotFoundError):
        hint = whole_set_hint(url)
        return NoFiles(where, expected="an object at this URL", found="none (the server says 404)", hint=hint)
    if status == 404:
        return NoFiles(where, expected="an object or a bucket of this name", found="none (the server says 404)")
    if (isinstance(error, kinds.NotSupportedError) and "ange" in text) or status == 416:
        return NoRanges(url)
    if METADATA in text:
        hint = f"{ENVIRONMENT} For public data, AWS_SKIP_SIGNATURE, GOOGLE_SKIP_SIGNATURE or AZURE_SKIP_SIGNATURE is 'true'."
        expected = "credentials in the environment, or a role of this machine"
        return Unreachable(where, expected=expected, found="neither", hint=hint)
    if isinstance(error, kinds.PermissionDeniedError) or status == 403:
        found = f"a refusal (403{', ' + code if code else ''})"
        return Unreachable(where, expected=f"permission to {act} this", found=found, hint=ENVIRONMENT)
    if isinstance(error, kinds.UnauthenticatedError) or status == 401:
        return Unreachable(where, expected="to be known to the server", found="a refusal (401)", hint=EXPIRED)
    if isinstance(error, kinds.UnknownConfigurationKeyError):
        return UnsupportedData(where, expected="a URL with a store in it", found=reason)
    expected = "an answer with the object" if act == "read" else "the object to be stored"
    return Unreachable(where, expected=expected, found=reason, hint=_hint(text))


def _said(error: Exception) -> tuple[int, str, str]:
    """The status and the code in the answer of the server, as far as there are any; and all in a few words.

    What obstore says is long, and begins with what matters; what a server says stands behind that, as XML.
    """
    text = str(error)
    code = CODE.search(text)
    found = STATUS.search(text)
    if found is not None:
        words = f"{found[1]}{found[2].rstrip()}" + (f" ({code[1]})" if code else "")
        return int(found[1]), code[1] if code else "", f"the answer {words}"
    first = text.partition("\n")[0]
    first = first.partition(" - ")[2] or first
    return 0, code[1] if code else "", first[:SHOWN].rstrip(": ") or type(error).__name__


def _hint(text: str) -> str:
    if "must be specified" in text:  # what a store needs besides its name
        return ENVIRONMENT
    if "timed out" in text or "Timeout" in text or "TimedOut" in text:
        return "HEADRACE_TIMEOUT sets how many seconds a request may take."
    asked = "It was asked several times. " if " retries" in text else ""
    return f"{asked}Try again later, or copy the file to this machine."
