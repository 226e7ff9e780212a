"""Training jobs by the names of the SDK."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.containers.linear_learner.container import LinearLearnerContainer
from headrace.containers.script import ScriptContainer
from headrace.contracts.job import Channel, Container, InputMode
from headrace.jobs.spec import TrainingSpec
from headrace.jobs.tree import as_json, as_text
from headrace.sagemaker.arguments import OnOneMachine, select_arguments
from headrace.sagemaker.image_uris import REPOSITORIES, image_name
from headrace.sagemaker.inputs import TrainingInput, channels_of
from headrace.sagemaker.jobs import TrainingJob
from headrace.sagemaker.model import FrameworkModel, Model, UploadedCode, upload_code
from headrace.sagemaker.session import Session, get_execution_role, name_from_base
from headrace.sagemaker.transformer import Transformer

__all__ = ["Estimator", "EstimatorBase", "Framework"]

DAY_S = 24 * 3600
SILENT = (None, False, "None")  # the last as version 2 of the SDK spells it
MODEL_TYPE = "application/x-sagemaker-model"
RENAMED = ("instance_count", "instance_type", "max_run", "image_uri")


class EstimatorBase(OnOneMachine, ABC):
    """What all estimators have in common.

    Args:
        role: Taken, and of no use here.
        instance_count: How many hosts train: processes, each with a tree of its own.
        instance_type: What the script is told that it runs on.
        max_run: Seconds after which the job is stopped.
        input_mode: Of channels that do not say: ``"File"``, ``"FastFile"`` or ``"Pipe"``.
        output_path: Where artifacts go; the default bucket by default.
        base_job_name: What names of jobs begin with.
        sagemaker_session: Where everything is.
        environment: Variables of the container.
        checkpoint_s3_uri: Where checkpoints are kept, and found by the next job.
        model_uri: Of a model to go on from, which the job finds as one more channel.
        model_channel_name: What that channel is called.
        others: Names of version 1 of the SDK, and arguments that only AWS has a use for.
    """

    base_name = "training"

    def __init__(
        self,
        role: str | None = None,
        instance_count: int = 1,
        instance_type: str = "local",
        *,
        max_run: int = DAY_S,
        input_mode: InputMode = "File",
        output_path: str | None = None,
        base_job_name: str | None = None,
        sagemaker_session: Session | None = None,
        hyperparameters: Mapping[str, Any] | None = None,
        environment: Mapping[str, str] | None = None,
        checkpoint_s3_uri: str | None = None,
        checkpoint_local_path: str | None = None,
        model_uri: str | None = None,
        model_channel_name: str = "model",
        **others: Any,
    ) -> None:
        given = select_arguments(others, known=RENAMED, what=type(self).__name__, swallows=True)
        del checkpoint_local_path
        self.role = role or get_execution_role()
        self.instance_count = int(given.get("instance_count", instance_count))
        self.instance_type = str(given.get("instance_type", instance_type))
        self.max_run = float(given.get("max_run", max_run))
        self.input_mode: InputMode = input_mode
        self.output_path = output_path
        self.base_job_name = base_job_name
        self.sagemaker_session = sagemaker_session or Session()
        self.environment = {str(key): str(value) for key, value in (environment or {}).items()}
        self.checkpoint_s3_uri = checkpoint_s3_uri
        self.model_uri = model_uri
        self.model_channel_name = model_channel_name
        self.latest_training_job: TrainingJob | None = None
        self._hyperparameters: dict[str, Any] = dict(hyperparameters or {})
        self._endpoint_name: str | None = None

    def hyperparameters(self) -> dict[str, Any]:
        """What was set so far."""
        return dict(self._hyperparameters)

    def set_hyperparameters(self, **hyperparameters: Any) -> None:
        """Set some more."""
        self._hyperparameters.update(hyperparameters)

    @property
    def training_job_name(self) -> str:
        """The name of the last job.

        Raises:
            ValueError: Nothing was trained yet.
        """
        return self._job().name

    @property
    def model_data(self) -> str:
        """URI of the last job's ``model.tar.gz``.

        Raises:
            ValueError: Nothing was trained yet.
            JobFailed: The job left no model.
        """
        return self._job().model_data()

    def fit(
        self,
        inputs: Any = None,
        wait: bool = True,
        logs: str | bool | None = "All",
        job_name: str | None = None,
        experiment_config: Any = None,
    ) -> None:
        """Run a training job.

        Args:
            inputs: A URI (channel ``training``), a :class:`~headrace.sagemaker.inputs.TrainingInput`, or a dict of channels.
            wait: Until it is over. Otherwise it goes on in this process; ``latest_training_job.wait()`` waits later.
            logs: Whether its output is shown; version 2 of the SDK says ``"All"`` and ``"None"``.
            job_name: Made up from ``base_job_name`` by default.
            experiment_config: Of AWS.

        Raises:
            JobFailed: It failed; the message is the reason.
            ValueError: Inputs or limits that SageMaker would refuse.
        """
        del experiment_config
        name = job_name or name_from_base(self.base_job_name or self.base_name)
        spec = self._spec(name, {**channels_of(inputs, self.input_mode), **self._model_channel()})
        self.latest_training_job = TrainingJob.begin(
            self.sagemaker_session, spec, self._container(name), show=logs not in SILENT
        )
        if wait:
            self.latest_training_job.wait()

    def _model_channel(self) -> dict[str, Channel]:
        if self.model_uri is None:
            return {}
        return {self.model_channel_name: TrainingInput(self.model_uri, content_type=MODEL_TYPE).channel("File")}

    def _spec(self, name: str, channels: Mapping[str, Channel]) -> TrainingSpec:
        return TrainingSpec(
            name=name,
            channels=channels,
            hyperparameters=self._texts(name),
            output_path=self.output_path or f"s3://{self.sagemaker_session.default_bucket()}/",
            environment=self.environment,
            num_hosts=self.instance_count,
            max_runtime_s=self.max_run,
            checkpoint_uri=self.checkpoint_s3_uri,
            instance_type=self.instance_type,
        )

    @abstractmethod
    def _texts(self, name: str) -> dict[str, str]:
        """The hyperparameters as the job gets them."""

    @abstractmethod
    def _container(self, name: str) -> Container:
        """What trains."""

    @abstractmethod
    def create_model(self, **options: Any) -> Model:
        """The model of the last job."""

    def _job(self) -> TrainingJob:
        if self.latest_training_job is None:
            raise ValueError("Estimator is not associated with a training job: call fit first, or attach to one")
        return self.latest_training_job

    def _attach(self, job_name: str) -> None:
        self.latest_training_job = TrainingJob.find(self.sagemaker_session, job_name)

    def stop_training_job(self) -> None:
        """Ask the last job to stop."""
        self._job().stop()

    def logs(self) -> str:
        """What the last job has written."""
        return self.sagemaker_session.logs_for_job(self.training_job_name)

    def deploy(
        self,
        initial_instance_count: int = 1,
        instance_type: str = "local",
        serializer: Any = None,
        deserializer: Any = None,
        endpoint_name: str | None = None,
        *,
        wait: bool = True,
        **options: Any,
    ) -> Any:
        """Start an endpoint with the model of the last job; see :meth:`headrace.sagemaker.model.Model.deploy`."""
        model = self.create_model()
        predictor = model.deploy(
            initial_instance_count, instance_type, serializer, deserializer, endpoint_name, wait=wait, **options
        )
        self._endpoint_name = model.endpoint_name
        return predictor

    def delete_endpoint(self) -> None:
        """Stop the endpoint that :meth:`deploy` started, and forget it.

        Raises:
            ValueError: Nothing was deployed.
        """
        if self._endpoint_name is None:
            raise ValueError("Endpoint was not created yet: call deploy first")
        self.sagemaker_session.delete_endpoint(self._endpoint_name)

    def transformer(self, instance_count: int = 1, instance_type: str = "local", **options: Any) -> Transformer:
        """Batch transform with the model of the last job; see :meth:`headrace.sagemaker.model.Model.transformer`."""
        keep = {name: options.pop(name) for name in ("entry_point", "source_dir", "model_server_workers") if name in options}  # fmt: skip
        return self.create_model(**keep).transformer(instance_count, instance_type, **options)

    def delete_model(self) -> None:
        """Forget the model that :meth:`deploy` or :meth:`transformer` made; its artifact stays."""
        self.sagemaker_session.delete_model(self.training_job_name)

    def __repr__(self) -> str:
        job = "no job yet" if self.latest_training_job is None else self.latest_training_job.name
        return f"<{type(self).__name__}: {job}>"


class Framework(EstimatorBase):
    """Trains with a script.

    Args:
        entry_point: The script.
        source_dir: Folder with the script and what it imports.
        hyperparameters: Given to the script, each as JSON.
        dependencies: More files and folders beside the script.
        image_uri: Of no effect.
        options: As of :class:`EstimatorBase`.
    """

    model_class: type[FrameworkModel] = FrameworkModel
    predictor_class: Any = None

    def __init__(
        self,
        entry_point: str | os.PathLike[str],
        source_dir: str | os.PathLike[str] | None = None,
        hyperparameters: Mapping[str, Any] | None = None,
        *,
        dependencies: Sequence[str | os.PathLike[str]] = (),
        image_uri: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(hyperparameters=hyperparameters, **options)
        self.entry_point = entry_point
        self.source_dir = source_dir
        self.dependencies = tuple(dependencies)
        self.image_uri = image_uri
        self._code: UploadedCode | None = None

    def _texts(self, name: str) -> dict[str, str]:
        self._code = upload_code(self.sagemaker_session, name, self.entry_point, self.source_dir, self.dependencies)
        added = {
            "sagemaker_submit_directory": self._code.uri,
            "sagemaker_program": self._code.program,
            "sagemaker_container_log_level": 20,
            "sagemaker_job_name": name,
            "sagemaker_region": self.sagemaker_session.boto_region_name,
        }
        return as_json({**self._hyperparameters, **added})

    def _container(self, name: str) -> Container:
        assert self._code is not None
        archive = self.sagemaker_session.resolve(self._code.uri)
        return ScriptContainer(
            entry_point=self._code.program, source_dir=archive, environment=self.environment, name=name
        )

    def create_model(self, *, entry_point: str | os.PathLike[str] | None = None, **options: Any) -> FrameworkModel:
        """The model of the last job, answered with by its own script, or by another ``entry_point``."""
        own: dict[str, Any] = {"code": self._code}
        if entry_point is not None or self._code is None:
            own = {
                "entry_point": entry_point or self.entry_point,
                "source_dir": options.pop("source_dir", self.source_dir),
                "dependencies": self.dependencies,
            }
        options.setdefault("env", self.environment)
        options.setdefault("name", self.training_job_name)
        return self.model_class(
            self.model_data, self.role, sagemaker_session=self.sagemaker_session, **{**own, **options}
        )

    @classmethod
    def attach(
        cls, training_job_name: str, sagemaker_session: Session | None = None, *, entry_point: str = "", **options: Any
    ) -> Framework:
        """The estimator of a job that was run before, maybe by another process."""
        session = sagemaker_session or Session()
        job = TrainingJob.find(session, training_job_name)
        given = job.describe().get("HyperParameters", {})
        uri, program = _text(given, "sagemaker_submit_directory"), _text(given, "sagemaker_program")
        estimator = cls(entry_point=entry_point or program, sagemaker_session=session, **options)
        estimator.latest_training_job = job
        if not entry_point and uri:
            estimator._code = UploadedCode(uri, program)
        return estimator


def _text(hyperparameters: Mapping[str, str], name: str) -> str:
    return hyperparameters.get(name, "").strip('"')


class Estimator(EstimatorBase):
    """Trains with the algorithm of an image.

    Args:
        image_uri: Of Linear Learner, or of scikit-learn with an ``entry_point``.
        entry_point, source_dir, dependencies: A script, for an image that runs one.
        options: As of :class:`EstimatorBase`; the image may also be called ``image_name``, as in version 1 of the SDK.

    Raises:
        ValueError: An image that does not run here.
    """

    def __init__(
        self,
        image_uri: str | None = None,
        role: str | None = None,
        instance_count: int = 1,
        instance_type: str = "local",
        *,
        entry_point: str | os.PathLike[str] | None = None,
        source_dir: str | os.PathLike[str] | None = None,
        dependencies: Sequence[str | os.PathLike[str]] = (),
        **options: Any,
    ) -> None:
        given = select_arguments({name: options.pop(name) for name in ("image_name", "image") if name in options}, known=("image_uri",), what="Estimator")  # fmt: skip
        super().__init__(role, instance_count, instance_type, **options)
        self.image_uri = str(image_uri or given.get("image_uri", ""))
        name = image_name(self.image_uri)
        if name not in REPOSITORIES.values():
            known = ", ".join(sorted(REPOSITORIES.values()))
            raise ValueError(f"image {self.image_uri!r} does not run here; these do: {known}")
        self.base_name = name
        self.entry_point = entry_point
        self.source_dir = source_dir
        self.dependencies = tuple(dependencies)
        self._code: UploadedCode | None = None
        if name == REPOSITORIES["sklearn"] and entry_point is None:
            raise ValueError("the scikit-learn image runs a script: give an entry_point")

    def _texts(self, name: str) -> dict[str, str]:
        if self.entry_point is None:
            return as_text(self._hyperparameters)
        self._code = upload_code(self.sagemaker_session, name, self.entry_point, self.source_dir, self.dependencies)
        added = {"sagemaker_submit_directory": self._code.uri, "sagemaker_program": self._code.program}
        return as_json({**self._hyperparameters, **added})

    def _container(self, name: str) -> Container:
        if self._code is None:
            return LinearLearnerContainer(environment=self.environment)
        archive = self.sagemaker_session.resolve(self._code.uri)
        return ScriptContainer(
            entry_point=self._code.program, source_dir=archive, environment=self.environment, name=name
        )

    def create_model(self, **options: Any) -> Model:
        """The model of the last job."""
        options.setdefault("env", self.environment)
        options.setdefault("name", self.training_job_name)
        if self._code is not None:
            options.setdefault("code", self._code)
        return Model(self.image_uri, self.model_data, self.role, sagemaker_session=self.sagemaker_session, **options)

    @classmethod
    def attach(
        cls, training_job_name: str, sagemaker_session: Session | None = None, *, image_uri: str, **options: Any
    ) -> Estimator:
        """The estimator of a job that was run before, maybe by another process."""
        estimator = cls(image_uri, sagemaker_session=sagemaker_session, **options)
        estimator._attach(training_job_name)
        return estimator
