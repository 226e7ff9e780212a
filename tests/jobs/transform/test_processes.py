"""Containers in separate processes: timeouts, crashes, environment, concurrency."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.jobs.transform.conftest import CONTAINERS, sample

from headrace.hosting.stage import script_stage
from headrace.hosting.workers.frames import FrameReceiver
from headrace.jobs.transform import invoke
from headrace.jobs.transform.running import read_transform

LINES = {"split_type": "Line", "assemble_with": "Line"}
PATIENCE_S = 120


def wait(condition):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("kind", ["status 503", "429", "die"])
def test_a_failure_in_passing_is_got_over(jobs, tmp_path, kind):
    jobs.put(a=f"{kind}\n")
    jobs.run(sample("Flaky", folder=str(tmp_path), times=2), **LINES)
    assert jobs.out() == f"{kind}\n".encode()


def test_a_call_that_takes_too_long_is_ended_and_repeated(jobs, tmp_path):
    jobs.put(a="hang\n")
    jobs.run(sample("Flaky", folder=str(tmp_path), times=1), invocations_timeout_s=1, **LINES)
    assert jobs.out("a") == b"hang\n"


def test_a_call_that_takes_too_long_again_and_again_fails_its_file(jobs, tmp_path):
    jobs.put(a="hang\n")
    hanging = sample("Flaky", folder=str(tmp_path), times=9)
    reason = jobs.fail(hanging, invocations_timeout_s=1, invocations_max_retries=1, **LINES)
    assert (
        reason == "AlgorithmError: a: 504: no answer came within 1 s (invocations_timeout_s) - at record 0, byte 0x0."
    )
    assert int((tmp_path / "hang").read_text()) <= 2


def test_of_a_pipeline_the_container_is_named(jobs, tmp_path, monkeypatch):
    stages = [sample("Echo"), sample("Flaky", folder=str(tmp_path), times=9)]
    given = {"invocations_max_retries": 0, **LINES}
    jobs.put(a="die\n")
    reason = jobs.fail(None, stages=stages, **given)
    assert "was killed by SIGKILL while it had this request (from container-2)" in reason

    class TimesOut(FrameReceiver):
        """Times out as soon as the second container has the request."""

        is_loaded = False

        def receive(self, awake_s=0.0):
            if not self.is_loaded:
                self.is_loaded = True
                return super().receive(awake_s)
            wait((tmp_path / "hang").exists)
            raise TimeoutError

    monkeypatch.setattr(invoke, "FrameReceiver", TimesOut)
    jobs.put(a="hang\n")
    reason = jobs.fail(None, stages=stages, name="slow", **given)
    assert "504: no answer came within 600 s (invocations_timeout_s) (from container-2)" in reason


def test_a_record_that_kills_the_process_fails_its_file_only(jobs):
    jobs.put(a="1\ndie\n3\n", b="1\n2\n")
    reason = jobs.fail("Together", strategy="SingleRecord", invocations_max_retries=0, **LINES)
    assert (
        "a: 503: the process of the container was killed by SIGKILL while it had this request - at record 1, byte 0x2."
        in reason
    )
    assert jobs.out("a") is None
    assert len(jobs.out("b").splitlines()) == 2


def test_payloads_are_answered_together_where_the_container_can(jobs):
    jobs.put(a="1\n2\n3\n", b="bad\n", c="1\n2\n")
    reason = jobs.fail("Together", strategy="SingleRecord", **LINES)
    assert reason == "ClientError: 1 of 3 files failed; the first: b: 400: bad - at record 0, byte 0x0."
    assert jobs.out("a") == jobs.out("a").splitlines(keepends=True)[0] * 3
    assert int(jobs.out("a").splitlines()[0]) > 1


def test_containers_see_the_settings_that_were_made(jobs):
    jobs.put(a="{}")
    jobs.run("Environment", environment={"OWN": "x", "SAGEMAKER_BATCH": "no"}, content_type=None)
    reported = json.loads(jobs.out())
    assert reported["content_type"] == "application/json"
    assert reported["accept"] == "*/*"
    assert reported["variables"] == {"OWN": "x", "SAGEMAKER_BATCH": "true"}
    options = {"max_payload_mb": 2, "strategy": "MultiRecord", "max_concurrent_transforms": 3, "accept": "a/b", **LINES}
    jobs.run("Environment", name="second", **options)
    reported = json.loads(jobs.out())
    assert reported["accept"] == "a/b"
    assert reported["variables"] == {
        "SAGEMAKER_BATCH": "true",
        "SAGEMAKER_BATCH_STRATEGY": "MULTI_RECORD",
        "SAGEMAKER_MAX_CONCURRENT_TRANSFORMS": "3",
        "SAGEMAKER_MAX_PAYLOAD_IN_MB": "2",
    }
    assert not any(name.startswith("SAGEMAKER_BATCH") for name in os.environ)


def test_the_environment_of_the_job_comes_before_that_of_the_container(jobs):
    jobs.put(a="{}")
    stage = sample("Environment")
    object.__setattr__(stage, "environment", {"OWN": "container", "OWN2": "y"})
    jobs.run(stage, environment={"OWN": "job"})
    assert json.loads(jobs.out())["variables"] == {"OWN": "job", "OWN2": "y", "SAGEMAKER_BATCH": "true"}


def test_the_job_overrides_the_execution_parameters_of_the_container(jobs):
    jobs.put(a="12345\n" * 1000)
    wish = sample("Parameters", MaxConcurrentTransforms=2, BatchStrategy="SINGLE_RECORD", MaxPayloadInMB=1)
    record = jobs.run(wish, **LINES)
    assert "MaxConcurrentTransforms=2, MaxPayloadInMB=1, BatchStrategy=SINGLE_RECORD" in jobs.lines[0]
    assert jobs.out() == b"6\n" * 1000
    assert {name: record.content[name] for name in ("MaxConcurrentTransforms", "MaxPayloadInMB", "BatchStrategy")} == {
        "MaxConcurrentTransforms": 2, "MaxPayloadInMB": 1, "BatchStrategy": "SingleRecord"}  # fmt: skip
    jobs.run(wish, name="second", strategy="MultiRecord", max_payload_mb=0, max_concurrent_transforms=1, **LINES)
    assert jobs.out() == b"6000\n"


@pytest.mark.parametrize(
    "parameters", [{"BatchStrategy": "Multi"}, {"MaxPayloadInMB": "6"}, {"MaxConcurrentTransforms": -1}]
)
def test_invalid_parameters_are_reported(jobs, parameters):
    jobs.put(a="1\n")
    assert jobs.fail(sample("Parameters", **parameters)).startswith(
        "AlgorithmError: /execution-parameters must be like"
    )


def test_parameters_that_fail_are_reported(jobs):
    jobs.put(a="1\n")
    assert jobs.fail("FaultyParameters") == "AlgorithmError: /execution-parameters: KeyError: 'missing'"


def test_requests_are_answered_at_a_time_and_answers_stay_in_order(jobs, tmp_path):
    jobs.put(a="".join(f"wait {n}\n" for n in range(4)) + "5\n")
    opened = threading.Thread(target=lambda: (wait(lambda: _asked(tmp_path) >= 3), (tmp_path / "open").touch()))
    opened.start()  # it would never be released if requests were answered singly
    jobs.run(sample("Gate", folder=str(tmp_path)), strategy="SingleRecord", max_concurrent_transforms=3, **LINES)
    opened.join()
    assert jobs.out() == b"wait 0\nwait 1\nwait 2\nwait 3\n5\n"


def _asked(folder):
    return len((folder / "asked").read_bytes().splitlines()) if (folder / "asked").exists() else 0


def test_container_output_is_in_the_log(jobs):
    jobs.put(a="12345\n")
    jobs.run("Prints")
    assert "container | seen 6 bytes" in jobs.lines
    assert "seen 6 bytes\n" in (jobs.work_dir / "job" / "logs" / "container.log").read_text()
    pid = int(jobs.out())
    assert pid != os.getpid()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_two_jobs_at_once_do_not_disturb_each_other(jobs, tmp_path):
    jobs.put(**{f"{n}": f"{n}\n" * 50 for n in range(5)})
    with ThreadPoolExecutor(2) as threads:
        options = [
            {"name": f"job{n}", "output_path": f"s3://out/{n}", "environment": {"OWN": str(n)}} for n in range(2)
        ]
        futures = [threads.submit(jobs.run, "Strict", **LINES, **one) for one in options]
        assert [future.result().status for future in futures] == ["Completed", "Completed"]
    for job in range(2):
        for n in range(5):
            assert jobs.store.resolve(f"s3://out/{job}/{n}.out").read_text() == f"{2 * n}\n" * 50


def _program(folder, store, *, name="job"):
    """A job in a separate process that waits at a record of the second object."""
    return textwrap.dedent(f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parents[3])!r})
        from pathlib import Path
        from tests.jobs.conftest import Buckets
        from headrace.hosting.stage import Stage
        from headrace.jobs.transform.running import transform
        from headrace.jobs.transform.spec import TransformSpec
        stage = Stage(factory="transform_containers:Gate", arguments={{"folder": {str(folder)!r}}}, path=({str(CONTAINERS)!r},))
        spec = TransformSpec(name={name!r}, input_uri="s3://in/data/", output_path="s3://out/", content_type="text/csv",
                             split_type="Line", assemble_with="Line", strategy="SingleRecord")
        transform(spec, [stage], Buckets(Path({str(store.root)!r})), work_dir=Path({str(folder / "jobs")!r}), resume=True)
    """)


def _is_gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def _children(pid):
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(path.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_killed_job_resumes(jobs, tmp_path):
    jobs.put(a="1\n2\n", b="3\nwait\n5\n", c="6\n")
    process = subprocess.Popen([sys.executable, "-c", _program(tmp_path, jobs.store)])
    wait(lambda: _asked(tmp_path) == 4)  # b is half through
    wait(lambda: len(read_transform(jobs.work_dir, "job").files()) == 1)  # a is done and recorded
    workers = _children(process.pid)
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait(lambda: all(map(_is_gone, workers)))
    assert workers
    assert (jobs.out("a"), jobs.out("b"), jobs.out("c")) == (b"1\n2\n", None, None)
    record = read_transform(jobs.work_dir, "job")
    assert record.status == "Failed"
    assert "the process that ran this job ended" in record.failure_reason
    before = jobs.store.resolve("s3://out/a.out").stat()
    (tmp_path / "open").touch()
    options = {"strategy": "SingleRecord", "resume": True, **LINES}
    record = jobs.run(sample("Gate", folder=str(tmp_path)), **options)
    assert record.status == "Completed"
    assert record.content["Files"] == {"Total": 3, "Completed": 3, "Failed": 0}
    assert (jobs.out("a"), jobs.out("b"), jobs.out("c")) == (b"1\n2\n", b"3\nwait\n5\n", b"6\n")
    after = jobs.store.resolve("s3://out/a.out").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert (tmp_path / "asked").read_bytes() == b"1\n2\n3\nwait\n3\nwait\n5\n6\n"  # b was restarted
    assert any("1 of 3 files exist already" in line for line in jobs.lines)


def test_a_job_that_runs_cannot_be_resumed(jobs, tmp_path):
    jobs.put(a="wait\n")
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(jobs.run, sample("Gate", folder=str(tmp_path)))
        wait(lambda: _asked(tmp_path))
        with pytest.raises(ValueError, match="is running"):
            jobs.run(sample("Gate", folder=str(tmp_path)), resume=True)
        assert read_transform(jobs.work_dir, "job").status == "InProgress"
        (tmp_path / "open").touch()
        assert running.result().status == "Completed"


def test_failed_or_changed_objects_are_sent_again(jobs, tmp_path):
    jobs.put(a="1\n", b="x\n", c="3\n")
    jobs.fail("Strict", **LINES)
    jobs.put(b="2\n", c="4\n")
    jobs.store.resolve("s3://out/a.out").write_text("other\n")
    record = jobs.run("Strict", resume=True, **LINES)
    assert record.content["Files"] == {"Total": 3, "Completed": 3, "Failed": 0}
    assert "FailureReason" not in record.content
    assert [jobs.out(name) for name in "abc"] == [b"2\n", b"4\n", b"8\n"]
    lines = len(jobs.lines)
    assert jobs.run("Broken", stages=[sample("Strict")], resume=True, **LINES).status == "Completed"
    assert len(jobs.lines) == lines + 1  # nothing was left to do


FACTOR = """
def model_fn(model_dir):
    from helping import read
    return read(model_dir)
def transform_fn(model, data, content_type, accept):
    return "".join(f"{model * float(line)}\\n" for line in data.split()), accept
"""


@pytest.mark.parametrize("changed", ["model/factor", "code/serve.py", "code/helping.py"])
@pytest.mark.parametrize("has_answers", [True, False])
def test_answers_of_two_versions_are_not_mixed(jobs, tmp_path, changed, has_answers):
    for name, text in {"model/factor": "2", "code/serve.py": FACTOR, "code/helping.py": "def read(d): return float(open(d + '/factor').read())"}.items():  # fmt: skip
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    stage = script_stage(tmp_path / "model", entry_point="serve.py", source_dir=tmp_path / "code")
    jobs.put(a="1\n" if has_answers else "x\n", b="x\n")
    jobs.fail(stage, **LINES)
    jobs.put(a="1\n", b="2\n")
    text = (tmp_path / changed).read_text()
    (tmp_path / changed).write_text({"model/factor": "10"}.get(changed, text.replace("float(", "5 * float(")))
    if has_answers:
        with pytest.raises(
            ValueError, match="1 of its objects have answers of the old version.*another name; .* restore"
        ):
            jobs.run(stage, resume=True, **LINES)
        (tmp_path / changed).write_text(text)
    jobs.run(stage, resume=True, **LINES)
    factor = 2 if has_answers else 10
    assert [jobs.out(name) for name in "ab"] == [f"{factor}.0\n".encode(), f"{2 * factor}.0\n".encode()]


def test_a_job_is_resumed_with_its_settings_only(jobs):
    jobs.put(a="1\n")
    jobs.run("Strict", **LINES)
    with pytest.raises(
        ValueError, match=r"started with other settings \(accept, max_payload_mb\): give this one another name"
    ):
        jobs.run("Strict", resume=True, accept="text/csv", max_payload_mb=1, **LINES)
    with pytest.raises(ValueError, match=r"started with other settings \(the containers\)"):
        jobs.run("Echo", resume=True, **LINES)
    assert read_transform(jobs.work_dir, "job").status == "Completed"
