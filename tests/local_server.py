"""In-process HTTP servers that leave no listening port, open connection or thread behind."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["LocalServer"]


class LocalServer(ThreadingHTTPServer):
    """Serves with a handler, one thread per connection, until `close` (or the end of ``with``).

    The thread of a kept-alive connection waits for the next request as long as the client likes. A
    plain server would wait for it when closed, or leave it to later tests. This one closes the connections first.
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
        """A closed connection is not an error; anything else is printed as usual."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def close(self) -> None:
        """Accept no more connections, close the existing ones, and wait for their threads."""
        self.shutdown()
        self._thread.join()
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):  # the client closed first
                    connection.shutdown(socket.SHUT_RDWR)
        self.server_close()

    def __exit__(self, *_: object) -> None:
        self.close()
