"""Every fault of a file."""

import gzip

import numpy as np
import pytest
from tests.formats.golden import DAMAGED, NPY, SOUND
from tests.reference import tfrecord as reference

import headrace as hr
from headrace import _native
from headrace.errors import CorruptFile, CorruptRecord, SchemaMismatch, UnsupportedData, Where
from headrace.formats.open import open_records, verify_records


def checked(*paths):
    return list(verify_records(open_records(list(paths))))


def faults(*paths):
    return [fault for stretch in checked(*paths) for fault in stretch.faults]


@pytest.mark.parametrize("path", SOUND, ids=lambda path: path.name)
def test_sound_goldens(path):
    stretches = checked(path)
    assert not [fault for stretch in stretches for fault in stretch.faults]
    assert sum(stretch.bytes for stretch in stretches) == path.stat().st_size
    assert sum(stretch.records for stretch in stretches) == len(open_records([path]))
    for stretch in stretches:
        assert stretch.records == (0 if stretch.spans is None else len(stretch.spans))
        assert all(stretch.where(position).path == str(path) for position in range(stretch.records))


@pytest.mark.parametrize("path", DAMAGED, ids=lambda path: path.name)
def test_damaged_goldens(path):
    (fault,) = faults(path)
    with pytest.raises((CorruptRecord, CorruptFile)) as raised:
        list(open_records([path]))
    assert str(raised.value) == str(fault)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_every_fault_with_its_record(tmp_path, pack):
    payloads = [bytes([number]) * number for number in range(1, 100)]
    content = bytearray(b"".join(map(reference.framed, payloads)))
    starts = reference.read(content)[0]
    wrong = [0, 3, 4, 50, 98]
    for record in wrong:
        content[starts[record] + 12] ^= 1
    path = tmp_path / "x.tfrecord"
    path.write_bytes(pack(content))
    found = faults(path)
    assert [fault.where for fault in found] == [Where(path=str(path), record=r, offset=starts[r]) for r in wrong]
    stretches = checked(path)
    assert sum(stretch.records for stretch in stretches) == 94
    assert sum(stretch.bytes for stretch in stretches) == path.stat().st_size
    sound = [record for record in range(99) if record not in wrong]
    assert [stretch.where(p).record for stretch in stretches for p in range(stretch.records)] == sound


def test_arrays(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((7, 5), np.float32))
    np.save(tmp_path / "b.npy", np.zeros((7, 6), np.float32))
    paths = [tmp_path / "a.npy", NPY / "damaged_truncated.npy", NPY / "object.npy", tmp_path / "b.npy", NPY / "f4.npy"]
    stretches = checked(*paths)
    assert [type(fault) for s in stretches for fault in s.faults] == [CorruptFile, UnsupportedData, SchemaMismatch]
    assert [stretch.records for stretch in stretches] == [7, 0, 0, 0, 7]
    assert sum(stretch.bytes for stretch in stretches) == sum(path.stat().st_size for path in paths)
    assert stretches[0].where(3) == Where(path=str(tmp_path / "a.npy"))


def test_nothing_else_is_checked():
    with pytest.raises(TypeError, match="no checks for list"):
        list(verify_records([]))


def test_riegeli_files_without_a_footer(tmp_path):
    path = tmp_path / "x.riegeli"
    hr.write_records(path, [bytes([number]) * 50 for number in range(100)], format="array_record")
    chunks, _, _ = _native.scan_chunks(path.read_bytes(), 0, most=10_000, verify=True)
    last = int(np.searchsorted(np.cumsum(chunks[:, 3]), 100))  # after it comes the footer, which Riegeli files lack
    whole = path.read_bytes()[: int(chunks[last, 1])]
    path.write_bytes(whole)
    found = hr.verify(path, format="riegeli")
    assert (found.ok, found.records) == (True, 100)
    path.write_bytes(whole[:-10])
    assert not hr.verify(path, format="riegeli").ok
    damaged = bytearray(whole)
    damaged[int(chunks[chunks[:, 3] > 0][0, 0]) + 60] ^= 1
    path.write_bytes(bytes(damaged))
    assert not hr.verify(path, format="riegeli").ok
