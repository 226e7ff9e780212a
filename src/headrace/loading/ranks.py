"""Which rank a process is, as the framework it runs under says."""

from __future__ import annotations

import os
import sys

from headrace._optional import require
from headrace.contracts.shard import Shard
from headrace.loading.handover import To

__all__ = ["default_shard"]


def default_shard(to: To) -> Shard:
    """The shard of this process where none was given: the first of these that says so, whatever batches are handed over as.

    - ``torch.distributed``, once it is initialised.
    - JAX: ``jax.process_index()`` of ``jax.process_count()``, with ``to="jax"`` or after ``jax.distributed.initialize()``. Asking starts
      JAX's backends, so call that before making a loader.
    - ``RANK`` and ``WORLD_SIZE``, which ``torchrun`` and other launchers set.
    - None of them: it is the only one.

    Raises:
        ValueError: the environment names a rank that cannot be.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return Shard(distributed.get_rank(), distributed.get_world_size())
    if to == "jax" or _is_jax_initialised():
        jax = require("jax", extra="jax")
        if jax.process_count() > 1:
            return Shard(jax.process_index(), jax.process_count())
    rank, world = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    if rank is None or world is None:
        return Shard()
    try:
        return Shard(int(rank), int(world))
    except ValueError as error:
        raise ValueError(
            f"RANK={rank!r} and WORLD_SIZE={world!r} are set, and wrong: {error}. shard= overrides them"
        ) from error


def _is_jax_initialised() -> bool:
    """Whether ``jax.distributed`` knows of other processes; JAX is not loaded for that."""
    distributed = sys.modules.get("jax.distributed")
    is_initialised = getattr(distributed, "is_initialized", None)
    return is_initialised is not None and bool(is_initialised())
