"""A whole source as one matrix, and the lengths of its texts."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.errors import NoSuchFeature, UnsupportedData
from headrace.sources import matrices
from headrace.sources.matrices import count_characters
from headrace.sources.source import ColumnSource

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "recordio"


def test_dense_files():
    for dtype in ("float32", "float64", "int64"):
        source = hr.open(GOLDEN / f"dense_{dtype}.recordio")
        matrix, labels = source.to_numpy()
        assert matrix.shape == (9, 5)
        assert matrix.dtype == np.dtype(dtype if dtype != "int64" else "int32")
        assert np.array_equal(matrix, source.batch(range(9))["values"])
        assert np.array_equal(labels, source.batch(range(9))["label"])
        unlabelled = hr.open(GOLDEN / f"dense_{dtype}_unlabelled.recordio").to_numpy()
        assert np.array_equal(unlabelled[0], matrix)
        assert unlabelled[1] is None
        assert np.array_equal(source.to_csr()[0].toarray(), matrix)


def test_sparse_files():
    dense = np.load(GOLDEN / "sparse_dense_equivalent.npy")
    for form in ("csr", "csc", "coo", "lil"):
        source = hr.open(GOLDEN / f"sparse_{form}.recordio")
        matrix, labels = source.to_csr()
        assert isinstance(matrix, sp.csr_array)
        assert np.array_equal(matrix.toarray(), dense)
        assert labels.tolist() == list(range(11))
        assert np.array_equal(source[2:5].to_csr()[0].toarray(), dense[2:5])
    with pytest.raises(UnsupportedData, match=r"found Feature\('float32', \(30,\), sparse=True\).*to_csr\(\)"):
        source.to_numpy()


def test_views_and_other_sources(tmp_path):
    columns = {"image": np.arange(12.0).reshape(3, 2, 2), "label": np.array([3, 1, 2])}
    source = ColumnSource(columns)
    matrix, labels = source[::-1].to_numpy()
    assert np.array_equal(matrix, columns["image"][::-1])
    assert labels.tolist() == [2, 1, 3]
    hr.write(tmp_path / "x.tfrecord.gz", {"image": columns["image"].astype(np.float32), "label": columns["label"]})
    for path in (tmp_path / "x.tfrecord.gz",) * 2:  # streamed, then from the cache
        matrix, labels = hr.open(path).to_numpy()
        assert np.array_equal(matrix.reshape(3, 2, 2), columns["image"])
        assert labels.tolist() == [3, 1, 2]


def test_choice_of_features():
    columns = {
        "a": np.zeros((2, 3)),
        "b": np.ones((2, 3)),
        "name": np.array(["x", "y"], object),
        "label_score": np.arange(2.0),
    }
    source = ColumnSource(columns)
    with pytest.raises(NoSuchFeature, match=r"one possible feature, found \['a', 'b'\].*feature="):
        source.to_numpy()
    assert source.to_numpy("b")[0].all()
    assert source.to_numpy("b")[1].tolist() == [0, 1]
    assert source.to_numpy("a", label="name")[1].tolist() == ["x", "y"]
    assert source.select("a", "name").to_numpy()[1] is None
    with pytest.raises(NoSuchFeature):
        source.to_numpy("c")
    with pytest.raises(NoSuchFeature):
        source.to_numpy("a", label="c")
    with pytest.raises(NoSuchFeature, match="none among"):
        source.select("name").to_csr()
    with pytest.raises(NoSuchFeature, match="label="):
        source.rename({"b": "label_b"}).to_numpy()


def test_sources_that_are_not_matrices():
    ragged = ColumnSource({"x": hr.Ragged.from_list([[1], [2, 3]])})
    for act in (ragged.to_numpy, ragged.to_csr):
        with pytest.raises(UnsupportedData, match="rows of varying length make no matrix"):
            act()
    with pytest.raises(UnsupportedData, match=r"one axis, found one of shape \(2, 2\)"):
        ColumnSource({"x": np.zeros((3, 2, 2))}).to_csr()
    labels = ColumnSource({"x": np.zeros((2, 2)), "label": hr.Ragged.from_list([[1], [2, 3]])})
    with pytest.raises(UnsupportedData, match="feature 'label'"):
        labels.to_numpy()


def test_sparse_columns_in_memory_and_back(tmp_path):
    matrix = sp.random(20, 7, 0.3, format="csr", random_state=1)
    source = ColumnSource({"values": sp.csr_array(matrix), "label": np.arange(20)})
    assert source.fingerprint != ColumnSource({"values": sp.csr_array(matrix * 2), "label": np.arange(20)}).fingerprint
    assert source.schema["values"] == hr.Feature("float64", (7,), sparse=True)
    hr.write(tmp_path / "x.recordio", source)
    with hr.Writer(tmp_path / "y.recordio@2") as writer:
        for example in source:
            writer.write(example)
    for path in (tmp_path / "x.recordio", tmp_path / "y.recordio@2"):
        found, labels = hr.open(path).to_csr()
        order = np.argsort(labels)
        assert (found[order] != matrix).nnz == 0
        assert labels[order].tolist() == list(range(20))


@pytest.mark.parametrize("rows", [3, 20_000])
def test_a_compressed_file_is_read_in_order(tmp_path, rows):
    hr.write(tmp_path / "x.tfrecord.gz", {"values": np.arange(rows * 2).reshape(rows, 2), "label": np.arange(rows)})
    values, labels = hr.open(tmp_path / "x.tfrecord.gz").to_numpy()
    assert values.tolist() == np.arange(rows * 2).reshape(rows, 2).tolist()
    assert labels.tolist() == list(range(rows))


def test_characters_of_a_slice_are_counted_without_the_rest():
    texts = hr.Strings.from_values([f"{i} é" for i in range(100_000)])
    some = texts[50_000:50_003]
    tracemalloc.start()
    assert count_characters(some).tolist() == [7, 7, 7]
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 10_000
    assert count_characters(texts[:0]).tolist() == []


@given(st.lists(st.text(max_size=9)), st.integers(1, 12), st.integers(0, 3))
def test_characters_are_counted(texts, at_once, begin):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matrices, "COUNTED_BYTES", at_once)
        found = count_characters(hr.Strings.from_values(texts, is_text=True)[begin:])
    assert (found.dtype, found.tolist()) == (np.int64, [len(text) for text in texts[begin:]])


def test_characters_are_counted_in_little_memory():
    texts = hr.Strings.from_values(["é" * 500] * 5000)
    tracemalloc.start()
    assert set(count_characters(texts).tolist()) == {500}
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < texts.nbytes
