import os
import threading

import pytest

from headrace.errors import NoFiles
from headrace.io.local.open import read_whole


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
