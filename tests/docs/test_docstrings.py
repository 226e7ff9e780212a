"""The examples of docstrings, run with the names that they use."""

import doctest
import pkgutil
from importlib import import_module

import numpy as np
import pytest

import headrace as hr
from headrace.datasets import features
from headrace.sagemaker import Session

NOT_MODULES = {"headrace._native", "headrace.__main__", "headrace.containers.toolkit.site"}
NAMES = [
    module.name
    for module in pkgutil.walk_packages(hr.__path__, "headrace.")
    if module.name not in NOT_MODULES and not module.name.startswith("headrace.containers.toolkit.site.")
]


def examples():
    found = {}
    for name in NAMES:
        module = import_module(name)
        for test in doctest.DocTestFinder(exclude_empty=True).find(module, name):
            if test.examples:
                found[test.name] = test
    return found


EXAMPLES = examples()


def test_there_are_examples():
    assert len(EXAMPLES) > 40


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name, tmp_path):
    test = EXAMPLES[name]
    test.globs = {"tmp": tmp_path, "np": np, "hr": hr, "Session": Session, **vars(features), **test.globs}
    report = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=report.append)
    assert not report, "".join(report)
