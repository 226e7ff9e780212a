"""Sequences packed into rows of one length: how full the rows are, and how fast they come, beside Grain and torchtune.

    python -m benchmarks.flows.packing --peers .venv-peers/bin/python

Every system packs the same token ids, cut to the length of a row, and gives rows of tokens, segments and positions, one process and one
thread. Grain packs with 64 open rows (its `FirstFitPackIterDataset` and `BestFitPackIterDataset`), torchtune while its `PackedDataset` is
made, both in the order of the data; Headrace over all lengths. Times are processor time, from the lengths to the last row.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import time

import numpy as np

SHAPES = {
    "log-normal": (4096, lambda rng, n: np.exp(rng.normal(6.0, 1.2, n))),
    "web text": (2048, lambda rng, n: np.exp(rng.normal(5.6, 1.05, n)) + 10 * rng.pareto(1.5, n)),
    "chats": (
        8192,
        lambda rng, n: np.where(rng.random(n) < 0.3, rng.integers(10, 60, n), np.exp(rng.normal(6.4, 0.9, n))),
    ),
    "half rows": (2048, lambda rng, n: rng.integers(900, 1200, n)),
}
"""The length of a row, and the lengths of sequences."""
BATCH = 8


def sequences(shape: str, count: int):
    room, draw = SHAPES[shape]
    lengths = np.clip(draw(np.random.default_rng(3), count).astype(np.int64), 1, room)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return np.random.default_rng(4).integers(1, 30_000, offsets[-1]).astype(np.int32), offsets, room


def run_headrace(tokens, offsets, room):
    import headrace as hr

    source = hr.ColumnSource({"tokens": hr.Ragged(tokens, offsets)})
    rows = 0
    for batch in hr.Loader(hr.Packed(source, room, feature="tokens"), BATCH, threads=0):
        rows += len(batch["tokens_segment"])
    return rows


def run_grain(tokens, offsets, room, kind):
    import grain
    from grain import experimental

    class Rows:
        def __len__(self):
            return len(offsets) - 1

        def __getitem__(self, index):
            return {"tokens": tokens[offsets[index] : offsets[index + 1]]}

    pack = getattr(experimental, f"{kind}PackIterDataset")
    parent = grain.MapDataset.source(Rows()).to_iter_dataset(grain.ReadOptions(num_threads=0))
    return sum(1 for _ in pack(parent, length_struct={"tokens": room}, num_packing_bins=64, shuffle_bins=False))


def run_torchtune(tokens, offsets, room):
    from torchtune.datasets import PackedDataset

    class Rows:
        def __len__(self):
            return len(offsets) - 1

        def __getitem__(self, index):
            row = tokens[offsets[index] : offsets[index + 1]].tolist()
            return {"tokens": row, "labels": row}

        def __iter__(self):
            return (self[index] for index in range(len(self)))

    packed = PackedDataset(Rows(), max_seq_len=room)
    for index in range(len(packed)):
        packed[index]
    return len(packed)


SYSTEMS = {
    "Headrace": ("headrace", run_headrace),
    "Grain, first fit": ("grain", lambda *data: run_grain(*data, "FirstFit")),
    "Grain, best fit": ("grain", lambda *data: run_grain(*data, "BestFit")),
    "torchtune": ("torchtune", run_torchtune),
}


def measure(system: str, shape: str, count: int, rounds: int) -> dict[str, float] | None:
    module, run = SYSTEMS[system]
    if importlib.util.find_spec(module) is None:
        return None
    tokens, offsets, room = sequences(shape, count)
    run(tokens[: offsets[200]], offsets[:201], room)  # imports and first calls
    best, rows = float("inf"), 0
    for _ in range(rounds):
        start = time.process_time()
        rows = run(tokens, offsets, room)
        best = min(best, time.process_time() - start)
    return {"filled": float(offsets[-1] / (rows * room)), "tokens_per_s": float(offsets[-1] / best)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20_000, help="sequences")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", help="a Python with grain and torchtune")
    parser.add_argument("--one", nargs=2, metavar=("SYSTEM", "SHAPE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(*options.one, options.count, options.rounds)))
        return
    print("| lengths | row | system | filled | million tokens/s |\n| --- | ---: | --- | ---: | ---: |")
    for shape, (room, _) in SHAPES.items():
        for system in SYSTEMS:
            python = sys.executable if system == "Headrace" or not options.peers else options.peers
            command = [
                python,
                "-m",
                "benchmarks.flows.packing",
                "--one",
                system,
                shape,
                "--count",
                str(options.count),
                "--rounds",
                str(options.rounds),
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            found = json.loads(done.stdout) if done.returncode == 0 else None
            if found is None:
                print(f"| {shape} | {room} | {system} | not installed | |")
                sys.stderr.write(done.stderr[-500:])
                continue
            print(f"| {shape} | {room} | {system} | {found['filled']:.4f} | {found['tokens_per_s'] / 1e6:.2f} |")
    print(f"\n{place_all()}")


def place_all() -> str:
    """The time to place a million lengths."""
    from headrace.loading.packed import PackingPlan
    from headrace.sources.source import ColumnSource

    lengths = np.clip(np.exp(np.random.default_rng(3).normal(6.0, 1.2, 1_000_000)).astype(np.int64), 1, 4096)
    node = ColumnSource({"tokens": np.zeros((1, 1), np.int32)}).node
    best = float("inf")
    for _ in range(3):
        plan = PackingPlan(node, ("tokens",), 4096, "raise", lengths)
        start = time.process_time()
        rows = len(plan)
        best = min(best, time.process_time() - start)
    return f"Placing 1,000,000 lengths (log-normal) in {rows:,} rows of 4,096: {best:.2f} s of processor time, {lengths.sum() / rows / 4096:.5f} filled."


if __name__ == "__main__":
    main()
