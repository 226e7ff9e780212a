"""The epochs of a job: training, validation, early stopping, and the choice of the best model."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np

from headrace._optional import available, require
from headrace.containers.linear_learner.artifact import Model
from headrace.containers.linear_learner.hyperparameters import Hyperparameters
from headrace.containers.linear_learner.training.channels import Examples, MiniBatch, channel_examples
from headrace.containers.linear_learner.training.log import Tally, TrainingLog
from headrace.containers.linear_learner.training.models import Candidate, Models, Scaler, fit_scaler, list_candidates
from headrace.containers.linear_learner.training.optimizers import Array
from headrace.containers.linear_learner.training.rows import concat_rows
from headrace.containers.linear_learner.training.scores import calibrate, score_examples
from headrace.contracts.job import TrainingJob
from headrace.errors import JobFailed

__all__ = ["fit", "keep_freed_memory", "limit_blas_threads"]


WORTH_THREADS = 1 << 25  # multiplications in one product: about a millisecond on one core


def limit_blas_threads(multiplications: int) -> AbstractContextManager[object]:
    """Compute small matrix products on one thread.

    Waking another thread and waiting for it costs more than a small product, and a hundred times more if other programs keep
    the cores busy. Without threadpoolctl, which comes with scikit-learn, this does nothing.
    """
    if multiplications >= WORTH_THREADS or not available("threadpoolctl"):
        return nullcontext()
    limits: AbstractContextManager[object] = require("threadpoolctl", extra="sklearn").threadpool_limits(1, "blas")
    return limits


LARGEST = 16 << 20  # bytes; glibc considers up to 32 MiB


def keep_freed_memory() -> None:
    """Make the C library keep freed blocks for reuse.

    glibc returns large blocks to the system. Getting new ones, page by page and cleared, takes up to a third of a training
    step. Its threshold follows the largest block freed so far (mallopt(3), M_MMAP_THRESHOLD). Other C libraries are not
    affected.
    """
    np.empty(LARGEST, np.uint8)


@dataclass(slots=True)
class _Best:
    """The best model so far, with its weights for unscaled features."""

    value: float
    loss: float
    candidate: Candidate
    weights: Array
    bias: Array


class _Passes:
    """Passes over a channel. They are numbered, because a pipe has a FIFO for each epoch."""

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
        self.log = TrainingLog(job, parameters)
        self._train = _Passes(train)
        self._validation: _Passes | None = None
        self._test: _Passes | None = None
        self._chosen_on = "validation" if "validation" in job.channels else "train"
        self._best: _Best | None = None
        self._stale = 0

    def _passes(self, name: str, width: int) -> _Passes | None:
        examples = channel_examples(self.job, name, self.parameters, width)
        if examples is None:
            return None
        examples.check_beginning()
        return _Passes(examples)

    def run(self) -> Model:
        classes = self._count_classes()
        first = self._train.next()
        taken, scaler = self._scaler(first)
        self._validation = self._passes("validation", taken[0].rows.width)
        self._test = self._passes("test", taken[0].rows.width)
        models = self._models(scaler, classes)
        batches: Iterator[MiniBatch] = itertools.chain(taken, first)
        del taken  # lets the chain free what it has passed on
        keep_freed_memory()
        # A diverging model is ignored; the others continue.
        with np.errstate(all="ignore"), limit_blas_threads(models.weights.size * self.parameters.mini_batch_size):
            for epoch in range(self.parameters.epochs):
                if self._epoch(models, epoch, batches) or self.job.stop.is_set():
                    break
                if epoch + 1 < self.parameters.epochs:
                    batches = self._train.next()
        return self._finish(models)

    def _count_classes(self) -> Array | None:
        """The number of examples of each class, from a pass of its own, if the job balances them.

        The first examples would not do: in data ordered by class, they are of one class.
        """
        if not self.parameters.balances_classes:
            return None
        counts = np.zeros(max(2, self.parameters.outputs), np.int64)
        for batch in self._train.next():
            counts += np.bincount(batch.labels.astype(np.int64), minlength=len(counts))
        return counts

    def _scaler(self, batches: Iterator[MiniBatch]) -> tuple[list[MiniBatch], Scaler]:
        taken: list[MiniBatch] = []
        count = 0
        while count < self.parameters.num_point_for_scaler and (batch := next(batches, None)) is not None:
            taken.append(batch)
            count += len(batch.labels)
        labels = np.concatenate([batch.labels for batch in taken])
        scaler = fit_scaler(concat_rows([batch.rows for batch in taken]), labels, self.parameters)
        self.log.scaler(scaler)
        return taken, scaler

    def _models(self, scaler: Scaler, classes: Array | None) -> Models:
        balanced = 1.0
        if self.parameters.is_binary and classes is not None and classes.all():
            balanced = float(classes[0] / classes[1])
        return Models(self.parameters, list_candidates(self.parameters, balanced), scaler, classes)

    def _epoch(self, models: Models, epoch: int, batches: Iterator[MiniBatch]) -> bool:
        """Run one epoch. Returns whether it was the last."""
        begun = time.time()
        tally = Tally(self.parameters, len(models))
        for batch in batches:
            scores, _, values = models.step(batch)
            tally.add(scores, batch.labels, values)
            if self.job.stop.is_set():
                break
        if epoch == 0:
            models.plan(tally.examples, self.parameters.epochs - 1)
        self.log.epoch("training", "train", epoch, tally, models.scaler, begun)
        chosen_on = tally
        if self._validation is not None:
            chosen_on = Tally(self.parameters, len(models))
            for batch in self._validation.next():
                scores, _, values = models.score(batch)
                chosen_on.add(scores, batch.labels, values)
            self.log.epoch("validation", "validation", epoch, chosen_on, models.scaler, begun)
        return self._note_result(models, epoch, chosen_on, tally.examples, begun)

    def _note_result(self, models: Models, epoch: int, tally: Tally, examples: int, begun: float) -> bool:
        # On training examples, the loss is smallest without any penalty, so it cannot select a penalty.
        penalty = models.weight_penalty(examples) if self._validation is None else 0.0
        number = tally.best(penalty)
        value = float(tally.criterion(penalty)[number])
        self.log.criterion(self._chosen_on, epoch, tally, value, models.scaler)
        tolerance = self.parameters.early_stopping_tolerance
        improved = self._best is None or value < self._best.value - tolerance * abs(self._best.value)
        loss = float(tally.losses(penalty)[number])
        # Several epochs may reach the same accuracy; keep the one with the smallest loss.
        if self._best is None or (value, loss) < (self._best.value, self._best.loss):
            weights, bias = models.fold(number)
            if np.isfinite(weights).all() and np.isfinite(bias).all():
                self._best = _Best(value, loss, models.candidates[number], weights, bias)
        self._stale = 0 if improved else self._stale + 1
        self.log.progress(epoch, self._stale, examples, begun, improved=improved)
        return self._stale > self.parameters.early_stopping_patience

    def _finish(self, models: Models) -> Model:
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
        chosen_on = self._train if self._validation is None else self._validation
        deviation = models.scaler.label_deviation
        found = score_examples(model, chosen_on.next(), self.parameters, deviation)
        model = calibrate(model, found)
        self.log.scores(self._chosen_on, found.measures(model, self.parameters))
        self.log.best_candidate(best.candidate, models.schedule)
        if self._test is None:
            self.log.line("Test data is not provided.")
        else:
            found = score_examples(model, self._test.next(), self.parameters, deviation)
            self.log.scores("test", found.measures(model, self.parameters))
        return model
