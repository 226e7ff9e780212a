"""Processes: output lines, exit, failure messages."""

import os
import sys
import threading

import pytest

from headrace.containers.training.process import LINE_LIMIT_BYTES, ProcessResult, run
from headrace.containers.training.script_job import failure_text, reason, summary
from headrace.contracts.job import shorten_reason


def python(code, **options):
    lines = []
    options = {"stop": threading.Event(), "grace_s": 60, "log": lines.append, **options}
    result = run([sys.executable, "-c", code], cwd=os.path.dirname(__file__), environment=os.environ, **options)
    return result, lines


def test_many_lines_of_both_streams():
    result, lines = python("import sys\nfor n in range(20000):\n print('out', n)\n print('err', n, file=sys.stderr)\n")
    assert result.status == 0
    assert [line for line in lines if line.startswith("out")] == [f"out {n}" for n in range(20000)]
    assert [line for line in lines if line.startswith("err")] == [f"err {n}" for n in range(20000)]
    assert result.errors[-1] == "err 19999"
    assert len(result.errors) == 400


def test_a_line_without_an_end_is_printed_in_parts():
    _, lines = python(f"print('x' * {5 * LINE_LIMIT_BYTES})")
    assert "".join(lines) == "x" * (5 * LINE_LIMIT_BYTES)
    assert len(lines) > 1


class EndsWhenWaitedFor(threading.Event):
    """A stop event that lets the process end when it is first waited for."""

    def __init__(self, fifo):
        super().__init__()
        self.fifo, self.was_waited_for = fifo, False

    def wait(self, timeout=None):
        if not self.was_waited_for:
            self.was_waited_for = True
            self.fifo.write_bytes(b"go")
        return super().wait(timeout)


def test_one_that_closes_its_output_is_waited_for(tmp_path):
    os.mkfifo(tmp_path / "go")
    stop = EndsWhenWaitedFor(tmp_path / "go")
    code = f"import os\nos.close(1); os.close(2)\nopen({str(tmp_path / 'go')!r}).read(); os._exit(7)"
    result, _ = python(code, stop=stop)
    assert (result.status, stop.was_waited_for) == (7, True)


def test_one_that_closes_its_output_is_stopped_too():
    stop = threading.Event()
    # Many short sleeps: a signal that arrives just before a sleep is handled when it ends.
    code = "import os, signal, time\nsignal.signal(15, lambda *_: os._exit(9))\nprint('ready', flush=True)\nos.close(1); os.close(2)\nwhile True: time.sleep(0.05)"
    result, _ = python(code, stop=stop, log=lambda line: stop.set())
    assert (result.status, result.was_stopped, result.was_killed) == (9, True, False)


def test_a_log_that_fails_ends_the_process():
    def fail(line):
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        python("import time; print('x', flush=True); time.sleep(600)", log=fail)


def test_a_program_that_is_not_there(tmp_path):
    with pytest.raises(OSError):
        run(["/nothing"], cwd=tmp_path, environment={}, log=print, stop=threading.Event(), grace_s=1)


TRACE = ["Traceback (most recent call last):", '  File "a.py", line 1, in <module>', "    f()"]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([], ""),
        (["", "  "], ""),
        (["some words"], "some words"),
        ([*TRACE, "ValueError: no"], "ValueError: no"),
        ([*TRACE, "mine.Trouble: no", "second line"], "mine.Trouble: no second line"),
        (
            [
                *TRACE,
                "KeyError: 1",
                "",
                "During handling of the above exception, another exception occurred:",
                "",
                *TRACE,
                "OSError: 2",
            ],
            "OSError: 2",
        ),
        ([*TRACE, "KeyboardInterrupt"], "KeyboardInterrupt"),
        (
            [
                "  + Exception Group Traceback (most recent call last):",
                '  |   File "a.py", line 1, in <module>',
                "  | ExceptionGroup: two workers failed (2 sub-exceptions)",
                "  +-+---------------- 1 ----------------",
                "    | Traceback (most recent call last):",
                '    |   File "a.py", line 1, in f',
                "    | ValueError: no rows in part 3",
                "    +---------------- 2 ----------------",
                "    | KeyError: 1",
                "    +------------------------------------",
            ],
            "ExceptionGroup: two workers failed (2 sub-exceptions); the first: ValueError: no rows in part 3",
        ),
        ([*TRACE, "ValueError: no", "terminate called"], "ValueError: no terminate called"),
        (["usage: a.py [-h]", "a.py: error: unrecognized arguments: --x"], "a.py: error: unrecognized arguments: --x"),
    ],
)
def test_the_log_line(lines, expected):
    assert summary(lines) == expected


def test_reasons():
    assert reason(ProcessResult(status=2, errors=("no",)), "a.py") == "a.py failed with exit code 2: no"
    assert reason(ProcessResult(status=2, errors=()), "a.py") == "a.py failed with exit code 2"
    assert reason(ProcessResult(status=-11, errors=()), "a.py") == "a.py was killed by SIGSEGV (signal 11)"
    assert reason(ProcessResult(status=-120, errors=()), "a.py") == "a.py was killed by signal 120"
    assert len(shorten_reason("x y\n" * 1000)) == 1024
    assert shorten_reason("a\n b") == "a b"


def test_the_text_of_a_failure():
    text = failure_text(ProcessResult(status=-9, errors=(*TRACE, "MemoryError")), ["python", "a b.py"])
    assert text.startswith('ExecuteUserScriptError:\nExitCode 137\nErrorMessage "Traceback')
    assert text.endswith(
        'MemoryError"\nExtraInfo "OutOfMemory: Process killed by SIGKILL (signal 9)"\nCommand "python \'a b.py\'"'
    )
