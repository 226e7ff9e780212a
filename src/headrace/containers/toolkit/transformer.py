"""The default functions of ``sagemaker_containers`` and ``sagemaker_inference``, which scripts call and derive from."""

from __future__ import annotations

from typing import Any

from . import encoders, errors, inference_decoder, inference_encoder
from .inference_utils import parse_accept
from .worker import Response

__all__ = [
    "DefaultInferenceHandler",
    "default_input_fn",
    "default_model_fn",
    "default_output_fn",
    "default_predict_fn",
]

NO_MODEL = "\nPlease provide a model_fn implementation.\nSee documentation for model_fn at {}\n"
NO_PREDICT = "\nPlease provide a predict_fn implementation.\nSee documentation for predict_fn at {}\n"
SDK = "https://github.com/aws/sagemaker-python-sdk"
DOCS = "https://sagemaker.readthedocs.io/en/stable/"


def default_model_fn(model_dir: str) -> Any:
    """There is no default."""
    raise NotImplementedError(NO_MODEL.format(SDK))


def default_input_fn(input_data: Any, content_type: str) -> Any:
    """The array in a body of csv, json or npy."""
    return encoders.decode(input_data, content_type)


def default_predict_fn(data: Any, model: Any) -> Any:
    """There is no default."""
    raise NotImplementedError(NO_PREDICT.format(SDK))


def default_output_fn(prediction: Any, accept: str) -> Response:
    """A prediction as csv, json or npy."""
    return Response(response=encoders.encode(prediction, accept), mimetype=accept)


class DefaultInferenceHandler:
    """The default functions of ``sagemaker_inference``."""

    def default_model_fn(self, model_dir: str, context: Any = None) -> Any:
        """There is no default."""
        raise NotImplementedError(NO_MODEL.format(DOCS))

    def default_input_fn(self, input_data: Any, content_type: str, context: Any = None) -> Any:
        """The array in a body of csv, json, npy or npz."""
        return inference_decoder.decode(input_data, content_type)

    def default_predict_fn(self, data: Any, model: Any, context: Any = None) -> Any:
        """There is no default."""
        raise NotImplementedError(NO_PREDICT.format(DOCS))

    def default_output_fn(self, prediction: Any, accept: str, context: Any = None) -> Any:
        """A prediction as the first content type of ``accept`` that is csv, json or npy."""
        for content_type in parse_accept(accept):
            if content_type in inference_encoder.SUPPORTED_CONTENT_TYPES:
                return inference_encoder.encode(prediction, content_type), content_type
        raise errors.UnsupportedFormatError(accept)
