"""The epochs of a job: training, validation, early stopping, the choice of the best model."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from headrace.containers.linear_learner.artifact import Model
from headrace.containers.linear_learner.hyperparameters import Hyperparameters
from headrace.containers.linear_learner.training.candidates import Candidate, Scaler, candidates, fit_scaler
from headrace.containers.linear_learner.training.channels import Examples, MiniBatch, channel_examples
from headrace.containers.linear_learner.training.libraries import keep_freed_memory, numeric_threads
from headrace.containers.linear_learner.training.optimizers import Array
from headrace.containers.linear_learner.training.reporting import Reporting, Tally
from headrace.containers.linear_learner.training.rows import joined
from headrace.containers.linear_learner.training.scores import calibrated, scores_of
from headrace.containers.linear_learner.training.weighing import Models
from headrace.contracts.job import TrainingJob
from headrace.errors import JobFailed

__all__ = ["fit"]


@dataclass(slots=True)
class _Best:
    """The best model so far: its criterion and loss, its candidate, and its weights for raw features."""

    value: float
    loss: float
    candidate: Candidate
    weights: Array
    bias: Array


class _Passes:
    """The passes over a channel, counted: a pipe gives each of them once."""

    def __init__(self, examples: Examples) -> None:
        self._examples = examples
        self._number = 0

    def next(self) -> Iterator[MiniBatch]:
        self._number += 1
        return self._examples.epoch(self._number - 1)


def fit(job: TrainingJob, parameters: Hyperparameters) -> Model:
    """Train on the channels of a job.

    Raises:
        JobFailed: No training data, or data that does not suit the hyperparameters.
    """
    train = channel_examples(job, "train", parameters)
    if train is None:
        raise JobFailed("Customer error: the channel 'train' is required")
    return _Fitting(job, parameters, train).run()


class _Fitting:
    def __init__(self, job: TrainingJob, parameters: Hyperparameters, train: Examples) -> None:
        self.job = job
        self.parameters = parameters
        self.reporting = Reporting(job, parameters)
        self._train = _Passes(train)
        self._validation = self._other("validation")
        self._test = self._other("test")
        self._judge = "train" if self._validation is None else "validation"
        self._best: _Best | None = None
        self._stale = 0

    def _other(self, name: str) -> _Passes | None:
        examples = channel_examples(self.job, name, self.parameters)
        return None if examples is None else _Passes(examples)

    def run(self) -> Model:
        first = self._train.next()
        taken, scaler = self._scaler(first)
        models = self._models(scaler)
        batches: Iterator[MiniBatch] = itertools.chain(taken, first)
        del taken  # The chain lets go of what it has given.
        keep_freed_memory()
        # A model that runs away is left behind, and the others go on.
        with np.errstate(all="ignore"), numeric_threads(models.weights.size * self.parameters.mini_batch_size):
            for epoch in range(self.parameters.epochs):
                if self._epoch(models, epoch, batches) or self.job.stop.is_set():
                    break
                if epoch + 1 < self.parameters.epochs:
                    batches = self._train.next()
        self.reporting.libraries(models.choice.steps)
        return self._finished(models)

    def _scaler(self, batches: Iterator[MiniBatch]) -> tuple[list[MiniBatch], Scaler]:
        taken: list[MiniBatch] = []
        count = 0
        while count < self.parameters.num_point_for_scaler and (batch := next(batches, None)) is not None:
            taken.append(batch)
            count += len(batch.labels)
        if not taken:
            raise JobFailed("Customer error: the channel 'train' has no examples")
        labels = np.concatenate([batch.labels for batch in taken])
        scaler = fit_scaler(joined([batch.rows for batch in taken]), labels, self.parameters)
        self.reporting.scaler(scaler)
        return taken, scaler

    def _models(self, scaler: Scaler) -> Models:
        counts = scaler.classes
        balanced = float(counts[0] / counts[1]) if self.parameters.is_binary and counts.all() else 1.0
        return Models(self.parameters, candidates(self.parameters, balanced), scaler)

    def _epoch(self, models: Models, epoch: int, batches: Iterator[MiniBatch]) -> bool:
        """One epoch; true when it was the last."""
        begun = time.time()
        tally = Tally(self.parameters, len(models))
        for batch in batches:
            scores, _, values = models.step(batch)
            tally.add(scores, batch.labels, values)
            if self.job.stop.is_set():
                break
        if epoch == 0:
            models.plan(tally.examples, self.parameters.epochs - 1)
        self.reporting.epoch("training", "train", epoch, tally, models.scaler, begun)
        judge = tally
        if self._validation is not None:
            judge = Tally(self.parameters, len(models))
            for batch in self._validation.next():
                scores, _, values = models.score(batch)
                judge.add(scores, batch.labels, values)
            self.reporting.epoch("validation", "validation", epoch, judge, models.scaler, begun)
        return self._judged(models, epoch, judge, tally.examples, begun)

    def _judged(self, models: Models, epoch: int, tally: Tally, examples: int, begun: float) -> bool:
        # No penalty could be chosen by the loss of examples that were learned from: without any it is always the smallest.
        burden = models.burden(examples) if self._validation is None else 0.0
        number = tally.best(burden)
        value = float(tally.criterion(burden)[number])
        self.reporting.criterion(self._judge, epoch, tally, value, models.scaler)
        tolerance = self.parameters.early_stopping_tolerance
        improved = self._best is None or value < self._best.value - tolerance * abs(self._best.value)
        loss = float(tally.losses(burden)[number])
        # Many epochs may call as many examples rightly: the surest of them is kept.
        if self._best is None or (value, loss) < (self._best.value, self._best.loss):
            weights, bias = models.folded(number)
            if np.isfinite(weights).all() and np.isfinite(bias).all():
                self._best = _Best(value, loss, models.candidates[number], weights, bias)
        self._stale = 0 if improved else self._stale + 1
        self.reporting.judged(epoch, self._stale, examples, begun, improved=improved)
        return self._stale > self.parameters.early_stopping_patience

    def _finished(self, models: Models) -> Model:
        best = self._best
        if best is None:
            raise JobFailed(
                "Algorithm error: no model has kept finite weights; try a smaller learning_rate, or normalize_data=true"
            )
        model = Model(
            predictor_type=self.parameters.predictor_type,
            loss=self.parameters.loss,
            weights=np.ascontiguousarray(best.weights.T),
            bias=best.bias,
        )
        if self.job.stop.is_set():
            return model
        judge = self._train if self._validation is None else self._validation
        deviation = models.scaler.label_deviation
        found = scores_of(model, judge.next(), self.parameters, deviation)
        model = calibrated(model, found)
        self.reporting.final(self._judge, found.measures(model, self.parameters))
        self.reporting.chosen(best.candidate, models.schedule)
        if self._test is None:
            self.reporting.line("Test data is not provided.")
        else:
            found = scores_of(model, self._test.next(), self.parameters, deviation)
            self.reporting.final("test", found.measures(model, self.parameters))
        return model
