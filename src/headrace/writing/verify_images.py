"""Which of the images in some files cannot be decoded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headrace.codecs.images.decode import ImageDecoder, feature_of_images
from headrace.contracts.feature import Feature
from headrace.contracts.image_options import ImageOptions
from headrace.errors import DataError, NoFiles, UnsupportedData
from headrace.io.cores import usable_cores
from headrace.io.threads import ThreadPool
from headrace.sources.decoded import DecodedSource, images_in
from headrace.sources.opening import Paths
from headrace.sources.opening import open as open_source

__all__ = ["DecodedRows", "image_faults", "open_images"]

ROWS = 32
"""How many examples one thread takes at once."""
ANY_SIZE = ImageOptions(any_size=True)


@dataclass(slots=True)
class DecodedRows:
    """Some examples whose images were decoded."""

    records: int
    images: int = 0
    records_at_fault: int = 0
    faults: list[DataError] = field(default_factory=list)


def open_images(path: Paths, **options: Any) -> DecodedSource | None:
    """The examples of some files, without damaged records where the format can pass over them; ``None`` where none has images."""
    try:
        source = open_source(path, on_corrupt="skip", **options)
        len(source)
    except UnsupportedData:  # Where each file is an example, there is nothing to go on behind.
        source = open_source(path, **options)
    return source if isinstance(source, DecodedSource) else None


def image_faults(source: DecodedSource, threads: int | None = None) -> Iterator[DecodedRows]:
    """Decode every image of every example, in order.

    Args:
        source: The examples.
        threads: How many decode at once; by default one per core.

    Yields:
        A stretch of examples at a time, with an error for every image that is damaged: its file, its record, its feature.
    """
    count = threads or usable_cores()
    encoded = source.encoded().select(*source.stored)
    stretches = [(start, min(start + ROWS, len(source))) for start in range(0, len(source), ROWS)]

    def checked(stretch: tuple[int, int]) -> DecodedRows:
        return _checked(encoded, source.stored, *stretch)

    with ThreadPool(count, thread_name_prefix="headrace-verify") as pool:
        for at in range(0, len(stretches), 4 * count):  # some at a time: what waits lies in memory
            yield from pool.map(checked, stretches[at : at + 4 * count])


def _checked(encoded: Any, stored: dict[str, Feature], start: int, stop: int) -> DecodedRows:
    found = DecodedRows(stop - start)
    try:
        batch = encoded.batch(np.arange(start, stop))
    except DataError as error:  # The others are looked at one by one.
        if stop - start == 1:
            # A path of an image that leads nowhere, or where it must not. Other damage of the record itself was found before.
            if isinstance(error, (NoFiles, UnsupportedData)) and error.where.feature in stored:
                return DecodedRows(1, records_at_fault=1, faults=[error])
            return found
        for row in range(start, stop):
            _add(found, _checked(encoded, stored, row, row + 1))
        return found
    for row in range(stop - start):
        faults = []
        for name, feature in stored.items():
            for image in images_in(batch[name][row]):
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


def _fault_of(image: bytes, stored: Feature) -> DataError | None:
    feature = feature_of_images(Feature("bytes", encoding=stored.encoding), [image], ANY_SIZE)
    try:
        ImageDecoder(feature, ANY_SIZE, exact=True).images([image])
    except DataError as fault:
        return fault
    return None
