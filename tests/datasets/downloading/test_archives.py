"""What archives hold comes into one folder, and nowhere else."""

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile

import pytest
from tests.datasets.web import tar_gz, zipped

from penstock.datasets.downloading import Limits, unpack
from penstock.errors import CorruptFile, DataError, UnsupportedData

FILES = {"top/a.txt": b"a" * 1000, "top/deep/b.bin": bytes(range(256)), "empty": b""}


def written(tmp_path, content, name="archive"):
    path = tmp_path / name
    path.write_bytes(content)
    return path


def found_in(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def plain_tar(files):
    return gzip.decompress(tar_gz(files))


@pytest.mark.parametrize(
    "made", [zipped, tar_gz, plain_tar, lambda f: bz2.compress(plain_tar(f)), lambda f: lzma.compress(plain_tar(f))]
)
def test_every_kind_of_archive(tmp_path, made):
    unpack(written(tmp_path, made(FILES)), tmp_path / "out")
    assert found_in(tmp_path / "out") == FILES


def test_a_single_gzip_file(tmp_path):
    unpack(written(tmp_path, gzip.compress(b"idx"), "images.gz"), tmp_path / "out")
    assert found_in(tmp_path / "out") == {"images": b"idx"}


@pytest.mark.parametrize("made", [zipped, tar_gz])
def test_only_some_members(tmp_path, made):
    unpack(written(tmp_path, made(FILES)), tmp_path / "out", only={"top/deep/b.bin": "b"})
    assert found_in(tmp_path / "out") == {"b": FILES["top/deep/b.bin"]}
    with pytest.raises(CorruptFile, match="a member 'none'"):
        unpack(written(tmp_path, made(FILES)), tmp_path / "again", only={"none": "b"})


BAD_NAMES = ["../a", "a/../../b", "/etc/a", "a\\..\\b", "C:a", "~/a", "a/con.txt", "...", "a/ "]


@pytest.mark.parametrize("name", BAD_NAMES)
@pytest.mark.parametrize("made", [zipped, tar_gz])
def test_nothing_leads_out_of_the_folder(tmp_path, made, name):
    (tmp_path / "x").mkdir()
    with pytest.raises(UnsupportedData, match="stay inside"):
        unpack(written(tmp_path, made({"good": b"", name: b"bad"})), tmp_path / "x" / "out")
    assert list((tmp_path / "x").iterdir()) == []
    assert sorted(p.name for p in tmp_path.iterdir()) == ["archive", "x"]


def link(name, target, kind=tarfile.SYMTYPE):
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, target
    return entry


@pytest.mark.parametrize("target", ["/etc/passwd", "../../etc/passwd", "../..", ".", "none"])
def test_links_to_elsewhere_are_refused(tmp_path, target):
    content = tar_gz({"dir/a": b"a", "dir/link": link("dir/link", target)})
    with pytest.raises(UnsupportedData):
        unpack(written(tmp_path, content), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_link_that_leads_on_through_another(tmp_path):
    steps = {"p/q/r": link("p/q/r", "../.."), "p/q/r/x": link("p/q/r/x", "../../.."), "p/q/r/x/evil": b"bad"}
    with pytest.raises(DataError):
        unpack(written(tmp_path, tar_gz(steps)), tmp_path / "out")
    assert not list(tmp_path.rglob("evil"))


def test_links_within_become_files(tmp_path):
    content = tar_gz(
        {
            "dir/soft": link("dir/soft", "../dir/a"),
            "dir/a": b"a",
            "dir/hard": link("dir/hard", "dir/a", tarfile.LNKTYPE),
        }
    )
    unpack(written(tmp_path, content), tmp_path / "out")
    assert found_in(tmp_path / "out") == {"dir/a": b"a", "dir/soft": b"a", "dir/hard": b"a"}
    assert not (tmp_path / "out" / "dir" / "soft").is_symlink()


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_devices_are_refused(tmp_path, kind):
    with pytest.raises(UnsupportedData, match="another thing"):
        unpack(written(tmp_path, tar_gz({"a": link("a", "", kind)})), tmp_path / "out")


def test_links_in_zip_files_are_refused(tmp_path):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        entry = zipfile.ZipInfo("a")
        entry.external_attr = 0o120777 << 16
        archive.writestr(entry, "/etc/passwd")
    with pytest.raises(UnsupportedData, match="a link"):
        unpack(written(tmp_path, buffer.getvalue()), tmp_path / "out")


@pytest.mark.parametrize("made", [zipped, tar_gz])
def test_bombs_do_not_go_off(tmp_path, made):
    content = made({"zeros": bytes(10 << 20)})
    assert len(content) < 100_000
    with pytest.raises(UnsupportedData, match="no more than 1,000,000 bytes"):
        unpack(written(tmp_path, content), tmp_path / "out", limits=Limits(bytes=1_000_000))
    many = made({str(i): b"" for i in range(20)})
    with pytest.raises(UnsupportedData, match="no more files"):
        unpack(written(tmp_path, many), tmp_path / "out", limits=Limits(files=10))
    assert [p.name for p in tmp_path.iterdir()] == ["archive"]


@pytest.mark.parametrize("made", [zipped, tar_gz])
def test_damage_is_an_error_or_changes_nothing(tmp_path, made):
    whole = made(FILES)
    for cut in range(0, len(whole), 7):
        damaged = [whole[:cut], whole[:cut] + bytes((whole[cut] ^ 0x10,)) + whole[cut + 1 :]]
        for number, content in enumerate(damaged):
            out = tmp_path / f"out{cut}-{number}"
            try:
                unpack(written(tmp_path, content), out)
            except DataError:
                assert not out.exists()


def test_other_files_are_no_archives(tmp_path):
    with pytest.raises(UnsupportedData, match="a zip, tar or gzip file"):
        unpack(written(tmp_path, b"plain text"), tmp_path / "out")


def test_a_name_that_is_file_and_folder(tmp_path):
    with pytest.raises(CorruptFile, match="as file and folder"):
        unpack(written(tmp_path, tar_gz({"a": b"", "a/b": b""})), tmp_path / "out")
