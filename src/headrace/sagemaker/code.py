"""A user's code in the store, so that jobs and endpoints do not depend on what becomes of the file in the editor."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.containers.code import find_code, stage
from headrace.jobs.artifacts import files_below, full_disk_as_failure, pack
from headrace.sagemaker.session import Session

__all__ = ["UploadedCode", "upload_code"]


@dataclass(frozen=True, slots=True)
class UploadedCode:
    """Code in the store.

    Args:
        uri: Of ``sourcedir.tar.gz``.
        program: The script in it.
    """

    uri: str
    program: str


def upload_code(
    session: Session,
    name: str,
    entry_point: str | os.PathLike[str],
    source_dir: str | os.PathLike[str] | None = None,
    dependencies: Sequence[str | os.PathLike[str]] = (),
) -> UploadedCode:
    """Put a script, or the folder that it is in, into the store as ``<default bucket>/<name>/source/sourcedir.tar.gz``.

    Raises:
        JobFailed: There is no such script, or the disk is full.
    """
    if source_dir is not None and str(source_dir).startswith(("s3://", "file://")):
        return UploadedCode(str(source_dir), os.fspath(entry_point))
    with full_disk_as_failure(session.root), tempfile.TemporaryDirectory(prefix="headrace-code-") as folder:
        staged = stage(find_code(entry_point, source_dir), dependencies, Path(folder) / "code")
        archive = Path(folder) / "sourcedir.tar.gz"
        pack(files_below([staged.folder]), archive)
        uri = f"s3://{session.default_bucket()}/{name}/source/sourcedir.tar.gz"
        session.store.put(archive, uri)
    return UploadedCode(uri, staged.program)
