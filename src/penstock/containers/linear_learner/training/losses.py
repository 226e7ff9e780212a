"""What training makes small: a value and its derivative for every example and model.

Scores are ``float32 (n, models, outputs)``; labels ``(n,)``; values ``(n, models)``; derivatives have the shape of scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from penstock.containers.linear_learner.hyperparameters import Hyperparameters

__all__ = ["Array", "Loss", "loss_of", "loss_unit", "sigmoid"]

Array = npt.NDArray[Any]
OF_SQUARES = ("squared_loss", "eps_insensitive_squared_loss", "huber_loss")


class Loss(Protocol):
    """A loss of scores against labels, both in the units of training."""

    def value(self, scores: Array, labels: Array, /) -> Array: ...
    def derivative(self, scores: Array, labels: Array, /) -> Array: ...


def sigmoid(scores: Array) -> Array:
    """``1 / (1 + exp(-x))``, without overflow."""
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * scores)), scores.dtype)


class Squared:
    """``(score - label)^2``, its derivative halved as is usual."""

    def value(self, scores: Array, labels: Array) -> Array:
        return np.square(_residuals(scores, labels))[..., 0]

    def derivative(self, scores: Array, labels: Array) -> Array:
        return _residuals(scores, labels)


class Absolute:
    """``|score - label|``."""

    def value(self, scores: Array, labels: Array) -> Array:
        return np.abs(_residuals(scores, labels))[..., 0]

    def derivative(self, scores: Array, labels: Array) -> Array:
        return np.sign(_residuals(scores, labels))


@dataclass(frozen=True, slots=True)
class Insensitive:
    """A loss of how far the score is further away than ``epsilon``."""

    epsilon: float
    squared: bool

    def value(self, scores: Array, labels: Array) -> Array:
        beyond = np.maximum(np.abs(_residuals(scores, labels)) - self.epsilon, 0)[..., 0]
        return np.square(beyond) if self.squared else beyond

    def derivative(self, scores: Array, labels: Array) -> Array:
        residuals = _residuals(scores, labels)
        beyond = np.maximum(np.abs(residuals) - self.epsilon, 0)
        return np.sign(residuals) * (beyond if self.squared else (beyond > 0).astype(scores.dtype))


@dataclass(frozen=True, slots=True)
class Quantile:
    """The pinball loss: smallest where a share ``quantile`` of the labels lies below the score."""

    quantile: float

    def value(self, scores: Array, labels: Array) -> Array:
        residuals = _residuals(scores, labels)[..., 0]
        return np.maximum((1 - self.quantile) * residuals, -self.quantile * residuals)

    def derivative(self, scores: Array, labels: Array) -> Array:
        above = _residuals(scores, labels) > 0
        return np.where(above, np.float32(1 - self.quantile), np.float32(-self.quantile))


@dataclass(frozen=True, slots=True)
class Huber:
    """Half the square up to ``delta``, linear beyond."""

    delta: float

    def value(self, scores: Array, labels: Array) -> Array:
        size = np.abs(_residuals(scores, labels))[..., 0]
        return np.where(size <= self.delta, 0.5 * size * size, self.delta * (size - 0.5 * self.delta))

    def derivative(self, scores: Array, labels: Array) -> Array:
        return np.clip(_residuals(scores, labels), -self.delta, self.delta)


class Logistic:
    """The cross entropy of the probability ``sigmoid(score)`` against labels 0 and 1."""

    def value(self, scores: Array, labels: Array) -> Array:
        return np.asarray(np.logaddexp(0, -_signs(labels) * scores)[..., 0])

    def derivative(self, scores: Array, labels: Array) -> Array:
        return np.asarray(sigmoid(scores) - labels[:, None, None].astype(scores.dtype))


@dataclass(frozen=True, slots=True)
class Hinge:
    """``max(0, margin - score)`` of positive examples, of negative ones with the score's sign turned."""

    margin: float

    def value(self, scores: Array, labels: Array) -> Array:
        return np.maximum(self.margin - _signs(labels) * scores, 0)[..., 0]

    def derivative(self, scores: Array, labels: Array) -> Array:
        signs = _signs(labels)
        return np.where(signs * scores < self.margin, -signs, np.float32(0))


class Softmax:
    """The cross entropy of the softmax of the scores against the class."""

    def value(self, scores: Array, labels: Array) -> Array:
        top = scores.max(axis=2, keepdims=True)
        log_sum = np.log(np.exp(scores - top).sum(axis=2)) + top[..., 0]
        return np.asarray(log_sum - _of_class(scores, labels), scores.dtype)

    def derivative(self, scores: Array, labels: Array) -> Array:
        likely = np.exp(scores - scores.max(axis=2, keepdims=True))
        likely /= likely.sum(axis=2, keepdims=True)
        likely[np.arange(len(labels)), :, labels.astype(np.int64)] -= 1
        return np.asarray(likely)


def _residuals(scores: Array, labels: Array) -> Array:
    return np.asarray(scores - labels[:, None, None].astype(scores.dtype))


def _signs(labels: Array) -> Array:
    return (2 * labels[:, None, None] - 1).astype(np.float32)


def _of_class(scores: Array, labels: Array) -> Array:
    return np.asarray(scores[np.arange(len(labels)), :, labels.astype(np.int64)])


def loss_unit(loss: str, deviation: float) -> float:
    """What a loss grows by where labels, scores and the loss's own distances all grow by ``deviation``."""
    return deviation * deviation if loss in OF_SQUARES else deviation


def loss_of(parameters: Hyperparameters) -> Loss:
    """The loss that a job asks for. Distances count in standard deviations of the label where that is normalised."""
    losses: dict[str, Loss] = {
        "squared_loss": Squared(),
        "absolute_loss": Absolute(),
        "eps_insensitive_squared_loss": Insensitive(parameters.loss_insensitivity, squared=True),
        "eps_insensitive_absolute_loss": Insensitive(parameters.loss_insensitivity, squared=False),
        "quantile_loss": Quantile(parameters.quantile),
        "huber_loss": Huber(parameters.huber_delta),
        "logistic": Logistic(),
        "hinge_loss": Hinge(parameters.margin),
        "softmax_loss": Softmax(),
    }
    return losses[parameters.loss]
