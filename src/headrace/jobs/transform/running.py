"""Run a batch transform job from its objects to its answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from headrace.contracts.job import Store
from headrace.hosting.stage import Stage, check_stages
from headrace.io.system import lock
from headrace.io.write.atomic import write_atomic
from headrace.jobs.record import JobFiles, read_named, show
from headrace.jobs.transform.record import TransformRecord
from headrace.jobs.transform.run import TransformLog, TransformRun
from headrace.jobs.transform.spec import TransformSpec
from headrace.jobs.tree import full_disk_as_failure

__all__ = ["read_transform", "request_stop_transform", "transform"]


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
) -> TransformRecord:
    """Send the objects of a prefix through containers, and wait until it is over.

    Each object becomes ``<output_path>/<its name>.out``, whole or not at all. One that fails is named, with the record that
    is to blame, and the others go on. Memory is bounded by the payloads that are under way, not by the objects.

    Args:
        spec: What to do.
        stages: The containers, 1 to 15, as an endpoint has them. Each request has a process with all of them.
        store: Where objects are and answers go.
        work_dir: Where jobs have their folders: ``<work_dir>/<name>/status.json``, ``files.jsonl``, ``logs/``.
        on_line: Takes each line of the logs, from several threads.
        stop: Set it to stop the job; :func:`request_stop_transform` does so from another process.
        resume: Go on where a job of this name has ended (killed, stopped, failed): objects whose answers are there and which
            have not changed since are left alone. Where there is no such job, it begins.
        progress: Whether a bar is shown, on a terminal.

    Returns:
        The record of the job, whose status is ``Completed``, or ``Stopped`` where it was stopped; what was finished is kept.

    Raises:
        ValueError: There is a job of this name; with ``resume``, one that runs, or with other settings.
        JobFailed: An object failed, or the job could not be run. The message is the reason, in one line; the record says it
            too, and ``record.files()`` what became of each object.

    >>> from headrace.jobs.store import PathStore
    >>> from headrace.hosting.stage import Stage
    >>> spec = TransformSpec(name="scores", input_uri="rows", content_type="text/csv", output_path="scores")
    >>> transform(spec, [Stage(factory="mine:Model")], PathStore(), work_dir=Path("jobs")).status  # doctest: +SKIP
    'Completed'
    """
    check_stages(stages)
    files = JobFiles(Path(work_dir) / spec.name)
    with full_disk_as_failure(Path(work_dir)):
        return _run(files, spec, stages, store, on_line, stop or threading.Event(), resume=resume, shows=progress)


def _run(
    files: JobFiles,
    spec: TransformSpec,
    stages: Sequence[Stage],
    store: Store,
    on_line: Callable[[str], None],
    stop: threading.Event,
    *,
    resume: bool,
    shows: bool,
) -> TransformRecord:
    _claim(files, resume=resume)
    with files.lock.open("w") as held:
        if not lock(held.fileno()):
            raise ValueError(f"the transform job {spec.name!r} is running")
        _settings(files, spec, stages)
        files.stop.unlink(missing_ok=True)
        record = TransformRecord.create(files, spec)
        with TransformLog(files, on_line) as log:
            return TransformRun(spec, stages, store, record, log, stop, shows=shows).run()


def read_transform(work_dir: Path, name: str) -> TransformRecord:
    """What is known of a job, also from another process.

    Raises:
        ValueError: There is no such job.
    """
    return read_named(TransformRecord.read, work_dir, name, "transform")


def request_stop_transform(work_dir: Path, name: str) -> None:
    """Ask a job to stop, whichever process runs it. Does nothing to one that has ended.

    Raises:
        ValueError: There is no such job.
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
                f"there is a transform job {name!r} already: job names are unique; resume=True goes on with it"
            ) from None


def _settings(files: JobFiles, spec: TransformSpec, stages: Sequence[Stage]) -> None:
    """Keep what the job is; one that goes on must be the same.

    Raises:
        ValueError: It is not.
    """
    path = files.folder / "settings.json"
    settings = {"spec": spec.to_json(), "stages": [stage.to_json() for stage in stages]}
    plain = json.loads(json.dumps(settings))
    if path.exists():
        before = json.loads(path.read_text(encoding="utf-8"))
        if before != plain:
            names = [name for name in plain["spec"] if plain["spec"][name] != before["spec"].get(name)]
            found = ", ".join(names) or "the containers"
            raise ValueError(
                f"the transform job {spec.name!r} was begun with other settings ({found}): give it another name"
            )
    write_atomic(path, json.dumps(plain, indent=1).encode(), durable=False)
