"""A small object store for tests with the protocols of S3, Google Cloud Storage and Azure Blob Storage: listings in pages, ranges,
multipart uploads, faults on demand. It records requests. S3 and the XML interface of GCS are alike.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import threading
from collections.abc import Callable
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

__all__ = ["KINDS", "StoreServer", "environment", "serving_store"]

KINDS = ("s3", "gs", "az")
DATE = "Sat, 21 Nov 2026 10:00:00 GMT"


class StoreServer:
    """Buckets of objects.

    Attributes:
        url: Its address.
        objects: Key to content, of the only bucket, ``bucket``.
        uploads: Unfinished multipart uploads, by number.
        asked: ``(method, path and query)`` of every request so far.
        page: The most keys per listing.
        fault: Called with the handler before a response; true if it responded itself.
    """

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.uploads: dict[str, dict[str, bytes]] = {}
        self.asked: list[tuple[str, str]] = []
        self.numbers = itertools.count(1)  # of uploads; several begin at once
        self.page = 1000
        self.fault: Callable[[Handler], bool] | None = None
        self.lock = threading.Lock()
        handler = type("Bound", (Handler,), {"store": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    @contextmanager
    def counting(self):
        """The requests made in the block, as a list that is filled at its end."""
        found: list[tuple[str, str]] = []
        before = len(self.asked)
        yield found
        found += self.asked[before:]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Handler(BaseHTTPRequestHandler):
    """One request."""

    store: StoreServer
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet

    def log_message(self, *_args: object) -> None:
        pass

    def do_GET(self) -> None:
        self.answer()

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET

    def answer(self) -> None:
        parts = urlsplit(self.path)
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        _, self.bucket, *key = unquote(parts.path).split("/", 2)
        self.key = key[0] if key else ""
        with self.store.lock:
            self.store.asked.append((self.command, unquote(self.path)))
        if self.store.fault is not None and self.store.fault(self):
            return
        with self.store.lock:
            if self.bucket != "bucket":
                self.refuse(404, "ContainerNotFound" if "restype" in self.query else "NoSuchBucket")
            elif "list-type" in self.query or self.query.get("comp") == "list":
                self.list()
            else:
                getattr(self, self.command.lower())()

    def give(self, status: int, content: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", headers.pop("Content_Length", str(len(content))))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def refuse(self, status: int, code: str) -> None:
        self.give(status, f"<?xml version='1.0'?>\n<Error><Code>{code}</Code></Error>".encode())

    def get(self) -> None:
        content = self.store.objects.get(self.key)
        if content is None:
            self.refuse(404, "NoSuchKey")
            return
        known = {"ETag": etag_of(content), "Last_Modified": DATE}
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or self.headers.get("x-ms-range") or "")
        if self.headers.get("If-Match") not in (None, known["ETag"]):
            self.refuse(412, "PreconditionFailed")
        elif wanted is None:
            self.give(200, content, **known)
        elif int(wanted[1]) >= len(content):
            self.refuse(416, "InvalidRange")
        else:
            start, stop = int(wanted[1]), min(len(content), int(wanted[2] or len(content)) + 1)
            place = f"bytes {start}-{stop - 1}/{len(content)}"
            self.give(206, content[start:stop], Content_Range=place, **known)

    head = get

    def copy(self, source: str) -> None:
        """Copy an object: the source is ``/bucket/key`` (S3, GCS) or a URL (Azure)."""
        key = unquote(urlsplit(source).path).lstrip("/").partition("/")[2]
        content = self.store.objects.get(key)
        if content is None:
            self.refuse(404, "BlobNotFound" if "x-ms-version" in self.headers else "NoSuchKey")
            return
        self.store.objects[self.key] = content
        if "x-ms-version" in self.headers:
            self.give(202, ETag=etag_of(content), Last_Modified=DATE, x_ms_copy_status="success")
            return
        found = f"<ETag>{escape(etag_of(content))}</ETag><LastModified>2026-11-21T10:00:00.000Z</LastModified>"
        self.xml(f"<CopyObjectResult>{found}</CopyObjectResult>")

    def put(self) -> None:
        for name in ("x-amz-copy-source", "x-goog-copy-source", "x-ms-copy-source"):
            if name in self.headers:
                self.copy(self.headers[name])
                return
        if "partNumber" in self.query:
            self.store.uploads[self.query["uploadId"]][self.query["partNumber"].zfill(6)] = self.body
        elif self.query.get("comp") == "block":
            self.store.uploads.setdefault(self.key, {})[self.query["blockid"]] = self.body
        elif self.query.get("comp") == "blocklist":
            blocks = self.store.uploads.pop(self.key)
            names = re.findall(rb"<(?:Uncommitted|Latest)>([^<]+)<", self.body)
            self.store.objects[self.key] = b"".join(blocks[name.decode()] for name in names)
        else:
            self.store.objects[self.key] = self.body
        self.give(201 if "x-ms-version" in self.headers else 200, ETag=etag_of(self.body), Last_Modified=DATE)

    def delete_batch(self) -> None:
        """Azure's way to delete: requests within a request."""
        parts = []
        for number, path in enumerate(re.findall(rb"DELETE (\S+) HTTP", self.body)):
            key = unquote(urlsplit(path.decode()).path).lstrip("/").partition("/")[2]
            status = "404 BlobNotFound" if self.store.objects.pop(key, None) is None else "202 Accepted"
            head = f"Content-Type: application/http\r\nContent-ID: {number}\r\n\r\n"
            parts.append(f"--batch\r\n{head}HTTP/1.1 {status}\r\nx-ms-request-id: 1\r\n\r\n")
        self.give(202, "".join([*parts, "--batch--\r\n"]).encode(), Content_Type="multipart/mixed; boundary=batch")

    def post(self) -> None:
        if self.query.get("comp") == "batch":
            self.delete_batch()
        elif "uploads" in self.query:
            number = str(next(self.store.numbers))
            self.store.uploads[number] = {}
            self.xml(f"<InitiateMultipartUploadResult><UploadId>{number}</UploadId></InitiateMultipartUploadResult>")
        elif "delete" in self.query:
            keys = [key.decode() for key in re.findall(rb"<Key>([^<]*)</Key>", self.body)]
            for key in keys:
                self.store.objects.pop(key, None)
            self.xml(
                "<DeleteResult>" + "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys) + "</DeleteResult>"
            )
        else:
            parts = self.store.uploads.pop(self.query["uploadId"])
            content = self.store.objects[self.key] = b"".join(parts[number] for number in sorted(parts))
            found = f"<CompleteMultipartUploadResult><Key>{escape(self.key)}</Key><ETag>{etag_of(content)}</ETag>"
            self.xml(found + "</CompleteMultipartUploadResult>")

    def delete(self) -> None:
        if "uploadId" in self.query:
            self.store.uploads.pop(self.query["uploadId"], None)
            self.give(204)
        elif self.store.objects.pop(self.key, None) is None and "x-ms-version" in self.headers:
            self.refuse(404, "BlobNotFound")
        else:
            self.give(202 if "x-ms-version" in self.headers else 204)

    def xml(self, text: str) -> None:
        self.give(200, f"<?xml version='1.0' encoding='UTF-8'?>\n{text}".encode(), Content_Type="application/xml")

    def list(self) -> None:
        """A page of keys and, with a delimiter, of their prefixes."""
        prefix, delimiter = self.query.get("prefix", ""), self.query.get("delimiter")
        after = self.query.get("continuation-token") or self.query.get("marker") or self.query.get("start-after") or ""
        names: dict[str, bytes | None] = {}
        for key, content in sorted(self.store.objects.items()):
            if key.startswith(prefix):
                head, cut, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
                names[prefix + head + cut if cut else key] = None if cut else content
        page = [name for name in names if name > after][: self.store.page]
        following = page[-1] if page and page[-1] != list(names)[-1] else ""
        (self.list_azure if "comp" in self.query else self.list_s3)({name: names[name] for name in page}, following)

    def list_s3(self, page: dict[str, bytes | None], following: str) -> None:
        text = "".join(
            f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>"
            if content is None
            else f"<Contents><Key>{escape(name)}</Key><LastModified>2026-11-21T10:00:00.000Z</LastModified>"
            f"<ETag>{escape(etag_of(content))}</ETag><Size>{len(content)}</Size></Contents>"
            for name, content in page.items()
        )
        more = f"<NextContinuationToken>{escape(following)}</NextContinuationToken>" if following else ""
        self.xml(
            f"<ListBucketResult><IsTruncated>{str(bool(following)).lower()}</IsTruncated>{text}{more}</ListBucketResult>"
        )

    def list_azure(self, page: dict[str, bytes | None], following: str) -> None:
        text = "".join(
            f"<BlobPrefix><Name>{escape(name)}</Name></BlobPrefix>"
            if content is None
            else f"<Blob><Name>{escape(name)}</Name><Properties><Last-Modified>{DATE}</Last-Modified>"
            f"<Etag>{escape(etag_of(content))}</Etag><Content-Length>{len(content)}</Content-Length>"
            "<Content-Type>application/octet-stream</Content-Type></Properties></Blob>"
            for name, content in page.items()
        )
        self.xml(
            f"<EnumerationResults><Blobs>{text}</Blobs><NextMarker>{escape(following)}</NextMarker></EnumerationResults>"
        )


def etag_of(content: bytes) -> str:
    return f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'


def environment(kind: str, url: str) -> dict[str, str]:
    """The environment variables for anonymous access to a store of a kind at ``url``."""
    account = {"gcs_base_url": url, "disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""}
    return {
        "s3": {"AWS_ENDPOINT_URL": url, "AWS_SKIP_SIGNATURE": "true", "AWS_REGION": "us-east-1"},
        "gs": {"GOOGLE_BASE_URL": url, "GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(account)},
        "az": {
            "AZURE_STORAGE_ENDPOINT": url,
            "AZURE_STORAGE_ACCOUNT_NAME": "account",
            "AZURE_SKIP_SIGNATURE": "true",
        },
    }[kind]


@contextmanager
def serving_store():
    store = StoreServer()
    try:
        yield store
    finally:
        store.close()
