"""Train on a .npy that does not fit into memory: mapped or read by row, globally shuffled, stopped and resumed.

python examples/npy_larger_than_memory.py
python examples/npy_larger_than_memory.py --gigabytes 100 --folder /scratch
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy as np

import headrace as hr

WIDTH = 256
BATCH = 512
STEP = 16_384  # rows generated at a time


def make(path: Path, rows: int) -> None:
    """Write rows without holding all of them in memory. Row i begins with the number i."""
    with hr.Writer(path) as out:
        for start in range(0, rows, STEP):
            part = np.random.default_rng(start).random((min(STEP, rows - start), WIDTH), np.float32)
            part[:, 0] = np.arange(start, start + len(part)) % (1 << 20)
            out.write_batch({"values": part})


def peak_mb() -> float:
    """The peak memory of this process in megabytes, without pages of mapped files."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return int(status.partition("RssAnon:")[2].split()[0]) / 1024
    except (OSError, IndexError):
        return float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=0.02)
    parser.add_argument("--folder", default=None, help="Where the file is made.")
    options = parser.parse_args()
    rows = max(4 * BATCH, int(options.gigabytes * 1e9 / (4 * WIDTH)))

    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "rows.npy"
        make(path, rows)
        source = hr.open(path)
        print(f"{len(source):,} rows of {WIDTH} float32, {path.stat().st_size / 1e6:,.0f} MB")

        # The order is computed per position: it takes no memory, however many rows there are.
        loader = hr.Loader(source, BATCH, shuffle=True, seed=7)
        total = np.zeros(WIDTH)
        seen = 0
        for batch in loader:
            total += batch["values"].sum(axis=0, dtype=np.float64)
            seen += len(batch["values"])
            if seen >= rows // 2:
                break
        state = json.dumps(loader.state_dict())
        print(f"stopped after {seen:,} rows; the state is {len(state)} bytes of JSON")

        resumed = hr.Loader(source, BATCH, shuffle=True, seed=7)
        resumed.load_state_dict(json.loads(state))
        for batch in resumed:
            total += batch["values"].sum(axis=0, dtype=np.float64)
            seen += len(batch["values"])
        assert seen == rows
        # Every row exactly once: the row numbers add up.
        numbers = np.arange(rows, dtype=np.int64) % (1 << 20)
        assert total[0] == numbers.sum()
        print(f"resumed: {seen:,} rows in all, mean {total[1:].mean() / rows:.4f}; {peak_mb():,.0f} MB of memory")


if __name__ == "__main__":
    sys.exit(main())
