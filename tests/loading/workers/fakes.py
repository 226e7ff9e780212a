"""Sources and functions that a new process can import."""

from __future__ import annotations

import os
import signal
import sys
import time

import numpy as np
import scipy.sparse
from tests.loading.fakes import Numbers

import headrace as hr


class Odd(Exception):
    """Changes when pickled."""

    def __init__(self, left, right):
        super().__init__(f"{left} is not {right}")


class Rich(Numbers):
    """Every kind of column."""

    def batch(self, indices):
        n = len(indices)
        text = np.empty(n, object)
        text[:] = [f"text {i}" for i in indices]
        return {
            **super().batch(indices),
            "text": text,
            "turned": np.asfortranarray(np.arange(n * 6.0).reshape(n, 6))[:, ::2],
            "none": np.zeros((n, 0), np.float16),
            "date": indices.astype("datetime64[D]"),
            "swapped": indices.astype(">i4"),
            "images": [np.full((int(i) % 3 + 1, 2), i % 256, np.uint8) for i in indices],
            "nested": hr.Ragged(hr.Ragged(np.arange(n), np.arange(n + 1)), np.arange(n + 1)),
            "sparse": scipy.sparse.csr_array((indices + 1.0, np.zeros(n, np.int64), np.arange(n + 1)), shape=(n, 4)),
        }


def doubled(example):
    return {**example, "twice": example["i"] * 2}


def is_odd(example):
    return bool(example["i"] % 2)


def with_process(batch):
    return {**batch, "process": np.full(len(batch["i"]), os.getpid())}


def fails_at_100(example):
    if example["i"] == 100:
        raise KeyError("one hundred")
    return example


def odd_at_100(example):
    if example["i"] == 100:
        raise Odd(1, 2)
    return example


def killed_at_100(example):
    if example["i"] == 100:
        os.kill(os.getpid(), signal.SIGKILL)
    return example


def exits_at_100(example):
    if example["i"] == 100:
        sys.exit(7)
    return example


def uncarried_from_20(batch):
    return {**batch, "maker": (lambda: 0) if batch["i"][0] >= 20 else None}


def columns(n=300):
    return hr.ColumnSource({"i": np.arange(n), "x": np.arange(2.0 * n).reshape(n, 2)})


def slow_after_80(batch):
    if batch["i"][0] >= 80:
        time.sleep(3600)
    return batch
