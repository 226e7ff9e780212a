"""``headrace index``: where the records of framed files begin."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli.options import AsJson, FormatName, Paths, SkipCorrupt, as_path, on_corrupt, tell_skipped
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
            metavar="OUT",
            show_default=False,
            help="Also write DALI's text form: a file, or a folder for several.",
        ),
    ] = None,
    from_text: Annotated[
        Path | None,
        typer.Option(
            "--from-text",
            metavar="IDX",
            show_default=False,
            help="Take DALI's text form, after a check, instead of scanning.",
        ),
    ] = None,
    skip_corrupt: SkipCorrupt = False,
    as_json: AsJson = False,
) -> None:
    """Build the index that random access to TFRecord, RecordIO and CSV needs.

    It is kept in the cache folder, and built by itself at first need: this command is for doing it beforehand. HEADRACE_CACHE_DIR moves the cache folder. The
    text form, one line "offset size" for each record, is what DALI's tfrecord2idx writes for TFRecord.

    Examples:
      headrace index 'shards/*.tfrecord'
      headrace index train.tfrecord --text train.idx
      headrace index train.tfrecord --from-text train.idx
    """
    records = open_records(as_path(paths), format=format, on_corrupt=on_corrupt(skip_corrupt))
    if not isinstance(records, FramedRecords):
        raise typer.BadParameter(f"{records.format} files need none", param_hint="PATH")
    if (text or from_text) and not isinstance(records, TFRecordRecords):
        raise typer.BadParameter("the text form is of TFRecord", param_hint="--text")
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
    tell_skipped(records.skipped)


def _modified_time(path: Path) -> int | None:
    return path.stat().st_mtime_ns if path.exists() else None


def _import(text: Path, records: FramedRecords, kept: Path, *, skip_corrupt: bool) -> None:
    if len(records.paths) != 1 or skip_corrupt:
        raise typer.BadParameter("the text form is of one sound file", param_hint="--from-text")
    save_index(read_text_index(text, records.paths[0]), kept)


def _export(records: FramedRecords, out: Path) -> list[str]:
    """Write the text form of every file."""
    if len(records.paths) > 1:
        if out.exists() and not out.is_dir():
            raise typer.BadParameter(
                f"{out} must be a folder: there is one text index for each file", param_hint="--text"
            )
        out.mkdir(parents=True, exist_ok=True)
    targets = [out / f"{Path(path).name}.idx" if out.is_dir() else out for path in records.paths]
    if len(set(targets)) < len(targets):
        raise typer.BadParameter("two of the files have the same name: export them one by one", param_hint="--text")
    for number, target in enumerate(targets):
        write_text_index(records.index, number, target)
    return list(map(str, targets))


def _show(facts: dict[str, Any]) -> None:
    how = f"built in {facts['seconds']:.2f} s" if facts["built"] else "was there already"
    print_line(f"{count_of(facts['records'], 'record')} in {count_of(facts['files'], 'file')}; the index {how}")
    if facts["index"] is None:
        print_line("It could not be kept: the cache folder cannot be written.")
    else:
        print_line(f"{printable(facts['index'])} ({size_of(facts['index_bytes'])})")
    for name in facts["text"]:
        print_line(f"text form: {printable(name)}")
