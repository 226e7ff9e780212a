"""What is opened for viewing, and how it is read."""

from pathlib import Path

import numpy as np
import pytest
from tests.viewer.conftest import picture

import headrace as hr
from headrace.viewer import dataset as dataset_module
from headrace.viewer.dataset import ShownDataset, open_datasets

PREPARED = Path(__file__).parents[1] / "golden" / "tfds"


@pytest.mark.parametrize(
    "folder",
    sorted(path.parent for path in PREPARED.rglob("dataset_info.json")),
    ids=lambda path: "/".join(path.parts[-3:]),
)
def test_a_prepared_dataset_has_its_splits(folder):
    splits = hr.data_source(folder)
    shown = open_datasets(str(folder))
    assert [each.name for each in shown] == [f"{folder}:{name}" for name in splits]
    for each, source in zip(shown, splits.values(), strict=True):
        assert each.count(60) == len(source)
        assert list(each.schema) == list(source.schema)
        assert [row.index for row in each.rows(0, 3, each.names)] == list(range(min(3, len(source))))
    name = next(iter(splits))
    [one] = open_datasets(f"{folder}:{name}")
    assert one.name == f"{folder}:{name}"


def test_nothing_there():
    with pytest.raises(hr.NoFiles):
        open_datasets("/nowhere/x.tfrecord")
    with pytest.raises(hr.NoFiles):
        open_datasets(f"{next(PREPARED.rglob('dataset_info.json')).parent}:nothing")


def test_features_that_group():
    source = hr.ColumnSource(
        {"x": np.zeros(3), "size": np.arange(3), "label": np.arange(3), "v": np.zeros((3, 2), int)}
    )
    assert ShownDataset(source, name="x", code="x").label_features() == ["label", "size"]


def test_search_goes_on_from_where_it_was(shown):
    wanted = hr.condition("label = 1")
    assert [row for _, found in shown.fitting(wanted, 100) for row in found] == [
        row for row in range(100, 300) if row % 3 == 1
    ]


def test_a_search_stops_when_it_is_closed():
    source = hr.ColumnSource({"x": np.arange(100_000)})
    read = []
    batch = source.node.batch

    class Watched:
        schema = source.schema

        def __len__(self):
            return len(source)

        def batch(self, indices):
            read.append(len(indices))
            return batch(indices)

        def where(self, index):
            return source.where(index)

    shown = ShownDataset(hr.Source(Watched()), name="x", code="x")
    search = shown.fitting(hr.condition("x < 0"), 0)
    next(search)
    next(search)
    search.close()
    assert sum(read) <= 8192


def test_the_last_record_of_a_file_is_limited_too(tmp_path, monkeypatch):
    monkeypatch.setattr(dataset_module, "MOST_PAGE_BYTES", 1000)
    paths = [tmp_path / "a.tfrecord", tmp_path / "b.tfrecord"]
    for path in paths:
        hr.write_records(path, [b"x" * 10, b"y" * 2000])
    source = hr.open([str(path) for path in paths])
    shown = ShownDataset(source, name="x", code="x")
    assert shown.count(60) == 4
    rows = shown.rows_at(range(4), shown.names)
    assert [row.values is None for row in rows] == [False, True, False, True]
    assert "at most 1,000" in rows[1].fault
    # The last example of a selection is not the last of its file.
    hr.write_records(paths[0], [b"x" * 10] * 500)
    some = ShownDataset(hr.open(str(paths[0]))[:3], name="x", code="x")
    assert some.count(60) == 3
    assert [row.fault for row in some.rows_at(range(3), some.names)] == [None] * 3


@pytest.mark.parametrize("name", ["x.npy", "x.parquet", "x.tfrecord", "x.npz"])
def test_a_page_reads_no_more_than_its_limit(tmp_path, monkeypatch, name):
    monkeypatch.setattr(dataset_module, "MOST_PAGE_BYTES", 100_000)
    rows = np.random.default_rng(0).integers(0, 128, (10, 30_000), np.uint8)
    if name.endswith("parquet"):
        hr.write(tmp_path / name, {"x": hr.Strings.from_values([bytes(each) for each in rows])})
    else:
        hr.write(tmp_path / name, rows if name.endswith("npy") else {"x": rows})
    [shown] = open_datasets(str(tmp_path / name))
    found = shown.rows(0, 10, shown.names)
    assert [each.values is None for each in found] == [False] * 3 + [True] * 7
    assert "a page reads at most" in found[3].fault


def test_images_in_memory_are_found():
    pictures = hr.Strings.from_values([picture(row) for row in range(5)])
    source = hr.ColumnSource({"i": pictures, "label": np.arange(5), "b": hr.Strings.from_values([b"x"] * 5)})
    assert ShownDataset(source, name="x", code="x").image_features() == ["i"]
