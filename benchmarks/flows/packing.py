"""Sequences packed into rows of one length: how full the rows are, and how fast they come, beside Grain and torchtune.

    python -m benchmarks.flows.packing --grain .venv-peers/bin/python --torchtune .venv-torchtune/bin/python

Every system packs the same token ids and gives rows of tokens, segments and positions, one process and one thread. Grain packs with 64 open
rows (its `FirstFitPackIterDataset` and `BestFitPackIterDataset`), torchtune while its `PackedDataset` is made, both in the order of the data;
Headrace over all lengths. Sequences longer than a row are split: by `overlong="split"`, Grain's `ConcatThenSplitIterDataset` and torchtune's
`split_across_pack`. Times are processor time, from the lengths to the last row. torchtune 0.6.1 needs torchao 0.10.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import time

import numpy as np

ROW = 1024
SHAPES = {
    "log-normal": lambda rng, n: np.exp(rng.normal(4.3, 0.9, n)),
    "uniform": lambda rng, n: rng.integers(1, 257, n),
    "bimodal": lambda rng, n: np.where(rng.random(n) < 0.7, rng.integers(10, 60, n), rng.normal(480, 80, n)),
    "Zipf": lambda rng, n: rng.zipf(1.4, n),
    "all long": lambda rng, n: ROW + np.exp(rng.normal(6.0, 1.0, n)),
    "half rows": lambda rng, n: rng.integers(450, 600, n),
}
"""The lengths of sequences. Those above the length of a row are cut to it, but for \"all long\", where all are longer: they are split."""
SPLIT = ("all long",)
LONGEST = 16 * ROW
BATCH = 8


def sequences(shape: str, count: int):
    drawn = SHAPES[shape](np.random.default_rng(3), count)
    lengths = np.clip(drawn, 1, LONGEST if shape in SPLIT else ROW).astype(np.int64)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return np.random.default_rng(4).integers(1, 30_000, offsets[-1], np.int32), offsets, shape in SPLIT


def run_headrace(tokens, offsets, split):
    import headrace as hr

    source = hr.ColumnSource({"tokens": hr.Ragged(tokens, offsets)})
    packed = hr.Packed(source, ROW, feature="tokens", overlong="split" if split else "raise")
    rows = 0
    for batch in hr.Loader(packed, BATCH, threads=0):
        rows += len(batch["tokens_segment"])
    return rows


def run_grain(tokens, offsets, split, kind):
    import grain
    from grain import experimental

    class Rows:
        def __len__(self):
            return len(offsets) - 1

        def __getitem__(self, index):
            return {"tokens": tokens[offsets[index] : offsets[index + 1]]}

    parent = grain.MapDataset.source(Rows()).to_iter_dataset(grain.ReadOptions(num_threads=0))
    if split:
        return sum(1 for _ in experimental.ConcatThenSplitIterDataset(parent, length_struct={"tokens": ROW}))
    pack = getattr(experimental, f"{kind}PackIterDataset")
    return sum(1 for _ in pack(parent, length_struct={"tokens": ROW}, num_packing_bins=64, shuffle_bins=False))


def run_torchtune(tokens, offsets, split):
    from torchtune.datasets import PackedDataset

    class Rows:
        def __len__(self):
            return len(offsets) - 1

        def __getitem__(self, index):
            row = tokens[offsets[index] : offsets[index + 1]].tolist()
            return {"tokens": row, "labels": row}

        def __iter__(self):
            return (self[index] for index in range(len(self)))

    packed = PackedDataset(Rows(), max_seq_len=ROW, split_across_pack=split)
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
    tokens, offsets, split = sequences(shape, count)
    run(tokens[: offsets[200]], offsets[:201], split)  # imports and first calls
    best, rows = float("inf"), 0
    for _ in range(rounds):
        start = time.process_time()
        rows = run(tokens, offsets, split)
        best = min(best, time.process_time() - start)
    filled = float(offsets[-1] / (rows * ROW))
    return {"filled": filled, "tokens_per_s": float(offsets[-1] / best), "sequences_per_s": count / best}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000, help="sequences; a tenth of them where all are long")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--grain", help="a Python with grain; its first fit also stands for ConcatThenSplit where all are long"
    )
    parser.add_argument("--torchtune", help="a Python with torchtune")
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, help="only these")
    parser.add_argument("--one", nargs=2, metavar=("SYSTEM", "SHAPE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(*options.one, options.count, options.rounds)))
        return
    print(
        "| lengths | sequences | system | filled | million tokens/s | thousand sequences/s |\n| --- | ---: | --- | ---: | ---: | ---: |"
    )
    for shape in SHAPES:
        count = options.count // 10 if shape in SPLIT else options.count
        for system, (module, _) in SYSTEMS.items():
            if system not in (options.systems or SYSTEMS) or (system == "Grain, best fit" and shape in SPLIT):
                continue
            python = {"headrace": sys.executable, "grain": options.grain, "torchtune": options.torchtune}[module]
            python = python or sys.executable
            command = [
                python,
                "-m",
                "benchmarks.flows.packing",
                "--one",
                system,
                shape,
                "--count",
                str(count),
                "--rounds",
                str(options.rounds),
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            found = json.loads(done.stdout) if done.returncode == 0 else None
            if found is None:
                print(f"| {shape} | {count:,} | {system} | not installed | | |")
                sys.stderr.write(done.stderr[-500:])
                continue
            speeds = f"{found['tokens_per_s'] / 1e6:.2f} | {found['sequences_per_s'] / 1e3:.0f}"
            print(f"| {shape} | {count:,} | {system} | {found['filled']:.4f} | {speeds} |", flush=True)
    if "Headrace" in (options.systems or SYSTEMS):
        print(f"\n{place_all()}")


def place_all() -> str:
    """The time to place a million lengths of each kind, and how full the rows are."""
    from headrace.loading.packed import PackingPlan
    from headrace.sources.source import ColumnSource

    lines = ["| a million lengths | placed in s | rows | filled |", "| --- | ---: | ---: | ---: |"]
    node = ColumnSource({"tokens": np.zeros((1, 1), np.int32)}).node
    for shape, draw in SHAPES.items():
        split = shape in SPLIT
        lengths = np.clip(draw(np.random.default_rng(3), 1_000_000), 1, LONGEST if split else ROW).astype(np.int64)
        best, rows = float("inf"), 0
        for _ in range(3):
            plan = PackingPlan(node, ("tokens",), ROW, "split" if split else "raise", lengths)
            start = time.process_time()
            rows = len(plan)
            best = min(best, time.process_time() - start)
        lines.append(f"| {shape} | {best:.2f} | {rows:,} | {lengths.sum() / rows / ROW:.5f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
