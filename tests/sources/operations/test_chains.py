"""Random chains of operations on sources, against the same done to a plain list of examples."""

from __future__ import annotations

import json
import math
import random
import zlib

import numpy as np
import pytest

import headrace as hr
from headrace.testing import KINDS, kinds_batch

CHAINS = 25
"""Of each seed."""


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path / "cache"))


def plain(value):
    """A value as Python has it, so that it can be compared whatever holds it."""
    if hasattr(value, "tocsr"):
        return plain(value.toarray().reshape(-1))
    if isinstance(value, (hr.Ragged, hr.Strings, list)):
        return [plain(each) for each in value]
    if isinstance(value, np.ndarray):
        return plain(value[()]) if value.ndim == 0 else [plain(each) for each in value]
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return str(value)
    if isinstance(value, np.generic):
        value = value.item()
    return "nan" if isinstance(value, float) and math.isnan(value) else value


def plain_row(example):
    return {name: plain(value) for name, value in example.items()}


def checksum(example):
    return zlib.crc32(repr(sorted(plain_row(example).items())).encode(errors="surrogatepass"))


def tag(example):
    return {**example, "tag": np.int64(checksum(example) % 1000)}


def keep(example):
    return checksum(example) % 4 != 0


def copies(example):
    return [{**example, "copy": np.int64(number)} for number in range(checksum(example) % 3)]


def slice_both(rng, source, rows, _):
    bounds = [None, *range(-len(rows) - 2, len(rows) + 3)]
    part = slice(rng.choice(bounds), rng.choice(bounds), rng.choice([None, 1, 2, -1, -3]))
    return source[part], rows[part]


def take_both(rng, source, rows, _):
    n = rng.choice([0, 1, 5, 10**18])
    return (source.take(n), rows[:n]) if rng.random() < 0.5 else (source.skip(n), rows[n:])


def mask_both(rng, source, rows, _):
    mask = np.array([rng.random() < 0.7 for _ in rows], bool)
    return source[mask], [row for row, kept in zip(rows, mask, strict=True) if kept]


def sample_both(rng, source, rows, _):
    n, seed = rng.choice([0, 3, 99]), rng.choice([0, 2**64 - 1])
    order = [int(each["i"]) for each in hr.ColumnSource({"i": np.arange(len(rows))}).sample(n, seed=seed)]
    assert len(set(order)) == len(order) == min(n, len(rows))
    return source.sample(n, seed=seed), [rows[index] for index in order]


def split_both(rng, source, rows, _):
    parts, seed = rng.choice([[0.8, 0.2], [0.5, 0.25, 0.25], [1 / 3, 1 / 3, 1 / 3]]), rng.randint(0, 5)
    numbers = hr.ColumnSource({"i": np.arange(len(rows))}).random_split(parts, seed=seed)
    orders = [[int(each["i"]) for each in part] for part in numbers]
    assert sorted(index for order in orders for index in order) == list(range(len(rows)))
    at = rng.randrange(len(parts))
    return source.random_split(parts, seed=seed)[at], [rows[index] for index in orders[at]]


def sort_both(rng, source, rows, _):
    names = [name for name, feature in source.schema.items() if not feature.shape]
    if not names:
        return source, rows
    name, down = rng.choice(names), rng.random() < 0.5
    is_missing = {id(row): plain(row[name]) in ("nan", "NaT") and not isinstance(row[name], str) for row in rows}
    found = sorted((row for row in rows if not is_missing[id(row)]), key=lambda row: row[name], reverse=down)
    return source.sort(name, descending=down), found + [row for row in rows if is_missing[id(row)]]


def filter_both(rng, source, rows, _):
    names = [name for name in ("int8", "int32", "int64", "uint64") if name in source.schema]
    names = [name for name in names if not source.schema[name].shape]
    if not names or rng.random() < 0.5:
        return source.filter(keep), [row for row in rows if keep(row)]
    name, bound = rng.choice(names), rng.randint(-5, 5)
    return source.filter(hr.condition(f"{name} < {bound}")), [row for row in rows if int(row[name]) < bound]


def map_both(rng, source, rows, _):
    return source.map(tag), [tag(row) for row in rows]


def flat_map_both(rng, source, rows, _):
    if "copy" in source.schema:
        return source, rows
    count = rng.choice([None, lambda example: checksum(example) % 3])
    return source.flat_map(copies, count=count), [each for row in rows for each in copies(row)]


def window_both(rng, source, rows, _):
    features = source.schema.values()
    if any(feature.sparse for feature in features) or max(len(feature.shape) for feature in features) > 3:
        return source, rows
    size, stride = rng.randint(1, 4), rng.choice([1, 2, 5])
    starts = range(0, len(rows) - size + 1, stride)
    found = [{name: [row[name] for row in rows[at : at + size]] for name in source.schema} for at in starts]
    return source.window(size, stride), found


def window_feature_both(rng, source, rows, _):
    names = [name for name, feature in source.schema.items() if feature.shape[:1] == (None,)]
    names = [name for name in names if None not in source.schema[name].shape[1:]]
    if not names:
        return source, rows
    name, size, stride = rng.choice(names), rng.randint(1, 3), rng.choice([1, 2])
    found = [
        {**row, name: plain(row[name])[at : at + size]}
        for row in rows
        for at in range(0, len(row[name]) - size + 1, stride)
    ]
    return source.window(size, stride, feature=name), found


def concat_both(rng, source, rows, _):
    at = rng.randint(0, len(rows))
    return source[at:].concat(source[:at]), rows[at:] + rows[:at]


def zip_both(rng, source, rows, _):
    name = rng.choice(list(source.schema))
    if f"{name} again" in source.schema:
        return source, rows
    other = source[::-1].select(name).rename({name: f"{name} again"})
    found = [{**row, f"{name} again": two[name]} for row, two in zip(rows, rows[::-1], strict=True)]
    return source.zip(other), found


def select_both(rng, source, rows, _):
    names = rng.sample(list(source.schema), rng.randint(1, len(source.schema)))
    return source.select(*names), [{name: row[name] for name in names} for row in rows]


def shard_both(rng, source, rows, _):
    world = rng.randint(1, 5)
    rank, n = rng.randrange(world), len(rows)
    return source.shard(rank, world), rows[rank * n // world : (rank + 1) * n // world]


def cache_both(rng, source, rows, folder):
    return source.cache(folder, key=str(rng.random())), rows


def arrow_both(rng, source, rows, _):
    if any(feature.sparse for feature in source.schema.values()):
        return source, rows
    return hr.open(source.to_arrow()), rows


OPERATIONS = [
    slice_both, take_both, mask_both, sample_both, split_both, sort_both, filter_both, map_both, flat_map_both, window_both, window_feature_both,
    concat_both, zip_both, select_both, shard_both, cache_both, arrow_both,
]  # fmt: skip


@pytest.mark.parametrize("seed", range(20))
def test_chains_are_those_of_lists(seed, tmp_path):
    for number in range(CHAINS):
        rng = random.Random(seed * CHAINS + number)
        count, names = rng.choice([0, 1, 2, 9, 17, 40]), rng.sample(list(KINDS), rng.randint(1, 6))
        source = hr.ColumnSource(kinds_batch(max(count, 1), names, seed=rng.randint(0, 99)))[:count]
        rows = [dict(example) for example in source]
        trail = [f"chain {seed * CHAINS + number} of {count} rows of {names}"]
        for operation in rng.choices(OPERATIONS, k=rng.randint(1, 4)):
            trail.append(operation.__name__)
            source, rows = operation(rng, source, rows, tmp_path)
        check(rng, source, [plain_row(row) for row in rows], ", ".join(trail))


def check(rng, source, rows, trail):
    n = len(rows)
    assert len(source) == n, trail
    assert [plain_row(example) for example in source] == rows, trail
    chosen = [rng.randrange(-n, n) for _ in range(7)] if n else []
    assert rows_of(source.batch(chosen)) == [rows[index] for index in chosen], trail
    assert list(source.batch(chosen)) == list(source.schema), trail
    for index in chosen[:2]:
        assert plain_row(source[index]) == rows[index], trail
    for beyond in (n, -n - 1, 2**63):
        with pytest.raises(IndexError):
            source[beyond]
    if n and rng.random() < 0.3:
        check_loader(rng, source, rows, trail)


def check_loader(rng, source, rows, trail):
    size = rng.randint(1, 5)
    options = {"shuffle": rng.random() < 0.7, "seed": rng.randint(0, 9), "threads": rng.choice([0, 2])}
    whole = [row for batch in hr.Loader(source, size, **options) for row in rows_of(batch)]
    assert whole == rows or (options["shuffle"] and sorted(map(repr, whole)) == sorted(map(repr, rows))), trail
    first, found = hr.Loader(source, size, **options), []
    batches = iter(first)
    for _ in range(rng.randint(0, (len(rows) - 1) // size)):
        found += rows_of(next(batches))
    second = hr.Loader(source, size, **options)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert found + [row for batch in second for row in rows_of(batch)] == whole, trail
    state = json.loads(json.dumps(first.state_dict()))
    world, size = rng.randint(1, 3), rng.randint(1, 4)
    if len(found) < len(rows):
        found = found.copy()
        for rank in range(world):  # the rest, by other ranks with other batches
            third = hr.Loader(source, size, shard=hr.Shard(rank, world), **options)
            third.load_state_dict(state)
            found += [row for batch in third for row in rows_of(batch)]
        assert sorted(map(repr, found)) == sorted(map(repr, rows)), trail


def rows_of(batch):
    columns = {name: list(column.toarray()) if hasattr(column, "tocsr") else column for name, column in batch.items()}
    count = len(next(iter(columns.values()), ()))
    return [{name: plain(column[row]) for name, column in columns.items()} for row in range(count)]
