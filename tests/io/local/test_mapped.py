"""Mapped files."""

import os
import pickle

import numpy as np
import pytest

import headrace as hr
from headrace import _native
from headrace.contracts.protocols import File
from headrace.errors import CorruptFile, NoFiles, UnsupportedData
from headrace.io.local import mapped
from headrace.io.local.mapped import MappedFile
from headrace.io.local.signatures import Signature

CONTENT = np.random.default_rng(0).bytes(300_000)


@pytest.fixture(params=["native", "mmap"])
def path(tmp_path, request, monkeypatch):
    if request.param == "mmap":
        monkeypatch.setattr(_native, "HAS_MAPPED_FILE", False)
    path = tmp_path / "x.bin"
    path.write_bytes(CONTENT)
    return str(path)


def test_reads_anywhere(path):
    file = MappedFile(path)
    assert isinstance(file, File)
    assert (file.size, len(file), file.path, file.fault) == (len(CONTENT), len(CONTENT), path, None)
    assert bytes(file.read(7, 5)) == CONTENT[7:12]
    assert bytes(file.read(len(CONTENT) - 2, 10)) == CONTENT[-2:]
    assert [bytes(view) for view in file.read_many([(0, 3), (100, 1)])] == [CONTENT[:3], CONTENT[100:101]]
    assert bytes(file.buffer) == CONTENT
    assert file.buffer.readonly


def test_views_outlive_the_file_object(path):
    view = MappedFile(path).read(0, 1000)
    os.unlink(path)
    assert bytes(view) == CONTENT[:1000]


def test_dropped_pages_come_back(path):
    file = MappedFile(path)
    view = file.read(0, file.size)
    for offset, size in ((0, None), (1, 5000), (0, 1), (299_999, 1), (4096, 4096)):
        file.drop(offset, size)
        assert bytes(view) == CONTENT


def test_an_empty_file(tmp_path):
    (tmp_path / "empty").touch()
    file = MappedFile(str(tmp_path / "empty"))
    file.drop()
    assert (file.size, bytes(file.buffer), bytes(file.read(0, 5))) == (0, b"", b"")


def test_no_descriptor_stays_open(path):
    before = os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else []
    files = [MappedFile(path) for _ in range(50)]
    assert not before or (_native.HAS_MAPPED_FILE and len(os.listdir("/proc/self/fd")) == len(before)) or files


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(NoFiles, match="nowhere"):
        MappedFile(str(tmp_path / "nowhere"))
    with pytest.raises(NoFiles, match="nowhere"):
        Signature.of(str(tmp_path / "nowhere"))


def test_cut_hides_the_end(path):
    file = MappedFile(path)
    file.cut(10)
    assert (file.size, bytes(file.buffer)) == (10, CONTENT[:10])


def test_pickles_by_path_and_notices_another_version(path):
    kept = pickle.dumps(MappedFile(path))
    assert bytes(pickle.loads(kept).read(0, 4)) == CONTENT[:4]
    with open(path, "ab") as file:
        file.write(b"more")
    with pytest.raises(CorruptFile, match="open it again"):
        pickle.loads(kept)


def test_relative_paths_survive_a_change_of_folder(path, monkeypatch, tmp_path_factory):
    monkeypatch.chdir(os.path.dirname(path))
    kept = pickle.dumps(MappedFile(os.path.basename(path)))
    monkeypatch.chdir(tmp_path_factory.mktemp("other"))
    assert pickle.loads(kept).size == len(CONTENT)


def test_the_fingerprint_sees_what_size_and_time_do_not(path):
    old = MappedFile(path).signature
    times = os.stat(path)
    with open(path, "r+b") as file:
        file.seek(len(CONTENT) - 3)
        file.write(b"###")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert old.same_version(Signature.of(path))
    assert not old.same_version(MappedFile(path).signature)
    with pytest.raises(CorruptFile, match="another version"):
        MappedFile(path, expected=old)


def test_whole_pages_only(monkeypatch):
    asked = []

    class Mapping:
        def madvise(self, advice, start, size):
            asked.append((start, size))

    page = mapped.mmap.PAGESIZE
    mapped._drop_pages(Mapping(), 1, 2 * page)
    mapped._drop_pages(Mapping(), 1, page)
    assert asked == [(page, page)]


def test_a_folder_or_a_device_in_the_place_of_a_file(tmp_path):
    with pytest.raises(UnsupportedData, match="expected a file, found a folder - at"):
        MappedFile(str(tmp_path))
    with pytest.raises(UnsupportedData, match="expected a file, found a device"):
        MappedFile(os.devnull)


def test_a_folder_in_the_place_of_a_shard(tmp_path):
    path = tmp_path / "x.tfrecord"
    hr.write(path, {"a": np.arange(4)}, shards=2)
    second = tmp_path / "x.tfrecord-00001-of-00002"
    second.unlink()
    second.mkdir()
    with pytest.raises(UnsupportedData, match=r"found a folder - at .*x\.tfrecord-00001-of-00002"):
        list(hr.open(f"{path}@2"))
