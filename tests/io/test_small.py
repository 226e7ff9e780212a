import os
import threading

import pytest

from penstock.io.small import read_small


@pytest.mark.parametrize("size", [0, 1, 25_000, 3 << 20])
def test_files(tmp_path, size):
    content = os.urandom(size)
    (tmp_path / "x").write_bytes(content)
    assert read_small(str(tmp_path / "x")) == content


def test_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "x")
    content = os.urandom(200_000)
    writer = threading.Thread(target=(tmp_path / "x").write_bytes, args=(content,))
    writer.start()
    assert read_small(str(tmp_path / "x")) == content
    writer.join()


def test_what_is_no_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_small(str(tmp_path / "x"))
    with pytest.raises(IsADirectoryError):
        read_small(str(tmp_path))
