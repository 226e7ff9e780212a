"""What an endpoint can be made of, by the names of the SDK: a model, or a pipeline of several."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from headrace.hosting.endpoint import create_endpoint
from headrace.hosting.settings import Settings
from headrace.sagemaker.arguments import settle
from headrace.sagemaker.predictor import Predictor
from headrace.sagemaker.transformer import Transformable

__all__ = ["Deployable"]

START_S = 900.0  # for the endpoint to come up: what a script requires is installed first


class Deployable(Transformable):
    """What can be deployed, and used for batch transform."""

    renamed: tuple[str, ...] = ()
    """Arguments of :meth:`deploy` that are taken by their names of version 1 of the SDK, too."""
    predictor_cls: Any
    workers: int | None = None
    endpoint_name: str | None

    @abstractmethod
    def _name_for_endpoint(self) -> str:
        """What its endpoint is called where nobody says it."""

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
        **others: Any,
    ) -> Any:
        """Start an endpoint, which outlives this process.

        Args:
            initial_instance_count, instance_type: Of AWS.
            serializer, deserializer: Of the predictor.
            endpoint_name: Made up from the name of the model by default; that of the pipeline.
            wait: Until every model is loaded.
            settings: How the endpoint serves: port, workers, limits.
            others: Arguments of the SDK that only AWS has a use for.

        Returns:
            A :class:`~headrace.sagemaker.predictor.Predictor`, or what ``predictor_cls`` gives. On SageMaker a pipeline gives
            nothing without ``predictor_cls``.

        Raises:
            EndpointError: A model does not load; the message has the reason.
        """
        del initial_instance_count, instance_type
        given = settle(others, known=self.renamed, what=f"{type(self).__name__}.deploy", swallows=True)
        stages = self._stages()
        self.endpoint_name = endpoint_name or given.get("endpoint_name") or self._name_for_endpoint()
        if settings is None:
            settings = Settings(port=0, workers=self.workers)
        create_endpoint(self.endpoint_name, stages, settings=settings, wait_s=START_S if wait else None)
        self.sagemaker_session.save_endpoint(self.endpoint_name, str(self.name))
        predictor = (self.predictor_cls or Predictor)(self.endpoint_name, self.sagemaker_session)
        if serializer is not None:
            predictor.serializer = serializer
        if deserializer is not None:
            predictor.deserializer = deserializer
        return predictor
