"""The tree of folders that a container finds, the archives of artifacts, and hyperparameters as strings."""

from __future__ import annotations

import errno
import gzip
import json
import os
import shutil
import sys
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from headrace.contracts.job import Channel, Store, TrainingJob
from headrace.errors import JobFailed, UnsupportedData
from headrace.io.archive.members import name_parts
from headrace.io.archive.unpack import unpack_into
from headrace.io.paths import list_files_below
from headrace.io.write.atomic import AtomicFile
from headrace.jobs.pipes import PipeFeeder, epoch_bytes
from headrace.jobs.spec import TrainingSpec
from headrace.jobs.store import InputObject, left_out, list_objects, share

__all__ = [
    "LinkedFiles",
    "archive_entries",
    "as_json",
    "as_text",
    "check_names",
    "clone_file",
    "files_below",
    "full_disk_as_failure",
    "full_disk_reason",
    "is_full_disk",
    "lay_out",
    "log_left_out",
    "pack",
    "parse_values",
    "provide",
    "unpack",
]


GROUP = "homogeneousCluster"  # SageMaker's name for the default group of hosts


def lay_out(job: TrainingJob, spec: TrainingSpec, store: Store) -> None:
    """Create the folders and the JSON files below ``SAGEMAKER_BASE_DIR``."""
    for folder in (job.config_dir, job.model_dir, job.output_data_dir, job.code_dir, job.base_dir / "input" / "data"):
        folder.mkdir(parents=True)
    (job.output_dir / "intermediate").mkdir()
    _link_checkpoints(job, spec, store)
    _write(job, "hyperparameters", dict(spec.hyperparameters))
    _write(job, "inputdataconfig", {name: _describe_channel(channel) for name, channel in spec.channels.items()})
    _write(job, "resourceconfig", _resources(job))
    if spec.checkpoint_uri is not None:
        _write(job, "checkpointconfig", {"S3Uri": spec.checkpoint_uri, "LocalPath": str(job.checkpoint_dir)})


def _link_checkpoints(job: TrainingJob, spec: TrainingSpec, store: Store) -> None:
    """Link the checkpoint folder to its final place, so that a kill loses no checkpoint."""
    if spec.checkpoint_uri is None:
        job.checkpoint_dir.mkdir()
        return
    target = store.resolve(spec.checkpoint_uri)
    target.mkdir(parents=True, exist_ok=True)
    job.checkpoint_dir.symlink_to(target.absolute(), target_is_directory=True)


def _write(job: TrainingJob, name: str, content: Mapping[str, Any]) -> None:
    (job.config_dir / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")


def _describe_channel(channel: Channel) -> dict[str, str]:
    content_type = {} if channel.content_type is None else {"ContentType": channel.content_type}
    return {
        **content_type,
        "TrainingInputMode": channel.input_mode,
        "S3DistributionType": channel.distribution,
        "RecordWrapperType": channel.record_wrapper,
    }


def _resources(job: TrainingJob) -> dict[str, Any]:
    hosts = list(job.hosts)
    return {
        "current_host": job.current_host,
        "current_instance_type": job.instance_type,
        "current_group_name": GROUP,
        "hosts": hosts,
        "instance_groups": [{"instance_group_name": GROUP, "instance_type": job.instance_type, "hosts": hosts}],
        "network_interface_name": job.network_interface,
    }


class LinkedFiles:
    """The source files that FastFile mode links into a tree. A link is not read-only, so their sizes and times are compared after the run."""

    def __init__(self) -> None:
        self._states: list[tuple[str, Path, tuple[int, int] | None]] = []

    def add(self, channel: str, path: Path) -> None:
        """Note the state of a file before the run."""
        self._states.append((channel, path, _state_of(path)))

    @contextmanager
    def checked(self, log: Callable[[str], None]) -> Iterator[None]:
        """Compare the files after the run. If the run fails, changes are logged only, because its own error says more.

        Raises:
            JobFailed: A file changed.
        """
        try:
            yield
        except Exception:
            if reason := self._first_change():
                log(reason)
            raise
        if reason := self._first_change():
            raise JobFailed(reason)

    def _first_change(self) -> str | None:
        changed = [(channel, path) for channel, path, state in self._states if _state_of(path) != state]
        if not changed:
            return None
        channel, path = changed[0]
        more = f" and {len(changed) - 1} more files" if len(changed) > 1 else ""
        return (
            f"ClientError: {path}{more} of channel {channel} changed during the job. With input_mode='FastFile' a script reads the "
            "files themselves, and must not write to them. Restore them, and use input_mode='File', which copies, for a script that does"
        )


def _state_of(path: Path) -> tuple[int, int] | None:
    """Size and modification time; ``None`` if it does not exist."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def provide(job: TrainingJob, store: Store, stack: ExitStack, on_error: Callable[[Exception], None]) -> LinkedFiles:
    """Copy or link the channels' files into the tree, or start feeding their pipes; the stack stops them.

    Returns:
        The files that were linked.

    Raises:
        JobFailed: A channel has no objects, or a manifest is invalid.
        OSError: The disk is full, ...
    """
    host = job.hosts.index(job.current_host)
    linked = LinkedFiles()
    for name, channel in job.channels.items():
        objects = list_objects(channel, store, f"channel {name}")
        if channel.input_mode == "Pipe":
            epoch = epoch_bytes(objects, channel, store, host, len(job.hosts))
            stack.callback(PipeFeeder(job.channel_dir(name).parent, name, epoch, on_error).close)
        else:
            mine = share(objects, channel, host, len(job.hosts))
            if channel.input_mode == "FastFile":
                _clone_or_link(mine, job.channel_dir(name), partial(linked.add, name))
            else:
                for target, source in _targets(mine, job.channel_dir(name)):
                    shutil.copyfile(source, target)
    return linked


def _targets(objects: Sequence[InputObject], folder: Path) -> Iterator[tuple[Path, Path]]:
    """The file of each object below a folder, whose parent is made, and its source."""
    folder.mkdir(parents=True, exist_ok=True)
    for one in objects:
        target = folder / one.name
        target.parent.mkdir(parents=True, exist_ok=True)
        yield target, one.path.absolute()


def _clone_or_link(objects: Sequence[InputObject], folder: Path, on_link: Callable[[Path], None]) -> None:
    """Make private copies that share the data on disk; otherwise links. Neither copies data."""
    can_clone = True
    for target, source in _targets(objects, folder):
        can_clone = can_clone and clone_file(source, target)
        if not can_clone:
            on_link(source)
            target.symlink_to(source)


FICLONE = 0x40049409  # of linux/fs.h


def clone_file(source: Path, target: Path) -> bool:
    """Make a copy that shares its data with the source until one of them is written to. Returns whether the file system can."""
    if sys.platform != "linux":
        return False
    import fcntl

    try:
        with source.open("rb") as given, target.open("xb") as made:
            fcntl.ioctl(made.fileno(), FICLONE, given.fileno())
    except OSError:  # most file systems cannot, nor can it be done across two of them
        target.unlink(missing_ok=True)
        return False
    return True


LEVEL = 6
IS_EXECUTABLE = 0o111


@contextmanager
def full_disk_as_failure(place: Path) -> Iterator[None]:
    """Convert the OSError of a full disk to a failure with advice.

    Args:
        place: The folder of the jobs.

    Raises:
        JobFailed: The disk is full.
    """
    try:
        yield
    except OSError as error:
        reason = full_disk_reason(error, place)
        if reason is None:
            raise
        raise JobFailed(reason) from error


def is_full_disk(error: OSError) -> bool:
    """Whether an error means that a disk is full or a quota is used up."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def full_disk_reason(error: BaseException, place: Path) -> str | None:
    """The reason and advice for a job that failed because of a full disk or a quota; otherwise ``None``."""
    disk = error if isinstance(error, OSError) else error.__cause__
    if not isinstance(disk, OSError) or not is_full_disk(disk):
        return None
    what = "the disk is full" if disk.errno == errno.ENOSPC else "the quota of the disk is used up"
    return (
        f"ClientError: {what}: {disk.filename or place} could not be written, and nothing incomplete was left in its place. "
        f"Free some space, or choose another folder for jobs and their artifacts, which are in {place} now"
    )


def files_below(folders: Sequence[Path]) -> dict[str, Path]:
    """The files in some folders by relative path. A later folder's replace those of the same path, or of one that a file and a folder
    share. Follows links.
    """
    found: dict[str, Path] = {}
    for folder in folders:
        later = {path.relative_to(folder).as_posix(): path for path in list_files_below(folder)}
        found = {**_beside(found, later), **later}
    return found


def _beside(found: dict[str, Path], later: Mapping[str, Path]) -> dict[str, Path]:
    """What of an archive can stay with later names in it: a name cannot be a file and a folder."""
    folders = {str(folder) for name in later for folder in PurePosixPath(name).parents} if found else set()
    clashing = {name for name in found if name in folders or any(str(f) in later for f in PurePosixPath(name).parents)}
    return {name: path for name, path in found.items() if name not in clashing}


def archive_entries(folders: Sequence[Path]) -> dict[str, Path]:
    """What an archive of some folders holds: their files and empty folders."""
    files = files_below(folders)
    return {**_beside(empty_folders_below(folders), files), **files}


def empty_folders_below(folders: Sequence[Path]) -> dict[str, Path]:
    """The empty folders in some folders by relative path. Saved models have some, such as ``assets``."""
    return {
        Path(parent).relative_to(folder).as_posix(): Path(parent)
        for folder in folders
        for parent, names, files in os.walk(folder)
        if not names and not files and Path(parent) != folder
    }


def log_left_out(folder: Path, log: Callable[[str], None]) -> None:
    """Say what in a model no archive keeps."""
    for name, what in left_out(folder):
        log(f"model.tar.gz does not contain {name}: {what}")


def check_names(names: Iterable[str]) -> None:
    """Check that the names of a model can be unpacked again, while its files are still there.

    Raises:
        JobFailed: One cannot.
    """
    for name in names:
        try:
            name_parts(Path("model.tar.gz"), name)
        except UnsupportedData as error:
            raise JobFailed(
                f"AlgorithmError: the model has the file {name[:200]!r}, which could not be unpacked from model.tar.gz: expected "
                f"{error.expected}. Let the script save it under another name"
            ) from error


def pack(files: Mapping[str, Path], archive: Path) -> None:
    """Write a ``.tar.gz`` of files and empty folders atomically.

    The same files give the same bytes: owners, times and the order of the files have no effect.
    """
    archive.parent.mkdir(parents=True, exist_ok=True)
    with (
        AtomicFile(archive) as file,
        gzip.GzipFile(filename="", mode="wb", fileobj=file, compresslevel=LEVEL, mtime=0) as compressed,  # type: ignore[call-overload]
        tarfile.open(mode="w", fileobj=compressed, format=tarfile.PAX_FORMAT) as tar,
    ):
        for name in sorted(files):
            _add(tar, name, files[name])


def _add(tar: tarfile.TarFile, name: str, path: Path) -> None:
    state = path.stat()
    entry = tarfile.TarInfo(name)
    if path.is_dir():
        entry.type, entry.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(entry)
        return
    entry.size = state.st_size
    entry.mode = 0o755 if state.st_mode & IS_EXECUTABLE else 0o644
    with path.open("rb") as file:
        tar.addfile(entry, file)


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a ``.tar.gz`` (or ``.tar``) into a folder, which is created if missing.

    Raises:
        CorruptFile: It is damaged.
        UnsupportedData: It is not an archive, would write outside the folder, or exceeds the limits
            (:class:`headrace.io.archive.unpack.Limits`).
    """
    unpack_into(archive, folder)


def as_json(values: Mapping[str, Any]) -> dict[str, str]:
    """Each value as JSON, as the SDK's framework estimators pass them to scripts.

    >>> as_json({"n": 3, "name": "abc", "on": True, "no": None})
    {'n': '3', 'name': '"abc"', 'on': 'true', 'no': 'null'}

    Raises:
        TypeError: A value that JSON cannot represent; the message names the hyperparameter.
    """
    return {str(name): _json(name, value) for name, value in values.items()}


def _json(name: str, value: Any) -> str:
    try:
        return json.dumps(value)
    except TypeError as error:
        known = "int(...) or float(...) of it" if hasattr(value, "item") else "a number, a string, a list or a dict"
        raise TypeError(f"hyperparameter {name!r}: {error}; pass {known}") from None


def parse_values(texts: Mapping[str, str]) -> dict[str, Any]:
    """The values that :func:`as_json` made texts of. A text that is no JSON stays one.

    >>> parse_values({"n": "3", "name": '"abc"', "other": "abc"})
    {'n': 3, 'name': 'abc', 'other': 'abc'}
    """
    return {name: _parse(text) for name, text in texts.items()}


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def as_text(values: Mapping[str, Any]) -> dict[str, str]:
    """``str`` of each value, as the SDK's generic estimator passes them to built-in algorithms.

    >>> as_text({"n": 3, "on": True})
    {'n': '3', 'on': 'True'}
    """
    return {str(name): str(value) for name, value in values.items()}
