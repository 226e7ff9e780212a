"""Estimators: training jobs. ``sagemaker.estimator``."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

from headrace.containers.linear_learner.container import LinearLearnerContainer
from headrace.containers.script import ScriptContainer
from headrace.contracts.job import Channel, Container, InputMode
from headrace.jobs.spec import TrainingSpec
from headrace.jobs.tree import as_json, as_text
from headrace.sagemaker.arguments import USUAL, OnOneMachine, select_arguments
from headrace.sagemaker.image_uris import REPOSITORIES, image_name
from headrace.sagemaker.inputs import TrainingInput, channels_of
from headrace.sagemaker.jobs import MODEL_TYPE, TrainingJob, UploadedCode, upload_code
from headrace.sagemaker.model import CODE, LOG_LEVEL, FrameworkModel, MakesModels, Model
from headrace.sagemaker.session import Session, get_execution_role, name_from_base

__all__ = ["Estimator", "EstimatorBase", "Framework"]

DAY_S = 24 * 3600
CHECKPOINTS = "/opt/ml/checkpoints"
SILENT = (None, False, "None")  # "None" is the spelling of version 2 of the SDK
RENAMED = ("instance_count", "instance_type", "max_run", "image_uri")


class EstimatorBase(OnOneMachine, MakesModels):
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
        checkpoint_local_path: The folder of checkpoints in the container: only SageMaker's default.
        model_uri: URI of a model to continue from, which the job finds as an additional channel.
        model_channel_name: Name of that channel.
        on, address, resources: Where hosts run: see :func:`headrace.jobs.training.train`.
        others: Arguments of version 1 of the SDK by their old names, and arguments that only AWS uses.
    """

    base_name = "training"
    swallows = True
    """Whether an unknown argument is a warning, as in the SDK, not a ``TypeError``."""
    candidates: tuple[str, ...] = USUAL
    """Names to suggest for a misspelt argument."""
    image_uri: str | None = None

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
        name = type(self).__name__
        given = select_arguments(others, known=RENAMED, what=name, swallows=self.swallows, candidates=self.candidates)
        if checkpoint_local_path not in (None, CHECKPOINTS):
            raise ValueError(
                f"checkpoint_local_path={checkpoint_local_path!r}: the folder of checkpoints cannot be moved here; leave it out"
            )
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
            ValueError: SageMaker would refuse the inputs, the limits or the name, such as that of another job.
        """
        del experiment_config
        name = job_name or name_from_base(self.base_job_name or self.base_name)
        TrainingJob.check_name(self.sagemaker_session, name)
        channels, of_model = channels_of(inputs, self.input_mode), self._model_channel()
        if channels.keys() & of_model.keys():
            raise ValueError(
                f"Duplicate channel {self.model_channel_name} not allowed: it is that of model_uri; rename the input, or set model_channel_name"
            )
        spec = self._spec(name, {**channels, **of_model})
        self.latest_training_job = TrainingJob.begin(
            self.sagemaker_session, spec, self._container(name), show=logs not in SILENT, **self._place
        )
        if wait:
            self.latest_training_job.wait()

    def training_image_uri(self) -> str | None:
        """The image that would train on SageMaker, if it is known."""
        return self.image_uri

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
            input_mode=self.input_mode,
            image=self.training_image_uri(),
        )

    @abstractmethod
    def _texts(self, name: str) -> dict[str, str]:
        """The hyperparameters as the job receives them."""

    @abstractmethod
    def _container(self, name: str) -> Container:
        """The container that trains."""

    def _job(self) -> TrainingJob:
        if self.latest_training_job is None:
            raise ValueError("Estimator is not associated with a training job: call fit first, or attach to one")
        return self.latest_training_job

    def stop_training_job(self) -> None:
        """Ask the last job to stop."""
        self._job().stop()

    def logs(self) -> str:
        """The log of the last job."""
        return self.sagemaker_session.logs_for_job(self.training_job_name)

    def __repr__(self) -> str:
        job = "no job yet" if self.latest_training_job is None else self.latest_training_job.name
        return f"<{type(self).__name__}: {job}>"


class _RunsScript(EstimatorBase):
    """An estimator whose container runs a script, or can run one."""

    def __init__(
        self,
        *positional: Any,
        entry_point: str | os.PathLike[str] | None,
        source_dir: str | os.PathLike[str] | None = None,
        dependencies: Sequence[str | os.PathLike[str]] | None = None,
        image_uri: str | None = None,
        container_log_level: int = LOG_LEVEL,
        code_location: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*positional, **options)
        self.entry_point = entry_point
        self.source_dir = source_dir
        self.dependencies: tuple[str | os.PathLike[str], ...] = tuple(dependencies or ())
        self.image_uri = image_uri
        self.container_log_level = container_log_level
        self.code_location = code_location
        self._code: UploadedCode | None = None

    def _texts(self, name: str) -> dict[str, str]:
        if self.entry_point is None:
            return as_text(self._hyperparameters)
        session = self.sagemaker_session
        self._code = upload_code(
            session, name, self.entry_point, self.source_dir, self.dependencies, self.code_location
        )
        added = {
            "sagemaker_submit_directory": self._code.uri,
            "sagemaker_program": self._code.program,
            "sagemaker_container_log_level": self.container_log_level,
            "sagemaker_job_name": name,
            "sagemaker_region": session.boto_region_name,
        }
        return as_json({**self._hyperparameters, **added})

    def _container(self, name: str) -> Container:
        if self._code is None:
            return LinearLearnerContainer(environment=self.environment)
        archive = self.sagemaker_session.resolve(self._code.uri)
        return ScriptContainer(
            entry_point=self._code.program, source_dir=archive, environment=self.environment, name=name
        )

    def _model_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a model: its code is that of the job, unless a part of it is replaced."""
        given = {
            "model_data": self.model_data,
            "role": self.role,
            "name": self.training_job_name,
            "container_log_level": self.container_log_level,
            "code_location": self.code_location,
            "sagemaker_session": self.sagemaker_session,
            **options,
        }
        replaced = {name: value for name in CODE if (value := given.pop(name, None))}
        if self._code is None:
            return {**given, **{name: getattr(self, name) for name in CODE}, **replaced}
        if not replaced:
            return {**given, "code": self._code}
        program = self._code.program if "source_dir" in replaced else self.entry_point
        trained = {"entry_point": program, "source_dir": self.source_dir, "dependencies": self.dependencies}
        return {**given, **trained, **replaced}

    @classmethod
    def attach(
        cls,
        training_job_name: str,
        sagemaker_session: Session | None = None,
        model_channel_name: str = "model",
        *,
        entry_point: str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> Self:
        """Find a training job, also of another process, and return an estimator with its settings.

        Args:
            training_job_name: Name of the job.
            sagemaker_session: The session.
            model_channel_name: The channel of a model that the job continued from.
            entry_point: Another script; by default that of the job, as it was uploaded.
            options: Arguments of the class, which replace those of the job.

        Raises:
            ValueError: There is no such job, or its algorithm does not run here.
        """
        session = sagemaker_session or Session()
        job = TrainingJob.find(session, training_job_name)
        settings, code = job.settings(model_channel_name), job.code()
        if entry_point:
            settings["entry_point"] = entry_point
        elif code is not None:
            settings.update(entry_point=code.program, source_dir=code.uri)
        estimator = cls(**{"entry_point": None, **settings, "sagemaker_session": session, **options})
        estimator.latest_training_job = job
        if not entry_point:
            estimator._code = code
        return estimator


class Framework(_RunsScript):
    """Trains with a script.

    Args:
        entry_point: The script.
        source_dir: Folder with the script and what it imports.
        hyperparameters: Passed to the script, each as JSON.
        dependencies: More files and folders to put beside the script.
        image_uri: Ignored.
        container_log_level: The level of the containers' loggers, which scripts see as ``SM_LOG_LEVEL``.
        code_location: URI of a folder for the uploaded script; by default the default bucket.
        options: Arguments of :class:`EstimatorBase`.
    """

    model_class: type[FrameworkModel] = FrameworkModel
    predictor_class: Any = None

    def __init__(
        self,
        entry_point: str | os.PathLike[str],
        source_dir: str | os.PathLike[str] | None = None,
        hyperparameters: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        if entry_point is None:
            raise ValueError(f"{type(self).__name__} runs a script: give an entry_point")
        super().__init__(entry_point=entry_point, source_dir=source_dir, hyperparameters=hyperparameters, **options)

    def create_model(self, **options: Any) -> FrameworkModel:
        """Create the model of the last job, with the script of the job or another: arguments of :class:`~headrace.sagemaker.model.Model`."""
        return self.model_class(**self._model_options(options))


class Estimator(_RunsScript):
    """Trains with the algorithm of an image.

    Args:
        image_uri: The image of Linear Learner, or of scikit-learn with an ``entry_point``.
        entry_point, source_dir, dependencies: A script, for an image that runs one.
        options: Arguments of :class:`Framework` and :class:`EstimatorBase`, and ``image_name``, the name of ``image_uri`` in
            version 1 of the SDK.

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
        **options: Any,
    ) -> None:
        given = select_arguments({name: options.pop(name) for name in ("image_name", "image") if name in options}, known=("image_uri",), what="Estimator")  # fmt: skip
        uri = str(image_uri or given.get("image_uri", ""))
        super().__init__(role, instance_count, instance_type, entry_point=entry_point, image_uri=uri, **options)
        self.base_name = image_name(uri)
        if self.base_name not in REPOSITORIES.values():
            known = ", ".join(sorted(REPOSITORIES.values()))
            raise ValueError(f"image {uri!r} does not run here; these do: {known}")
        if self.base_name == REPOSITORIES["sklearn"] and entry_point is None:
            raise ValueError("the scikit-learn image runs a script: give an entry_point")

    def create_model(self, **options: Any) -> Model:
        """Create the model of the last job: arguments of :class:`~headrace.sagemaker.model.Model`."""
        return Model(**{"image_uri": self.image_uri, **self._model_options(options)})
