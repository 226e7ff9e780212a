"""Statistics of files: collected here, or in parts by other processes, on a Ray cluster or by an engine of one's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from headrace._arguments import check_flag, check_integer
from headrace.contracts.csv import CSV
from headrace.contracts.feature import Feature
from headrace.contracts.records import OnCorrupt
from headrace.contracts.schema import Schema
from headrace.contracts.values import Indices
from headrace.formats.index.parts import SentSource
from headrace.io.progress import Progress
from headrace.sources.node import encoded_node, records_below
from headrace.sources.open import Paths, is_path
from headrace.sources.open import open as open_source
from headrace.sources.source import Source
from headrace.statistics.collect import PartialStatistics, Statistics, collect, collect_rows, pick
from headrace.writing.distributed.folder import build_indexes, example_bytes, refuse_memory
from headrace.writing.engines import EngineTask, On, TaskEngine, Threads, cores_of, in_order, open_engine, parts_of

__all__ = ["collect_by", "stats"]


def stats(
    path: Paths | Source,
    *,
    sample: int | None = None,
    columns: list[str] | None = None,
    format: str | CSV | None = None,
    codec: str | None = None,
    schema: Schema | Mapping[str, Feature] | None = None,
    compression: str | None = None,
    on_corrupt: OnCorrupt = "raise",
    progress: bool = False,
    on: On = "threads",
) -> Statistics:
    """Statistics of every feature: counts, extremes, mean and standard deviation, distinct values, distribution.

    Args:
        path: As for :func:`headrace.open`, or a source. The size of an image is that of its file.
        sample: Read at most this many examples, chosen at random, or the first ones if random access would decompress
            everything first. ``None``: all, in threads.
        columns, format, codec, schema, compression, on_corrupt: As for :func:`headrace.open`.
        progress: Show a progress bar.
        on: ``"threads"`` of this process, ``"ray"`` for tasks on a Ray cluster, or your own engine; see
            :func:`headrace.convert`. The statistics are the same, except for rounding of means and deviations.

    Returns:
        ``Statistics``: ``features[name]`` has ``values``, ``empty``, ``minimum``, ``maximum``, ``mean``, ``std``, ``distinct``, ``bars`` and so on.
        Means and sums of squares are merged as Chan, Golub and LeVeque (1979) describe.

    Raises:
        DataError: A record is damaged, unless ``on_corrupt="skip"``.
        UnsupportedData: The examples are in memory, and ``on`` is not this process.
    """
    progress = check_flag(progress, "progress")
    wanted = None if sample is None else check_integer(sample, "sample", least=1)
    if isinstance(path, Source):
        source = Source(encoded_node(path.node))
        source = source if columns is None else source.select(*columns)
    else:
        source = open_source(
            path,
            format=format,
            codec=codec,
            schema=schema,
            columns=columns,
            compression=compression,
            on_corrupt=on_corrupt,
            decode=not is_path(path),  # Images in files stay encoded.
        )
    with open_engine(on) as engine, Progress("reading", wanted, "examples", show=progress) as bar:
        return collect_by(engine, source, wanted, lambda _, count: bar.advance(count), show=progress)


def collect_by(
    engine: TaskEngine,
    source: Source,
    sample: int | None,
    advance: Callable[[PartialStatistics, int], object],
    *,
    show: bool = False,
) -> Statistics:
    """As :func:`headrace.statistics.collect.collect`, by an engine.

    Parts are merged in their order, so the result does not depend on which is done first.

    Args:
        engine: Does the work.
        source, sample, advance: As there.
        show: Show a progress bar while indexes are made.

    Raises:
        UnsupportedData: The examples are in memory, and the engine is not of this process.
    """
    if isinstance(engine, Threads):
        return collect(source, sample, advance)
    refuse_memory(source)
    build_indexes(source, engine, show=show)
    total = len(source)
    picked = pick(total, sample)
    common = SentSource(source, records_below(source.node))
    for number, part in enumerate(parts_of(picked, example_bytes(source), total, cores_of(engine))):
        engine.submit(EngineTask(_collect_part, common, (number, part)))
    found = PartialStatistics(source.schema)
    for merged in in_order(engine.finished()):
        found.merge(merged)
        advance(found, merged.read)
    return Statistics({each.name: each for each in found.summaries()}, found.read, total, is_first=False)


def _collect_part(sent: SentSource, part: tuple[int, Indices | range]) -> tuple[int, PartialStatistics]:
    number, rows = part
    return number, collect_rows(sent.source, np.asarray(rows, np.int64))
