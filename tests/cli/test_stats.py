"""``headrace stats``."""

from __future__ import annotations

import html.parser
import json
import os
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import headrace as hr


def features(done):
    assert done.code == 0, done.err
    return {feature["name"]: feature for feature in done.json["features"]}


def test_numbers_texts_and_lengths(run, people):
    found = features(run("stats", people, "--json"))
    ages = 20 + np.arange(12) % 4
    assert found["age"]["mean"] == ages.mean()
    assert found["age"]["std"] == ages.std()
    assert (found["age"]["minimum"], found["age"]["maximum"], found["age"]["distinct"]) == (20, 23, 4)
    assert [(bar["label"], bar["count"]) for bar in found["age"]["bars"]] == [
        ("20", 3),
        ("21", 3),
        ("22", 3),
        ("23", 3),
    ]
    assert found["tags"]["empty"] == 4
    assert found["tags"]["lengths"] == [0, 1.0, 2]
    assert found["tags"]["values"] == 12
    assert found["photo"]["sizes"] == [2, 13.0, 24]
    assert found["name"]["distinct"] == 12


def test_prints_how_many_were_read(run, tmp_path):
    hr.write(tmp_path / "x.tfrecord", {"a": np.arange(500)})
    done = run("stats", tmp_path / "x.tfrecord", "--sample", 100, "--json")
    assert (done.json["examples_read"], done.json["examples"]) == (100, 500)
    assert done.json["statement"] == "100 of 500 examples were read, picked at random (--all reads every one)"
    values = features(done)["a"]
    assert values["distinct"] == 100
    assert values["maximum"] - values["minimum"] > 400
    assert run("stats", tmp_path / "x.tfrecord", "--all", "--json").json["statement"] == "all 500 examples were read"


def test_sample_of_a_compressed_file_is_its_beginning(run, tmp_path):
    # Large enough that inferring the schema does not inflate all of it.
    hr.write(tmp_path / "x.tfrecord.gz", {"a": np.arange(20_000), "zeros": np.zeros((20_000, 200), np.float32)})
    done = run("stats", tmp_path / "x.tfrecord.gz", "--sample", 100, "--json")
    assert done.json["statement"] == "the first 100 examples were read (--all reads every one)"
    assert features(done)["a"]["maximum"] == 99
    whole = run("stats", tmp_path / "x.tfrecord.gz", "--all", "--json")
    assert features(whole)["a"]["maximum"] == 19_999


def test_table_and_histograms(run, people):
    out = run("stats", people).out
    lines = out.splitlines()
    assert lines[0] == f"{people}: all 12 examples were read"
    assert " ".join(lines[2].split()) == "feature type values empty min max mean std distinct distribution"
    assert "  20  3  ████████████████████████████████" in lines
    brief = run("stats", people, "--brief").out
    assert out.startswith(brief)
    assert len(brief.splitlines()) == 8


def test_values_that_are_not_finite_are_counted(run, tmp_path):
    hr.write(tmp_path / "x.npz", {"f": np.array([np.nan, np.inf, -np.inf, 0.1] * 25), "i": np.arange(100)})
    lines = [line.split() for line in run("stats", tmp_path / "x.npz", "--brief").out.splitlines() if line]
    assert lines[1][:7] == ["feature", "type", "values", "empty", "nan", "infinite", "min"]
    assert lines[2][:6] == ["f", "float64", "100", "25", "50", "0.1"]
    found = hr.stats(tmp_path / "x.npz")
    assert "f: 100 values, 25 NaN or NaT, 50 infinite, 0.1 to 0.1" in str(found)


@pytest.mark.parametrize(
    "name",
    ["big_endian", "bool", "c8", "datetime", "f2", "fortran", "scalar", "structured", "u1_4d", "unicode", "empty"],
)
def test_every_kind_of_array(run, golden, name):
    done = run("stats", golden(f"npy/{name}.npy"), "--json")
    array = np.load(golden(f"npy/{name}.npy"))
    found = features(done)
    assert list(found) == list(array.dtype.names or ["values"])
    if array.dtype.names is None and array.size:
        assert found["values"]["values"] == array.size
    assert run("stats", golden(f"npy/{name}.npy")).code == 0


def test_not_a_number(run, tmp_path):
    np.save(tmp_path / "x.npy", np.array([1, np.nan, np.inf, 3, -np.inf]))
    found = features(run("stats", tmp_path / "x.npy", "--json"))["values"]
    assert (found["nan"], found["infinite"], found["minimum"], found["maximum"], found["mean"]) == (1, 2, 1, 3, 2)


class Links(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags = set()
        self.outside = []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.outside += [value for name, value in attrs if name in ("src", "href")]


def test_page_is_self_contained(run, tmp_path):
    hr.write(tmp_path / "x.tfrecord", [{"<b>&": f"<script>{i % 3}", "n": np.float32(i)} for i in range(200)])
    done = run("stats", tmp_path / "x.tfrecord", "--html", "stats.html")
    assert done.code == 0
    assert done.out == ""
    assert done.err == "wrote stats.html\n"
    page = (tmp_path / "work" / "stats.html").read_text(encoding="utf-8")
    links = Links()
    links.feed(page)
    assert links.outside == []
    assert {"script", "link", "img"}.isdisjoint(links.tags)
    assert "All 200 examples were read." in page
    assert "&lt;b&gt;&amp;" in page
    assert "prefers-color-scheme: dark" in page
    assert 'name="viewport"' in page
    plots = [part.split("</svg>")[0] + "</svg>" for part in page.split("<figcaption>")[1:]]
    drawings = [ET.fromstring(plot[plot.index("<svg") :]) for plot in plots]
    assert len(drawings) == 2
    assert all(drawing.findall(".//rect") for drawing in drawings)


def test_json_and_page_together(run, people):
    done = run("stats", people, "--html", "x.html", "--json")
    assert json.loads(done.out)["examples"] == 12


def test_examples_that_fit_a_condition(run, people):
    done = run("stats", people, "--where", "age = 22", "--columns", "height", "--json")
    assert done.code == 0
    assert '"height"' in done.out
    assert hr.stats(hr.open(people).filter(hr.condition("age = 22")), sample=None).total == 3


def test_a_page_replaces_no_data(run, people, tmp_path):
    (tmp_path / "x.npy").write_bytes(b"data")
    for name in (people, tmp_path / "x.npy"):
        before = name.read_bytes()
        done = run("stats", people, "--html", name)
        assert done.code == 2
        assert name.name in done.err
        assert name.read_bytes() == before
    assert run("stats", people, "--html", tmp_path / "page.html").code == 0
    assert run("stats", people, "--html", tmp_path / "page.html").code == 0  # again


def test_wrong_options(run, people, tmp_path):
    done = run("stats", people, "--all", "--sample", 3)
    assert done.code == 2
    assert "use either --all or --sample" in done.err
    done = run("stats", people, "--html", "no/x.html")
    assert done.code == 2
    assert "there is no folder no" in " ".join(done.err.split())
    found = features(run("stats", people, "--json", "--where", "age > 20", "--where", "age < 22"))
    assert (found["age"]["minimum"], found["age"]["maximum"]) == (21, 21)


def test_a_page_names_files_whose_names_are_not_utf8(run, tmp_path):
    path = os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff.csv")
    with open(path, "w", encoding="utf-8") as file:
        file.write("a,b\n1,2\n")
    assert run("stats", path, "--html", tmp_path / "page.html").code == 0
    assert "bad\\udcff.csv" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_the_axes_of_dates_are_dates(run, tmp_path):
    hr.write(tmp_path / "x.npz", {"t": np.datetime64("2020-01-01", "s") + np.arange(0, 10**8, 10**4)})
    done = run("stats", tmp_path / "x.npz", "--all", "--html", tmp_path / "x.html")
    assert done.code == 0, done.err
    assert '<text x="0" y="137">2020-01-01T00:00:00</text>' in (tmp_path / "x.html").read_text()
