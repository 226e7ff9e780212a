"""What is done once before containers are loaded, such as unpacking ``model.tar.gz``."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from headrace.containers.code import stage as put_together
from headrace.containers.script import ScriptContainer
from headrace.errors import CorruptFile, NoFiles, UnsupportedData, Where
from headrace.hosting.stage import SCRIPT, Stage
from headrace.io.archive.unpack import unpack

__all__ = ["prepared", "unpack_model", "unpacked"]


def unpack_model(archive: str | os.PathLike[str], folder: str | os.PathLike[str]) -> None:
    """Unpack a model into a folder, which takes the place of one that is there already.

    What :func:`headrace.io.archive.unpack.unpack` refuses is refused: members that would be written outside of it, links to there,
    devices, and more than the limits. The folder then stays as it was.

    Raises:
        NoFiles: There is no such file.
        CorruptFile: It is no sound ``.tar.gz``, or has such members.
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
            hint = error.hint or "Make it again: tar -czf model.tar.gz -C FOLDER ."
            raise CorruptFile(error.where, expected=error.expected, found=error.found, hint=hint) from error
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)


@contextlib.contextmanager
def unpacked(stages: Sequence[Stage], folder: str | os.PathLike[str] | None = None) -> Iterator[list[Stage]]:
    """The same stages with folders in the place of archives.

    Args:
        stages: Whose ``model_dir`` may be a file.
        folder: Where to unpack them, each into ``N/model``. By default a temporary folder, which is deleted in the end.
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
def prepared(
    stages: Sequence[Stage],
    folder: str | os.PathLike[str] | None = None,
    *,
    log: Callable[[str], None] = LOG.info,
) -> Iterator[list[Stage]]:
    """The same stages, ready to be loaded: models unpacked, scripts and what belongs to them put together and installed.

    Args:
        stages: As they were given.
        folder: Where to put models and scripts, those of each stage into ``N/``. By default temporary folders, which are
            deleted in the end.
        log: Takes the lines that pip writes.

    Raises:
        NoFiles: There is no such model.
        CorruptFile: A model's archive cannot be unpacked.
        JobFailed: There is no script, or what it requires cannot be installed.
    """
    with contextlib.ExitStack() as stack:
        made = []
        for number, stage in enumerate(stack.enter_context(unpacked(stages, folder)), 1):
            place = None if folder is None else Path(folder) / str(number) / "code"
            made.append(_with_requirements(_with_code(stage, place, stack), log))
        yield made


def _with_code(stage: Stage, place: Path | None, stack: contextlib.ExitStack) -> Stage:
    """Its script in a folder, where it is an archive or has dependencies: else every process would make one of its own."""
    if stage.factory != SCRIPT:
        return stage
    container = ScriptContainer(**stage.arguments)
    code = container.code(stage.model_dir)
    if code.folder.is_dir() and not container.dependencies:
        return stage
    if place is None:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-code-")))
    else:
        shutil.rmtree(place, ignore_errors=True)
    put_together(code, container.dependencies, place)
    given = {**stage.arguments, "entry_point": code.program, "source_dir": str(place), "dependencies": []}
    return replace(stage, arguments=given)


def _with_requirements(stage: Stage, log: Callable[[str], None]) -> Stage:
    """With the interpreter that has what the script's ``requirements.txt`` asks for."""
    if stage.factory != SCRIPT or stage.interpreter is not None:
        return stage
    own = ScriptContainer(**stage.arguments).interpreter(stage.model_dir, log=log)
    return stage if own is None else replace(stage, interpreter=own)
