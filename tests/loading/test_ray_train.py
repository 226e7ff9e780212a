"""Loaders in real runs of Ray Train: ranks, checkpoints, a killed rank, another number of workers.

``tests/loading/test_ranks.py`` runs fifty seeds of the same in simulated sessions.
"""

from __future__ import annotations

import json
import os
import threading
import time

import numpy as np
import pytest
from tests.clusters import running_cluster

import headrace as hr

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.ray
ROWS = 397


def train_loop(config):
    """Reads batches, notes what it has read, and puts the loader's state into a checkpoint now and then."""
    import json
    import os
    import time

    import ray.train

    import headrace as hr

    context = ray.train.get_context()
    rank, world = context.get_world_rank(), context.get_world_size()
    loader = config.get("loader")  # sent by the driver
    if loader is None:
        source = hr.open(config["path"])
        loader = hr.Loader(source, config["batch_size"], shuffle=True, seed=config["seed"], epochs=2, to=config["to"])
    assert loader.shard == hr.Shard(rank, world), loader.shard
    step, checkpoint = 0, ray.train.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as folder, open(os.path.join(folder, "state.json")) as file:
            saved = json.load(file)
        loader.load_state_dict(saved["loader"])
        step = saved["step"]
    read, died = [], os.path.join(config["notes"], "died")
    for batch in loader:
        step += 1
        if step == config.get("dies_at") and rank == world - 1 and not os.path.exists(died):
            open(died, "w").close()
            os._exit(9)
        if step == config.get("waits_at") and world == 3:
            open(os.path.join(config["notes"], f"waits-{rank}"), "w").close()
            while True:  # until its node is killed, or Ray ends it
                time.sleep(0.1)
        read += [int(i) for i in batch["i"]]
        if step % 5 == 0 and step != config.get("stops_at"):
            save(ray, config, loader, step, read)
            read = []
        if step == config.get("stops_at"):
            return  # what was read since the last checkpoint is lost, and will be read again
    if step % 5:
        save(ray, config, loader, step, read)


def save(ray, config, loader, step, read):
    """Report a checkpoint of the loader. What a rank has read counts once the checkpoint of its step is reported."""
    import json
    import os
    import tempfile

    rank = loader.shard.rank
    name = os.path.join(config["notes"], f"{step:05d}-{loader.shard.world}-{rank}.json")
    with open(name + ".part", "w") as file:
        json.dump(read, file)
    os.replace(name + ".part", name)
    if rank:
        ray.train.report({"step": step})
        return
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "state.json"), "w") as file:
            json.dump({"loader": loader.state_dict(), "step": step}, file)
        ray.train.report({"step": step}, checkpoint=ray.train.Checkpoint.from_directory(folder))


for _function in (train_loop, save):
    _function.__module__ = "__main__"  # Ray sends the code: workers cannot import this module


@pytest.fixture
def run(local_ray, tmp_path):
    """Run the loop with some workers; returns the checkpoint."""
    import ray.train

    hr.write(tmp_path / "x.tfrecord", {"i": np.arange(ROWS), "x": np.ones((ROWS, 4), np.float32)})
    (tmp_path / "notes").mkdir()

    def start(trainer, workers, *, checkpoint=None, name, **config):
        from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

        kind = trainer or DataParallelTrainer

        def loop(config):
            if checkpoint is not None and ray.train.get_checkpoint() is None:
                config = {**config, "resumed": checkpoint}
                ray.train.get_checkpoint = lambda given=ray.train.Checkpoint(checkpoint): given
            train_loop(config)

        config = {"path": str(tmp_path / "x.tfrecord"), "notes": str(tmp_path / "notes"), "to": "numpy", **config}
        result = kind(
            loop if checkpoint is not None else train_loop,
            train_loop_config={"batch_size": 16, "seed": 7, **config},
            scaling_config=ray.train.ScalingConfig(num_workers=workers, resources_per_worker={"CPU": 0.4}),
            run_config=ray.train.RunConfig(
                name=name, storage_path=str(tmp_path / "runs"), failure_config=ray.train.FailureConfig(max_failures=2)
            ),
        ).fit()
        return result.checkpoint.path

    start.notes = tmp_path / "notes"
    return start


def read_twice(notes):
    """Whether all was read twice, in the last attempt at each step."""
    worlds = {}  # by step: of the attempt that has written last
    for path in sorted(notes.glob("*.json"), key=lambda path: path.stat().st_mtime_ns):
        worlds[path.name[:5]] = path.name[:8]
    seen = [i for start in worlds.values() for path in notes.glob(f"{start}*") for i in json.loads(path.read_text())]
    return sorted(seen) == sorted([*range(ROWS), *range(ROWS)])


@pytest.mark.parametrize(("to", "dies_at"), [("numpy", 8), ("torch", 17)])
def test_a_killed_rank(to, dies_at, run):
    """A rank dies once: the run resumes from its last checkpoint, and two epochs are read exactly."""
    trainer = None
    if to == "torch":
        trainer = pytest.importorskip("ray.train.torch").TorchTrainer
    run(trainer, 2, name="killed", to=to, dies_at=dies_at)
    assert (run.notes / "died").exists()
    assert read_twice(run.notes)


def test_another_number_of_workers(run):
    """Three workers, one of which dies, and then two that go on."""
    checkpoint = run(None, 3, name="three", dies_at=4, stops_at=8)
    assert os.path.exists(run.notes / "died")
    assert not read_twice(run.notes)
    run(None, 2, name="two", checkpoint=checkpoint, batch_size=10)
    assert read_twice(run.notes)


def test_a_node_leaves_and_fewer_workers_go_on(tmp_path):
    """Elastic training: of three nodes one dies for ever, and two workers go on from the last checkpoint."""
    import ray.train
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    scaling = ray.train.ScalingConfig(num_workers=(1, 3))
    if not hasattr(scaling, "elasticity_enabled"):
        pytest.skip("Ray 2.52 has no elastic training")
    notes = tmp_path / "notes"
    notes.mkdir()
    hr.write(tmp_path / "x.tfrecord", {"i": np.arange(ROWS), "x": np.ones((ROWS, 4), np.float32)})
    config = {"path": str(tmp_path / "x.tfrecord"), "notes": str(notes), "to": "numpy", "waits_at": 8}
    with running_cluster(3) as nodes:

        def kill():
            while len(list(notes.glob("waits-*"))) < 3:
                time.sleep(0.1)
            nodes.kill(0)

        thread = threading.Thread(target=kill, daemon=True)
        thread.start()
        DataParallelTrainer(
            train_loop,
            train_loop_config={"batch_size": 16, "seed": 7, **config},
            scaling_config=scaling,
            run_config=ray.train.RunConfig(
                storage_path=str(tmp_path / "runs"), failure_config=ray.train.FailureConfig(max_failures=-1)
            ),
        ).fit()
        thread.join()
    assert list(notes.glob("00005-3-*"))
    assert not list(notes.glob("00010-3-*"))
    assert list(notes.glob("00010-2-*"))
    assert read_twice(notes)


def test_a_loader_from_the_driver(run, tmp_path):
    loader = hr.Loader(hr.open(tmp_path / "x.tfrecord"), 32, shuffle=True, seed=3, epochs=2)
    assert loader.shard == hr.Shard()
    run(None, 2, name="sent", loader=loader)
    assert read_twice(run.notes)


@pytest.mark.jax
def test_jax(run, monkeypatch):
    pytest.importorskip("jax")
    from ray.train.v2.jax import JaxTrainer

    run(JaxTrainer, 2, name="jax", to="jax", dies_at=8)
    assert (run.notes / "died").exists()
    assert read_twice(run.notes)
