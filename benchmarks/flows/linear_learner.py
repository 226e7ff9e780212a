"""``python -m benchmarks.flows.linear_learner``: how many examples per second the 32 models of Linear Learner train on."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from headrace.containers.linear_learner.container import LinearLearnerContainer
from headrace.contracts.job import Channel, TrainingJob
from headrace.sagemaker.common import write_numpy_to_dense_tensor

FEATURES = 50
EPOCHS = 10
RECORDIO, CSV = "application/x-recordio-protobuf", "text/csv"


def measure(folder: Path, examples: int, *, predictor: str, content_type: str) -> float:
    """Examples per second of one job of ten epochs, and of the pass that scores its model."""
    random = np.random.default_rng(0)
    features = random.normal(size=(examples, FEATURES)).astype(np.float32)
    labels = (features @ random.normal(size=FEATURES) + random.normal(size=examples)).astype(np.float32)
    if predictor == "binary_classifier":
        labels = (labels > 0).astype(np.float32)
    channel = folder / "input" / "data" / "train"
    channel.mkdir(parents=True)
    (folder / "model").mkdir()
    if content_type == CSV:
        np.savetxt(channel / "rows.csv", np.column_stack([labels, features]), delimiter=",", fmt="%.7g")
    else:
        with (channel / "rows.pbr").open("wb") as file:
            write_numpy_to_dense_tensor(file, features, labels)
    job = TrainingJob(
        name="speed",
        base_dir=folder,
        hyperparameters={
            "predictor_type": predictor,
            "epochs": str(EPOCHS),
            "early_stopping_patience": str(EPOCHS),  # all of them are run
        },
        channels={"train": Channel(uri="train", content_type=content_type)},
        log=lambda _: None,
    )
    begun = time.perf_counter()
    LinearLearnerContainer().train(job)
    return examples * (EPOCHS + 1) / (time.perf_counter() - begun)


def main(arguments: list[str] | None = None) -> int:
    """Print a line for each kind of job."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args(arguments)
    for predictor, content_type, share in (
        ("regressor", RECORDIO, 1),
        ("binary_classifier", RECORDIO, 1),
        ("regressor", CSV, 4),
    ):
        speeds = []
        for _ in range(given.rounds):
            with tempfile.TemporaryDirectory() as folder:
                speeds.append(
                    measure(Path(folder), given.examples // share, predictor=predictor, content_type=content_type)
                )
        print(f"{predictor:18} {content_type:32} {sorted(speeds)[len(speeds) // 2]:>12,.0f} examples/s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
