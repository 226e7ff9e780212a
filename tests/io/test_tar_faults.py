"""Damaged archives, and what is told of them."""

import io
import tarfile

import pytest

from penstock.io.tar_faults import ARCHIVE_FAULTS, archive_fault


def read(path):
    with tarfile.open(path) as archive:
        archive.getmembers()


def whole():
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo("a"), io.BytesIO())
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"hello, world", "a file that begins with b'hello, w'"),
        (b"", "an empty file"),
        (whole()[:24], "Compressed file ended before the end-of-stream marker was reached"),
    ],
    ids=["other", "empty", "cut"],
)
def test_it_is_told_in_one_line(tmp_path, content, found):
    (tmp_path / "a.tar.gz").write_bytes(content)
    with pytest.raises(ARCHIVE_FAULTS) as raised:
        read(tmp_path / "a.tar.gz")
    assert archive_fault(raised.value, tmp_path / "a.tar.gz") == found


def test_faults_of_the_disk_are_none_of_the_archive(tmp_path):
    with pytest.raises(FileNotFoundError) as raised:
        read(tmp_path / "a.tar.gz")
    with pytest.raises(FileNotFoundError):
        archive_fault(raised.value, tmp_path / "a.tar.gz")
