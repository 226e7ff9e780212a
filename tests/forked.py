"""Runs scripts in forks of a process that has imported NumPy and Headrace, which saves the start of Python.

A script runs as the main program until the interpreter ends: threads are joined, atexit handlers called.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["ForkedScripts"]

SERVER = """
import json, os, sys
import numpy
import headrace as hr
hr.open, hr.records, hr.Loader, hr.write, hr.convert, hr.verify, hr.ColumnSource

for line in sys.stdin.buffer:
    asked = json.loads(line)
    if asked.get("preload"):
        __import__(asked["preload"])
        continue
    child = os.fork()
    if child == 0:
        break
    status = os.waitpid(child, 0)[1]
    print(os.waitstatus_to_exitcode(status), flush=True)
else:
    os._exit(0)
for number, name in enumerate((os.devnull, asked["stdout"], asked["stderr"])):
    descriptor = os.open(name, os.O_RDWR | os.O_CREAT)
    os.dup2(descriptor, number)
    os.close(descriptor)
sys.stdin = open(os.devnull)
os.chdir(asked["folder"])
sys.argv[:] = asked["argv"]
os.environ.update(asked["environment"])
text = asked["text"]
for name in [name for name in globals() if not name.startswith("__") and name != "text"]:
    del globals()[name]
exec(compile(text, "<script>", "exec"), globals())
"""


class ForkedScripts:
    """A process that forks scripts. It ends with ``close``."""

    def __init__(self) -> None:
        self._server = subprocess.Popen([sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(
        self, text: str, *argv: str, folder: Path, preload: str = "", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a script in a folder.

        Args:
            text: The script.
            argv: Its arguments.
            folder: The working directory.
            preload: A module to import before the fork, for this and all later scripts.
            environment: Environment variables, beside those of this process.
        """
        if preload:
            self._ask({"preload": preload})
        with tempfile.TemporaryDirectory() as place:
            out, err = Path(place, "out"), Path(place, "err")
            self._ask(
                {
                    "text": text,
                    "argv": ["-c", *argv],
                    "folder": str(folder),
                    "environment": {**os.environ, **environment},
                    "stdout": str(out),
                    "stderr": str(err),
                }
            )
            assert self._server.stdout is not None
            code = int(self._server.stdout.readline())
            return subprocess.CompletedProcess(["-c", *argv], code, out.read_text(), err.read_text())

    def _ask(self, message: dict[str, object]) -> None:
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps(message).encode() + b"\n")
        self._server.stdin.flush()

    def close(self) -> None:
        """End the process."""
        self._server.communicate()
