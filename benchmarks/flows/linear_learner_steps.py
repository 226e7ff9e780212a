"""``python -m benchmarks.flows.linear_learner_steps``: a step of Linear Learner's 32 models, and the same step by PyTorch.

Each library has a process of its own, by turns: the threads of one would keep those of the other waiting.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from contextlib import nullcontext
from statistics import median

import numpy as np

from penstock.containers.linear_learner.hyperparameters import Hyperparameters
from penstock.containers.linear_learner.training.candidates import candidates
from penstock.containers.linear_learner.training.channels import MiniBatch
from penstock.containers.linear_learner.training.rows import Dense
from penstock.containers.linear_learner.training.scaling import fit_scaler
from penstock.containers.linear_learner.training.threads import numeric_threads
from penstock.containers.linear_learner.training.weighing import Models

EXAMPLES, MODELS, STEPS = 1000, 32, 60
CASES = ((8, 2), (50, 2), (500, 2), (64, 10), (784, 10))
LIBRARIES = ("penstock", "torch")


def data(features, classes):
    """Rows and labels of one mini-batch."""
    random = np.random.default_rng(0)
    return random.normal(size=(EXAMPLES, features)).astype(np.float32), random.integers(0, classes, EXAMPLES)


def of_penstock(features, classes):
    """A step of ours."""
    rows, labels = data(features, classes)
    given = {"predictor_type": "binary_classifier"}
    if classes > 2:
        given = {"predictor_type": "multiclass_classifier", "num_classes": str(classes)}
    parameters = Hyperparameters.parse(given)
    scaler = fit_scaler(Dense(rows), labels.astype(np.float32), parameters)
    models = Models(parameters, candidates(parameters, 1.0), scaler)
    batch = MiniBatch(Dense(rows), labels.astype(np.float32))
    return lambda: models.step(batch)


def of_torch(features, classes):
    """The same: scaling, scores, loss and derivative, penalties, Adam with a rate for each model."""
    import torch

    rows, labels = map(torch.from_numpy, data(features, classes))
    outputs = 1 if classes == 2 else classes
    columns = MODELS * outputs
    mean, deviation = rows.mean(0), rows.std(0)
    weights, bias = torch.zeros(features, columns), torch.zeros(columns)
    memory = [(torch.zeros_like(one), torch.zeros_like(one)) for one in (weights, bias)]
    rates, wd, l1 = (torch.full((columns,), value) for value in (1e-3, 1e-4, 1e-5))
    own = torch.arange(EXAMPLES)

    def adam(values, gradient, first, second):
        first.lerp_(gradient, 0.1)
        second.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
        values.sub_(first.div(second.sqrt().add_(1e-8)).mul_(rates))

    def step():
        scaled = (rows - mean) / deviation
        scores = torch.addmm(bias, scaled, weights).reshape(EXAMPLES, MODELS, outputs)
        if outputs == 1:
            kinds = labels[:, None, None].float()
            values = torch.nn.functional.softplus((1 - 2 * kinds) * scores)
            derivative = torch.sigmoid(scores) - kinds
        else:
            likely = torch.log_softmax(scores, 2)
            values = -likely[own, :, labels]
            derivative = likely.exp()
            derivative[own, :, labels] -= 1
        flat = derivative.reshape(EXAMPLES, columns) / EXAMPLES
        adam(weights, (scaled.T @ flat).addcmul_(wd, weights).addcmul_(l1, weights.sign()), *memory[0])
        adam(bias, flat.sum(0), *memory[1])
        return scores, values

    return step


def measure(library):
    """Microseconds of a step, a line for each case."""
    for features, classes in CASES:
        step = {"penstock": of_penstock, "torch": of_torch}[library](features, classes)
        weights = features * MODELS * (1 if classes == 2 else classes)
        times = []
        # As a job does; PyTorch chooses its threads by itself.
        with numeric_threads(weights * EXAMPLES) if library == "penstock" else nullcontext():
            for _ in range(STEPS):
                begun = time.perf_counter()
                step()
                times.append(time.perf_counter() - begun)
        print(1e6 * median(times))


def main(arguments=None):
    """Print a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=LIBRARIES, help="one library, in this process")
    given = parser.parse_args(arguments)
    if given.only:
        measure(given.only)
        return 0
    found = {library: [] for library in LIBRARIES}
    for _ in range(given.rounds):
        for library in LIBRARIES:
            command = [sys.executable, "-m", "benchmarks.flows.linear_learner_steps", "--only", library]
            printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            found[library].append([float(line) for line in printed.split()])
    for number, (features, classes) in enumerate(CASES):
        ours, torchs = ([one[number] for one in found[library]] for library in LIBRARIES)
        ratio = median(other / mine for mine, other in zip(ours, torchs, strict=True))
        print(
            f"{features:4} features, {classes:2} classes: {median(ours):7,.0f} us, PyTorch {median(torchs):7,.0f} us, {ratio:.2f}x"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
