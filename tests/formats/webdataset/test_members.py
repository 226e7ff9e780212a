"""Headers of archives, read natively, beside those that ``tarfile`` reads."""

import io
import tarfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sweeps import some_of

from headrace import _native
from headrace.errors import DataError
from headrace.formats.webdataset import members
from headrace.io.local.mapped import MappedFile

FORMATS = (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)


def archive_of(names, *, format=tarfile.PAX_FORMAT, mtime=0, kind=tarfile.REGTYPE, content=b"abc", **options):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=format, **options) as archive:
        for name in names:
            member = tarfile.TarInfo(name)
            member.type, member.mtime = (tarfile.DIRTYPE if name.endswith("/") else kind), mtime
            member.size = len(content) if member.isreg() else 0
            archive.addfile(member, io.BytesIO(content))
    return file.getvalue()


def both_ways(tmp_path, content):
    """What is found with native code and without, which must be the same: files or an error."""
    path = tmp_path / "x.tar"
    path.write_bytes(content)
    results = []
    for scan in (_native.scan_tar, lambda _, begin, most: ([], np.zeros((0, 2), np.int64), begin)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(members._native, "scan_tar", scan)
            try:
                results.append(list(members._files_in(MappedFile(str(path)))))
            except DataError as error:
                results.append(str(error))
    assert results[0] == results[1]
    return results[0]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("mtime", [0, 1700000000.25])
def test_members_of_all_kinds(tmp_path, format, mtime):
    mtime = mtime if format == tarfile.PAX_FORMAT else int(mtime)
    names = ["0.txt", "folder/", "folder/0.txt", "a" * 60 + "/" + "b" * 60 + ".txt", "é.txt", "last.txt"]
    found = both_ways(tmp_path, archive_of(names, format=format, mtime=mtime))
    assert [name for name, _, _ in found] == [name for name in names if not name.endswith("/")]
    assert all(size == 3 for _, _, size in found)


def test_native_code_reads_what_writers_make(tmp_path):
    """Among those the ``webdataset`` package, whose times are floats: each member has a pax header."""
    names = [f"{number:06}.txt" for number in range(20)] + ["x" * 150]
    for format in FORMATS[1:]:
        content = archive_of(names, format=format, mtime=1.5 if format == tarfile.PAX_FORMAT else 1)
        found, places, end = _native.scan_tar(content, 0, 100)
        assert found == names
        assert [content[begin : begin + size] for begin, size in places.tolist()] == [b"abc"] * len(names)
        assert not any(content[end:])


@given(
    names=st.lists(st.text(st.sampled_from("ab./é_"), min_size=1, max_size=5).map(lambda part: part * 30), max_size=8),
    format=st.sampled_from(FORMATS[1:]),
    most=st.integers(1, 4),
)
def test_random_names(tmp_path_factory, names, format, most):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(members, "MOST_SCANNED", most)
        both_ways(tmp_path_factory.mktemp("tar"), archive_of(names, format=format))


def test_header_for_all_that_follow(tmp_path):
    content = archive_of(["a.txt", "b.txt"], pax_headers={"comment": "x"}) + archive_of([])
    assert [name for name, _, _ in both_ways(tmp_path, content)] == ["a.txt", "b.txt"]
    renamed = archive_of(["a.txt", "b.txt", "c.txt"], pax_headers={"path": "all.txt"})
    assert [name for name, _, _ in both_ways(tmp_path, renamed)] == ["all.txt"] * 3


def test_many_headers_that_are_not_plain(tmp_path):
    names = [f"é{number}.txt" for number in range(100)]
    names[50:50] = [f"{number}.txt" for number in range(30)]
    assert [name for name, _, _ in both_ways(tmp_path, archive_of(names))] == names


@pytest.mark.parametrize("format", FORMATS)
def test_damage(tmp_path, format):
    """Changed bytes of all headers, and lengths: what is found, and the error, are those of ``tarfile``."""
    content = archive_of(["a.txt", "b" * 60 + "/" + "c" * 60], format=format, mtime=7)
    content = content[: len(content.rstrip(b"\0")) + 3 * 512]
    for at in some_of(range(len(content))):
        changed = bytearray(content)
        changed[at] ^= 0x55 if at % 2 else 0x80
        both_ways(tmp_path, bytes(changed))
    for size in range(0, len(content), 37):
        both_ways(tmp_path, content[:size])


def test_others_than_files(tmp_path):
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE):
        both_ways(tmp_path, archive_of(["a.txt", "b.txt"], kind=kind))
