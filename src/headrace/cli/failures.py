"""Failures of commands: one line on stderr, and an exit code.

| code | meaning |
| --- | --- |
| 0 | success |
| 1 | the data has faults, or the work failed |
| 2 | wrong usage: an unknown option, a missing file, a feature that the data does not have |
| 130 | interrupted with Ctrl-C |
| 141 | the output pipe was closed |
| 143 | a training job was stopped by SIGTERM |
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

import typer

from headrace._interrupts import INTERRUPTED
from headrace.cli.terminal import note, printable
from headrace.errors import LOG_MARK, HeadraceError, NoFiles, NoSuchFeature

__all__ = ["DATA_FAULT", "INTERRUPTED", "TERMINATED", "WRONG_CALL", "exit_code", "print_error", "report_failures"]


DATA_FAULT = 1
WRONG_CALL = 2
PIPE_CLOSED = 141
TERMINATED = 143
OPTION_NAMES = {  # arguments of the library, and the options of the command
    "overwrite=True": "--overwrite",
    "on_corrupt='skip'": "--skip-corrupt",
    "codec='raw'": "--codec raw",
    "format='tfrecord'": "--format tfrecord",
    "a schema= that": "a --schema that",
    "join_source='Input'": "--join",
    "split_type": "--split",
    "assemble_with": "--assemble",
    "max_payload_mb": "--max-payload",
    "max_concurrent_transforms": "--concurrency",
}
NOT_FOUND = (NoFiles, NoSuchFeature, FileNotFoundError, IsADirectoryError, NotADirectoryError)


def exit_code(error: Exception) -> int:
    """Choose the exit code for an error."""
    if isinstance(error, NOT_FOUND):
        return WRONG_CALL
    # The library raises a plain ValueError for a wrong argument.
    return DATA_FAULT if isinstance(error, (HeadraceError, OSError)) else WRONG_CALL


def print_error(error: Exception) -> None:
    """Print an error in one line on stderr."""
    text = _sentence(error)
    for more in getattr(error, "__notes__", ()):
        text = f"{text.removesuffix('.')}. {more}"
    text, mark, log = text.partition(LOG_MARK)
    note(f"headrace: error: {printable(text)}")
    if mark:
        note("\n".join([mark.strip(), *map(printable, log.splitlines())]))


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and not isinstance(error, HeadraceError) and error.strerror:
        places = [os.fspath(place) for place in (error.filename, error.filename2) if isinstance(place, str)]
        return f"{error.strerror}: {' -> '.join(places)}" if places else error.strerror
    text = str(error) or type(error).__name__
    for name, option in OPTION_NAMES.items():
        text = text.replace(name, option)
    return text


@contextlib.contextmanager
def report_failures(*, traceback: bool) -> Iterator[None]:
    """Turn exceptions into a message and an exit code.

    Args:
        traceback: Re-raise errors, so that Python prints their traceback.

    Raises:
        typer.Exit: With the code.
    """
    try:
        with _flush_after():
            yield
    except BrokenPipeError:
        _stop_writing()
        raise typer.Exit(PIPE_CLOSED) from None
    except KeyboardInterrupt as interrupt:
        note(str(interrupt) or "interrupted")
        raise typer.Exit(INTERRUPTED) from None
    except (HeadraceError, OSError, ValueError) as error:
        try:
            sys.stdout.flush()
        except OSError:  # possibly the error that is being reported
            _stop_writing()
        if traceback:
            raise
        print_error(error)
        raise typer.Exit(exit_code(error)) from error


@contextlib.contextmanager
def _flush_after() -> Iterator[None]:
    """Flush stdout now, while a failure can still be reported. Python's own flush at exit is too late for that."""
    try:
        yield
    except typer.Exit:
        sys.stdout.flush()
        raise
    sys.stdout.flush()


def _stop_writing() -> None:
    """Send Python's flush of stdout at exit to /dev/null."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
