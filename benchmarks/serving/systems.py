"""How each server is started and queried."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

HERE = "benchmarks.serving"


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """One server.

    Attributes:
        text: Its name in the table.
        commands: ``commands(port)``: what to run, each with its environment variables.
        body: A CSV row in the server's format.
        content_type: What that is.
        score: The number in its answer.
        needs: The module or program that it requires.
        is_never_idle: Whether it uses processor time when idle: then only Headrace runs beside it.
        is_peer: Whether it is another project's server.
    """

    text: str
    commands: Callable[[int], list[tuple[list[str], dict[str, str]]]]
    body: Callable[[str], str] = str
    content_type: str = "text/csv"
    score: Callable[[bytes], float] = field(default=lambda body: json.loads(body)["predictions"][0]["score"])
    needs: str | None = None
    is_never_idle: bool = False
    is_peer: bool = True

    def is_installed(self):
        """Whether it can be started."""
        if self.needs is None or "/" in self.needs:
            return self.needs is None or Path(self.needs).exists()
        return importlib.util.find_spec(self.needs) is not None


def _program(name):
    return str(Path(sys.executable).parent / name)


# Its pinned versions conflict with the others'.
MLFLOW = Path(sys.prefix).parent / ".venv-peers-mlflow" / "bin"


def _mlflow(port):
    folder = str(Path(os.environ["SERVING_MODELS"]) / "mlflow")
    root = str(Path(__file__).parents[2])
    subprocess.run(
        [str(MLFLOW / "python"), "-m", f"{HERE}.peers.mlflow_both", folder],
        env={**os.environ, "PYTHONPATH": root},
        check=True,
        capture_output=True,
    )
    command = [str(MLFLOW / "mlflow"), "models", "serve", "--model-uri", folder, "--env-manager", "local"]
    variables = {"PYTHONPATH": root, "PATH": f"{MLFLOW}{os.pathsep}{os.environ['PATH']}"}
    return [([*command, "--workers", "2", "--host", "127.0.0.1", "--port", str(port)], variables)]


def _ray(port):
    variables = {
        "PORT": str(port),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",  # the default is 15, and the client of this benchmark would starve it
    }
    return [([sys.executable, "-m", f"{HERE}.peers.ray_both"], variables)]


def _headrace_on_ray(port):
    variables = {"RAY_worker_niceness": "0"}  # as above
    return [([sys.executable, "-m", f"{HERE}.endpoint", json.dumps({"port": port}), "2"], variables)]


def _gunicorn(app, port, workers, **variables):
    command = [_program("gunicorn"), "-k", "gevent", "-w", str(workers), "-b", f"127.0.0.1:{port}"]
    return [*command, "--log-level", "warning", f"{HERE}.peers.{app}:app"], variables


def _stock(port):
    place = "http://127.0.0.1:{}/invocations"
    return [
        _gunicorn("flask_stage", port + 1, 2, STAGE="first"),
        _gunicorn("flask_stage", port + 2, 2, STAGE="second"),
        _gunicorn("flask_router", port, 1, FIRST=place.format(port + 1), SECOND=place.format(port + 2)),
    ]


def _starlette(port):
    command = [_program("uvicorn"), f"{HERE}.peers.starlette_both:app", "--host", "127.0.0.1", "--port", str(port)]
    return [([*command, "--workers", "2", "--no-access-log", "--log-level", "warning"], {})]


def _litserve(workers):
    def commands(port):
        return [([sys.executable, "-m", f"{HERE}.peers.litserve_both"], {"PORT": str(port), "WORKERS": workers})]

    return commands


def _bento(port):
    command = [_program("bentoml"), "serve", f"{HERE}.peers.bento_both:Both", "--host", "127.0.0.1"]
    return [([*command, "--port", str(port)], {"BENTOML_DO_NOT_TRACK": "True", "BENTOML_HOME": _bento_home()})]


def _bento_home():
    return str(Path(os.environ["SERVING_MODELS"]) / "bentoml")


def _headrace(**settings):
    def commands(port):
        text = json.dumps({"port": port, **settings})
        return [([sys.executable, "-m", f"{HERE}.endpoint", text], {})]

    return commands


SYSTEMS = {
    "headrace": System(text="Headrace", commands=_headrace(), is_peer=False),
    "headrace-1": System(text="Headrace, one worker", commands=_headrace(workers=1), is_peer=False),
    "headrace-alone": System(text="Headrace, batches off", commands=_headrace(batch=1), is_peer=False),
    "stock": System(text="stock form: Flask and gevent, a hop between stages", commands=_stock, needs="gunicorn"),
    "flask": System(
        text="Flask and gevent, one process per worker, no hop",
        commands=lambda port: [_gunicorn("flask_both", port, 2)],
        needs="gunicorn",
    ),
    "starlette": System(text="Starlette, threads", commands=_starlette, needs="uvicorn"),
    "litserve-1": System(
        text="LitServe, batches, one worker",
        commands=_litserve("1"),
        body=lambda row: json.dumps({"row": row}),
        content_type="application/json",
        needs="litserve",
    ),
    "litserve-2": System(
        text="LitServe, batches, two workers",
        commands=_litserve("2"),
        body=lambda row: json.dumps({"row": row}),
        content_type="application/json",
        needs="litserve",
    ),
    "bentoml": System(
        text="BentoML, batches, two workers",
        commands=_bento,
        body=lambda row: json.dumps({"rows": [row]}),
        content_type="application/json",
        score=lambda body: json.loads(json.loads(body)[0])["predictions"][0]["score"],
        needs="bentoml",
    ),
    "mlflow": System(
        text="MLflow, two workers",
        commands=_mlflow,
        body=lambda row: json.dumps({"inputs": [row]}),
        content_type="application/json",
        score=lambda body: json.loads(json.loads(body)["predictions"][0])["predictions"][0]["score"],
        needs=str(MLFLOW / "mlflow"),
    ),
    "headrace-ray": System(
        text="Headrace on Ray Serve, two replicas",
        commands=_headrace_on_ray,
        needs="ray",
        is_never_idle=True,
        is_peer=False,
    ),
    "ray": System(text="Ray Serve, batches, two replicas", commands=_ray, needs="ray", is_never_idle=True),
}
