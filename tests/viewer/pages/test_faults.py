"""What a check finds, and what is shown of files that cannot be opened."""

import numpy as np
import pytest
from tests.viewer.conftest import client_of, data

import headrace as hr
from headrace.viewer.dataset import open_datasets


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


DAMAGED = [
    "tfrecord",
    "tfrecord.gz",
    "csv",
    "jsonl",
    "jsonl.gz",
    "parquet",
    "array_record",
    "rec",
    "avro",
    "tar",
    "npy",
]
VIEWS = (
    "",
    "?row=1",
    "?where=x+%3E+1",
    "schema",
    "grid",
    "order",
    "image?row=0&feature=x",
    "bytes",
    "bytes?row=1",
    "faults",
)


@pytest.mark.parametrize("suffix", DAMAGED)
def test_damaged_files_are_shown_with_their_faults(client_for, tmp_path, suffix):
    """Also those that cannot be opened: every page answers, and the check says what is wrong."""
    sound, path = tmp_path / f"sound.{suffix}", tmp_path / f"bad.{suffix}"
    columns = {"x": np.arange(40.0).reshape(20, 2)}
    hr.write(sound, columns["x"] if suffix == "npy" else columns, codec="sagemaker_record" if suffix == "rec" else None)
    content = sound.read_bytes()
    size, refused = len(content), 0
    for at in (0, 1, 9, 40, size // 2, size - 2, -1, -5, -size // 2):
        damaged = bytearray(content) if at >= 0 else content[:at]
        if at >= 0:
            damaged[at] ^= 0xFF
        path.write_bytes(damaged)
        try:
            shown = open_datasets(str(path))[0]
        except hr.UnknownFormat:  # nothing says what it is
            continue
        client = client_for(shown)
        refused += shown.refusal is not None
        for view in VIEWS:
            answer = client.get(f"/0/{view}")
            assert answer.status_code in (200, 400, 422), (at, view, answer.text)
            assert "Traceback" not in answer.text
            if shown.refusal is not None and view in VIEWS[:6]:
                assert answer.status_code == 422
                assert 'href="/0/faults"' in answer.text
        found = _checked(client)
        assert found["failure"] or found["report"]["faults"] or shown.refusal is None
    assert refused or suffix == "csv"


def test_a_file_that_cannot_be_opened_leads_to_the_bytes_at_its_fault(client_for, tmp_path):
    path = tmp_path / "bad.jsonl"
    lines = [b'{"x": %d, "name": "row"}' % row for row in range(9)]
    lines[4] = b'{"x": 4, "name": row}'
    path.write_bytes(b"\n".join(lines))
    client = client_for(path)
    front = client.get("/0/", headers={"accept": "application/json"})
    assert front.status_code == 422
    assert f"{path}, record 4" in front.json()["error"]
    shown = data(client, front.json()["bytes"])
    assert [(field["name"], field["meaning"][:15]) for field in shown["fields"]] == [
        ("x", "4"),
        ("unreadable", "Expecting value"),
    ]
    found = _checked(client)["report"]
    assert [fault["record"] for fault in found["faults"]] == [4]
    html = client.get("/0/").text
    assert f"headrace verify {path}" in html
    assert f"headrace view {path} --skip-corrupt" in html


def test_a_damaged_file_cannot_be_compared_or_sent(client_for, shown_file, tmp_path):
    path = tmp_path / "bad.jsonl"
    path.write_text('{"x": 1}\n{"x": }\n')
    client = client_for(shown_file, path)
    answer = client.get("/compare")
    assert answer.status_code == 400
    assert "cannot be opened" in answer.text


def test_the_check_and_the_commands_have_the_options_of_opening(tmp_path):
    path = tmp_path / "x.bin"
    hr.write(path, [{"x": 1, "y": 2}], format="tfrecord")
    shown = open_datasets(str(path), format="tfrecord", codec="example", columns=["x"], on_corrupt="skip")[0]
    client = client_of(shown)
    assert _checked(client)["report"]["ok"] is True
    assert f"headrace verify {path} --format tfrecord --codec example</code>" in client.get("/0/faults").text
    page = client.get("/0/").text
    assert f"headrace head {path} --format tfrecord --codec example --columns x --skip-corrupt --rows 0:50" in page
    assert "--source-format tfrecord --codec example" in client.get("/0/?where=x=1").text
