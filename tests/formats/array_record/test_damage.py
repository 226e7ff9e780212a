"""Damaged ArrayRecord files: named, skipped, verified, salvaged."""

import contextlib
from pathlib import Path

import numpy as np
import pytest
from tests.formats.array_record.files import CODECS, GOLDENS, noted, some_payloads, write

import headrace as hr
from headrace import _native
from headrace.errors import CorruptFile, CorruptRecord, DataError
from headrace.formats.array_record.codecs import WriterOptions
from headrace.formats.array_record.footer import Footer
from headrace.formats.array_record.format import ArrayRecordRecords
from headrace.formats.array_record.scan import scan_file
from headrace.formats.array_record.verify import salvage
from headrace.formats.array_record.write import file_end
from headrace.formats.open import verify_records
from headrace.io.local.mapped import MappedFile

BLOCK = 1 << 16
GROUP = 5


@pytest.fixture
def path(tmp_path):
    return tmp_path / "damaged.array_record"


@pytest.fixture
def sound(tmp_path):
    """60 records in 12 chunks, and their bytes as a file: chunks of one block, one of several, footer and postscript."""
    payloads = some_payloads(60, most=200)
    payloads[27] = bytes(np.random.default_rng(0).bytes(150_000))
    return payloads, Path(
        write(tmp_path / "sound.array_record", payloads, compression="none", group_size=GROUP)
    ).read_bytes()


def chunks_of(data, tmp_path):
    """Begin, end, type, records of every chunk."""
    table, _, error = _native.scan_chunks(data, 0, most=10_000, verify=True)
    assert error is None
    return table[:, :4].tolist()


def flipped(data, at, mask=0x10):
    changed = bytearray(data)
    changed[at] ^= mask
    return bytes(changed)


def places(data, chunks):
    """Bytes worth flipping: all of headers and short data, some of long data and padding."""
    offsets = set()
    for begin, end, kind, _ in chunks:
        head = 64 + (24 if begin % BLOCK == 0 else 0)
        offsets.update(range(begin, min(end, begin + head)))
        if end - begin > 2000 or kind == ord("p"):
            offsets.update(range(begin, end, 9973))
        else:
            offsets.update(range(begin, end, 7))
        for boundary in range(-(-begin // BLOCK) * BLOCK, end, BLOCK):
            offsets.update(range(boundary, boundary + 24))
    return sorted(offset for offset in offsets if offset < len(data))


def test_every_flip_is_an_error_or_changes_nothing(sound, path, tmp_path):
    payloads, data = sound
    path.write_bytes(data)
    before = None
    for at in places(data, chunks_of(data, tmp_path)):
        with path.open("r+b") as file:
            for offset in {at, before} - {None}:
                file.seek(offset)
                file.write(bytes([data[offset] ^ (0x10 if offset == at else 0)]))
        before = at
        records = ArrayRecordRecords([str(path)])
        fault = None
        try:
            assert [bytes(view) for view in records] == payloads
        except (CorruptRecord, CorruptFile) as error:
            fault = error
        assert fault is None or (fault.where.path == str(path) and fault.where.offset is not None)
        with contextlib.suppress(DataError):  # Those that can be read individually are correct.
            assert bytes(records[at % 60]) == payloads[at % 60]


def test_every_cut_is_reported_as_truncation(sound, path):
    _, data = sound
    for size in [
        *range(0, 200, 7),
        5000,
        BLOCK - 1,
        BLOCK,
        BLOCK + 5,
        2 * BLOCK,
        len(data) - BLOCK,
        len(data) - BLOCK + 100,
        len(data) - 1,
    ]:
        path.write_bytes(data[:size])
        with pytest.raises(CorruptFile, match="truncated") as caught:
            len(ArrayRecordRecords([str(path)]))
        assert "headrace verify --salvage OUT" in str(caught.value)


def test_messages(sound, path):
    _, data = sound
    path.write_bytes(data[:1000])
    with pytest.raises(CorruptFile) as caught:
        len(ArrayRecordRecords([str(path)]))
    assert str(caught.value) == (
        f"expected at least 131072 bytes, as in every complete ArrayRecord file, found 1000 - at {path}. The file is truncated, "
        "still being written, or damaged at its end. `headrace verify --salvage OUT` recovers the chunks that are intact."
    )
    path.write_bytes(data[: 3 * BLOCK])
    with pytest.raises(
        CorruptFile, match=r"expected an ArrayRecord postscript in the last block, found .* byte 0x20000"
    ):
        len(ArrayRecordRecords([str(path)]))
    path.write_bytes(flipped(data, 64 + 40 + 20))
    with pytest.raises(
        CorruptRecord, match=r"expected payload checksum 0x\w+, found 0x\w+ - at .*, record 0, byte 0x40\."
    ):
        ArrayRecordRecords([str(path)])[3]


def test_the_chunk_and_its_first_record_are_named(sound, path, tmp_path):
    payloads, data = sound
    begin = chunks_of(data, tmp_path)[3][0]  # after the signature: the third chunk of records
    path.write_bytes(flipped(data, begin + 45))
    records = ArrayRecordRecords([str(path)])
    for read in (lambda: records[12], lambda: records.spans(np.arange(60)), lambda: list(records)):
        with pytest.raises(CorruptRecord) as caught:
            read()
        assert (caught.value.where.record, caught.value.where.offset) == (10, begin)
    # The records before it are delivered first.
    seen = []
    with pytest.raises(CorruptRecord):
        seen.extend(record for _, spans in records.iter_spans(4) for record in spans.to_bytes())
    assert seen == payloads[:10]
    assert ArrayRecordRecords([str(path)], verify=False).spans(np.array([0])).to_bytes() == payloads[:1]


def test_damage_is_the_same_where_bytes_are_decoded_into(path, tmp_path):
    payloads = [bytes([number]) * 300 + bytes(range(number)) for number in range(12)]
    packed = write(tmp_path / "x.array_record", payloads, group_size=1, compression="zstd")
    data = Path(packed).read_bytes()
    chunks = [chunk for chunk in chunks_of(data, tmp_path) if chunk[2] == ord("r")][2:6]
    outcomes = {"read": 0, "refused": 0}
    for at in places(data, chunks):
        path.write_bytes(flipped(data, at))
        for verify in (True, False):
            found = []
            for is_wanted in (False, True):
                records = ArrayRecordRecords([str(path)], verify=verify)
                if is_wanted:
                    assert records.spans(np.array([0, 1])).to_bytes() == payloads[:2]
                try:
                    found.append(records.spans(np.arange(12)).to_bytes())
                except DataError as error:
                    found.append(str(error))
            assert found[0] == found[1]
            outcomes["refused" if isinstance(found[0], str) else "read"] += 1
    assert min(outcomes.values()) > 10


def test_single_record_chunks_are_named(tmp_path, path):
    data = Path(write(tmp_path / "x.array_record", some_payloads(30), compression="none")).read_bytes()
    begin = chunks_of(data, tmp_path)[8][0]
    path.write_bytes(flipped(data, begin + 44))
    records = ArrayRecordRecords([str(path)])
    for read in (lambda: records[7], lambda: records.spans(np.arange(30)[::-1].copy())):
        with pytest.raises(CorruptRecord) as caught:
            read()
        assert (caught.value.where.record, caught.value.where.offset) == (7, begin)


@pytest.mark.parametrize("number", range(12))
@pytest.mark.parametrize("place", ["header", "data"])
def test_skipping_leaves_out_one_chunk(sound, path, tmp_path, number, place):
    payloads, data = sound
    begin = chunks_of(data, tmp_path)[1 + number][0]
    path.write_bytes(flipped(data, begin + (3 if place == "header" else 42)))
    left = payloads[: number * GROUP] + payloads[(number + 1) * GROUP :]
    records = ArrayRecordRecords([str(path)], on_corrupt="skip")
    assert len(records) == len(left)
    assert records.spans(np.arange(len(left))).to_bytes() == left
    assert [bytes(view) for view in records] == left
    assert records.skipped.records == GROUP
    assert records.skipped.bytes > 0


@pytest.mark.parametrize("number", [0, 4, 5, 6, 11])
@pytest.mark.parametrize("place", ["header", "data"])
@pytest.mark.parametrize("end", ["whole", "no postscript", "no footer"])
def test_salvage_saves_all_other_chunks(sound, path, tmp_path, number, place, end):
    payloads, data = sound
    chunks = chunks_of(data, tmp_path)
    stop = {"whole": len(data), "no postscript": len(data) - BLOCK, "no footer": chunks[-4][0]}[end]
    path.write_bytes(flipped(data, chunks[1 + number][0] + (3 if place == "header" else 42))[:stop])
    out = tmp_path / "out.array_record"
    saved = salvage(path, out)
    left = payloads[: number * GROUP] + payloads[(number + 1) * GROUP :]
    records = ArrayRecordRecords([str(out)])
    assert [bytes(view) for view in records] == left
    assert saved.records == 55
    assert saved.lost_records == (None if end == "no footer" else GROUP)
    assert saved.lost_bytes > 0
    assert all(not stretch.faults for stretch in verify_records(records))


def test_salvage_of_a_file_that_was_cut_anywhere(sound, path, tmp_path):
    payloads, data = sound
    chunks = chunks_of(data, tmp_path)
    out = tmp_path / "out.array_record"
    for size in [*range(70, 3000, 211), *range(3000, len(data), 9973)]:
        path.write_bytes(data[:size])
        whole = sum(count for begin, end, kind, count in chunks if end <= size and kind == ord("r"))
        whole = min(whole, 60)  # the footer's own records are not counted
        if not whole:
            with pytest.raises(CorruptFile, match="at least one intact chunk"):
                salvage(path, out)
            assert not out.exists()
            continue
        assert salvage(path, out).records == whole
        assert [bytes(view) for view in ArrayRecordRecords([str(out)])] == payloads[:whole]
        out.unlink()


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda golden: golden.stem)
def test_salvage_of_what_is_sound_loses_nothing(golden, tmp_path):
    out = tmp_path / "out.array_record"
    saved = salvage(golden, out)
    assert (saved.records, saved.lost_records, saved.lost_bytes) == (43, 0, 0)
    records = ArrayRecordRecords([str(out)])
    assert [bytes(view) for view in records] == noted(golden)
    assert records.footer().options == ArrayRecordRecords([str(golden)]).footer().options


def test_files_in_records_are_not_mistaken_for_chunks(path, tmp_path):
    """A record that holds an ArrayRecord file, in a chunk whose header is damaged."""
    inner = Path(write(tmp_path / "inner.array_record", [b"inner"] * 3, compression="none")).read_bytes()
    payloads = [inner[:500], b"x", inner, inner[:200]]
    data = Path(write(tmp_path / "x.array_record", payloads * 2, compression="none", group_size=4)).read_bytes()
    path.write_bytes(flipped(data, 64 + 3))
    assert [bytes(view) for view in ArrayRecordRecords([str(path)], on_corrupt="skip")] == payloads
    path.write_bytes(flipped(data, 64 + 3)[: len(data) - BLOCK])  # even without the postscript, the footer is found
    assert [bytes(view) for view in ArrayRecordRecords([str(path)], on_corrupt="skip")] == payloads


def test_examples_are_not_mistaken_for_footers(path, tmp_path):
    """Both are messages, and the footer's first record begins with a message in field 1, as an Example does."""
    hr.write(tmp_path / "x.array_record", {"x": np.arange(300)}, compression="none")
    data = (tmp_path / "x.array_record").read_bytes()
    chunks = chunks_of(data, tmp_path)
    path.write_bytes(data[: chunks[101][0] + 10])
    assert len(ArrayRecordRecords([str(path)], on_corrupt="skip")) == 100
    footer = _native.encode_footer(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64), b"")[0]
    data = Path(write(tmp_path / "y.array_record", [b"x", b"y", footer], compression="none")).read_bytes()
    path.write_bytes(data[: chunks_of(data, tmp_path)[4][0]])
    assert [bytes(view) for view in ArrayRecordRecords([str(path)], on_corrupt="skip")] == [b"x", b"y", footer]


def test_verify_finds_nothing_in_what_is_sound(tmp_path):
    for golden in GOLDENS:
        stretches = list(verify_records(ArrayRecordRecords([str(golden)])))
        assert [fault for stretch in stretches for fault in stretch.faults] == []
        assert sum(stretch.records for stretch in stretches) == 43
        assert sum(stretch.bytes for stretch in stretches) == golden.stat().st_size
        assert [payload for stretch in stretches if stretch.spans for payload in stretch.spans.to_bytes()] == noted(
            golden
        )
        last = stretches[-2]
        assert last.where(len(last.spans) - 1).record == 42


def test_verify_lists_every_fault(sound, path, tmp_path):
    _, data = sound
    chunks = chunks_of(data, tmp_path)
    for at in (chunks[2][0] + 5, chunks[7][0] + 50, 2 * BLOCK + 9, chunks[-3][0] + 60, len(data) - BLOCK + 30):
        data = flipped(data, at)
    path.write_bytes(data)
    stretches = list(verify_records(ArrayRecordRecords([str(path)])))
    faults = [fault for stretch in stretches for fault in stretch.faults]
    found = sorted((fault.where.offset, fault.expected.partition(" 0x")[0]) for fault in faults)
    # The postscript's header is damaged; the footer is found nevertheless.
    assert (chunks[2][0], "header checksum") in found
    assert (chunks[7][0], "payload checksum") in found
    assert (2 * BLOCK, "a block header with a correct hash") in found
    assert any(offset == len(data) - BLOCK for offset, _ in found)
    assert sum(stretch.records for stretch in stretches) == 50
    numbers = [stretch.where(i).record for stretch in stretches for i in range(stretch.records)]
    assert numbers == [*range(5), *range(10, 30), *range(35, 60)]


@pytest.mark.parametrize("codec", CODECS[1:])
def test_streams_with_sound_hashes_that_do_not_decompress(tmp_path, path, codec):
    """Files that only a faulty writer produces."""
    number = {"zstd": 122, "brotli": 98, "snappy": 115}[codec]
    records = ArrayRecordRecords(
        [write(tmp_path / "x.array_record", [b"abc" * 100] * 6, compression=codec, group_size=3)]
    )
    good = records.spans(np.arange(6)).to_bytes()
    packed = {
        "garbage": b"\\x28\\xb5\\x2f\\xfd garbage",
        "short": packer(codec)(b"abc" * 99),
        "long": packer(codec)(b"abc" * 101),
    }
    for kind, value in packed.items():
        _rewritten(path, number, packer(codec), good, value)
        damaged = ArrayRecordRecords([str(path)])
        with pytest.raises(CorruptRecord, match=r"intact compressed stream|decompressed bytes|number up to") as caught:
            damaged[4]
        assert caught.value.where.record == 3, kind
        faults = [fault for stretch in verify_records(damaged) for fault in stretch.faults]
        assert [fault.where.record for fault in faults] == [3], kind
        assert bytes(damaged[2]) == good[2]


def packer(codec):
    return WriterOptions(codec=codec).packer()


def _rewritten(path, codec, pack, payloads, second):
    """Two chunks of three records; the values of the second are some other stream."""
    sizes = np.full(6, 300, np.int64)
    values = [pack(b"".join(payloads[:3])), second]
    size_blocks = [pack(_native.size_block(sizes[:3]))] * 2
    signature = _native.frame_signature()
    framed, begins, end = _native.frame_chunks(
        len(signature), codec, values, sizes, group_size=3, packed_sizes=size_blocks
    )
    parts = [signature, framed, *file_end(Footer(end, "", begins, np.array([900, 900]), np.array([3, 3])), 0, bytes)]
    path.write_bytes(b"".join(map(bytes, parts)))


def test_scanning_separates_chunks_from_footer_and_postscript(sound, tmp_path):
    payloads, data = sound
    (tmp_path / "y").write_bytes(data)
    found = scan_file(MappedFile(str(tmp_path / "y")))
    assert len(found.chunks) == 12
    assert found.counts.sum() == len(payloads)
    assert found.damage == []
    assert found.footer is not None


FAULTS = ("header", "data", "sizes", "values", "parts", "count")


def faulty_file(path, codec, faults):
    """Five chunks of three records, with faults by chunk number: flipped bytes, or the output of a faulty writer."""
    number = {"none": 0, "zstd": 122, "brotli": 98, "snappy": 115}[codec]
    pack = bytes if codec == "none" else packer(codec)
    payloads = [bytes([number]) * 200 + bytes(range(100)) for number in range(15)]
    groups = [b"".join(payloads[start : start + 3]) for start in range(0, 15, 3)]
    sizes = np.full(15, 300, np.int64)
    values = [
        b"\x28\xb5\x2f\xfd garbage" if faults.get(n) == "values" else pack(group) for n, group in enumerate(groups)
    ]
    values = [b"".join(groups)] if codec == "none" else values
    size_blocks = [bytes(pack(_native.size_block(sizes[:3]))) for _ in groups]
    for chunk, fault in faults.items():
        if fault == "sizes":
            size_blocks[chunk] = b"\x28\xb5\x2f\xfd garbage"
        elif fault == "parts":
            size_blocks[chunk] = bytes(pack(_native.size_block(np.array([300, 300, 301], np.int64))))
    signature = _native.frame_signature()
    framed, begins, end = _native.frame_chunks(
        len(signature), number, values, sizes, group_size=3, packed_sizes=None if codec == "none" else size_blocks
    )
    counts = np.array([4 if faults.get(chunk) == "count" else 3 for chunk in range(5)])
    parts = [signature, framed, *file_end(Footer(end, "", begins, counts * 300, counts), 0, bytes)]
    data = bytearray(b"".join(map(bytes, parts)))
    for chunk, fault in faults.items():
        if fault in ("header", "data"):
            data[int(begins[chunk]) + (3 if fault == "header" else 60)] ^= 0x10
    path.write_bytes(data)
    return payloads, begins


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("first", FAULTS)
@pytest.mark.parametrize("second", FAULTS)
def test_two_damaged_chunks(path, codec, first, second):
    """The first fault by position is reported, even if another one is detected earlier."""
    if codec == "none" and {first, second} & {"sizes", "values", "parts"}:
        return  # Nothing is compressed: that is the fault "data".
    payloads, begins = faulty_file(path, codec, {1: first, 3: second})
    before = 3  # records
    for read in (list, lambda records: records.spans(np.arange(15)), lambda records: records[3]):
        with pytest.raises(CorruptRecord) as caught:
            read(ArrayRecordRecords([str(path)]))
        assert (caught.value.where.record, caught.value.where.offset) == (before, begins[1])
        assert caught.value.where.path == str(path)
    for size in (None, 1, 2, 4):
        seen = []
        with pytest.raises(CorruptRecord):
            seen.extend(
                record for _, spans in ArrayRecordRecords([str(path)]).iter_spans(size) for record in spans.to_bytes()
            )
        assert seen == payloads[:before]
    stretches = list(verify_records(ArrayRecordRecords([str(path)])))
    faults = [fault.where.offset for stretch in stretches for fault in stretch.faults]
    assert sorted(faults) == [begins[1], begins[3]]
    report = hr.verify(path, codec="raw")
    assert sorted(fault.where.offset for fault in report.faults) == [begins[1], begins[3]]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("first", FAULTS)
@pytest.mark.parametrize("second", FAULTS)
def test_skipping_two_damaged_chunks(path, codec, first, second):
    if codec == "none" and {first, second} & {"sizes", "values", "parts"}:
        return  # Nothing is compressed: that is the fault "data".
    faults = {1: first, 3: second}
    payloads, _ = faulty_file(path, codec, faults)
    lost = {
        chunk for chunk, fault in faults.items() if fault != "count"
    }  # The records of a chunk are not the footer's.
    left = [payload for number, payload in enumerate(payloads) if number // 3 not in lost]
    records = ArrayRecordRecords([str(path)], on_corrupt="skip")
    assert [bytes(record) for record in records] == left
    assert records.spans(np.arange(len(left))).to_bytes() == left
    assert records.skipped.records == 3 * len(lost)


@pytest.mark.parametrize("first", FAULTS[:-1])
@pytest.mark.parametrize("second", FAULTS[:-1])
def test_two_damaged_chunks_without_a_footer(path, first, second):
    payloads, begins = faulty_file(path, "zstd", {1: first, 3: second})
    footer = scan_file(MappedFile(str(path))).footer
    path.write_bytes(path.read_bytes()[: footer.begin])
    seen = []
    records = hr.records(path, format="riegeli")
    with pytest.raises(CorruptRecord) as caught:
        seen.extend(bytes(record) for record in records)
    assert caught.value.where.offset == begins[1]
    assert seen == payloads[:3]
    with pytest.raises(CorruptRecord):
        len(records), list(records)


@pytest.mark.parametrize("end", [b"A", b"longer" * 30])
def test_files_that_were_concatenated(path, tmp_path, end):
    """Read in order they are an error, also where the second footer is where the first file has its own."""
    one, two = [b"A0", b"A1"], [b"B0", end]
    data = [Path(write(tmp_path / f"{k}.array_record", payloads)).read_bytes() for k, payloads in enumerate((one, two))]
    path.write_bytes(b"".join(data))
    with pytest.raises(CorruptFile, match="footer"):
        len(ArrayRecordRecords([str(path)]))
    skipping = ArrayRecordRecords([str(path)], on_corrupt="skip")
    assert [bytes(view) for view in skipping] == [*one, *two]
    assert skipping.skipped.records == 0
    assert salvage(path, tmp_path / "saved.array_record").records == 4
    assert [bytes(view) for view in ArrayRecordRecords([str(tmp_path / "saved.array_record")])] == [*one, *two]
    for cut in (BLOCK, BLOCK + 10, 2 * BLOCK - 200):  # without the last postscript, or without the last footer
        path.write_bytes(b"".join(data)[:-cut])
        found = [bytes(view) for view in ArrayRecordRecords([str(path)], on_corrupt="skip")]
        assert found == [*one, *two][: len(found)]
        assert len(found) >= 2


@pytest.mark.parametrize("compression", CODECS)
@pytest.mark.parametrize("at", [64, 3000, BLOCK, BLOCK + 30])
def test_an_inserted_byte_makes_no_records_of_the_end_of_a_file(path, tmp_path, compression, at):
    payloads = some_payloads(20, most=2 if at < BLOCK else 8000)
    data = Path(write(tmp_path / "x.array_record", payloads, compression=compression)).read_bytes()
    path.write_bytes(data[:at] + b"\0" + data[at:])
    found = [bytes(view) for view in ArrayRecordRecords([str(path)], on_corrupt="skip")]
    assert not [payload for payload in found if payload not in payloads]
    assert any(stretch.faults for stretch in verify_records(ArrayRecordRecords([str(path)])))


@pytest.mark.parametrize("compression", ["none", "zstd"])
@pytest.mark.parametrize("group_size", [1, 8])
@pytest.mark.parametrize("part", [0.1, 0.9])
def test_missing_bytes_make_no_records_of_the_footer_and_cost_only_the_chunks_there(
    path, tmp_path, compression, group_size, part
):
    """More bytes than the last chunk has, so that the footer lists one after itself. It must not decide which chunks are kept."""
    rng = np.random.default_rng(0)
    payloads = [rng.bytes(112) for _ in range(2000)]
    data = Path(
        write(tmp_path / "x.array_record", payloads, compression=compression, group_size=group_size)
    ).read_bytes()
    at = int(part * 200_000)
    path.write_bytes(data[:at] + data[at + 5000 :])
    found = [bytes(view) for view in ArrayRecordRecords([str(path)], on_corrupt="skip")]
    assert not set(found) - set(payloads)
    assert len(found) >= 1800  # else those after the damage would be missing, too
    assert salvage(path, tmp_path / "saved.array_record").records == len(found)


@pytest.mark.parametrize("compression", ["none", "zstd"])
@pytest.mark.parametrize("group_size", [1, 8])
@pytest.mark.parametrize("missing", [BLOCK, 3 * BLOCK])
def test_missing_blocks_make_no_records_of_the_end_of_a_file(path, tmp_path, compression, group_size, missing):
    """The postscript names a footer that would begin after it."""
    rng = np.random.default_rng(0)
    payloads = [rng.bytes(10_000) for _ in range(60)]
    data = Path(
        write(tmp_path / "x.array_record", payloads, compression=compression, group_size=group_size)
    ).read_bytes()
    path.write_bytes(data[:200_000] + data[200_000 + missing :])
    found = [bytes(view) for view in ArrayRecordRecords([str(path)], on_corrupt="skip")]
    assert not set(found) - set(payloads)
    assert found[-1] == payloads[-1]
    assert salvage(path, tmp_path / "saved.array_record").records == len(found)


def test_a_missing_block_of_a_file_of_few_chunks(path, tmp_path):
    payloads = [bytes([number]) * 30_000 for number in range(8)]
    data = Path(write(tmp_path / "x.array_record", payloads, compression="none", group_size=4)).read_bytes()
    for at in range(0, len(data) - BLOCK, 1000):
        path.write_bytes(data[:at] + data[at + BLOCK :])
        found = [bytes(view) for view in ArrayRecordRecords([str(path)], on_corrupt="skip")]
        assert not set(found) - set(payloads)


@pytest.mark.parametrize("count", [200, 256])
@pytest.mark.parametrize("block", range(5))
@pytest.mark.parametrize("change", ["removed", "inserted"])
def test_chunks_at_other_places_are_kept_and_missing_ones_counted(path, tmp_path, count, block, change):
    payloads = [bytes([number]) * 10 for number in range(count)]
    whole = Path(write(tmp_path / "x.array_record", payloads, group_size=64, pad_to_block_boundary=True)).read_bytes()
    rest = whole[block * BLOCK :]
    path.write_bytes(whole[: block * BLOCK] + (rest[BLOCK:] if change == "removed" else whole[:BLOCK] + rest))
    skipping = ArrayRecordRecords([str(path)], on_corrupt="skip")
    found = [bytes(view) for view in skipping]
    lost = payloads[block * 64 : block * 64 + 64] if change == "removed" else []
    assert set(found) == set(payloads) - set(lost)
    if lost:
        assert skipping.skipped.records == len(lost)
        assert len(found) == count - len(lost)
    elif change == "removed" or block < 4:  # the footer, or records that come twice
        assert skipping.skipped.records == 1


def test_a_file_without_its_end_counts_one_damaged_part(path, sound, tmp_path):
    payloads, whole = sound
    chunks = chunks_of(whole, tmp_path)
    path.write_bytes(whole[: chunks[2][0]])  # where a chunk begins, so that nothing else is damaged
    skipping = ArrayRecordRecords([str(path)], on_corrupt="skip")
    assert [bytes(view) for view in skipping] == payloads[: len(skipping)]
    assert skipping.skipped.records == 1


def test_a_file_without_footer_before_an_empty_one(path, tmp_path):
    payloads = some_payloads(20)
    whole = Path(write(tmp_path / "x.array_record", payloads)).read_bytes()
    path.write_bytes(whole[: -2 * BLOCK] + Path(write(tmp_path / "e.array_record", [])).read_bytes())
    found = [bytes(view) for view in ArrayRecordRecords([str(path)], on_corrupt="skip")]
    assert set(found) <= set(payloads)
