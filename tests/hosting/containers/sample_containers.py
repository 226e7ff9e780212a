"""Small containers for the tests of hosting: plain Python, found by ``Stage.path``."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

from headrace.contracts.serving import Request, Response
from headrace.errors import RequestError


def _text(text, status=200, headers=None):
    return Response(body=text.encode(), content_type="text/plain", status=status, headers=headers or {})


class Echo:
    """Returns its request as JSON."""

    def __init__(self, mark=""):
        self._mark = mark

    def __call__(self, request: Request) -> Response:
        reported = {
            "mark": self._mark,
            "body": request.body.decode("latin-1"),
            "content_type": request.content_type,
            "accept": request.accept,
            "headers": dict(request.headers),
            "variable": os.environ.get("SAMPLE"),
            "pid": os.getpid(),
        }
        return Response(body=json.dumps(reported).encode(), content_type=f"application/json; from={self._mark}")


class Panic(BaseException):
    """As a panic of a library in Rust: no Exception."""


class Obedient:
    """Obeys the body: ``status 415 why``, ``raise why``, ``die``, ``sleep 3``, ``large 100``, ...; returns other bodies in upper case."""

    def __call__(self, request: Request) -> Response:
        word, _, rest = request.body.decode("latin-1").partition(" ")
        return getattr(self, f"do_{word}", self._upper)(rest, request)

    def _upper(self, rest, request):
        return _text(request.body.decode("latin-1").upper(), headers={"X-Amzn-SageMaker-Custom-Attributes": "seen"})

    def do_refuse(self, rest, request):
        status, _, why = rest.partition(" ")
        raise RequestError(int(status), why)

    def do_status(self, rest, request):
        status, _, why = rest.partition(" ")
        return _text(why, int(status))

    def do_raise(self, rest, request):
        raise KeyError(rest)

    def do_panic(self, rest, request):
        raise Panic(rest)

    def do_odd(self, rest, request):
        return _text(rest, headers={"X-Own": threading.Lock()})

    def do_die(self, rest, request):
        os.kill(os.getpid(), signal.SIGKILL)

    def do_exit(self, rest, request):
        os._exit(int(rest or 0))

    def do_sleep(self, rest, request):
        time.sleep(float(rest))
        return _text("slept")

    def do_until(self, rest, request):
        """Wait until a file exists."""
        while not os.path.exists(rest):
            time.sleep(0.01)
        return _text("found")

    def do_hold(self, rest, request):
        """Says that it has begun, by a file, and works until the file ``go`` beside it is there."""
        open(rest, "w").close()
        go = os.path.join(os.path.dirname(rest), "go")
        while not os.path.exists(go):
            time.sleep(0.01)
        return _text("held")

    def do_large(self, rest, request):
        return _text("x" * int(rest))

    def do_header(self, rest, request):
        return _text("", headers={"X-Own": rest, "Content-Length": "999"})

    def do_nothing(self, rest, request):
        return None

    def do_start(self, rest, request):
        quiet = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        return _text(str(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], **quiet).pid))

    def do_pid(self, rest, request):
        return _text(str(os.getpid()))


class Batching(Obedient):
    """The same, plus the batch size of each request."""

    def answer_many(self, requests):
        answers = []
        for request in requests:
            try:
                answers.append(_text(str(len(requests))) if request.body == b"count" else self(request))
            except Exception as error:
                answers.append(error)
        return answers


class FailsTogether:
    """Fails for every batch of more than one request."""

    def __call__(self, request):
        if request.body == b"bad":
            raise ValueError("bad row")
        return _text(request.body.decode())

    def answer_many(self, requests):
        raise ValueError("all of them")


class Container:
    """A container: its handler needs a model folder."""

    def handler(self, model_dir):
        word = (model_dir / "model.txt").read_text()
        return lambda request: _text(word)


def echo(mark=""):
    return Echo(mark)


def obedient():
    return Obedient()


def batching():
    return Batching()


def refuses_to_load(why="no model here"):
    raise FileNotFoundError(why)


def exits_at_load():
    sys.exit("gave up")


def dies_at_load():
    os._exit(7)


def no_handler():
    return 5


def flaky(marker):
    """Loads, but dies on its first load if the marker is missing."""
    if not os.path.exists(marker):
        open(marker, "w").close()
        os._exit(9)
    return Obedient()


def with_parameters():
    handler = Echo()
    handler.execution_parameters = lambda: {"BatchStrategy": "SINGLE_RECORD"}
    return handler


def with_faulty_parameters():
    handler = Echo()
    handler.execution_parameters = lambda: {}["missing"]
    return handler


GATE = threading.Event()


def gate():
    """Waits until the test releases it."""
    GATE.clear()

    def handler(request):
        GATE.wait(300)
        return _text("through")

    return handler


def refuser():
    def handler(request):
        raise RequestError(415, request.content_type)

    return handler


def variable(name):
    return lambda request: _text(os.environ.get(name, ""))


def slow_to_load():
    time.sleep(600)


class Versioned:
    """Marks what it returns, so that a test sees which version answered what."""

    def __init__(self, mark, seconds=0.0):
        self._mark, self._seconds = mark, seconds

    def __call__(self, request: Request) -> Response:
        time.sleep(self._seconds)
        return _text(f"{self._mark}:{request.body.decode()[::-1]}")
