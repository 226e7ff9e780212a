"""A local web server with the features and faults of real ones."""

from __future__ import annotations

import gzip
import hashlib
import io
import struct
import tarfile
import threading
import zipfile
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

import numpy as np
from tests.local_server import LocalServer

from headrace.datasets.downloading import Patience, Resource

IMPATIENT = Patience(timeout_s=20, attempts=3, backoff_s=0)


@dataclass
class Page:
    """How the server answers for one path.

    Args:
        body: The file.
        statuses: Statuses of the first answers, before it sends the file.
        cut_at: For each answer in turn, after how many bytes the connection ends; ``None`` for complete.
        ranges: Whether it supports ranges.
        etag: Of the file; ``None`` for none.
        length: The Content-Length it sends; ``""`` for the true one, ``None`` for none.
        drip: Whether it sends one byte and then stalls.
        more: Bytes sent after the file.
        encoding, location, content_range: Headers.
        chunks: Bytes per chunk, for answers without a length.
        after: Called with the page after as many answers as ``cut_at`` has entries.
    """

    body: bytes
    statuses: list = field(default_factory=list)
    cut_at: list = field(default_factory=list)
    ranges: bool = True
    etag: str | None = '"one"'
    length: str | None = ""
    drip: bool = False
    more: bytes = b""
    encoding: str = ""
    location: str = ""
    content_range: str = ""
    chunks: int = 0
    after: object = None


class Web:
    """``web.pages["/a"] = Page(b"...")``; ``web.asked`` lists requests with their ranges."""

    def __init__(self):
        self.pages = {}
        self.asked = []
        self.stop = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.asked.append((self.path, self.headers.get("Range"), self.headers.get("If-Range")))
                answer(self, outer.pages.get(self.path), outer.stop)

            def log_message(self, *_):
                pass

        self.server = LocalServer(Handler)
        self.url = self.server.url

    def close(self):
        self.stop.set()
        self.server.close()

    def resource(self, path, body=None, **reported):
        """The resource for a page, with the checksum of its body (or of another)."""
        body = self.pages[path].body if body is None else body
        reported = {"size": len(body), "sha256": hashlib.sha256(body).hexdigest(), **reported}
        return Resource(urls=(self.url + path,), **reported)


def answer(handler, page, stop):
    if page is None:
        handler.send_error(404)
        return
    if page.statuses:
        status = page.statuses.pop(0)
        handler.send_response(status)
        if status in (301, 302):
            handler.send_header("Location", page.location)
        if status in (429, 503):
            handler.send_header("Retry-After", "0")
        handler.send_header("Content-Length", "0")
        handler.end_headers()
        return
    start = begin(handler, page)
    if start is None:
        return
    body = page.body[start:] + page.more
    cut = page.cut_at.pop(0) if page.cut_at else None
    if page.drip:
        handler.wfile.write(body[:1])
        handler.wfile.flush()
        stop.wait(30)
        return
    if page.chunks:
        parts = [body[at : at + page.chunks] for at in range(0, len(body), page.chunks)]
        body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
    handler.wfile.write(body if cut is None else body[:cut])
    if page.after is not None and not page.cut_at:
        page.after(page)


def begin(handler, page):
    """Status and headers; where the body starts."""
    wanted, known = handler.headers.get("Range"), handler.headers.get("If-Range")
    start = int(wanted[6:-1]) if wanted and page.ranges and known in (None, page.etag) else 0
    if start >= len(page.body) > 0:
        handler.send_response(416)
        handler.send_header("Content-Range", f"bytes */{len(page.body)}")
        handler.send_header("Content-Length", "0")
        handler.end_headers()
        return None
    if page.chunks:
        handler.protocol_version = "HTTP/1.1"  # HTTP/1.0 has no chunks
    handler.send_response(206 if start else 200)
    if start:
        placed = page.content_range or f"bytes {start}-{len(page.body) - 1}/{len(page.body)}"
        handler.send_header("Content-Range", placed)
    if page.etag:
        handler.send_header("ETag", page.etag)
    if page.encoding:
        handler.send_header("Content-Encoding", page.encoding)
    if page.chunks:
        handler.send_header("Transfer-Encoding", "chunked")
        handler.send_header("Connection", "close")
    elif page.length is not None:
        handler.send_header("Content-Length", page.length or str(len(page.body) - start))
    handler.end_headers()
    return start


def idx(array):
    """A gzipped idx file, as the authors of MNIST publish them."""
    head = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape)
    return gzip.compress(head + array.astype(np.uint8).tobytes(), mtime=0)


def tar_gz(files):
    """A ``.tar.gz`` of files by name; a ``TarInfo`` instead of content is added unchanged."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in files.items():
            if isinstance(content, tarfile.TarInfo):
                archive.addfile(content)
                continue
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def zipped(files):
    """A ``.zip`` of files by name."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()
