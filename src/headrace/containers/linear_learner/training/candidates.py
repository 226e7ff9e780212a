"""The models that are trained side by side, and the scaling of features and labels, found from the first examples."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from headrace.containers.linear_learner.hyperparameters import Hyperparameters
from headrace.containers.linear_learner.training.optimizers import Array
from headrace.containers.linear_learner.training.rows import Rows

__all__ = ["Candidate", "Scaler", "Schedule", "candidates", "fit_scaler"]


# The real grid is not published; its logs show 32 models of about two rates with growing penalties. Adam moves every
# weight by about the rate in each step, so that data of few steps needs the large ones.
RATES = {"adam": (0.1, 0.03, 0.01, 0.003), "sgd": (0.1, 0.03, 0.01, 0.003), "adagrad": (0.5, 0.1), "rmsprop": (0.03, 0.01, 0.003)}  # fmt: skip
PENALTIES = ((0.0, 0.0), (1e-5, 0.0), (1e-4, 0.0), (1e-3, 0.0), (1e-2, 0.0), (0.0, 1e-5), (0.0, 1e-4), (0.0, 1e-3))
"""``(wd, l1)``."""
FACTOR = 0.99
FIRST_STEP = 100
MINIMUM_RATE = 1e-5
LAST_SHARE = 1e-3  # of the rate: where a schedule of our own choice is at the end


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One model's own hyperparameters."""

    learning_rate: float
    wd: float
    l1: float
    positive_weight: float


def candidates(parameters: Hyperparameters, balanced_weight: float) -> list[Candidate]:
    """As many as ``num_models`` says, over what the job leaves open.

    Args:
        parameters: Of the job.
        balanced_weight: How many negative examples there are for each positive one.
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
    # More models than combinations differ by where they begin.
    return list(itertools.islice(itertools.cycle(grid), parameters.num_models))


def _penalties(parameters: Hyperparameters) -> tuple[tuple[float, float], ...]:
    wds = sorted({wd for wd, _ in PENALTIES}) if parameters.wd is None else [parameters.wd]
    l1s = sorted({l1 for _, l1 in PENALTIES}) if parameters.l1 is None else [parameters.l1]
    return tuple(itertools.product(wds, l1s))


class Schedule:
    """The learning rate of every model at every step: multiplied by a factor every so many steps, down to a minimum."""

    def __init__(self, parameters: Hyperparameters, rates: Array) -> None:
        self._first = np.asarray(rates, np.float32)
        self._fixed = parameters.lr_scheduler_step
        self.step = self._fixed or FIRST_STEP
        self.factor = parameters.lr_scheduler_factor or FACTOR
        self.minimum = parameters.lr_scheduler_minimum_lr or MINIMUM_RATE
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
        """Where the job leaves it open: decay so that the rates are small at the end. Known after the first epoch."""
        if self._fixed is None and self._enabled and steps_left > 0:
            decays = np.log(LAST_SHARE) / np.log(self.factor)
            self.step = max(1, round(steps_left / decays))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaler:
    """What is taken from each feature and label, and what it is divided by.

    Args:
        mean: ``float32 (features,)``.
        deviation: ``float32 (features,)``, 1 where a feature does not vary.
        label_mean, label_deviation: Of the label.
        classes: How many examples of each class were seen, ``int64 (classes,)``; empty for regression.
    """

    mean: Array
    deviation: Array
    label_mean: float = 0.0
    label_deviation: float = 1.0
    classes: Array

    def label(self, labels: Array) -> Array:
        """Labels in the units of training."""
        return np.asarray((labels - np.float32(self.label_mean)) / np.float32(self.label_deviation), np.float32)

    def folded(self, weights: Array, bias: Array) -> tuple[Array, Array]:
        """Weights ``(features, outputs)`` and bias ``(outputs,)`` for raw features and labels in their own units."""
        raw = weights.astype(np.float64) / self.deviation[:, None] * self.label_deviation
        shift = self.mean.astype(np.float64) @ raw
        return raw.astype(np.float32), (bias * self.label_deviation + self.label_mean - shift).astype(np.float32)


def fit_scaler(rows: Rows, labels: Array, parameters: Hyperparameters) -> Scaler:
    """The scaler that these first examples show.

    Args:
        rows: Features.
        labels: ``float32 (n,)``.
        parameters: What is to be scaled.
    """
    means, deviations = rows.moments()
    width = rows.width
    deviation = np.where(deviations > 0, deviations, 1).astype(np.float32)
    label = labels.astype(np.float64)
    spread = float(label.std()) or 1.0
    classes = np.zeros(0, np.int64)
    if not parameters.is_regressor:
        classes = np.bincount(labels.astype(np.int64), minlength=max(2, parameters.outputs))
    return Scaler(
        mean=means.astype(np.float32) if parameters.unbias_data else np.zeros(width, np.float32),
        deviation=deviation if parameters.normalize_data else np.ones(width, np.float32),
        label_mean=float(label.mean()) if parameters.unbias_label else 0.0,
        label_deviation=spread if parameters.normalize_label else 1.0,
        classes=classes,
    )
