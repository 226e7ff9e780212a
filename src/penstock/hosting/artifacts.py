"""Models as training leaves them, ``model.tar.gz``, unpacked for an endpoint."""

from __future__ import annotations

import contextlib
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

from penstock.errors import CorruptFile, NoFiles, Where
from penstock.hosting.stage import Stage
from penstock.io.tar_faults import ARCHIVE_FAULTS, archive_fault

__all__ = ["unpack_model", "unpacked"]

CHUNK_BYTES = 1 << 20


def unpack_model(archive: str | os.PathLike[str], folder: str | os.PathLike[str]) -> None:
    """Unpack a model into a folder, which is made, or emptied first.

    Members that would land outside of it, devices, and links that lead outside are refused.

    Raises:
        NoFiles: There is no such file.
        CorruptFile: It is no sound ``.tar.gz``, or has such members.
    """
    if not Path(archive).is_file():
        raise NoFiles(Where(path=str(archive)), expected="a model.tar.gz", found="nothing")
    shutil.rmtree(folder, ignore_errors=True)
    Path(folder).mkdir(parents=True)
    try:
        with tarfile.open(archive) as opened:
            stream: IO[bytes] = opened.fileobj  # type: ignore[assignment]
            opened.extractall(folder, filter="data")
            # A cut or damaged end shows only in the sum behind it, which nobody has read yet.
            while stream.read(CHUNK_BYTES):
                pass
    except ARCHIVE_FAULTS as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise CorruptFile(
            Where(path=str(archive)),
            expected="a model.tar.gz",
            found=archive_fault(error, archive),
            hint="Make it again: tar -czf model.tar.gz -C FOLDER .",
        ) from error


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
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-models-"))
            place = Path(folder) / str(number) / "model"
            unpack_model(stage.model_dir, place)
            made.append(replace(stage, model_dir=str(place)))
        yield made
