"""A training job of a script: its environment, its command, and the reason if it fails."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from headrace.containers.code import Code, stage
from headrace.containers.toolkit import params
from headrace.containers.toolkit.environment import Environment, read_hyperparameters
from headrace.containers.toolkit.errors import ExecuteUserScriptError
from headrace.containers.training.interpreter import Installation, prepare
from headrace.containers.training.process import ProcessResult, run
from headrace.contracts.job import TrainingJob, shorten_reason
from headrace.errors import JobFailed

__all__ = [
    "SITE",
    "Command",
    "command_of",
    "failure_text",
    "installation_of",
    "reason",
    "script_variables",
    "settings",
    "train_with_script",
]


SITE = Path(__file__).parent.parent / "toolkit" / "site"
PARENT = "HEADRACE_PARENT"  # scripts end when this process does: see sitecustomize.py
OURS = ("SM_", "SAGEMAKER_", "TRAINING_JOB_", "HEADRACE_PARENT")


class Command(list[str]):
    """Program and arguments."""

    def __init__(self, parts: Sequence[str], *, is_shell: bool = False) -> None:
        super().__init__(parts)
        self.is_shell = is_shell


def command_of(code: Code, python: str, arguments: Sequence[str]) -> Command:
    """The command for a program, as in the toolkit: a module if it has ``setup.py``, a Python file, or a shell command."""
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
    """All variables of the script: those of this process, except another job's, and the job's."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    config = job.config_dir
    # Each may name folders to import from, and none hides those of another.
    paths = [given.get("PYTHONPATH", "") for given in (job.environment, environment, own)]
    path = [str(SITE), str(job.code_dir), *(folder for given in paths for folder in given.split(os.pathsep) if folder)]
    toolkit_variables = {
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
    process = {"PYTHONPATH": os.pathsep.join(path), PARENT: str(os.getpid())}
    return {**own, "PYTHONUNBUFFERED": "1", **toolkit_variables, **environment, **job.environment, **process}


def _text_of(job: TrainingJob, name: str, default: str) -> str:
    text = job.hyperparameters.get(name)
    try:
        return default if text is None else str(json.loads(text))
    except ValueError:
        return str(text)


TRACEBACK = "Traceback (most recent call last):"
GROUP = "  + Exception Group Traceback (most recent call last):"
GROUP_MARGIN, MEMBERS, MEMBER_MARGIN = "  | ", "  +-+", "    | "
EXCEPTION = re.compile(
    r"[A-Za-z_][\w.]*(Error|Exception|Interrupt|Exit|Warning|Fault|Iteration|Timeout)\b|[A-Za-z_][\w.]*: "
)
MOST_REASON_BYTES = 64 << 10  # read of the file that has it


def reason(result: ProcessResult, program: str) -> str:
    """How it failed, in one line."""
    if result.status < 0:
        name = _signal_name(-result.status)
        hint = ": the machine may have run out of memory" if -result.status == signal.SIGKILL else ""
        return shorten_reason(f"{program} was killed by {name}{hint}")
    line = summary(result.errors)
    return shorten_reason(f"{program} failed with exit code {result.status}" + (f": {line}" if line else ""))


def _signal_name(number: int) -> str:
    try:
        return f"{signal.Signals(number).name} (signal {number})"
    except ValueError:
        return f"signal {number}"


def summary(errors: Sequence[str]) -> str:
    """The exception at the end of the last traceback; otherwise the last line."""
    lines = [line for line in errors if line.strip()]
    begin = _last_traceback(lines)
    found = ""
    if begin is not None:
        behind = lines[begin + 1 :]
        found = _summary_of_group(behind) if lines[begin] == GROUP else _first_exception(behind)
    # argparse and others print a line of their own
    return found or (lines[-1] if lines else "")


def _last_traceback(lines: Sequence[str]) -> int | None:
    """The position of the first line of the last traceback."""
    return max((number for number, line in enumerate(lines) if line in (TRACEBACK, GROUP)), default=None)


def _first_exception(lines: Sequence[str]) -> str:
    for place, line in enumerate(lines):
        if not line.startswith((" ", "\t")) and EXCEPTION.match(line):
            return " ".join([line, *lines[place + 1 : place + 4]])
    return ""


def _summary_of_group(lines: Sequence[str]) -> str:
    """The exception group of a traceback, and the first exception in it."""
    end = next((number for number, line in enumerate(lines) if line.startswith(MEMBERS)), len(lines))
    group = _first_exception([line.removeprefix(GROUP_MARGIN) for line in lines[:end]])
    bare = (line.removeprefix(MEMBER_MARGIN) for line in lines[end:] if line.startswith(MEMBER_MARGIN))
    member = next((line for line in bare if EXCEPTION.match(line)), "")
    return f"{group}; the first: {member}" if member else group


def failure_text(result: ProcessResult, command: Sequence[str]) -> str:
    """The text of ``output/failure`` as the training toolkit writes it."""
    lines = list(result.errors)
    begin = _last_traceback(lines)
    if begin is None:
        begin = max(0, len(lines) - 20)
    status = result.status if result.status >= 0 else 128 - result.status
    info = "OutOfMemory: Process killed by SIGKILL (signal 9)" if status == 137 else None
    return str(ExecuteUserScriptError(shlex.join(command), status, "\n".join(lines[begin:]).strip(), info))


def installation_of(code: Code) -> Installation:
    """The packages that a script needs."""
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
        JobFailed: It failed, or cannot run. The message is one line; ``output/failure`` has more.
    """
    try:
        result, command = _run(job, stage(code, dependencies, job.code_dir), python, environment)
    except (JobFailed, OSError) as error:
        _write_failure(job, f"Framework Error:\n{error}")
        raise JobFailed(shorten_reason(str(error))) from error
    if not job.output_dir.exists():  # the script may have removed it, or put a file there
        job.output_dir.mkdir(parents=True)
    if result.status == 0:
        if job.output_dir.is_dir():
            (job.output_dir / "success").touch()
    elif not result.was_stopped:
        _write_failure(job, failure_text(result, command))
        raise JobFailed(_own_reason(job) or reason(result, code.program))


def _run(
    job: TrainingJob, code: Code, python: str | os.PathLike[str] | None, environment: Mapping[str, str]
) -> tuple[ProcessResult, Command]:
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
    result = run(
        command,
        cwd=code.folder,
        environment=script_variables(job, environment, toolkit),
        log=job.log,
        stop=job.stop,
        grace_s=job.stop_grace_s,
        signal_group=command.is_shell,
    )
    return result, command


def _failure_file(job: TrainingJob) -> Path:
    return job.output_dir / "failure"


def _own_reason(job: TrainingJob) -> str:
    """The reason that the script itself wrote to ``output/failure``."""
    path = _failure_file(job)
    if not path.is_file():  # a script may leave a FIFO there, and reading that would never end
        return ""
    with path.open("rb") as file:
        text = file.read(MOST_REASON_BYTES).decode("utf-8", "replace")
    return "" if text.startswith("ExecuteUserScriptError:") else shorten_reason(text)


def _write_failure(job: TrainingJob, text: str) -> None:
    path = _failure_file(job)
    if path.parent.is_dir() and not os.path.lexists(path):
        path.write_text(text, encoding="utf-8")
