"""The commands on CSV."""

import gzip
import json
from pathlib import Path

import pytest

import headrace as hr


@pytest.fixture
def people(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text('name,age,height\n"Ada, C.",36,1.65\nGrace,85,\nAlan,41,1.78\n')
    return path


@pytest.fixture(params=[False, True], ids=["plain", "gzip"])
def file(request, people):
    if not request.param:
        return people
    packed = people.with_name("people.csv.gz")
    packed.write_bytes(gzip.compress(people.read_bytes()))
    return packed


def test_inspect_head_schema_stats_verify(run, file):
    facts = run("inspect", file, "--json").json
    assert (facts["format"], facts["records"]) == ("csv", 3)
    assert facts["compression"] == ("gzip" if file.suffix == ".gz" else "none")
    assert facts["first_example"] == {"name": "Ada, C.", "age": 36, "height": 1.65}
    lines = [json.loads(line) for line in run("head", "-n", 2, file, "--json", "--columns", "age").out.splitlines()]
    assert lines == [{"age": 36}, {"age": 85}]
    assert "height   float64" in run("schema", file).out
    assert run("stats", file).code == 0
    assert run("verify", file).code == 0


def test_options_after_the_name(run, people):
    reported = run("inspect", people, "--format", "csv:header=no", "--json").json
    assert (reported["records"], list(reported["first_example"])) == (4, ["c0", "c1", "c2"])
    assert run("inspect", people, "--format", "csv:heading=no").code == 2
    assert run("inspect", people, "--format", "tsv").code == 2
    assert run("inspect", people, "--format", "npy:header=no").code == 2


def test_index_and_convert(run, people, tmp_path):
    assert run("index", people, "--json").json["built"]
    again = run("index", people, "--json").json
    assert (again["records"], again["built"]) == (3, False)
    assert run("index", people, "--text", tmp_path / "x.idx").code == 2
    people.write_text(people.read_text().replace("1.65", "1.5").replace("1.78", "1.75"))  # what float32 holds
    assert run("convert", people, tmp_path / "people.tfrecord").code == 0
    assert [example["age"] for example in hr.open(tmp_path / "people.tfrecord")] == [36, 85, 41]
    assert run("convert", tmp_path / "people.tfrecord", tmp_path / "back.csv").code == 0
    assert (tmp_path / "back.csv").read_text().startswith("age,height,name\n36,1.5,")


def test_damage(run, people, tmp_path):
    people.write_text("a,b\n1,2\n3\n4,5\n")
    reported = run("verify", people, "--json")
    assert (reported.code, [fault["record"] for fault in reported.json["faults"]]) == (1, [1])
    saved = run("verify", people, "--salvage", tmp_path / "saved.csv")
    assert saved.code == 1
    assert (tmp_path / "saved.csv").read_text() == "a,b\n1,2\n4,5\n"
    assert "1 damaged stretch" in run("head", people, "--skip-corrupt").err


@pytest.mark.parametrize("name", ["abalone.data", "rows"])
@pytest.mark.parametrize("command", ["inspect", "schema", "stats", "verify", "head", "convert"])
def test_files_are_known_by_their_content(run, name, command):
    Path(name).write_text("M,0.455,15\nM,0.35,7\nF,0.53,9\n", encoding="utf-8")
    done = run(command, name, *(["y.jsonl"] if command == "convert" else []), "--json")
    assert done.code == 0, done.err


@pytest.mark.parametrize("command", ["inspect", "schema", "stats", "verify", "head", "convert"])
def test_other_encodings(run, command):
    Path("x.csv").write_bytes("名前,都市\n山田太郎,東京\n佐藤花子,大阪\n".encode("cp932"))
    option = "--source-format" if command == "convert" else "--format"
    more = ["y.jsonl"] if command == "convert" else []
    done = run(command, option, "csv:encoding=cp932", "x.csv", *more, "--json")
    assert done.code == 0, done.err
    if command in ("head", "stats", "convert"):
        wrong = run(command, "x.csv", *more, *(["--overwrite"] if more else []))
        assert wrong.code == 1
        assert "encoding='cp932'" in " ".join((wrong.err + wrong.out).split())
