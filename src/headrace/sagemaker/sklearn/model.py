"""A model whose script uses scikit-learn."""

from __future__ import annotations

import os
from typing import Any

from headrace.sagemaker.deserializers import NumpyDeserializer
from headrace.sagemaker.model import FrameworkModel
from headrace.sagemaker.predictor import Predictor
from headrace.sagemaker.serializers import NumpySerializer
from headrace.sagemaker.session import Session

__all__ = ["SKLearnModel", "SKLearnPredictor"]


class SKLearnPredictor(Predictor):
    """Sends and receives arrays as npy."""

    def __init__(
        self, endpoint_name: str | None = None, sagemaker_session: Session | None = None, **options: Any
    ) -> None:
        options.setdefault("serializer", NumpySerializer())
        options.setdefault("deserializer", NumpyDeserializer())
        super().__init__(endpoint_name, sagemaker_session, **options)


class SKLearnModel(FrameworkModel):
    """A model whose script uses scikit-learn; the arguments are those of :class:`~headrace.sagemaker.model.Model`."""

    base_name = "sagemaker-scikit-learn"

    def __init__(
        self,
        model_data: str | None = None,
        role: str | None = None,
        entry_point: str | os.PathLike[str] | None = None,
        framework_version: str | None = None,
        py_version: str = "py3",
        image_uri: str | None = None,
        predictor_cls: Any = SKLearnPredictor,
        **options: Any,
    ) -> None:
        del framework_version, py_version
        super().__init__(model_data, role, entry_point, image_uri=image_uri, predictor_cls=predictor_cls, **options)
