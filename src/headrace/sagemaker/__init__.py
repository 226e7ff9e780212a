"""The SageMaker SDK on this machine: notebooks run after a change of their imports.

>>> session = Session(tmp)  # a folder in place of an AWS account
>>> session.default_bucket()
'sagemaker-us-east-1-000000000000'
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from headrace.sagemaker import content_types, local, s3, utils
from headrace.sagemaker.amazon.amazon_estimator import RecordSet
from headrace.sagemaker.amazon.linear_learner import LinearLearner, LinearLearnerModel, LinearLearnerPredictor
from headrace.sagemaker.estimator import Estimator
from headrace.sagemaker.image_uris import get_image_uri
from headrace.sagemaker.import_hook import explain, explain_missing_names, install_as_sagemaker
from headrace.sagemaker.inputs import TrainingInput, s3_input
from headrace.sagemaker.local import LocalSession
from headrace.sagemaker.model import FrameworkModel, Model
from headrace.sagemaker.pipeline import PipelineModel
from headrace.sagemaker.predictor import ModelError, Predictor, RealTimePredictor
from headrace.sagemaker.session import Session, get_execution_role
from headrace.sagemaker.sklearn import SKLearn, SKLearnModel, SKLearnPredictor
from headrace.sagemaker.transformer import Transformer

__all__ = [
    "Estimator",
    "FrameworkModel",
    "LinearLearner",
    "LinearLearnerModel",
    "LinearLearnerPredictor",
    "LocalSession",
    "Model",
    "ModelError",
    "PipelineModel",
    "Predictor",
    "RealTimePredictor",
    "RecordSet",
    "SKLearn",
    "SKLearnModel",
    "SKLearnPredictor",
    "Session",
    "TrainingInput",
    "Transformer",
    "content_types",
    "get_execution_role",
    "get_image_uri",
    "install_as_sagemaker",
    "local",
    "s3",
    "s3_input",
    "utils",
]

__version__ = "2.257.7"
"""The version of the SDK that has these names. Notebooks compare it."""

explain_missing_names()


def __getattr__(name: str) -> Any:
    """Import submodules on first use, as the SDK does, and explain missing names.

    Raises:
        ImportError: The SDK has the name. (``from sagemaker import name`` would drop the message of an AttributeError.)
        AttributeError: The SDK lacks the name, too.
    """
    if not name.startswith("_") and importlib.util.find_spec(f"{__name__}.{name}") is not None:
        return importlib.import_module(f"{__name__}.{name}")
    reason = explain(name)
    if reason is not None:
        raise ImportError(reason, name=f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
