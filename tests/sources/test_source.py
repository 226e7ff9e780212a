import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.contracts.values import Ragged
from headrace.errors import NoSuchFeature, SchemaMismatch, TransformError
from headrace.sources import node
from headrace.sources.source import ColumnSource

N = 12


@pytest.fixture
def source():
    return ColumnSource(
        {
            "x": np.arange(N * 2, dtype=np.float32).reshape(N, 2),
            "y": np.arange(N),
            "name": np.array([f"n{i}" for i in range(N)], dtype=object),
            "ids": Ragged.from_list([list(range(i % 3)) for i in range(N)], np.int64),
        }
    )


def ys(source):
    return [int(example["y"]) for example in source]


def test_an_integer_gives_an_example(source):
    example = source[-1]
    assert list(example) == ["x", "y", "name", "ids"]
    assert example["x"].tolist() == [22, 23]
    assert (example["y"], example["name"], example["ids"].tolist()) == (11, "n11", [0, 1])


@pytest.mark.parametrize("index", [N, -N - 1])
def test_out_of_range(source, index):
    with pytest.raises(IndexError, match="12 examples"):
        source[index]
    with pytest.raises(IndexError, match="12 examples"):
        source.batch([0, index])


@pytest.mark.parametrize("indices", [[0.5], [[1]], ["a"]])
def test_indices_are_integers_in_a_row(source, indices):
    with pytest.raises(TypeError, match="indices are a sequence of integers"):
        source.batch(indices)


def test_batch_of_nothing_keeps_dtypes(source):
    batch = source.batch([])
    assert (batch["x"].shape, batch["x"].dtype, len(batch["ids"])) == ((0, 2), np.float32, 0)


@given(st.slices(N), st.slices(N))
def test_slices_of_slices_are_those_of_a_list(first, second):
    source = ColumnSource({"y": np.arange(N)})
    assert ys(source[first][second]) == list(range(N))[first][second]


@given(st.lists(st.integers(-N, N - 1), max_size=9))
def test_batch_rows_are_the_examples(indices):
    source = ColumnSource({"y": np.arange(N), "ids": Ragged.from_list([[i] * (i % 3) for i in range(N)], np.int64)})
    batch = source.batch(indices)
    assert batch["y"].tolist() == [range(N)[i] for i in indices]
    assert batch["ids"].to_list() == [[i % N] * (i % N % 3) for i in indices]
    assert [int(e["y"]) for e in source.__getitems__(indices)] == batch["y"].tolist()


def test_select_and_rename(source):
    assert list(source.select("y", "x").schema) == ["y", "x"]
    renamed = source.rename({"x": "image"})
    assert list(renamed.schema) == ["image", "y", "name", "ids"]
    assert renamed[3]["image"].tolist() == [6, 7]
    with pytest.raises(NoSuchFeature):
        source.select("z")
    with pytest.raises(NoSuchFeature):
        source.rename({"z": "y"})


@pytest.mark.parametrize(
    ("given", "advice"), [(["x", "y"], r"write select\('x', 'y'\)"), (3, "int 3: write"), (["x", 3], "list")]
)
def test_select_takes_names(source, given, advice):
    with pytest.raises(TypeError, match=rf"select takes names of features, got .*{advice}"):
        source.select(given)
    with pytest.raises(TypeError, match="select takes names of features"):
        source.select("x", given)


@pytest.mark.parametrize("join", [hr.Source.concat, hr.Source.zip])
def test_only_sources_join_sources(source, join):
    with pytest.raises(TypeError, match=r"columns or examples, got str.*headrace.open"):
        join(source, "x.tfrecord")
    with pytest.raises(TypeError, match="columns or examples, got int"):
        join(source, 3)


def test_columns_and_examples_join_sources(source):
    both = source.select("y").concat({"y": np.array([70])}, [{"y": 71}, {"y": 72}])
    assert ys(both) == [*range(N), 70, 71, 72]
    assert source.select("y").zip({"z": np.arange(N) * 2})[3] == {"y": 3, "z": 6}


def test_only_a_source_of_files_has_records(source, tmp_path):
    hr.write(tmp_path / "x.npz", source.select("y"))
    opened = hr.open(tmp_path / "x.npz")
    assert (opened.format, opened.records.paths) == ("npz", (str(tmp_path / "x.npz"),))
    for view in (source, opened[1:]):
        assert not hasattr(view, "records")
        assert not hasattr(view, "format")


def test_a_node_of_your_own_is_a_source():
    class Squares:
        schema = hr.Schema({"x": hr.Feature("int64")})

        def __len__(self):
            return 5

        def batch(self, indices):
            return {"x": indices**2}

        def where(self, index):
            return hr.Where(record=index)

    source = hr.Source(Squares())
    assert [int(example["x"]) for example in source[1:].rename({"x": "y"}).rename({"y": "x"})] == [1, 4, 9, 16]
    assert [b["x"].tolist() for b in hr.Loader(source, 2, threads=2)] == [[0, 1], [4, 9], [16]]
    assert (repr(source), source.skipped.records, source.cuts_cleanly) == ("<Source of 5 examples: x int64>", 0, False)
    assert source.encoded()[2] == source[2] == {"x": 4}
    assert source.stream(2) is None


def test_two_features_never_get_one_name(source):
    assert list(source.rename({"x": "y", "y": "x"}).schema) == ["y", "x", "name", "ids"]
    with pytest.raises(SchemaMismatch, match="every feature name once, found it twice, for 'x' and for 'y'"):
        source.rename({"x": "y"})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: s.rename([("x", "y")]), r"rename takes \{old: new\}, got list"),
        (lambda s: s.map(3), "function must be a function of an example, got 3"),
        (lambda s: s.filter(None), "predicate must be a function of an example, got None"),
        (lambda s: s.shard("0", 2), "rank"),
        (lambda s: s[0.5], "indices are a sequence of integers, got 0.5: source"),
        (lambda s: s[None], r"got None: source\[\.\.\.\] also takes an integer, a slice, a mask, a feature's name or"),
        (lambda s: s[b"x"], "got b'x': source"),
        (lambda s: s["x", "y"], r"got <U1 with shape \(2,\): source\[\['x', 'y'\]\] has several features"),
        (lambda s: s.window(3, feature=3), "feature must be the name of a feature, or several names, got 3"),
        (lambda s: s.cache(None, key="k"), "path must be a folder for stored examples, got None"),
        (lambda s: s.cache(b"x", key="k"), "path must be a folder for stored examples, got b'x'"),
        (lambda s: hr.open({"x": [1]}, split=["train", "test"]), "a split is text, ReadInstruction, or .* got list"),
        (lambda s: s.batch(32), r"hr.Loader\(source, 32\) iterates over batches of 32"),
    ],
)
def test_arguments_of_another_type_are_refused_at_once(source, call, message):
    with pytest.raises(TypeError, match=message):
        call(source)


def test_large_unsigned_indices_do_not_turn_negative(source):
    with pytest.raises(IndexError, match=f"index {2**64 - 1} is outside"):
        source.batch(np.array([0, 2**64 - 1], np.uint64))
    assert source.batch(np.array([3], np.uint64))["y"].tolist() == [3]


def test_map_changes_examples_and_schema(source):
    mapped = source.map(lambda e: {"double": e["y"] * 2, "tail": e["ids"][1:]})
    assert [int(e["double"]) for e in mapped] == [2 * i for i in range(N)]
    assert str(mapped.schema["double"].dtype) == "int64"
    assert mapped.batch([2, 5])["double"].tolist() == [4, 10]


def test_an_error_in_user_code_names_the_example(source):
    def bad(example):
        if example["y"] == 7:
            raise ZeroDivisionError("seven")
        return example

    with pytest.raises(
        TransformError, match=r"bad on example 7 failed with ZeroDivisionError: seven - at record 7"
    ) as caught:
        list(source.map(bad))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    with pytest.raises(TransformError, match="on example 7"):
        len(source.filter(bad))


def test_parts_of_chosen_examples(source):
    odd = source.filter(lambda e: e["y"] % 2 == 1)
    list(odd)
    assert ys(odd[4:1:-1]) == [9, 7, 5]
    assert ys(odd[1:][::2][1:]) == [7, 11]
    assert ys(source[2:].filter(lambda e: e["y"] % 3 == 0)[1:]) == [6, 9]


def test_columns_of_different_lengths_are_refused():
    with pytest.raises(SchemaMismatch, match="columns of equal length, found .*'y': 2"):
        ColumnSource({"x": np.arange(3), "y": np.arange(2)})


def test_a_column_of_arrays_of_different_shapes():
    arrays = [np.ones((1, 2)), np.ones((3, 4))]
    assert [array.shape for array in ColumnSource({"x": arrays}).batch([1, 0, 1])["x"]] == [(3, 4), (1, 2), (3, 4)]


def test_filter_is_random_access(source):
    odd = source.filter(lambda e: e["y"] % 2 == 1)
    assert len(odd) == 6
    assert odd[-1]["y"] == 11
    assert ys(odd[1:3]) == [3, 5]
    assert ys(odd.filter(lambda e: e["y"] > 4)) == [5, 7, 9, 11]


@pytest.mark.parametrize("world", [1, 2, 5, 12, 13])
def test_shards_hold_everything_once(source, world):
    parts = [ys(source.shard(rank, world)) for rank in range(world)]
    assert sum(parts, []) == list(range(N))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_split_language(source):
    assert ys(source.split("train[:25%]")) == [0, 1, 2]
    assert ys(source.split("train[-2:]+train[:1]")) == [10, 11, 0]


def test_concat_by_the_hundred(source):
    """In a loop, as with ``functools.reduce``."""
    joined = source.take(1)
    for number in range(1, 400):
        joined = joined.concat(source.skip(number % 3).take(1))
    assert len(joined) == 400
    assert ys(joined)[:5] == [0, 1, 2, 0, 1]


def test_concat(source):
    both = source[:3].concat(source[10:], source[5:6])
    assert ys(both) == [0, 1, 2, 10, 11, 5]
    assert both.batch([5, 0, 3, 3])["y"].tolist() == [5, 0, 10, 10]
    assert both.batch([5, 0, 3])["ids"].to_list() == [[0, 1], [], [0]]
    assert both.select("y").schema == source.select("y").schema
    with pytest.raises(SchemaMismatch):
        source.concat(source.select("x"))


def test_zip(source):
    left, right = source.select("x"), source.select("y").rename({"y": "label"})
    assert list(left.zip(right)[2]) == ["x", "label"]
    with pytest.raises(SchemaMismatch, match="every feature name once"):
        source.zip(source)
    with pytest.raises(SchemaMismatch, match="12 examples"):
        left.zip(right[:4])


def test_views_pickle(source):
    view = source.select("y").concat(source.select("y"))[3:20:2]
    assert ys(pickle.loads(pickle.dumps(view))) == ys(view)


def test_fingerprint_distinguishes_data(source):
    assert source.fingerprint == ColumnSource(source.columns).fingerprint
    assert source.fingerprint != source[:-1].fingerprint
    assert source.fingerprint != source.select("x").fingerprint
    changed = {**source.columns, "y": np.arange(N) + 1}
    assert source.fingerprint != ColumnSource(changed).fingerprint
    odd = source.rename({"x": "\ud800"})  # half a character, as names in JSON may be
    assert odd.fingerprint != source.fingerprint


TEXTS = [f"word{number}" for number in range(2000)]


@pytest.mark.parametrize(
    "columns",
    [
        {"a": np.arange(3), "b": np.arange(3) / 7, "c": np.array([True, False, True])},
        {"a": hr.Ragged(hr.Strings.from_values(TEXTS), np.array([0, 1000, 2000]))},
        {"a": hr.Ragged(np.arange(3) / 7, np.array([0, 1, 3])), "b": np.array(["x", "y"])},
        {"a": [np.eye(2), np.eye(3)], "b": np.array([["x", "long"], ["y", "z"]], object)},
    ],
)
def test_fingerprints_do_not_depend_on_how_numpy_prints(columns):
    found = ColumnSource(columns).fingerprint
    for options in ({"legacy": "1.25"}, {"linewidth": 200}, {"threshold": 3}, {"precision": 2}):
        with np.printoptions(**options):
            assert ColumnSource(columns).fingerprint == found, options


def test_fingerprints_see_the_middle_of_long_lists():
    def of(texts):
        return ColumnSource({"a": hr.Ragged(hr.Strings.from_values(texts), np.array([0, 2000]))}).fingerprint

    assert of(TEXTS) != of([*TEXTS[:1000], "other", *TEXTS[1001:]])
    assert of([*TEXTS[:-2], "ab", "c"]) != of([*TEXTS[:-2], "a", "bc"])


@pytest.mark.parametrize("threads", [0, 2])
def test_arrays_of_several_shapes_belong_to_their_batch(threads):
    source = ColumnSource(
        {"a": [np.zeros((2, 2)), np.zeros((3, 3))], "t": hr.Ragged.from_list([[1, 2, 3], [4]], "int64")}
    )

    def add_one(values):
        for each in values["a"] if isinstance(values["a"], list) else [values["a"]]:
            each[...] += 1
        return dict(values)

    for loop in (
        lambda: hr.Loader(source, 2, epochs=3, map_batch=add_one, threads=threads),
        lambda: hr.Loader(source.window(1, feature="t").map(add_one), 4, epochs=2, threads=threads),
    ):
        assert [each.tolist() for batch in loop() for each in batch["a"]] == [
            np.ones_like(each).tolist() for batch in loop() for each in batch["a"]
        ]
    for each in (source[0], next(iter(source))):
        each["a"] += 1
    assert not source[0]["a"].any()


def made(example):
    return {"twice": example["x"] * 2, "text": "abc", "raw": b"x", "count": 3}


@pytest.mark.parametrize(
    "view",
    [
        lambda source: source.map(made),
        lambda source: source.map(made)[3:5],
        lambda source: source.map(made)[:0],
        lambda source: source.map(made).map(dict),
        lambda source: source.map(made).filter(lambda example: True),
        lambda source: source.map(made).concat(source.map(made)),
    ],
)
def test_a_mapped_source_has_its_columns_in_a_batch_without_examples(view):
    source = view(hr.ColumnSource({"x": np.arange(10, dtype=np.float32).reshape(5, 2)}))
    found = {name: (column.dtype, column.shape) for name, column in source.batch([]).items()}
    texts = np.dtype(object), (0,)
    assert found == {
        "twice": (np.dtype(np.float32), (0, 2)),
        "text": texts,
        "raw": texts,
        "count": (np.dtype(np.int64), (0,)),
    }


@pytest.mark.parametrize("workers", [0, 1])
def test_ranks_without_examples_get_the_columns_of_a_mapped_source(workers):
    source = hr.ColumnSource({"x": np.arange(10, dtype=np.float32).reshape(5, 2)}).map(made)
    shapes = []
    for rank in range(7):
        loader = hr.Loader(source, 2, shard=hr.Shard(rank, 7), workers=workers, map_batch=plus_one)
        shapes += [(batch["twice"].dtype.name, batch["twice"].shape) for batch in loader]
    assert shapes == [("float32", (1, 2))] * 5 + [("float32", (0, 2))] * 2


def plus_one(batch):
    return {**batch, "twice": batch["twice"] + 1}


def test_a_function_without_examples_has_the_features_below():
    """What it would make of one is unknown, but names and dtypes must be there for what follows."""
    source = hr.ColumnSource({"x": np.arange(3)}).filter(lambda example: False).map(made)
    batch = source.batch([])
    assert (list(batch), batch["x"].tolist(), batch["x"].dtype) == (["x"], [], np.int64)


def test_text_in_memory_stays_a_column_of_text():
    """Each batch once made an object of every text of the whole column."""
    text = hr.Strings.from_values([str(i) for i in range(100)])
    source = hr.ColumnSource({"text": text, "pairs": text.reshape(50, 2)[[*range(50), *range(50)]]})
    batch = source.batch([5, 99, 5])
    assert isinstance(batch["text"], hr.Strings)
    assert batch["text"].to_list() == ["5", "99", "5"]
    assert batch["pairs"].to_list() == [["10", "11"], ["98", "99"], ["10", "11"]]
    assert source[7]["text"] == "7"


@pytest.mark.parametrize(
    "values",
    [["a", "b", "c", "d"], [b"a", b"b", b"c", b"d"], [["a", "b"], ["c", "d"]], [np.str_("a"), "b"]],
)
def test_text_in_arrays_of_objects_is_a_column_of_text(tmp_path, values):
    """A batch of any other source has it as strings."""
    array = np.array(values, object)
    source = hr.ColumnSource({"t": array})
    column = source.batch([0])["t"]
    assert isinstance(column, hr.Strings)
    np.testing.assert_array_equal(column, array[:1])
    assert isinstance(source.window(1)[0]["t"], hr.Strings)
    both = hr.ColumnSource({"t": hr.Strings.from_values(values)}).concat({"t": array})
    assert {type(batch["t"]) for batch in hr.Loader(both, 2, shuffle=True, seed=3)} == {hr.Strings}
    hr.write(tmp_path / "x.tfrecord", {"t": array})
    assert hr.open(tmp_path / "x.tfrecord").schema["t"].is_text


def test_few_large_examples_are_read_at_a_time(monkeypatch):
    """By iteration, filters, lengths of sequences and caches; as many as before of small ones."""
    monkeypatch.setattr(node, "BLOCK_BYTES", 50_000)
    held = []

    class Steps:
        def __init__(self, *names):
            features = {"x": hr.Feature("int64"), "r": hr.Feature("uint8", (None,))}
            self.schema = hr.Schema({name: features[name] for name in names})

        def narrow(self, names):
            return Steps(*names)

        def __len__(self):
            return 1_500

        def batch(self, indices):
            if "r" not in self.schema:
                return {"x": indices}
            lengths = np.where(indices < 1_000, 2, 3_000)
            offsets = np.concatenate(([0], np.cumsum(lengths)))
            held.append((len(indices), int(offsets[-1])))
            found = {"x": indices, "r": hr.Ragged(np.zeros(int(offsets[-1]), np.uint8), offsets)}
            return {name: found[name] for name in self.schema}

        def where(self, index):
            return hr.Where(record=index)

        def stored_bytes(self, first, stop):
            assert 0 <= first < stop <= 1_500
            return sum(18 if i < 1_000 else 3_016 for i in range(first, stop))

    source = hr.Source(Steps("x", "r"))
    assert [example["x"] for example in source] == list(range(1_500))
    assert max(rows for rows, _ in held) == 256
    assert len(source.filter(hr.condition("x >= 700"))) == 800
    assert len(source.window(5, feature="r")) == 500 * 600
    assert max(rows for rows, _ in held) > 256
    assert max(size for _, size in held) <= 100_000


def test_an_array_without_axes_is_an_index():
    source = hr.ColumnSource({"x": np.arange(4)})
    assert source[np.array(2)] == {"x": 2}
    assert source["x"][np.array(-1)] == 3
    with pytest.raises(IndexError, match="index 4 is outside"):
        source[np.array(4)]
    with pytest.raises(TypeError, match="indices are a sequence of integers"):
        source[np.array(2.0)]
