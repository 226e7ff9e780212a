"""One type for a feature of several sources."""

import numpy as np
import pytest
from scipy import sparse

import headrace as hr

DAY, SECOND = np.array(["2020-01-02"], "M8[D]"), np.array(["2020-01-02T03:04:05"], "M8[s]")


def source(values):
    return hr.ColumnSource({"x": values})


@pytest.mark.parametrize(
    ("first", "second", "dtype"),
    [
        (np.array([1], "i1"), np.array([300]), "int64"),
        (np.array([-1], "i1"), np.array([255], "u1"), "int16"),
        (np.array([0.1], "f4"), np.array([0.1]), "float64"),
        (np.array([2**53]), np.array([0.5]), "float64"),
        (np.array([2]), np.array([True]), "int64"),
        (np.array([2]), np.array([1j]), "complex128"),
        (DAY, SECOND, "M8[s]"),
        (np.array([[1, 2]], "u1"), np.array([[300, -1]]), "int64"),
        (hr.Ragged.from_list([[1], [2, 3]], "i1"), hr.Ragged.from_list([[300], []], "i8"), "int64"),
    ],
)
def test_numbers_get_a_dtype_that_holds_all(first, second, dtype):
    for one, two in ((first, second), (second, first)):
        both = source(one).concat(source(two))
        wanted = [*one, *two]
        assert both.schema["x"].dtype == dtype
        for indices in ([0], [len(both) - 1], range(len(both)), range(len(both) - 1, -1, -1)):
            column = both.batch(list(indices))["x"]
            assert column.dtype == dtype
            for at, index in enumerate(indices):
                assert np.array_equal(column[at], wanted[index])
        assert all(np.array_equal(example["x"], value) for example, value in zip(both, wanted, strict=True))
        if dtype != "complex128":
            assert len(both.to_arrow()) == len(both)
        assert {batch["x"].dtype for batch in hr.Loader(both, 1)} == {np.dtype(dtype)}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (np.array([1]), np.array([2], "u8")),
        (np.array([1]), ["a"]),
        (["a"], [b"a"]),
        (np.array([1]), np.ones((1, 2))),
        (DAY, np.array([1], "m8[s]")),
        (DAY, np.array([1])),
        (sparse.csr_array(np.eye(2)), np.eye(2)),
    ],
)
def test_other_values_are_refused(first, second):
    for make in (
        lambda: source(first).concat(source(second)),
        lambda: hr.Mixture([(source(first), 1), (source(second), 1)]),
    ):
        with pytest.raises(hr.SchemaMismatch, match="as in the first source") as raised:
            make()
        assert raised.value.where.feature == "x"


def test_an_integer_that_no_float_equals_is_named():
    both = source(np.array([0.5])).concat(source(np.array([7, 2**53 + 1])))
    assert both[1]["x"] == 7
    for read in (lambda: both[2], lambda: both.batch([0, 2]), lambda: list(both), both.to_arrow, both.to_pandas):
        with pytest.raises(hr.SchemaMismatch, match="9007199254740993") as raised:
            read()
        assert (raised.value.where.feature, raised.value.where.record) == ("x", 1)


def test_a_source_without_examples_has_any_type():
    assert source([]).concat({"x": ["a"]})[0] == {"x": "a"}
    assert source([]).concat({"x": np.array([1], "i1")}, source(np.zeros((0, 2)))).schema["x"] == hr.Feature("int8")


def test_what_the_wider_dtype_cannot_have_is_dropped(tmp_path):
    hr.write(tmp_path / "x.parquet", {"x": np.array([0, 1])}, schema={"x": hr.Feature("int8", names=("a", "b"))})
    named = hr.open(tmp_path / "x.parquet")
    assert named.concat({"x": np.array([1])}).schema["x"] == hr.Feature("int64", names=("a", "b"))
    assert named.concat({"x": np.array([0.5])}).schema["x"] == hr.Feature("float64")


def test_sparse_rows():
    narrow = sparse.csr_array(np.eye(2, dtype="f4"))
    both = source(narrow).concat(source(sparse.csr_array(np.eye(2))))
    assert both.schema["x"] == hr.Feature("float64", (2,), sparse=True)
    assert both.batch([0])["x"].dtype == both.batch([0, 3])["x"].dtype == np.float64
    assert both.batch([0, 3])["x"].toarray().tolist() == [[1, 0], [0, 1]]


def test_a_mixture_has_one_dtype():
    mixture = hr.Mixture([(source(np.array([1, 2], "i1")), 1), (source(np.array([0.5, 1.5])), 1)])
    assert mixture.schema["x"].dtype == "float64"
    assert [mixture.batch([at])["x"].dtype for at in (0, 1)] == [np.float64] * 2
    assert [(example["x"], example["x"].dtype) for example in mixture] == [(x, np.float64) for x in (1, 0.5, 2, 1.5)]
    assert hr.Mixture([(mixture, 1), (source(np.array([1j])), 1)]).schema["x"].dtype == "complex128"
    wrong = hr.Mixture([(source(np.array([0.5])), 1), (source(np.array([2**53 + 1])), 1)])
    with pytest.raises(hr.SchemaMismatch) as raised:
        wrong.batch([0, 1])
    assert (raised.value.where.feature, raised.value.where.record) == ("x", 0)


def test_parts_of_different_kinds_are_narrowed(tmp_path):
    columns = {"x": np.arange(3), "y": np.arange(3)}
    hr.write(tmp_path / "x.tfrecord", columns)
    file = hr.open(tmp_path / "x.tfrecord")
    for other in (hr.ColumnSource(columns), file.map(dict)):
        for both in (file.concat(other), other.concat(file)):
            assert both.select("x").batch([0, 4])["x"].tolist() == [0, 1]
