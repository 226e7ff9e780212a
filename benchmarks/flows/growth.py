"""What a conversion in a store costs on larger clusters, on paper: ``python -m benchmarks.flows.growth [--measure]``.

It plays the tasks of ``hr.convert("s3://...", "s3://...", on="ray")`` on clusters of 10 and 1,000 nodes, from figures of one machine. With ``--measure``
(needs Ray) it measures those figures first: megabytes a second that one core converts and indexes, and milliseconds of the driver for each task. The
rest are limits and prices that stores publish: see :class:`Assumed`. A task's time varies by a log-normal factor, and one in a thousand takes ten times as long.

Source of the requests: io/store (reads and parts of 8 MiB), writing/distributed/store.py (one plan, one list, one upload, one copy and one removal a shard).
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
CORES = 16


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
    node_gb_s: float = 1.25  # 10 Gbit/s
    gets_a_second: float = 5500.0  # for one prefix
    puts_a_second: float = 3500.0  # for one prefix, copies included
    get_price: float = 0.0004 / 1000
    put_price: float = 0.005 / 1000
    copies_at_once: int = 64
    record_bytes: int = 100_000
    file_bytes: int = 1 << 30
    shard_bytes: int = 1 << 30


@dataclass
class Played:
    """One conversion on one cluster."""

    seconds: dict[str, float]
    gets: int
    puts: int
    index_bytes: float
    limits: dict[str, str]

    @property
    def price(self) -> float:
        return self.gets * Assumed.get_price + self.puts * Assumed.put_price


def play_tasks(count: int, slots: int, each_s: float, driver_s: float, rng: np.random.Generator) -> float:
    """Seconds for tasks of about one length on this many cores, started and collected one by one by the driver."""
    lengths = each_s * rng.lognormal(0, 0.2, count)
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
    shard = size / shards
    a_core = min(slots, files)  # cores that read at once share the network of a node, and the requests of a prefix
    net = assumed.node_gb_s * 1e9 / max(1, min(CORES, -(-a_core // nodes)))
    seconds, limits = {}, {}
    index_s = assumed.file_bytes / min(measured.index_mb_s * 1e6, net) + assumed.latency_s * 2
    seconds["index"] = play_tasks(files, slots, index_s, driver_s, rng)
    gets = files * (assumed.file_bytes // BLOCK)
    asked = gets / assumed.gets_a_second
    limits["index"] = _limit(seconds["index"], asked, files * driver_s, measured.index_mb_s * 1e6 < net)
    seconds["index"] = max(seconds["index"], asked)
    net = assumed.node_gb_s * 1e9 / CORES / 2  # in and out
    write_s = shard / min(measured.convert_mb_s * 1e6, net) + assumed.latency_s * 4
    seconds["write"] = play_tasks(shards, slots, write_s, driver_s, rng)
    reads, parts = -(-size // BLOCK), shards * (-(-int(shard) // BLOCK) + 2)
    asked = max(reads / assumed.gets_a_second, parts / assumed.puts_a_second)
    limits["write"] = _limit(seconds["write"], asked, shards * driver_s, measured.convert_mb_s * 1e6 < net)
    seconds["write"] = max(seconds["write"], asked)
    copy_s = assumed.latency_s + shard / 200e6  # a store copies some hundred megabytes a second
    seconds["names"] = max(shards * copy_s / assumed.copies_at_once, 2 * shards / assumed.puts_a_second)
    limits["names"] = "64 copies at once"
    gets += reads
    return Played(
        seconds, gets, parts + 2 * shards + 2, size / assumed.record_bytes * measured.index_bytes_a_record, limits
    )


def _limit(played: float, requests: float, driver: float, cores: bool) -> str:
    if requests >= played:
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
            print(
                f"| {size // TERABYTE} TB | {nodes:,} | {times} | {(done.gets + done.puts) / 1e6:.1f} M | ${done.price:,.2f} | "
                f"{done.limits[slowest]} | {done.index_bytes / 1e6:,.0f} MB |"
            )


if __name__ == "__main__":
    main()
