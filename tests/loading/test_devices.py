"""Copying to an accelerator, as far as it can be tested without one."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
from collections import UserDict
from contextlib import contextmanager

import numpy as np
import pytest
from tests.loading.fakes import Numbers
from tests.loading.workers.test_workers import forked

import headrace as hr
from headrace.loading.handover import CudaStage, _make_stager, make_handover

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*fork:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]


@pytest.mark.parametrize("to", ["numpy"])
def test_numpy_goes_nowhere(to):
    with pytest.raises(ValueError, match=r"device='cuda' needs to='torch' or to='jax'"):
        hr.Loader(Numbers(3), 2, device="cuda")


@pytest.mark.torch
class TestTorch:
    def test_a_gpu_that_is_not_there(self):
        torch = pytest.importorskip("torch")
        if torch.cuda.is_available():
            pytest.skip("there is one")
        with pytest.raises(hr.UnsupportedData, match="expected a GPU that torch can use, found none"):
            hr.Loader(Numbers(3), 2, to="torch", device="cuda")

    @pytest.mark.parametrize("options", [{"threads": 0}, {"threads": 2}, {"workers": 2, "start_method": "fork"}])
    def test_another_device(self, options):
        """The device "meta" holds only shapes, and exists on every machine."""
        batches = list(hr.Loader(Numbers(40), 8, to="torch", device="meta", **options))
        assert [tuple(batch["row"].shape) for batch in batches] == [(8, 2)] * 5
        assert {batch["row"].device.type for batch in batches} == {"meta"}
        assert batches[0]["many"].values.device.type == "meta"
        assert batches[0]["name"].tolist() == [b"%d" % i for i in range(8)]

    def test_the_cpu_is_a_device(self):
        torch = pytest.importorskip("torch")
        for batch in hr.Loader(Numbers(40), 8, to="torch", device=torch.device("cpu")):
            assert batch["row"][:, 0].tolist() == batch["i"].tolist()

    def test_copies_run_on_a_stream_of_their_own(self, monkeypatch):
        """On a fake GPU that records its calls."""
        torch = pytest.importorskip("torch")
        reported = []
        monkeypatch.setattr(torch, "cuda", _Cuda(reported))
        monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: reported.append("pin") or self)
        monkeypatch.setattr(
            torch.Tensor, "to", lambda self, device, non_blocking: reported.append(("to", non_blocking)) or self
        )
        monkeypatch.setattr(
            torch.Tensor, "record_stream", lambda self, stream: reported.append(("used on", stream.name))
        )
        stage = CudaStage(torch, "cuda:0")
        staged = _make_stager(torch, stage)({"x": np.ones(3), "text": np.array(["a"], object)})
        assert reported == ["on side", "pin", ("to", True), "side records", "off side"]
        reported.clear()
        batch = stage.arrive(staged)
        assert reported == ["current waits for side", ("used on", "current")]
        assert batch["x"].tolist() == [1, 1, 1]
        assert batch["text"].tolist() == ["a"]

    def test_tensors_of_map_batch_go_to_the_device(self):
        torch = pytest.importorskip("torch")

        def make(batch):
            ragged = hr.Ragged(torch.arange(2), np.array([0, 2]))
            made = {
                "tensor": torch.from_numpy(batch["row"]),
                "ragged": ragged,
                "list": [torch.ones(1)],
                "x": batch["i"],
            }
            return {**made, "encoding": UserDict(ids=batch["i"], text=hr.Strings.from_values(["a"]))}

        (batch,) = hr.Loader(Numbers(4), 4, to="torch", device="meta", map_batch=make)
        moved = [batch["tensor"], batch["ragged"].values, batch["list"][0], batch["x"], batch["encoding"]["ids"]]
        assert {tensor.device.type for tensor in moved} == {"meta"}
        assert batch["encoding"]["text"].tolist() == ["a"]
        assert isinstance(batch["ragged"].offsets, (np.ndarray, torch.Tensor))

    def test_tensors_of_map_batch_on_a_stream(self, monkeypatch):
        """On a fake GPU that records its calls: only what is in host memory is pinned, only what streams know is noted for one."""
        torch = pytest.importorskip("torch")
        reported = []
        monkeypatch.setattr(torch, "cuda", _Cuda(reported))
        monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: reported.append("pin") or self)
        monkeypatch.setattr(
            torch.Tensor, "to", lambda self, device, non_blocking=False: reported.append(("to", non_blocking)) or self
        )
        stage = CudaStage(torch, "cuda:0")
        staged = _make_stager(torch, stage)({"host": torch.ones(2), "there": torch.ones(2, device="meta")})
        assert reported == ["on side", "pin", ("to", True), ("to", True), "side records", "off side"]
        assert len(staged.tensors) == 2
        reported.clear()
        staged = _make_stager(torch, stage)([torch.eye(2).to_sparse()])
        assert reported == ["on side", "on default", ("to", False), "off default", "side records", "off side"]
        assert staged.tensors == []

    def test_the_consumer_part_of_the_handover_runs_for_every_batch(self, monkeypatch):
        monkeypatch.setattr(
            "headrace.loading.loader.make_handover", lambda to, device: (None, lambda batch: batch["i"].tolist())
        )
        loader = hr.Loader(Numbers(6), 2, to="torch", device="cuda")
        assert list(loader) == [[0, 1], [2, 3], [4, 5]]

    def test_on_a_gpu(self):
        torch = pytest.importorskip("torch")
        if not torch.cuda.is_available():
            pytest.skip("needs a GPU")
        for options in ({"threads": 0}, {"threads": 2}, {"workers": 2, "start_method": "forkserver"}):
            seen = []
            for batch in hr.Loader(Numbers(4000), 8, to="torch", device="cuda", **options):
                assert batch["row"].device.type == "cuda"
                assert (batch["row"][:, 0] == batch["i"]).all()
                seen += batch["i"].tolist()
            assert seen == list(range(4000))


class _Stream:
    def __init__(self, reported, name):
        self.reported = reported
        self.name = name

    def record_event(self):
        self.reported.append(f"{self.name} records")
        return self.name

    def wait_event(self, event):
        self.reported.append(f"{self.name} waits for {event}")


class _Cuda:
    def __init__(self, reported):
        self.reported = reported

    def Stream(self, device):
        return _Stream(self.reported, "side")

    def default_stream(self, device):
        return _Stream(self.reported, "default")

    def current_stream(self, device):
        return _Stream(self.reported, "current")

    @contextmanager
    def stream(self, stream):
        self.reported.append(f"on {stream.name}")
        yield
        self.reported.append(f"off {stream.name}")


@pytest.mark.torch
def test_tensors_of_workers_share_the_ring():
    """No copy: the slot is free when the tensor, and every view of it, is gone."""
    batches = iter(forked(Numbers(1000, cuts_cleanly=False), 10, to="torch"))
    held = [next(batches)["row"][2:5, 1] for _ in range(2)]
    lending = batches._blocks._lending
    assert lending.lent == 2
    assert lending.copied == 0
    assert [part.tolist() for part in held] == [[2.5, 3.5, 4.5], [12.5, 13.5, 14.5]]
    held.clear()
    gc.collect()
    assert lending.lent == 0
    batches.close()


@pytest.mark.jax
def test_arrays_of_jax_outlive_their_slots():
    """JAX uses aligned memory in place: a slot must not be reused while one of its arrays lives."""
    source = Numbers(2000, cuts_cleanly=False)
    loader = hr.Loader(source, 10, to="jax", workers=2, start_method="forkserver", map_batch=widened)
    held = [batch["wide"] for batch in loader]
    assert [float(array[0, 7]) for array in held] == [10.0 * i for i in range(200)]
    assert all((np.asarray(array) == np.asarray(array)[:, :1]).all() for array in held)


def widened(batch):
    return {"wide": np.repeat(batch["row"][:, :1], 64, axis=1)}


@pytest.mark.torch
def test_tensors_made_by_workers():
    torch = pytest.importorskip("torch")
    for batch in forked(Numbers(60), 10, map_batch=as_tensors):
        assert batch["half"].dtype is torch.bfloat16
        assert batch["row"].tolist() == [[i, i + 0.5] for i in batch["i"].tolist()]
        assert batch["half"].tolist() == batch["row"][:, 0].tolist()


def as_tensors(batch):
    import torch

    row = torch.from_numpy(batch["row"])
    return {"i": batch["i"], "row": row, "half": row[:, 0].to(torch.bfloat16)}


@pytest.mark.jax
class TestJax:
    @pytest.mark.parametrize("options", [{"threads": 0}, {"threads": 2}, {"workers": 2, "start_method": "forkserver"}])
    def test_a_device(self, options):
        jax = pytest.importorskip("jax")
        device = jax.devices()[0]
        seen = []
        for batch in hr.Loader(Numbers(40), 8, to="jax", device=device, **options):
            assert batch["row"].devices() == {device}
            seen += batch["i"].tolist()
        assert seen == list(range(40))

    def test_arrays_of_map_batch_go_to_the_device(self):
        jax = pytest.importorskip("jax")
        sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
        for device in (jax.devices()[0], sharding):
            (batch,) = hr.Loader(
                Numbers(4),
                4,
                to="jax",
                device=device,
                map_batch=lambda batch: {"x": jax.numpy.ones(4), "i": batch["i"]},
            )
            assert batch["x"].committed
            assert batch["x"].devices() == batch["i"].devices() == {jax.devices()[0]}

    def test_what_a_sharding_does_not_divide_is_refused(self):
        """In a process of its own, which has four devices."""
        pytest.importorskip("jax")
        code = """
        import jax
        import numpy as np
        import headrace as hr

        mesh = jax.make_mesh((4,), ("b",))
        divided = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("b"))
        whole = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
        source = hr.ColumnSource({"x": np.arange(10), "r": hr.Ragged.from_list([[i] * (i % 4) for i in range(10)], "int32")})

        def refusal(names, **options):
            try:
                list(hr.Loader(source.select(*names), 8, to="jax", device=divided, **options))
            except hr.UnsupportedData as error:
                return f"{error.where.feature} {error.hint}"

        assert refusal(["r"]).startswith("r Pad them, as with map_batch=hr.Pad"), refusal(["r"])
        assert "drop_last=True" in refusal(["x"]) and refusal(["x"]).startswith("x ")
        assert refusal(["x"], drop_last=True) is None
        assert refusal(["r"], drop_last=True, map_batch=hr.Pad("r", length=4)) is None
        assert len(list(hr.Loader(source, 8, to="jax", device=whole))) == 2
        """
        environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
        command = [sys.executable, "-c", textwrap.dedent(code)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def test_a_sharding(self):
        jax = pytest.importorskip("jax")
        mesh = jax.sharding.Mesh(np.array(jax.devices()), ("batch",))
        sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("batch"))
        for batch in hr.Loader(Numbers(40), 8, to="jax", device=sharding):
            assert batch["row"].sharding == sharding

    def test_a_sharding_over_several_processes(self):
        """Each process gives its own part."""
        reported = []

        class Sharding:
            is_fully_addressable = False

        class Fake:
            class sharding:
                pass

            @staticmethod
            def make_array_from_process_local_data(sharding, array):
                reported.append(array.tolist())
                return "global"

        Fake.sharding.Sharding = Sharding
        from headrace.loading.handover import make_jax_putter

        assert make_jax_putter(Fake, Sharding())(np.arange(3)) == "global"
        assert reported == [[0, 1, 2]]


def test_the_next_block_is_finished_early():
    """With a device, the next batch is being copied before this one is yielded."""
    from headrace.loading.jobs import BatchMaker
    from headrace.loading.rounds import Cursor, RoundPlan
    from headrace.loading.workers.processes import WorkerPrefetcher
    from headrace.sampling.samplers import InOrder

    finished = []
    source = Numbers(30, cuts_cleanly=False)
    processes = WorkerPrefetcher(
        RoundPlan(1, 10).runs(Cursor(0, 0), 30, 0, lambda _: 1),
        maker=BatchMaker(source, InOrder(30), None, None),
        finish=lambda block: finished.append(block.run.number) or block,
        workers=1,
        ahead=3,
        method="fork",
        early=True,
    )
    next(processes)
    while processes._next_taken not in processes._answers and len(finished) < 2:
        processes._collect(100)
    next(processes)
    assert finished == [0, 1, 2] or finished == [0, 1]
    assert [block.run.number for block in processes] == [2]
    assert finished == [0, 1, 2]
    processes.close()


def test_handover_of_nothing():
    assert make_handover("numpy", None) == (None, None)


def test_invalid_devices():
    source = hr.ColumnSource({"a": np.arange(4)})
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match="device must be one that torch knows, such as 'cpu' or 'cuda:0', got 'nodev'"):
        next(iter(hr.Loader(source, 2, to="torch", device="nodev")))
    wide = hr.ColumnSource({"a": np.arange(4, dtype=np.longdouble), "b": np.arange(4)})
    batch = next(iter(hr.Loader(wide, 2, to="torch")))
    assert (batch["a"].dtype, batch["b"].dtype) == (np.longdouble, torch.int64)


@pytest.mark.parametrize("device", ["cpu", 3])
def test_invalid_jax_devices(device):
    pytest.importorskip("jax")
    with pytest.raises(ValueError, match=r"device must be a jax\.Device"):
        next(iter(hr.Loader(hr.ColumnSource({"a": np.arange(4)}), 2, to="jax", device=device)))
