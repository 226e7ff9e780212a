import os
import threading
from pathlib import Path

import pytest

from headrace.errors import NoFiles, UnsupportedData
from headrace.io.local import open
from headrace.io.local.open import HEAD_BYTES, FileHead, PipeStream, read_whole
from headrace.io.paths import is_pipe


@pytest.mark.parametrize("size", [0, 1, 25_000, 3 << 20])
def test_files(tmp_path, size):
    content = os.urandom(size)
    (tmp_path / "x").write_bytes(content)
    assert read_whole(str(tmp_path / "x")) == content


def test_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "x")
    content = os.urandom(200_000)
    writer = threading.Thread(target=(tmp_path / "x").write_bytes, args=(content,))
    writer.start()
    assert read_whole(str(tmp_path / "x")) == content
    writer.join()


def test_paths_that_are_not_files(tmp_path):
    with pytest.raises(NoFiles, match="no such file: "):
        read_whole(str(tmp_path / "x"))
    with pytest.raises(IsADirectoryError):
        read_whole(str(tmp_path))


@pytest.mark.parametrize("size", [0, 1, HEAD_BYTES - 1, HEAD_BYTES, HEAD_BYTES + 1, 3 * HEAD_BYTES])
def test_the_head_of_a_file_reads_as_the_file(tmp_path, size):
    content = os.urandom(size)
    (tmp_path / "x").write_bytes(content)
    file = FileHead(str(tmp_path / "x"))
    assert file.size == size
    ranges = [(0, 10), (0, HEAD_BYTES), (5, HEAD_BYTES), (HEAD_BYTES, 7), (0, 2 * HEAD_BYTES), (size, 1), (size + 9, 9)]
    assert [bytes(part) for part in file.read_many(ranges)] == [content[at : at + length] for at, length in ranges]


def test_a_head_that_comes_in_pieces(tmp_path, monkeypatch):
    (tmp_path / "x").write_bytes(bytes(range(200)))
    read = os.read
    monkeypatch.setattr(os, "read", lambda fd, size: read(fd, min(size, 9)))
    file = FileHead(str(tmp_path / "x"))
    assert bytes(file.read(0, 5)) == bytes(range(5))
    assert bytes(file.read(5, 300)) == bytes(range(5, 200))


def test_a_folder_and_a_missing_file_have_no_head(tmp_path):
    with pytest.raises(UnsupportedData, match="found a folder"):
        FileHead(str(tmp_path))
    with pytest.raises(NoFiles):
        FileHead(str(tmp_path / "x"))


@pytest.fixture
def fifo(tmp_path):
    path = str(tmp_path / "pipe")
    os.mkfifo(path)
    return path


def feed(path, content):
    thread = threading.Thread(target=lambda: Path(path).write_bytes(content))
    thread.start()
    return thread


def test_detection_of_pipes(fifo, tmp_path):
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


def test_a_released_object_is_missed(fifo, monkeypatch):
    monkeypatch.setattr(open, "KEPT_BYTES", 1000)
    thread = feed(fifo, b"x" * 3000)
    stream = PipeStream(fifo)
    assert b"".join(stream) == b"x" * 3000
    with pytest.raises(UnsupportedData, match="too much was read already - at .*pipe"):
        next(iter(stream))
    thread.join()


@pytest.mark.skipif(not open.READS_FILES, reason="no reading ahead on this platform")
def test_files_are_requested_together_from_a_disk(tmp_path, monkeypatch):
    asked = []
    paths = [str(tmp_path / name) for name in "abc"]
    for path in paths:
        Path(path).write_bytes(b"x")
    monkeypatch.setattr(open._native, "request_files", lambda names, follow_links: asked.extend(names))
    for is_disk in (False, True):
        monkeypatch.setattr(open._native, "has_read_from_disk", lambda is_disk=is_disk: is_disk)
        assert open.read_each(paths) == [b"x"] * 3
        assert asked == [os.fsencode(path) for path in paths if is_disk]
        asked.clear()
    assert open.read_each(paths[:1]) == [b"x"]  # Alone, it is read as soon as it is requested.
    open.request_files(["a\0", "\ud800b"])
    assert asked == []
