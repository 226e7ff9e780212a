"""From records to their stored answers."""

from __future__ import annotations

import threading

import pytest

from headrace.contracts.serving import Response
from headrace.errors import RequestError
from headrace.hosting.failures import ContainerError
from headrace.jobs.transform import invoke as module
from headrace.jobs.transform.invoke import Failure, Invoker, ProcessDied
from headrace.jobs.transform.payloads import payloads_of
from headrace.jobs.transform.spec import TransformSpec


class Process:
    """Answers by a function of the body, and records requests."""

    def __init__(self, answer):
        self.answer = answer
        self.asked = []

    def invoke(self, requests, timeout_s):
        assert timeout_s == 7
        self.asked.append([request.body for request in requests])
        self.requests = requests
        answers = [self.answer(request.body) for request in requests]
        return [Response(body=one, content_type="text/csv") if isinstance(one, bytes) else one for one in answers]


@pytest.fixture
def ask(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 0)

    def make(answer, content="1\n2\n3\n", *, single=True, limit=0, stop=None, **options):
        given = {"name": "a", "input_uri": "a", "output_path": "b", "content_type": "text/csv", "split_type": "Line"}
        spec = TransformSpec(**{**given, "invocations_timeout_s": 7, **options})
        path = tmp_path / "object"
        path.write_bytes(content.encode())
        process = Process(answer)
        asking = Invoker(spec, process, limit, stop or threading.Event())
        payloads = list(payloads_of(path, split=spec.split, is_gzip=False, limit=limit, is_single=single))
        return asking.outputs(payloads), process

    return make


def refused(status, reason="no", container=None):
    return RequestError(status, reason, container=container)


def test_payloads_are_asked_together(ask):
    outputs, process = ask(lambda body: body * 2)
    assert outputs == [b"1\n1\n", b"2\n2\n", b"3\n3\n"]
    assert process.asked == [[b"1\n", b"2\n", b"3\n"]]


def test_requests_say_what_was_set(ask):
    _, process = ask(lambda body: body, content_type="text/csv; label_size=0", accept="text/csv")
    assert (process.requests[0].content_type, process.requests[0].accept) == ("text/csv; label_size=0", "text/csv")
    _, process = ask(lambda body: body, content_type=None)
    assert (process.requests[0].content_type, process.requests[0].accept) == ("application/json", "*/*")


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_transient_errors_are_retried(ask, status):
    left = {b"2\n": 3}

    def answer(body):
        left[body] = left.get(body, 0) - 1
        return refused(status) if left[body] >= 0 else body

    outputs, process = ask(answer, content="2\n")
    assert outputs == [b"2\n"]
    assert len(process.asked) == 4


@pytest.mark.parametrize(("status", "times"), [(400, 1), (404, 1), (415, 1), (413, 1), (500, 4), (503, 4)])
@pytest.mark.parametrize("is_answer", [False, True])
def test_permanent_errors_fail(ask, status, times, is_answer):
    def answer(_):
        return Response(body=b"no", content_type="text/plain", status=status) if is_answer else refused(status)

    (output,), process = ask(answer, content="2\n")
    kind = "ClientError" if status < 500 else "AlgorithmError"
    assert output == Failure(f"{kind}: {status}", "no", "record 0, byte 0x0")
    assert output.line == f"{kind}: {status}: no - at record 0, byte 0x0."
    assert len(process.asked) == times


@pytest.mark.parametrize("retries", [0, 1, 2])
def test_so_often_as_was_set(ask, retries):
    _, process = ask(lambda _: refused(503), content="2\n", invocations_max_retries=retries)
    assert len(process.asked) == 1 + retries


def test_nothing_is_asked_again_when_the_job_stops(ask):
    stop = threading.Event()
    stop.set()
    _, process = ask(lambda _: refused(503), content="2\n", stop=stop)
    assert len(process.asked) == 1


def test_an_exception_is_a_500(ask):
    (output,), _ = ask(
        lambda _: ContainerError("KeyError", "'x'", container="container-2"), content="2\n", invocations_max_retries=0
    )
    assert output == Failure("AlgorithmError: 500", "KeyError: 'x' (from container-2)", "record 0, byte 0x0")


def test_a_record_that_ends_the_process_is_found_among_others(ask):
    state = {"together": True}

    def answer(body):
        together, state["together"] = state["together"], body != b"3\n" and state["together"]
        return refused(503, "killed") if together or body == b"2\n" else body

    outputs, _ = ask(answer, invocations_max_retries=0)
    assert [type(one) for one in outputs] == [bytes, Failure, bytes]
    assert outputs[1].place == "record 1, byte 0x2"


@pytest.mark.parametrize("bad", [0, 1, 50, 99])
def test_the_record_that_is_refused_is_found(ask, bad):
    def answer(body):
        return refused(400, "bad") if f"{bad}\n".encode() in body.splitlines(keepends=True) else body

    content = "".join(f"{n}\n" for n in range(100))
    (output,), process = ask(answer, content, single=False)
    assert output == Failure(
        "ClientError: 400",
        "bad",
        f"record {bad}, byte {content.index(f'{bad}' + chr(10)):#x}" if bad else "record 0, byte 0x0",
    )
    assert len(process.asked) <= 1 + 2 * 7


def test_the_record_that_kills_the_process_is_found(ask):
    content = "".join(f"{n}\n" for n in range(100))
    died = ProcessDied(503, "killed")
    given = {"single": False, "invocations_max_retries": 0}
    (output,), _ = ask(lambda body: died if b"77\n" in body else body, content, **given)
    assert output.place == f"record 77, byte {content.index('77'):#x}"
    # Where the model does not load again, no record is to blame.
    left = [died]
    (output,), _ = ask(lambda _: left.pop() if left else refused(503, "the model does not load"), content, **given)
    assert output.place == f"records 0 to 99, bytes 0x0 to {content.rindex('99'):#x}"


def test_of_several_it_is_the_first(ask):
    (output,), _ = ask(lambda body: refused(400) if b"b" in body else body, "1\n2\nb\n4\nb\n", single=False)
    assert output.place == "record 2, byte 0x4"


def test_a_failure_of_no_single_record_names_all(ask):
    (output,), _ = ask(lambda body: refused(400) if len(body) > 4 else body, "1\n2\n3\n4\n", single=False)
    assert output.place == "records 0 to 3, bytes 0x0 to 0x6"


def test_no_record_is_blamed_for_a_shared_failure(ask):
    (output,), process = ask(lambda _: refused(503), "1\n2\n", single=False, invocations_max_retries=0)
    assert output.place == "records 0 to 1, bytes 0x0 to 0x2"
    assert len(process.asked) == 1


def test_a_whole_object_has_no_records(ask):
    (output,), _ = ask(lambda _: refused(400), "1\n2\n", single=False, split_type="None")
    assert output == Failure("ClientError: 400", "no")
    (output,), _ = ask(lambda body: body, "1,2\n3\n", single=False, split_type="None", input_filter="$[1]")
    assert output.place == "record 1"


def test_a_record_that_the_filter_refuses_is_not_sent(ask):
    outputs, process = ask(lambda body: body, "1,2\n3\n5,6\n", input_filter="$[1]")
    assert outputs[::2] == [b"2\n", b"6\n"]
    assert outputs[1] == Failure(
        "ClientError", "input_filter '$[1]': expected an element at position 1, found 1 element", "record 1, byte 0x4"
    )
    assert process.asked == [[b"2\n", b"6\n"]]


def test_a_filter_may_not_make_a_request_too_large(ask):
    (output,), process = ask(lambda body: body, "123456\n", limit=10, input_filter="$[0,0,0]")
    assert "max_payload_mb" in output.reason
    assert output.place == "record 0, byte 0x0"
    assert process.asked == []
