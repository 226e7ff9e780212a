"""Models: an artifact, the container that serves it, and the user's code in the store. ``sagemaker.model``."""

from __future__ import annotations

import os
import tempfile
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from headrace.containers.code import find_code, stage
from headrace.hosting.endpoint import create_endpoint
from headrace.hosting.settings import Settings
from headrace.hosting.stage import Stage, linear_learner_stage, script_stage
from headrace.jobs.tree import files_below, full_disk_as_failure, pack
from headrace.sagemaker.arguments import OnOneMachine, select_arguments
from headrace.sagemaker.image_uris import REPOSITORIES, image_name
from headrace.sagemaker.predictor import Predictor
from headrace.sagemaker.session import Session, base_from_name, name_from_base
from headrace.sagemaker.transformer import Transformable

__all__ = ["Deployable", "FrameworkModel", "Model", "UploadedCode", "upload_code"]


START_S = 900.0  # includes the installation of a script's requirements


class Deployable(Transformable):
    """A model or pipeline that can be deployed and used for batch transform."""

    renamed: tuple[str, ...] = ()
    """Arguments of :meth:`deploy` that are also accepted by their names in version 1 of the SDK."""
    predictor_cls: Any
    workers: int | None = None
    endpoint_name: str | None

    @abstractmethod
    def _name_for_endpoint(self) -> str:
        """The default name of its endpoint."""

    def deploy(
        self,
        initial_instance_count: int = 1,
        instance_type: str = "local",
        serializer: Any = None,
        deserializer: Any = None,
        endpoint_name: str | None = None,
        *,
        wait: bool = True,
        settings: Settings | None = None,
        on: Literal["processes", "ray"] = "processes",
        replicas: int | tuple[int, int] = 1,
        address: str | None = None,
        resources: Mapping[str, float] | None = None,
        **others: Any,
    ) -> Any:
        """Start an endpoint. It outlives this process.

        Args:
            initial_instance_count, instance_type: Accepted and ignored.
            serializer, deserializer: For the predictor.
            endpoint_name: By default the base name of the model and the time, or the name of the pipeline.
            wait: Wait until every model is loaded.
            settings: How the endpoint serves: port, workers, limits.
            on, replicas, address, resources: Its place on a Ray cluster; see :func:`headrace.hosting.create_endpoint`.
            others: Other arguments of the SDK, accepted and ignored.

        Returns:
            A :class:`~headrace.sagemaker.predictor.Predictor`, or the result of ``predictor_cls``. On SageMaker a pipeline
            without ``predictor_cls`` returns ``None``.

        Raises:
            EndpointError: A model failed to load; the message holds the reason.
        """
        del initial_instance_count, instance_type
        given = select_arguments(others, known=self.renamed, what=f"{type(self).__name__}.deploy", swallows=True)
        stages = self._stages()
        self.endpoint_name = endpoint_name or given.get("endpoint_name") or self._name_for_endpoint()
        if settings is None:
            settings = Settings(port=0, workers=self.workers)
        create_endpoint(
            self.endpoint_name,
            stages,
            settings=settings,
            wait_s=START_S if wait else None,
            on=on,
            replicas=replicas,
            address=address,
            resources=resources,
        )
        self.sagemaker_session.save_endpoint(self.endpoint_name, str(self.name))
        predictor = (self.predictor_cls or Predictor)(self.endpoint_name, self.sagemaker_session)
        if serializer is not None:
            predictor.serializer = serializer
        if deserializer is not None:
            predictor.deserializer = deserializer
        return predictor


@dataclass(frozen=True, slots=True)
class UploadedCode:
    """Code in the store.

    Args:
        uri: URI of ``sourcedir.tar.gz``.
        program: The script in it.
    """

    uri: str
    program: str


def upload_code(
    session: Session,
    name: str,
    entry_point: str | os.PathLike[str],
    source_dir: str | os.PathLike[str] | None = None,
    dependencies: Sequence[str | os.PathLike[str]] = (),
) -> UploadedCode:
    """Upload a script, or its folder, as ``<default bucket>/<name>/source/sourcedir.tar.gz``.

    Raises:
        JobFailed: There is no such script, or the disk is full.
    """
    if source_dir is not None and str(source_dir).startswith(("s3://", "file://")):
        return UploadedCode(str(source_dir), os.fspath(entry_point))
    with full_disk_as_failure(session.root), tempfile.TemporaryDirectory(prefix="headrace-code-") as folder:
        staged = stage(find_code(entry_point, source_dir), dependencies, Path(folder) / "code")
        archive = Path(folder) / "sourcedir.tar.gz"
        pack(files_below([staged.folder]), archive)
        uri = f"s3://{session.default_bucket()}/{name}/source/sourcedir.tar.gz"
        session.store.put(archive, uri)
    return UploadedCode(uri, staged.program)


PROGRAM = "SAGEMAKER_PROGRAM"
LOG_LEVEL = "SAGEMAKER_CONTAINER_LOG_LEVEL"
AWS_REGION = "SAGEMAKER_REGION"
WORKERS = "SAGEMAKER_MODEL_SERVER_WORKERS"


class Model(OnOneMachine, Deployable):
    """A model that can be deployed, or used for batch transform.

    Args:
        image_uri: The image of Linear Learner or scikit-learn; optional with an ``entry_point``.
        model_data: URI of ``model.tar.gz``.
        role: Accepted and ignored.
        predictor_cls: Called by :meth:`deploy` with endpoint name and session; by default
            :class:`~headrace.sagemaker.predictor.Predictor`.
        env: Environment variables of the container.
        name: Name of the model; generated by default.
        sagemaker_session: The session.
        entry_point: A script with ``model_fn`` and so on.
        source_dir: Folder of the script.
        dependencies: More files and folders to put beside the script.
        model_server_workers: Worker processes of the endpoint.
        isolated: Run the container in a process of its own.
        rows_independent: Whether the prediction for a row does not depend on other rows, so that rows of concurrent
            requests may be predicted together. ``None``: only if the script has no ``predict_fn``.
        others: Other arguments of the SDK, accepted and ignored.

    Raises:
        ValueError: There is no script, and the image does not run here.
    """

    base_name = "model"
    renamed: tuple[str, ...] = ("endpoint_name",)

    def __init__(
        self,
        image_uri: str | None = None,
        model_data: str | None = None,
        role: str | None = None,
        predictor_cls: Any = None,
        env: Mapping[str, str] | None = None,
        name: str | None = None,
        sagemaker_session: Session | None = None,
        *,
        entry_point: str | os.PathLike[str] | None = None,
        source_dir: str | os.PathLike[str] | None = None,
        dependencies: Sequence[str | os.PathLike[str]] = (),
        code: UploadedCode | None = None,
        model_server_workers: int | None = None,
        isolated: bool = False,
        rows_independent: bool | None = None,
        **others: Any,
    ) -> None:
        given = select_arguments(others, known=("image_uri",), what=type(self).__name__)
        self.image_uri: Any = given.get("image_uri", image_uri)
        self.model_data = model_data
        self.role = role
        self.env: dict[str, str] = {str(key): str(value) for key, value in (env or {}).items()}
        self.name = name
        self.endpoint_name: str | None = None
        self.sagemaker_session = sagemaker_session or Session()
        self.predictor_cls = predictor_cls
        self.isolated = isolated
        self.rows_independent = rows_independent
        self.workers = model_server_workers
        self._entry_point = entry_point
        self._source_dir = source_dir
        self._dependencies = tuple(dependencies)
        self._code = code
        if self.image_uri is not None and type(self) is Model:
            self.base_name = image_name(self.image_uri)
        if not self._is_script and not self._is_linear_learner:
            raise ValueError(
                f"image {self.image_uri!r} does not run here: give an entry_point, or one of {sorted(REPOSITORIES)}"
            )

    @property
    def _is_script(self) -> bool:
        if self._entry_point is not None or self._code is not None:
            return True
        return self.image_uri is not None and image_name(self.image_uri) == REPOSITORIES["sklearn"]

    @property
    def _is_linear_learner(self) -> bool:
        return self.image_uri is not None and image_name(self.image_uri) == REPOSITORIES["linear-learner"]

    def prepare(self, name: str | None = None) -> None:
        """Name the model, and upload its code. A second call does nothing."""
        if self.name is None:
            self.name = name or name_from_base(self.base_name)
        if self._code is None and self._entry_point is not None:
            self._code = upload_code(
                self.sagemaker_session, self.name, self._entry_point, self._source_dir, self._dependencies
            )

    def stage(self) -> Stage:
        """Describe how a worker loads this model, and store the description."""
        self.prepare()
        stage = self._stage()
        described = {
            "ModelName": self.name,
            "ModelDataUrl": self.model_data,
            "Image": self.image_uri,
            "Environment": self.env,
            "Containers": [stage.to_json()],
        }
        self.sagemaker_session.save_model(str(self.name), described)
        return stage

    def _stage(self) -> Stage:
        if self.model_data is None:
            raise ValueError(f"{self!r} has no model_data: the URI of a model.tar.gz")
        data = self.sagemaker_session.resolve(self.model_data)
        if not self._is_script:
            return linear_learner_stage(data, environment=self.env, isolated=self.isolated)
        environment = {LOG_LEVEL: "20", AWS_REGION: self.sagemaker_session.boto_region_name, **self.env}
        container: dict[str, Any] = {"rows_independent": self.rows_independent}
        if self._code is not None:
            container["entry_point"] = self._code.program
            container["source_dir"] = self.sagemaker_session.resolve(self._code.uri)
            environment.setdefault(PROGRAM, self._code.program)
        return script_stage(data, environment=environment, isolated=self.isolated, **container)

    def _stages(self) -> list[Stage]:
        return [self.stage()]

    def _name_for_endpoint(self) -> str:
        return name_from_base(base_from_name(self.name or self.base_name))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name or self.model_data!r})"


class FrameworkModel(Model):
    """A model whose container runs a script."""

    def __init__(
        self,
        model_data: str | None = None,
        role: str | None = None,
        entry_point: str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(model_data=model_data, role=role, entry_point=entry_point, **options)
