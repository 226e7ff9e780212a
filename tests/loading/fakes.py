"""Small sources for the loader's tests."""

from __future__ import annotations

import threading
import time

import numpy as np

from headrace.contracts.values import Ragged
from headrace.errors import CorruptRecord, Where


class Numbers:
    """Example ``i`` is ``{"i": i, "row": [i, i + 1/2], "name": b"i", "many": [i] * (i % 3)}``."""

    def __init__(self, n, *, cuts_cleanly=True, fingerprint=None):
        self.n = n
        self.cuts_cleanly = cuts_cleanly
        if fingerprint is not None:
            self.fingerprint = fingerprint

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        return {name: column[0] for name, column in self.batch(np.array([index])).items()}

    def where(self, index):
        return Where(path="numbers", record=index)

    def batch(self, indices):
        assert indices.dtype == np.int64
        if len(indices) and not 0 <= indices.min() <= indices.max() < self.n:
            raise IndexError(f"{indices}")
        names = np.empty(len(indices), object)
        names[:] = [b"%d" % i for i in indices]
        offsets = np.zeros(len(indices) + 1, np.int64)
        np.cumsum(indices % 3, out=offsets[1:])
        return {
            "i": indices.copy(),
            "row": indices[:, None].astype(np.float32) + np.array([0, 0.5], np.float32),
            "name": names,
            "many": Ragged(np.repeat(indices, indices % 3), offsets),
        }


class Damaged(Numbers):
    """Numbers, with some unreadable examples."""

    def __init__(self, n, bad, **options):
        super().__init__(n, **options)
        self.bad = set(bad)

    def batch(self, indices):
        for i in indices:
            if int(i) in self.bad:
                raise CorruptRecord(self.where(int(i)), expected="an intact record", found="a damaged one")
        return super().batch(indices)


class Streaming(Numbers):
    """Numbers that are streamed while ``length_known`` is false."""

    def __init__(self, n, *, bad_at=None, **options):
        super().__init__(n, **options)
        self.streams = 0
        self.length_known = False
        self.threads = set()
        self.bad_at = bad_at

    def __len__(self):
        assert self.length_known, "the length was asked for while streaming"
        return self.n

    def stream(self, batch_size):
        if self.length_known:
            return None
        self.streams += 1
        return self._stream(batch_size)

    def _stream(self, batch_size):
        for start in range(0, self.n, batch_size):
            self.threads.add(threading.current_thread())
            if self.bad_at is not None and start <= self.bad_at < start + batch_size:
                raise CorruptRecord(self.where(self.bad_at), expected="an intact record", found="a damaged one")
            yield self.batch(np.arange(start, min(start + batch_size, self.n)))
        self.length_known = True


def loader_threads():
    """The running loader threads."""
    # The loader's threads are numbered; pools of other layers, which live as long as the process, are not counted.
    return [thread for thread in threading.enumerate() if thread.name.removeprefix("headrace-").isdigit()]


def wait_for_threads(limit_s=300.0):
    """Wait until no loader thread runs; false on timeout."""
    end = time.monotonic() + limit_s
    while loader_threads():
        if time.monotonic() > end:
            return False
        time.sleep(0.001)
    return True


def indices_of(batches):
    """The example numbers of each batch, after a check that the columns belong together."""
    out = []
    for batch in batches:
        i = batch["i"].tolist()
        assert batch["row"].tolist() == [[k, k + 0.5] for k in i]
        assert batch["name"].tolist() == [b"%d" % k for k in i]
        assert batch["many"].to_list() == [[k] * (k % 3) for k in i]
        out.append(i)
    return out
