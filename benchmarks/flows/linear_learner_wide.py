"""``python -m benchmarks.flows.linear_learner_wide``: whole jobs of Linear Learner over wide data, without PyTorch and with it.

Each job has a process of its own, by turns; loading PyTorch counts.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import scipy.sparse

from headrace.containers.linear_learner.container import LinearLearnerContainer
from headrace.containers.linear_learner.training import choosing
from headrace.contracts.job import Channel, TrainingJob
from headrace.sagemaker.common import write_numpy_to_dense_tensor, write_spmatrix_to_sparse_tensor

CASES = {
    "784 features, dense, 10 classes": (60_000, 784, None, 10, 60),
    "500 features, dense, 2 classes": (200_000, 500, None, 2, 60),
    "10,000 features, 50 of them filled, 2 classes": (100_000, 10_000, 50, 2, 90),
}
"""Examples, features, how many of an example are filled where the rows are sparse, classes, epochs."""
RECORDIO = "application/x-recordio-protobuf"
KINDS = ("NumPy", "both")


def write(path, examples, features, filled, classes):
    """Features at random, labels that follow from them, less some noise."""
    random = np.random.default_rng(0)
    if filled is None:
        rows = random.normal(size=(examples, features)).astype(np.float32)
    else:
        apart = features // filled
        columns = (apart * np.arange(filled) + random.integers(0, apart, (examples, filled))).ravel()
        values = random.normal(size=columns.size).astype(np.float32)
        rows = scipy.sparse.csr_matrix((values, columns, np.arange(0, columns.size + 1, filled)), (examples, features))
    scores = rows @ random.normal(size=(features, classes))
    scores += scores.std() * random.normal(size=scores.shape) / 3
    with path.open("wb") as file:
        put = write_numpy_to_dense_tensor if filled is None else write_spmatrix_to_sparse_tensor
        put(file, rows, scores.argmax(axis=1).astype(np.float32))


def train(folder, case, kind):
    """Print the seconds of one job, and who took its steps."""
    _, _, _, classes, epochs = CASES[case]
    if kind == "NumPy":
        choosing.available = lambda _: False
    (folder / "model").mkdir(exist_ok=True)
    given = {"predictor_type": "binary_classifier"}
    if classes > 2:
        given = {"predictor_type": "multiclass_classifier", "num_classes": str(classes)}
    lines = []
    job = TrainingJob(
        name="wide",
        base_dir=folder,
        hyperparameters={**given, "epochs": str(epochs), "early_stopping_patience": str(epochs)},
        channels={"train": Channel(uri="train", content_type=RECORDIO)},
        log=lines.append,
    )
    begun = time.perf_counter()
    LinearLearnerContainer().train(job)
    print(time.perf_counter() - begun)
    print(*(line.partition("Steps: ")[2] for line in lines if "Steps: " in line))


def main(arguments=None):
    """Print a line for each kind of job."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--kind", choices=KINDS, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.kind:
        train(given.folder, given.case, given.kind)
        return 0
    for case, (examples, features, filled, classes, _) in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            channel = Path(folder) / "input" / "data" / "train"
            channel.mkdir(parents=True)
            write(channel / "rows.pbr", examples, features, filled, classes)
            seconds, said = {kind: [] for kind in KINDS}, ""
            for _ in range(given.rounds):
                for kind in KINDS:
                    command = [sys.executable, "-m", "benchmarks.flows.linear_learner_wide", "--folder", folder]
                    command += ["--case", case, "--kind", kind]
                    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
                    seconds[kind].append(float(printed[0]))
                    said = printed[1]
        ratio = median(both / alone for alone, both in zip(*seconds.values(), strict=True))
        alone, both = (median(times) for times in seconds.values())
        print(f"{case}: NumPy {alone:.1f} s, with PyTorch {both:.1f} s ({said}), {ratio:.2f}x", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
