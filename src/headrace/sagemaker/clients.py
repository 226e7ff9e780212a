"""The calls of AWS's own clients that notebooks make beside the SDK: of endpoints, models and jobs."""

from __future__ import annotations

import io
from typing import Any, Protocol

from headrace.hosting.endpoint import Endpoint, find_endpoint, list_endpoints

__all__ = ["BotoSession", "RuntimeClient", "SageMakerClient"]

VARIANT = "AllTraffic"
RUNTIMES = ("sagemaker-runtime", "runtime.sagemaker")


class Account(Protocol):
    """What is asked of a session."""

    boto_region_name: str

    def describe_training_job(self, job_name: str) -> dict[str, Any]: ...
    def stop_training_job(self, job_name: str) -> None: ...
    def describe_transform_job(self, job_name: str) -> dict[str, Any]: ...
    def stop_transform_job(self, job_name: str) -> None: ...
    def describe_model(self, name: str) -> dict[str, Any]: ...
    def delete_model(self, model_name: str) -> None: ...
    def delete_endpoint(self, endpoint_name: str) -> None: ...


class SageMakerClient:
    """``boto3.client("sagemaker")``, as far as there is something here that it can be asked about.

    Args:
        session: Whose jobs and models.
    """

    def __init__(self, session: Account) -> None:
        self._session = session

    def describe_endpoint(self, **request: Any) -> dict[str, Any]:
        """``EndpointName``, ``EndpointStatus`` and, where there is one, ``FailureReason``.

        Raises:
            EndpointError: There is none of this name.
        """
        return _describe(find_endpoint(request["EndpointName"]))

    def list_endpoints(self, **request: Any) -> dict[str, Any]:
        """``Endpoints``: those of this user. Filters (``NameContains``) count, orders and pages do not."""
        part = str(request.get("NameContains", ""))
        return {"Endpoints": [_describe(one) for one in list_endpoints() if part in one.name]}

    def delete_endpoint(self, **request: Any) -> None:
        """Stop ``EndpointName`` and forget it.

        Raises:
            EndpointError: There is none of this name.
        """
        self._session.delete_endpoint(request["EndpointName"])

    def delete_endpoint_config(self, **request: Any) -> None:
        """Does nothing: an endpoint here has no configuration beside itself."""

    def describe_model(self, **request: Any) -> dict[str, Any]:
        """What was written down of ``ModelName``."""
        return self._session.describe_model(request["ModelName"])

    def delete_model(self, **request: Any) -> None:
        """Forget ``ModelName``; its artifact stays."""
        self._session.delete_model(request["ModelName"])

    def describe_training_job(self, **request: Any) -> dict[str, Any]:
        """What is known of ``TrainingJobName``."""
        return self._session.describe_training_job(request["TrainingJobName"])

    def stop_training_job(self, **request: Any) -> None:
        """Ask ``TrainingJobName`` to stop."""
        self._session.stop_training_job(request["TrainingJobName"])

    def describe_transform_job(self, **request: Any) -> dict[str, Any]:
        """What is known of ``TransformJobName``."""
        return self._session.describe_transform_job(request["TransformJobName"])

    def stop_transform_job(self, **request: Any) -> None:
        """Ask ``TransformJobName`` to stop."""
        self._session.stop_transform_job(request["TransformJobName"])


class RuntimeClient:
    """``boto3.client("sagemaker-runtime")``."""

    def invoke_endpoint(self, **request: Any) -> dict[str, Any]:
        """Ask ``EndpointName`` for a prediction.

        Returns:
            ``Body``, to ``read()``, ``ContentType``, ``InvokedProductionVariant`` and ``CustomAttributes``.

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
    """``boto3.Session()``, as far as a session of this machine has one.

    Args:
        session: Whose.
    """

    def __init__(self, session: Account) -> None:
        self._session = session
        self.region_name = session.boto_region_name

    def client(self, service_name: str, *_: Any, **__: Any) -> SageMakerClient | RuntimeClient:
        """The client of SageMaker, or of its runtime.

        Raises:
            ValueError: Of another service.
        """
        if service_name == "sagemaker":
            return SageMakerClient(self._session)
        if service_name in RUNTIMES:
            return RuntimeClient()
        raise ValueError(
            f"there is no AWS here, and so no client of {service_name!r}; "
            "of 'sagemaker' and 'sagemaker-runtime' there is one, and files are those of session.upload_data"
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
