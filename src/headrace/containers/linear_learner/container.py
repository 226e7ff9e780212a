"""The container of Linear Learner: trains on a job's channels, answers with what it has learned."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headrace.containers import content_types
from headrace.containers.linear_learner.answering import LinearLearnerHandler
from headrace.containers.linear_learner.artifact import load_model, save_model
from headrace.containers.linear_learner.hyperparameters import Hyperparameters
from headrace.containers.linear_learner.training.epochs import fit
from headrace.containers.linear_learner.training.log import TrainingLog
from headrace.contracts.job import TrainingJob
from headrace.errors import DataError, JobFailed, MissingExtra

__all__ = ["LinearLearnerContainer"]

DEFAULT_ACCEPT = "SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearLearnerContainer:
    """SageMaker's built-in algorithm, on this machine.

    Trains many linear models side by side (``num_models``, 32 by default) on ``text/csv`` (label first, no header) or
    ``application/x-recordio-protobuf`` (dense or sparse ``float32``), in File, FastFile or Pipe mode, and keeps the best.

    Args:
        environment: Variables of this container; ``SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT`` counts.
        name: For logs and errors.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    name: str = "linear-learner"

    def train(self, job: TrainingJob, /) -> None:
        """Train, leaving ``model_algo-1`` in ``job.model_dir``.

        Raises:
            JobFailed: Hyperparameters or data that the algorithm does not take. ``output/failure`` says the same.
        """
        try:
            _check_hosts(job)
            TrainingLog.begin(job, job.hyperparameters)
            model = fit(job, Hyperparameters.parse(job.hyperparameters))
            save_model(model, job.model_dir)
        except JobFailed as error:
            _tell(job, str(error))
            raise
        except (DataError, MissingExtra) as error:
            reason = f"Customer error: {error}"
            _tell(job, reason)
            raise JobFailed(reason) from error

    def handler(self, model_dir: str | os.PathLike[str], /) -> LinearLearnerHandler:
        """Load the artifact in a folder: one of ours, or one that SageMaker has trained.

        Raises:
            JobFailed: There is none, or it is damaged.
        """
        try:
            model = load_model(Path(model_dir))
        except DataError as error:
            raise JobFailed(f"linear-learner cannot load its model: {error}") from error
        return LinearLearnerHandler(model, default_accept=self.environment.get(DEFAULT_ACCEPT, content_types.JSON))


def _check_hosts(job: TrainingJob) -> None:
    if len(job.hosts) > 1:
        raise JobFailed("Customer error: linear-learner trains on one machine here; set instance_count=1")


def _tell(job: TrainingJob, reason: str) -> None:
    """Where SageMaker looks for the reason."""
    job.output_dir.mkdir(parents=True, exist_ok=True)
    (job.output_dir / "failure").write_text(reason, encoding="utf-8")
