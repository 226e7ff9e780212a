"""The application: all commands, and the options that they share."""

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
from headrace.cli.inspect import head, inspect, schema, view
from headrace.cli.stats import stats
from headrace.cli.terminal import note
from headrace.cli.train import train
from headrace.cli.transform import transform
from headrace.cli.verify import verify
from headrace.io.engines import describe_engines

__all__ = ["app", "main"]


class _Commands(TyperGroup):
    """Runs commands, and reports their failures."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        with report_failures(traceback=False):  # --help and --version print here.
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
    rich_markup_mode=None,  # plain help, which logs and documents show as well as a terminal
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
    """The docstring of a command, with the line breaks of its examples."""
    return cleandoc(command.__doc__ or "").replace("\nExamples:\n", "\n\b\nExamples:\n")


@app.callback()
def root(
    *,
    version: Annotated[
        bool, typer.Option("--version", "-V", callback=_show_version, help="Show the version and exit.")
    ] = False,
    # Eager, so that --version sees it in either order.
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", is_eager=True, help="With --version: show the decoders, too.")
    ] = False,
    traceback: Annotated[
        bool,
        typer.Option("--traceback", envvar="HEADRACE_TRACEBACK", help="Show where in the code an error comes from."),
    ] = False,
) -> None:
    """Inspect, verify, convert and summarise training data, and train and serve models.

    A PATH is a file, a folder, a glob or a set of shards (x@8, x@*). Formats: TFRecord, RecordIO, ArrayRecord, npy, npz, CSV,
    Parquet, JSON Lines, Avro, WebDataset, folders of images and of arrays. Commands that show, summarise or convert examples also take
    a split of a prepared dataset, as in mnist:test. Results go to stdout, everything else to stderr. Exit
    codes: 0 for success, 1 for faults in the data, 2 for wrong usage.
    """


WORK = (inspect, head, view, schema, stats, verify, convert, index, prepare, datasets)
SERVICES = (train, transform, serve, invoke, endpoints)

for command in (*WORK, *SERVICES, demo):
    app.command(help=_help_of(command))(command)


def main() -> None:
    """The ``headrace`` command."""
    warnings.showwarning = _warn
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # characters that the terminal cannot show become question marks
    app(prog_name="headrace")


def _open_closed_streams() -> None:
    """Open /dev/null for streams that were closed at the start (``>&-``), which Python sets to ``None``."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - open until the process ends


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    note(f"headrace: warning: {message}")
