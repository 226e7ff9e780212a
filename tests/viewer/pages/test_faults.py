"""Faults, and the bytes at them."""

import numpy as np
import pytest
from tests.viewer.conftest import data

import headrace as hr


def _checked(client, address="/0/faults"):
    while not (found := data(client, address))["finished"]:
        pass
    return found


def test_an_intact_file(client):
    found = _checked(client)
    assert found["report"]["ok"] is True
    assert found["report"]["records"] == 300
    assert "no fault" in client.get("/0/faults").text


@pytest.mark.parametrize("suffix", ["tfrecord", "rec"])
def test_faults_lead_to_their_bytes(client_for, tmp_path, suffix):
    path = tmp_path / f"bad.{suffix}"
    hr.write(
        path,
        [{"x": np.full(20, row, np.float32)} for row in range(20)],
        codec="sagemaker_record" if suffix == "rec" else None,
    )
    content = bytearray(path.read_bytes())
    offset = hr.open(path).where(7).offset
    content[offset] ^= 0xFF
    path.write_bytes(content)
    client = client_for(path)
    found = _checked(client)
    fault = found["report"]["faults"][0]
    assert fault["offset"] == offset
    assert "/0/bytes?fault=0" in client.get("/0/faults").text
    shown = data(client, "/0/bytes?fault=0")
    assert shown["offset"] == offset
    at = offset - shown["start"]
    assert bytes.fromhex(shown["hex"])[at : at + 8] == bytes(content[offset : offset + 8])


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("a.tfrecord", ["length", "checksum of the length", "payload", "checksum of the payload"]),
        ("a.rec", ["magic number", "length and part", "payload"]),
        ("a.array_record", None),
    ],
)
def test_the_fields_of_a_frame(client_for, tmp_path, name, fields):
    path = tmp_path / name
    hr.write(path, [{"x": np.full(5, row, np.float32)} for row in range(4)])
    client = client_for(path)
    shown = data(client, "/0/bytes?row=2")
    if fields is None:
        return
    assert [field["name"] for field in shown["fields"]][: len(fields)] == fields
    assert shown["fields"][0]["start"] == shown["offset"] == hr.open(path).where(2).offset
    assert shown["fields"][-1]["stop"] == hr.open(path).where(3).offset
    html = client.get("/0/bytes?row=2").text
    assert 'class="field-0"' in html


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


def test_compressed_files_say_that_they_are(client_for, tmp_path):
    path = tmp_path / "a.tfrecord.gz"
    hr.write(path, [{"x": row} for row in range(30)])
    answer = client_for(path).get("/0/bytes?row=3")
    assert answer.status_code == 200
    assert "compressed" in answer.text


def test_a_source_without_files(client_for):
    client = client_for(hr.ColumnSource({"a": np.arange(3)}))
    assert "nothing to check" in client.get("/0/faults").text
    assert client.get("/0/bytes?row=1").status_code == 400


def test_asking_for_a_fault_first_does_not_stop_the_check(client):
    assert client.get("/0/bytes?fault=0").status_code == 400
    assert _checked(client)["report"]["ok"] is True


def test_a_changed_file_is_checked_again(client_for, tmp_path):
    path = tmp_path / "x.tfrecord"
    hr.write(path, [{"x": row} for row in range(20)])
    client = client_for(path)
    assert _checked(client)["report"]["ok"] is True
    content = bytearray(path.read_bytes())
    content[hr.records(path).where(3).offset + 14] ^= 1
    path.write_bytes(content)
    assert _checked(client)["report"]["ok"] is False


def test_files_of_a_source_that_is_open_are_checked(client_for, tmp_path):
    path = tmp_path / "a.tfrecord"
    hr.write(path, [{"x": 1}])
    client = client_for(hr.open(path))
    assert _checked(client)["report"]["records"] == 1
    html = client.get("/0/faults").text
    assert "1 file, 1 intact record," in html
    assert f"headrace verify {path}" in html


def test_every_column_of_the_table_has_a_head(client_for, tmp_path):
    path = tmp_path / "a.tfrecord"
    hr.write(path, [{"x": row} for row in range(5)])
    path.write_bytes(path.read_bytes()[:-1])
    client = client_for(path)
    assert _checked(client)["report"]["faults"]
    html = client.get("/0/faults").text
    assert 'scope="col">fault</th>' in html
    assert '<th scope="col"></th>' not in html
