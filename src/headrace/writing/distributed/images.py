"""Damaged images in files: every image of every example is decoded, here or by other processes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headrace.codecs.images.decode import ImageDecoder, feature_of_images
from headrace.contracts.feature import Feature
from headrace.contracts.images import ImageOptions, begins_as_image
from headrace.contracts.records import ChecksFiles
from headrace.errors import DataError, NoFiles, UnsupportedData
from headrace.formats.index.parts import SentSource
from headrace.io.system import usable_cores
from headrace.io.threads import ThreadPool
from headrace.sources.decoded import DecodedNode, images_in
from headrace.sources.node import Node, records_below
from headrace.sources.open import Paths
from headrace.sources.open import open as open_source
from headrace.sources.source import Source
from headrace.sources.views import keep_features
from headrace.writing.distributed.folder import build_indexes, example_bytes, refuse_memory
from headrace.writing.engines import EngineTask, TaskEngine, Threads, cores_of, in_order, parts_of

__all__ = ["DecodedRows", "image_faults", "image_faults_by", "open_images"]

ROWS = 32
"""Examples that one thread decodes at once."""
ANY_SIZE = ImageOptions(any_size=True)


@dataclass(slots=True)
class DecodedRows:
    """The result of decoding the images of some examples."""

    records: int
    images: int = 0
    records_at_fault: int = 0
    faults: list[DataError] = field(default_factory=list)


def open_images(path: Paths, engine: TaskEngine | None = None, **options: Any) -> DecodedNode | None:
    """The examples of some files, without damaged records where the format can skip them; ``None`` where they have no images.

    Args:
        path, options: As for :func:`headrace.open`.
        engine: Finds the records of several files, if not this process.
    """
    try:
        source = open_source(path, on_corrupt="skip", **options)
        _count(source, engine)
    except UnsupportedData:  # where each file is an example, nothing follows a damaged one
        source = open_source(path, **options)
        _count(source, engine)  # A table may notice only then that its file is cut off.
    return source.node if isinstance(source.node, DecodedNode) else None


def _count(source: Source, engine: TaskEngine | None) -> int:
    if engine is not None and not isinstance(engine, Threads):
        build_indexes(source, engine)
    return len(source)


def image_faults_by(engine: TaskEngine, node: DecodedNode) -> Iterator[DecodedRows]:
    """As :func:`image_faults`, by an engine."""
    if isinstance(engine, Threads):
        yield from image_faults(node)
        return
    encoded = Source(keep_features(node.encoded(), tuple(node.stored)))
    refuse_memory(encoded)
    common = _SentImages(SentSource(encoded, records_below(encoded.node)), _image_features(node))
    parts = parts_of(np.arange(len(node)), example_bytes(encoded), len(node), cores_of(engine))
    for number, part in enumerate(parts):
        engine.submit(EngineTask(_decode_part, common, (number, part)))
    yield from in_order(engine.finished())


@dataclass(frozen=True, slots=True)
class _SentImages:
    sent: SentSource
    wanted: dict[str, Feature]


def _image_features(node: DecodedNode) -> dict[str, Feature]:
    """The features that are images: as a given schema says, else as they are stored."""
    return {name: node.given.get(name, stored) for name, stored in node.stored.items()}


def _decode_part(images: _SentImages, part: tuple[int, range]) -> tuple[int, DecodedRows]:
    number, rows = part
    found = DecodedRows(0)
    for start in range(rows.start, rows.stop, ROWS):
        some = _decode_rows(images.sent.source.node, images.wanted, start, min(start + ROWS, rows.stop))
        found.records += some.records
        _add(found, some)
    return number, found


def image_faults(node: DecodedNode, threads: int | None = None) -> Iterator[DecodedRows]:
    """Decode every image of every example, in order.

    Args:
        node: The examples.
        threads: How many decode at once; by default one per core.

    Yields:
        Some examples at a time, with an error for every damaged image: its file, record and feature.
    """
    count = threads or usable_cores()
    encoded, wanted = keep_features(node.encoded(), tuple(node.stored)), _image_features(node)
    stretches = [(start, min(start + ROWS, len(node))) for start in range(0, len(node), ROWS)]

    def check(stretch: tuple[int, int]) -> DecodedRows:
        return _decode_rows(encoded, wanted, *stretch)

    with ThreadPool(count, thread_name_prefix="headrace-verify") as pool:
        for at in range(0, len(stretches), 4 * count):  # a few at a time: results wait in memory
            yield from pool.map(check, stretches[at : at + 4 * count])


def _decode_rows(encoded: Node, wanted: dict[str, Feature], start: int, stop: int) -> DecodedRows:
    found = DecodedRows(stop - start)
    try:
        batch = encoded.batch(np.arange(start, stop))
    except DataError as error:  # read them one by one
        if stop - start == 1:
            # The path of an image that does not exist, or is not allowed. Other damage of the record was found before.
            if isinstance(error, (NoFiles, UnsupportedData)) and error.where.feature in wanted:
                return DecodedRows(1, records_at_fault=1, faults=[error])
            return found
        for row in range(start, stop):
            _add(found, _decode_rows(encoded, wanted, row, row + 1))
        return found
    # Where each file is an example, its own check has reported one that does not begin like an image.
    are_files = isinstance(records_below(encoded)[0], ChecksFiles)
    for row in range(stop - start):
        faults = []
        for name, feature in wanted.items():
            for image in images_in(batch[name][row]):
                if are_files and not begins_as_image(image):
                    continue
                found.images += 1
                fault = _fault_of(image, feature)
                if fault is not None:
                    faults.append(fault.relocated(encoded.where(start + row).at(feature=name)))
        found.faults += faults
        found.records_at_fault += bool(faults)
    return found


def _add(all_rows: DecodedRows, some: DecodedRows) -> None:
    all_rows.images += some.images
    all_rows.records_at_fault += some.records_at_fault
    all_rows.faults += some.faults


def _fault_of(image: bytes, feature: Feature) -> DataError | None:
    if not feature.is_image:
        feature = feature_of_images(Feature("bytes", encoding=feature.encoding), [image], ANY_SIZE)
    try:
        ImageDecoder(feature, ANY_SIZE, exact=True).images([image])
    except DataError as fault:
        return fault
    return None
