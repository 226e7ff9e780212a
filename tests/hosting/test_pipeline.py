"""Content types from container to container, failure names, intermediate limits, direct mode, batches."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.hosting.containers.sample_containers import Batching, Echo, FailsTogether, Obedient

from headrace.contracts.serving import AnswersMany, Request, Response
from headrace.errors import RequestError
from headrace.hosting.failures import ContainerError
from headrace.hosting.pipeline import PipelineMember, serial_pipeline


def ask(body=b"row", content_type="text/csv", accept="*/*", **headers):
    return Request(body=body, content_type=content_type, accept=accept, headers=headers)


def members(*handlers, defaults=None):
    defaults = defaults or {}
    return [
        PipelineMember(handler=handler, name=f"container-{number}", default_accept=defaults.get(number))
        for number, handler in enumerate(handlers, 1)
    ]


def unfold(answer):
    """The requests of each echo in a chain, in order."""
    reported = []
    body = answer.body
    while body:
        plain = json.loads(body)
        reported.insert(0, plain)
        body = plain["body"].encode() if plain["body"].startswith("{") else b""
    return reported


def test_content_types_hop_by_hop():
    chain = serial_pipeline(members(Echo("a"), Echo("b"), Echo("c")))
    first, second, third = unfold(chain(ask(content_type="text/csv; header=present", accept="text/plain;q=0.5")))
    assert (first["content_type"], first["accept"]) == ("text/csv; header=present", "application/json")
    assert (second["content_type"], second["accept"]) == ("application/json; from=a", "application/json")
    assert (third["content_type"], third["accept"]) == ("application/json; from=b", "text/plain;q=0.5")


def test_the_default_of_each_container_is_its_own():
    chain = serial_pipeline(members(Echo("a"), Echo("b"), Echo("c"), defaults={1: "text/csv", 3: "x/y"}))
    assert [reported["accept"] for reported in unfold(chain(ask()))] == ["text/csv", "application/json", "x/y"]
    assert unfold(chain(ask(accept="text/plain")))[-1]["accept"] == "text/plain"


def test_one_container_is_alone():
    answer = serial_pipeline(members(Echo("a")))(ask(accept="text/plain"))
    assert unfold(answer)[0]["accept"] == "text/plain"
    assert serial_pipeline(members(Obedient()))(ask(b"status 418 tea")).status == 418
    with pytest.raises(RequestError) as caught:
        serial_pipeline(members(Obedient()))(ask(b"refuse 415 no"))
    assert caught.value.container is None


def test_headers_reach_every_container():
    chain = serial_pipeline(members(Echo("a"), Echo("b")))
    reported = unfold(chain(Request(body=b"", content_type="x", headers={"x-amzn-sagemaker-custom-attributes": "v"})))
    assert all(plain["headers"] == {"x-amzn-sagemaker-custom-attributes": "v"} for plain in reported)


@pytest.mark.parametrize(
    ("place", "handlers"),
    [
        ("container-1", (Obedient(), Echo())),
        ("container-2", (lambda r: Response(body=r.body, content_type="x"), Obedient())),
    ],
)
def test_failures_name_their_container(place, handlers):
    chain = serial_pipeline(members(*handlers))
    with pytest.raises(RequestError) as refused:
        chain(ask(b"refuse 415 no such type"))
    assert (refused.value.status, refused.value.reason, refused.value.container) == (415, "no such type", place)
    with pytest.raises(RequestError) as answered:
        chain(ask(b"status 422 odd"))
    assert (answered.value.status, answered.value.reason, answered.value.container) == (422, "odd", place)
    with pytest.raises(ContainerError) as failed:
        chain(ask(b"raise it"))
    assert (failed.value.kind, failed.value.container) == ("KeyError", place)
    assert "do_raise" in failed.value.trace


def test_a_failure_ends_the_chain():
    seen = []
    chain = serial_pipeline(members(Obedient(), seen.append))
    with pytest.raises(ContainerError):
        chain(ask(b"raise it"))
    assert seen == []


def test_too_large_intermediate_answers():
    chain = serial_pipeline(members(Obedient(), Obedient()), max_between_bytes=5 << 20)
    with pytest.raises(RequestError) as caught:
        chain(ask(b"large 5242881"))
    assert caught.value.status == 413
    assert caught.value.reason == (
        "Received response from container-1 with status code 200. However, the request payload from container-1 to "
        "container-2 is 5242881 bytes, which has exceeded the maximum limit of 5 MB."
    )
    assert len(chain(ask(b"large 5242880")).body) == 5242880


def test_direct_mode_asks_one_container():
    chain = serial_pipeline(members(Echo("a"), Echo("b")), direct=True)
    target = {"x-amzn-sagemaker-target-container-hostname": "container-2"}
    answer = chain(Request(body=b"", content_type="text/csv", accept="text/plain", headers=target))
    assert json.loads(answer.body)["mark"] == "b"
    assert json.loads(answer.body)["accept"] == "text/plain"
    for headers in ({}, {"x-amzn-sagemaker-target-container-hostname": "container-9"}):
        with pytest.raises(RequestError, match="container-1, container-2") as caught:
            chain(Request(body=b"", content_type="text/csv", headers=headers))
        assert caught.value.status == 400


def test_invalid_answers():
    with pytest.raises(RequestError, match="NoneType"):
        serial_pipeline(members(lambda request: None))(ask())


def test_batches_need_every_container():
    assert isinstance(serial_pipeline(members(Batching(), Batching())), AnswersMany)
    assert not isinstance(serial_pipeline(members(Batching(), Obedient())), AnswersMany)
    assert not isinstance(serial_pipeline(members(Batching()), direct=True), AnswersMany)


def test_a_batch_goes_through_together_without_those_that_failed():
    sizes = []

    class Second(Batching):
        def answer_many(self, requests):
            sizes.append(len(requests))
            return super().answer_many(requests)

    chain = serial_pipeline(members(Batching(), Second()))
    answers = chain.answer_many([ask(b"a"), ask(b"raise x"), ask(b"b"), ask(b"refuse 415 y"), ask(b"c")])
    assert sizes == [3]
    assert [answers[i].body for i in (0, 2, 4)] == [b"A", b"B", b"C"]
    assert isinstance(answers[1], ContainerError)
    assert isinstance(answers[3], RequestError)


def test_a_batch_that_fails_as_a_whole_is_asked_one_by_one():
    answers = serial_pipeline(members(FailsTogether())).answer_many([ask(b"a"), ask(b"bad"), ask(b"c")])
    assert [answers[0].body, answers[2].body] == [b"a", b"c"]
    assert answers[1].reason == "bad row"


BODIES = st.lists(
    st.sampled_from([b"a", b"refuse 415 no", b"status 404 gone", b"raise x", b"large 40", b"nothing"]), max_size=8
)


def described(answer):
    if isinstance(answer, Response):
        return answer
    return type(answer), answer.reason, answer.container


@given(BODIES, st.integers(1, 3), st.sampled_from([10, 1000]))
def test_together_is_as_one_by_one(bodies, length, limit):
    """The fast path and the slow path give the same answers, and the same failures in the same places."""
    slow = serial_pipeline(members(*[Obedient()] * length), max_between_bytes=limit)
    fast = serial_pipeline(members(*[Batching()] * length), max_between_bytes=limit)
    requests = [ask(body) for body in bodies]
    expected = []
    for request in requests:
        try:
            expected.append(slow(request))
        except Exception as error:
            expected.append(error)
    assert list(map(described, fast.answer_many(requests))) == list(map(described, expected))


class Telling:
    """Returns its request."""

    def __call__(self, request):
        reported = [request.content_type, request.accept, dict(request.headers), request.body.decode()]
        return Response(body=json.dumps(reported).encode(), content_type=f"{request.accept}; reported")

    def answer_many(self, requests):
        return [self(request) for request in requests]


@given(
    st.integers(1, 3),
    st.dictionaries(st.integers(1, 3), st.sampled_from(["text/csv", "x/y"])),
    st.sampled_from(["", " */* ", "*/*", "x/y", "application/json"]),
)
def test_one_request_is_asked_as_several_are(length, defaults, accept):
    chain = serial_pipeline(members(*[Telling()] * length, defaults=defaults))
    request = ask(accept=accept, **{"x-amzn-sagemaker-inference-id": "7"})
    assert [chain(request)] * 2 == chain.answer_many([request, request])


class Notes:
    """An observer that records its calls."""

    def __init__(self):
        self.reported = []
        self.seconds = []

    def call_started(self, name):
        self.reported.append(name)

    def call_ended(self, name, seconds, count):
        self.reported.append((name, count))
        self.seconds.append(seconds)


def test_calls_are_reported():
    notes = Notes()
    chain = serial_pipeline(members(Batching(), Batching()), observer=notes)
    chain.answer_many([ask(b"a"), ask(b"b")])
    chain(ask(b"a"))
    together, alone = ([("container-1", count), ("container-2", count)] for count in (2, 1))
    assert notes.reported[1::2] == together + alone
    assert notes.reported[::2] == ["container-1", "container-2"] * 2
    assert len(notes.seconds) == 4
    assert min(notes.seconds) >= 0


def test_too_many_and_equal_names():
    with pytest.raises(ValueError, match="1 to 15"):
        serial_pipeline(members(*[Echo()] * 16))
    with pytest.raises(ValueError, match="same name"):
        serial_pipeline(members(Echo())[:1] * 2)
