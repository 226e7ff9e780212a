"""The command as users run it: exit codes, signals, pipes, imports."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import shlex
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import headrace as hr
from headrace.io.engines import describe_engines

HEADRACE = (sys.executable, "-m", "headrace")


def start(*args, command=HEADRACE, **options):
    return subprocess.Popen(
        [*command, *map(str, args)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        **options,
    )


def finish(process):
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def test_runs_as_a_module(people):
    code, out, err = finish(start("inspect", people, "--json"))
    assert (code, err) == (0, "")
    assert json.loads(out)["records"] == 12


def test_errors_are_one_line_and_no_traceback(golden):
    code, out, err = finish(start("verify", "nothing.tfrecord"))
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    code, out, err = finish(start("verify", golden("tfrecord/huge_length.tfrecord")))
    assert (code, err) == (1, "")
    code, out, err = finish(start("--traceback", "head", "nothing.tfrecord"))
    assert code == 1
    assert "Traceback" in err


def test_nothing_but_text_in_a_pipe(people):
    for command in ("inspect", "head", "stats", "verify", "schema"):
        code, out, err = finish(
            start(command, people, env={**os.environ, "FORCE_COLOR": "1", "TERM": "xterm-256color"})
        )
        assert code == 0
        assert "\x1b" not in out + err


def test_reader_that_stops_reading(tmp_path):
    hr.write(tmp_path / "x.tfrecord", {"a": np.arange(50_000)})
    process = start("head", "-n", 50_000, "--json", tmp_path / "x.tfrecord")
    assert process.stdout.readline() == '{"a": 0}\n'
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(timeout=300) == 141


HELD = """
import sys
from headrace.cli import main
from headrace.writing.distributed import unit_writer
opened, begun = unit_writer.open_writer, []
def held(*args, **options):
    begun.append(args)
    if len(begun) == 2:
        sys.stdin.readline()  # until the interrupt was sent
    return opened(*args, **options)
unit_writer.open_writer = held
main()
"""


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_interrupted_conversion_resumes(tmp_path):
    values = np.random.default_rng(0).standard_normal((40_000, 15)).astype(np.float32)
    hr.write(tmp_path / "x.tfrecord", {"a": values})
    call = ("convert", tmp_path / "x.tfrecord", tmp_path / "y.tfrecord.gz", "--threads", 1)
    process = start(*call, command=(sys.executable, "-c", HELD), stdin=subprocess.PIPE)
    deadline = time.monotonic() + 300
    first_unit = tmp_path / ".y.tfrecord.gz.headrace-convert" / "00000-000000000000"
    while not first_unit.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    code, out, err = finish(process)  # closes its input, which releases the unit that waits
    assert (code, out) == (130, "")
    assert err == "interrupted; run the same command again to resume\n"
    assert not (tmp_path / "y.tfrecord.gz").exists()

    code, out, err = finish(start(*call, "--json"))
    assert (code, err) == (0, "")
    done = json.loads(out)
    assert done["examples"] == 40_000
    assert done["resumed"] > 0
    assert np.array_equal(hr.open(tmp_path / "y.tfrecord.gz").batch(np.arange(40_000))["a"], values)
    assert not list(tmp_path.glob(".y*"))


HOLD = """
import sys
try:
    print("held", flush=True)  # in here: the interrupt may come at once
    sys.stdin.readline()  # until it was sent
finally:
    print("tidied up")
raise SystemExit("nobody interrupted")
"""
SCRIPT = "import sys\nfrom {0.module} import {0.attr}\nsys.exit({0.attr}())\n"


@pytest.fixture
def installed(tmp_path):
    """The command as an installer creates it."""
    (entry,) = importlib.metadata.entry_points(group="console_scripts", name="headrace")
    path = tmp_path / "bin" / "headrace"
    path.parent.mkdir()
    path.write_text(SCRIPT.format(entry), encoding="utf-8")
    return (sys.executable, path)


def interrupted(module, folder, *args, command=HEADRACE):
    """What a command does when it is interrupted while it imports ``module``."""
    (folder / f"{module}.py").write_text(HOLD, encoding="utf-8")
    process = start(*args, command=command, env={**os.environ, "PYTHONPATH": str(folder)}, stdin=subprocess.PIPE)
    assert process.stdout.readline() == "held\n"
    process.send_signal(signal.SIGINT)
    return finish(process)


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("module", ["numpy", "typer"])  # one is imported by the package, the other by its command
def test_interrupted_while_importing(tmp_path, installed, module):
    for command in (HEADRACE, installed):
        assert interrupted(module, tmp_path, "--help", command=command) == (130, "", "interrupted\n")


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_interrupted_commands_tidy_up(tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    done = interrupted("pyarrow", tmp_path, "schema", tmp_path / "x.parquet")
    assert done == (130, "tidied up\n", "interrupted\n")


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_importing_the_library_leaves_signals_alone(tmp_path):
    code = "import signal, headrace; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    (tmp_path / "headrace_user.py").write_text(code, encoding="utf-8")
    for call in (("-c", code), (tmp_path / "headrace_user.py",), ("-m", "headrace_user")):
        done = finish(start(*call, command=(sys.executable,), cwd=tmp_path))
        assert done == (0, "True\n", "")


def test_commands_load_nothing_optional():
    code = (
        "import sys, headrace.cli; "
        "print(sorted({'torch', 'jax', 'sklearn', 'scipy', 'isal', 'pandas', 'PIL', 'rich.progress'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert found.stdout.strip() == "[]"


def test_help_loads_little():
    # Help spends its time on imports, a third of a millisecond per module. Count them instead of timing them: machines differ by
    # more than any mistake here would cost.
    code = (
        "import atexit, sys; sys.argv = ['headrace', '--help']; "
        "atexit.register(lambda: print(len(sys.modules), file=sys.stderr)); "
        "from headrace.cli.app import main; main()"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert "convert" in found.stdout
    assert int(found.stderr) < 900, "777 when this was written"


@pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals")
@pytest.mark.parametrize(
    ("settings", "is_coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_colours_are_for_terminals(people, settings, is_coloured):
    shown = on_terminal("schema", people, **settings)
    assert ("\x1b[36m" in shown) is is_coloured
    assert "height" in shown


@pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals")
def test_narrow_terminals(people):
    wide = on_terminal("stats", "--brief", people, columns=200)
    narrow = on_terminal("stats", "--brief", people, columns=70)
    assert "distribution" in wide
    assert "distribution" not in narrow
    assert "mean" in narrow
    assert "example 0" in on_terminal("head", people, columns=40)


def on_terminal(*args, columns=80, **settings):
    """What a command shows on a terminal of this width."""
    import fcntl
    import pty
    import struct
    import termios

    environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES")}
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    call = [*HEADRACE, *map(str, args)]
    process = subprocess.Popen(
        call, stdin=theirs, stdout=theirs, stderr=theirs, env={**environment, "TERM": "xterm-256color", **settings}
    )
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # Linux reports this when the other end is closed
        while part := os.read(ours, 65536):
            shown += part
    os.close(ours)
    assert process.wait(timeout=300) == 0
    return shown.decode()


@pytest.mark.skipif(os.name != "posix", reason="a shell")
@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize(
    "arguments", [("--help",), ("inspect", "PEOPLE"), ("head", "PEOPLE", "--json"), ("verify", "PEOPLE")]
)
def test_a_full_disk_under_the_output_is_one_line(people, arguments, buffered):
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    call = [people if argument == "PEOPLE" else argument for argument in arguments]
    environment = {**os.environ, "PYTHONUNBUFFERED": "" if buffered else "1"}
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*HEADRACE, *call], stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=environment
        )
    assert (done.returncode, done.stderr) == (1, "headrace: error: No space left on device\n")


@pytest.mark.skipif(os.name != "posix", reason="a shell")
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams_are_ignored(people, closed):
    for command in (("head", str(people)), ("stats", str(people), "--json"), ("head", "nothing.tfrecord")):
        line = f"exec {shlex.join([*HEADRACE, *command])} {closed}"
        done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
        assert done.returncode == (2 if "nothing" in line else 0)
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_json_holds_every_name_whole(tmp_path, encoding):
    path = tmp_path / "caf\udce9é.tfrecord"  # the first is a byte that is not UTF-8
    try:
        path.touch()
    except OSError:
        pytest.skip("names are Unicode here")
    hr.write(path, {"é": np.array(["日本"], object)})
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    reported = json.loads(finish(start("inspect", path, "--json", env=environment))[1])
    assert reported["paths"] == [str(path)]
    assert json.loads(finish(start("head", path, "--json", env=environment))[1]) == {"é": "日本"}


def test_versions_of_the_decoders(run):
    plain = run("--version").out
    for arguments in (["--version", "--verbose"], ["-v", "-V"]):
        assert run(*arguments).out == f"{plain}{describe_engines()}\n"
    refused = run("--verbose", "datasets")
    assert refused.code == 2
    assert "it goes with --version" in refused.err


def test_warnings_are_one_line():
    code = (
        "import warnings\n"
        "from headrace.cli import app\n"
        "app.app = lambda **_: warnings.warn('mind the gap')\n"
        "app.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "headrace: warning: mind the gap\n")
