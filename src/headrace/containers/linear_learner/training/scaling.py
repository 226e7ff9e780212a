"""Features and labels in units of their own spread, found from the first examples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.containers.linear_learner.hyperparameters import Hyperparameters
from headrace.containers.linear_learner.training.losses import Array
from headrace.containers.linear_learner.training.rows import Rows

__all__ = ["Scaler", "fit_scaler"]


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
