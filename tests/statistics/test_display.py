"""Values in one line and as JSON; more of both is in ``tests/cli/test_terminal.py``."""

import numpy as np

import headrace as hr
from headrace.statistics.display import shorten, to_json


def test_rows_of_rows():
    rows = hr.Ragged.from_list([[1, 2], [3], [], [4]], "int64")
    assert shorten(rows) == "[[1 2] [3] [] …] 4 rows"
    assert shorten(rows[:1]) == "[[1 2]] 1 row"
    assert to_json(rows) == [[1, 2], [3], [], [4]]


def test_text_and_numbers():
    assert shorten("a" * 100).endswith("100 characters")
    assert to_json(np.float64("nan")) == "nan"
    assert to_json({"x": b"\xff"}) == {"x": {"b64": "/w=="}}


def test_text_of_numpy_is_shown_as_text():
    assert [shorten(each) for each in (np.str_("a"), np.bytes_(b"a"), np.array(["a", "b"]))] == [
        "'a'",
        "b'a'",
        "['a' 'b']",
    ]
