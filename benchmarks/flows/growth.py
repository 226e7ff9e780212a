"""What a conversion in a store costs on larger clusters, on paper: ``python -m benchmarks.flows.growth [--measure]``.

It plays the tasks of ``hr.convert("s3://...", "s3://...", on="ray")`` on clusters of 10 and 1,000 nodes, from figures of one machine. With ``--measure``
(needs Ray) it measures those figures first: megabytes a second that one core converts and indexes, and milliseconds of the driver for each task. The
rest are limits and prices that stores publish: see :class:`Assumed`. A task's time varies by a log-normal factor, and one in a thousand takes ten times as long.

Source of the requests: io/store (reads and parts of 8 MiB), writing/distributed/store.py. ``tests/benchmarks/test_growth.py`` compares :func:`requests_of`
with what a store counts, and :func:`play_tasks` with sums that are known.
"""

from __future__ import annotations

import argparse
import heapq
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

TERABYTE = 10**12
BLOCK = 8 << 20
FIRST_BLOCK = 256 << 10
CORES = 16
AT_ONCE = 64
"""Requests of one process at a time (``HEADRACE_REQUESTS``)."""
COPIED_BYTES_A_SECOND = 200e6
"""Of one object, by the store itself."""


@dataclass(frozen=True)
class Measured:
    """Of one machine: two AMD cores, 2026-11-23, records of 100 kB in the page cache."""

    convert_mb_s: float = 346.0
    index_mb_s: float = 16_650.0
    driver_ms: float = 1.05
    index_bytes_a_record: float = 2.0


@dataclass(frozen=True)
class Assumed:
    """Of a store and a network, as their providers state them in 2026."""

    latency_s: float = 0.03
    node_gb_s: float = 1.25  # 10 Gbit/s, in and out together
    gets_a_second: float = 5500.0  # for one prefix
    puts_a_second: float = 3500.0  # for one prefix, copies and removals included
    get_price: float = 0.0004 / 1000
    put_price: float = 0.005 / 1000
    record_bytes: int = 100_000
    file_bytes: int = 1 << 30
    shard_bytes: int = 1 << 30


@dataclass
class Played:
    """One conversion on one cluster."""

    seconds: dict[str, float]
    requests: Requests
    index_bytes: float
    limits: dict[str, str]

    @property
    def price(self) -> float:
        return self.requests.gets * Assumed.get_price + self.requests.puts * Assumed.put_price


@dataclass(frozen=True)
class Requests:
    """What a conversion asks of a store."""

    gets: int
    """Also HEAD."""
    puts: int
    """Also POST, copies and listings, which cost as much."""
    removals: int
    """They cost nothing."""


def requests_of(files: int, file_bytes: int, shards: int, shard_bytes: int) -> Requests:
    """The requests for so many files, of this size each, into so many shards."""
    index = files * (3 + stream_blocks(file_bytes))  # size and version are asked for three times: types, size, index
    # A batch of 64 MiB takes one request more than it has blocks; a shard lies in two files.
    reads = shards * (2 + -(-shard_bytes * 9 // (8 * BLOCK)))
    parts = shards * (1 if shard_bytes <= BLOCK else 2 + -(-shard_bytes // BLOCK))
    # Of each shard: whether it is there, before and after its task, by a HEAD and a listing; its version, before it is copied, and that of what has its
    # name, before and after; its copy, and its size at the end. For all of them, a journal is looked for three times, written and removed.
    return Requests(index + reads + 6 * shards + 3, parts + 3 * shards + 3, shards + 3)


def stream_blocks(size: int) -> int:
    """The requests for reading an object in order: the first one is small, and each is twice the one before, up to 8 MiB."""
    count, block = 0, FIRST_BLOCK
    while size > 0:
        if block == BLOCK:
            return count + -(-size // BLOCK)
        count, size, block = count + 1, size - block, 2 * block
    return count


def play_tasks(
    count: int, slots: int, each_s: float, driver_s: float, rng: np.random.Generator, *, varies: bool = True
) -> float:
    """Seconds for tasks of about one length on this many cores, started and collected one by one by the driver."""
    lengths = np.full(count, each_s)
    if varies:
        lengths *= rng.lognormal(0, 0.2, count)
        lengths[rng.random(count) < 0.001] *= 10
    free = [0.0] * min(slots, count)
    heapq.heapify(free)
    driver = last = 0.0
    for length in lengths.tolist():
        driver += driver_s
        end = max(heapq.heappop(free), driver) + length
        heapq.heappush(free, end)
        last = max(last, end)
    return max(last, count * driver_s)


def play(size: int, nodes: int, measured: Measured, assumed: Assumed) -> Played:
    """One conversion of ``size`` bytes into as many."""
    rng = np.random.default_rng(0)
    slots, driver_s = nodes * CORES, measured.driver_ms / 1000
    files, shards = -(-size // assumed.file_bytes), -(-size // assumed.shard_bytes)
    shards = max(shards, 2 * slots)
    shard = size // shards
    asked = requests_of(files, assumed.file_bytes, shards, shard)
    seconds, limits = {}, {}

    busy = min(CORES, -(-files // nodes))  # cores of a node that read at once, and share its network
    net = assumed.node_gb_s * 1e9 / busy
    each_s = assumed.file_bytes / min(measured.index_mb_s * 1e6, net) + 2 * assumed.latency_s
    played, gets = play_tasks(files, slots, each_s, driver_s, rng), files * (3 + stream_blocks(assumed.file_bytes))
    seconds["index"] = max(played, gets / assumed.gets_a_second)
    limits["index"] = _limit(played, seconds["index"], files * driver_s, measured.index_mb_s * 1e6 < net)

    net = assumed.node_gb_s * 1e9 / CORES / 2  # in and out
    each_s = shard / min(measured.convert_mb_s * 1e6, net) + 4 * assumed.latency_s
    played, puts = play_tasks(shards, slots, each_s, driver_s, rng), asked.puts - shards
    seconds["write"] = max(played, (asked.gets - gets) / assumed.gets_a_second, puts / assumed.puts_a_second)
    limits["write"] = _limit(played, seconds["write"], shards * driver_s, measured.convert_mb_s * 1e6 < net)

    copy_s = assumed.latency_s + shard / COPIED_BYTES_A_SECOND
    checks_s = 7 * assumed.latency_s  # is each shard there (two), three versions, its size, its removal
    played = shards * (copy_s + checks_s) / AT_ONCE
    seconds["names"] = max(played, 2 * shards / assumed.puts_a_second)
    limits["names"] = f"{AT_ONCE} copies at once" if seconds["names"] == played else "requests to one prefix"
    index_bytes = size / assumed.record_bytes * measured.index_bytes_a_record
    return Played(seconds, asked, index_bytes, limits)


def _limit(played: float, seconds: float, driver: float, cores: bool) -> str:
    if seconds > played:
        return "requests to one prefix"
    if driver > 0.8 * played:
        return "the driver"
    return "cores" if cores else "network of a node"


def measure() -> Measured:
    """The figures of this machine."""
    import headrace as hr
    from headrace._ray.connection import connect
    from headrace.writing.engines import EngineTask, RayTasks

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.tfrecord"
        rows = 4000
        content = np.random.default_rng(0).bytes(100_000)
        hr.write(path, ({"x": content, "row": row} for row in range(rows)))
        size = path.stat().st_size
        os.environ["HEADRACE_CACHE_DIR"] = folder + "/cache"
        begun = time.perf_counter()
        len(hr.open(path))
        index = size / (time.perf_counter() - begun) / 1e6
        begun = time.perf_counter()
        hr.convert(path, Path(folder) / "b.array_record", threads=1)
        convert = size / (time.perf_counter() - begun) / 1e6
    with connect() as cluster:
        engine, tasks = RayTasks(cluster), 2000
        for _ in range(2):
            begun = time.perf_counter()
            for part in range(tasks):
                engine.submit(EngineTask(_do_nothing, None, part))
            for _ in engine.finished():
                pass
        driver = 1000 * (time.perf_counter() - begun) / tasks
    return Measured(convert, index, driver)


def _do_nothing(_common: object, _part: object) -> None:
    """A task that takes no time."""


def _time(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 2 * 3600 else f"{seconds / 3600:.1f} h"


def main() -> None:
    """Print the table of docs/distributed.md."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--measure", action="store_true", help="measure this machine first (needs Ray)")
    measured = measure() if parser.parse_args().measure else Measured()
    print(
        f"one core: converts {measured.convert_mb_s:.0f} MB/s, indexes {measured.index_mb_s:.0f} MB/s; driver: {measured.driver_ms:.2f} ms a task\n"
    )
    print(
        "| data | nodes of 16 cores | index | write | names | requests | of the store's price | slowest part waits for | indexes |"
    )
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- | ---: |")
    for size in (TERABYTE, 100 * TERABYTE):
        for nodes in (10, 1000):
            done = play(size, nodes, measured, Assumed())
            slowest = max(done.seconds, key=lambda part: done.seconds[part])
            times = " | ".join(_time(done.seconds[part]) for part in ("index", "write", "names"))
            count = done.requests.gets + done.requests.puts + done.requests.removals
            print(
                f"| {size // TERABYTE} TB | {nodes:,} | {times} | {count / 1e6:.1f} M | ${done.price:,.2f} | "
                f"{done.limits[slowest]} | {done.index_bytes / 1e6:,.0f} MB |"
            )


if __name__ == "__main__":
    main()
