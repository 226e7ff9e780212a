"""Tables that other implementations wrote: tests/golden/tables/README.md says which."""

import contextlib
from pathlib import Path

import numpy as np
import pytest
from tests.sweeps import some_of

import headrace as hr
from headrace.testing import assert_same

GOLDEN = Path(__file__).parents[1] / "golden" / "tables"
LONG = "deep/" + 30 * "long" + "/002"
TIMES = np.array(["2024-02-29T12:30:15.250", "2024-03-01T12:30:15.250", "1969-07-20T20:17:40"], "M8[us]")


def objects(*values):
    column = np.empty(len(values), object)
    column[:] = values
    return column


def people(scores):
    return {
        "name": objects("Ada", "Größe 𝄞", ""),
        "age": np.array([36, -99, -1], np.int32),
        "height": np.array([1.65, np.nan, -0.0], np.float32),
        "member": np.array([True, False, True]),
        "photo": objects(b"\x00\xff", b"", b"x" * 20),
        "scores": hr.Ragged.from_list([[9, 10], [], [-32768]], scores),
        "seen": TIMES,
    }


@pytest.mark.parametrize(
    ("name", "scores"),
    [
        ("pyarrow_snappy_two_groups.parquet", np.int16),
        ("pyarrow_v1_gzip_plain.parquet", np.int16),
        ("fastavro_null.avro", np.int32),
        ("fastavro_deflate.avro", np.int32),
    ],
)
def test_people(name, scores):
    found = hr.open(GOLDEN / name).schema
    source = hr.open(GOLDEN / name, schema={**found, "age": hr.Feature("int32", default=-99)})
    assert_same(source.batch(range(3)), people(scores))
    assert np.signbit(source[2]["height"])
    assert [example["name"] for example in source] == ["Ada", "Größe 𝄞", ""]
    with pytest.raises(hr.SchemaMismatch, match="expected a value, found none .* record 1, .*feature 'age'"):
        hr.open(GOLDEN / name).batch([1])
    assert hr.verify(GOLDEN / name, schema=source.schema).ok


def test_pandas():
    batch = hr.open(GOLDEN / "pandas_index_dictionary.parquet").batch(range(3))
    expected = {
        "name": people(np.int16)["name"],
        "height": np.array([1.65, np.nan, -0.0]),
        "seen": TIMES,
        "__index_level_0__": np.array([5, 6, 7]),
    }
    assert_same(batch, expected)


@pytest.mark.parametrize("name", ["tar_gnu.tar", "tar_ustar.tar", "tar_gnu_folders.tar.gz", "tarfile_pax.tar"])
def test_webdataset(name):
    expected = {
        "__key__": objects("deep/000", "deep/001", LONG),
        "cls": np.arange(3),
        "json": objects('{"n": 0}', '{"n": 1}', '{"n": 2}'),
        "png": np.stack([np.full((2, 3, 3), 40 * number, np.uint8) for number in range(3)]),
        "values": np.array([[0, 1, 2], [1, 2, 3], [2, 3, 4]], np.int16),
    }
    source = hr.open(GOLDEN / name)
    assert source.format == "webdataset"
    batch = source.batch(range(3))
    assert_same({feature: batch[feature] for feature in expected}, expected)
    assert len(list(source)) == 3
    assert hr.verify(GOLDEN / name, images=True).ok


@pytest.mark.parametrize("flip", [0x80, 0xBC, 0xFF])
@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.parquet")), ids=lambda path: path.name)
def test_a_parquet_file_with_a_flipped_byte_is_an_error_of_ours_or_whole_columns(path, flip, tmp_path):
    """Files of other writers may have no checksums, so values may be others, but every column has all rows."""
    content = path.read_bytes()
    for at in some_of(range(flip % 3, len(content), 3)):
        bad = tmp_path / f"{at}.parquet"
        bad.write_bytes(content[:at] + bytes([content[at] ^ flip]) + content[at + 1 :])
        with contextlib.suppress(hr.HeadraceError):
            source = hr.open(bad, format="parquet")
            batch = source.batch(range(len(source)))
            assert {len(column) for column in batch.values()} <= {len(source)}
            assert list(batch) == list(source.schema)
        bad.unlink()
