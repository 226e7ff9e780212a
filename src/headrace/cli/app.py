"""The commands together, and what they have in common."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from inspect import cleandoc
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import headrace
from headrace._interrupts import raise_on_interrupt
from headrace.cli.convert import convert
from headrace.cli.datasets import datasets, prepare
from headrace.cli.demo import demo
from headrace.cli.endpoints import endpoints, invoke, serve
from headrace.cli.failures import report_failures
from headrace.cli.index import index
from headrace.cli.inspect import head, inspect, schema
from headrace.cli.stats import stats
from headrace.cli.terminal import note
from headrace.cli.train import train
from headrace.cli.transform import transform
from headrace.cli.verify import verify
from headrace.io.engines import describe_engines

__all__ = ["app", "main"]


class _Commands(TyperGroup):
    """Runs a command and gives its end the right form."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        with report_failures(traceback=False):  # Help and version are printed here.
            raise_on_interrupt()
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        with report_failures(traceback=bool(ctx.params.get("traceback"))):
            if ctx.params.get("verbose"):
                raise typer.BadParameter("it goes with --version", ctx=ctx, param_hint="--verbose")
            return super().invoke(ctx)


app = typer.Typer(
    name="headrace",
    cls=_Commands,
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help: it is as readable in a log or a document as on a terminal
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


def _show_version(context: typer.Context, wanted: bool) -> None:
    if wanted:
        typer.echo(f"headrace {headrace.__version__}")
        if context.params.get("verbose"):
            typer.echo(describe_engines())
        raise typer.Exit


def _help_of(command: Callable[..., None]) -> str:
    """Its docstring, with the lines of the examples left as they are."""
    return cleandoc(command.__doc__ or "").replace("\nExamples:\n", "\n\b\nExamples:\n")


@app.callback()
def root(
    *,
    version: Annotated[
        bool, typer.Option("--version", "-V", callback=_show_version, help="Show the version and exit.")
    ] = False,
    # Eager, so that it is known when the version is shown, in whichever order the two are given.
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", is_eager=True, help="With --version: show the decoders, too.")
    ] = False,
    traceback: Annotated[
        bool,
        typer.Option("--traceback", envvar="HEADRACE_TRACEBACK", help="Show where in the code an error comes from."),
    ] = False,
) -> None:
    """Look into, check, convert and count training data.

    A PATH is a file, a folder, a glob, or a set of shards (x@8, x@*): of TFRecord, RecordIO, ArrayRecord, npy, npz, CSV,
    Parquet, JSON Lines, Avro, WebDataset, or a folder of images or arrays. Results go to stdout, everything else to stderr. Exit
    code 0: all is well; 1: faults in the data; 2: a wrong call.
    """


WORK = (inspect, head, schema, stats, verify, convert, index, prepare, datasets)
SERVICES = (train, transform, serve, invoke, endpoints)

for command in (*WORK, *SERVICES, demo):
    app.command(help=_help_of(command))(command)


def main() -> None:
    """The ``headrace`` command."""
    warnings.showwarning = _warn
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a character is no reason to stop
    app(prog_name="headrace")


def _open_closed_streams() -> None:
    """Python has ``None`` for a stream that was closed before it began (``>&-``): what is written there is for nobody."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - as long as the process


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    note(f"headrace: warning: {message}")
