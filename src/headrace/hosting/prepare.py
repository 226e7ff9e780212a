"""Prepares stages once, before workers load them: unpacks models, collects code, installs requirements."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from headrace.containers.code import stage as stage_code
from headrace.containers.script import ScriptContainer
from headrace.errors import CorruptFile, JobFailed, NoFiles, UnsupportedData, Where
from headrace.hosting.stage import SCRIPT, Stage
from headrace.io.archive.unpack import unpack
from headrace.io.paths import list_files_below
from headrace.io.system import discard_folder

__all__ = ["prepare_stages", "states_of_files", "unpack_model", "unpack_models"]


def unpack_model(archive: str | os.PathLike[str], folder: str | os.PathLike[str]) -> None:
    """Unpack a model into a folder, replacing an existing one.

    :func:`headrace.io.archive.unpack.unpack` refuses members outside the folder, links out of it, devices, and archives over its
    limits. An existing folder then stays unchanged.

    Raises:
        NoFiles: The archive does not exist.
        CorruptFile: It is damaged, not a ``.tar.gz``, or has such members.
    """
    if not Path(archive).is_file():
        raise NoFiles(Where(path=str(archive)), expected="a model.tar.gz", found="nothing")
    folder = Path(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".headrace-model-", dir=folder.parent) as temporary:
        fresh = Path(temporary, "model")
        try:
            unpack(Path(archive), fresh, what="a model.tar.gz")
        except (CorruptFile, UnsupportedData) as error:
            hint = error.hint or "Create it again: tar -czf model.tar.gz -C FOLDER ."
            raise CorruptFile(error.where, expected=error.expected, found=error.found, hint=hint) from error
        discard_folder(folder)
        fresh.rename(folder)


@contextlib.contextmanager
def unpack_models(stages: Sequence[Stage], folder: str | os.PathLike[str] | None = None) -> Iterator[list[Stage]]:
    """The same stages, with the models in archives unpacked.

    Args:
        stages: Stages whose ``model_dir`` may be an archive.
        folder: Where to unpack them, each into ``N/model``; by default a temporary folder.
    """
    with contextlib.ExitStack() as stack:
        made = []
        for number, stage in enumerate(stages, 1):
            if stage.model_dir is None or Path(stage.model_dir).is_dir():
                made.append(stage)
                continue
            if folder is None:
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-models-"))
            place = Path(folder) / str(number) / "model"
            unpack_model(stage.model_dir, place)
            made.append(replace(stage, model_dir=str(place)))
        yield made


LOG = logging.getLogger("headrace.hosting")


@contextlib.contextmanager
def prepare_stages(
    stages: Sequence[Stage],
    folder: str | os.PathLike[str] | None = None,
    *,
    log: Callable[[str], None] = LOG.info,
) -> Iterator[list[Stage]]:
    """The same stages, ready to load: models unpacked, scripts and their dependencies in one folder, requirements installed.

    Args:
        stages: The stages.
        folder: Where to put models and scripts, those of each stage into ``N/``; by default temporary folders.
        log: Receives the output of pip.

    Raises:
        NoFiles: A model does not exist.
        CorruptFile: The archive of a model cannot be unpacked.
        JobFailed: A script does not exist, or its requirements cannot be installed.
    """
    with contextlib.ExitStack() as stack:
        made = []
        for number, stage in enumerate(stack.enter_context(unpack_models(stages, folder)), 1):
            place = None if folder is None else Path(folder) / str(number) / "code"
            made.append(_with_requirements(_with_code(stage, place, stack), log))
        yield made


def _with_code(stage: Stage, place: Path | None, stack: contextlib.ExitStack) -> Stage:
    """With its script in a folder, if it is an archive or has dependencies: otherwise every process would unpack its own."""
    if stage.factory != SCRIPT:
        return stage
    container = ScriptContainer(**stage.arguments)
    code = container.code(stage.model_dir)
    if code.folder.is_dir() and not container.dependencies:
        return stage
    if place is None:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-code-")))
    else:
        discard_folder(place)
    stage_code(code, container.dependencies, place)
    given = {**stage.arguments, "entry_point": code.program, "source_dir": str(place), "dependencies": []}
    return replace(stage, arguments=given)


def _with_requirements(stage: Stage, log: Callable[[str], None]) -> Stage:
    """With an interpreter that has the packages in the script's ``requirements.txt``."""
    if stage.factory != SCRIPT or stage.interpreter is not None:
        return stage
    own = ScriptContainer(**stage.arguments).interpreter(stage.model_dir, log=log)
    return stage if own is None else replace(stage, interpreter=own)


def states_of_files(stages: Sequence[Stage]) -> dict[str, tuple[int, int]]:
    """Size and modification time of each file that decides the answers of stages: those of models, and the code of scripts.

    Args:
        stages: Prepared stages.
    """
    found = {}
    for stage in stages:
        for path in _files_of(stage):
            with contextlib.suppress(OSError):
                status = path.stat()
                found[str(path)] = status.st_size, status.st_mtime_ns
    return found


def _files_of(stage: Stage) -> Iterator[Path]:
    if stage.model_dir is not None:
        yield from list_files_below(Path(stage.model_dir).absolute())
    if stage.factory != SCRIPT:
        return
    with contextlib.suppress(JobFailed):
        code = ScriptContainer(**stage.arguments).code(stage.model_dir)
        if code.is_whole:
            yield from (path for path in list_files_below(code.folder) if path.suffix == ".py")
        else:
            yield code.path
