"""The loader's order is the loader's; grids hold what they say."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.viewer.conftest import ROWS, data

import headrace as hr
from headrace.viewer.dataset import ShownDataset
from headrace.viewer.pages.order import order_page
from headrace.viewer.pages.page import Links, Query


@pytest.mark.parametrize("shuffle", [True, False])
def test_one_batch_is_that_of_the_loader(client, shown_file, shuffle):
    source = hr.open(shown_file).select("width")
    switch = "" if shuffle else "&shuffle=0"
    found = data(client, f"/0/order?batch=2&epoch=3&rank=1&world=3&batch_size=16&seed=5{switch}")
    loader = hr.Loader(source, 16, shuffle=shuffle, seed=5, shard=hr.Shard(1, 3), epochs=4, threads=0)
    batches = [batch["width"].astype(int).tolist() for batch in loader]
    per_epoch = len(batches) // 4
    assert found["rows"] == batches[3 * per_epoch + 2]
    assert found["batches"] == per_epoch


@settings(max_examples=40)
@given(st.integers(1, 50), st.integers(1, 9), st.integers(1, 4), st.integers(0, 3), st.booleans())
def test_all_batches_of_all_ranks_are_the_whole_epoch(count, size, world, epoch, shuffle):
    shown = ShownDataset(hr.ColumnSource({"x": np.arange(count)}), name="x", code="x")
    seen = []
    for rank in range(world):
        for batch in range(-(-count // (size * world)) + 1):
            query = {
                "batch": batch,
                "epoch": epoch,
                "rank": rank,
                "world": world,
                "batch_size": size,
                "shuffle": "1" if shuffle else "",
            }
            view = order_page(shown, Query({name: str(value) for name, value in query.items()}), Links(""))
            seen += view.data["rows"]
    assert sorted(seen) == list(range(count))


def test_a_batch_that_does_not_exist(client):
    assert data(client, "/0/order?batch=9999&batch_size=32")["rows"] == []


def test_a_grid_has_each_class(client, shown_file):
    found = data(client, "/0/grid?by=label&count=30&seed=4")
    labels = hr.open(shown_file).select("label").batch(range(ROWS))["label"]
    assert [group["value"] for group in found["groups"]] == [0, 1, 2]
    for group in found["groups"]:
        assert len(group["rows"]) == 10
        assert {int(labels[row]) for row in group["rows"]} == {group["value"]}
    assert data(client, "/0/grid?by=label&count=30&seed=4") == found
    assert data(client, "/0/grid?by=label&count=30&seed=5") != found


def test_a_grid_without_classes(client):
    found = data(client, "/0/grid?together=1&count=12")
    assert len(found["groups"]) == 1
    assert len(set(found["groups"][0]["rows"])) == 12


def test_a_grid_without_images(client_for):
    assert "No feature" in client_for(hr.ColumnSource({"a": np.arange(3)})).get("/0/grid").text


def test_a_grid_is_asked_for_by_a_form(client):
    html = client.get("/0/grid?seed=4&count=30").text
    form = re.search(r'<form method="get" action="/0/grid".*?</form>', html, re.DOTALL)[0]
    assert re.findall(r'name="(\w+)"', form) == ["feature", "by", "seed", "count", "together"]
    assert 'name="seed" value="4"' in form
    chosen = re.findall(r'<option value="(\d*)" selected>([^<]*)', form)
    assert [name for _, name in chosen] == ["image", "label"]
    together = data(client, "/0/grid?feature=0&by=&seed=4&count=30&together=1")
    assert together["by"] is None
    assert len(together["groups"]) == 1
    named = data(client, f"/0/grid?feature={chosen[0][0]}&by={chosen[1][0]}&seed=4&count=30&together=1")
    assert named == data(client, "/0/grid?seed=4&count=30")
    again = re.search(r'href="([^"]+)" rel="next"', client.get("/0/grid?by=&together=1").text)[1]
    assert data(client, again.replace("&amp;", "&"))["by"] is None


def test_each_parameter_has_one_default(client):
    assert data(client, "/0/order?shuffle=0")["rows"] == list(range(32))
    assert data(client, "/0/order?shuffle=false&seed=3")["shuffle"] is False
    shuffled = data(client, "/0/order?batch_size=32&seed=1")
    assert shuffled == data(client, "/0/order?seed=1")
    assert shuffled["shuffle"] is True
    assert data(client, "/0/order?batch_size=32&shuffle=0&shuffle=1&seed=1") == shuffled
