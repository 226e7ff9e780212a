"""The layer around Ray Serve's proxies: whole answers pass, everything else is 503 with Retry-After."""

import asyncio
import json

import pytest

from headrace.hosting.ray.proxy import ReplicaGuard, middlewares

TEXT = [(b"content-type", b"text/plain")]
VARIANT = (b"x-amzn-invoked-production-variant", b"AllTraffic")


def start(status=200, headers=()):
    return {"type": "http.response.start", "status": status, "headers": list(headers)}


def body(content=b"", *, more=False):
    return {"type": "http.response.body", "body": content, "more_body": more}


def ask(*messages, error=None, path="/a/invocations", kind="http"):
    """What a client gets if the proxy sends these messages and then raises."""
    sent = []

    async def proxy(scope, receive, send):
        for message in messages:
            await send(message)
        if error is not None:
            raise error

    async def send(message):
        sent.append(message)

    asyncio.run(ReplicaGuard(proxy)({"type": kind, "path": path}, None, send))
    return sent


def is_refusal(sent):
    head, content = sent
    assert dict(head["headers"])[b"retry-after"] == b"1"
    found = json.loads(content["body"])
    assert found["error"] == "Service Unavailable"
    assert "send it again" in found["message"]
    assert dict(head["headers"])[b"content-length"] == b"%d" % len(content["body"])
    return head["status"] == found["status"] == 503


def test_an_answer_passes_unchanged():
    messages = [start(200, [(b"content-length", b"2")]), body(b"ab")]
    assert ask(*messages) == messages
    refused = [start(415, TEXT), body(b"not this")]
    assert ask(*refused) == refused


def test_a_replica_that_ends_before_its_answer():
    assert is_refusal(ask())
    assert is_refusal(ask(error=RuntimeError("the actor died")))
    assert is_refusal(ask(start()))
    assert is_refusal(ask(start(), error=RuntimeError("the actor died")))


def test_a_replica_that_ends_within_its_answer():
    head = start(200, [(b"content-length", b"4")])
    assert is_refusal(ask(head, body(b"ab", more=True)))
    assert is_refusal(ask(head, body(b"ab", more=True), error=RuntimeError("the actor died")))
    whole = ask(head, body(b"ab", more=True), body(b"cd"))
    assert [one.get("body") for one in whole] == [None, b"abcd"]


def test_an_answer_without_a_length_passes_in_pieces():
    sent = ask(start(), body(b"ab", more=True), body(b"cd"))
    assert [one.get("body") for one in sent] == [None, b"ab", b"cd"]
    with pytest.raises(RuntimeError, match="died"):
        ask(start(), body(b"ab", more=True), error=RuntimeError("the actor died"))


def test_refusals_of_serve_itself():
    for status in (503, 408):
        assert is_refusal(ask(start(status, TEXT), body(b"Deployment is overloaded")))
        assert is_refusal(ask(start(status, TEXT), body(b"a", more=True), body(b"b")))


def test_refusals_of_a_container_stay_its_own():
    ours = [start(503, [(b"content-type", b"application/json"), (b"retry-after", b"1")]), body(b"{}")]
    assert ask(*ours) == ours
    tea = [start(503, [*TEXT, VARIANT]), body(b"tea")]
    assert ask(*tea) == tea


def test_others_on_the_same_proxy_see_nothing():
    assert ask(path="/somebody/else") == []
    assert ask(start(503, TEXT), body(b"x"), path="/other") == [start(503, TEXT), body(b"x")]
    with pytest.raises(RuntimeError, match="own"):
        ask(error=RuntimeError("own"), path="/other")
    with pytest.raises(RuntimeError, match="own"):
        ask(error=RuntimeError("own"), kind="lifespan")


def test_the_function_that_serve_calls():
    (layer,) = middlewares()
    assert layer.cls is ReplicaGuard
