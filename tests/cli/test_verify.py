"""``headrace verify``."""

from __future__ import annotations

import pytest
from tests.io.store_server import environment, serving_store

import headrace as hr

DAMAGED = (
    "bad_length_crc",
    "bad_payload_crc",
    "huge_length",
    "truncated.gzip",
    "truncated_header",
    "truncated_payload",
)


def test_sound_files(run, people):
    done = run("verify", people)
    assert done.code == 0
    assert done.out == f"1 file, 12 intact records, {people.stat().st_size / 1000:.2f} kB: no fault\n"


@pytest.mark.parametrize("name", DAMAGED)
def test_every_damaged_golden_is_found(run, golden, name):
    path = golden(f"tfrecord/{name}.tfrecord")
    done = run("verify", path)
    assert done.code == 1
    assert done.err == ""
    assert path in done.out
    assert done.out.splitlines()[-1].endswith(": 1 fault")
    facts = run("verify", path, "--json")
    assert facts.code == 1
    assert facts.json["ok"] is False
    assert facts.json["faults"][0]["path"] == path


def test_lists_more_than_one_fault(run, tmp_path):
    path = tmp_path / "x.tfrecord"
    hr.write_records(path, [bytes([i]) * 50 for i in range(10)])
    content = bytearray(path.read_bytes())
    for record in (2, 7):
        content[record * 66 + 20] ^= 1
    path.write_bytes(content)
    done = run("verify", path)
    assert done.code == 1
    faults = [line for line in done.out.splitlines() if line.startswith("CorruptRecord")]
    assert ["record 2, byte 0x84" in faults[0], "record 7, byte 0x1ce" in faults[1]] == [True, True]
    assert done.out.splitlines()[-1].endswith("2 faults")
    assert [fault["record"] for fault in run("verify", path, "--json").json["faults"]] == [2, 7]


def test_against_a_schema(run, people, tmp_path):
    (tmp_path / "schema.json").write_text(hr.Schema({"age": hr.Feature("float32")}).to_json())
    done = run("verify", people, "--schema", tmp_path / "schema.json", "--json")
    assert done.code == 1
    assert {fault["feature"] for fault in done.json["faults"]} == {"age"}
    assert len(done.json["faults"]) == 12


def test_npy(run, golden):
    assert run("verify", golden("npy/f4.npy")).code == 0
    assert run("verify", golden("npy/damaged_truncated.npy")).code == 1


def test_salvage(run, tmp_path):
    path, out = tmp_path / "x.array_record", tmp_path / "out.array_record"
    hr.write_records(path, [bytes([i]) * 50 for i in range(10)])
    content = path.read_bytes()
    path.write_bytes(content[:-65_000])  # the postscript is cut
    done = run("verify", path)
    assert done.code == 1
    assert "CorruptFile" in done.out
    done = run("verify", path, "--salvage", out)
    assert done.code == 1
    assert f"saved 10 records in {out}; 0 lost, " in done.err
    assert len(hr.records(out)) == 10
    assert run("verify", out).code == 0
    assert run("verify", path, "--salvage", out).code == 1
    assert run("verify", out, "--salvage", tmp_path / "again").code == 0


def test_faults_beyond_the_list_are_counted(run, tmp_path, monkeypatch):
    monkeypatch.setattr("headrace.writing.verify.MOST_FAULTS", 3)
    path = tmp_path / "x.tfrecord"
    hr.write_records(path, [bytes([i]) * 4 for i in range(10)])
    content = bytearray(path.read_bytes())
    for record in range(10):
        content[record * 20 + 12] ^= 1
    path.write_bytes(content)
    done = run("verify", path)
    assert done.code == 1
    assert len(done.out.splitlines()) == 5
    assert done.out.splitlines()[-2] == "... and 7 more"
    assert done.out.splitlines()[-1].endswith(": 10 faults")
    assert run("verify", path, "--json").json["more_faults"] == 7


def test_intact_records_are_saved_in_a_store(run, people, monkeypatch):
    pytest.importorskip("obstore")
    with serving_store() as store:
        for name, value in environment("s3", store.url).items():
            monkeypatch.setenv(name, value)
        done = run("verify", people, "--salvage", "s3://bucket/saved.tfrecord")
        assert done.code == 0
        assert len(hr.open("s3://bucket/saved.tfrecord")) == 12
