"""Stop a run on four ranks in the middle of an epoch and resume it on two, with another batch size. No example is lost or read twice.

python examples/resume_anywhere.py
"""

from __future__ import annotations

import json

import numpy as np

import headrace as hr

EXAMPLES = 1003


def loaders(source: hr.Source, batch_size: int, world: int) -> list[hr.Loader]:
    """One loader per rank. In a real run, each rank is a process that makes its own."""
    return [hr.Loader(source, batch_size, shuffle=True, seed=42, shard=hr.Shard(rank, world)) for rank in range(world)]


def main() -> None:
    source = hr.ColumnSource({"id": np.arange(EXAMPLES)})
    read: list[int] = []

    four = loaders(source, 16, world=4)
    runs = [iter(loader) for loader in four]
    for _ in range(5):
        for run in runs:
            read += next(run)["id"].tolist()
    state = json.dumps(four[0].state_dict())
    assert all(json.dumps(loader.state_dict()) == state for loader in four)
    print(f"four ranks have read {len(read)} examples; the state is {state}")

    two = loaders(source, 50, world=2)
    for loader in two:
        loader.load_state_dict(json.loads(state))
    rest = [[batch["id"] for batch in loader] for loader in two]
    assert len(rest[0]) == len(rest[1])
    read += [int(i) for batches in rest for batch in batches for i in batch]
    print(f"two ranks have read the rest in {len(rest[0])} batches each")

    assert sorted(read) == list(range(EXAMPLES))
    print(f"all {EXAMPLES} examples came exactly once")


if __name__ == "__main__":
    main()
