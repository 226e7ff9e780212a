"""Golden files truncated at every length and with every byte flipped give an error or the same data, never anything else."""

import contextlib
import random
import zlib

import numpy as np
import pytest
from tests.formats.golden import NPY, SOUND
from tests.reference import csv_rows, recordio, tfrecord
from tests.sweeps import some_of

import headrace as hr
from headrace.errors import CorruptRecord, DataError
from headrace.formats.npy.format import NpyRecords
from headrace.formats.open import verify_records
from headrace.formats.recordio.format import RecordIORecords
from headrace.formats.tfrecord.format import TFRecordRecords

SMALL = [path for path in SOUND if 0 < path.stat().st_size <= 400]
LARGER = [path for path in SOUND if path.stat().st_size > 400]
ARRAYS = sorted(path for path in NPY.glob("*.npy") if not path.name.startswith(("damaged", "object")))


def damaged(content, step=1, flips=(0x01, 0x80)):
    """Variants of some bytes, with a description."""
    for at in some_of(range(0, len(content), step)):
        yield "cut", at, content[:at]
    for at in some_of(range(0, len(content), step)):
        for flip in flips:
            yield "flip", at, content[:at] + bytes([content[at] ^ flip]) + content[at + 1 :]


def attempt(read):
    """The result of a function, or its error, which must name the file."""
    try:
        return read(), None
    except DataError as error:
        return None, error


def payloads(path, **options):
    """The records read in order, and the error that ended it."""
    seen = []
    _, error = attempt(lambda: seen.extend(map(bytes, TFRecordRecords([str(path)], **options))))
    return seen, error


@pytest.mark.parametrize("path", SMALL + LARGER, ids=lambda path: path.name)
def test_tfrecord_in_order(path, tmp_path):
    expected, _ = payloads(path)
    target = tmp_path / path.name
    compression = "gzip" if ".gzip" in path.name else "zlib" if ".zlib" in path.name else None
    for what, at, content in damaged(path.read_bytes(), 1 if path in SMALL else 797, (0x04,)):
        target.write_bytes(content)
        found, error = payloads(target, compression=compression)
        assert found == expected[: len(found)], (what, at)
        if error is not None:
            assert error.where.path == str(target)
            assert error.where.offset is not None
        elif compression:
            # A flip may hit an unused field: a time stamp, the name of a system.
            assert found == expected, (what, at)
        else:
            assert what == "cut", at
            assert len(content) == sum(16 + len(payload) for payload in found), "only between records"


@pytest.mark.parametrize("path", SMALL, ids=lambda path: path.name)
def test_tfrecord_at_random_and_skipping(path, tmp_path):
    expected, _ = payloads(path)
    target = tmp_path / path.name
    for what, at, content in damaged(path.read_bytes(), 3, (0x10,)):
        target.write_bytes(content)
        skipping = TFRecordRecords([str(target)], on_corrupt="skip", compression="none")
        in_order = [bytes(view) for view in skipping]
        assert [bytes(skipping[index]) for index in range(len(skipping))] == in_order, (what, at)
        assert sum(16 + len(payload) for payload in in_order) + skipping.skipped.bytes == len(content)
        assert set(in_order) <= set(expected)
        assert len(in_order) >= len(expected) - 1 or what == "cut"
        records = TFRecordRecords([str(target)], compression="none")
        found, error = attempt(lambda records=records: [bytes(records[index]) for index in range(len(records))])
        assert error is None or error.where.path == str(target)
        assert error is not None or (what == "cut" and found == expected[: len(found)]), (what, at)


@pytest.mark.parametrize("path", ARRAYS, ids=lambda path: path.name)
def test_npy(path, tmp_path):
    target = tmp_path / path.name
    whole = path.read_bytes()
    size = np.load(path).nbytes
    for what, at, content in damaged(whole):
        target.write_bytes(content)
        records = NpyRecords([str(target)])
        rows, error = attempt(lambda records=records: records.take(np.arange(len(records))))
        if error is not None:
            assert error.where.path == str(target)
            continue
        # A .npy has no checksum, so flipped data is other data; but its amount never changes.
        assert what == "flip", at
        assert rows.nbytes == size


def twice_damaged(content, seed, count):
    """Bytes damaged at two places, often close together or at the start of a record."""
    rng = random.Random(seed)
    for _ in range(count):
        changed = bytearray(content)
        first = rng.randrange(len(content))
        second = rng.choice([rng.randrange(len(content)), min(len(content) - 1, first + rng.randrange(1, 40))])
        for at in sorted({first, second}, reverse=True):
            what = rng.randrange(10)
            if what == 0:
                del changed[at : at + rng.randrange(1, 9)]
            elif what == 1:
                changed[at:at] = rng.randbytes(rng.randrange(1, 9))
            else:
                changed[at] ^= rng.choice([1, 0x10, 0x80, 0xFF])
        yield bytes(changed)


def lengths(seed):
    """Payloads of many lengths."""
    rng = random.Random(seed)
    return [rng.randbytes(rng.choice([0, 1, 3, 4, 17, 60])) for _ in range(9)]


FRAMED = {
    "tfrecord": (TFRecordRecords, lambda payloads: b"".join(map(tfrecord.framed, payloads)), tfrecord.read_around),
    "recordio": (
        RecordIORecords,
        lambda payloads: b"".join(recordio.frame_parts(recordio.split_as_dmlc(payload)) for payload in payloads),
        recordio.read_around,
    ),
}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", FRAMED)
def test_two_faults_in_one_file(name, seed, tmp_path):
    """Sequential, skipping, by index and by verify: all agree with each other and with the slow, plain reader."""
    open_records, frame, read_around = FRAMED[name]
    whole = frame([*lengths(seed), recordio.MAGIC_BYTES * 2])
    target = tmp_path / "x"
    for number, content in enumerate(twice_damaged(whole, seed, 80)):
        target.write_bytes(content)
        sound, faults = read_around(content)
        skipping = open_records([str(target)], on_corrupt="skip", compression="none")
        assert [bytes(view) for view in skipping] == sound, number
        assert [bytes(skipping[index]) for index in range(len(skipping))] == sound, number
        assert skipping.skipped.records == len(faults), number
        stretches = list(verify_records(open_records([str(target)], compression="none")))
        found = [fault for stretch in stretches for fault in stretch.faults]
        assert [fault.where.offset for fault in found] == faults, number
        assert sum(stretch.records for stretch in stretches) == len(sound), number
        seen = []
        records = open_records([str(target)], compression="none")
        _, error = attempt(lambda seen=seen, records=records: seen.extend(map(bytes, records)))
        assert (error is None) == (not faults), number
        if error is not None:
            assert isinstance(error, CorruptRecord)
            assert error.where.path == str(target)
            assert error.where.record == len(seen)
            assert error.where.offset is not None


def inflated(content, wbits):
    """The output of zlib up to the first fault."""
    inflater = zlib.decompressobj(wbits)
    parts = []
    with contextlib.suppress(zlib.error):
        parts.extend(inflater.decompress(content[at : at + 1]) for at in range(len(content)))
    return b"".join(parts)


@pytest.mark.parametrize("compression", ["gzip", "zlib"])
@pytest.mark.parametrize("name", FRAMED)
def test_two_faults_in_one_compressed_file(name, compression, tmp_path):
    open_records, frame, read_around = FRAMED[name]
    wbits = 31 if compression == "gzip" else 15
    packer = zlib.compressobj(1, zlib.DEFLATED, wbits)
    payloads = lengths(7) * 2
    whole = packer.compress(frame(payloads)) + packer.flush()
    target = tmp_path / "x"
    for number, content in enumerate(twice_damaged(whole, 11, 80)):
        target.write_bytes(content)
        sound, _ = read_around(inflated(content, wbits))
        for mode in ("raise", "skip"):
            seen = []
            records = open_records([str(target)], on_corrupt=mode, compression=compression)
            _, error = attempt(lambda seen=seen, records=records: seen.extend(map(bytes, records)))
            # RecordIO has no checksums: a record counts until the following bytes show that its length is wrong, and how many
            # follow depends on where the decompression library stops.
            assert seen == sound[: len(seen)] or name == "recordio", (number, mode)
            assert error is None or (error.where.path == str(target) and error.where.offset is not None)
            assert error is not None or mode == "skip" or seen == payloads, number
            found, error = attempt(lambda records=records: [bytes(records[index]) for index in range(len(records))])
            assert error is not None or found == seen, (number, mode)
        list(verify_records(open_records([str(target)], compression=compression)))


@pytest.mark.parametrize("seed", range(4))
def test_two_faults_in_one_csv(seed, tmp_path):
    target = tmp_path / "x.csv"
    rows = [
        b'1,"a ""quote"", and\na line",\xc3\xa4',
        b"2,b,",
        b'3,"",c',
        b'"4",d,e',
        b"5,f,g",
        b'6,"h\r\n",i',
        b"7,j,k",
    ]
    for number, content in enumerate(twice_damaged(b"".join(row + b"\n" for row in rows), seed, 150)):
        target.write_bytes(b"one,two,three\n" + content)
        sound, faults = csv_rows.rows_around(content, 3)
        options = {"format": hr.CSV(delimiter=",", header=True)}
        skipping = hr.records(target, on_corrupt="skip", **options)
        assert [bytes(view) for view in skipping] == sound, number
        assert [bytes(skipping[index]) for index in range(len(skipping))] == sound, number
        assert skipping.skipped.records == len(faults), number
        stretches = list(verify_records(hr.records(target, **options)))
        assert sum(len(stretch.faults) for stretch in stretches) == len(faults), number
        seen = []
        _, error = attempt(lambda seen=seen, options=options: seen.extend(map(bytes, hr.records(target, **options))))
        assert (error is None) == (not faults), number
        assert seen == sound[: len(seen)], number
        if error is not None:
            assert isinstance(error, CorruptRecord)
            assert error.where.path == str(target)
            assert error.where.record == len(seen)
            assert error.where.offset is not None
