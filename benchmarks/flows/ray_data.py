"""Files as a dataset of Ray Data: ``headrace.adapters.ray.read`` beside ``ray.data.read_tfrecords``, and a Loader in one process.

    python -m benchmarks.flows.ray_data

Needs Ray and TensorFlow, which ``read_tfrecords`` imports, in this environment. All three read the same TFRecord files, on one local Ray, in turns,
after a small file for each: importing TensorFlow and starting workers is not counted. Ray checks no checksum. Batches have 4,096 rows in NumPy
arrays, and the sum of a column is compared. A rate is that of the fastest round.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import headrace as hr

BATCH = 4096


def write_files(folder: Path, files: int, records: int, width: int) -> str:
    path = f"{folder}/x.tfrecord@{files}"
    n = files * records
    values = np.random.default_rng(0).random((records, width), np.float32)
    with hr.Writer(f"{folder}/first.tfrecord") as small:
        small.write_batch({"x": values[:2000], "label": np.arange(2000)})
    hr.write(path, hr.ColumnSource({"x": np.tile(values, (files, 1)), "label": np.arange(n)}))
    return path


def read_by_headrace(path: str) -> int:
    from headrace.adapters.ray import read

    return total(read(path))


def read_by_ray(path: str) -> int:
    import ray

    names = sorted(str(each) for each in Path(path).parent.glob(Path(path).name.partition("@")[0] + "*"))
    return total(ray.data.read_tfrecords(names))


def total(dataset) -> int:
    batches = dataset.iter_batches(batch_size=BATCH, batch_format="numpy")
    return sum(int(np.sum(batch["label"])) for batch in batches)


def read_by_loader(path: str) -> int:
    return sum(int(batch["label"].sum()) for batch in hr.Loader(hr.open(path), BATCH))


WAYS: dict[str, Callable[[str], int]] = {
    "headrace.adapters.ray.read": read_by_headrace,
    "ray.data.read_tfrecords": read_by_ray,
    "headrace.Loader, one process": read_by_loader,
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--records", type=int, default=50_000, help="in each file")
    parser.add_argument("--width", type=int, default=64, help="float32 values of a record")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cpus", type=int, default=2)
    options = parser.parse_args(arguments)
    import ray

    ray.init(num_cpus=options.cpus, include_dashboard=False, logging_level="error", log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        path = write_files(Path(folder), options.files, options.records, options.width)
        n = options.files * options.records
        for read in WAYS.values():
            read(f"{folder}/first.tfrecord")
        best: dict[str, float] = {}
        for _ in range(options.rounds):
            for name, read in WAYS.items():
                start = time.perf_counter()
                found = read(path)
                taken = time.perf_counter() - start
                assert found == n * (n - 1) // 2, name
                best[name] = max(best.get(name, 0.0), n / taken)
                print(f"{name}: {n / taken:,.0f} examples/s", file=sys.stderr, flush=True)
    peer = best["ray.data.read_tfrecords"]
    print(
        json.dumps(
            {"examples": n, "width": options.width, "ray": ray.__version__, **{k: round(v) for k, v in best.items()}}
        )
    )
    for name, rate in best.items():
        print(f"| {name} | {rate:,.0f} | {rate / peer:.1f}x |")
    ray.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
