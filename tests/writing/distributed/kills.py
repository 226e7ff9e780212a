"""Kills during conversions on a cluster: workers, nodes and drivers, into a folder and into a store.

    python -m tests.writing.distributed.kills --seeds 100

Each seed chooses a format, a place, what is killed, and after how many results. Whatever is killed: no file under a final name is partial,
the same call finishes the work, the bytes are those of a local conversion, and nothing is left behind.
"""

import argparse
import contextlib
import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from tests.clusters import running_cluster
from tests.io.store_server import environment, serving_store

import headrace as hr
from headrace.writing import units

N = 12_000
UNIT = 250
SHARDS = 7
"""Into a folder, with two cores: a task makes each of the first six whole, and the last one is joined from units. A single file is, too."""
FORMATS = ("tfrecord", "array_record", "parquet", "npy")
PLACES = ("folder", "store")
VICTIMS = ("worker", "node", "driver")
ATTEMPTS = 6

DRIVER = """
import sys
import headrace as hr
from headrace.writing import units
from headrace.writing.distributed.unit_writer import UnitWriter
units.UNIT_EXAMPLES = int(sys.argv[3])
told = UnitWriter.report
def report(writer, examples):
    told(writer, examples)
    print("told", examples, flush=True)
UnitWriter.report = report
print("resumed", hr.convert(sys.argv[1], sys.argv[2], columns=["image"] if ".npy" in sys.argv[2] else None, on="ray").resumed)
"""


class Kills:
    """A cluster, a store, the original, and the files that a local conversion makes of it.

    Args:
        folder: For files.
        nodes: The cluster.
        store: The server.
    """

    def __init__(self, folder, nodes, store):
        self.folder, self.nodes, self.store = Path(folder), nodes, store
        rng = np.random.default_rng(0)
        columns = {"image": rng.random((N, 16), dtype=np.float32), "label": rng.integers(0, 10, N)}
        self.original = self.folder / "a.tfrecord@3"
        hr.write(self.original, columns)
        self.expected = {}
        for format, ending in itertools.product(FORMATS, ("", f"@{SHARDS}")):
            here = self.folder / f"here-{format}{ending}"
            here.mkdir()
            chosen = ["image"] if format == "npy" else None
            hr.convert(self.original, here / f"b.{format}{ending}", columns=chosen)
            self.expected[format + ending] = {path.name: path.read_bytes() for path in here.iterdir()}
        self.resumed = 0

    def run(self, seed):
        """One conversion with a kill; returns what was done, in words."""
        choose = random.Random(seed)
        format, place, victim = choose.choice(FORMATS), choose.choice(PLACES), choose.choice(VICTIMS)
        after = choose.randrange(7 if place == "folder" else 5)
        format += choose.choice(("", f"@{SHARDS}")) if place == "folder" else f"@{SHARDS}"
        there = self.folder / f"there-{seed}"
        there.mkdir()
        base = str(there) if place == "folder" else f"s3://bucket/{seed}"
        target = f"{base}/b.{format}"
        found = ()
        for attempt in range(ATTEMPTS):
            code, found = self._convert(target, None if attempt else (victim, after, choose))
            self._check_partial(format, place, there, seed)
            if code == 0:
                break
            assert (victim, attempt) == ("driver", 0), f"seed {seed}: attempt {attempt} ended with {code}: {found}"
        self._check_all(format, place, there, seed)
        if "resumed" in found:
            self.resumed += int(found[found.index("resumed") + 1]) > 0
        shutil.rmtree(there)
        return f"{format} {place} {victim} after {after}"

    def _convert(self, target, kill):
        command = [sys.executable, "-c", DRIVER, str(self.original), target, str(UNIT)]
        env = {**os.environ, "RAY_ADDRESS": self.nodes.address}
        with tempfile.TemporaryFile("w+") as errors:
            driver = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=env)
            lines, told = [], 0
            with driver.stdout:
                for line in driver.stdout:
                    lines += line.split()
                    told += line.startswith("told")
                    if kill is not None and told > kill[1]:
                        self._kill(kill[0], driver, kill[2])
                        kill = None
            code = driver.wait()
            errors.seek(0)
            return code, lines if code == 0 else errors.read()[-2000:]

    def _kill(self, victim, driver, choose):
        if victim == "driver":
            driver.kill()
        elif victim == "node":
            self.nodes.kill(choose.randrange(len(self.nodes.alive)))
            self.nodes.add()
        else:
            for process in choose.sample(found, 1) if (found := self.nodes.workers()) else ():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)

    def _seen(self, place, there, seed):
        """The files that readers see, and those that they do not."""
        if place == "folder":
            seen = {path.name: path.read_bytes() for path in there.iterdir() if not path.name.startswith(".")}
            return seen, [path.name for path in there.iterdir() if path.name.startswith(".")]
        mine = {
            name.removeprefix(f"{seed}/"): data
            for name, data in list(self.store.objects.items())
            if name.startswith(f"{seed}/")
        }
        seen = {name: data for name, data in mine.items() if not name.startswith(".")}
        return seen, sorted(mine.keys() - seen.keys())

    def _check_partial(self, format, place, there, seed):
        seen, _ = self._seen(place, there, seed)
        wrong = [name for name, data in seen.items() if self.expected[format].get(name) != data]
        assert not wrong, f"seed {seed}: partial or differing files {wrong}"

    def _check_all(self, format, place, there, seed):
        seen, hidden = self._seen(place, there, seed)
        assert seen == self.expected[format], f"seed {seed}: {sorted(seen)}"
        assert not hidden, f"seed {seed}: left behind {hidden}"


@contextlib.contextmanager
def prepared():
    """Everything that a kill needs."""
    before = units.UNIT_EXAMPLES
    units.UNIT_EXAMPLES = UNIT
    folder = tempfile.mkdtemp(prefix="headrace-kills-")
    kept = dict(os.environ)
    try:
        with serving_store() as store:
            os.environ.update(environment("s3", store.url), HEADRACE_CACHE_DIR=f"{folder}/cache")
            with running_cluster(2, connected=False) as nodes:
                yield Kills(folder, nodes, store)
    finally:
        units.UNIT_EXAMPLES = before
        os.environ.clear()
        os.environ.update(kept)
        shutil.rmtree(folder, ignore_errors=True)


def main():
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--seeds", type=int, default=100)
    options.add_argument("--first", type=int, default=0)
    options.add_argument("--seconds", type=float, default=float("inf"), help="begin no other seed after this time")
    given = options.parse_args()
    begun, done = time.monotonic(), 0
    with prepared() as kills:
        for seed in range(given.first, given.first + given.seeds):
            if time.monotonic() - begun > given.seconds:
                break
            started = time.monotonic()
            print(f"seed {seed}: {kills.run(seed)}, {time.monotonic() - started:.1f} s", flush=True)
            done += 1
    print(f"{done} kills, {kills.resumed} conversions resumed: no partial file, no differing byte, nothing left behind")


if __name__ == "__main__":
    main()
