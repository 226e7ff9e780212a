"""A file put together from pieces: the bytes are those of the pieces in their order, however they come there."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.io.write import pieces as module
from headrace.io.write.atomic import AtomicFile
from headrace.io.write.pieces import BytesPiece, FilePiece, pieces_of_files, pieces_of_range

WAYS = ["system", "refused", "answers nothing", "no copies", "no places"]


def choose_way(monkeypatch, way):
    def refuse(*_):
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    if way == "refused":
        monkeypatch.setattr(os, "copy_file_range", refuse, raising=False)
    elif way == "answers nothing":
        monkeypatch.setattr(os, "copy_file_range", lambda *_: 0, raising=False)
    elif way != "system":
        monkeypatch.setattr(module, "HAS_COPY", False)
    if way == "no places":
        monkeypatch.setattr(module, "HAS_PLACES", False)


@pytest.mark.parametrize("way", WAYS)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 999), st.integers(0, 999)), max_size=12), st.integers(1, 4))
def test_pieces_follow_one_another(tmp_path_factory, way, chosen, threads):
    folder = tmp_path_factory.mktemp("pieces")
    content = os.urandom(1000)
    (folder / "a").write_bytes(content)
    pieces, expected = [], b"before"
    for is_file, one, other in chosen:
        start, stop = sorted((one, other))
        piece = FilePiece(str(folder / "a"), start, stop) if is_file else BytesPiece(content[start:stop])
        assert piece.content() == content[start:stop]
        pieces.append(piece)
        expected += content[start:stop]
    with pytest.MonkeyPatch.context() as patch:
        choose_way(patch, way)
        with AtomicFile(folder / "b") as out:
            out.write(b"before")
            out.place(pieces, threads=threads)
            out.write(b"after")
            assert out.size == len(expected) + 5
    assert (folder / "b").read_bytes() == expected + b"after"
    shutil.rmtree(folder)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("threads", [1, 3])
def test_files_of_several_pieces(tmp_path, monkeypatch, way, threads):
    choose_way(monkeypatch, way)
    monkeypatch.setattr(module, "PIECE_BYTES", 70_000)
    monkeypatch.setattr(module, "BLOCK_BYTES", 10_000)
    parts = [os.urandom(size) for size in (300_001, 0, 70_000, 5)]
    for number, part in enumerate(parts):
        (tmp_path / str(number)).write_bytes(part)
    pieces = list(pieces_of_files([str(tmp_path / str(number)) for number in range(4)]))
    assert [piece.size for piece in pieces] == [70_000] * 4 + [20_001, 70_000, 5]
    with AtomicFile(tmp_path / "whole") as out:
        out.place(pieces, threads=threads)
    assert (tmp_path / "whole").read_bytes() == b"".join(parts)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("threads", [1, 3])
def test_a_file_that_became_shorter(tmp_path, monkeypatch, way, threads):
    choose_way(monkeypatch, way)
    (tmp_path / "a").write_bytes(bytes(100))
    pieces = [FilePiece(str(tmp_path / "a"), 0, 101), BytesPiece(b"x")]
    with pytest.raises(OSError, match="became shorter") as raised, AtomicFile(tmp_path / "whole") as out:
        out.place(pieces, threads=threads)
    assert raised.value.filename == str(tmp_path / "a")
    assert os.listdir(tmp_path) == ["a"]
    with pytest.raises(OSError, match="became shorter"):
        pieces[0].content()


@pytest.mark.parametrize("threads", [1, 3])
def test_errors_name_the_file_that_is_to_blame(tmp_path, monkeypatch, threads):
    (tmp_path / "a").write_bytes(bytes(100))
    gone = FilePiece(str(tmp_path / "gone"), 0, 100)
    with pytest.raises(FileNotFoundError) as raised, AtomicFile(tmp_path / "whole") as out:
        out.place([BytesPiece(b"x"), gone], threads=threads)
    assert raised.value.filename == gone.path

    def fill(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "copy_file_range", fill, raising=False)
    monkeypatch.setattr(module, "HAS_COPY", True)
    with pytest.raises(OSError, match="No space left") as raised, AtomicFile(tmp_path / "whole") as out:
        out.place(list(pieces_of_range(str(tmp_path / "a"), 0, 100)) * 2, threads=threads)
    assert raised.value.filename == str(tmp_path / "whole")
    assert os.listdir(tmp_path) == ["a"]


def test_nothing_is_placed_in_a_closed_file(tmp_path):
    out = AtomicFile(tmp_path / "a")
    out.close()
    with pytest.raises(ValueError, match="is closed"):
        out.place([BytesPiece(b"x")])
    assert Path(tmp_path / "a").read_bytes() == b""
