"""The order of examples is TFDS's, wherever they are spooled."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.datasets.building.order import Ordering
from headrace.datasets.building.preparing import num_shards_for, shard_lengths
from headrace.errors import SchemaMismatch, UnsupportedData


def ordered(entries, folder, salt="train", **options):
    ordering = Ordering(salt, folder, **options)
    for key, payload in entries:
        ordering.add(key, payload)
    return list(ordering)


def test_the_order_is_forever(tmp_path):
    """Pinned: the hashes of tfds.core.hashing for the keys 0 to 9 of split "train"."""
    found = ordered([(key, str(key).encode()) for key in range(10)], tmp_path)
    by_hash = sorted(range(10), key=lambda key: hashlib.md5(b"train" + str(key).encode()).hexdigest())
    assert [int(payload) for payload in found] == by_hash == PINNED


PINNED = [6, 5, 4, 0, 8, 3, 1, 9, 7, 2]


@given(st.dictionaries(st.one_of(st.integers(), st.text(), st.binary()), st.binary(), min_size=1), st.integers(0, 500))
def test_disk_and_memory_give_the_same(tmp_path_factory, entries, limit):
    plain = {str(k).replace("\\", "/") if not isinstance(k, bytes) else k: (k, v) for k, v in entries.items()}
    unique = list({(k if isinstance(k, bytes) else k.encode("utf-8", "replace")): e for k, e in plain.items()}.values())
    try:
        memory = ordered(unique, tmp_path_factory.mktemp("a"))
    except UnicodeEncodeError:
        return  # a lone surrogate is not text
    assert ordered(reversed(unique), tmp_path_factory.mktemp("b"), memory_bytes=limit) == memory


def test_unshuffled_data_keeps_its_order(tmp_path):
    entries = [("same", bytes((i % 256,)) * 3) for i in range(1000)]
    for number, limit in enumerate((10**9, 5000)):
        (tmp_path / str(number)).mkdir()
        found = ordered(entries, tmp_path / str(number), shuffled=False, memory_bytes=limit)
        assert found == [payload for _, payload in entries]
        assert list((tmp_path / str(number)).iterdir()) == []


@pytest.mark.parametrize("limit", [10**9, 100])
def test_a_key_comes_once(tmp_path, limit):
    with pytest.raises(SchemaMismatch, match="'7' twice"):
        ordered([(7, b"a"), (8, b"b"), ("7", b"c")], tmp_path, memory_bytes=limit)


@pytest.mark.parametrize("key", [1.5, None, ("a",)])
def test_keys_are_text_bytes_or_numbers(tmp_path, key):
    with pytest.raises(SchemaMismatch, match="a key that is text"):
        ordered([(key, b"")], tmp_path)


MIB, GIB = 1 << 20, 1 << 30


@pytest.mark.parametrize(
    ("size", "count", "shards"),
    [
        (0, 1, 1),
        (100 * MIB, 60_000, 1),
        (130 * MIB, 60_000, 2),
        (130 * MIB, 1, 1),
        (10 * GIB, 10_000, 128),
        (100 * GIB, 1_000_000, 1024),
        (100 * GIB, 600, 512),
        (5000 * GIB, 10**7, 5120),
    ],
)
def test_number_of_files(size, count, shards):
    """The result of TFDS's ShardConfig for the same sizes."""
    assert num_shards_for(size, count) == shards


def test_shards_are_as_even_as_tfds_makes_them():
    assert shard_lengths(33, 5) == [7, 6, 7, 6, 7]
    assert shard_lengths(4, 4) == [1, 1, 1, 1]
    with pytest.raises(UnsupportedData, match="at least one example for each of 5 files"):
        shard_lengths(4, 5)
