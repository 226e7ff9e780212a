"""Nesting depth of untrusted JSON, compared with a plain reader."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.reference import json_depth as reference

from headrace import _native
from headrace.contracts.schema import Schema
from headrace.io.json_text import MOST_DEEP, load_json, too_deep

TEXT = st.lists(st.sampled_from([b"[", b"]", b"{", b"}", b'"', b"\\", b"a", b'\\"', b" " * 17, b"[" * 9, b"\xff"])).map(
    b"".join
)


@given(TEXT, st.integers(0, 12))
@example(b'"' + b"\\" * 16 + b'"[', 0)
@example(b" " * 15 + b'"' + b"\\" * 15 + b'"[', 0)
def test_depth_is_that_of_the_plain_reader(text, most):
    assert _native.json_too_deep(text, most) == reference.too_deep(text, most)
    assert _native.json_too_deep(memoryview(b"x" + text)[1:], most) == reference.too_deep(text, most)


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
)


def depth_of(value):
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    return 1 + max(map(depth_of, value), default=0) if isinstance(value, list) else 0


@given(JSON, st.booleans())
def test_values_come_back(value, escaped):
    text = json.dumps(value, ensure_ascii=escaped)
    assert load_json(text) == value
    assert load_json(text.encode("utf-8", "surrogatepass")) == value if escaped else True
    depth = depth_of(value)
    assert _native.json_too_deep(text.encode("utf-8", "surrogatepass"), depth) == -1
    assert depth == 0 or _native.json_too_deep(text.encode("utf-8", "surrogatepass"), depth - 1) >= 0


@pytest.mark.parametrize("levels", [MOST_DEEP + 1, 5000, 200_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_deep_text_is_a_value_error(levels, opening, closing):
    text = opening * levels + "1" + closing * levels
    for given_text in (text, text.encode()):
        with pytest.raises(ValueError, match="more than 200 levels deep: line 1 column"):
            load_json(given_text)
    assert too_deep(text.encode()) == len(opening) * MOST_DEEP
    with pytest.raises((ValueError, TypeError, KeyError)):  # whatever is wrong with it, not a RecursionError
        Schema.from_json('{"features": {"x": {"dtype": "str", "shape": [], "default": ' + text + "}}}")


def test_the_limit_itself_is_read():
    value = load_json("[" * MOST_DEEP + "]" * MOST_DEEP)
    for _ in range(MOST_DEEP - 1):
        (value,) = value
    assert value == []
    with pytest.raises(UnicodeDecodeError):
        load_json(b'{"\xff": 1}')
    assert load_json(b"\xef\xbb\xbf[1]") == [1]
