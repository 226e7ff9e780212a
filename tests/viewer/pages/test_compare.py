"""Two datasets side by side."""

import re
from html import unescape

import numpy as np
import pytest
from tests.viewer.conftest import ROWS, data, example

import headrace as hr
from headrace.viewer.dataset import ShownDataset
from headrace.viewer.pages.compare import differing


def _compared(client):
    while not (found := data(client, "/compare"))["finished"]:
        pass
    return found["difference"]


@pytest.mark.parametrize("name", ["b.tfrecord", "b.array_record", "b.parquet"])
def test_a_conversion_differs_in_nothing(client_for, shown_file, tmp_path, name):
    hr.convert(shown_file, tmp_path / name)
    client = client_for(shown_file, tmp_path / name)
    found = _compared(client)
    assert found["equal"] is True, found
    assert found["compared"] == 300
    assert "No difference in 300 rows" in client.get("/compare").text


def test_differences_are_found(client_for, shown_file, tmp_path):
    rows = [example(row) for row in range(290)]
    rows[17]["name"] = "other"
    rows[200]["tokens"] = np.array([9])
    rows[200]["width"] = np.float32(np.nan)
    for row in rows:
        row["extra"] = 1
        del row["blob"]
    path = tmp_path / "b.tfrecord"
    hr.write(path, rows)
    client = client_for(shown_file, path)
    found = _compared(client)
    assert found["examples"] == [300, 290]
    assert (found["only_left"], found["only_right"]) == (["blob"], ["extra"])
    assert found["differing"] == 2
    assert found["features"] == {"name": 1, "tokens": 1, "width": 1}
    assert [(row["row"], sorted(row["features"])) for row in found["rows"]] == [
        (17, ["name"]),
        (200, ["tokens", "width"]),
    ]
    html = client.get("/compare").text
    assert "only on the left: blob" in html
    assert "name differs in 1 rows" in html


@pytest.mark.parametrize(
    ("left", "right", "wanted"),
    [
        (np.array([1.0, np.nan, 2]), np.array([1.0, np.nan, 3]), [False, False, True]),
        (np.array([1, 2]), np.array([1.0, 2.5]), [False, True]),
        (np.zeros((2, 3)), np.zeros((2, 4)), [True, True]),
        (hr.Strings.from_values(["a", "b"]), hr.Strings.from_values(["a", "c"]), [False, True]),
        (hr.Strings.from_values(["a", "b"]), hr.Strings.from_values([b"a", b"\xff"]), [False, True]),
        (hr.Ragged.from_list([[1], [2, 3]], "i8"), hr.Ragged.from_list([[1], [2]], "i8"), [False, True]),
        (hr.Ragged.from_list([[1, 2], [2, 3]], "i8"), np.array([[1, 2], [2, 4]]), [False, True]),
        ([np.zeros(2), np.ones((1, 1))], [np.zeros(2), np.zeros((1, 1))], [False, True]),
        (
            np.array(["2020-01-01", "NaT", "NaT"], "M8[s]"),
            np.array(["2020-01-01", "NaT", "2020-01-01"], "M8[s]"),
            [False, False, True],
        ),
        (np.array([2**53 + 1, 2**63 - 1, 2**53]), np.array([2.0**53, 2.0**63, 2.0**53]), [True, True, False]),
        (np.array([-1, 2**63 - 1]), np.array([2**64 - 1, 2**63 - 1], np.uint64), [True, False]),
        (np.array([np.nan, 1.0]), np.array([0, 1]), [True, False]),
        (
            np.array(["9999-01-01", "2020-01-01"], "M8[s]"),
            np.array(["9999-01-01", "2020-01-01"], "M8[s]").astype("M8[ns]"),
            [True, False],
        ),
        (np.array([0, 1], "M8[s]"), np.array([0, 1]), [True, True]),
        (
            np.array([complex(1, np.nan), complex(1, np.nan)]),
            np.array([complex(2, np.nan), complex(1, np.nan)]),
            [True, False],
        ),
        (
            hr.Ragged.from_list([["2020-01-01", "NaT"], ["2020-01-02"]], "M8[s]"),
            hr.Ragged.from_list([["2020-01-01", "NaT"], ["2020-01-01"]], "M8[ns]"),
            [False, True],
        ),
        (hr.Ragged.from_list([[2**53 + 1], [3]], "i8"), hr.Ragged.from_list([[2.0**53], [3.0]], "f8"), [True, False]),
    ],
)
def test_differing(left, right, wanted):
    assert differing(left, right, len(wanted)).tolist() == wanted


def test_the_page_shows_how_to_compare(client_for, shown_file, tmp_path, capsys):
    rows = [example(row) for row in range(ROWS)]
    rows[17]["name"] = "other"
    hr.write(tmp_path / "b.tfrecord", rows)
    html = client_for(shown_file, tmp_path / "b.tfrecord").get("/compare").text
    python, command = re.findall(r"<pre><code>(.*?)</code>", html, re.DOTALL)
    exec(unescape(python), {})
    assert capsys.readouterr().out.endswith("17 ['name']\n")
    assert f"headrace view {shown_file} {tmp_path}/b.tfrecord\ndiff &lt;(headrace head {shown_file} --json" in command


@pytest.mark.parametrize("at", [0, 300])
def test_a_comparison_that_failed_does_not_say_equal(client_for, at):
    source = hr.ColumnSource({"x": np.arange(400)})
    client = client_for(source.map(lambda e: {"x": 1 // int(e["x"] != at) * e["x"]}), source)
    found = _compared(client)
    assert found["equal"] is None
    assert "No difference" not in client.get("/compare").text
    while not (found := data(client, "/compare"))["finished"]:
        pass
    assert "ZeroDivisionError" in found["failure"]


def test_the_code_gives_the_result_of_the_page(client_for, capsys):
    left = {"a": np.arange(5000).reshape(1, 5000).repeat(2, 0), "n": np.array([1, 2]), "f": np.float32([0.1, 0.5])}
    right = {**left, "a": left["a"].copy(), "n": np.array([1.0, 2.0]), "f": np.array([0.1, 0.5]), "more": np.zeros(2)}
    right["a"][1, 2500] = -7
    sources = [hr.ColumnSource(each) for each in (left, right)]
    client = client_for(*(ShownDataset(each, name="n", code=f"sources[{n}]") for n, each in enumerate(sources)))
    rows = _compared(client)["rows"]
    [python] = re.findall(r"<pre><code>(.*?)</code>", client.get("/compare").text, re.DOTALL)
    exec(unescape(python), {"sources": sources})
    printed = capsys.readouterr().out.splitlines()[-len(rows) :]
    assert printed == [f"{row['row']} {row['features']}" for row in rows] == ["0 ['f']", "1 ['a']"]
