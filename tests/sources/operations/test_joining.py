"""One type for a feature of several sources."""

import numpy as np
import pytest
from scipy import sparse
from tests.codecs.images.files import made, noise

import headrace as hr
from headrace.contracts import values

DAY, SECOND = np.array(["2020-01-02"], "M8[D]"), np.array(["2020-01-02T03:04:05"], "M8[s]")


def source(values):
    return hr.ColumnSource({"x": values})


def test_times_of_units_that_have_none_in_common_are_refused():
    for one, other in (("M8[D]", "M8[as]"), ("m8[Y]", "m8[D]")):
        first, second = (hr.ColumnSource({"x": np.ones(1, dtype)}) for dtype in (one, other))
        with pytest.raises(hr.SchemaMismatch, match="as in the first source, found Feature.*'x'"):
            first.concat(second)


@pytest.mark.parametrize(
    ("first", "second", "dtype"),
    [
        (np.array([1], "i1"), np.array([300]), "int64"),
        (np.array([-1], "i1"), np.array([255], "u1"), "int16"),
        (np.array([0.1], "f4"), np.array([0.1]), "float64"),
        (np.array([2**53]), np.array([0.5]), "float64"),
        (np.array([2]), np.array([True]), "int64"),
        (np.array([2]), np.array([1j]), "complex128"),
        (DAY, SECOND, "M8[s]"),
        (np.array([[1, 2]], "u1"), np.array([[300, -1]]), "int64"),
        (hr.Ragged.from_list([[1], [2, 3]], "i1"), hr.Ragged.from_list([[300], []], "i8"), "int64"),
    ],
)
def test_numbers_get_a_dtype_that_holds_all(first, second, dtype):
    for one, two in ((first, second), (second, first)):
        both = source(one).concat(source(two))
        wanted = [*one, *two]
        assert both.schema["x"].dtype == dtype
        for indices in ([0], [len(both) - 1], range(len(both)), range(len(both) - 1, -1, -1)):
            column = both.batch(list(indices))["x"]
            assert column.dtype == dtype
            for at, index in enumerate(indices):
                assert np.array_equal(column[at], wanted[index])
        assert all(np.array_equal(example["x"], value) for example, value in zip(both, wanted, strict=True))
        if dtype != "complex128":
            assert len(both.to_arrow()) == len(both)
        assert {batch["x"].dtype for batch in hr.Loader(both, 1)} == {np.dtype(dtype)}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (np.array([1]), np.array([2], "u8")),
        (np.array([1]), ["a"]),
        (["a"], [b"a"]),
        (np.array([1]), np.ones((1, 2))),
        (DAY, np.array([1], "m8[s]")),
        (DAY, np.array([1])),
        (sparse.csr_array(np.eye(2)), np.eye(2)),
    ],
)
def test_other_values_are_refused(first, second):
    for make in (
        lambda: source(first).concat(source(second)),
        lambda: hr.Mixture([(source(first), 1), (source(second), 1)]),
    ):
        with pytest.raises(hr.SchemaMismatch, match="as in the first source") as raised:
            make()
        assert raised.value.where.feature == "x"


def test_an_integer_that_no_float_equals_is_named():
    both = source(np.array([0.5])).concat(source(np.array([7, 2**53 + 1])))
    assert both[1]["x"] == 7
    for read in (lambda: both[2], lambda: both.batch([0, 2]), lambda: list(both), both.to_arrow, both.to_pandas):
        with pytest.raises(hr.SchemaMismatch, match="9007199254740993") as raised:
            read()
        assert (raised.value.where.feature, raised.value.where.record) == ("x", 1)


def test_a_source_without_examples_has_any_type():
    assert source([]).concat({"x": ["a"]})[0] == {"x": "a"}
    assert source([]).concat({"x": np.array([1], "i1")}, source(np.zeros((0, 2)))).schema["x"] == hr.Feature("int8")


def test_what_the_wider_dtype_cannot_have_is_dropped(tmp_path):
    hr.write(tmp_path / "x.parquet", {"x": np.array([0, 1])}, schema={"x": hr.Feature("int8", names=("a", "b"))})
    named = hr.open(tmp_path / "x.parquet")
    hr.write(tmp_path / "y.parquet", {"x": np.array([1])}, schema={"x": hr.Feature("int64", names=("a", "b"))})
    assert named.concat(hr.open(tmp_path / "y.parquet")).schema["x"] == hr.Feature("int64", names=("a", "b"))
    assert named.concat({"x": np.array([0.5])}).schema["x"] == hr.Feature("float64")


def test_sparse_rows():
    narrow = sparse.csr_array(np.eye(2, dtype="f4"))
    both = source(narrow).concat(source(sparse.csr_array(np.eye(2))))
    assert both.schema["x"] == hr.Feature("float64", (2,), sparse=True)
    assert both.batch([0])["x"].dtype == both.batch([0, 3])["x"].dtype == np.float64
    assert both.batch([0, 3])["x"].toarray().tolist() == [[1, 0], [0, 1]]


def test_a_mixture_has_one_dtype():
    mixture = hr.Mixture([(source(np.array([1, 2], "i1")), 1), (source(np.array([0.5, 1.5])), 1)])
    assert mixture.schema["x"].dtype == "float64"
    assert [mixture.batch([at])["x"].dtype for at in (0, 1)] == [np.float64] * 2
    assert [(example["x"], example["x"].dtype) for example in mixture] == [(x, np.float64) for x in (1, 0.5, 2, 1.5)]
    assert hr.Mixture([(mixture, 1), (source(np.array([1j])), 1)]).schema["x"].dtype == "complex128"
    wrong = hr.Mixture([(source(np.array([0.5])), 1), (source(np.array([2**53 + 1])), 1)])
    with pytest.raises(hr.SchemaMismatch) as raised:
        wrong.batch([0, 1])
    assert (raised.value.where.feature, raised.value.where.record) == ("x", 0)


def test_parts_of_different_kinds_are_narrowed(tmp_path):
    columns = {"x": np.arange(3), "y": np.arange(3)}
    hr.write(tmp_path / "x.tfrecord", columns)
    file = hr.open(tmp_path / "x.tfrecord")
    for other in (hr.ColumnSource(columns), file.map(dict)):
        for both in (file.concat(other), other.concat(file)):
            assert both.select("x").batch([0, 4])["x"].tolist() == [0, 1]


def both_ways(*sources):
    """Two sources as concat and as Mixture join them."""
    return sources[0].concat(*sources[1:]), hr.Mixture([(source, 1) for source in sources])


def labels(path, names):
    schema = None if names is None else {"x": hr.Feature("int64", names=names)}
    hr.write(path, {"x": np.array([0, 1])}, schema=schema)
    return hr.open(path)


class TestClassNames:
    def test_other_names_are_refused(self, tmp_path):
        first = labels(tmp_path / "a.parquet", ("cat", "dog"))
        for names, at in (
            (("bird", "cat"), "0 is 'bird', not 'cat'"),
            (("cat", "dog", "emu"), "2 is 'emu', not nothing"),
        ):
            other = labels(tmp_path / "b.parquet", names)
            plain = hr.ColumnSource({"x": np.array([0, 1])})
            for join in (
                lambda other=other: first.concat(other),
                lambda other=other: plain.concat(first, other),
                lambda other=other: hr.Mixture([(first, 1), (other, 1)]),
            ):
                with pytest.raises(hr.SchemaMismatch, match=at) as raised:
                    join()
                assert "('cat', 'dog')" in str(raised.value)
                assert repr(names) in str(raised.value)
                assert raised.value.where.feature == "x"
                assert "hr.open([first, second])" in raised.value.hint

    def test_equal_names_stay(self, tmp_path):
        first, second = (labels(tmp_path / name, ("cat", "dog")) for name in ("a.parquet", "b.parquet"))
        for both in both_ways(first, second):
            assert both.schema["x"].names == ("cat", "dog")

    def test_numbers_without_names_may_be_of_other_classes(self, tmp_path):
        first, second = labels(tmp_path / "a.parquet", ("cat", "dog")), labels(tmp_path / "b.parquet", ("bird", "cat"))
        for pair in ((first, second.map(dict)), (second.map(dict), first)):
            for both in both_ways(*pair):
                assert both.schema["x"] == hr.Feature("int64")
                assert hr.Loader(both, 2).source.cuts_cleanly is False

    def test_numbers_beside_named_ones_are_still_cut(self, tmp_path):
        named, plain = labels(tmp_path / "a.parquet", ("cat", "dog")), hr.ColumnSource({"x": np.array([0, 1])})
        assert all(both.cuts_cleanly == named.cuts_cleanly for both in both_ways(named, plain))


def test_images_of_two_encodings_are_of_several_kinds(tmp_path):
    images = np.zeros((2, 4, 5, 3), np.uint8)
    for name in ("png", "bmp"):
        schema = {"image": hr.Feature("uint8", (4, 5, 3), encoding=name)}
        hr.write(tmp_path / f"{name}.parquet", {"image": images}, schema=schema)
    first, second = (hr.open(tmp_path / f"{name}.parquet") for name in ("png", "bmp"))
    for both in both_ways(first, second):
        assert both.schema["image"] == hr.Feature("uint8", (4, 5, 3), encoding="image")
    assert first.concat(second).encoded().schema["image"].encoding == "image"
    assert first.concat(first).schema["image"].encoding == "png"


def test_a_function_may_make_other_lengths_than_that_of_its_first_example():
    narrow = source(hr.Ragged.from_list([[1, 2], [3], [4, 5, 6]], "int32")).map(dict)
    wide = source(hr.Ragged.from_list([[7, 8], [9]], "int64"))
    for both in both_ways(narrow, wide):
        for batch in hr.Loader(both, 1):
            assert batch["x"].dtype == np.int64
    assert [example["x"].tolist() for example in narrow.concat(wide)] == [[1, 2], [3], [4, 5, 6], [7, 8], [9]]


def test_axes_that_differ_vary():
    first, second = source(np.arange(6).reshape(2, 3)), source(np.arange(8).reshape(2, 4))
    for both in both_ways(first, second):
        assert both.schema["x"] == hr.Feature("int64", (None,))
        assert not both.cuts_cleanly
    both = first.concat(second)
    assert both.window(2).schema["x"].shape == (None, None)
    assert [len(x) for batch in hr.Loader(both, 3) for x in batch["x"]] == [3, 3, 4, 4]
    inner = source(np.zeros((1, 2, 3), "f4")).concat(source(np.zeros((1, 2, 5))))
    assert inner.schema["x"] == hr.Feature("float64", (2, None))
    assert inner.batch([0])["x"].dtype == inner.batch([1])["x"].dtype == np.float64


def test_sparse_rows_get_the_columns_of_the_widest(tmp_path):
    first, second = source(sparse.csr_array(np.eye(3))), source(sparse.csr_array(np.eye(5, dtype="f4")))
    for pair in ((first, second), (second, first)):
        for both in both_ways(*pair):
            assert both.schema["x"] == hr.Feature("float64", (5,), sparse=True)
            assert {(batch["x"].shape[1], batch["x"].dtype.name) for batch in hr.Loader(both, 1)} == {(5, "float64")}
            assert {example["x"].shape[-1] for example in both} == {5}
    hr.write(tmp_path / "x.recordio", first.concat(second), format="recordio")
    wanted = np.concatenate([np.eye(3, 5), np.eye(5)])
    assert np.array_equal(hr.open(tmp_path / "x.recordio").batch(range(8))["x"].toarray(), wanted)


def test_features_come_in_the_order_of_the_first_source():
    first = hr.ColumnSource({"x": np.arange(3), "y": np.arange(3) + 100})
    second = hr.ColumnSource({"y": np.arange(3) + 100, "x": np.arange(3)})
    for both in both_ways(first, second):
        assert list(both.schema) == ["x", "y"]
        assert [list(batch) for batch in hr.Loader(both, 1)] == [["x", "y"]] * 6
        assert [list(example) for example in both] == [["x", "y"]] * 6
        assert all(example["y"] == example["x"] + 100 for example in both)


class TestWithoutExamples:
    """Sources without examples have features of any name and type, as those of what a function would make are not known."""

    numbers = hr.ColumnSource({"i": np.arange(4), "t": ["x"] * 4})
    none = numbers.filter(lambda example: example["i"] > 100)

    def test_ranks_without_examples(self, tmp_path):
        (tmp_path / "empty.csv").write_text("a,b\n")
        (tmp_path / "full.csv").write_text("a,b\n1,2.5\n3,4.5\n")
        both = hr.open(tmp_path / "empty.csv").concat(hr.open(tmp_path / "full.csv"))
        found = [[b["a"].tolist() for b in hr.Loader(both, 2, shard=hr.Shard(rank, 3))] for rank in range(3)]
        assert found == [[[1]], [[3]], [[]]]
        assert both.batch([])["a"].dtype == np.int64

    def test_functions(self):
        def double(example):
            return {"q": example["i"] * 2}

        full = self.numbers.map(double)
        for both in (
            self.none.map(double).concat(full),
            full.concat(self.none.map(double)),
            full.concat(self.numbers.flat_map(lambda example: [])),
            self.numbers.flat_map(lambda example: []).concat(full, self.none),
        ):
            assert [example["q"] for example in both] == [0, 2, 4, 6]
            assert list(both.select("q").batch([])) == ["q"]
        assert len(self.none.concat(self.none.map(double))) == 0


def encoded(path, images):
    column = np.empty(len(images), object)
    column[:] = images
    hr.write(path, {"image": column}, schema={"image": hr.Feature("bytes", encoding="png")})
    return path


def of_sizes(path, *sizes):
    options = hr.ImageOptions(any_size=True)
    return hr.open(encoded(path, [made(noise(*size), "png") for size in sizes]), decode=options)


def test_images_of_sources_of_several_sizes_are_arrays(tmp_path):
    first = of_sizes(tmp_path / "1.tfrecord", (16, 20), (16, 20))
    other = of_sizes(tmp_path / "2.tfrecord", (9, 8), (9, 8))
    taller = of_sizes(tmp_path / "3.tfrecord", (18, 20), (18, 20))
    grey = hr.open(encoded(tmp_path / "4.tfrecord", [made(noise(16, 20, 1), "png")] * 2))
    for sources in (
        [first, other],
        [first, taller],
        [first, taller, other],
        [first.concat(taller), other],
        [first, grey],
    ):
        joined = sources[0].concat(*sources[1:])
        for source in (joined, hr.Mixture(dict.fromkeys(sources, 1))):
            batch = source.batch(range(len(source)))["image"]
            assert type(batch) is list
            for index, example in enumerate(source):
                assert type(example["image"]) is type(batch[index]) is np.ndarray
                assert np.array_equal(example["image"], source[index]["image"])
                assert np.array_equal(example["image"], batch[index])
        assert len(joined.filter(lambda example: example["image"].shape[0] > 10)) >= 2


def test_arrays_whose_later_axes_differ_become_a_list():
    joined = source(np.zeros((3, 4, 5))).concat(source(np.ones((3, 6, 7))))
    assert [example["x"].shape for example in joined] == [(4, 5)] * 3 + [(6, 7)] * 3
    batch = joined.batch([5, 0])["x"]
    assert [value.shape for value in batch] == [(6, 7), (4, 5)]
    ragged = hr.Ragged.from_list([np.zeros((1, 2, 3)), np.zeros((2, 2, 3))])
    assert [value.shape for value in values.join([ragged, np.zeros((1, 4, 5, 6))])] == [(1, 2, 3), (2, 2, 3), (4, 5, 6)]


def test_white_stays_white_where_images_of_8_and_16_bits_are_joined(tmp_path):
    white = [made(np.full((8, 8, 1), most, dtype)) for most, dtype in ((255, np.uint8), (65_535, np.uint16))]
    narrow = hr.open(encoded(tmp_path / "8.tfrecord", white[:1] * 2))
    several = hr.open(encoded(tmp_path / "s.tfrecord", [white[0], made(np.full((9, 8, 1), 255, np.uint8))]))
    deep = hr.open(encoded(tmp_path / "16.tfrecord", white[1:] * 2))
    for number, (first, second) in enumerate([(narrow, deep), (deep, narrow), (several, deep), (deep, several)]):
        for joined in (first.concat(second), hr.Mixture({first: 1, second: 1})):
            assert joined.schema["image"].dtype == "uint16"
            assert [int(example["image"].min()) for example in joined] == [65_535] * 4
            assert [int(image.min()) for image in joined.batch(range(4))["image"]] == [65_535] * 4
        hr.write(tmp_path / f"joined-{number}.tfrecord", first.concat(second))
        read = hr.open(tmp_path / f"joined-{number}.tfrecord")
        assert [int(example["image"].min()) for example in read] == [65_535] * 4
