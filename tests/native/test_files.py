"""Mapped files: the memory lives as long as a view of it."""

from __future__ import annotations

import gc
import os
import sys

import numpy as np
import pytest

from headrace import _native

pytestmark = pytest.mark.skipif(not _native.HAS_MAPPED_FILE, reason="no mmap on this platform")

CONTENT = bytes(range(256)) * 100


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    return path


def mapped(path, size=None):
    fd = os.open(path, os.O_RDONLY)
    try:
        return _native.MappedFile(fd, path.stat().st_size if size is None else size)
    finally:
        os.close(fd)


def test_bytes_without_a_descriptor(path):
    file = mapped(path)
    assert len(file) == len(CONTENT)
    assert bytes(file) == CONTENT
    assert memoryview(file).readonly
    assert memoryview(file).format == "B"
    assert np.frombuffer(file, np.uint8).sum() == sum(CONTENT)


def test_a_beginning(path):
    assert bytes(mapped(path, 5000)) == CONTENT[:5000]


def test_views_outlive_the_object_and_the_name(path):
    view = memoryview(mapped(path))[300:600]
    path.unlink()
    gc.collect()
    assert bytes(view) == CONTENT[300:600]


def test_nothing_can_be_written(path):
    with pytest.raises(TypeError):
        memoryview(mapped(path))[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        np.frombuffer(mapped(path), np.uint8)[0] = 1


def test_empty_file(tmp_path):
    path = tmp_path / "empty"
    path.touch()
    file = mapped(path)
    assert len(file) == 0
    assert bytes(file) == b""
    file.drop(0, 10)
    file.expect_all()
    file.expect_scattered_reads(True)


@pytest.mark.parametrize(
    ("offset", "size"), [(0, 1 << 62), (0, 0), (1, 5000), (4096, 4096), (25599, 1), (25600, 1), (1 << 62, 1 << 62)]
)
def test_advice_changes_nothing(path, offset, size):
    file = mapped(path)
    view = memoryview(file)
    file.drop(offset, size)
    assert view == CONTENT
    for advise in (
        file.expect_all,
        lambda: file.expect_scattered_reads(True),
        lambda: file.expect_scattered_reads(False),
    ):
        advise()
        assert view == CONTENT


def test_a_size_beyond_the_end_is_refused(path):
    with pytest.raises(ValueError, match="fewer bytes"):
        mapped(path, len(CONTENT) + 1)
    with pytest.raises(ValueError, match="fewer bytes"):
        mapped(path, 1 << 62)


def test_a_closed_descriptor_is_refused(path):
    fd = os.open(path, os.O_RDONLY)
    os.close(fd)
    with pytest.raises(OSError, match=r"[Bb]ad file descriptor"):
        _native.MappedFile(fd, 10)


def test_an_object_that_was_never_opened():
    with pytest.raises(BufferError, match="not opened"):
        memoryview(_native.MappedFile.__new__(_native.MappedFile))


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")
def test_nothing_is_left_behind(path):
    def state():
        with open("/proc/self/maps") as maps:
            return len(os.listdir("/proc/self/fd")), sum(str(path) in line for line in maps)

    before = state()
    kept = [mapped(path) for _ in range(50)]
    assert state() == (before[0], 50)
    del kept
    gc.collect()
    assert state() == before


def test_writeback_starts_or_reports_that_it_cannot(path):
    fd = os.open(path, os.O_WRONLY)
    try:
        assert _native.start_writing_back(fd, 0, len(CONTENT)) == (sys.platform == "linux")
    finally:
        os.close(fd)
    assert not _native.start_writing_back(fd, 0, len(CONTENT))
    assert path.read_bytes() == CONTENT
