"""Models as training leaves them, ``model.tar.gz``, unpacked for an endpoint."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from headrace.errors import CorruptFile, NoFiles, UnsupportedData, Where
from headrace.hosting.stage import Stage
from headrace.io.archives import unpack

__all__ = ["unpack_model", "unpacked"]


def unpack_model(archive: str | os.PathLike[str], folder: str | os.PathLike[str]) -> None:
    """Unpack a model into a folder, which takes the place of one that is there already.

    What :func:`headrace.io.archives.unpack` refuses is refused: members that would be written outside of it, links to there,
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
