"""A training job of a script, from its code to its exit status."""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from headrace.containers.code import Code, stage
from headrace.containers.toolkit.environment import Environment, read_hyperparameters
from headrace.containers.training.failure import failure_text, one_line, reason
from headrace.containers.training.interpreter import Installation, prepare
from headrace.containers.training.process import Ended, run
from headrace.containers.training.variables import Command, command_of, script_variables, settings
from headrace.contracts.job import TrainingJob
from headrace.errors import JobFailed

__all__ = ["installation_of", "train_with_script"]


def installation_of(code: Code) -> Installation:
    """What a script needs to have installed."""
    return Installation(requirements=code.requirements, package=code.folder if code.is_package else None)


def train_with_script(
    job: TrainingJob,
    code: Code,
    *,
    dependencies: Sequence[str | os.PathLike[str]],
    python: str | os.PathLike[str] | None,
    environment: Mapping[str, str],
) -> None:
    """Run the script, as the training toolkit does.

    Raises:
        JobFailed: It failed, or cannot be run. The message is one line; ``output/failure`` says more.
    """
    try:
        ended, command = _run(job, stage(code, dependencies, job.code_dir), python, environment)
    except (JobFailed, OSError) as error:
        _write_failure(job, f"Framework Error:\n{error}")
        raise JobFailed(one_line(str(error))) from error
    if ended.status == 0:
        (job.output_dir / "success").touch()
    elif not ended.was_stopped:
        _write_failure(job, failure_text(ended, command))
        raise JobFailed(_own_words(job) or reason(ended, code.program))


def _run(
    job: TrainingJob, code: Code, python: str | os.PathLike[str] | None, environment: Mapping[str, str]
) -> tuple[Ended, Command]:
    program = prepare(python, installation_of(code), log=job.log, stop=job.stop)
    hyperparameters = job.config_dir / "hyperparameters.json"
    hyperparameters.write_text(json.dumps(settings(job, code.program)), encoding="utf-8")
    toolkit = Environment(
        json.loads((job.config_dir / "resourceconfig.json").read_text(encoding="utf-8")),
        json.loads((job.config_dir / "inputdataconfig.json").read_text(encoding="utf-8")),
        read_hyperparameters(str(hyperparameters)),
        str(job.base_dir),
        program=code.program,
        job_name=job.name,
    )
    command = command_of(code, program, toolkit.to_cmd_args())
    if command.is_shell:
        with contextlib.suppress(PermissionError):
            code.path.chmod(code.path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    ended = run(
        command,
        cwd=code.folder,
        environment=script_variables(job, environment, toolkit),
        log=job.log,
        stop=job.stop,
        grace_s=job.stop_grace_s,
        signal_group=command.is_shell,
    )
    return ended, command


def _failure_file(job: TrainingJob) -> Path:
    return job.output_dir / "failure"


def _own_words(job: TrainingJob) -> str:
    """What the script itself said in ``output/failure``."""
    text = _failure_file(job).read_text(encoding="utf-8", errors="replace")
    return "" if text.startswith("ExecuteUserScriptError:") else one_line(text)


def _write_failure(job: TrainingJob, text: str) -> None:
    if not _failure_file(job).exists():
        _failure_file(job).write_text(text, encoding="utf-8")
