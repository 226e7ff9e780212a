"""Steps of episodes by index, against the steps inside each episode."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

import headrace as hr
from headrace.datasets import data_source
from headrace.datasets.columns import Steps
from headrace.testing import SourceTests, assert_same

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "tfds"


def episodes(split="test"):
    return data_source("episodes", split, data_dir=GOLDEN / "features")


class TestSteps(SourceTests):
    def make(self, folder):
        return episodes().steps()


class TestSomeSteps(SourceTests):
    def make(self, folder):
        return episodes()[1:].steps().select("reward", "step_id", "words")[::-1]


def test_every_step_of_every_episode():
    source, steps = episodes(), episodes().steps()
    expected = [(at, number, step) for at, episode in enumerate(source) for number, step in enumerate(episode["steps"])]
    assert len(steps) == len(expected) > 3
    assert list(steps.schema)[-2:] == ["episode_id", "step_id"]
    for found, (at, number, step) in zip(steps, expected, strict=True):
        assert (int(found["episode_id"]), int(found["step_id"])) == (at, number)
        assert_same({name: found[name] for name in step}, dict(step))
    order = np.random.default_rng(0).permutation(len(steps))
    batch = steps.batch(order)
    assert list(zip(batch["episode_id"].tolist(), batch["step_id"].tolist(), strict=True)) == [
        expected[i][:2] for i in order
    ]
    assert batch["action"].tolist() == [int(expected[i][2]["action"]) for i in order]
    assert steps.schema["observation/image"].shape == batch["observation/image"].shape[1:]


def test_only_wanted_features_are_decoded(monkeypatch):
    seen = []
    batch = Steps.batch
    monkeypatch.setattr(
        Steps, "batch", lambda self, indices=None: (seen.append(tuple(self._columns)), batch(self, indices))[1]
    )
    steps = episodes().steps().select("reward")
    assert len(steps) > 3
    assert seen == []
    assert steps.batch([1]).keys() == {"reward"}
    assert set(seen) == {("reward",)}


def test_steps_that_are_single_values():
    source = episodes()
    steps = source.steps("plain")
    expected = [int(value) for episode in source for value in episode["plain"]]
    assert [int(example["value"]) for example in steps] == expected
    assert steps.batch(range(len(steps)))["value"].tolist() == expected


@pytest.mark.parametrize("workers", [0, 1])
def test_loaders_of_steps_resume(workers):
    def loader():
        return hr.Loader(episodes().steps(), 2, shuffle=True, seed=1, workers=workers)

    whole = [batch["action"].tolist() for batch in loader()]
    first = loader()
    found = [next(iter(first))["action"].tolist()]
    second = loader()
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert found + [batch["action"].tolist() for batch in second] == whole


@pytest.mark.parametrize("workers", [0, 1])
def test_functions_of_episodes_keep_their_steps(workers):
    source = episodes()
    for made in (source.map(same), source.flat_map(alone)):
        assert made.schema["steps"] == source.schema["steps"]
        for found in (list(made), [made[i] for i in range(len(made))]):
            assert [type(episode["steps"]) for episode in found] == [Steps] * len(source)
        batches = list(hr.Loader(made, 2, workers=workers))
        found = [steps for batch in batches for steps in batch["steps"]]
        for one, episode in zip(found, source, strict=True):
            assert_same(one.batch(), episode["steps"].batch())
    cut = source.map(lambda episode: {"steps": episode["steps"][:1]})
    assert cut.schema["steps"].dtype == "examples"
    assert [len(episode["steps"]) for episode in cut] == [min(len(episode["steps"]), 1) for episode in source]
    with pytest.raises(hr.SchemaMismatch, match="expected .*, as before, found .*steps"):
        source.map(lambda e: {"steps": e["steps"] if len(e["steps"]) > 1 else [1]}).batch(range(len(source)))


def same(episode):
    return episode


def alone(episode):
    yield episode


def test_steps_of_a_part():
    source = episodes()
    chosen = source.filter(lambda episode: len(episode["steps"]) > 1)
    assert "filtered examples" in repr(chosen)
    expected = [int(step["action"]) for episode in source if len(episode["steps"]) > 1 for step in episode["steps"]]
    assert [int(step["action"]) for step in chosen.steps()] == expected
    assert len(source.shard(0, 1).steps()) == len(source.split("test[:100%]").steps()) == len(source.steps())
    with pytest.raises(AttributeError, match=r"'steps'\. .*call it before map\(\)"):
        source.map(same).steps()


def test_arguments():
    named = episodes().steps(episode="e", step="s")
    assert list(named.schema)[-2:] == ["e", "s"]
    assert len(pickle.loads(pickle.dumps(named))) == len(named)
    with pytest.raises(hr.SchemaMismatch, match="a name that no step has.*'action'.*Choose other names"):
        _ = episodes().steps(episode="action").schema
    with pytest.raises(hr.NoSuchFeature, match="Did you mean 'steps'"):
        episodes().steps("step")
    with pytest.raises(hr.NoSuchFeature, match="one feature that holds examples"):
        data_source("numbers", "test", data_dir=GOLDEN / "features").steps()
    with pytest.raises(hr.UnsupportedData, match="a feature that holds examples, found Feature"):
        source = data_source("numbers", "test", data_dir=GOLDEN / "features")
        source.steps(next(iter(source.schema)))
    nothing = episodes()[:0].steps()
    assert (len(nothing), list(nothing.schema)) == (0, ["episode_id", "step_id"])


def windows_within(steps, size, stride):
    """Plainly: by the episode and the number of each step, where neighbours of one episode belong together."""
    runs = []
    for step in steps:
        key = int(step["episode_id"])
        if not runs or runs[-1][0] != key:
            runs.append((key, []))
        runs[-1][1].append(int(step["step_id"]))
    return [(key, numbers[at : at + size]) for key, numbers in runs for at in range(0, len(numbers) - size + 1, stride)]


@pytest.mark.parametrize(
    "change",
    [
        lambda steps: steps,
        lambda steps: steps.select("episode_id", "step_id"),
        lambda steps: steps.map(lambda step: {**step, "more": step["reward"]}),
        lambda steps: steps[1:],
        lambda steps: steps[::-1],
        lambda steps: steps.filter(lambda step: step["step_id"] != 1),
        lambda steps: steps.map(lambda step: step)[1:-1].select("episode_id", "step_id"),
        lambda steps: steps.concat(steps[1:]),
        lambda steps: steps[:0],
        lambda steps: steps.zip(hr.ColumnSource({"number": np.arange(len(steps))})),
        lambda steps: hr.ColumnSource({"number": np.arange(len(steps))}).zip(steps),
        lambda steps: steps.flat_map(lambda step: [step] * (1 + step["step_id"] % 2)),
        lambda steps: steps.rename({"reward": "gain"}).encoded(),
    ],
)
@pytest.mark.parametrize(("size", "stride"), [(1, 1), (2, 1), (2, 3), (3, 2), (50, 1)])
def test_windows_of_steps_stay_inside_an_episode(change, size, stride):
    steps = change(episodes().steps())
    windows = steps.window(size, stride)
    found = [(int(window["episode_id"][0]), window["step_id"].tolist()) for window in windows]
    expected = windows_within(steps, size, stride)
    if (
        change(episodes().steps())[:1] and len(steps) > 2 * len(episodes().steps()) - 2
    ):  # the end of one and the begin of the other
        expected = windows_within(episodes().steps(), size, stride) + windows_within(
            episodes().steps()[1:], size, stride
        )
    assert found == expected
    for window in windows:
        assert len(set(window["episode_id"].tolist())) == 1
    if len(windows):
        assert windows.where(len(windows) - 1)
        order = np.random.default_rng(0).permutation(len(windows))
        assert [row.tolist() for row in windows.batch(order)["step_id"]] == [expected[at][1] for at in order]


@pytest.mark.parametrize("change", [lambda steps: steps, lambda steps: steps[::-1], lambda steps: steps[:0]])
def test_a_cache_keeps_episodes(tmp_path, change):
    steps = change(episodes().steps())
    stored = steps.select("episode_id", "step_id").cache(tmp_path, key="1")
    again = pickle.loads(pickle.dumps(steps.select("episode_id", "step_id").cache(tmp_path, key="1")))
    for source in (stored, again, stored.select("episode_id", "step_id").map(lambda step: step)):
        windows = [
            (int(each["episode_id"][0]), each["step_id"].tolist())
            for each in source.select(*source.schema).window(2, 1)
        ]
        assert windows == windows_within(steps, 2, 1)
    assert len(list(tmp_path.glob("*/"))) == 1


def test_damaged_ends_of_episodes_are_found(tmp_path):
    steps = episodes().steps().select("step_id")
    steps.cache(tmp_path, key="1")
    (file,) = tmp_path.glob("*/runs")
    content = file.read_bytes()
    for damaged in (
        b"",
        content[:-8],
        content + content[-8:],
        content[:8] + content[-8:] + content[16:],
        content[:-1] + b"\x7f",
    ):
        file.write_bytes(damaged)
        with pytest.raises(hr.CorruptFile, match=r"the ends of \d+ runs"):
            len(steps.cache(tmp_path, key="1").window(2))


def test_windows_of_windows_stay_inside_an_episode():
    found = episodes().steps().select("episode_id").window(2, 1).window(2, 1)
    assert len(found)
    for window in found:
        assert len(set(window["episode_id"].reshape(-1).tolist())) == 1


def test_what_was_not_counted_is_not_counted_to_be_shown():
    read = []

    def note(example):
        read.append(example)
        return [example, example]

    steps = episodes().steps()
    assert repr(steps).startswith("<Source of examples not counted yet: ")
    assert len(steps) > 3
    assert repr(steps).startswith(f"<Source of {len(steps)} examples: ")
    twice = hr.ColumnSource({"x": np.arange(100), "y": np.ones((100, 3))}).flat_map(note)
    assert repr(twice) == "<Source of examples not counted yet: x int64, y float64 (3,)>"
    assert repr(twice.filter(len)) == "<Source of filtered examples: x int64, y float64 (3,)>"
    assert len(read) < 3
    assert len(twice) == 200
    assert repr(twice) == "<Source of 200 examples: x int64, y float64 (3,)>"
