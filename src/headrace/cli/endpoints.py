"""``headrace endpoints``: what runs, and ending it."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.options import AsJson
from headrace.cli.terminal.console import note, print_json, print_line, print_table
from headrace.hosting.endpoint import find_endpoint, list_endpoints

__all__ = ["endpoints"]


def endpoints(
    *,
    delete: Annotated[
        list[str],
        typer.Option(
            "--delete", metavar="NAME", show_default=False, help="Stop an endpoint and forget it. May be repeated."
        ),
    ] = [],  # noqa: B006 - typer makes a new one
    logs: Annotated[
        str | None,
        typer.Option("--logs", metavar="NAME", show_default=False, help="Print what an endpoint has logged."),
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
    for name in delete:
        find_endpoint(name).delete()
        note(f"{name} is gone")
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
