"""Heads that were read before mean what they meant, and nothing else is taken for one of them."""

import pytest

from headrace.hosting.http.fast_path import MOST_HEADS, KnownHeads
from headrace.hosting.http.invocations import Head

PLAIN = Head("text/csv", "*/*", {})
FIRST = b"POST /invocations HTTP/1.1\r\nContent-Length: 4\r\n\r\n"


def known(request, size, head=PLAIN):
    heads = KnownHeads()
    heads.keep(request, head, size)
    return heads


def test_what_was_kept_is_found_with_any_body_of_its_length():
    heads = known(FIRST + b"abcd", 4)
    assert heads.find(FIRST + b"\r\n\r\n") == (PLAIN, b"\r\n\r\n")
    empty = b"POST /invocations HTTP/1.1\r\n\r\n"
    assert known(empty, 0).find(empty) == (PLAIN, b"")


@pytest.mark.parametrize(
    "data", [b"", b"POS", FIRST, FIRST + b"abc", FIRST + b"abcde", FIRST[:-1], FIRST.lower() + b"abcd"]
)
def test_only_whole_requests_with_the_same_head_are_found(data):
    assert known(FIRST + b"abcd", 4).find(data) is None


@pytest.mark.parametrize(
    ("request_", "size", "head"),
    [
        (b"", 0, PLAIN),
        (FIRST + b"abcd", 3, PLAIN),  # chunks, or another request behind it
        (FIRST + b"abcd", 4, Head("text/csv", "*/*", {"x-amzn-sagemaker-inference-id": "1"})),
        (b"POST /invocations HTTP/1.1\r\nX-Long: " + b"a" * 3000 + b"\r\n\r\n", 0, PLAIN),
    ],
)
def test_what_is_not_of_the_usual_kind_is_not_kept(request_, size, head):
    assert known(request_, size, head).find(request_) is None


def test_heads_that_never_repeat_do_not_pile_up():
    heads = KnownHeads()
    for number in range(3 * MOST_HEADS):
        heads.keep(b"X: %d\r\n\r\n" % number, PLAIN, 0)
    assert len(heads._known) <= MOST_HEADS
    assert heads.find(b"X: %d\r\n\r\n" % number) == (PLAIN, b"")
