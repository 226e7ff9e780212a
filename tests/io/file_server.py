"""A small HTTP file server for tests: ranges, ETags, faults on demand. It records requests."""

from __future__ import annotations

import re
import ssl
import threading
from collections.abc import Callable
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tests.local_server import LocalServer

__all__ = ["FileServer", "serving"]


CERTIFICATE = Path(__file__).with_name("localhost.pem")
"""Signed by itself, for tests only: ``openssl req -x509 -newkey ec -nodes -days 36500 -addext subjectAltName=IP:127.0.0.1``."""


class FileServer:
    """The files of a folder.

    Args:
        root: The folder.
        https: Whether to serve them over TLS, with a certificate that no client trusts by itself.

    Attributes:
        url: Of the folder.
        asked: ``(method, path, range)`` of every request so far.
        has_ranges, etags: What the server supports.
        weak: Whether its ETags are weak.
        modified: Its Last-Modified; ``None`` for no header.
        fault: Called with the handler before a response; true if it responded itself.
    """

    def __init__(self, root: Path, *, https: bool = False) -> None:
        self.root = root
        self.asked: list[tuple[str, str, str | None]] = []
        self.has_ranges = True
        self.etags = True
        self.weak = False
        self.modified: str | None = "Sat, 21 Nov 2026 10:00:00 GMT"
        self.fault: Callable[[_Handler], bool] | None = None
        self._lock = threading.Lock()
        server = self
        handler = type("Handler", (_Handler,), {"files": server})
        self._server = LocalServer(handler)
        self.url = self._server.url
        if https:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(CERTIFICATE)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            self.url = self.url.replace("http://", "https://")

    def note(self, method: str, path: str, asked_range: str | None) -> None:
        with self._lock:
            self.asked.append((method, path, asked_range))

    @contextmanager
    def counting(self):
        """The requests made in the block, as a list that is filled at its end."""
        found: list[tuple[str, str, str | None]] = []
        before = len(self.asked)
        yield found
        found += self.asked[before:]

    def close(self) -> None:
        self._server.close()


class _Handler(BaseHTTPRequestHandler):
    files: FileServer
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet

    def log_message(self, *_args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        files = self.files
        files.note(self.command, unquote(self.path), self.headers.get("Range"))
        if files.fault is not None and files.fault(self):
            return
        path = files.root / unquote(urlsplit(self.path).path).lstrip("/")
        if not path.is_file():
            self.give(404)
            return
        content = path.read_bytes()
        etag = f'"{path.stat().st_mtime_ns:x}-{len(content):x}"' if files.etags else None
        if files.weak:
            etag = 'W/"always"'
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "") if files.has_ranges else None
        if wanted is None:
            self.give(200, content, etag)
            return
        start, stop = int(wanted[1]), min(len(content), int(wanted[2] or len(content)) + 1)
        if start >= len(content):
            self.give(416)
            return
        self.give(206, content[start:stop], etag, f"bytes {start}-{stop - 1}/{len(content)}")

    def give(
        self, status: int, content: bytes = b"", etag: str | None = None, content_range: str | None = None
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        if self.files.modified is not None:
            self.send_header("Last-Modified", self.files.modified)
        if etag:
            self.send_header("ETag", etag)
        if content_range:
            self.send_header("Content-Range", content_range)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


@contextmanager
def serving(root: Path, *, https: bool = False):
    server = FileServer(root, https=https)
    try:
        yield server
    finally:
        server.close()
