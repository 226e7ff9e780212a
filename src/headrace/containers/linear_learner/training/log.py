"""The log of a job, in the form of the real algorithm, which tools parse for metrics; and the sums that it reports."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

import numpy as np

from headrace.containers.linear_learner.hyperparameters import DEFAULTS, Hyperparameters
from headrace.containers.linear_learner.training.models import Candidate, Scaler, Schedule
from headrace.containers.linear_learner.training.optimizers import Array, loss_unit, sigmoid
from headrace.containers.linear_learner.training.scores import Cuts
from headrace.contracts.job import TrainingJob

__all__ = ["Tally", "TrainingLog"]


BINS = 1024  # for scores of binary models between 0 and 1; memory does not grow with the data


class Tally:
    """Sums over the mini-batches of a pass, per model."""

    def __init__(self, parameters: Hyperparameters, models: int) -> None:
        self._parameters = parameters
        self._models = models
        self.batches: int = 0
        self.examples: int = 0
        self.sum = np.zeros(models)
        """The sum of the loss over examples."""
        self.least = np.full(models, np.inf)
        """The smallest mean of a mini-batch."""
        self.most = np.full(models, -np.inf)
        self._counts = np.zeros((2, models, BINS), np.int64)  # of examples whose label is 0, and 1

    def add(self, scores: Array, labels: Array, values: Array) -> None:
        """Add a mini-batch.

        Args:
            scores: ``(n, models, outputs)``.
            labels: ``(n,)``.
            values: Loss values, ``(n, models)``.
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
        np.fmax(likely, 0, out=likely)  # fmax(NaN, 0) is 0
        places = np.fmin(likely, BINS - 1, out=likely).astype(np.int64)
        places += np.arange(self._models) * BINS
        places += (labels == 1)[:, None] * (self._models * BINS)
        self._counts += np.bincount(places.reshape(-1), minlength=self._counts.size).reshape(self._counts.shape)

    @property
    def mean(self) -> Array:
        """The mean loss of each model, ``(models,)``; infinite for a model that has diverged."""
        mean = self.sum / max(1, self.examples)
        return np.where(np.isfinite(mean), mean, np.inf)

    @property
    def by_loss(self) -> bool:
        """Whether models are compared by their loss."""
        criterion = self._parameters.binary_classifier_model_selection_criteria
        return not self._parameters.is_binary or criterion in ("loss_function", "cross_entropy_loss")

    def losses(self, penalty: Array | float = 0.0) -> Array:
        """The mean loss of each model plus its penalty, ``(models,)``."""
        return np.asarray(self.mean + penalty)

    def criterion(self, penalty: Array | float = 0.0) -> Array:
        """The selection criterion of each model, ``(models,)``; smaller is better; ``penalty`` as for :meth:`losses`."""
        if self.by_loss:
            return self.losses(penalty)
        negative, positive = self._counts
        merit = Cuts.of(positive, negative).merit(self._parameters).max(axis=1)
        return np.where(np.isfinite(self.mean), -merit, np.inf)

    def best(self, penalty: Array | float = 0.0) -> int:
        """The model to choose: by the criterion, then by the loss; ``penalty`` as for :meth:`losses`."""
        return int(np.lexsort((self.losses(penalty), self.criterion(penalty)))[0])


OBJECTIVES = {
    "squared_loss": "mse_objective",
    "logistic": "binary_classification_cross_entropy_objective",
    "softmax_loss": "multiclass_cross_entropy_objective",
}
SHOWN = 10  # values shown of a scaler's arrays


class TrainingLog:
    """Writes the log of a job."""

    def __init__(self, job: TrainingJob, parameters: Hyperparameters) -> None:
        self._job = job
        self._parameters = parameters
        self._objective = OBJECTIVES.get(parameters.loss, f"{parameters.loss}_objective")

    def line(self, text: str, level: str = "INFO") -> None:
        """Write a line with a timestamp."""
        # The real container runs in UTC.
        stamp = datetime.now(tz=timezone.utc).strftime("%m/%d/%Y %H:%M:%S")  # noqa: UP017 - 3.11 has both; this one is better known
        self._job.log(f"[{stamp} {level} {threading.get_ident()}] {text}")

    @staticmethod
    def begin(job: TrainingJob, given: Mapping[str, str]) -> None:
        """Write the lines that the container prints at its start."""
        job.log("Docker entrypoint called with argument(s): train")
        stamp = datetime.now(tz=timezone.utc).strftime("%m/%d/%Y %H:%M:%S")  # noqa: UP017
        head = f"[{stamp} INFO {threading.get_ident()}]"
        path = job.config_dir / "hyperparameters.json"
        job.log(f"{head} Reading default configuration from default-input.json: {json.dumps(DEFAULTS)}")
        job.log(f"{head} Merging with provided configuration from {path}: {json.dumps(dict(given))}")
        job.log(f"{head} Final configuration: {json.dumps({**DEFAULTS, **given})}")

    def scaler(self, scaler: Scaler) -> None:
        """Report the scaling of features and labels."""
        regression = self._parameters.is_regressor
        label = (scaler.label_deviation, scaler.label_mean) if regression else (None, None)
        self.line(
            f"Scaler algorithm parameters: stdev_weight={_some(scaler.deviation)}, mean_weight={_some(scaler.mean)}, "
            f"stdev_label={label[0]}, mean_label={label[1]}"
        )

    def epoch(self, operation: str, channel: str, epoch: int, tally: Tally, scaler: Scaler, begun: float) -> None:
        """Report the loss of every model in a pass."""
        unit = self._unit(channel, scaler)
        for number in range(len(tally.sum)):
            self._metrics(f"{channel}_{self._objective}", operation, epoch, number, tally, unit, begun)
        mean = unit * float(tally.mean[0])
        self.line(
            f"#quality_metric: host={self._job.current_host}, epoch={epoch}, {channel} {self._objective} <loss>={mean}"
        )

    def _unit(self, channel: str, scaler: Scaler) -> float:
        """The unit of losses: training uses units of the scaled label, other channels the label's own."""
        return 1.0 if channel == "train" else loss_unit(self._parameters.loss, scaler.label_deviation)

    def _metrics(
        self, name: str, operation: str, epoch: int, model: int, tally: Tally, unit: float, begun: float
    ) -> None:
        of_batches = {
            "sum": unit * float(tally.sum[model]) / max(1, tally.examples) * tally.batches,
            "count": tally.batches,
            "max": unit * float(tally.most[model]),
            "min": unit * float(tally.least[model]),
        }
        dimensions = {
            "Algorithm": "Linear Learner",
            "Host": self._job.current_host,
            "Operation": operation,
            "epoch": epoch,
            "model": model,
        }
        line = {"StartTime": begun, "EndTime": time.time(), "Dimensions": dimensions, "Metrics": {name: of_batches}}
        self._job.log("#metrics " + json.dumps(_finite(line)))

    def criterion(self, channel: str, epoch: int, tally: Tally, value: float, scaler: Scaler) -> None:
        """Report the criterion of early stopping, in the units of its channel."""
        name = (
            self._objective
            if tally.by_loss
            else f"sampled_{self._parameters.binary_classifier_model_selection_criteria}"
        )
        shown = value * self._unit(channel, scaler) if tally.by_loss else -value
        self.line(
            f"#early_stopping_criteria_metric: host={self._job.current_host}, epoch={epoch}, criteria={name}, "
            f"value={shown}"
        )

    def progress(self, epoch: int, stale: int, examples: int, begun: float, *, improved: bool) -> None:
        """Report whether the epoch improved the model."""
        if improved:
            self.line(f"Epoch {epoch}: Loss improved. Updating best model")
        else:
            # The real line counts from 0.
            self.line(f"Epoch {epoch}: Loss has not improved for {stale - 1} epochs.")
        done = 100 * (epoch + 1) // self._parameters.epochs
        self.line(f"#progress_metric: host={self._job.current_host}, completed {done} % of epochs")
        rate = examples / max(1e-9, time.time() - begun)
        self.line(f"#throughput_metric: host={self._job.current_host}, train throughput={rate} records/second")

    def scores(self, channel: str, measures: Mapping[str, float]) -> None:
        """Report the measures of the chosen model."""
        host = self._job.current_host
        for name, value in measures.items():
            self.line(f"#{channel}_score ({host}) : {(name, value)}")
        for name, value in measures.items():
            kind = "loss" if name.endswith(("objective", "loss", "mse")) else "score"
            self.line(f"#quality_metric: host={host}, {channel} {name} <{kind}>={value}")

    def best_candidate(self, candidate: Candidate, schedule: Schedule) -> None:
        """Report the hyperparameters of the chosen model."""
        settings: dict[str, Any] = {
            "optimizer": self._parameters.optimizer,
            "learning_rate": candidate.learning_rate,
            "l1": candidate.l1,
            "wd": candidate.wd,
            "lr_scheduler_step": schedule.step,
            "lr_scheduler_factor": schedule.factor,
            "lr_scheduler_minimum_lr": schedule.minimum,
        }
        if self._parameters.positive_example_weight_mult == "auto":
            settings["positive_example_weight_mult"] = candidate.positive_weight
        self.line(f"Best model found for hyperparameters: {json.dumps(settings)}")


def _some(values: Array) -> str:
    shown = ", ".join(f"{value:.6g}" for value in values[:SHOWN].tolist())
    return f"[{shown}{', ...' if len(values) > SHOWN else ''}]"


def _finite(value: Any) -> Any:
    """Replace infinities, which JSON lacks."""
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    return None if isinstance(value, float) and not np.isfinite(value) else value
