"""The tree below ``SAGEMAKER_BASE_DIR``, as a container finds it when it starts."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from headrace.contracts.job import Channel, Store, TrainingJob
from headrace.jobs.objects import InputObject, list_objects, share
from headrace.jobs.pipes import PipeFeeder, epoch_bytes
from headrace.jobs.spec import TrainingSpec

__all__ = ["lay_out", "provide"]

GROUP = "homogeneousCluster"  # what SageMaker calls the one group of hosts of a job that names none


def lay_out(job: TrainingJob, spec: TrainingSpec, store: Store) -> None:
    """Make the folders and the JSON files."""
    for folder in (job.config_dir, job.model_dir, job.output_data_dir, job.code_dir, job.base_dir / "input" / "data"):
        folder.mkdir(parents=True)
    (job.output_dir / "intermediate").mkdir()
    _link_checkpoints(job, spec, store)
    _write(job, "hyperparameters", dict(spec.hyperparameters))
    _write(job, "inputdataconfig", {name: _described(channel) for name, channel in spec.channels.items()})
    _write(job, "resourceconfig", _resources(job))
    if spec.checkpoint_uri is not None:
        _write(job, "checkpointconfig", {"S3Uri": spec.checkpoint_uri, "LocalPath": str(job.checkpoint_dir)})


def _link_checkpoints(job: TrainingJob, spec: TrainingSpec, store: Store) -> None:
    """Checkpoints are written to where they stay: then no kill can lose them."""
    if spec.checkpoint_uri is None:
        job.checkpoint_dir.mkdir()
        return
    target = store.resolve(spec.checkpoint_uri)
    target.mkdir(parents=True, exist_ok=True)
    job.checkpoint_dir.symlink_to(target.absolute(), target_is_directory=True)


def _write(job: TrainingJob, name: str, content: Mapping[str, Any]) -> None:
    (job.config_dir / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")


def _described(channel: Channel) -> dict[str, str]:
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
        "network_interface_name": "lo",
    }


def provide(job: TrainingJob, store: Store, stack: ExitStack, on_error: Callable[[Exception], None]) -> None:
    """Put the channels' files into the tree, or begin to feed their pipes, which the stack ends.

    Raises:
        JobFailed: A channel has no objects, or a manifest is wrong.
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
    """File mode: the files themselves. FastFile: links to them, so that nothing is copied that is not read."""
    folder.mkdir(parents=True, exist_ok=True)
    for one in objects:
        target = folder / one.name
        target.parent.mkdir(parents=True, exist_ok=True)
        if link:
            target.symlink_to(one.path.absolute())
        else:
            shutil.copyfile(one.path, target)
