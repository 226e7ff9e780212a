"""Steps down a gradient, for many models at once: every model has its own rates.

Weights are ``float32 (features, models * outputs)``; rates and penalties broadcast against that. What an optimizer remembers
is NumPy's, and every step may be by another library. Sources: Kingma and Ba 2015 (Adam), Duchi et al. 2011 (AdaGrad),
Tieleman and Hinton 2012 (RMSProp).
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from headrace.containers.linear_learner.training.libraries import NUMPY, Library
from headrace.containers.linear_learner.training.losses import Array

__all__ = ["Optimizer", "Penalty", "optimizer_of"]

EPSILON = 1e-8
RMS_DECAY = 0.9


class Optimizer(Protocol):
    """Changes weights in place."""

    def step(self, weights: Array, gradient: Array, rates: Array, by: Library = NUMPY, /) -> None: ...


class Sgd:
    """Gradient descent with momentum."""

    def __init__(self, shape: tuple[int, ...], momentum: float) -> None:
        self._momentum = momentum
        self._velocity = np.zeros(shape, np.float32)

    def step(self, weights: Array, gradient: Array, rates: Array, by: Library = NUMPY) -> None:
        velocity = by.share(self._velocity)
        velocity *= self._momentum
        velocity -= by.share(rates) * by.share(gradient)
        now = by.share(weights)
        now += velocity


class Adam:
    """Steps by the mean of the gradients over the root of the mean of their squares, both decaying."""

    def __init__(self, shape: tuple[int, ...], beta_1: float, beta_2: float) -> None:
        self._betas = beta_1, beta_2
        self._mean = np.zeros(shape, np.float32)
        self._square = np.zeros(shape, np.float32)
        self._work = np.empty(shape, np.float32)
        self._steps = 0

    def step(self, weights: Array, gradient: Array, rates: Array, by: Library = NUMPY) -> None:
        self._steps += 1
        beta_1, beta_2 = self._betas
        library, share = by.module, by.share
        slope, now = share(gradient), share(weights)
        mean, square, work = share(self._mean), share(self._square), share(self._work)
        library.subtract(slope, mean, out=work)
        work *= 1 - beta_1
        mean += work
        library.square(slope, out=work)
        work -= square
        work *= 1 - beta_2
        square += work
        library.sqrt(square, out=work)
        work += EPSILON
        library.divide(mean, work, out=work)
        # Both means begin at zero: this takes that back.
        unbiased = np.float32(np.sqrt(1 - beta_2**self._steps) / (1 - beta_1**self._steps))
        work *= share(rates * unbiased)
        now -= work


class AdaGrad:
    """Steps that become smaller with the sum of all squares so far."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._square = np.zeros(shape, np.float32)

    def step(self, weights: Array, gradient: Array, rates: Array, by: Library = NUMPY) -> None:
        square, slope, now = by.share(self._square), by.share(gradient), by.share(weights)
        square += by.module.square(slope)
        now -= by.share(rates) * slope / by.module.sqrt(square + EPSILON)


class RmsProp:
    """Steps over the root of the decaying mean of squares."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._square = np.zeros(shape, np.float32)

    def step(self, weights: Array, gradient: Array, rates: Array, by: Library = NUMPY) -> None:
        square, slope, now = by.share(self._square), by.share(gradient), by.share(weights)
        square += (1 - RMS_DECAY) * (by.module.square(slope) - square)
        now -= by.share(rates) * slope / by.module.sqrt(square + EPSILON)


class Penalty:
    """The derivative of ``wd / 2 * |w|^2 + l1 * |w|_1``, each model with its own."""

    def __init__(self, wd: Array, l1: Array) -> None:
        self._wd = wd if np.any(wd) else None
        self._l1 = l1 if np.any(l1) else None

    def add(self, gradient: Array, weights: Array, by: Library = NUMPY) -> None:
        """Add it to a gradient, in place."""
        slope, now = by.share(gradient), by.share(weights)
        work = by.share(np.empty_like(weights))
        if self._wd is not None:
            slope += by.module.multiply(by.share(self._wd), now, out=work)
        if self._l1 is not None:
            by.module.sign(now, out=work)
            work *= by.share(self._l1)
            slope += work


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
