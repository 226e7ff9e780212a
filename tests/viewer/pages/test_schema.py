"""Features and their statistics: those of ``hr.stats``, cached, and linked to their rows."""

import re

import numpy as np
import pytest
from tests.viewer.conftest import data

import headrace as hr
from headrace.viewer.dataset import ShownDataset
from headrace.viewer.pages import schema as module


def _statistics(client, address="/0/schema"):
    while not (found := data(client, address))["finished"]:
        pass
    assert found["failure"] is None
    return found


def test_statistics_are_those_of_the_library(client, shown_file):
    found = _statistics(client)["statistics"]
    wanted = hr.stats(shown_file).to_json()
    assert found == wanted
    html = client.get("/0/schema").text
    assert "all 300 examples were read" in html
    assert "http-equiv" not in html


def test_a_sample_comes_first(client_for, monkeypatch):
    monkeypatch.setattr(module, "SAMPLE", 10)
    seen = []
    collect = module.collect

    def watched(source, sample, advance):
        seen.append(sample)
        return collect(source, sample, advance)

    monkeypatch.setattr(module, "collect", watched)
    client = client_for(hr.ColumnSource({"x": np.arange(5000)}))
    found = _statistics(client)
    assert seen == [10, None]
    assert found["statistics"]["examples_read"] == 5000


def test_they_are_cached_until_the_file_changes(client_for, tmp_path, monkeypatch):
    path = tmp_path / "x.tfrecord"
    hr.write(path, {"x": np.arange(5000)})
    first = _statistics(client_for(path))["statistics"]
    monkeypatch.setattr(module, "collect", lambda *_: pytest.fail("read again"))
    assert _statistics(client_for(path))["statistics"] == first
    monkeypatch.undo()
    path.unlink()
    hr.write(path, {"x": np.arange(5000) * 2})
    assert _statistics(client_for(path))["statistics"]["features"][0]["maximum"] == 9998


@pytest.mark.parametrize(
    "columns",
    [
        {"x": np.arange(100) % 5},
        {"x": np.arange(1000)},
        {"x": np.random.default_rng(0).standard_normal(3000)},
        {"odd name!": np.random.default_rng(0).standard_normal(20_000)},
        {"x": np.array([True, False, True])},
        {"x": hr.Strings.from_values(["it's", 'a"b', "", "\\x", "it's", "\u202e"])},
        {"x": hr.Strings.from_values([b"a" * (n % 40) for n in range(20_000)])},
        {"x": hr.Strings.from_values([f"{n} ü" for n in range(20_000)])},
        {"x": np.arange(50_000)},
    ],
)
def test_a_bar_leads_to_its_rows(client_for, columns):
    client = client_for(ShownDataset(hr.ColumnSource(columns), name="x", code="x"))
    found = _statistics(client)["statistics"]["features"][0]
    html = client.get("/0/schema").text
    links = re.findall(r'href="(/0/\?where=[^"]+)" title', html)
    bars = [bar for bar in found["bars"] if bar["count"]]
    assert len(links) == len(bars)
    for link, bar in zip(links, bars, strict=True):
        answer = client.get(link.replace("&amp;", "&") + "&count=200&format=json")
        rows = answer.text.count('"row"')
        assert rows == min(200, bar["count"]), (link, bar)


def test_labels_have_names_in_bars(client_for, tmp_path):
    schema = hr.Schema({"label": hr.Feature("int64", names=("cat", "dog"))})
    path = tmp_path / "x.jsonl"
    hr.write(path, {"label": np.array([0, 1, 1])})
    client = client_for(ShownDataset(hr.open(path, schema=schema), name="x", code="x"))
    _statistics(client)
    assert "dog (1)" in client.get("/0/schema").text


def test_many_features_are_read_a_page_at_a_time(client_for):
    source = hr.ColumnSource({f"f{n}": np.arange(3) + n for n in range(700)})
    client = client_for(ShownDataset(source, name="wide", code="wide"))
    found = _statistics(client, "/0/schema?first=660")
    assert [each["name"] for each in found["statistics"]["features"]] == [f"f{n}" for n in range(660, 700)]
    assert "features 660 to 699 of 700" in client.get("/0/schema?first=660").text


def test_damage_is_told(client_for, tmp_path):
    path = tmp_path / "bad.tfrecord"
    hr.write(path, [{"x": row, "s": "x" * 50} for row in range(20)])
    content = bytearray(path.read_bytes())
    content[hr.open(path).where(7).offset + 30] ^= 1
    path.write_bytes(content)
    client = client_for(path)
    while not (found := data(client, "/0/schema"))["finished"]:
        pass
    assert "record 7" in found["failure"]
    assert "record 7" in client.get("/0/schema").text


def test_extremes_that_are_zero_are_shown(client_for):
    html = client_for(hr.ColumnSource({"x": np.array([0, 1])})).get("/0/schema").text
    assert "<dt>minimum</dt><dd>0</dd>" in html
    assert "<dt>nan</dt>" not in html


def test_statistics_of_a_replaced_file_are_those_of_what_was_read(client_for, tmp_path):
    path, later = tmp_path / "x.tfrecord", tmp_path / "later.tfrecord"
    old = np.arange(5000)
    new = np.where((old == 0) | (old == 4999), old, 7)  # the same length, schema, first and last example
    hr.write(path, {"x": old})
    hr.write(later, {"x": new})
    opened = client_for(path)
    assert _statistics(opened)["statistics"]["features"][0]["mean"] == old.mean()
    later.replace(path)
    shown = _statistics(opened)
    assert shown["statistics"]["features"][0]["mean"] == old.mean()
    assert f"{path} was changed after it was opened" in shown["changed"]
    assert _statistics(client_for(path))["statistics"]["features"][0]["mean"] == new.mean()


def test_statistics_of_a_file_that_is_replaced_meanwhile_are_not_kept(client_for, tmp_path, monkeypatch):
    path, later = tmp_path / "x.tfrecord", tmp_path / "later.tfrecord"
    old = np.arange(5000)
    new = np.where((old == 0) | (old == 4999), old, 7)
    hr.write(path, {"x": old})
    hr.write(later, {"x": new})
    collect = module.collect

    def replaced(source, sample, advance):
        if sample is None:
            later.replace(path)
        return collect(source, sample, advance)

    monkeypatch.setattr(module, "collect", replaced)
    assert _statistics(client_for(path))["statistics"]["features"][0]["mean"] == old.mean()
    monkeypatch.undo()
    assert _statistics(client_for(path))["statistics"]["features"][0]["mean"] == new.mean()


def test_a_failure_is_tried_again_after_it_was_shown(client_for):
    broken = [True]

    def read(example):
        if broken and example["x"] == 3:
            raise OSError("network is down")
        return example

    client = client_for(hr.ColumnSource({"x": np.arange(5)}).map(read))
    while not (found := data(client, "/0/schema"))["finished"]:
        pass
    assert "network is down" in found["failure"]
    broken.clear()
    assert _statistics(client)["statistics"]["features"][0]["values"] == 5


@pytest.mark.parametrize(
    "values",
    [
        np.repeat([0.12345671, 0.12345672, 1 / 3], 10),
        np.repeat(np.float32([1 / 3, 0.1, 16777216]), 10),
        np.repeat([1e9 + 1, 1e9 + 2, 1e-300], 10),
        np.repeat(np.float16([0.1, 1 / 3]), 10),
    ],
)
def test_bars_of_few_floats_lead_to_their_rows(client_for, values):
    client = client_for(hr.ColumnSource({"x": values}))
    _statistics(client)
    html = client.get("/0/schema").text
    addresses = {each.replace("&amp;", "&") for each in re.findall(r'href="(/0/\?where=[^"]*)"', html)}
    assert len(addresses) == len(np.unique(values))
    for address in addresses:
        assert "10 rows fit" in client.get(address).text, address


@pytest.mark.parametrize("name", ["in", "not", "AND", "or", "contains", "true", "false", "length", "a b"])
def test_bars_of_any_name_lead_to_their_rows(client_for, name):
    client = client_for(hr.ColumnSource({name: np.arange(3).repeat(2)}))
    _statistics(client)
    addresses = {
        each.replace("&amp;", "&") for each in re.findall(r'href="(/0/\?where=[^"]*)"', client.get("/0/schema").text)
    }
    assert len(addresses) == 3
    for address in addresses:
        assert "2 rows fit" in client.get(address).text, address
