"""Serial inference pipelines by the names of the SDK."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.hosting.stage import Stage, check_stages
from headrace.sagemaker.arguments import OnOneMachine, select_arguments
from headrace.sagemaker.estimator import EstimatorBase
from headrace.sagemaker.inputs import TrainingInput
from headrace.sagemaker.model import Deployable, Model
from headrace.sagemaker.session import Session, name_from_base

__all__ = ["PipelineModel"]

LEAST, MOST = 2, 15


class PipelineModel(OnOneMachine, Deployable):
    """Two to fifteen models behind one endpoint, one after the other.

    Args:
        models: Models, or estimators: those give the model of their last job, and :meth:`fit` can train them.
        role: Taken, and of no use here.
        predictor_cls: As of :class:`~headrace.sagemaker.model.Model`.
        name: Made up by default.
        sagemaker_session: Where everything is; that of the first model by default.
        others: Arguments of the SDK that only AWS has a use for.

    Raises:
        ValueError: Fewer than 2 models, or more than 15.
    """

    base_name = "pipeline"

    def __init__(
        self,
        models: Sequence[Model | EstimatorBase],
        role: str | None = None,
        predictor_cls: Any = None,
        name: str | None = None,
        sagemaker_session: Session | None = None,
        **others: Any,
    ) -> None:
        select_arguments(others, what="PipelineModel")
        if not LEAST <= len(models) <= MOST:
            raise ValueError(f"a serial pipeline has {LEAST} to {MOST} models, got {len(models)}")
        self.models = list(models)
        self.role = role
        self.predictor_cls = predictor_cls
        self.name = name
        self.endpoint_name: str | None = None
        self.sagemaker_session = sagemaker_session or models[0].sagemaker_session

    def fit(
        self,
        train: str | TrainingInput,
        *,
        content_type: str = "text/csv",
        channel: str = "train",
        accept: str = "text/csv",
    ) -> None:
        """Train stage after stage; every stage learns from what the one before it makes of the data.

        On SageMaker this takes a training job, a transform job, the next training job, ... by hand.

        Args:
            train: The training data of the first stage.
            content_type: What it is.
            channel: What the channel is called in every job.
            accept: What the stages give to each other in training; it is what the next one is told that its data is.

        Raises:
            TypeError: A model in the place of an estimator, which cannot be trained.
            JobFailed: A stage failed; the message is the reason.
        """
        estimators = []
        for stage in self.models:
            if not isinstance(stage, EstimatorBase):
                raise TypeError(f"{stage!r} cannot be trained: make the pipeline of estimators, not of their models")
            estimators.append(stage)
        data = train if isinstance(train, TrainingInput) else TrainingInput(train, content_type=content_type)
        for position, estimator in enumerate(estimators, 1):
            estimator.fit({channel: data})
            if position == len(estimators):
                break
            transformer = estimator.transformer(assemble_with="Line", accept=accept)
            transformer.transform(data.s3_data, content_type=data.content_type or content_type)
            data = TrainingInput(str(transformer.output_path), content_type=accept)

    def _models(self) -> list[Model]:
        return [one.create_model() if isinstance(one, EstimatorBase) else one for one in self.models]

    def _stages(self) -> list[Stage]:
        self.name = self.name or name_from_base(self.base_name)
        stages = [model.stage() for model in self._models()]
        check_stages(stages)
        described = {"ModelName": self.name, "Containers": [stage.to_json() for stage in stages]}
        self.sagemaker_session.save_model(self.name, described)
        return stages

    def _name_for_endpoint(self) -> str:
        return self.name or ""

    def __repr__(self) -> str:
        return f"PipelineModel({self.models!r})"
