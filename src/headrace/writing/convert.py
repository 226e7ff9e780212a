"""Conversion of any format to any other, in parallel; a killed run is resumed by the same call."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from headrace._arguments import choice, flag, names, whole, word
from headrace.codecs.sagemaker_record.codec import SageMakerRecordCodec
from headrace.contracts.csv import CSV
from headrace.contracts.feature import Feature
from headrace.contracts.records import files_of
from headrace.contracts.schema import Schema
from headrace.errors import CorruptFile, CorruptRecord, DataError, SchemaMismatch, UnsupportedData, Where
from headrace.formats.registry import format_named
from headrace.io.cache.folder import cache_key
from headrace.io.folders import first_existing
from headrace.io.local.open import total_size
from headrace.io.local.signatures import Signature, wait_for_tick
from headrace.io.progress import Progress
from headrace.io.system import usable_cores
from headrace.io.threads import ThreadPool
from headrace.sources.node import records_below
from headrace.sources.open import open as open_source
from headrace.sources.records import RecordNode
from headrace.sources.source import Source
from headrace.writing.fitting import FeatureLoss, convert_to_fit
from headrace.writing.sinks import check_feature_names, codec_for, open_sink, open_writer, storable
from headrace.writing.units import Target, Unit, WorkFolder, join_units

__all__ = ["Converted", "convert"]

BATCH = 1024
FINAL = (CorruptRecord, CorruptFile, SchemaMismatch, UnsupportedData)
"""Errors that the same call would raise again: no finished work is kept for it."""


def _versions(source: Source) -> str:
    """A key that changes with the files, also where only examples in their middle change, which a fingerprint does not show."""
    paths = [path for records in records_below(source.node) for path in files_of(records)]
    here = [str(path) for path in paths if Path(path).is_file()]
    signatures = [Signature.of(path) for path in here]
    wait_for_tick(signatures)
    return cache_key(*here, *signatures)


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """The result of a conversion.

    Attributes:
        examples: Examples in the new files.
        paths: The new files.
        bytes: Their total size.
        resumed: Examples that an interrupted run had converted before.
        skipped: Damaged records that were left out (``on_corrupt="skip"``).
        lost: Features that were changed or left out (``allow_loss=True``), a sentence each.
        schema: Of the written examples. Where a format does not keep all of it, ``hr.open(dst, schema=...)`` restores the rest.
    """

    examples: int
    paths: tuple[str, ...]
    bytes: int
    resumed: int
    skipped: int
    lost: tuple[str, ...] = ()
    schema: Schema = field(default_factory=lambda: Schema({}), repr=False)


def convert(  # noqa: PLR0913 - every one is a choice of its own, and has a default
    src: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Source,
    dst: str | os.PathLike[str],
    *,
    format: str | CSV | None = None,
    codec: str | None = None,
    schema: Schema | Mapping[str, Feature] | None = None,
    columns: Sequence[str] | None = None,
    shards: int = 1,
    compression: str | None = None,
    on_corrupt: Literal["raise", "skip"] = "raise",
    allow_loss: bool = False,
    threads: int | None = None,
    overwrite: bool = False,
    progress: bool = False,
) -> Converted:
    """Write the examples of ``src`` into new files.

    Record payloads that need no other codec are copied byte for byte. Work is done in units, which wait in a hidden folder beside
    ``dst`` (in the cache folder if ``dst`` is a URL). After a kill or a power cut, the same call does only the missing units. Files
    get their names when they are complete. A conversion that is refused, or finds damage, leaves nothing behind.

    Args:
        src: What :func:`headrace.open` takes, or a source.
        dst: As for :func:`headrace.write`.
        format, codec, compression, shards: Of the new files; by default found from the name.
        schema, columns: As for :func:`headrace.open`.
        on_corrupt: ``"skip"`` leaves damaged records out and counts them.
        allow_loss: Store features that the new format cannot hold as other types (float64 as float32), or leave them out, and
            list them in ``lost``. By default they are an error.
        threads: How many units are written at once, from 1; by default one per core.
        overwrite: Replace existing files. By default they are an error.
        progress: Show a progress bar.

    Raises:
        UnsupportedData: ``dst`` exists, or a feature would be lost; the message says which, and why.
    """
    word(codec, "codec")
    names(columns, "columns")
    choice(on_corrupt, "on_corrupt", ("raise", "skip"))
    allow_loss, overwrite, progress = (
        flag(allow_loss, "allow_loss"),
        flag(overwrite, "overwrite"),
        flag(progress, "progress"),
    )
    threads = None if threads is None else whole(threads, "threads", least=1)
    target = Target.of(dst, format=format, compression=compression, shards=shards)
    source = src
    if isinstance(source, Source):
        if on_corrupt != "raise":
            raise ValueError("on_corrupt= says how files are opened: give it to hr.open, because this source is open")
        source = source if columns is None else source.select(*columns)
    else:
        source = open_source(source, schema=schema, columns=columns, on_corrupt=on_corrupt)
    source = storable(source, target.format)
    raw = codec is None and schema is None and not columns and _passes(source, target.format)
    lost: tuple[FeatureLoss, ...] = ()
    if not raw:
        check_feature_names(source.schema, target.paths[0], target.format)
        source, lost = convert_to_fit(source, os.fspath(dst), target.format, codec, allow_loss=allow_loss)
    plan = {
        "source": source.fingerprint,
        "files": _versions(source),
        "raw": raw,
        "codec": codec,
        "schema": source.schema.to_json(),
        "allow_loss": allow_loss,
        "csv": repr(target.csv),
    }
    work = WorkFolder.open(target, len(source), plan)
    # A run that is resumed may have given files their final names before it was interrupted.
    existing = first_existing(target.paths) if work.fresh and not overwrite else None
    if existing is not None:
        work.remove_if_fresh()
        raise UnsupportedData(
            Where(path=existing),
            expected="a new file",
            found="one that already exists",
            hint="Pass overwrite=True to replace it.",
        )
    resumed = work.finished_examples()
    with Progress("converting", len(source), "examples", show=progress) as bar:
        bar.advance(resumed)
        try:
            _run(
                work,
                threads or usable_cores(),
                _unit_writer(source, target, codec, raw=raw, advance=bar.advance),
            )
        except FINAL:
            work.discard()
            raise
        except BaseException as error:
            if not work.discard_if_empty():
                error.add_note("Finished work is kept: the same call resumes it.")
            raise
    return Converted(
        examples=len(source),
        paths=target.paths,
        bytes=total_size(target.paths),
        resumed=resumed,
        skipped=source.skipped.records,
        lost=tuple(map(str, lost)),
        schema=source.schema,
    )


def _passes(source: Source, format: str) -> bool:
    """Whether payloads are copied unchanged: raw ones, and those of the codec that the format has by default."""
    node = source.node
    if not isinstance(node, RecordNode) or format_named(format).sink is not None:
        return False
    return node.codec.name in ("raw", codec_for(source.schema.select([]), None, format).name)


def _run(work: WorkFolder, threads: int, write_unit: Callable[[Unit], None]) -> None:
    """Do the missing units, several at a time, then put the files together."""
    missing = work.missing()
    with ThreadPool(max(1, min(threads, len(missing) or 1)), thread_name_prefix="headrace-convert") as pool:
        waiting = [pool.submit(write_unit, unit) for unit in missing]
        try:
            for done in as_completed(waiting):
                done.result()
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    for file in work.files():
        if not work.is_done(file.path):
            join_units(file, work)
    work.remove()


def _unit_writer(
    source: Source, target: Target, codec: str | None, *, raw: bool, advance: Callable[[int], None]
) -> Callable[[Unit], None]:
    def write_raw(unit: Unit) -> None:
        node = source.node
        assert isinstance(node, RecordNode)
        records, chosen = node.records, node.codec
        with open_writer(unit.path, target.format, target.compression) as writer:
            for start in range(unit.start, unit.stop, BATCH):
                stop = min(start + BATCH, unit.stop)
                spans = records.spans(np.arange(start, stop))
                payloads = chosen.payloads(spans) if isinstance(chosen, SageMakerRecordCodec) else spans.to_bytes()
                writer.write_many(payloads)
                advance(stop - start)

    def write_examples(unit: Unit) -> None:
        sink = open_sink(
            unit.path, target.csv or target.format, target.compression, source.schema, codec=codec, first=unit.first
        )
        with contextlib.ExitStack() as stack:
            stack.callback(sink.abort)
            for start in range(unit.start, unit.stop, BATCH):
                stop = min(start + BATCH, unit.stop)
                sink.write_batch(source.batch(np.arange(start, stop)), stop - start)
                advance(stop - start)
            stack.pop_all()
        sink.close()

    def write_unit(unit: Unit) -> None:
        try:
            (write_raw if raw else write_examples)(unit)
        except DataError as error:
            if error.where.path != str(unit.path):
                raise
            raise error.relocated(Where(path=unit.target)) from error  # not the hidden file that becomes a part of it

    return write_unit
