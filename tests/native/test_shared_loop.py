"""Threads that wait join the decoding of images in another thread (see ``native/core/base/shared_loop.hpp``)."""

import os
import threading
import warnings

import numpy as np
import pytest
import simplejpeg
from tests.codecs.images.files import jpeg, made, noise

import headrace as hr
from headrace import _native
from headrace.errors import CorruptFile
from headrace.io.local.mapped import MappedFile

HEIGHT, WIDTH = 120, 200
PNG = HEIGHT, 3 * WIDTH, 3
FILES = [jpeg(HEIGHT, WIDTH, seed=seed) for seed in range(12)]


def joined_while(work):
    """The results of a call that is repeated in a thread until this one has joined it and it has returned."""
    found, stop = [], threading.Event()

    def repeat():
        while not stop.is_set():
            try:
                found.append(work())
            except Exception as error:
                found.append(error)

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        for _ in range(3):
            while not _native.join_loop():
                pass
    finally:
        stop.set()
        thread.join()
    return found


def test_no_loop_to_join():
    assert not _native.join_loop()


@pytest.mark.skipif(not _native.jpeg_is_fast(), reason="this machine decodes JPEGs by the library")
def test_joined_jpegs_are_the_same():
    wanted = [simplejpeg.decode_jpeg(file) for file in FILES]
    files = [*FILES[:5], b"none", *FILES[5:], FILES[0][:-50]]
    for pixels, others in joined_while(lambda: _native.decode_jpegs(files, HEIGHT, WIDTH, 3)):
        assert others == [5, 13]
        np.testing.assert_array_equal(np.delete(pixels, others, axis=0), wanted)


def test_joined_pngs_are_the_same():
    images = [noise(HEIGHT, WIDTH, seed=seed) for seed in range(12)]
    files = [made(image) for image in images]
    for pixels in joined_while(lambda: _native.decode_png(files, *PNG)):
        np.testing.assert_array_equal(pixels.reshape(12, HEIGHT, WIDTH, 3), images)


def test_the_first_png_that_is_not_as_it_should_be_counts():
    files = [made(noise(HEIGHT, WIDTH, seed=seed)) for seed in range(12)]
    damaged, other = files[3][:200] + bytes([files[3][200] ^ 1]) + files[3][201:], made(noise(HEIGHT, WIDTH + 1))
    for order in ([*files, damaged, other, damaged], [*files, damaged, damaged, other]):
        for error in joined_while(lambda order=order: _native.decode_png(order, *PNG)):
            assert isinstance(error, _native.FormatError)
            assert error.record == 12
    assert {*joined_while(lambda: _native.decode_png([*files, other, damaged], *PNG))} == {None}


@pytest.mark.skipif(not _native.jpeg_is_fast(), reason="this machine decodes JPEGs by the library")
def test_a_file_that_shrinks_while_others_join(tmp_path):
    """Lost pages read as zeros in the thread that has joined, too, and the call that it helps raises the error."""
    path = tmp_path / "images"
    path.write_bytes(b"".join(FILES))
    ends = np.cumsum([len(file) for file in FILES]).tolist()
    mapped = MappedFile(str(path))
    parts = [mapped.buffer[end - len(file) : end] for file, end in zip(FILES, ends, strict=True)]
    os.truncate(path, 4096)
    for error in joined_while(lambda: _native.decode_jpegs(parts, HEIGHT, WIDTH, 3)):
        assert isinstance(error, CorruptFile)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_has_no_loops():
    """Those of the parent never end there."""

    def child():
        alone = not _native.join_loop()
        pixels, _ = _native.decode_jpegs(FILES, HEIGHT, WIDTH, 3)
        return alone and np.array_equal(pixels[0], simplejpeg.decode_jpeg(FILES[0]))

    def forks():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python 3.12 warns of forks beside threads.
            pid = os.fork()
        if pid == 0:
            os._exit(0 if child() else 1)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    stop = threading.Event()

    def decode():
        while not stop.is_set():
            _native.decode_jpegs(FILES, HEIGHT, WIDTH, 3)

    thread = threading.Thread(target=decode)
    thread.start()
    try:
        assert [forks() for _ in range(20)] == [0] * 20
    finally:
        stop.set()
        thread.join()


def test_a_loader_that_waits_joins(tmp_path, monkeypatch):
    """Two batches, each of a thread: the consumer has no job of its own."""
    path = tmp_path / "images.tfrecord"
    hr.write(path, ({"image": file} for file in FILES * 4))
    source = hr.open(path, decode=True)
    expected = [batch["image"] for batch in hr.Loader(source, 24, threads=0)]
    joined = []
    join = _native.join_loop

    def counted():
        joined.append(join())
        return joined[-1]

    monkeypatch.setattr(_native, "join_loop", counted)
    while not any(joined):
        found = [batch["image"] for batch in hr.Loader(source, 24, threads=2)]
        np.testing.assert_array_equal(np.concatenate(found), np.concatenate(expected))


def test_a_thread_without_a_job_joins(tmp_path, monkeypatch):
    """The consumer decodes a batch of much work, while the thread has ended one of little. Which of them takes the first batch differs."""
    flat = simplejpeg.encode_jpeg(np.zeros((HEIGHT, WIDTH, 3), np.uint8))
    joined = set()
    join = _native.join_loop

    def counted():
        found = join()
        if found:
            joined.add(threading.current_thread() is threading.main_thread())
        return found

    sources = []
    for name, files in (("more_first", FILES * 7), ("less_first", [flat] * 80 + FILES * 6)):
        path = tmp_path / f"{name}.tfrecord"
        hr.write(path, ({"image": file} for file in files))
        source = hr.open(path, decode=True)
        sources.append((source, np.concatenate([batch["image"] for batch in hr.Loader(source, 80, threads=0)])))
    monkeypatch.setattr(_native, "join_loop", counted)
    while False not in joined:
        for source, expected in sources:
            found = [batch["image"] for batch in hr.Loader(source, 80, threads=1)]
            np.testing.assert_array_equal(np.concatenate(found), expected)
