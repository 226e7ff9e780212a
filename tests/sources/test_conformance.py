"""Sources and views pass the suite that ships in the package."""

import numpy as np

import headrace as hr
from headrace.sources.source import ColumnSource
from headrace.testing import SourceTests, kinds_batch, kinds_schema

KINDS = ("int64", "float32", "text", "payload", "vector", "ragged")


class Squares:
    schema = hr.Schema({"x": hr.Feature("int64"), "square": hr.Feature("int64")})

    def __len__(self):
        return 10

    def batch(self, indices):
        return {"x": np.array(indices), "square": indices**2}

    def where(self, index):
        return hr.Where(record=index)


class TestPlainNode(SourceTests):
    def make(self, folder):
        return hr.Source(Squares())


class TestColumns(SourceTests):
    def make(self, folder):
        return ColumnSource(kinds_batch(30))


def opened(folder):
    hr.write(folder / "x.tfrecord", kinds_batch(30, KINDS), schema=kinds_schema(KINDS))
    return hr.open(folder / "x.tfrecord", schema=kinds_schema(KINDS))


class TestRecords(SourceTests):
    def make(self, folder):
        return opened(folder)


class TestSelected(SourceTests):
    def make(self, folder):
        return opened(folder).select("text", "int64").rename({"text": "words"})


class TestChosen(SourceTests):
    def make(self, folder):
        return opened(folder)[25:3:-2][::-1]


class TestShard(SourceTests):
    def make(self, folder):
        return opened(folder).shard(1, 3)


class TestConcatenated(SourceTests):
    def make(self, folder):
        first = opened(folder)  # Written once: a source of the file before another writing would refuse it.
        return first.concat(first[:5])


class TestZipped(SourceTests):
    def make(self, folder):
        return opened(folder).select("int64").zip(ColumnSource({"other": np.arange(30)}))


class TestFiltered(SourceTests):
    def make(self, folder):
        return opened(folder).filter(is_long)


class TestMapped(SourceTests):
    def make(self, folder):
        return opened(folder).map(with_length)


def is_long(example):
    return len(example["ragged"]) > 1


def with_length(example):
    return {"length": np.int64(len(example["ragged"])), "text": example["text"]}
