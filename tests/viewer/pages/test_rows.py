"""Pages of rows, and single rows."""

import base64
import html

import numpy as np
import pytest
from tests.viewer.conftest import ROWS, data

import headrace as hr
from headrace.viewer.dataset import ShownDataset


def test_a_page_holds_the_rows_of_the_source(client, shown_file):
    page = data(client, "/0/?start=120&count=7")
    source = hr.open(shown_file, decode=False)
    assert page["examples"] == ROWS
    assert [row["row"] for row in page["rows"]] == list(range(120, 127))
    for row in page["rows"]:
        wanted = source[row["row"]]
        assert row["values"]["label"] == wanted["label"]
        assert row["values"]["tokens"] == wanted["tokens"].tolist()
        assert base64.b64decode(row["values"]["blob"]["b64"]) == wanted["blob"]
        assert row["values"]["vector"] == pytest.approx(wanted["vector"].tolist())


def test_the_last_page_is_short(client):
    page = data(client, f"/0/?start={ROWS - 3}")
    assert [row["row"] for row in page["rows"]] == [ROWS - 3, ROWS - 2, ROWS - 1]
    assert data(client, f"/0/?start={ROWS + 3}")["rows"] == []
    html = client.get(f"/0/?start={ROWS - 3}").text
    assert 'rel="prev"' in html
    assert 'rel="next"' not in html


def test_every_row_has_its_own_address(client, shown_file):
    row = data(client, "/0/?row=123")
    assert row["values"]["name"] == "example 123"
    assert row["where"].startswith(str(shown_file))
    html = client.get("/0/?row=123").text
    assert 'href="/0/?row=122" rel="prev"' in html
    assert 'href="/0/?row=124" rel="next"' in html


def test_many_features_have_pages(client_for, tmp_path):
    path = tmp_path / "wide.npz"
    np.savez(path, **{f"f{n:05}": np.arange(3) for n in range(300)})
    client = client_for(path)
    first = data(client, "/0/")
    assert len(first["features"]) == 40
    second = data(client, "/0/?first=280")
    assert second["features"] == [f"f{n:05}" for n in range(280, 300)]
    assert len(data(client, "/0/?row=1&first=80")["values"]) == 80
    assert "features 0 to 39 of 300" in client.get("/0/").text


def test_a_damaged_record_is_shown_where_it_is(client_for, tmp_path):
    path = tmp_path / "bad.tfrecord"
    hr.write(path, [{"x": row, "s": "x" * 50} for row in range(20)])
    content = bytearray(path.read_bytes())
    where = hr.open(path).where(7)
    hr.records(path)[0]
    content[where.offset + 30] ^= 1
    path.write_bytes(content)
    client = client_for(path)
    page = data(client, "/0/")
    faults = [row for row in page["rows"] if "fault" in row]
    assert faults[0]["row"] == 7
    assert "checksum" in faults[0]["fault"]
    assert [row["values"]["x"] for row in page["rows"][:7]] == list(range(7))
    assert "Show all faults" in client.get("/0/").text or len(page["rows"]) == 20


def test_a_file_that_ends_too_early_still_shows_its_rows(client_for, tmp_path):
    path = tmp_path / "cut.tfrecord"
    hr.write(path, [{"x": row} for row in range(20)])
    path.write_bytes(path.read_bytes()[:-5])
    client = client_for(path)
    page = data(client, "/0/")
    assert page["examples"] is None
    assert page["failure"]
    assert [row["values"]["x"] for row in page["rows"] if "values" in row] == list(range(19))
    assert "Show all faults" in client.get("/0/").text


def test_very_large_values_are_not_read(client_for, tmp_path, monkeypatch):
    monkeypatch.setattr("headrace.viewer.dataset.MOST_PAGE_BYTES", 10_000)
    path = tmp_path / "large.tfrecord"
    hr.write(path, [{"x": b"a" * size} for size in (10, 50_000, 20, 30)])
    client = client_for(path)
    rows = data(client, "/0/")["rows"]
    assert ["fault" in row for row in rows] == [False, True, False, False]
    assert "a page reads at most 10,000" in rows[1]["fault"]
    np.save(tmp_path / "wide.npy", np.zeros((3, 5000), np.float32))
    wide = client_for(tmp_path / "wide.npy")
    assert data(wide, "/0/")["rows"][0]["values"] == {}
    assert "too large to show" in wide.get("/0/").text
    assert "too large to show" in wide.get("/0/?row=1").text


def test_a_function_that_fails_is_one_rows_fault(client_for, shown_file):
    def change(example):
        if example["label"] == 1:
            raise ValueError("no ones")
        return {"label": example["label"]}

    client = client_for(hr.open(shown_file, decode=False).map(change))
    rows = data(client, "/0/?count=6")["rows"]
    assert ["fault" in row for row in rows] == [False, True, False, False, True, False]
    assert "no ones" in rows[1]["fault"]


def test_sources_of_every_kind(client_for, shown_file):
    source = hr.open(shown_file)
    for made in (
        source.select("label"),
        source[10:20],
        source.filter(hr.condition("label = 1")),
        hr.ColumnSource({"a": np.arange(5)}),
    ):
        client = client_for(ShownDataset(made, name="made", code="source"))
        page = data(client, "/0/")
        assert page["examples"] == len(made)
        assert list(made.schema) == page["features"]


def test_an_empty_source(client_for, tmp_path):
    path = tmp_path / "none.tfrecord"
    hr.write(path, [], schema=hr.Schema({"x": hr.Feature("int64")}))
    client = client_for(path)
    for address in ("/0/", "/0/grid", "/0/order", "/0/schema", "/0/faults"):
        assert client.get(address).status_code == 200, address
    assert client.get("/0/?row=0").status_code == 400


@pytest.mark.parametrize(
    ("address", "command"),
    [
        ("/0/?start=20&count=10", "head {} --rows 20:30"),
        ("/0/?row=7", "head {} --rows 7"),
        ("/0/?where=label+%3D+1", "head {} --where 'label = 1'"),
        ("/0/?where=label+%3D+1", "convert {} selection.tfrecord --where 'label = 1'"),
        ("/0/order?batch_size=3&shuffle=0", "head {} --rows 0,1,2"),
        ("/0/faults", "verify {}"),
    ],
)
def test_pages_show_a_command_for_the_same(client, shown_file, address, command):
    assert f"headrace {command.format(shown_file)}" in html.unescape(client.get(address).text)
