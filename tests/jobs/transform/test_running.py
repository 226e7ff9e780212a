"""Whole transform jobs."""

from __future__ import annotations

import gzip
import json
import struct
import threading

import pytest
from tests.jobs.transform.conftest import sample

from headrace.hosting.stage import Stage
from headrace.jobs.store import PathStore
from headrace.jobs.transform.running import read_transform, request_stop_transform, transform

LINES = {"split_type": "Line", "assemble_with": "Line"}


def test_each_object_gets_its_answers_under_the_same_path(jobs):
    jobs.put(**{"a.csv": "1\n2\n", "deep/er/b.csv": "3\n"})
    record = jobs.run("Strict")
    assert (jobs.out("a.csv"), jobs.out("deep/er/b.csv")) == (b"2\n4\n", b"6\n")
    assert record.status == "Completed"
    assert record.content["Files"] == {"Total": 2, "Completed": 2, "Failed": 0}
    assert [(one.input, one.output, one.records) for one in record.files()] == [
        ("s3://in/data/a.csv", "s3://out/a.csv.out", 1),
        ("s3://in/data/deep/er/b.csv", "s3://out/deep/er/b.csv.out", 1),
    ]


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("s3://in/data/sub/a.csv", "a.csv"),
        ("s3://in/data/su", "sub/a.csv"),
    ],
)
def test_a_path_is_mirrored_below_the_folder_of_the_prefix(jobs, uri, name):
    jobs.put(**{"sub/a.csv": "1\n"})
    jobs.run("Strict", input_uri=uri)
    assert jobs.out(name) == b"2\n"


def test_objects_of_a_manifest_are_taken(jobs):
    jobs.put(**{"x/a": "1\n", "x/b": "2\n", "x/c": "3\n"})
    jobs.store.put("s3://in/list", json.dumps([{"prefix": "s3://in/data/"}, "x/a", "x/c"]))
    jobs.run("Strict", input_uri="s3://in/list", data_type="ManifestFile")
    assert [jobs.out(f"x/{name}") for name in "abc"] == [b"2\n", None, b"6\n"]


def test_answers_of_names_with_escapes_stay_apart(jobs, tmp_path):
    names = ["A.csv", "%41.csv", "at=00%3A00?.csv"]
    for name in names:
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / name).write_text(name)
    jobs.store = PathStore()
    record = jobs.run("Echo", input_uri=f"file://{tmp_path}/in", output_path=f"file://{tmp_path}/out")
    assert {one.name: one.read_text() for one in (tmp_path / "out").iterdir()} == {
        f"{name}.out": name for name in names
    }
    assert {jobs.store.resolve(one.output).name for one in record.files()} == {f"{name}.out" for name in names}


def test_an_empty_object_among_gzip_files_has_an_empty_answer(jobs):
    jobs.put(**{"_SUCCESS": "", "a.csv.gz": gzip.compress(b"1\n")})
    jobs.run("Strict", compression="Gzip", **LINES)
    assert (jobs.out("_SUCCESS"), jobs.out("a.csv.gz")) == (b"", b"2\n")


def test_a_file_in_the_place_of_the_folder_of_answers_is_reported_first(jobs):
    jobs.put(a="1\n")
    path = jobs.store.resolve(jobs.store.put("s3://out", "x"))
    reason = jobs.fail(Stage(factory="none:None"))
    assert reason.startswith(f"ClientError: output_path s3://out/ must be a folder, or a new one, but {path} is a file")


def test_answers_that_would_replace_objects_of_the_input_are_refused(jobs):
    jobs.put(**{"a.csv": "1\n", "a.csv.out": "5\n"})
    reason = jobs.fail("Strict", output_path="s3://in/data")
    assert "the answers to s3://in/data/a.csv would replace s3://in/data/a.csv.out" in reason
    assert jobs.store.resolve("s3://in/data/a.csv.out").read_text() == "5\n"
    assert not jobs.store.resolve("s3://in/data/a.csv.out.out").exists()


def test_a_resumed_job_takes_its_own_answers_for_no_objects(jobs):
    jobs.put(**{"a.csv": "1\n"})
    jobs.run("Strict", output_path="s3://in/data")
    jobs.put(**{"b.csv": "2\n"})
    record = jobs.run("Strict", output_path="s3://in/data", resume=True)
    assert record.content["Files"] == {"Total": 2, "Completed": 2, "Failed": 0}
    assert not jobs.store.resolve("s3://in/data/a.csv.out.out").exists()


def test_links_to_one_file_are_objects_of_their_own(jobs):
    jobs.put(**{"a.csv": "1\n"})
    file = jobs.store.resolve("s3://in/data/a.csv")
    (file.parent / "b.csv").symlink_to(file)
    jobs.run("Strict")
    assert (jobs.out("a.csv"), jobs.out("b.csv")) == (b"2\n", b"2\n")


def test_an_object_that_a_manifest_names_in_vain_fails_the_job(jobs):
    jobs.store.put("s3://in/list", json.dumps([{"prefix": "s3://in/data/"}, "gone"]))
    reason = jobs.fail("Strict", input_uri="s3://in/list", data_type="ManifestFile")
    assert reason == "ClientError: the manifest of the input names s3://in/data/gone, which does not exist"


def test_a_prefix_without_objects_fails_the_job(jobs):
    assert jobs.fail("Echo") == "ClientError: Data download failed: the input has no objects under s3://in/data/"


def test_gzip_is_inflated(jobs):
    jobs.put(a=gzip.compress(b"1\n2\n") + gzip.compress(b"3"))
    jobs.run("Strict", compression="Gzip", **LINES)
    assert jobs.out() == b"2\n4\n6\n"


def test_nothing_is_sent_of_an_empty_object(jobs):
    jobs.put(a="", b="\n\n")
    jobs.run("Together", **LINES)
    assert (jobs.out("a"), jobs.out("b")) == (b"", b"")


def test_a_bad_record_is_named_and_fails_only_its_file(jobs):
    jobs.put(a="1\n2\n", b="".join(f"{n}\n" for n in range(1000)).replace("777\n", "seven\n"), c="5\n")
    reason = jobs.fail("Strict", **LINES)
    assert reason == (
        "ClientError: 1 of 3 files failed; the first: b: 400: no number: 'seven' - at record 777, byte 0xbb6."
    )
    assert (jobs.out("a"), jobs.out("b"), jobs.out("c")) == (b"2\n4\n", None, b"10\n")
    record = read_transform(jobs.work_dir, "job")
    assert [one.status for one in record.files()] == ["Completed", "Failed", "Completed"]
    assert record.files()[1].reason == "ClientError: 400: no number: 'seven' - at record 777, byte 0xbb6."
    reported = [line.partition("]: ")[2] for line in jobs.lines]
    assert reported[1:] == [
        "in/data/b: ClientError: 400",
        "in/data/b: ",
        "in/data/b: Frame:",
        "in/data/b: no number: 'seven'",
        "in/data/b: at record 777, byte 0xbb6",
    ]


def test_an_exception_of_the_container_is_a_500_and_names_the_record(jobs):
    jobs.put(a="1\nx\n")
    reason = jobs.fail(sample("Strict", status=500), invocations_max_retries=0, **LINES)
    assert reason == (
        "AlgorithmError: a: 500: ValueError: could not convert string to float: 'x' - at record 1, byte 0x2."
    )


def test_a_model_that_does_not_load_fails_the_job(jobs):
    jobs.put(a="1\n")
    assert jobs.fail("Broken") == "AlgorithmError: the model does not load: ValueError: the weights are missing"
    assert any("Traceback" in line for line in jobs.lines)


def test_containers_follow_each_other(jobs):
    jobs.put(a="1\n2\n")
    jobs.run(None, stages=[sample("Strict"), sample("Strict")], **LINES)
    assert jobs.out() == b"4\n8\n"


def test_a_container_of_a_pipeline_that_fails_is_named(jobs):
    jobs.put(a="one\n")
    reason = jobs.fail(None, stages=[sample("Echo"), sample("Strict", status=422), sample("Echo")])
    assert reason == "ClientError: a: 422: no number: 'one' (from container-2)"


def test_no_two_jobs_have_one_name(jobs):
    jobs.put(a="1\n")
    jobs.run("Echo")
    with pytest.raises(ValueError, match="names are unique. Choose another name"):
        jobs.run("Echo")


def test_unknown_jobs_are_reported(jobs):
    with pytest.raises(ValueError, match="there is no transform job 'nobody'"):
        read_transform(jobs.work_dir, "nobody")


def test_a_job_stops_when_it_is_asked_to(jobs, tmp_path):
    jobs.put(a="1\n", b="wait\n", c="3\n")
    stop = threading.Event()
    asked = tmp_path / "asked"
    threading.Thread(target=_when, args=(lambda: asked.exists() and b"wait" in asked.read_bytes(), stop.set)).start()
    record = jobs.run(sample("Gate", folder=str(tmp_path)), stop=stop)
    assert record.status == "Stopped"
    assert (jobs.out("a"), jobs.out("b"), jobs.out("c")) == (b"1\n", None, None)


def test_another_process_may_stop_a_job(jobs, tmp_path):
    jobs.put(a="wait\n")
    asked = tmp_path / "asked"
    request = threading.Thread(target=_when, args=(asked.exists, lambda: request_stop_transform(jobs.work_dir, "job")))
    request.start()
    assert jobs.run(sample("Gate", folder=str(tmp_path))).status == "Stopped"
    request.join()
    request_stop_transform(jobs.work_dir, "job")  # does nothing now


def _when(condition, act):
    poll = threading.Event()
    while not condition():
        poll.wait(0.01)
    act()


def test_stages_must_make_an_endpoint(jobs):
    with pytest.raises(ValueError, match="1 to 15 containers"):
        jobs.run(None, stages=[Stage(factory="a:b")] * 16)


def test_a_damaged_object_fails_alone(jobs):
    jobs.put(a=gzip.compress(b"1\n"), b=gzip.compress(b"2\n")[:-4], c=gzip.compress(b"3\n"))
    reason = jobs.fail("Strict", compression="Gzip", **LINES)
    assert reason.startswith("ClientError: 1 of 3 files failed; the first: b: expected the end of the gzip stream")
    assert [jobs.out(name) for name in "abc"] == [b"2\n", None, b"6\n"]


def test_advice_about_damage_names_nothing_that_jobs_lack(jobs):
    jobs.put(a=struct.pack("<IIII", 0xCED7230A, 0, 0xCED7230A, 5) + b"tail")
    reason = jobs.fail("Strict", split_type="RecordIO")
    assert reason.endswith("`headrace verify` lists every fault.")


def test_a_record_that_is_too_large_fails_its_file(jobs):
    jobs.put(a="1" * 1_100_000 + "\n", b="1\n")
    reason = jobs.fail("Strict", max_payload_mb=1, **LINES)
    assert "a: expected a record of at most 1 MB, which is the largest request (max_payload_mb), found" in reason
    assert [jobs.out(name) for name in "ab"] == [None, b"2\n"]


def test_answers_that_cannot_be_written_fail_their_file(jobs):
    jobs.put(**{"a": "1\n", "b/c": "2\n"})
    jobs.store.put("s3://out/b", "a file where a folder is needed")
    reason = jobs.fail("Strict", **LINES)
    assert reason.startswith(
        "InternalServerError: 1 of 2 files failed; the first: b/c: the answers could not be written:"
    )
    assert jobs.out("a") == b"2\n"


def test_the_log_begins_with_what_the_job_is_run_with(jobs):
    jobs.put(a="1,2\n")
    jobs.run("Echo", input_filter="$[0:1]", **LINES)
    assert jobs.lines[0].endswith("]: MaxConcurrentTransforms=1, MaxPayloadInMB=6, BatchStrategy=MULTI_RECORD")
    assert "input_filter $[0:1]: the end of a slice is excluded here" in jobs.lines[1]
    kept = (jobs.work_dir / "job" / "logs" / "data-log.log").read_text().splitlines()
    assert [f"data-log | {line}" for line in kept] == jobs.lines


def test_the_record_describes_the_job(jobs):
    jobs.put(a="1,2\n")
    options = {"join_source": "Input", "accept": "text/csv", "environment": {"A": "b"}, **LINES}
    jobs.run("Echo", **options)
    reported = read_transform(jobs.work_dir, "job").content
    assert reported["TransformJobName"] == "job"
    assert reported["TransformJobStatus"] == "Completed"
    assert reported["TransformInput"] == {
        "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://in/data/"}},
        "ContentType": "text/csv",
        "CompressionType": "None",
        "SplitType": "Line",
    }
    assert reported["TransformOutput"] == {"S3OutputPath": "s3://out/", "Accept": "text/csv", "AssembleWith": "Line"}
    assert reported["DataProcessing"] == {"InputFilter": "$", "OutputFilter": "$", "JoinSource": "Input"}
    assert reported["ModelClientConfig"] == {"InvocationsTimeoutInSeconds": 600, "InvocationsMaxRetries": 3}
    assert reported["Environment"] == {"A": "b"}
    assert reported["CreationTime"] <= reported["TransformStartTime"] <= reported["TransformEndTime"]
    assert jobs.out() == b"1,2,1,2\n"


def test_filters_and_joins_of_a_whole_job(jobs):
    jobs.put(a="id1,4\nid2,5\n")
    options = {"join_source": "Input", "input_filter": "$[1]", "output_filter": "$[0,-1]", "accept": "text/csv"}
    jobs.run("Strict", **options, **LINES)
    assert jobs.out() == b"id1,8\nid2,10\n"


@pytest.mark.parametrize("strategy", ["MultiRecord", "SingleRecord"])
def test_many_payloads_come_together_in_order(jobs, strategy):
    rows = [f"{n}".rjust(1000, "0") for n in range(3000)]
    jobs.put(a="\n".join(rows))
    record = jobs.run("Echo", strategy=strategy, max_payload_mb=1, max_concurrent_transforms=2, **LINES)
    assert jobs.out() == "".join(f"{row}\n" for row in rows).encode()
    assert record.files()[0].records == 3000


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"on": "rays", "workers": 7}, ValueError, "on must be 'processes' or 'ray', got 'rays'"),
        ({"workers": 7, "address": "a:1"}, ValueError, "address and workers: only with on='ray'"),
        ({"on": "ray", "workers": -1}, ValueError, "workers must be at least 1, got -1"),
        ({"on": "ray", "workers": 0}, ValueError, "workers must be at least 1, got 0"),
        ({"on": "ray", "workers": "2"}, TypeError, "workers must be an integer, got '2'"),
        ({"on": "ray", "resources": {"CPU": "1"}}, TypeError, "resources are names and numbers"),
    ],
)
def test_where_a_job_runs(jobs, options, error, message):
    with pytest.raises(error, match=message):
        transform(jobs.spec(), [sample("Echo")], jobs.store, work_dir=jobs.work_dir, **options)
    assert not jobs.work_dir.exists()
