"""Linear Learner: ``sagemaker.amazon.linear_learner``."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.containers.linear_learner.container import LinearLearnerContainer
from headrace.containers.linear_learner.hyperparameters import Hyperparameters
from headrace.contracts.job import Container
from headrace.errors import JobFailed
from headrace.jobs.tree import as_text
from headrace.sagemaker.amazon.amazon_estimator import RecordSet, upload_shards
from headrace.sagemaker.arguments import USUAL
from headrace.sagemaker.deserializers import RecordDeserializer
from headrace.sagemaker.estimator import EstimatorBase
from headrace.sagemaker.image_uris import retrieve
from headrace.sagemaker.jobs import TrainingJob
from headrace.sagemaker.model import Model
from headrace.sagemaker.predictor import Predictor
from headrace.sagemaker.serializers import RecordSerializer
from headrace.sagemaker.session import Session, name_from_base

__all__ = ["LinearLearner", "LinearLearnerModel", "LinearLearnerPredictor"]

MOST_PER_BATCH = 1000
ALIKE = 0.85
"""How alike a new attribute and a hyperparameter are, at least, to be taken for a misspelling."""
NAMES = tuple(Hyperparameters.__dataclass_fields__)


class LinearLearnerPredictor(Predictor):
    """Sends arrays as Records, and returns Records: ``record.label["score"].float32_tensor.values``."""

    def __init__(
        self, endpoint_name: str | None = None, sagemaker_session: Session | None = None, **options: Any
    ) -> None:
        options.setdefault("serializer", RecordSerializer())
        options.setdefault("deserializer", RecordDeserializer())
        super().__init__(endpoint_name, sagemaker_session, **options)


class LinearLearnerModel(Model):
    """A model that Linear Learner has trained, here or on SageMaker.

    Args:
        model_data: URI of ``model.tar.gz``.
        role: Accepted and ignored.
        options: Arguments of :class:`~headrace.sagemaker.model.Model`.
    """

    base_name = "linear-learner"

    def __init__(self, model_data: str, role: str | None = None, **options: Any) -> None:
        session = options.pop("sagemaker_session", None) or Session()
        options.setdefault("predictor_cls", LinearLearnerPredictor)
        image = retrieve("linear-learner", session.boto_region_name)
        super().__init__(image, model_data, role, sagemaker_session=session, **options)


class _Hyperparameter:
    """A hyperparameter as an attribute. Setting it validates it; until then there is none."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, learner: LinearLearner | None, kind: type | None = None) -> Any:
        if learner is None:
            return self
        given = learner.hyperparameters()
        if self._name not in given:
            raise AttributeError(f"{self._name} is not set; its default is the algorithm's")
        return given[self._name]

    def __set__(self, learner: LinearLearner, value: Any) -> None:
        learner.set_hyperparameters(**{self._name: value})


class LinearLearner(EstimatorBase):
    """SageMaker's algorithm for linear models.

    Args:
        role, instance_count, instance_type: As in :class:`~headrace.sagemaker.estimator.EstimatorBase`.
        predictor_type: ``"regressor"``, ``"binary_classifier"`` or ``"multiclass_classifier"``.
        data_location: ``s3://`` URI of a folder for the files of :meth:`record_set`; by default the default bucket.
        options: Hyperparameters of Linear Learner by their names, and arguments of
            :class:`~headrace.sagemaker.estimator.EstimatorBase`. Hyperparameters are attributes, too: ``learner.epochs = 5``.

    Raises:
        TypeError: There is no such hyperparameter or argument.
        ValueError: The algorithm refuses hyperparameters; the message names all of them.

    >>> learner = LinearLearner(predictor_type="regressor", feature_dim=10, sagemaker_session=Session(tmp))
    >>> learner.hyperparameters()
    {'predictor_type': 'regressor', 'feature_dim': 10}
    """

    base_name = "linear-learner"
    swallows = False
    candidates = (*NAMES, *USUAL)

    def __init__(
        self,
        role: str | None = None,
        instance_count: int = 1,
        instance_type: str = "local",
        predictor_type: str | None = None,
        *,
        data_location: str | None = None,
        **options: Any,
    ) -> None:
        if data_location is not None and not data_location.startswith("s3://"):
            raise ValueError(f'Expecting an S3 URL beginning with "s3://". Got "{data_location}"')
        self.data_location = data_location
        chosen = {name: options.pop(name) for name in NAMES if name in options}
        given = {"predictor_type": predictor_type, **chosen, **dict(options.pop("hyperparameters", None) or {})}
        hyperparameters = {name: value for name, value in given.items() if value is not None}
        _check(hyperparameters)
        super().__init__(role, instance_count, instance_type, hyperparameters=hyperparameters, **options)
        self._of_fit: dict[str, Any] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        known = name.startswith("_") or hasattr(type(self), name) or name in self.__dict__
        likely = [] if known else difflib.get_close_matches(name, NAMES, n=1, cutoff=ALIKE)
        if likely:
            raise AttributeError(f"LinearLearner has no hyperparameter {name!r}; did you mean {likely[0]}?")
        super().__setattr__(name, value)

    def hyperparameters(self) -> dict[str, Any]:
        """The hyperparameters set so far, and those that the last :meth:`fit` took from its data and arguments."""
        return {**self._hyperparameters, **self._of_fit}

    def set_hyperparameters(self, **hyperparameters: Any) -> None:
        """Set hyperparameters; ``None`` restores the algorithm's default.

        Raises:
            ValueError: The algorithm refuses them.
        """
        given = {**self._hyperparameters, **hyperparameters}
        checked = {name: value for name, value in given.items() if value is not None}
        _check(checked)
        self._hyperparameters = checked
        self._of_fit = {name: value for name, value in self._of_fit.items() if name not in hyperparameters}

    def record_set(
        self,
        train: Any,
        labels: Any = None,
        channel: str = "train",
        encrypt: bool = False,
        distribution: str | None = None,
    ) -> RecordSet:
        """Upload arrays to the store as Records, for training.

        Args:
            train: ``float32 (n, width)``; a SciPy matrix stays sparse.
            labels: ``(n,)``.
            channel: Name of the channel.
            encrypt: Accepted and ignored.
            distribution: Accepted and ignored: the algorithm trains in one process, which needs all data.
        """
        del encrypt, distribution
        folder = (self.data_location or f"s3://{self.sagemaker_session.default_bucket()}").rstrip("/")
        prefix = f"{folder}/{name_from_base(f'{self.base_name}-{channel}')}"
        uri = upload_shards(self.sagemaker_session, prefix, train, labels, self.instance_count)
        return RecordSet(s3_data=uri, num_records=train.shape[0], feature_dim=train.shape[1], channel=channel)

    def fit(  # type: ignore[override]
        self,
        inputs: Any = None,
        mini_batch_size: int | None = None,
        wait: bool = True,
        logs: str | bool | None = True,
        job_name: str | None = None,
        experiment_config: Any = None,
        *,
        records: Any = None,
    ) -> None:
        """Train.

        Args:
            inputs: A :class:`RecordSet` or several, or inputs of :meth:`EstimatorBase.fit` (a URI becomes the channel ``train``).
            mini_batch_size: For this job; by default the hyperparameter, else ``min(1000, records)`` for record sets, else the
                algorithm's default.
            wait, logs, job_name, experiment_config: As in :meth:`EstimatorBase.fit`.
            records: The name of ``inputs`` in the SDK.
        """
        inputs = records if inputs is None else inputs
        sets = [inputs] if isinstance(inputs, RecordSet) else inputs
        found: dict[str, Any] = {}
        if isinstance(sets, list) and sets and all(isinstance(one, RecordSet) for one in sets):
            _check_channels([one.channel for one in sets])
            first = next((one for one in sets if one.channel == "train"), sets[0])
            size = min(MOST_PER_BATCH, max(1, first.num_records // self.instance_count))
            found = {"feature_dim": first.feature_dim, "mini_batch_size": size}
            inputs = {one.channel: one.records_s3_input() for one in sets}
        elif not isinstance(inputs, Mapping):
            inputs = {"train": inputs}
        self._of_fit = {name: value for name, value in found.items() if name not in self._hyperparameters}
        if mini_batch_size is not None:
            self._of_fit["mini_batch_size"] = mini_batch_size
        super().fit(inputs, wait, logs, job_name, experiment_config)

    def _texts(self, name: str) -> dict[str, str]:  # noqa: ARG002 - other estimators need it
        return as_text(self.hyperparameters())

    def _container(self, name: str) -> Container:  # noqa: ARG002 - other estimators need it
        return LinearLearnerContainer(environment=self.environment)

    def training_image_uri(self) -> str:
        return retrieve("linear-learner", self.sagemaker_session.boto_region_name)

    def create_model(self, **options: Any) -> LinearLearnerModel:
        """Create the model of the last job."""
        given = {"role": self.role, "name": self.training_job_name, **options}
        return LinearLearnerModel(self.model_data, sagemaker_session=self.sagemaker_session, **given)

    @classmethod
    def attach(
        cls, training_job_name: str, sagemaker_session: Session | None = None, model_channel_name: str = "model"
    ) -> LinearLearner:
        """Find a training job, also of another process, and return an estimator with its settings."""
        session = sagemaker_session or Session()
        job = TrainingJob.find(session, training_job_name)
        settings = job.settings(model_channel_name)
        del settings["image_uri"]  # that of Linear Learner
        estimator = cls(**settings, sagemaker_session=session)
        estimator.latest_training_job = job
        return estimator


def _check_channels(names: Sequence[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(
            f"Duplicate channels not allowed: {', '.join(twice)}. Join the arrays and make one record set, or give record_set another channel"
        )


for _name in NAMES:
    setattr(LinearLearner, _name, _Hyperparameter(_name))


def _check(hyperparameters: Mapping[str, Any]) -> None:
    try:
        Hyperparameters.parse(as_text(hyperparameters))
    except JobFailed as error:
        raise ValueError(str(error).removeprefix("Customer error: ")) from error
