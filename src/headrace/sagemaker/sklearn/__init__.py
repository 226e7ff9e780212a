"""Scikit-learn: ``sagemaker.sklearn``."""

from __future__ import annotations

from headrace.sagemaker.sklearn.estimator import SKLearn
from headrace.sagemaker.sklearn.model import SKLearnModel, SKLearnPredictor

__all__ = ["SKLearn", "SKLearnModel", "SKLearnPredictor"]
