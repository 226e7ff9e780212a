"""Reads of single files that fail say which file it was, and never pass for a file that is not there."""

import errno
import gzip
import io
import json
import wave

import pytest
from tests.io.injected_faults import Faults

from headrace.datasets import locate
from headrace.datasets.downloading.downloads import Downloads, Resource
from headrace.datasets.features.audio import Audio
from headrace.datasets.features.image import Image
from headrace.datasets.named import cifar, mnist, tables
from headrace.datasets.opening import _files_in


def sound():
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(8000)
        out.writeframes(bytes(20))
    return buffer.getvalue()


READS = {
    "image": (b"any bytes", lambda path: Image().encode_example(path)),
    "audio": (sound(), lambda path: Audio(file_format="wav").encode_example(path)),
    "table": (b"1,2,3\n", lambda path: list(tables._rows(path, 3))),
    "idx": (gzip.compress(bytes((0, 0, 8, 1, 0, 0, 0, 2, 5, 6))), lambda path: mnist.read_idx(path, axes=1)),
    "classes": (b"a\nb\n", lambda path: cifar._check_names(path, ["a", "b"])),
    "cifar": (bytes(1 + cifar.IMAGE_BYTES), lambda path: list(cifar._examples("train", [path], ("label",)))),
    "checksum": (b"1234", lambda path: Resource(urls=("http://x/y",), size=4).check(path)),
}


@pytest.mark.parametrize("name", READS)
def test_a_read_that_fails_names_the_file(tmp_path, name):
    content, read = READS[name]
    path = tmp_path / "data" / "x.bin"
    path.parent.mkdir()
    path.write_bytes(content)
    read(path)
    faults = Faults(path.parent)
    with faults.counting():
        read(path)
    assert faults.counts["read"]
    for kind in ("open", "read"):
        with faults.failing(kind, 0, errno.EIO), pytest.raises(OSError, match=r"Input/output error: '.*x\.bin'"):
            read(path)


def test_folders_that_cannot_be_listed_do_not_pass_for_empty_ones(tmp_path):
    (tmp_path / "made" / "1.0.0").mkdir(parents=True)
    faults = Faults(tmp_path)
    for read in (lambda: locate._subfolders(tmp_path), lambda: _files_in(str(tmp_path))):
        read()
        with faults.failing("scandir", 0, errno.EIO), pytest.raises(OSError, match=str(tmp_path)):
            read()
    assert locate._subfolders(tmp_path / "nothing") == []
    assert _files_in(str(tmp_path / "nothing")) == set()
    config = tmp_path / ".config" / "metadata.json"
    config.parent.mkdir()
    config.write_text(json.dumps({"default_config_name": "small"}))
    assert locate._default_config(tmp_path) == "small"
    with faults.failing("open", 0, errno.EACCES), pytest.raises(OSError, match=r"metadata\.json"):
        locate._default_config(tmp_path)


def test_a_note_that_cannot_be_read_does_not_pass_for_a_first_download(tmp_path):
    resource = Resource(urls=("http://x/y",))
    downloads = Downloads(folder=tmp_path, resources={})
    assert downloads._noted_checksum(resource) is None
    downloads._notes(resource).write_text(json.dumps({"sha256": "0" * 64}))
    assert downloads._noted_checksum(resource) == "0" * 64
    with Faults(tmp_path).failing("open", 0, errno.EIO), pytest.raises(OSError, match=r"y\.json"):
        downloads._noted_checksum(resource)
