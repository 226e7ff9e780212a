"""What Ray costs and what it gains in a conversion: one worker beside a local thread, two and four workers beside one.

    python -m benchmarks.ray [--megabytes 256] [--rounds 4] [--format array_record] [--shards 1] [--write]

The original is read once, and each kind of run is made once, before anything counts: pages, indexes and imports are warm. Then the kinds take
turns in the order A B B A, so that a machine that becomes slower or faster treats both alike, and the fastest run of each counts. One and two
workers are the same cluster of two cores, of which a task that sleeps holds one or none. Starting Ray is measured apart. ``--write`` puts the
table into benchmarks/results/ray.md.
"""

import argparse
import contextlib
import os
import re
import shutil
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np

import headrace as hr
from headrace._ray.connection import connect, require_ray
from headrace.writing.engines import EngineTask, RayTasks

KEPT = Path(__file__).parent / "results" / "ray.md"
WIDTH = 1024
UNIT_MEGABYTES = 64
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


def convert(source, target, on, threads=None):
    """Seconds and processor seconds of one conversion."""
    for path in Path(target).parent.glob("b.*"):
        path.unlink()
    os.sync()  # what the run before has written is not this one's to wait for
    codec = "example" if "record" in target else None
    wall, busy = time.perf_counter(), processor_time()
    hr.convert(source, target, on=on, threads=threads, codec=codec)
    return time.perf_counter() - wall, processor_time() - busy


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


def measure(folder, megabytes, rounds, format="array_record", shards=1):
    count = megabytes * (1 << 20) // (WIDTH * 4)
    source, target = f"{folder}/a.tfrecord", f"{folder}/b.{format}" + (f"@{shards}" if shards > 1 else "")
    hr.write(source, {"x": np.random.default_rng(0).random((count, WIDTH), np.float32)})
    begun = time.perf_counter()
    with running(2) as ray, connect() as cluster:
        startup = time.perf_counter() - begun
        store = ObjectStore(ray)
        store.start()

        def run_one():
            with one_worker(cluster, folder):
                return convert(source, target, "ray")

        kinds = {
            "local": lambda: convert(source, target, "threads", 1),
            "one": run_one,
            "two": lambda: convert(source, target, "ray"),
        }
        for run in kinds.values():
            run()
        found = {name: [] for name in kinds}
        for number in range(rounds):
            for name in kinds if number % 2 == 0 else reversed(kinds):
                found[name].append(kinds[name]())
        store.ended.set()
        store.join()
    (local, local_cpu), (one, one_cpu), (two, two_cpu) = (best(found[name]) for name in kinds)
    return [
        ("starting Ray and its workers, s", startup, ""),
        ("one worker / one local thread, wall clock", one / local, "at most 1.15"),
        ("the same, processor time", one_cpu / local_cpu, "at most 1.15"),
        ("one worker / two workers, wall clock", one / two, "at least 1.6"),
        ("two workers / one worker, processor time", two_cpu / one_cpu, "at most 1.15"),
        (
            f"one worker / four, each task waits {WAITS} x {WAIT_S * 1000:.0f} ms",
            waiting(1) / waiting(4),
            "at least 2.8",
        ),
        ("object store during the conversion, MB", store.most / 1e6, "below 10"),
    ]


def main():
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--megabytes", type=int, default=4 * UNIT_MEGABYTES)
    options.add_argument("--rounds", type=int, default=4)
    options.add_argument("--format", default="array_record")
    options.add_argument("--shards", type=int, default=1)
    options.add_argument("--write", action="store_true")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="headrace-ray-") as folder:
        rows = measure(folder, given.megabytes, given.rounds, given.format, given.shards)
    lines = ["| figure | found | required |", "| --- | --- | --- |"]
    lines += [f"| {name} | {value:.3g} | {required} |" for name, value, required in rows]
    table = "\n".join(lines)
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
