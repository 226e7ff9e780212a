"""Clients of an endpoint on Ray, while its replicas are killed and replaced."""

import http.client
import os
import random
import signal
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

CONNECTIONS, REQUESTS = 32, 2000
PATIENCE_S = 600  # the machine may be busy


def own(name):
    """A name that no other run of these tests on this machine uses."""
    return f"{name}-{os.getpid()}"


def replicas(name):
    """The processes of an endpoint's replicas."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().startswith(f"ray::ServeReplica:{name}:".encode()):
                found.append(int(path.parent.name))
        except OSError:
            continue
    return sorted(found)


class Load:
    """Requests over many connections; every answer is compared.

    Args:
        address: The endpoint.
        right: From a body to the right answers.
        seed: Decides the bodies.
        reconnects: Whether a connection may break: its request is sent again.
    """

    def __init__(self, address, right, seed, *, reconnects=False):
        parts = urlsplit(address)
        self._host, self._port, self._path = parts.hostname, parts.port, parts.path
        self._right = right
        self._reconnects = reconnects
        self._bodies = [b"%d.%d" % (n, random.Random(seed + n).getrandbits(60)) for n in range(REQUESTS)]
        self._left = iter(range(REQUESTS))
        self._lock = threading.Lock()
        self.answered = 0
        self.refused = 0
        self.wrong = []
        self.latest = b""
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(CONNECTIONS)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()

    def wait_for(self, count):
        """Wait until so many requests are answered."""
        deadline = time.monotonic() + PATIENCE_S
        while self.answered + len(self.wrong) < count:
            assert time.monotonic() < deadline, (
                f"{self.answered} of {count} answers, {self.refused} refusals, {self.wrong[:3]}"
            )
            time.sleep(0.01)

    def _run(self):
        connection = http.client.HTTPConnection(self._host, self._port, timeout=PATIENCE_S)
        while True:
            with self._lock:
                number = next(self._left, None)
            if number is None:
                return
            self._ask(connection, self._bodies[number])

    def _ask(self, connection, body):
        """Send a request until it is answered: after 503, as its Retry-After allows."""
        while True:
            try:
                connection.request("POST", f"{self._path}/invocations", body, {"Content-Type": "text/csv"})
                answer = connection.getresponse()
                found = answer.read()
            except (OSError, http.client.HTTPException) as error:
                if self._reconnects:
                    connection.close()
                    continue
                with self._lock:
                    self.wrong.append((body, repr(error)))
                connection.close()
                return
            if answer.status != 503 or answer.headers.get("retry-after") != "1":
                break
            with self._lock:
                self.refused += 1
            time.sleep(0.2)
        with self._lock:
            if answer.status == 200 and found in self._right(body):
                self.answered += 1
                self.latest = found
            else:
                self.wrong.append((body, answer.status, found[:200]))


def kill_one(name, random):
    """End one replica, as the system does when memory is short."""
    chosen = random.choice(replicas(name))
    os.kill(chosen, signal.SIGKILL)
    return chosen
