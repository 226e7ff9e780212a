"""Measures of the chosen model on a channel, and the best threshold of a binary model.

Every possible threshold is a cut. Counts are per score, in ascending order: ``positive`` and ``negative`` ``(..., scores)``. Cut
``i`` of ``scores + 1`` classifies the scores from ``i`` on as positive.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from headrace.containers.linear_learner.artifact import Model
from headrace.containers.linear_learner.hyperparameters import Hyperparameters
from headrace.containers.linear_learner.training.channels import MiniBatch
from headrace.containers.linear_learner.training.optimizers import Array, loss_of, loss_unit

__all__ = ["Cuts", "Scores", "area_under_curve", "calibrate", "f_score", "score_examples"]


def f_score(precision: Array, recall: Array, beta: float) -> Array:
    """The weighted harmonic mean of precision and recall; 0 where both are."""
    square = beta * beta
    below = square * precision + recall
    return np.asarray((1 + square) * precision * recall / np.where(below > 0, below, 1))


@dataclass(frozen=True, slots=True)
class Cuts:
    """All cuts of some scores.

    Args:
        true_positive, false_positive: Counts at each cut, ``(..., scores + 1)``.
        positives, negatives: Their total numbers, ``(..., 1)``.
    """

    true_positive: Array
    false_positive: Array
    positives: Array
    negatives: Array

    @classmethod
    def of(cls, positive: Array, negative: Array) -> Cuts:
        """The cuts for these counts."""
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
        """The job's criterion at each cut; larger is better."""
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


class Scores(Protocol):
    """The measures of a pass with the final weights."""

    def add(self, scores: Array, labels: Array, /) -> None: ...
    def measures(self, model: Model, parameters: Hyperparameters, /) -> dict[str, float]: ...


def score_examples(
    model: Model, batches: Iterable[MiniBatch], parameters: Hyperparameters, deviation: float = 1.0
) -> Scores:
    """Score the examples of a pass with raw scores ``(n, outputs)``.

    Args:
        model: The model.
        batches: The examples.
        parameters: The hyperparameters.
        deviation: The divisor of labels in training, which is the unit of distances in the loss.
    """
    found: Scores = _Regression(parameters, deviation)
    if parameters.is_binary:
        found = _Binary(parameters)
    elif not parameters.is_regressor:
        found = _Classes(parameters)
    weights = np.ascontiguousarray(model.weights.T)
    for batch in batches:
        found.add(batch.rows.multiply(weights) + model.bias, batch.labels)
    return found


def calibrate(model: Model, found: Scores) -> Model:
    """A binary model with the best threshold for the job's criterion; other models are not changed."""
    return replace(model, threshold=found.threshold(model)) if isinstance(found, _Binary) else model


class _Regression:
    def __init__(self, parameters: Hyperparameters, deviation: float) -> None:
        self._loss = loss_of(parameters)
        self._deviation = deviation
        self._unit = loss_unit(parameters.loss, deviation)
        self._count = 0
        self._sums = np.zeros(3)

    def add(self, scores: Array, labels: Array) -> None:
        errors = scores[:, 0].astype(np.float64) - labels
        objective = self._loss.value(errors[:, None, None] / self._deviation, np.zeros(len(labels)))
        self._sums += [self._unit * objective.sum(), np.square(errors).sum(), np.abs(errors).sum()]
        self._count += len(labels)

    def measures(self, model: Model, parameters: Hyperparameters) -> dict[str, float]:  # noqa: ARG002 - one protocol
        objective, square, absolute = (self._sums / max(1, self._count)).tolist()
        name = "mse_objective" if parameters.loss == "squared_loss" else f"{parameters.loss}_objective"
        return {name: objective, "mse": square, "rmse": float(np.sqrt(square)), "absolute_loss": absolute}


class _Binary:
    """Scores and labels of up to ``num_calibration_samples`` examples."""

    def __init__(self, parameters: Hyperparameters) -> None:
        self._parameters = parameters
        self._scores: list[Array] = []
        self._labels: list[Array] = []
        self._room = parameters.num_calibration_samples

    def add(self, scores: Array, labels: Array) -> None:
        taken = min(self._room, len(labels))
        if taken:
            self._scores.append(scores[:taken, 0].copy())
            self._labels.append(labels[:taken] == 1)
            self._room -= taken

    def _counts(self) -> tuple[Array, Array, Array]:
        """The distinct scores, ascending, with the number of positive and negative examples of each."""
        scores, labels = np.concatenate(self._scores), np.concatenate(self._labels)
        known, which = np.unique(scores, return_inverse=True)
        positive = np.bincount(which, weights=labels, minlength=len(known)).astype(np.int64)
        return known, positive, np.bincount(which, minlength=len(known)) - positive

    def threshold(self, model: Model) -> float:
        """The threshold in the units of the answers: a probability, or a margin for hinge loss."""
        default = 0.0 if model.loss == "hinge_loss" else 0.5
        if self._parameters.binary_classifier_model_selection_criteria in ("loss_function", "cross_entropy_loss"):
            return default
        known, positive, negative = self._counts()
        # Large scores have equal answers, which no threshold can tell apart.
        answers, which = np.unique(model.answers(known[:, None])[:, 0].astype(np.float64), return_inverse=True)
        positive, negative = (np.bincount(which, weights=one).astype(np.int64) for one in (positive, negative))
        # Include thresholds below and above all scores: with few scores, a target may not be reachable otherwise.
        ends = min(default, float(np.nextafter(answers[0], -np.inf))), max(default, float(answers[-1]))
        between = np.concatenate([ends[:1], (answers[1:] + answers[:-1]) / 2, ends[1:]])
        merit = Cuts.of(positive, negative).merit(self._parameters)
        best = np.flatnonzero(merit == merit.max())
        # Of equally good cuts, choose the one nearest to the default.
        return float(between[best[np.argmin(np.abs(between[best] - default))]])

    def measures(self, model: Model, parameters: Hyperparameters) -> dict[str, float]:
        known, positive, negative = self._counts()
        cuts = Cuts.of(positive, negative)
        cut = int(np.searchsorted(model.answers(known[:, None])[:, 0], model.threshold, side="right"))
        values = loss_of(parameters).value(known[:, None, None].astype(np.float64), np.ones(len(known)))[:, 0]
        others = loss_of(parameters).value(known[:, None, None].astype(np.float64), np.zeros(len(known)))[:, 0]
        precision, recall = cuts.precision[cut], cuts.recall[cut]
        objective = "binary_classification_cross_entropy_objective" if parameters.loss == "logistic" else "hinge_loss_objective"  # fmt: skip
        return {
            objective: float((positive * values + negative * others).sum() / max(1, positive.sum() + negative.sum())),
            "binary_classification_accuracy": float(cuts.accuracy[cut]),
            f"binary_f_{parameters.f_beta:.3f}": float(f_score(precision, recall, parameters.f_beta)),
            "precision": float(precision),
            "recall": float(recall),
            "roc_auc_score": area_under_curve(positive, negative),
        }


class _Classes:
    """Counts per class. Memory does not grow with the data or with the square of the number of classes."""

    def __init__(self, parameters: Hyperparameters) -> None:
        classes = parameters.outputs
        self._top = min(parameters.accuracy_top_k, classes)
        self._loss = loss_of(parameters)
        self._actual = np.zeros(classes, np.int64)
        self._predicted = np.zeros(classes, np.int64)
        self._correct = np.zeros(classes, np.int64)
        self._sums = np.zeros(3)  # sums of the loss, of top-k hits, of the discounted gain

    def add(self, scores: Array, labels: Array) -> None:
        classes, actual = len(self._actual), labels.astype(np.int64)
        called = scores.argmax(axis=1)
        self._actual += np.bincount(actual, minlength=classes)
        self._predicted += np.bincount(called, minlength=classes)
        self._correct += np.bincount(actual[called == actual], minlength=classes)
        of_label = scores[np.arange(len(actual)), actual]
        ranks = 1 + (scores > of_label[:, None]).sum(axis=1)
        losses = self._loss.value(scores[:, None, :].astype(np.float64), labels)
        self._sums += [losses.sum(), (ranks <= self._top).sum(), (1 / np.log2(1 + ranks)).sum()]

    def measures(self, model: Model, parameters: Hyperparameters) -> dict[str, float]:  # noqa: ARG002 - one protocol
        count = max(1, int(self._actual.sum()))
        there = self._actual > 0
        recall = self._correct[there] / self._actual[there]
        precision = self._correct[there] / np.maximum(self._predicted[there], 1)
        loss, top, gain = (self._sums / count).tolist()
        return {
            "multiclass_cross_entropy_objective": loss,
            "multiclass_accuracy": float(self._correct.sum() / count),
            f"multiclass_top_k_accuracy_{self._top}": top,
            "dcg": gain,
            "macro_recall": float(recall.mean()),
            "macro_precision": float(precision.mean()),
            f"macro_f_{parameters.f_beta:.3f}": float(f_score(precision, recall, parameters.f_beta).mean()),
            "multiclass_balanced_accuracy": float(recall.mean()),
            "multiclass_log_loss": loss,
        }
