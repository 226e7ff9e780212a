"""``headrace index``: build the index of records."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli.options import (
    AsJson,
    FormatName,
    Paths,
    SkipCorrupt,
    as_path,
    check_output,
    on_corrupt,
    path_in,
    report_skipped,
)
from headrace.cli.terminal import count_of, print_json, print_line, printable, size_of
from headrace.formats.framed.records import FramedRecords
from headrace.formats.index.index import index_path, save_index
from headrace.formats.index.text import read_text_index, write_text_index
from headrace.formats.open import open_records
from headrace.formats.tfrecord.format import TFRecordRecords

__all__ = ["index"]


def index(
    paths: Paths,
    *,
    format: FormatName = None,
    text: Annotated[
        Path | None,
        typer.Option(
            "--text",
            parser=path_in,
            metavar="OUT",
            show_default=False,
            help="Also write the index as text for DALI: a file, or a folder for several.",
        ),
    ] = None,
    from_text: Annotated[
        Path | None,
        typer.Option(
            "--from-text",
            parser=path_in,
            metavar="IDX",
            show_default=False,
            help="Import a text index of DALI instead of scanning. It is validated first.",
        ),
    ] = None,
    skip_corrupt: SkipCorrupt = False,
    as_json: AsJson = False,
) -> None:
    """Build the index that random access to TFRecord, RecordIO and CSV needs.

    The index is built on first use and stored in the cache folder (HEADRACE_CACHE_DIR). This command builds it beforehand (JSON Lines and
    Avro are indexed at first use only). The text form,
    one line "offset size" per record, is that of DALI's tfrecord2idx.

    Examples:
      headrace index 'shards/*.tfrecord'
      headrace index train.tfrecord --text train.idx
      headrace index train.tfrecord --from-text train.idx
    """
    records = open_records(as_path(paths), format=format, on_corrupt=on_corrupt(skip_corrupt))
    if not isinstance(records, FramedRecords):
        raise typer.BadParameter(f"{records.format} files have no index that this command makes", param_hint="PATH")
    if (text or from_text) and not isinstance(records, TFRecordRecords):
        raise typer.BadParameter("only TFRecord has a text index", param_hint="--text")
    kept = index_path(records.paths, format=records.framing.index_name, on_corrupt=on_corrupt(skip_corrupt))
    before, begun = _modified_time(kept), time.monotonic()
    if from_text is not None:
        _import(from_text, records, kept, skip_corrupt=skip_corrupt)
    count = len(records)
    seconds = time.monotonic() - begun
    facts = {
        "records": count,
        "files": len(records.paths),
        "index": str(kept) if kept.exists() else None,
        "index_bytes": kept.stat().st_size if kept.exists() else 0,
        "built": before is None or _modified_time(kept) != before,
        "seconds": round(seconds, 6),
        "text": _export(records, text) if text is not None else [],
    }
    if as_json:
        print_json(facts)
    else:
        _show(facts)
    report_skipped(records.skipped)


def _modified_time(path: Path) -> int | None:
    return path.stat().st_mtime_ns if path.exists() else None


def _import(text: Path, records: FramedRecords, kept: Path, *, skip_corrupt: bool) -> None:
    if len(records.paths) != 1 or skip_corrupt:
        raise typer.BadParameter("a text index describes one undamaged file", param_hint="--from-text")
    save_index(read_text_index(text, records.paths[0]), kept)


def _export(records: FramedRecords, out: Path) -> list[str]:
    """Write a text index for every file."""
    out = out.expanduser()
    if len(records.paths) > 1:
        if out.exists() and not out.is_dir():
            raise typer.BadParameter(
                f"{out} must be a folder: there is one text index for each file", param_hint="--text"
            )
        out.mkdir(parents=True, exist_ok=True)
    targets = [out / f"{Path(path).name}.idx" if out.is_dir() else out for path in records.paths]
    for target in targets:
        check_output(target, records.paths, "--text")
    if len(set(targets)) < len(targets):
        raise typer.BadParameter("two of the files have the same name: export them one by one", param_hint="--text")
    for number, target in enumerate(targets):
        write_text_index(records.index, number, target)
    return list(map(str, targets))


def _show(facts: dict[str, Any]) -> None:
    how = f"built in {facts['seconds']:.2f} s" if facts["built"] else "was already there"
    print_line(f"{count_of(facts['records'], 'record')} in {count_of(facts['files'], 'file')}; the index {how}")
    if facts["index"] is None:
        print_line("The index was not stored: the cache folder is not writable.")
    else:
        print_line(f"{printable(facts['index'])} ({size_of(facts['index_bytes'])})")
    for name in facts["text"]:
        print_line(f"text index: {printable(name)}")
