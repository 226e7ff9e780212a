"""Consecutive compressed files: same bytes and faults whichever thread inflates them, and nothing left running."""

import gzip
import os

import numpy as np
import pytest

import headrace as hr
from headrace.errors import CorruptFile
from headrace.io.cache import inflated, read_ahead
from headrace.io.cache.folder import cache_folder
from headrace.io.cache.inflated import InflatedStream
from headrace.io.cache.read_ahead import BackgroundInflater, FilesInOrder
from headrace.io.local.fileset import FileSet
from headrace.io.threads import start_thread

CONTENT = [bytes(np.random.default_rng(number).integers(0, 9, 3_500_000, dtype=np.uint8)) for number in range(4)]


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("packed")
    for number, content in enumerate(CONTENT):
        (folder / f"{number}.gz").write_bytes(gzip.compress(content, 1))
    return folder


@pytest.fixture(autouse=True)
def _some_cores(monkeypatch):
    monkeypatch.setattr(read_ahead, "usable_cores", lambda: 3)


@pytest.fixture(autouse=True)
def running(monkeypatch):
    """Lists the threads of this test that still inflate."""
    started = []

    def start(*args, **options):
        started.append(start_thread(*args, **options))
        return started[-1]

    monkeypatch.setattr(read_ahead, "start_thread", start)
    return lambda: [thread for thread in started if thread.is_alive()]


def files_of(folder):
    return FileSet([str(folder / f"{number}.gz") for number in range(4)], compression=None)


def pass_over(files):
    order = FilesInOrder(files)
    try:
        return [b"".join(bytes(part) for part in _parts(order.content(number))) for number in range(len(files))]
    finally:
        order.close()


def _parts(content):
    return [content.buffer] if hasattr(content, "buffer") else content


def test_the_contents_are_the_same_and_stay_in_the_cache(packed, running):
    assert pass_over(files_of(packed)) == CONTENT
    assert not running()
    assert len(list(cache_folder("inflated").glob("*.inflated"))) == 4
    assert not files_of(packed).waits_for_inflating()


def test_the_next_files_begin_with_the_second_part(packed, running):
    order = FilesInOrder(files_of(packed))
    parts = iter(order.content(0))
    first = next(parts)
    assert not running()
    rest = b"".join([next(parts)])
    following = [order.content(1), order.content(2)]
    assert all(isinstance(content, BackgroundInflater) for content in following)
    assert first + rest + b"".join(parts) == CONTENT[0]
    assert [b"".join(content) for content in following] == CONTENT[1:3]
    order.close()


@pytest.mark.parametrize("limit", ["0", "1M", "5M"])
@pytest.mark.filterwarnings("ignore:.*is inflated again each time")
def test_without_room_in_the_cache_memory_is_bounded_and_the_contents_are_the_same(packed, monkeypatch, limit, running):
    monkeypatch.setenv("HEADRACE_CACHE_LIMIT", limit)
    monkeypatch.setattr(read_ahead, "MOST_WAITING", 1)
    assert pass_over(files_of(packed)) == CONTENT
    assert not running()


def test_a_file_that_another_process_inflates_is_read_too(packed):
    stream = InflatedStream(str(packed / "0.gz"), "gzip")
    held = iter(stream)
    next(held)
    assert pass_over(files_of(packed)) == CONTENT
    held.close()


def test_leaving_stops_what_was_begun(packed, running):
    order = FilesInOrder(files_of(packed))
    parts = iter(order.content(0))
    next(parts), next(parts)
    following = iter(order.content(1))
    next(following)
    order.close()
    assert not running()
    parts.close()
    following.close()
    assert not list(cache_folder("inflated").glob("*.part"))


def test_faults_come_in_their_place(packed, tmp_path):
    for number in range(4):
        content = (packed / f"{number}.gz").read_bytes()
        (tmp_path / f"{number}.gz").write_bytes(content[:500_000] if number == 1 else content)
    order = FilesInOrder(files_of(tmp_path))
    contents = []
    for number in range(4):
        content = order.content(number)
        contents.append(b"".join(_parts(content)))
        assert (content.fault is None) == (number != 1)
    order.close()
    assert contents[0] == CONTENT[0]
    assert contents[2:] == CONTENT[2:]
    assert CONTENT[1].startswith(contents[1])


def test_a_file_that_is_gone_is_missed_when_it_is_its_turn(packed, tmp_path):
    for number in (0, 2, 3):
        (tmp_path / f"{number}.gz").write_bytes((packed / f"{number}.gz").read_bytes())
    order = FilesInOrder(files_of(tmp_path))
    assert b"".join(order.content(0)) == CONTENT[0]
    with pytest.raises((FileNotFoundError, CorruptFile)):
        order.content(1)
    order.close()


def test_an_error_of_the_thread_is_raised_where_the_parts_are_used(packed, monkeypatch, running):
    def fail(*_):
        raise OSError("the disk is on fire")
        yield b""

    monkeypatch.setattr(InflatedStream, "_into_copy", fail)
    with pytest.raises(OSError, match="on fire"):
        list(BackgroundInflater(InflatedStream(str(packed / "0.gz"), "gzip")))
    assert not running()


def test_records_of_compressed_shards_are_those_of_plain_ones(tmp_path, monkeypatch, running):
    rng = np.random.default_rng(1)
    examples = {"x": rng.integers(0, 50, (6000, 300)), "label": np.arange(6000)}
    hr.write(tmp_path / "p.tfrecord@5", examples)
    hr.write(tmp_path / "z.tfrecord@5", examples, compression="gzip")
    plain = [bytes(record) for record in hr.records(tmp_path / "p.tfrecord@5")]
    assert [bytes(record) for record in hr.records(tmp_path / "z.tfrecord@5")] == plain
    assert [bytes(record) for record in hr.records(tmp_path / "z.tfrecord@5")] == plain
    monkeypatch.setattr(inflated, "VERSION", 99)  # as if nothing were in the cache
    batches = zip(
        hr.Loader(hr.open(tmp_path / "z.tfrecord@5"), 100), hr.Loader(hr.open(tmp_path / "p.tfrecord@5"), 100)
    )
    assert all(np.array_equal(a["label"], b["label"]) for a, b in batches)
    records = iter(hr.records(tmp_path / "z.tfrecord@5"))
    next(records)
    records.close()
    assert not running()


def test_the_first_bytes_are_to_be_had_without_threads_and_without_a_copy(packed, monkeypatch, running):
    monkeypatch.setattr(inflated, "SMALL_BYTES", 1000)
    parts = iter(files_of(packed).head(0))
    assert CONTENT[0].startswith(next(parts) + next(parts))
    assert not running()
    parts.close()
    assert not list(cache_folder("inflated").iterdir())


@pytest.mark.parametrize("head", [1, 1 << 20, 2_500_000, 1 << 30])
@pytest.mark.parametrize("small", [1000, 1 << 30])
def test_a_reader_that_continues_after_the_first_bytes_gets_all_of_them(packed, tmp_path, monkeypatch, head, small):
    monkeypatch.setattr(inflated, "HEAD_BYTES", head)
    monkeypatch.setattr(inflated, "SMALL_BYTES", small)
    (tmp_path / "cut.gz").write_bytes((packed / "0.gz").read_bytes()[:-1000])
    for path, is_sound in ((packed / "0.gz", True), (tmp_path / "cut.gz", False)):
        stream = InflatedStream(str(path), "gzip")
        first = inflated.InflatedHead(InflatedStream(str(path), "gzip"))
        content = b"".join(first)
        assert content == b"".join(stream)
        assert (content == CONTENT[0]) == is_sound == (first.fault is None)
        assert str(first.fault) == str(stream.fault)


def test_opening_inflates_no_more_than_it_looks_at(tmp_path, monkeypatch):
    rows = np.random.default_rng(1).random((5000, 784), dtype=np.float32)
    hr.write(tmp_path / "rows.tfrecord.gz", {"image": rows})
    begun = []
    monkeypatch.setattr(InflatedStream, "parts", lambda stream, opened=None: begun.append(stream))
    assert hr.open(tmp_path / "rows.tfrecord.gz").schema["image"].shape == (784,)
    assert not begun


def _fail(fd, size, offset):
    raise OSError(5, "Input/output error")


@pytest.mark.parametrize(  # each with a cache of its own: the thread may complete the copy before its consumer fails
    ("pread", "error", "words"), [(_fail, OSError, "Input/output error"), (lambda *_: b"", CorruptFile, "no bytes")]
)
def test_a_failing_or_shortened_copy_is_an_error_that_names_the_file(packed, monkeypatch, pread, error, words):
    path = str(packed / "0.gz")
    monkeypatch.setattr(os, "pread", pread)
    parts = iter(BackgroundInflater(InflatedStream(path, "gzip")))
    with pytest.raises(error, match=words) as caught:
        list(parts)
    assert path in str(caught.value)
