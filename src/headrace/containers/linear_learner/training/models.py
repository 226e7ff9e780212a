"""The models that one job trains in parallel: their hyperparameters, the scaling of features and labels, and the training step."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from headrace.containers.linear_learner.hyperparameters import Hyperparameters
from headrace.containers.linear_learner.training.channels import MiniBatch
from headrace.containers.linear_learner.training.optimizers import Array, LossFunction, Penalty, loss_of, optimizer_of
from headrace.containers.linear_learner.training.rows import FeatureRows
from headrace.errors import JobFailed
from headrace.io.system import usable_memory

__all__ = ["Candidate", "Models", "Scaler", "Schedule", "fit_scaler", "list_candidates"]

# SageMaker does not publish its grid. Its logs show 32 models with about two rates and increasing penalties. Adam moves
# every weight by about the rate in each step, so jobs with few steps need the large rates.
RATES = {"adam": (0.1, 0.03, 0.01, 0.003), "sgd": (0.1, 0.03, 0.01, 0.003), "adagrad": (0.5, 0.1), "rmsprop": (0.03, 0.01, 0.003)}  # fmt: skip
PENALTIES = ((0.0, 0.0), (1e-5, 0.0), (1e-4, 0.0), (1e-3, 0.0), (1e-2, 0.0), (0.0, 1e-5), (0.0, 1e-4), (0.0, 1e-3))
"""``(wd, l1)``."""
FACTOR = 0.99
FIRST_STEP = 100
MINIMUM_RATE = 1e-5
LAST_SHARE = 1e-3  # final rate of schedules that we choose, relative to the first


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One model's own hyperparameters."""

    learning_rate: float
    wd: float
    l1: float
    positive_weight: float


def list_candidates(parameters: Hyperparameters, balanced_weight: float) -> list[Candidate]:
    """``num_models`` candidates over a grid of the hyperparameters that the job leaves on ``auto``.

    Args:
        parameters: The hyperparameters of the job.
        balanced_weight: The number of negative examples per positive one.
    """
    given = parameters.learning_rate
    rates = RATES[parameters.optimizer] if given is None else (given,)
    penalties = PENALTIES if parameters.wd is None and parameters.l1 is None else _penalties(parameters)
    weight = parameters.positive_example_weight_mult
    weights = {"balanced": (balanced_weight,), "auto": (1.0, balanced_weight)}.get(str(weight)) or (float(weight),)
    grid = [
        Candidate(learning_rate=rate, wd=wd, l1=l1, positive_weight=positive)
        for (wd, l1), positive, rate in itertools.product(penalties, weights, rates)
    ]
    # If there are more models than combinations, they repeat with other initial weights.
    return list(itertools.islice(itertools.cycle(grid), parameters.num_models))


def _penalties(parameters: Hyperparameters) -> tuple[tuple[float, float], ...]:
    wds = sorted({wd for wd, _ in PENALTIES}) if parameters.wd is None else [parameters.wd]
    l1s = sorted({l1 for _, l1 in PENALTIES}) if parameters.l1 is None else [parameters.l1]
    return tuple(itertools.product(wds, l1s))


class Schedule:
    """The learning rate of every model at every step. It is multiplied by a factor after every ``step`` steps, down to a minimum."""

    def __init__(self, parameters: Hyperparameters, rates: Array) -> None:
        self._first = np.asarray(rates, np.float32)
        self._fixed = parameters.lr_scheduler_step
        self.step: int = self._fixed or FIRST_STEP
        self.factor: float = parameters.lr_scheduler_factor or FACTOR
        self.minimum: float = parameters.lr_scheduler_minimum_lr or MINIMUM_RATE
        self._enabled = parameters.use_lr_scheduler
        self._steps = 0
        self._decays = 0

    def next(self) -> Array:
        """The rates ``(models,)`` of the next step."""
        if self._enabled and self._steps and self._steps % self.step == 0:
            self._decays += 1
        self._steps += 1
        decayed = self._first * np.float32(self.factor**self._decays)
        return np.asarray(np.maximum(decayed, np.minimum(self._first, self.minimum)))

    def plan(self, steps_left: int) -> None:
        """If ``lr_scheduler_step`` is ``auto``, choose it so that the rates are small at the end. Called after the first epoch."""
        if self._fixed is None and self._enabled and steps_left > 0:
            decays = np.log(LAST_SHARE) / np.log(self.factor)
            self.step = max(1, round(steps_left / decays))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaler:
    """The mean that is subtracted from each feature and label, and the deviation that divides it.

    Args:
        mean: ``float32 (features,)``.
        deviation: ``float32 (features,)``; 1 if a feature is constant.
        label_mean, label_deviation: The same for the label.
        is_constant: ``bool (features,)``: features of one value, which is their mean, so that nothing of them is left.
    """

    mean: Array
    deviation: Array
    is_constant: Array
    label_mean: float = 0.0
    label_deviation: float = 1.0

    def label(self, labels: Array) -> Array:
        """Labels in the units of training."""
        return np.asarray((labels - np.float32(self.label_mean)) / np.float32(self.label_deviation), np.float32)

    def fold(self, weights: Array, bias: Array) -> tuple[Array, Array]:
        """Weights ``(features, outputs)`` and bias ``(outputs,)`` for raw features and labels in their own units."""
        raw = weights.astype(np.float64) / self.deviation[:, None] * self.label_deviation
        shift = self.mean.astype(np.float64) @ raw
        return raw.astype(np.float32), (bias * self.label_deviation + self.label_mean - shift).astype(np.float32)


def fit_scaler(rows: FeatureRows, labels: Array, parameters: Hyperparameters) -> Scaler:
    """The scaler for the examples seen first.

    Args:
        rows: Features.
        labels: ``float32 (n,)``.
        parameters: The hyperparameters, which state what to scale.
    """
    means, deviations = rows.moments()
    width = rows.width
    deviation = np.where(deviations > 0, deviations, 1).astype(np.float32)
    label = labels.astype(np.float64)
    spread = float(label.std()) or 1.0
    return Scaler(
        mean=means.astype(np.float32) if parameters.unbias_data else np.zeros(width, np.float32),
        deviation=deviation if parameters.normalize_data else np.ones(width, np.float32),
        label_mean=float(label.mean()) if parameters.unbias_label else 0.0,
        label_deviation=spread if parameters.normalize_label else 1.0,
        is_constant=(deviations == 0) & parameters.unbias_data,
    )


ARRAYS = 5  # arrays of the size of the weights: the weights, their gradient, the optimizer's state
STEPS = 1500  # steps that models need to converge at the rates that we choose
WORTH_STEPS = 1 << 27  # the most weight updates for those steps: some seconds
FEWEST = 8  # examples per step, if we choose
SEED = 0  # fixed, so that the same data and hyperparameters give the same model


class Models:
    """The models of one job.

    Args:
        parameters: The hyperparameters of the job.
        candidates: The hyperparameters of each model.
        scaler: Scales features and labels.
        classes: The number of training examples of each class, ``int64 (classes,)``, if classes are balanced.
    """

    def __init__(
        self,
        parameters: Hyperparameters,
        candidates: list[Candidate],
        scaler: Scaler,
        classes: Array | None = None,
    ) -> None:
        self.parameters = parameters
        self.candidates = candidates
        self.scaler = scaler
        self.loss: LossFunction = loss_of(parameters)
        width, self._outputs = len(scaler.mean), parameters.outputs
        columns = len(candidates) * self._outputs
        _check_memory(width * columns)
        self.weights: Array = self._initial_weights(width, columns)
        self.bias: Array = np.full(columns, parameters.init_bias if parameters.use_bias else 0.0, np.float32)
        self.schedule: Schedule = Schedule(parameters, np.array([one.learning_rate for one in candidates]))
        wd = self._per_output([one.wd for one in candidates])
        self._penalty = Penalty(wd, self._per_output([one.l1 for one in candidates]))
        self._bias_penalty = Penalty(wd * np.float32(parameters.bias_wd_mult or 0.0), np.zeros(1, np.float32))
        memory = {"momentum": parameters.momentum, "beta_1": parameters.beta_1, "beta_2": parameters.beta_2}
        self._optimizer = optimizer_of(parameters.optimizer, self.weights.shape, **memory)
        self._bias_optimizer = optimizer_of(parameters.optimizer, self.bias.shape, **memory)
        self._positive = np.array([one.positive_weight for one in candidates], np.float32)
        self._classes = (
            _class_weights(classes) if classes is not None and parameters.balance_multiclass_weights else None
        )
        self._examples_a_step = parameters.mini_batch_size

    def __len__(self) -> int:
        return len(self.candidates)

    def plan(self, examples: int, passes: int) -> None:
        """Choose the examples per step and the schedule for ``passes`` more epochs. Called after the first epoch.

        A small data set in large mini-batches gives too few steps for any rate. Each mini-batch is then split into several steps.
        """
        size = self.parameters.mini_batch_size
        if self.parameters.learning_rate is None:
            steps = min(STEPS, max(1, WORTH_STEPS // self.weights.size))
            size = min(size, max(FEWEST, math.ceil(examples * passes / steps)))
        self._examples_a_step = size
        self.schedule.plan(math.ceil(examples / size) * passes)

    def step(self, batch: MiniBatch) -> tuple[Array, Array, Array]:
        """Train on one mini-batch.

        Returns:
            What :meth:`score` returns, computed before each step.
        """
        count = max(1, round(len(batch.labels) / self._examples_a_step))
        if count == 1:
            return self._step(batch)
        bounds = [len(batch.labels) * number // count for number in range(count + 1)]
        found = [self._step(batch.part(slice(*ends))) for ends in itertools.pairwise(bounds)]
        scores, labels, values = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return scores, labels, values

    def _step(self, batch: MiniBatch) -> tuple[Array, Array, Array]:
        rows = batch.rows.scale(self.scaler.mean, self.scaler.deviation)
        scores, labels = self._scores(rows), self.scaler.label(batch.labels)
        values, derivative = self.loss.both(scores, labels)
        weights = self._example_weights(batch.labels)
        if weights is not None:
            derivative *= weights
        derivative /= np.float32(len(labels))
        flat = derivative.reshape(len(labels), -1).astype(np.float32, copy=False)
        rates = np.repeat(self.schedule.next(), self._outputs)
        gradient = rows.multiply_transposed(flat)
        self._penalty.add(gradient, self.weights)
        self._optimizer.step(self.weights, gradient, rates)
        if self.parameters.use_bias:
            bias_gradient = flat.sum(axis=0)
            self._bias_penalty.add(bias_gradient, self.bias)
            multiplier = np.float32(self.parameters.bias_lr_mult or 1.0)
            self._bias_optimizer.step(self.bias, bias_gradient, rates * multiplier)
        return scores, labels, values

    def score(self, batch: MiniBatch) -> tuple[Array, Array, Array]:
        """Scores ``(n, models, outputs)``, labels in the units of training ``(n,)``, and loss values ``(n, models)``."""
        scores = self._scores(batch.rows.scale(self.scaler.mean, self.scaler.deviation))
        labels = self.scaler.label(batch.labels)
        return scores, labels, self.loss.value(scores, labels)

    def _scores(self, rows: FeatureRows) -> Array:
        scores = rows.multiply(self.weights)
        scores += self.bias
        return scores.reshape(len(scores), len(self), self._outputs)

    def weight_penalty(self, examples: int) -> Array:
        """The penalty for large weights of each model, ``(models,)``, used when models are compared on training examples.

        Half the sum of squares, divided by the number of examples: the default penalty of ridge and logistic regression in
        other libraries.
        """
        squares = np.square(self.weights, dtype=np.float64).sum(axis=0).reshape(len(self), self._outputs)
        return np.asarray(squares.sum(axis=1) / (2 * max(1, examples)))

    def fold(self, model: int) -> tuple[Array, Array]:
        """Weights ``(features, outputs)`` and bias ``(outputs,)`` of one model, for raw features."""
        columns = slice(model * self._outputs, (model + 1) * self._outputs)
        return self.scaler.fold(self.weights[:, columns], self.bias[columns])

    def _initial_weights(self, width: int, columns: int) -> Array:
        random = np.random.default_rng(SEED)
        if self.parameters.init_method == "normal":
            weights = random.normal(0, self.parameters.init_sigma, (width, columns)).astype(np.float32)
        else:
            scale = self.parameters.init_scale
            weights = random.uniform(-scale, scale, (width, columns)).astype(np.float32)
        weights[self.scaler.is_constant] = 0  # their gradient is 0, so they would keep a random weight
        return weights

    def _per_output(self, values: list[float]) -> Array:
        return np.repeat(np.asarray(values, np.float32), self._outputs)

    def _example_weights(self, labels: Array) -> Array | None:
        """The weight of each example for each model, ``(n, models or 1, 1)``."""
        if self.parameters.is_binary and np.any(self._positive != 1):
            return np.where(labels[:, None, None] == 1, self._positive[None, :, None], np.float32(1))
        if self._classes is not None and not self.parameters.is_regressor:
            return np.asarray(self._classes[labels.astype(np.int64)][:, None, None])
        return None


def _class_weights(counts: Array) -> Array:
    """Class weights that give every class the same total weight."""
    return np.asarray(counts.sum() / (len(counts) * np.maximum(counts, 1)), np.float32)


def _check_memory(values: int) -> None:
    """Refuse weights that exceed memory, before allocating them."""
    memory = usable_memory()
    needed = 4 * ARRAYS * values
    if memory is not None and needed > memory:
        raise JobFailed(
            f"Customer error: the models would take {needed >> 20} MiB, and the machine has {memory >> 20} MiB; "
            "set num_models lower, or feature_dim or num_classes"
        )
