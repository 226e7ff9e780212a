"""Golden files cut at every length and with every byte flipped: an error, or the same data. Never anything else."""

import numpy as np
import pytest
from tests.formats.golden import NPY, SOUND

from penstock.errors import DataError
from penstock.formats.npy import NpyRecords
from penstock.formats.tfrecord import TFRecordRecords

SMALL = [path for path in SOUND if 0 < path.stat().st_size <= 400]
LARGER = [path for path in SOUND if path.stat().st_size > 400]
ARRAYS = sorted(path for path in NPY.glob("*.npy") if not path.name.startswith(("damaged", "object")))


def damaged(content, step=1, flips=(0x01, 0x80)):
    """Every version of some bytes, with what was done to them."""
    for at in range(0, len(content), step):
        yield "cut", at, content[:at]
    for at in range(0, len(content), step):
        for flip in flips:
            yield "flip", at, content[:at] + bytes([content[at] ^ flip]) + content[at + 1 :]


def attempt(read):
    """What a function gives, or the error that it raises, which names the file."""
    try:
        return read(), None
    except DataError as error:
        return None, error


def payloads(path, **options):
    """What can be read in order, and the error that ends it."""
    seen = []
    _, error = attempt(lambda: seen.extend(map(bytes, TFRecordRecords([str(path)], **options))))
    return seen, error


@pytest.mark.parametrize("path", SMALL + LARGER, ids=lambda path: path.name)
def test_tfrecord_in_order(path, tmp_path):
    expected, _ = payloads(path)
    target = tmp_path / path.name
    compression = "gzip" if ".gzip" in path.name else "zlib" if ".zlib" in path.name else None
    for what, at, content in damaged(path.read_bytes(), 1 if path in SMALL else 397, (0x04,)):
        target.write_bytes(content)
        found, error = payloads(target, compression=compression)
        assert found == expected[: len(found)], (what, at)
        if error is not None:
            assert error.where.path == str(target)
            assert error.where.offset is not None
        elif compression:
            # A flip may lie in what nobody reads: a time stamp, the name of a system.
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
        # A .npy carries no checksum: flipped data is other data. What is never lost is how much there is of it.
        assert what == "flip", at
        assert rows.nbytes == size
