"""Options that several commands share, and sources opened from them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from headrace._ray.connection import connect
from headrace.cli.terminal import count_of, note, size_of
from headrace.contracts.records import OnCorrupt, Skipped
from headrace.contracts.schema import Schema
from headrace.datasets.opening import find_split
from headrace.errors import DataError, NoFiles, UnknownFormat, UnsupportedData
from headrace.formats import registry
from headrace.formats.registry import format_named, format_of_name
from headrace.io.paths import expand
from headrace.io.urls import local_path
from headrace.sources.conditions.condition import condition
from headrace.sources.conditions.terms import ConditionError
from headrace.sources.open import open as open_source
from headrace.sources.source import Source
from headrace.writing.target import COMPRESSION_SUFFIXES

__all__ = [
    "FORMATS",
    "AsJson",
    "CodecChoice",
    "CodecName",
    "Columns",
    "CompressionChoice",
    "EngineChoice",
    "FormatName",
    "OnEngine",
    "OnOption",
    "Paths",
    "RayAddress",
    "RunsOn",
    "SchemaFile",
    "SkipCorrupt",
    "WhereOption",
    "as_path",
    "check_output",
    "connect_cluster",
    "keep_matching",
    "known_format",
    "known_rows",
    "names_in",
    "on_corrupt",
    "open_from_options",
    "open_paths",
    "path_in",
    "report_skipped",
    "rows_in",
    "schema_in",
    "where_in",
]


class CodecChoice(StrEnum):
    """Payloads of records."""

    example = "example"
    sagemaker_record = "sagemaker_record"
    raw = "raw"


class CompressionChoice(StrEnum):
    """Compression of a whole file, or of the chunks of an ArrayRecord file."""

    none = "none"
    gzip = "gzip"
    zlib = "zlib"
    zstd = "zstd"
    brotli = "brotli"
    snappy = "snappy"
    deflate = "deflate"


FORMATS = "|".join(registry.OWN)


def known_format(name: str | None) -> str | None:
    """Parse ``--format``: a name, for CSV with options after a colon.

    Raises:
        typer.BadParameter: The format or an option is unknown.
    """
    try:
        if name is not None:
            format_named(name)
    except UnknownFormat as error:
        message = f"{name!r} is none of {', '.join(registry.OWN)}. {error.hint}".rstrip(". ")
        raise typer.BadParameter(message) from None
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return name


def path_in(text: str | Path) -> Path:
    """Parse a path, with the home folder for ``~``.

    Raises:
        typer.BadParameter: It is empty, as an unset variable is, and would be the current folder; or a URL.
    """
    if text == "":
        raise typer.BadParameter("expected a path, found an empty text")
    try:
        return local_path(text, "a path")
    except UnsupportedData as error:
        raise typer.BadParameter(str(error)) from None


Paths = Annotated[
    list[str], typer.Argument(metavar="PATH", show_default=False, help="Files, folders, globs, sets of shards (x@8).")
]
FormatName = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar=FORMATS,
        callback=known_format,
        show_default=False,
        help="Format of the files; for CSV with options, as in csv:header=no,delimiter=tab.  [default: detected]",
    ),
]
CodecName = Annotated[
    CodecChoice | None, typer.Option("--codec", show_default=False, help="Type of the payloads.  [default: detected]")
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--columns", "-c", metavar="NAME[,NAME...]", show_default=False, help="Only these features, in this order."
    ),
]
SchemaFile = Annotated[
    Path | None,
    typer.Option(
        "--schema",
        parser=path_in,
        metavar="FILE",
        show_default=False,
        help="A schema, as `headrace schema --json` writes it.  [default: inferred]",
    ),
]
SkipCorrupt = Annotated[bool, typer.Option("--skip-corrupt", help="Skip damaged records, and report how many.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def known_condition(texts: list[str] | None) -> list[str] | None:
    """Parse ``--where``.

    Raises:
        typer.BadParameter: It cannot be read.
    """
    for text in texts or ():
        try:
            condition(text)
        except ConditionError as error:
            raise typer.BadParameter(str(error)) from None
    return texts


def where_in(texts: Sequence[str] | None) -> str | None:
    """Join ``--where A --where B`` into the condition that both make."""
    if not texts:
        return None
    return texts[0] if len(texts) == 1 else " and ".join(f"({text})" for text in texts)


WhereOption = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="CONDITION",
        callback=known_condition,
        show_default=False,
        help="Only examples that fit, as in 'label = 7 and width > 100'. Several must all fit.",
    ),
]


ROWS = re.compile(r"(\d{1,18})?(:(\d{1,18})?)?")


def known_rows(texts: list[str] | None) -> list[str] | None:
    """Parse ``--rows``.

    Raises:
        typer.BadParameter: It is not a list of indices and ranges.
    """
    for part in ",".join(texts or ["0"]).split(","):
        found = ROWS.fullmatch(part.strip())
        if not part.strip() or found is None:
            raise typer.BadParameter(f"rows are indices and ranges such as 7,100:110, got {part!r:.60}")
        if found[3] and int(found[3]) <= int(found[1] or 0):
            raise typer.BadParameter(f"the range {part.strip()} is empty: its end must be above its start")
    return texts


def rows_in(texts: Sequence[str], total: int) -> Iterator[int]:
    """The indices of ``--rows``, one after the other.

    Raises:
        typer.BadParameter: There is no such row.
    """
    for part in ",".join(texts).split(","):
        start, is_range, stop = part.strip().partition(":")
        if is_range:
            yield from range(total)[int(start or 0) : int(stop) if stop else None]
        elif int(start) < total:
            yield int(start)
        else:
            raise typer.BadParameter(f"row {start} is not below {total:,}, the number of examples", param_hint="--rows")


class RunsOn(StrEnum):
    """Where models and scripts run."""

    PROCESSES = "processes"
    RAY = "ray"


class EngineChoice(StrEnum):
    """Where files are converted and checked."""

    threads = "threads"
    ray = "ray"


OnOption = Annotated[RunsOn, typer.Option("--on", help="Run in processes of this machine, or on a Ray cluster.")]
OnEngine = Annotated[EngineChoice, typer.Option("--on", help="Work in threads of this machine, or on a Ray cluster.")]
RayAddress = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="HOST:PORT",
        show_default=False,
        help="The Ray cluster.  [default: RAY_ADDRESS, else a local one]",
    ),
]


@contextmanager
def connect_cluster(on: EngineChoice, address: str | None) -> Iterator[Literal["threads", "ray"]]:
    """A connection to the cluster that ``--address`` names, if any; yields what the library's ``on=`` takes.

    Raises:
        typer.BadParameter: There is an address but no ``--on ray``.
    """
    if address is None:
        yield "ray" if on is EngineChoice.ray else "threads"
        return
    if on is not EngineChoice.ray:
        raise typer.BadParameter("only --on ray has an address", param_hint="--address")
    try:
        cluster = connect(address)
    except ValueError as error:
        if isinstance(error, DataError):
            raise
        raise typer.BadParameter(str(error), param_hint="--address") from None
    with cluster:
        yield "ray"


def as_path(paths: Sequence[str]) -> str | list[str]:
    """One path may name a set of shards. Several come from a pattern that the shell has expanded."""
    return paths[0] if len(paths) == 1 else list(paths)


def check_output(out: Path, paths: Sequence[str], option: str) -> Path:
    """A file that a command writes beside its main work, with the home folder for ``~``.

    Args:
        out: As given.
        paths: What the command reads.
        option: That names the output.

    Raises:
        BadParameter: Its folder does not exist, or it is one of the files that are read, or another existing file of data.
    """
    out = out.expanduser()
    if not out.absolute().parent.is_dir():
        raise typer.BadParameter(f"{out} cannot be written: there is no folder {out.parent}", param_hint=option)
    if out.is_file():
        read: list[str] = []
        with contextlib.suppress(DataError):  # the name of a dataset
            read = expand(list(paths))
        if any(out.samefile(path) for path in read if Path(path).exists()):
            raise typer.BadParameter(f"{out} would be replaced, which is read: choose another name", param_hint=option)
        name = out.with_suffix("") if out.suffix.lower() in COMPRESSION_SUFFIXES else out
        if format_of_name(str(name)) is not None:
            raise typer.BadParameter(
                f"{out} would be replaced, which is a file of data: choose another name", param_hint=option
            )
    return out


def names_in(columns: Sequence[str] | None) -> list[str] | None:
    """Split ``--columns a,b --columns c`` into ``["a", "b", "c"]``.

    Raises:
        typer.BadParameter: They name nothing.
    """
    if not columns:
        return None
    names = [name.strip() for part in columns for name in part.split(",") if name.strip()]
    if not names:
        raise typer.BadParameter("expected the names of features, found an empty text", param_hint="--columns")
    return names


def schema_in(file: Path | None) -> Schema | None:
    """Read a schema from a file.

    Raises:
        typer.BadParameter: The file cannot be read, or holds no schema.
    """
    if file is None:
        return None
    try:
        return Schema.from_json(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}", param_hint="--schema") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise typer.BadParameter(f"{file} holds no schema: {error}", param_hint="--schema") from error


def on_corrupt(skip: bool) -> OnCorrupt:
    """The library's argument for ``--skip-corrupt``."""
    return "skip" if skip else "raise"


def open_paths(paths: Sequence[str], *, columns: Sequence[str] | None, decode: bool = True, **options: Any) -> Source:
    """Open files, or a split of a prepared dataset that is named as in ``mnist:test``.

    Raises:
        NoFiles: There is neither, or the dataset has no such split.
    """
    try:
        return open_source(as_path(paths), columns=columns, decode=decode, **options)
    except NoFiles:
        found = find_split(paths[0]) if len(paths) == 1 else None
        if found is None:
            raise
    source: Source = found[2] if decode else found[2].encoded()
    return source if columns is None else source.select(*columns)


def open_from_options(
    paths: Sequence[str],
    *,
    format: str | None = None,
    codec: CodecChoice | None = None,
    schema: Path | None = None,
    columns: Sequence[str] | None = None,
    skip_corrupt: bool = False,
    where: Sequence[str] | None = None,
) -> Source:
    """Open the source that a command's arguments describe."""
    names = names_in(columns)
    found = open_paths(
        paths,
        format=format,
        codec=codec,
        schema=schema_in(schema),
        # A condition may need features that are not among the columns.
        columns=None if where else names,
        on_corrupt=on_corrupt(skip_corrupt),
        decode=False,
    )
    return keep_matching(found, where, names) if where else found


def keep_matching(source: Source, where: Sequence[str], names: Sequence[str] | None) -> Source:
    """The examples that fit ``--where``, with the features of ``--columns``.

    Raises:
        NoSuchFeature: The condition or the columns name a feature that does not exist.
    """
    wanted = condition(where_in(where) or "")
    wanted.needed(source.schema)
    found = source.filter(wanted)
    return found if names is None else found.select(*names)


def report_skipped(skipped: Skipped) -> None:
    """Report on stderr what ``--skip-corrupt`` has skipped."""
    if skipped.records:
        note(f"skipped {count_of(skipped.records, 'damaged stretch', 'damaged stretches')}, {size_of(skipped.bytes)}")
