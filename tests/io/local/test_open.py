import os
import threading

import pytest

from headrace.errors import NoFiles, UnsupportedData
from headrace.io.local.open import HEAD_BYTES, FileHead, read_whole


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


def test_what_is_no_file(tmp_path):
    with pytest.raises(NoFiles, match="expected a file, found none"):
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
