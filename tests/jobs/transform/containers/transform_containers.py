"""Small containers for the tests of batch transform: plain Python, found by ``Stage.path``."""

import json
import os
import signal
import time
from pathlib import Path

from headrace.contracts.serving import Response
from headrace.errors import RequestError


def _same_type(request, body):
    return Response(body=body, content_type=request.content_type)


class Echo:
    """Returns its request."""

    def __call__(self, request):
        return _same_type(request, request.body)


class Lengths:
    """A row with the size of each row."""

    def __call__(self, request):
        rows = request.body.decode().splitlines()
        return Response(body="".join(f"{len(row)}\n" for row in rows).encode(), content_type="text/csv")


class Strict:
    """Doubles the number on each line; refuses anything else."""

    def __init__(self, status=400):
        self.status = status

    def __call__(self, request):
        out = []
        for line in request.body.decode().splitlines():
            try:
                out.append(f"{2 * float(line):g}\n")
            except ValueError as error:
                if self.status == 500:
                    raise
                raise RequestError(self.status, f"no number: {line!r}") from error
        return Response(body="".join(out).encode(), content_type="text/csv")


class Documents:
    """A JSON document for each JSON value, or one for all lines."""

    def __call__(self, request):
        rows = [json.loads(line) for line in request.body.decode().splitlines() if line.strip()]
        if "jsonlines" in request.accept:
            text = "".join(json.dumps({"score": row}) + "\n" for row in rows)
        else:
            text = json.dumps({"predictions": rows}, indent=1)
        return Response(body=text.encode(), content_type=request.accept)


class Environment:
    """Its variables, as JSON."""

    def __call__(self, request):
        names = [name for name in sorted(os.environ) if name.startswith(("SAGEMAKER_", "OWN"))]
        found = {name: os.environ[name] for name in names}
        reported = {"variables": found, "content_type": request.content_type, "accept": request.accept}
        return Response(body=json.dumps(reported).encode(), content_type="application/json")


class Parameters(Environment):
    """Declares its execution parameters."""

    def __init__(self, **parameters):
        self.execution_parameters = lambda: parameters

    def __call__(self, request):
        return Response(body=f"{len(request.body)}\n".encode(), content_type="text/plain")


class FaultyParameters(Environment):
    """Fails where it is asked for its execution parameters."""

    def execution_parameters(self):
        raise KeyError("missing")


class Together:
    """Returns the batch size of each request."""

    def __call__(self, request):
        return self.answer_many([request])[0]

    def answer_many(self, requests):
        if any(request.body == b"die\n" for request in requests):
            os.kill(os.getpid(), signal.SIGKILL)
        return [
            RequestError(400, "bad")
            if request.body == b"bad\n"
            else Response(body=f"{len(requests)}\n".encode(), content_type="text/csv")
            for request in requests
        ]


class Flaky:
    """Fails a number of times for each body, counted in a folder, before it answers; the body says how."""

    def __init__(self, folder, times):
        self.folder = Path(folder)
        self.times = times

    def __call__(self, request):
        kind = request.body.decode().strip()
        note = self.folder / kind.replace(" ", "-")
        count = int(note.read_text()) if note.exists() else 0
        note.write_text(str(count + 1))
        if count >= self.times:
            return _same_type(request, request.body)
        if kind == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == "hang":
            time.sleep(3600)
        if kind == "status 503":
            return Response(body=b"busy", content_type="text/plain", status=503)
        raise RequestError(int(kind), "not now")


class Prints(Echo):
    """Prints, and returns its process ID."""

    def __call__(self, request):
        print("seen", len(request.body), "bytes")
        return _same_type(request, f"{os.getpid()}\n".encode())


class Gate(Echo):
    """Records each body, and waits for a file (if the body begins with ``wait``)."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def __call__(self, request):
        with (self.folder / "asked").open("ab") as file:
            file.write(request.body)
        while request.body.startswith(b"wait") and not (self.folder / "open").exists():
            time.sleep(0.01)
        return _same_type(request, request.body)


class Broken:
    """Does not load."""

    def __init__(self):
        raise ValueError("the weights are missing")


class Slow:
    """Returns its request after a while. One that begins with ``wait`` waits for a file, if there is one to wait for."""

    def __init__(self, seconds, gate=None):
        self.seconds = seconds
        self.gate = gate

    def __call__(self, request):
        time.sleep(self.seconds)
        while self.gate and request.body.startswith(b"wait") and not os.path.exists(self.gate):
            time.sleep(0.01)
        return _same_type(request, request.body)


class Talkative:
    """Says what it hears."""

    def __call__(self, request):
        print("heard", request.body.decode().strip())
        return _same_type(request, request.body)


class KillsParent:
    """Kills the process that it belongs to when a request has one line only."""

    def __init__(self, name):
        self.name = name

    def __call__(self, request):
        if request.body.count(b"\n") == 1:
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(60)
        return _same_type(request, request.body)


class Mortal:
    """Returns its request, and dies of one body."""

    def __call__(self, request):
        if b"die" in request.body:
            os.kill(os.getpid(), signal.SIGKILL)
        return _same_type(request, request.body)
