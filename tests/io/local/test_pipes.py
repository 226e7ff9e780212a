import os
import threading
from pathlib import Path

import pytest

from headrace.errors import UnsupportedData
from headrace.io.local import pipes
from headrace.io.local.pipes import PipeStream
from headrace.io.paths import is_pipe


@pytest.fixture
def fifo(tmp_path):
    path = str(tmp_path / "pipe")
    os.mkfifo(path)
    return path


def feed(path, content):
    thread = threading.Thread(target=lambda: Path(path).write_bytes(content))
    thread.start()
    return thread


def test_what_a_pipe_is(fifo, tmp_path):
    assert is_pipe(fifo)
    assert is_pipe("/dev/null")
    assert not is_pipe(str(tmp_path))
    assert not is_pipe(str(tmp_path / "nothing"))


def test_the_beginning_is_kept(fifo):
    thread = feed(fifo, b"x" * 300_000)
    stream = PipeStream(fifo)
    assert len(next(iter(stream))) > 0
    assert b"".join(stream) == b"x" * 300_000
    assert b"".join(stream) == b"x" * 300_000
    assert stream.fault is None
    thread.join()


def test_what_was_let_go_of_is_missed(fifo, monkeypatch):
    monkeypatch.setattr(pipes, "KEPT_BYTES", 1000)
    thread = feed(fifo, b"x" * 3000)
    stream = PipeStream(fifo)
    assert b"".join(stream) == b"x" * 3000
    with pytest.raises(UnsupportedData, match="too much has been read already - at .*pipe"):
        next(iter(stream))
    thread.join()
