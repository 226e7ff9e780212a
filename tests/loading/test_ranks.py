"""Detecting the rank of a process."""

from __future__ import annotations

import json
import os
import pickle
import socket
import subprocess
import sys
import textwrap
import types
from types import SimpleNamespace

import numpy as np
import pytest
from tests.loading.fakes import Numbers

import headrace as hr
from headrace.loading.ranks import find_default_shard


class TestLauncher:
    """``RANK`` and ``WORLD_SIZE`` apply for every ``to=``."""

    @pytest.fixture(autouse=True)
    def ranks(self, monkeypatch):
        monkeypatch.setenv("RANK", "1")
        monkeypatch.setenv("WORLD_SIZE", "2")

    def test_numpy_batches_are_sharded(self):
        loader = hr.Loader(Numbers(64), 4)
        assert loader.shard == hr.Shard(1, 2)
        assert next(iter(loader))["i"].tolist() == [4, 5, 6, 7]

    def test_both_ranks_read_everything_once(self, monkeypatch):
        seen = []
        for rank in "01":
            monkeypatch.setenv("RANK", rank)
            seen += [i for batch in hr.Loader(Numbers(61), 4, shuffle=True, workers=2) for i in batch["i"].tolist()]
        assert sorted(seen) == list(range(61))

    def test_given_values_override_inference(self):
        assert hr.Loader(Numbers(64), 4, shard=hr.Shard(0, 4)).shard == hr.Shard(0, 4)
        assert hr.Loader(Numbers(64), 4, shard=hr.Shard()).shard == hr.Shard()

    def test_a_rank_that_cannot_be(self, monkeypatch):
        monkeypatch.setenv("RANK", "2")
        with pytest.raises(ValueError, match="shard= overrides them"):
            hr.Loader(Numbers(64), 4)


@pytest.mark.torch
class TestTorch:
    def test_torchrun(self, monkeypatch):
        monkeypatch.setenv("RANK", "2")
        monkeypatch.setenv("WORLD_SIZE", "4")
        loader = hr.Loader(Numbers(64), 4, to="torch")
        assert loader.shard == hr.Shard(2, 4)
        assert next(iter(loader))["i"].tolist() == [8, 9, 10, 11]
        assert hr.Loader(Numbers(64), 4, to="torch", shard=hr.Shard()).shard == hr.Shard()

    def test_half_of_it_is_nothing(self, monkeypatch):
        monkeypatch.setenv("RANK", "2")
        monkeypatch.delenv("WORLD_SIZE", raising=False)
        assert find_default_shard("torch") == hr.Shard()

    @pytest.mark.parametrize("rank", ["x", "4", ""])
    def test_a_rank_that_cannot_be(self, rank, monkeypatch):
        monkeypatch.setenv("RANK", rank)
        monkeypatch.setenv("WORLD_SIZE", "4")
        with pytest.raises(
            ValueError, match=r"RANK='.*' and WORLD_SIZE='4' are set, and wrong: .*shard= overrides them"
        ):
            hr.Loader(Numbers(64), 4, to="torch")

    def test_torch_distributed(self, tmp_path):
        """Two real ranks read every example once, in equal numbers of batches."""
        code = """
        import sys
        import torch.distributed as dist
        import headrace as hr, numpy as np

        rank = int(sys.argv[1])
        dist.init_process_group("gloo", init_method=f"file://{sys.argv[2]}", rank=rank, world_size=2)
        source = hr.ColumnSource({"i": np.arange(101)})
        loader = hr.Loader(source, 8, shuffle=True, to="torch")
        seen = [batch["i"].tolist() for batch in loader]
        everyone = [None, None]
        dist.all_gather_object(everyone, seen)
        dist.barrier()
        dist.destroy_process_group()
        assert [len(batches) for batches in everyone] == [7, 7]
        assert sorted(i for batches in everyone for batch in batches for i in batch) == list(range(101))
        print(loader.shard)
        """
        ends = run_ranks(code, tmp_path / "meeting")
        assert [out for out, _ in ends] == ["Shard(rank=0, world=2)\n", "Shard(rank=1, world=2)\n"], ends

    @pytest.mark.parametrize("context", ["fork", "spawn"])
    def test_torchs_own_loader_on_two_ranks(self, context, tmp_path):
        """torch's DistributedSampler and workers on two real ranks read every example once."""
        code = """
        import sys
        import torch.distributed as dist
        from torch.utils.data import DataLoader, DistributedSampler
        import headrace as hr

        rank, meeting, path, context = int(sys.argv[1]), *sys.argv[2:]
        dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
        source = hr.open(path)
        sampler = DistributedSampler(source, shuffle=True, seed=3)
        loader = DataLoader(source, 8, sampler=sampler, num_workers=1, multiprocessing_context=context)
        for epoch in range(2):
            sampler.set_epoch(epoch)
            seen = [batch["i"].tolist() for batch in loader]
            everyone = [None, None]
            dist.all_gather_object(everyone, seen)
            assert [len(batches) for batches in everyone] == [7, 7]
            assert sorted(i for batches in everyone for batch in batches for i in batch) == list(range(100))
        dist.barrier()
        dist.destroy_process_group()
        print("done")
        """
        hr.write(tmp_path / "x.tfrecord", {"i": np.arange(100)})
        ends = run_ranks(code, tmp_path / "meeting", tmp_path / "x.tfrecord", context)
        assert [out for out, _ in ends] == ["done\n", "done\n"], ends


def run_ranks(code, *arguments, environment=None):
    """Run a program as rank 0 and rank 1; returns stdout and stderr."""
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code), str(rank), *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environment or {})},
        )
        for rank in range(2)
    ]
    try:
        return [process.communicate(timeout=300) for process in ranks]
    finally:
        for process in ranks:
            process.kill()
            process.wait()


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.mark.jax
def test_jax_on_two_processes():
    """Two real processes with two devices each: global batches hold every example of an epoch exactly once."""
    code = """
    import sys
    import jax
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{sys.argv[2]}", num_processes=2, process_id=int(sys.argv[1]))
    import numpy as np
    import headrace as hr
    from jax.experimental.multihost_utils import process_allgather

    assert (jax.process_count(), len(jax.devices()), len(jax.local_devices())) == (2, 4, 2)
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("data",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    columns = {"i": np.arange(96), "x": np.arange(288, dtype=np.float32).reshape(96, 3)}
    source = hr.ColumnSource(columns)

    def epoch(**options):
        loader = hr.Loader(source, 8, shuffle=True, seed=5, drop_last=True, to="jax", **options)
        assert loader.shard == hr.Shard(jax.process_index(), 2)
        return list(loader)

    batches = epoch(device=sharding)
    assert len(batches) == 6
    total = jax.jit(lambda x: x.sum(), out_shardings=jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec()))
    seen = []
    for batch in batches:
        assert batch["i"].shape == (16,) and batch["x"].shape == (16, 3)
        assert not batch["i"].is_fully_addressable and batch["i"].sharding == sharding
        whole = {name: process_allgather(column, tiled=True) for name, column in batch.items()}
        np.testing.assert_array_equal(whole["x"], columns["x"][whole["i"]])
        assert int(total(batch["i"])) == whole["i"].sum()
        seen += whole["i"].tolist()
    assert sorted(seen) == list(range(96)), seen

    # The same by hand, as JAX's guide does it.
    by_hand = [jax.make_array_from_process_local_data(sharding, np.asarray(batch["i"])) for batch in epoch()]
    assert sum((process_allgather(array, tiled=True).tolist() for array in by_hand), []) == seen
    jax.distributed.shutdown()
    print("done")
    """
    environment = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    ends = run_ranks(code, free_port(), environment=environment)
    assert all(out.endswith("done\n") for out, _ in ends), ends  # after gloo's messages about connections


@pytest.mark.jax
def test_jax(monkeypatch):
    import jax

    assert find_default_shard("jax") == hr.Shard()
    monkeypatch.setattr(jax, "process_index", lambda: 1)
    monkeypatch.setattr(jax, "process_count", lambda: 3)
    assert hr.Loader(Numbers(64), 4, to="jax").shard == hr.Shard(1, 3)


class Session:
    """A training function of Ray Train, as ``ray.train.get_context()`` shows it; without Ray."""

    def __init__(self, monkeypatch):
        self.shard = None
        module = types.ModuleType("ray.train")
        module.get_context = lambda: self
        monkeypatch.setitem(sys.modules, "ray.train", module)

    def of(self, rank, world):
        self.shard = (rank, world)
        return self

    def get_world_rank(self):
        if self.shard is None:
            raise RuntimeError("`get_context` cannot be used outside of a Ray Train training function.")
        return self.shard[0]

    def get_world_size(self):
        return self.shard[1]


@pytest.fixture
def session(monkeypatch):
    return Session(monkeypatch)


class TestRayTrain:
    """The rank comes from Ray Train for every ``to=``. ``tests/loading/test_ray_train.py`` shows it in real runs."""

    @pytest.mark.parametrize(
        "to", ["numpy", pytest.param("torch", marks=pytest.mark.torch), pytest.param("jax", marks=pytest.mark.jax)]
    )
    def test_every_kind_of_batch_is_of_the_rank(self, to, session):
        session.of(1, 2)
        assert hr.Loader(Numbers(64), 4, to=to).shard == hr.Shard(1, 2)
        assert hr.Loader(Numbers(64), 4, to=to, shard="ray").shard == hr.Shard(1, 2)
        assert hr.Loader(Numbers(64), 4, to=to, shard=hr.Shard()).shard == hr.Shard()

    def test_outside_of_a_training_function(self, session, monkeypatch):
        assert hr.Loader(Numbers(64), 4).shard == hr.Shard()
        monkeypatch.setenv("RANK", "1")
        monkeypatch.setenv("WORLD_SIZE", "2")
        assert hr.Loader(Numbers(64), 4).shard == hr.Shard(1, 2)
        for _ in range(2):  # with ray.train loaded, and without
            with pytest.raises(
                ValueError, match=r"running no training function.*train_loop_per_worker.*Shard\(rank, world\)"
            ):
                hr.Loader(Numbers(64), 4, shard="ray")
            monkeypatch.delitem(sys.modules, "ray.train", raising=False)

    def test_a_function_of_ray_tune(self, session, monkeypatch):
        def refuse():
            raise DeprecationWarning(
                "`ray.train.get_context` is deprecated when running in a function passed to Ray Tune."
            )

        monkeypatch.setattr(sys.modules["ray.train"], "get_context", refuse)
        assert hr.Loader(Numbers(64), 4).shard == hr.Shard()

    def test_ray_comes_before_the_launcher(self, session, monkeypatch):
        monkeypatch.setenv("RANK", "0")
        monkeypatch.setenv("WORLD_SIZE", "1")
        assert hr.Loader(Numbers(64), 4).shard == hr.Shard()
        session.of(2, 3)
        assert hr.Loader(Numbers(64), 4).shard == hr.Shard(2, 3)

    def test_a_loader_sent_to_a_worker_reads_the_part_of_that_worker(self, session):
        made_outside = [
            pickle.dumps(hr.Loader(Numbers(61), 4, shuffle=True, shard=shard)) for shard in (None, hr.Shard(0, 3))
        ]
        seen = []
        for rank in range(2):
            session.of(rank, 2)
            default, given = map(pickle.loads, made_outside)
            assert given.shard == hr.Shard(0, 3)
            seen += [i for batch in default for i in batch["i"].tolist()]
        assert sorted(seen) == list(range(61))

    @pytest.mark.torch
    def test_torch_of_another_size(self, session, monkeypatch):
        """Two frameworks that disagree about the number of ranks would read examples twice, silently."""
        distributed = pytest.importorskip("torch.distributed")
        monkeypatch.setattr(distributed, "is_initialized", lambda: True)
        monkeypatch.setattr(distributed, "get_rank", lambda: 0)
        monkeypatch.setattr(distributed, "get_world_size", lambda: 1)
        session.of(1, 2)
        with pytest.raises(ValueError, match="Ray Train runs 2 workers, and torch.distributed or JAX 1"):
            hr.Loader(Numbers(64), 4)
        assert hr.Loader(Numbers(64), 4, shard="ray").shard == hr.Shard(1, 2)
        session.of(0, 1)
        assert hr.Loader(Numbers(64), 4).shard == hr.Shard()

    @pytest.mark.parametrize("shard", ["torch", "", 2, (0, 2)])
    def test_what_is_no_shard(self, shard):
        with pytest.raises(TypeError, match=r"headrace.Shard\(rank, world\), 'ray' or None, got"):
            hr.Loader(Numbers(64), 4, shard=shard)

    @pytest.mark.parametrize("seed", range(50))
    def test_killed_ranks_and_other_numbers_of_ranks(self, seed, session):
        """A rank dies, and the run resumes from its last checkpoint with other ranks, again and again: nothing is lost or repeated."""
        chance = np.random.default_rng(seed)
        n, epochs = int(chance.integers(1, 400)), int(chance.integers(1, 4))
        source, state, kept = Numbers(n), None, []
        for deaths in range(100):
            world, batch_size = int(chance.integers(1, 7)), int(chance.integers(1, 24))
            dies_at = int(chance.integers(1, 30)) if deaths < 6 else None
            loaders = [
                hr.Loader(source, batch_size, shuffle=True, seed=seed, epochs=epochs, to="numpy", shard=shard)
                for shard in [None if chance.random() < 0.5 else "ray"]
                for rank in range(world)
                if session.of(rank, world)
            ]
            for loader in loaders:
                if state is not None:
                    loader.load_state_dict(json.loads(state))
            since = []
            for step, batches in enumerate(zip(*loaders, strict=True), 1):  # all ranks have equally many
                if step == dies_at:
                    break
                since += [i for batch in batches for i in batch["i"].tolist()]
                if chance.random() < 0.2:  # the checkpoint is rank 0's, and would be the same on every rank
                    states = {json.dumps(loader.state_dict()) for loader in loaders}
                    assert len(states) == 1
                    (state,) = states
                    kept, since = kept + since, []
            else:
                kept += since
                break
        for epoch in range(epochs):
            assert sorted(kept[epoch * n : (epoch + 1) * n]) == list(range(n))
        assert len(kept) == epochs * n


def test_the_first_api_of_ray_train_outside_of_a_training_function(monkeypatch):
    """It says rank 0 of 1 there."""
    context = SimpleNamespace(get_world_rank=lambda: 0, get_world_size=lambda: 1)
    api = SimpleNamespace(get_context=lambda: context)
    session = SimpleNamespace(get_session=lambda: None)
    for name, fake in (("ray.train", api), ("ray.train.context", api), ("ray.train._internal.session", session)):
        monkeypatch.setitem(sys.modules, name, fake)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert find_default_shard("torch") == hr.Shard(1, 2)
    with pytest.raises(ValueError, match="running no training function"):
        hr.Loader(Numbers(64), 4, shard="ray")
    session.get_session = object
    assert find_default_shard("torch") == hr.Shard(0, 1)
