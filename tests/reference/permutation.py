"""A slow, plain keyed permutation, one number at a time."""

from __future__ import annotations

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix(value: int) -> int:
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def permuted(n: int, seed: int, epoch: int, position: int) -> int:
    """The index at ``position`` of a permutation of ``[0, n)``."""
    bits = max(10, (n - 1).bit_length())
    state = mix((mix((mix((seed + GOLDEN) & MASK) + epoch + GOLDEN) & MASK) + n + GOLDEN) & MASK)
    keys = []
    for _ in range(10):
        state = (state + GOLDEN) & MASK
        keys.append(mix(state))
    value = position
    while True:
        value = encrypt(value, bits, keys)
        if value < n:
            return value


def encrypt(value: int, bits: int, keys: list[int]) -> int:
    """One pass through the Feistel network with alternating halves. The right half has the odd bit, if any."""
    right_bits = (bits + 1) // 2
    masks = [(1 << (bits - right_bits)) - 1, (1 << right_bits) - 1]
    halves = [value >> right_bits, value & masks[1]]
    for number, key in enumerate(keys):
        source, target = (1, 0) if number % 2 == 0 else (0, 1)
        mixed = ((halves[source] ^ key) * 0xD6E8FEB86659FD93) & MASK
        mixed ^= mixed >> 32
        halves[target] ^= (((mixed * 0xA0761D6478BD642F) & MASK) >> 20) & masks[target]
    return halves[0] << right_bits | halves[1]
