"""Records as examples, and the first ones of files."""

import numpy as np
import pytest

import headrace as hr
from headrace.errors import SchemaMismatch
from headrace.sources.images import SAMPLE


def test_the_first_rows_are_those_of_the_file_up_to_damage(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,b\n" + "".join(f"{k},text {k}\n" for k in range(300)))
    node = hr.open(path).node
    assert node.head(3) == [{"a": k, "b": f"text {k}"} for k in range(3)]
    assert len(node.head(1000)) == 300
    path.write_text("a,b\n1,x\n2,y\n3\n4,z\n")
    assert node.head(0) == hr.open(path).node.head(0) == []
    assert [row["b"] for row in hr.open(path).node.head(9)] == ["x", "y"]


def test_opening_lists_no_more_rows_than_it_looks_at(tmp_path, monkeypatch):
    """A block of a file has thousands of them."""
    path = tmp_path / "x.csv"
    path.write_text("a,b\n" + "".join(f"{k},text {k}\n" for k in range(5_000)))
    listed = []
    monkeypatch.setattr("headrace.sources.records.list_rows", lambda batch, count: listed.append(count) or [])
    hr.open(path)
    assert 0 < sum(listed) <= 1 + SAMPLE


def test_a_shape_takes_all_columns_of_its_name(tmp_path):
    """With fewer values than the columns hold, images would be sheared without a word."""
    path = tmp_path / "x.csv"
    hr.write(path, {"v": np.arange(8).reshape(2, 4), "y": np.arange(2)})
    for count in (1, 3):
        schema = {"v": hr.Feature("int64", (count,)), "y": hr.Feature("int64")}
        message = rf"expected {count} columns, as the shape \({count},\) has values, found 4, v_0 to v_3 - at .*x.csv"
        with pytest.raises(SchemaMismatch, match=message):
            hr.open(path, schema=schema)
    every = {"v": hr.Feature("int64", (3,)), "v_3": hr.Feature("int64")}
    assert hr.open(path, schema=every).select("v").batch([1])["v"].tolist() == [[4, 5, 6]]
    bare = hr.CSV(header=False)
    hr.write(path, {"v": np.arange(8).reshape(2, 4)}, format=bare)
    source = hr.open(path, format=bare, schema={"c": hr.Feature("int64", (3,))})
    assert source.batch([1])["c"].tolist() == [[4, 5, 6]]
    named = hr.CSV(header=["p0", "p1", "p2", "p3"])
    with pytest.raises(SchemaMismatch, match="found 4, p0 to p3"):
        hr.open(path, format=named, schema={"p": hr.Feature("int64", (3,))})
