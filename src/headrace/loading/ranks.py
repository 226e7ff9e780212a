"""Which rank this process is, and how many there are: from torch, JAX, Ray Train or the launcher."""

from __future__ import annotations

import os
import sys
from typing import Any, Literal, TypeAlias

from headrace._optional import require
from headrace.contracts.records import Shard
from headrace.loading.handover import To

__all__ = ["ShardLike", "find_default_shard", "find_ray_shard", "resolve_shard"]

ShardLike: TypeAlias = Shard | Literal["ray"] | None
"""What ``Loader(shard=...)`` takes."""


def resolve_shard(shard: ShardLike, to: To) -> Shard:
    """The shard that a caller asks for; ``None`` is :func:`find_default_shard`, ``"ray"`` the rank in Ray Train.

    Raises:
        TypeError: It is something else.
        ValueError: ``"ray"`` outside of a training function, or the default is impossible.
    """
    if shard is None:
        return find_default_shard(to)
    if shard == "ray":
        found = find_ray_shard()
        if found is None:
            raise ValueError(
                "shard='ray' takes the rank from Ray Train, but this process is running no training function of it. Make the "
                "loader inside the function that the trainer calls (train_loop_per_worker), or give shard=headrace.Shard(rank, world)"
            )
        return found
    if not isinstance(shard, Shard):
        raise TypeError(f"shard must be a headrace.Shard(rank, world), 'ray' or None, got {shard!r}")
    return shard


def find_default_shard(to: To) -> Shard:
    """The default shard of this process: the first of these that applies.

    - ``torch.distributed``, once it is initialised.
    - JAX: ``jax.process_index()`` of ``jax.process_count()``, after ``jax.distributed.initialize()``.
    - Ray Train, inside a training function.
    - JAX without that call, with ``to="jax"``. The query starts JAX's backends, so initialize before making a loader.
    - ``RANK`` and ``WORLD_SIZE``, which ``torchrun`` and other launchers set.
    - Otherwise, a single rank.

    Raises:
        ValueError: the environment names an impossible rank, or Ray Train has another number of workers than torch or JAX.
    """
    in_ray = find_ray_shard()
    found = _torch_shard() or (_jax_shard() if _is_jax_initialised() else None)
    if found is not None and in_ray is not None and found.world != in_ray.world:
        raise ValueError(
            f"Ray Train runs {in_ray.world} workers, and torch.distributed or JAX {found.world}, so ranks would read examples twice or "
            "not at all. Give shard=headrace.Shard(rank, world), or shard='ray'"
        )
    if found is None:
        found = in_ray or (_jax_shard() if to == "jax" else None)
    return _launched_shard() if found is None else found


def find_ray_shard() -> Shard | None:
    """The rank of this process in Ray Train; ``None`` outside of a training function. Does not import Ray."""
    get_context = getattr(sys.modules.get("ray.train"), "get_context", None)
    if get_context is None or (_is_first_api(get_context) and not _has_session()):
        return None
    try:
        context = get_context()
        return Shard(context.get_world_rank(), context.get_world_size())
    except (RuntimeError, DeprecationWarning):  # no training function; a function of Ray Tune
        return None


def _is_first_api(get_context: Any) -> bool:
    """Whether this is the first API of Ray Train, as with ``RAY_TRAIN_V2_ENABLED=0``. Outside of a training function, it says rank 0 of 1."""
    return getattr(sys.modules.get("ray.train.context"), "get_context", None) is get_context


def _has_session() -> bool:
    """Whether a training function of the first API runs here."""
    get_session = getattr(sys.modules.get("ray.train._internal.session"), "get_session", None)
    return get_session is None or get_session() is not None


def _torch_shard() -> Shard | None:
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not (distributed.is_available() and distributed.is_initialized()):
        return None
    return Shard(distributed.get_rank(), distributed.get_world_size())


def _jax_shard() -> Shard | None:
    jax = require("jax", extra="jax")
    return Shard(jax.process_index(), jax.process_count()) if jax.process_count() > 1 else None


def _is_jax_initialised() -> bool:
    """Whether ``jax.distributed`` is initialized. Does not import JAX."""
    distributed = sys.modules.get("jax.distributed")
    is_initialised = getattr(distributed, "is_initialized", None)
    return is_initialised is not None and bool(is_initialised())


def _launched_shard() -> Shard:
    rank, world = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    if rank is None or world is None:
        return Shard()
    try:
        return Shard(int(rank), int(world))
    except ValueError as error:
        raise ValueError(
            f"RANK={rank!r} and WORLD_SIZE={world!r} are set, and wrong: {error}. shard= overrides them"
        ) from error
