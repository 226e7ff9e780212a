"""The order in which Grain shuffles, for runs that move from Grain. Grain itself is not needed.

A source is a data source for Grain: ``grain.MapDataset.source(source)``, ``grain.DataLoader(data_source=source, ...)``.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from headrace.contracts.records import Shard
from headrace.contracts.values import Indices
from headrace.errors import UnsupportedData, Where
from headrace.loading.rounds import part_bounds

__all__ = ["GrainShuffled"]

ROUNDS = 4
MIN_BITS = 16
MAX_SEED = 1 << 32
MAX_EXAMPLES = 1 << 62
SMALL = 1 << 12
Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class GrainShuffled:
    """The order of ``grain.samplers.IndexSampler(shuffle=True)`` and of ``MapDataset.shuffle``: a sampler for a Loader.

    Grain cuts the examples into consecutive shards and shuffles each, so a rank sees the same examples in every
    epoch. ``Loader(source, batch_size, sampler=GrainShuffled(len(source), seed=s, shard=Shard(rank, world)), shard=Shard())``
    reads what that rank of Grain reads. :class:`headrace.Shuffled` shuffles all examples differently in every epoch.

    Grain's index shuffle is a cipher of four rounds over ``[0, 2^b)``, applied until the result is in ``[0, n)``, with keys from
    C++'s ``std::seed_seq`` of ``(seed + epoch) mod 2^32``.

    Args:
        n: The number of examples in the whole source.
        seed: In ``[0, 2^32)``. The epoch after the first one of a seed is the first epoch of the next seed.
        shard: Which part this process reads.
        drop_remainder: Leave out what makes some shards longer than others.

    Raises:
        UnsupportedData: Grain's order is not a permutation of that many examples (2^k + 1 with an even k from 16), or, for
            epochs after the first, Grain loses and repeats examples (shards of different sizes).
        ValueError: an argument is out of range.

    >>> GrainShuffled(10, seed=42).indices(0, 0, 10).tolist()
    [8, 6, 7, 9, 0, 5, 1, 2, 4, 3]
    """

    n: int
    seed: int
    shard: Shard
    drop_remainder: bool

    def __init__(self, n: int, *, seed: int, shard: Shard | None = None, drop_remainder: bool = False) -> None:
        if shard is not None and not isinstance(shard, Shard):
            raise TypeError(f"shard must be a Shard(rank, world), got {shard!r}")
        put = object.__setattr__  # frozen: this is the one place that may set
        put(self, "n", operator.index(n))
        put(self, "seed", operator.index(seed))
        put(self, "shard", Shard() if shard is None else shard)
        put(self, "drop_remainder", drop_remainder)
        if not 0 <= self.n <= MAX_EXAMPLES:
            raise ValueError(f"Grain's order has 0 to 2^62 examples, got {n}")
        if not 0 <= self.seed < MAX_SEED:
            raise ValueError(f"Grain's seed is in [0, 2^32), got {seed}")
        _check_permutes(len(self))

    def __len__(self) -> int:
        begin, end = self._part()
        return end - begin

    def _part(self) -> tuple[int, int]:
        rank, world = self.shard.rank, self.shard.world
        n = self.n - self.n % world if self.drop_remainder else self.n
        return part_bounds(n, rank, world)

    def indices(self, epoch: int, start: int, stop: int) -> Indices:
        """The indices at positions ``start`` up to ``stop`` of one epoch, ``int64``."""
        begin, end = self._part()
        if not (0 <= start <= stop <= end - begin and epoch >= 0):
            raise IndexError(f"positions {start} to {stop} of epoch {epoch} are outside an order of {end - begin}")
        if epoch and self.n % self.shard.world and not self.drop_remainder:
            raise UnsupportedData(
                Where(),
                expected="shards of one size where there is more than one epoch",
                found=f"{self.n:,} examples on {self.shard.world} ranks",
                hint="Grain loses examples of the longer shards and repeats those of the others: use drop_remainder=True.",
            )
        positions = np.arange(start, stop, dtype=np.uint64)
        return _shuffle(positions, end - begin, (self.seed + epoch) % MAX_SEED) + begin

    @property
    def fingerprint(self) -> str:
        """Differs for other orders."""
        return f"GrainShuffled({self.n}, seed={self.seed}, {self.shard}, drop_remainder={self.drop_remainder})"


def _check_permutes(n: int) -> None:
    bits = (n - 1).bit_length() - 1
    if n > 1 and n - 1 == 1 << bits and bits >= MIN_BITS and bits % 2 == 0:
        raise UnsupportedData(
            Where(),
            expected="a number of examples that Grain's shuffle permutes",
            found=f"{n:,} = 2^{bits} + 1, of which it leaves one out and gives another twice in every epoch",
            hint="Leave one example out (source[:-1]), or use headrace.Shuffled.",
        )


def _shuffle(positions: Words, n: int, seed: int) -> Indices:
    if n <= 1 or not len(positions):
        return np.zeros(len(positions), np.int64)
    if n < SMALL:
        return _small(n, seed)[positions.astype(np.int64)]
    largest = np.uint64(n - 1)
    bits = max(MIN_BITS, (n - 2).bit_length() if n > 2 else 0)  # ceil(log2(n - 1))
    word = (bits + 1) // 2
    keys = _keys(seed, word)
    found = _encipher(positions, word, keys)
    outside = np.flatnonzero(found > largest)
    while len(outside):
        found[outside] = _encipher(found[outside], word, keys)
        outside = outside[found[outside] > largest]
    return found.astype(np.int64)


@lru_cache(maxsize=8)
def _small(n: int, seed: int) -> Indices:
    """The whole order of few examples. Most results of the cipher are outside of it, so it would be applied many times.

    All are computed at once instead, each step twice as far as the one before.
    """
    word = MIN_BITS // 2
    cipher = _encipher(np.arange(1 << MIN_BITS, dtype=np.uint64), word, _keys(seed, word)).astype(np.int64)
    onward = np.where(np.arange(len(cipher)) < n, np.arange(len(cipher)), cipher)
    for _ in range(MIN_BITS + 1):
        onward = onward[onward]
    return onward[cipher[:n]]


def _keys(seed: int, word: int) -> list[np.uint64]:
    return [np.uint64(key & ((1 << word) - 1)) for key in _seed_sequence(seed, ROUNDS)]


def _encipher(values: Words, word: int, keys: list[np.uint64]) -> Words:
    shift, mask = np.uint64(word), np.uint64((1 << word) - 1)
    left, right = values >> shift, values & mask
    for first, second in zip(keys[::2], keys[1::2], strict=True):
        left = left ^ _mix(right, word, mask) ^ first
        right = right ^ _mix(left, word, mask) ^ second
    return (left << shift) | right


def _mix(values: Words, word: int, mask: np.uint64) -> Words:
    def rotate(by: int) -> Words:
        return ((values << np.uint64(by)) | (values >> np.uint64(word - by))) & mask

    return (rotate(1) & rotate(8)) ^ rotate(2)


def _seed_sequence(seed: int, count: int) -> list[int]:
    """The output of ``std::seed_seq{seed}`` (C++ standard, [rand.util.seedseq]), for up to seven words."""
    mask = 0xFFFFFFFF
    words = [0x8B8B8B8B] * count
    seeds = [seed]
    t = (count - 1) // 2
    p = (count - t) // 2
    q = p + t
    m = max(len(seeds) + 1, count)

    def stir(k: int) -> int:
        mixed = words[k % count] ^ words[(k + p) % count] ^ words[(k - 1) % count]
        return mixed ^ (mixed >> 27)

    for k in range(m):
        r1 = (1664525 * stir(k)) & mask
        r2 = (r1 + (len(seeds) if k == 0 else k % count + (seeds[k - 1] if k <= len(seeds) else 0))) & mask
        words[(k + p) % count] = (words[(k + p) % count] + r1) & mask
        words[(k + q) % count] = (words[(k + q) % count] + r2) & mask
        words[k % count] = r2
    for k in range(m, m + count):
        total = (words[k % count] + words[(k + p) % count] + words[(k - 1) % count]) & mask
        r3 = (1566083941 * (total ^ (total >> 27))) & mask
        r4 = (r3 - k % count) & mask
        words[(k + p) % count] ^= r3
        words[(k + q) % count] ^= r4
        words[k % count] = r4
    return words
