"""The timed steps, each prepared for repeated calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

import headrace as hr
from benchmarks.data import BATCH, EXAMPLE_BYTES, ROW_BYTES, Files
from headrace import _native
from headrace.codecs.example.codec import ExampleCodec


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """One step.

    Attributes:
        name: What it does.
        call: Does it once.
        items: Items that one call handles.
        item_bytes: Bytes per item, or 0 where there are none.
    """

    name: str
    call: Callable[[], object]
    items: int
    item_bytes: int = 0


def bodies(files: Files) -> Iterator[Body]:
    """All steps over the files."""
    yield from _checksums()
    yield from _records(files)
    yield from _array_records(files)
    yield from _examples(files)
    yield from _orders()
    yield from _rows(files)


def _checksums() -> Iterator[Body]:
    for size in (3_174, 1 << 20):
        data = np.random.default_rng(1).bytes(size)
        name = f"crc32c of {size:,} bytes ({_native.crc32c_engine()})"
        yield Body(name=name, call=lambda data=data: _native.crc32c(data), items=1, item_bytes=size)


def _records(files: Files) -> Iterator[Body]:
    data = np.memmap(files.tfrecord, np.uint8, "r")
    rows, size = files.sizes.rows, files.record_bytes
    for verify in (False, True):
        yield Body(
            name=f"scan of a TFRecord file, verify={verify}",
            call=lambda verify=verify: _native.scan_tfrecord(data, 0, len(data), verify=verify, max_records=rows),
            items=rows,
            item_bytes=size if verify else 0,  # without checksums it only skips over the payloads
        )
    records = hr.records(files.tfrecord)
    chosen = _chosen(rows)
    yield Body(name="records.spans of 128 random records", call=lambda: records.spans(chosen), items=BATCH)


def _array_records(files: Files) -> Iterator[Body]:
    for size in (3_174, 1 << 20):
        data = np.random.default_rng(1).bytes(size)
        name = f"riegeli hash of {size:,} bytes"
        yield Body(name=name, call=lambda data=data: _native.riegeli_hash(data), items=1, item_bytes=size)
    records, chosen = hr.records(files.array_record), _chosen(files.sizes.rows)
    name = "records.spans of 128 random ArrayRecord records"
    yield Body(name=name, call=lambda: records.spans(chosen), items=BATCH, item_bytes=EXAMPLE_BYTES)
    yield Body(name="one ArrayRecord record", call=lambda: records[7], items=1, item_bytes=EXAMPLE_BYTES)


def _examples(files: Files) -> Iterator[Body]:
    source, records = hr.open(files.tfrecord), hr.records(files.tfrecord)
    codec = ExampleCodec(source.schema)
    spans = {verify: _first(files, verify=verify) for verify in (False, True)}
    for verify, some in spans.items():
        name = f"decode of a batch of 128, verify={verify}"
        yield Body(name=name, call=lambda some=some: codec.decode_batch(some), items=BATCH, item_bytes=EXAMPLE_BYTES)
    batch = codec.decode_batch(records.spans(np.arange(BATCH)))
    yield Body(
        name="encode of a batch of 128",
        call=lambda: codec.encode_batch(batch, BATCH, 12, 4),
        items=BATCH,
        item_bytes=EXAMPLE_BYTES,
    )
    chosen = _chosen(files.sizes.rows)
    name = "source.batch of 128 random examples"
    yield Body(name=name, call=lambda: source.batch(chosen), items=BATCH, item_bytes=EXAMPLE_BYTES)


def _orders() -> Iterator[Body]:
    for n in (60_000, 10**9):
        name = f"permutation of {n:,}, 128 positions"
        yield Body(name=name, call=lambda n=n: _native.permute(n, 1, 0, 512, 512 + BATCH), items=BATCH)
        name = f"permutation of {n:,}, 16,384 positions"
        yield Body(name=name, call=lambda n=n: _native.permute(n, 1, 0, 512, 512 + 16_384), items=16_384)


def _rows(files: Files) -> Iterator[Body]:
    data = np.memmap(files.npy, np.uint8, "r")
    rows, offset = files.sizes.npy_rows, files.npy_offset
    orders = {"random": _chosen(rows), "consecutive": np.arange(BATCH)}
    for order, indices in orders.items():
        yield Body(
            name=f"take_rows of 128 {order} rows",
            call=lambda indices=indices: _native.take_rows(data, offset, ROW_BYTES, rows, indices),
            items=BATCH,
            item_bytes=ROW_BYTES,
        )


def _first(files: Files, *, verify: bool) -> _native.Spans:
    return hr.records(files.tfrecord, verify=verify).spans(np.arange(BATCH))


def _chosen(rows: int) -> np.ndarray:
    return np.random.default_rng(7).integers(0, rows, BATCH)
