"""Which rank a process is, as the framework it runs under says."""

from __future__ import annotations

import os
import sys

from penstock._optional import require
from penstock.contracts.shard import Shard
from penstock.loading.handover import To

__all__ = ["default_shard"]


def default_shard(to: To) -> Shard:
    """The shard of this process where none was given.

    - **torch**: of ``torch.distributed`` once it is initialised; else of ``RANK`` and ``WORLD_SIZE``, which ``torchrun`` sets.
    - **jax**: ``jax.process_index()`` of ``jax.process_count()``. Asking starts JAX's backends, so call
      ``jax.distributed.initialize()`` before making a loader.
    - **numpy**: the only one.

    Raises:
        ValueError: the environment names a rank that cannot be.
    """
    if to == "jax":
        jax = require("jax", extra="jax")
        return Shard(jax.process_index(), jax.process_count())
    if to != "torch":
        return Shard()
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return Shard(distributed.get_rank(), distributed.get_world_size())
    rank, world = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    if rank is None or world is None:
        return Shard()
    try:
        return Shard(int(rank), int(world))
    except ValueError as error:
        raise ValueError(
            f"RANK={rank!r} and WORLD_SIZE={world!r} are set, and wrong: {error}. shard= overrides them"
        ) from error
