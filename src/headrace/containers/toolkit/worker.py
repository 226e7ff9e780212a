"""The response class of the toolkits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from . import content_types

__all__ = ["Response"]


class Headers(dict[str, str]):
    """Headers with case-insensitive names."""

    def __init__(self, given: Any = None) -> None:
        super().__init__()
        if given is None:
            return
        pairs = given.items() if isinstance(given, Mapping) or hasattr(given, "items") else given or ()
        for name, value in pairs:
            self[name] = value

    def __setitem__(self, name: str, value: Any) -> None:
        for known in list(self):
            if known.lower() == name.lower():
                super().__delitem__(known)
        super().__setitem__(name, str(value))

    def __getitem__(self, name: str) -> str:
        for known, value in self.items():
            if known.lower() == name.lower():
                return value
        raise KeyError(name)

    def get(self, name: str, default: Any = None) -> Any:
        try:
            return self[name]
        except KeyError:
            return default


class Response:
    """A response with the arguments and attributes of Flask's that scripts use.

    Both ways in which scripts call it work: ``Response(body, accept, mimetype=accept)``, of 2018, and
    ``Response(body, mimetype=accept)``.

    Args:
        response: Text, bytes, or an iterable of those.
        accept: Has no meaning.
        status: A number, or a text such as ``"404 NOT FOUND"``.
        headers: Pairs or a mapping.
        mimetype: Content type without parameters; texts get ``; charset=utf-8`` as with Flask. ``application/json`` by default.
        direct_passthrough: Has no meaning.
    """

    default_mimetype = content_types.JSON
    default_status = 200

    def __init__(
        self,
        response: Any = None,
        accept: str | None = None,
        status: Any = None,
        headers: Any = None,
        mimetype: str | None = None,
        direct_passthrough: bool = False,
    ) -> None:
        _ = accept
        self.headers: Headers = Headers(headers)
        self.direct_passthrough = direct_passthrough
        self.status_code: int = _status_code(self.default_status if status is None else status)
        if mimetype is not None or "Content-Type" not in {name.title() for name in self.headers}:
            self.headers["Content-Type"] = _with_charset(mimetype or self.default_mimetype)
        self._data = _join(response)

    @property
    def status(self) -> str:
        """Number and phrase, as in ``"200 OK"``."""
        return f"{self.status_code} {HTTPStatus(self.status_code).phrase.upper()}"

    @property
    def content_type(self) -> str:
        """The content type with parameters."""
        return self.headers["Content-Type"]

    @content_type.setter
    def content_type(self, value: str) -> None:
        self.headers["Content-Type"] = value

    @property
    def mimetype(self) -> str:
        """The content type without parameters."""
        return self.content_type.partition(";")[0].strip().lower()

    @mimetype.setter
    def mimetype(self, value: str) -> None:
        self.headers["Content-Type"] = _with_charset(value)

    @property
    def data(self) -> bytes:
        """The body."""
        return self._data

    @data.setter
    def data(self, value: Any) -> None:
        self._data = _join(value)

    @property
    def response(self) -> list[bytes]:
        """The body in parts."""
        return [self._data]

    @response.setter
    def response(self, value: Any) -> None:
        self._data = _join(value)

    def get_data(self, as_text: bool = False) -> Any:
        """The body."""
        return self._data.decode() if as_text else self._data

    def set_data(self, value: Any) -> None:
        """Replace the body."""
        self._data = _join(value)


def _status_code(status: Any) -> int:
    return int(status.partition(" ")[0]) if isinstance(status, str) else int(status)


def _with_charset(mimetype: str) -> str:
    text = mimetype.lower()
    takes = text.startswith("text/") or text.endswith("+xml") or text in ("application/xml", "application/javascript")
    return f"{mimetype}; charset=utf-8" if takes and "charset" not in text else mimetype


def _join(response: Any) -> bytes:
    if response is None:
        return b""
    if isinstance(response, str):
        return response.encode()
    if isinstance(response, (bytes, bytearray, memoryview)):
        return bytes(response)
    if isinstance(response, Iterable):
        return b"".join(_join(part) for part in response)
    raise TypeError(f"a response has to be text or bytes, not {type(response).__name__}")


def __getattr__(name: str) -> Any:
    if name in ("Worker", "Request", "default_healthcheck_fn"):
        raise AttributeError(f"worker.{name} belongs to a Flask server, which Headrace runs for you in its own way")
    raise AttributeError(name)
