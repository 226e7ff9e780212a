"""Text never becomes markup, and nothing invisible acts on a page."""

import html
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.viewer.display.markup import Markup, element, escape, figure, page, sparkline, visible


class _Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.attributes, self.text = [], [], ""

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text += data


def _parse(markup):
    parser = _Tags()
    parser.feed(str(markup))
    parser.close()
    return parser


@given(st.text())
def test_any_text_stays_text(text):
    parsed = _parse(element("p", text, title=text))
    assert parsed.tags == ["p"]
    assert parsed.attributes == [("title", visible(text))]
    assert parsed.text == visible(text)


@pytest.mark.parametrize(
    "char", ["\u202e", "\u2066", "\x00", "\x1b", "\x7f", "\u200e", "\ufeff", "\ud800", "\u2028", "\x85", "\u061c"]
)
def test_invisible_characters_are_written_out(char):
    shown = visible(f"a{char}b")
    assert char not in shown
    assert shown.startswith("a\\")
    shown.encode()


def test_visible_keeps_what_people_write():
    for text in ("tab\there", "two\nlines", "naïve 日本語 עברית", "👩\u200d🔬", "a\u00a0b"):
        assert visible(text) == text


def test_markup_is_not_escaped_twice():
    assert escape(Markup("<b>")) == "<b>"
    assert element("b", element("i", "<")) == "<b><i>&lt;</i></b>"
    assert element("input", disabled=True, value=None, hidden=False) == "<input disabled>"


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True, width=64), max_size=500))
def test_any_numbers_make_a_line(numbers):
    shown = sparkline(np.array(numbers), label="<x>")
    assert "nan" not in shown
    assert "inf" not in shown
    assert "&lt;x&gt;" in shown
    assert len(shown) < 10_000


def test_a_long_line_keeps_its_extremes():
    numbers = np.zeros(100_000)
    numbers[77_777] = 1
    assert ",2.0" in sparkline(numbers, label="x")


def test_bars_scale_with_the_largest():
    shown = figure([("a", 10, "?x=1"), ("b", 5, None), ("c", 0, None)], label="counts")
    assert 'width="100.00"' in shown
    assert 'width="50.00"' in shown
    assert 'width="0.00"' in shown
    assert shown.count("<a ") == 1


def test_a_page_without_script_still_reloads():
    whole = page("t<", base="/b", navigation="", content="", refresh=2)
    assert whole.startswith("<!doctype html>")
    assert '<noscript><meta http-equiv="refresh" content="2"></noscript>' in whole
    assert html.escape("t<") in whole
    assert "<style" not in whole
    assert "onclick" not in whole


def test_a_line_between_the_largest_floats():
    assert _points(sparkline([-1.7e308, 0.0, 1.7e308], label="x")) == ["1.0,22.0", "60.0,12.0", "119.0,2.0"]


def _points(shown):
    return re.findall(r'points="([^"]*)"', shown)[0].split()
