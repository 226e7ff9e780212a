"""Sparse features through a loader."""

import numpy as np
import pytest
import scipy.sparse

import headrace as hr
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
