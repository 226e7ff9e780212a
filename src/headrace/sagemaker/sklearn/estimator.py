"""Training jobs of scripts that use scikit-learn."""

from __future__ import annotations

import os
from typing import Any

from headrace.sagemaker.estimator import Framework
from headrace.sagemaker.image_uris import SKLEARN_VERSIONS, retrieve
from headrace.sagemaker.model import FrameworkModel
from headrace.sagemaker.sklearn.model import SKLearnModel, SKLearnPredictor

__all__ = ["SKLearn"]

GPU_FAMILIES = ("ml.p", "ml.g", "local_gpu")


class SKLearn(Framework):
    """Trains with your script, as SageMaker's scikit-learn container runs it.

    Args:
        entry_point: The script.
        framework_version: Version of SageMaker's image. The installed scikit-learn is used whatever it is.
        py_version: ``"py3"``.
        source_dir: Folder with the script and what it imports; its ``requirements.txt`` is installed into a separate environment.
        hyperparameters: Passed to the script as ``--name value`` and in ``SM_HPS``.
        image_uri: Ignored.
        options: Arguments of :class:`~headrace.sagemaker.estimator.Framework`.

    Raises:
        ValueError: The instance type has a GPU, or the Python version is not 3.
    """

    model_class: type[FrameworkModel] = SKLearnModel
    predictor_class = SKLearnPredictor
    base_name = "sagemaker-scikit-learn"

    def __init__(
        self,
        entry_point: str | os.PathLike[str],
        framework_version: str | None = None,
        py_version: str = "py3",
        source_dir: str | os.PathLike[str] | None = None,
        hyperparameters: dict[str, Any] | None = None,
        image_uri: str | None = None,
        **options: Any,
    ) -> None:
        if py_version != "py3":
            raise ValueError(f"py_version must be 'py3', got {py_version!r}")
        kind = str(options.get("instance_type") or options.get("train_instance_type") or "")
        if kind.startswith(GPU_FAMILIES):
            raise ValueError("GPU training in not supported for Scikit-Learn. Please pick a different instance type")
        self.framework_version = framework_version
        super().__init__(entry_point, source_dir, hyperparameters, image_uri=image_uri, **options)

    def training_image_uri(self) -> str:
        known = self.framework_version in SKLEARN_VERSIONS
        version = self.framework_version if known else SKLEARN_VERSIONS[-1]
        return self.image_uri or retrieve("sklearn", self.sagemaker_session.boto_region_name, version)
