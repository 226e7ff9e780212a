"""What is kept of earlier readings of files."""

from __future__ import annotations

import os
import time

import pytest

from headrace.io.cache import findings as module
from headrace.io.cache.findings import Findings
from headrace.io.cache.folder import fresh_cache
from headrace.io.local.fileset import FileSet


@pytest.fixture(autouse=True)
def settled(monkeypatch):
    """Files that have just been written count as older ones."""
    monkeypatch.setattr(module.Signature, "is_settled", lambda self: True)


def written(folder, *contents):
    paths = [str(folder / f"{at}.txt") for at in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        with open(path, "wb") as file:
            file.write(content)
    return paths


def save(paths, found, *key):
    findings = Findings(FileSet(paths), *key)
    for number in range(len(paths)):
        findings.sign(number)
    findings.save(found)


def load(paths, *key):
    return Findings(FileSet(paths), *key).load()


def test_they_come_back(tmp_path):
    paths = written(tmp_path, b"a", b"b")
    assert load(paths, "k", 1) is None
    found = [{"text": 3}, ["ü", None, 1.5]]
    save(paths, found, "k", 1)
    assert load(paths, "k", 1) == found
    assert load(paths, "k", 2) is load(paths[:1], "k", 1) is load(paths[::-1], "k", 1) is None


def test_another_content_is_another_file(tmp_path):
    paths = written(tmp_path, b"a" * 100_000, b"b")
    save(paths, 1)
    status = os.stat(paths[0])
    with open(paths[0], "r+b") as file:  # in the middle, with the same times as before
        file.seek(50_000)
        file.write(b"x")
    os.utime(paths[0], ns=(status.st_atime_ns, status.st_mtime_ns))
    while os.stat(paths[0]).st_ctime_ns == status.st_ctime_ns:  # within the same tick of the file system's clock
        time.sleep(0.01)
        os.utime(paths[0], ns=(status.st_atime_ns, status.st_mtime_ns))
    assert load(paths) is None
    save(paths, 2)
    assert load(paths) == 2
    os.remove(paths[1])
    assert load(paths) is None


def test_only_the_files_that_were_read_count(tmp_path):
    paths = written(tmp_path, b"a", b"b")
    findings = Findings(FileSet(paths))
    findings.sign(0)
    findings.save("of the first one")
    os.remove(paths[1])
    assert load(paths) == "of the first one"


@pytest.mark.parametrize("at", range(0, 200, 7))
def test_damage_makes_it_unknown(tmp_path, at):
    paths = written(tmp_path, b"a")
    save(paths, ["found"] * 10)
    entry = Findings(FileSet(paths))._path
    content = bytearray(entry.read_bytes())
    content[at % len(content)] ^= 4
    entry.write_bytes(content)
    assert load(paths) is None
    entry.write_bytes(content[:at])
    assert load(paths) is None


@pytest.mark.parametrize(
    "text", [b"[]", b"{}", b'{"files": [{"size": 1}], "found": 1}', b'{"files": 3, "found": 1}', b"[" * 9000]
)
def test_other_text_is_none(tmp_path, text):
    paths = written(tmp_path, b"a")
    entry = Findings(FileSet(paths))._path
    entry.parent.mkdir(parents=True, exist_ok=True)
    entry.write_bytes(b"%08x\n" % module._native.crc32c(text) + text)
    assert load(paths) is None


def test_a_file_that_has_just_changed_is_not_kept(tmp_path, monkeypatch):
    """A further change might not show in its times."""
    monkeypatch.setattr(module.Signature, "is_settled", lambda self: False)
    paths = written(tmp_path, b"a")
    save(paths, 1)
    assert load(paths) is None


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path, monkeypatch):
    paths = written(tmp_path, b"a")

    def fails(*_, **__):
        raise OSError("No space left on device")

    monkeypatch.setattr(module, "AtomicFile", fails)
    save(paths, 1)
    assert load(paths) is None


def test_a_fresh_cache_forgets(tmp_path):
    paths = written(tmp_path, b"a")
    save(paths, 1)
    with fresh_cache():
        assert load(paths) is None
        save(paths, 2)
        assert load(paths) == 2
    assert load(paths) == 2
