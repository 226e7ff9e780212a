"""The split language."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import UnsupportedData
from headrace.sources.split import parse_split

SIZES = {"train": 1000, "test": 120, "my-split_2": 7}


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
def test_what_a_split_asks_for(text, pieces):
    assert parse_split(text, SIZES) == pieces


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
    assert parse_split(text, {"train": 60}, shard_sizes={"train": [10, 20, 30]}) == pieces


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
        ("test[:1.5]", "expected a whole number as bound, found '1.5'"),
        ("test[:_%]", "expected a number as bound, found '_'"),
        ("test[:1__0]", "expected a whole number as bound"),
        ("test[1%:2shard]", "expected one unit for both bounds, found % and shard"),
        ("test[1shard]", "the shards are not known here"),
        ("test[5:5]", "expected a split that holds examples"),
        ("test[80%:20%]", "expected a split that holds examples"),
    ],
)
def test_what_is_refused(text, message):
    with pytest.raises(UnsupportedData) as caught:
        parse_split(text, SIZES)
    assert message in str(caught.value)
    assert f"The split was {text!r}." in str(caught.value)


def test_a_single_shard_must_exist():
    for text in ("train[3shard]", "train[-4shard]"):
        with pytest.raises(UnsupportedData, match="within 3 shards"):
            parse_split(text, {"train": 60}, shard_sizes={"train": [10, 20, 30]})


@given(st.integers(1, 10**12), st.integers(1, 99))
def test_two_percentages_meet(n, percent):
    before = parse_split(f"x[:{percent}%]+x", {"x": n})
    after = parse_split(f"x[{percent}%:]+x", {"x": n})
    cut = before[0][2] if len(before) == 2 else 0
    assert cut == round(percent * n / 100.0)
    assert after[0][1:] == ((cut, n) if cut < n else (0, n))


def test_a_percentage_from_the_end_stays_one_where_it_rounds_to_nothing():
    """TFDS makes -0 of it, which is the begin: ``train[-2%:]`` of 12 examples is all of them there."""
    sizes = {"train": 12}
    assert parse_split("train[:-2%]", sizes) == [("train", 0, 12)]
    with pytest.raises(UnsupportedData, match="holds none"):
        parse_split("train[-2%:]", sizes)
