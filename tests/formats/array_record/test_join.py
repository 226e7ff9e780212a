"""Joined ArrayRecord files: every piece is made by itself, and together they are what copying one chunk after another gives."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.errors import CorruptFile
from headrace.formats.array_record import join
from headrace.formats.array_record.footer import read_footer
from headrace.formats.array_record.join import ChunksOf, copy_chunks, pieces_of_chunks
from headrace.formats.array_record.write import ArrayRecordWriter
from headrace.io.local.mapped import MappedFile
from headrace.io.write.atomic import AtomicFile

SIZES = st.lists(
    st.one_of(st.integers(0, 60), st.integers(65_300, 65_600), st.integers(0, 200_000), st.just(0)), max_size=40
)
OPTIONS = st.sampled_from(
    [{}, {"group_size": 7}, {"group_size": 100}, {"pad_to_block_boundary": True}, {"compression": "zstd"}]
)


def join_slowly(parts, path):
    files = [MappedFile(part) for part in parts]
    footers = [read_footer(file) for file in files]
    sources = (ChunksOf(file, f.begins, f.decoded_sizes, f.counts) for file, f in zip(files, footers, strict=True))
    copy_chunks(sources, path, footers[0].options)


def join_pieces(parts, path, threads=1):
    with AtomicFile(path) as out:
        out.place(pieces_of_chunks(parts), threads=threads)


@settings(max_examples=60)
@given(st.lists(SIZES, min_size=1, max_size=4), OPTIONS, st.sampled_from([1 << 24, 150_000, 1]), st.integers(1, 3))
def test_pieces_are_the_chunks_one_after_another(tmp_path_factory, parts, options, part_bytes, threads):
    folder = tmp_path_factory.mktemp("join")
    rng = np.random.default_rng(0)
    paths, records = [], []
    for number, sizes in enumerate(parts):
        paths.append(str(folder / str(number)))
        with ArrayRecordWriter(paths[-1], **{"compression": "none", **options}) as writer:
            found = [rng.bytes(size) for size in sizes]
            writer.write_many(found)
            records += found
    join_slowly(paths, folder / "slow.array_record")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(join, "PART_BYTES", part_bytes)
        join_pieces(paths, folder / "fast.array_record", threads)
    assert (folder / "fast.array_record").read_bytes() == (folder / "slow.array_record").read_bytes()
    assert [bytes(record) for record in hr.records(folder / "fast.array_record")] == records
    assert hr.verify(folder / "fast.array_record", codec="raw").ok
    shutil.rmtree(folder)


def test_records_without_bytes_in_large_chunks(tmp_path):
    """A chunk of more records than bytes ends with a gap, which depends on where it is placed."""
    paths = [str(tmp_path / str(number)) for number in range(3)]
    for path in paths:
        with ArrayRecordWriter(path, compression="none", group_size=30_000) as writer:
            writer.write_many([b""] * 65_000)
    join_slowly(paths, tmp_path / "slow")
    join_pieces(paths, tmp_path / "fast")
    assert (tmp_path / "fast").read_bytes() == (tmp_path / "slow").read_bytes()


def test_damage_is_found(tmp_path):
    paths = [str(tmp_path / str(number)) for number in range(2)]
    for path in paths:
        with ArrayRecordWriter(path, compression="none") as writer:
            writer.write_many([b"x" * 1000] * 20)
    data = bytearray(Path(paths[1]).read_bytes())
    data[5000] ^= 1
    Path(paths[1]).write_bytes(data)
    with pytest.raises((CorruptFile, hr.CorruptRecord, ValueError)):
        join_pieces(paths, tmp_path / "whole")
    assert not (tmp_path / "whole").exists()
    Path(paths[1]).write_bytes(data[:-70_000])
    with pytest.raises(CorruptFile):
        pieces_of_chunks(paths)
