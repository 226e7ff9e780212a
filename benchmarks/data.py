"""The files that the benchmarks read, made once per size and kept between runs.

They are made with NumPy alone, by neither Headrace nor a peer, so that reading them checks both.
They live under ``HEADRACE_BENCH_DIR`` (default: ``headrace-bench`` in the temporary folder), never in the checkout.
"""

from __future__ import annotations

import gzip
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from benchmarks.example_bytes import framed_examples
from benchmarks.record_bytes import framed_dense, framed_sparse

WIDTH = 784
BATCH = 128
ENTRIES = 50  # of a row of the sparse matrix
ROW_BYTES = WIDTH * 4
EXAMPLE_BYTES = ROW_BYTES + 8
"""What a reader hands over per example: the image as float32 and the label as int64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much data a run reads.

    Attributes:
        rows: Examples in the TFRecord file.
        npy_rows: Rows of the npy file.
        growth: How many times larger the file of the growth workload is.
        shards: Files into which the same examples are split.
        sparse_rows: Rows of the sparse matrix.
        sparse_width: Its columns.
        images: Number of images.
        files: Small npy files, one for each example.
    """

    rows: int = 60_000
    npy_rows: int = 200_000
    growth: int = 10
    shards: int = 1_000
    sparse_rows: int = 20_000
    sparse_width: int = 100_000
    images: int = 8_000
    files: int = 5_000


FULL = Sizes()
QUICK = Sizes(rows=6_000, npy_rows=20_000, shards=100, sparse_rows=2_000, images=800)
TINY = Sizes(rows=300, npy_rows=400, growth=3, shards=5, sparse_rows=50, images=70, files=300)
SIZES = {"full": FULL, "quick": QUICK, "tiny": TINY}


def bench_folder() -> Path:
    """The folder that the data files live in."""
    return Path(os.environ.get("HEADRACE_BENCH_DIR") or Path(tempfile.gettempdir(), "headrace-bench"))


class Files:
    """The data files of one size, each made on first use."""

    def __init__(self, folder: Path, sizes: Sizes = FULL) -> None:
        self.sizes = sizes
        self.folder = folder / f"{sizes.rows}-{sizes.npy_rows}-{sizes.growth}-{sizes.shards}"
        self.folder.mkdir(parents=True, exist_ok=True)

    @cached_property
    def images(self) -> np.ndarray:
        """Images, float32 (rows, 784), uniform in [0, 1)."""
        return np.random.default_rng(42).random((self.sizes.rows, WIDTH), dtype=np.float32)

    @cached_property
    def labels(self) -> np.ndarray:
        """Labels, int64 (rows,), in 0..9."""
        return np.load(self._made("labels.npy", self._write_labels))

    @cached_property
    def image_checks(self) -> np.ndarray:
        """CRC-32 of the bytes of each image, uint32 (rows,): identifies the row and shows that no bit changed."""
        return np.load(self._made("image-checks.npy", lambda path: _save(path, row_checks(self.images))))

    @cached_property
    def npy_checks(self) -> np.ndarray:
        """CRC-32 of the bytes of each row of the npy file, uint32 (npy_rows,)."""
        rows = np.load(self.npy, mmap_mode="r")
        return np.load(self._made("npy-checks.npy", lambda path: _save(path, row_checks(rows))))

    @property
    def tfrecord(self) -> Path:
        """One TFRecord file of all examples."""
        return self._made("all.tfrecord", self._write_tfrecord)

    @property
    def tfrecord_label_first(self) -> Path:
        """The same examples with the other order of features, which TensorFlow's writer also produces."""
        return self._made("label-first.tfrecord", lambda path: self._write_tfrecord(path, label_first=True))

    @property
    def array_record(self) -> Path:
        """The same payloads as ArrayRecord, one in each chunk, under Zstandard: the defaults of its own writer.

        Written by Headrace, with the same bytes as the `array_record` package (`tests/peers`).
        """
        return self._made("all.array_record", self._write_array_record)

    @cached_property
    def payload_checks(self) -> np.ndarray:
        """CRC-32 of each payload, uint32 (rows,)."""
        records = np.memmap(self.tfrecord, np.uint8, "r").reshape(self.sizes.rows, self.record_bytes)
        return np.load(self._made("payload-checks.npy", lambda path: _save(path, row_checks(records[:, 12:-4]))))

    @property
    def float_labels(self) -> np.ndarray:
        """The labels as Linear Learner wants them, float32 (rows,)."""
        return self.labels.astype(np.float32)

    @property
    def recordio(self) -> Path:
        """The same rows and labels as RecordIO-protobuf, a dense tensor each."""
        return self._made("all.recordio", self._write_recordio)

    @cached_property
    def sparse(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows of 50 entries: values float32 (sparse_rows, 50), rising columns int32, labels float32 (sparse_rows,)."""
        rng = np.random.default_rng(3)
        rows, width = self.sizes.sparse_rows, self.sizes.sparse_width
        columns = np.sort([rng.choice(width, ENTRIES, replace=False) for _ in range(rows)], axis=1).astype(np.int32)
        return rng.random((rows, ENTRIES), np.float32), columns, rng.integers(0, 2, rows).astype(np.float32)

    @property
    def recordio_sparse(self) -> Path:
        """The sparse matrix as RecordIO-protobuf."""
        return self._made("sparse.recordio", self._write_recordio_sparse)

    @property
    def gzip(self) -> Path:
        """The same file as one gzip member of zlib's default level, as TensorFlow writes it."""
        return self._made("all.tfrecord.gz", self._write_gzip)

    @property
    def tenfold(self) -> Path:
        """The same file repeated ``growth`` times over."""
        return self._made("tenfold.tfrecord", self._write_tenfold)

    @property
    def shards(self) -> Path:
        """A folder with the same examples in ``shards`` files, ``all.tfrecord-00000-of-01000`` and so on."""
        return self._made("shards", self._write_shards)

    @property
    def npy(self) -> Path:
        """One float32 npy file of ``npy_rows`` x 784."""
        return self._made("rows.npy", self._write_npy)

    @property
    def npy_files(self) -> Path:
        """A folder of ``files`` npy files, ``00000.npy`` and so on: the first rows of the npy file, one in each."""
        return self._made(f"npy-files-{self.sizes.files}", self._write_npy_files)

    @cached_property
    def npy_file_names(self) -> list[str]:
        """The paths of those files, in order."""
        return [str(self.npy_files / f"{number:05d}.npy") for number in range(self.sizes.files)]

    @property
    def record_bytes(self) -> int:
        """Framed length of every record (all are equally long)."""
        return self.tfrecord.stat().st_size // self.sizes.rows

    @property
    def npy_offset(self) -> int:
        """The offset of the first row in the npy file."""
        return self.npy.stat().st_size - self.sizes.npy_rows * ROW_BYTES

    def prepare(self) -> None:
        """Make every file now."""
        for name in (
            "labels",
            "image_checks",
            "npy_checks",
            "payload_checks",
            "array_record",
            "tfrecord",
            "recordio",
            "recordio_sparse",
            "gzip",
            "tenfold",
            "shards",
        ):
            getattr(self, name)

    def _made(self, name: str, write: Callable[[Path], None]) -> Path:
        path = self.folder / name
        if not path.exists():
            part = self.folder / f"part.{os.getpid()}.{name}"
            write(part)
            part.replace(path)
        return path

    def _write_labels(self, path: Path) -> None:
        _save(path, np.random.default_rng(43).integers(0, 10, self.sizes.rows, dtype=np.int64))

    def _write_tfrecord(self, path: Path, *, label_first: bool = False) -> None:
        with path.open("wb") as file:
            for start in range(0, self.sizes.rows, 4096):
                part = slice(start, start + 4096)
                file.write(framed_examples(self.images[part], self.labels[part], label_first=label_first))

    def _write_array_record(self, path: Path) -> None:
        from headrace.formats.array_record.write import ArrayRecordWriter  # not imported in the processes of peers

        records = np.memmap(self.tfrecord, np.uint8, "r").reshape(self.sizes.rows, self.record_bytes)
        with ArrayRecordWriter(path) as writer:
            for record in records:
                writer.write(record[12:-4])

    def _write_recordio(self, path: Path) -> None:
        with path.open("wb") as file:
            for start in range(0, self.sizes.rows, 4096):
                part = slice(start, start + 4096)
                file.write(framed_dense(self.images[part], self.float_labels[part]))

    def _write_recordio_sparse(self, path: Path) -> None:
        path.write_bytes(framed_sparse(*self.sparse, self.sizes.sparse_width))

    def _write_gzip(self, path: Path) -> None:
        with self.tfrecord.open("rb") as plain, gzip.open(path, "wb", compresslevel=6) as packed:
            shutil.copyfileobj(plain, packed, 1 << 20)

    def _write_tenfold(self, path: Path) -> None:
        with path.open("wb") as file:
            for _ in range(self.sizes.growth):
                with self.tfrecord.open("rb") as once:
                    shutil.copyfileobj(once, file, 1 << 20)

    def _write_shards(self, path: Path) -> None:
        path.mkdir()
        data, count = np.memmap(self.tfrecord, np.uint8, "r"), self.sizes.shards
        for shard in range(count):
            first, stop = (self.sizes.rows * edge // count * self.record_bytes for edge in (shard, shard + 1))
            (path / f"all.tfrecord-{shard:05d}-of-{count:05d}").write_bytes(data[first:stop])

    def _write_npy(self, path: Path) -> None:
        _save(path, np.random.default_rng(5).random((self.sizes.npy_rows, WIDTH), dtype=np.float32))

    def _write_npy_files(self, path: Path) -> None:
        path.mkdir()
        for number, row in enumerate(np.load(self.npy, mmap_mode="r")[: self.sizes.files]):
            _save(path / f"{number:05d}.npy", row)


def row_checks(rows: np.ndarray) -> np.ndarray:
    """CRC-32 of the bytes of each row.

    Args:
        rows: Any dtype, (n, width); need not be contiguous.

    Returns:
        uint32 (n,).
    """
    return np.fromiter(_each_check(rows), np.uint32, len(rows))


def batch_bounds(rows: int) -> Iterator[tuple[int, int]]:
    """First and one past the last row of every batch of 128."""
    for start in range(0, rows, BATCH):
        yield start, min(start + BATCH, rows)


def _each_check(rows: np.ndarray) -> Iterator[int]:
    for row in rows:
        yield zlib.crc32(np.ascontiguousarray(row))


def _save(path: Path, array: np.ndarray) -> None:
    with path.open("wb") as file:
        np.lib.format.write_array(file, array)
