"""The Linear Learner container: trains on the channels of a job, and answers requests with the trained model."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from headrace._faults import without_skip_hint
from headrace._optional import available, require
from headrace.codecs.sagemaker_record.codec import SageMakerRecordCodec
from headrace.containers import content_types
from headrace.containers.linear_learner.artifact import Model, load_model, save_model
from headrace.containers.linear_learner.hyperparameters import Hyperparameters
from headrace.containers.linear_learner.instances import features_of
from headrace.containers.linear_learner.training.epochs import fit
from headrace.containers.linear_learner.training.log import TrainingLog
from headrace.containers.linear_learner.training.optimizers import Array
from headrace.contracts.feature import Feature
from headrace.contracts.job import TrainingJob
from headrace.contracts.schema import Schema
from headrace.contracts.serving import Request, Response
from headrace.errors import DataError, JobFailed, MissingExtra, RequestError
from headrace.formats.recordio.format import ALIGNMENT, RecordIOFraming

__all__ = ["LinearLearnerContainer", "LinearLearnerHandler"]


FRAMING = RecordIOFraming()
ACCEPTED = (content_types.JSON, content_types.JSONLINES, content_types.RECORDIO_PROTOBUF)


class LinearLearnerHandler:
    """Answers with scores, and for classifiers also with the predicted label.

    Safe in threads.

    Args:
        model: The model.
        default_accept: The content type for clients that accept any.
    """

    def __init__(self, model: Model, *, default_accept: str = content_types.JSON) -> None:
        self.model = model
        self._default = default_accept if default_accept in ACCEPTED else content_types.JSON

    def __call__(self, request: Request, /) -> Response:
        """Answer one request.

        Raises:
            RequestError: 400, 406 or 415, with the reason.
        """
        accept = self._accept(request)
        features = features_of(request, self.model.features)
        return _response(self.model, self.model.answers(self.model.scores(features)), accept)

    def answer_many(self, requests: Sequence[Request], /) -> Sequence[Response | Exception]:
        """Answer a batch with one matrix product. A failed request has its error in place of a response."""
        read = [self._read(request) for request in requests]
        valid = [features for features in read if not isinstance(features, Exception)]
        if not valid:
            return [features for features in read if isinstance(features, Exception)]
        answers = self.model.answers(self.model.scores(_stack(valid)))
        parts = iter(np.split(answers, np.cumsum([features.shape[0] for features in valid])[:-1]))
        return [
            features if isinstance(features, Exception) else _response(self.model, next(parts), self._accept(request))
            for request, features in zip(requests, read, strict=True)
        ]

    def _read(self, request: Request) -> Any:
        try:
            self._accept(request)
            return features_of(request, self.model.features)
        except RequestError as error:
            return error

    def _accept(self, request: Request) -> str:
        found = content_types.choose(request.accept, ACCEPTED, self._default)
        if found is None:
            raise RequestError(406, f"Accept {request.accept!r} is not supported; ask for one of {', '.join(ACCEPTED)}")
        return found

    def close(self) -> None:
        """Do nothing: the handler holds only memory."""


def _stack(parts: list[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    if all(isinstance(part, np.ndarray) for part in parts) or not available("scipy"):
        return np.concatenate(parts)
    return require("scipy.sparse", extra="sklearn").vstack(parts, format="csr")


def _response(model: Model, answers: Array, accept: str) -> Response:
    if accept == content_types.RECORDIO_PROTOBUF:
        return Response(body=_records(model, answers), content_type=accept)
    predictions = _predictions(model, answers)
    if accept == content_types.JSONLINES:
        body = "".join(json.dumps(prediction) + "\n" for prediction in predictions)
    else:
        body = json.dumps({"predictions": predictions})
    return Response(body=body.encode(), content_type=accept)


def _predictions(model: Model, answers: Array) -> list[dict[str, Any]]:
    """An object for each row: ``score``, a list of them for several classes, and ``predicted_label``."""
    scores = answers.tolist() if answers.shape[1] > 1 else answers[:, 0].tolist()
    labels = model.labels(answers)
    if labels is None:
        return [{"score": score} for score in scores]
    return [{"score": score, "predicted_label": label} for score, label in zip(scores, labels.tolist(), strict=True)]


def _records(model: Model, answers: Array) -> bytes:
    """Records without features, whose labels are ``score`` and ``predicted_label``, all ``float32``."""
    columns: dict[str, Any] = {"label_score": np.asarray(answers, np.float32)}
    labels = model.labels(answers)
    if labels is not None:
        # The real container writes predicted_label first.
        columns = {"label_predicted_label": labels.astype(np.float32)[:, None], **columns}
    schema = Schema({name: Feature("float32", (column.shape[1],)) for name, column in columns.items()})
    codec = SageMakerRecordCodec(schema)
    block, starts, sizes = codec.encode_batch(columns, len(answers), FRAMING.head, 0, ALIGNMENT)
    return block[: FRAMING.frame_block(block, starts, sizes)].tobytes()


DEFAULT_ACCEPT = "SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearLearnerContainer:
    """SageMaker's built-in algorithm, on this machine.

    Trains many linear models side by side (``num_models``, 32 by default) on ``text/csv`` (label first, no header) or
    ``application/x-recordio-protobuf`` (dense or sparse ``float32``), in File, FastFile or Pipe mode, and keeps the best.

    Args:
        environment: Variables of this container; only ``SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT`` is used.
        name: For logs and errors.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    name: str = "linear-learner"

    def train(self, job: TrainingJob, /) -> None:
        """Train, leaving ``model_algo-1`` in ``job.model_dir``.

        Raises:
            JobFailed: Invalid hyperparameters or data. ``output/failure`` has the reason, too.
        """
        try:
            _check_hosts(job)
            TrainingLog.begin(job, job.hyperparameters)
            model = fit(job, Hyperparameters.parse(job.hyperparameters))
            save_model(model, job.model_dir)
        except JobFailed as error:
            _write_failure(job, str(error))
            raise
        except (DataError, MissingExtra) as error:
            known = without_skip_hint(error) if isinstance(error, DataError) else error
            reason = f"Customer error: {known}"
            _write_failure(job, reason)
            raise JobFailed(reason) from error

    def handler(self, model_dir: str | os.PathLike[str], /) -> LinearLearnerHandler:
        """Load the artifact in a folder: ours, or one trained by SageMaker.

        Raises:
            JobFailed: The artifact is missing or damaged.
        """
        try:
            model = load_model(Path(model_dir))
        except DataError as error:
            raise JobFailed(f"linear-learner cannot load its model: {error}") from error
        return LinearLearnerHandler(model, default_accept=self.environment.get(DEFAULT_ACCEPT, content_types.JSON))


def _check_hosts(job: TrainingJob) -> None:
    if len(job.hosts) > 1:
        raise JobFailed(f"Customer error: linear-learner trains on one machine here, not on {len(job.hosts)}")


def _write_failure(job: TrainingJob, reason: str) -> None:
    """Write the reason to the file that SageMaker reads."""
    job.output_dir.mkdir(parents=True, exist_ok=True)
    (job.output_dir / "failure").write_text(reason, encoding="utf-8")
