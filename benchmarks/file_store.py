"""A file store for benchmarks: an HTTP server of a folder, in a separate process, that waits before every response.

It also supports reading by S3, with the folder as the bucket ``store``, and lists keys in pages of 1,000.

python -m benchmarks.file_store FOLDER PORT DELAY_MS
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from urllib.parse import parse_qs, unquote

__all__ = ["BUCKET", "FileStore", "store_of"]

BUCKET = "store"
PAGE = 1000


class FileStore:
    """Answers GET and HEAD, with ranges, over connections that stay open.

    Args:
        folder: What is served.
        delay_s: Seconds to wait before every response.
    """

    def __init__(self, folder: Path, delay_s: float) -> None:
        self.folder = folder
        self.delay_s = delay_s

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin1")
                await asyncio.sleep(self.delay_s)
                writer.writelines(self._answer(head))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _answer(self, head: str) -> tuple[bytes, bytes]:
        method, target, _ = head.split(" ", 2)
        place, _, query = target.partition("?")
        if "list-type=2" in query:
            return self._listed({name: values[0] for name, values in parse_qs(query).items()})
        path = self.folder / unquote(place).removeprefix(f"/{BUCKET}/").lstrip("/")
        if not path.is_file():
            return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", b""
        status = path.stat()
        start, stop, code, extra = 0, status.st_size, "200 OK", ""
        wanted = re.search(r"(?i)\r\nrange: bytes=(\d+)-(\d*)", head)
        if wanted:
            start, stop = int(wanted[1]), min(stop, int(wanted[2] or stop) + 1)
            if start >= status.st_size:
                return b"HTTP/1.1 416 Range Not Satisfiable\r\nContent-Length: 0\r\n\r\n", b""
            code, extra = "206 Partial Content", f"Content-Range: bytes {start}-{stop - 1}/{status.st_size}\r\n"
        lines = (
            f'HTTP/1.1 {code}\r\nContent-Length: {stop - start}\r\nETag: "{status.st_mtime_ns:x}"\r\n'
            f"Last-Modified: {formatdate(status.st_mtime, usegmt=True)}\r\n{extra}\r\n"
        )
        with path.open("rb") as file:
            file.seek(start)
            return lines.encode(), b"" if method == "HEAD" else file.read(stop - start)

    def _listed(self, query: dict[str, str]) -> tuple[bytes, bytes]:
        """A page of keys, however deep."""
        prefix, after = query.get("prefix", ""), query.get("continuation-token", "")
        found = (Path(place) / name for place, _, names in os.walk(self.folder / prefix) for name in names)
        keys = sorted(key for path in found if (key := path.relative_to(self.folder).as_posix()) > after)
        page, more = keys[:PAGE], len(keys) > PAGE
        rows = "".join(
            f"<Contents><Key>{key}</Key><Size>{(self.folder / key).stat().st_size}</Size>"
            "<LastModified>2026-11-21T10:00:00.000Z</LastModified></Contents>"
            for key in page
        )
        rows += f"<NextContinuationToken>{page[-1]}</NextContinuationToken>" if more else ""
        body = f"<ListBucketResult><IsTruncated>{str(more).lower()}</IsTruncated>{rows}</ListBucketResult>".encode()
        return f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode(), body


@contextmanager
def store_of(folder: Path, delay_ms: float) -> Iterator[str]:
    """The URL of a folder, served by another process."""
    command = [sys.executable, "-m", "benchmarks.file_store", str(folder), "0", str(delay_ms)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


async def _main(folder: str, port: str, delay_ms: str) -> None:
    server = await asyncio.start_server(FileStore(Path(folder), float(delay_ms) / 1000).serve, "127.0.0.1", int(port))
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
