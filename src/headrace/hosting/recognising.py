"""From a model, as training leaves it, to the stage that serves it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from headrace.errors import CorruptFile, NoFiles, UnsupportedData, Where
from headrace.hosting.stage import Stage
from headrace.io.archives import archive_names

__all__ = ["SCRIPT", "linear_learner_stage", "recognise", "script_stage"]

SCRIPT = "headrace.containers.script:ScriptContainer"
LINEAR_LEARNER = "headrace.containers.linear_learner.container:LinearLearnerContainer"
ALGORITHM_FILE = "model_algo-1"
PATHS = ("entry_point", "source_dir")


def script_stage(
    model: str | os.PathLike[str],
    *,
    name: str | None = None,
    environment: Mapping[str, str] | None = None,
    isolated: bool = False,
    interpreter: str | None = None,
    **container: Any,
) -> Stage:
    """A stage that answers with a user's script.

    Args:
        model: Folder of the model, or its ``model.tar.gz``.
        name: Its hostname in a pipeline.
        environment: Its environment variables.
        isolated: Whether it runs in a process of its own.
        interpreter: Python to run it with, in a process of its own.
        container: Arguments of :class:`headrace.containers.script.ScriptContainer`: ``entry_point``, ``source_dir``,
            ``dependencies``, ``dialect``, ``rows_independent``. Without ``entry_point``, the script in the model's ``code/``.
    """
    variables = dict(environment or {})
    # Another process has another working folder: what is relative here would not be found there.
    if container.get("source_dir") is not None:
        container["source_dir"] = _absolute(container["source_dir"])
    elif container.get("entry_point") is not None:
        container["entry_point"] = _absolute(container["entry_point"])
    given = {key: os.fspath(value) if key in PATHS and value is not None else value for key, value in container.items()}
    given["dependencies"] = [_absolute(path) for path in container.get("dependencies", ())]
    return Stage(
        factory=SCRIPT,
        arguments={**given, "environment": variables},
        model_dir=os.fspath(model),
        name=name,
        environment=variables,
        isolated=isolated,
        interpreter=interpreter,
    )


def linear_learner_stage(
    model: str | os.PathLike[str],
    *,
    name: str | None = None,
    environment: Mapping[str, str] | None = None,
    isolated: bool = False,
) -> Stage:
    """A stage that answers with a model of Linear Learner.

    Args:
        model: Folder of the model, or its ``model.tar.gz``.
        name: Its hostname in a pipeline.
        environment: Its environment variables.
        isolated: Whether it runs in a process of its own.
    """
    variables = dict(environment or {})
    return Stage(
        factory=LINEAR_LEARNER,
        arguments={"environment": variables},
        model_dir=os.fspath(model),
        name=name,
        environment=variables,
        isolated=isolated,
    )


def recognise(model: str | os.PathLike[str], *, entry_point: str | os.PathLike[str] | None = None) -> Stage:
    """The stage for a model, by what is in it: a script in ``code/``, or a model of Linear Learner.

    Args:
        model: A folder, or a ``model.tar.gz``.
        entry_point: The script that serves it, where it does not lie in the model.

    Raises:
        NoFiles: There is no such file.
        CorruptFile: It is neither a folder nor a sound archive.
        UnsupportedData: It is neither of the two kinds, and no script is given.
    """
    names = _names(Path(model))
    if entry_point is not None:
        return script_stage(model, entry_point=entry_point)
    if ALGORITHM_FILE in names:
        return linear_learner_stage(model)
    scripts = [name for name in names if name.startswith("code/") and name.endswith(".py")]
    if "code/inference.py" in scripts:
        return script_stage(model, entry_point=None)
    if len(scripts) == 1:
        stage = script_stage(model, environment={"SAGEMAKER_PROGRAM": scripts[0].removeprefix("code/")})
        return replace(stage, environment={})
    raise UnsupportedData(
        Where(path=os.fspath(model)),
        expected=f"code/inference.py, one script in code/, or {ALGORITHM_FILE}",
        found=", ".join(names[:5]) or "nothing",
        hint="Say which script serves it: entry_point.",
    )


def _names(model: Path) -> list[str]:
    """What is in a model, from its top."""
    if model.is_dir():
        return sorted(path.relative_to(model).as_posix() for path in model.rglob("*") if path.is_file())
    if not model.exists():
        raise NoFiles(Where(path=str(model)), expected="a folder or a model.tar.gz", found="nothing")
    try:
        return archive_names(model, what="a model.tar.gz")
    except UnsupportedData as error:
        raise CorruptFile(error.where, expected=error.expected, found=error.found, hint=error.hint) from error


def _absolute(path: str | os.PathLike[str]) -> str:
    return str(Path(path).absolute())
