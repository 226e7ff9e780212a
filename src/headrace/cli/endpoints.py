"""``headrace serve``, ``headrace invoke`` and ``headrace endpoints``."""

from __future__ import annotations

import logging
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from headrace._ray.connection import find_cluster
from headrace.cli.options import AsJson, OnOption, RayAddress, RunsOn, path_in
from headrace.cli.terminal import note, print_json, print_line, print_table
from headrace.errors import NoFiles, UnsupportedData, Where
from headrace.hosting.client import Client, InvocationResult
from headrace.hosting.endpoint import Endpoint, create_endpoint, find_endpoint, list_endpoints
from headrace.hosting.http.server import serve as serve_stages
from headrace.hosting.ray.run import serve_on_ray
from headrace.hosting.run import log_to_standard_error
from headrace.hosting.settings import RaySettings, Settings
from headrace.hosting.stage import Stage, recognise

__all__ = ["Models", "Scripts", "endpoints", "invoke", "serve", "stages_of"]


LONGEST_WAIT_S = 24 * 3600.0


def endpoints(
    *,
    delete: Annotated[
        list[str],
        typer.Option(
            "--delete", metavar="NAME", show_default=False, help="Stop and delete an endpoint. May be repeated."
        ),
    ] = [],  # noqa: B006 - typer makes a new one
    logs: Annotated[
        str | None,
        typer.Option("--logs", metavar="NAME", show_default=False, help="Print the log of an endpoint."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the endpoints of this user: name, status, address, containers.

    Examples:
      headrace endpoints
      headrace endpoints --logs abalone
      headrace endpoints --delete abalone
    """
    if logs is not None:
        print_line(find_endpoint(logs).logs().rstrip("\n"))
        return
    for endpoint in [find_endpoint(name) for name in delete]:  # all exist, or none is deleted
        endpoint.delete()
        note(f"{endpoint.name} deleted")
    if delete:
        return
    found = [endpoint.describe() for endpoint in list_endpoints()]
    if as_json:
        print_json(found)
        return
    if not found:
        note("there are no endpoints; `headrace serve MODEL --name NAME` starts one")
        return
    rows = [
        [one["name"], one["status"], one["address"] or "", ", ".join(one["containers"]), one["reason"] or ""]
        for one in found
    ]
    print_table(["name", "status", "address", "containers", "reason"], rows)


def invoke(
    endpoint: Annotated[
        str, typer.Argument(metavar="NAME", show_default=False, help="Name of an endpoint, or http://host:port.")
    ],
    body: Annotated[
        str | None,
        typer.Argument(metavar="[BODY]", show_default=False, help="Body of the request.  [default: stdin]"),
    ] = None,
    *,
    file: Annotated[
        Path | None,
        typer.Option("--file", parser=path_in, metavar="FILE", show_default=False, help="Read the body from a file."),
    ] = None,
    content_type: Annotated[str, typer.Option("--content-type", help="Content type of the body.")] = "text/csv",
    accept: Annotated[
        str | None, typer.Option("--accept", show_default=False, help="Content type of the answer.")
    ] = None,
    timeout_s: Annotated[float, typer.Option("--timeout", metavar="SECONDS", help="Seconds to wait.")] = 70.0,
) -> None:
    """Send a request to an endpoint, and print the answer unchanged.

    If the endpoint answers with an error, the exit code is 1, and the message names the container.

    Examples:
      headrace invoke abalone "M,0.44,0.365,0.125,0.516,0.2155,0.114,0.155"
      headrace invoke abalone --file rows.csv --accept application/jsonlines
      headrace invoke http://127.0.0.1:8080 '{"instances": [{"features": [1, 2]}]}' --content-type application/json
    """
    if file is not None and body is not None:
        raise ValueError("give the body either as an argument or by --file")
    payload = file.read_bytes() if file is not None else body.encode() if body is not None else sys.stdin.buffer.read()
    answer = _invoke(endpoint, payload, content_type, accept, timeout_s)
    sys.stdout.buffer.write(answer.body)
    if sys.stdout.isatty() and not answer.body.endswith(b"\n"):
        sys.stdout.buffer.write(b"\n")
    sys.stdout.buffer.flush()


def _invoke(endpoint: str, body: bytes, content_type: str, accept: str | None, timeout_s: float) -> InvocationResult:
    if not 0 < timeout_s <= LONGEST_WAIT_S:
        raise ValueError(f"--timeout is above 0 and at most {LONGEST_WAIT_S:.0f} seconds, got {timeout_s:g}")
    if "://" in endpoint:
        client = Client(endpoint.rstrip("/"))
        return client.invoke(body, content_type=content_type, accept=accept, timeout_s=timeout_s)
    return find_endpoint(endpoint).invoke(body, content_type=content_type, accept=accept, timeout_s=timeout_s)


def stages_of(models: Sequence[Path], scripts: Sequence[Path]) -> list[Stage]:
    """Make a container for each model.

    Args:
        models: ``model.tar.gz`` files, or unpacked folders.
        scripts: In order, for the models that Linear Learner has not trained and that have no script in ``code/``.

    Raises:
        NoFiles: There is no such model or script.
        CorruptFile: A model is not an archive.
        ValueError: There are too few or too many scripts.
    """
    left = list(scripts)
    stages = []
    for model in models:
        try:
            stages.append(recognise(model))
        except UnsupportedData:
            if not left:
                raise ValueError(
                    f"{model} holds neither a Linear Learner model nor a script in code/: give one with --script"
                ) from None
            stages.append(recognise(model, entry_point=_there(left.pop(0))))
    if left:
        raise ValueError(f"no model needs the script {left[0]}")
    return stages


def _there(script: Path) -> Path:
    if not script.is_file():
        raise NoFiles(Where(path=str(script)), expected="a script", found="nothing")
    return script


Models = Annotated[
    list[Path],
    typer.Argument(
        parser=path_in,
        metavar="MODEL...",
        show_default=False,
        help="model.tar.gz files (or folders). Several make a pipeline.",
    ),
]
Scripts = Annotated[
    list[Path],
    typer.Option(
        "--script",
        parser=path_in,
        metavar="FILE",
        show_default=False,
        help="The script with model_fn, for a model without code. Repeat for several.",
    ),
]


def serve(
    models: Models,
    *,
    script: Scripts = [],  # noqa: B006 - typer makes a new one
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="Port to listen on; 0 takes a free one.")] = 8080,
    workers: Annotated[
        int | None, typer.Option("--workers", show_default=False, help="Worker processes; one per processor.")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            show_default=False,
            help="Start an endpoint of this name in the background, and print its address.",
        ),
    ] = None,
    update: Annotated[
        bool, typer.Option("--update", help="Replace the containers of the endpoint --name while it answers (on Ray).")
    ] = False,
    on: OnOption = RunsOn.PROCESSES,
    address: RayAddress = None,
    replicas: Annotated[
        str | None,
        typer.Option(
            "--replicas",
            metavar="N[:M]",
            show_default=False,
            help="Replicas on Ray: a number, or least:most.  [default: 1]",
        ),
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Include tracebacks in answers to failed requests.")] = False,
    fast_path: Annotated[
        bool, typer.Option("--fast-path/--no-fast-path", help="Answer invocations without the layers of Starlette.")
    ] = True,
) -> None:
    """Serve a model, or several in series, as SageMaker hosts them.

    Answers GET /ping, POST /invocations, GET /execution-parameters and GET /metrics, and has a page at / to try requests. Linear Learner models need no script; others need one with model_fn, in the code/ folder or by --script.

    Examples:
      headrace serve model.tar.gz --script inference.py
      headrace serve featurizer.tar.gz linear.tar.gz --script featurizer.py --port 0
      headrace serve model.tar.gz --name abalone
      headrace serve model.tar.gz --name abalone --on ray --replicas 1:8
      headrace serve newer.tar.gz --name abalone --update
    """
    stages = stages_of(models, script)
    if update:
        _update(name, stages, replicas)
        return
    chosen_port = 0 if name is not None and port == 8080 else port
    settings = Settings(
        host=host, port=chosen_port, workers=workers, debug=debug, fast_path=fast_path
    ).with_environment()
    placement = _placement(on, address, replicas)
    if name is not None:
        endpoint = _create(name, stages, settings, placement)
        print_line(str(endpoint.address))
        note(f"{name} is in service; `headrace endpoints --delete {name}` stops it")
        return
    log_to_standard_error(logging.INFO)
    if placement is not None:
        serve_on_ray(stages, settings, placement, name=f"serve-{uuid.uuid4().hex[:8]}", started=print_line)
        return
    serve_stages(stages, settings, title=", ".join(model.name for model in models), started=print_line)


def _create(name: str, stages: Sequence[Stage], settings: Settings, placement: RaySettings | None) -> Endpoint:
    if placement is None:
        return create_endpoint(name, stages, settings=settings)
    address, replicas = placement.address, placement.replicas
    return create_endpoint(name, stages, settings=settings, on="ray", address=address, replicas=replicas)


def _placement(on: RunsOn, address: str | None, replicas: str | None) -> RaySettings | None:
    """The place on a Ray cluster that the options describe; ``None`` for this machine's processes."""
    if on != RunsOn.RAY:
        if replicas is not None or address is not None:
            raise ValueError("--replicas and --address go with --on ray")
        return None
    return RaySettings(replicas=_replicas(replicas or "1"), address=find_cluster(address))


def _replicas(text: str) -> int | tuple[int, int]:
    try:
        least, *most = map(int, text.split(":"))
    except ValueError:
        raise ValueError(f"--replicas takes a number, or least:most such as 1:8, got {text!r}") from None
    if len(most) > 1:
        raise ValueError(f"--replicas takes a number, or least:most such as 1:8, got {text!r}")
    return (least, most[0]) if most else least


def _update(name: str | None, stages: Sequence[Stage], replicas: str | None) -> None:
    if name is None:
        raise ValueError("--update goes with --name, the endpoint to update")
    find_endpoint(name).update(stages, replicas=None if replicas is None else _replicas(replicas))
    note(f"{name} is updated")
