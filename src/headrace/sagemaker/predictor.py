"""Predictors: send requests to endpoints. ``sagemaker.predictor``."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

from headrace.hosting.client import ModelError
from headrace.hosting.endpoint import find_endpoint
from headrace.hosting.stage import Stage
from headrace.sagemaker.arguments import OnOneMachine, select_arguments, warn_old_name
from headrace.sagemaker.clients import check_invocation
from headrace.sagemaker.deserializers import (
    BytesDeserializer,
    StreamDeserializer,
    StringDeserializer,
    csv_deserializer,
    json_deserializer,
    numpy_deserializer,
)
from headrace.sagemaker.serializers import IdentitySerializer, csv_serializer, json_serializer, npy_serializer
from headrace.sagemaker.session import Session

__all__ = [
    "BytesDeserializer",
    "ModelError",
    "Predictor",
    "RealTimePredictor",
    "StreamDeserializer",
    "StringDeserializer",
    "csv_deserializer",
    "csv_serializer",
    "json_deserializer",
    "json_serializer",
    "npy_serializer",
    "numpy_deserializer",
]

UPDATE_S = 900.0


class Predictor(OnOneMachine):
    """Sends values to an endpoint, and returns its answers.

    Args:
        endpoint_name: Name of an endpoint that any process has created.
        sagemaker_session: The session with its model.
        serializer: Converts a value to a body; by default
            :class:`~headrace.sagemaker.serializers.IdentitySerializer`.
        deserializer: Converts the body of the answer; by default to bytes.
        others: ``endpoint``, the name in version 1 of the SDK, and arguments that only AWS uses.

    Raises:
        EndpointError: There is no such endpoint.
        TypeError: The name is missing.
    """

    def __init__(
        self,
        endpoint_name: str | None = None,
        sagemaker_session: Session | None = None,
        serializer: Any = None,
        deserializer: Any = None,
        **others: Any,
    ) -> None:
        given = select_arguments(others, known=("endpoint_name",), what=type(self).__name__, swallows=True)
        name = given.get("endpoint_name", endpoint_name)
        if name is None:
            raise TypeError(f"{type(self).__name__} needs an endpoint_name")
        self.endpoint_name: str = str(name)
        self.sagemaker_session: Session = sagemaker_session or Session()
        self.serializer: IdentitySerializer | Any = IdentitySerializer() if serializer is None else serializer
        self.deserializer: BytesDeserializer | Any = BytesDeserializer() if deserializer is None else deserializer
        self._endpoint = find_endpoint(self.endpoint_name)
        self._content_type: str | None = None
        self._accept: str | None = None

    @property
    def endpoint(self) -> str:
        """The endpoint's name, under its name in version 1 of the SDK."""
        return self.endpoint_name

    @property
    def content_type(self) -> str:
        """Content type of requests."""
        if self._content_type is not None:
            return self._content_type
        own = getattr(self.serializer, "content_type", None) or getattr(self.serializer, "CONTENT_TYPE", None)
        return str(own or "application/octet-stream")

    @content_type.setter
    def content_type(self, value: str | None) -> None:
        self._content_type = value

    @property
    def accept(self) -> str:
        """Content type of answers."""
        if self._accept is not None:
            return self._accept
        accepted = getattr(self.deserializer, "ACCEPT", ("*/*",))
        return accepted if isinstance(accepted, str) else ", ".join(accepted)

    @accept.setter
    def accept(self, value: str | None) -> None:
        self._accept = value

    def predict(
        self,
        data: Any,
        initial_args: Mapping[str, Any] | None = None,
        target_model: str | None = None,
        target_variant: str | None = None,
        inference_id: str | None = None,
        custom_attributes: str | None = None,
        component_name: str | None = None,
    ) -> Any:
        """Request a prediction.

        Args:
            data: A value for the serializer.
            initial_args: Arguments of ``InvokeEndpoint`` (``ContentType``, ``Accept``, ``CustomAttributes``,
                ``TargetContainerHostname``, ``InferenceId``, ``EndpointName``), which override everything else.
            target_model, target_variant: An endpoint here has one model and one variant, ``AllTraffic``.
            inference_id: A name for the request.
            custom_attributes: Attributes for the container.
            component_name: Must be ``None``: endpoints have no components here.

        Raises:
            ModelError: A container answered with an error; the message holds it.
            EndpointError: The endpoint is not running.
            ValueError: The model, variant or argument does not exist here.
        """
        given = {
            "TargetModel": target_model,
            "TargetVariant": target_variant,
            "InferenceComponentName": component_name,
            **(initial_args or {}),
        }
        check_invocation(given)
        other = given.get("EndpointName", self.endpoint_name)
        endpoint = self._endpoint if other == self.endpoint_name else find_endpoint(other)
        # Notebooks for version 1 of the SDK set both to None.
        serializer = IdentitySerializer() if self.serializer is None else self.serializer
        deserializer = BytesDeserializer() if self.deserializer is None else self.deserializer
        answer = endpoint.invoke(
            serializer.serialize(data) if hasattr(serializer, "serialize") else serializer(data),
            content_type=given.get("ContentType", self.content_type),
            accept=given.get("Accept", self.accept),
            custom_attributes=given.get("CustomAttributes", custom_attributes),
            target_container_hostname=given.get("TargetContainerHostname"),
            inference_id=given.get("InferenceId", inference_id),
        )
        stream = io.BytesIO(answer.body)
        if hasattr(deserializer, "deserialize"):
            return deserializer.deserialize(stream, answer.content_type)
        return deserializer(stream, answer.content_type)

    def update_endpoint(
        self,
        initial_instance_count: int | None = None,
        instance_type: str | None = None,
        accelerator_type: str | None = None,
        model_name: str | None = None,
        tags: Any = None,
        kms_key: str | None = None,
        data_capture_config_dict: Any = None,
        max_errors: int | None = None,
        wait: bool = True,
    ) -> None:
        """Replace the model of the endpoint while it answers. The endpoint must be on Ray.

        Args:
            model_name: The name of a model or pipeline that was created or deployed; by default that of the endpoint, loaded again.
            wait: Wait until every replica has the model.
            initial_instance_count, instance_type, accelerator_type, tags, kms_key, data_capture_config_dict, max_errors: Accepted and
                ignored.

        Raises:
            EndpointError: The model does not load, so the endpoint keeps its own; or it is not on Ray.
            ValueError: There is no such model.
        """
        del initial_instance_count, instance_type, accelerator_type, tags, kms_key, data_capture_config_dict, max_errors
        name = model_name or self.sagemaker_session.model_of_endpoint(self.endpoint_name)
        containers = self.sagemaker_session.describe_model(name).get("Containers", ())
        stages = [Stage.from_json(container) for container in containers]
        self._endpoint.update(stages, wait_s=UPDATE_S if wait else None)
        self.sagemaker_session.save_endpoint(self.endpoint_name, name)

    def delete_endpoint(self, delete_endpoint_config: bool = True) -> None:
        """Stop and delete the endpoint."""
        del delete_endpoint_config
        self._endpoint.delete()

    def delete_model(self) -> None:
        """Delete the model of the endpoint; its artifact stays.

        Raises:
            ValueError: This session did not deploy the endpoint.
        """
        self.sagemaker_session.delete_model(self.sagemaker_session.model_of_endpoint(self.endpoint_name))

    def describe(self) -> dict[str, Any]:
        """Describe the endpoint."""
        return self._endpoint.describe()

    def logs(self) -> str:
        """The log of the endpoint."""
        return self._endpoint.logs()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.endpoint_name!r})"


class RealTimePredictor(Predictor):
    """:class:`Predictor` by its name, and with the arguments, of version 1 of the SDK."""

    def __init__(
        self,
        endpoint: str,
        sagemaker_session: Session | None = None,
        serializer: Any = None,
        deserializer: Any = None,
        content_type: str | None = None,
        accept: str | None = None,
    ) -> None:
        message = "RealTimePredictor is called Predictor in version 2 of the SDK and here"
        warn_old_name(message)
        super().__init__(endpoint, sagemaker_session, serializer, deserializer)
        self._content_type = content_type
        self._accept = accept
