"""Preparation before processes load the containers."""

import io
import sys
import tarfile
import tempfile

import pytest
from tests.hosting.places import sample

from headrace.contracts.serving import Request
from headrace.errors import JobFailed
from headrace.hosting.prepare import prepare_stages
from headrace.hosting.stage import load_handler, script_stage

SCRIPT = """
import words

def model_fn(model_dir):
    return None

def transform_fn(model, body, content_type, accept):
    return words.WORD, "text/plain"
"""


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "own" / "script.py"
    path.parent.mkdir()
    path.write_text(SCRIPT)
    return path


def dependency(tmp_path, word):
    path = tmp_path / "words.py"
    path.write_text(f"WORD = {word!r}\n")
    return path


def answer(stage):
    return load_handler(stage)(Request(body=b"", content_type="text/csv")).body


def test_the_python_path_of_a_container_is_searched(tmp_path, script, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "words", raising=False)
    (tmp_path / "library").mkdir()
    dependency(tmp_path / "library", "found")
    stage = script_stage(
        tmp_path, entry_point=script, environment={"PYTHONPATH": f"{tmp_path}/none:{tmp_path}/library"}
    )
    assert answer(stage) == b"found"
    sys.modules.pop("words", None)


def test_a_script_with_dependencies_is_put_together_once(tmp_path, temporary, script):
    stage = script_stage(tmp_path, entry_point=script, dependencies=[dependency(tmp_path, "one")])
    with prepare_stages([stage]) as (ready,):
        (folder,) = temporary.iterdir()
        assert answer(ready) == answer(ready) == b"one"
        assert list(temporary.iterdir()) == [folder]
        assert sorted(path.name for path in folder.glob("*.py")) == ["script.py", "words.py"]
    assert not list(temporary.iterdir())


def test_a_script_in_an_archive_is_put_into_the_folder_that_was_given(tmp_path, temporary):
    archive = tmp_path / "code.tar.gz"
    with tarfile.open(archive, "w:gz") as opened:
        for name, text in (("script.py", SCRIPT), ("words.py", "WORD = 'two'\n")):
            member = tarfile.TarInfo(name)
            member.size = len(text)
            opened.addfile(member, io.BytesIO(text.encode()))
    stage = script_stage(tmp_path, entry_point="script.py", source_dir=archive)
    place = tmp_path / "models"
    (place / "2" / "code").mkdir(parents=True)
    (place / "2" / "code" / "old.py").write_text("")
    with prepare_stages([sample("echo"), stage], place) as (echo, ready):
        assert echo == sample("echo")
        assert ready.arguments["source_dir"] == str(place / "2" / "code")
        assert sorted(path.name for path in (place / "2" / "code").iterdir()) == ["script.py", "words.py"]
        assert answer(ready) == b"two"
    assert not list(temporary.iterdir())


def test_contiguous_data_is_not_copied(tmp_path, temporary, script):
    stage = script_stage(tmp_path, entry_point=script)
    with prepare_stages([stage]) as ready:
        assert ready == [stage]
        assert not list(temporary.iterdir())


def test_a_script_that_is_not_there(tmp_path):
    with (
        pytest.raises(JobFailed, match=r"nowhere\.py"),
        prepare_stages([script_stage(tmp_path, entry_point="nowhere.py")]),
    ):
        pass
