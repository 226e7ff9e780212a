"""Arguments of notebooks that were written for SageMaker: renamed ones, and those that only AWS uses."""

from __future__ import annotations

import difflib
import inspect
import warnings
from abc import ABCMeta
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["AWS_ONLY", "USUAL", "V1", "OnOneMachine", "select_arguments", "warn_old_name"]

V1: Mapping[str, str] = {
    "train_instance_count": "instance_count",
    "train_instance_type": "instance_type",
    "train_max_run": "max_run",
    "train_volume_size": "volume_size",
    "train_volume_kms_key": "volume_kms_key",
    "train_use_spot_instances": "use_spot_instances",
    "train_max_wait": "max_wait",
    "image_name": "image_uri",
    "image": "image_uri",
    "endpoint": "endpoint_name",
}
"""Names of version 1 of the SDK, and their names in version 2."""
AWS_ONLY = frozenset(
    {
        "volume_size",
        "volume_kms_key",
        "output_kms_key",
        "model_kms_key",
        "kms_key",
        "tags",
        "subnets",
        "security_group_ids",
        "vpc_config",
        "vpc_config_override",
        "use_spot_instances",
        "max_wait",
        "encrypt_inter_container_traffic",
        "enable_network_isolation",
        "enable_sagemaker_metrics",
        "enable_cloudwatch_metrics",
        "profiler_config",
        "disable_profiler",
        "debugger_hook_config",
        "tensorboard_output_config",
        "rules",
        "experiment_config",
        "metric_definitions",
        "code_location",
        "image_uri_region",
        "py_version",
        "framework_version",
        "container_log_level",
        "instance_groups",
        "keep_alive_period_in_seconds",
        "max_retry_attempts",
        "accelerator_type",
        "data_capture_config",
        "async_inference_config",
        "serverless_inference_config",
        "explainer_config",
        "update_endpoint",
        "instance_count",
        "initial_instance_count",
        "instance_type",
        "role",
        "training_repository_access_mode",
        "training_repository_credentials_provider_arn",
        "training_plan",
        "instance_placement_config",
        "enable_infra_check",
        "enable_remote_debug",
        "enable_session_tag_chaining",
        "model_data_download_timeout",
        "container_startup_health_check_timeout",
        "inference_recommendation_id",
        "inference_ami_version",
        "accept_eula",
        "endpoint_logging",
        "endpoint_type",
        "managed_instance_scaling",
        "routing_config",
        "resources",
        "image_config",
        "model_reference_arn",
        "component_name",
        "inference_component_name",
        "settings",
        "sagemaker_config",
        "sagemaker_metrics_client",
        "sagemaker_featurestore_runtime_client",
    }
)
"""Arguments that are accepted and ignored on one machine."""
USUAL = (
    "entry_point",
    "source_dir",
    "dependencies",
    "hyperparameters",
    "framework_version",
    "instance_count",
    "instance_type",
    "sagemaker_session",
    "serializer",
    "deserializer",
    "endpoint_name",
    "output_path",
    "base_job_name",
    "environment",
    "role",
    "env",
    "wait",
)
"""Candidates for a misspelt name."""
REFUSED: Mapping[str, str] = {
    "git_config": "code is not fetched from git here: clone the repository, and give its folder as source_dir",
    "container_entry_point": "images do not run here: give the program as entry_point",
    "container_arguments": "images do not run here: give arguments as hyperparameters",
    "disable_output_compression": "the model of a job is a model.tar.gz here: leave it out",
    "additional_model_data_sources": "a container has one model here: put the other files into its model.tar.gz",
    "distribution": "a script runs as one process on each host here: instance_count=N starts N of them",
}
"""Arguments that would change the result, and what to do instead."""


class _ExplainsMissingNames(ABCMeta):
    """A class that says why it lacks a class attribute of the SDK."""

    def __getattr__(cls, name: str) -> Any:
        raise AttributeError(_missing(f"type object {cls.__name__!r}", cls.__name__, name), name=name, obj=cls)


class OnOneMachine(metaclass=_ExplainsMissingNames):
    """A class of the SDK without the attributes that need AWS: accessing one raises an error that says so."""

    def __getattr__(self, name: str) -> Any:
        kind = type(self).__name__
        raise AttributeError(_missing(f"{kind!r} object", kind, name), name=name, obj=self)


def _missing(owner: str, kind: str, name: str) -> str:
    text = f"{owner} has no attribute {name!r}"
    if name.startswith(("__", "_repr_", "_ipython_")):
        return text  # asked for by Python and notebooks, not by the user
    if name.startswith("_"):
        return f"{text}: private attributes of the SDK's {kind} are missing here; describe() and the public attributes have what they hold"
    return f"{text}: attributes of the SDK's {kind} that need AWS are missing here. docs/sagemaker.md lists what works on this machine"


def select_arguments(
    given: Mapping[str, Any],
    *,
    known: tuple[str, ...] = (),
    what: str,
    swallows: bool = False,
    candidates: Sequence[str] = USUAL,
) -> dict[str, Any]:
    """Sort the keyword arguments that a signature does not name.

    Args:
        given: The arguments.
        known: Arguments that the signature names, for which names of version 1 are accepted.
        what: Name of the callable, for messages.
        swallows: Whether the SDK accepts any name here. An unknown one is then a warning.
        candidates: More names to suggest for a misspelt one.

    Returns:
        Values for ``known`` names.

    Raises:
        TypeError: Neither version of the SDK has the name, and the SDK would raise, too.
        ValueError: The argument would change the result, and is not supported.
    """
    settled: dict[str, Any] = {}
    for name, value in given.items():
        new = V1.get(name, name)
        if new != name:
            message = f"{what}: {name} is called {new} in version 2 of the SDK and here"
            warn_old_name(message)
        if new in REFUSED:
            if value:
                raise ValueError(f"{name}: {REFUSED[new]}")
        elif new in known:
            settled[new] = value
        elif new not in AWS_ONLY:
            _refuse_or_warn(name, what, (*known, *candidates), swallows=swallows)
    return settled


def _refuse_or_warn(name: str, what: str, candidates: Sequence[str], *, swallows: bool) -> None:
    text = f"{what} has no argument {name!r}"
    likely = [one for one in difflib.get_close_matches(name, candidates, n=1) if one != name]
    meant = f"; did you mean {likely[0]}?" if likely else ""
    if not swallows:
        raise TypeError(text + meant)
    _warn(f"{text}: it is ignored, as in the SDK{meant}", UserWarning)


def warn_old_name(message: str) -> None:
    """Warn about a name of version 1, at the line of the notebook that uses it."""
    _warn(message, DeprecationWarning)


def _warn(message: str, kind: type[Warning]) -> None:
    """Warn at the first line outside Headrace. Python shows only warnings of the notebook's own lines."""
    frame, level = inspect.currentframe(), 1
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("headrace."):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, kind, stacklevel=level)
