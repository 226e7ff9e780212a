"""Writing ArrayRecord files."""

import numpy as np
import pytest
from tests.formats.array_record.files import CODECS, GOLDENS, noted, some_payloads, write
from tests.reference import riegeli as reference

import headrace as hr
from headrace.contracts.records import RecordWriter
from headrace.formats.array_record.codecs import WriterOptions
from headrace.formats.array_record.format import ArrayRecordRecords
from headrace.formats.array_record.write import ArrayRecordWriter

BLOCK = 1 << 16
SAME_BYTES = {
    "uncompressed": {"compression": "none", "group_size": 10},
    "group7_brotli": {"compression": "brotli", "level": 4, "group_size": 7},
}


@pytest.mark.parametrize("golden", [path for path in GOLDENS if path.stem in SAME_BYTES], ids=lambda path: path.stem)
def test_the_bytes_are_those_of_the_reference_writer(golden, tmp_path):
    write(tmp_path / "x.array_record", noted(golden), **SAME_BYTES[golden.stem])
    assert (tmp_path / "x.array_record").read_bytes() == golden.read_bytes()


def test_single_records_under_zstandard_are_those_of_the_reference_writer(tmp_path):
    golden = next(path for path in GOLDENS if path.stem == "group1")
    write(tmp_path / "x.array_record", noted(golden))
    ours, theirs = (tmp_path / "x.array_record").read_bytes(), golden.read_bytes()
    # 42 chunks are equal; the last is larger than the reference compresses in one piece.
    assert ours[:14594] == theirs[:14594]


@pytest.mark.parametrize("codec", CODECS)
def test_all_ways_of_writing_give_the_same_file(tmp_path, codec):
    payloads = some_payloads(3000, most=900)
    files = []
    for name, put in (("one", _one_by_one), ("many", _many), ("block", _in_blocks)):
        with ArrayRecordWriter(tmp_path / name, compression=codec, group_size=7) as writer:
            assert isinstance(writer.path, str)
            put(writer, payloads)
            assert writer.records == 3000
        files.append((tmp_path / name).read_bytes())
    assert files[0] == files[1] == files[2]
    assert reference.read(files[0], check=False) == payloads


def _one_by_one(writer: RecordWriter, payloads):
    for payload in payloads:
        writer.write(payload)


def _many(writer, payloads):
    writer.write_many(payloads[:1])
    writer.write_many([memoryview(payload) for payload in payloads[1:]])


def _in_blocks(writer, payloads):
    block = np.zeros(1 << 20, np.uint8)  # used again for every block
    for at in range(0, len(payloads), 1000):
        part = payloads[at : at + 1000]
        sizes = np.array([len(payload) for payload in part], np.int64)
        starts = np.cumsum(sizes) - sizes
        block[: sizes.sum()] = np.frombuffer(b"".join(part), np.uint8)
        writer.write_block(block[: sizes.sum()], starts, sizes)


def test_arrays_and_other_buffers(tmp_path):
    payloads = [np.arange(3, dtype=np.int32), bytearray(b"abc"), memoryview(b"defg")[1:]]
    write(tmp_path / "x", payloads, compression="none")
    assert [bytes(view) for view in ArrayRecordRecords([str(tmp_path / "x")])] == [
        payloads[0].tobytes(),
        b"abc",
        b"efg",
    ]


def test_padding_begins_every_chunk_at_a_boundary(tmp_path):
    write(tmp_path / "x", [b"abc"] * 7, compression="none", group_size=2, pad_to_block_boundary=True)
    data = (tmp_path / "x").read_bytes()
    begins = [begin for kind, _, begin in reference.chunks(data) if kind == "r"]
    assert begins == [64, BLOCK, 2 * BLOCK, 3 * BLOCK, 4 * BLOCK, 5 * BLOCK]  # the last two: footer and postscript
    assert len(data) == 6 * BLOCK


@pytest.mark.parametrize("left", [*range(45), 60, 100, 160])
def test_ends_near_a_block_boundary(tmp_path, left):
    """The space in the block after the last chunk: none, less than a block header, less than a chunk header, ..."""
    path = tmp_path / "x"
    write(path, [b"x" * (BLOCK - 64 - 40 - 5 - left)], compression="none")
    assert reference.read(path.read_bytes()) == [b"x" * (BLOCK - 64 - 40 - 5 - left)]
    assert len(ArrayRecordRecords([str(path)])[0]) == BLOCK - 109 - left


@pytest.mark.parametrize("left", [*range(45), 60])
def test_footers_that_end_near_a_block_boundary(tmp_path, left):
    path = tmp_path / "x"
    write(path, [b"x" * (BLOCK - 64 - 40 - 5 - 153 - left)], compression="none")
    footer = next(
        begin for kind, records, begin in reference.chunks(path.read_bytes()) if records and b"group_size" in records[0]
    )
    assert footer == ArrayRecordRecords([str(path)]).footer().begin
    assert len(path.read_bytes()) in (2 * BLOCK, 3 * BLOCK)
    assert len(ArrayRecordRecords([str(path)])) == 1


def test_nothing_appears_before_it_is_complete(tmp_path):
    path = tmp_path / "x.array_record"
    writer = ArrayRecordWriter(path)
    writer.write(b"abc")
    assert not path.exists()
    writer.abort()
    writer.close()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ZeroDivisionError), ArrayRecordWriter(path) as writer:
        writer.write(b"abc")
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []
    with ArrayRecordWriter(path) as writer:
        writer.write(b"abc")
    writer.close()
    assert [bytes(view) for view in hr.records(path)] == [b"abc"]
    with pytest.raises(ValueError, match="is closed"):
        writer.write(b"more")


def test_a_failing_codec_leaves_nothing(tmp_path, monkeypatch):
    writer = ArrayRecordWriter(tmp_path / "x", group_size=3)
    writer.write(b"abc")

    def fail(_content):
        raise MemoryError

    writer._pack = fail
    with pytest.raises(MemoryError):
        writer.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "canonical"),
    [
        ({}, "group_size:1,transpose:false,pad_to_block_boundary:false,zstd:3,window_log:20,max_parallelism:1"),
        (
            {"compression": "zstd", "level": -5, "group_size": 4},
            "group_size:4,transpose:false,pad_to_block_boundary:false,zstd:-5,window_log:20,max_parallelism:1",
        ),
        (
            {"level": 19, "window_log": 15, "group_size": 4},
            "group_size:4,transpose:false,pad_to_block_boundary:false,zstd:19,window_log:15,max_parallelism:1",
        ),
        (
            {"compression": "brotli", "group_size": 4},
            "group_size:4,transpose:false,pad_to_block_boundary:false,brotli:6,max_parallelism:1",
        ),
        (
            {"compression": "brotli", "level": 11, "window_log": 15},
            "group_size:1,transpose:false,pad_to_block_boundary:false,brotli:11,window_log:15,max_parallelism:1",
        ),
        (
            {"compression": "snappy"},
            "group_size:1,transpose:false,pad_to_block_boundary:false,snappy,max_parallelism:1",
        ),
        (
            {"compression": "none", "pad_to_block_boundary": True},
            "group_size:1,transpose:false,pad_to_block_boundary:true,uncompressed,max_parallelism:1",
        ),
    ],
)
def test_options_are_written_as_the_reference_writes_them(tmp_path, options, canonical):
    """The texts are those that array_record 0.8.6 put into files for the same options."""
    payloads = some_payloads(10)
    path = write(tmp_path / "x", payloads, **options)
    records = ArrayRecordRecords([path])
    assert records.footer().options == canonical
    assert [bytes(view) for view in records] == payloads


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"codec": "gzip"}, "codec must be one of 'none', 'zstd', 'brotli', 'snappy', got 'gzip'"),
        ({"group_size": 0}, "group_size must be at least 1, got 0"),
        ({"level": 23}, r"level of 'zstd' must be in \[-131072, 22\], got 23"),
        ({"codec": "brotli", "level": 12}, r"level of 'brotli' must be in \[0, 11\], got 12"),
        ({"codec": "snappy", "level": 1}, "'snappy' has no level"),
        ({"codec": "none", "window_log": 20}, "'none' has no window_log"),
        ({"window_log": 9}, r"window_log of 'zstd' must be in \[10, 31\], got 9"),
    ],
)
def test_options_out_of_range(options, message):
    with pytest.raises(ValueError, match=message):
        WriterOptions(**options)


@pytest.mark.parametrize("value", [1.5, "a", True])
@pytest.mark.parametrize("name", ["group_size", "level", "window_log"])
def test_options_of_another_type(tmp_path, name, value):
    with pytest.raises(TypeError, match=f"{name} must be an integer, got {value!r}"):
        ArrayRecordWriter(tmp_path / "x", **{name: value})
    assert list(tmp_path.iterdir()) == []


def test_a_bad_option_leaves_no_file(tmp_path):
    with pytest.raises(ValueError, match="codec must be one of"):
        ArrayRecordWriter(tmp_path / "x", compression="gzip")
    assert list(tmp_path.iterdir()) == []
