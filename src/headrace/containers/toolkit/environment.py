"""The environment of a job: its tree of folders, JSON files and variables."""

from __future__ import annotations

import functools
import json
import logging
import multiprocessing
import os
import shutil
import subprocess
from typing import Any

from . import mapping, params

__all__ = [
    "Environment",
    "Tree",
    "channel_path",
    "module_name_of",
    "num_cpus",
    "num_gpus",
    "read_hyperparameters",
    "training_env",
]

DEFAULT_BASE = os.path.join(os.sep, "opt", "ml")


class Tree:
    """The folders below ``/opt/ml``, or below ``SAGEMAKER_BASE_DIR``."""

    def __init__(self, base_dir: str | None = None) -> None:
        join = os.path.join
        self.base_dir: str = str(base_dir or os.environ.get(params.BASE_PATH_ENV, DEFAULT_BASE))
        self.code_dir: str = join(self.base_dir, "code")
        self.model_dir: str = join(self.base_dir, "model")
        self.input_dir: str = join(self.base_dir, "input")
        self.input_data_dir: str = join(self.input_dir, "data")
        self.input_config_dir: str = join(self.input_dir, "config")
        self.output_dir: str = join(self.base_dir, "output")
        self.output_data_dir: str = join(self.output_dir, "data")
        self.output_intermediate_dir: str = join(self.output_dir, "intermediate")
        self.hyperparameters_file: str = join(self.input_config_dir, "hyperparameters.json")
        self.resource_config_file: str = join(self.input_config_dir, "resourceconfig.json")
        self.input_data_config_file: str = join(self.input_config_dir, "inputdataconfig.json")


def _read_json(path: str) -> Any:
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def read_hyperparameters(path: str | None = None) -> dict[str, Any]:
    """The hyperparameters as values; strings that are not JSON stay strings."""
    return {name: _as_value(value) for name, value in _read_json(path or Tree().hyperparameters_file).items()}


def _as_value(text: Any) -> Any:
    try:
        return json.loads(text)
    except (ValueError, TypeError):
        return text


def read_resource_config() -> dict[str, Any]:
    """The hosts, and the current one."""
    found: dict[str, Any] = _read_json(Tree().resource_config_file)
    return found


def read_input_data_config() -> dict[str, Any]:
    """Channels."""
    found: dict[str, Any] = _read_json(Tree().input_data_config_file)
    return found


def channel_path(channel: str) -> str:
    """The folder of a channel."""
    return os.path.join(Tree().input_data_dir, channel)


@functools.lru_cache(maxsize=1)
def num_gpus() -> int:
    """The number of GPUs that ``nvidia-smi`` lists."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return 0
    try:
        found = subprocess.run([command, "--list-gpus"], capture_output=True, text=True, timeout=60, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return 0
    return sum(line.startswith("GPU ") for line in found.stdout.splitlines())


def num_cpus() -> int:
    """The number of processors."""
    return multiprocessing.cpu_count()


def module_name_of(program: str | None) -> str | None:
    """The name of a script without ``.py``."""
    return program[:-3] if program and program.endswith(".py") else program


class Environment(mapping.MappingMixin):
    """The training job. The ``SM_`` variables are made from its properties.

    Args:
        resource_config: The content of ``resourceconfig.json``; read where it is not given.
        input_data_config: The content of ``inputdataconfig.json``.
        hyperparameters: The content of ``hyperparameters.json``, as values.
        base_dir: The root of the tree; ``SAGEMAKER_BASE_DIR`` or ``/opt/ml`` where it is not given.
        program: The user's script; ``SAGEMAKER_PROGRAM`` or the hyperparameter ``sagemaker_program`` where it is not given.
        job_name: The job's name; ``TRAINING_JOB_NAME`` where it is not given.
    """

    def __init__(
        self,
        resource_config: dict[str, Any] | None = None,
        input_data_config: dict[str, Any] | None = None,
        hyperparameters: dict[str, Any] | None = None,
        base_dir: str | None = None,
        program: str | None = None,
        job_name: str | None = None,
    ) -> None:
        tree = self._tree = Tree(base_dir)
        self._resources = _read_json(tree.resource_config_file) if resource_config is None else resource_config
        self._inputs = _read_json(tree.input_data_config_file) if input_data_config is None else input_data_config
        split = mapping.split_by_criteria(
            read_hyperparameters(tree.hyperparameters_file) if hyperparameters is None else hyperparameters,
            keys=params.SAGEMAKER_HYPERPARAMETERS,
            prefix=params.SAGEMAKER_PREFIX,
        )
        self._hyperparameters, self._settings = split.excluded, split.included
        self._job_name = job_name or os.environ.get(params.TRAINING_JOB_ENV)
        self._program = (
            program or os.environ.get(params.USER_PROGRAM_ENV) or self._settings.get(params.USER_PROGRAM_PARAM)
        )

    @property
    def additional_framework_parameters(self) -> dict[str, Any]:
        """Hyperparameters that begin with ``sagemaker_`` and are not for the toolkit itself."""
        return {n: v for n, v in self._settings.items() if n not in params.SAGEMAKER_HYPERPARAMETERS}

    @property
    def channel_input_dirs(self) -> dict[str, str]:
        """The folder of each channel."""
        return {name: os.path.join(self._tree.input_data_dir, name) for name in self._inputs}

    @property
    def current_host(self) -> str:
        """The name of this host."""
        return str(self._resources["current_host"])

    @property
    def current_instance_group(self) -> str:
        """The group that this host belongs to."""
        return str(self._resources.get("current_group_name", "homogeneousCluster"))

    @property
    def current_instance_group_hosts(self) -> list[str]:
        """The hosts of that group."""
        return list(self.instance_groups_dict.get(self.current_instance_group, {}).get("hosts", []))

    @property
    def current_instance_type(self) -> str:
        """The instance type of this host, ``"local"`` by default."""
        return str(self._resources.get("current_instance_type", "local"))

    @property
    def distribution_hosts(self) -> list[str]:
        """The hosts of the groups that train together."""
        groups = [self.instance_groups_dict.get(name, {}) for name in self.distribution_instance_groups]
        return [host for group in groups for host in group.get("hosts", [])] if self.instance_groups else self.hosts

    @property
    def distribution_instance_groups(self) -> list[str]:
        """The groups that train together."""
        given = self._settings.get("sagemaker_distribution_instance_groups")
        return list(given or ())

    @property
    def framework_module(self) -> str | None:
        """``SAGEMAKER_TRAINING_MODULE``."""
        return os.environ.get(params.FRAMEWORK_TRAINING_MODULE_ENV)

    @property
    def hosts(self) -> list[str]:
        """The names of all hosts."""
        return list(self._resources["hosts"])

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """The user's hyperparameters, as values."""
        return dict(self._hyperparameters)

    @property
    def input_config_dir(self) -> str:
        """The folder of the JSON files."""
        return self._tree.input_config_dir

    @property
    def input_data_config(self) -> dict[str, Any]:
        """The content of ``inputdataconfig.json``."""
        return dict(self._inputs)

    @property
    def input_dir(self) -> str:
        """The folder of channels and JSON files."""
        return self._tree.input_dir

    @property
    def instance_groups(self) -> list[str]:
        """The names of all groups of hosts."""
        return list(self.instance_groups_dict)

    @property
    def instance_groups_dict(self) -> dict[str, Any]:
        """All groups of hosts."""
        return {group["instance_group_name"]: group for group in self._resources.get("instance_groups", [])}

    @property
    def is_hetero(self) -> bool:
        """Whether there are several groups of hosts."""
        return len(self.instance_groups) > 1

    @property
    def is_modelparallel_enabled(self) -> bool:
        """Whether SageMaker's own library spreads a model over hosts: never here."""
        return False

    @property
    def is_smddprun_installed(self) -> bool:
        """Whether SageMaker's own launcher is used: never here."""
        return False

    @property
    def is_smddpmprun_installed(self) -> bool:
        """Whether SageMaker's other launcher is used: never here."""
        return False

    @property
    def is_master(self) -> bool:
        """Whether this is the first host."""
        return self.current_host == self.master_hostname

    @property
    def job_name(self) -> str | None:
        """The name of the job."""
        return self._job_name

    @property
    def log_level(self) -> Any:
        """The log level, as in :mod:`logging`."""
        return self._settings.get(params.LOG_LEVEL_PARAM, logging.INFO)

    @property
    def master_hostname(self) -> str:
        """The first host."""
        return min(self.hosts)

    @property
    def model_dir(self) -> str:
        """The folder that becomes ``model.tar.gz``."""
        return self._tree.model_dir

    @property
    def module_dir(self) -> str:
        """The location of the user's code."""
        return str(self._settings.get(params.SUBMIT_DIR_PARAM, self._tree.code_dir))

    @property
    def module_name(self) -> str | None:
        """The name of the script without ``.py``."""
        return module_name_of(self._program)

    @property
    def network_interface_name(self) -> str:
        """The network interface of the hosts."""
        return str(self._resources.get("network_interface_name", "eth0"))

    @property
    def num_cpus(self) -> int:
        """The number of processors."""
        return num_cpus()

    @property
    def num_gpus(self) -> int:
        """The number of GPUs."""
        return num_gpus()

    @property
    def num_neurons(self) -> int:
        """Neuron cores, of which a local machine has none."""
        return 0

    @property
    def output_data_dir(self) -> str:
        """The folder that becomes ``output.tar.gz``."""
        return self._tree.output_data_dir

    @property
    def output_dir(self) -> str:
        """The folder of ``success`` and ``failure``."""
        return self._tree.output_dir

    @property
    def output_intermediate_dir(self) -> str:
        """The folder for files that are visible while the job runs."""
        return self._tree.output_intermediate_dir

    @property
    def resource_config(self) -> dict[str, Any]:
        """The content of ``resourceconfig.json``."""
        return dict(self._resources)

    def sagemaker_s3_output(self) -> str | None:
        """The folder of intermediate output."""
        place = self._settings.get(params.S3_OUTPUT_LOCATION_PARAM)
        return None if place is None else str(place)

    @property
    def topology(self) -> Any:
        """The topology of the hosts, if there is one."""
        return self._resources.get("topology", [])

    @property
    def user_entry_point(self) -> str | None:
        """The user's script."""
        return self._program

    def to_cmd_args(self) -> list[str]:
        """The hyperparameters as arguments."""
        return mapping.to_cmd_args(self.hyperparameters)

    def to_env_vars(self) -> dict[str, str]:
        """The job as ``SM_`` variables."""
        names = [
            "hosts", "network_interface_name", "user_entry_point", "resource_config", "input_data_config", "output_data_dir",
            "current_host", "current_instance_type", "current_instance_group", "current_instance_group_hosts",
            "instance_groups", "instance_groups_dict", "distribution_instance_groups", "is_hetero", "module_name", "log_level",
            "framework_module", "input_dir", "input_config_dir", "output_dir", "num_cpus", "num_gpus", "num_neurons",
            "model_dir", "module_dir", "output_intermediate_dir",
        ]  # fmt: skip
        values = {name: getattr(self, name) for name in names}
        values["hps"] = self.hyperparameters
        values["framework_params"] = self.additional_framework_parameters
        values["channels"] = sorted(self.channel_input_dirs)
        values["training_env"] = dict(self)
        values["user_args"] = self.to_cmd_args()
        if self.topology:
            values["topology"] = self.topology
        values.update({f"channel_{name}": path for name, path in self.channel_input_dirs.items()})
        values.update({f"hp_{name}": value for name, value in self.hyperparameters.items()})
        return mapping.to_env_vars(values)


def training_env(
    resource_config: dict[str, Any] | None = None,
    input_data_config: dict[str, Any] | None = None,
    hyperparameters: dict[str, Any] | None = None,
) -> Environment:
    """The training job that this process belongs to."""
    return Environment(resource_config, input_data_config, hyperparameters)


TrainingEnv = Environment  # its name in sagemaker_containers


def __getattr__(name: str) -> Any:
    """``model_dir``, ``code_dir`` and others are also attributes of the module."""
    tree = vars(Tree())
    if name in tree:
        return tree[name]
    if name in ("ServingEnv", "ServingEnvironment"):
        from . import serving_environment

        return serving_environment.ServingEnvironment
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
