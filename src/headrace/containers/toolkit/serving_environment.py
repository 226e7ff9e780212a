"""The environment of an endpoint, from its variables."""

from __future__ import annotations

import logging
import os

from . import content_types, mapping, params
from .environment import Tree, module_name_of, num_cpus, num_gpus

__all__ = ["Environment", "ServingEnvironment"]


class ServingEnvironment(mapping.MappingMixin):
    """The endpoint, as its variables describe it."""

    @property
    def current_host(self) -> str | None:
        """The name of this host."""
        return os.environ.get(params.CURRENT_HOST_ENV)

    @property
    def default_accept(self) -> str:
        """The default content type of answers."""
        return os.environ.get(params.DEFAULT_INVOCATIONS_ACCEPT_ENV, content_types.JSON)

    @property
    def http_port(self) -> str:
        """The port of the endpoint."""
        return os.environ.get(params.SAGEMAKER_BIND_TO_PORT_ENV, "8080")

    @property
    def log_level(self) -> int:
        """The log level, as in :mod:`logging`."""
        return int(os.environ.get(params.LOG_LEVEL_ENV, logging.INFO))

    @property
    def model_dir(self) -> str:
        """The folder of the model."""
        return Tree().model_dir

    @property
    def model_server_timeout(self) -> int:
        """The time-out of a request in seconds."""
        return int(os.environ.get(params.MODEL_SERVER_TIMEOUT_ENV, "60"))

    @property
    def model_server_workers(self) -> int:
        """The number of workers."""
        return int(os.environ.get(params.MODEL_SERVER_WORKERS_ENV, num_cpus()))

    @property
    def module_dir(self) -> str:
        """The folder of the user's code."""
        return os.environ.get(params.SUBMIT_DIR_ENV, Tree().code_dir)

    @property
    def module_name(self) -> str | None:
        """The name of the script without ``.py``."""
        return module_name_of(os.environ.get(params.USER_PROGRAM_ENV))

    @property
    def num_cpus(self) -> int:
        """The number of processors."""
        return num_cpus()

    @property
    def num_gpus(self) -> int:
        """The number of GPUs."""
        return num_gpus()

    @property
    def safe_port_range(self) -> str | None:
        """Additional ports."""
        return os.environ.get(params.SAGEMAKER_SAFE_PORT_RANGE_ENV)

    @property
    def use_nginx(self) -> bool:
        """Always false: Headrace needs no nginx."""
        return False

    @property
    def user_entry_point(self) -> str | None:
        """The user's script."""
        return os.environ.get(params.USER_PROGRAM_ENV)


class Environment(ServingEnvironment):
    """The same under the name that ``sagemaker_inference.environment`` has for it."""

    @property
    def inference_http_port(self) -> str:
        """The port of the endpoint."""
        return self.http_port

    @property
    def management_http_port(self) -> str:
        """The same one."""
        return self.http_port

    @property
    def module_name(self) -> str | None:
        """The name of the script without ``.py``; by default ``inference``."""
        return super().module_name or "inference"
