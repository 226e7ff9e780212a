"""The bytes of rows, with what they are."""

import os
import re

import numpy as np
import pytest
from tests.viewer.conftest import data

import headrace as hr
from headrace.viewer.dataset import open_datasets


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("a.tfrecord", ["length", "checksum of the length", "payload", "checksum of the payload"]),
        ("a.rec", ["magic number", "length and part", "payload"]),
        ("a.array_record", ["checksum of the header", "size of the data"]),
        ("a.csv", ["x_0", "delimiter", "x_1"]),
        ("a.csv.gz", ["x_0", "delimiter", "x_1"]),
        ("a.jsonl", ["x"]),
        ("a.avro", ["records", "size", "data", "marker"]),
        ("a.tar", ["name", "mode"]),
        ("a.npy", ["value 0", "value 1"]),
        ("a.parquet", ["page header"]),
    ],
)
def test_the_fields_of_a_row(client_for, tmp_path, name, fields):
    path = tmp_path / name
    rows = np.arange(20, dtype=np.float32).reshape(4, 5)
    hr.write(path, rows if name.endswith("npy") else {"x": rows})
    client = client_for(path)
    shown = data(client, "/0/bytes?row=2")
    assert [field["name"] for field in shown["fields"]][: len(fields)] == fields
    if name.endswith(("tfrecord", "rec", "csv", "npy")):
        assert shown["fields"][0]["start"] == shown["offset"] == hr.open(path).where(2).offset
        assert shown["fields"][-1]["stop"] == hr.open(path).where(3).offset
    html = client.get("/0/bytes?row=2").text
    assert 'class="field-0"' in html
    assert f"headrace head {path} --rows 2 --json" in html
    assert "Its bytes" in client.get("/0/?row=2").text
    far = re.findall(r'href="(/0/bytes\?shift=[^"]+)">0x', html)
    assert len(far) == len(shown["fields"])
    for link, field in zip(far, shown["fields"], strict=True):
        assert data(client, link.replace("&amp;", "&"))["start"] == max(0, field["start"] - 64)


def test_bytes_can_be_turned_over(client):
    first = data(client, "/0/bytes?row=100")
    after = data(client, "/0/bytes?row=100&shift=512")
    assert after["start"] == first["start"] + 512
    assert first["hex"][1024:] == after["hex"][: len(first["hex"]) - 1024]
    far = data(client, "/0/bytes?row=100&shift=999999999")
    assert far["hex"] == ""
    assert data(client, "/0/bytes?row=0&shift=-9999999")["start"] == 0


def test_no_address_names_a_file(client):
    for query in ("path=/etc/passwd", "file=/etc/passwd", "row=/etc/passwd", "fault=../../etc/passwd"):
        assert "root:" not in client.get(f"/0/bytes?{query}").text


@pytest.mark.parametrize("suffix", ["gz", "zlib"])
def test_compressed_files_show_their_decompressed_bytes(client_for, tmp_path, suffix):
    path, plain = tmp_path / f"a.tfrecord.{suffix}", tmp_path / "a.tfrecord"
    for each in (path, plain):
        hr.write(each, [{"x": row} for row in range(30)])
    client = client_for(path)
    assert "decompressed bytes" in client.get("/0/bytes?row=3").text
    shown = data(client, "/0/bytes?row=3")
    begin = shown["start"]
    assert bytes.fromhex(shown["hex"]) == plain.read_bytes()[begin : begin + 1024]
    assert shown["compression"] == {"gz": "gzip", "zlib": "zlib"}[suffix]
    assert shown["fields"][0]["name"] == "length"


@pytest.mark.parametrize("name", ["a.tfrecord", "a.tfrecord.gz", "a.tfrecord.zlib", "a.csv"])
def test_the_code_on_the_page_prints_the_same_bytes(client_for, tmp_path, name, capsys):
    path = tmp_path / name
    hr.write(path, {"x": np.arange(300)})
    if name == "a.csv":
        path.write_text(path.read_text(), encoding="utf-16")
    client = client_for(path)
    html = client.get("/0/bytes?row=100").text
    code = re.search(r"<pre><code>(.*?)</code>", html, re.DOTALL)[1].replace("&#x27;", "'")
    exec(code, {})
    assert capsys.readouterr().out.strip().replace(" ", "") == data(client, "/0/bytes?row=100")["hex"]


def test_where_names_the_absolute_path(tmp_path, monkeypatch):
    """The index is kept under the absolute path, too, and knows that of an earlier call."""
    monkeypatch.chdir(tmp_path)
    for name in ("a.tfrecord", "a.avro", "a.jsonl", "a.csv"):
        hr.write(name, {"x": np.arange(3)})
        path = os.path.join(tmp_path, name)
        assert [hr.open(each).where(1).path for each in (name, path, name)] == [path] * 3
        assert str(hr.open(name).where(1)).startswith(f"{name}, record 1")


def test_rows_of_folders_show_the_file_of_the_row(client_for, tmp_path):
    folder = tmp_path / "rows"
    hr.write(folder, {"x": np.arange(6.0).reshape(3, 2)}, format="npz_folder")
    client = client_for(open_datasets(str(folder), format="npz_folder")[0])
    assert bytes.fromhex(data(client, "/0/bytes?row=1")["hex"])[:2] == b"PK"


def test_no_bytes_of_a_replaced_file(client_for, tmp_path):
    path, later = tmp_path / "a.tfrecord", tmp_path / "b.tfrecord"
    hr.write(path, {"x": np.arange(50)})
    hr.write(later, {"x": np.arange(20.0)})
    client = client_for(path)
    later.replace(path)
    answer = client.get("/0/bytes?row=3")
    assert answer.status_code == 400
    assert f"{path} was changed after it was opened" in answer.text
    for address in ("/0/?start=3", "/0/?where=x%3D3", "/0/?row=3", "/0/faults"):
        assert "was changed after it was opened" in client.get(address).text, address
