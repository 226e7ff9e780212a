"""The examples of a batch."""

import os
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import sparse

import headrace as hr
from headrace.sources.node import list_rows
from headrace.sources.stacking import row
from headrace.testing.data import assert_same

COLUMNS = {
    "integers": np.arange(3, dtype=np.uint8),
    "matrices": np.arange(12.0).reshape(3, 2, 2),
    "words": hr.Strings.from_values(["a", "", "ü\0"], is_text=True),
    "bytes": hr.Strings.from_values([b"a\0", b"", b"\xff"], is_text=False),
    "pairs": hr.Strings.from_values([["a", "b"], ["c", "d"], ["e", "f"]], is_text=True),
    "ragged": hr.Ragged.from_list([[1, 2], [], [3]]),
    "nested": hr.Ragged(hr.Ragged.from_list([[1], [], [2, 3]]), np.array([0, 2, 2, 3])),
    "ragged words": hr.Ragged(hr.Strings.from_values(["x", "y", "z"], is_text=True), np.array([0, 0, 2, 3])),
    "objects": np.array(["a", None, 7], object),
    "images": [np.zeros((1, 2), np.uint8), np.ones((2, 1), np.uint8), np.zeros((0, 3), np.uint8)],
    "sparse": sparse.csr_array(np.eye(3, 5)),
}


@pytest.mark.parametrize("names", [(name,) for name in COLUMNS] + [tuple(COLUMNS)])
def test_rows_are_those_of_the_columns(names):
    batch = {name: COLUMNS[name] for name in names}
    rows = list_rows(batch, 3)
    assert [list(each) for each in rows] == [list(names)] * 3
    for at, found in enumerate(rows):
        for name, value in row(batch, at).items():
            assert type(found[name]) is type(value)
            if hasattr(value, "tocsr"):
                assert found[name].toarray().tolist() == value.toarray().tolist()
            else:
                assert_same(found[name], value, what=name)


def test_rows_are_views():
    columns = {"x": np.zeros((2, 3)), "v": hr.Ragged(np.zeros(4), np.array([0, 1, 4]))}
    for each in list_rows(columns, 2):
        each["x"][0] = each["v"][0] = 1
    assert columns["x"][:, 0].tolist() == [1, 1]
    assert columns["v"].values.tolist() == [1, 1, 0, 0]


def test_without_columns_there_are_still_examples():
    rows = list_rows({}, 2)
    assert rows == [{}, {}]
    assert rows[0] is not rows[1]
    assert list_rows({"x": np.zeros(0)}, 0) == []


class Plain:
    """An object that Python shows by its address."""


@dataclass
class Pair:
    one: object


class Objects:
    """A source of one's own, whose examples have an object."""

    schema = hr.Schema({"v": hr.Feature("bytes")})

    def __init__(self, value):
        self.value = value

    def __len__(self):
        return 2

    def batch(self, indices):
        column = np.empty(len(indices), object)
        column[:] = [self.value] * len(indices)
        return {"v": column}

    def where(self, index):
        return hr.Where(record=index)


FINGERPRINTS = """
import numpy as np
from tests.sources.test_node import Objects, Pair, Plain
import headrace as hr
values = [Plain(), Pair(Plain()), Pair({"a", "b", "c", "d"}), {"a", "b", "c", "d"}, [{"x": {"a", "b", "c"}}], len, lambda: 0]
for value in values:
    print(hr.Source(Objects(value)).fingerprint)
print(hr.ColumnSource({"i": np.arange(2)}).map(lambda example: {name: example["i"] for name in {"a", "b", "c", "d"}}).fingerprint)
"""


def test_objects_have_the_same_fingerprint_in_every_process():
    found = [
        subprocess.run(
            [sys.executable, "-c", FINGERPRINTS],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert found[0] == found[1]
    assert len(set(found[0].split())) == 8


def test_a_source_in_the_place_of_a_node():
    source = hr.ColumnSource({"i": np.arange(4)})
    assert [batch["i"].tolist() for batch in hr.Loader(hr.Source(source), 3)] == [[0, 1, 2], [3]]
