"""The calls of AWS's own clients (``boto3``) that notebooks make: for endpoints, models and jobs."""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

from headrace.hosting.endpoint import Endpoint, find_endpoint, list_endpoints
from headrace.sagemaker.arguments import OnOneMachine

__all__ = ["BotoSession", "RuntimeClient", "SageMakerClient", "check_invocation", "with_times"]

VARIANT = "AllTraffic"
TIMES = ("CreationTime", "LastModifiedTime")
LIST_ENDPOINTS = {"SortBy", "SortOrder", "NextToken", "MaxResults", "NameContains", "StatusEquals"} | {
    f"{time}{side}" for time in TIMES for side in ("Before", "After")
}
SORT_KEYS = {"Name": "EndpointName", "CreationTime": "CreationTime", "Status": "EndpointStatus"}
INVOKE_ENDPOINT = {
    "Accept",
    "ContentType",
    "CustomAttributes",
    "EndpointName",
    "InferenceId",
    "TargetContainerHostname",
    "TargetModel",
    "TargetVariant",
}
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


class SageMakerClient(OnOneMachine):
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
        return _describe(find_endpoint(_name_in("DescribeEndpoint", request, "EndpointName")))

    def list_endpoints(self, **request: Any) -> dict[str, Any]:
        """List this user's endpoints, with the filters, the order and the pages of SageMaker's API.

        Raises:
            ValueError: An argument that the API does not have.
        """
        check_request("ListEndpoints", request, LIST_ENDPOINTS)
        found = [one for one in map(_describe, list_endpoints()) if _fits(one, request)]
        key = SORT_KEYS.get(request.get("SortBy", "CreationTime"))
        if key is None:
            raise ValueError(f"SortBy is one of {', '.join(SORT_KEYS)}, got {request['SortBy']!r}")
        found.sort(key=lambda one: (one[key] is not None, one[key]), reverse=request.get("SortOrder") != "Ascending")
        start = int(request.get("NextToken", 0))
        end = start + int(request.get("MaxResults", len(found)))
        more = {"NextToken": str(end)} if end < len(found) else {}
        return {"Endpoints": found[start:end], **more}

    def delete_endpoint(self, **request: Any) -> None:
        """Stop and delete ``EndpointName``.

        Raises:
            EndpointError: There is no such endpoint.
        """
        self._session.delete_endpoint(_name_in("DeleteEndpoint", request, "EndpointName"))

    def delete_endpoint_config(self, **request: Any) -> None:
        """Do nothing: endpoints have no separate configuration here."""

    def describe_model(self, **request: Any) -> dict[str, Any]:
        """Describe ``ModelName``."""
        return self._session.describe_model(_name_in("DescribeModel", request, "ModelName"))

    def delete_model(self, **request: Any) -> None:
        """Delete ``ModelName``; its artifact stays."""
        self._session.delete_model(_name_in("DeleteModel", request, "ModelName"))

    def describe_training_job(self, **request: Any) -> dict[str, Any]:
        """Describe ``TrainingJobName``."""
        return self._session.describe_training_job(_name_in("DescribeTrainingJob", request, "TrainingJobName"))

    def stop_training_job(self, **request: Any) -> None:
        """Ask ``TrainingJobName`` to stop."""
        self._session.stop_training_job(_name_in("StopTrainingJob", request, "TrainingJobName"))

    def describe_transform_job(self, **request: Any) -> dict[str, Any]:
        """Describe ``TransformJobName``."""
        return self._session.describe_transform_job(_name_in("DescribeTransformJob", request, "TransformJobName"))

    def stop_transform_job(self, **request: Any) -> None:
        """Ask ``TransformJobName`` to stop."""
        self._session.stop_transform_job(_name_in("StopTransformJob", request, "TransformJobName"))


class RuntimeClient(OnOneMachine):
    """``boto3.client("sagemaker-runtime")``."""

    def invoke_endpoint(self, **request: Any) -> dict[str, Any]:
        """Ask ``EndpointName`` for a prediction.

        Returns:
            ``Body`` with ``read()``, ``ContentType``, ``InvokedProductionVariant`` and ``CustomAttributes``.

        Raises:
            ModelError: A container answered with an error.
            EndpointError: There is no such endpoint, or it does not run.
            ValueError: The model, variant or argument does not exist here.
        """
        check_invocation({name: value for name, value in request.items() if name != "Body"})
        answer = find_endpoint(_require("InvokeEndpoint", request, "EndpointName")).invoke(
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


class BotoSession(OnOneMachine):
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

    def resource(self, service_name: str, *_: Any, **__: Any) -> Any:
        """Refuse a resource of ``boto3``: there are none here.

        Raises:
            ValueError: Always; the message says what to use instead.
        """
        raise ValueError(
            f"there is no resource for {service_name!r} on this machine; for files use session.upload_data and download_data, or "
            "S3Uploader.upload_bytes for what is in memory"
        )


def with_times(described: Mapping[str, Any]) -> dict[str, Any]:
    """The description of a job with its times as :class:`datetime`, as ``boto3`` gives them, and the seconds that it trained."""
    found = _parse_times(described)
    if steps := described.get("SecondaryStatusTransitions"):
        found["SecondaryStatusTransitions"] = [_parse_times(step) for step in steps]
    if {"TrainingStartTime", "TrainingEndTime"} <= found.keys():
        seconds = round((found["TrainingEndTime"] - found["TrainingStartTime"]).total_seconds())
        found.update(TrainingTimeInSeconds=seconds, BillableTimeInSeconds=seconds)
    return found


def _parse_times(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: datetime.fromisoformat(one) if name.endswith("Time") else one for name, one in values.items()}


def check_request(operation: str, request: Mapping[str, Any], known: Collection[str]) -> None:
    """Refuse arguments that an operation does not have, as ``boto3`` does.

    Raises:
        ValueError: There is one.
    """
    unknown = sorted(name for name, value in request.items() if name not in known and value is not None)
    if unknown:
        raise ValueError(f"{operation} has no {', '.join(unknown)} here; it has {', '.join(sorted(known))}")


def check_invocation(request: Mapping[str, Any]) -> None:
    """Refuse models, variants and arguments that do not exist, as InvokeEndpoint does.

    Raises:
        ValueError: There is one.
    """
    check_request("InvokeEndpoint", request, INVOKE_ENDPOINT)
    model, variant = request.get("TargetModel"), request.get("TargetVariant")
    if model is not None:
        raise ValueError(f"target_model={model!r}: the endpoint has one model; deploy each model separately")
    if variant not in (None, VARIANT):
        raise ValueError(f"target_variant={variant!r}: an endpoint here has one variant, {VARIANT!r}")


def _name_in(operation: str, request: Mapping[str, Any], name: str) -> str:
    """The name in a request that has nothing else."""
    check_request(operation, request, {name})
    return _require(operation, request, name)


def _require(operation: str, request: Mapping[str, Any], name: str) -> str:
    if request.get(name) is None:
        raise ValueError(f"{operation} needs {name}")
    return str(request[name])


def _fits(endpoint: Mapping[str, Any], request: Mapping[str, Any]) -> bool:
    """Whether an endpoint passes the filters of ListEndpoints."""
    if (request.get("NameContains") or "") not in endpoint["EndpointName"]:
        return False
    if request.get("StatusEquals") not in (None, endpoint["EndpointStatus"]):
        return False
    for field in TIMES:
        time, after, before = endpoint[field], request.get(f"{field}After"), request.get(f"{field}Before")
        if after is not None and (time is None or time <= _as_time(after)):
            return False
        if before is not None and (time is None or time >= _as_time(before)):
            return False
    return True


def _as_time(given: datetime | float) -> datetime:
    """A time of a request. One without a zone is in UTC, as for ``boto3``."""
    if not isinstance(given, datetime):
        return datetime.fromtimestamp(given, UTC)
    return given if given.tzinfo is not None else given.replace(tzinfo=UTC)


def _describe(endpoint: Endpoint) -> dict[str, Any]:
    known = endpoint.describe()
    reason = {} if known["reason"] is None else {"FailureReason": known["reason"]}
    created = None if known["created"] is None else datetime.fromtimestamp(known["created"], UTC)
    return {
        "EndpointName": endpoint.name,
        "EndpointConfigName": endpoint.name,
        "EndpointStatus": known["status"],
        "CreationTime": created,
        "LastModifiedTime": created,
        "ProductionVariants": [{"VariantName": VARIANT, "CurrentInstanceCount": 1}],
        **reason,
    }
