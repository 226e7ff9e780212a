"""File signatures: versions differ even if size and time are equal."""

import contextlib
import dataclasses
import gzip
import os
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace import _native
from headrace.io.local import signatures
from headrace.io.local.mapped import MappedFile
from headrace.io.local.signatures import BlockSums, Signature, block_sums

BLOCK = signatures.BLOCK_BYTES


def replace_keeping_times(path, content):
    """As many other bytes with the old times, as ``cp -p``, ``tar`` and ``touch -r`` leave them."""
    before = os.stat(path)
    assert len(content) == before.st_size
    with open(path, "r+b") as file:
        file.write(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert os.stat(path).st_mtime_ns == before.st_mtime_ns


@pytest.mark.parametrize("size", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 1, 5 * BLOCK])
def test_every_byte_of_the_ends_counts(tmp_path, size):
    path = tmp_path / "x"
    content = bytearray(np.random.default_rng(0).bytes(size))
    path.write_bytes(content)
    first = Signature.read(str(path))
    assert first == Signature.read(str(path))
    for at in {*range(0, min(size, BLOCK), 97), *range(max(0, size - BLOCK), size, 97), *([size - 1] if size else [])}:
        content[at] ^= 1
        path.write_bytes(content)
        assert Signature.read(str(path)).fingerprint != first.fingerprint
        content[at] ^= 1


def test_a_change_in_the_middle_shows_in_the_time_that_no_program_sets(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(bytes(10 * BLOCK))
    before = Signature.read(str(path))
    content = bytearray(10 * BLOCK)
    content[5 * BLOCK] = 1
    replace_keeping_times(path, content)
    after = Signature.read(str(path))
    assert before.same_version(after), "this test needs a change that neither time, size nor the ends show"
    assert not before.proves(after)
    assert not before.proves(Signature.of(str(path)))


@pytest.mark.parametrize("size", [0, 1, BLOCK, 2 * BLOCK, 2 * BLOCK + 1, 5 * BLOCK])
def test_a_mapped_file_has_the_same_signature(tmp_path, size):
    path = tmp_path / "x"
    path.write_bytes(np.random.default_rng(0).bytes(size))
    assert MappedFile(str(path)).signature == Signature.read(str(path))


@pytest.mark.skipif(not _native.HAS_MAPPED_FILE, reason="no mapped files of ours")
@pytest.mark.parametrize("left", [0, 1, BLOCK + 5, 9 * BLOCK])
def test_a_file_cut_off_before_its_checksum_is_taken(tmp_path, monkeypatch, left):
    path = tmp_path / "x"
    path.write_bytes(b"x" * 10 * BLOCK)
    of_open = Signature.of_open

    def cut_first(cls, fd, mapping=None):
        os.truncate(path, left)
        return of_open(fd, mapping)

    monkeypatch.setattr(Signature, "of_open", classmethod(cut_first))
    with pytest.raises(hr.CorruptFile, match="shrank while being read") as error:
        MappedFile(str(path))
    assert error.value.where.path == str(path)


@pytest.mark.skipif(not _native.HAS_MAPPED_FILE, reason="no mapped files of ours")
def test_a_signature_needs_the_whole_file_and_blocks_of_some_size(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"x" * 10)
    with path.open("rb") as file:
        with pytest.raises(ValueError, match="only a beginning"):
            _native.MappedFile(file.fileno(), 5).signature(BLOCK)
        for wrong in (0, (1 << 20) + 1):
            with pytest.raises(ValueError, match="blocks of no bytes"):
                _native.MappedFile(file.fileno()).signature(wrong)


def test_reading_a_signature_leaves_the_position(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(bytes(100))
    with open(path, "rb", buffering=0) as file:
        file.seek(7)
        assert Signature.of_open(file.fileno()) == Signature.read(str(path))
        assert file.tell() == 7


def test_without_pread(tmp_path, monkeypatch):
    path = tmp_path / "x"
    path.write_bytes(np.random.default_rng(0).bytes(3 * BLOCK))
    found = Signature.read(str(path))
    monkeypatch.delattr(os, "pread")
    assert Signature.read(str(path)) == found


# The format's writer makes files of equal size that differ in one value in the middle.


def values(middle):
    found = np.full(20_000, 11, np.int64)
    found[10_000] = middle
    return {"x": found}


def packed(kind, middle):
    """A compressed file whose size does not depend on the value: stored, not deflated."""
    text = b"x\n" + b"".join(b"%d\n" % value for value in values(middle)["x"])
    if kind == "gzip":
        return gzip.compress(text, 0, mtime=0)
    if kind == "zlib":
        return zlib.compress(text, 0)
    if kind == "two members":
        return gzip.compress(text[:40_000], 0, mtime=0) + gzip.compress(text[40_000:], 0, mtime=0)
    if kind == "utf-16":
        return text.decode().encode("utf-16")
    return text


@pytest.mark.parametrize("kind", ["plain", "gzip", "zlib", "two members", "utf-16"])
@pytest.mark.parametrize("again", ["open", "verify"])
def test_text_with_another_value_under_the_old_times(tmp_path, kind, again):
    path = tmp_path / ("x.csv" if kind in ("plain", "utf-16") else "x.csv.zz" if kind == "zlib" else "x.csv.gz")
    path.write_bytes(packed(kind, 22))
    before = hr.open(path)
    assert (len(before), before[10_000]["x"]) == (20_000, 22)
    replace_keeping_times(path, packed(kind, 33))
    if again == "verify":
        assert hr.verify(path).records == 20_000
    after = hr.open(path)
    assert after[10_000]["x"] == 33
    assert after.batch(np.arange(9_999, 10_002))["x"].tolist() == [11, 33, 11]


def test_rows_that_begin_elsewhere_under_the_old_times(tmp_path):
    """The index of a CSV file holds row offsets, which one byte in the middle shifts."""
    path = tmp_path / "x.csv"
    rows = [b"x", *(b"%05d" % number for number in range(20_000))]
    path.write_bytes(b"\n".join(rows) + b"\n")
    assert len(hr.open(path)) == 20_000
    rows[10_000:10_002] = [b"7", b"88888 888"[:9]]
    replace_keeping_times(path, b"\n".join(rows) + b"\n")
    assert bytes(hr.records(path)[9_999]) == b"7"
    assert bytes(hr.records(path)[10_001]) == rows[10_002]


@pytest.mark.parametrize("suffix", [".tfrecord", ".tfrecord.gz", ".rec", ".array_record", ".npz", ".avro"])
def test_other_formats_with_another_value_under_the_old_times(tmp_path, suffix):
    path, other = tmp_path / f"x{suffix}", tmp_path / f"other{suffix}"
    for name, middle in ((path, 22), (other, 33)):
        plain = name.with_suffix("") if suffix.endswith(".gz") else name
        hr.write(plain, values(middle), **({"codec": "example"} if suffix == ".rec" else {}))
        if plain != name:
            name.write_bytes(gzip.compress(plain.read_bytes(), 0, mtime=0))
    assert hr.open(path)[10_000]["x"] == 22
    replace_keeping_times(path, other.read_bytes())
    assert hr.open(path)[10_000]["x"] == 33
    assert hr.verify(path).ok


class CoarseClock:
    """A file system whose clock ticks when somebody sleeps, and a file that changes as late as its tick allows."""

    def __init__(self, monkeypatch, path, content):
        self.path, self.content = path, content
        self.ctime_ns, self.now_ns = 1_000_000_001, 1_001_000_000
        of, of_open = Signature.of, Signature.of_open
        monkeypatch.setattr(Signature, "of", classmethod(lambda cls, *args: self.at_the_tick(of(*args))))
        monkeypatch.setattr(Signature, "of_open", classmethod(lambda cls, *args: self.at_the_tick(of_open(*args))))
        monkeypatch.setattr(signatures.time, "time_ns", lambda: self.now_ns)
        monkeypatch.setattr(signatures.time, "sleep", self.sleep)

    def at_the_tick(self, signature):
        return dataclasses.replace(signature, ctime_ns=self.ctime_ns)

    def sleep(self, seconds):
        assert 0 < seconds <= 0.02
        self.change()
        self.now_ns += round(seconds * 1e9)

    def change(self):
        """Change the file, unless its tick is over."""
        if self.now_ns < self.ctime_ns + signatures.TICK_NS:
            replace_keeping_times(self.path, self.content)


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".rec", ".avro", ".npz", " deflated.npz"])
def test_a_change_within_the_tick_of_the_last_one(tmp_path, monkeypatch, suffix):
    """It leaves size, times and the ends as they were: nothing read before it may be kept."""
    monkeypatch.setattr("headrace.io.cache.members.REMEMBERED_BYTES", 1000)
    path, other = tmp_path / f"x{suffix}", tmp_path / f"other{suffix}"
    for name, middle in ((path, 22), (other, 33)):
        if "csv" in suffix:
            name.write_bytes(packed("gzip" if suffix == ".csv.gz" else "plain", middle))
        elif "deflated" in suffix:
            np.savez_compressed(name, **values(middle))
        else:
            hr.write(name, values(middle), **({"codec": "example"} if suffix == ".rec" else {}))
    clock = CoarseClock(monkeypatch, path, other.read_bytes())
    with contextlib.suppress(hr.CorruptFile):  # An archive may change between its directory and its content.
        assert hr.open(path)[10_000]["x"] in (22, 33)
    clock.change()
    assert hr.open(path)[10_000]["x"] == 33
    assert hr.verify(path).ok


def test_an_index_holds_the_rows_that_begin_elsewhere_after_a_change_within_the_tick(tmp_path, monkeypatch):
    path = tmp_path / "x.csv"
    rows = [b"x", *(b"%05d" % number for number in range(20_000))]
    path.write_bytes(b"\n".join(rows) + b"\n")
    rows[10_000:10_002] = [b"7", b"88888 888"[:9]]
    clock = CoarseClock(monkeypatch, path, b"\n".join(rows) + b"\n")
    assert len(hr.open(path)) == 20_000
    clock.change()
    assert [bytes(hr.records(path)[row]) for row in (9_999, 10_001)] == [b"7", rows[10_002]]


def test_verify_reads_the_file_and_no_copy_of_it(tmp_path, monkeypatch):
    """Even one with every sign of the right version."""
    path = tmp_path / "x.csv.gz"
    path.write_bytes(packed("gzip", 22))
    assert len(hr.open(path)) == 20_000
    monkeypatch.setattr(signatures.Signature, "read", classmethod(lambda cls, path: cls(1, 2, 3, 4)))
    monkeypatch.setattr(signatures.Versions, "of", lambda *_: None)
    hr.open(path)[0]
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    replace_keeping_times(path, content)
    assert not hr.verify(path).ok


def test_verify_sums_a_large_array_again(tmp_path, monkeypatch):
    monkeypatch.setattr("headrace.io.cache.members.REMEMBERED_BYTES", 1000)
    path = tmp_path / "x.npz"
    np.savez(path, x=np.arange(20_000))
    assert hr.open(path)[7]["x"] == 7
    fixed = Signature.read(str(path))
    monkeypatch.setattr(signatures.Signature, "of_open", classmethod(lambda cls, fd, mapping=None: fixed))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    replace_keeping_times(path, content)
    assert not hr.verify(path).ok


def reference(content, block_bytes):
    return [_native.crc32c(content[at : at + block_bytes]) for at in range(0, len(content), block_bytes)]


@given(st.lists(st.binary(max_size=40), max_size=8), st.integers(1, 50))
def test_sums_do_not_depend_on_how_the_bytes_come(parts, block_bytes):
    assert block_sums(map(memoryview, parts), block_bytes).tolist() == reference(b"".join(parts), block_bytes)


@given(st.binary(min_size=1, max_size=200), st.integers(1, 50), st.data())
def test_a_range_is_sound_if_its_blocks_are(content, block_bytes, data):
    wrong = data.draw(st.integers(0, len(content) - 1))
    damaged = bytearray(content)
    damaged[wrong] ^= data.draw(st.integers(1, 255))
    sums = BlockSums(len(content), np.array(reference(content, block_bytes), np.uint32), block_bytes)
    ranges = data.draw(
        st.lists(
            st.integers(0, len(content) - 1).flatmap(lambda a: st.tuples(st.just(a), st.integers(a + 1, len(content)))),
            max_size=6,
        )
    )
    starts = np.array([a for a, _ in ranges], np.int64)
    stops = np.array([b for _, b in ranges], np.int64)
    touched = any(a // block_bytes <= wrong // block_bytes <= (b - 1) // block_bytes for a, b in ranges)
    buffer = memoryview(bytes(damaged))
    for _ in range(2):
        assert sums.damaged(buffer, starts, stops) == (wrong // block_bytes if touched else -1)
    assert sums.damaged_anywhere(buffer) == wrong // block_bytes
    assert not sums.all_sound
    assert sums.damaged_anywhere(memoryview(content)) == -1
    assert sums.all_sound


def test_a_block_is_compared_once():
    content = bytearray(100)
    sums = BlockSums(100, np.array(reference(content, 10), np.uint32), 10)
    one = np.array([5]), np.array([6])
    assert sums.damaged(memoryview(content), *one) == -1
    content[5] = 1
    assert sums.damaged(memoryview(content), *one) == -1


@pytest.mark.parametrize("count", [9, 11])
def test_sums_of_another_size_are_refused(count):
    with pytest.raises(ValueError, match="checksums for 100 bytes"):
        BlockSums(100, np.zeros(count, np.uint32), 10)


@pytest.mark.parametrize(
    ("ctime_ns", "waits_ns"),
    [
        (1_000_000_001, 20_000_000 - 4_999_999),
        (985_000_001, 1),
        (900_000_001, 0),
        (1_000_000_000, 995_000_000),  # whole seconds: the file system may store no more
        (0, 0),
        (2_000_000_001, 0),  # of another machine's clock
        (-1, 0),
    ],
)
def test_waiting_until_a_further_change_would_show(monkeypatch, ctime_ns, waits_ns):
    slept = []
    monkeypatch.setattr(signatures.time, "time_ns", lambda: 1_005_000_000)
    monkeypatch.setattr(signatures.time, "sleep", slept.append)
    signatures.wait_for_tick([Signature(8193, 2, 3, ctime_ns)])
    assert [round(seconds * 1e9) for seconds in slept] == ([waits_ns] if waits_ns else [])
    assert Signature(8193, 2, 3, ctime_ns).is_settled() == (ctime_ns >= 0 and not waits_ns)


@pytest.mark.parametrize(("size", "fingerprint", "waits"), [(8192, 3, False), (8193, 3, True), (8192, -1, True)])
def test_a_file_whose_fingerprint_covers_all_of_it_needs_no_wait(monkeypatch, size, fingerprint, waits):
    slept = []
    monkeypatch.setattr(signatures.time, "time_ns", lambda: 1_005_000_000)
    monkeypatch.setattr(signatures.time, "sleep", slept.append)
    signatures.wait_for_tick([Signature(size, 2, fingerprint, 1_000_000_001)])
    assert bool(slept) == waits


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".rec", ".avro", ".npz", ".jsonl"])
def test_a_change_of_a_small_file_within_the_tick(tmp_path, monkeypatch, suffix):
    """Only the checksum shows it."""
    path, other = tmp_path / f"x{suffix}", tmp_path / f"other{suffix}"
    options = {"codec": "example"} if suffix == ".rec" else {}
    for name, middle in ((path, 22), (other, 33)):
        hr.write(name, {"x": np.array([1, middle, 3])}, **options)
    assert path.stat().st_size <= 2 * signatures.BLOCK_BYTES
    clock = CoarseClock(monkeypatch, path, other.read_bytes())
    assert hr.open(path)[1]["x"] == 22
    clock.change()
    assert hr.open(path)[1]["x"] == 33
    assert hr.verify(path).ok
