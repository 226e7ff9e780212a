"""Model archives: unpacked completely, or refused with a reason."""

import io
import tarfile

import pytest
from tests.hosting.places import sample

from headrace.errors import CorruptFile, NoFiles
from headrace.hosting.prepare import unpack_model, unpack_models


def archive(path, *members):
    with tarfile.open(path, "w:gz") as made:
        for member, content in members:
            member.size = len(content)
            made.addfile(member, io.BytesIO(content))
    return path


def link(name, target):
    member = tarfile.TarInfo(name)
    member.type, member.linkname = tarfile.SYMTYPE, target
    return member


def test_it_replaces_what_was_there(tmp_path):
    made = archive(tmp_path / "model.tar.gz", (tarfile.TarInfo("code/inference.py"), b"x"))
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "old").touch()
    unpack_model(made, tmp_path / "model")
    assert [str(path.relative_to(tmp_path / "model")) for path in sorted((tmp_path / "model").rglob("*"))] == [
        "code",
        "code/inference.py",
    ]


@pytest.mark.parametrize("member", [tarfile.TarInfo("../out"), link("a", "../../out"), link("b", "/etc/passwd")])
def test_members_that_lead_outside(tmp_path, member):
    made = archive(tmp_path / "model.tar.gz", (member, b""))
    with pytest.raises(CorruptFile):
        unpack_model(made, tmp_path / "models" / "model")
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "models" / "model").exists()


def test_every_truncation_is_refused(tmp_path):
    whole = archive(tmp_path / "whole.tar.gz", (tarfile.TarInfo("model.bin"), bytes(range(256)) * 8)).read_bytes()
    for length in range(0, len(whole), 3):
        (tmp_path / "model.tar.gz").write_bytes(whole[:length])
        with pytest.raises(CorruptFile, match=r"expected a model\.tar\.gz"):
            unpack_model(tmp_path / "model.tar.gz", tmp_path / "model")


@pytest.mark.parametrize(
    ("content", "found"), [(b"hello, world", "a file that begins with b'hello, w'"), (b"", "an empty file")]
)
def test_a_file_that_is_not_an_archive_is_reported_in_one_line(tmp_path, content, found):
    (tmp_path / "model.tar.gz").write_bytes(content)
    with pytest.raises(CorruptFile) as raised:
        unpack_model(tmp_path / "model.tar.gz", tmp_path / "model")
    assert raised.value.found == found
    assert "\n" not in str(raised.value)


def test_missing_files(tmp_path):
    with pytest.raises(NoFiles):
        unpack_model(tmp_path / "no.tar.gz", tmp_path / "model")


def test_folders_stay_where_they_are(tmp_path):
    made = archive(tmp_path / "model.tar.gz", (tarfile.TarInfo("model.txt"), b"x"))
    (tmp_path / "folder").mkdir()
    stages = [
        sample("echo"),
        sample("Container", model_dir=str(tmp_path / "folder")),
        sample("Container", model_dir=str(made)),
    ]
    with unpack_models(stages) as found:
        assert found[:2] == stages[:2]
        assert (tmp_path / found[2].model_dir / "model.txt").read_bytes() == b"x"
        assert found[2].model_dir.endswith("/3/model")
        place = found[2].model_dir
    assert not (tmp_path / place).exists()
