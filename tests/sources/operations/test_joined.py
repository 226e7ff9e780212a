"""Several nodes as one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.errors import SchemaMismatch
from headrace.sources.operations.joined import Concatenated, Zipped
from headrace.sources.tables import ColumnNode


def numbers(start, n, name="x"):
    return ColumnNode({name: np.arange(start, start + n)})


@given(st.lists(st.integers(0, 5), min_size=1, max_size=6), st.data())
def test_any_indices_from_any_parts(sizes, data):
    ends = np.cumsum(sizes)
    parents = [numbers(int(end - size), size) for end, size in zip(ends, sizes, strict=True)]
    chosen = data.draw(st.lists(st.integers(0, max(int(ends[-1]) - 1, 0)), max_size=20 if ends[-1] else 0))
    batch = Concatenated(tuple(parents)).batch(np.array(chosen, np.int64))
    assert batch["x"].tolist() == chosen


def test_features_side_by_side():
    assert list(Zipped((numbers(0, 3), numbers(0, 3, "y"))).schema) == ["x", "y"]
    with pytest.raises(SchemaMismatch, match=r"every feature name once.*rename"):
        Zipped((numbers(0, 3), numbers(0, 3)))
    with pytest.raises(SchemaMismatch, match="3 examples, found 4"):
        Zipped((numbers(0, 3), numbers(0, 4, "y")))


def test_parts_have_the_same_features():
    assert len(Concatenated((numbers(0, 3), numbers(0, 4)))) == 7
    with pytest.raises(SchemaMismatch, match="'y'"):
        Concatenated((numbers(0, 3), numbers(0, 4, "y")))


def kinds_of_sources():
    """Parts of sources that differ, and the names of what differs."""
    ints = hr.ColumnSource({"x": np.arange(3, dtype="i4"), "y": np.arange(3)})
    drawn = hr.ColumnSource({"x": np.arange(3.0)}).map(lambda e, rng: {"x": e["x"] + rng.random()}, seeded=True)
    return {
        "shapes": [hr.ColumnSource({"x": np.full((3, 2 + i % 2), i)}) for i in range(400)],
        "seeded": [drawn] * 400,
        "dtypes": [ints, *[hr.ColumnSource({"y": np.ones(3, "f4"), "x": np.array([7, 8, 9])}), ints] * 199, ints],
    }


@pytest.mark.parametrize("kind", ["shapes", "seeded", "dtypes"])
def test_concat_in_a_loop_does_not_nest(kind):
    parts = kinds_of_sources()[kind]
    joined = parts[0]
    for part in parts[1:]:
        joined = joined.concat(part)
    assert len(joined) == 1200
    assert len(joined.node.parents) == 400
    at_once = parts[0].concat(*parts[1:])
    assert joined.schema == at_once.schema
    for first in (0, 600, 1190):
        found, wanted = joined.batch(range(first, first + 10)), at_once.batch(range(first, first + 10))
        assert {name: column.dtype for name, column in found.items()} == {
            name: f.dtype for name, f in joined.schema.items()
        }
        for name in found if kind != "seeded" else ():
            assert all(map(np.array_equal, found[name], wanted[name]))


def test_concat_of_numbers_first_makes_them_as_wide_as_all():
    small, middle, large = (hr.ColumnSource({"x": np.array([1, 2], dtype)}) for dtype in ("i1", "i2", "f4"))
    joined = small.concat(middle).concat(large).concat(small.concat(middle))
    assert len(joined.node.parents) == 5
    assert joined.schema["x"].dtype == "float32"
    assert joined.batch(range(10))["x"].tolist() == [1, 2] * 5


def test_class_names_that_were_given_up_stay_given_up(tmp_path):
    def named(*names):
        schema = {"x": hr.Feature("int64", names=names or None)}
        hr.write(tmp_path / f"{len(names)}{names[:1]}.parquet", {"x": np.array([0])}, schema=schema)
        return hr.open(tmp_path / f"{len(names)}{names[:1]}.parquet")

    joined = named("cat").concat(named())
    assert joined.schema["x"].names is None
    assert joined.concat(named("dog")).schema["x"].names is None
    assert joined.concat(named("dog")).select("x").batch([0, 1, 2])["x"].tolist() == [0, 0, 0]
    with pytest.raises(SchemaMismatch, match="cat"):
        named("cat").concat(named("dog"))
