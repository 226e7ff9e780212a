"""What one pass over a channel tells of every model that is being trained."""

from __future__ import annotations

import numpy as np

from headrace.containers.linear_learner.hyperparameters import Hyperparameters
from headrace.containers.linear_learner.training.cuts import Cuts
from headrace.containers.linear_learner.training.losses import Array, sigmoid

__all__ = ["Tally"]

BINS = 1024  # of scores of binary models, between 0 and 1: enough to compare models, and memory stays what it is


class Tally:
    """Sums over the mini-batches of a pass, for each of ``models`` models."""

    def __init__(self, parameters: Hyperparameters, models: int) -> None:
        self._parameters = parameters
        self._models = models
        self.batches = 0
        self.examples = 0
        self.sum = np.zeros(models)
        """Of the loss, over examples."""
        self.least = np.full(models, np.inf)
        """The smallest mean of a mini-batch."""
        self.most = np.full(models, -np.inf)
        self._counts = np.zeros((2, models, BINS), np.int64)  # of examples whose label is 0, and 1

    def add(self, scores: Array, labels: Array, values: Array) -> None:
        """One mini-batch.

        Args:
            scores: ``(n, models, outputs)``.
            labels: ``(n,)``.
            values: Of the loss, ``(n, models)``.
        """
        sums = values.sum(axis=0, dtype=np.float64)
        means = sums / len(labels)
        self.batches += 1
        self.examples += len(labels)
        self.sum += sums
        self.least = np.minimum(self.least, means)
        self.most = np.maximum(self.most, means)
        if not self.by_loss:
            self._count(scores[..., 0], labels)

    def _count(self, scores: Array, labels: Array) -> None:
        likely = sigmoid(scores)
        likely *= BINS
        np.fmax(likely, 0, out=likely)  # which takes 0 for a score that is none
        places = np.fmin(likely, BINS - 1, out=likely).astype(np.int64)
        places += np.arange(self._models) * BINS
        places += (labels == 1)[:, None] * (self._models * BINS)
        self._counts += np.bincount(places.reshape(-1), minlength=self._counts.size).reshape(self._counts.shape)

    @property
    def mean(self) -> Array:
        """The mean loss of each model, ``(models,)``; infinite for one that has run away."""
        mean = self.sum / max(1, self.examples)
        return np.where(np.isfinite(mean), mean, np.inf)

    @property
    def by_loss(self) -> bool:
        """Whether models are compared by their loss."""
        criterion = self._parameters.binary_classifier_model_selection_criteria
        return not self._parameters.is_binary or criterion in ("loss_function", "cross_entropy_loss")

    def losses(self, burden: Array | float = 0.0) -> Array:
        """The mean loss of each model with what it has to bear beside it, ``(models,)``."""
        return np.asarray(self.mean + burden)

    def criterion(self, burden: Array | float = 0.0) -> Array:
        """What models are chosen by, ``(models,)``: the smaller, the better; ``burden`` as for :meth:`losses`."""
        if self.by_loss:
            return self.losses(burden)
        negative, positive = self._counts
        merit = Cuts.of(positive, negative).merit(self._parameters).max(axis=1)
        return np.where(np.isfinite(self.mean), -merit, np.inf)

    def best(self, burden: Array | float = 0.0) -> int:
        """The model to choose: by the criterion, then by the loss; ``burden`` as for :meth:`losses`."""
        return int(np.lexsort((self.losses(burden), self.criterion(burden)))[0])
