"""Headers."""

import pytest

from headrace.containers.content_types import charset, choose, media_type, parameters, parse_accept

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
    ],
)
def test_accepted(header, wanted):
    assert list(parse_accept(header)) == wanted


@pytest.mark.parametrize(
    ("header", "wanted"),
    [("*/*", JSON), ("text/*", CSV), ("image/png", None), ("image/png, */*;q=0.1", JSON), ("application/*", JSON)],
)
def test_choose(header, wanted):
    assert choose(header, (JSON, CSV), JSON) == wanted
