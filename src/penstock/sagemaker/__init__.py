"""SageMaker's own names, on this machine: notebooks move over by changing imports.

>>> session = Session(tmp)  # a folder in the place of an AWS account
>>> session.default_bucket()
'sagemaker-us-east-1-000000000000'
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from penstock.sagemaker import content_types, local, s3, utils
from penstock.sagemaker.amazon.linear_learner import LinearLearner, LinearLearnerModel, LinearLearnerPredictor
from penstock.sagemaker.amazon.record_set import RecordSet
from penstock.sagemaker.estimator import Estimator
from penstock.sagemaker.image_uris import get_image_uri
from penstock.sagemaker.inputs import TrainingInput, s3_input
from penstock.sagemaker.local import LocalSession
from penstock.sagemaker.model import FrameworkModel, Model
from penstock.sagemaker.pipeline import PipelineModel
from penstock.sagemaker.predictor import ModelError, Predictor, RealTimePredictor
from penstock.sagemaker.session import Session, get_execution_role
from penstock.sagemaker.sklearn import SKLearn, SKLearnModel, SKLearnPredictor
from penstock.sagemaker.standing_in import explain, explain_missing_names, install_as_sagemaker
from penstock.sagemaker.transformer import Transformer

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
"""The version of the SDK whose names these are, which notebooks compare."""

explain_missing_names()


def __getattr__(name: str) -> Any:
    """A module that nobody has imported yet, as in the SDK; and why a name of the SDK is not here.

    Raises:
        ImportError: It is a name of the SDK. (An AttributeError would lose its words in ``from sagemaker import name``.)
        AttributeError: It is none.
    """
    if not name.startswith("_") and importlib.util.find_spec(f"{__name__}.{name}") is not None:
        return importlib.import_module(f"{__name__}.{name}")
    reason = explain(name)
    if reason is not None:
        raise ImportError(reason, name=f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
