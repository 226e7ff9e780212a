"""How commands fail."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest
import typer

import headrace as hr
from headrace import cli
from headrace.cli.app import app
from headrace.cli.failures import exit_code, print_error

CLI = Path(cli.__file__).parent


@pytest.mark.parametrize("command", ["inspect", "head", "schema", "stats", "verify", "index"])
def test_nothing_there(run, command):
    done = run(command, "nothing.tfrecord")
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith("headrace: error: no such file, folder or pattern: ")
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize("command", ["inspect", "head", "schema", "stats", "verify"])
def test_not_a_format(run, command, tmp_path):
    (tmp_path / "notes").write_text("hello, these are notes\n")
    done = run(command, tmp_path / "notes")
    assert done.code == 1
    assert "text that begins 'hello" in done.err
    assert len(done.err.splitlines()) == 1


def test_no_such_feature(run, people):
    done = run("head", people, "-c", "nmae")
    assert done.code == 2
    assert "'nmae'" in done.err


def test_hints_use_the_words_of_the_command_line(run, golden):
    done = run("stats", golden("tfrecord/bad_payload_crc.tfrecord"))
    assert "--skip-corrupt" in done.err
    assert "on_corrupt" not in done.err


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"features": 3}', '{"features": {"a": {"dtype": "no"}}}'])
def test_file_that_holds_no_schema(run, people, tmp_path, content):
    (tmp_path / "schema.json").write_text(content)
    done = run("head", people, "--schema", tmp_path / "schema.json")
    assert done.code == 2
    assert "holds no schema" in done.err
    assert run("head", people, "--schema", tmp_path / "none.json").code == 2


def test_traceback_on_request(run, monkeypatch):
    assert isinstance(run("--traceback", "head", "nothing.tfrecord").exception, hr.NoFiles)
    monkeypatch.setenv("HEADRACE_TRACEBACK", "1")
    assert isinstance(run("head", "nothing.tfrecord").exception, hr.NoFiles)


def test_wrong_call(run, people):
    assert run("head", people, "--no-such-option").code == 2
    assert run("head", people, "-n", "-1").code == 2
    assert run("head").code == 2
    assert run("no-such-command").code == 2


def test_version_and_help(run):
    assert run("--version").out == f"headrace {hr.__version__}\n"
    done = run("--help")
    assert done.code == 0
    for name in ("inspect", "head", "schema", "stats", "verify", "convert", "index", "demo"):
        assert name in done.out
        help_of = run(name, "--help")
        assert help_of.code == 0
        assert "Examples:\n  headrace" in help_of.out.replace("    headrace", "  headrace").replace(
            "  Examples", "Examples"
        )


def test_notes_are_printed(capsys):
    error = OSError(28, "No space left on device", "x.npz")
    error.add_note("What is finished is kept.")
    print_error(error)
    assert capsys.readouterr().err == "headrace: error: No space left on device: x.npz. What is finished is kept.\n"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (hr.NoFiles(hr.Where(), expected="a", found="b"), 2),
        (hr.NoSuchFeature(hr.Where(), expected="a", found="b"), 2),
        (hr.CorruptRecord(hr.Where(), expected="a", found="b"), 1),
        (hr.MissingExtra("torch", "torch"), 1),
        (FileNotFoundError(2, "No such file"), 2),
        (PermissionError(13, "Permission denied"), 1),
        (OSError(28, "No space left on device"), 1),
        (ValueError("threads must be 1 or more"), 2),
    ],
)
def test_exit_codes(error, code):
    assert exit_code(error) == code


def test_misspelled_words_are_guessed(run, people):
    assert "Did you mean 'tfrecord'?" in run("inspect", people, "--format", "tfrecrd").err
    assert "Did you mean 'inspect'?" in run("inspekt", people).err
    assert "Did you mean 'height'?" in run("head", people, "--columns", "hight").err


def _named_options(path):
    """The options that the texts of a module name, each with its line."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", node.value):
                if not re.search(rf"var\({option}\)|{option}:", node.value):  # of a style sheet
                    yield option, node.lineno


def test_texts_of_commands_name_only_options_that_there_are():
    commands = typer.main.get_command(app).commands
    options = {
        name: {each for param in command.params for each in (*param.opts, *param.secondary_opts)}
        for name, command in commands.items()
    }
    by_module = {}
    for name, command in commands.items():
        by_module.setdefault(inspect.unwrap(command.callback).__module__, set()).update(options[name])
    own = {each for param in typer.main.get_command(app).params for each in param.opts}
    every = set.union(own, {"--help"}, *options.values())
    for path in sorted(CLI.rglob("*.py")):
        module = ".".join(["headrace", *path.relative_to(CLI.parent).with_suffix("").parts])
        known = by_module.get(module, set()) | own | {"--help"} if module in by_module else every
        unknown = [(option, line) for option, line in _named_options(path) if option not in known]
        assert not unknown, path


def test_hints_of_the_library_name_only_commands_and_options_that_there_are():
    commands = typer.main.get_command(app).commands
    for path in sorted(CLI.parent.rglob("*.py")):
        for name, rest in re.findall(r"`headrace ([a-z]+)([^`\n]*)`", path.read_text(encoding="utf-8")):
            assert name in commands, (path, name)
            known = {each for param in commands[name].params for each in param.opts} | {"--help"}
            assert set(re.findall(r"--[a-z][a-z-]*", rest)) <= known, (path, name, rest)


def test_transform_names_its_own_options(run, tmp_path):
    (tmp_path / "rows.csv").write_text("1,2\n")
    done = run("transform", "m.tar.gz", "--input", tmp_path, "--output", tmp_path / "out", "--strategy", "SingleRecord")
    assert "strategy='SingleRecord' needs --split='Line'" in done.err
    done = run("transform", "m.tar.gz", "--input", tmp_path, "--output", tmp_path / "out", "--join", "--split", "Line")
    assert "--join needs" in done.err
