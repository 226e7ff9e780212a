"""Headers."""

import pytest

from headrace.containers.content_types import charset, choose, media_type, parameters, parse_accept
from headrace.containers.serving.dialects import DIALECTS
from headrace.errors import RequestError

JSON, CSV = "application/json", "text/csv"


@pytest.mark.parametrize(
    "header", ["text/csv", "text/csv; charset=utf-8", " Text/CSV ;charset=UTF-8", "text/csv;label_size=0"]
)
def test_parameters_do_not_change_the_type(header):
    assert media_type(header) == CSV


def test_parameters():
    assert parameters('text/csv; label_size=0;charset="latin-1"') == {"label_size": "0", "charset": "latin-1"}
    assert charset("text/csv") == "utf-8"
    assert charset("text/csv; Charset=Latin-1") == "Latin-1"


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        ("", ["*/*"]),
        ("text/csv", [CSV]),
        ("text/csv, application/json", [CSV, JSON]),
        ("text/csv;q=0.1,application/json;q=0.9", [JSON, CSV]),
        ("text/csv;q=0, application/json", [JSON]),
        ("text/csv;q=x", [CSV]),
        ("text/csv;q=0", []),
        (";q=1", ["*/*"]),
        ('text/csv;x="a,application/json";q=0.5, image/png', ["image/png", CSV]),
        ('text/csv;x="a,b', [CSV]),
    ],
)
def test_accepted(header, wanted):
    assert list(parse_accept(header)) == wanted


@pytest.mark.parametrize("header", ["application/json;q=0", "application/*;q=0", "application/*;q=0, image/*"])
def test_a_type_that_is_refused_is_no_answer(header):
    dialect = DIALECTS["fixed"]
    assert dialect.accept(header, CSV, ()) == CSV
    assert dialect.accept(f"{header}, */*;q=0.1", JSON, ()) not in (JSON, header)
    assert dialect.accept("*/*;q=0", JSON, ()) == "*/*;q=0"
    accept = dialect.accept(header, JSON, ())
    with pytest.raises(RequestError, match="406: answers are available as"):
        dialect.output_fn([1], accept)


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        ("*/*", JSON),
        ("text/*", CSV),
        ("image/png", None),
        ("image/png, */*;q=0.1", JSON),
        ("application/*", JSON),
        ("application/json;q=0, */*", CSV),
        ("application/json;q=0", None),
        ("text/*, text/csv;q=0", None),
        ("text/*;q=0, text/csv", CSV),
        ("*/*, application/*;q=0", CSV),
        ("*/*;q=0", None),
        ("text/*, */*;q=0", CSV),
        ("*/*;q=0, text/csv;q=0.1", CSV),
        ("", JSON),
    ],
)
def test_choose(header, wanted):
    assert choose(header, (JSON, CSV), JSON) == wanted
