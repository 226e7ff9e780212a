"""Slow, plain rounds: deal out the positions and look at the rest."""

from __future__ import annotations


def rounds(position: int, n: int, world: int, batch_size: int, *, drop_last: bool) -> list[list[list[int]]]:
    """For each round, for each rank, the positions of its batch."""
    left = list(range(position, n))
    dealt: list[list[list[int]]] = []
    while len(left) >= world * batch_size:
        taken, left = left[: world * batch_size], left[world * batch_size :]
        dealt.append([taken[rank * batch_size : (rank + 1) * batch_size] for rank in range(world)])
    if drop_last or not left:
        return dealt
    if len(left) < world and dealt:
        left = [position for share in dealt.pop() for position in share] + left
    shares: list[list[int]] = []
    for rank in range(world):
        share = -(-len(left) // (world - rank))  # evenly among the remaining ranks, rounded up
        shares.append(left[:share])
        left = left[share:]
    return [*dealt, shares]
