"""Batch transform: ``sagemaker.transformer``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Literal

from headrace.hosting.stage import Stage
from headrace.jobs.transform.running import read_transform_spec
from headrace.jobs.transform.spec import TransformSpec
from headrace.sagemaker.arguments import OnOneMachine, select_arguments
from headrace.sagemaker.jobs import TransformJob
from headrace.sagemaker.session import Session, base_from_name, name_from_base

__all__ = ["Transformable", "Transformer"]

TIMEOUT, RETRIES = "InvocationsTimeoutInSeconds", "InvocationsMaxRetries"


class Transformable(ABC):
    """A model or pipeline for batch transform."""

    name: str | None
    base_name: str
    sagemaker_session: Session

    @abstractmethod
    def _stages(self) -> list[Stage]:
        """Name the model, store its description, and return its containers."""

    def transformer(
        self,
        instance_count: int = 1,
        instance_type: str = "local",
        strategy: str | None = None,
        assemble_with: str | None = None,
        output_path: str | None = None,
        output_kms_key: str | None = None,
        accept: str | None = None,
        env: Mapping[str, str] | None = None,
        max_concurrent_transforms: int | None = None,
        max_payload: int | None = None,
        *,
        on: Literal["processes", "ray"] = "processes",
        address: str | None = None,
        resources: Mapping[str, float] | None = None,
        **others: Any,
    ) -> Transformer:
        """Prepare batch transform; see :class:`Transformer`."""
        del instance_type, output_kms_key
        select_arguments(others, what=f"{type(self).__name__}.transformer")
        self._stages()
        return Transformer(
            self,
            instance_count=instance_count,
            on=on,
            address=address,
            resources=resources,
            strategy=strategy,
            assemble_with=assemble_with,
            output_path=output_path,
            accept=accept,
            env=env,
            max_concurrent_transforms=max_concurrent_transforms,
            max_payload=max_payload,
            sagemaker_session=self.sagemaker_session,
            base_transform_job_name=self.base_name,
        )

    def create(self, instance_type: str | None = None, **others: Any) -> None:
        """Name and store the model, so that :class:`Transformer` finds it by name in any process."""
        del instance_type
        select_arguments(others, what=f"{type(self).__name__}.create")
        self._stages()

    def delete_model(self) -> None:
        """Delete the model; artifacts, and the models of a pipeline, stay.

        Raises:
            ValueError: It was not created yet.
        """
        if self.name is None:
            raise ValueError("The SageMaker model must be created before attempting to delete.")
        self.sagemaker_session.delete_model(self.name)


class _WrittenModel(Transformable):
    """A model or pipeline that this or another process has stored."""

    def __init__(self, name: str, session: Session) -> None:
        self.name = name
        self.base_name = name
        self.sagemaker_session = session

    def _stages(self) -> list[Stage]:
        containers = self.sagemaker_session.describe_model(str(self.name)).get("Containers", ())
        if not containers:
            raise ValueError(f"the model {self.name!r} has no stored containers: create it again")
        return [Stage.from_json(container) for container in containers]


class Transformer(OnOneMachine):
    """Sends the objects of a prefix through a model, and stores the answers.

    Args:
        model_name: The name of a model or pipeline that was created or deployed.
        instance_count: The number of workers on Ray; ignored on one machine.
        instance_type: Accepted and ignored.
        strategy: ``"MultiRecord"`` or ``"SingleRecord"``.
        assemble_with: ``"Line"``, or ``None`` to concatenate the answers.
        output_path: URI for the answers; by default ``s3://<default bucket>/<job name>``.
        accept: Content type of the answers.
        env: Environment variables for the containers.
        max_concurrent_transforms: Largest number of concurrent requests.
        max_payload: Largest request in MB.
        sagemaker_session: The session.
        base_transform_job_name: Prefix of job names.
        on: Where the containers run: ``"processes"`` of this machine, or ``"ray"``.
        address: The Ray cluster; see :func:`headrace.jobs.transform.running.transform`.
        resources: What each worker on Ray takes of its node, such as ``{"CPU": 2, "GPU": 1}``.
        others: Other arguments of the SDK, accepted and ignored.

    Raises:
        ValueError: There is no such model.
    """

    def __init__(
        self,
        model_name: str | Transformable,
        instance_count: int = 1,
        instance_type: str = "local",
        strategy: str | None = None,
        assemble_with: str | None = None,
        output_path: str | None = None,
        output_kms_key: str | None = None,
        accept: str | None = None,
        max_concurrent_transforms: int | None = None,
        max_payload: int | None = None,
        tags: Any = None,
        env: Mapping[str, str] | None = None,
        base_transform_job_name: str | None = None,
        sagemaker_session: Session | None = None,
        *,
        on: Literal["processes", "ray"] = "processes",
        address: str | None = None,
        resources: Mapping[str, float] | None = None,
        **others: Any,
    ) -> None:
        del instance_type, output_kms_key, tags
        select_arguments(others, what="Transformer")
        session = sagemaker_session or Session()
        if isinstance(model_name, str):
            session.describe_model(model_name)  # fail now if there is no such model
        self.model: _WrittenModel | Transformable = (
            _WrittenModel(model_name, session) if isinstance(model_name, str) else model_name
        )
        self.strategy = strategy
        self.assemble_with = assemble_with
        self.accept = accept
        self.env: dict[str, str] = dict(env or {})
        self.max_concurrent_transforms = max_concurrent_transforms
        self.max_payload = max_payload
        self.sagemaker_session = session
        self.base_transform_job_name = base_transform_job_name
        self.output_path = output_path
        self._place: dict[str, Any] = {
            "on": on,
            "address": address,
            "workers": instance_count if on == "ray" else None,
            "resources": resources,
        }
        self.latest_transform_job: TransformJob | None = None
        self._made_output_path = output_path is None

    @classmethod
    def attach(cls, transform_job_name: str, sagemaker_session: Session | None = None) -> Transformer:
        """The transformer of an earlier job, with that job's settings.

        Raises:
            ValueError: There is no such job, or no :class:`Transformer` started it.
        """
        session = sagemaker_session or Session()
        job = session.describe_transform_job(transform_job_name)
        if "ModelName" not in job:
            raise ValueError(f"the transform job {transform_job_name!r} was not started by a Transformer")
        spec = read_transform_spec(session.transform_dir, transform_job_name)
        transformer = cls(
            _WrittenModel(job["ModelName"], session),
            strategy=spec.strategy,
            assemble_with=None if spec.assemble_with == "None" else spec.assemble_with,
            output_path=spec.output_path,
            accept=spec.accept,
            max_concurrent_transforms=spec.max_concurrent_transforms,
            max_payload=spec.max_payload_mb,
            env=spec.environment,
            base_transform_job_name=base_from_name(transform_job_name),
            sagemaker_session=session,
        )
        transformer.latest_transform_job = TransformJob(session, transform_job_name)
        return transformer

    @property
    def model_name(self) -> str | None:
        """The name of the model."""
        return self.model.name

    def transform(
        self,
        data: str,
        data_type: str = "S3Prefix",
        content_type: str | None = None,
        compression_type: str | None = None,
        split_type: str | None = None,
        job_name: str | None = None,
        input_filter: str | None = None,
        output_filter: str | None = None,
        join_source: str | None = None,
        experiment_config: Any = None,
        model_client_config: Mapping[str, int] | None = None,
        batch_data_capture_config: Any = None,
        wait: bool = True,
        logs: bool = True,
    ) -> None:
        """Run a transform job.

        Args:
            data: URI of the objects.
            data_type: ``"S3Prefix"`` or ``"ManifestFile"``.
            content_type: Content type of the objects.
            compression_type: ``"Gzip"``.
            split_type: ``"Line"``, ``"RecordIO"``, ``"TFRecord"``; ``None`` sends each object in one request.
            job_name: Generated by default.
            input_filter, output_filter: JSONPath of the part that the model receives, and of the part that is stored.
            join_source: ``"Input"`` joins each input with its answer.
            model_client_config: ``InvocationsTimeoutInSeconds`` and ``InvocationsMaxRetries``.
            experiment_config, batch_data_capture_config: Accepted and ignored.
            wait: Wait for the job.
            logs: Whether to print its log.

        Raises:
            JobFailed: An object failed; the others were transformed.
            ValueError: SageMaker would refuse the settings or the name, such as that of another job.
        """
        del experiment_config, batch_data_capture_config
        session = self.sagemaker_session
        if self.output_path is not None:
            session.resolve(self.output_path)  # fail now, not in the job
        stages = self.model._stages()
        name = job_name or name_from_base(self.base_transform_job_name or self.model.name or "transform")
        TransformJob.check_name(session, name)
        if self._made_output_path:
            self.output_path = f"s3://{session.default_bucket()}/{name}"
        client = dict(model_client_config or {})
        unknown = sorted(client.keys() - {TIMEOUT, RETRIES})
        if unknown:
            raise ValueError(f"model_client_config has no {', '.join(unknown)}; it has {TIMEOUT} and {RETRIES}")
        spec = TransformSpec(
            name=name,
            input_uri=data,
            data_type=data_type,
            content_type=content_type,
            compression=compression_type or "None",
            split_type=split_type or "None",
            strategy=self.strategy,
            assemble_with=self.assemble_with or "None",
            accept=self.accept,
            output_path=str(self.output_path),
            max_payload_mb=self.max_payload,
            max_concurrent_transforms=self.max_concurrent_transforms,
            environment=self.env,
            input_filter=input_filter or "$",
            output_filter=output_filter or "$",
            join_source=join_source or "None",
            invocations_timeout_s=client.get(TIMEOUT, 600),
            invocations_max_retries=client.get(RETRIES, 3),
        )
        session.save_transform(name, str(self.model.name))
        self.latest_transform_job = TransformJob.begin(session, spec, stages, show=logs, **self._place)
        if wait:
            self.wait()

    def wait(self, logs: bool = True) -> None:
        """Wait until the last job has ended.

        Raises:
            JobFailed: It failed; the message is the reason.
            ValueError: There was no job.
        """
        self._job().wait(logs)

    def stop_transform_job(self, wait: bool = True) -> None:
        """Ask the last job to stop."""
        job = self._job()
        job.stop()
        if wait:
            job.wait_until_ended()

    def delete_model(self) -> None:
        """Delete the model; its artifact stays."""
        self.model.delete_model()

    def _job(self) -> TransformJob:
        if self.latest_transform_job is None:
            raise ValueError("No transform job available: call transform first")
        return self.latest_transform_job
