"""Amazon's algorithms by the names of the SDK."""

from __future__ import annotations

from headrace.sagemaker.amazon import amazon_estimator, common

__all__ = ["amazon_estimator", "common"]
