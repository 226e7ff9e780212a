"""Sparse and ragged features stored as several lists of an Example, compared with TensorFlow and a slow, plain reference."""

import base64
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from tests.reference.proto import Malformed
from tests.reference.tf_example_keys import ragged_rows, sparse_row

import headrace as hr
from headrace.codecs.example.codec import ExampleCodec
from headrace.contracts.feature import Feature
from headrace.contracts.feature_keys import RaggedKeys, SparseKeys
from headrace.contracts.schema import Schema
from headrace.contracts.values import Ragged
from headrace.errors import NoSuchFeature, SchemaMismatch, UnsupportedData

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "tfrecord" / "keys.tfrecord"
SPARSE = Feature("float32", keys=SparseKeys("cell", "weight", 10))
MATRIX = Feature("int64", keys=SparseKeys(["row", "column"], "number", [3, 4]))


def ragged(dtype, values, *partitions):
    return Feature(dtype, keys=RaggedKeys(values, partitions))


FEATURES = {
    "sparse": SPARSE,
    "matrix": MATRIX,
    "flat": ragged("int64", "values"),
    "by_lengths": ragged("int64", "values", ("row_lengths", "lengths")),
    "by_limits": ragged("int64", "values", ("row_limits", "limits")),
    "by_starts": ragged("int64", "more", ("row_starts", "starts")),
    "by_splits": ragged("bytes", "texts", ("row_splits", "splits")),
    "by_ids": ragged("int64", "values", ("value_rowids", "ids")),
    "nested": ragged("int64", "values", ("row_splits", "outer_splits"), ("row_lengths", "lengths")),
    "two_rows": ragged("int64", "values", ("uniform_row_length", 2), ("row_lengths", "lengths")),
    "by_two": ragged("float32", "pairs", ("uniform_row_length", 2)),
    "by_three_by_two": ragged("float32", "pairs", ("uniform_row_length", 3), ("uniform_row_length", 2)),
}
EXPECTED = json.loads(GOLDEN.with_suffix(".tfrecord.json").read_text(encoding="utf-8"))


def plain(value):
    if isinstance(value, dict):
        return base64.b64decode(value["b64"])
    if isinstance(value, (list, Ragged)):
        return [plain(item) for item in value]
    return value.tolist() if isinstance(value, (np.ndarray, np.generic, hr.Strings)) else value


def entries(rows):
    """Cells and values of each row of a sparse matrix, in the order in which they are stored."""
    bounds = zip(rows.indptr[:-1], rows.indptr[1:])
    return [list(zip(rows.indices[a:b].tolist(), rows.data[a:b].tolist())) for a, b in bounds]


def entries_of_tensorflow(reported, rows):
    """The same of a SparseTensor whose first axis counts the rows."""
    out = [[] for _ in range(rows)]
    for (row, *place), value in zip(reported["indices"], reported["values"]):
        out[row].append((int(np.ravel_multi_index(place, reported["shape"][1:])), value))
    return out


@pytest.mark.parametrize("name", FEATURES)
def test_batches_are_what_tensorflow_parses(name):
    source = hr.open(GOLDEN, schema={name: FEATURES[name]})
    column = source.batch(range(len(source)))[name]
    theirs = EXPECTED["batch"][name]
    if FEATURES[name].sparse:
        assert entries(column) == entries_of_tensorflow(theirs, EXPECTED["records"])
        assert column.shape == (12, FEATURES[name].shape[0])
        assert (column.dtype, column.indices.dtype, column.indptr.dtype) == (FEATURES[name].dtype, "int32", "int32")
    else:
        assert plain(column) == plain(theirs)


@pytest.mark.parametrize("name", FEATURES)
def test_examples_are_what_tensorflow_parses(name):
    source = hr.open(GOLDEN, schema={name: FEATURES[name]})
    for example, theirs in zip(source, EXPECTED["single"][name], strict=True):
        if theirs == "error":  # missing row_splits: in a batch, TensorFlow reads no rows
            assert len(example[name]) == 0
        elif FEATURES[name].sparse:
            row = example[name].tocoo()
            reported = {
                **theirs,
                "indices": [[0, *place] for place in theirs["indices"]],
                "shape": [1, *theirs["shape"]],
            }
            assert [list(zip(row.coords[-1].tolist(), row.data.tolist()))] == entries_of_tensorflow(reported, 1)
        else:
            assert plain(example[name]) == plain(theirs)


def test_all_at_once_and_beside_plain_features():
    plain_ones = {"lengths": Feature("int64", (None,)), "values": Feature("int64", (None,))}
    source = hr.open(GOLDEN, schema={**FEATURES, **plain_ones})
    batch = source.batch(range(12))
    assert list(batch) == [*FEATURES, *plain_ones]
    for name in (*FEATURES, *plain_ones):
        alone = source.select(name).batch(range(12))[name]
        if hasattr(alone, "tocsr"):
            assert entries(alone) == entries(batch[name])
        else:
            assert plain(alone) == plain(batch[name])
    assert plain(batch["flat"]) == plain(batch["values"])


def test_loaders_workers_shards_and_pickles():
    source = hr.open(GOLDEN, schema=FEATURES)
    whole = source.batch(range(12))
    loaders = [
        hr.Loader(source, 5),
        hr.Loader(pickle.loads(pickle.dumps(source)), 5, map_batch=dict, workers=1),
    ]
    for loader in loaders:
        batches = list(loader)
        assert sum((entries(batch["matrix"]) for batch in batches), []) == entries(whole["matrix"])
        for name in ("nested", "by_splits", "by_three_by_two"):
            assert sum((plain(batch[name]) for batch in batches), []) == plain(whole[name])
    (second,) = hr.Loader(source, 12, shard=hr.Shard(1, 2))
    assert plain(second["nested"]) in (plain(whole["nested"])[1::2], plain(whole["nested"])[6:])


KEYS = st.integers(-2, 7)
LISTS = st.lists(KEYS, max_size=5)
ASCENDING = LISTS.map(sorted)
KINDS = ["row_splits", "row_lengths", "row_starts", "row_limits", "value_rowids", "uniform_row_length"]


def encoded(*records):
    """Examples with these lists."""
    payloads = []
    for record in records:
        dtypes = {
            key: "bytes" if values and isinstance(values[0], bytes) else "int64" for key, values in record.items()
        }
        codec = ExampleCodec(Schema({key: Feature(dtypes[key], (None,)) for key in record}))
        cells = {}
        for key, values in record.items():
            cell = np.empty(len(values), object) if dtypes[key] == "bytes" else np.zeros(len(values), np.int64)
            cell[:] = values
            cells[key] = Ragged(cell, np.array([0, len(values)]))
        block, starts, sizes = codec.encode_batch(cells, 1, 0, 0)
        payloads.append(block[int(starts[0]) : int(starts[0] + sizes[0])].tobytes())
    return payloads


def compare(feature, records, reference, shown):
    """Compare our column with the reference's rows; of faults, the first record."""
    codec = ExampleCodec(Schema({"x": feature}))
    expected, first = [], None
    for number, record in enumerate(records):
        try:
            expected.append(reference(record))
        except Malformed:
            first = number
            break
    spans = codec.spans_of(encoded(*records))
    if first is None:
        assert shown(codec.decode_batch(spans)["x"]) == expected
        return
    with pytest.raises(SchemaMismatch) as caught:
        codec.decode_batch(spans)
    assert (caught.value.where.record, caught.value.where.feature) == (first, "x")


@given(st.lists(st.fixed_dictionaries({"i": LISTS, "j": LISTS, "v": LISTS}), min_size=1, max_size=4), st.booleans())
def test_sparse_rows_beside_the_reference(records, is_sorted):
    for record in records[1:]:  # lists of one length in most
        record["i"] = [abs(i) for i in (record["i"] + [1] * 5)[: len(record["v"])]]
        record["j"] = [abs(j) % 5 for j in (record["j"] + [2] * 5)[: len(record["v"])]]
    feature = Feature("int64", keys=SparseKeys(["i", "j"], "v", [6, 5], is_sorted=is_sorted))
    compare(feature, records, lambda r: sparse_row([r["i"], r["j"]], r["v"], [6, 5], is_sorted=is_sorted), entries)


@given(st.data())
def test_ragged_rows_beside_the_reference(data):
    kinds = data.draw(st.lists(st.sampled_from(KINDS), max_size=3))
    partitions = [
        (kind, data.draw(st.integers(1, 3)) if kind == KINDS[-1] else f"p{at}") for at, kind in enumerate(kinds)
    ]
    records = []
    for _ in range(data.draw(st.integers(1, 4))):
        values = data.draw(LISTS)
        record, total = {"v": values}, len(values)
        for kind, key in reversed(partitions):
            if isinstance(key, int):
                total //= key
                continue
            given = sound(data, kind, total) if data.draw(st.integers(0, 5)) else data.draw(st.one_of(LISTS, ASCENDING))
            record[key] = given
            total = {"row_splits": max(0, len(given) - 1), "value_rowids": (given or [-1])[-1] + 1}.get(
                kind, len(given)
            )
        records.append(record)

    def reference(record):
        return ragged_rows(record["v"], [(k, key if isinstance(key, int) else record[key]) for k, key in partitions])

    compare(Feature("int64", keys=RaggedKeys("v", partitions)), records, reference, plain)


def sound(data, kind, total):
    """A list that divides this many values into rows."""
    if kind == "value_rowids":
        return sorted(data.draw(st.lists(st.integers(0, 4), min_size=total, max_size=total)))
    limits = [*sorted(data.draw(st.lists(st.integers(0, total), max_size=3))), total]
    starts = [0, *limits[:-1]]
    return {
        "row_limits": limits,
        "row_splits": [0, *limits],
        "row_starts": starts,
        "row_lengths": [b - a for a, b in zip(starts, limits)],
    }[kind]


@pytest.mark.parametrize("kind", KINDS[:5])
@pytest.mark.parametrize(
    "numbers", [[2**63 - 1], [-(2**63)], [0, 2**63 - 1, -(2**63), 3], [-(2**63), 2**63 - 1, 3], [2**62] * 4]
)
def test_numbers_at_the_limits_are_refused(kind, numbers):
    codec = ExampleCodec(Schema({"x": ragged("int64", "v", (kind, "p"))}))
    with pytest.raises(SchemaMismatch, match="'p'"):
        codec.decode(encoded({"v": [1, 2, 3], "p": numbers})[0])


def test_row_numbers_allocate_no_more_than_a_little():
    codec = ExampleCodec(Schema({"x": ragged("int64", "v", ("value_rowids", "p"))}))
    assert len(codec.decode(encoded({"v": [1], "p": [65_536]})[0])["x"]) == 65_537
    with pytest.raises(SchemaMismatch, match="row numbers in 'p' that fit the values, found 65537"):
        codec.decode(encoded({"v": [1], "p": [65_537]})[0])


@pytest.mark.parametrize(
    ("feature", "record", "words"),
    [
        (
            Feature("int64", keys=SparseKeys("i", "v", 5)),
            {"i": [1, 2], "v": [3]},
            "in 'i' as values in 'v', 1, found 2",
        ),
        (Feature("int64", keys=SparseKeys("i", "v", 5)), {"i": [5], "v": [1]}, "positions in 'i' from 0 to 4, found 5"),
        (Feature("int64", keys=SparseKeys("i", "v", 5)), {"i": [-1], "v": [1]}, "found -1"),
        (Feature("uint8", keys=SparseKeys("i", "v", 5)), {"i": [1], "v": [256]}, "uint8 values in .* found 256"),
        (
            Feature("int64", keys=SparseKeys("i", "v", 5)),
            {"i": [b"x"], "v": [1]},
            "int64 values, found bytes under 'i'",
        ),
        (ragged("int64", "v", ("row_splits", "p")), {"v": [1, 2], "p": [0, 1]}, "a last split of 2 in 'p', .* found 1"),
        (ragged("int64", "v", ("row_splits", "p")), {"v": [1, 2], "p": [1, 2]}, "'p' to begin with 0, found 1"),
        (ragged("int64", "v", ("row_starts", "p")), {"v": [1, 2], "p": [0, 3]}, "never descend, found 2 after 3"),
        (ragged("int64", "v", ("row_lengths", "p")), {"v": [1, 2], "p": [1]}, "rows of together 2 values in 'p'"),
        (ragged("int64", "v", ("value_rowids", "p")), {"v": [1, 2], "p": [1]}, "row numbers for 2 values in 'p'"),
        (ragged("int64", "v", ("uniform_row_length", 3)), {"v": [1, 2]}, "a multiple of 3 values or rows, found 2"),
    ],
)
def test_faults_name_file_record_feature_and_list(tmp_path, feature, record, words):
    sound = {key: [] for key in record}
    path = tmp_path / "x.tfrecord"
    hr.write_records(path, encoded(sound, sound, record))
    source = hr.open(path, schema={"x": feature})
    for read in (lambda: source[2], lambda: source.batch([2, 0]), lambda: list(source)):
        with pytest.raises(SchemaMismatch, match=words) as caught:
            read()
        where = caught.value.where
        assert (where.path, where.record, where.feature) == (str(path), 2, "x")
    assert [fault.where.record for fault in hr.verify(path, schema={"x": feature}).faults] == [2]


def test_unsorted_positions_declared_sorted_keep_their_order():
    codec = ExampleCodec(Schema({"x": Feature("int64", keys=SparseKeys("i", "v", 9, is_sorted=True))}))
    row = codec.decode_batch(codec.spans_of(encoded({"i": [7, 2, 2], "v": [1, 2, 3]})))["x"]
    assert entries(row) == [[(7, 1), (2, 2), (2, 3)]]
    assert row.toarray()[0, 2] == 5


def test_wide_rows_have_wide_indices():
    codec = ExampleCodec(Schema({"x": Feature("int64", keys=SparseKeys(["i", "j"], "v", [2**31, 2**31]))}))
    row = codec.decode_batch(codec.spans_of(encoded({"i": [2**31 - 1], "j": [3], "v": [1]})))["x"]
    assert row.indices.tolist() == [(2**31 - 1) * 2**31 + 3]
    assert row.indices.dtype == np.int64


def test_mixed_numbers_are_read_as_float64(tmp_path):
    path = tmp_path / "x.tfrecord"
    with hr.Writer(path, schema={"v": Feature("int64", (None,)), "i": Feature("int64", (None,))}) as writer:
        writer.write({"v": [3], "i": [1]})
    whole = bytes(hr.records(path)[0])
    with hr.Writer(path, schema={"v": Feature("float32", (None,)), "i": Feature("int64", (None,))}) as writer:
        writer.write({"v": [0.5], "i": [2]})
    hr.write_records(path, [whole, bytes(hr.records(path)[0])])
    source = pickle.loads(pickle.dumps(hr.open(path, schema={"x": Feature("float64", keys=SparseKeys("i", "v", 4))})))
    assert source.batch([0, 1])["x"].toarray().tolist() == [[0, 3, 0, 0], [0, 0, 0.5, 0]]


@pytest.mark.parametrize("name", [name for name in FEATURES if name != "by_ids"])
def test_written_files_are_read_back(tmp_path, name):
    source = hr.open(GOLDEN, schema={name: FEATURES[name]})
    done = hr.convert(GOLDEN, tmp_path / "x.tfrecord", schema={name: FEATURES[name]})
    again = hr.open(tmp_path / "x.tfrecord", schema=done.schema)
    assert done.schema == source.schema
    ours, theirs = again.batch(range(12))[name], source.batch(range(12))[name]
    shown = entries if FEATURES[name].sparse else plain
    assert shown(ours) == shown(theirs)
    with hr.Writer(tmp_path / "y.tfrecord", schema=source.schema) as writer:
        for example in source:
            writer.write(example)
    one_by_one = hr.open(tmp_path / "y.tfrecord", schema=source.schema).batch(range(12))[name]
    shown = (
        (lambda rows: rows.toarray().tolist()) if FEATURES[name].sparse else plain
    )  # SciPy adds equal cells of one row
    assert shown(one_by_one) == shown(theirs)


def test_value_rowids_are_written_where_they_lose_no_row(tmp_path):
    feature = ragged("int64", "v", ("value_rowids", "p"))
    hr.write(tmp_path / "x.tfrecord", [{"x": Ragged.from_list([[], [1, 2], [3]], "int64")}], schema={"x": feature})
    assert hr.open(tmp_path / "x.tfrecord", schema={"x": feature})[0]["x"].to_list() == [[], [1, 2], [3]]
    with pytest.raises(UnsupportedData, match="a last row with values"):
        hr.write(tmp_path / "y.tfrecord", [{"x": Ragged.from_list([[1], []], "int64")}], schema={"x": feature})


def test_columns_that_do_not_fit_are_refused_on_writing():
    def write(feature, column, n=1):
        ExampleCodec(Schema({"x": feature})).encode_batch({"x": column}, n, 0, 0)

    two = ragged("int64", "v", ("uniform_row_length", 2))
    for feature, column in (
        (SPARSE, scipy.sparse.csr_array((1, 9), dtype=np.float32)),
        (SPARSE, ["x"]),
        (two, Ragged.from_list([[[1, 2, 3]]])),
        (two, Ragged.from_list([[1, 2]])),
        (two, np.zeros((2, 1, 2), np.int64)),
        (two, [1]),
        (FEATURES["nested"], Ragged.from_list([[1, 2]])),
    ):
        with pytest.raises(SchemaMismatch, match="a column of shape"):
            write(feature, column)
    write(two, np.zeros((1, 1, 2), np.int64))


def test_lists_that_two_features_share_are_read_but_not_written_twice(tmp_path):
    schema = {"x": FEATURES["by_limits"], "y": FEATURES["by_lengths"]}
    with pytest.raises(UnsupportedData, match="'values', also used by 'x'"):
        hr.convert(GOLDEN, tmp_path / "x.tfrecord", schema=schema)
    with pytest.raises(UnsupportedData, match="as one type"):
        ExampleCodec(Schema({"x": FEATURES["flat"], "values": Feature("int64", (3,))}))
    with pytest.raises(UnsupportedData, match="as one type"):
        ExampleCodec(Schema({"x": FEATURES["flat"], "y": ragged("bytes", "values")}))


def test_feature_lists_have_no_keys():
    with pytest.raises(UnsupportedData, match="'values', which is a feature list"):
        ExampleCodec(Schema({"x": FEATURES["flat"]}), lists=frozenset({"values"}))


def test_a_schema_without_the_feature(tmp_path):
    with pytest.raises(NoSuchFeature):
        hr.open(GOLDEN, schema=FEATURES, columns=["y"])
    assert list(hr.open(GOLDEN, schema=FEATURES, columns=["nested"])[1]) == ["nested"]


@pytest.mark.parametrize("name", FEATURES)
def test_other_formats_hold_them_or_refuse(tmp_path, name):
    source = hr.open(GOLDEN, schema={name: FEATURES[name]})
    theirs = source.batch(range(12))[name]
    for file in ("x.recordio", "x.parquet", "x.jsonl", "x.avro", "x.array_record"):
        try:
            done = hr.convert(GOLDEN, tmp_path / file, schema=source.schema)
        except UnsupportedData:
            done = (
                hr.convert(GOLDEN, tmp_path / file, schema=source.schema, allow_loss=True)
                if source.schema[name].sparse
                else None
            )
            assert done is None or done.schema[name] == Feature(FEATURES[name].dtype, FEATURES[name].shape)
        if done is not None:
            ours = hr.open(tmp_path / file, schema=done.schema).batch(range(12))[name]
            if FEATURES[name].sparse:
                assert (np.asarray(ours.toarray() if hasattr(ours, "tocsr") else ours) == theirs.toarray()).all()
            else:
                assert plain(ours) == plain(theirs)


def test_sparse_rows_of_int64_stay_sparse_in_recordio(tmp_path):
    done = hr.convert(GOLDEN, tmp_path / "x.recordio", schema={"matrix": MATRIX})
    assert hr.open(tmp_path / "x.recordio").schema["matrix"].sparse
    assert hr.open(tmp_path / "x.recordio", schema=done.schema).batch([3])["matrix"].nnz == 3


def test_torch_gets_them_as_other_sparse_and_ragged_columns():
    pytest.importorskip("torch")
    (batch,) = hr.Loader(hr.open(GOLDEN, schema=FEATURES), 12, to="torch")
    assert entries(batch["matrix"]) == entries_of_tensorflow(EXPECTED["batch"]["matrix"], 12)
    assert len(batch["nested"]) == 12
