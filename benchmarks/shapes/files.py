"""The files of a shape, written once by NumPy, plain Python, PyArrow or the reference writer, and kept between runs."""

from __future__ import annotations

import csv
import io
import itertools
import json
import os
import shutil
import zlib
from collections.abc import Callable, Iterator
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.shapes import protobuf_bytes
from benchmarks.shapes.shape import BYTES, IMAGES, TEXT, Shape
from benchmarks.shapes.values import Cells, digest_rows, make_cells

OBJECTS = "items"  # the name of the list of objects
GRID = 4  # parts of an image's height and width whose mean colours are compared


class ShapeFiles:
    """The files of one shape with this many rows."""

    def __init__(self, folder: Path, shape: Shape, rows: int, *, joined: bool = False) -> None:
        self._folder, self.shape, self.rows = folder, shape, rows
        self.shards = 1 if joined else min(shape.shards, rows)
        key = f"{shape.data_text} {rows} {self.shards} {shape.group}" + (" objects" if shape.objects else "")
        name = "".join(letter if letter.isalnum() or letter in "-~" else "_" for letter in key)[:80]
        self.root = folder / "shapes" / f"{name}_{zlib.crc32(key.encode()):08x}"

    @property
    def paths(self) -> list[str]:
        """Every file, in order."""
        return sorted(str(path) for path in (self.root / "data").iterdir())

    @property
    def path(self) -> str:
        """The file, or a pattern of all files."""
        paths = self.paths
        return paths[0] if len(paths) == 1 else str(self.root / "data" / "data-*")

    def digests(self, *, single: bool = False) -> np.ndarray:
        """As `benchmarks.shapes.values.digest_rows`, of the columns that are no images."""
        return np.load(self.root / ("digests-single.npy" if single else "digests.npy"))

    def joined(self) -> ShapeFiles:
        """The same rows in one file."""
        return ShapeFiles(self._folder, self.shape, self.rows, joined=True)

    @cached_property
    def encoded(self) -> list[bytes]:
        """The encoded image of each row."""
        data, ends = (self.root / "images.bin").read_bytes(), np.load(self.root / "image-ends.npy").tolist()
        some = [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]
        return [some[row % len(some)] for row in range(self.rows)]

    @cached_property
    def grids(self) -> np.ndarray:
        """Mean colours of the parts of each different image as Pillow decodes it, float32 (images, 4, 4, 3)."""
        return np.load(self.root / "grids.npy")

    def repeated(self, times: int) -> ShapeFiles:
        """The same files this many times, one after the other."""
        return RepeatedFiles(self, times)

    def make(self) -> ShapeFiles:
        """Write the files, unless they are there."""
        if (self.root / "done").exists():
            return self
        shutil.rmtree(self.root, ignore_errors=True)
        (self.root / "data").mkdir(parents=True)
        cells = make_cells(self.shape, self.rows)
        _WRITERS[self.shape.format](self, cells)
        images = {name for name, column in self.shape.names if column.is_image}
        others = {name: column for name, column in cells.items() if name not in images}
        np.save(self.root / "digests.npy", digest_rows(others, self.rows))
        np.save(self.root / "digests-single.npy", digest_rows(others, self.rows, single=True))
        for name in images:
            self._keep_images(cells[name].flat)
        (self.root / "done").touch()
        return self

    def warm(self) -> ShapeFiles:
        """Read every byte, so that the system that comes first does not wait for the disk."""
        for path in self.paths:
            with open(path, "rb", buffering=0) as file:
                while file.read(1 << 20):
                    pass
        return self

    def evict(self) -> ShapeFiles:
        """Have the system forget every byte, so that reading waits for the disk."""
        for path in self.paths:
            with open(path, "rb", buffering=0) as file:
                os.fsync(file.fileno())  # What has not been written yet is not forgotten.
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return self

    def remove(self) -> None:
        """Delete the files."""
        shutil.rmtree(self.root, ignore_errors=True)

    def part_paths(self) -> Iterator[tuple[slice, Path]]:
        """The rows of each file and its path."""
        bounds = np.linspace(0, self.rows, self.shards + 1).astype(int).tolist()
        end = {"array_record": "array_record", "sequence": "tfrecord"}.get(self.shape.format, self.shape.format)
        for number, (start, stop) in enumerate(itertools.pairwise(bounds)):
            part = f"-{number:05d}-of-{self.shards:05d}" if self.shards > 1 else ""
            yield slice(start, stop), self.root / "data" / f"data{part}.{end}"

    def _keep_images(self, encoded: list[bytes]) -> None:
        some = list(dict.fromkeys(encoded))
        np.save(self.root / "image-ends.npy", np.cumsum([len(each) for each in some]))
        (self.root / "images.bin").write_bytes(b"".join(some))
        np.save(self.root / "grids.npy", np.stack([grid_of(_decode(each)) for each in some]))


class RepeatedFiles(ShapeFiles):
    """Hard links to the files of a shape: they take no space on the disk, and their pages are in memory once."""

    def __init__(self, once: ShapeFiles, times: int) -> None:
        self._once, self._times = once, times
        self.shape, self.rows, self.shards = once.shape, once.rows * times, once.shards * times
        self.root = once.root.with_name(f"{once.root.name}_x{times}")

    def digests(self, *, single: bool = False) -> np.ndarray:
        """Those of the files, as often."""
        return np.tile(self._once.digests(single=single), self._times)

    @cached_property
    def encoded(self) -> list[bytes]:
        """The encoded image of each number: the rows of every copy have the same."""
        return self._once.encoded

    @cached_property
    def grids(self) -> np.ndarray:
        """Those of the files."""
        return self._once.grids

    def make(self) -> ShapeFiles:
        """Write the files, unless they are there, and link to them."""
        self._once.make()
        self.remove()
        (self.root / "data").mkdir(parents=True)
        paths = [Path(path) for path in self._once.paths] * self._times
        for number, path in enumerate(paths):
            (self.root / "data" / f"data-{number:05d}-of-{len(paths):05d}{path.suffix}").hardlink_to(path)
        return self


def grid_of(pixels: np.ndarray) -> np.ndarray:
    """Mean colours of 4 x 4 parts of an image, float32 (4, 4, 3)."""
    rows = np.array_split(pixels.astype(np.float32), GRID)
    return np.stack([[part.mean(axis=(0, 1)) for part in np.array_split(row, GRID, axis=1)] for row in rows])


def _decode(encoded: bytes) -> np.ndarray:
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(encoded)).convert("RGB"))


def _write_examples(files: ShapeFiles, cells: dict[str, Cells]) -> None:
    encode = protobuf_bytes.examples if files.shape.format == "tfrecord" else protobuf_bytes.sequence_examples
    payloads = encode(files.shape, cells, files.rows)
    for part, path in files.part_paths():
        path.write_bytes(b"".join(protobuf_bytes.framed(payloads[part])))


def _write_array_record(files: ShapeFiles, cells: dict[str, Cells]) -> None:
    """The single column of bytes as records. Written by Headrace, with the bytes of the reference writer (`tests/peers`)."""
    from headrace.formats.array_record.write import ArrayRecordWriter  # not imported in the processes of peers

    (column,) = cells.values()
    for part, path in files.part_paths():
        with ArrayRecordWriter(path, group_size=files.shape.group) as writer:
            for record in column.flat[part]:
                writer.write(record)


def _write_npy(files: ShapeFiles, cells: dict[str, Cells]) -> None:
    (column,) = cells.values()
    for part, path in files.part_paths():
        np.save(path, column.flat[part])


def _python_values(files: ShapeFiles, cells: dict[str, Cells]) -> list[tuple[Any, ...]]:
    """Every row as Python values."""
    columns = []
    for name, column in files.shape.names:
        found = cells[name]
        if column.kind in TEXT:
            values = [value.decode() for value in found.flat]
        elif column.kind in BYTES + IMAGES:
            values = found.flat
        else:
            values = found.flat.astype(_arrow_dtype(column)).tolist()
        each = column.strings or 1
        if found.lengths is not None or each > 1:
            bounds = (found.bounds if found.lengths is not None else np.arange(files.rows + 1) * each).tolist()
            values = [values[a:b] for a, b in itertools.pairwise(bounds)]
        columns.append(values)
    return list(zip(*columns, strict=True))


def _write_csv(files: ShapeFiles, cells: dict[str, Cells]) -> None:
    rows = _python_values(files, cells)
    for part, path in files.part_paths():
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow([name for name, _ in files.shape.names])
            writer.writerows(rows[part])


def _write_jsonl(files: ShapeFiles, cells: dict[str, Cells]) -> None:
    rows = _python_values(files, cells)
    names = [name for name, _ in files.shape.names]
    for part, path in files.part_paths():
        with path.open("w", encoding="utf-8") as file:
            for row in rows[part]:
                file.write(json.dumps(_with_objects(dict(zip(names, row, strict=True)), files.shape.keys)) + "\n")


def _with_objects(row: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    """The row with lists of as many values as one list of objects."""
    if not keys:
        return row
    items = [dict(zip(keys, values, strict=True)) for values in zip(*(row.pop(key) for key in keys), strict=True)]
    return row | {OBJECTS: items}


def _arrow_dtype(column: Any) -> np.dtype:
    """Integers in the narrowest dtype that holds them, as people store them in typed files."""
    if column.kind not in "in":
        return np.dtype({"f": f"float{column.size[0]}", "u": "uint8", "t": "bool"}.get(column.kind, "int64"))
    bits = column.size[1].bit_length() if column.size[0] == 0 else column.size[0]
    return np.dtype(f"int{next(width for width in (8, 16, 32, 64) if bits < width)}")


def arrow_table(files: ShapeFiles, cells: dict[str, Cells]) -> Any:
    """The columns as a PyArrow table."""
    import pyarrow as pa

    columns = {}
    for name, column in files.shape.names:
        found = cells[name]
        if isinstance(found.flat, list):
            values = pa.array([v.decode() for v in found.flat] if column.kind in TEXT else found.flat)
        else:
            values = pa.array(found.flat.reshape(-1).astype(_arrow_dtype(column)))
        if column.shape and not column.is_image:
            values = pa.FixedSizeListArray.from_arrays(values, prod(column.shape))
        if found.lengths is not None:
            values = pa.ListArray.from_arrays(pa.array(found.bounds.astype(np.int32)), values)
        columns[name] = values
    if keys := files.shape.keys:
        lists = [columns.pop(key) for key in keys]
        items = pa.StructArray.from_arrays([each.values for each in lists], keys)
        columns[OBJECTS] = pa.ListArray.from_arrays(lists[0].offsets, items)
    return pa.table(columns)


def _write_parquet(files: ShapeFiles, cells: dict[str, Cells]) -> None:
    import pyarrow.parquet as pq

    table = arrow_table(files, cells)
    for part, path in files.part_paths():
        pq.write_table(table.slice(part.start, part.stop - part.start), path)


_WRITERS: dict[str, Callable[[ShapeFiles, dict[str, Cells]], None]] = {
    "tfrecord": _write_examples,
    "sequence": _write_examples,
    "array_record": _write_array_record,
    "npy": _write_npy,
    "csv": _write_csv,
    "jsonl": _write_jsonl,
    "parquet": _write_parquet,
}
