"""Parts of splits: expressions, and objects compared with slow, plain code."""

import pickle
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.errors import UnsupportedData
from headrace.sources.splits import ReadInstruction, even_splits, resolve_split, split_names

SIZES = {"train": 123, "test": 40, "few": 7}
SHARDS = {"train": [50, 0, 50, 23], "test": [40], "few": [3, 4]}


def ids(pieces):
    """All examples of some pieces."""
    return [(name, i) for name, start, stop in pieces for i in range(start, stop)]


def slowly(name, start, stop, unit):
    """The same by slicing a list of all examples, as Python slices."""
    every = [(name, i) for i in range(SIZES[name])]
    if unit == "shard":
        shards, first = [], 0
        for length in SHARDS[name]:
            shards.append(every[first : first + length])
            first += length
        return [example for shard in shards[start:stop] for example in shard]
    if unit == "%":
        n = len(every)
        start = None if start is None else round(Fraction(start) * n / 100)
        stop = None if stop is None else round(Fraction(stop) * n / 100)
        if stop == 0:
            return []
    return every[start:stop]


@given(st.data())
def test_expressions_and_objects_are_slices_of_a_list(data):
    name = data.draw(st.sampled_from(sorted(SIZES)))
    unit = data.draw(st.sampled_from(["", "%", "shard"]))
    n = {"": SIZES[name], "%": 100, "shard": len(SHARDS[name])}[unit]
    low = -n if unit != "%" else 0  # a slice cannot tell percentages that round to no example from 0
    bounds = st.none() | st.integers(low, n)
    start, stop = data.draw(bounds), data.draw(bounds)
    expected = slowly(name, start, stop, unit)
    text = f"{name}[{'' if start is None else f'{start}{unit}'}:{'' if stop is None else f'{stop}{unit}'}]"
    for split in (text, ReadInstruction(name, start, stop, unit or "abs")):
        if not expected:
            with pytest.raises(UnsupportedData, match="holds examples"):
                resolve_split(split, SIZES, shard_sizes=SHARDS)
        else:
            assert ids(resolve_split(split, SIZES, shard_sizes=SHARDS)) == expected


@given(
    st.sampled_from(["train", "train[3:90]+test", "few+test[:50%]", "train[10:11]+few"]),
    st.integers(1, 9),
    st.booleans(),
)
def test_even_parts_together_are_the_split(split, n, drop):
    whole = resolve_split(split, SIZES)
    parts = []
    for part in even_splits(split, n, drop_remainder=drop):
        try:
            parts.append(resolve_split(part, SIZES))
        except UnsupportedData:
            parts.append([])
    for name, start, stop in whole:
        mine = [piece for part in parts for piece in part if piece[0] == name]
        lengths = [b - a for _, a, b in mine]
        each, rest = divmod(stop - start, n)
        assert sum(lengths) == (each * n if drop else stop - start)
        assert lengths == [length for length in [each] * n if length] if drop else max(lengths) - min(lengths) <= 1
        if not drop:
            assert ids(mine) == ids([(name, start, stop)])
            assert lengths[: rest or None] == [each + bool(rest)] * (rest or len(lengths))


@given(st.integers(100, 5000), st.integers(0, 99), st.integers(1, 100))
def test_equal_percentages_are_equally_long(n, first, count):
    stop = min(100, first + count)
    piece = ReadInstruction("x", first, stop, "%", "pct1_dropremainder")
    assert resolve_split(piece, {"x": n}) == [("x", first * (n // 100), stop * (n // 100))]


def test_dropping_the_remainder_needs_100_examples_and_whole_per_cent():
    with pytest.raises(UnsupportedData, match="expected a split of 100 examples or more"):
        resolve_split(ReadInstruction("few", to=10, unit="%", rounding="pct1_dropremainder"), SIZES)
    with pytest.raises(UnsupportedData, match="expected whole per cent"):
        resolve_split(ReadInstruction("train", to=1.5, unit="%", rounding="pct1_dropremainder"), SIZES)
    last = ReadInstruction("train", from_=-10, unit="%", rounding="pct1_dropremainder")
    assert resolve_split(last, SIZES) == [("train", 113, 123)]


def test_sums():
    split = "few" + ReadInstruction("train", to=2) + "test[:1]" + even_splits("test", 2)[1]
    assert resolve_split(split, SIZES) == [("few", 0, 7), ("train", 0, 2), ("test", 0, 1), ("test", 20, 40)]
    assert split_names(split) == ["few", "train", "test", "test"]
    assert repr(split).startswith("'few' + ReadInstruction('train[:2]') + 'test[:1]'")
    assert pickle.loads(pickle.dumps(split)) == split
    assert resolve_split("few[:1] + train[5:6]", SIZES) == [("few", 0, 1), ("train", 5, 6)]
    with pytest.raises(TypeError, match="only splits"):
        ReadInstruction("train") + 5


@pytest.mark.parametrize(
    "make",
    [
        lambda: ReadInstruction("train", unit="pct"),
        lambda: ReadInstruction("train", rounding="up"),
        lambda: ReadInstruction("train", to=101, unit="%"),
        lambda: even_splits("train", 0),
    ],
)
def test_nonsense_is_refused_on_construction(make):
    with pytest.raises(ValueError, match="must be|from -100|at least one"):
        make()


def test_invalid_splits():
    with pytest.raises(TypeError, match="a split is text"):
        resolve_split(5, SIZES)
    with pytest.raises(UnsupportedData, match="one of the splits"):
        resolve_split(ReadInstruction("valid"), SIZES)


def test_files_and_sources_take_them_too(tmp_path):
    for name in ("train", "test"):
        hr.write(tmp_path / f"x-{name}.tfrecord", {"y": [f"{name}{i}".encode() for i in range(10)]})
    split = ReadInstruction("train", 50, None, "%") + "test[:1]"
    assert [example["y"] for example in hr.open(tmp_path, split=split)] == [
        *("train5", "train6", "train7", "train8", "train9"),
        "test0",
    ]
    source = hr.open(tmp_path / "x-train.tfrecord")
    assert [len(source.split(part)) for part in hr.even_splits("train", 3)] == [4, 3, 3]


# ------------------------------------------------------------------------------------------------ expressions

SPLITS = {"train": 1000, "test": 120, "my-split_2": 7}


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("train", [("train", 0, 1000)]),
        ("my-split_2", [("my-split_2", 0, 7)]),
        ("train[:]", [("train", 0, 1000)]),
        ("train[:80%]", [("train", 0, 800)]),
        ("train[80%:]", [("train", 800, 1000)]),
        ("train[10:50%]", [("train", 100, 500)]),
        ("train[10%:50]", [("train", 100, 500)]),
        ("train[12.5%:13.5%]", [("train", 125, 135)]),
        ("train[-10%:]", [("train", 900, 1000)]),
        ("train[:-10%]", [("train", 0, 900)]),
        ("train[100:200]", [("train", 100, 200)]),
        ("train[-50:]", [("train", 950, 1000)]),
        ("train[:1_0]", [("train", 0, 10)]),
        ("train[:1000]", [("train", 0, 1000)]),
        ("train[-1000:-999]", [("train", 0, 1)]),
        ("train[5:]+test[:5]", [("train", 5, 1000), ("test", 0, 5)]),
        ("test+train[:1]+test[3:4]", [("test", 0, 120), ("train", 0, 1), ("test", 3, 4)]),
        ("all", [("train", 0, 1000), ("test", 0, 120), ("my-split_2", 0, 7)]),
        ("all+test[:1]", [("train", 0, 1000), ("test", 0, 120), ("my-split_2", 0, 7), ("test", 0, 1)]),
        ("my-split_2[:50%]", [("my-split_2", 0, 4)]),  # 3.5 goes to the even 4
        ("test[:0]+train[:2]", [("train", 0, 2)]),  # an empty part among others is left out
    ],
)
def test_parts_of_a_split(text, pieces):
    assert resolve_split(text, SPLITS) == pieces


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("train[1shard]", [("train", 10, 30)]),
        ("train[-1shard]", [("train", 30, 60)]),
        ("train[1:3shard]", [("train", 10, 60)]),
        ("train[:-1shard]", [("train", 0, 30)]),
        ("train[1shard:2shard]", [("train", 10, 30)]),
        ("train[2shard:]", [("train", 30, 60)]),
    ],
)
def test_shards_of_files(text, pieces):
    assert resolve_split(text, {"train": 60}, shard_sizes={"train": [10, 20, 30]}) == pieces


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a split such as"),
        ("train[", "found 'train['"),
        ("train [:5]", "expected a split such as"),
        ("train[:5]]", "expected a split such as"),
        ("train[5]", "expected a split such as"),
        ("train[50%]", "expected a split such as"),
        ("train+", "expected a split such as"),
        ("train[::2]", "expected a split such as"),
        ("valid", "expected one of the splits ['my-split_2', 'test', 'train'], found 'valid'"),
        ("all[:50%]", "expected 'all' without brackets"),
        ("test[:1000]", "expected bounds within 120 examples, found 1000"),
        ("test[-121:]", "expected bounds within 120 examples, found -121"),
        ("test[:101%]", "expected bounds within 100 per cent, found 101"),
        ("test[:1.5]", "expected an integer as bound, found '1.5'"),
        ("test[:_%]", "expected a number as bound, found '_'"),
        ("test[:1__0]", "expected an integer as bound"),
        ("test[1%:2shard]", "expected one unit for both bounds, found % and shard"),
        ("test[1shard]", "the shards are not known here"),
        ("test[5:5]", "expected a split that holds examples"),
        ("test[80%:20%]", "expected a split that holds examples"),
    ],
)
def test_refused_expressions(text, message):
    with pytest.raises(UnsupportedData) as caught:
        resolve_split(text, SPLITS)
    assert message in str(caught.value)
    assert f"The split was {text!r}." in str(caught.value)


def test_a_single_shard_must_exist():
    for text in ("train[3shard]", "train[-4shard]"):
        with pytest.raises(UnsupportedData, match="within 3 shards"):
            resolve_split(text, {"train": 60}, shard_sizes={"train": [10, 20, 30]})


@given(st.integers(1, 10**12), st.integers(1, 99))
def test_two_percentages_meet(n, percent):
    before = resolve_split(f"x[:{percent}%]+x", {"x": n})
    after = resolve_split(f"x[{percent}%:]+x", {"x": n})
    cut = before[0][2] if len(before) == 2 else 0
    assert cut == round(percent * n / 100.0)
    assert after[0][1:] == ((cut, n) if cut < n else (0, n))


def test_a_percentage_from_the_end_stays_one_where_it_rounds_to_nothing():
    """TFDS turns it into -0, the beginning: ``train[-2%:]`` of 12 examples is all of them there."""
    sizes = {"train": 12}
    assert resolve_split("train[:-2%]", sizes) == [("train", 0, 12)]
    with pytest.raises(UnsupportedData, match="holds none"):
        resolve_split("train[-2%:]", sizes)


def test_an_expression_is_its_own_specification():
    for spec in ("train[:2]", ReadInstruction("train", to=2)):
        assert ReadInstruction.from_spec(spec) is spec
        assert resolve_split(ReadInstruction.from_spec(spec), SIZES) == [("train", 0, 2)]
    assert str("few" + ReadInstruction("train", to=2)) == "few+train[:2]"
