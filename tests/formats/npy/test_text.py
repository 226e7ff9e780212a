"""Text in arrays whose four bytes may not be a character: NumPy accepts them, Python raises SystemError."""

import numpy as np
import pytest

import headrace as hr
from headrace.errors import CorruptRecord
from headrace.formats.npy.header import check_text, holds_text

BEYOND = 0x110000
TEXTS = np.array([["ab", "c"], ["déf", "日本"], ["\U0010ffff", ""]])
RECORDS = np.dtype([("n", "<i4"), ("t", ">U3", (2,)), ("inner", [("u", "<U2")])])


def spoiled(array, row):
    """The same with one character of a row beyond Unicode."""
    array = np.ascontiguousarray(array).copy()
    codes = array.view(np.dtype("u4").newbyteorder(array.dtype.byteorder)).reshape(len(array), -1)
    codes[row, -1] = BEYOND
    return array


def test_text_dtypes():
    assert holds_text(np.dtype("<U3"))
    assert holds_text(RECORDS)
    assert holds_text(np.dtype(("<U3", (2,))))
    assert not any(map(holds_text, map(np.dtype, ["f4", "S3", "M8[D]", [("a", "i4"), ("b", "S2")]])))


@pytest.mark.parametrize("array", [TEXTS, TEXTS.astype(">U3"), TEXTS[:0], np.zeros((3, 0), "U2"), np.zeros(3, "U0")])
def test_text_is_let_through(array):
    check_text(array, lambda row: pytest.fail(f"row {row}"))


def test_fields_are_looked_into():
    rows = np.zeros(3, RECORDS)
    check_text(rows, lambda row: pytest.fail(f"row {row}"))
    rows["inner"]["u"] = spoiled(np.array(["a", "b", "cd"]), 2)
    with pytest.raises(CorruptRecord, match="0x110000"):
        check_text(rows, lambda row: hr.Where(record=row))


def written(path, rows):
    """Rows of text as one file, or as a file each."""
    if path.suffix == ".npy":
        np.save(path, rows)
    elif path.name == "x.npz":
        np.savez(path, text=rows, n=np.arange(len(rows)))
    elif path.name == "deflated.npz":
        np.savez_compressed(path, text=rows, n=np.arange(len(rows)))
    else:
        path.mkdir()
        for number, row in enumerate(rows):
            file = path / f"{number:02}.{path.name[:3]}"
            np.save(file, row) if path.name == "npy_folder" else np.savez(file, text=row)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("name", ["x.npy", "x.npz", "deflated.npz", "npy_folder", "npz_folder"])
def test_every_way_to_read_and_verify_finds_it(tmp_path, name, order):
    good = np.tile(TEXTS, (30, 1)).astype(f"{order}U3")  # more than what tells the types of a folder
    written(tmp_path / name, spoiled(good, 34))
    given = {"format": name} if name.endswith("folder") else {}
    source = hr.open(tmp_path / name, **given)
    assert len(source) == 90
    first = source.batch([33, 35])
    np.testing.assert_array_equal(next(iter(first.values())), good[[33, 35]])
    for indices in ([34], [1, 34, 0]):
        with pytest.raises(CorruptRecord, match="code points up to 0x10ffff, found 0x110000"):
            source.batch(indices)
    report = hr.verify(tmp_path / name, **given)
    assert [type(fault) for fault in report.faults] == [CorruptRecord]


def test_rows_in_fortrans_order_are_looked_at(tmp_path):
    array = spoiled(np.tile(TEXTS, 2), 1)
    np.save(tmp_path / "x.npy", np.asfortranarray(array))
    source = hr.open(tmp_path / "x.npy")
    source.batch([0, 2])
    with pytest.raises(CorruptRecord) as caught:
        source.batch([0, 1])
    assert caught.value.where.record == 1


def test_sound_text_verifies(tmp_path):
    np.save(tmp_path / "x.npy", TEXTS)
    assert hr.verify(tmp_path / "x.npy").ok
