"""Models, and the stage that serves each."""

import json
import tarfile

import pytest
from tests.hosting.places import local

from headrace.errors import CorruptFile, JobFailed, NoFiles, UnsupportedData
from headrace.hosting import recognise, script_stage
from headrace.hosting.stage import load_handler

SCRIPT = """
import os, pathlib
def model_fn(model_dir):
    return pathlib.Path(model_dir, "model.txt").read_text()
def transform_fn(model, data, content_type, accept):
    return model + os.environ.get("SAMPLE", ""), "text/plain"
"""


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    (folder / "code").mkdir(parents=True)
    (folder / "model.txt").write_text("learned")
    return folder


@pytest.mark.parametrize("name", ["inference.py", "own.py"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_script_beside_the_model(model, name, packed):
    (model / "code" / name).write_text(SCRIPT)
    place = model
    if packed:
        place = model.parent / "model.tar.gz"
        with tarfile.open(place, "w:gz") as archive:
            archive.add(model, ".")
    stage = recognise(place)
    if not packed:
        with local(stage) as client:
            assert client.post("/invocations", content=b"x").text == "learned"
    assert stage.factory.endswith(":ScriptContainer")


def test_a_script_elsewhere(model, tmp_path, monkeypatch):
    (tmp_path / "serve.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    stage = recognise("model", entry_point="serve.py")
    monkeypatch.chdir("/")
    with local(stage) as client:
        assert client.post("/invocations", content=b"x").text == "learned"


def test_arguments_of_a_script(model, tmp_path):
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "serve.py").write_text("from beside import *\n")
    (tmp_path / "beside.py").write_text(SCRIPT)
    stage = script_stage(
        model,
        source_dir=tmp_path / "source",
        entry_point="serve.py",
        dependencies=[tmp_path / "beside.py"],
        environment={"SAMPLE": "!"},
        name="first",
    )
    assert json.loads(json.dumps(stage.to_json()))["name"] == "first"
    with local(stage) as client:
        assert client.post("/invocations", content=b"x").text == "learned!"


def test_a_linear_learner(tmp_path):
    (tmp_path / "model_algo-1").write_bytes(b"no zip")
    stage = recognise(tmp_path)
    assert stage.factory.endswith(":LinearLearnerContainer")
    with pytest.raises(JobFailed, match="expected an intact zip"):
        load_handler(stage)


def test_undetectable_formats(model, tmp_path):
    with pytest.raises(UnsupportedData, match=r"model\.txt.*entry_point"):
        recognise(model)
    with pytest.raises(NoFiles):
        recognise(tmp_path / "nope")
    (tmp_path / "no.tar.gz").write_bytes(b"x")
    with pytest.raises(CorruptFile, match="found a file that begins with b'x'"):
        recognise(tmp_path / "no.tar.gz")


def test_paths_in_the_home_folder_and_empty_ones(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "mine.py").write_text("")
    (tmp_path / "here").mkdir()
    stage = recognise("~/here", entry_point="~/mine.py")
    assert (stage.model_dir, stage.arguments["entry_point"]) == (str(tmp_path / "here"), str(tmp_path / "mine.py"))
    for make in (recognise, script_stage):
        with pytest.raises(ValueError, match="expected the path of a model, found an empty text"):
            make("")
