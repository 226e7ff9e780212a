"""Several files get their names at once. Whatever happens in between: no mixture of old and new files stays."""

from __future__ import annotations

import os
import shutil
import signal
import warnings
from pathlib import Path

import pytest

from headrace.io.write import commit
from headrace.io.write.commit import finish_names, give_names, has_journal, names_given
from headrace.io.write.pending import remove_abandoned
from headrace.io.write.staging import FolderStaging, finish_interrupted

COUNT = 3
NAMES = {f"{number}-whole": f"x-{number}" for number in range(COUNT)}
STEPS = 2 * COUNT + 1
"""Renames: the journal, the old files, the new ones."""
KINDS = ["files", "folders", "some files", "nothing"]


def prepare(tmp_path, kind):
    """A folder of new files, and old ones beside it. Returns it, the names and the old content."""
    folder = tmp_path / ".hidden"
    folder.mkdir()
    for number, name in enumerate(NAMES):
        put(folder / name, "new", is_folder=kind == "folders")
        if kind in ("files", "folders") or (kind == "some files" and number != 1):
            put(tmp_path / NAMES[name], "old", is_folder=kind == "folders")
    return folder, {name: str(tmp_path / path) for name, path in NAMES.items()}, contents(tmp_path)


def put(path, text, *, is_folder):
    if is_folder:
        path.mkdir()
        path /= "a"
    path.write_text(text)


def contents(folder):
    """What a reader sees: the name and the age of each."""
    return {
        path.name: (path / "a" if path.is_dir() else path).read_text()
        for path in folder.iterdir()
        if not path.name.startswith(".")
    }


NEW = dict.fromkeys(NAMES.values(), "new")


def in_a_process_that_is_killed(step, act):
    """Do something in a child process that ends at one of its renames. Returns its exit code."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other tests may have left threads
        child = os.fork()
    if child == 0:
        signal.alarm(120)
        replace, calls = os.replace, []

        def die(source, target):
            calls.append(source)
            if len(calls) == step:
                os._exit(9)
            replace(source, target)

        os.replace = die
        try:
            act()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a child process")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("again", [None, 1, 2])
@pytest.mark.parametrize("step", range(1, STEPS + 2))
def test_a_kill_at_each_step(tmp_path, kind, step, again):
    folder, names, old = prepare(tmp_path, kind)
    code = in_a_process_that_is_killed(step, lambda: give_names(str(folder), names))
    found = contents(tmp_path)
    assert found.items() <= old.items() or found.items() <= NEW.items()
    assert code == 0 or step <= 1 + len(old) + COUNT
    if step == 1:
        assert not has_journal(folder)
        assert found == old
        return
    if again is not None:  # whoever finishes is killed, too
        in_a_process_that_is_killed(again, lambda: finish_names(str(folder)))
        found = contents(tmp_path)
        assert found.items() <= old.items() or found.items() <= NEW.items()
    finish_names(str(folder))
    assert contents(tmp_path) == NEW
    assert names_given(str(folder)) == set(names.values())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a child process")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", range(2, STEPS + 1))
@pytest.mark.parametrize("changed", [["x-1"], ["x-0", "x-1", "x-2"]])
def test_what_was_written_after_the_kill_is_kept(tmp_path, kind, step, changed):
    folder, names, _ = prepare(tmp_path, kind)
    in_a_process_that_is_killed(step, lambda: give_names(str(folder), names))
    for name in changed:
        put_again(tmp_path / name, "newer", is_folder=kind == "folders")
    finish_names(str(folder))
    assert contents(tmp_path) == {**NEW, **dict.fromkeys(changed, "newer")}
    assert names_given(str(folder)) == {str(tmp_path / name) for name in NEW if name not in changed}


def put_again(path, text, *, is_folder):
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    put(path, text, is_folder=is_folder)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", range(1, STEPS + 1))
def test_an_error_at_each_step_takes_everything_back(tmp_path, monkeypatch, kind, step):
    folder, names, old = prepare(tmp_path, kind)
    replace, calls = os.replace, []

    def fail(source, target):
        calls.append(source)
        if len(calls) == step:
            raise PermissionError(13, "Permission denied")
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail)
        if step > 1 + len(old) + COUNT:
            give_names(str(folder), names)
            return
        with pytest.raises(PermissionError):
            give_names(str(folder), names)
    assert contents(tmp_path) == old
    assert not has_journal(folder)
    assert names_given(str(folder)) == set()
    give_names(str(folder), names)
    assert contents(tmp_path) == NEW


def test_an_error_that_cannot_be_undone_is_finished_later(tmp_path, monkeypatch):
    folder, names, old = prepare(tmp_path, "files")
    replace, calls = os.replace, []

    def fail(source, target):
        calls.append(source)
        if len(calls) >= 6:
            raise PermissionError(13, "Permission denied")
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail)
        with pytest.raises(PermissionError):
            give_names(str(folder), names)
    assert contents(tmp_path).items() <= old.items() or contents(tmp_path).items() <= NEW.items()
    assert has_journal(folder)
    finish_names(str(folder))
    assert contents(tmp_path) == NEW


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a child process")
def test_one_file_is_never_missing(tmp_path):
    for step in (1, 2, 3):
        folder = tmp_path / f".hidden-{step}"
        folder.mkdir()
        (folder / "a").write_text("new")
        (tmp_path / "x").write_text("old")
        in_a_process_that_is_killed(step, lambda folder=folder: give_names(str(folder), {"a": str(tmp_path / "x")}))
        assert (tmp_path / "x").read_text() == ("new" if step == 3 else "old")


def test_names_of_any_bytes(tmp_path):
    path = os.fsdecode(os.fsencode(str(tmp_path)) + b"/\xff")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "a").write_text("new")
    give_names(str(tmp_path / ".hidden"), {"a": path})
    assert Path(path).read_text() == "new"
    assert names_given(str(tmp_path / ".hidden")) == {path}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a child process")
@pytest.mark.parametrize("step", range(1, STEPS + 2))
@pytest.mark.parametrize("follower", ["the same write", "another file"])
def test_the_next_writer_finishes_what_a_staging_has_begun(tmp_path, step, follower):
    for path in NAMES.values():
        (tmp_path / path).write_text("old")

    def write():
        found = FolderStaging(str(tmp_path / "x-0"))
        for name in NAMES:
            Path(found.path(name)).write_text("new")
        found.commit({name: str(tmp_path / path) for name, path in NAMES.items()})

    in_a_process_that_is_killed(step, write)
    if follower == "the same write":
        finish_interrupted(str(tmp_path / "x-0"))
    else:
        remove_abandoned(str(tmp_path), "y")
    assert contents(tmp_path) == (NEW if step > 1 else dict.fromkeys(NAMES.values(), "old"))
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_staging_that_cannot_undo_its_names_keeps_the_old_files(tmp_path, monkeypatch):
    found = FolderStaging(str(tmp_path / "x-0"))
    for name, path in NAMES.items():
        Path(found.path(name)).write_text("new")
        (tmp_path / path).write_text("old")
    monkeypatch.setattr(commit, "_take_back", lambda *_: None)
    replace = os.replace

    def fail(source, target):
        if Path(target) == tmp_path / "x-1":
            raise PermissionError(13, "Permission denied")
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail)
        with pytest.raises(PermissionError):
            found.commit({name: str(tmp_path / path) for name, path in NAMES.items()})
    found.discard()
    finish_names(found.place)
    assert contents(tmp_path) == NEW


@pytest.mark.parametrize(
    "journal",
    [
        '{"a": "../victim"}',
        '{"a": "/PLACE/victim"}',
        '{"../b": "victim"}',
        '{"a": ".."}',
        '{"a": ""}',
        '{"a": 1}',
        '["a"]',
        "{",
        "[" * 100_000,
        "",
    ],
)
def test_a_planted_journal_moves_no_file(tmp_path, journal):
    folder = tmp_path / "here" / ".hidden"
    folder.mkdir(parents=True)
    for place in (tmp_path, tmp_path / "here"):
        (place / "victim").write_text("old")
        (place / "b").write_text("planted")
    (folder / "a").write_text("planted")
    (folder / commit.JOURNAL).write_text(journal.replace("/PLACE", str(tmp_path)))
    finish_names(str(folder))
    assert names_given(str(folder)) == set()
    assert [(place / "victim").read_text() for place in (tmp_path, tmp_path / "here")] == ["old", "old"]
    assert (folder / "a").exists()


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no users")
def test_a_journal_of_another_user_is_ignored(tmp_path, monkeypatch):
    folder, names, _ = prepare(tmp_path, "nothing")
    monkeypatch.setattr(commit, "_move", lambda *_: None)
    give_names(str(folder), names)
    monkeypatch.undo()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert not finish_names(str(folder))
    assert contents(tmp_path) == {}
    monkeypatch.undo()
    assert finish_names(str(folder))
    assert contents(tmp_path) == NEW


def test_files_elsewhere_get_no_names(tmp_path):
    folder, _, _ = prepare(tmp_path, "nothing")
    with pytest.raises(ValueError, match="is not beside"):
        give_names(str(folder), {"0-whole": str(tmp_path / "other" / "x")})
    assert not has_journal(folder)
