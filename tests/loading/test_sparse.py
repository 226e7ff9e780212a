"""Sparse features through a loader."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

import headrace as hr
from headrace.contracts.feature import Feature
from headrace.contracts.feature_keys import RaggedKeys, SparseKeys
from headrace.testing import kinds_batch, kinds_schema

N = 500
KINDS = ("sparse", "int32")


@pytest.fixture
def whole():
    return kinds_batch(N, KINDS) | {"int32": np.arange(N, dtype=np.int32)}


@pytest.fixture
def source(tmp_path, whole):
    hr.write(tmp_path / "x.recordio", whole, schema=kinds_schema(KINDS))
    return hr.open(tmp_path / "x.recordio")


@pytest.mark.parametrize("batch_size", [1, 7, 128, N])
@pytest.mark.parametrize(
    "options", [{}, {"shuffle": True, "seed": 1}, {"prefetch": 4, "threads": 3}, {"drop_last": True}]
)
def test_rows_stay_with_their_examples(source, whole, batch_size, options):
    rows = whole["sparse"].toarray()
    seen = []
    for batch in hr.Loader(source, batch_size, **options):
        assert isinstance(batch["sparse"], scipy.sparse.csr_array)
        assert batch["sparse"].shape == (len(batch["int32"]), 40)
        assert np.array_equal(batch["sparse"].toarray(), rows[batch["int32"]])
        seen.extend(batch["int32"].tolist())
    kept = N // batch_size * batch_size if options.get("drop_last") else N
    assert len(seen) == len(set(seen)) == kept


def test_a_batch_outlives_the_loader(source, whole):
    kept = list(hr.Loader(source, 64))
    stacked = scipy.sparse.vstack([batch["sparse"] for batch in kept]).toarray()
    assert np.array_equal(stacked, whole["sparse"].toarray())


@pytest.mark.parametrize(
    "to", [pytest.param("torch", marks=pytest.mark.torch), pytest.param("jax", marks=pytest.mark.jax)]
)
def test_they_stay_scipys_for_other_libraries(source, whole, to):
    """These libraries lack generally usable sparse rows; the other features are converted."""
    batch = next(iter(hr.Loader(source, 32, to=to)))
    assert isinstance(batch["sparse"], scipy.sparse.csr_array)
    assert not isinstance(batch["int32"], np.ndarray)
    assert np.array_equal(batch["sparse"].toarray(), whole["sparse"].toarray()[:32])


KEYS = Path(__file__).resolve().parents[1] / "golden" / "tfrecord" / "keys.tfrecord"
KEY_FEATURES = {
    "vector": Feature("float32", keys=SparseKeys("cell", "weight", 10)),
    "matrix": Feature("int64", keys=SparseKeys(["row", "column"], "number", [3, 4])),
    "lengths": Feature("int64", keys=RaggedKeys("values", [("row_lengths", "lengths")])),
    "nested": Feature("int64", keys=RaggedKeys("values", [("row_splits", "outer_splits"), ("row_lengths", "lengths")])),
    "text": Feature("bytes", keys=RaggedKeys("texts", [("row_splits", "splits")])),
}


def as_lists(value):
    if isinstance(value, hr.Ragged):
        return [as_lists(row) for row in value]
    return value.tolist() if hasattr(value, "tolist") else value


@pytest.mark.parametrize(
    "to", [pytest.param("torch", marks=pytest.mark.torch), pytest.param("jax", marks=pytest.mark.jax)]
)
@pytest.mark.parametrize("name", KEY_FEATURES)
def test_features_of_several_lists_in_other_libraries(name, to):
    source = hr.open(KEYS, schema={name: KEY_FEATURES[name]})
    expected = source.batch(range(len(source)))[name]
    (batch,) = hr.Loader(source, len(source), to=to)
    found = batch[name]
    if KEY_FEATURES[name].sparse:
        assert isinstance(found, scipy.sparse.csr_array)
        assert (found != expected).nnz == 0
        return
    assert as_lists(found) == as_lists(expected)
    values, offsets = found.values, [found.offsets]
    while isinstance(values, hr.Ragged):
        values, offsets = values.values, [*offsets, values.offsets]
    assert isinstance(values, hr.Strings) == (name == "text")
    if name != "text":
        assert type(values).__module__.partition(".")[0] in (to, "jaxlib")
    assert all(isinstance(each, np.ndarray) == (to == "jax") for each in offsets)
