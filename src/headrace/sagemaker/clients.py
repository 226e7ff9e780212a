"""The calls of AWS's own clients (``boto3``) that notebooks make: for endpoints, models and jobs."""

from __future__ import annotations

import io
from typing import Any, Protocol

from headrace.hosting.endpoint import Endpoint, find_endpoint, list_endpoints

__all__ = ["BotoSession", "RuntimeClient", "SageMakerClient"]

VARIANT = "AllTraffic"
RUNTIMES = ("sagemaker-runtime", "runtime.sagemaker")


class Account(Protocol):
    """What the clients need of a session."""

    boto_region_name: str

    def describe_training_job(self, job_name: str) -> dict[str, Any]: ...
    def stop_training_job(self, job_name: str) -> None: ...
    def describe_transform_job(self, job_name: str) -> dict[str, Any]: ...
    def stop_transform_job(self, job_name: str) -> None: ...
    def describe_model(self, name: str) -> dict[str, Any]: ...
    def delete_model(self, model_name: str) -> None: ...
    def delete_endpoint(self, endpoint_name: str) -> None: ...


class SageMakerClient:
    """``boto3.client("sagemaker")`` for the jobs, models and endpoints of a session.

    Args:
        session: The session.
    """

    def __init__(self, session: Account) -> None:
        self._session = session

    def describe_endpoint(self, **request: Any) -> dict[str, Any]:
        """Describe an endpoint: ``EndpointName``, ``EndpointStatus``, after a failure ``FailureReason``.

        Raises:
            EndpointError: There is no such endpoint.
        """
        return _describe(find_endpoint(request["EndpointName"]))

    def list_endpoints(self, **request: Any) -> dict[str, Any]:
        """List this user's endpoints. ``NameContains`` filters; ordering and paging are ignored."""
        part = str(request.get("NameContains", ""))
        return {"Endpoints": [_describe(one) for one in list_endpoints() if part in one.name]}

    def delete_endpoint(self, **request: Any) -> None:
        """Stop and delete ``EndpointName``.

        Raises:
            EndpointError: There is no such endpoint.
        """
        self._session.delete_endpoint(request["EndpointName"])

    def delete_endpoint_config(self, **request: Any) -> None:
        """Do nothing: endpoints have no separate configuration here."""

    def describe_model(self, **request: Any) -> dict[str, Any]:
        """Describe ``ModelName``."""
        return self._session.describe_model(request["ModelName"])

    def delete_model(self, **request: Any) -> None:
        """Delete ``ModelName``; its artifact stays."""
        self._session.delete_model(request["ModelName"])

    def describe_training_job(self, **request: Any) -> dict[str, Any]:
        """Describe ``TrainingJobName``."""
        return self._session.describe_training_job(request["TrainingJobName"])

    def stop_training_job(self, **request: Any) -> None:
        """Ask ``TrainingJobName`` to stop."""
        self._session.stop_training_job(request["TrainingJobName"])

    def describe_transform_job(self, **request: Any) -> dict[str, Any]:
        """Describe ``TransformJobName``."""
        return self._session.describe_transform_job(request["TransformJobName"])

    def stop_transform_job(self, **request: Any) -> None:
        """Ask ``TransformJobName`` to stop."""
        self._session.stop_transform_job(request["TransformJobName"])


class RuntimeClient:
    """``boto3.client("sagemaker-runtime")``."""

    def invoke_endpoint(self, **request: Any) -> dict[str, Any]:
        """Ask ``EndpointName`` for a prediction.

        Returns:
            ``Body`` with ``read()``, ``ContentType``, ``InvokedProductionVariant`` and ``CustomAttributes``.

        Raises:
            ModelError: A container answered with an error.
            EndpointError: There is no such endpoint, or it does not run.
        """
        answer = find_endpoint(request["EndpointName"]).invoke(
            request.get("Body", b""),
            content_type=request.get("ContentType", "application/json"),
            accept=request.get("Accept"),
            custom_attributes=request.get("CustomAttributes"),
            target_container_hostname=request.get("TargetContainerHostname"),
            inference_id=request.get("InferenceId"),
        )
        return {
            "Body": io.BytesIO(answer.body),
            "ContentType": answer.content_type,
            "InvokedProductionVariant": answer.production_variant,
            "CustomAttributes": answer.custom_attributes or "",
            "ResponseMetadata": {"HTTPStatusCode": 200},
        }


class BotoSession:
    """``boto3.Session()`` of a session on this machine.

    Args:
        session: The session.
    """

    def __init__(self, session: Account) -> None:
        self._session = session
        self.region_name: str = session.boto_region_name

    def client(self, service_name: str, *_: Any, **__: Any) -> SageMakerClient | RuntimeClient:
        """Return the client of SageMaker or of its runtime.

        Raises:
            ValueError: The client is for another service.
        """
        if service_name == "sagemaker":
            return SageMakerClient(self._session)
        if service_name in RUNTIMES:
            return RuntimeClient()
        raise ValueError(
            f"there is no client for {service_name!r} on this machine, only for 'sagemaker' and 'sagemaker-runtime'; "
            "for files use session.upload_data and download_data"
        )


def _describe(endpoint: Endpoint) -> dict[str, Any]:
    known = endpoint.describe()
    reason = {} if known["reason"] is None else {"FailureReason": known["reason"]}
    return {
        "EndpointName": endpoint.name,
        "EndpointConfigName": endpoint.name,
        "EndpointStatus": known["status"],
        "CreationTime": known["created"],
        "ProductionVariants": [{"VariantName": VARIANT, "CurrentInstanceCount": 1}],
        **reason,
    }
