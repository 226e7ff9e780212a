"""The containers of the tests, and servers to send requests to."""

import asyncio
import contextlib
import json
import subprocess
import sys
import textwrap
import time
import urllib.error
import urllib.request
from pathlib import Path

from starlette.testclient import TestClient

from headrace.contracts.serving import Request
from headrace.hosting.http.server import _pool, application
from headrace.hosting.metrics import Metrics
from headrace.hosting.settings import Settings
from headrace.hosting.stage import Stage
from headrace.hosting.workers.dispatch import Dispatcher

CONTAINERS = Path(__file__).parent / "containers"
PATIENCE_S = 120  # the machine may be busy


def sample(factory, **given):
    """One of the containers in ``sample_containers``."""
    return Stage(factory=f"sample_containers:{factory}", path=(str(CONTAINERS),), **given)


@contextlib.contextmanager
def local(*stages, direct=False, **settings):
    """An endpoint in this process with its model loaded."""
    app = application(stages, Settings(workers=0, **settings), direct=direct, title="tests")
    with TestClient(app, raise_server_exceptions=False) as client:
        wait(lambda: client.get("/ping").status_code == 200 or "does not load" in client.get("/ping").text)
        yield client


def wait(condition, what="it"):
    """Wait for a condition."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what} has not come"
        time.sleep(0.02)
    return found


class Clock(asyncio.SelectorEventLoop):
    """An event loop whose clock the test can advance."""

    ahead_s = 0.0

    def time(self):
        return super().time() + self.ahead_s


class Pool:
    """A pool with its dispatcher, in the event loop of the test."""

    def __init__(self, *stages, **settings):
        self.settings, metrics = Settings(**settings), Metrics()
        self.dispatcher = Dispatcher(self.settings, metrics)
        self.workers = _pool(stages, self.settings, False, self.dispatcher, metrics)

    async def __aenter__(self):
        await self.workers.start()
        await until(lambda: self.workers.unready is None)
        return self

    async def __aexit__(self, *_):
        await self.workers.stop()

    def submit(self, body):
        """A pending request, and the future of its answer."""
        answer = asyncio.get_running_loop().create_future()
        return self.dispatcher.submit(Request(body=body, content_type="a/b"), answer.set_result), answer

    def pass_timeout(self):
        """Advance the clock of the loop beyond the time-out of all requests."""
        asyncio.get_running_loop().ahead_s += self.settings.timeout_s


async def until(condition):
    """Until something is so, in an event loop."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


def run_on_clock(main):
    with asyncio.Runner(loop_factory=Clock) as runner:
        runner.run(main)


def post(address, body=b"", **headers):
    """Status and body of one invocation, over a new connection."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(f"{address}/invocations", data=body, headers=given, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def ping(address):
    """Status and reason of ``/ping``; ``None`` if nothing listens."""
    try:
        with urllib.request.urlopen(f"{address}/ping", timeout=PATIENCE_S) as answer:
            return answer.status, ""
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())["message"]
    except OSError:
        return None


class Server:
    """``serve`` in a separate process, as a user runs it in the foreground."""

    def __init__(self, *stages, direct=False, **settings):
        plain = json.dumps([stage.to_json() for stage in stages])
        code = f"""
            import json, logging, sys
            from headrace.hosting.run import log_to_standard_error
            from headrace.hosting.http.server import serve
            from headrace.hosting.settings import Settings
            from headrace.hosting.stage import Stage
            log_to_standard_error()
            stages = [Stage.from_json(plain) for plain in json.loads({plain!r})]
            serve(stages, Settings(port=0, **{settings!r}), direct={direct}, started=lambda a: print(a, flush=True))
        """
        self.process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.address = self.process.stdout.readline().strip()
        self.log = ""

    def ready(self):
        wait(lambda: (ping(self.address) or (0,))[0] == 200, "the model")
        return self

    def post(self, body=b"", **headers):
        return post(self.address, body, **headers)

    def metric(self, name):
        with urllib.request.urlopen(f"{self.address}/metrics", timeout=PATIENCE_S) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith((name + " ", name + "{")))

    def end(self):
        """Stop it and return its exit status."""
        if self.process.poll() is None:
            self.process.terminate()
        _, self.log = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


def children(pid):
    """The child processes of a process on Linux, except the watchdog, which may outlive it briefly."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            is_watchdog = b"orphans.py" in path.with_name("cmdline").read_bytes()
            if not is_watchdog and int(path.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(path.parent.name))
    return found


def lives(pid):
    """Whether a process runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
