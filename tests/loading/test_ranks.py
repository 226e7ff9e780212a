"""Which rank a process is when nobody says so."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest
from tests.loading.fakes import Numbers

import penstock as ps
from penstock.loading.ranks import default_shard


@pytest.mark.torch
class TestTorch:
    def test_torchrun(self, monkeypatch):
        monkeypatch.setenv("RANK", "2")
        monkeypatch.setenv("WORLD_SIZE", "4")
        loader = ps.Loader(Numbers(64), 4, to="torch")
        assert loader.shard == ps.Shard(2, 4)
        assert next(iter(loader))["i"].tolist() == [8, 9, 10, 11]
        assert ps.Loader(Numbers(64), 4, to="torch", shard=ps.Shard()).shard == ps.Shard()
        assert ps.Loader(Numbers(64), 4).shard == ps.Shard(), "NumPy arrays need not be for torch"

    def test_half_of_it_is_nothing(self, monkeypatch):
        monkeypatch.setenv("RANK", "2")
        monkeypatch.delenv("WORLD_SIZE", raising=False)
        assert default_shard("torch") == ps.Shard()

    @pytest.mark.parametrize("rank", ["x", "4", ""])
    def test_a_rank_that_cannot_be(self, rank, monkeypatch):
        monkeypatch.setenv("RANK", rank)
        monkeypatch.setenv("WORLD_SIZE", "4")
        with pytest.raises(
            ValueError, match=r"RANK='.*' and WORLD_SIZE='4' are set, and wrong: .*shard= overrides them"
        ):
            ps.Loader(Numbers(64), 4, to="torch")

    def test_torch_distributed(self, tmp_path):
        """Two real ranks: together they read every example once, in as many batches each."""
        code = """
        import sys
        import torch.distributed as dist
        import penstock as ps, numpy as np

        rank = int(sys.argv[1])
        dist.init_process_group("gloo", init_method=f"file://{sys.argv[2]}", rank=rank, world_size=2)
        source = ps.ColumnSource({"i": np.arange(101)})
        loader = ps.Loader(source, 8, shuffle=True, to="torch")
        seen = [batch["i"].tolist() for batch in loader]
        everyone = [None, None]
        dist.all_gather_object(everyone, seen)
        dist.barrier()
        dist.destroy_process_group()
        assert [len(batches) for batches in everyone] == [7, 7]
        assert sorted(i for batches in everyone for batch in batches for i in batch) == list(range(101))
        print(loader.shard)
        """
        ranks = [
            subprocess.Popen(
                [sys.executable, "-c", textwrap.dedent(code), str(rank), str(tmp_path / "meeting")],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(2)
        ]
        ends = [process.communicate(timeout=120) for process in ranks]
        assert [out for out, _ in ends] == ["Shard(rank=0, world=2)\n", "Shard(rank=1, world=2)\n"], ends


@pytest.mark.jax
def test_jax(monkeypatch):
    import jax

    assert default_shard("jax") == ps.Shard()
    monkeypatch.setattr(jax, "process_index", lambda: 1)
    monkeypatch.setattr(jax, "process_count", lambda: 3)
    assert ps.Loader(Numbers(64), 4, to="jax").shard == ps.Shard(1, 3)
