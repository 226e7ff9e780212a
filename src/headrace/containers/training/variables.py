"""The variables and the command of a training script."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from headrace.containers.code import Code
from headrace.containers.toolkit import params
from headrace.containers.toolkit.environment import Environment
from headrace.contracts.job import TrainingJob

__all__ = ["SITE", "Command", "command_of", "script_variables", "settings"]

SITE = Path(__file__).parent.parent / "toolkit" / "site"
PARENT = "HEADRACE_PARENT"  # whose death a script does not outlive: see sitecustomize.py
OURS = ("SM_", "SAGEMAKER_", "TRAINING_JOB_", "HEADRACE_PARENT")


class Command(list[str]):
    """Program and arguments."""

    def __init__(self, parts: Sequence[str], *, is_shell: bool = False) -> None:
        super().__init__(parts)
        self.is_shell = is_shell


def command_of(code: Code, python: str, arguments: Sequence[str]) -> Command:
    """How the toolkit runs a program: as a module where there is ``setup.py``, with Python, or with a shell."""
    if code.is_package:
        return Command([python, "-m", code.module, *arguments])
    if code.program.endswith(".py"):
        return Command([python, code.program, *arguments])
    return Command(["/bin/sh", "-c", " ".join([f"./{code.program}", *map(shlex.quote, arguments)])], is_shell=True)


def settings(job: TrainingJob, program: str) -> dict[str, str]:
    """The hyperparameters that SageMaker's SDK adds for a script."""
    added = {
        params.SUBMIT_DIR_PARAM: str(job.code_dir),
        params.LOG_LEVEL_PARAM: 20,
        params.JOB_NAME_PARAM: job.name,
        params.REGION_NAME_PARAM: os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1",
    }
    encoded = {name: json.dumps(value) for name, value in added.items()}
    return {**encoded, **job.hyperparameters, params.USER_PROGRAM_PARAM: json.dumps(program)}


def script_variables(job: TrainingJob, environment: Mapping[str, str], toolkit: Environment) -> dict[str, str]:
    """All variables of the script: this process's own without those of another job, and the job's."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    config = job.config_dir
    path = [str(SITE), str(job.code_dir), *filter(None, own.get("PYTHONPATH", "").split(os.pathsep))]
    told = {
        params.BASE_PATH_ENV: str(job.base_dir),
        params.TRAINING_JOB_ENV: job.name,
        params.TRAINING_JOB_ARN_ENV: job.job_arn,
        params.JOB_NAME_ENV: job.name,
        params.CURRENT_HOST_ENV: job.current_host,
        params.REGION_NAME_ENV: _text_of(job, params.REGION_NAME_PARAM, "us-east-1"),
        "SM_INPUT": str(job.base_dir / "input"),
        "SM_INPUT_TRAINING_CONFIG_FILE": str(config / "hyperparameters.json"),
        "SM_INPUT_DATA_CONFIG_FILE": str(config / "inputdataconfig.json"),
        "SM_CHECKPOINT_CONFIG_FILE": str(config / "checkpointconfig.json"),
        **toolkit.to_env_vars(),
    }
    process = {"PYTHONPATH": os.pathsep.join(path), "PYTHONUNBUFFERED": "1", PARENT: str(os.getpid())}
    return {**own, **told, **environment, **job.environment, **process}


def _text_of(job: TrainingJob, name: str, default: str) -> str:
    text = job.hyperparameters.get(name)
    try:
        return default if text is None else str(json.loads(text))
    except ValueError:
        return str(text)
