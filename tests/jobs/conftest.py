"""A store of buckets in a folder, and its jobs."""

from __future__ import annotations

import tarfile
import textwrap
from pathlib import Path

import pytest

from headrace.containers.script import ScriptContainer
from headrace.contracts.job import Channel
from headrace.jobs.spec import TrainingSpec
from headrace.jobs.store import objects_below
from headrace.jobs.training import train


class Buckets:
    """``s3://bucket/key`` as a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def resolve(self, uri):
        if not uri.startswith("s3://"):
            raise ValueError(uri)
        return self.root / uri[5:]

    def objects(self, uri):
        return objects_below(self.resolve(uri), uri, ends_in_slash=uri.endswith("/"))

    def put(self, uri, content):
        path = self.resolve(uri)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return uri


@pytest.fixture
def store(tmp_path):
    return Buckets(tmp_path / "s3")


@pytest.fixture
def script(tmp_path):
    """A container of a script."""

    def make(text, name="train.py", **options):
        path = tmp_path / "code" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return ScriptContainer(entry_point=path, **options)

    return make


@pytest.fixture
def run(tmp_path, store):
    """Run a job and return its record. ``run.lines`` has the log."""
    lines = []

    def start(
        container,
        *,
        name="job",
        channels=None,
        on_line=lines.append,
        stop=None,
        stop_grace_s=120,
        keep_tree=False,
        **options,
    ):
        channels = {n: Channel(uri=c) if isinstance(c, str) else c for n, c in (channels or {}).items()}
        spec = TrainingSpec(name=name, channels=channels, **{"output_path": "s3://out/models", **options})
        return train(
            spec,
            container,
            store,
            work_dir=tmp_path / "jobs",
            on_line=on_line,
            stop=stop,
            stop_grace_s=stop_grace_s,
            keep_tree=keep_tree,
        )

    start.lines = lines
    start.work_dir = tmp_path / "jobs"
    return start


@pytest.fixture
def model(store):
    """The files in a job's artifact."""

    def read(record):
        with tarfile.open(store.resolve(record.model_uri)) as archive:
            return {one.name: archive.extractfile(one).read() for one in archive.getmembers()}

    return read
