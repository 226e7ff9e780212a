"""Batch transform where a disk is full: a clear error, no incomplete answers, and a job that can go on later."""

from __future__ import annotations

import errno
import os
import subprocess
import sys

import pytest
from tests.io.injected_faults import Faults
from tests.jobs.transform.conftest import Jobs

from headrace.contracts.serving import Response
from headrace.errors import JobFailed
from headrace.jobs.transform import run
from headrace.jobs.transform.running import read_transform

LINES = {"split_type": "Line", "assemble_with": "Line"}
FILES = {name: f"{name}1\n{name}2\n" for name in "abc"}


class EchoProcess:
    """In place of a container process: answers with what it was sent."""

    loaded = {"ready": True}  # noqa: RUF012

    def __init__(self, stages, variables, output):
        os.write(output, b"loaded\n")

    def load(self):
        pass

    def invoke(self, requests, timeout_s):
        return [Response(body=request.body, content_type="text/csv") for request in requests]

    def interrupt(self):
        pass

    def close(self):
        pass


@pytest.fixture
def echo(monkeypatch):
    """Jobs without processes."""
    monkeypatch.setattr(run, "ContainerProcess", EchoProcess)


@pytest.fixture
def small_disk(tmp_path):
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=32k", "none", str(place)]
    if sys.platform != "linux" or os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small disk can only be mounted by root")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def finished(jobs):
    return {name for name in FILES if jobs.out(name) is not None}


def test_answers_on_a_full_disk(jobs, echo, small_disk):
    jobs.put(a="1\n", b="2\n" * 20_000, c="3\n")
    out = jobs.store.resolve("s3://out")
    out.symlink_to(small_disk, target_is_directory=True)
    with pytest.raises(JobFailed) as caught:
        jobs.run("Echo", **LINES)
    reason = str(caught.value)
    assert reason.startswith(f"ClientError: the disk is full: {out}/b.out could not be written")
    assert (jobs.out("a"), jobs.out("b"), jobs.out("c")) == (b"1\n", None, None)
    assert [path.name for path in small_disk.iterdir()] == ["a.out"]
    assert read_transform(jobs.work_dir, "job").failure_reason == reason
    subprocess.run(["mount", "-o", "remount,size=1m", str(small_disk)], check=True)
    assert jobs.run("Echo", resume=True, **LINES).status == "Completed"
    assert jobs.out("b") == b"2\n" * 20_000


def test_the_folder_of_jobs_on_a_full_disk(store, echo, small_disk):
    jobs = Jobs(store, small_disk / "jobs")
    (small_disk / "filler").write_bytes(bytes(20_000))
    jobs.put(**{f"{number:04}": f"{number}\n" for number in range(200)})  # a line of the journal for each
    with pytest.raises(JobFailed, match="ClientError: the disk is full"):
        jobs.run("Echo", **LINES)
    subprocess.run(["mount", "-o", "remount,size=1m", str(small_disk)], check=True)
    record = jobs.run("Echo", resume=True, **LINES)
    assert all(jobs.out(f"{number:04}") == f"{number}\n".encode() for number in range(200))
    assert [one.status for one in record.files()] == ["Completed"] * 200


@pytest.mark.parametrize("kind", ["write", "open", "mkdir", "replace", "close", "fsync"])
def test_each_call_that_writes_fails_once(tmp_path, store, echo, kind):
    """The job completes, or fails with a reason; a later run of the same job completes it."""
    (store.root / "out").mkdir(parents=True)
    faults = Faults(tmp_path / "jobs", store.root / "out")
    Jobs(store, tmp_path / "jobs").put(**FILES)
    with faults.counting():
        Jobs(store, tmp_path / "jobs").run("Echo", name="counted", **LINES)
    count = faults.counts[kind]
    assert count
    for number in range(count):
        jobs = Jobs(store, tmp_path / "jobs")
        name = f"job-{number}"
        for path in (store.root / "out").iterdir():
            path.unlink()
        with faults.failing(kind, number, errno.ENOSPC):
            try:
                status = jobs.run("Echo", name=name, **LINES).status
            except JobFailed as error:
                assert "the disk is full" in str(error), (kind, number, faults.fired)
            else:
                assert status == "Completed"
                assert finished(jobs) == set(FILES), (kind, number, faults.fired)
        for found in finished(jobs):
            assert jobs.out(found) == FILES[found].encode()
        assert jobs.run("Echo", name=name, resume=True, **LINES).status == "Completed"
        assert finished(jobs) == set(FILES)
