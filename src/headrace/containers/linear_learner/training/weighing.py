"""The weights that are trained: all models side by side in one matrix, so that one product serves them all."""

from __future__ import annotations

import itertools
import math
import time

import numpy as np

from headrace.containers.linear_learner.hyperparameters import Hyperparameters
from headrace.containers.linear_learner.training.candidates import Candidate, Scaler, Schedule
from headrace.containers.linear_learner.training.channels import MiniBatch
from headrace.containers.linear_learner.training.choosing import Choice
from headrace.containers.linear_learner.training.libraries import NUMPY
from headrace.containers.linear_learner.training.optimizers import Array, Loss, Penalty, loss_of, optimizer_of
from headrace.containers.linear_learner.training.rows import Rows
from headrace.errors import JobFailed
from headrace.io.system import usable_memory

__all__ = ["Models"]

ARRAYS = 5  # of the size of the weights: they, their gradient, what an optimizer remembers
STEPS = 1500  # that models of our own rates need to arrive
WORTH_STEPS = 1 << 27  # weights that all those steps may change: some seconds
WORTH_SHARING = 1 << 16  # weights, for what is done to each of them once
FEWEST = 8  # examples that a step is made from where we choose
SEED = 0  # what a job trains on decides what it learns; nothing else does, but for the last digits where PyTorch takes part


class Models:
    """The models of one job.

    Args:
        parameters: Of the job.
        candidates: Of each model.
        scaler: Of features and labels.
    """

    def __init__(self, parameters: Hyperparameters, candidates: list[Candidate], scaler: Scaler) -> None:
        self.parameters = parameters
        self.candidates = candidates
        self.scaler = scaler
        self.loss: Loss = loss_of(parameters)
        width, self._outputs = len(scaler.mean), parameters.outputs
        columns = len(candidates) * self._outputs
        _check_memory(width * columns)
        self.weights = self._begun(width, columns)
        self.bias = np.full(columns, parameters.init_bias if parameters.use_bias else 0.0, np.float32)
        self.schedule = Schedule(parameters, np.array([one.learning_rate for one in candidates]))
        wd = self._spread([one.wd for one in candidates])
        self._penalty = Penalty(wd, self._spread([one.l1 for one in candidates]))
        self._bias_penalty = Penalty(wd * np.float32(parameters.bias_wd_mult or 0.0), np.zeros(1, np.float32))
        memory = {"momentum": parameters.momentum, "beta_1": parameters.beta_1, "beta_2": parameters.beta_2}
        self._optimizer = optimizer_of(parameters.optimizer, self.weights.shape, **memory)
        self._bias_optimizer = optimizer_of(parameters.optimizer, self.bias.shape, **memory)
        self._positive = np.array([one.positive_weight for one in candidates], np.float32)
        self._classes = _class_weights(scaler.classes) if parameters.balance_multiclass_weights else None
        self._examples_a_step = parameters.mini_batch_size
        self.choice = Choice(self.weights.size)

    def __len__(self) -> int:
        return len(self.candidates)

    def plan(self, examples: int, passes: int) -> None:
        """What the job leaves open, for ``passes`` more over so many examples. Known after the first epoch.

        Small data in large mini-batches gives few steps, too few for any rate. They are made from parts of a mini-batch then.
        """
        size = self.parameters.mini_batch_size
        if self.parameters.learning_rate is None:
            steps = min(STEPS, max(1, WORTH_STEPS // self.weights.size))
            size = min(size, max(FEWEST, math.ceil(examples * passes / steps)))
        self._examples_a_step = size
        self.choice.plan(examples * passes, size)
        self.schedule.plan(math.ceil(examples / size) * passes)

    def step(self, batch: MiniBatch) -> tuple[Array, Array, Array]:
        """Learn from one mini-batch.

        Returns:
            What :meth:`score` returns, from before each step.
        """
        count = max(1, round(len(batch.labels) / self._examples_a_step))
        if count == 1:
            return self._stepped(batch)
        bounds = [len(batch.labels) * number // count for number in range(count + 1)]
        found = [self._stepped(batch.part(slice(*ends))) for ends in itertools.pairwise(bounds)]
        scores, labels, values = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return scores, labels, values

    def _stepped(self, batch: MiniBatch) -> tuple[Array, Array, Array]:
        begun = time.perf_counter()
        by = self.choice.library
        rows = batch.rows.scaled(self.scaler.mean, self.scaler.deviation, by)
        scores, labels = self._scores(rows), self.scaler.label(batch.labels)
        values, derivative = self.loss.both(scores, labels)
        weights = self._example_weights(batch.labels)
        if weights is not None:
            derivative *= weights
        derivative /= np.float32(len(labels))
        flat = derivative.reshape(len(labels), -1).astype(np.float32, copy=False)
        rates = np.repeat(self.schedule.next(), self._outputs)
        gradient = rows.back(flat)
        over_weights = by if self.weights.size >= WORTH_SHARING else NUMPY
        self._penalty.add(gradient, self.weights, over_weights)
        self._optimizer.step(self.weights, gradient, rates, over_weights)
        if self.parameters.use_bias:
            bias_gradient = flat.sum(axis=0)
            self._bias_penalty.add(bias_gradient, self.bias)
            multiplier = np.float32(self.parameters.bias_lr_mult or 1.0)
            self._bias_optimizer.step(self.bias, bias_gradient, rates * multiplier)
        self.choice.took(time.perf_counter() - begun, len(labels))
        return scores, labels, values

    def score(self, batch: MiniBatch) -> tuple[Array, Array, Array]:
        """Scores ``(n, models, outputs)``, labels in the units of training ``(n,)``, values of the loss ``(n, models)``."""
        scores = self._scores(batch.rows.scaled(self.scaler.mean, self.scaler.deviation, self.choice.library))
        labels = self.scaler.label(batch.labels)
        return scores, labels, self.loss.value(scores, labels)

    def _scores(self, rows: Rows) -> Array:
        scores = rows.times(self.weights)
        scores += self.bias
        return scores.reshape(len(scores), len(self), self._outputs)

    def burden(self, examples: int) -> Array:
        """What large weights cost each model beside its loss, ``(models,)``, where only examples that it has learned from judge it.

        Half their squares, shared among the examples: what ridge and logistic regression take off by default elsewhere.
        """
        squares = np.square(self.weights, dtype=np.float64).sum(axis=0).reshape(len(self), self._outputs)
        return np.asarray(squares.sum(axis=1) / (2 * max(1, examples)))

    def folded(self, model: int) -> tuple[Array, Array]:
        """Weights ``(features, outputs)`` and bias ``(outputs,)`` of one model, for raw features."""
        columns = slice(model * self._outputs, (model + 1) * self._outputs)
        return self.scaler.folded(self.weights[:, columns], self.bias[columns])

    def _begun(self, width: int, columns: int) -> Array:
        random = np.random.default_rng(SEED)
        if self.parameters.init_method == "normal":
            return random.normal(0, self.parameters.init_sigma, (width, columns)).astype(np.float32)
        scale = self.parameters.init_scale
        return random.uniform(-scale, scale, (width, columns)).astype(np.float32)

    def _spread(self, values: list[float]) -> Array:
        return np.repeat(np.asarray(values, np.float32), self._outputs)

    def _example_weights(self, labels: Array) -> Array | None:
        """How much each example counts for each model, ``(n, models or 1, 1)``."""
        if self.parameters.is_binary and np.any(self._positive != 1):
            return np.where(labels[:, None, None] == 1, self._positive[None, :, None], np.float32(1))
        if self._classes is not None and not self.parameters.is_regressor:
            return np.asarray(self._classes[labels.astype(np.int64)][:, None, None])
        return None


def _class_weights(counts: Array) -> Array:
    """Every class as heavy as the others: the rarer, the more an example counts."""
    return np.asarray(counts.sum() / (len(counts) * np.maximum(counts, 1)), np.float32)


def _check_memory(values: int) -> None:
    """Weights that cannot fit are refused with the reason, before the machine tries."""
    memory = usable_memory()
    needed = 4 * ARRAYS * values
    if memory is not None and needed > memory:
        raise JobFailed(
            f"Customer error: the models would take {needed >> 20} MiB, and the machine has {memory >> 20} MiB; "
            "set num_models lower, or feature_dim or num_classes"
        )
