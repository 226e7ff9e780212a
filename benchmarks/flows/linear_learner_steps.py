"""``python -m benchmarks.flows.linear_learner_steps``: a step of Linear Learner's 32 models, by NumPy and by PyTorch.

Each library has a process of its own, by turns: the threads of one would keep those of the other waiting. ``--busy`` has
another program take one processor meanwhile.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from statistics import median

import numpy as np
import scipy.sparse

from headrace.containers.linear_learner.hyperparameters import Hyperparameters
from headrace.containers.linear_learner.training.candidates import candidates, fit_scaler
from headrace.containers.linear_learner.training.channels import MiniBatch
from headrace.containers.linear_learner.training.libraries import (
    NUMPY,
    keep_freed_memory,
    numeric_threads,
    torch_library,
)
from headrace.containers.linear_learner.training.rows import rows_of
from headrace.containers.linear_learner.training.weighing import Models

EXAMPLES, STEPS = 1000, 60
CASES = ((8, None, 2), (50, None, 2), (128, None, 2), (500, None, 2), (64, None, 10), (784, None, 10), (1_000, 20, 2), (10_000, 50, 2), (10_000, 50, 10))  # fmt: skip
"""Features; how many of an example are not zero, where the rows are sparse; classes."""
LIBRARIES = {"NumPy": lambda: NUMPY, "PyTorch": torch_library}


class Only:
    """In the place of what chooses by itself."""

    def __init__(self, name):
        self.library = LIBRARIES[name]()

    def took(self, seconds, examples):
        """Nothing follows from it."""


def stepping(name, features, filled, classes):
    """A step over one mini-batch, and how many multiplications its product has."""
    random = np.random.default_rng(0)
    if filled is None:
        values = random.normal(size=(EXAMPLES, features)).astype(np.float32)
    else:
        values = scipy.sparse.random_array(
            (EXAMPLES, features), density=filled / features, format="csr", dtype=np.float32, rng=random
        )
    rows, labels = rows_of(values), random.integers(0, classes, EXAMPLES).astype(np.float32)
    given = {"predictor_type": "binary_classifier"}
    if classes > 2:
        given = {"predictor_type": "multiclass_classifier", "num_classes": str(classes)}
    parameters = Hyperparameters.parse(given)
    models = Models(parameters, candidates(parameters, 1.0), fit_scaler(rows, labels, parameters))
    models.choice = Only(name)
    batch = MiniBatch(rows, labels)
    return lambda: models.step(batch), models.weights.size * EXAMPLES


def measure(name):
    """Microseconds of a step, a line for each case."""
    keep_freed_memory()
    for case in CASES:
        step, multiplications = stepping(name, *case)
        times = []
        with numeric_threads(multiplications):  # as a job does; PyTorch chooses its threads by itself
            for _ in range(STEPS):
                begun = time.perf_counter()
                step()
                times.append(time.perf_counter() - begun)
        print(1e6 * median(times), flush=True)


@contextmanager
def another_program():
    """One that never rests."""
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        busy.kill()
        busy.wait()


def main(arguments=None):
    """Print a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--busy", action="store_true", help="beside a program that takes one processor")
    parser.add_argument("--only", choices=LIBRARIES, help="one library, in this process")
    given = parser.parse_args(arguments)
    if given.only:
        measure(given.only)
        return 0
    found = {name: [] for name in LIBRARIES}
    with ExitStack() as stack:
        if given.busy:
            stack.enter_context(another_program())
        for _ in range(given.rounds):
            for name in LIBRARIES:
                command = [sys.executable, "-m", "benchmarks.flows.linear_learner_steps", "--only", name]
                printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                found[name].append([float(line) for line in printed.split()])
    for number, (features, filled, classes) in enumerate(CASES):
        ours, torchs = ([one[number] for one in found[name]] for name in LIBRARIES)
        ratio = median(other / mine for mine, other in zip(ours, torchs, strict=True))
        kind = "dense" if filled is None else f"{filled} of them filled"
        print(
            f"{features:6,} features, {kind:17} {classes:2} classes: NumPy {median(ours):7,.0f} us, "
            f"PyTorch {median(torchs):7,.0f} us, {ratio:.2f}x"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
