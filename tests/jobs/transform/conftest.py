"""Transform jobs on a store of buckets."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from headrace.errors import JobFailed
from headrace.hosting.stage import Stage
from headrace.jobs.transform.running import read_transform, transform
from headrace.jobs.transform.spec import TransformSpec

CONTAINERS = Path(__file__).parent / "containers"


def sample(factory, **arguments):
    """One of the containers of the tests."""
    return Stage(factory=f"transform_containers:{factory}", arguments=arguments, path=(str(CONTAINERS),))


class Jobs:
    """Runs jobs over ``s3://in/data/``, with answers in ``s3://out``."""

    def __init__(self, store, folder):
        self.store = store
        self.work_dir = folder
        self.lines = []

    def spec(self, **options):
        given = {"name": "job", "input_uri": "s3://in/data/", "output_path": "s3://out/", "content_type": "text/csv"}
        return TransformSpec(**{**given, **options})

    def run(self, container, *, stages=None, resume=False, stop=None, **options):
        return transform(
            self.spec(**options),
            stages or [container if isinstance(container, Stage) else sample(container)],
            self.store,
            work_dir=self.work_dir,
            on_line=self.lines.append,
            resume=resume,
            stop=stop,
        )

    def fail(self, container, **options):
        """The reason of a job that fails."""
        with pytest.raises(JobFailed) as caught:
            self.run(container, **options)
        record = read_transform(self.work_dir, options.get("name", "job"))
        assert record.status == "Failed"
        assert record.failure_reason == str(caught.value)
        return str(caught.value)

    def put(self, **files):
        for name, content in files.items():
            self.store.put(f"s3://in/data/{name}", content)

    def out(self, name="a"):
        """The answers for an object; ``None`` if there are none."""
        with contextlib.suppress(FileNotFoundError):
            return self.store.resolve(f"s3://out/{name}.out").read_bytes()
        return None


@pytest.fixture
def jobs(store, tmp_path):
    return Jobs(store, tmp_path / "jobs")
