"""Steps down a gradient, for many models at once: every model has its own rates.

Weights are ``float32 (features, models * outputs)``; rates and penalties broadcast against that. Sources: Kingma and Ba 2015
(Adam), Duchi et al. 2011 (AdaGrad), Tieleman and Hinton 2012 (RMSProp).
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from penstock.containers.linear_learner.training.losses import Array

__all__ = ["Optimizer", "Penalty", "optimizer_of"]

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
    """Steps by the mean of the gradients over the root of the mean of their squares, both decaying."""

    def __init__(self, shape: tuple[int, ...], beta_1: float, beta_2: float) -> None:
        self._betas = beta_1, beta_2
        self._mean = np.zeros(shape, np.float32)
        self._square = np.zeros(shape, np.float32)
        self._work = np.empty(shape, np.float32)
        self._steps = 0

    def step(self, weights: Array, gradient: Array, rates: Array) -> None:
        self._steps += 1
        beta_1, beta_2 = self._betas
        work = np.subtract(gradient, self._mean, out=self._work)
        work *= 1 - beta_1
        self._mean += work
        np.square(gradient, out=work)
        work -= self._square
        work *= 1 - beta_2
        self._square += work
        np.sqrt(self._square, out=work)
        work += np.float32(EPSILON)
        np.divide(self._mean, work, out=work)
        # Both means begin at zero: this takes that back.
        work *= rates * np.float32(np.sqrt(1 - beta_2**self._steps) / (1 - beta_1**self._steps))
        weights -= work


class AdaGrad:
    """Steps that become smaller with the sum of all squares so far."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._square = np.zeros(shape, np.float32)

    def step(self, weights: Array, gradient: Array, rates: Array) -> None:
        self._square += np.square(gradient)
        weights -= rates * gradient / np.sqrt(self._square + np.float32(EPSILON))


class RmsProp:
    """Steps over the root of the decaying mean of squares."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._square = np.zeros(shape, np.float32)

    def step(self, weights: Array, gradient: Array, rates: Array) -> None:
        self._square += (1 - RMS_DECAY) * (np.square(gradient) - self._square)
        weights -= rates * gradient / np.sqrt(self._square + np.float32(EPSILON))


class Penalty:
    """The derivative of ``wd / 2 * |w|^2 + l1 * |w|_1``, each model with its own."""

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
    """A new optimizer for weights of ``shape``; ``None`` is what its paper proposes."""
    if name == "sgd":
        return Sgd(shape, 0.0 if momentum is None else momentum)
    if name == "adagrad":
        return AdaGrad(shape)
    if name == "rmsprop":
        return RmsProp(shape)
    return Adam(shape, 0.9 if beta_1 is None else beta_1, 0.999 if beta_2 is None else beta_2)
