"""Estimators: training jobs. ``sagemaker.estimator``."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Literal

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
SILENT = (None, False, "None")  # "None" is the spelling of version 2 of the SDK
MODEL_TYPE = "application/x-sagemaker-model"
RENAMED = ("instance_count", "instance_type", "max_run", "image_uri")


class EstimatorBase(OnOneMachine, ABC):
    """Base of all estimators.

    Args:
        role: Accepted and ignored.
        instance_count: Number of hosts, which are processes with their own folders.
        instance_type: The instance type that the script sees.
        max_run: Seconds after which the job is stopped.
        input_mode: Default of channels: ``"File"``, ``"FastFile"`` or ``"Pipe"``.
        output_path: URI for artifacts; by default the default bucket.
        base_job_name: Prefix of job names.
        sagemaker_session: The session.
        environment: Environment variables of the container.
        checkpoint_s3_uri: URI for checkpoints, which the next job finds.
        model_uri: URI of a model to continue from, which the job finds as an additional channel.
        model_channel_name: Name of that channel.
        on, address, resources: Where hosts run: see :func:`headrace.jobs.training.train`.
        others: Arguments of version 1 of the SDK by their old names, and arguments that only AWS uses.
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
        on: Literal["processes", "ray"] = "processes",
        address: str | None = None,
        resources: Mapping[str, float] | None = None,
        **others: Any,
    ) -> None:
        given = select_arguments(others, known=RENAMED, what=type(self).__name__, swallows=True)
        del checkpoint_local_path
        self.role: str = role or get_execution_role()
        self.instance_count: int = int(given.get("instance_count", instance_count))
        self.instance_type: str = str(given.get("instance_type", instance_type))
        self.max_run: float = float(given.get("max_run", max_run))
        self.input_mode: InputMode = input_mode
        self.output_path = output_path
        self.base_job_name = base_job_name
        self.sagemaker_session: Session = sagemaker_session or Session()
        self.environment: dict[str, str] = {str(key): str(value) for key, value in (environment or {}).items()}
        self.checkpoint_s3_uri = checkpoint_s3_uri
        self.model_uri = model_uri
        self.model_channel_name = model_channel_name
        self.latest_training_job: TrainingJob | None = None
        self._hyperparameters: dict[str, Any] = dict(hyperparameters or {})
        self._endpoint_name: str | None = None
        self._place: dict[str, Any] = {"on": on, "address": address, "resources": resources}

    def hyperparameters(self) -> dict[str, Any]:
        """The hyperparameters set so far."""
        return dict(self._hyperparameters)

    def set_hyperparameters(self, **hyperparameters: Any) -> None:
        """Set hyperparameters."""
        self._hyperparameters.update(hyperparameters)

    @property
    def training_job_name(self) -> str:
        """The name of the last job.

        Raises:
            ValueError: There was no job yet.
        """
        return self._job().name

    @property
    def model_data(self) -> str:
        """URI of the last job's ``model.tar.gz``.

        Raises:
            ValueError: There was no job yet.
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
            wait: Wait for the job. Otherwise it runs in a thread; ``latest_training_job.wait()`` waits later.
            logs: Whether to print its log; ``"All"`` and ``"None"`` in version 2 of the SDK.
            job_name: Name of the job; by default ``base_job_name`` and the time.
            experiment_config: Accepted and ignored.

        Raises:
            JobFailed: It failed; the message is the reason.
            ValueError: SageMaker would refuse the inputs or limits.
        """
        del experiment_config
        name = job_name or name_from_base(self.base_job_name or self.base_name)
        spec = self._spec(name, {**channels_of(inputs, self.input_mode), **self._model_channel()})
        self.latest_training_job = TrainingJob.begin(
            self.sagemaker_session, spec, self._container(name), show=logs not in SILENT, **self._place
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
        """The hyperparameters as the job receives them."""

    @abstractmethod
    def _container(self, name: str) -> Container:
        """The container that trains."""

    @abstractmethod
    def create_model(self, **options: Any) -> Model:
        """Create the model of the last job."""

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
        """The log of the last job."""
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
        """Stop and delete the endpoint that :meth:`deploy` started.

        Raises:
            ValueError: Nothing was deployed.
        """
        if self._endpoint_name is None:
            raise ValueError("Endpoint was not created yet: call deploy first")
        self.sagemaker_session.delete_endpoint(self._endpoint_name)

    def transformer(self, instance_count: int = 1, instance_type: str = "local", **options: Any) -> Transformer:
        """Prepare batch transform with the model of the last job; see :meth:`headrace.sagemaker.model.Model.transformer`."""
        keep = {name: options.pop(name) for name in ("entry_point", "source_dir", "model_server_workers") if name in options}  # fmt: skip
        return self.create_model(**keep).transformer(instance_count, instance_type, **options)

    def delete_model(self) -> None:
        """Delete the model that :meth:`deploy` or :meth:`transformer` made; its artifact stays."""
        self.sagemaker_session.delete_model(self.training_job_name)

    def __repr__(self) -> str:
        job = "no job yet" if self.latest_training_job is None else self.latest_training_job.name
        return f"<{type(self).__name__}: {job}>"


class Framework(EstimatorBase):
    """Trains with a script.

    Args:
        entry_point: The script.
        source_dir: Folder with the script and what it imports.
        hyperparameters: Passed to the script, each as JSON.
        dependencies: More files and folders to put beside the script.
        image_uri: Ignored.
        options: Arguments of :class:`EstimatorBase`.
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
        self.dependencies: tuple[str | os.PathLike[str], ...] = tuple(dependencies)
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
        """Create the model of the last job, with the same script or with another ``entry_point``."""
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
        """Find a training job, also of another process, and return its estimator."""
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
    """A hyperparameter that is a text, as JSON or as it is."""
    given = hyperparameters.get(name, "")
    try:
        return str(json.loads(given)) if given.startswith('"') else given
    except ValueError:
        return given.strip('"')


class Estimator(EstimatorBase):
    """Trains with the algorithm of an image.

    Args:
        image_uri: The image of Linear Learner, or of scikit-learn with an ``entry_point``.
        entry_point, source_dir, dependencies: A script, for an image that runs one.
        options: Arguments of :class:`EstimatorBase`, and ``image_name``, the name of ``image_uri`` in version 1 of the SDK.

    Raises:
        ValueError: The image does not run here.
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
        self.image_uri: str = str(image_uri or given.get("image_uri", ""))
        name = image_name(self.image_uri)
        if name not in REPOSITORIES.values():
            known = ", ".join(sorted(REPOSITORIES.values()))
            raise ValueError(f"image {self.image_uri!r} does not run here; these do: {known}")
        self.base_name = name
        self.entry_point = entry_point
        self.source_dir = source_dir
        self.dependencies: tuple[str | os.PathLike[str], ...] = tuple(dependencies)
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
        """Create the model of the last job."""
        options.setdefault("env", self.environment)
        options.setdefault("name", self.training_job_name)
        if self._code is not None:
            options.setdefault("code", self._code)
        return Model(self.image_uri, self.model_data, self.role, sagemaker_session=self.sagemaker_session, **options)

    @classmethod
    def attach(
        cls, training_job_name: str, sagemaker_session: Session | None = None, *, image_uri: str, **options: Any
    ) -> Estimator:
        """Find a training job, also of another process, and return its estimator."""
        estimator = cls(image_uri, sagemaker_session=sagemaker_session, **options)
        estimator._attach(training_job_name)
        return estimator
