"""Sequences packed over a whole source, compared with plain loops."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace import _native
from headrace.testing import SourceTests, assert_same

ROWS = st.lists(st.lists(st.integers(1, 99), max_size=9), max_size=25)


def source_of(rows, **more):
    return hr.ColumnSource({"tokens": hr.Ragged.from_list(rows, "int32"), "id": np.arange(len(rows)), **more})


def place_slowly(lengths, room):
    """Best fit decreasing by its definition; rows in the order of their first sequence."""
    bins, changed = [], []
    for step, item in enumerate(sorted(range(len(lengths)), key=lambda item: -lengths[item])):
        fits = [at for at, members in enumerate(bins) if sum(lengths[m] for m in members) + lengths[item] <= room]
        if not fits:
            bins.append([])
            changed.append(0)
            fits = [len(bins) - 1]
        best = min(fits, key=lambda at: (room - sum(lengths[m] for m in bins[at]), -changed[at]))
        bins[best].append(item)
        changed[best] = step + 1
    return sorted(map(sorted, bins))


def pack_slowly(rows, length, fill):
    for members in place_slowly([len(row) for row in rows], length):
        tokens = [token for member in members for token in rows[member]]
        segments = [at + 1 for at, member in enumerate(members) for _ in rows[member]]
        positions = [at for member in members for at in range(len(rows[member]))]
        room = length - len(tokens)
        yield tokens + [fill] * room, segments + [0] * room, positions + [0] * room, members


@pytest.fixture(params=["by index", "piece by piece"], autouse=True, scope="module")
def way_of_copying(request):
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "piece by piece":
            patch.setattr("headrace.loading.lengths.LONG", 0)
            patch.setattr("headrace.contracts.values.LONG", 0)
        yield


@given(ROWS, st.integers(9, 30), st.data())
def test_packed_as_by_definition(rows, length, data):
    packed = hr.Packed(source_of(rows), length, feature="tokens", fill=-1)
    expected = list(pack_slowly(rows, length, -1))
    assert len(packed) == len(expected)
    chosen = data.draw(st.lists(st.integers(0, max(len(expected) - 1, 0)), max_size=8 if expected else 0))
    batch = packed.batch(chosen)
    assert batch["tokens"].tolist() == [expected[row][0] for row in chosen]
    assert batch["tokens_segment"].tolist() == [expected[row][1] for row in chosen]
    assert batch["tokens_position"].tolist() == [expected[row][2] for row in chosen]
    assert batch["id"].to_list() == [expected[row][3] for row in chosen]
    assert [column.dtype.name for column in batch.values()] == ["int32", "int32", "int32", "int64"]
    assert list(packed.schema) == list(batch)
    total = sum(map(len, rows))
    assert packed.fill_rate == pytest.approx(total / (len(expected) * length) if expected else 1.0)


@given(st.lists(st.lists(st.integers(1, 99), max_size=40), max_size=12), st.integers(1, 9))
def test_long_sequences_are_split_or_truncated(rows, length):
    split = hr.Packed(source_of(rows), length, feature="tokens", overlong="split")
    batch = split.batch(range(len(split)))
    found: dict[int, list[int]] = {}
    for row in range(len(split)):
        for segment in range(1, int(batch["tokens_segment"][row].max(initial=0)) + 1):
            here = batch["tokens_segment"][row] == segment
            number = int(batch["id"][row][segment - 1])
            found.setdefault(number, []).append(batch["tokens"][row][here].tolist())
            assert batch["tokens_position"][row][here].tolist() == list(range(int(here.sum())))
    pieces = {number: [row[at : at + length] for at in range(0, len(row), length)] for number, row in enumerate(rows)}
    assert {n: sorted(p) for n, p in found.items() if p != [[]]} == {n: sorted(p) for n, p in pieces.items() if p}

    cut = hr.Packed(source_of(rows), length, feature="tokens", overlong="truncate")
    shorter = hr.Packed(source_of([row[:length] for row in rows]), length, feature="tokens")
    assert_same(cut.batch(range(len(cut))), shorter.batch(range(len(shorter))))


def test_a_sequence_that_is_too_long():
    with pytest.raises(hr.SchemaMismatch, match=r"at most 2 values, found 3 in example 1 .*'tokens'.*overlong='split'"):
        len(hr.Packed(source_of([[1], [1, 2, 3]]), 2, feature="tokens"))


LENGTHS = np.random.default_rng(5).integers(0, 20, 300)


def sequences():
    offsets = np.concatenate([[0], np.cumsum(LENGTHS)])
    tokens = hr.Ragged(np.arange(offsets[-1], dtype=np.int32), offsets)
    labels = hr.Ragged(np.arange(offsets[-1], dtype=np.int64) * 2, offsets)
    words = [f"w{number}" for number in range(len(LENGTHS))]
    return hr.ColumnSource({"tokens": tokens, "labels": labels, "word": words})


def packed(**options):
    return hr.Packed(sequences(), 32, feature=("tokens", "labels"), **options)


class TestPacked(SourceTests):
    def make(self, folder):
        return packed()


class TestViewOfPacked(SourceTests):
    def make(self, folder):
        return packed().sample(40, seed=2)[::-1]


def test_the_order_is_pinned():
    rows = packed()
    assert (len(rows), rows.fill_rate > 0.99) == PINNED[0]
    assert [int(rows[index]["tokens"][0]) for index in (0, 7, -1)] == PINNED[1]


PINNED = [(88, True), [0, 81, 2478]]


def test_features_that_belong_together():
    batch = packed().batch(range(5))
    assert (batch["labels"] == batch["tokens"] * 2).all()
    other = hr.Ragged.from_list([[1], [2, 3]], "int64")
    with pytest.raises(hr.SchemaMismatch, match=r"2 values in example 0.*found 1 .*'labels'.*same lengths"):
        hr.Packed(source_of([[1, 2], [3, 4]], labels=other), 4, feature=("tokens", "labels")).batch([0])


@pytest.mark.parametrize("workers", [0, 1])
def test_loaders_shuffle_shard_and_resume(workers):
    def loader(rank, world):
        return hr.Loader(packed(), 4, shuffle=True, seed=3, shard=hr.Shard(rank, world), workers=workers)

    whole = [batch["tokens"].tolist() for batch in loader(0, 1)]
    assert sorted(row for batch in whole for row in batch) == sorted(
        packed().batch(range(len(packed())))["tokens"].tolist()
    )
    first = loader(0, 1)
    batches = iter(first)
    found = [next(batches)["tokens"].tolist() for _ in range(3)]
    second = loader(0, 1)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert found + [batch["tokens"].tolist() for batch in second] == whole
    ranks = [row for rank in range(2) for batch in loader(rank, 2) for row in batch["tokens"].tolist()]
    assert sorted(ranks) == sorted(row for batch in whole for row in batch)
    other = hr.Loader(hr.Packed(sequences(), 40, feature="tokens"), 4, shuffle=True, seed=3)
    with pytest.raises(hr.StateMismatch):
        other.load_state_dict(first.state_dict())


def test_only_what_is_wanted_is_read():
    read = []

    class Narrow:
        def __init__(self, names=("tokens", "image")):
            self.names = names
            self.schema = hr.Schema(
                {"tokens": hr.Feature("int64", (None,)), "image": hr.Feature("uint8", (2,))}
            ).select(names)

        def __len__(self):
            return 3

        def batch(self, indices):
            read.append(self.names)
            columns = {
                "tokens": hr.Ragged.from_list([[1] * i for i in indices], "int64"),
                "image": np.zeros((len(indices), 2)),
            }
            return {name: columns[name] for name in self.names}

        def where(self, index):
            return hr.Where(record=index)

        def narrow(self, names):
            return Narrow(names)

    rows = hr.Packed(hr.Source(Narrow()), 4, feature="tokens").select("tokens")
    assert rows.batch([0])["tokens"].tolist() == [[1, 1, 1, 0]]
    assert set(read) == {("tokens",)}


def test_lengths_that_are_known():
    read = []

    def note(example):
        read.append(1)
        return example

    rows = [[1, 2], [3], [4, 5, 6]]
    source = source_of(rows).map(note)
    packed = hr.Packed(source, 3, feature="tokens", lengths=[2, 1, 3])
    _ = packed.schema
    read.clear()
    assert (len(packed), read) == (2, [])
    assert packed.batch([0])["tokens"].tolist() == [[1, 2, 3]]
    wrong = hr.Packed(source_of(rows), 3, feature="tokens", lengths=[1, 1, 3])
    with pytest.raises(hr.SchemaMismatch, match="1 values in example 0, as when the lengths were read, found 2"):
        wrong.batch([0])
    for lengths in ([1, 2], [1, 2, -1], [0.5, 1, 2], [[1, 2, 3]]):
        with pytest.raises(ValueError, match="3 integers from 0"):
            hr.Packed(source_of(rows), 3, feature="tokens", lengths=lengths)


def test_random_numbers_belong_to_sequences():
    def shift(example, rng):
        return {**example, "tokens": example["tokens"] * 100 + rng.integers(0, 100, len(example["tokens"]))}

    rows = hr.Packed(sequences().map(shift, seeded=True), 32, feature="tokens")
    one, two, other = (
        [row for batch in hr.Loader(rows, size, shuffle=True, seed=seed, threads=0) for row in batch["tokens"].tolist()]
        for size, seed in ((4, 1), (7, 1), (4, 2))
    )
    assert one == two
    assert sorted(one) != sorted(other)


def test_text_is_packed():
    words = hr.Ragged.from_list([["a", "b"], ["c"], ["d", "e", "f"]], object)
    rows = hr.Packed(hr.ColumnSource({"words": words}), 3, feature="words", fill="")
    assert rows.batch([0, 1])["words"].tolist() == [["a", "b", "c"], ["d", "e", "f"]]


def test_sequences_of_one_length_and_inner_axes():
    rows = hr.Packed(hr.ColumnSource({"x": np.arange(24).reshape(4, 3, 2)}), 7, feature="x")
    assert (len(rows), rows.batch([1])["x"].shape, rows.schema["x"].shape) == (2, (1, 7, 2), (7, 2))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"length": 0}, ValueError, "length must be at least 1"),
        ({"length": 2**24 + 1}, ValueError, "at most 16777216"),
        ({"length": 2.5}, TypeError, "length must be an integer"),
        ({"overlong": "cut"}, ValueError, "'raise', 'truncate' or 'split'"),
        ({"feature": "token"}, hr.NoSuchFeature, "Did you mean 'tokens'"),
        ({"feature": "id"}, hr.SchemaMismatch, "one axis that varies"),
        ({"feature": ()}, ValueError, "at least one feature"),
    ],
)
def test_arguments(options, error, message):
    arguments = {"length": 8, "feature": "tokens", **options}
    with pytest.raises(error, match=message):
        hr.Packed(source_of([[1]]), arguments.pop("length"), **arguments)


def test_columns_and_mixtures_are_packed():
    columns = {"x": hr.Ragged.from_list([[1], [2, 3]])}
    assert hr.Packed(columns, 3, feature="x").batch([0])["x"].tolist() == [[1, 2, 3]]
    mixture = hr.Mixture([(columns, 1), (columns, 1)])
    assert len(hr.Packed(mixture, 3, feature="x")) == 2


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=40),
    st.integers(1, 12),
    st.sampled_from(["split", "truncate"]),
    st.integers(1, 4),
    st.integers(1, 5),
    st.integers(0, 2**64 - 1),
    st.data(),
)
def test_every_token_comes_once(lengths, length, overlong, world, size, seed, data):
    """With tokens that are all different, over ranks, and stopped and resumed with other ranks and batches."""
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    source = hr.ColumnSource(
        {"tokens": hr.Ragged(np.arange(1, offsets[-1] + 1), offsets), "id": np.arange(len(lengths))}
    )
    packed = hr.Packed(source, length, feature="tokens", overlong=overlong)

    def loaders(world, size):
        options = {"shuffle": True, "seed": seed, "threads": 0}
        return [hr.Loader(packed, size, shard=hr.Shard(rank, world), **options) for rank in range(world)]

    def rows_of(batch):
        names = ("tokens", "tokens_segment", "tokens_position")
        return list(zip(*(batch[name].tolist() for name in names), batch["id"].to_list(), strict=True))

    first, found = loaders(world, size), []
    loops = [iter(loader) for loader in first]
    for _ in range(data.draw(st.integers(0, len(first[0])))):
        found += [row for loop in loops for row in rows_of(next(loop))]
    state = json.loads(json.dumps(first[0].state_dict()))
    assert all(loader.state_dict() == first[0].state_dict() for loader in first)
    if len(found) < len(packed):
        for loader in loaders(data.draw(st.integers(1, 4)), data.draw(st.integers(1, 5))):
            loader.load_state_dict(state)
            found += [row for batch in loader for row in rows_of(batch)]
    kept = [n if overlong == "split" else min(n, length) for n in lengths]
    assert len(found) == len(packed)
    assert sorted(
        token for tokens, segments, _, _ in found for token, at in zip(tokens, segments, strict=True) if at
    ) == [token for start, n in zip(offsets.tolist(), kept, strict=False) for token in range(start + 1, start + n + 1)]
    for tokens, segments, positions, ids in found:
        filled = sum(map(bool, segments))
        assert tokens[filled:] == segments[filled:] == positions[filled:] == [0] * (length - filled)
        for number, owner in enumerate(ids, 1):
            here = [at for at in range(filled) if segments[at] == number]
            assert here == list(range(here[0], here[-1] + 1)) if here else kept[owner] == 0
            assert [positions[at] for at in here] == list(range(len(here)))
            begin = (tokens[here[0]] - 1 - offsets[owner]) if here else 0
            assert begin % length == 0
            assert [tokens[at] for at in here] == [offsets[owner] + begin + at + 1 for at in range(len(here))]


@pytest.mark.parametrize(
    ("name", "lengths", "room"),
    [
        ("uniform", lambda rng: rng.integers(1, 257, 20_000), 1024),
        ("Zipf", lambda rng: rng.zipf(1.4, 20_000).clip(1, 4096), 1024),
        ("all long", lambda rng: 1024 + np.exp(rng.normal(6, 1, 5_000)), 1024),
        ("log-normal", lambda rng: np.exp(rng.normal(6, 1.2, 20_000)), 4096),
        ("web text", lambda rng: rng.pareto(1.1, 20_000) * 150 + 20, 2048),
        (
            "chats",
            lambda rng: np.where(
                rng.random(20_000) < 0.3, rng.integers(10, 60, 20_000), np.exp(rng.normal(6.4, 0.9, 20_000))
            ),
            8192,
        ),
    ],
)
def test_hardly_a_position_stays_empty(name, lengths, room):
    counts = np.maximum(lengths(np.random.default_rng(1)).astype(np.int64), 1)
    offsets = np.concatenate([[0], np.cumsum(np.minimum(counts, 3 * room))])
    source = hr.ColumnSource({"x": hr.Ragged(np.zeros(offsets[-1], np.int8), offsets)})
    for overlong in ("split", "truncate"):
        assert hr.Packed(source, room, feature="x", overlong=overlong).fill_rate > 0.99, name


def test_a_plan_that_was_made_is_pickled():
    rows = packed()
    assert pickle.loads(pickle.dumps(rows)).fill_rate == rows.fill_rate
    assert repr(rows).startswith(
        f"<Packed of {len(rows)} examples: tokens int32 (32,), labels int64 (32,), tokens_segment"
    )


@pytest.mark.parametrize(("lengths", "room"), [([-1], 4), ([5], 4), ([1], 0), ([1], 2**24 + 1)])
def test_lengths_that_do_not_fit_are_refused_by_native_code(lengths, room):
    with pytest.raises(ValueError, match="room"):
        _native.best_fit(np.array(lengths, np.int64), room)


def test_images_of_several_sizes_can_be_used_below():
    images = [np.full((size + 1, 2), size, np.uint8) for size in range(5)]
    packed = hr.Packed(source_of([[1], [2, 3], [4], [5, 6, 7], [8]], image=images), 4, feature="tokens")
    whole = packed.batch(range(len(packed)))
    rows = [[images[i].tolist() for i in ids] for ids in whole["id"]]
    assert whole["image"].to_list() == rows
    assert "uint8" in repr(whole)
    assert [batch["image"].to_list() for batch in hr.Loader(packed, 1)] == [[row] for row in rows]
    twice = packed.concat(packed)
    assert twice.batch([0, len(packed)])["image"].to_list() == [rows[0], rows[0]]
    mixture = hr.Mixture([(packed, 1), (packed, 1)])
    assert next(iter(hr.Loader(mixture, 2)))["image"].to_list() == [rows[0], rows[0]]


@pytest.mark.parametrize("made", ["t_segment", "t_position"])
def test_features_are_not_replaced_by_others(made):
    source = hr.ColumnSource({"t": hr.Ragged.from_list([[1, 2], [3]]), made: np.array([70, 80])})
    with pytest.raises(hr.SchemaMismatch, match="every feature name once") as caught:
        hr.Packed(source, 4, feature="t")
    assert caught.value.where.feature == made
    assert hr.Packed(source.rename({made: "other"}), 4, feature="t")[0]["other"].tolist() == [70, 80]
