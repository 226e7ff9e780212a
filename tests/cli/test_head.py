"""``headrace head``."""

from __future__ import annotations

import base64
import json

import numpy as np

import headrace as hr


def rows(done):
    return [json.loads(line) for line in done.out.splitlines()]


def test_table(run, people):
    done = run("head", people, "-n", 2, "--columns", "name,age")
    assert done.code == 0
    assert done.out == "   name        age\n0  'person 0'  20\n1  'person 1'  21\n"


def test_json_lines_are_whole_examples(run, people):
    found = rows(run("head", people, "-n", 12, "--json"))
    source = hr.open(people)
    assert len(found) == 12
    for row, example in zip(found, source, strict=True):
        assert row["age"] == example["age"]
        assert base64.b64decode(row["photo"]["b64"]) == example["photo"]
        assert row["tags"] == example["tags"].tolist()


def test_five_by_default_or_as_many_as_exist(run, people):
    assert len(rows(run("head", people, "--json"))) == 5
    assert len(rows(run("head", people, "-n", 100, "--json"))) == 12
    assert run("head", people, "-n", 0, "--json").out == ""


def test_numbers_that_json_lacks(run, tmp_path):
    np.save(tmp_path / "x.npy", np.array([np.nan, np.inf, -np.inf, 0.5]))
    found = rows(run("head", tmp_path / "x.npy", "--json"))
    assert [row["values"] for row in found] == ["nan", "inf", "-inf", 0.5]


def test_needs_no_index(run, people, tmp_path):
    run("head", people)
    assert not list((tmp_path / "cache").rglob("*.psindex"))


def test_records_before_damage_are_shown(run, golden):
    done = run("head", golden("tfrecord/truncated_payload.tfrecord"), "-n", 3, "--json")
    assert done.code == 1
    assert len(rows(done)) == 1
    assert "record 1" in done.err
    table = run("head", golden("tfrecord/truncated_payload.tfrecord"), "-n", 3)
    assert len(table.out.splitlines()) == 2


def test_given_schema(run, people, tmp_path):
    schema = hr.Schema({"age": hr.Feature("uint8")})
    (tmp_path / "schema.json").write_text(schema.to_json())
    assert rows(run("head", people, "-n", 1, "--schema", tmp_path / "schema.json", "--json")) == [{"age": 20}]


def test_control_characters_do_not_reach_the_terminal(run, tmp_path):
    hr.write(tmp_path / "x.tfrecord", [{"evil\x1b[2J": "\x1b[31mred\r\n"}])
    done = run("head", tmp_path / "x.tfrecord")
    assert done.code == 0
    assert "\x1b" not in done.out
    assert "\\x1b[31mred\\r\\n" in done.out


def test_rows_that_fit_a_condition(run, people):
    done = run("head", people, "--where", "age = 22 and height > 1.7", "--columns", "name")
    assert done.code == 0
    assert done.out == "    name\n6   'person 6'\n10  'person 10'\n"
    assert [row["age"] for row in rows(run("head", people, "--where", "age > 21", "-n", 3, "--json"))] == [22, 23, 22]
    assert run("head", people, "--where", "age > 99", "--json").out == ""


def test_rows_by_index(run, people):
    done = run("head", people, "--rows", "11, 2:4,0", "--columns", "name")
    assert done.out == "    name\n11  'person 11'\n2   'person 2'\n3   'person 3'\n0   'person 0'\n"
    assert len(rows(run("head", people, "--rows", "5:", "--json"))) == 7
    done = run("head", people, "--rows", "12")
    assert done.code == 2
    assert "row 12 is not below 12" in done.err
    assert run("head", people, "--rows", "1..3").code == 2
    assert run("head", people, "--rows", "1", "--where", "age = 20").code == 2
    assert run("head", people, "--rows", "0:4", "-n", 1).code == 2


def test_a_condition_that_cannot_be_read(run, people):
    done = run("head", people, "--where", "age = = 7")
    assert (done.code, "--where" in done.err) == (2, True)
    done = run("head", people, "--where", "aeg = 7")
    assert done.code == 2
    assert "'age'" in done.err


def test_a_split_of_a_prepared_dataset(run, golden, monkeypatch, tmp_path):
    folder = golden("tfds/array_record/mini/1.2.0")
    [split, *_] = hr.data_source(folder)
    ran = run("head", "--json", "-n", 1, f"{folder}:{split}")
    assert ran.code == 0, ran.err
    assert set(ran.json) == set(hr.data_source(folder, split=split).schema)
    [name, *_] = ran.json
    assert run("head", "--json", "-n", 1, "--columns", name, f"{folder}:{split}").json == {name: ran.json[name]}
    assert len(run("head", "--json", f"{folder}:{split}[:2]").out.splitlines()) == 2
    assert name in run("schema", "--json", f"{folder}:{split}").json["features"]
    assert run("convert", f"{folder}:{split}", tmp_path / "copy.tfrecord").code == 0
    assert len(hr.open(tmp_path / "copy.tfrecord")) == len(hr.data_source(folder, split=split))
    refused = run("head", f"{folder}:nothing")
    assert refused.code == run("head", "nothing:nothing").code == 2
    assert split in refused.err


def test_a_condition_that_does_not_fit_the_types(run, tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, d=np.array(["2020-01-01", "2021-01-01"], "M8[D]"))
    done = run("head", path, "--where", "d > 5")
    assert (done.code, "datetime64[D] and int cannot be compared" in done.err) == (2, True)


def test_repeated_options_add_up(run, people):
    options = ["--where", "age > 20", "--where", "age < 22 or age = 20"]
    found = rows(run("head", people, "--json", *options))
    assert [row["age"] for row in found] == [21, 21, 21]
    found = rows(run("head", people, "--json", "--rows", "3,1", "--rows", "5:7"))
    assert [row["name"] for row in found] == ["person 3", "person 1", "person 5", "person 6"]
    done = run("head", people, "--where", "age > 20", "--where", "age >")
    assert done.code == 2
    assert "--where" in done.err


def test_nothing_to_show_is_wrong_usage(run, people):
    done = run("head", people, "--rows", "5:2")
    assert done.code == 2
    assert "the range 5:2 is empty" in " ".join(done.err.split())
    done = run("head", people, "-c", "")
    assert done.code == 2
    assert "expected the names of features" in " ".join(done.err.split())


def test_any_count_and_nothing_but_the_error_of_a_row_that_is_not_there(run, people):
    assert run("head", people, "-n", "9" * 25).out == run("head", people, "-n", "100").out
    done = run("head", people, "--rows", "100")
    assert done.out == ""
    assert "row 100 is not below 12" in done.err
