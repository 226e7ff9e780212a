"""Records as examples, and the first ones of files."""

import gc
import os
import pickle
import weakref

import numpy as np
import pytest

import headrace as hr
from headrace.contracts.values import take_rows
from headrace.errors import CorruptFile, CorruptRecord, SchemaMismatch
from headrace.sources.images import SAMPLE
from headrace.testing import assert_same


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


ROWS = 700
COLUMNS = {
    "i": np.arange(ROWS) * 7,
    "f": np.arange(ROWS) / 8,
    "b": np.arange(ROWS) % 3 == 0,
    "t": np.array([f"text {row}, é" * (row % 4) for row in range(ROWS)], object),
}
LISTS = {"l": hr.Ragged(np.arange(ROWS * 2), np.cumsum([0, *(row % 5 for row in range(ROWS))]))}
TEXT = {"x.csv": COLUMNS, "x.csv.gz": COLUMNS, "x.jsonl": COLUMNS | LISTS}


@pytest.fixture
def kept_soon(monkeypatch):
    """Rows of text are kept once as many have been asked for as there are."""
    monkeypatch.setattr("headrace.formats.table.copies.MORE_ROWS", 0)
    monkeypatch.setattr("headrace.formats.table.copies.MORE", 1 << 40)


@pytest.fixture(params=TEXT)
def text(request, tmp_path, kept_soon):
    """A file of text, whose rows are parsed in the first two epochs."""
    hr.write(tmp_path / request.param, TEXT[request.param])
    return tmp_path / request.param


@pytest.mark.parametrize("options", [{}, {"threads": 0}, {"threads": 2}, {"workers": 2}])
@pytest.mark.parametrize("order", [{}, {"shuffle": True, "seed": 3}])
def test_epochs_of_text_are_the_same(text, options, order):
    source = hr.open(text)
    everything = source.batch(range(ROWS))
    loader = hr.Loader(source, 64, **order, **options)
    for epoch in range(4):
        anew = hr.Loader(hr.open(text), 64, **order)
        anew.load_state_dict(loader.state_dict())
        found, expected = list(loader), list(anew)
        assert len(found) == len(expected) == ROWS // 64 + 1
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
        assert loader.epoch == epoch + 1
    again = pickle.loads(pickle.dumps(source))
    assert_same(again.batch(range(ROWS)), everything)
    assert_same(source.select("t", "i").batch([5, 3]), {name: everything[name][[5, 3]] for name in ("t", "i")})
    assert list(map(str, source)) == list(map(str, hr.open(text)))


def test_text_is_parsed_twice_and_no_more(text, monkeypatch):
    source = hr.open(text)
    first = source.batch(range(ROWS))
    second = source.batch(range(ROWS))

    def refuse(*_arguments, **_options):
        raise AssertionError("the rows are kept")

    monkeypatch.setattr("headrace.codecs.csv.CsvCodec.decode_rows", refuse)
    monkeypatch.setattr("headrace.codecs.csv.CsvCodec.decode_batch", refuse)
    monkeypatch.setattr("headrace.formats.jsonl.plain.PlainDecoder.decode", refuse)
    monkeypatch.setattr("headrace.formats.jsonl.format.parse", refuse)
    third = source.batch(range(ROWS))
    for other in (second, third):
        assert_same(other, first)
    assert_same(
        source.batch([9, 2, 9]), {name: take_rows(column, np.array([9, 2, 9])) for name, column in first.items()}
    )


def test_a_source_that_is_dropped_is_gone_at_once(text):
    """Its files, and the rows that it keeps: there is no cycle that a collection of garbage would have to find."""
    source = hr.open(text)
    for _ in range(3):
        source.batch(range(ROWS))
    parts = [weakref.ref(part) for part in (source, source.node, source.records)]
    gc.disable()
    try:
        del source
        assert [part() for part in parts] == [None] * 3
    finally:
        gc.enable()


def test_text_that_shrinks_after_an_epoch(tmp_path, kept_soon):
    """Rows that are kept stay as they were. Before, what is lost is an error."""
    for name in ("x.csv", "x.jsonl"):
        hr.write(tmp_path / name, {"a": np.arange(50_000)})
        sources = [hr.open(tmp_path / name) for _ in range(2)]
        for source in sources:
            source.batch(range(50_000))
        sources[0].batch(range(50_000))
        os.truncate(tmp_path / name, 5000)
        assert sources[0].batch([49_998, 49_999])["a"].tolist() == [49_998, 49_999]
        for _ in range(2):
            with pytest.raises(CorruptFile, match="shrank"):
                sources[1].batch([49_998, 49_999])


@pytest.mark.parametrize("name", ["x.csv", "x.jsonl"])
def test_a_bad_value_is_an_error_in_every_epoch_but_only_of_its_row(tmp_path, kept_soon, name):
    hr.write(tmp_path / name, {"a": np.arange(10_000), "b": np.arange(10_000)})
    content = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(content.replace(b"9000", b"oops", 1))
    source = hr.open(tmp_path / name, schema=hr.Schema({"a": hr.Feature("int64"), "b": hr.Feature("int64")}))
    for _ in range(3):
        for start in (0, 5000, 9001):
            stop = min(start + 4000, 10_000)
            assert source.batch(range(start, stop))["a"].tolist() == list(range(start, stop))
        with pytest.raises((SchemaMismatch, CorruptRecord), match="record 9000"):
            source.batch(range(8000, 10_000))
