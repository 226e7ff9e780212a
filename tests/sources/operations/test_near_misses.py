"""Names of other libraries: an error that says what to call, and nothing that looks as if it were there."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest

import headrace as hr
from headrace.sources.operations.near_misses import FOR_LOADERS, FOR_SOURCES

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


def test_the_calls_exist():
    for table, own in ((FOR_SOURCES, hr.Source), (FOR_LOADERS, hr.Loader)):
        for name, hint in table.items():
            assert not hasattr(own, name), name
            for method in re.findall(r"\bsource\.(\w+)\(", hint):
                assert hasattr(hr.Source, method), hint
            for function in re.findall(r"\bhr\.(\w+)", hint):
                assert hasattr(hr, function), hint


def test_other_names_are_refused_as_always():
    with pytest.raises(AttributeError, match=r"^'Source' object has no attribute 'nonsense'$"):
        SOURCE.nonsense
    assert not hasattr(SOURCE, "__array__")
    assert not hasattr(hr.Source.__new__(hr.Source), "schema")
    assert pickle.loads(pickle.dumps(SOURCE))[1] == {"x": 1}


def test_a_property_that_fails_keeps_its_own_message():
    with pytest.raises(AttributeError, match="has no records of its own"):
        SOURCE.records
    with pytest.raises(AttributeError, match="has no records of its own"):
        SOURCE.format
