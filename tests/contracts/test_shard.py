"""Shards are validated when created."""

from __future__ import annotations

import pytest

from headrace.contracts.records import Shard


def test_the_only_one():
    assert Shard() == Shard(0, 1) == Shard(rank=0, world=1)


@pytest.mark.parametrize(("rank", "world"), [(0, 0), (0, -1), (1, 1), (-1, 4), (4, 4)])
def test_ranks_are_in_the_world(rank, world):
    with pytest.raises(ValueError, match=r"world|rank"):
        Shard(rank, world)


def test_a_shard_does_not_change():
    with pytest.raises(AttributeError):
        Shard().rank = 1


@pytest.mark.parametrize(("rank", "world"), [(0.5, 2), ("0", 2), (0, 2.0), (None, None)])
def test_numbers_are_whole(rank, world):
    with pytest.raises(TypeError):
        Shard(rank, world)
