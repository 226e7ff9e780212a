"""Runs training jobs, and reads and stops them from other processes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Literal

from headrace._ray.connection import check_place
from headrace.contracts.job import Channel, Container, Store
from headrace.io.system import discard_folder, lock
from headrace.jobs.ray import RayTrainingRun, remove_abandoned_trees
from headrace.jobs.record import ABANDONED, JobFiles, JobRecord, read_named, show
from headrace.jobs.run import TrainingRun, arn_of
from headrace.jobs.spec import TrainingSpec
from headrace.jobs.tree import full_disk_as_failure

__all__ = ["read_job", "request_stop", "train"]


def train(
    spec: TrainingSpec,
    container: Container,
    store: Store,
    *,
    work_dir: Path,
    on_line: Callable[[str], None] = show,
    stop: threading.Event | None = None,
    stop_grace_s: float = 120.0,
    keep_tree: bool = False,
    on: Literal["processes", "ray"] = "processes",
    address: str | None = None,
    resources: Mapping[str, float] | None = None,
) -> JobRecord:
    """Train, and wait for the end.

    Args:
        spec: The job.
        container: Trains.
        store: Holds inputs and artifacts.
        work_dir: The folder of the jobs: ``<work_dir>/<name>/status.json``, ``logs/``, and the tree while it runs.
        on_line: Called with each line of the logs, which begins with the host's name.
        stop: Set it to stop the job. :func:`request_stop` stops a job of another process.
        stop_grace_s: How long a container may take to stop.
        keep_tree: Whether to keep the tree of folders. By default only that of a failed job stays, without its input.
        on: Where hosts run: in processes of this machine, or on the nodes of a Ray cluster, which share the folders of the store.
        address: The cluster, as for ``ray.init``. By default the cluster that this process uses, else ``RAY_ADDRESS``, else a local one.
        resources: What each host takes of its node, such as ``{"CPU": 8, "GPU": 1}``; one processor by default.

    Returns:
        The record of the job, whose status is ``Completed``, or ``Stopped`` if it was stopped or ran too long. A
        stopped job keeps its model.

    Raises:
        ValueError: A job of this name exists, ``on`` is another place, or ``address`` or ``resources`` go with processes.
        JobFailed: It failed. The message is the reason, in one line. The record has it, too.
    """
    check_place(on, resources, address=address)
    kind: Callable[..., TrainingRun] = TrainingRun
    if on == "ray":
        kind = partial(RayTrainingRun, address=address, resources=resources)
    with full_disk_as_failure(Path(work_dir)):
        return _train(
            spec,
            container,
            store,
            Path(work_dir),
            kind,
            on_line=on_line,
            stop=stop or threading.Event(),
            stop_grace_s=stop_grace_s,
            keep_tree=keep_tree,
        )


def _train(
    spec: TrainingSpec,
    container: Container,
    store: Store,
    work_dir: Path,
    kind: Callable[..., TrainingRun],
    *,
    on_line: Callable[[str], None],
    stop: threading.Event,
    stop_grace_s: float,
    keep_tree: bool,
) -> JobRecord:
    files = JobFiles(work_dir / spec.name)
    try:
        files.folder.mkdir(parents=True)
    except FileExistsError:
        raise ValueError(
            f"the training job {spec.name!r} already exists: job names are unique; choose another name, or remove {files.folder}"
        ) from None
    with files.lock.open("w") as held:
        lock(held.fileno())
        record = JobRecord.create(files, spec.name, _describe(spec))
        run = kind(spec, container, store, record, on_line, stop, stop_grace_s)
        try:
            return run.run()
        finally:
            if not keep_tree:
                _clean(files, spec, whole=record.status != "Failed")


def read_job(work_dir: Path, name: str) -> JobRecord:
    """The record of a job, which may run in another process.

    Raises:
        ValueError: The job does not exist.
    """
    record = read_named(JobRecord.read, work_dir, name, "training")
    if record.failure_reason == ABANDONED:  # the job could not delete its copies of inputs, which may be large
        for inputs in (record.files.folder / "hosts").glob("*/input/data"):
            discard_folder(inputs)
        remove_abandoned_trees()
    return record


def request_stop(work_dir: Path, name: str) -> None:
    """Request a job to stop; it may run in another process. Does nothing if it has ended.

    Raises:
        ValueError: The job does not exist.
    """
    record = read_job(work_dir, name)
    if not record.is_done:
        record.files.stop.touch()


def _describe(spec: TrainingSpec) -> dict[str, object]:
    image = {} if spec.image is None else {"TrainingImage": spec.image}
    checkpoints = {} if spec.checkpoint_uri is None else {"CheckpointConfig": {"S3Uri": spec.checkpoint_uri}}
    return {
        "TrainingJobArn": arn_of(spec.name),
        "AlgorithmSpecification": {**image, "TrainingInputMode": spec.input_mode},
        "HyperParameters": dict(spec.hyperparameters),
        "InputDataConfig": [_describe_channel(name, channel) for name, channel in spec.channels.items()],
        "OutputDataConfig": {"S3OutputPath": spec.output_path},
        "ResourceConfig": {"InstanceCount": spec.num_hosts, "InstanceType": spec.instance_type},
        "StoppingCondition": {"MaxRuntimeInSeconds": spec.max_runtime_s},
        "Environment": dict(spec.environment),
        **checkpoints,
    }


def _describe_channel(name: str, channel: Channel) -> dict[str, object]:
    source: dict[str, object] = {
        "S3DataType": channel.data_type,
        "S3Uri": channel.uri,
        "S3DataDistributionType": channel.distribution,
    }
    if channel.attribute_names:
        source["AttributeNames"] = list(channel.attribute_names)
    return {
        "ChannelName": name,
        "DataSource": {"S3DataSource": source},
        **({} if channel.content_type is None else {"ContentType": channel.content_type}),
        "CompressionType": channel.compression,
        "RecordWrapperType": channel.record_wrapper,
        "InputMode": channel.input_mode,
        **({} if channel.shuffle_seed is None else {"ShuffleConfig": {"Seed": channel.shuffle_seed}}),
    }


def _clean(files: JobFiles, spec: TrainingSpec, *, whole: bool) -> None:
    for host in spec.hosts:
        base = files.base_dir(host)
        discard_folder(base if whole else base / "input" / "data")
