"""The first examples of files."""

import headrace as hr
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
