"""The tests that every source passes."""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.sources.source import Source
from headrace.sources.stacking import row
from headrace.testing.data import assert_same

__all__ = ["SourceTests"]


class SourceTests(ABC):
    """Subclass it and define ``make``; pytest then runs these tests on your source.

        class TestMine(SourceTests):
            def make(self, folder):
                return MySource(...)

    The source must have at least three examples.
    """

    @abstractmethod
    def make(self, folder: Path) -> Source:
        """A source of at least three examples; ``folder`` is there to write to."""

    @pytest.fixture
    def source(self, tmp_path: Path) -> Source:
        """The source of :meth:`make`."""
        return self.make(tmp_path)

    def test_it_has_a_length_and_a_schema(self, source: Source) -> None:
        assert len(source) >= 3
        assert list(source[0]) == list(source.schema)

    def test_iteration_gives_what_indices_give(self, source: Source) -> None:
        examples = list(source)
        assert len(examples) == len(source)
        for index in (0, 1, len(source) // 2, len(source) - 1):
            assert_same(dict(examples[index]), dict(source[index]))
            assert_same(dict(source[index - len(source)]), dict(source[index]))

    def test_a_batch_is_its_examples(self, source: Source) -> None:
        indices = np.random.default_rng(0).permutation(len(source))[:20]
        indices = np.concatenate((indices, indices[:2]))
        batch = source.batch(indices)
        assert list(batch) == list(source.schema)
        for position, index in enumerate(indices.tolist()):
            assert_same(row(batch, position), dict(source[index]))
        for one, index in zip(source.__getitems__(indices.tolist()), indices.tolist(), strict=True):
            assert_same(dict(one), dict(source[index]))

    def test_an_empty_batch_has_every_feature(self, source: Source) -> None:
        batch = source.batch([])
        if not source.cuts_cleanly and not batch:
            return  # Where a user's function gives the features, there are none without an example.
        assert list(batch) == list(source.schema)
        assert all((column.shape[0] if hasattr(column, "shape") else len(column)) == 0 for column in batch.values())

    def test_stored_bytes_are_never_negative(self, source: Source) -> None:
        n = len(source)
        for first, stop in ((0, n), (0, 1), (1, n - 1), (n - 1, n), (n - 1, n + 5)):
            size = source.stored_bytes(first, stop)
            assert isinstance(size, int)
            assert 0 <= size <= source.stored_bytes(0, n)
        assert source.stored_bytes(1, 1) == 0

    def test_indices_out_of_range(self, source: Source) -> None:
        for index in (len(source), -len(source) - 1):
            with pytest.raises(IndexError):
                source[index]
            with pytest.raises(IndexError):
                source.batch([0, index])

    def test_views(self, source: Source) -> None:
        n = len(source)
        assert_same(dict(source[1:][0]), dict(source[1]))
        assert len(source[::2]) == (n + 1) // 2
        name = next(iter(source.schema))
        assert_same(dict(source.select(name)[1]), {name: source[1][name]})
        assert next(iter(source.rename({name: "renamed"}).schema)) == "renamed"
        assert len(source.concat(source)) == 2 * n
        assert sum(len(source.shard(rank, 3)) for rank in range(3)) == n

    def test_it_is_picklable(self, source: Source) -> None:
        again = pickle.loads(pickle.dumps(source))
        assert len(again) == len(source)
        assert_same(again.batch([2, 0]), source.batch([2, 0]))
        assert again.fingerprint == source.fingerprint

    def test_threads_at_once(self, source: Source) -> None:
        orders = [np.random.default_rng(seed).integers(0, len(source), 7) for seed in range(16)]
        with ThreadPoolExecutor(4) as pool:
            found: list[Any] = list(pool.map(source.batch, orders))
        for order, batch in zip(orders, found, strict=True):
            assert_same(batch, source.batch(order))

    def test_a_batch_is_the_callers_own(self, source: Source) -> None:
        before = source.batch([0])
        for column in source.batch([0]).values():
            if isinstance(column, np.ndarray) and column.dtype.kind in "iufb" and column.flags.writeable:
                column[...] = 0
        assert_same(source.batch([0]), before)

    def test_examples_are_the_callers_own(self, source: Source) -> None:
        before = [dict(source[index]) for index in range(len(source))]
        for example in source:
            for value in example.values():
                if isinstance(value, np.ndarray) and value.dtype.kind in "iufb" and value.flags.writeable:
                    value[...] = 0
        for found, expected in zip(source, before, strict=True):
            assert_same(dict(found), expected)

    def test_places_name_a_file(self, source: Source) -> None:
        for index in (0, len(source) - 1):
            assert str(source.where(index))
