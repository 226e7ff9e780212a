"""Grain reads our sources, and our loader follows Grain's order."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace.adapters.grain import GrainShuffled

N = 103


# The order, pinned to Grain 0.2.18.


def test_the_order_is_grains():
    assert GrainShuffled(10, seed=42).indices(0, 0, 10).tolist() == [8, 6, 7, 9, 0, 5, 1, 2, 4, 3]
    assert GrainShuffled(100, seed=3).indices(0, 0, 12).tolist() == PINNED_100
    assert GrainShuffled(70_000, seed=9).indices(1, 69_990, 70_000).tolist() == PINNED_70_000


PINNED_100 = [4, 7, 27, 57, 67, 55, 42, 78, 53, 76, 89, 63]
PINNED_70_000 = [38684, 2617, 21840, 26221, 23542, 42449, 23116, 41479, 25611, 38532]


@pytest.mark.parametrize("n", [0, 1, 2, 3, 17, 1000, 32_769, 65_536, 65_538, 131_073])
def test_it_is_a_permutation(n):
    assert np.array_equal(np.sort(GrainShuffled(n, seed=5).indices(3, 0, n)), np.arange(n))


@pytest.mark.parametrize("n", [65_537, 262_145, (1 << 20) + 1, (1 << 40) + 1])
def test_sizes_that_grain_does_not_permute_are_refused(n):
    with pytest.raises(hr.UnsupportedData, match=r"= 2\^\d+ \+ 1, of which it leaves one out and gives another twice"):
        GrainShuffled(n, seed=0)


def test_shards_are_pieces_that_are_shuffled_inside():
    seen = []
    for rank in range(4):
        order = GrainShuffled(20, seed=1, shard=hr.Shard(rank, 4))
        assert len(order) == 5
        for epoch in range(3):
            assert sorted(order.indices(epoch, 0, 5).tolist()) == list(range(5 * rank, 5 * rank + 5))
        seen += order.indices(0, 0, 5).tolist()
    assert sorted(seen) == list(range(20))


def test_shards_of_different_sizes_have_one_epoch():
    order = GrainShuffled(10, seed=1, shard=hr.Shard(1, 3))
    assert sorted(order.indices(0, 0, 3).tolist()) == [4, 5, 6]
    with pytest.raises(hr.UnsupportedData, match=r"found 10 examples on 3 ranks.*drop_remainder=True"):
        order.indices(1, 0, 3)
    even = GrainShuffled(10, seed=1, shard=hr.Shard(1, 3), drop_remainder=True)
    assert sorted(even.indices(1, 0, 3).tolist()) == [3, 4, 5]


def test_arguments():
    with pytest.raises(ValueError, match=r"in \[0, 2\^32\), got 4294967296"):
        GrainShuffled(10, seed=1 << 32)
    with pytest.raises(ValueError, match=r"0 to 2\^62 examples, got -1"):
        GrainShuffled(-1, seed=0)
    with pytest.raises(IndexError, match="positions 5 to 11 of epoch 0 are outside an order of 10"):
        GrainShuffled(10, seed=0).indices(0, 5, 11)


def test_in_a_loader():
    source = hr.ColumnSource({"i": np.arange(20)})
    order = GrainShuffled(20, seed=7)
    loader = hr.Loader(source, 5, sampler=order, epochs=2)
    batches = iter(loader)
    seen = [next(batches)["i"].tolist() for _ in range(3)]
    resumed = hr.Loader(source, 5, sampler=order, epochs=2)
    resumed.load_state_dict(loader.state_dict())
    seen += [batch["i"].tolist() for batch in resumed]
    assert sum(seen, []) == [int(order.indices(epoch, i, i + 1)[0]) for epoch in (0, 1) for i in range(20)]
    other = hr.Loader(source, 5, sampler=GrainShuffled(20, seed=8))
    with pytest.raises(hr.StateMismatch):
        other.load_state_dict(loader.state_dict())


# Beside Grain itself.


@pytest.fixture
def grain():
    return pytest.importorskip("grain")


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "train.tfrecord"
    hr.write(path, {"x": np.arange(2.0 * N, dtype=np.float32).reshape(N, 2), "i": np.arange(N)})
    return hr.open(path)


@pytest.mark.peer
@pytest.mark.parametrize("n", [1, 2, 3, 10, 65_536, 65_538, 70_000, 131_073])
@pytest.mark.parametrize("seed", [0, 1, 42, 2**32 - 1])
def test_map_datasets_shuffle(grain, n, seed):
    shuffled = grain.MapDataset.range(n).shuffle(seed=seed)
    for epoch in (0, 1):
        count = min(n, 300)
        wanted = [shuffled[epoch * n + i] for i in range(count)]
        assert GrainShuffled(n, seed=seed).indices(epoch, 0, count).tolist() == wanted


@pytest.mark.peer
@pytest.mark.parametrize("n", [40, 43])
@pytest.mark.parametrize("drop", [True, False])
def test_index_sampler(grain, n, drop):
    from grain.samplers import IndexSampler
    from grain.sharding import ShardOptions

    epochs = 2 if drop or n % 3 == 0 else 1
    for rank in range(3):
        options = ShardOptions(shard_index=rank, shard_count=3, drop_remainder=drop)
        theirs = IndexSampler(n, options, shuffle=True, num_epochs=epochs, seed=11)
        wanted = [theirs[i].record_key for i in range(rank, len(theirs), 3)]
        ours = GrainShuffled(n, seed=11, shard=hr.Shard(rank, 3), drop_remainder=drop)
        found = [i for epoch in range(epochs) for i in ours.indices(epoch, 0, len(ours)).tolist()]
        assert found == wanted


@pytest.mark.peer
def test_the_size_that_is_refused_is_broken(grain):
    shuffled = grain.MapDataset.range(65_537).shuffle(seed=3)
    assert len({shuffled[i] for i in range(65_537)}) == 65_536


@pytest.mark.peer
def test_a_source_is_a_random_access_data_source(grain, source):
    from grain.sources import RandomAccessDataSource

    assert isinstance(source, RandomAccessDataSource)
    dataset = grain.MapDataset.source(source).shuffle(seed=4).map(lambda example: int(example["i"]))
    assert list(dataset) == GrainShuffled(N, seed=4).indices(0, 0, N).tolist()
    batch = grain.MapDataset.source(source).batch(10)[0]
    assert batch["x"].shape == (10, 2)
    assert batch["i"].tolist() == list(range(10))


@pytest.mark.peer
@pytest.mark.parametrize("workers", [0, 2])
def test_grains_data_loader(grain, source, workers):
    import subprocess
    import sys
    import textwrap

    # In a separate process: Grain spawns workers, which import the main module, and needs absl's flags.
    script = f"""
    import json
    import grain
    import headrace as hr

    def main():
        source = hr.open({source.records.paths[0]!r})
        sampler = grain.samplers.IndexSampler(len(source), shuffle=True, num_epochs=1, seed=4)
        loader = grain.DataLoader(data_source=source, sampler=sampler, worker_count={workers},
                                  operations=[grain.transforms.Batch(8)])
        print(json.dumps([batch["i"].tolist() for batch in loader]))

    if __name__ == "__main__":
        import sys
        from absl import flags
        flags.FLAGS(sys.argv)
        main()
    """
    path = source.records.paths[0].replace("train.tfrecord", "script.py")
    with open(path, "w") as file:
        file.write(textwrap.dedent(script))
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    import json

    batches = json.loads(done.stdout.splitlines()[-1])
    assert sorted(sum(batches, [])) == list(range(N))
    if workers == 0:
        assert sum(batches, []) == GrainShuffled(N, seed=4).indices(0, 0, N).tolist()


def test_an_invalid_shard():
    with pytest.raises(TypeError, match=r"shard must be a Shard\(rank, world\), got 3"):
        GrainShuffled(5, seed=1, shard=3)
