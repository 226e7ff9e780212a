"""``headrace serve``: from artifacts to an endpoint."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.models import stages_of
from headrace.cli.terminal.console import note, print_line
from headrace.hosting.detached import log_to_standard_error
from headrace.hosting.endpoint import create_endpoint
from headrace.hosting.server import serve as serve_stages
from headrace.hosting.settings import Settings

__all__ = ["Models", "Scripts", "serve"]

Models = Annotated[
    list[Path],
    typer.Argument(
        metavar="MODEL...", show_default=False, help="model.tar.gz files (or folders). Several make a pipeline."
    ),
]
Scripts = Annotated[
    list[Path],
    typer.Option(
        "--script",
        metavar="FILE",
        show_default=False,
        help="For a model without code of its own: the script with model_fn. Repeat for several.",
    ),
]


def serve(
    models: Models,
    *,
    script: Scripts = [],  # noqa: B006 - typer makes a new one
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="The port to listen on; 0 takes a free one.")] = 8080,
    workers: Annotated[
        int | None, typer.Option("--workers", show_default=False, help="Processes that answer; one per processor.")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name", show_default=False, help="Do not stay: start an endpoint of this name, and print its address."
        ),
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Answers to failed requests hold the traceback.")] = False,
) -> None:
    """Serve a model, or several in series, as SageMaker hosts them.

    GET /ping, POST /invocations, GET /execution-parameters and /metrics; at / there is a page to try requests on. An artifact of Linear Learner is recognised; every other one needs a script with model_fn, in its code/ folder or by --script.

    Examples:
      headrace serve model.tar.gz --script inference.py
      headrace serve featurizer.tar.gz linear.tar.gz --script featurizer.py --port 0
      headrace serve model.tar.gz --name abalone
    """
    stages = stages_of(models, script)
    chosen_port = 0 if name is not None and port == 8080 else port
    settings = Settings(host=host, port=chosen_port, workers=workers, debug=debug).with_environment()
    if name is not None:
        endpoint = create_endpoint(name, stages, settings=settings)
        print_line(str(endpoint.address))
        note(f"{name} is in service; `headrace endpoints --delete {name}` ends it")
        return
    log_to_standard_error(logging.INFO)
    serve_stages(stages, settings, title=", ".join(model.name for model in models), started=print_line)
