"""The models that are trained side by side: what each of them is trained with."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from headrace.containers.linear_learner.hyperparameters import Hyperparameters
from headrace.containers.linear_learner.training.losses import Array

__all__ = ["Candidate", "Schedule", "candidates"]

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
