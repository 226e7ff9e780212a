"""Scikit-learn by the names of the SDK."""

from __future__ import annotations

from penstock.sagemaker.sklearn.estimator import SKLearn
from penstock.sagemaker.sklearn.model import SKLearnModel, SKLearnPredictor

__all__ = ["SKLearn", "SKLearnModel", "SKLearnPredictor"]
