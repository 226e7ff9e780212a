"""The tree of folders that a container finds, the archives of artifacts, and hyperparameters as strings."""

from __future__ import annotations

import errno
import gzip
import json
import shutil
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from headrace.contracts.job import Channel, Store, TrainingJob
from headrace.errors import JobFailed
from headrace.io.archive.unpack import unpack_into
from headrace.io.paths import list_files_below
from headrace.io.write.atomic import AtomicFile
from headrace.jobs.pipes import PipeFeeder, epoch_bytes
from headrace.jobs.spec import TrainingSpec
from headrace.jobs.store import InputObject, list_objects, share

__all__ = [
    "as_json",
    "as_text",
    "files_below",
    "full_disk_as_failure",
    "full_disk_reason",
    "is_full_disk",
    "lay_out",
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


def provide(job: TrainingJob, store: Store, stack: ExitStack, on_error: Callable[[Exception], None]) -> None:
    """Copy or link the channels' files into the tree, or start feeding their pipes; the stack stops them.

    Raises:
        JobFailed: A channel has no objects, or a manifest is invalid.
        OSError: The disk is full, ...
    """
    host = job.hosts.index(job.current_host)
    for name, channel in job.channels.items():
        objects = list_objects(channel, store, f"channel {name}")
        if channel.input_mode == "Pipe":
            epoch = epoch_bytes(objects, channel, store, host, len(job.hosts))
            stack.callback(PipeFeeder(job.channel_dir(name).parent, name, epoch, on_error).close)
        else:
            link = channel.input_mode == "FastFile"
            _copy_or_link(share(objects, channel, host, len(job.hosts)), job.channel_dir(name), link=link)


def _copy_or_link(objects: list[InputObject], folder: Path, *, link: bool) -> None:
    """File mode copies the files. FastFile mode links them, so that nothing is copied that is not read."""
    folder.mkdir(parents=True, exist_ok=True)
    for one in objects:
        target = folder / one.name
        target.parent.mkdir(parents=True, exist_ok=True)
        if link:
            target.symlink_to(one.path.absolute())
        else:
            shutil.copyfile(one.path, target)


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
    """The files in some folders by relative path. A file in a later folder replaces one with the same path. Follows links."""
    found: dict[str, Path] = {}
    for folder in folders:
        found.update({path.relative_to(folder).as_posix(): path for path in list_files_below(folder)})
    return found


def pack(files: Mapping[str, Path], archive: Path) -> None:
    """Write a ``.tar.gz`` atomically.

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
        raise TypeError(f"hyperparameter {name!r}: {error}; pass a number, a string, a list or a dict") from None


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
