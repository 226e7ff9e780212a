"""The response class of Flask and Werkzeug, for scripts that use it when neither is installed."""

from __future__ import annotations

from typing import Any

from . import worker

__all__ = ["Response"]


class Response(worker.Response):
    """:class:`worker.Response` with the order of arguments, and the default content type, of ``flask.Response``.

    Args:
        response: Text, bytes, or an iterable of those.
        status: A number, or a text such as ``"404 NOT FOUND"``.
        headers: Pairs or a mapping.
        mimetype: Content type without parameters; texts get ``; charset=utf-8``.
        content_type: The whole content type; overrides ``mimetype``.
        direct_passthrough: Has no meaning.
    """

    default_mimetype = "text/html"

    def __init__(
        self,
        response: Any = None,
        status: Any = None,
        headers: Any = None,
        mimetype: str | None = None,
        content_type: str | None = None,
        direct_passthrough: bool = False,
    ) -> None:
        super().__init__(
            response, status=status, headers=headers, mimetype=mimetype, direct_passthrough=direct_passthrough
        )
        if content_type is not None:
            self.content_type = content_type


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise AttributeError(f"Flask and Werkzeug are not installed, and of theirs Headrace has only Response, not {name}")
