"""Runs batch transform jobs, and reads and stops them from other processes."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Literal

from headrace._arguments import check_integer
from headrace._ray.connection import check_place
from headrace.containers.code import LEFT_OUT
from headrace.contracts.job import Store
from headrace.hosting.stage import Stage, check_stages
from headrace.io.paths import list_files_below
from headrace.io.system import lock_or_find_owner
from headrace.io.write.atomic import write_atomic
from headrace.jobs.record import JobFiles, read_named, show
from headrace.jobs.transform.ray import RayTransformRun
from headrace.jobs.transform.record import TransformRecord
from headrace.jobs.transform.run import TransformLog, TransformRun
from headrace.jobs.transform.spec import TransformSpec
from headrace.jobs.tree import full_disk_as_failure

__all__ = ["read_transform", "read_transform_spec", "request_stop_transform", "transform"]


def transform(
    spec: TransformSpec,
    stages: Sequence[Stage],
    store: Store,
    *,
    work_dir: Path,
    on_line: Callable[[str], None] = show,
    stop: threading.Event | None = None,
    resume: bool = False,
    progress: bool = False,
    on: Literal["processes", "ray"] = "processes",
    address: str | None = None,
    workers: int | None = None,
    resources: Mapping[str, float] | None = None,
) -> TransformRecord:
    """Send the objects of a prefix through containers, and wait for the end.

    Each object becomes ``<output_path>/<its name>.out``, complete or not at all. A failed object is reported with the record that
    caused it, and the others continue. A full disk ends the job. Memory is bounded by the payloads in progress, not by the objects.

    Args:
        spec: The job.
        stages: The containers, 1 to 15, as for an endpoint. Each process has all of them.
        store: Holds the objects and the answers.
        work_dir: The folder of the jobs: ``<work_dir>/<name>/status.json``, ``files.jsonl``, ``logs/``.
        on_line: Called with each line of the logs, from several threads.
        stop: Set it to stop the job; :func:`request_stop_transform` does so from another process.
        resume: Continue a job of this name that was killed, stopped or failed: objects that have answers and have not changed since
            are skipped. Without such a job, start one. If objects have answers, the models and the code must not have changed.
        progress: Whether to show a progress bar, on a terminal.
        on: Where the containers run: in processes of this machine, or of a Ray cluster, whose nodes share the folders of the store.
        address: The cluster, as for ``ray.init``. By default the cluster that this process uses, else ``RAY_ADDRESS``, else a local one.
        workers: With ``on="ray"``, how many workers; each answers one object after another. By default as many as the cluster holds.
        resources: What each worker takes of its node, such as ``{"CPU": 2, "GPU": 1}``.

    Returns:
        The record of the job, whose status is ``Completed``, or ``Stopped`` if it was stopped; finished answers are kept.

    Raises:
        ValueError: A job of this name exists; ``on`` is another place, or an option of Ray goes with processes; with ``resume``, it is running, has other settings, or has answers of another model.
        JobFailed: An object failed, or the whole job did. The message is the reason, in one line. The record has it, too, and
            ``record.files()`` has the result of each object.

    >>> from headrace.jobs.store import PathStore
    >>> from headrace.hosting.stage import Stage
    >>> spec = TransformSpec(name="scores", input_uri="rows", content_type="text/csv", output_path="scores")
    >>> transform(spec, [Stage(factory="mine:Model")], PathStore(), work_dir=Path("jobs")).status  # doctest: +SKIP
    'Completed'
    """
    check_stages(stages)
    check_place(on, resources, address=address, workers=workers)
    if workers is not None:
        check_integer(workers, "workers", least=1)
    files = JobFiles(Path(work_dir) / spec.name)
    with full_disk_as_failure(Path(work_dir)):
        kind: Callable[..., TransformRun] = TransformRun
        if on == "ray":
            kind = partial(RayTransformRun, address=address, workers=workers, resources=resources)
        return _run(files, spec, stages, store, on_line, stop or threading.Event(), kind, resume=resume, shows=progress)


def _run(
    files: JobFiles,
    spec: TransformSpec,
    stages: Sequence[Stage],
    store: Store,
    on_line: Callable[[str], None],
    stop: threading.Event,
    kind: Callable[..., TransformRun],
    *,
    resume: bool,
    shows: bool,
) -> TransformRecord:
    _claim(files, resume=resume)
    with files.lock.open("w") as held:
        if lock_or_find_owner(held.fileno()):
            raise ValueError(f"the transform job {spec.name!r} is running")
        _settings(files, spec, stages)
        files.stop.unlink(missing_ok=True)
        record = TransformRecord.create(files, spec)
        with TransformLog(files, on_line) as log:
            return kind(spec, stages, store, record, log, stop, shows=shows).run()


def read_transform(work_dir: Path, name: str) -> TransformRecord:
    """The record of a job, which may run in another process.

    Raises:
        ValueError: The job does not exist.
    """
    return read_named(TransformRecord.read, work_dir, name, "transform")


def read_transform_spec(work_dir: Path, name: str) -> TransformSpec:
    """The settings that a job was started with. Its record has those in effect, which a container may have chosen.

    Raises:
        ValueError: The job does not exist.
    """
    folder = read_transform(work_dir, name).files_of_job.folder
    return TransformSpec(**json.loads((folder / "settings.json").read_text(encoding="utf-8"))["spec"])


def request_stop_transform(work_dir: Path, name: str) -> None:
    """Request a job to stop; it may run in another process. Does nothing if it has ended.

    Raises:
        ValueError: The job does not exist.
    """
    record = read_transform(work_dir, name)
    if not record.is_done:
        record.files_of_job.stop.touch()


def _claim(files: JobFiles, *, resume: bool) -> None:
    try:
        files.folder.mkdir(parents=True)
    except FileExistsError:
        if not resume:
            name = files.folder.name
            raise ValueError(
                f"the transform job {name!r} already exists: job names are unique. Choose another name, "
                "or continue it: headrace.jobs.transform.transform(..., resume=True)"
            ) from None


def _settings(files: JobFiles, spec: TransformSpec, stages: Sequence[Stage]) -> None:
    """Store the settings of the job, or compare them if it resumes.

    Raises:
        ValueError: They differ.
    """
    path = files.folder / "settings.json"
    settings = {"spec": spec.to_json(), "stages": [stage.to_json() for stage in stages], "content": _digests(stages)}
    plain = json.loads(json.dumps(settings))
    if path.exists():
        before = json.loads(path.read_text(encoding="utf-8"))
        if any(before[name] != plain[name] for name in ("spec", "stages")):
            names = [name for name in plain["spec"] if plain["spec"][name] != before["spec"].get(name)]
            found = ", ".join(names) or "the containers"
            raise ValueError(
                f"the transform job {spec.name!r} was started with other settings ({found}): give this one another name"
            )
        _check_content(files, before.get("content", {}), plain["content"])
    write_atomic(path, json.dumps(plain, indent=1).encode(), durable=False)


def _check_content(files: JobFiles, before: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Refuse to add answers of other models or scripts to those that a job has already.

    Raises:
        ValueError: A model or its code has changed, and objects have answers.
    """
    changed = sorted(path for path in now if before.get(path, now[path]) != now[path])
    answered = sum(one.status == "Completed" for one in TransformRecord(files, {}).files()) if changed else 0
    if answered:
        name = files.folder.name
        raise ValueError(
            f"{', '.join(changed)} changed after the transform job {name!r} began, and {answered} of its objects have answers "
            "of the old version. To answer all objects by the new version, start a job with another name; to continue this one, "
            "restore the old version"
        )


def _digests(stages: Sequence[Stage]) -> dict[str, str]:
    """A hash of each file or folder that a container is made of: models, scripts, dependencies. They decide the answers."""
    paths = {Path(path) for stage in stages for path in _iter_parts(stage)}
    return {str(path): _digest(path) for path in sorted(paths) if path.exists()}


def _iter_parts(stage: Stage) -> Iterator[str]:
    arguments = stage.arguments
    given = [stage.model_dir, arguments.get("source_dir") or arguments.get("entry_point")]
    module = stage.factory.partition(":")[0].replace(".", "/") + ".py"
    given += [*arguments.get("dependencies", ()), *(str(Path(folder, module)) for folder in stage.path)]
    return (path for path in given if isinstance(path, str))


def _digest(path: Path) -> str:
    found = hashlib.sha256()
    files = (
        {file.relative_to(path).as_posix(): file for file in list_files_below(path)} if path.is_dir() else {"": path}
    )
    for name in sorted(files):
        if not any(fnmatch(part, pattern) for part in name.split("/") for pattern in LEFT_OUT):
            with files[name].open("rb") as file:
                found.update(f"{name}\0{hashlib.file_digest(file, 'sha256').hexdigest()}\0".encode())
    return found.hexdigest()
