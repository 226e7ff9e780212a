"""Losses, and optimizers that reduce them for many models at once.

Every model has its own learning rate. Weights are ``float32 (features, models * outputs)``; rates and penalties broadcast
against that. Sources: Kingma and Ba 2015 (Adam), Duchi et al. 2011 (AdaGrad), Tieleman and Hinton 2012 (RMSProp).

A loss gives a value and a derivative for every example and model. Scores are ``float32 (n, models, outputs)``; labels ``(n,)``; values ``(n, models)``; derivatives have the shape of scores.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from headrace.containers.linear_learner.hyperparameters import Hyperparameters

__all__ = ["Array", "LossFunction", "Optimizer", "Penalty", "loss_of", "loss_unit", "optimizer_of", "sigmoid"]


Array = npt.NDArray[Any]
LEAST = -60.0  # smallest exponent of e: denormal numbers double the time of products
OF_SQUARES = ("squared_loss", "eps_insensitive_squared_loss", "huber_loss")


class LossFunction(Protocol):
    """A loss of scores against labels, both in the units of training."""

    def value(self, scores: Array, labels: Array, /) -> Array: ...
    def both(self, scores: Array, labels: Array, /) -> tuple[Array, Array]:
        """Value and derivative. The caller may modify the derivative."""
        ...


class _SeparateLoss(ABC):
    """A loss whose value and derivative share no expensive computation."""

    @abstractmethod
    def value(self, scores: Array, labels: Array) -> Array: ...
    @abstractmethod
    def derivative(self, scores: Array, labels: Array) -> Array: ...

    def both(self, scores: Array, labels: Array) -> tuple[Array, Array]:
        return self.value(scores, labels), self.derivative(scores, labels)


def sigmoid(scores: Array) -> Array:
    """``1 / (1 + exp(-x))``, without overflow."""
    half = np.asarray(scores * scores.dtype.type(0.5))
    np.tanh(half, out=half)
    half += 1
    half *= 0.5
    return half


class Squared:
    """``(score - label)^2``; the derivative is halved, as usual."""

    def value(self, scores: Array, labels: Array) -> Array:
        return self.both(scores, labels)[0]

    def both(self, scores: Array, labels: Array) -> tuple[Array, Array]:
        residuals = _residuals(scores, labels)
        return np.square(residuals)[..., 0], residuals


class Absolute(_SeparateLoss):
    """``|score - label|``."""

    def value(self, scores: Array, labels: Array) -> Array:
        return np.abs(_residuals(scores, labels))[..., 0]

    def derivative(self, scores: Array, labels: Array) -> Array:
        return np.sign(_residuals(scores, labels))


@dataclass(frozen=True, slots=True)
class Insensitive(_SeparateLoss):
    """A loss of the distance beyond ``epsilon``."""

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
class Quantile(_SeparateLoss):
    """The pinball loss, smallest where a fraction ``quantile`` of the labels is below the score."""

    quantile: float

    def value(self, scores: Array, labels: Array) -> Array:
        residuals = _residuals(scores, labels)[..., 0]
        return np.maximum((1 - self.quantile) * residuals, -self.quantile * residuals)

    def derivative(self, scores: Array, labels: Array) -> Array:
        above = _residuals(scores, labels) > 0
        return np.where(above, np.float32(1 - self.quantile), np.float32(-self.quantile))


@dataclass(frozen=True, slots=True)
class Huber(_SeparateLoss):
    """Half the square up to ``delta``, linear beyond."""

    delta: float

    def value(self, scores: Array, labels: Array) -> Array:
        size = np.abs(_residuals(scores, labels))[..., 0]
        return np.where(size <= self.delta, 0.5 * size * size, self.delta * (size - 0.5 * self.delta))

    def derivative(self, scores: Array, labels: Array) -> Array:
        return np.clip(_residuals(scores, labels), -self.delta, self.delta)


class Logistic(_SeparateLoss):
    """The cross entropy of the probability ``sigmoid(score)`` against labels 0 and 1."""

    def value(self, scores: Array, labels: Array) -> Array:
        away = (scores * -_signs(labels))[..., 0]
        # logaddexp(0, away) in steps that NumPy vectorizes, in a tenth of the time of np.logaddexp.
        value = np.abs(away)
        np.negative(value, out=value)
        _exp(value)
        np.log1p(value, out=value)
        value += np.maximum(away, 0, out=away)
        return np.asarray(value)

    def derivative(self, scores: Array, labels: Array) -> Array:
        likely = sigmoid(scores)
        likely -= labels[:, None, None].astype(scores.dtype)
        return likely


@dataclass(frozen=True, slots=True)
class Hinge(_SeparateLoss):
    """``max(0, margin - score)`` for positive examples, ``max(0, margin + score)`` for negative ones."""

    margin: float

    def value(self, scores: Array, labels: Array) -> Array:
        return np.maximum(self.margin - _signs(labels) * scores, 0)[..., 0]

    def derivative(self, scores: Array, labels: Array) -> Array:
        signs = _signs(labels)
        return np.where(signs * scores < self.margin, -signs, np.float32(0))


class Softmax:
    """The cross entropy of the softmax of the scores against the class.

    Computed with the classes on the first axis, because NumPy takes several times as long for maxima and sums over a short
    last axis. Memory is reused, because the system clears new memory page by page.
    """

    def __init__(self) -> None:
        self._odds: Array = np.zeros((0, 0), np.float32)

    def value(self, scores: Array, labels: Array) -> Array:
        return self._parts(scores, labels)[0]

    def both(self, scores: Array, labels: Array) -> tuple[Array, Array]:
        value, odds, total, own = self._parts(scores, labels)
        odds /= total
        odds.reshape(-1)[own] -= 1
        return value, np.ascontiguousarray(odds.T).reshape(scores.shape)

    def _parts(self, scores: Array, labels: Array) -> tuple[Array, Array, Array, Array]:
        """Values; ``exp(score - largest)``, ``(classes, n * models)``; their sums; the flat indices of the labels' classes."""
        examples, models, classes = scores.shape
        classes_first = scores.reshape(-1, classes).T
        if self._odds.shape != classes_first.shape or self._odds.dtype != scores.dtype:
            self._odds = np.empty(classes_first.shape, scores.dtype)
        odds = self._odds
        odds[...] = classes_first
        # Flat indices: indexing by two arrays takes three times as long.
        own = np.arange(examples * models).reshape(examples, models)
        own += labels.astype(np.int64)[:, None] * own.size
        odds -= odds.max(axis=0)
        of_own = odds.reshape(-1)[own]
        _exp(odds)
        total = odds.sum(axis=0)
        return np.log(total).reshape(examples, models) - of_own, odds, total, own


def _exp(values: Array) -> None:
    """``exp`` in place, with exponents of at least ``LEAST``."""
    # Compare with a row: NumPy does not vectorize the comparison with a scalar.
    np.maximum(values, np.full(values.shape[-1], LEAST, values.dtype), out=values)
    np.exp(values, out=values)


def _residuals(scores: Array, labels: Array) -> Array:
    return np.asarray(scores - labels[:, None, None].astype(scores.dtype))


def _signs(labels: Array) -> Array:
    return (2 * labels[:, None, None] - 1).astype(np.float32)


def loss_unit(loss: str, deviation: float) -> float:
    """The factor of a loss if labels, scores and distances are multiplied by ``deviation``."""
    return deviation * deviation if loss in OF_SQUARES else deviation


def loss_of(parameters: Hyperparameters) -> LossFunction:
    """The loss of a job. Distances are in standard deviations of the label if it is normalized."""
    losses: dict[str, LossFunction] = {
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


EPSILON = 1e-8
RMS_DECAY = 0.9


class Optimizer(Protocol):
    """Changes weights in place."""

    def step(self, weights: Array, gradient: Array, rates: Array, /) -> None: ...


class Sgd:
    """Gradient descent with momentum."""

    def __init__(self, shape: tuple[int, ...], momentum: float) -> None:
        self._momentum = momentum
        self._velocity = np.zeros(shape, np.float32)

    def step(self, weights: Array, gradient: Array, rates: Array) -> None:
        self._velocity *= self._momentum
        self._velocity -= rates * gradient
        weights += self._velocity


class Adam:
    """Adam: decaying means of gradients, divided by the root of decaying means of their squares."""

    def __init__(self, shape: tuple[int, ...], beta_1: float, beta_2: float) -> None:
        self._betas = beta_1, beta_2
        self._mean = np.zeros(shape, np.float32)
        self._square = np.zeros(shape, np.float32)
        self._work = np.empty(shape, np.float32)
        self._steps = 0

    def step(self, weights: Array, gradient: Array, rates: Array) -> None:
        self._steps += 1
        beta_1, beta_2 = self._betas
        mean, square, work = self._mean, self._square, self._work
        np.subtract(gradient, mean, out=work)
        work *= 1 - beta_1
        mean += work
        np.square(gradient, out=work)
        work -= square
        work *= 1 - beta_2
        square += work
        np.sqrt(square, out=work)
        work += EPSILON
        np.divide(mean, work, out=work)
        # Correct the bias of both means, which start at zero.
        unbiased = np.float32(np.sqrt(1 - beta_2**self._steps) / (1 - beta_1**self._steps))
        work *= rates * unbiased
        weights -= work


class AdaGrad:
    """AdaGrad: gradients divided by the root of the sum of all squares so far."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._square = np.zeros(shape, np.float32)

    def step(self, weights: Array, gradient: Array, rates: Array) -> None:
        self._square += np.square(gradient)
        weights -= rates * gradient / np.sqrt(self._square + EPSILON)


class RmsProp:
    """RMSProp: gradients divided by the root of the decaying mean of their squares."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._square = np.zeros(shape, np.float32)

    def step(self, weights: Array, gradient: Array, rates: Array) -> None:
        self._square += (1 - RMS_DECAY) * (np.square(gradient) - self._square)
        weights -= rates * gradient / np.sqrt(self._square + EPSILON)


class Penalty:
    """The derivative of ``wd / 2 * |w|^2 + l1 * |w|_1``, with separate factors per model."""

    def __init__(self, wd: Array, l1: Array) -> None:
        self._wd = wd if np.any(wd) else None
        self._l1 = l1 if np.any(l1) else None

    def add(self, gradient: Array, weights: Array) -> None:
        """Add it to a gradient, in place."""
        work = np.empty_like(weights)
        if self._wd is not None:
            gradient += np.multiply(self._wd, weights, out=work)
        if self._l1 is not None:
            np.sign(weights, out=work)
            work *= self._l1
            gradient += work


def optimizer_of(
    name: str, shape: tuple[int, ...], *, momentum: float | None, beta_1: float | None, beta_2: float | None
) -> Optimizer:
    """A new optimizer for weights of ``shape``. ``None`` selects the default of its paper."""
    if name == "sgd":
        return Sgd(shape, 0.0 if momentum is None else momentum)
    if name == "adagrad":
        return AdaGrad(shape)
    if name == "rmsprop":
        return RmsProp(shape)
    return Adam(shape, 0.9 if beta_1 is None else beta_1, 0.999 if beta_2 is None else beta_2)
