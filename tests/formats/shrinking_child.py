"""Run in a process of its own by test_shrinking.py: truncates a file during every kind of read, and prints the results.

    python shrinking_child.py FOLDER FORMAT

Prints JSON: ``[[way, cut, outcome, message], ...]``. Outcomes are "error", "equal", "harmless" (equal, as no data
were lost), and the failures "wrong" and "stale".
"""

from __future__ import annotations

import gc
import itertools
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np

import headrace as hr
from headrace.io.local import mapped, signatures

ROWS = 150
NOTE_BYTES = 100
SUFFIXES = {
    "tfrecord": "a.tfrecord",
    "tfrecord.gz": "a.tfrecord.gz",
    "array_record": "a.array_record",
    "riegeli": "a.riegeli",
    "recordio": "a.rec",
    "npy": "a.npy",
    "fortran": "a.npy",
    "npz": "a.npz",
    "csv": "a.csv",
    "csv.gz": "a.csv.gz",
    "webdataset": "a.tar",
    "jsonl": "a.jsonl",
    "avro": "a.avro",
    "parquet": "a.parquet",
}
FRAMED = ("tfrecord", "tfrecord.gz", "array_record", "riegeli", "recordio", "csv", "csv.gz", "npy")


def columns(rows: int = ROWS) -> dict[str, Any]:
    """Nonzero values, so that lost bytes show."""
    numbers = np.random.default_rng(1)
    return {
        "x": numbers.integers(1, 1 << 30, (rows, 18)).astype(np.int32),
        "y": numbers.integers(1, 100, rows).astype(np.int32),
    }


def make(folder: Path, format: str) -> str:
    path = folder / SUFFIXES[format]
    data = columns()
    if format == "fortran":
        np.save(path, np.asfortranarray(data["x"]))
    elif format == "npy":
        np.save(path, data["x"])
    elif format == "npz":
        np.savez(path, **data)
    elif format == "riegeli":
        hr.write_records(path.with_suffix(".array_record"), [row.tobytes() for row in data["x"]])
        path.with_suffix(".array_record").rename(path)
    elif format.startswith("csv"):
        flat = {f"x{i}": data["x"][:, i] for i in range(18)}
        hr.write(path, hr.ColumnSource({**flat, "y": data["y"]}))
    else:
        hr.write(path, hr.ColumnSource(data), **({"format": "recordio"} if format == "recordio" else {}))
    return str(path)


def flat(batch: dict[str, Any]) -> list[Any]:
    return [np.asarray(values).tolist() for _, values in sorted(batch.items())]


def by_batch(source: Any) -> Any:
    return flat(source.batch(np.random.default_rng(2).permutation(len(source))))


def by_index(source: Any) -> Any:
    return [flat(source[i]) for i in range(len(source) - 1, -1, -1)]


def in_order(source: Any) -> Any:
    return [flat(example) for example in source]


def by_threads(source: Any) -> Any:
    return [flat(batch) for batch in hr.Loader(source, 32, shuffle=True, threads=3)]


def by_loader(source: Any) -> Any:
    return [flat(batch) for batch in hr.Loader(source, 32, threads=1)]


def by_workers(source: Any) -> Any:
    return [flat(batch) for batch in hr.Loader(source, 100, shuffle=True, workers=1, start_method="fork")]


def record_views(records: Any) -> Any:
    """As users get them; with HEADRACE_MAPPED_BYTES=0 any use is safe."""
    return [bytes(records[i]) for i in range(len(records))]


def record_iteration(records: Any) -> Any:
    return [bytes(payload) for payload in records]


def record_spans(records: Any) -> Any:
    return records.spans(np.arange(len(records))).to_bytes()


def record_stream(records: Any) -> Any:
    return list(itertools.chain.from_iterable(spans.to_bytes() for _, spans in records.iter_spans()))


def ways(format: str) -> Iterator[tuple[str, Callable[[str], Any], Callable[[Any], Any]]]:
    """Name, opener, reader."""

    def opened(path: str) -> Any:
        source = hr.open(path)
        if len(source) and format not in ("avro", "parquet"):  # these keep the block in memory
            source.batch(np.arange(len(source))[-1:])
        return source

    def recorded(path: str) -> Any:
        records = hr.records(path, **({"format": format} if format in ("riegeli", "recordio") else {}))
        len(records)
        records.spans(np.arange(len(records))[-1:])
        return records

    if format != "riegeli":
        for way in (by_batch, by_index, in_order, by_threads, by_loader, by_workers):
            yield way.__name__, opened, way
    if format in FRAMED:
        yield "record_spans", recorded, record_spans
        yield "record_stream", recorded, record_stream
        if os.environ.get("HEADRACE_MAPPED_BYTES") == "0":
            yield "record_views", recorded, record_views
            yield "record_iteration", recorded, record_iteration


def outcome(read: Callable[[Any], Any], source: Any, expected: Any, stale: bool = False) -> tuple[str, str]:
    try:
        found = read(source)
    except hr.DataError as error:
        return "error", f"{type(error).__name__}: {error}"
    return ("equal" if found == expected else "stale" if stale else "wrong"), ""


class Victim:
    """The file that is mapped, which may be a copy in the cache."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.content = Path(path).read_bytes()
        status = os.stat(path)
        self.times = (status.st_atime_ns, status.st_mtime_ns)

    def can_lose(self, cut: int) -> bool:
        """Whether there is no data after ``cut``: only zeros, which read the same when lost, or the note of the cache."""
        is_note = self.path.endswith(".inflated") and cut >= len(self.content) - NOTE_BYTES
        return is_note or not any(self.content[cut:])

    def restore(self) -> None:
        """In place, so that it stays the same file."""
        with open(self.path, "r+b") as file:
            file.write(self.content)
            file.truncate(len(self.content))
        os.utime(self.path, ns=self.times)


def cuts(size: int) -> list[int]:
    page = 4096
    middle = size // 2 // page * page
    return sorted({0, middle, middle + 1000, size - 1000, size - 1} & set(range(size)))


def cut_after_opening(path: str, format: str) -> Iterator[list[Any]]:
    for name, opened, read in ways(format):
        source = opened(path)
        expected = read(source)
        names = {file.opened for file in mapped_files() if not file.opened.endswith(".psindex")}
        for victim in map(Victim, names):
            few = slice(2) if read is by_workers else slice(None)  # each starts a process
            for cut in cuts(len(victim.content))[few]:
                victim.restore()
                source = opened(path)
                os.truncate(victim.path, cut)
                found, message = outcome(read, source, expected)
                yield [name, cut, "harmless" if found == "equal" and victim.can_lose(cut) else found, message]
                victim.restore()
                yield [name + " restored", cut, *outcome(read, source, expected, stale=True)]


def ways_that_open(path: str, format: str) -> dict[str, Callable[[], Any]]:
    """Open the file again and read all of it."""

    def verified() -> Any:
        try:
            report = hr.verify(path, format="npy" if format == "fortran" else format.split(".", maxsplit=1)[0])
        except hr.CorruptFile as error:
            return f"raised and not reported: {error}"
        if report.faults:
            raise report.faults[0]
        return None

    def converted() -> Any:
        hr.convert(path, path + ".out.tfrecord", overwrite=True)
        return hr.open(path + ".out.tfrecord").batch(np.arange(ROWS))["y"].tolist()

    def everything() -> Any:
        source = hr.open(path)
        return flat(source.batch(np.arange(len(source))))

    if format == "riegeli":  # records only, and no checks
        return {}
    ways = {"verify": verified, "open": everything}
    return ways if format in ("npy", "fortran") else {**ways, "convert": converted}


class Cutter:
    """Truncate the file right after it is mapped for the ``at``-th time."""

    def __init__(self, path: str, cut: int, at: int) -> None:
        self.path, self.cut, self.left = path, cut, at
        self._original = mapped._map_natively

    def __enter__(self) -> Self:
        mapped._map_natively = self._map
        return self

    def __exit__(self, *args: object) -> None:
        mapped._map_natively = self._original

    def _map(self, fd: int, shown: str, opened: str, among: Any) -> Any:
        found = self._original(fd, shown, opened, among)
        if shown == self.path:
            self.left -= 1
            if self.left == -1:
                os.truncate(opened, self.cut)
        return found


def cut_while_opening(path: str, format: str) -> Iterator[list[Any]]:
    """The file is truncated right after it is mapped for the first, second, ... time."""
    victim = Victim(path)
    for name, way in ways_that_open(path, format).items():
        victim.restore()
        forget()
        expected = way()
        for cut, at in itertools.product(cuts(len(victim.content)), range(3)):
            victim.restore()
            forget()
            with Cutter(path, cut, at):
                yield [f"{name} at {at}", cut, *outcome(lambda _, way=way: way(), None, expected)]
    victim.restore()


def forget() -> None:
    shutil.rmtree(os.environ["HEADRACE_CACHE_DIR"], ignore_errors=True)


def mapped_files() -> list[Any]:
    return [found for found in gc.get_objects() if isinstance(found, mapped.MappedFile)]


def main() -> None:
    os.fsync = os.fstat  # No file here must survive a power failure.
    signatures.TICK_NS = (
        0  # Every change here is one of the size, so there is no need to wait until its time would show it.
    )
    folder, format = Path(sys.argv[1]), sys.argv[2]
    path = make(folder, format)
    found = [*cut_after_opening(path, format), *cut_while_opening(path, format)]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
