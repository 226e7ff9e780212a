"""Artifacts on the command line, and the containers that they need."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headrace.errors import NoFiles, UnsupportedData, Where
from headrace.hosting.recognising import recognise
from headrace.hosting.stage import Stage

__all__ = ["stages_of"]


def stages_of(models: Sequence[Path], scripts: Sequence[Path]) -> list[Stage]:
    """A container for each model.

    Args:
        models: ``model.tar.gz`` files, or folders with what is in one.
        scripts: For the models that neither Linear Learner has trained nor hold their own script in ``code/``, in order.

    Raises:
        NoFiles: No such model, or no such script.
        CorruptFile: A model is no archive.
        ValueError: Too few scripts, or too many.
    """
    left = list(scripts)
    stages = []
    for model in models:
        try:
            stages.append(recognise(model))
        except UnsupportedData:
            if not left:
                raise ValueError(
                    f"{model} holds neither a model of Linear Learner nor a script in code/: name one with --script"
                ) from None
            stages.append(recognise(model, entry_point=_there(left.pop(0))))
    if left:
        raise ValueError(f"no model needs the script {left[0]}")
    return stages


def _there(script: Path) -> Path:
    if not script.is_file():
        raise NoFiles(Where(path=str(script)), expected="a script", found="nothing")
    return script
