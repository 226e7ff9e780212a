"""Native file reading: reads that fail, are interrupted or return less than requested."""

import errno
import os
import signal
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from headrace import _native

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs files of /proc")


def ranges(fd, offsets, sizes):
    return _native.read_ranges([fd], None, np.array(offsets, np.int64), np.array(sizes, np.int64))


@pytest.mark.parametrize(
    ("path", "flags", "error"),
    [
        ("/proc/self/mem", os.O_RDONLY, errno.EIO),
        ("/", os.O_RDONLY, errno.EISDIR),
        ("/dev/null", os.O_WRONLY, errno.EBADF),
    ],
)
def test_a_read_of_a_range_that_fails_is_an_error(path, flags, error):
    fd = os.open(path, flags)
    try:
        with pytest.raises(OSError, match=os.strerror(error)) as raised:
            ranges(fd, [0], [10])
        assert raised.value.errno == error
    finally:
        os.close(fd)


def test_each_small_file_that_cannot_be_read_has_its_error(tmp_path):
    (tmp_path / "good").write_bytes(b"head" + b"body")
    (tmp_path / "short").write_bytes(b"head" + b"bo")
    names = [b"/proc/self/mem", os.fsencode(tmp_path), os.fsencode(tmp_path / "none")]
    names += [os.fsencode(tmp_path / name) for name in ("good", "short")]
    bodies, status = _native.read_files(names, b"head", 4)
    assert status.tolist() == [errno.EIO, errno.EISDIR, errno.ENOENT, 0, -1]
    assert bodies[3].tobytes() == b"body"


def test_a_read_that_brings_less_is_continued():
    fd = os.open("/proc/kallsyms", os.O_RDONLY)
    try:
        size = 5 * 4096
        if not 0 < len(os.pread(fd, size, 0)) < size:
            pytest.skip("the system reads all of it at once")
        found = ranges(fd, [0], [size])[0].tobytes()
        expected = b""
        while len(expected) < size:
            expected += os.pread(fd, size - len(expected), len(expected))
        assert found == expected
    finally:
        os.close(fd)


def switches(thread):
    """How often a thread has blocked."""
    text = Path(f"/proc/self/task/{thread.native_id}/status").read_text()
    return int(text.split("\nvoluntary_ctxt_switches:")[1].split()[0])


def test_signals_interrupt_no_read(tmp_path):
    """Opening a named pipe waits for a writer, and reading waits for bytes: a signal interrupts either, and it is restarted."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    found, caught = [], []
    before = signal.signal(signal.SIGUSR1, lambda *_: caught.append(1))
    thread = threading.Thread(
        target=lambda: found.append(_native.read_files([os.fsencode(path)], b"he", 4)), daemon=True
    )

    def interrupt():
        for _ in range(5):
            waited = switches(thread)
            while switches(thread) == waited:
                signal.pthread_kill(thread.ident, signal.SIGUSR1)

    try:
        thread.start()
        interrupt()
        writer = os.open(path, os.O_WRONLY)
        interrupt()
        os.write(writer, b"hebody")
        os.close(writer)
        thread.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert caught
    bodies, status = found[0]
    assert (status.tolist(), bodies.tobytes()) == ([0], b"body")
