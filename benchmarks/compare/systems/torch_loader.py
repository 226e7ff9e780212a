"""torch's DataLoader over the mapped npy file, with batched indexing written by the user."""

from __future__ import annotations

import numpy as np
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

from benchmarks.compare.systems import expected
from benchmarks.compare.tasks import ReadTask
from benchmarks.data import BATCH, Files


class _Rows(Dataset[torch.Tensor]):
    def __init__(self, path: str) -> None:
        self._rows = np.load(path, mmap_mode="r")

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, indices: list[int]) -> np.ndarray:
        return np.asarray(self._rows[indices])


def shuffled(files: Files) -> ReadTask:
    """``DataLoader(sampler=BatchSampler(RandomSampler), batch_size=None)``, no workers."""
    data = _Rows(str(files.npy))
    loader = DataLoader(data, sampler=BatchSampler(RandomSampler(data), BATCH, drop_last=False), batch_size=None)
    return expected.rows(files, lambda: ((batch, None) for batch in loader), "shuffled")
