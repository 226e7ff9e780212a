"""Loaded by the interpreter of a training job when it starts: lets scripts import what SageMaker's images have.

Only the folder above is used, not the rest of headrace, which may not be installed for this interpreter.
"""

import importlib.util
import os
import sys

__all__: list[str] = []

HERE = os.path.dirname(os.path.abspath(__file__))


def _let_toolkit_be_found() -> None:
    folder = os.path.dirname(HERE)
    spec = importlib.util.spec_from_file_location(
        "headrace_toolkit",
        os.path.join(folder, "__init__.py"),
        submodule_search_locations=[folder],
    )
    assert spec is not None
    sys.modules["headrace_toolkit"] = importlib.util.module_from_spec(spec)
    importlib.import_module("headrace_toolkit.shim").install()


def _run_the_next_one() -> None:
    """Run the sitecustomize module that this one hides."""
    for folder in sys.path:
        path = os.path.join(folder or os.curdir, "sitecustomize.py")
        if os.path.abspath(folder or os.curdir) != HERE and os.path.isfile(path):
            spec = importlib.util.spec_from_file_location("sitecustomize", path)
            if spec is not None and spec.loader is not None:
                spec.loader.exec_module(importlib.util.module_from_spec(spec))
            return


def _do_not_outlive_the_parent() -> None:
    """End the script if the process that runs the job was killed: its results would be lost."""
    parent = os.environ.get("HEADRACE_PARENT")
    if sys.platform != "linux" or parent is None or os.getppid() != int(parent):
        return
    import ctypes
    import signal

    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(parent):
        os._exit(1)


_let_toolkit_be_found()
_do_not_outlive_the_parent()
_run_the_next_one()
