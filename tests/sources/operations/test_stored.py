"""Examples stored in folders: caches and generators, killed half way, damaged, and shared."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.forks import fork, fork_killed
from tests.sweeps import TAKES_ALL

import headrace as hr
from headrace.errors import SchemaMismatch
from headrace.testing import KINDS, SourceTests, assert_same, kinds_batch

STORABLE = list(KINDS)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path / "cache"))


class TestCached(SourceTests):
    def make(self, folder):
        return hr.ColumnSource(kinds_batch(30, STORABLE)).cache(folder / "cached", key="1")


class TestGenerated(SourceTests):
    def make(self, folder):
        source = hr.ColumnSource(kinds_batch(30, STORABLE))
        return hr.from_generator(lambda: iter(source), source.schema, key="kinds")


@pytest.mark.parametrize("rows", [0, 1, 2, 700])
def test_every_kind_is_stored(tmp_path, rows):
    source = hr.ColumnSource(kinds_batch(rows, STORABLE)) if rows else hr.ColumnSource(kinds_batch(1, STORABLE))[:0]
    stored = source.cache(tmp_path, key="1")
    assert (stored.schema, len(stored)) == (source.schema, rows)
    assert_same(stored.batch(range(rows)), source.batch(range(rows)))
    assert_same(stored.select("texts", "points").batch([]), source.select("texts", "points").batch([]))
    some = np.random.default_rng(0).integers(0, rows, 40) if rows else []
    assert_same(stored.batch(some), source.batch(some))
    for index in range(0, rows, 7):
        assert_same(dict(stored[index]), dict(source[index]))


ROWS = st.lists(
    st.tuples(
        st.lists(st.integers(-9, 9), max_size=5),
        st.text(max_size=4).filter(lambda text: text.isprintable()),
        st.tuples(st.integers(1, 2), st.integers(1, 3)),
    ),
    min_size=1,
    max_size=12,
)


@given(ROWS, st.data())
def test_what_a_function_gives_is_stored(tmp_path_factory, rows, data):
    def change(example):
        numbers, text, shape = rows[int(example["i"])]
        return {"numbers": np.array(numbers, np.int16), "text": text, "image": np.full(shape, 7, np.uint8), "one": 3}

    source = hr.ColumnSource({"i": np.arange(len(rows))}).map(change)
    stored = source.cache(tmp_path_factory.mktemp("cached"), key="1")
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=9))
    for found, index in zip(stored[chosen], chosen, strict=True):
        assert_same(
            dict(found),
            {name: np.asarray(value) if name == "one" else value for name, value in change({"i": index}).items()},
        )
    assert [str(example) for example in stored] == [str(stored[index]) for index in range(len(rows))]


def test_functions_are_called_once_ever(tmp_path):
    calls = []

    def double(example):
        calls.append(int(example["x"]))
        return {"x": example["x"] * 2}

    source = hr.ColumnSource({"x": np.arange(600)})
    first = source.map(double).cache(tmp_path, key="double 1")
    assert set(calls) == set(range(600))
    calls.clear()
    again = source.map(double).cache(tmp_path, key="double 1")
    assert len(calls) <= 3  # for schema and fingerprint
    assert_same(again.batch([599, 3]), first.batch([599, 3]))
    source.map(double).cache(tmp_path, key="double 2")
    source[:-1].map(double).cache(tmp_path, key="double 1")
    assert len([name for name in os.listdir(tmp_path) if not name.startswith(".")]) == 3


def test_loaders_of_stored_sources_resume_like_those_of_others(tmp_path):
    source = hr.ColumnSource(kinds_batch(50, STORABLE))
    stored = source.cache(tmp_path, key="1")
    loader = hr.Loader(stored, 4, shuffle=True, seed=5)
    batches = iter(loader)
    found = [next(batches)["uint64"].tolist() for _ in range(3)]
    resumed = hr.Loader(source, 4, shuffle=True, seed=5)
    resumed.load_state_dict(json.loads(json.dumps(loader.state_dict())))
    found += [batch["uint64"].tolist() for batch in resumed]
    assert found == [batch["uint64"].tolist() for batch in hr.Loader(source, 4, shuffle=True, seed=5)]


@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.9, 0.99])
def test_a_process_that_is_killed_leaves_nothing_wrong(tmp_path, share):
    source = hr.ColumnSource({"x": np.arange(2000), "text": [f"t{number}" for number in range(2000)]})

    runs = []

    def work():
        runs.append(1)
        source.cache(tmp_path / str(len(runs)), key="1")
        hr.from_generator(lambda: iter(source[:50]))
        hr.from_generator(lambda: iter(source[:50]), key=os.urandom(4).hex())

    _, status = os.waitpid(fork_killed(work, share), 0)
    assert os.WIFSIGNALED(status)
    stored = source.cache(tmp_path / "3", key="1")  # the run that was killed
    assert_same(stored.batch(range(2000)), source.batch(range(2000)))
    assert len(hr.from_generator(lambda: iter(source[:7]))) == 7
    assert [
        path.name for path in (tmp_path / "3").iterdir() if path.suffix != ".lock" and path.name.startswith(".")
    ] == []


def test_what_is_stored_may_come_from_what_is_stored_meanwhile(tmp_path):
    base = hr.ColumnSource({"x": np.arange(5)})

    def look_up(example):
        return {"y": base.cache(tmp_path, key="inner")[int(example["x"])]["x"] * 2}

    def double():
        inner = hr.from_generator(lambda: ({"x": number} for number in range(5)), key="inner")
        yield from ({"y": example["x"] * 2} for example in inner)

    for stored in (base.map(look_up).cache(tmp_path, key="outer"), hr.from_generator(double, key="outer")):
        assert np.asarray(stored["y"]).tolist() == [0, 2, 4, 6, 8]


def test_what_needs_itself_is_refused(tmp_path):
    base = hr.ColumnSource({"x": np.arange(5)})

    def ask_again():
        yield from hr.from_generator(ask_again, key="itself")

    with pytest.raises(hr.UnsupportedData, match="the same data and key while they are stored"):
        hr.from_generator(ask_again, key="itself")

    def fail(example):
        return {"x": example["x"], "n": len(base.map(fail).cache(tmp_path, key="1"))}

    with pytest.raises((hr.UnsupportedData, hr.TransformError, RecursionError)):
        base.map(fail).cache(tmp_path, key="1")
    assert len(base.cache(tmp_path, key="1")) == 5


def test_processes_wait_for_the_one_that_stores(tmp_path):
    def note(example):
        with open(tmp_path / "calls", "ab") as file:
            file.write(b"x")
        return {"x": example["x"] + 1}

    def work():
        stored = hr.ColumnSource({"x": np.arange(300)}).map(note).cache(tmp_path / "cached", key="1")
        return np.asarray(stored["x"]).tolist() == list(range(1, 301))

    for child in [fork(work) for _ in range(3)]:
        assert os.waitpid(child, 0)[1] == 0
    assert 300 <= (tmp_path / "calls").stat().st_size <= 300 + 3 * 4


def test_what_is_stored_may_be_read_only(tmp_path, monkeypatch):
    """As in the folder of another user, or on a file system that is mounted to be read."""
    stored = tmp_path / "stored"
    source = hr.ColumnSource({"x": np.arange(10)})
    source.cache(stored, key="1")
    before = sorted(stored.iterdir())
    opened = os.open

    def refuse(path, flags, *more, **options):
        if flags & (os.O_WRONLY | os.O_RDWR):
            raise PermissionError(13, "Permission denied", path)
        return opened(path, flags, *more, **options)

    monkeypatch.setattr(os, "open", refuse)
    assert source.cache(stored, key="1")[5] == {"x": 5}
    with pytest.raises(PermissionError):
        source.cache(stored, key="2")
    assert sorted(stored.iterdir()) == before


def test_arguments_of_cache(tmp_path):
    source = hr.ColumnSource({"x": np.arange(3)})
    for key, error in ((3, TypeError), ("", ValueError)):
        with pytest.raises(error, match="key must be"):
            source.cache(tmp_path, key=key)
    with pytest.raises(ValueError, match=r"cache\(\) would freeze"):
        source.map(lambda example, rng: example, seeded=True).cache(tmp_path, key="1")
    objects = source.map(lambda example: {"x": {"a", "b"}})
    with pytest.raises(hr.SchemaMismatch, match="numbers, text, bytes.*feature 'x'"):
        objects.cache(tmp_path, key="1")
    mixed = source.map(lambda example: {"x": float(example["x"]) if example["x"] == 2 else np.float32(1)})
    parts = mixed[:2].concat(mixed[2:])
    with pytest.raises(
        hr.SchemaMismatch, match="values of <f4 with 0 axes, as before, found <f8.*example|record 1|'x'"
    ):
        hr.Source(OneByOne(parts.node)).cache(tmp_path, key="1")
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []


class OneByOne:
    """A node whose blocks are one example each, as if they were large."""

    def __init__(self, node):
        self.node, self.schema = node, node.schema

    def __len__(self):
        return 300 * len(self.node)

    def batch(self, indices):
        return self.node.batch(np.minimum(indices // 300, len(self.node) - 1)[:1].repeat(len(indices)))

    def where(self, index):
        return hr.Where(record=index)


def folder_of(root):
    return next(path for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))


def test_damage_is_an_error_or_another_value_but_no_crash(tmp_path):
    batch = kinds_batch(12, ["int32", "text", "texts", "ragged", "points", "nested", "sparse"])
    images = [np.full((1 + index % 3, 2), index, np.uint8) for index in range(12)]
    source = hr.ColumnSource({**batch, "image": images})
    source.cache(tmp_path, key="1")
    folder = folder_of(tmp_path)
    rng = np.random.default_rng(1)
    for path in sorted(folder.iterdir()):
        whole = path.read_bytes()
        places = sorted({0, len(whole) - 1, *rng.integers(0, len(whole), 12 if TAKES_ALL else 3).tolist()})
        for place in places:
            for damaged in (whole[:place], whole[:place] + bytes([whole[place] ^ 0x91]) + whole[place + 1 :]):
                path.write_bytes(damaged)
                check_reads(source, tmp_path, path.name)
        path.unlink()
        check_reads(source, tmp_path, path.name)
        path.write_bytes(whole)
    assert_same(source.cache(tmp_path, key="1").batch(range(12)), source.batch(range(12)))


def check_reads(source, root, damaged):
    """Read all examples. Columns whose files are sound are read as they were."""
    number = damaged.partition(".")[0]
    is_column = number.isdecimal()
    try:
        stored = source.cache(root, key="1")
    except (hr.DataError, OSError):
        assert not is_column
        return
    sound = [name for at, name in enumerate(source.schema) if is_column and str(at) != number]
    for index in range(min(len(stored), 20)):
        with contextlib.suppress(hr.DataError, OSError):
            stored.batch([index, 0])
        with contextlib.suppress(hr.DataError, OSError):
            _ = stored[index]
        if sound:
            assert_same(stored.select(*sound).batch([index, 0]), source.select(*sound).batch([index, 0]))


def test_a_file_that_shrinks_while_it_is_read(tmp_path):
    source = hr.ColumnSource({"x": np.arange(100_000), "text": ["some text"] * 100_000})
    stored = source.cache(tmp_path, key="1")
    stored.batch([0])
    for path in folder_of(tmp_path).glob("*.values"):
        os.truncate(path, 10)
    with pytest.raises(hr.CorruptFile):
        stored.batch(range(99_000, 100_000))
    for name in ("x", "text"):
        with pytest.raises(hr.CorruptFile):
            _ = stored.select(name)[99_000]


def numbers(count=2500):
    return lambda: ({"x": number, "row": [number] * (number % 3)} for number in range(count))


def test_a_generator_is_stored_once():
    source = hr.from_generator(numbers())
    assert (len(source), source[2400]["x"], source[5]["row"].tolist()) == (2500, 2400, [5, 5])
    assert np.asarray(source.sort("x", descending=True).head(2)["x"]).tolist() == [2499, 2498]
    assert source.random_split([0.5, 0.5])[0].window(4)[0]["x"].shape == (4,)
    with pytest.raises(hr.UnsupportedData, match="key='...'"):
        pickle.dumps(source)


def test_without_a_key_nothing_is_left():
    source = hr.from_generator(numbers())
    root = Path(os.environ["HEADRACE_CACHE_DIR"]) / "generated"
    assert list(root.iterdir()) == []
    assert source[7]["x"] == 7
    assert [batch["x"].tolist() for batch in hr.Loader(source[:4], 2, workers=1, start_method="fork")] == [
        [0, 1],
        [2, 3],
    ]


def test_a_key_is_used_again():
    calls = []

    def generate():
        calls.append(1)
        yield from numbers(10)()

    first = hr.from_generator(generate, key="numbers")
    second = hr.from_generator(generate, key="numbers")
    assert calls == [1]
    assert_same(pickle.loads(pickle.dumps(second)).batch(range(10)), first.batch(range(10)))
    assert first.fingerprint == second.fingerprint
    hr.from_generator(generate, {"x": hr.Feature("int32"), "row": hr.Feature("int8", (None,))}, key="numbers")
    assert calls == [1, 1]


def test_a_schema_gives_types():
    schema = {"x": hr.Feature("float32"), "row": hr.Feature("int8", (None,))}
    source = hr.from_generator(numbers(5), schema)
    assert source.schema == hr.Schema(schema)
    assert (source[4]["x"].dtype, source[4]["row"].dtype) == (np.float32, np.int8)
    assert len(hr.from_generator(list, schema)) == 0
    assert hr.from_generator(list, schema).batch([])["x"].dtype == np.float32
    assert len(hr.from_generator(list)) == 0


def fail_at(place):
    for number in range(3000):
        if number == place:
            raise ZeroDivisionError("no more")
        yield {"x": number}


@pytest.mark.parametrize(
    ("function", "schema", "error", "message"),
    [
        (lambda: fail_at(2000), None, ZeroDivisionError, "no more"),
        (lambda: [{"x": 1}, 3], None, hr.SchemaMismatch, "a dict of features, found int 3 - at record 1"),
        (lambda: [{"x": 1}, {"y": 1}], None, hr.SchemaMismatch, "features"),
        (lambda: [{"x": 1}, {"y": 1}], {"x": hr.Feature("int64")}, hr.SchemaMismatch, "found .'y'. - at record 1"),
        (
            lambda: [{"x": 1}, {"x": "a"}],
            {"x": hr.Feature("int64")},
            hr.SchemaMismatch,
            r"numbers, as before, found str 'a' - at record 1, feature 'x'",
        ),
        (3, None, TypeError, "function must be a function"),
        (lambda: None, None, TypeError, "function must return or yield examples, got None: is a return missing"),
        (lambda: 3, None, TypeError, "function must return or yield examples, got int 3"),
    ],
)
def test_generators_that_fail_leave_nothing(function, schema, error, message):
    for key in (None, "some"):
        with pytest.raises(error, match=message):
            hr.from_generator(function, schema, key=key)
    root = Path(os.environ["HEADRACE_CACHE_DIR"]) / "generated"
    assert [path.name for path in (root.iterdir() if root.exists() else ()) if path.suffix != ".lock"] == []


def test_generators_give_rows_of_rows_and_sparse_rows():
    schema = {
        "nested": hr.Feature("int32", (None, None)),
        "image": hr.Feature("uint8", (None, None, 3)),
        "sparse": hr.Feature("float32", (4,), sparse=True),
    }
    rows = [[[1, 2], [3]], [], [[], [4, 5, 6]]]
    shapes = [(1, 2, 3), (2, 2, 3), (2, 1, 3)]
    dense = np.array([[0, 1, 0, 0], [0, 0, 0, 0], [2, 0, 3, 0]], np.float64)

    def generate():
        for nested, shape, sparse in zip(rows, shapes, dense, strict=True):
            yield {"nested": nested, "image": np.ones(shape, np.uint8), "sparse": sparse}

    source = hr.from_generator(generate, schema)
    assert source.schema == hr.Schema(schema)
    batch = source.batch([2, 0, 1])
    assert batch["nested"].to_list() == [rows[2], rows[0], rows[1]]
    assert batch["nested"].dtype == np.int32
    assert [image.shape for image in batch["image"]] == [shapes[2], shapes[0], shapes[1]]
    assert (batch["sparse"].toarray() == dense[[2, 0, 1]]).all()
    assert batch["sparse"].dtype == np.float32
    with pytest.raises(hr.SchemaMismatch, match="found 300.*record 1, feature 'x'"):
        hr.from_generator(lambda: [{"x": [[1]]}, {"x": [[2], [300]]}], {"x": hr.Feature("int8", (None, None))})
    with pytest.raises(hr.SchemaMismatch, match="rows of 3 values"):
        hr.from_generator(lambda: [{"x": np.ones(3)}], {"x": hr.Feature("float32", (4,), sparse=True)})


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(2**53 + 1, "float64"), (2**24 + 1, "float32"), (1e300, "float32"), (-1, "uint64"), (0.5, "int8")],
)
def test_generated_numbers_beyond_the_schema_are_refused(value, dtype):
    def of(*values):
        return hr.from_generator(lambda: iter([{"x": value} for value in values]), schema={"x": hr.Feature(dtype)})

    with pytest.raises(hr.SchemaMismatch, match=r"found .*record 1, feature 'x'"):
        of(1 if dtype == "float32" else np.int64(1), value)
    assert [int(example["x"]) for example in of(1, 2)] == [1, 2]
    rounded = hr.from_generator(lambda: iter([{"x": 0.1}, {"x": np.inf}]), schema={"x": hr.Feature("float32")})
    assert rounded.batch([0, 1])["x"].tolist() == [np.float32(0.1), np.inf]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"dtype": "float32", "mean": 0.5, "std": 1}, {"dtype": "float32", "mean": 0.1, "std": 1}),
        ({"resize": 4}, {"resize": 4, "interpolation": "nearest"}),
    ],
)
def test_images_decoded_in_another_way_are_other_data(tmp_path, one, other):
    rng = np.random.default_rng(0)
    schema = {"image": hr.Feature("uint8", (8, 8, 3), encoding="png")}
    hr.write(tmp_path / "i.tfrecord", {"image": rng.integers(0, 256, (3, 8, 8, 3), np.uint8)}, schema=schema)
    sources = [hr.open(tmp_path / "i.tfrecord", decode=hr.ImageOptions(**options)) for options in (one, other)]
    for source in (*sources, *sources):
        assert_same(source.cache(tmp_path / "stored", key="k").batch(range(3)), source.batch(range(3)))
    assert len([path for path in (tmp_path / "stored").iterdir() if path.is_dir()]) == 2


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (np.datetime64("9999-01-01", "us"), "M8[ns]"),
        (np.datetime64("2020-01-01T10", "s"), "M8[D]"),
        (np.datetime64("2020-01-01", "s"), "m8[s]"),
    ],
)
def test_times_of_a_generator_that_a_schema_would_change(value, dtype):
    with pytest.raises(SchemaMismatch) as raised:
        hr.from_generator(lambda: iter([{"x": value}]), schema={"x": hr.Feature(dtype)})
    assert raised.value.where.feature == "x"


def test_missing_times_of_a_generator():
    rows = [{"x": np.datetime64("NaT", "s")}, {"x": np.datetime64("2020-01-01", "s")}]
    source = hr.from_generator(lambda: iter(rows), schema={"x": hr.Feature("M8[ns]")})
    assert source.batch([0, 1])["x"].tolist() == np.array(["NaT", "2020-01-01"], "M8[ns]").tolist()


def test_a_url_is_no_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for url in ("s3://bucket/stored", Path("gs://bucket/stored")):
        with pytest.raises(hr.UnsupportedData, match="a folder for stored examples on this machine, found a URL of"):
            hr.open([{"i": 1}]).cache(url, key="k")
    assert os.listdir(tmp_path) == []


class TestTheExampleAtFaultIsNamed:
    @pytest.mark.parametrize(
        ("good", "bad", "schema", "message"),
        [
            (1, "a", None, "found str 'a'"),
            (1, None, None, "found None"),
            (1, 2**64, None, "found 18446744073709551616"),
            (1, 0.5, None, "expected values of <i8 with 0 axes, as before, found <f8"),
            (1, 0.5, {"x": hr.Feature("int64")}, "found .*0.5"),
            (1, None, {"x": hr.Feature("int64")}, "found None"),
            ([1], [[1]], {"x": hr.Feature("int64", (None,))}, "expected a value of 1 axis"),
        ],
    )
    def test_of_a_generator(self, good, bad, schema, message):
        with pytest.raises(hr.SchemaMismatch, match=f"{message}.* - at record 1500, feature 'x'"):
            hr.from_generator(lambda: ({"x": bad if k == 1500 else good} for k in range(2000)), schema)

    @pytest.mark.parametrize(("bad", "message"), [(0.5, "found <f8"), ("a", "found str 'a'"), (None, "found None")])
    def test_of_a_cache(self, tmp_path, bad, message):
        source = hr.ColumnSource({"k": np.arange(2000)}).map(lambda e: {"x": bad if e["k"] == 1500 else 1})
        with pytest.raises(hr.SchemaMismatch, match=f"{message}.* - at record 1500, feature 'x'"):
            source.cache(tmp_path, key="1")

    @pytest.mark.parametrize("at", [50, 300])
    def test_the_first_examples_decide_whether_numbers_are_floats(self, tmp_path, at):
        source = hr.ColumnSource({"k": np.arange(2000)}).map(lambda e: {"x": 0.5 if e["k"] == at else 1})
        stored = source.cache(tmp_path, key="1")
        assert stored.schema["x"] == hr.Feature("float64")
        assert stored.batch(range(2000))["x"].sum() == 1999.5


@pytest.mark.parametrize("words", [["a", "bc"], ["bc", "a"], ["a", "b\0"], [b"a", b"bc"]])
def test_lists_of_text_of_any_length(tmp_path, words):
    def tags(k):
        return [words[k >= 1100]] * (k % 3)

    kind = "str" if isinstance(words[0], str) else "bytes"
    generated = [
        hr.from_generator(lambda: ({"tags": tags(k)} for k in range(1200)), schema)
        for schema in (None, {"tags": hr.Feature(kind, (None,))})
    ]
    cached = hr.ColumnSource({"k": np.arange(1200)}).map(lambda e: {"tags": tags(int(e["k"]))}).cache(tmp_path, key="1")
    for source in (*generated, cached):
        assert source.schema["tags"] == hr.Feature(kind, (None,))
        assert [example["tags"].tolist() for example in source] == [tags(k) for k in range(1200)]


def test_examples_without_features_are_counted(tmp_path):
    source = hr.ColumnSource({"k": np.arange(7)}).map(lambda example: {})
    for stored in (source.cache(tmp_path, key="1"), hr.from_generator(lambda: ({} for _ in range(7)))):
        assert (len(stored), list(stored), stored[3], dict(stored.schema)) == (7, [{}] * 7, {}, {})
