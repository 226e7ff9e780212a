"""Options that several commands share, and opening what they name."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.terminal import count_of, note, size_of
from headrace.contracts.records import OnCorrupt, Skipped
from headrace.contracts.schema import Schema
from headrace.errors import UnknownFormat
from headrace.formats import registry
from headrace.formats.registry import format_named
from headrace.sources.open import open as open_source
from headrace.sources.source import Source

__all__ = [
    "FORMATS",
    "AsJson",
    "CodecChoice",
    "CodecName",
    "Columns",
    "CompressionChoice",
    "FormatName",
    "Paths",
    "SchemaFile",
    "SkipCorrupt",
    "as_path",
    "known_format",
    "names_in",
    "on_corrupt",
    "open_from_options",
    "schema_in",
    "tell_skipped",
]


class CodecChoice(StrEnum):
    """What the bytes of a record are."""

    example = "example"
    sagemaker_record = "sagemaker_record"
    raw = "raw"


class CompressionChoice(StrEnum):
    """What lies around a whole file, or, in ArrayRecord, round each of its chunks."""

    none = "none"
    gzip = "gzip"
    zlib = "zlib"
    zstd = "zstd"
    brotli = "brotli"
    snappy = "snappy"
    deflate = "deflate"


FORMATS = "|".join(registry.OWN)


def known_format(name: str | None) -> str | None:
    """What ``--format`` may be: a name, and for CSV options behind a colon.

    Raises:
        typer.BadParameter: Something else.
    """
    try:
        if name is not None:
            format_named(name)
    except UnknownFormat as error:
        told = f"{name!r} is none of {', '.join(registry.OWN)}. {error.hint}".rstrip(". ")
        raise typer.BadParameter(told) from None
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return name


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
        help="How records are framed; csv:header=no,delimiter=tab says more.  [default: find out]",
    ),
]
CodecName = Annotated[
    CodecChoice | None, typer.Option("--codec", show_default=False, help="What records hold.  [default: find out]")
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
        metavar="FILE",
        show_default=False,
        help="A schema as `headrace schema --json` writes it.  [default: find out]",
    ),
]
SkipCorrupt = Annotated[
    bool, typer.Option("--skip-corrupt", help="Leave damaged records out, and say how many they were.")
]
AsJson = Annotated[bool, typer.Option("--json", help="JSON, for programs.")]


def as_path(paths: Sequence[str]) -> str | list[str]:
    """One path may mean a whole set of shards; several are what a shell made of a pattern."""
    return paths[0] if len(paths) == 1 else list(paths)


def names_in(columns: Sequence[str] | None) -> list[str] | None:
    """``--columns a,b --columns c`` as ``["a", "b", "c"]``."""
    if not columns:
        return None
    return [name.strip() for part in columns for name in part.split(",") if name.strip()]


def schema_in(file: Path | None) -> Schema | None:
    """The schema in a file.

    Raises:
        typer.BadParameter: It holds something else.
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
    """The library's word for ``--skip-corrupt``."""
    return "skip" if skip else "raise"


def open_from_options(
    paths: Sequence[str],
    *,
    format: str | None = None,
    codec: CodecChoice | None = None,
    schema: Path | None = None,
    columns: Sequence[str] | None = None,
    skip_corrupt: bool = False,
) -> Source:
    """The source that a command's arguments mean."""
    return open_source(
        as_path(paths),
        format=format,
        codec=codec,
        schema=schema_in(schema),
        columns=names_in(columns),
        on_corrupt=on_corrupt(skip_corrupt),
        decode=False,
    )


def tell_skipped(skipped: Skipped) -> None:
    """Say on stderr what ``--skip-corrupt`` left out."""
    if skipped.records:
        note(f"left out {count_of(skipped.records, 'damaged stretch', 'damaged stretches')}, {size_of(skipped.bytes)}")
