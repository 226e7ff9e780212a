"""Where to cut scores in two: what precision, recall, accuracy and F come of every threshold, and which one serves best.

Counts are per score, in ascending order: ``positive`` and ``negative`` ``(..., scores)``. Cut ``i`` of ``scores + 1`` calls
the scores from ``i`` on positive.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.containers.linear_learner.hyperparameters import Hyperparameters
from headrace.containers.linear_learner.training.losses import Array

__all__ = ["Cuts", "area_under_curve", "f_score"]


def f_score(precision: Array, recall: Array, beta: float) -> Array:
    """The weighted harmonic mean of precision and recall; 0 where both are."""
    square = beta * beta
    below = square * precision + recall
    return np.asarray((1 + square) * precision * recall / np.where(below > 0, below, 1))


@dataclass(frozen=True, slots=True)
class Cuts:
    """All cuts of some scores.

    Args:
        true_positive, false_positive: Of each cut, ``(..., scores + 1)``.
        positives, negatives: How many there are, ``(..., 1)``.
    """

    true_positive: Array
    false_positive: Array
    positives: Array
    negatives: Array

    @classmethod
    def of(cls, positive: Array, negative: Array) -> Cuts:
        """The cuts of counts."""
        above = _from_the_end(positive), _from_the_end(negative)
        return cls(*above, above[0][..., :1], above[1][..., :1])

    @property
    def recall(self) -> Array:
        return np.asarray(self.true_positive / np.maximum(self.positives, 1))

    @property
    def precision(self) -> Array:
        called = self.true_positive + self.false_positive
        return np.asarray(self.true_positive / np.maximum(called, 1))

    @property
    def accuracy(self) -> Array:
        right = self.true_positive + self.negatives - self.false_positive
        return np.asarray(right / np.maximum(self.positives + self.negatives, 1))

    def merit(self, parameters: Hyperparameters) -> Array:
        """What the job's criterion is worth at each cut: the larger, the better."""
        criterion = parameters.binary_classifier_model_selection_criteria
        if criterion in ("f_beta", "f1"):
            return f_score(self.precision, self.recall, 1.0 if criterion == "f1" else parameters.f_beta)
        if criterion == "precision_at_target_recall":
            return np.where(self.recall >= parameters.target_recall, self.precision, -1.0)
        if criterion == "recall_at_target_precision":
            return np.where(self.precision >= parameters.target_precision, self.recall, -1.0)
        return self.accuracy


def _from_the_end(counts: Array) -> Array:
    sums = np.cumsum(counts[..., ::-1], axis=-1)[..., ::-1]
    return np.concatenate([sums, np.zeros((*counts.shape[:-1], 1), sums.dtype)], axis=-1)


def area_under_curve(positive: Array, negative: Array) -> float:
    """The area under the receiver operating curve: how often a positive example scores higher than a negative one."""
    below = np.cumsum(negative) - negative
    pairs = float(positive.sum()) * float(negative.sum())
    return float((positive * (below + 0.5 * negative)).sum() / pairs) if pairs else float("nan")
