"""Names of other libraries: an error that says what to call, and nothing that looks as if it were there."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest

import headrace as hr
from headrace.sources.operations.near_misses import FOR_COLUMNS, FOR_LOADERS, FOR_MIXTURES, FOR_PACKAGE, FOR_SOURCES

SOURCE = hr.ColumnSource({"x": np.arange(6)})[:]


@pytest.mark.parametrize("name", FOR_SOURCES)
def test_a_source_names_the_call(name):
    assert not hasattr(SOURCE, name)
    assert getattr(SOURCE, name, None) is None
    with pytest.raises(AttributeError, match=rf"has no attribute '{name}'\. ") as caught:
        getattr(SOURCE, name)
    assert FOR_SOURCES[name] in str(caught.value)
    assert (caught.value.name, caught.value.obj) == (name, SOURCE)


@pytest.mark.parametrize("name", FOR_LOADERS)
def test_a_loader_names_the_call(name):
    loader = hr.Loader(SOURCE, 2)
    assert not hasattr(loader, name)
    with pytest.raises(AttributeError, match=rf"has no attribute '{name}'\. "):
        getattr(loader, name)


@pytest.mark.parametrize("name", FOR_COLUMNS)
def test_a_column_names_the_call(name):
    column = SOURCE["x"]
    assert not hasattr(column, name)
    with pytest.raises(AttributeError, match=rf"has no attribute '{name}'\. "):
        getattr(column, name)


@pytest.mark.parametrize("name", FOR_PACKAGE)
def test_the_package_names_the_call(name):
    assert not hasattr(hr, name)
    with pytest.raises(AttributeError, match=rf"^module 'headrace' has no attribute '{name}'\. "):
        getattr(hr, name)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: SOURCE["y"], hr.NoSuchFeature, "found 'y'"),
        (lambda: hr.ColumnSource({"label": [1]})["lable"], hr.NoSuchFeature, "Did you mean 'label'"),
        (lambda: SOURCE.batch(32), TypeError, r"hr\.Loader\(source, 32\)"),
        (lambda: SOURCE.where(SOURCE["x"] > 1), TypeError, r"source\[mask\] chooses"),
        (lambda: SOURCE.where(6), IndexError, "outside a source of 6"),
        (lambda: SOURCE.filter("x > 1"), TypeError, r"write filter\(hr\.condition\('x > 1'\)\)"),
        (lambda: SOURCE.select(["x"]), TypeError, r"write select\('x'\)"),
        (lambda: SOURCE.concat([SOURCE, SOURCE]), TypeError, r"source\.concat\(one, other\)"),
        (lambda: hr.from_generator([{"x": 1}]), TypeError, r"hr\.open\(iterable\)"),
        (lambda: hr.from_generator(iter([])), TypeError, "a function that yields examples"),
    ],
)
def test_calls_that_miss_name_the_one_that_does_it(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("name", FOR_MIXTURES)
def test_operations_on_mixtures_name_the_source(name):
    mixture = hr.Mixture({SOURCE: 1})
    with pytest.raises(AttributeError, match=rf"hr\.Source\(mixture\)\.{name}\("):
        getattr(mixture, name)
    assert hasattr(hr.Source(mixture), name)


def test_the_calls_exist():
    tables = (
        (FOR_SOURCES, hr.Source),
        (FOR_LOADERS, hr.Loader),
        (FOR_MIXTURES, hr.Mixture),
        (FOR_COLUMNS, type(SOURCE["x"])),
        (FOR_PACKAGE, hr),
    )
    for table, own in tables:
        for name, hint in table.items():
            assert not hasattr(own, name), name
            for method in re.findall(r"\bsource\.(\w+)\(", hint):
                assert hasattr(hr.Source, method), hint
            for function in re.findall(r"\bhr\.(\w+)", hint):
                assert hasattr(hr, function), hint
            for function in re.findall(r"\bnumpy\.(\w+)", hint):
                assert hasattr(np, function), hint


def test_other_names_are_refused_as_always():
    with pytest.raises(AttributeError, match=r"^'Source' object has no attribute 'nonsense'$"):
        SOURCE.nonsense
    assert not hasattr(SOURCE, "__array__")
    assert not hasattr(hr.Source.__new__(hr.Source), "schema")
    assert pickle.loads(pickle.dumps(SOURCE))[1] == {"x": 1}


def test_a_property_that_fails_keeps_its_own_message():
    with pytest.raises(AttributeError, match="has no records"):
        SOURCE.records
    with pytest.raises(AttributeError, match="has no records"):
        SOURCE.format


def test_hints_of_columns_can_be_followed():
    with pytest.raises(AttributeError, match=r"numpy\.asarray\(column\)\.astype\(dtype\)"):
        hr.ColumnSource({"x": [1]})["x"].astype(int)
    with pytest.raises(AttributeError, match=r"""hr\.condition\("name contains 'text'"\)"""):
        _ = hr.ColumnSource({"x": ["a"]})["x"].str
