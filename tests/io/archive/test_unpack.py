"""Archives are unpacked into one folder without touching anything outside."""

import bz2
import gzip
import io
import lzma
import os
import struct
import tarfile
import zipfile

import pytest
from tests.datasets.web import tar_gz, zipped

from headrace.errors import CorruptFile, DataError, UnsupportedData
from headrace.io.archive import members as archive_members
from headrace.io.archive import unpack as archives
from headrace.io.archive.unpack import Limits, archive_names, unpack, unpack_into

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
    with pytest.raises(CorruptFile, match="no such member 'none'"):
        unpack(written(tmp_path, made(FILES)), tmp_path / "again", only={"none": "b"})


BAD_NAMES = ["../a", "a/../../b", "/etc/a", "~/a", "...", "a/ "]


@pytest.mark.parametrize("name", BAD_NAMES)
@pytest.mark.parametrize("made", [zipped, tar_gz])
def test_nothing_leads_out_of_the_folder(tmp_path, made, name):
    (tmp_path / "x").mkdir()
    with pytest.raises(UnsupportedData, match="stay inside"):
        unpack(written(tmp_path, made({"good": b"", name: b"bad"})), tmp_path / "x" / "out")
    assert list((tmp_path / "x").iterdir()) == []
    assert sorted(p.name for p in tmp_path.iterdir()) == ["archive", "x"]


@pytest.mark.parametrize("name", ["a\\..\\b", "C:a", "W:0.npy"])
def test_colons_and_backslashes_are_characters_in_a_tar(tmp_path, monkeypatch, name):
    unpack(written(tmp_path, tar_gz({name: b"1"})), tmp_path / "out")
    assert found_in(tmp_path / "out") == {name: b"1"}
    monkeypatch.setattr(archive_members, "IS_WINDOWS", True)
    with pytest.raises(UnsupportedData, match="stay inside"):
        unpack(written(tmp_path, tar_gz({name: b"1"})), tmp_path / "again")


def test_backslashes_in_a_zip_are_refused(tmp_path):
    with pytest.raises(UnsupportedData, match="stay inside"):
        unpack(written(tmp_path, zipped({"a\\b": b"1"})), tmp_path / "out")


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
    with pytest.raises(UnsupportedData, match="not devices"):
        unpack(written(tmp_path, tar_gz({"a": link("a", "", kind)})), tmp_path / "out")


def test_links_in_zip_files_are_refused(tmp_path):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        entry = zipfile.ZipInfo("a")
        entry.external_attr = 0o120777 << 16
        archive.writestr(entry, "/etc/passwd")
    with pytest.raises(UnsupportedData, match="links or devices"):
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


def test_other_files_are_not_archives(tmp_path):
    with pytest.raises(UnsupportedData, match="a zip, tar or gzip file"):
        unpack(written(tmp_path, b"plain text"), tmp_path / "out")


def test_a_name_that_is_file_and_folder(tmp_path):
    with pytest.raises(CorruptFile, match="as file and folder"):
        unpack(written(tmp_path, tar_gz({"a": b"", "a/b": b""})), tmp_path / "out")


def test_names_that_only_windows_takes_for_something_else(tmp_path, monkeypatch):
    content = tar_gz({"aux.py": b"a", "12:30.txt": b"b"})
    unpack(written(tmp_path, content), tmp_path / "out")
    assert found_in(tmp_path / "out") == {"aux.py": b"a", "12:30.txt": b"b"}
    monkeypatch.setattr(archive_members, "IS_WINDOWS", True)
    for name in ("a/con.txt", "12:30.txt"):
        with pytest.raises(UnsupportedData, match="stay inside"):
            unpack(written(tmp_path, tar_gz({name: b""})), tmp_path / "windows")


def folder_entry(name, mode=0o755):
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = tarfile.DIRTYPE, mode
    return entry


def long_chain():
    """CVE-2025-4517: folders and links whose resolved path exceeds PATH_MAX, where realpath gives up."""
    long, steps, members, path = "d" * 247, "abcdefghijklmnop", {}, ""
    for step in steps:
        members[path + long] = folder_entry(path + long)
        members[path + step] = link(path + step, long)
        path += f"{long}/"
    chain = "/".join(steps) + "/" + "l" * 254
    members[chain] = link(chain, "../" * len(steps))
    members["escape"] = link("escape", f"{chain}/../victim")
    return members


HOSTILE = {
    "CVE-2025-4517: write": {**long_chain(), "escape/written": b"bad"},
    "CVE-2025-4517: overwrite by a hard link": {
        **long_chain(),
        "hard": link("hard", "escape/secret", tarfile.LNKTYPE),
        "./hard": b"bad",
    },
    "CVE-2024-12718: modes outside": {
        "to": link("to", "."),
        "to/out": link("to/out", "../victim"),
        "to/out/": folder_entry("to/out", 0o000),
    },
    "CVE-2025-4330: link to outside by a link": {
        "a/b": folder_entry("a/b"),
        "a/b/up": link("a/b/up", "../.."),
        "x": link("x", "a/b/up/../victim/secret"),
    },
    "CVE-2025-4138: link through a long path": {"q": link("q", "p" * 300 + "/../../victim/secret")},
    "hard link through a link": {
        "way": link("way", "../victim"),
        "hard": link("hard", "way/secret", tarfile.LNKTYPE),
    },
    "a folder that becomes a link": {
        "dir": folder_entry("dir"),
        "dir/x": b"x",
        "./dir": link("dir", "../victim"),
        "dir/secret": b"bad",
    },
}


@pytest.mark.parametrize("long_names", [False, True])
@pytest.mark.parametrize("case", HOSTILE)
def test_known_attacks_touch_nothing(tmp_path, case, long_names, monkeypatch):
    if long_names:  # it is not the limit on names that refuses them
        monkeypatch.setattr(archive_members, "MOST_NAME_BYTES", 1 << 20)
        monkeypatch.setattr(archives, "MOST_COPIED", 500)
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "secret").write_bytes(b"secret")
    victim.chmod(0o750)
    before = (victim.stat().st_mode, (victim / "secret").stat().st_mode, (victim / "secret").stat().st_nlink)
    archive = written(tmp_path, tar_gz(HOSTILE[case]))
    with pytest.raises(DataError):
        unpack(archive, tmp_path / "out")
    assert found_in(victim) == {"secret": b"secret"}
    assert before == (victim.stat().st_mode, (victim / "secret").stat().st_mode, (victim / "secret").stat().st_nlink)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["archive", "victim"]


def test_a_file_replaces_an_earlier_link_of_its_name(tmp_path):
    content = tar_gz({"a": b"a", "b": link("b", "a"), "./b": b"new"})
    unpack(written(tmp_path, content), tmp_path / "out")
    assert found_in(tmp_path / "out") == {"a": b"a", "b": b"new"}


def test_no_mode_is_taken_over_but_executable(tmp_path):
    members = {}
    for name, mode in {"run.sh": 0o6755, "plain": 0o2644, "none": 0o000}.items():
        members[name] = entry = tarfile.TarInfo(name)
        entry.mode = mode
    members["dir"] = folder_entry("dir", 0o1777)
    unpack(written(tmp_path, tar_gz(members)), tmp_path / "out")
    umask = os.umask(0)
    os.umask(umask)
    modes = {path.name: path.stat().st_mode & 0o7777 for path in (tmp_path / "out").iterdir()}
    assert modes == {
        "run.sh": 0o777 & ~umask,
        "plain": 0o666 & ~umask,
        "none": 0o666 & ~umask,
        "dir": 0o777 & ~umask,
    }


def test_links_to_folders_and_to_links_become_what_they_lead_to(tmp_path):
    content = tar_gz(
        {
            "last": link("last", "newest"),
            "newest": link("newest", "runs/2"),
            "runs/1/model": b"one",
            "runs/2/model": link("runs/2/model", "../1/model"),
            "runs/2/log": b"log",
        }
    )
    unpack(written(tmp_path, content), tmp_path / "out")
    copied = {"model": b"one", "log": b"log"}
    wanted = {f"{folder}/{name}": value for folder in ("last", "newest", "runs/2") for name, value in copied.items()}
    assert found_in(tmp_path / "out") == {**wanted, "runs/1/model": b"one"}
    assert not [path for path in (tmp_path / "out").rglob("*") if path.is_symlink()]


@pytest.mark.parametrize(
    "members",
    [
        {"a": link("a", "b"), "b": link("b", "a")},
        {"a": link("a", "a")},
        {"a/b": b"", "a/c": link("a/c", "../a")},
        {"a/b": link("a/b", "../c"), "c/d": link("c/d", "../a")},
    ],
)
def test_links_in_a_circle_are_refused(tmp_path, members):
    with pytest.raises(UnsupportedData, match="links to members"):
        unpack(written(tmp_path, tar_gz(members)), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_folders_that_double_by_links_end_at_the_limit(tmp_path, monkeypatch):
    members = {"0/a": b""}
    for number in range(1, 30):
        for half in "xy":
            members[f"{number}/{half}"] = link(f"{number}/{half}", f"../{number - 1}")
    with pytest.raises(UnsupportedData, match="no more files and folders than 1,000"):
        unpack(written(tmp_path, tar_gz(members)), tmp_path / "out", limits=Limits(files=1000))
    monkeypatch.setattr(archives, "MOST_COPIED", 500)
    with pytest.raises(UnsupportedData, match="at most 500 files and folders in all"):
        unpack(written(tmp_path, tar_gz(members)), tmp_path / "out")


def zeros_archive(tmp_path, size):
    path = tmp_path / "zeros.tar.gz"
    with gzip.open(path, "wb") as out:
        entry = tarfile.TarInfo("zeros")
        entry.size = size
        out.write(entry.tobuf(tarfile.GNU_FORMAT))
        for _ in range(size >> 20):
            out.write(bytes(1 << 20))
        out.write(bytes(1024))
    return path


def test_by_default_much_from_little_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "LEAST_LIMIT_BYTES", 1 << 20)
    archive = zeros_archive(tmp_path, 8 << 20)
    with pytest.raises(UnsupportedData, match=r"no more than 1,6[0-9,]+ bytes in all from an archive of 8,") as raised:
        unpack(archive, tmp_path / "out")
    assert "HEADRACE_UNPACKED_BYTES" in raised.value.hint
    assert [p.name for p in tmp_path.iterdir()] == ["zeros.tar.gz"]
    monkeypatch.setenv("HEADRACE_UNPACKED_BYTES", "9M")
    unpack(archive, tmp_path / "out")
    assert (tmp_path / "out" / "zeros").stat().st_size == 8 << 20


def test_the_default_limit_lets_large_models_through_and_stays_below_the_free_space(tmp_path, monkeypatch):
    sparse = tmp_path / "large"
    with sparse.open("wb") as file:
        file.truncate(4 << 30)
    usage = type("Usage", (), {"free": 10 << 40})
    monkeypatch.setattr(archives.shutil, "disk_usage", lambda folder: usage)
    assert archives._most_bytes(Limits(), sparse, tmp_path) == 800 << 30
    usage.free = 10 << 30
    assert archives._most_bytes(Limits(), sparse, tmp_path) == 9 << 30


def test_empty_files_count_for_what_they_take_on_a_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "LEAST_LIMIT_BYTES", 64 << 10)
    monkeypatch.setattr(archives, "MOST_RATIO", 1)
    with pytest.raises(UnsupportedData, match="bytes in all"):
        unpack(written(tmp_path, tar_gz({str(i): b"" for i in range(20)})), tmp_path / "out")


def test_the_count_of_files_is_a_setting(tmp_path, monkeypatch):
    archive = written(tmp_path, tar_gz({str(i): b"" for i in range(20)}))
    monkeypatch.setenv("HEADRACE_UNPACKED_FILES", "10")
    with pytest.raises(UnsupportedData, match="HEADRACE_UNPACKED_FILES"):
        unpack(archive, tmp_path / "out")
    with pytest.raises(UnsupportedData, match="HEADRACE_UNPACKED_FILES"):
        archive_names(archive)
    monkeypatch.setenv("HEADRACE_UNPACKED_FILES", "some")
    with pytest.raises(ValueError, match="HEADRACE_UNPACKED_FILES must be"):
        unpack(archive, tmp_path / "out")


def with_size(head, size):
    """A header with another size, even negative, and a correct checksum."""
    head = bytearray(head)
    head[124:136] = struct.pack(">q", size).rjust(12, b"\xff" if size < 0 else b"\0")
    head[124] = 0xFF if size < 0 else 0x80
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head)


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.REGTYPE])
@pytest.mark.parametrize("size", [-512, -(1 << 40), 1 << 40, 2 << 20])
@pytest.mark.parametrize("first", [True, False])
def test_sizes_in_headers_are_not_believed(tmp_path, kind, size, first):
    """CVE-2025-8194 (a negative size, for ever), and extended headers that would be read into memory completely."""
    head = tarfile.TarInfo("a")
    head.type = kind
    bad = with_size(head.tobuf(tarfile.GNU_FORMAT), size) + bytes(1024)
    content = bad if first else tarfile.TarInfo("before").tobuf() + bad
    for made in (content, gzip.compress(content)):
        with pytest.raises(DataError):
            unpack(written(tmp_path, made), tmp_path / "out")
        assert [p.name for p in tmp_path.iterdir()] == ["archive"]


def test_a_damaged_header_in_the_middle_is_not_the_end(tmp_path):
    whole = plain_tar({"a": b"a", "b": b"b"})
    assert whole[1024:1025] == b"b"
    damaged = whole[:1030] + b"?" + whole[1031:]
    with pytest.raises(CorruptFile, match="no header of a member at byte 1,024"):
        unpack(written(tmp_path, damaged), tmp_path / "out")
    with pytest.raises(CorruptFile, match="no header"):
        archive_names(written(tmp_path, damaged))


def test_a_tar_that_ends_with_a_zip_is_a_tar(tmp_path):
    inner = zipped({"inside": b"1"})
    unpack(written(tmp_path, plain_tar({"model_algo-1": inner})), tmp_path / "out")
    assert found_in(tmp_path / "out") == {"model_algo-1": inner}


def test_a_tar_gz_that_holds_something_else(tmp_path):
    with pytest.raises(UnsupportedData, match=r"expected a model\.tar\.gz"):
        unpack(written(tmp_path, gzip.compress(b"idx"), "model.tar.gz"), tmp_path / "out", what="a model.tar.gz")


@pytest.mark.parametrize("name", ["/".join("a" * 101), "a" * 256, "/".join(["a" * 200] * 6)])
@pytest.mark.parametrize("made", [zipped, tar_gz])
def test_names_longer_than_systems_take(tmp_path, made, name):
    with pytest.raises(UnsupportedData, match="names of at most"):
        unpack(written(tmp_path, made({name: b""})), tmp_path / "out")


def test_executable_files_of_a_zip(tmp_path):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        entry = zipfile.ZipInfo("train.sh")
        entry.external_attr = 0o104755 << 16
        archive.writestr(entry, "x")
    unpack(written(tmp_path, buffer.getvalue()), tmp_path / "out")
    assert os.access(tmp_path / "out" / "train.sh", os.X_OK)
    assert (tmp_path / "out" / "train.sh").stat().st_mode & 0o6000 == 0


@pytest.mark.parametrize("made", [zipped, tar_gz])
def test_into_a_folder_that_exists(tmp_path, made):
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    out.mkdir()
    (out / "mine").write_bytes(b"mine")
    elsewhere.write_bytes(b"safe")
    (out / "empty").symlink_to(elsewhere)
    unpack_into(written(tmp_path, made(FILES)), out)
    assert found_in(out) == {**FILES, "mine": b"mine"}
    assert elsewhere.read_bytes() == b"safe"
    with pytest.raises(UnsupportedData):
        unpack_into(written(tmp_path, made({"mine": b"theirs", "../x": b""})), out)
    assert found_in(out) == {**FILES, "mine": b"mine"}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["archive", "elsewhere", "out"]


@pytest.mark.parametrize("made", [zipped, tar_gz])
def test_names_without_unpacking(tmp_path, made):
    assert archive_names(written(tmp_path, made({"./code/inference.py": b"", "a": b"b"}))) == [
        "a",
        "code/inference.py",
    ]


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_zip_members_are_decompressed_in_small_steps(tmp_path, monkeypatch, method):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr("zeros", bytes(4 << 20))
    asked = []
    read = zipfile.ZipExtFile.read
    monkeypatch.setattr(zipfile.ZipExtFile, "read", lambda file, size=-1: asked.append(size) or read(file, size))
    unpack(written(tmp_path, buffer.getvalue()), tmp_path / "out")
    assert set(asked) == {4096}
    assert (tmp_path / "out" / "zeros").stat().st_size == 4 << 20
