"""Conversion of any format to any other, in parallel; a killed run is resumed by the same call."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from headrace import _hooks
from headrace._arguments import check_choice, check_flag, check_integer, check_names, check_text
from headrace.adapters.arrow import ArrowNode
from headrace.adapters.huggingface import HfNode
from headrace.contracts.csv import CSV, CsvDialect
from headrace.contracts.feature import Feature
from headrace.contracts.records import KnowsColumns, files_of
from headrace.contracts.schema import Schema
from headrace.errors import CorruptFile, CorruptRecord, NoFiles, SchemaMismatch, UnsupportedData
from headrace.formats.registry import format_named
from headrace.formats.table.arrow_types import arrow
from headrace.io.cache.folder import cache_key
from headrace.io.faults import file_exists_error
from headrace.io.folders import first_existing
from headrace.io.local.open import total_size
from headrace.io.local.signatures import Signature, wait_for_tick
from headrace.io.progress import Progress
from headrace.io.store.object import RemoteFile, fetch_heads
from headrace.io.urls import is_url
from headrace.sources.decoded import decodings_of
from headrace.sources.node import Node, OverFiles, fingerprint_of, records_below, walk
from headrace.sources.open import open as open_source
from headrace.sources.operations.choosing import Filtered
from headrace.sources.operations.stored import StoredNode, key_of_values
from headrace.sources.records import RecordNode
from headrace.sources.source import Source
from headrace.sources.tables import ColumnNode
from headrace.sources.views import Chosen
from headrace.writing.distributed.folder import build_indexes, example_bytes, run_in_folder
from headrace.writing.distributed.store import StoreRun
from headrace.writing.distributed.unit_writer import UnitWriter, write_units
from headrace.writing.engines import EngineTask, On, TaskEngine, Threads, cores_of, open_engine
from headrace.writing.fitting import FeatureLoss, convert_to_fit, make_storable
from headrace.writing.sinks import check_features, codec_for, refuse_without_features
from headrace.writing.target import Target, check_replaceable, named_files, refuse_inputs
from headrace.writing.units import WorkFolder, finish, finish_abandoned, join_units

__all__ = ["Converted", "convert"]

FINAL = (CorruptRecord, CorruptFile, SchemaMismatch, UnsupportedData)
"""Errors that the same call would raise again: no finished work is kept for it."""
UNKNOWN = (
    "Finished work is not kept, because a function uses objects that cannot be compared with those of the next call."
)


AT_ONCE = 1024
"""How many objects are asked for their versions at once."""


def _versions(source: Source) -> str:
    """A key that changes when a file changes, including files that rows refer to. A fingerprint depends only on the first and last example."""
    paths = [*(path for records in records_below(source.node) for path in files_of(records)), *named_files(source)]
    here = [str(path) for path in paths if not is_url(path)]
    signatures = list(map(_signature_of, here))
    wait_for_tick(signature for signature in signatures if signature is not None)
    there = [path for path in paths if is_url(path)]
    versions = [each for at in range(0, len(there), AT_ONCE) for each in _versions_in_store(there[at : at + AT_ONCE])]
    return cache_key(*here, *signatures, *there, *versions)


def _signature_of(path: str) -> Signature | None:
    """Size and times of a file; ``None`` if there is none, which reading says of the row that names it."""
    try:
        return Signature.of(path)
    except (NoFiles, OSError, ValueError):
        return None


def _versions_in_store(urls: Sequence[str]) -> list[tuple[int, str | None, int]]:
    """The versions of objects, without the time at which they were asked for. Empty if any object is missing: reading then names it."""
    files = list(map(RemoteFile, urls))
    try:
        fetch_heads(files)
    except NoFiles:
        return []
    versions = [file.version for file in files]
    return [(version.size, version.etag, version.modified_ns) for version in versions]


def _openings(source: Source) -> list[str]:
    """How files are opened and images decoded. Files opened in another way give other examples, or hide damage."""
    found = list(decodings_of(source.node))
    for records in records_below(source.node):
        # In some formats, the part that reads a file has the options.
        parts = (records, *getattr(records, "__dict__", {}).values())
        options = [(name, getattr(part, name, None)) for part in parts for name in ("verify", "on_corrupt", "dialect")]
        found += sorted({repr(each) for each in options if isinstance(each[1], (bool, str, CsvDialect))})
    return found


SAMPLED = 32


def _derivation(source: Source) -> list[str | None]:
    """Keys of which examples are chosen, and of what functions or memory make of them. ``None`` stands for what cannot be known.

    Files and a fingerprint do not show these. What a function reads elsewhere shows in no key, so examples throughout the source are compared, too.
    """
    nodes = list(walk(source.node))
    chosen = [each.chosen for each in nodes if isinstance(each, (Chosen, Filtered))]
    keys: list[str | None] = [cache_key(each if isinstance(each, range) else each.tobytes()) for each in chosen]
    for node in nodes:
        if not type(node).__module__.startswith("headrace."):
            keys.append(key_of_values(node))
        elif isinstance(node, ColumnNode):
            keys.append(key_of_values(node.columns))
        elif isinstance(node, ArrowNode):
            keys.append(key_of_values(_memory_of(node.table)))
        elif isinstance(node, HfNode):
            keys.append(getattr(node.dataset, "_fingerprint", None))
        elif isinstance(node, StoredNode):
            keys.append(node.folder)
        elif not isinstance(node, Filtered):  # what a filter chooses is known
            functions = _functions_of(node)
            keys += [key_of_values(functions)] if functions else []
    for records in records_below(source.node):
        keys += [key_of_values(dict(records.known_columns()))] if isinstance(records, KnowsColumns) else []
    if not isinstance(source.node, OverFiles):
        picked = np.unique(np.linspace(0, len(source) - 1, SAMPLED).astype(np.int64)) if len(source) else ()
        keys += [fingerprint_of(Chosen(source.node, range(index, index + 1))) for index in map(int, picked)]
    return keys


def _functions_of(node: Node) -> list[Any]:
    """The user's functions that a node calls, and the decoders of a prepared dataset."""
    held = list(getattr(node, "__dict__", {}).values())
    decoders = getattr(getattr(node, "codec", None), "decoders", None)
    return [
        *(each for each in held if callable(each) and not isinstance(each, type)),
        *([decoders] if decoders else []),
    ]


def _memory_of(table: Any) -> list[Any]:
    """The memory that an Arrow table uses, without a copy, and which part of it."""
    chunks = [chunk for column in table.columns for chunk in column.chunks]
    chunks += [values for chunk in chunks if "dictionary<" in str(chunk.type) for values in _dictionaries_of(chunk)]
    return [
        (
            chunk.offset,
            len(chunk),
            [None if each is None else np.frombuffer(each, np.uint8) for each in chunk.buffers()],
        )
        for chunk in chunks
    ]


def _dictionaries_of(array: Any) -> list[Any]:
    """The values of the dictionaries in an array, which are not among its own buffers."""
    types, kind = arrow().types, array.type
    if types.is_dictionary(kind):
        return [array.dictionary, *_dictionaries_of(array.dictionary)]
    inner = [getattr(array, name) for name in ("values", "storage") if hasattr(array, name)]
    fields = [array.field(at) for at in range(kind.num_fields)] if types.is_struct(kind) else []
    return [found for each in (*inner, *fields) for found in _dictionaries_of(each)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """The result of a conversion.

    Attributes:
        examples: Number of examples in the new files.
        paths: The new files.
        bytes: Their total size.
        resumed: Number of examples that an interrupted run had converted.
        skipped: Number of damaged records that were left out (``on_corrupt="skip"``).
        lost: Features that were changed or left out (``allow_loss=True``), and images that are stored without their
            ``ImageOptions``, a sentence each.
        schema: The schema of the written examples. If the format does not keep all of it, ``hr.open(dst, schema=...)``
            restores the rest.
    """

    examples: int
    paths: tuple[str, ...]
    bytes: int
    resumed: int
    skipped: int
    lost: tuple[str, ...] = ()
    schema: Schema = field(default_factory=lambda: Schema({}), repr=False)

    def _repr_html_(self) -> str | None:
        return _hooks.to_html(self)


def convert(  # noqa: PLR0913 - each is a separate choice with a default
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
    on: On = "threads",
) -> Converted:
    """Write the examples of ``src`` into new files.

    Record payloads are copied byte for byte if the codec stays the same. Finished units of work are kept in a hidden folder
    beside ``dst`` (in the cache folder if ``dst`` is a URL). After a kill or a power failure, the same call does only the
    missing units, unless files, how they are opened or decoded, columns in memory or functions have changed. Files get their names
    together, when all are complete. A conversion that is refused, or finds damage, leaves nothing behind.

    Args:
        src: A path as for :func:`headrace.open`, or a source.
        dst: As for :func:`headrace.write`.
        format, codec, compression, shards: For the new files; by default from the name.
        schema, columns: As for :func:`headrace.open`.
        on_corrupt: ``"skip"`` leaves damaged records out and counts them.
        allow_loss: Store features that the new format cannot hold as other types (float64 as float32), or leave them out, and
            list them in ``lost``. By default they are an error.
        threads: How many units are written at once, from 1; by default one per core.
        overwrite: Replace existing files, and folders that hold only arrays or images. By default they are an error.
        progress: Show a progress bar.
        on: ``"threads"`` of this process, ``"ray"`` for the cores of a Ray cluster (the one of ``RAY_ADDRESS`` or ``ray.init``,
            else one that starts here for this call), or your own engine (:class:`headrace.writing.engines.TaskEngine`). The new
            files are the same, byte for byte. All nodes must see ``src`` and the folder of ``dst`` under the same paths. In a
            store, ``dst`` needs two shards per core: a task makes a whole one, and they get their names together.

    Raises:
        UnsupportedData: ``dst`` exists, or a feature would be lost; the message says which, and why.
        NoFiles: There are no files at ``src``.
        CorruptRecord, CorruptFile: There is damage, and ``on_corrupt`` is ``"raise"``.
        SchemaMismatch: An example does not fit ``schema``.
        ValueError: ``on_corrupt`` is given with a source.
    """
    check_text(codec, "codec")
    check_names(columns, "columns")
    check_choice(on_corrupt, "on_corrupt", ("raise", "skip"))
    allow_loss, overwrite = check_flag(allow_loss, "allow_loss"), check_flag(overwrite, "overwrite")
    progress = check_flag(progress, "progress")
    threads = None if threads is None else check_integer(threads, "threads", least=1)
    target = Target.of(dst, format=format, compression=compression, shards=shards)
    source = src
    if isinstance(source, Source):
        if on_corrupt != "raise":
            raise ValueError("on_corrupt= says how files are opened: give it to hr.open, because this source is open")
        source = source if columns is None else source.select(*columns)
    else:
        source = open_source(source, schema=schema, columns=columns, on_corrupt=on_corrupt)
    with open_engine(on, threads) as engine:
        if not isinstance(engine, Threads):
            build_indexes(source, engine, show=progress)
        source, undone = make_storable(source, target.format)
        raw = codec is None and schema is None and not columns and _passes(source, target.format)
        lost: tuple[FeatureLoss, ...] = ()
        written = source.schema
        if not raw:
            check_features(source.schema, target.paths[0], target.format)
            source, written, lost = convert_to_fit(source, os.fspath(dst), target.format, codec, allow_loss=allow_loss)
            if not written and len(source):
                refuse_without_features(target.paths[0], target.format)
        with Progress("converting", len(source), "examples", show=progress) as bar:
            writer = UnitWriter(source, target, codec, raw=raw, advance=bar.advance, schema=written)
            resumed = _run(engine, writer, allow_loss=allow_loss, overwrite=overwrite)
    return Converted(
        examples=len(source),
        paths=target.paths,
        bytes=total_size(target.paths),
        resumed=resumed,
        skipped=source.skipped.records,
        lost=(*undone, *map(str, lost)),
        schema=written,
    )


def _passes(source: Source, format: str) -> bool:
    """Whether payloads are copied unchanged: raw ones, and those of the codec that the format has by default."""
    node = source.node
    if not isinstance(node, RecordNode) or format_named(format).sink is not None:
        return False
    return node.codec.name in ("raw", codec_for(source.schema.select([]), None, format).name)


def _run(engine: TaskEngine, writer: UnitWriter, *, allow_loss: bool, overwrite: bool) -> int:
    """Do what is missing; returns how many examples an earlier run had converted."""
    source, target = writer.source, writer.target
    plan = {
        "source": source.fingerprint,
        "files": _versions(source),
        "opened": _openings(source),
        "raw": writer.raw,
        "codec": writer.codec,
        "schema": writer.schema.to_json(),
        "allow_loss": allow_loss,
        "csv": repr(target.csv),
    }
    derivation = _derivation(source)
    can_resume = None not in derivation
    if derivation:
        plan["derivation"] = derivation if can_resume else os.urandom(16).hex()
    each_bytes = example_bytes(source)
    refuse_inputs(target.paths, source)
    for path in target.paths:
        check_replaceable(path, source)
    if not isinstance(engine, Threads) and is_url(target.paths[0]):
        return _run_in_store(engine, writer, plan, each_bytes, overwrite=overwrite, can_resume=can_resume)
    finish_abandoned(target.paths)
    work = WorkFolder.open(target, len(source), plan, example_bytes=each_bytes)
    try:
        # A run that is resumed may have given files their final names before it was interrupted.
        finished = work.done()
        existing = None if overwrite else first_existing([path for path in target.paths if path not in finished])
        if existing is not None:
            work.remove_if_empty()
            raise file_exists_error(existing)
        try:
            work.begin()
            resumed = work.finished_examples()
            writer.report(resumed)
            run = _run_here if isinstance(engine, Threads) else run_in_folder
            run(work, engine, writer, each_bytes)
        except FINAL:
            work.discard()
            raise
        except BaseException as error:
            if not can_resume:
                work.discard()
                error.add_note(UNKNOWN)
            elif not work.discard_if_empty():
                error.add_note("Finished work is kept: the same call resumes it.")
            raise
    finally:
        work.close()
    return resumed


def _run_in_store(
    engine: TaskEngine,
    writer: UnitWriter,
    plan: Mapping[str, Any],
    each_bytes: int,
    *,
    overwrite: bool,
    can_resume: bool,
) -> int:
    """As :func:`_run`, into a store and not by this process."""
    run = StoreRun(writer, plan, each_bytes)
    if not overwrite:
        run.check_new()
    resumed = run.finished_examples()
    writer.report(resumed)
    try:
        run.run(engine, overwrite=overwrite)
    except FINAL:
        run.discard()
        raise
    except BaseException as error:
        if not can_resume:
            if run.discard():
                error.add_note(UNKNOWN)
        elif not run.discard_if_empty():
            error.add_note("Finished work is kept: the same call resumes it.")
        raise
    return resumed


def _run_here(work: WorkFolder, engine: TaskEngine, writer: UnitWriter, _each_bytes: int) -> None:
    """Do the missing units in threads of this process, several at a time, then put the files together."""
    for unit in work.missing():
        engine.submit(EngineTask(write_units, writer, (unit,)))
    for _ in engine.finished():
        pass
    done = work.done()
    for file in work.files():
        if file.path not in done:
            join_units(file, work, threads=cores_of(engine))
    finish(work)
