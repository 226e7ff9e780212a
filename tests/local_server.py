"""HTTP servers in the process of the tests that leave nothing behind: no listening port, no open connection, no thread."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["LocalServer"]


class LocalServer(ThreadingHTTPServer):
    """Answers with a handler, in a thread for each connection, from birth to `close` (or the end of ``with``).

    A thread that serves a connection that its client keeps alive waits for the next request, for as long as the client likes: a
    plain server either waits for it at its own end, or leaves it to the tests that come after. This one ends the connections first.
    """

    daemon_threads = False  # such threads are joined by server_close

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that either side has ended is no error; anything else is printed, as ever."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def close(self) -> None:
        """Take no more connections, end those there are, and wait for their threads."""
        self.shutdown()
        self._thread.join()
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):  # its client was first
                    connection.shutdown(socket.SHUT_RDWR)
        self.server_close()

    def __exit__(self, *_: object) -> None:
        self.close()
