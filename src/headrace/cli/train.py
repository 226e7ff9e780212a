"""``headrace train``, and the inputs of a job on the command line: ``NAME=PATH[;TYPE][;SETTING=VALUE]...``."""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import signal
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from headrace.cli.failures import TERMINATED
from headrace.cli.options import AsJson, OnOption, RayAddress, RunsOn, path_in
from headrace.cli.terminal import note, print_json, print_line
from headrace.containers.linear_learner.container import LinearLearnerContainer
from headrace.containers.script import ScriptContainer
from headrace.contracts.job import Channel, Container
from headrace.errors import NoFiles, Where
from headrace.hosting.registry import state_folder
from headrace.jobs.spec import TrainingSpec
from headrace.jobs.store import PathStore
from headrace.jobs.training import train as run_job
from headrace.sagemaker.session import name_from_base

__all__ = ["SETTINGS", "channel_of", "pair", "train"]


SETTINGS = {
    "input_mode": "input_mode",
    "distribution": "distribution",
    "compression": "compression",
    "record_wrapping": "record_wrapper",
    "s3_data_type": "data_type",
    "attribute_names": "attribute_names",
    "shuffle_seed": "shuffle_seed",
}
"""Settings by their names in the SDK's ``TrainingInput`` and in :class:`Channel`. The job validates the values."""


def pair(text: str, option: str, value_name: str = "VALUE") -> tuple[str, str]:
    """Split an option ``NAME=VALUE``.

    Raises:
        ValueError: It has another form.
    """
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(f"{option} takes NAME={value_name}, got {text!r}")
    return name, value


def channel_of(text: str, input_mode: str) -> tuple[str, Channel]:
    """Parse a channel and its name.

    Args:
        text: The option.
        input_mode: The default input mode.

    Raises:
        ValueError: It has another form, no path, or an unknown setting. The job validates the values.
        FileNotFoundError: The path does not exist.
    """
    name, place = pair(text, "--channel", "PATH[;TYPE][;SETTING=VALUE]...")
    path, *rest = place.split(";")
    if not path:
        raise ValueError(f"--channel {name} has an empty path: write {name}=. for the current folder")
    if not PathStore().resolve(path).exists():
        raise FileNotFoundError(2, "No such file or directory", path)
    given: dict[str, Any] = {"input_mode": input_mode}
    of_type: list[str] = []
    for part in rest:
        setting, equals, value = part.strip().partition("=")
        if equals and setting in SETTINGS:
            given[SETTINGS[setting]] = _value(setting, value)
        elif equals and not of_type:  # A content type may have parameters, but not before it.
            raise ValueError(f"--channel {name} has no setting {setting!r}; the settings are {', '.join(SETTINGS)}")
        else:
            _refuse_misspelt(name, setting if equals else "")
            of_type.append(part)
    return name, Channel(uri=str(PathStore().resolve(path)), content_type=";".join(of_type) or None, **given)


def _refuse_misspelt(channel: str, parameter: str) -> None:
    """Refuse a parameter of a content type that is nearly a setting: as a parameter it would have no effect."""
    likely = difflib.get_close_matches(parameter.lower().replace("-", "_"), SETTINGS, n=1, cutoff=0.75)
    if likely:
        raise ValueError(f"--channel {channel} has no setting {parameter!r}; did you mean {likely[0]}?")


def _value(setting: str, text: str) -> str | int | tuple[str, ...]:
    if setting == "attribute_names":
        return tuple(one.strip() for one in text.split(",") if one.strip())
    if setting != "shuffle_seed":
        return text
    if not text.isdecimal():
        raise ValueError(f"shuffle_seed is an integer, got {text!r}")
    return int(text)


LINEAR_LEARNER = "linear-learner"
SECONDS_A_DAY = 86400.0
STOPPED = {True: "by SIGTERM", False: "after --max-run"}

UNFIT = re.compile("[^a-zA-Z0-9]+")

T = TypeVar("T")


def train(
    algorithm: Annotated[
        str,
        typer.Argument(metavar="ALGORITHM", show_default=False, help="A script, or linear-learner."),
    ],
    *,
    channel: Annotated[
        list[str],
        typer.Option(
            "--channel",
            metavar="NAME=PATH[;TYPE][;SETTING=VALUE]",
            show_default=False,
            help="An input: a file or folder, its content type (text/csv), and settings of TrainingInput: input_mode, distribution, compression, record_wrapping, s3_data_type, attribute_names, shuffle_seed. May be repeated.",
        ),
    ] = [],  # noqa: B006 - typer makes a new one
    hyperparameter: Annotated[
        list[str],
        typer.Option(
            "--hyperparameter",
            "-p",
            metavar="NAME=VALUE",
            show_default=False,
            help="A hyperparameter. May be repeated.",
        ),
    ] = [],  # noqa: B006
    output: Annotated[
        Path,
        typer.Option("--output", parser=path_in, metavar="FOLDER", help="Folder for NAME/output/model.tar.gz."),
    ] = Path(),
    name: Annotated[
        str | None, typer.Option("--name", show_default=False, help="Name of the job.  [default: generated]")
    ] = None,
    source_dir: Annotated[
        Path | None,
        typer.Option(
            "--source-dir",
            parser=path_in,
            metavar="FOLDER",
            show_default=False,
            help="Folder that contains the script.",
        ),
    ] = None,
    input_mode: Annotated[str, typer.Option("--input-mode", help="File, FastFile or Pipe.")] = "File",
    hosts: Annotated[int, typer.Option("--hosts", help="Number of hosts (processes).")] = 1,
    max_run: Annotated[
        float, typer.Option("--max-run", metavar="SECONDS", help="Seconds after which the job is stopped.")
    ] = SECONDS_A_DAY,
    on: OnOption = RunsOn.PROCESSES,
    address: RayAddress = None,
    as_json: AsJson = False,
) -> None:
    """Run a training job as SageMaker does, and print the path of its model.

    Scripts find SageMaker's folders, SM_ variables and arguments. The log goes to stderr. If the job fails, the exit code is 1 and the message is the reason. SIGTERM is passed on to the script and stops the job; its model so far is kept.

    Examples:
      headrace train featurizer.py --channel train=abalone.csv
      headrace train linear-learner --channel "train=features.csv;text/csv" -p predictor_type=regressor -p mini_batch_size=32
      headrace train reader.py --channel "train=lines;input_mode=Pipe;record_wrapping=RecordIO;compression=Gzip"
      headrace train train.py --channel train=rows --hosts 4 --on ray
    """
    if on != RunsOn.RAY and address is not None:
        raise ValueError("--address goes with --on ray")
    job_name = name or name_from_base(_base_of(algorithm))
    spec = TrainingSpec(
        name=job_name,
        channels=_once((channel_of(one, input_mode) for one in channel), "--channel"),
        hyperparameters=_once((pair(one, "--hyperparameter") for one in hyperparameter), "--hyperparameter"),
        output_path=str(output.absolute()),
        num_hosts=hosts,
        input_mode=input_mode,
        max_runtime_s=max_run,
    )
    container = _container(algorithm, source_dir, job_name)
    stop = threading.Event()
    with _set_by_sigterm(stop):
        record = run_job(
            spec,
            container,
            PathStore(),
            work_dir=state_folder() / "training-jobs",
            on_line=note,
            stop=stop,
            on=on.value,
            address=address,
        )
    if record.status == "Stopped":
        note(f"the job was stopped {STOPPED[stop.is_set()]}")
    if as_json:
        print_json(record.content)
    elif record.model_uri is not None:
        print_line(os.path.relpath(record.model_uri))
    if stop.is_set() and record.status == "Stopped":
        raise typer.Exit(TERMINATED)


@contextlib.contextmanager
def _set_by_sigterm(stop: threading.Event) -> Iterator[None]:
    """Set an event on SIGTERM. Only the main thread can install the handler."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: stop.set())
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _base_of(algorithm: str) -> str:
    """The beginning of a job's name: that of the script, of which job names cannot have dots, underscores and so on."""
    return UNFIT.sub("-", Path(algorithm).stem).strip("-") or "job"


def _container(algorithm: str, source_dir: Path | None, name: str) -> Container:
    if algorithm == LINEAR_LEARNER:
        return LinearLearnerContainer()
    if source_dir is None and not Path(algorithm).expanduser().is_file():
        raise NoFiles(Where(path=algorithm), expected=f"a script, or {LINEAR_LEARNER}", found="nothing")
    return ScriptContainer(entry_point=algorithm, source_dir=source_dir, name=name)


def _once(pairs: Iterable[tuple[str, T]], option: str) -> dict[str, T]:
    found: dict[str, T] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{option} {name} is given twice")
        found[name] = value
    return found
