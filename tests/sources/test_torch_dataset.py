"""A source is a PyTorch dataset."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import headrace as hr

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:.*fork:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning"),
    # Some torch versions warn about the number of workers.
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
]
N = 100


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "train.tfrecord"
    hr.write(path, {"image": np.arange(N * 12, dtype=np.float32).reshape(N, 12), "label": np.arange(N)})
    return hr.open(path)


def doubled(example):
    return {**example, "label": example["label"] * 2}


def labels(loader):
    return [batch["label"].tolist() for batch in loader]


def in_order(size, n=N):
    return [list(range(start, min(start + size, n))) for start in range(0, n, size)]


def test_a_data_loader(source):
    from torch import Tensor, float32, int64
    from torch.utils.data import DataLoader

    loader = DataLoader(source, batch_size=16)
    assert len(loader) == 7
    batch = next(iter(loader))
    assert isinstance(batch["image"], Tensor)
    assert (batch["image"].dtype, tuple(batch["image"].shape), batch["label"].dtype) == (float32, (16, 12), int64)
    assert batch["image"][:, 0].tolist() == [12.0 * i for i in range(16)]
    assert labels(loader) == in_order(16)


def test_one_call_a_batch(source, monkeypatch):
    from torch.utils.data import DataLoader

    asked = []
    original = type(source).__getitems__

    def items(self, indices):
        asked.append(len(indices))
        return original(self, indices)

    monkeypatch.setattr(type(source), "__getitems__", items)
    list(DataLoader(source, batch_size=16))
    assert asked == [16] * 6 + [4]


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers(source, context):
    from torch.utils.data import DataLoader

    mapped = source.map(doubled)
    loader = DataLoader(mapped, batch_size=25, num_workers=2, multiprocessing_context=context)
    assert labels(loader) == [[2 * i for i in batch] for batch in in_order(25)]


def test_samplers(source):
    import torch
    from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, RandomSampler, WeightedRandomSampler

    shuffled = DataLoader(source, batch_size=10, shuffle=True, generator=torch.Generator().manual_seed(1))
    assert sorted(sum(labels(shuffled), [])) == list(range(N))
    assert sum(labels(shuffled), []) != list(range(N))
    halves = [
        sum(labels(DataLoader(source, batch_size=10, sampler=DistributedSampler(source, 2, rank))), [])
        for rank in (0, 1)
    ]
    assert sorted(halves[0] + halves[1]) == list(range(N))
    weighted = WeightedRandomSampler([0.0] * 99 + [1.0], 5)
    assert labels(DataLoader(source, batch_size=5, sampler=weighted)) == [[99] * 5]
    # Whole batches from native code: torch's sampler gives the indices, the source stacks the examples.
    batches = BatchSampler(RandomSampler(source), 10, drop_last=False)
    loader = DataLoader(_Batched(source), sampler=batches, batch_size=None)
    assert sorted(sum(labels(loader), [])) == list(range(N))


class _Batched:
    def __init__(self, source):
        self.source = source

    def __len__(self):
        return len(self.source)

    def __getitem__(self, indices):
        return self.source.batch(indices)


def test_subsets(source):
    import torch
    from torch.utils.data import ConcatDataset, DataLoader, Subset, random_split

    first, second = random_split(source, [70, 30], torch.Generator().manual_seed(0))
    assert sorted(
        sum(labels(DataLoader(first, batch_size=10)) + labels(DataLoader(second, batch_size=10)), [])
    ) == list(range(N))
    assert labels(DataLoader(Subset(source, [5, 3, 8]), batch_size=3)) == [[5, 3, 8]]
    assert sum(labels(DataLoader(ConcatDataset([source[:3], source[50:52]]), batch_size=4)), []) == [0, 1, 2, 50, 51]


def test_text_goes_through_torchs_collation(tmp_path):
    from torch.utils.data import DataLoader

    source = hr.ColumnSource({"name": np.array(["one", "two", "three"], object), "label": np.arange(3)})
    assert next(iter(DataLoader(source, batch_size=3)))["name"] == ["one", "two", "three"]


def test_pickling_is_cheap(source):
    assert len(source) == N
    assert len(pickle.dumps(source)) < 4096
    assert pickle.loads(pickle.dumps(source))[7]["label"] == 7


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stateful_data_loader(source, workers):
    """torchdata's loader resumes in the middle of an epoch over our sources."""
    stateful = pytest.importorskip("torchdata.stateful_dataloader")

    def loader():
        return stateful.StatefulDataLoader(
            source, batch_size=8, num_workers=workers, multiprocessing_context="fork" if workers else None
        )

    first = loader()
    batches = iter(first)
    seen = [next(batches)["label"].tolist() for _ in range(5)]
    state = first.state_dict()
    del batches
    second = loader()
    second.load_state_dict(state)
    assert seen + labels(second) == in_order(8)


def test_our_loader_keeps_its_state_in_torchs_way(source):
    """``state_dict`` and ``load_state_dict`` are what torch's checkpoints call, and torch.save accepts the state."""
    import io

    import torch

    loader = hr.Loader(source, 8, shuffle=True, to="torch")
    batches = iter(loader)
    seen = [next(batches)["label"].tolist() for _ in range(5)]
    stored = io.BytesIO()
    torch.save({"loader": loader.state_dict()}, stored)
    stored.seek(0)
    resumed = hr.Loader(source, 8, shuffle=True, to="torch")
    resumed.load_state_dict(torch.load(stored, weights_only=True)["loader"])
    assert sorted(sum(seen + labels(resumed), [])) == list(range(N))
