"""The cost of an import, as whole interpreters, so that the bare one can be subtracted."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass

from benchmarks.compare.tasks import Timing
from benchmarks.data import Files

OPTIONAL = ("IPython", "PIL", "datasets", "isal", "jax", "pandas", "pyarrow", "ray", "rich", "scipy", "sklearn")
OPTIONAL += ("simplejpeg", "starlette", "tensorflow", "torch", "typer", "uvicorn")
"""What ``import headrace`` must not load; typer and rich belong to the command line only."""


@dataclass(frozen=True, slots=True)
class ImportTask:
    """``python -c "import <module>; <then>"``; an empty name is the bare interpreter."""

    module: str
    then: str = ""

    def check(self) -> None:
        """The import works, and Headrace's loads nothing optional."""
        optional = OPTIONAL if self.module == "headrace" else ()
        loaded = f"loaded = set(sys.modules) & set({optional!r})"
        self._python(f"{self._statement()}; import sys; {loaded}; assert not loaded, loaded")

    def run(self) -> Timing:
        """One interpreter, start to end."""
        before, start = os.times(), time.perf_counter()
        self._python(self._statement())
        wall, after = time.perf_counter() - start, os.times()
        cpu = after.children_user + after.children_system - before.children_user - before.children_system
        return Timing(epoch_s=wall, first_s=None, wall_s=wall, cpu_s=cpu, rows=1)

    def _statement(self) -> str:
        return "; ".join(filter(None, (f"import {self.module}" if self.module else "pass", self.then)))

    def _python(self, code: str) -> None:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        if done.returncode:
            raise AssertionError(done.stderr.strip().splitlines()[-1])


def bare(_files: Files) -> ImportTask:
    """The interpreter alone."""
    return ImportTask("")


def numpy(_files: Files) -> ImportTask:
    """NumPy."""
    return ImportTask("numpy")


def headrace(_files: Files) -> ImportTask:
    """Headrace."""
    return ImportTask("headrace")


def entry_points(_files: Files) -> ImportTask:
    """Headrace with the modules of `records`, `open` and `Loader`, which are loaded on first use."""
    return ImportTask("headrace", then="headrace.records, headrace.open, headrace.Loader")


def datasets(_files: Files) -> ImportTask:
    """Hugging Face datasets."""
    return ImportTask("datasets")


def torch(_files: Files) -> ImportTask:
    """PyTorch."""
    return ImportTask("torch")


def tensorflow(_files: Files) -> ImportTask:
    """TensorFlow."""
    return ImportTask("tensorflow")
