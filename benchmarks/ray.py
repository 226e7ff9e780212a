"""What Ray costs and what it gains in a conversion: one worker beside a local thread, two and four workers beside one.

    python -m benchmarks.ray [--megabytes 512] [--rounds 4] [--cases array_record@8 array_record npy@8 npy] [--write]

``array_record@8`` is eight files, ``array_record`` a single one. The original is read once, and each kind of run is made once, before
anything counts: pages, indexes and imports are warm. Then the kinds take turns in the order A B B A, so that a machine that becomes slower or
faster treats both alike, and the fastest run of each counts. One and two workers are the same cluster of two cores, of which a task that
sleeps holds one or none. Starting Ray is measured apart.

What two workers can gain at most is measured too: the same examples, halved, are converted by one process without Ray, one half after the
other, and by two such processes side by side. They make a file each, so they join nothing, and none waits for another.

``--write`` puts the table into benchmarks/results/ray.md.
"""

import argparse
import contextlib
import multiprocessing
import os
import re
import shutil
import tempfile
import threading
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

import headrace as hr
from benchmarks.machine import commit, machine
from headrace._ray.connection import connect, require_ray
from headrace.writing.engines import EngineTask, RayTasks

KEPT = Path(__file__).parent / "results" / "ray.md"
WIDTH = 1024
UNIT_MEGABYTES = 64
CASES = ("array_record@8", "array_record", "npy@8", "npy")
WAIT_S, WAITS, TASKS = 0.03, 10, 48
SETTINGS = {
    "include_dashboard": False,
    "object_store_memory": 200 << 20,
    "log_to_driver": False,
    "logging_level": "error",
}


@contextlib.contextmanager
def running(cores):
    """A local Ray with this many cores and warm workers."""
    ray = require_ray()
    folder = tempfile.mkdtemp(prefix="hr-", dir="/tmp")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ray.init(address="local", num_cpus=cores, _temp_dir=folder, **SETTINGS)
        try:
            with connect() as cluster:
                for _ in range(3):  # until each core has a worker that has imported everything
                    for reference in [cluster.submit(time.sleep, 0.3) for _ in range(2 * cores)]:
                        cluster.result(reference)
            yield ray
        finally:
            ray.shutdown()
            shutil.rmtree(folder, ignore_errors=True)


def processor_time():
    """Processor seconds of this process and of the workers of its Ray."""
    ticks, total = os.sysconf("SC_CLK_TCK"), time.process_time()
    for entry in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{entry}/cmdline").read_bytes().startswith((b"ray::IDLE", b"ray::headrace")):
                fields = stat_of(entry)
                if int(stat_of(fields[1])[1]) == os.getpid():  # the raylet between them
                    total += (int(fields[11]) + int(fields[12])) / ticks
    return total


def stat_of(process):
    """The fields of a process after its name: state, parent, ..."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()


class ObjectStore(threading.Thread):
    """Watches how many bytes the object store holds."""

    def __init__(self, ray):
        super().__init__(daemon=True)
        self.ray, self.most, self.ended = ray, 0, threading.Event()

    def run(self):
        from ray._private import internal_api

        state = internal_api.get_state_from_address(self.ray.get_runtime_context().gcs_address)
        while not self.ended.wait(0.1):
            with contextlib.suppress(Exception):
                found = internal_api.get_memory_info_reply(state)
                self.most = max(self.most, found.store_stats.object_store_bytes_used)


def clear(folder):
    """Remove what the run before has made. What it has written is not the next one's to wait for."""
    for path in Path(folder).glob("b*.*"):
        path.unlink()
    os.sync()


def codec_for(target):
    return "example" if "record" in target else None


def convert(source, target, on, threads=None):
    """Seconds and processor seconds of one conversion."""
    clear(Path(target).parent)
    wall, busy = time.perf_counter(), processor_time()
    hr.convert(source, target, on=on, threads=threads, codec=codec_for(target))
    return time.perf_counter() - wall, processor_time() - busy


def convert_half(source, start, stop, target):
    """One half of the work, by a process that is not Ray's. Returns its processor seconds."""
    busy = time.process_time()
    hr.convert(hr.open(source)[start:stop], target, threads=1, codec=codec_for(target))
    return time.process_time() - busy


def side_by_side(pool, halves):
    """Seconds and processor seconds of both halves, by as many processes as a pool has."""
    clear(Path(halves[0][-1]).parent)
    wall = time.perf_counter()
    busy = sum(pool.map(convert_half, *zip(*halves, strict=True)))
    return time.perf_counter() - wall, busy


def best(rounds):
    return tuple(min(values) for values in zip(*rounds, strict=True))


def wait_for_a_store(_common, _part):
    for _ in range(WAITS):
        time.sleep(WAIT_S)


def waiting(cores):
    """Seconds for tasks that wait for a store."""
    with running(cores), connect() as cluster:
        engine = RayTasks(cluster)
        begun = time.perf_counter()
        for part in range(TASKS):
            engine.submit(EngineTask(wait_for_a_store, None, part))
        for _ in engine.finished():
            pass
        return time.perf_counter() - begun


def hold(path):
    """Occupy a worker, without work, until a file is there."""
    while not os.path.exists(path):
        time.sleep(0.02)


@contextlib.contextmanager
def one_worker(cluster, folder):
    """Leave one of two workers to others. A task holds the other one, because the process of an actor would end with it."""
    path = f"{folder}/released"
    held = cluster.submit(hold, path)
    while cluster.ray.available_resources().get("CPU", 0) > 1:
        time.sleep(0.02)
    try:
        yield
    finally:
        Path(path).touch()
        cluster.result(held)
        Path(path).unlink()
        while cluster.ray.available_resources().get("CPU", 0) < 2:
            time.sleep(0.02)


def measure(folder, case, megabytes, rounds, cluster, pools):
    """The ratios of one case, by the names of rows."""
    count = megabytes * (1 << 20) // (WIDTH * 4)
    format, _, shards = case.partition("@")
    source, target = f"{folder}/a.tfrecord", f"{folder}/b.{case}"
    half = f"@{int(shards) // 2}" if int(shards or 1) > 3 else ""
    bounds = [(0, count // 2), (count // 2, count)]
    halves = [(source, *bound, f"{folder}/b{number}.{format}{half}") for number, bound in enumerate(bounds)]

    def run_one():
        with one_worker(cluster, folder):
            return convert(source, target, "ray")

    kinds = {
        "local": lambda: convert(source, target, "threads", 1),
        "one": run_one,
        "two": lambda: convert(source, target, "ray"),
        "alone": lambda: side_by_side(pools[0], halves),
        "beside": lambda: side_by_side(pools[1], halves),
    }
    for run in kinds.values():
        run()
    found = {name: [] for name in kinds}
    for number in range(rounds):
        for name in kinds if number % 2 == 0 else reversed(kinds):
            found[name].append(kinds[name]())
    (local, local_cpu), (one, one_cpu), (two, two_cpu), (alone, _), (beside, _) = (best(found[name]) for name in kinds)
    clear(folder)
    return {
        ONE: one / local,
        ONE_CPU: one_cpu / local_cpu,
        TWO: one / two,
        TWO_CPU: two_cpu / one_cpu,
        BOUND: alone / beside,
        SECONDS: f"{local:.3g} / {one:.3g} / {two:.3g}",
    }


ONE = "one worker / one local thread, wall clock"
ONE_CPU = "the same, processor time"
TWO = "one worker / two workers, wall clock"
TWO_CPU = "two workers / one worker, processor time"
BOUND = "one process / two processes, each half of the work, without Ray"
SECONDS = "seconds: one local thread / one worker / two workers"
REQUIRED = {
    ONE: "at most 1.15",
    ONE_CPU: "at most 1.15",
    TWO: "at least 1.6",
    TWO_CPU: "at most 1.15",
    BOUND: "the most to expect of the line with two workers",
}


def measure_all(folder, cases, megabytes, rounds):
    """The table, a column for each case."""
    count = megabytes * (1 << 20) // (WIDTH * 4)
    hr.write(f"{folder}/a.tfrecord", {"x": np.random.default_rng(0).random((count, WIDTH), np.float32)})
    spawn = multiprocessing.get_context("spawn")
    with contextlib.ExitStack() as stack:
        pools = [stack.enter_context(ProcessPoolExecutor(number, mp_context=spawn)) for number in (1, 2)]
        begun = time.perf_counter()
        ray = stack.enter_context(running(2))
        cluster = stack.enter_context(connect())
        startup = time.perf_counter() - begun
        store = ObjectStore(ray)
        store.start()
        found = [measure(folder, case, megabytes, rounds, cluster, pools) for case in cases]
        store.ended.set()
        store.join()
    lines = [
        f"| figure | {' | '.join(map(described, cases))} | required |",
        f"| --- |{' ---: |' * len(cases)} --- |",
    ]
    for name in found[0]:
        lines.append(f"| {name} | {' | '.join(shown(each[name]) for each in found)} | {REQUIRED.get(name, '')} |")
    waits = f"one worker / four, each task waits {WAITS} x {WAIT_S * 1000:.0f} ms"
    others = {
        waits: (waiting(1) / waiting(4), "at least 2.8"),
        "object store during all conversions, MB": (store.most / 1e6, "below 10"),
        "starting Ray and its workers, s": (startup, ""),
    }
    lines += ["", "| figure | found | required |", "| --- | ---: | --- |"]
    lines += [f"| {name} | {shown(value)} | {required} |" for name, (value, required) in others.items()]
    return "\n".join(lines)


def described(case):
    format, _, shards = case.partition("@")
    return f"{format}, {shards} files" if shards else f"{format}, one file"


def shown(value):
    return value if isinstance(value, str) else f"{value:.3g}"


def main():
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--megabytes", type=int, default=8 * UNIT_MEGABYTES)
    options.add_argument("--rounds", type=int, default=4)
    options.add_argument("--cases", nargs="+", default=CASES)
    options.add_argument("--write", action="store_true")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="headrace-ray-") as folder:
        table = measure_all(folder, given.cases, given.megabytes, given.rounds)
    run = f"{time.strftime('%Y-%m-%d')}, commit {commit()}, Ray {require_ray().__version__}, {machine()}; {given.megabytes} MB, {given.rounds} rounds."
    table = f"{run}\n\n{table}"
    print(table)
    if given.write:
        text = KEPT.read_text()
        KEPT.write_text(
            re.sub(
                r"(<!-- ray: begin -->\n).*?(<!-- ray: end -->)",
                lambda at: f"{at[1]}\n{table}\n\n{at[2]}",
                text,
                flags=re.DOTALL,
            )
        )


if __name__ == "__main__":
    main()
