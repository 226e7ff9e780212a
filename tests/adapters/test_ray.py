"""Sources as datasets of Ray Data: what blocks hold, how they are planned, and what their tasks read."""

from __future__ import annotations

import os
import pickle
import signal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.clusters import running_cluster

import headrace as hr
from headrace.adapters.ray import plan_blocks
from headrace.io.cache.folder import cache_folder

ray = pytest.importorskip("ray")

from headrace.adapters import ray as adapter  # noqa: E402 - needs Ray only when it is called
from headrace.adapters import ray_sources  # noqa: E402
from headrace.adapters.ray_blocks import (  # noqa: E402
    batch_of_block,
    block_of_batch,
    block_row_bytes,
    is_measurable,
    schema_of_block,
    zero_block,
)

pytestmark = pytest.mark.ray
ROWS = 300


@pytest.fixture
def read(local_ray):
    """``headrace.adapters.ray.read`` on the shared local Ray."""
    context = local_ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.execution_options.preserve_order = True
    return adapter.read


def columns_of_every_kind(n=ROWS):
    chance = np.random.default_rng(0)
    return {
        "i": np.arange(n),
        "flag": np.arange(n) % 3 == 0,
        "half": np.arange(n).astype(np.float16),
        "vector": chance.random((n, 5), np.float32),
        "image": chance.integers(0, 256, (n, 4, 3, 2), np.uint8),
        "bits": chance.random((n, 7)) < 0.5,
        "text": [f"é{i}" * (i % 5) for i in range(n)],
        "bytes": [b"\xff" * (i % 4) for i in range(n)],
        "words": np.array([[f"a{i}", "b"] for i in range(n)], object),
        "ragged": hr.Ragged.from_list([np.arange(i % 6, dtype=np.int32) for i in range(n)]),
        "pairs": hr.Ragged.from_list([np.ones((i % 3, 2), np.float32) for i in range(n)]),
        "when": np.arange(n).astype("datetime64[s]"),
    }


def plain(value):
    """A value as lists, numbers and text."""
    if hasattr(value, "to_list"):
        return value.to_list()
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def rows_of(dataset):
    return [{name: plain(value) for name, value in row.items()} for row in dataset.take_all()]


def test_every_kind_of_feature(read):
    source = hr.ColumnSource(columns_of_every_kind())
    dataset = read(source, num_blocks=3)
    names = dict(zip(dataset.schema().names, map(str, dataset.schema().types), strict=True))
    assert names["vector"] == "ArrowTensorTypeV2(shape=(5,), dtype=float)"
    assert names["image"] == "ArrowTensorTypeV2(shape=(4, 3, 2), dtype=uint8)"
    assert names["bits"] == "ArrowTensorTypeV2(shape=(7,), dtype=bool)"
    assert [names[name] for name in ("text", "bytes")] == ["string", "binary"]
    assert [names[name] for name in ("ragged", "words")] == ["list<item: int32>", "fixed_size_list<item: string>[2]"]
    found = list(dataset.iter_batches(batch_size=None, batch_format="numpy"))
    assert [len(batch["i"]) for batch in found] == [100, 100, 100]
    first = found[0]
    assert (first["image"].shape, first["image"].dtype) == ((100, 4, 3, 2), np.uint8)
    assert (first["vector"].dtype, first["half"].dtype, first["flag"].dtype) == (np.float32, np.float16, np.bool_)
    expected = [{name: plain(value) for name, value in example.items()} for example in source]
    when = [row.pop("when") for row in expected]
    rows = rows_of(dataset)
    assert [row.pop("when").timestamp() for row in rows] == [moment.timestamp() for moment in when]
    assert rows == expected


@pytest.mark.parametrize("first", [1, 0])
def test_functions_whose_features_vary(read, first):
    """The first example does not show which axes vary, nor a dtype if it is empty."""

    def make(example):
        n = int(example["n"])
        return {
            "numbers": np.arange(n),
            "tags": ["a" * n] * n,
            "text": ["b", "c" * n],
            "nested": [[1] * n, [2]],
            "image": np.full((n + 1, 2, 3), n, np.uint8),
            "fixed": np.ones(2, np.float32),
        }

    source = hr.ColumnSource({"n": np.arange(first, 9)}).map(make)
    dataset = read(source, num_blocks=3)
    expected = source.to_arrow().to_pylist()
    assert rows_of(dataset) == expected
    kinds = dict(zip(dataset.schema().names, map(str, dataset.schema().types), strict=True))
    assert kinds["tags"] == "list<item: string>"
    assert kinds["fixed"] == "ArrowTensorTypeV2(shape=(2,), dtype=float)"
    assert rows_of(read(source, columns=["tags"])) == [{"tags": row["tags"]} for row in expected]
    late = hr.ColumnSource({"n": np.arange(1200)}).map(lambda e: {"x": 1 if e["n"] < 1100 else 0.5})
    with pytest.raises(Exception, match=r"expected int64 values, found .*let the function return"):
        read(late, num_blocks=2).materialize()


def test_class_names_stay_in_the_blocks(read):
    names = hr.Feature("int64", names=["cat", "dog"])
    table = hr.ColumnSource({"y": np.arange(4) % 2, "x": np.zeros((4, 2))}).to_arrow()
    features = hr.Schema({"y": names, "x": hr.Feature("float64", (2,))})
    block = block_of_batch({"y": np.arange(4) % 2, "x": np.zeros((4, 2))}, features)
    assert schema_of_block(block) == features
    assert schema_of_block(block.set_column(0, "y", table.column("x"))).get("y").names is None
    assert schema_of_block(block.drop_columns(["y"])) == features.select(["x"])


def test_images_of_different_sizes(read, tmp_path):
    simplejpeg = pytest.importorskip("simplejpeg")
    sizes = [(8, 16), (16, 8), (8, 8)]
    for number in range(6):
        pixels = np.full((*sizes[number % 3], 3), number * 20, np.uint8)
        (tmp_path / f"{number}.jpg").write_bytes(simplejpeg.encode_jpeg(pixels))
    source = hr.open(tmp_path, format="image_folder")
    dataset = read(source, num_blocks=3)
    kind = dataset.schema().types[dataset.schema().names.index("image")]
    assert "VariableShapedTensor" in str(kind)
    shapes = [row["image"].shape for row in dataset.take_all()]
    assert shapes == [(*size, 3) for size in sizes * 2]
    same = read(source[::3], num_blocks=1)  # all of one size: the type is still that of the feature
    assert same.schema().types[same.schema().names.index("image")] == kind
    assert same.take_all()[1]["image"].dtype == np.uint8


@pytest.mark.parametrize(
    "format", ["tfrecord", "tfrecord.gz", "array_record", "recordio", "csv", "parquet", "jsonl", "npz"]
)
def test_files_of_every_format(format, read, tmp_path):
    path = tmp_path / f"x.{format}{'@3' if format != 'npz' else ''}"
    hr.write(path, {"i": np.arange(ROWS), "x": np.arange(ROWS, dtype=np.float32) / 4})
    dataset = read(path, num_blocks=4)
    assert (dataset.count(), dataset.materialize().num_blocks()) == (ROWS, 4)
    assert len(dataset.input_files()) == (1 if format == "npz" else 3)
    assert [plain(row["i"]) for row in dataset.take_all()] == [plain(example["i"]) for example in hr.open(path)]


class TestViews:
    @pytest.fixture
    def source(self, tmp_path):
        hr.write(tmp_path / "x.tfrecord@2", {"i": np.arange(100), "x": np.ones((100, 3), np.float32)})
        return hr.open(tmp_path / "x.tfrecord@2")

    @pytest.mark.parametrize(
        "view",
        [
            lambda s: s.select("i"),
            lambda s: s[10:90:7],
            lambda s: s[::-1],
            lambda s: s.shard(1, 3),
            lambda s: s.map(lambda example: {"i": example["i"] * 2}),
            lambda s: s.filter(lambda example: example["i"] % 3 == 1),
            lambda s: s.filter(lambda example: example["i"] % 2 == 1)[5:].filter(lambda example: example["i"] < 80),
            lambda s: s.split("train[20:30]+train[50:55]"),
            lambda s: s[:5].concat(s[90:]),
            lambda s: s.zip(s.rename({"i": "j", "x": "y"})),
            lambda s: s.map(lambda example, rng: {"i": example["i"] + rng.integers(5)}, seeded=True),
        ],
    )
    def test_a_view_is_read_as_it_is(self, view, source, read):
        chosen = view(source)
        assert rows_of(read(chosen, num_blocks=3)) == [
            {name: plain(value) for name, value in example.items()} for example in view(source)
        ]

    def test_a_filter_is_evaluated_once_and_not_by_read_tasks(self, source, read, tmp_path):
        calls = str(tmp_path / "calls")

        def keeps(example):
            with open(calls, "a") as file:
                file.write("x")
            return example["i"] < 50

        chosen = source.filter(keeps)
        dataset = read(chosen, num_blocks=5)
        assert os.path.getsize(calls) == 100
        assert (dataset.count(), len(dataset.take_all()), len(chosen)) == (50, 50, 50)
        assert os.path.getsize(calls) == 100

    def test_a_predicate_that_fails(self, source, read):
        with pytest.raises(hr.TransformError, match="example 31"):
            read(source.filter(lambda example: 1 / (31 - int(example["i"])) < 2))

    def test_a_function_that_fails(self, source, read):
        dataset = read(source.map(lambda example: {"y": 1 / (example["i"] + 1 if example["i"] < 60 else int("no"))}))
        with pytest.raises(ray.exceptions.RayTaskError, match="TransformError"):
            dataset.take_all()


def test_a_source_travels_by_path(tmp_path):
    hr.write(tmp_path / "x.tfrecord", {"x": np.zeros((5000, 100), np.float32)})
    source = hr.open(tmp_path / "x.tfrecord")
    source.batch([4999])
    assert len(pickle.dumps(source)) < 1500


class TestColumns:
    @pytest.fixture
    def path(self, tmp_path):
        hr.write(tmp_path / "x.tfrecord", {"a": np.arange(50), "b": np.ones(50, np.float32), "c": np.arange(50) * 2})
        return tmp_path / "x.tfrecord"

    def test_only_columns_that_are_asked_for_are_read(self, read):
        source = hr.Source(FailingColumn())
        with pytest.raises(ray.exceptions.RayTaskError):
            read(source).take_all()
        assert rows_of(read(source, columns=["c", "a"]))[7] == {"c": 14, "a": 7}
        dataset = read(source)
        assert rows_of(dataset.select_columns(["c", "a"]))[7] == {"c": 14, "a": 7}
        assert list(rows_of(dataset.select_columns(["c", "a"]))[0]) == ["c", "a"]
        assert rows_of(dataset.rename_columns({"a": "n"}).select_columns(["n"]))[3] == {"n": 3}
        assert rows_of(dataset.select_columns(["a", "c"]).select_columns(["c"]))[3] == {"c": 6}
        assert dataset.drop_columns(["bad"]).sum("c") == 2450

    def test_no_columns_still_count(self, read, path):
        dataset = read(path, num_blocks=3)
        assert dataset.select_columns([]).count() == 50
        assert (
            sum(
                batch.num_rows
                for batch in dataset.select_columns([]).iter_batches(batch_format="pyarrow", batch_size=None)
            )
            == 50
        )

    @given(st.lists(st.lists(st.sampled_from("abc"), unique=True, min_size=1), max_size=3))
    @settings(max_examples=50)
    def test_projections_follow_one_another(self, selections):
        datasource = adapter._datasource_class()(Shared())
        expected = list("abc")
        for names in selections:
            expected = [name for name in names if name in expected] or expected[:1]
            datasource = datasource.apply_projection({name: name for name in expected})
        assert list(datasource.get_projection_map() or "abc") == expected

    def test_projections_that_rename(self):
        """Ray 2.52 passes new names, which then name the columns of the next projection."""
        datasource = adapter._datasource_class()(Shared())
        datasource = datasource.apply_projection({"a": "x", "b": "b"}).apply_projection({"b": "y", "x": "z"})
        assert datasource.get_projection_map() == {"b": "y", "a": "z"}
        assert datasource.get_column_renames() == {"b": "y", "a": "z"}


class Shared:
    """The part of a shared source that projections look at."""

    source = hr.ColumnSource({"a": np.zeros(1), "b": np.zeros(1), "c": np.zeros(1)})


class FailingColumn:
    """A node with a feature that cannot be read."""

    def __init__(self, names=("a", "c", "bad")):
        self.names = names
        self.schema = hr.Schema({name: hr.Feature("int64", ()) for name in names})

    def __len__(self):
        return 50

    def batch(self, indices):
        if "bad" in self.names:
            raise hr.CorruptRecord(hr.Where(path="nowhere", record=int(indices[0])), expected="a value", found="none")
        return {name: indices * (1 if name == "a" else 2) for name in self.names}

    def where(self, index):
        return hr.Where(record=index)

    def narrow(self, names):
        return FailingColumn(names)


class TestPlan:
    @given(
        rows=st.integers(0, 10**9),
        row_bytes=st.floats(0, 1e6),
        cpus=st.integers(1, 5000),
        most=st.integers(1 << 20, 1 << 30),
    )
    def test_blocks_fit_memory_and_occupy_the_cluster(self, rows, row_bytes, cpus, most):
        blocks = plan_blocks(rows, row_bytes, cpus, most_bytes=most)
        size = int(rows * row_bytes)
        assert 1 <= blocks <= max(1, rows)
        assert size / blocks <= most or blocks == rows
        assert blocks >= min(4 * cpus, rows) or size / blocks < (2 << 20)
        assert blocks <= max(1, 4 * cpus, -(-size // most))

    def test_blocks_of_a_large_source(self):
        assert plan_blocks(1_000_000, 100_000, cpus=2) == 1491  # 64 MB each
        assert plan_blocks(1_000_000, 1000, cpus=64) == 256

    def test_a_dataset_has_the_planned_blocks(self, read):
        source = hr.ColumnSource({"x": np.zeros((4096, 1024), np.float32)})  # 16 MB
        assert read(source).materialize().num_blocks() == 8
        assert read(source, num_blocks=3).materialize().num_blocks() == 3
        assert read(source[:5], num_blocks=50).materialize().num_blocks() == 5
        assert read(source[:100]).materialize().num_blocks() == 1

    @pytest.mark.parametrize("bad", [0, -1, 2.5, "many"])
    def test_a_number_of_blocks_that_cannot_be(self, bad, read):
        with pytest.raises((ValueError, TypeError), match="num_blocks"):
            read(hr.ColumnSource({"x": np.zeros(3)}), num_blocks=bad)

    @pytest.mark.parametrize("limit", [None, 1, 7, 1000])
    def test_rows_and_bytes_of_a_task_are_known(self, limit, read):
        source = hr.ColumnSource(
            {name: column for name, column in columns_of_every_kind().items() if is_measured(column)}
        )
        assert is_measurable(source.schema)
        datasource = adapter._datasource_class()(ray_sources.SharedSource(source, adapter.connect()))
        tasks = datasource.get_read_tasks(4, per_task_row_limit=limit)
        rows = min(75, limit or 75)
        for number, task in enumerate(tasks):
            (block,) = task()
            assert task.metadata.num_rows == block.num_rows == rows
            assert block.column("i").to_pylist() == list(range(number * 75, number * 75 + rows))
            assert task.metadata.size_bytes == pytest.approx(block.nbytes, abs=len(source.schema) * 8)  # bits of bools
            assert task.schema == block.schema
        assert len(tasks) == 4

    def test_bytes_of_a_sample(self, read):
        source = hr.ColumnSource({"text": ["x" * 1000] * ROWS})
        datasource = adapter._datasource_class()(ray_sources.SharedSource(source, adapter.connect()))
        assert datasource.estimate_inmemory_data_size() == pytest.approx(ROWS * 1004, rel=0.01)

    def test_rows_of_very_different_sizes(self, read, tmp_path, monkeypatch):
        """No sampled row is a large one, and the large ones follow each other."""
        sizes = np.where((np.arange(4000) > 2010) & (np.arange(4000) < 2060), 20_000, 10)
        hr.write(tmp_path / "x.tfrecord", {"b": [b"\xff" * size for size in sizes.tolist()]})
        shared = ray_sources.SharedSource(hr.open(tmp_path / "x.tfrecord"), adapter.connect())
        assert sizes.mean() / 3 < shared.row_bytes < 3 * sizes.mean()
        monkeypatch.setattr(ray_sources, "_source_of", lambda reference: shared.source)
        monkeypatch.setattr(ray_sources, "USUAL_BLOCK_BYTES", 50_000)
        monkeypatch.setattr(ray_sources, "MOST_BLOCK_BYTES", 100_000)
        blocks = list(ray_sources.read_rows(None, shared.schema, None, 0, 4000, 4000, shared.growth_of(None)))
        assert max(block.nbytes for block in blocks) < 110_000
        assert len(blocks) < 60
        assert [len(value) for block in blocks for value in block.column("b").to_pylist()] == sizes.tolist()

    def test_a_limit_reads_no_more_than_that(self, read):
        dataset = read(hr.ColumnSource({"i": np.arange(1000)}), num_blocks=4).limit(5)
        assert [row["i"] for row in dataset.take_all()] == [0, 1, 2, 3, 4]

    def test_no_rows(self, read, tmp_path):
        hr.write(tmp_path / "x.tfrecord", {"i": np.arange(10)})
        dataset = read(hr.open(tmp_path / "x.tfrecord")[:0])
        assert (dataset.count(), dataset.take_all()) == (0, [])


def is_measured(column):
    return isinstance(column, np.ndarray) and column.dtype.kind in "biuf"


def test_tasks_find_no_records_again(read, tmp_path):
    """The index travels with the source: tasks with an empty cache folder keep that one, and make no other."""
    hr.write(tmp_path / "x.tfrecord@4", {"i": np.arange(1000)})
    dataset = read(tmp_path / "x.tfrecord@4", num_blocks=8)

    def indexes(_=None):
        return sorted(path.name for path in cache_folder("index").glob("*.psindex"))

    remote = ray.remote(lambda: sorted(path.name for path in cache_folder("index").glob("*.psindex")))
    before, here = ray.get(remote.remote()), indexes()
    assert here != []
    assert dataset.sum("i") == 499_500
    assert not set(here) & set(before)
    assert set(ray.get(remote.remote())) - set(before) <= set(here)


def test_files_are_indexed_one_in_each_task(tmp_path, monkeypatch):
    hr.write(tmp_path / "x.tfrecord@5", {"i": np.arange(1000)})
    hr.write(tmp_path / "y.csv@2", {"i": np.arange(100)})
    files = []
    submit = ray_sources.Cluster.submit

    def noted(self, function, *args, **options):
        files.append((function.__name__, args[1]))
        return submit(self, function, *args, **options)

    monkeypatch.setattr(ray_sources.Cluster, "submit", noted)
    with running_cluster():
        dataset = adapter.read(tmp_path / "x.tfrecord@5", num_blocks=3)
        assert sorted(path for _, path in files) == sorted(hr.records(tmp_path / "x.tfrecord@5").paths)
        assert [row["i"] for row in dataset.take_all()] == list(range(1000))
        assert sorted(row["i"] for row in adapter.read(tmp_path / "y.csv@2").take_all()) == list(range(100))
        assert {name for name, _ in files} == {"index_one"}
        del files[:]
        adapter.read(tmp_path / "x.tfrecord@5")  # from the cache
        assert files == []
        damaged = tmp_path / "x.tfrecord-00003-of-00005"
        damaged.write_bytes(damaged.read_bytes()[:-3])
        with pytest.raises(hr.CorruptRecord, match="x.tfrecord-00003-of-00005"):
            adapter.read(hr.open([tmp_path / f"x.tfrecord-0000{k}-of-00005" for k in (2, 3)]))


class TestFailures:
    def test_a_damaged_record_is_named(self, read, tmp_path):
        path = tmp_path / "x.tfrecord"
        hr.write(path, {"i": np.arange(100), "x": np.ones((100, 50), np.float32)})
        content = bytearray(path.read_bytes())
        content[len(content) // 2 + 100] ^= 1
        path.write_bytes(content)
        with pytest.raises(ray.exceptions.RayTaskError, match=r"(?s)CorruptRecord.*x\.tfrecord, record 5\d"):
            read(path, num_blocks=4).take_all()
        kept = read(hr.open(path, on_corrupt="skip"), num_blocks=4)
        assert kept.count() == 99

    def test_a_killed_worker_is_replaced(self, read, tmp_path):
        hr.write(tmp_path / "x.tfrecord", {"i": np.arange(100)})
        marker = tmp_path / "died"

        def die_once(example):
            if example["i"] == 60 and not marker.exists():
                marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return example

        source = hr.open(tmp_path / "x.tfrecord")
        source = hr.Source(MappedLate(source.node, die_once))
        assert sorted(row["i"] for row in read(source, num_blocks=4).take_all()) == list(range(100))
        assert marker.exists()

    def test_a_file_that_changed_since_it_was_opened(self, read, tmp_path):
        path = tmp_path / "x.tfrecord"
        hr.write(path, {"i": np.arange(100)})
        dataset = read(path)
        hr.write(path, {"i": np.arange(90)})
        with pytest.raises(ray.exceptions.RayTaskError, match="CorruptFile"):
            dataset.take_all()

    def test_features_without_an_arrow_type(self, read):
        scipy = pytest.importorskip("scipy.sparse")
        with pytest.raises(hr.UnsupportedData, match="sparse"):
            read(hr.ColumnSource({"x": scipy.eye_array(4, format="csr", dtype=np.float32)}))
        with pytest.raises(hr.UnsupportedData, match="complex"):
            read(hr.ColumnSource({"x": np.zeros(3, np.complex64)}))

    def test_names_that_are_not_there(self, read, tmp_path):
        with pytest.raises(hr.NoSuchFeature, match="'y'"):
            read(hr.ColumnSource({"x": np.zeros(3)}), columns=["y"])
        with pytest.raises(hr.NoFiles):
            read(tmp_path / "none.tfrecord")


class MappedLate:
    """A map that is not applied to find its schema."""

    def __init__(self, parent, function):
        self.parent, self.function, self.schema = parent, function, parent.schema

    def __len__(self):
        return len(self.parent)

    def batch(self, indices):
        batch = self.parent.batch(indices)
        for position in range(len(indices)):
            self.function({name: column[position] for name, column in batch.items()})
        return batch

    def where(self, index):
        return self.parent.where(index)

    def cuts_cleanly(self):
        """Otherwise ``read`` asks for some rows to find their shapes."""
        return True


for _class in (FailingColumn, MappedLate):
    _class.__module__ = "__main__"  # Ray sends the class itself: workers cannot import this module


@given(st.integers(0, 40), st.randoms(use_true_random=False))
@settings(max_examples=30)
def test_blocks_give_batches_back(n, chance):
    """Batch to block to batch: the values stay, and so do the dtypes and fixed shapes."""
    source = hr.ColumnSource({name: column for name, column in columns_of_every_kind(41).items()})
    names = chance.sample(list(source.schema), chance.randint(1, len(source.schema)))
    chosen = source.select(*names)
    batch = chosen.batch(np.arange(n))
    block = block_of_batch(batch, chosen.schema)
    found = schema_of_block(block)
    assert list(found) == names
    for name in names:
        assert found[name].dtype == chosen.schema[name].dtype
        assert found[name].shape == chosen.schema[name].shape
    again = batch_of_block(block, found)
    assert {name: plain(value) for name, value in again.items()} == {
        name: plain(value) for name, value in batch.items()
    }


@pytest.mark.parametrize("rows", [0, 8, 800])
def test_measured_sizes_are_exact(rows):
    schema = hr.Schema(
        {"a": hr.Feature("int64", ()), "b": hr.Feature("float32", (3, 4)), "c": hr.Feature("bool", (9,))}
    )
    assert zero_block(schema, rows).nbytes == rows * block_row_bytes(schema)
