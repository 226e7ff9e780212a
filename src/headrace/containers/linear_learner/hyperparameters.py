"""The hyperparameters of Linear Learner: parsed from strings and validated, with the defaults of the real algorithm.

Source: the algorithm's page in the SageMaker developer guide, and the default configuration that its container prints.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Protocol

from headrace.errors import JobFailed

__all__ = ["BINARY", "CRITERIA", "DEFAULTS", "LOSSES", "MULTICLASS", "REGRESSOR", "Hyperparameters"]

REGRESSOR = "regressor"
BINARY = "binary_classifier"
MULTICLASS = "multiclass_classifier"

LOSSES: dict[str, tuple[str, ...]] = {
    REGRESSOR: (
        "squared_loss",
        "absolute_loss",
        "eps_insensitive_squared_loss",
        "eps_insensitive_absolute_loss",
        "quantile_loss",
        "huber_loss",
    ),
    BINARY: ("logistic", "hinge_loss"),
    MULTICLASS: ("softmax_loss",),
}
"""The losses of each kind of predictor; ``auto`` is the first."""
CRITERIA = ("accuracy", "f_beta", "f1", "precision_at_target_recall", "recall_at_target_precision", "cross_entropy_loss", "loss_function")  # fmt: skip


class HyperparameterType(Protocol):
    """The type of a hyperparameter."""

    def parse(self, text: str, /) -> Any:
        """Parse a value; ``None`` for ``auto``.

        Raises:
            ValueError: The message describes the expected form.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Number:
    low: float = -math.inf
    high: float = math.inf
    low_in: bool = False
    high_in: bool = False
    whole: bool = False
    auto: bool = False

    def parse(self, text: str) -> float | int | None:
        if self.auto and text.lower() == "auto":
            return None
        try:
            value: float = int(text) if self.whole else float(text)
        except ValueError:
            raise ValueError(self._expected()) from None
        above = value >= self.low if self.low_in else value > self.low
        below = value <= self.high if self.high_in else value < self.high
        if not (above and below and math.isfinite(value)):
            raise ValueError(self._expected())
        return value

    def _expected(self) -> str:
        kind = "an integer" if self.whole else "a number"
        bounds = f" in {'[' if self.low_in else '('}{self.low:g}, {self.high:g}{']' if self.high_in else ')'}"
        auto = " or 'auto'" if self.auto else ""
        return kind + ("" if self.low == -math.inf else bounds) + auto


@dataclass(frozen=True, slots=True, kw_only=True)
class _Flag:
    auto: bool = False

    def parse(self, text: str) -> bool | None:
        found = {"true": True, "false": False, "1": True, "0": False}.get(text.lower())
        if found is None and not (self.auto and text.lower() == "auto"):
            raise ValueError("'true' or 'false'" + (" or 'auto'" if self.auto else ""))
        return found


@dataclass(frozen=True, slots=True)
class _Choice:
    values: tuple[str, ...]

    def parse(self, text: str) -> str:
        if text.lower() not in self.values:
            raise ValueError("one of " + ", ".join(map(repr, self.values)))
        return text.lower()


class _PositiveWeight:
    def parse(self, text: str) -> str | float:
        if text.lower() in ("balanced", "auto"):
            return text.lower()
        try:
            return _Number(low=0).parse(text) or 1.0
        except ValueError:
            raise ValueError("a number above 0, 'balanced' or 'auto'") from None


COUNT = _Number(low=0, whole=True)
AUTO_COUNT = _Number(low=0, whole=True, auto=True)
POSITIVE = _Number(low=0)
AUTO_POSITIVE = _Number(low=0, auto=True)
AUTO_NOT_NEGATIVE = _Number(low=0, low_in=True, auto=True)
SHARE = _Number(low=0, high=1)
AUTO_SHARE = _Number(low=0, high=1, low_in=True, auto=True)

TABLE: dict[str, tuple[str, HyperparameterType]] = {
    "predictor_type": ("", _Choice(tuple(LOSSES))),
    "feature_dim": ("auto", AUTO_COUNT),
    "num_classes": ("1", _Number(low=0, high=1_000_000, high_in=True, whole=True)),
    "loss": ("auto", _Choice(("auto", *(name for names in LOSSES.values() for name in names)))),
    "optimizer": ("auto", _Choice(("auto", "adam", "adagrad", "sgd", "rmsprop"))),
    "mini_batch_size": ("1000", COUNT),
    "epochs": ("15", COUNT),
    "learning_rate": ("auto", AUTO_POSITIVE),
    "wd": ("auto", AUTO_NOT_NEGATIVE),
    "l1": ("auto", AUTO_NOT_NEGATIVE),
    "momentum": ("auto", AUTO_SHARE),
    "beta_1": ("auto", AUTO_SHARE),
    "beta_2": ("auto", AUTO_SHARE),
    "bias_lr_mult": ("auto", AUTO_POSITIVE),
    "bias_wd_mult": ("auto", AUTO_NOT_NEGATIVE),
    "use_bias": ("true", _Flag()),
    "use_lr_scheduler": ("true", _Flag()),
    "lr_scheduler_step": ("auto", AUTO_COUNT),
    "lr_scheduler_factor": ("auto", _Number(low=0, high=1, auto=True)),
    "lr_scheduler_minimum_lr": ("auto", AUTO_POSITIVE),
    "normalize_data": ("true", _Flag(auto=True)),
    "normalize_label": ("auto", _Flag(auto=True)),
    "unbias_data": ("auto", _Flag(auto=True)),
    "unbias_label": ("auto", _Flag(auto=True)),
    "num_point_for_scaler": ("10000", COUNT),
    "num_models": ("auto", AUTO_COUNT),
    "num_calibration_samples": ("10000000", AUTO_COUNT),
    "init_method": ("uniform", _Choice(("uniform", "normal"))),
    "init_scale": ("0.07", POSITIVE),
    "init_sigma": ("0.01", POSITIVE),
    "init_bias": ("0.0", _Number()),
    "margin": ("1.0", POSITIVE),
    "quantile": ("0.5", SHARE),
    "loss_insensitivity": ("0.01", POSITIVE),
    "huber_delta": ("1.0", POSITIVE),
    "early_stopping_patience": ("3", COUNT),
    "early_stopping_tolerance": ("0.001", POSITIVE),
    "binary_classifier_model_selection_criteria": ("accuracy", _Choice(CRITERIA)),
    "target_recall": ("0.8", SHARE),
    "target_precision": ("0.8", SHARE),
    "positive_example_weight_mult": ("1.0", _PositiveWeight()),
    "balance_multiclass_weights": ("false", _Flag()),
    "accuracy_top_k": ("3", COUNT),
    "f_beta": ("1.0", POSITIVE),
}
IGNORED = {
    "_tuning_objective_metric": "",
    "_kvstore": "auto",
    "_num_kv_servers": "auto",
    "_num_gpus": "auto",
    "_log_level": "info",
    "_enable_profiler": "false",
}
"""Accepted like in the real algorithm, but without effect here."""
OLD = ("force_dense", "_data_format")

DEFAULTS: dict[str, str] = {name: default for name, (default, _) in TABLE.items() if default} | IGNORED
"""The default configuration that the container prints."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hyperparameters:
    """Validated values. ``None`` means ``auto``, if that is resolved later."""

    predictor_type: str
    feature_dim: int | None
    num_classes: int
    loss: str
    optimizer: str
    mini_batch_size: int
    epochs: int
    learning_rate: float | None
    wd: float | None
    l1: float | None
    momentum: float | None
    beta_1: float | None
    beta_2: float | None
    bias_lr_mult: float | None
    bias_wd_mult: float | None
    use_bias: bool
    use_lr_scheduler: bool
    lr_scheduler_step: int | None
    lr_scheduler_factor: float | None
    lr_scheduler_minimum_lr: float | None
    normalize_data: bool
    normalize_label: bool
    unbias_data: bool
    unbias_label: bool
    num_point_for_scaler: int
    num_models: int
    num_calibration_samples: int
    init_method: str
    init_scale: float
    init_sigma: float
    init_bias: float
    margin: float
    quantile: float
    loss_insensitivity: float
    huber_delta: float
    early_stopping_patience: int
    early_stopping_tolerance: float
    binary_classifier_model_selection_criteria: str
    target_recall: float
    target_precision: float
    positive_example_weight_mult: str | float
    balance_multiclass_weights: bool
    accuracy_top_k: int
    f_beta: float

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Hyperparameters:
        """Parse the hyperparameters of a job, with defaults.

        Raises:
            JobFailed: Unknown names or invalid values; the message lists all of them.
        """
        unknown = [name for name in given if name not in TABLE and name not in IGNORED and name not in OLD]
        problems = [f"{name!r} is not a hyperparameter of linear-learner" for name in sorted(unknown)]
        values: dict[str, Any] = {}
        for name, (default, kind) in TABLE.items():
            text = str(given.get(name, default)).strip()
            try:
                values[name] = kind.parse(text)
            except ValueError as error:
                problems.append(f"{name}: expected {error}, found {text!r}" if text else f"{name} is required: {error}")
        if not problems:
            problems = _find_conflicts(values)
        if problems:
            raise JobFailed("Customer error: " + "; ".join(problems))
        return cls(**_resolve_auto(values))

    @property
    def outputs(self) -> int:
        """The number of scores per example of one model."""
        return self.num_classes if self.predictor_type == MULTICLASS else 1

    @property
    def is_regressor(self) -> bool:
        return self.predictor_type == REGRESSOR

    @property
    def is_binary(self) -> bool:
        return self.predictor_type == BINARY

    @property
    def balances_classes(self) -> bool:
        """Whether examples are weighted by how frequent their class is."""
        by_positive = self.is_binary and self.positive_example_weight_mult in ("balanced", "auto")
        return by_positive or (self.balance_multiclass_weights and not self.is_regressor)


def _find_conflicts(values: Mapping[str, Any]) -> list[str]:
    """Conflicts between values that are valid on their own."""
    predictor, loss, problems = values["predictor_type"], values["loss"], []
    if predictor == MULTICLASS and values["num_classes"] < 3:
        problems.append(
            "For predictor_type 'multiclass_classifier', 'num_classes' should be set to a value greater than 2."
        )
    if loss != "auto" and loss not in LOSSES[predictor]:
        allowed = ", ".join(LOSSES[predictor])
        problems.append(f"loss: expected one of {allowed} for predictor_type {predictor!r}, found {loss!r}")
    return problems


def _resolve_auto(values: Mapping[str, Any]) -> dict[str, Any]:
    """Replace ``auto`` where it depends on other hyperparameters only."""
    resolved = dict(values)
    regression = values["predictor_type"] == REGRESSOR

    def resolve(name: str, auto: Any) -> None:
        if resolved[name] in (None, "auto"):
            resolved[name] = auto

    resolve("loss", LOSSES[values["predictor_type"]][0])
    resolve("optimizer", "adam")
    resolve("normalize_data", auto=True)
    resolve("normalize_label", regression)
    resolve("unbias_data", values["use_bias"])
    resolve("unbias_label", regression and values["use_bias"])
    resolve("num_models", 32)
    resolve("num_calibration_samples", 10_000_000)
    # Class labels are not scaled. Without a bias, a subtracted mean could not be added back.
    resolved["normalize_label"] = resolved["normalize_label"] and regression
    resolved["unbias_label"] = resolved["unbias_label"] and regression and values["use_bias"]
    resolved["unbias_data"] = resolved["unbias_data"] and values["use_bias"]
    return resolved


assert {field.name for field in fields(Hyperparameters)} == set(TABLE)
