"""``headrace invoke``: one request to an endpoint."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from headrace.hosting.client import Answer, Client
from headrace.hosting.endpoint import find_endpoint

__all__ = ["invoke"]


def invoke(
    endpoint: Annotated[
        str, typer.Argument(metavar="NAME", show_default=False, help="Name of an endpoint, or http://host:port.")
    ],
    body: Annotated[
        str | None,
        typer.Argument(metavar="[BODY]", show_default=False, help="The request; by default what stdin gives."),
    ] = None,
    *,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", show_default=False, help="Send the content of a file.")
    ] = None,
    content_type: Annotated[str, typer.Option("--content-type", help="What the request is.")] = "text/csv",
    accept: Annotated[
        str | None, typer.Option("--accept", show_default=False, help="What the answer should be.")
    ] = None,
    timeout_s: Annotated[float, typer.Option("--timeout", metavar="SECONDS", help="How long to wait.")] = 70.0,
) -> None:
    """Send a request to an endpoint and print the answer as it is.

    The exit code is 1 when the endpoint answers with an error; the message says which container it came from.

    Examples:
      headrace invoke abalone "M,0.44,0.365,0.125,0.516,0.2155,0.114,0.155"
      headrace invoke abalone --file rows.csv --accept application/jsonlines
      headrace invoke http://127.0.0.1:8080 '{"instances": [{"features": [1, 2]}]}' --content-type application/json
    """
    if file is not None and body is not None:
        raise ValueError("a request comes either from --file or from the command line")
    payload = file.read_bytes() if file is not None else body.encode() if body is not None else sys.stdin.buffer.read()
    answer = _asked(endpoint, payload, content_type, accept, timeout_s)
    sys.stdout.buffer.write(answer.body)
    if sys.stdout.isatty() and not answer.body.endswith(b"\n"):
        sys.stdout.buffer.write(b"\n")
    sys.stdout.buffer.flush()


def _asked(endpoint: str, body: bytes, content_type: str, accept: str | None, timeout_s: float) -> Answer:
    if endpoint.startswith("http://"):
        client = Client(endpoint.rstrip("/"))
        return client.invoke(body, content_type=content_type, accept=accept, timeout_s=timeout_s)
    return find_endpoint(endpoint).invoke(body, content_type=content_type, accept=accept, timeout_s=timeout_s)
