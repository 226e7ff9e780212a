"""Features that a format cannot hold unchanged."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import headrace as hr
from headrace.contracts.values import Ragged
from headrace.writing.fitting import convert_to_fit, find_misfits

WIDE = 0.1  # float32 does not hold it


def columns(value):
    """Columns of float64 of every kind, whose last row has this value."""
    return {
        "plain": np.array([1.0, value]),
        "ragged": Ragged.from_list([[1.0, 2.0], [value]], np.float64),
        "nested": Ragged(Ragged.from_list([[1.0], [2.0, 3.0], [value]], np.float64), np.array([0, 2, 3])),
        "list": [np.ones((1, 2)), np.full((2, 3), value)],
    }


@pytest.mark.parametrize("name", columns(0))
def test_values_that_fit_are_stored_as_they_are(name):
    source = hr.ColumnSource({name: columns(0.5)[name]})
    fitted, _, lost = convert_to_fit(source, "x", "tfrecord", "example")
    assert lost == ()
    assert fitted.schema[name].dtype == "float32"
    found = fitted.batch([1, 0])[name]
    values = found[0]
    while isinstance(values, Ragged):
        values = values.values
    assert np.asarray(values).dtype == np.float32
    assert 0.5 in np.asarray(values)
    assert fitted.where(1).record == 1
    assert fitted.skipped == hr.Skipped()


@pytest.mark.parametrize("name", columns(0))
def test_the_first_value_that_does_not_fit_is_named(name):
    source = hr.ColumnSource({name: columns(WIDE)[name]})
    fitted, _, _ = convert_to_fit(source, "x", "tfrecord", "example")
    with pytest.raises(
        hr.UnsupportedData, match=r"values that float32 holds exactly, found 0\.1 .*allow_loss"
    ) as raised:
        fitted.batch([0, 1])
    assert (raised.value.where.record, raised.value.where.feature) == (1, name)
    fitted.batch([0])


@pytest.mark.parametrize("name", columns(0))
def test_what_is_lost_is_said_where_that_is_allowed(name):
    source = hr.ColumnSource({name: columns(WIDE)[name]})
    fitted, _, lost = convert_to_fit(source, "x", "tfrecord", "example", allow_loss=True)
    assert len(lost) == 1
    assert str(lost[0]).startswith(f"'{name}' is stored as Feature('float32'")
    fitted.batch([0, 1])


def test_sparse_rows_are_cast_too():
    source = hr.ColumnSource({"x": sp.csr_array(np.array([[0, 7], [0, 2**40]]))})
    fitted, _, _ = convert_to_fit(source, "x", "recordio")
    assert fitted.batch([0])["x"].dtype == np.int32
    with pytest.raises(hr.UnsupportedData, match=f"int32 holds exactly, found {2**40} - at record 1"):
        fitted.batch([0, 1])
    dense, _, lost = convert_to_fit(source, "x", "tfrecord", "example", allow_loss=True)
    assert dense.batch([0, 1])["x"].tolist() == [[0, 7], [0, 2**40]]
    assert len(lost) == 1


def test_wide_numbers_are_clipped_rather_than_wrapped():
    source = hr.ColumnSource({"x": np.array([2**40, -(2**40), 7])})
    fitted, _, lost = convert_to_fit(source, "x", "recordio", allow_loss=True)
    assert fitted.batch([0, 1, 2])["x"].tolist() == [2**31 - 1, -(2**31), 7]
    assert [loss.feature for loss in lost] == ["x"]


def test_raw_files_hold_one_feature_of_bytes():
    schema = hr.Schema({"record": hr.Feature("bytes"), "x": hr.Feature("int64")})
    assert [misfit.feature for misfit in find_misfits(schema, "tfrecord", "raw")] == ["x"]
    assert find_misfits(schema.select(["record"]), "tfrecord") == []


def test_what_a_format_holds_instead():
    sparse = hr.Feature("float32", (4,), sparse=True)
    schema = hr.Schema({"sparse": sparse, "when": hr.Feature("M8[s]", (2,)), "text": hr.Feature("str")})
    assert {misfit.feature: misfit.instead for misfit in find_misfits(schema, "tfrecord", "example")} == {
        "sparse": hr.Feature("float32", (4,)),
        "when": hr.Feature("int64", (2,)),
    }
    assert {misfit.feature: misfit.instead for misfit in find_misfits(schema, "npz")} == {"sparse": None, "text": None}
    assert [misfit.feature for misfit in find_misfits(schema, "recordio", "sagemaker_record")] == ["when"]
